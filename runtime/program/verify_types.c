/* Types of values: a rule per operator, over every fragment of every stage once (and backward once as the first, once
 * as the last microbatch).
 *
 * Proves, from the semantics of the operators and the initial split of the weights alone: which devices' values have
 * still to be summed (rows contracted over the atoms that own them, features over the atoms that split them, copies of
 * a tied table over both ends), and that exactly these sums are taken, once each, before anything that is not linear
 * reads them; which rows and features each device holds, through gathers, scatters, exchanges, strided copies and
 * sends; that gathers run over devices that differ and slices over devices that agree; that every unit's gradient is
 * complete, is that of the unit's tensors, enters the norm once with the right number of replicas, and updates the
 * right range of the weights, which are whole again afterwards.
 * Does not prove: that a kernel is given the activation that the model means among equals in rows and features; nor
 * anything about time (clocks, queues). The sets of gal_unit.sync_group are not read. */
#include "runtime/program/verify.h"
#include "runtime/program/verify_internal.h"
#include "runtime/program/verify_values.h"

#include <stdlib.h>
#include <string.h>

enum { DIRECTIONS = 2 };

/* Where a tensor is read: in the fragments of a step, of an evaluation; by a GEMM as stored or transposed. */
typedef enum tensor_use {
    USE_STEP = 1,
    USE_EVALUATION = 2,
    USE_STEP_PLAIN = 4,
    USE_STEP_TRANSPOSED = 8,
    USE_EVALUATION_PLAIN = 16,
    USE_EVALUATION_TRANSPOSED = 32
} tensor_use;

typedef struct gal_type_stage {
    const gal_program *program;
    gal_store store;
    gal_typed sent[DIRECTIONS]; /* to the previous, to the next stage */
    bool has_sent[DIRECTIONS];
    uint64_t sent_bytes[DIRECTIONS];
    gal_typed tied;             /* what was summed with the other end, and its pieces */
    bool has_tied;
    uint32_t *first_parameter;  /* of each unit, and one past the last: parameters of a unit lie together */
    uint8_t *norm_count, *update_count; /* of each unit */
    uint8_t *uses;              /* of each parameter: tensor_use bits */
} type_stage;

typedef struct typer {
    type_stage *stage;
    uint32_t stage_count;
    type_stage *now;
    const gal_program *program;
    gal_rows *rows; /* interned */
    uint32_t rows_count, rows_capacity;
    bool first;     /* microbatch 0: accumulate writes */
    bool evaluates;
    const gal_instruction *in;
    const gal_shape *shape;
    const gal_operand *operand;
    const char *rule; /* broken, or NULL */
} typer;

static bool broken(typer *t, const char *rule)
{
    t->rule = t->rule == NULL ? rule : t->rule;
    return false;
}

static bool holds(typer *t, bool condition, const char *rule)
{
    return condition || broken(t, rule);
}

static uint64_t item_bytes(const typer *t)
{
    return gal_dtype_bytes(t->shape->dtype);
}

static uint32_t size_of(const typer *t, gal_group group)
{
    return gal_group_size(&t->program->atoms, group);
}

/* ---- reading and writing operands ---- */

static uint32_t intern(typer *t, const gal_rows *rows)
{
    for (uint32_t i = 0; i < t->rows_count; i++) {
        if (gal_rows_equal(&t->rows[i], rows)) {
            return i;
        }
    }
    if (t->rows_count == t->rows_capacity) {
        uint32_t wanted = t->rows_capacity == 0 ? 32 : 2 * t->rows_capacity;
        gal_rows *grown = realloc(t->rows, wanted * sizeof *grown);
        if (grown == NULL) {
            broken(t, "out of memory");
            return 0;
        }
        t->rows = grown;
        t->rows_capacity = wanted;
    }
    t->rows[t->rows_count] = *rows;
    return t->rows_count++;
}

static bool get(typer *t, uint32_t k, gal_typed *out)
{
    const gal_operand *o = &t->operand[k];
    const gal_stretch *found = gal_store_exact(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes);
    if (o->view != GAL_GROUP_NONE || found == NULL) {
        return broken(t, "reads what no instruction wrote as a whole");
    }
    *out = found->value;
    return true;
}

static bool get_kind(typer *t, uint32_t k, gal_value_kind kind, gal_typed *out)
{
    return get(t, k, out) && holds(t, out->kind == kind, "an operand of the wrong kind");
}

/* Activations of `features` per row on a device; partial ones allowed. */
static bool get_rows(typer *t, uint32_t k, uint64_t features, gal_typed *out)
{
    return get_kind(t, k, GAL_VALUE_ROWS, out) &&
           holds(t, out->features == features, "an operand with another number of features") &&
           holds(t, t->rows[out->rows].local_count * features * item_bytes(t) == t->operand[k].bytes,
                 "an operand with another number of rows");
}

static bool get_complete(typer *t, uint32_t k, uint64_t features, gal_typed *out)
{
    return get_rows(t, k, features, out) &&
           holds(t, (out->partial | out->max_partial) == GAL_GROUP_NONE, "reads a sum that is still partial");
}

/* The same as another operand in rows and split. */
static bool get_alike(typer *t, uint32_t k, const gal_typed *other)
{
    gal_typed value;
    return get_complete(t, k, other->features, &value) &&
           holds(t, value.rows == other->rows, "operands with different rows") &&
           holds(t, value.split == other->split, "operands whose features are split differently");
}

static bool writes(const typer *t, const gal_operand *o)
{
    return o->access == GAL_WRITE || (o->access == GAL_ACCUMULATE && t->first);
}

static bool same_value(const gal_typed *a, const gal_typed *b)
{
    return a->kind == b->kind && a->rows == b->rows && a->features == b->features && a->split == b->split &&
           a->partial == b->partial && a->max_partial == b->max_partial && a->m == b->m && a->n == b->n &&
           a->split_m == b->split_m && a->split_n == b->split_n && a->range == b->range && a->in_place == b->in_place;
}

/* Stores an output; where the operand adds to what is there, that must be of the same type. */
static bool put(typer *t, uint32_t k, const gal_typed *value)
{
    const gal_operand *o = &t->operand[k];
    if (o->view != GAL_GROUP_NONE || o->access == GAL_READ) {
        return broken(t, "an output in a place that is none");
    }
    if (!writes(t, o)) {
        gal_typed old;
        if (!get(t, k, &old)) {
            return false;
        }
        if (old.kind != GAL_VALUE_ZERO && !same_value(&old, value)) {
            return broken(t, "adds values of different types");
        }
        if (value->kind == GAL_VALUE_GRADIENT) {
            return true; /* keeps its pieces, which are compared by the update */
        }
    }
    gal_store_put(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes, value);
    return true;
}

