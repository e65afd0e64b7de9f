#include "runtime/ops/cuda/gemm_plan.h"

#include <stdlib.h>
#include <string.h>

enum { TIMED_ROUNDS = 3, TIMED_CALLS = 4 };

/* ---- descriptors ---- */

static void plan_free(gal_gemm_plan *plan)
{
    if (plan->operation != NULL) {
        cublasLtMatmulDescDestroy(plan->operation);
    }
    cublasLtMatrixLayout_t layout[] = {plan->a, plan->b, plan->d};
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++) {
        if (layout[i] != NULL) {
            cublasLtMatrixLayoutDestroy(layout[i]);
        }
    }
    memset(plan, 0, sizeof *plan);
}

void gal_gemm_plans_free(gal_cuda_library *library)
{
    for (size_t i = 0; i < library->gemm_count; i++) {
        plan_free(&library->gemm[i]);
    }
    free(library->gemm);
    library->gemm = NULL;
    library->gemm_count = library->gemm_capacity = 0;
}

static gal_code set_attribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                              const void *value, size_t byte_count, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_CUBLAS_TRY(cublasLtMatmulDescSetAttribute(operation, attribute, value, byte_count));
cleanup:
    return code;
}
#define SET(operation, attribute, value) set_attribute(operation, attribute, &(value), sizeof(value), err)

/* A matrix that is stored with `rows` of op(.) along its columns if it is transposed; no gaps. */
static gal_code create_layout(uint32_t type, uint32_t rows, uint32_t columns, bool transposed,
                              cublasLtMatrixLayout_t *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t stored_rows = transposed ? columns : rows, stored_columns = transposed ? rows : columns;
    GAL_CUBLAS_TRY(
        cublasLtMatrixLayoutCreate(out, (cudaDataType_t)type, stored_rows, stored_columns, (int64_t)stored_rows));
cleanup:
    return code;
}

static gal_code plan_create(const gal_gemm_run *run, gal_gemm_plan *plan, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_gemm_key *key = &run->key;
    const int32_t transpose_a = key->transpose_a != 0 ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t transpose_b = key->transpose_b != 0 ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t sm_count = (int32_t)key->sm_count;
    plan->key = *key;
    GAL_CUBLAS_TRY(cublasLtMatmulDescCreate(&plan->operation, (cublasComputeType_t)key->compute_type, CUDA_R_32F));
    GAL_TRY(SET(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, transpose_a));
    GAL_TRY(SET(plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, transpose_b));
    GAL_TRY(SET(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, key->epilogue));
    if (sm_count != 0) {
        GAL_TRY(SET(plan->operation, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, sm_count));
    }
    GAL_TRY(create_layout(key->input_type, key->rows, key->depth, key->transpose_a != 0, &plan->a, err));
    GAL_TRY(create_layout(key->input_type, key->depth, key->columns, key->transpose_b != 0, &plan->b, err));
    GAL_TRY(create_layout(key->output_type, key->rows, key->columns, false, &plan->d, err));
cleanup:
    return code;
}

/* What changes from call to call. */
static gal_code set_addresses(const gal_gemm_plan *plan, const gal_gemm_run *run, gal_error *err)
{
    gal_code code = GAL_OK;
    const int64_t aux_stride = run->key.rows;
    const int32_t bias_type = (int32_t)run->bias_type;
    if (run->bias != NULL) {
        GAL_TRY(SET(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, run->bias));
        GAL_TRY(SET(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, bias_type));
    }
    if (run->aux != NULL) {
        GAL_TRY(SET(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, run->aux));
        GAL_TRY(SET(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, aux_stride));
    }
cleanup:
    return code;
}

/* ---- candidates ---- */

static gal_code multiply(const gal_cuda_library *library, const gal_gemm_plan *plan,
                         const cublasLtMatmulAlgo_t *algorithm, const gal_gemm_run *run, gal_error *err)
{
    gal_code code = GAL_OK;
    const float alpha = 1.0F, beta = run->add ? 1.0F : 0.0F;
    GAL_CUBLAS_TRY(cublasLtMatmul(library->lt, plan->operation, &alpha, run->a, plan->a, run->b, plan->b, &beta, run->d,
                                  plan->d, run->d, plan->d, algorithm, run->workspace, (size_t)run->workspace_bytes,
                                  run->stream));
cleanup:
    return code;
}

