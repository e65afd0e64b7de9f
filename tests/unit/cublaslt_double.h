/* A double of cuBLASLt, in fp32 alone: column-major products by definition, with the epilogues, as cublasLt.h describes
 * them; and the events of the CUDA runtime by which they are timed. It defines the library's functions: for the one
 * file of a program that tests by it, in place of the library. */
#ifndef GAL_TESTS_UNIT_CUBLASLT_DOUBLE_H
#define GAL_TESTS_UNIT_CUBLASLT_DOUBLE_H

#include "tests/support/ops_case.h"

#include <math.h>

#include "runtime/ops/cuda/gemm.h"

typedef struct lt_operation {
    int32_t transpose_a, transpose_b, sm_count, bias_type;
    uint32_t epilogue;
    float *bias, *aux;
    int64_t aux_stride;
    cublasComputeType_t compute;
} lt_operation;

typedef struct lt_layout {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t stride;
} lt_layout;

static struct {
    uint32_t candidates;       /* that the library offers */
    uint32_t fastest;          /* the number of the one that takes least */
    uint32_t refused_epilogue; /* for which there is none */
    uint32_t asked, multiplied, checked, reductions;
    uint64_t last_algorithm, last_workspace_bytes;
    lt_layout last_d;
    lt_operation last_operation;
    double clock_milliseconds, begin;
} lt;

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    (void)status;
    return "status";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute, cudaDataType_t scale)
{
    lt_operation *operation = calloc(1, sizeof *operation);
    assert_non_null(operation);
    assert_int_equal(scale, CUDA_R_32F);
    operation->compute = compute;
    *out = (cublasLtMatmulDesc_t)(void *)operation;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation)
{
    free(operation);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    lt_operation *operation = (lt_operation *)(void *)descriptor;
    void *to = NULL;
    size_t wanted = 4;
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        to = &operation->transpose_a;
        break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
        to = &operation->transpose_b;
        break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        to = &operation->epilogue;
        break;
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
        to = &operation->sm_count;
        break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        to = &operation->bias_type;
        break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        to = &operation->bias;
        wanted = 8;
        break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        to = &operation->aux;
        wanted = 8;
        break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        to = &operation->aux_stride;
        wanted = 8;
        break;
    default:
        fail_msg("attribute %d", (int)attribute);
    }
    assert_int_equal(bytes, wanted);
    memcpy(to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType_t type, uint64_t rows,
                                          uint64_t columns, int64_t stride)
{
    lt_layout *layout = calloc(1, sizeof *layout);
    assert_non_null(layout);
    *layout = (lt_layout){type, rows, columns, stride};
    *out = (cublasLtMatrixLayout_t)(void *)layout;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes)
{
    (void)preference;
    assert_int_equal(bytes, attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? 8 : 4);
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
        memcpy(&lt.reductions, value, bytes);
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t result[], int *returned)
{
    const lt_operation *operation = (const lt_operation *)(void *)descriptor;
    (void)handle, (void)a, (void)b, (void)c, (void)d, (void)preference;
    lt.asked++;
    if (operation->epilogue == lt.refused_epilogue) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    *returned = wanted < (int)lt.candidates ? wanted : (int)lt.candidates;
    memset(result, 0, (size_t)*returned * sizeof *result);
    for (int i = 0; i < *returned; i++) {
        result[i].algo.data[0] = (uint64_t)i + 1;
        result[i].algo.data[7] = 77;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                       cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algorithm,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    (void)handle, (void)descriptor, (void)a, (void)b, (void)c, (void)d;
    lt.checked++;
    memset(result, 0, sizeof *result);
    return algorithm->data[7] == 77 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

static float at(const float *matrix, const lt_layout *layout, bool transposed, uint64_t row, uint64_t column)
{
    return transposed ? matrix[column + row * (uint64_t)layout->stride]
                      : matrix[row + column * (uint64_t)layout->stride];
}

static float gelu(float x)
{
    const double y = x;
    return (float)(0.5 * y * (1.0 + tanh(0.79788456080286535588 * (y + 0.044715 * y * y * y))));
}

static float gelu_derivative(float x)
{
    const double y = x, c = 0.79788456080286535588, t = tanh(c * (y + 0.044715 * y * y * y));
    return (float)(0.5 * (1.0 + t) + 0.5 * y * (1.0 - t * t) * c * (1.0 + 3.0 * 0.044715 * y * y));
}

static float epilogue(const lt_operation *operation, float value, uint64_t row, uint64_t column)
{
    float *aux = operation->aux + row + column * (uint64_t)operation->aux_stride;
    switch (operation->epilogue) {
    case CUBLASLT_EPILOGUE_BIAS:
        return value + operation->bias[row];
    case CUBLASLT_EPILOGUE_GELU_AUX:
        *aux = value;
        return gelu(value);
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
        *aux = value + operation->bias[row];
        return gelu(*aux);
    case CUBLASLT_EPILOGUE_DGELU:
        return value * gelu_derivative(*aux);
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_DEFAULT:
        return value;
    default:
        fail_msg("epilogue %u", operation->epilogue);
        return 0.0F;
    }
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor, const void *alpha,
                              const void *a_bytes, cublasLtMatrixLayout_t a_layout, const void *b_bytes,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c_bytes,
                              cublasLtMatrixLayout_t c_layout, void *d_bytes, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes,
                              cudaStream_t stream)
{
    const lt_operation *operation = (const lt_operation *)(void *)descriptor;
    const lt_layout *la = (const lt_layout *)(void *)a_layout, *lb = (const lt_layout *)(void *)b_layout,
                    *ld = (const lt_layout *)(void *)d_layout;
    const bool ta = operation->transpose_a == CUBLAS_OP_T, tb = operation->transpose_b == CUBLAS_OP_T;
    const uint64_t depth = ta ? la->rows : la->columns;
    const float *a = a_bytes, *b = b_bytes;
    float *d = d_bytes;
    (void)handle, (void)c_bytes, (void)c_layout, (void)workspace, (void)stream;
    lt.last_workspace_bytes = workspace_bytes;
    assert_ptr_equal(c_bytes, d_bytes);
    assert_int_equal(ta ? la->columns : la->rows, ld->rows);
    assert_int_equal(tb ? lb->rows : lb->columns, ld->columns);
    assert_int_equal(tb ? lb->columns : lb->rows, depth);
    lt.multiplied++;
    lt.last_algorithm = algorithm->data[0];
    lt.last_d = *ld;
    lt.last_operation = *operation;
    lt.clock_milliseconds += algorithm->data[0] == lt.fastest ? 1.0 : 2.0;
    if (la->type != CUDA_R_32F) {
        return CUBLAS_STATUS_SUCCESS;
    }
    for (uint64_t row = 0; row < ld->rows; row++) {
        float sum_of_a = 0.0F;
        for (uint64_t k = 0; k < depth; k++) {
            sum_of_a += at(a, la, ta, row, k);
        }
        for (uint64_t column = 0; column < ld->columns; column++) {
            float *to = d + row + column * (uint64_t)ld->stride, sum = 0.0F;
            for (uint64_t k = 0; k < depth; k++) {
                sum += at(a, la, ta, row, k) * at(b, lb, tb, k, column);
            }
            sum = *(const float *)alpha * sum + (*(const float *)beta == 0.0F ? 0.0F : *(const float *)beta * *to);
            *to = epilogue(operation, sum, row, column);
        }
        if (operation->epilogue == CUBLASLT_EPILOGUE_BGRADA) {
            operation->bias[row] = sum_of_a;
        }
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* Time passes by products alone. */
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)stream;
    if (event == NULL) {
        lt.begin = lt.clock_milliseconds;
    }
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    (void)event;
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t stop)
{
    (void)start, (void)stop;
    *milliseconds = (float)(lt.clock_milliseconds - lt.begin);
    return cudaSuccess;
}

#endif
