/* Typing rules of ring attention. Keys and values say by how many members of the ring they have been turned, and what
 * is summed step by step of which steps it is: ctx, log-sum-exp and the queries' gradient of the first ones so far; the
 * gradient of keys that pass round of those steps that the devices behind them have taken; zig-zag, that the
 * second half of their rows is the mirror's. So a hop that is missing, a
 * step left out or taken twice, and keys of another chunk than a step says are refused. */
#include "runtime/program/verify/verify_internal.h"
#include "runtime/program/verify/verify_typer.h"

/* Rows in an operand, in whatever state of the ring. */
static bool get_any(gal_typer *t, uint32_t k, gal_typed *out)
{
    const gal_operand *o = &t->operand[k];
    const gal_stretch *at = gal_store_exact(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes);
    if (o->view != GAL_GROUP_NONE || at == NULL || at->value.kind != GAL_VALUE_ROWS) {
        return gal_type_broken(t, "reads rows where there are none");
    }
    *out = at->value;
    return gal_type_holds(t, (out->dealt | out->within | out->partial | out->max_partial) == GAL_GROUP_NONE,
                          "passes round what is no whole of rows");
}

/* Of all steps, and at home: an ordinary value. */
static void settle(const gal_typer *t, gal_typed *value)
{
    if (value->share_count == gal_type_size_of(t, value->ring) && value->share_first == 0) {
        value->share_count = 0;
    }
    if (value->turn == 0 && value->share_count == 0) {
        value->ring = GAL_GROUP_NONE;
    }
}

static void type_rotate(gal_typer *t)
{
    gal_typed value;
    if (!get_any(t, 0, &value) || !gal_type_expect_elements(t, 0) ||
        !gal_type_holds(t, t->in->group != GAL_GROUP_NONE && (t->in->group & ~gal_type_owners_of(t, &value)) == 0,
                        "passes round what all devices have") ||
        !gal_type_holds(t, value.ring == GAL_GROUP_NONE || value.ring == t->in->group,
                        "passes round among other devices than before")) {
        return;
    }
    if (!gal_type_holds(t, value.mirrored == GAL_GROUP_NONE || value.mirrored == t->in->group,
                        "passes round halves of other devices")) {
        return;
    }
    value.ring = t->in->group;
    value.turn = (value.turn + 1) % gal_type_size_of(t, value.ring);
    settle(t, &value);
    gal_type_put_rows(t, 1, value, value.features);
}

/* The second half of the positions goes to the mirror: twice is home. */
static void type_mirror(gal_typer *t)
{
    gal_typed value = {0};
    const bool laid = t->in->layout != 0 && t->in->layout < t->program->layout_count;
    const gal_layout *layout = &t->program->layout[laid ? t->in->layout : 0];
    const uint64_t samples = laid ? gal_layout_local_samples(layout) : 1;
    if (!get_any(t, 0, &value) ||
        !gal_type_holds(t, 2 * t->shape->dims[0] * gal_type_item_bytes(t, 0) == t->operand[0].bytes,
                        "trades more or less than the half of a value") ||
        !gal_type_holds(t, laid && t->in->group != GAL_GROUP_NONE && t->in->group == layout->sequence_group,
                        "trades positions that its devices do not split") ||
        !gal_type_expect_layout(t, value.rows, samples, t->rows[value.rows].local_count / samples) ||
        !gal_type_holds(t, t->rows[value.rows].local_count / samples % 2 == 0,
                        "trades half of an odd number of rows") ||
        !gal_type_holds(t, value.ring == GAL_GROUP_NONE, "trades what is still passing round") ||
        !gal_type_holds(t, value.mirrored == GAL_GROUP_NONE || value.mirrored == t->in->group,
                        "trades among other devices than before")) {
        return;
    }
    value.mirrored = value.mirrored == GAL_GROUP_NONE ? t->in->group : GAL_GROUP_NONE;
    gal_type_put_rows(t, 1, value, value.features);
}