/* An output of activations. */
static bool put_rows(typer *t, uint32_t k, gal_typed value, uint64_t features)
{
    value.kind = GAL_VALUE_ROWS;
    value.features = features;
    if (!holds(t, t->rows[value.rows].local_count * features * item_bytes(t) == t->operand[k].bytes,
               "an output with another number of rows")) {
        return false;
    }
    const gal_operand *o = &t->operand[k];
    if (!holds(t, o->view == GAL_GROUP_NONE && o->access != GAL_READ, "an output in a place that is none")) {
        return false;
    }
    gal_store_put(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes, &value);
    return true;
}

static bool layout_rows(typer *t, uint64_t local_positions, uint32_t *out)
{
    gal_rows rows;
    if (t->in->layout == 0 || t->in->layout >= t->program->layout_count) {
        return broken(t, "has no layout");
    }
    const gal_layout *layout = &t->program->layout[t->in->layout];
    if (!gal_rows_of_layout(layout, &t->program->atoms, local_positions, &rows)) {
        return broken(t, "has a layout that is none");
    }
    *out = intern(t, &rows);
    return true;
}

/* The rows of the instruction's layout, with the number of samples that its shape says. */
static bool expect_layout(typer *t, uint32_t rows, uint64_t samples, uint64_t local_positions)
{
    uint32_t expected;
    return layout_rows(t, local_positions, &expected) &&
           holds(t, expected == rows, "its rows are not those of its layout") &&
           holds(t, t->rows[rows].local_count == samples * local_positions, "its shape has another number of rows");
}

/* ---- weights ---- */

static uint64_t local_elements(const typer *t, const gal_parameter *p)
{
    return p->outer * (p->split / size_of(t, t->program->unit[p->unit].split_group)) * p->inner;
}

/* How a matrix of n columns, stored as the tensor's part of a device, is split: by rows or by columns. */
static void split_of(const typer *t, const gal_parameter *p, uint64_t elements, uint64_t n, gal_group *by_rows,
                     gal_group *by_columns)
{
    gal_group split = t->program->unit[p->unit].split_group;
    bool rows = elements > n && p->inner % n == 0;
    *by_rows = rows ? split : GAL_GROUP_NONE;
    *by_columns = rows ? GAL_GROUP_NONE : split;
}

static uint8_t use_of(const typer *t, uint32_t k)
{
    bool matrix = t->in->op == GAL_OP_GEMM && k == 1;
    bool transposed = (t->shape->dims[3] & GAL_GEMM_TRANSPOSE_B) != 0;
    uint32_t step = USE_STEP | (matrix ? (transposed ? USE_STEP_TRANSPOSED : USE_STEP_PLAIN) : 0);
    uint32_t evaluation =
        USE_EVALUATION | (matrix ? (transposed ? USE_EVALUATION_TRANSPOSED : USE_EVALUATION_PLAIN) : 0);
    return (uint8_t)(t->evaluates ? evaluation : step);
}

/* The tensor that an operand reads, as a matrix of m by n on a device. */
static bool get_weight(typer *t, uint32_t k, uint64_t m, uint64_t n, gal_group *by_rows, gal_group *by_columns)
{
    const gal_operand *o = &t->operand[k];
    const gal_stretch *at =
        gal_store_around(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes);
    if (o->view != GAL_GROUP_NONE || at == NULL || at->value.kind != GAL_VALUE_WEIGHT) {
        return broken(t, "reads weights where there are none");
    }
    if (at->value.in_place || at->value.range != GAL_GROUP_NONE) {
        return broken(t, "reads weights that are not gathered");
    }
    uint64_t offset = o->offset_bytes - at->begin;
    for (uint32_t i = t->now->first_parameter[at->value.unit]; i < t->now->first_parameter[at->value.unit + 1]; i++) {
        const gal_parameter *p = &t->program->parameter[i];
        uint64_t elements = local_elements(t, p);
        if (p->offset_elements * item_bytes(t) == offset && elements * item_bytes(t) == o->bytes && elements == m * n) {
            split_of(t, p, elements, n, by_rows, by_columns);
            t->now->uses[i] |= use_of(t, k);
            return true;
        }
    }
    return broken(t, "reads weights that are no tensor of this shape");
}

static bool get_whole_vector(typer *t, uint32_t k, uint64_t n)
{
    gal_group by_rows;
    gal_group by_columns;
    return get_weight(t, k, 1, n, &by_rows, &by_columns) &&
           holds(t, by_columns == GAL_GROUP_NONE, "reads a split vector as a whole one");
}

static bool put_piece(typer *t, uint32_t k, uint64_t m, uint64_t n, gal_group split_m, gal_group split_n,
                      gal_group partial)
{
    gal_typed piece = {.kind = GAL_VALUE_PIECE, .m = m, .n = n, .split_m = split_m, .split_n = split_n,
                       .partial = partial};
    return holds(t, ((split_m | split_n) & partial) == 0 && (split_m & split_n) == 0,
                 "a gradient split and summed over the same devices") &&
           holds(t, m * n * item_bytes(t) == t->operand[k].bytes, "a gradient of another size") && put(t, k, &piece);
}

static gal_group owners_of(const typer *t, const gal_typed *value)
{
    return t->rows[value->rows].owners;
}

/* ---- kernels ---- */

static void type_load(typer *t)
{
    gal_typed tokens = {.kind = GAL_VALUE_TOKENS, .features = t->in->op};
    if (layout_rows(t, t->shape->dims[1], &tokens.rows) &&
        expect_layout(t, tokens.rows, t->shape->dims[0], t->shape->dims[1])) {
        put(t, 0, &tokens);
    }
}

static bool get_tokens(typer *t, uint32_t k, gal_op loaded_by, gal_typed *out)
{
    return get_kind(t, k, GAL_VALUE_TOKENS, out) &&
           holds(t, out->features == (uint64_t)loaded_by, "reads tokens for targets or targets for tokens") &&
           expect_layout(t, out->rows, t->shape->dims[0], t->shape->dims[1]);
}

static void type_embed(typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed tokens;
    gal_group by_rows;
    gal_group by_columns;
    if (get_tokens(t, 0, GAL_OP_LOAD_TOKENS, &tokens) && get_weight(t, 1, d[3], d[2], &by_rows, &by_columns) &&
        holds(t, by_columns == GAL_GROUP_NONE && by_rows == t->in->group, "its table is split over other devices") &&
        holds(t, (owners_of(t, &tokens) & by_rows) == 0, "looks up rows that other owners of the table do not have")) {
        put_rows(t, 2, (gal_typed){.rows = tokens.rows, .partial = by_rows}, d[2]);
    }
}

