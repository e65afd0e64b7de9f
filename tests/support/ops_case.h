/* Calling one operator in a test: a model, a step and a call that tests change as they need. */
#ifndef GAL_TESTS_SUPPORT_OPS_CASE_H
#define GAL_TESTS_SUPPORT_OPS_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/ops/ops.h"

typedef struct ops_case {
    gal_model model;
    gal_kernel_step step;
    uint32_t sample_map[8];
    gal_kernel_call call;
} ops_case;

/* No dropout, one rank, samples numbered from 0, loss_scale 1, step 0. */
static inline void ops_case_init(ops_case *at)
{
    memset(at, 0, sizeof *at);
    at->model.norm_epsilon = 1e-5;
    at->model.head_count = 1;
    at->step.model = &at->model;
    at->step.seed = 0x1234567890ABCDEFU;
    at->step.loss_scale = 1.0;
    at->step.training = true;
    for (uint32_t i = 0; i < 8; i++) {
        at->sample_map[i] = i;
    }
    at->call.group_count = 1;
    at->call.sample_map = at->sample_map;
    at->call.step = &at->step;
}

static inline void ops_run(ops_case *at, const gal_ops *ops, gal_op op, const uint32_t *dims, uint32_t count,
                           void *const operand[])
{
    gal_error err = {.code = GAL_OK};
    at->call.dims = dims;
    at->call.operand_count = count;
    memcpy(at->call.operand, operand, count * sizeof *operand);
    assert_non_null(ops->kernel[op]);
    assert_int_equal(ops->kernel[op](&at->call, &err), GAL_OK);
}

/* OPS(&at, &gal_ops_host_fp64, GAL_OP_ADD, DIMS(4), x, y) */
#define DIMS(...) ((const uint32_t[]){__VA_ARGS__})
#define OPS(at, ops, op, dims, ...)                                                                                    \
    ops_run(at, ops, op, dims, (uint32_t)(sizeof((void *[]){__VA_ARGS__}) / sizeof(void *)), (void *[]){__VA_ARGS__})

/* Uniform in [-1, 1), the same sequence for the same state (splitmix64). */
static inline double ops_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1.0;
}

static inline void ops_randomize(double *x, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        x[i] = ops_random(&seed);
    }
}

#endif
