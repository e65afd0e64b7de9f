/* One step of a ring attention: the queries of a chunk of the positions and the keys and values of another. A step goes
 * on where the one before has ended: its context is divided by the sum of its exponentials, which the log-sum-exp has,
 * so the next one begins with this for the maximum and 1 for the sum. Under a causal mask a query sees all of the
 * chunks before its own, of its own the keys up to itself, and of those behind nothing: such a step leaves everything
 * as it is. Zig-zag, a chunk is two parts, an early and a late one, and a step their pairs. Source: H. Liu et al.,
 * "Ring Attention with Blockwise Transformers", arXiv 2310.01889, algorithm 1. */
#include <string.h>

#include "runtime/ops/host/attention.h"

/* Consecutive positions that a chunk has, from `first` on in its rows. */
typedef struct ring_part {
    size_t first, count, position;
} ring_part;

/* The parts of a chunk: itself, or zig-zag its own first half and the second one of its mirror. */
enum { PARTS_MAX = 2 };

static size_t parts_of(const gal_kernel_call *call, size_t chunk, ring_part part[PARTS_MAX])
{
    const size_t rows = call->dims[1], chunks = call->dims[7];
    if ((call->dims[5] & GAL_ATTENTION_ZIGZAG) == 0) {
        part[0] = (ring_part){0, rows, chunk * rows};
        return 1;
    }
    const size_t half = rows / 2;
    part[0] = (ring_part){0, half, chunk * rows};
    part[1] = (ring_part){half, half, (chunks - 1 - chunk) * rows + half};
    return 2;
}

/* A part of the queries and one of the keys that they see. */
typedef struct ring_pair {
    ring_part queries, keys;
    bool diagonal;      /* the same positions, under a causal mask */
    bool first_keys;    /* of these queries in this step ... */
    bool first_queries; /* ... and of these keys */
} ring_pair;

typedef struct ring_step {
    size_t count;
    ring_pair pair[PARTS_MAX * PARTS_MAX];
} ring_step;

/* The diagonal comes first, so that a query's first pair is of its own step. */
static void add_pairs(const ring_part *queries, const ring_part *keys, size_t parts, bool causal, bool diagonal,
                      ring_step *out)
{
    for (size_t q = 0; q < parts; q++) {
        for (size_t k = 0; k < parts; k++) {
            const bool same = queries[q].position == keys[k].position;
            if ((causal && keys[k].position > queries[q].position) || (causal && same) != diagonal) {
                continue;
            }
            ring_pair pair = {queries[q], keys[k], diagonal, true, true};
            for (size_t i = 0; i < out->count; i++) {
                pair.first_keys = pair.first_keys && out->pair[i].queries.first != pair.queries.first;
                pair.first_queries = pair.first_queries && out->pair[i].keys.first != pair.keys.first;
            }
            out->pair[out->count++] = pair;
        }
    }
}

static ring_step step_of(const gal_kernel_call *call)
{
    const size_t chunks = call->dims[7], chunk = call->position_begin / call->dims[1];
    const size_t keys_chunk = (chunk + chunks - call->dims[6]) % chunks;
    const bool causal = (call->dims[5] & GAL_ATTENTION_CAUSAL) != 0;
    ring_part queries[PARTS_MAX], keys[PARTS_MAX];
    ring_step step = {0};
    const size_t parts = parts_of(call, chunk, queries);
    (void)parts_of(call, keys_chunk, keys);
    add_pairs(queries, keys, parts, causal, true, &step);
    add_pairs(queries, keys, parts, causal, false, &step);
    return step;
}

static gal_attention_head step_head(const gal_kernel_call *call, const ring_pair *pair, const gal_real *qkv,
                                    const gal_real *kv, size_t sample, size_t head)
{
    const size_t heads = call->dims[2], dim = call->dims[3], kv_heads = call->dims[4];
    gal_attention_head at = gal_attention_self_head(call, qkv, kv_heads, sample, head);
    const size_t kv_head = head / (heads / kv_heads), kv_row = 2 * kv_heads * dim;
    at.kv_stride = call->dims[0] * kv_row;
    at.q += pair->queries.first * at.stride;
    at.k = kv + sample * kv_row + kv_head * dim + pair->keys.first * at.kv_stride;
    at.v = at.k + kv_heads * dim;
    at.ctx_offset += pair->queries.first * at.ctx_stride;
    at.lse_offset += pair->queries.first;
    at.sequence = pair->queries.count;
    at.keys = pair->keys.count;
    at.causal = pair->diagonal;
    at.resumes = call->dims[6] > 0 || !pair->first_keys;
    at.scale = (gal_real)(1.0 / sqrt((double)dim));
    at.dropout_index += pair->queries.position * at.dropout_stride + pair->keys.position;
    return at;
}

gal_code GAL_KERNEL(take_keys)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    const size_t queries = (size_t)call->dims[1] * call->dims[3], keys = 2 * (size_t)call->dims[2] * call->dims[3];
    const gal_real *qkv = call->operand[0];
    gal_real *kv = call->operand[1];
    for (size_t row = 0; row < call->dims[0]; row++) {
        memcpy(kv + row * keys, qkv + row * (queries + keys) + queries, keys * sizeof *kv);
    }
    return GAL_OK;
}

