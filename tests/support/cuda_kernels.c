#include "tests/support/cuda_kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/cuda_double.h"

uint64_t gal_fused_pairs[GAL_PAIR_KINDS];
gal_kernel_step gal_queued_step;
gal_kernel_choice gal_queued_choice;

enum { WORKSPACE_BYTES = 300, ADAM_NORM = 4 };

typedef struct deferred {
    gal_op op;
    gal_kernel_call call;
} deferred;

static void carry_out(void *payload)
{
    gal_error err = {0};
    deferred *late = payload;
    late->call.step = late->call.device_step;
    if (late->op == GAL_OP_ADAM) { /* what a device's kernel decides by itself */
        const double *norm = late->call.operand[ADAM_NORM];
        if (!isfinite(norm[0]) || !isfinite(norm[1])) {
            return;
        }
    }
    assert_int_equal(gal_ops_host_fp64.kernel[late->op](&late->call, &err), GAL_OK);
}

static void do_nothing(void *payload)
{
    (void)payload;
}

static gal_code queue(gal_op op, void (*work)(void *payload), const gal_kernel_call *call)
{
    const deferred late = {.op = op, .call = *call};
    assert_non_null(call->stream);
    assert_non_null(call->device_step);
    assert_ptr_equal(call->context, &gal_ops_queued_fp64);
    assert_true(op != GAL_OP_ADAM || call->workspace_bytes == WORKSPACE_BYTES);
    assert_int_equal((uintptr_t)call->workspace % 256, 0);
    if (call->workspace_bytes > 0) {
        memset(call->workspace, 0xEE, call->workspace_bytes);
    }
    gal_cuda_double_launch(call->stream, work, &late, sizeof late);
    return GAL_OK;
}

#define X(enumerator, name, dims, collective)                                                                          \
    static gal_code queue_##enumerator(const gal_kernel_call *call, gal_error *err)                                    \
    {                                                                                                                  \
        (void)err;                                                                                                     \
        return queue(enumerator, carry_out, call);                                                                     \
    }                                                                                                                  \
    static gal_code idle_##enumerator(const gal_kernel_call *call, gal_error *err)                                     \
    {                                                                                                                  \
        (void)err;                                                                                                     \
        return queue(enumerator, do_nothing, call);                                                                    \
    }
GAL_OPERATORS(X)
#undef X

static gal_code open_context(const gal_kernel_choice *choice, void **context, gal_error *err)
{
    (void)err;
    gal_queued_choice = *choice;
    *context = (void *)(uintptr_t)&gal_ops_queued_fp64;
    return GAL_OK;
}

static void close_context(void *context)
{
    assert_true(context == NULL || context == &gal_ops_queued_fp64);
}

static uint64_t workspace_bytes(void *context, gal_op op, const gal_kernel_call *call)
{
    (void)context;
    return op == GAL_OP_ADAM && call->dims[0] > 0 ? WORKSPACE_BYTES : 0;
}

static gal_code prepare(gal_op op, const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    assert_true(!gal_op_is_collective[op] && !gal_op_loads(op));
    assert_true(call->operand_count == 0 || call->operand[0] != NULL);
    return GAL_OK;
}

typedef struct deferred_pair {
    deferred part[2];
    uint32_t fusion;
} deferred_pair;

/* A product and what is done with it element by element; a sum and its norm. 0: none, else one of gal_pair_kind. */
static gal_code fuse(const gal_kernel_pair *pair, uint32_t *fusion, gal_error *err)
{
    (void)err;
    const bool norm = pair->second_op == GAL_OP_LAYER_NORM || pair->second_op == GAL_OP_RMS_NORM;
    *fusion = 0;
    if (pair->first_op == GAL_OP_GEMM && pair->second_op == GAL_OP_ACTIVATION && !pair->first->add) {
        *fusion = 1 + GAL_PAIR_ACTIVATION;
    } else if (pair->first_op == GAL_OP_GEMM && pair->second_op == GAL_OP_ACTIVATION_BACKWARD && pair->lone &&
               pair->second->operand[0] == pair->first->operand[2]) {
        *fusion = 1 + GAL_PAIR_DERIVATIVE;
    } else if (pair->first_op == GAL_OP_RESIDUAL && norm && pair->second->operand[0] == pair->first->operand[2]) {
        *fusion = 1 + GAL_PAIR_NORM;
    }
    return GAL_OK;
}