static void type_embed_backward(typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed tokens;
    gal_typed de;
    if (get_tokens(t, 0, GAL_OP_LOAD_TOKENS, &tokens) && get_complete(t, 1, d[2], &de) &&
        holds(t, de.split == GAL_GROUP_NONE && de.rows == tokens.rows, "operands with different rows")) {
        put_piece(t, 2, d[3], d[2], t->in->group, GAL_GROUP_NONE, owners_of(t, &de));
    }
}

static void type_position(typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_group by_rows;
    gal_group by_columns;
    gal_typed e;
    if (get_complete(t, 0, d[2], &e) && holds(t, e.split == GAL_GROUP_NONE, "reads split features as whole ones") &&
        expect_layout(t, e.rows, d[0], d[1]) && get_weight(t, 1, d[3], d[2], &by_rows, &by_columns) &&
        holds(t, (by_rows | by_columns) == GAL_GROUP_NONE, "reads a split table as a whole one")) {
        put_rows(t, 2, e, d[2]);
    }
}

static void type_position_backward(typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed dy;
    if (get_complete(t, 0, d[2], &dy) && holds(t, dy.split == GAL_GROUP_NONE, "reads split features as whole ones") &&
        expect_layout(t, dy.rows, d[0], d[1]) && put_rows(t, 1, dy, d[2])) {
        put_piece(t, 2, d[3], d[2], GAL_GROUP_NONE, GAL_GROUP_NONE, owners_of(t, &dy));
    }
}

static void type_layer_norm(typer *t)
{
    uint64_t h = t->shape->dims[1];
    gal_typed x;
    if (get_complete(t, 0, h, &x) && holds(t, x.split == GAL_GROUP_NONE, "reads split features as whole ones") &&
        get_whole_vector(t, 1, h) && get_whole_vector(t, 2, h) && put_rows(t, 3, x, h)) {
        put_rows(t, 4, x, 2);
    }
}

static void type_layer_norm_backward(typer *t)
{
    uint64_t h = t->shape->dims[1];
    gal_typed dy;
    gal_typed stats;
    if (get_complete(t, 0, h, &dy) && holds(t, dy.split == GAL_GROUP_NONE, "reads split features as whole ones") &&
        get_alike(t, 1, &dy) && get_whole_vector(t, 2, h) && get_complete(t, 3, 2, &stats) &&
        holds(t, stats.rows == dy.rows, "operands with different rows") &&
        (t->shape->dims[2] == 0 || get_alike(t, 7, &dy)) && put_rows(t, 4, dy, h) &&
        put_piece(t, 5, 1, h, GAL_GROUP_NONE, GAL_GROUP_NONE, owners_of(t, &dy))) {
        put_piece(t, 6, 1, h, GAL_GROUP_NONE, GAL_GROUP_NONE, owners_of(t, &dy));
    }
}

/* c[features of a][features of b] = sum over rows: partial over the devices that own the rows. */
static void type_gemm_over_rows(typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed a;
    gal_typed b;
    if (holds(t, d[3] == GAL_GEMM_TRANSPOSE_A, "contracts rows in a form that has no rule") &&
        get_complete(t, 0, d[0], &a) && get_complete(t, 1, d[1], &b) &&
        holds(t, a.rows == b.rows, "operands with different rows") &&
        holds(t, t->rows[a.rows].local_count == d[2], "its shape has another number of rows")) {
        put_piece(t, 2, d[0], d[1], a.split, b.split, owners_of(t, &a));
    }
}

/* c = a W: partial over the devices that split what is contracted. */
static void type_gemm(typer *t)
{
    const uint32_t *d = t->shape->dims;
    uint64_t n = d[1];
    uint64_t k = d[2];
    gal_typed a;
    gal_group rows_split;
    gal_group columns_split;
    if ((d[3] & GAL_GEMM_TRANSPOSE_A) != 0) {
        type_gemm_over_rows(t);
        return;
    }
    bool transposed = (d[3] & GAL_GEMM_TRANSPOSE_B) != 0;
    if (!get_complete(t, 0, k, &a) ||
        !holds(t, t->rows[a.rows].local_count == d[0], "its shape has another number of rows") ||
        !get_weight(t, 1, transposed ? n : k, transposed ? k : n, &rows_split, &columns_split)) {
        return;
    }
    gal_group contracted = transposed ? columns_split : rows_split;
    gal_group kept = transposed ? rows_split : columns_split;
    if (!holds(t, a.split == contracted, "contracts features that are split differently") ||
        !holds(t, (owners_of(t, &a) & (contracted | kept)) == 0, "splits features over devices that own rows")) {
        return;
    }
    if ((d[3] & GAL_GEMM_BIAS) != 0) {
        gal_group bias_split;
        if (!holds(t, contracted == GAL_GROUP_NONE, "adds a bias to a partial sum") ||
            !get_weight(t, 3, 1, n, &rows_split, &bias_split) ||
            !holds(t, bias_split == kept, "a bias that is split differently")) {
            return;
        }
    }
    put_rows(t, 2, (gal_typed){.rows = a.rows, .split = kept, .partial = contracted}, n);
}

static void type_bias_gradient(typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed dy;
    if (get_complete(t, 0, d[1], &dy) &&
        holds(t, t->rows[dy.rows].local_count == d[0], "its shape has another number of rows")) {
        put_piece(t, 1, 1, d[1], GAL_GROUP_NONE, dy.split, owners_of(t, &dy));
    }
}

static bool expect_heads(typer *t, const gal_typed *value)
{
    return holds(t, value->split == t->in->group, "its heads are split over other devices") &&
           expect_layout(t, value->rows, t->shape->dims[0], t->shape->dims[1]);
}

static void type_attention(typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed qkv;
    if (get_complete(t, 0, (uint64_t)3 * d[2] * d[3], &qkv) && expect_heads(t, &qkv) &&
        put_rows(t, 1, qkv, (uint64_t)d[2] * d[3])) {
        put_rows(t, 2, qkv, d[2]);
    }
}

static void type_attention_backward(typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed dctx;
    gal_typed qkv;
    gal_typed lse;
    if (get_complete(t, 0, (uint64_t)d[2] * d[3], &dctx) && expect_heads(t, &dctx) &&
        get_complete(t, 1, (uint64_t)3 * d[2] * d[3], &qkv) && get_alike(t, 2, &dctx) &&
        get_complete(t, 3, d[2], &lse) &&
        holds(t, qkv.rows == dctx.rows && lse.rows == dctx.rows, "operands with different rows") &&
        holds(t, qkv.split == dctx.split && lse.split == dctx.split, "operands whose heads are split differently")) {
        put_rows(t, 4, dctx, (uint64_t)3 * d[2] * d[3]);
    }
}