static void step_part(const void *context, uint32_t part)
{
    const gal_split *split = context;
    const gal_kernel_call *call = split->call;
    const ring_step step = step_of(call);
    const size_t heads = call->dims[2], end = gal_cut_begin(&split->cut, part + 1);
    for (size_t i = gal_cut_begin(&split->cut, part); i < end; i++) {
        for (size_t p = 0; p < step.count; p++) {
            const gal_attention_head at =
                step_head(call, &step.pair[p], call->operand[0], call->operand[1], i / heads, i % heads);
            gal_attention_forward_head(&at, (gal_real *)call->operand[2] + at.ctx_offset,
                                       (gal_real *)call->operand[3] + at.lse_offset);
        }
    }
}

gal_code GAL_KERNEL(attention_step)(const gal_kernel_call *call, gal_error *err)
{
    const gal_code code = gal_attention_check(call, err);
    if (code == GAL_OK && step_of(call).count > 0) {
        gal_split_run(call, (size_t)call->dims[0] * call->dims[2], 1, (size_t)call->dims[1] * call->dims[3], step_part);
    }
    return code;
}

static void backward_pair(const gal_kernel_call *call, const ring_pair *pair, size_t sample, size_t head, bool add)
{
    const gal_attention_head at = step_head(call, pair, call->operand[1], call->operand[2], sample, head);
    const size_t group = call->dims[2] / call->dims[4], kv_width = (size_t)call->dims[4] * call->dims[3];
    gal_real *dk = (gal_real *)call->operand[6] + sample * 2 * kv_width + head / group * call->dims[3] +
                   pair->keys.first * at.kv_stride;
    const gal_attention_gradients to = {
        .dctx = (const gal_real *)call->operand[0] + at.ctx_offset,
        .ctx = (const gal_real *)call->operand[3] + at.ctx_offset,
        .lse = (const gal_real *)call->operand[4] + at.lse_offset,
        .dq = (gal_real *)call->operand[5] + at.ctx_offset,
        .dk = dk,
        .dv = dk + kv_width,
        .add = add || !pair->first_queries,
        .add_queries = at.resumes,
        .dq_stride = at.ctx_stride,
    };
    gal_attention_backward_head(&at, &to);
}

/* Keys that nobody sees get zeros. */
static void clear_unseen(const gal_kernel_call *call, const ring_step *step)
{
    const size_t row = (size_t)call->dims[0] * 2 * call->dims[4] * call->dims[3];
    ring_part part[PARTS_MAX];
    const size_t parts = parts_of(call, 0, part);
    for (size_t i = 0; i < parts; i++) {
        bool seen = false;
        for (size_t p = 0; p < step->count; p++) {
            seen = seen || step->pair[p].keys.first == part[i].first;
        }
        if (!seen) {
            memset((gal_real *)call->operand[6] + part[i].first * row, 0, part[i].count * row * sizeof(gal_real));
        }
    }
}

static void backward_part(const void *context, uint32_t part)
{
    const gal_split *split = context;
    const ring_step step = step_of(split->call);
    const size_t kv_heads = split->call->dims[4], group = split->call->dims[2] / kv_heads;
    const size_t end = gal_cut_begin(&split->cut, part + 1);
    for (size_t i = gal_cut_begin(&split->cut, part); i < end; i++) {
        for (size_t j = 0; j < group; j++) {
            for (size_t p = 0; p < step.count; p++) {
                backward_pair(split->call, &step.pair[p], i / kv_heads, i % kv_heads * group + j, j > 0);
            }
        }
    }
}

gal_code GAL_KERNEL(attention_step_backward)(const gal_kernel_call *call, gal_error *err)
{
    const uint32_t *d = call->dims;
    const gal_code code = gal_attention_check(call, err);
    if (code == GAL_OK) {
        const ring_step step = step_of(call);
        clear_unseen(call, &step);
        gal_split_run(call, (size_t)d[0] * d[4], 1, (size_t)d[1] * (d[2] / d[4]) * d[3], backward_part);
    }
    return code;
}

gal_code GAL_KERNEL(join_gradients)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    const size_t queries = (size_t)call->dims[1] * call->dims[3], keys = 2 * (size_t)call->dims[2] * call->dims[3];
    const gal_real *dq = call->operand[0], *dkv = call->operand[1];
    gal_real *dqkv = call->operand[2];
    for (size_t row = 0; row < call->dims[0]; row++) {
        gal_real *to = dqkv + row * (queries + keys);
        memcpy(to, dq + row * queries, queries * sizeof *to);
        memcpy(to + queries, dkv + row * keys, keys * sizeof *to);
    }
    return GAL_OK;
}

/* On the host nothing is narrower. */
gal_code GAL_KERNEL(narrow)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    memcpy(call->operand[1], call->operand[0], call->dims[0] * sizeof(gal_real));
    return GAL_OK;
}