/* All that the second writes. */
static void poison_results(const deferred *second)
{
    const uint32_t *dims = second->call.dims;
    void *const *operand = second->call.operand;
    const bool centred = second->op == GAL_OP_LAYER_NORM;
    switch (second->op) {
    case GAL_OP_ACTIVATION:
        memset(operand[1], 0xFF, dims[0] * sizeof(double));
        break;
    case GAL_OP_ACTIVATION_BACKWARD:
        memset(operand[2], 0xFF, dims[0] * sizeof(double));
        break;
    default:
        memset(operand[centred ? 3 : 2], 0xFF, (size_t)dims[0] * dims[1] * sizeof(double));
        memset(operand[centred ? 4 : 3], 0xFF, (centred ? 2 : 1) * dims[0] * sizeof(double));
    }
}

/* What is not written is poisoned: who reads it, shows it. So is what the second writes, before the first begins: a
 * kernel that is both has written some of it when it reads the rest. */
static void carry_out_pair(void *payload)
{
    deferred_pair *late = payload;
    poison_results(&late->part[1]);
    carry_out(&late->part[0]);
    carry_out(&late->part[1]);
    void *product = late->part[0].call.operand[2];
    if (late->fusion == 1 + GAL_PAIR_DERIVATIVE && product != late->part[1].call.operand[2]) {
        const uint32_t *dims = late->part[0].call.dims;
        memset(product, 0xFF, (size_t)dims[0] * dims[1] * sizeof(double));
    }
}

static gal_code fused(const gal_kernel_pair *pair, uint32_t fusion, gal_error *err)
{
    (void)err;
    const deferred_pair late = {
        .part = {{.op = pair->first_op, .call = *pair->first}, {.op = pair->second_op, .call = *pair->second}},
        .fusion = fusion};
    gal_cuda_double_launch(pair->first->stream, carry_out_pair, &late, sizeof late);
    gal_fused_pairs[fusion - 1]++;
    return GAL_OK;
}

static void put_step(const gal_kernel_step *step, void *record)
{
    *(gal_kernel_step *)record = *step;
    gal_queued_step = *step;
}

static const gal_ops_queued idle_queued = {
    .open = open_context,
    .close = close_context,
    .workspace_bytes = workspace_bytes,
    .prepare = prepare,
    .step_bytes = sizeof(gal_kernel_step),
    .put_step = put_step,
};

static const gal_ops_queued queued = {
    .fuse = fuse,
    .fused = fused,
    .open = open_context,
    .close = close_context,
    .workspace_bytes = workspace_bytes,
    .prepare = prepare,
    .step_bytes = sizeof(gal_kernel_step),
    .put_step = put_step,
};

#define X(enumerator, name, dims, collective) [enumerator] = queue_##enumerator,
const gal_ops gal_ops_queued_fp64 = {
    .name = "queued", .dtype = GAL_FP64, .kernel = {GAL_OPERATORS(X)}, .queued = &queued};
#undef X

#define X(enumerator, name, dims, collective) [enumerator] = idle_##enumerator,
const gal_ops gal_ops_queued_idle = {
    .name = "idle", .dtype = GAL_FP64, .kernel = {GAL_OPERATORS(X)}, .queued = &idle_queued};
#undef X

/* Of fp32 shapes alone; additions are of both types. */
#define ONLY_WIDE(op) ((op) == GAL_OP_FILL || (op) == GAL_OP_SUM_SQUARES || (op) == GAL_OP_CROSS_ENTROPY_LOSS)

#define X(enumerator, name, dims, collective) [enumerator] = ONLY_WIDE(enumerator) ? NULL : idle_##enumerator,
const gal_ops gal_ops_queued_idle_bf16 = {
    .name = "idle", .dtype = GAL_BF16, .kernel = {GAL_OPERATORS(X)}, .queued = &idle_queued};
const gal_ops gal_ops_queued_idle_fp16 = {
    .name = "idle", .dtype = GAL_FP16, .kernel = {GAL_OPERATORS(X)}, .queued = &idle_queued};
#undef X

const gal_ops gal_ops_queued_idle_fp32 = {.name = "idle",
                                          .dtype = GAL_FP32,
                                          .kernel = {[GAL_OP_ADD] = idle_GAL_OP_ADD,
                                                     [GAL_OP_FILL] = idle_GAL_OP_FILL,
                                                     [GAL_OP_SUM_SQUARES] = idle_GAL_OP_SUM_SQUARES,
                                                     [GAL_OP_CROSS_ENTROPY_LOSS] = idle_GAL_OP_CROSS_ENTROPY_LOSS},
                                          .queued = &idle_queued};
