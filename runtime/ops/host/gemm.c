/* Matrix product on BLAS, and column sums. */
#include <limits.h>
#include <string.h>

#include "runtime/ops/host/kernels.h"

/* c[m][n] = beta c + op(a) op(b), in parts of its rows or columns. */
typedef struct product {
    CBLAS_TRANSPOSE transpose_a, transpose_b;
    size_t m, n, k, a_stride, b_stride;
    const gal_real *a, *b, *bias; /* bias NULL: none */
    gal_real *c;
    bool add, by_rows;
    gal_cut cut;
} product;

/* Columns (rows) of a part: fewer would pack the operand that all parts share too often for the work done with it. */
enum { PART_UNIT = 64, PART_LEAST = 256 };

GAL_VECTOR
static void add_bias(gal_real *c, size_t stride, const gal_real *bias, size_t rows, size_t columns)
{
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            c[i * stride + j] += bias[j];
        }
    }
}

static void set_bias(gal_real *c, size_t stride, const gal_real *bias, size_t rows, size_t columns)
{
    for (size_t i = 0; i < rows; i++) {
        memcpy(c + i * stride, bias, columns * sizeof *c);
    }
}

/* The bias is put into c before the product is added to it: no further pass over c. */
static void multiply_part(const void *context, uint32_t part)
{
    const product *p = context;
    const size_t begin = gal_cut_begin(&p->cut, part), end = gal_cut_begin(&p->cut, part + 1);
    const size_t row = p->by_rows ? begin : 0, rows = p->by_rows ? end - begin : p->m;
    const size_t column = p->by_rows ? 0 : begin, columns = p->by_rows ? p->n : end - begin;
    gal_real *c = p->c + row * p->n + column;
    if (p->bias != NULL) {
        (p->add ? add_bias : set_bias)(c, p->n, p->bias + column, rows, columns);
    }
    gal_cblas_gemm(CblasRowMajor, p->transpose_a, p->transpose_b, (int)rows, (int)columns, (int)p->k, (gal_real)1,
                   p->a + (p->transpose_a == CblasTrans ? row : row * p->a_stride), (int)p->a_stride,
                   p->b + (p->transpose_b == CblasTrans ? column * p->b_stride : column), (int)p->b_stride,
                   p->add || p->bias != NULL ? (gal_real)1 : (gal_real)0, c, (int)p->n);
}

gal_code GAL_KERNEL(gemm)(const gal_kernel_call *call, gal_error *err)
{
    const uint32_t m = call->dims[0], n = call->dims[1], k = call->dims[2], flags = call->dims[3];
    const bool transpose_a = (flags & GAL_GEMM_TRANSPOSE_A) != 0;
    const bool transpose_b = (flags & GAL_GEMM_TRANSPOSE_B) != 0;
    if (m > INT_MAX || n > INT_MAX || k > INT_MAX) {
        return gal_fail(err, GAL_ERR_DEVICE, "gemm: %u x %u x %u is more than BLAS takes", m, n, k);
    }
    const product p = {
        .transpose_a = transpose_a ? CblasTrans : CblasNoTrans,
        .transpose_b = transpose_b ? CblasTrans : CblasNoTrans,
        .m = m,
        .n = n,
        .k = k,
        .a_stride = transpose_a ? m : k,
        .b_stride = transpose_b ? k : n,
        .a = call->operand[0],
        .b = call->operand[1],
        .bias = (flags & GAL_GEMM_BIAS) != 0 ? call->operand[3] : NULL,
        .c = call->operand[2],
        .add = call->add,
        .by_rows = m >= n,
        .cut = gal_cut_for_threads(m >= n ? m : n, PART_UNIT, PART_LEAST),
    };
    gal_parallel(p.cut.part_count, multiply_part, &p);
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

/* Each column is summed by one thread, from the first row to the last. */
static void sum_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const size_t rows = at->call->dims[0], features = at->call->dims[1];
    const size_t end = gal_cut_begin(&at->cut, part + 1);
    const gal_real *dy = at->call->operand[0];
    gal_real *dbias = at->call->operand[1];
    double sum[COLUMNS];
    for (size_t first = gal_cut_begin(&at->cut, part); first < end; first += COLUMNS) {
        const size_t columns = end - first < COLUMNS ? end - first : COLUMNS;
        column_sums(dy + first, rows, features, columns, sum);
        for (size_t j = 0; j < columns; j++) {
            dbias[first + j] = (gal_real)(sum[j] + (at->call->add ? (double)dbias[first + j] : 0.0));
        }
    }
}

gal_code GAL_KERNEL(bias_gradient)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, call->dims[1], GAL_COLUMN_UNIT, call->dims[0], sum_part);
    return GAL_OK;
}