/* Number of features of an elementwise kernel's first operand, whatever they are. */
static uint64_t features_of(typer *t, uint32_t k)
{
    gal_typed value;
    return get_kind(t, k, GAL_VALUE_ROWS, &value) ? value.features : 0;
}

static bool expect_elements(typer *t, uint32_t k)
{
    return holds(t, t->shape->dims[0] * item_bytes(t) == t->operand[k].bytes, "its shape has another size");
}

static void type_activation(typer *t)
{
    gal_typed u;
    if (get_complete(t, 0, features_of(t, 0), &u) && expect_elements(t, 0)) {
        put_rows(t, 1, u, u.features);
    }
}

static void type_activation_backward(typer *t)
{
    gal_typed dg;
    if (get_complete(t, 0, features_of(t, 0), &dg) && expect_elements(t, 0) && get_alike(t, 1, &dg)) {
        put_rows(t, 2, dg, dg.features);
    }
}

static void type_residual(typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed x;
    if (get_complete(t, 0, d[2], &x) && holds(t, x.split == GAL_GROUP_NONE, "reads split features as whole ones") &&
        expect_layout(t, x.rows, d[0], d[1]) && get_alike(t, 1, &x) && get_whole_vector(t, 2, d[2])) {
        put_rows(t, 3, x, d[2]);
    }
}

static void type_residual_backward(typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed dy;
    if (get_complete(t, 0, d[2], &dy) && holds(t, dy.split == GAL_GROUP_NONE, "reads split features as whole ones") &&
        expect_layout(t, dy.rows, d[0], d[1])) {
        put_rows(t, 1, dy, d[2]);
    }
}

static bool get_logits(typer *t, uint32_t k, uint64_t features, gal_typed *out)
{
    return get_complete(t, k, features, out) &&
           holds(t, out->split == t->in->group, "its vocabulary is split over other devices");
}

static void type_cross_entropy_max(typer *t)
{
    gal_typed logits;
    if (get_logits(t, 0, t->shape->dims[1], &logits)) {
        put_rows(t, 1, (gal_typed){.rows = logits.rows, .max_partial = logits.split}, 1);
    }
}

/* Row values that go with logits. */
static bool get_row_values(typer *t, uint32_t k, uint64_t features, const gal_typed *logits)
{
    gal_typed value;
    return get_complete(t, k, features, &value) &&
           holds(t, value.rows == logits->rows && value.split == GAL_GROUP_NONE, "operands with different rows");
}

static void type_cross_entropy_sum(typer *t)
{
    gal_typed logits;
    gal_typed targets;
    if (get_logits(t, 0, t->shape->dims[2], &logits) && get_row_values(t, 1, 1, &logits) &&
        get_tokens(t, 2, GAL_OP_LOAD_TARGETS, &targets) &&
        holds(t, targets.rows == logits.rows, "operands with different rows")) {
        put_rows(t, 3, (gal_typed){.rows = logits.rows, .partial = logits.split}, 2);
    }
}

static void type_cross_entropy_loss(typer *t)
{
    gal_typed sums;
    if (get_complete(t, 0, 2, &sums) &&
        holds(t, t->rows[sums.rows].local_count == t->shape->dims[0], "its shape has another number of rows")) {
        put(t, 1, &(gal_typed){.kind = GAL_VALUE_LOSS, .partial = owners_of(t, &sums)});
    }
}

static void type_cross_entropy_backward(typer *t)
{
    gal_typed logits;
    gal_typed targets;
    if (get_logits(t, 0, t->shape->dims[2], &logits) && get_row_values(t, 1, 1, &logits) &&
        get_row_values(t, 2, 2, &logits) && get_tokens(t, 3, GAL_OP_LOAD_TARGETS, &targets) &&
        holds(t, targets.rows == logits.rows, "operands with different rows")) {
        put_rows(t, 0, logits, logits.features);
    }
}

static void type_permute(typer *t)
{
    const gal_operand *o = &t->operand[0];
    uint64_t row_bytes = t->shape->dims[0] * item_bytes(t);
    const gal_stretch *source = gal_store_around(&t->now->store, o->buffer, o->offset_bytes,
                                                 o->offset_bytes + gal_operand_span(t->program, o));
    if (source == NULL || source->begin != o->offset_bytes || source->value.kind != GAL_VALUE_ROWS ||
        source->value.features != t->shape->dims[0] || o->view_stride_bytes % row_bytes != 0) {
        broken(t, "reads rows where there are none");
        return;
    }
    gal_typed value = source->value;
    gal_rows to;
    const char *rule = gal_rows_permute(&t->rows[value.rows], &t->program->atoms, t->shape->dims, o->view,
                                        o->view_stride_bytes / row_bytes, &to);
    if (holds(t, rule == NULL, rule) &&
        holds(t, ((value.split | value.partial) & o->view) == 0, "slices over devices that hold different values")) {
        value.rows = intern(t, &to);
        put_rows(t, 1, value, value.features);
    }
}

static void type_fill(typer *t)
{
    put(t, 0, &(gal_typed){.kind = GAL_VALUE_ZERO});
}

static void type_add(typer *t)
{
    gal_typed source;
    if (get(t, 0, &source) && expect_elements(t, 0)) {
        put(t, 1, &source);
    }
}

/* ---- update ---- */

/* The unit whose buffer this is, by the field that `of` says. */
typedef enum unit_buffer { UNIT_WEIGHT, UNIT_FIRST, UNIT_SECOND, UNIT_GRADIENT } unit_buffer;

static uint32_t buffer_of(const gal_unit *unit, unit_buffer which)
{
    const uint32_t buffers[] = {unit->weight, unit->first_moment, unit->second_moment, unit->gradient};
    return buffers[which];
}

static bool find_unit(typer *t, uint32_t buffer, unit_buffer which, uint32_t *out)
{
    for (uint32_t u = 0; u < t->program->unit_count; u++) {
        if (buffer_of(&t->program->unit[u], which) == buffer) {
            *out = u;
            return true;
        }
    }
    return broken(t, "an operand that belongs to no unit");
}

/* The range of a unit that an operand means: its view of a whole, or what the buffer holds. */
static bool range_of(typer *t, uint32_t k, const gal_typed *value, uint64_t elements, gal_group *out)
{
    const gal_operand *o = &t->operand[k];
    uint64_t bytes = elements * item_bytes(t);
    if (!holds(t, o->offset_bytes == 0 && o->bytes == bytes, "reads another range than its shape says")) {
        return false;
    }
    *out = o->view == GAL_GROUP_NONE ? value->range : o->view;
    if (o->view == GAL_GROUP_NONE) {
        return holds(t, !value->in_place, "reads all of a unit of which only a range is right");
    }
    return holds(t, o->view_stride_bytes == bytes, "a view that is no range of ZeRO") &&
           holds(t, value->range == (value->in_place ? o->view : GAL_GROUP_NONE), "a view over other devices");
}

