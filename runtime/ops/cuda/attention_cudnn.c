/* Plans of attention_cudnn.h, and running them. */
#include "runtime/ops/cuda/attention_cudnn.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ops/cuda/library_internal.h"

enum { PLANS_MAX = 4, TIMED_CALLS = 5, TIMED_ROUNDS = 3 };

typedef struct attention_plan {
    gal_cudnn_attention_key key;
    gal_cudnn_attention_graph graph;
    cudnnBackendDescriptor_t plan[PLANS_MAX];
    uint32_t count; /* 0: cuDNN has none */
    uint32_t best;
    bool settled;           /* timed, or nothing is to be timed */
    uint64_t library_bytes; /* the most that a plan needs */
    int32_t *query_counts;  /* of a padded graph: on the device, owned */
} attention_plan;

struct gal_cudnn_attention {
    cudnnHandle_t handle;
    uint32_t multiprocessors; /* to choose engines for; 0: all */
    cudaEvent_t start, stop;
    attention_plan **plan; /* owned, each too */
    size_t count, capacity;
};

gal_code gal_cudnn_attention_create(uint32_t multiprocessors, gal_cudnn_attention **out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_cudnn_attention *attention = calloc(1, sizeof *attention);
    if (attention == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: %zu bytes", sizeof *attention);
    }
    attention->multiprocessors = multiprocessors;
    GAL_CUDNN_TRY(cudnnCreate(&attention->handle));
    GAL_CUDART_TRY(cudaEventCreate(&attention->start));
    GAL_CUDART_TRY(cudaEventCreate(&attention->stop));
    *out = attention;
    attention = NULL;
cleanup:
    gal_cudnn_attention_free(attention);
    return code;
}

static void plan_free(attention_plan *plan)
{
    if (plan == NULL) {
        return;
    }
    for (uint32_t i = 0; i < plan->count; i++) {
        gal_cudnn_destroy(plan->plan[i]);
    }
    gal_cudnn_graph_free(&plan->graph.graph);
    if (plan->query_counts != NULL) {
        cudaFree(plan->query_counts);
    }
    free(plan);
}

void gal_cudnn_attention_free(gal_cudnn_attention *attention)
{
    if (attention == NULL) {
        return;
    }
    for (size_t i = 0; i < attention->count; i++) {
        plan_free(attention->plan[i]);
    }
    free(attention->plan);
    if (attention->stop != NULL) {
        cudaEventDestroy(attention->stop);
    }
    if (attention->start != NULL) {
        cudaEventDestroy(attention->start);
    }
    if (attention->handle != NULL) {
        cudnnDestroy(attention->handle);
    }
    free(attention);
}

/* ---- workspace: D of the queries | sum of dq | the library's; each from a multiple of 256 bytes ---- */

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static uint64_t dot_bytes(const gal_cudnn_attention_key *key)
{
    return key->backward == 0 ? 0 : aligned((uint64_t)key->samples * key->heads * key->sequence * sizeof(float));
}

static uint64_t sum_bytes(const gal_cudnn_attention_key *key)
{
    return key->backward == 0 || key->deterministic != 0
               ? 0
               : aligned((uint64_t)key->samples * key->heads * key->sequence * key->dim * sizeof(float));
}

static uint64_t workspace_of(const attention_plan *plan)
{
    return dot_bytes(&plan->key) + sum_bytes(&plan->key) + plan->library_bytes;
}

/* ---- making plans ---- */

/* Every sample has all queries: rows of ctx and dq behind its end must hold numbers, if only for others to multiply by
 * zero. */
static gal_code make_counts(attention_plan *plan, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t samples = plan->key.samples;
    int32_t *counts = malloc(samples * sizeof *counts);
    if (counts == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: %u counts", samples);
    }
    for (uint32_t s = 0; s < samples; s++) {
        counts[s] = (int32_t)plan->key.sequence;
    }
    GAL_CUDART_TRY(cudaMalloc((void **)&plan->query_counts, samples * sizeof *counts));
    GAL_CUDART_TRY(cudaMemcpy(plan->query_counts, counts, samples * sizeof *counts, cudaMemcpyHostToDevice));
cleanup:
    free(counts);
    return code;
}

