/* Matrix product on BLAS, and column sums. */
#include <limits.h>
#include <string.h>

#include "runtime/ops/host/kernels.h"

GAL_VECTOR
static void add_bias(gal_real *c, const gal_real *bias, size_t rows, size_t columns)
{
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            c[i * columns + j] += bias[j];
        }
    }
}

/* The bias is put into c before the product is added to it: no further pass over c. */
gal_code GAL_KERNEL(gemm)(const gal_kernel_call *call, gal_error *err)
{
    const uint32_t m = call->dims[0], n = call->dims[1], k = call->dims[2], flags = call->dims[3];
    const bool transpose_a = (flags & GAL_GEMM_TRANSPOSE_A) != 0;
    const bool transpose_b = (flags & GAL_GEMM_TRANSPOSE_B) != 0;
    gal_real *c = call->operand[2];
    gal_real beta = call->add ? (gal_real)1 : (gal_real)0;
    if (m > INT_MAX || n > INT_MAX || k > INT_MAX) {
        return gal_fail(err, GAL_ERR_DEVICE, "gemm: %u x %u x %u is more than BLAS takes", m, n, k);
    }
    if ((flags & GAL_GEMM_BIAS) != 0) {
        const gal_real *bias = call->operand[3];
        if (call->add) {
            add_bias(c, bias, m, n);
        } else {
            for (size_t i = 0; i < m; i++) {
                memcpy(c + i * n, bias, n * sizeof *c);
            }
        }
        beta = (gal_real)1;
    }
    gal_cblas_gemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans,
                   (int)m, (int)n, (int)k, (gal_real)1, call->operand[0], (int)(transpose_a ? m : k), call->operand[1],
                   (int)(transpose_b ? k : n), beta, c, (int)n);
    return GAL_OK;
}

enum { COLUMNS = 256 };

GAL_VECTOR
static void column_sums(const gal_real *dy, size_t rows, size_t stride, size_t columns, double *sum)
{
    for (size_t j = 0; j < columns; j++) {
        sum[j] = 0.0;
    }
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            sum[j] += (double)dy[i * stride + j];
        }
    }
}

gal_code GAL_KERNEL(bias_gradient)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    const size_t rows = call->dims[0], features = call->dims[1];
    const gal_real *dy = call->operand[0];
    gal_real *dbias = call->operand[1];
    double sum[COLUMNS];
    for (size_t first = 0; first < features; first += COLUMNS) {
        const size_t columns = features - first < COLUMNS ? features - first : COLUMNS;
        column_sums(dy + first, rows, features, columns, sum);
        for (size_t j = 0; j < columns; j++) {
            dbias[first + j] = (gal_real)(sum[j] + (call->add ? (double)dbias[first + j] : 0.0));
        }
    }
    return GAL_OK;
}