static uint64_t buffer_bytes(const typer *t, uint32_t k)
{
    const gal_operand *o = &t->operand[k];
    return o->view == GAL_GROUP_NONE ? o->bytes : o->bytes * size_of(t, o->view);
}

/* The complete gradient of a unit, range by range. */
static bool get_gradient(typer *t, uint32_t k, uint64_t elements, gal_typed *out, gal_group *range)
{
    const char *rule = gal_store_gradient(&t->now->store, t->operand[k].buffer, buffer_bytes(t, k), out);
    return holds(t, rule == NULL, rule) && range_of(t, k, out, elements, range);
}

static bool pieces_are_parameters(typer *t, const gal_typed *gradient, uint32_t unit)
{
    uint32_t first = t->now->first_parameter[unit];
    bool same = gradient->piece_count == t->now->first_parameter[unit + 1] - first;
    for (uint32_t i = 0; same && i < gradient->piece_count; i++) {
        const gal_piece *piece = &t->now->store.piece[gradient->first_piece + i];
        const gal_parameter *p = &t->program->parameter[first + i];
        gal_group by_rows;
        gal_group by_columns;
        split_of(t, p, local_elements(t, p), piece->n, &by_rows, &by_columns);
        same = piece->offset_bytes == p->offset_elements * item_bytes(t) &&
               piece->bytes == local_elements(t, p) * item_bytes(t) && piece->split_m == by_rows &&
               piece->split_n == by_columns;
    }
    return holds(t, same, "the gradient is not made of the unit's tensors");
}

static gal_group devices_of_pieces(const typer *t, const gal_typed *gradient)
{
    gal_group all = GAL_GROUP_NONE;
    for (uint32_t i = 0; i < gradient->piece_count; i++) {
        const gal_piece *piece = &t->now->store.piece[gradient->first_piece + i];
        all |= piece->split_m | piece->split_n;
    }
    return all;
}

static void type_norm_start(typer *t)
{
    uint32_t out = t->in->operand_count - 1u;
    gal_typed loss;
    if (out > 0) {
        if (!get_kind(t, 0, GAL_VALUE_LOSS, &loss) ||
            !holds(t, t->shape->dims[0] * size_of(t, loss.partial) == t->program->device_count,
                   "its replicas are not the devices that hold the same loss")) {
            return;
        }
    }
    put(t, out, &(gal_typed){.kind = GAL_VALUE_NORM, .partial = GAL_PARTIAL_WORLD});
}

static void type_sum_squares(typer *t)
{
    gal_typed gradient;
    gal_typed norm;
    gal_group range;
    uint32_t unit;
    if (!find_unit(t, t->operand[0].buffer, UNIT_GRADIENT, &unit) ||
        !get_gradient(t, 0, t->shape->dims[0], &gradient, &range) ||
        !holds(t, gradient.partial == GAL_GROUP_NONE, "reads a gradient that is still a partial sum") ||
        !get_kind(t, 1, GAL_VALUE_NORM, &norm) ||
        !holds(t, norm.partial == GAL_PARTIAL_WORLD, "adds to a norm that is already summed")) {
        return;
    }
    uint64_t copies = t->program->unit[unit].tied ? 2 : 1;
    uint64_t replicas = t->program->device_count / size_of(t, range | devices_of_pieces(t, &gradient)) * copies;
    if (holds(t, t->shape->dims[1] == replicas, "its replicas are not the devices that hold the same gradient") &&
        holds(t, t->now->norm_count[unit] == 0, "a gradient enters the norm twice")) {
        t->now->norm_count[unit]++;
    }
}

static bool get_moment(typer *t, uint32_t k, uint32_t unit, unit_buffer which, gal_group range)
{
    gal_typed moment;
    return holds(t, t->operand[k].buffer == buffer_of(&t->program->unit[unit], which), "a moment of another unit") &&
           get_kind(t, k, GAL_VALUE_MOMENT, &moment) &&
           holds(t, moment.range == range && t->operand[k].bytes == t->shape->dims[0] * item_bytes(t),
                 "a moment of another range");
}

static void type_adam(typer *t)
{
    uint64_t elements = t->shape->dims[0];
    uint32_t unit;
    gal_typed gradient;
    gal_typed norm;
    gal_group range;
    gal_group weight_range;
    if (!find_unit(t, t->operand[0].buffer, UNIT_WEIGHT, &unit)) {
        return;
    }
    gal_stretch *weight = gal_store_exact(&t->now->store, t->operand[0].buffer, 0, buffer_bytes(t, 0));
    if (!holds(t, weight != NULL && weight->value.kind == GAL_VALUE_WEIGHT, "updates no weights") ||
        !range_of(t, 0, &weight->value, elements, &weight_range) ||
        !holds(t, t->operand[1].buffer == t->program->unit[unit].gradient, "the gradient of another unit") ||
        !get_gradient(t, 1, elements, &gradient, &range) ||
        !holds(t, gradient.partial == GAL_GROUP_NONE, "reads a gradient that is still a partial sum") ||
        !holds(t, range == weight_range && range == t->in->group, "weights and gradients of different ranges") ||
        !get_moment(t, 2, unit, UNIT_FIRST, range) || !get_moment(t, 3, unit, UNIT_SECOND, range) ||
        !get_kind(t, 4, GAL_VALUE_NORM, &norm) ||
        !holds(t, norm.partial == GAL_GROUP_NONE, "reads a norm that is not yet summed") ||
        !holds(t, t->shape->dims[1] == t->program->unit[unit].decay_elements, "decays other elements") ||
        !pieces_are_parameters(t, &gradient, unit) ||
        !holds(t, t->now->update_count[unit] == 0, "updates a unit twice")) {
        return;
    }
    t->now->update_count[unit]++;
    weight->value.in_place = t->operand[0].view != GAL_GROUP_NONE;
    weight->value.range = range;
}

/* ---- collectives ---- */

static gal_group partial_bits(gal_group group)
{
    if ((group & GAL_GROUP_RELATION) == 0) {
        return group;
    }
    return group == GAL_GROUP_TIED ? GAL_PARTIAL_TIED : group == GAL_GROUP_WORLD ? GAL_PARTIAL_WORLD : GAL_GROUP_NONE;
}

static bool take_off(typer *t, gal_group *partial, gal_group bits)
{
    if (!holds(t, bits != GAL_GROUP_NONE && (bits & ~*partial) == 0, "sums over devices whose values are no parts")) {
        return false;
    }
    *partial &= ~bits;
    return true;
}

