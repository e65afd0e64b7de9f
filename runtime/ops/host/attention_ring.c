/* One step of a ring attention: the queries of a chunk of the positions and the keys and values of another. A step goes
 * on where the one before has ended: its context is divided by the sum of its exponentials, which the log-sum-exp has,
 * so the next one begins with this for the maximum and 1 for the sum. Who sees whom: runtime/ops/ring_step.h. */
#include <string.h>

#include "runtime/ops/host/attention.h"
#include "runtime/ops/ring_step.h"

static gal_attention_head step_head(const gal_kernel_call *call, const gal_ring_pair *pair, const gal_real *qkv,
                                    const gal_real *kv, size_t sample, size_t head)
{
    const size_t heads = call->dims[2], dim = call->dims[3], kv_heads = call->dims[4];
    gal_attention_head at = gal_attention_self_head(call, qkv, kv_heads, sample, head);
    const size_t kv_head = head / (heads / kv_heads), kv_row = 2 * kv_heads * dim;
    at.kv_stride = call->dims[0] * kv_row;
    at.q += (size_t)pair->queries.first * at.stride;
    at.k = kv + sample * kv_row + kv_head * dim + (size_t)pair->keys.first * at.kv_stride;
    at.v = at.k + kv_heads * dim;
    at.ctx_offset += (size_t)pair->queries.first * at.ctx_stride;
    at.lse_offset += pair->queries.first;
    at.sequence = pair->queries.count;
    at.keys = pair->keys.count;
    at.causal = pair->diagonal;
    at.resumes = call->dims[6] > 0 || !pair->first_of_queries;
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
    const gal_ring_step step = gal_ring_step_of(call);
    const size_t heads = call->dims[2], end = gal_cut_begin(&split->cut, part + 1);
    for (size_t i = gal_cut_begin(&split->cut, part); i < end; i++) {
        for (size_t p = 0; p < step.pair_count; p++) {
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
    if (code == GAL_OK && gal_ring_step_of(call).pair_count > 0) {
        gal_split_run(call, (size_t)call->dims[0] * call->dims[2], 1, (size_t)call->dims[1] * call->dims[3], step_part);
    }
    return code;
}

static void backward_pair(const gal_kernel_call *call, const gal_ring_pair *pair, size_t sample, size_t head, bool add)
{
    const gal_attention_head at = step_head(call, pair, call->operand[1], call->operand[2], sample, head);
    const size_t group = call->dims[2] / call->dims[4], kv_width = (size_t)call->dims[4] * call->dims[3];
    gal_real *dk = (gal_real *)call->operand[6] + sample * 2 * kv_width + head / group * call->dims[3] +
                   (size_t)pair->keys.first * at.kv_stride;
    const gal_attention_gradients to = {
        .dctx = (const gal_real *)call->operand[0] + at.ctx_offset,
        .ctx = (const gal_real *)call->operand[3] + at.ctx_offset,
        .lse = (const gal_real *)call->operand[4] + at.lse_offset,
        .dq = (gal_real *)call->operand[5] + at.ctx_offset,
        .dk = dk,
        .dv = dk + kv_width,
        .add = add || !pair->first_of_keys,
        .add_queries = at.resumes,
        .dq_stride = at.ctx_stride,
    };
    gal_attention_backward_head(&at, &to);
}

/* Keys that nobody sees get zeros. */
static void clear_unseen(const gal_kernel_call *call, const gal_ring_step *step)
{
    const size_t row = (size_t)call->dims[0] * 2 * call->dims[4] * call->dims[3];
    for (uint32_t i = 0; i < step->unseen_count; i++) {
        memset((gal_real *)call->operand[6] + step->unseen[i].first * row, 0,
               step->unseen[i].count * row * sizeof(gal_real));
    }
}

static void backward_part(const void *context, uint32_t part)
{
    const gal_split *split = context;
    const gal_ring_step step = gal_ring_step_of(split->call);
    const size_t kv_heads = split->call->dims[4], group = split->call->dims[2] / kv_heads;
    const size_t end = gal_cut_begin(&split->cut, part + 1);
    for (size_t i = gal_cut_begin(&split->cut, part); i < end; i++) {
        for (size_t j = 0; j < group; j++) {
            for (size_t p = 0; p < step.pair_count; p++) {
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
        const gal_ring_step step = gal_ring_step_of(call);
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
