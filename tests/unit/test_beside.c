/* The host's Adam beside a device of 16 bits: masters and moments have the bits of fp32's, weights are masters rounded,
 * and a scale of the gradients that is a power of two changes no bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/narrow.h"
#include "tests/support/ops_case.h"

enum { ELEMENTS = 70001, DECAYING = 50000 }; /* more than one part, and no whole number of them */

typedef struct arrays {
    float master[ELEMENTS], g[ELEMENTS], m[ELEMENTS], v[ELEMENTS];
    uint16_t w[ELEMENTS];
    double norm[2];
} arrays;

static void fill(arrays *at, double scale)
{
    uint64_t random = 7;
    for (size_t i = 0; i < ELEMENTS; i++) {
        at->master[i] = (float)ops_random(&random);
        at->g[i] = (float)(scale * (double)(float)ops_random(&random));
        at->m[i] = (float)ops_random(&random);
        at->v[i] = (float)(1.0 + ops_random(&random));
        at->w[i] = 0;
    }
    at->norm[0] = 9.0;
    at->norm[1] = 1.0;
}

static void update(arrays *at, const gal_ops *ops, double gradient_scale)
{
    const bool narrow = gal_dtype_is_narrow(ops->dtype);
    ops_case of;
    ops_case_init(&of);
    of.model.optimizer = (gal_optimizer){.kind = GAL_OPTIMIZER_ADAMW,
                                         .beta1 = 0.9,
                                         .beta2 = 0.95,
                                         .epsilon = 1e-8,
                                         .weight_decay = 0.1,
                                         .gradient_clip_norm = 1.0};
    of.step.step = 3;
    of.step.learning_rate = 0.01;
    of.step.gradient_scale = gradient_scale;
    OPS(&of, ops, GAL_OP_HOST_ADAM, DIMS(ELEMENTS, DECAYING), narrow ? (void *)at->w : (void *)at->master, at->g, at->m,
        at->v, at->norm, at->master);
}

static void check(const gal_ops *ops, double scale)
{
    static arrays wide, narrow;
    fill(&wide, 1.0);
    fill(&narrow, scale > 0.0 ? scale : 1.0);
    update(&wide, &gal_ops_host_fp32, 0.0);
    update(&narrow, ops, scale);
    assert_memory_equal(wide.master, narrow.master, sizeof wide.master);
    assert_memory_equal(wide.m, narrow.m, sizeof wide.m);
    assert_memory_equal(wide.v, narrow.v, sizeof wide.v);
    for (size_t i = 0; i < ELEMENTS; i++) {
        assert_int_equal(narrow.w[i], gal_narrow(wide.master[i], ops->dtype));
    }
}

static void bf16(void **state)
{
    (void)state;
    check(&gal_ops_beside_bf16, 0.0);
}

static void fp16(void **state)
{
    (void)state;
    check(&gal_ops_beside_fp16, 1.0);
    check(&gal_ops_beside_fp16, 0x1p15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bf16), cmocka_unit_test(fp16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
