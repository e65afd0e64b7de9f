/* The steps of a ring attention on emulated threads, against the host's in fp64: one device's chunk of queries and the
 * keys of every chunk in turn. A step goes on from what the host had before it, rounded as the device has it, so what
 * it is off by is its own.
 *
 * v is 2^-24, u what the type rounds by, c = 1 / (1 - dropout), numbers are within 1. A score is a sum of dim products,
 * off by (dim + 8) v sqrt(dim); it, its log-sum-exp and their difference are below 2 sqrt(dim) + log(keys) < 40 in size
 * and rounded some 8 times: so a probability is off by 2 ((dim + 8) sqrt(dim) + 320) v of itself, which is `relative`,
 * once more for the factor that is rounded to the type, u, and by the sum over `rows` of them, (rows + 8) v.
 *   ctx   sum of c P value, the P of a query add up to 1 at most                          -> c times that
 *   dv    sum of c P dctx over queries                                                    -> c times that, times sum P
 *   dq    scale times the sum of slopes P (M dctx value - D), each term within c dim, D   -> scale 2 c dim times that,
 *   dk    likewise over queries                                                              times sum P */
#include <math.h>

#include "runtime/ops/cuda/flash.h"
#include "tests/support/emulated/device_case.h"
#include "tests/support/emulated/machine.h"

enum { CHUNKS_MAX = 4 };

static const double v = 0x1p-24;
static const gal_dtype types[] = {GAL_FP32, GAL_BF16, GAL_FP16};

typedef struct ring {
    gal_dtype dtype;
    bool odd;
    uint32_t samples, positions, heads, kv_heads, dim, flags, chunks, chunk;
    double dropout;
    size_t qkv_count, kv_count, ctx_count, lse_count;
    double *ctx, *lse, *dq; /* of the host, of all steps so far */
} ring;

static uint64_t workspace_bytes(const device_case *at, gal_op op, const gal_kernel_call *call)
{
    return gal_machine_attention_workspace_bytes(op, at->dtype, call);
}

static gal_code run(device_case *at, gal_op op, gal_kernel_call *call, gal_error *err)
{
    return gal_machine_attention(op, at->dtype, call, err);
}

static const device_case_library attention = {workspace_bytes, run};

static void begin(const ring *r, device_case *at)
{
    device_case_init(at, r->dtype, r->odd);
    at->library = &attention;
    at->ops.model.sequence_length = r->positions * r->chunks;
    at->ops.model.head_count = 2 * r->heads;
    at->ops.model.attention_dropout = r->dropout;
    at->ops.step.step = 9;
    at->ops.call.group_index = 1;
    at->ops.call.group_count = 2;
    at->ops.call.block = 5;
    at->ops.call.position_begin = r->chunk * r->positions;
    at->ops.sample_map[1] = 7;
}

static uint32_t keys_chunk(const ring *r, uint32_t step)
{
    return (r->chunk + r->chunks - step) % r->chunks;
}

static void add_inputs(const ring *r, device_case *at, uint32_t step)
{
    device_case_add(at, ELEMENT, r->qkv_count, 1.0, 1);
    device_case_add(at, ELEMENT, r->kv_count, 1.0, 100 + keys_chunk(r, step));
}

/* What the host has, as the operand's type has it; before the first step nothing. */
static operand *add_given(device_case *at, operand_kind kind, size_t count, const double *values, bool given)
{
    operand *o = device_case_add(at, kind, count, 0.0, 0);
    for (size_t i = 0; given && i < count; i++) {
        o->exact[i] = device_case_round(at, kind, values[i]);
    }
    return o;
}

static double relative_of(const ring *r, uint32_t rows)
{
    const double unit = r->dtype == GAL_BF16 ? 0x1p-8 : r->dtype == GAL_FP16 ? 0x1p-11 : 0.0;
    return 2.0 * ((r->dim + 8.0) * sqrt(r->dim) + 320.0) * v + (rows + 8.0) * v + unit;
}

static void run_step(const ring *r, device_case *at, gal_op op, uint32_t step)
{
    device_case_run(at, op, DIMS(r->samples, r->positions, r->heads, r->dim, r->kv_heads, r->flags, step, r->chunks));
}

