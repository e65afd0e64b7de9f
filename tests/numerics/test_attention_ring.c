/* Ring attention in fp64, its devices played one after the other: the steps of all chunks together are the attention of
 * the whole, forward and backward. The bound is that of plans against one device, 1e-10 of the largest entry. */
#include <math.h>

#include "tests/support/ops_case.h"

static const gal_ops *const ops = &gal_ops_host_fp64;
static const double relative_bound = 1e-10;

typedef struct problem {
    ops_case at;
    uint32_t samples, sequence, heads, kv_heads, dim, flags, chunks;
    double *qkv, *ctx, *lse, *dctx, *dqkv;   /* of the whole */
    double *ring_qkv, *ring_dctx;            /* rows as the chunks have them, one behind the other */
    double *ring_ctx, *ring_lse, *ring_dqkv; /* likewise */
    double *kv, *dq, *dkv, *part;            /* likewise */
    size_t rows, qkv_row, ctx_row, kv_row;   /* elements of a row */
    size_t chunk_rows, chunk_qkv, chunk_ctx, chunk_kv, chunk_lse; /* elements of a chunk */
} problem;

static double *numbers(size_t count)
{
    double *x = calloc(count, sizeof *x);
    assert_non_null(x);
    return x;
}

static void create(problem *p)
{
    ops_case_init(&p->at);
    p->at.model.head_count = p->heads;
    p->at.model.sequence_length = p->sequence;
    p->rows = (size_t)p->samples * p->sequence;
    p->qkv_row = (size_t)(p->heads + 2 * p->kv_heads) * p->dim;
    p->ctx_row = (size_t)p->heads * p->dim;
    p->kv_row = 2 * (size_t)p->kv_heads * p->dim;
    p->chunk_rows = p->rows / p->chunks;
    p->chunk_qkv = p->chunk_rows * p->qkv_row;
    p->chunk_ctx = p->chunk_rows * p->ctx_row;
    p->chunk_kv = p->chunk_rows * p->kv_row;
    p->chunk_lse = p->chunk_rows * p->heads;
    p->qkv = numbers(p->rows * p->qkv_row);
    p->dqkv = numbers(p->rows * p->qkv_row);
    p->ring_dqkv = numbers(p->rows * p->qkv_row);
    p->ctx = numbers(p->rows * p->ctx_row);
    p->dctx = numbers(p->rows * p->ctx_row);
    p->ring_ctx = numbers(p->rows * p->ctx_row);
    p->dq = numbers(p->rows * p->ctx_row);
    p->lse = numbers(p->rows * p->heads);
    p->ring_lse = numbers(p->rows * p->heads);
    p->kv = numbers(p->rows * p->kv_row);
    p->dkv = numbers(p->rows * p->kv_row);
    p->part = numbers(p->chunk_kv);
    p->ring_qkv = numbers(p->rows * p->qkv_row);
    p->ring_dctx = numbers(p->rows * p->ctx_row);
    ops_randomize(p->qkv, p->rows * p->qkv_row, 1);
    ops_randomize(p->dctx, p->rows * p->ctx_row, 2);
}

/* The position of the i-th row of the chunks, one behind the other. Zig-zag the second half of a chunk is its mirror's.
 */
static size_t position_of(const problem *p, size_t i)
{
    const size_t local = p->sequence / p->chunks, chunk = i / local, at = i % local;
    const bool trades = (p->flags & GAL_ATTENTION_ZIGZAG) != 0 && at >= local / 2;
    return (trades ? p->chunks - 1 - chunk : chunk) * local + at;
}

/* Rows [position][sample] in the order of the chunks. */
static void deal(const problem *p, const double *rows, size_t row, double *out)
{
    const size_t size = p->samples * row;
    for (size_t i = 0; i < p->sequence; i++) {
        memcpy(out + i * size, rows + position_of(p, i) * size, size * sizeof *out);
    }
}