static gal_code set_preference(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
                               const void *value, size_t byte_count, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_CUBLAS_TRY(cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, byte_count));
cleanup:
    return code;
}
#define PREFER(attribute, value) set_preference(library->preference, attribute, &(value), sizeof(value), err)

/* Parts of a product that was split along its depth are added in one order only where they wait in a workspace, in the
 * type that is computed in; the forms that add in place or in the output's type are left to runs that may differ. */
static gal_code ask(gal_cuda_library *library, const gal_gemm_plan *plan, const gal_gemm_run *run,
                    cublasLtMatmulHeuristicResult_t *result, uint32_t wanted, uint32_t *count, gal_error *err)
{
    gal_code code = GAL_OK;
    int returned = 0;
    const uint64_t workspace_bytes = run->workspace_bytes;
    const uint32_t reductions = library->options.deterministic ? (uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                                               : (uint32_t)CUBLASLT_REDUCTION_SCHEME_MASK;
    GAL_TRY(PREFER(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes));
    GAL_TRY(PREFER(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions));
    GAL_TRY(PREFER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, run->key.a_alignment));
    GAL_TRY(PREFER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, run->key.b_alignment));
    GAL_TRY(PREFER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, run->key.d_alignment));
    GAL_TRY(PREFER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, run->key.d_alignment));
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(library->lt, plan->operation, plan->a, plan->b, plan->d, plan->d,
                                       library->preference, (int)wanted, result, &returned);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) {
        returned = 0;
    } else {
        GAL_CUBLAS_TRY(status);
    }
    uint32_t usable = 0;
    for (int i = 0; i < returned; i++) {
        if (result[i].state == CUBLAS_STATUS_SUCCESS && result[i].workspaceSize <= workspace_bytes) {
            result[usable++] = result[i];
        }
    }
    *count = usable;
cleanup:
    return code;
}

/* Seconds of a call: the least of a few rounds. A candidate that fails is as slow as can be. */
static gal_code time_candidate(const gal_cuda_library *library, const gal_gemm_plan *plan, const gal_gemm_run *run,
                               const cublasLtMatmulAlgo_t *algorithm, float *milliseconds, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_error ignored = {.code = GAL_OK};
    float least = 1e30F;
    if (multiply(library, plan, algorithm, run, &ignored) != GAL_OK) {
        *milliseconds = least;
        return GAL_OK;
    }
    for (int round = 0; round < TIMED_ROUNDS; round++) {
        float taken = 0.0F;
        GAL_CUDART_TRY(cudaEventRecord(library->start, run->stream));
        for (int i = 0; i < TIMED_CALLS; i++) {
            GAL_TRY(multiply(library, plan, algorithm, run, err));
        }
        GAL_CUDART_TRY(cudaEventRecord(library->stop, run->stream));
        GAL_CUDART_TRY(cudaEventSynchronize(library->stop));
        GAL_CUDART_TRY(cudaEventElapsedTime(&taken, library->start, library->stop));
        least = taken < least ? taken : least;
    }
    *milliseconds = least;
cleanup:
    return code;
}

static gal_code remember(gal_cuda_library *library, const gal_gemm_plan *plan, gal_error *err)
{
    gal_gemm_entry entry = {.key = plan->key};
    _Static_assert(sizeof entry.algorithm == sizeof plan->algorithm, "an algorithm is kept as a whole");
    memcpy(entry.algorithm, &plan->algorithm, sizeof entry.algorithm);
    return gal_gemm_cache_put(&library->cache, &entry, err);
}

static gal_code choose_by_time(gal_cuda_library *library, gal_gemm_plan *plan, const gal_gemm_run *run,
                               const cublasLtMatmulHeuristicResult_t *result, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t best = 0;
    float best_milliseconds = 0.0F;
    for (uint32_t i = 0; i < count; i++) {
        float milliseconds = 0.0F;
        GAL_TRY(time_candidate(library, plan, run, &result[i].algo, &milliseconds, err));
        if (i == 0 || milliseconds < best_milliseconds) {
            best = i;
            best_milliseconds = milliseconds;
        }
    }
    plan->algorithm = result[best].algo;
    plan->workspace_bytes = result[best].workspaceSize;
    plan->settled = true;
    GAL_TRY(remember(library, plan, err));
cleanup:
    return code;
}

