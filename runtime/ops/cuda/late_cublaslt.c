/* The functions of cuBLASLt that we call, from a library that is loaded at the first call: to load it takes 0.13 s of
 * processor time (517 MB, most of it tables that the loader relocates), which a process that computes on the host, asks
 * for --help or finds no GPU need not spend. Where it cannot be loaded all calls fail, and say why by
 * cublasLtGetStatusString. A program that has functions of these names itself, as tests do, gets its own. */
#include <cublasLt.h>
#include <cublas_api.h>
#include <dlfcn.h>
#include <string.h>

#define TEXT_OF(number) #number
#define NAME_OF(major) "libcublasLt.so." TEXT_OF(major)
static const char library_name[] = NAME_OF(CUBLAS_VER_MAJOR);
static const char cannot_be_loaded[] = NAME_OF(CUBLAS_VER_MAJOR) " cannot be loaded";

/* The address of a function of the library, to *function; NULL without it. The loader counts what it has loaded. */
static void find(const char *name, void *function, size_t bytes)
{
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    void *address = library != NULL ? dlsym(library, name) : NULL;
    memcpy(function, &address, bytes);
}

#define FORWARD(result, absent, name, parameters, arguments)                                                           \
    __attribute__((weak)) result name parameters                                                                       \
    {                                                                                                                  \
        static __typeof__(name) *function;                                                                             \
        if (function == NULL) {                                                                                        \
            find(#name, &function, sizeof function);                                                                   \
        }                                                                                                              \
        return function != NULL ? function arguments : (absent);                                                       \
    }
#define FORWARD_CALL(name, parameters, arguments)                                                                      \
    FORWARD(cublasStatus_t, CUBLAS_STATUS_NOT_INITIALIZED, name, parameters, arguments)

FORWARD(const char *, cannot_be_loaded, cublasLtGetStatusString, (cublasStatus_t status), (status))
FORWARD(size_t, 0, cublasLtGetVersion, (void), ())
FORWARD_CALL(cublasLtCreate, (cublasLtHandle_t * handle), (handle))
FORWARD_CALL(cublasLtDestroy, (cublasLtHandle_t handle), (handle))
FORWARD_CALL(cublasLtMatmulDescCreate, (cublasLtMatmulDesc_t * out, cublasComputeType_t compute, cudaDataType_t scale),
             (out, compute, scale))
FORWARD_CALL(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t operation), (operation))
FORWARD_CALL(cublasLtMatmulDescSetAttribute,
             (cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const void *value,
              size_t bytes),
             (operation, attribute, value, bytes))
FORWARD_CALL(cublasLtMatrixLayoutCreate,
             (cublasLtMatrixLayout_t * out, cudaDataType type, uint64_t rows, uint64_t columns, int64_t stride),
             (out, type, rows, columns, stride))
FORWARD_CALL(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout), (layout))
FORWARD_CALL(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * out), (out))
FORWARD_CALL(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference), (preference))
FORWARD_CALL(cublasLtMatmulPreferenceSetAttribute,
             (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
              size_t bytes),
             (preference, attribute, value, bytes))
FORWARD_CALL(cublasLtMatmulAlgoGetHeuristic,
             (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
              cublasLtMatmulPreference_t preference, int asked, cublasLtMatmulHeuristicResult_t *results, int *count),
             (handle, operation, a, b, c, d, preference, asked, results, count))
FORWARD_CALL(cublasLtMatmulAlgoCheck,
             (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
              const cublasLtMatmulAlgo_t *algorithm, cublasLtMatmulHeuristicResult_t *result),
             (handle, operation, a, b, c, d, algorithm, result))
FORWARD_CALL(cublasLtMatmul,
             (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void *alpha, const void *a,
              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
              const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
              const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes, cudaStream_t stream),
             (handle, operation, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algorithm, workspace,
              workspace_bytes, stream))