static gal_code make_plans(const gal_cudnn_attention *attention, attention_plan *plan, gal_error *err)
{
    gal_code code = GAL_OK;
    cudnnBackendDescriptor_t engine[GAL_CUDNN_ENGINES_MAX] = {NULL};
    uint32_t count = 0;
    gal_error ignored = {.code = GAL_OK};
    if (!gal_cudnn_attention_suits(&plan->key) ||
        gal_cudnn_attention_build(&plan->key, attention->handle, &plan->graph, &ignored) != GAL_OK) {
        return GAL_OK; /* none: our own kernels take it */
    }
    GAL_TRY(gal_cudnn_engines(&plan->graph.graph, NULL, attention->multiprocessors, plan->key.deterministic != 0,
                              engine, &count, err));
    for (uint32_t i = 0; i < count && plan->count < PLANS_MAX; i++) {
        uint64_t bytes = 0;
        code = gal_cudnn_plan(attention->handle, engine[i], &plan->plan[plan->count], &bytes, err);
        if (code == GAL_OK) {
            plan->count++;
            plan->library_bytes = bytes > plan->library_bytes ? bytes : plan->library_bytes;
        } else if (code != GAL_NO) {
            goto cleanup;
        }
    }
    code = GAL_OK;
cleanup:
    for (uint32_t i = 0; i < count; i++) {
        gal_cudnn_destroy(engine[i]);
    }
    return code;
}

static gal_code append(gal_cudnn_attention *attention, attention_plan *plan, gal_error *err)
{
    if (attention->count == attention->capacity) {
        const size_t capacity = attention->capacity == 0 ? 16 : 2 * attention->capacity;
        attention_plan **grown = realloc(attention->plan, capacity * sizeof(*grown));
        if (grown == NULL) {
            return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: %zu plans of attention", capacity);
        }
        attention->plan = grown;
        attention->capacity = capacity;
    }
    attention->plan[attention->count++] = plan;
    return GAL_OK;
}

static gal_code find(gal_cudnn_attention *attention, const gal_cudnn_attention_key *key, attention_plan **out,
                     gal_error *err)
{
    gal_code code = GAL_OK;
    attention_plan *plan = NULL;
    for (size_t i = 0; i < attention->count; i++) {
        if (memcmp(&attention->plan[i]->key, key, sizeof *key) == 0) {
            *out = attention->plan[i];
            return (*out)->count > 0 ? GAL_OK : GAL_NO;
        }
    }
    plan = calloc(1, sizeof *plan);
    if (plan == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: %zu bytes", sizeof *plan);
    }
    plan->key = *key;
    plan->settled = key->deterministic != 0;
    GAL_TRY(make_plans(attention, plan, err));
    if (plan->key.padded != 0 && plan->count > 0) {
        GAL_TRY(make_counts(plan, err));
    }
    GAL_TRY(append(attention, plan, err));
    *out = plan;
    plan = NULL;
    code = (*out)->count > 0 ? GAL_OK : GAL_NO;
cleanup:
    plan_free(plan);
    return code;
}

gal_code gal_cudnn_attention_plan(gal_cudnn_attention *attention, const gal_cudnn_attention_key *key,
                                  uint64_t *workspace_bytes, gal_error *err)
{
    attention_plan *plan = NULL;
    const gal_code code = find(attention, key, &plan, err);
    if (code == GAL_OK) {
        *workspace_bytes = workspace_of(plan);
    }
    return code;
}

/* ---- running ---- */

typedef struct numbers {
    float scale, one, minus_infinity;
} numbers;

typedef struct addresses {
    int64_t uid[GAL_CUDNN_OPERAND_COUNT];
    void *address[GAL_CUDNN_OPERAND_COUNT];
    uint32_t count;
    void *workspace; /* the library's */
} addresses;

static void put(const attention_plan *plan, gal_cudnn_operand operand, const void *address, addresses *out)
{
    if (plan->graph.tensor[operand] != GAL_CUDNN_NONE) {
        out->uid[out->count] = plan->graph.tensor[operand];
        out->address[out->count++] = (void *)(uintptr_t)address;
    }
}

/* Both types have 2 bytes. */
static const void *feature(const void *rows, uint64_t first)
{
    return (const uint16_t *)rows + first;
}

/* Operands of attention: qkv, ctx, lse [, lengths]; of its backward: dctx, qkv, ctx, lse, dqkv [, lengths]. */
static void collect(const attention_plan *plan, const gal_kernel_call *call, const numbers *n, addresses *out)
{
    const gal_cudnn_attention_key *key = &plan->key;
    void *const *operand = call->operand + (key->backward != 0 ? 1 : 0);
    const uint64_t k = (uint64_t)key->heads * key->dim, v = k + (uint64_t)key->kv_heads * key->dim;
    char *workspace = call->workspace;
    put(plan, GAL_CUDNN_Q, operand[0], out);
    put(plan, GAL_CUDNN_K, feature(operand[0], k), out);
    put(plan, GAL_CUDNN_V, feature(operand[0], v), out);
    put(plan, GAL_CUDNN_CTX, operand[1], out);
    put(plan, GAL_CUDNN_LSE, operand[2], out);
    put(plan, GAL_CUDNN_SCALE, &n->scale, out);
    put(plan, GAL_CUDNN_MINUS_INFINITY, &n->minus_infinity, out);
    put(plan, GAL_CUDNN_QUERY_COUNTS, plan->query_counts, out);
    put(plan, GAL_CUDNN_KEY_COUNTS, operand[key->backward != 0 ? 4 : 3], out);
    put(plan, GAL_CUDNN_ONE, &n->one, out);
    if (key->backward != 0) {
        put(plan, GAL_CUDNN_DCTX, call->operand[0], out);
        put(plan, GAL_CUDNN_DQ, operand[3], out);
        put(plan, GAL_CUDNN_DK, feature(operand[3], k), out);
        put(plan, GAL_CUDNN_DV, feature(operand[3], v), out);
        put(plan, GAL_CUDNN_DOTS, workspace, out);
        put(plan, GAL_CUDNN_DQ_SUM, workspace + dot_bytes(key), out);
    }
    out->workspace = workspace + dot_bytes(key) + sum_bytes(key);
}

