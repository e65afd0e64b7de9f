/* Adam by every set of vector instructions of this processor: the bits of plain C, elements outside of the range left
 * alone. Which versions ran is printed: a processor without AVX-512 has fewer. */
#define GAL_REAL_FP64 0
#include "runtime/ops/host/adam.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ELEMENTS = 4099, ARRAYS = 3, RANGES = 40, STEPS = 3 };

typedef struct state {
    float kept[ARRAYS][ELEMENTS]; /* w, m, v */
} state;

static uint32_t draw(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33);
}

/* Between -1 and 1, of all magnitudes down to 2^-30: denormal squares among them. */
static float number(uint64_t *seed)
{
    const float mantissa = (float)((int32_t)(draw(seed) % 20001) - 10000) / 10000.0f;
    return ldexpf(mantissa, -(int)(draw(seed) % 31) * (draw(seed) % 8 == 0 ? 3 : 1));
}

static void fill(float *x, uint64_t *seed, bool positive)
{
    for (size_t i = 0; i < ELEMENTS; i++) {
        x[i] = positive ? fabsf(number(seed)) : number(seed);
    }
}

static void run(gal_adam_function update, const gal_adam_scalars *scalars, state *at, const float *g, size_t begin,
                size_t end)
{
    const gal_adam_range range = {at->kept[0], g, at->kept[1], at->kept[2], begin, end};
    for (uint32_t step = 0; step < STEPS; step++) {
        update(scalars, &range);
    }
}

static void test_same_bits(void **unused)
{
    (void)unused;
    gal_adam_version version[GAL_ADAM_VERSIONS_MAX];
    const uint32_t count = gal_adam_versions(version);
    static state start, expected, got;
    static float g[ELEMENTS];
    uint64_t seed = 1;
    assert_string_equal(version[0].name, "C");
    const gal_adam_scalars scalars = {.clip = 0.37f,
                                      .l2 = 0.01f,
                                      .decoupled_rate = 1e-5f,
                                      .beta1 = 0.9f,
                                      .beta2 = 0.999f,
                                      .rest1 = 0.1f,
                                      .rest2 = 0.001f,
                                      .corrected_rate = 3e-3f,
                                      .v_correction = 31.6f,
                                      .epsilon = 1e-8f};
    for (uint32_t trial = 0; trial < RANGES; trial++) {
        fill(start.kept[0], &seed, false);
        fill(start.kept[1], &seed, false);
        fill(start.kept[2], &seed, true);
        fill(g, &seed, false);
        const size_t begin = draw(&seed) % 70;
        const size_t end = trial % 2 == 0 ? ELEMENTS - draw(&seed) % 70 : begin + draw(&seed) % 70;
        expected = start;
        run(version[0].update, &scalars, &expected, g, begin, end);
        assert_int_equal(memcmp(&expected, &start, sizeof start) == 0, begin == end);
        for (uint32_t i = 1; i < count; i++) {
            got = start;
            run(version[i].update, &scalars, &got, g, begin, end);
            assert_memory_equal(&got, &expected, sizeof got);
        }
        got = start;
        run(gal_adam_update, &scalars, &got, g, begin, end);
        assert_memory_equal(&got, &expected, sizeof got);
    }
    for (uint32_t i = 0; i < count; i++) {
        printf("%s%s", i == 0 ? "versions: " : ", ", version[i].name);
    }
    printf("\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