static void destroy(problem *p)
{
    double *all[] = {p->qkv, p->dqkv,     p->ring_dqkv, p->ctx, p->dctx, p->ring_ctx, p->dq,
                     p->lse, p->ring_lse, p->kv,        p->dkv, p->part, p->ring_qkv, p->ring_dctx};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
}

static void run_whole(problem *p)
{
    const uint32_t *dims =
        DIMS(p->samples, p->sequence, p->heads, p->dim, p->kv_heads, p->flags & GAL_ATTENTION_CAUSAL);
    OPS(&p->at, ops, GAL_OP_ATTENTION, dims, p->qkv, p->ctx, p->lse);
    OPS(&p->at, ops, GAL_OP_ATTENTION_BACKWARD, dims, p->dctx, p->qkv, p->ctx, p->lse, p->dqkv);
}

static void forward(problem *p)
{
    const uint32_t local = p->sequence / p->chunks;
    deal(p, p->qkv, p->qkv_row, p->ring_qkv);
    for (uint32_t c = 0; c < p->chunks; c++) {
        OPS(&p->at, ops, GAL_OP_TAKE_KEYS, DIMS((uint32_t)p->chunk_rows, p->heads, p->kv_heads, p->dim),
            p->ring_qkv + c * p->chunk_qkv, p->kv + c * p->chunk_kv);
    }
    for (uint32_t c = 0; c < p->chunks; c++) {
        for (uint32_t step = 0; step < p->chunks; step++) {
            const uint32_t keys = (c + p->chunks - step) % p->chunks;
            p->at.call.position_begin = c * local;
            OPS(&p->at, ops, GAL_OP_ATTENTION_STEP,
                DIMS(p->samples, local, p->heads, p->dim, p->kv_heads, p->flags, step, p->chunks),
                p->ring_qkv + c * p->chunk_qkv, p->kv + keys * p->chunk_kv, p->ring_ctx + c * p->chunk_ctx,
                p->ring_lse + c * p->chunk_lse);
        }
    }
}

static void backward(problem *p)
{
    const uint32_t local = p->sequence / p->chunks;
    deal(p, p->dctx, p->ctx_row, p->ring_dctx);
    for (uint32_t c = 0; c < p->chunks; c++) {
        for (uint32_t step = 0; step < p->chunks; step++) {
            const uint32_t keys = (c + p->chunks - step) % p->chunks;
            p->at.call.position_begin = c * local;
            OPS(&p->at, ops, GAL_OP_ATTENTION_STEP_BACKWARD,
                DIMS(p->samples, local, p->heads, p->dim, p->kv_heads, p->flags, step, p->chunks),
                p->ring_dctx + c * p->chunk_ctx, p->ring_qkv + c * p->chunk_qkv, p->kv + keys * p->chunk_kv,
                p->ring_ctx + c * p->chunk_ctx, p->ring_lse + c * p->chunk_lse, p->dq + c * p->chunk_ctx, p->part);
            for (size_t i = 0; i < p->chunk_kv; i++) {
                p->dkv[keys * p->chunk_kv + i] += p->part[i];
            }
        }
    }
    for (uint32_t c = 0; c < p->chunks; c++) {
        OPS(&p->at, ops, GAL_OP_JOIN_GRADIENTS, DIMS((uint32_t)p->chunk_rows, p->heads, p->kv_heads, p->dim),
            p->dq + c * p->chunk_ctx, p->dkv + c * p->chunk_kv, p->ring_dqkv + c * p->chunk_qkv);
    }
}

static void expect_near(const double *got, const double *wanted, size_t count, const char *what)
{
    double largest = 0.0, error = 0.0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(wanted[i]));
        error = isnan(got[i]) ? INFINITY : fmax(error, fabs(got[i] - wanted[i]));
    }
    if (!(error <= relative_bound * largest)) {
        fail_msg("%s: off by %.3g, the largest is %.3g", what, error, largest);
    }
}

static void expect_rows(const problem *p, const double *got, const double *whole, size_t row, const char *what)
{
    double *wanted = numbers(p->rows * row);
    deal(p, whole, row, wanted);
    expect_near(got, wanted, p->rows * row, what);
    free(wanted);
}