/* Gradients of keys and values behind a sample's end are zeros, which the engine need not write. */
static gal_code clear_behind_ends(const gal_cudnn_attention_key *key, const gal_kernel_call *call, gal_error *err)
{
    gal_code code = GAL_OK;
    const size_t row = ((size_t)key->heads + 2 * (size_t)key->kv_heads) * key->dim * sizeof(uint16_t);
    if (key->padded != 0 && key->backward != 0) {
        GAL_CUDART_TRY(cudaMemsetAsync(call->operand[4], 0, row * key->samples * key->sequence, call->stream));
    }
cleanup:
    return code;
}

static gal_code run_one(gal_cudnn_attention *attention, const attention_plan *plan, uint32_t which,
                        const gal_kernel_call *call, gal_error *err)
{
    gal_code code = GAL_OK;
    const numbers n = {(float)(1.0 / sqrt((double)plan->key.dim)), 1.0F, -INFINITY};
    addresses at = {.count = 0};
    if (call->workspace_bytes < workspace_of(plan)) {
        return gal_fail(err, GAL_ERR_DEVICE, "attention: %llu bytes of workspace, needs %llu",
                        (unsigned long long)call->workspace_bytes, (unsigned long long)workspace_of(plan));
    }
    collect(plan, call, &n, &at);
    GAL_TRY(clear_behind_ends(&plan->key, call, err));
    GAL_TRY(gal_cudnn_plan_run(attention->handle, plan->plan[which], at.uid, at.address, at.count, at.workspace, err));
cleanup:
    return code;
}

gal_code gal_cudnn_attention_run(gal_cudnn_attention *attention, const gal_cudnn_attention_key *key,
                                 const gal_kernel_call *call, gal_error *err)
{
    gal_code code = GAL_OK;
    attention_plan *plan = NULL;
    GAL_TRY(find(attention, key, &plan, err));
    GAL_CUDNN_TRY(cudnnSetStream(attention->handle, call->stream));
    GAL_TRY(run_one(attention, plan, plan->best, call, err));
cleanup:
    return code;
}

/* Milliseconds of a few calls, the least of some rounds; a plan that fails is as slow as can be. */
static gal_code time_one(gal_cudnn_attention *attention, const attention_plan *plan, uint32_t which,
                         const gal_kernel_call *call, float *milliseconds, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_error ignored = {.code = GAL_OK};
    *milliseconds = 1e30F;
    if (run_one(attention, plan, which, call, &ignored) != GAL_OK) {
        return GAL_OK;
    }
    for (int round = 0; round < TIMED_ROUNDS; round++) {
        float taken = 0.0F;
        GAL_CUDART_TRY(cudaEventRecord(attention->start, call->stream));
        for (int i = 0; i < TIMED_CALLS; i++) {
            GAL_TRY(run_one(attention, plan, which, call, err));
        }
        GAL_CUDART_TRY(cudaEventRecord(attention->stop, call->stream));
        GAL_CUDART_TRY(cudaEventSynchronize(attention->stop));
        GAL_CUDART_TRY(cudaEventElapsedTime(&taken, attention->start, attention->stop));
        *milliseconds = taken < *milliseconds ? taken : *milliseconds;
    }
cleanup:
    return code;
}

gal_code gal_cudnn_attention_prepare(gal_cudnn_attention *attention, const gal_cudnn_attention_key *key,
                                     const gal_kernel_call *call, gal_error *err)
{
    gal_code code = GAL_OK;
    attention_plan *plan = NULL;
    float least = 0.0F;
    GAL_TRY(find(attention, key, &plan, err));
    if (plan->settled) {
        return GAL_OK;
    }
    GAL_CUDNN_TRY(cudnnSetStream(attention->handle, call->stream));
    for (uint32_t i = 0; i < plan->count; i++) {
        float milliseconds = 0.0F;
        GAL_TRY(time_one(attention, plan, i, call, &milliseconds, err));
        if (i == 0 || milliseconds < least) {
            plan->best = i;
            least = milliseconds;
        }
    }
    plan->settled = true;
cleanup:
    return code;
}