static void type_take_keys(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    const uint64_t keys = 2 * (uint64_t)d[2] * d[3];
    gal_typed qkv;
    if (gal_type_get_complete(t, 0, (uint64_t)d[1] * d[3] + keys, &qkv) &&
        gal_type_holds(t, t->rows[qkv.rows].local_count == d[0], "its shape has another number of rows")) {
        gal_type_put_rows(t, 1, qkv, keys);
    }
}

/* The devices round which the keys of the instruction's rows go. */
static gal_group ring_of(const gal_typer *t)
{
    const bool laid = t->in->layout != 0 && t->in->layout < t->program->layout_count;
    return laid ? t->program->layout[t->in->layout].sequence_group : GAL_GROUP_NONE;
}

/* Queries of a chunk, and the ring that the shape means. */
static bool get_queries(gal_typer *t, uint32_t k, gal_typed *qkv)
{
    const uint32_t *d = t->shape->dims;
    return gal_type_get_complete(t, k, ((uint64_t)d[2] + 2 * (uint64_t)d[4]) * d[3], qkv) &&
           gal_type_holds(t, qkv->split == t->in->group, "its heads are split over other devices") &&
           gal_type_expect_layout(t, qkv->rows, d[0], d[1]) &&
           gal_type_holds(t, qkv->mirrored == ((d[5] & GAL_ATTENTION_ZIGZAG) != 0 ? ring_of(t) : GAL_GROUP_NONE),
                          "its halves are not those that its shape says") &&
           gal_type_holds(t, d[6] < d[7] && gal_type_size_of(t, ring_of(t)) == d[7],
                          "its chunks are not those of its layout");
}

static bool get_keys(gal_typer *t, uint32_t k, const gal_typed *queries)
{
    const uint32_t *d = t->shape->dims;
    gal_typed keys = {0};
    return get_any(t, k, &keys) &&
           gal_type_holds(t,
                          keys.rows == queries->rows && keys.split == queries->split &&
                              keys.mirrored == queries->mirrored && keys.features == 2 * (uint64_t)d[4] * d[3],
                          "keys of other rows or heads than its queries") &&
           gal_type_holds(
               t, keys.share_count == 0 && keys.turn == d[6] && keys.ring == (d[6] == 0 ? GAL_GROUP_NONE : ring_of(t)),
               "keys of another chunk than its step says");
}

/* What the steps add up: the first one writes it. */
static void add_step(gal_typer *t, uint32_t k, const gal_typed *queries, uint64_t features)
{
    const uint32_t step = t->shape->dims[6];
    gal_typed sum = *queries;
    if (step == 0) {
        if (!gal_type_holds(t, t->operand[k].access == GAL_WRITE, "the first step adds to what is there")) {
            return;
        }
    } else if (!get_any(t, k, &sum) ||
               !gal_type_holds(t, t->operand[k].access == GAL_UPDATE, "a later step does not add to what is there") ||
               !gal_type_holds(t,
                               sum.rows == queries->rows && sum.split == queries->split && sum.features == features &&
                                   sum.mirrored == queries->mirrored,
                               "adds values of different types") ||
               !gal_type_holds(
                   t, sum.turn == 0 && sum.ring == ring_of(t) && sum.share_first == 0 && sum.share_count == step,
                   "adds to a sum of other steps")) {
        return;
    }
    sum.ring = ring_of(t);
    sum.share_first = 0;
    sum.share_count = step + 1;
    settle(t, &sum);
    gal_type_put_rows(t, k, sum, features);
}

static void type_attention_step(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed qkv;
    if (get_queries(t, 0, &qkv) && get_keys(t, 1, &qkv)) {
        add_step(t, 2, &qkv, (uint64_t)d[2] * d[3]);
        add_step(t, 3, &qkv, d[2]);
    }
}