static void forward_step(const ring *r, uint32_t step)
{
    device_case at;
    begin(r, &at);
    add_inputs(r, &at, step);
    const operand *ctx = add_given(&at, FLOAT, r->ctx_count, r->ctx, step > 0);
    const operand *lse = add_given(&at, FLOAT, r->lse_count, r->lse, step > 0);
    run_step(r, &at, GAL_OP_ATTENTION_STEP, step);
    device_case_expect_all(&at, ctx, relative_of(r, r->positions) / (1.0 - r->dropout));
    device_case_expect_all(&at, lse, relative_of(r, r->positions));
    memcpy(r->ctx, ctx->exact, r->ctx_count * sizeof *r->ctx);
    memcpy(r->lse, lse->exact, r->lse_count * sizeof *r->lse);
    device_case_free(&at);
}

/* In the sequence, of row i of a chunk: zig-zag, the second half is that of the chunk's mirror. */
static size_t position_of(const ring *r, uint32_t chunk, size_t i)
{
    const bool late = (r->flags & GAL_ATTENTION_ZIGZAG) != 0 && i >= r->positions / 2;
    return (size_t)(late ? r->chunks - 1 - chunk : chunk) * r->positions + i;
}

/* sum[sample][kv head][key] of the probabilities of all queries that share the key. */
static void add_probabilities(const ring *r, const double *qkv, const double *kv, uint32_t step, double *sum)
{
    const size_t row = (size_t)(r->heads + 2 * r->kv_heads) * r->dim, kv_row = 2 * (size_t)r->kv_heads * r->dim;
    const bool causal = (r->flags & GAL_ATTENTION_CAUSAL) != 0;
    for (size_t n = 0; n < (size_t)r->samples * r->heads * r->positions * r->positions; n++) {
        const size_t j = n % r->positions, i = n / r->positions % r->positions;
        const size_t head = n / r->positions / r->positions % r->heads;
        const size_t sample = n / r->positions / r->positions / r->heads, kv_head = head / (r->heads / r->kv_heads);
        const double *q = qkv + (i * r->samples + sample) * row + head * r->dim;
        const double *k = kv + (j * r->samples + sample) * kv_row + kv_head * r->dim;
        double score = 0.0;
        for (uint32_t d = 0; d < r->dim; d++) {
            score += q[d] * k[d];
        }
        if (!causal || position_of(r, keys_chunk(r, step), j) <= position_of(r, r->chunk, i)) {
            const double lse = r->lse[(sample * r->heads + head) * r->positions + i];
            sum[(sample * r->kv_heads + kv_head) * r->positions + j] += exp(score / sqrt(r->dim) - lse);
        }
    }
}

static void expect_dkv(const ring *r, const device_case *at, const operand *dkv, const double *sum)
{
    const uint32_t all = r->positions * (r->heads / r->kv_heads); /* rows that a sum is over */
    const double c = 1.0 / (1.0 - r->dropout), relative = relative_of(r, all);
    const double slope = 2.0 * sqrt(r->dim) * (relative + (r->dim + 8.0) * v);
    for (size_t i = 0; i < dkv->count; i++) {
        const size_t head = i / r->dim % (2 * r->kv_heads), sample = i / r->dim / (2 * r->kv_heads) % r->samples;
        const size_t j = i / r->dim / (2 * r->kv_heads) / r->samples;
        const double weight = sum[(sample * r->kv_heads + head % r->kv_heads) * r->positions + j];
        device_case_expect(at, dkv, i, c * weight * (head < r->kv_heads ? slope : relative));
    }
}