/* Log-sum-exps are [sample][head][position], of the whole and of each chunk. */
static void expect_lse(const problem *p)
{
    const size_t local = p->sequence / p->chunks;
    double *wanted = numbers(p->rows * p->heads);
    for (size_t i = 0; i < p->sequence; i++) {
        for (size_t row = 0; row < (size_t)p->samples * p->heads; row++) {
            wanted[i / local * p->chunk_lse + row * local + i % local] = p->lse[row * p->sequence + position_of(p, i)];
        }
    }
    expect_near(p->ring_lse, wanted, p->rows * p->heads, "lse");
    free(wanted);
}

static void check(problem p, double dropout)
{
    create(&p);
    p.at.model.attention_dropout = dropout;
    run_whole(&p);
    forward(&p);
    backward(&p);
    expect_rows(&p, p.ring_ctx, p.ctx, p.ctx_row, "ctx");
    expect_lse(&p);
    expect_rows(&p, p.ring_dqkv, p.dqkv, p.qkv_row, "dqkv");
    destroy(&p);
}

/* Chunks shorter and longer than a tile, heads wider than one. */
static void check_shapes(uint32_t flags, double dropout)
{
    for (uint32_t kv_heads = 1; kv_heads <= 4; kv_heads *= 2) {
        check(
            (problem){
                .samples = 2, .sequence = 24, .heads = 4, .kv_heads = kv_heads, .dim = 6, .flags = flags, .chunks = 3},
            dropout);
    }
    check((problem){.samples = 1, .sequence = 16, .heads = 1, .kv_heads = 1, .dim = 70, .flags = flags, .chunks = 8},
          dropout);
    check((problem){.samples = 2, .sequence = 280, .heads = 2, .kv_heads = 2, .dim = 8, .flags = flags, .chunks = 4},
          dropout);
    check((problem){.samples = 1, .sequence = 10, .heads = 2, .kv_heads = 1, .dim = 4, .flags = flags, .chunks = 1},
          dropout);
    check((problem){.samples = 1, .sequence = 20, .heads = 2, .kv_heads = 1, .dim = 4, .flags = flags, .chunks = 5},
          dropout);
}

static void causal(void **state)
{
    (void)state;
    check_shapes(GAL_ATTENTION_CAUSAL, 0.0);
}

static void zigzag(void **state)
{
    (void)state;
    check_shapes(GAL_ATTENTION_CAUSAL | GAL_ATTENTION_ZIGZAG, 0.0);
    check_shapes(GAL_ATTENTION_CAUSAL | GAL_ATTENTION_ZIGZAG, 0.3);
}

static void of_all(void **state)
{
    (void)state;
    check_shapes(0, 0.0);
}

static void dropped(void **state)
{
    (void)state;
    check_shapes(GAL_ATTENTION_CAUSAL, 0.3);
    check_shapes(0, 0.3);
}

/* Scores of one chunk some 700 above those of another: beyond what exp holds if sums were merged as they are. */
static void far_apart(void **state)
{
    (void)state;
    problem p = {.samples = 1, .sequence = 8, .heads = 1, .kv_heads = 1, .dim = 4, .chunks = 4};
    create(&p);
    for (size_t row = 0; row < p.rows; row++) {
        for (size_t i = 0; i < p.dim; i++) {
            p.qkv[row * p.qkv_row + i] = 20.0;
            p.qkv[row * p.qkv_row + p.dim + i] = row < 2 ? 17.5 : row < 6 ? -17.5 : 0.0;
        }
    }
    run_whole(&p);
    forward(&p);
    expect_rows(&p, p.ring_ctx, p.ctx, p.ctx_row, "ctx");
    expect_lse(&p);
    destroy(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(causal), cmocka_unit_test(zigzag), cmocka_unit_test(of_all),
                                       cmocka_unit_test(dropped), cmocka_unit_test(far_apart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
