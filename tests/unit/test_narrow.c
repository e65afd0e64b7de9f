/* 16-bit numbers: every one of them, and how numbers between two of them are rounded. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/narrow.h"

/* Widened and narrowed again each gives its own bits (NaNs: a NaN), and they ascend. */
static void check_all(gal_dtype dtype, uint32_t infinity)
{
    float before = -1.0f;
    for (uint32_t bits = 0; bits <= 0xFFFF; bits++) {
        const float value = gal_widen((uint16_t)bits, dtype);
        const uint32_t size = bits & 0x7FFF;
        if (size > infinity) {
            assert_true(isnan(value) && (gal_narrow(value, dtype) & 0x7FFFu) > infinity);
            continue;
        }
        assert_int_equal(gal_narrow(value, dtype), bits);
        if (bits < 0x8000) {
            assert_true(value > before);
            before = value;
        }
    }
    assert_true(isinf(gal_widen((uint16_t)infinity, dtype)));
}

/* Half way goes to the even neighbour, beyond it to the nearer one. */
static void check_rounding(gal_dtype dtype, uint32_t infinity)
{
    for (uint32_t bits = 0; bits + 1 < infinity; bits++) {
        const float low = gal_widen((uint16_t)bits, dtype), high = gal_widen((uint16_t)(bits + 1), dtype);
        const float middle = (float)(((double)low + (double)high) / 2.0);
        assert_int_equal(gal_narrow(middle, dtype), bits % 2 == 0 ? bits : bits + 1);
        assert_int_equal(gal_narrow(nextafterf(middle, low), dtype), bits);
        assert_int_equal(gal_narrow(nextafterf(middle, high), dtype), bits + 1);
        assert_int_equal(gal_narrow(-middle, dtype) & 0x7FFF, gal_narrow(middle, dtype));
    }
}

static void test_bf16(void **state)
{
    (void)state;
    check_all(GAL_BF16, 0x7F80);
    check_rounding(GAL_BF16, 0x7F80);
    assert_int_equal(gal_narrow(1.0f, GAL_BF16), 0x3F80);
    assert_int_equal(gal_narrow(3.40282347e38f, GAL_BF16), 0x7F80); /* beyond the largest */
}

/* 1 = 2^0: exponent field 15, so 15 * 1024; the largest is 65504, the smallest 2^-24. */
static void test_fp16(void **state)
{
    (void)state;
    check_all(GAL_FP16, 0x7C00);
    check_rounding(GAL_FP16, 0x7C00);
    assert_int_equal(gal_narrow(1.0f, GAL_FP16), 0x3C00);
    assert_int_equal(gal_narrow(65504.0f, GAL_FP16), 0x7BFF);
    assert_int_equal(gal_narrow(65519.0f, GAL_FP16), 0x7BFF);
    assert_int_equal(gal_narrow(65520.0f, GAL_FP16), 0x7C00);
    assert_int_equal(gal_narrow(0x1p-24f, GAL_FP16), 0x0001);
    assert_int_equal(gal_narrow(0x1p-25f, GAL_FP16), 0x0000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bf16), cmocka_unit_test(test_fp16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