static bool same_pieces(const gal_store *a, const gal_typed *x, const gal_store *b, const gal_typed *y)
{
    return x->piece_count == y->piece_count && x->range == y->range && x->partial == y->partial &&
           memcmp(a->piece + x->first_piece, b->piece + y->first_piece, x->piece_count * sizeof *a->piece) == 0;
}

/* Both ends must sum the same thing; the second one to come compares. */
static bool meet_other_end(typer *t, const gal_typed *gradient)
{
    type_stage *other = t->now == &t->stage[0] ? &t->stage[t->stage_count - 1] : &t->stage[0];
    t->now->tied = *gradient;
    t->now->has_tied = true;
    return !other->has_tied ||
           holds(t, same_pieces(&t->now->store, gradient, &other->store, &other->tied),
                 "the copies of the tied table have different forms");
}

static void reduce_gradient(typer *t, gal_group bits)
{
    gal_typed value;
    gal_group range;
    if (!get_gradient(t, 0, t->shape->dims[0], &value, &range) ||
        (bits == GAL_PARTIAL_TIED && !meet_other_end(t, &value)) || !take_off(t, &value.partial, bits)) {
        return;
    }
    gal_store_put(&t->now->store, t->operand[0].buffer, 0, buffer_bytes(t, 0), &value);
}

static void type_all_reduce(typer *t)
{
    const gal_operand *o = &t->operand[0];
    gal_group bits = partial_bits(t->in->group);
    gal_stretch *at = gal_store_exact(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes);
    bool is_maximum = t->shape->dims[1] == GAL_REDUCE_MAX;
    if (!expect_elements(t, 0) || !holds(t, o->access == GAL_UPDATE, "must update its operand")) {
        return;
    }
    if (at == NULL || at->value.kind == GAL_VALUE_GRADIENT || at->value.kind == GAL_VALUE_PIECE) {
        if (holds(t, !is_maximum, "takes the maximum of a sum")) {
            reduce_gradient(t, bits);
        }
    } else if (at->value.kind == GAL_VALUE_ROWS || at->value.kind == GAL_VALUE_NORM) {
        if (is_maximum) {
            take_off(t, &at->value.max_partial, bits);
        } else if (holds(t, at->value.max_partial == GAL_GROUP_NONE, "sums maxima")) {
            take_off(t, &at->value.partial, bits);
        }
    } else {
        broken(t, "sums values that are no parts");
    }
}

/* Elements of one member's chunk, given the chunk and the whole. */
static bool expect_chunks(typer *t, uint64_t chunk_bytes, uint64_t whole_bytes)
{
    return holds(t, t->shape->dims[0] * item_bytes(t) == chunk_bytes, "its shape has another size") &&
           holds(t, chunk_bytes * size_of(t, t->in->group) == whole_bytes, "the chunks are not the whole");
}

static void gather_rows(typer *t, gal_typed value)
{
    gal_rows to;
    const char *rule = gal_rows_gather(&t->rows[value.rows], &t->program->atoms, t->in->group, &to);
    if (holds(t, rule == NULL, rule)) {
        value.rows = intern(t, &to);
        put_rows(t, 1, value, value.features);
    }
}

static void type_all_gather(typer *t)
{
    gal_typed value;
    bool in_place = t->shape->dims[1] != 0;
    uint64_t whole = t->operand[in_place ? 0 : 1].bytes;
    uint64_t chunk = in_place ? whole / size_of(t, t->in->group) : t->operand[0].bytes;
    if (!get(t, 0, &value) || !expect_chunks(t, chunk, whole)) {
        return;
    }
    if (value.kind == GAL_VALUE_ROWS && !in_place) {
        gather_rows(t, value);
        return;
    }
    if (!holds(t, value.kind == GAL_VALUE_WEIGHT && value.in_place == in_place && value.range == t->in->group,
               "gathers what is not cut over these devices")) {
        return;
    }
    const gal_operand *o = &t->operand[in_place ? 0 : 1];
    value.in_place = false;
    value.range = GAL_GROUP_NONE;
    gal_store_put(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes, &value);
}

static void scatter_rows(typer *t, gal_typed value)
{
    gal_rows to;
    const char *rule = gal_rows_scatter(&t->rows[value.rows], &t->program->atoms, t->in->group, &to);
    if (holds(t, rule == NULL, rule) && take_off(t, &value.partial, t->in->group)) {
        value.rows = intern(t, &to);
        put_rows(t, 1, value, value.features);
    }
}

static void type_reduce_scatter(typer *t)
{
    bool in_place = t->shape->dims[1] != 0;
    const gal_operand *from = &t->operand[0];
    const gal_operand *to = &t->operand[in_place ? 0 : 1];
    uint64_t chunk = in_place ? from->bytes / size_of(t, t->in->group) : to->bytes;
    gal_typed value;
    if (!expect_chunks(t, chunk, from->bytes)) {
        return;
    }
    gal_stretch *at = gal_store_exact(&t->now->store, from->buffer, from->offset_bytes,
                                      from->offset_bytes + from->bytes);
    if (at != NULL && at->value.kind == GAL_VALUE_ROWS && !in_place) {
        scatter_rows(t, at->value);
        return;
    }
    const char *rule = gal_store_gradient(&t->now->store, from->buffer, from->bytes, &value);
    if (holds(t, rule == NULL, rule) && holds(t, from->offset_bytes == 0, "scatters a part of a gradient") &&
        holds(t, value.range == GAL_GROUP_NONE, "scatters a gradient that is cut already") &&
        holds(t, (devices_of_pieces(t, &value) & t->in->group) == 0, "cuts what is split over the same devices") &&
        take_off(t, &value.partial, t->in->group)) {
        value.range = t->in->group;
        value.in_place = in_place;
        gal_store_put(&t->now->store, to->buffer, to->offset_bytes, to->offset_bytes + to->bytes, &value);
    }
}

static void type_all_to_all(typer *t)
{
    gal_typed value;
    gal_rows to;
    if (!get_kind(t, 0, GAL_VALUE_ROWS, &value) ||
        !expect_chunks(t, t->operand[0].bytes / size_of(t, t->in->group), t->operand[0].bytes)) {
        return;
    }
    const char *rule = gal_rows_exchange(&t->rows[value.rows], &t->program->atoms, t->in->group, &to);
    if (holds(t, rule == NULL, rule)) {
        value.rows = intern(t, &to);
        put_rows(t, 1, value, value.features);
    }
}

static void type_send(typer *t)
{
    uint32_t direction = t->in->group == GAL_GROUP_NEXT;
    gal_typed value;
    if (get_kind(t, 0, GAL_VALUE_ROWS, &value) && expect_elements(t, 0)) {
        t->now->sent[direction] = value;
        t->now->has_sent[direction] = true;
        t->now->sent_bytes[direction] = t->operand[0].bytes;
    }
}