static void type_attention_step_backward(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed dctx;
    gal_typed qkv;
    gal_typed lse;
    if (!get_queries(t, 1, &qkv) || !gal_type_get_complete(t, 0, (uint64_t)d[2] * d[3], &dctx) ||
        !get_keys(t, 2, &qkv) || !gal_type_get_alike(t, 3, &dctx) || !gal_type_get_complete(t, 4, d[2], &lse) ||
        !gal_type_holds(t, dctx.rows == qkv.rows && lse.rows == qkv.rows, "operands with different rows") ||
        !gal_type_holds(t, dctx.mirrored == qkv.mirrored && lse.mirrored == qkv.mirrored,
                        "operands of different halves") ||
        !gal_type_holds(t, dctx.split == qkv.split && lse.split == qkv.split,
                        "operands whose heads are split differently")) {
        return;
    }
    add_step(t, 5, &qkv, (uint64_t)d[2] * d[3]);
    gal_typed part = qkv;
    part.ring = ring_of(t);
    part.turn = part.share_first = d[6];
    part.share_count = 1;
    settle(t, &part);
    gal_type_put_rows(t, 6, part, 2 * (uint64_t)d[4] * d[3]);
}

bool gal_type_add_part(gal_typer *t)
{
    gal_typed part;
    gal_typed sum;
    const gal_operand *o = &t->operand[0];
    const gal_stretch *at = gal_store_exact(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes);
    if (at == NULL || at->value.kind != GAL_VALUE_ROWS || at->value.ring == GAL_GROUP_NONE) {
        return false;
    }
    if (get_any(t, 0, &part) && get_any(t, 1, &sum) && gal_type_expect_elements(t, 0) &&
        gal_type_holds(t, t->operand[1].access == GAL_UPDATE, "a part that is not added") &&
        gal_type_holds(t,
                       sum.rows == part.rows && sum.split == part.split && sum.features == part.features &&
                           sum.mirrored == part.mirrored,
                       "adds values of different types") &&
        gal_type_holds(t, sum.ring == part.ring && sum.turn == part.turn, "adds gradients of other keys") &&
        gal_type_holds(
            t, part.share_count > 0 && sum.share_count > 0 && sum.share_first + sum.share_count == part.share_first,
            "adds a step that is not the next")) {
        sum.share_count += part.share_count;
        settle(t, &sum);
        gal_type_put_rows(t, 1, sum, sum.features);
    }
    return true;
}

static void type_join_gradients(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    const uint64_t queries = (uint64_t)d[1] * d[3], keys = 2 * (uint64_t)d[2] * d[3];
    gal_typed dq;
    gal_typed dkv;
    if (gal_type_get_complete(t, 0, queries, &dq) && gal_type_get_complete(t, 1, keys, &dkv) &&
        gal_type_holds(t, dq.rows == dkv.rows && t->rows[dq.rows].local_count == d[0],
                       "operands with different rows") &&
        gal_type_holds(t, dq.mirrored == dkv.mirrored, "operands of different halves") &&
        gal_type_holds(t, dq.split == dkv.split, "operands whose heads are split differently")) {
        gal_type_put_rows(t, 2, dq, queries + keys);
    }
}

static void type_narrow(gal_typer *t)
{
    gal_typed value;
    if (gal_type_get_kind(t, 0, GAL_VALUE_ROWS, &value) && gal_type_expect_elements(t, 0) &&
        gal_type_holds(t, (value.partial | value.max_partial) == GAL_GROUP_NONE, "reads a sum that is still partial")) {
        gal_type_put_rows(t, 1, value, value.features);
    }
}

const gal_typing_rule gal_type_ring_rules[GAL_OP_COUNT] = {
    [GAL_OP_TAKE_KEYS] = {type_take_keys, 2, 2},
    [GAL_OP_ATTENTION_STEP] = {type_attention_step, 4, 4},
    [GAL_OP_ATTENTION_STEP_BACKWARD] = {type_attention_step_backward, 7, 7},
    [GAL_OP_JOIN_GRADIENTS] = {type_join_gradients, 3, 3},
    [GAL_OP_NARROW] = {type_narrow, 2, 2},
    [GAL_OP_ROTATE] = {type_rotate, 2, 2},
    [GAL_OP_MIRROR] = {type_mirror, 2, 2},
};