static void backward_step(const ring *r, uint32_t step)
{
    device_case at;
    double *sum = calloc((size_t)r->samples * r->kv_heads * r->positions, sizeof *sum);
    assert_non_null(sum);
    begin(r, &at);
    device_case_add(&at, ELEMENT, r->ctx_count, 1.0, 2);
    add_inputs(r, &at, step);
    add_given(&at, ELEMENT, r->ctx_count, r->ctx, true);
    add_given(&at, FLOAT, r->lse_count, r->lse, true);
    const operand *dq = add_given(&at, FLOAT, r->ctx_count, r->dq, step > 0);
    const operand *dkv = device_case_add(&at, FLOAT, r->kv_count, 0.0, 0);
    run_step(r, &at, GAL_OP_ATTENTION_STEP_BACKWARD, step);
    add_probabilities(r, at.operand[1].exact, at.operand[2].exact, step, sum);
    const double slope = relative_of(r, r->positions) + (r->dim + 8.0) * v;
    device_case_expect_all(&at, dq, 2.0 * sqrt(r->dim) / (1.0 - r->dropout) * slope);
    expect_dkv(r, &at, dkv, sum);
    memcpy(r->dq, dq->exact, r->ctx_count * sizeof *r->dq);
    device_case_free(&at);
    free(sum);
}

static void check(ring r)
{
    const size_t rows = (size_t)r.samples * r.positions;
    assert_true(r.chunks <= CHUNKS_MAX);
    r.qkv_count = rows * (r.heads + 2 * r.kv_heads) * r.dim;
    r.kv_count = rows * 2 * r.kv_heads * r.dim;
    r.ctx_count = rows * r.heads * r.dim;
    r.lse_count = rows * r.heads;
    r.ctx = calloc(r.ctx_count, sizeof *r.ctx);
    r.lse = calloc(r.lse_count, sizeof *r.lse);
    r.dq = calloc(r.ctx_count, sizeof *r.dq);
    assert_true(r.ctx != NULL && r.lse != NULL && r.dq != NULL);
    for (uint32_t step = 0; step < r.chunks; step++) {
        forward_step(&r, step);
    }
    for (uint32_t step = 0; step < r.chunks; step++) {
        backward_step(&r, step);
    }
    free(r.ctx);
    free(r.lse);
    free(r.dq);
}

/* The middle chunk: a step on the diagonal, one that sees all, one that sees nothing. Heads that share keys. */
static void causal(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < 3; t++) {
        for (uint32_t odd = 0; odd < 2; odd++) {
            check((ring){types[t], odd != 0, 1 + odd, 70 - 40 * odd, 2, 1, 16, GAL_ATTENTION_CAUSAL, 3, 1,
                         .dropout = 0.0});
        }
    }
}

/* A device with the early half first and one with the late half first, in steps that see the early keys alone, in ones
 * whose late queries see all, and on the diagonal. Halves shorter and longer than a tile. With dropout halves are
 * attended to one by one. */
static void zigzag(void **state)
{
    (void)state;
    const uint32_t flags = GAL_ATTENTION_CAUSAL | GAL_ATTENTION_ZIGZAG;
    for (uint32_t t = 0; t < 3; t++) {
        for (uint32_t chunk = 0; chunk < 3; chunk++) {
            check((ring){types[t], chunk == 1, 1 + chunk % 2, 20, 2, 1, 16, flags, 3, chunk, .dropout = 0.0});
        }
        check((ring){types[t], false, 1, 140, 1, 1, 16, flags, 2, 1, .dropout = 0.0});
        check((ring){types[t], false, 2, 30, 2, 2, 16, flags, 4, 2, .dropout = 0.3});
    }
}

/* Every step sees all; the last chunk's keys pass the seam. Heads wider than what one block of dk and dv sums. */
static void of_all(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < 3; t++) {
        check((ring){types[t], false, 1, 20, 1, 1, 200, 0, 2, 1, .dropout = 0.0});
        check((ring){types[t], false, 2, 5, 3, 3, 33, 0, 4, 3, .dropout = 0.0});
    }
}

/* Chunks of 35: their keys begin at every place in a quad, by which dropout draws. */
static void dropped(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < 3; t++) {
        check((ring){types[t], false, 2, 35, 2, 2, 16, 0, 4, 1, .dropout = 0.3});
        check((ring){types[t], false, 1, 40, 2, 1, 16, GAL_ATTENTION_CAUSAL, 2, 1, .dropout = 0.3});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(causal),
        cmocka_unit_test(zigzag),
        cmocka_unit_test(of_all),
        cmocka_unit_test(dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