static void type_receive(typer *t)
{
    bool from_next = t->in->group == GAL_GROUP_NEXT;
    uint32_t own = (uint32_t)(t->now - t->stage);
    if (!holds(t, from_next ? own + 1 < t->stage_count : own > 0, "the partner stage does not exist")) {
        return;
    }
    type_stage *partner = from_next ? t->now + 1 : t->now - 1;
    uint32_t direction = !from_next;
    if (holds(t, partner->has_sent[direction], "receives what was not sent") &&
        holds(t, partner->sent_bytes[direction] == t->operand[0].bytes, "receives another size than was sent")) {
        partner->has_sent[direction] = false;
        put_rows(t, 0, partner->sent[direction], partner->sent[direction].features);
    }
}

/* ---- the table and the walk ---- */

typedef struct typing_rule {
    void (*apply)(typer *);
    uint8_t least, most; /* operands */
} typing_rule;

static const typing_rule rules[GAL_OP_COUNT] = {
    [GAL_OP_LOAD_TOKENS] = {type_load, 1, 1},
    [GAL_OP_LOAD_TARGETS] = {type_load, 1, 1},
    [GAL_OP_EMBED] = {type_embed, 3, 3},
    [GAL_OP_EMBED_BACKWARD] = {type_embed_backward, 3, 3},
    [GAL_OP_POSITION] = {type_position, 3, 3},
    [GAL_OP_POSITION_BACKWARD] = {type_position_backward, 3, 3},
    [GAL_OP_LAYER_NORM] = {type_layer_norm, 5, 5},
    [GAL_OP_LAYER_NORM_BACKWARD] = {type_layer_norm_backward, 7, 8},
    [GAL_OP_GEMM] = {type_gemm, 3, 4},
    [GAL_OP_BIAS_GRADIENT] = {type_bias_gradient, 2, 2},
    [GAL_OP_ATTENTION] = {type_attention, 3, 3},
    [GAL_OP_ATTENTION_BACKWARD] = {type_attention_backward, 5, 5},
    [GAL_OP_ACTIVATION] = {type_activation, 2, 2},
    [GAL_OP_ACTIVATION_BACKWARD] = {type_activation_backward, 3, 3},
    [GAL_OP_RESIDUAL] = {type_residual, 4, 4},
    [GAL_OP_RESIDUAL_BACKWARD] = {type_residual_backward, 2, 2},
    [GAL_OP_CROSS_ENTROPY_MAX] = {type_cross_entropy_max, 2, 2},
    [GAL_OP_CROSS_ENTROPY_SUM] = {type_cross_entropy_sum, 4, 4},
    [GAL_OP_CROSS_ENTROPY_LOSS] = {type_cross_entropy_loss, 2, 2},
    [GAL_OP_CROSS_ENTROPY_BACKWARD] = {type_cross_entropy_backward, 4, 4},
    [GAL_OP_PERMUTE] = {type_permute, 2, 2},
    [GAL_OP_ADD] = {type_add, 2, 2},
    [GAL_OP_FILL] = {type_fill, 1, 1},
    [GAL_OP_NORM_START] = {type_norm_start, 1, 2},
    [GAL_OP_SUM_SQUARES] = {type_sum_squares, 2, 2},
    [GAL_OP_ADAM] = {type_adam, 5, 5},
    [GAL_OP_ALL_REDUCE] = {type_all_reduce, 1, 1},
    [GAL_OP_ALL_GATHER] = {type_all_gather, 1, 2},
    [GAL_OP_REDUCE_SCATTER] = {type_reduce_scatter, 1, 2},
    [GAL_OP_ALL_TO_ALL] = {type_all_to_all, 2, 2},
    [GAL_OP_SEND] = {type_send, 1, 1},
    [GAL_OP_RECEIVE] = {type_receive, 1, 1},
};

static uint32_t operands_needed(const typer *t, const typing_rule *rule)
{
    const uint32_t *d = t->shape->dims;
    switch (t->in->op) {
    case GAL_OP_ALL_GATHER:
    case GAL_OP_REDUCE_SCATTER:
        return d[1] != 0 ? 1 : 2;
    case GAL_OP_GEMM:
        return (d[3] & GAL_GEMM_BIAS) != 0 ? 4 : 3;
    case GAL_OP_LAYER_NORM_BACKWARD:
        return d[2] != 0 ? 8 : 7;
    default:
        return t->in->operand_count < rule->least ? rule->least : rule->most;
    }
}

static void apply_rule(typer *t)
{
    const typing_rule *rule = t->in->op < GAL_OP_COUNT ? &rules[t->in->op] : NULL;
    if (rule == NULL || t->shape->op != (gal_op)t->in->op) {
        broken(t, "an unknown operator");
        return;
    }
    uint32_t needed = operands_needed(t, rule);
    if (holds(t, t->in->operand_count == needed || t->in->op == GAL_OP_NORM_START, "another number of operands")) {
        rule->apply(t);
    }
}

static gal_code run_fragment(typer *t, uint32_t stage, gal_fragment_kind fragment, bool first, gal_error *err)
{
    t->now = &t->stage[stage];
    t->program = t->now->program;
    t->first = first;
    t->evaluates = fragment == GAL_FRAGMENT_EVALUATE;
    t->rule = NULL;
    const gal_program *p = t->program;
    for (uint32_t i = 0; i < p->fragment[fragment].count; i++) {
        t->in = &p->instruction[p->fragment[fragment].first + i];
        t->shape = &p->shape[t->in->shape];
        t->operand = &p->operand[t->in->first_operand];
        apply_rule(t);
        if (t->now->store.out_of_memory) {
            return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
        }
        if (t->rule != NULL) {
            return gal_refuse(err, p, fragment, i, "%s", t->rule);
        }
    }
    return GAL_OK;
}

/* A gradient of a tied table is a part of the sum over both ends, once the last backward is done. */
static void mark_tied(typer *t, uint32_t stage)
{
    const gal_program *p = t->stage[stage].program;
    gal_store *store = &t->stage[stage].store;
    for (uint32_t u = 0; u < p->unit_count; u++) {
        if (p->unit[u].tied) {
            for (uint32_t i = store->head[p->unit[u].gradient]; i != 0; i = store->stretch[i].next) {
                store->stretch[i].value.partial |= GAL_PARTIAL_TIED;
            }
        }
    }
}

static gal_code refuse_unit(const gal_program *p, uint32_t unit, const char *rule, gal_error *err)
{
    return gal_fail(err, GAL_NO, "stage %u, update, unit %s of block %u: %s", p->stage, p->unit[unit].name,
                    p->unit[unit].block, rule);
}