/* True if the file of an earlier run has an algorithm that the library takes for this product. */
static bool recall(gal_cuda_library *library, gal_gemm_plan *plan, const gal_gemm_run *run)
{
    const gal_gemm_entry *entry = gal_gemm_cache_find(&library->cache, &plan->key);
    cublasLtMatmulHeuristicResult_t result = {.state = CUBLAS_STATUS_NOT_INITIALIZED};
    if (entry == NULL) {
        return false;
    }
    memcpy(&plan->algorithm, entry->algorithm, sizeof plan->algorithm);
    if (cublasLtMatmulAlgoCheck(library->lt, plan->operation, plan->a, plan->b, plan->d, plan->d, &plan->algorithm,
                                &result) != CUBLAS_STATUS_SUCCESS ||
        result.workspaceSize > run->workspace_bytes) {
        return false;
    }
    plan->workspace_bytes = result.workspaceSize;
    return true;
}

/* What the file knows; else, if timing is asked for, the fastest of the candidates; else the library's first. */
static gal_code choose(gal_cuda_library *library, gal_gemm_plan *plan, const gal_gemm_run *run, bool timed,
                       gal_error *err)
{
    gal_code code = GAL_OK;
    cublasLtMatmulHeuristicResult_t result[GAL_CUDA_CANDIDATES_MAX];
    uint32_t count = 0;
    const bool open = library->options.candidate_count > 1 && !library->options.deterministic;
    if (open && recall(library, plan, run)) {
        plan->settled = true;
        return GAL_OK;
    }
    timed = timed && open && !run->add;
    GAL_TRY(ask(library, plan, run, result, timed ? library->options.candidate_count : 1, &count, err));
    plan->refused = count == 0;
    if (plan->refused) {
        plan->settled = true;
    } else if (timed) {
        GAL_TRY(choose_by_time(library, plan, run, result, count, err));
    } else {
        plan->algorithm = result[0].algo;
        plan->workspace_bytes = result[0].workspaceSize;
        plan->settled = !open;
    }
cleanup:
    return code;
}

/* ---- plans ---- */

static gal_gemm_plan *find(const gal_cuda_library *library, const gal_gemm_key *key)
{
    for (size_t i = 0; i < library->gemm_count; i++) {
        if (memcmp(&library->gemm[i].key, key, sizeof *key) == 0) {
            return &library->gemm[i];
        }
    }
    return NULL;
}

static gal_code add_plan(gal_cuda_library *library, const gal_gemm_run *run, gal_gemm_plan **out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_gemm_plan plan = {.settled = false};
    if (library->gemm_count == library->gemm_capacity) {
        const size_t capacity = library->gemm_capacity == 0 ? 64 : 2 * library->gemm_capacity;
        gal_gemm_plan *grown = realloc(library->gemm, capacity * sizeof *grown);
        if (grown == NULL) {
            return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: plans of %zu products", capacity);
        }
        library->gemm = grown;
        library->gemm_capacity = capacity;
    }
    GAL_TRY(plan_create(run, &plan, err));
    *out = &library->gemm[library->gemm_count++];
    **out = plan;
    memset(&plan, 0, sizeof plan);
cleanup:
    plan_free(&plan);
    return code;
}

/* The plan of a run, made if there is none, with the run's addresses. */
static gal_code plan_of(gal_cuda_library *library, const gal_gemm_run *run, bool timed, gal_gemm_plan **out,
                        gal_error *err)
{
    gal_code code = GAL_OK;
    gal_gemm_plan *plan = find(library, &run->key);
    const bool fresh = plan == NULL;
    if (fresh) {
        GAL_TRY(add_plan(library, run, &plan, err));
    }
    GAL_TRY(set_addresses(plan, run, err));
    if (fresh || (timed && !plan->settled)) {
        GAL_TRY(choose(library, plan, run, timed, err));
    }
    if (plan->refused) {
        return GAL_NO;
    }
    *out = plan;
cleanup:
    return code;
}

gal_code gal_gemm_run_prepare(gal_cuda_library *library, const gal_gemm_run *run, gal_error *err)
{
    gal_gemm_plan *plan;
    return plan_of(library, run, true, &plan, err);
}

gal_code gal_gemm_run_queue(gal_cuda_library *library, const gal_gemm_run *run, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_gemm_plan *plan = NULL;
    GAL_TRY(plan_of(library, run, false, &plan, err));
    GAL_TRY(multiply(library, plan, &plan->algorithm, run, err));
cleanup:
    return code;
}