static gal_group held_range(const gal_program *p, const gal_unit *unit, uint32_t buffer)
{
    bool whole = p->buffer[buffer].bytes == unit->elements * gal_dtype_bytes(p->dtype);
    return whole ? GAL_GROUP_NONE : unit->zero_group;
}

/* After the update every unit has entered the norm, was updated, and its weights are as they were before the step. */
static gal_code check_units(const type_stage *s, gal_error *err)
{
    const gal_program *p = s->program;
    for (uint32_t u = 0; u < p->unit_count; u++) {
        const gal_typed *weight = &s->store.stretch[s->store.head[p->unit[u].weight]].value;
        if (s->norm_count[u] != 1) {
            return refuse_unit(p, u, "its gradient is not in the norm", err);
        }
        if (s->update_count[u] != 1) {
            return refuse_unit(p, u, "is not updated", err);
        }
        if (weight->in_place || weight->range != held_range(p, &p->unit[u], p->unit[u].weight)) {
            return refuse_unit(p, u, "its weights are not gathered after the update", err);
        }
    }
    return GAL_OK;
}

/* A step and an evaluation read every tensor; what a GEMM reads forward, another reads transposed in backward. So a gather
 * that was left out shows even if the ring still holds a tensor of the same size. */
static gal_code check_uses(const type_stage *s, gal_error *err)
{
    const gal_program *p = s->program;
    for (uint32_t i = 0; i < p->parameter_count; i++) {
        uint32_t uses = s->uses[i];
        uint32_t needed = USE_STEP | USE_EVALUATION;
        if ((uses & (USE_EVALUATION_PLAIN | USE_EVALUATION_TRANSPOSED)) != 0) {
            needed |= USE_STEP_PLAIN | USE_STEP_TRANSPOSED;
        }
        if ((uses & needed) != needed) {
            return gal_fail(err, GAL_NO, "stage %u, unit %s of block %u: tensor %s is not read where it must be",
                            p->stage, p->unit[p->parameter[i].unit].name, p->unit[p->parameter[i].unit].block,
                            p->parameter[i].name);
        }
    }
    return GAL_OK;
}

/* The public tensor is on both ends: the units say "tied" exactly then. */
static const gal_parameter *find_parameter(const gal_program *p, const char *name)
{
    for (uint32_t i = 0; i < p->parameter_count; i++) {
        if (strcmp(p->parameter[i].name, name) == 0) {
            return &p->parameter[i];
        }
    }
    return NULL;
}

static gal_code check_copies(const typer *t, gal_error *err)
{
    const gal_program *first = t->stage[0].program;
    const gal_program *last = t->stage[t->stage_count - 1].program;
    for (uint32_t i = 0; t->stage_count > 1 && i < first->parameter_count; i++) {
        const gal_parameter *here = &first->parameter[i];
        const gal_parameter *there = find_parameter(last, here->name);
        bool tied = first->unit[here->unit].tied;
        if (tied != (there != NULL) || (there != NULL && !last->unit[there->unit].tied)) {
            return refuse_unit(first, here->unit, "a tensor on both ends of the pipeline must be tied", err);
        }
    }
    return GAL_OK;
}

static bool init_stage(type_stage *s, const gal_program *p)
{
    s->program = p;
    s->first_parameter = calloc((size_t)p->unit_count + 2, sizeof *s->first_parameter);
    s->norm_count = calloc((size_t)p->unit_count + 1, 1);
    s->update_count = calloc((size_t)p->unit_count + 1, 1);
    s->uses = calloc((size_t)p->parameter_count + 1, 1);
    if (!gal_store_init(&s->store, p) || s->first_parameter == NULL || s->norm_count == NULL ||
        s->update_count == NULL || s->uses == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < p->parameter_count; i++) {
        s->first_parameter[p->parameter[i].unit + 1]++;
    }
    for (uint32_t u = 0; u < p->unit_count; u++) {
        s->first_parameter[u + 1] += s->first_parameter[u];
        const gal_unit *unit = &p->unit[u];
        const uint32_t buffers[] = {unit->weight, unit->first_moment, unit->second_moment};
        for (uint32_t k = 0; k < 3; k++) {
            gal_typed value = {.kind = k == 0 ? GAL_VALUE_WEIGHT : GAL_VALUE_MOMENT,
                               .unit = u,
                               .range = held_range(p, unit, buffers[k])};
            gal_store_put(&s->store, buffers[k], 0, p->buffer[buffers[k]].bytes, &value);
        }
    }
    return true;
}

static gal_code check_all(typer *t, gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t stages = t->stage_count;
    bool several = t->stage[0].program->microbatch_count > 1;
    GAL_TRY(check_copies(t, err));
    for (uint32_t s = 0; s < stages; s++) {
        GAL_TRY(run_fragment(t, s, GAL_FRAGMENT_FORWARD, true, err));
    }
    for (uint32_t s = stages; several && s-- > 0;) {
        GAL_TRY(run_fragment(t, s, GAL_FRAGMENT_BACKWARD, true, err));
    }
    for (uint32_t s = stages; s-- > 0;) {
        GAL_TRY(run_fragment(t, s, GAL_FRAGMENT_BACKWARD_SYNC, !several, err));
    }
    for (uint32_t s = 0; s < stages; s++) {
        mark_tied(t, s);
        GAL_TRY(run_fragment(t, s, GAL_FRAGMENT_UPDATE, true, err));
        GAL_TRY(check_units(&t->stage[s], err));
    }
    for (uint32_t s = 0; s < stages; s++) {
        GAL_TRY(run_fragment(t, s, GAL_FRAGMENT_EVALUATE, true, err));
    }
    for (uint32_t s = 0; s < stages; s++) {
        GAL_TRY(run_fragment(t, s, GAL_FRAGMENT_EVALUATE_END, true, err));
        GAL_TRY(check_uses(&t->stage[s], err));
    }
cleanup:
    return code;
}

gal_code gal_verify_types(gal_program *const *programs, uint32_t stage_count, gal_error *err)
{
    gal_code code = GAL_OK;
    typer t;
    memset(&t, 0, sizeof t);
    t.stage_count = stage_count;
    t.stage = calloc(stage_count, sizeof *t.stage);
    if (t.stage == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    for (uint32_t s = 0; code == GAL_OK && s < stage_count; s++) {
        if (!init_stage(&t.stage[s], programs[s])) {
            code = gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
        }
    }
    code = code == GAL_OK ? check_all(&t, err) : code;
    for (uint32_t s = 0; s < stage_count; s++) {
        gal_store_free(&t.stage[s].store);
        free(t.stage[s].first_parameter);
        free(t.stage[s].norm_count);
        free(t.stage[s].update_count);
        free(t.stage[s].uses);
    }
    free(t.stage);
    free(t.rows);
    return code;
}
