/* Operands of typing rules: values in, values out. */
#include "runtime/program/verify/verify_typer.h"
#include "runtime/program/verify/verify_internal.h"

#include <stdlib.h>
#include <string.h>

bool gal_type_broken(gal_typer *t, const char *rule)
{
    t->rule = t->rule == NULL ? rule : t->rule;
    return false;
}

bool gal_type_holds(gal_typer *t, bool condition, const char *rule)
{
    return condition || gal_type_broken(t, rule);
}

uint64_t gal_type_item_bytes(const gal_typer *t, uint32_t k)
{
    return gal_dtype_bytes(gal_operand_dtype(t->shape, k));
}

uint32_t gal_type_size_of(const gal_typer *t, gal_group group)
{
    return gal_group_size(&t->program->atoms, group);
}

bool gal_type_expect_elements(gal_typer *t, uint32_t k)
{
    return gal_type_holds(t, t->shape->dims[0] * gal_type_item_bytes(t, k) == t->operand[k].bytes,
                          "its shape has another size");
}

bool gal_type_same_pieces(const gal_store *a, const gal_typed *x, const gal_store *b, const gal_typed *y)
{
    return x->piece_count == y->piece_count && x->range == y->range && x->partial == y->partial &&
           memcmp(a->piece + x->first_piece, b->piece + y->first_piece, x->piece_count * sizeof *a->piece) == 0;
}

/* ---- operands ---- */

uint32_t gal_type_intern(gal_typer *t, const gal_rows *rows)
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
            gal_type_broken(t, "out of memory");
            return 0;
        }
        t->rows = grown;
        t->rows_capacity = wanted;
    }
    t->rows[t->rows_count] = *rows;
    return t->rows_count++;
}

/* What takes rows of any half: its own rule says which. */
static bool knows_halves(gal_op op)
{
    return op == GAL_OP_TAKE_KEYS || op == GAL_OP_ATTENTION_STEP || op == GAL_OP_ATTENTION_STEP_BACKWARD ||
           op == GAL_OP_JOIN_GRADIENTS || op == GAL_OP_NARROW;
}

bool gal_type_expect_order(gal_typer *t, const gal_typed *value)
{
    if (value->kind == GAL_VALUE_ROWS && value->mirrored != GAL_GROUP_NONE && !knows_halves(t->shape->op)) {
        return gal_type_broken(t, "reads rows of which a half is another device's");
    }
    const bool ordered = value->dealt == GAL_GROUP_NONE && value->within == t->in->within;
    if (value->kind == GAL_VALUE_ROWS && value->ring != GAL_GROUP_NONE) {
        return gal_type_broken(t, "reads what is still passing round, or summed of some steps alone");
    }
    return gal_type_holds(t, ordered || value->kind != GAL_VALUE_ROWS, "its features are dealt out over other devices");
}

static bool same_value(const gal_typed *a, const gal_typed *b)
{
    return a->kind == b->kind && a->rows == b->rows && a->features == b->features && a->split == b->split &&
           a->partial == b->partial && a->max_partial == b->max_partial && a->m == b->m && a->n == b->n &&
           a->split_m == b->split_m && a->split_n == b->split_n && a->range == b->range && a->in_place == b->in_place &&
           a->dealt == b->dealt && a->within == b->within && memcmp(a->part, b->part, sizeof a->part) == 0 &&
           a->ring == b->ring && a->mirrored == b->mirrored && a->turn == b->turn && a->share_first == b->share_first &&
           a->share_count == b->share_count && a->chunks == b->chunks && a->chunk_rows == b->chunk_rows &&
           a->terms_left == b->terms_left;
}

/* One sub-batch of rows that were halved. */
static bool cut_half(gal_typer *t, const gal_operand *o, gal_typed *out)
{
    const uint64_t end = o->offset_bytes + o->bytes;
    const gal_stretch *found = gal_store_around(&t->now->store, o->buffer, o->offset_bytes, end);
    if (found == NULL || found->value.kind != GAL_VALUE_ROWS || found->value.chunks > 0) {
        return false;
    }
    const gal_rows *from = &t->rows[found->value.rows];
    const uint64_t row_bytes = (found->end - found->begin) / from->local_count;
    gal_rows rows;
    if (o->bytes % row_bytes != 0 || (o->offset_bytes - found->begin) % row_bytes != 0 ||
        gal_rows_cut(from, (o->offset_bytes - found->begin) / row_bytes, o->bytes / row_bytes, &rows) != NULL) {
        return false;
    }
    *out = found->value;
    out->rows = gal_type_intern(t, &rows);
    return true;
}

/* Before one half of rows is written: the other one stays what it is, by itself. */
static void keep_other_half(gal_typer *t, const gal_operand *o)
{
    const uint64_t end = o->offset_bytes + o->bytes;
    const gal_stretch *found = gal_store_around(&t->now->store, o->buffer, o->offset_bytes, end);
    gal_operand other = *o;
    gal_typed value;
    if (found == NULL || found->end - found->begin != 2 * o->bytes) {
        return;
    }
    other.offset_bytes = o->offset_bytes == found->begin ? end : found->begin;
    if (cut_half(t, &other, &value)) {
        gal_store_put(&t->now->store, other.buffer, other.offset_bytes, other.offset_bytes + other.bytes, &value);
    }
}

/* Two sub-batches one behind the other. */
static bool join_halves(gal_typer *t, const gal_operand *o, gal_typed *out)
{
    const uint64_t middle = o->offset_bytes + o->bytes / 2, end = o->offset_bytes + o->bytes;
    const gal_stretch *first = gal_store_exact(&t->now->store, o->buffer, o->offset_bytes, middle);
    const gal_stretch *second = gal_store_exact(&t->now->store, o->buffer, middle, end);
    gal_rows rows;
    if (first == NULL || second == NULL || first->value.kind != GAL_VALUE_ROWS) {
        return false;
    }
    gal_typed alike = second->value;
    alike.rows = first->value.rows;
    if (!same_value(&alike, &first->value) || alike.dtype != first->value.dtype ||
        !gal_rows_join(&t->rows[first->value.rows], &t->rows[second->value.rows], &rows)) {
        return false;
    }
    *out = first->value;
    out->rows = gal_type_intern(t, &rows);
    return true;
}

bool gal_type_find(gal_typer *t, uint32_t k, gal_typed *out)
{
    const gal_operand *o = &t->operand[k];
    const gal_stretch *found = gal_store_exact(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes);
    if (o->view == GAL_GROUP_NONE && found != NULL) {
        *out = found->value;
        return true;
    }
    return o->view == GAL_GROUP_NONE && (cut_half(t, o, out) || join_halves(t, o, out));
}

bool gal_type_get(gal_typer *t, uint32_t k, gal_typed *out)
{
    if (!gal_type_find(t, k, out)) {
        return gal_type_broken(t, "reads what no instruction wrote as a whole");
    }
    return gal_type_expect_order(t, out) && gal_type_holds(t, out->chunks == 0, "reads a panel as one matrix") &&
           gal_type_holds(t, out->terms_left == 0, "reads a sum of which terms are missing");
}

bool gal_type_get_part(gal_typer *t, uint32_t k, gal_typed *out)
{
    const gal_operand *o = &t->operand[k];
    const uint64_t end = o->offset_bytes + o->bytes;
    const gal_stretch *found = gal_store_around(&t->now->store, o->buffer, o->offset_bytes, end);
    const bool exact = found != NULL && found->begin == o->offset_bytes && found->end == end;
    if (o->view != GAL_GROUP_NONE || (found == NULL && !gal_type_find(t, k, out))) {
        return gal_type_broken(t, "reads what no instruction wrote as a whole");
    }
    if (found == NULL || (!exact && found->value.chunks == 0 && gal_type_find(t, k, out))) {
        return gal_type_expect_order(t, out);
    }
    *out = found->value;
    if (!gal_type_expect_order(t, out)) {
        return false;
    }
    if (!exact && out->chunks > 0 && out->chunk == out->chunks) {
        const uint64_t part = (found->end - found->begin) / out->chunks, offset = o->offset_bytes - found->begin;
        out->chunk = (uint32_t)(offset / part);
        return gal_type_holds(t, o->bytes == part && offset % part == 0, "reads what is no part of a panel");
    }
    return gal_type_holds(t, exact, "reads what no instruction wrote as a whole");
}

bool gal_type_get_kind(gal_typer *t, uint32_t k, gal_value_kind kind, gal_typed *out)
{
    return gal_type_get(t, k, out) && gal_type_holds(t, out->kind == kind, "an operand of the wrong kind");
}

/* Partial ones allowed. */
static bool get_rows(gal_typer *t, uint32_t k, uint64_t features, gal_typed *out)
{
    return gal_type_get_kind(t, k, GAL_VALUE_ROWS, out) &&
           gal_type_holds(t, out->features == features, "an operand with another number of features") &&
           gal_type_holds(t,
                          t->rows[out->rows].local_count * features * gal_type_item_bytes(t, k) == t->operand[k].bytes,
                          "an operand with another number of rows");
}

bool gal_type_get_complete(gal_typer *t, uint32_t k, uint64_t features, gal_typed *out)
{
    return get_rows(t, k, features, out) &&
           gal_type_holds(t, (out->partial | out->max_partial) == GAL_GROUP_NONE, "reads a sum that is still partial");
}

bool gal_type_get_alike(gal_typer *t, uint32_t k, const gal_typed *other)
{
    gal_typed value;
    return gal_type_get_complete(t, k, other->features, &value) &&
           gal_type_holds(t, value.rows == other->rows, "operands with different rows") &&
           gal_type_holds(t, memcmp(value.part, other->part, sizeof value.part) == 0, "operands of different parts") &&
           gal_type_holds(t, value.mirrored == other->mirrored, "operands of different halves") &&
           gal_type_holds(t, value.split == other->split, "operands whose features are split differently");
}

static bool writes(const gal_typer *t, const gal_operand *o)
{
    return o->access == GAL_WRITE || (o->access == GAL_ACCUMULATE && t->first);
}

bool gal_type_reads_dtypes(gal_typer *t)
{
    for (uint32_t k = 0; k < t->in->operand_count; k++) {
        const gal_operand *o = &t->operand[k];
        const uint64_t end = o->offset_bytes + gal_operand_span(t->program, o);
        uint32_t at = 0;
        const gal_stretch *s = NULL;
        while (!writes(t, o) && (s = gal_store_next(&t->now->store, o->buffer, o->offset_bytes, end, &at)) != NULL) {
            if (s->value.dtype != gal_operand_dtype(t->shape, k)) {
                return gal_type_broken(t, "an operand of the wrong type");
            }
        }
    }
    return true;
}

void gal_type_note_dtypes(gal_typer *t)
{
    for (uint32_t k = 0; k < t->in->operand_count; k++) {
        const gal_operand *o = &t->operand[k];
        const uint64_t end = o->offset_bytes + gal_operand_span(t->program, o);
        uint32_t at = 0;
        gal_stretch *s = NULL;
        while (o->access != GAL_READ &&
               (s = gal_store_next(&t->now->store, o->buffer, o->offset_bytes, end, &at)) != NULL) {
            s->value.dtype = (uint8_t)gal_operand_dtype(t->shape, k);
        }
    }
}

bool gal_type_put_part(gal_typer *t, uint32_t k, const gal_typed *value)
{
    const gal_operand *o = &t->operand[k];
    const uint64_t before = (uint64_t)value->chunk * o->bytes;
    if (!gal_type_holds(t, o->view == GAL_GROUP_NONE && o->access == GAL_WRITE, "an output in a place that is none")) {
        return false;
    }
    gal_store_put(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes, value);
    if (o->offset_bytes < before) { /* it stands alone */
        return true;
    }
    const uint64_t begin = o->offset_bytes - before;
    for (uint32_t i = 0; i < value->chunks; i++) {
        const gal_stretch *at =
            gal_store_exact(&t->now->store, o->buffer, begin + i * o->bytes, begin + (i + 1) * o->bytes);
        if (at == NULL || at->value.chunk != i || !same_value(&at->value, value)) {
            return true;
        }
    }
    gal_typed panel = *value;
    panel.chunk = value->chunks;
    gal_store_put(&t->now->store, o->buffer, begin, begin + value->chunks * o->bytes, &panel);
    return true;
}

bool gal_type_put(gal_typer *t, uint32_t k, const gal_typed *value)
{
    const gal_operand *o = &t->operand[k];
    if (o->view != GAL_GROUP_NONE || o->access == GAL_READ) {
        return gal_type_broken(t, "an output in a place that is none");
    }
    if (!writes(t, o)) {
        gal_typed old;
        if (!gal_type_get(t, k, &old)) {
            return false;
        }
        if (old.kind != GAL_VALUE_ZERO && !same_value(&old, value)) {
            return gal_type_broken(t, "adds values of different types");
        }
        if (value->kind == GAL_VALUE_GRADIENT) {
            return gal_type_holds(t, gal_type_same_pieces(&t->now->store, &old, &t->now->store, value),
                                  "adds gradients of other tensors");
        }
    }
    gal_store_put(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes, value);
    return true;
}

bool gal_type_put_rows(gal_typer *t, uint32_t k, gal_typed value, uint64_t features)
{
    value.kind = GAL_VALUE_ROWS;
    value.features = features;
    if (!gal_type_holds(t,
                        t->rows[value.rows].local_count * features * gal_type_item_bytes(t, k) == t->operand[k].bytes,
                        "an output with another number of rows")) {
        return false;
    }
    const gal_operand *o = &t->operand[k];
    if (!gal_type_holds(t, o->view == GAL_GROUP_NONE && o->access != GAL_READ, "an output in a place that is none")) {
        return false;
    }
    keep_other_half(t, o);
    gal_store_put(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes, &value);
    return true;
}

bool gal_type_layout_rows(gal_typer *t, uint64_t local_positions, uint32_t *out)
{
    gal_rows rows;
    if (t->in->layout == 0 || t->in->layout >= t->program->layout_count) {
        return gal_type_broken(t, "has no layout");
    }
    const gal_layout *layout = &t->program->layout[t->in->layout];
    if (!gal_rows_of_layout(layout, &t->program->atoms, local_positions, &rows)) {
        return gal_type_broken(t, "has a layout that is none");
    }
    *out = gal_type_intern(t, &rows);
    return true;
}

bool gal_type_expect_layout(gal_typer *t, uint32_t rows, uint64_t samples, uint64_t local_positions)
{
    uint32_t expected;
    return gal_type_layout_rows(t, local_positions, &expected) &&
           gal_type_holds(t, expected == rows, "its rows are not those of its layout") &&
           gal_type_holds(t, t->rows[rows].local_count == samples * local_positions,
                          "its shape has another number of rows");
}

/* ---- gradients ---- */

/* Of a sub-batch: what a piece is of now, whose rows are those of operand 0; and whether that may be. */
static bool note_half(gal_typer *t, uint32_t k, gal_typed *piece)
{
    const gal_operand *o = &t->operand[k];
    gal_typed rows, old = {0};
    gal_rows both;
    if (t->in->sub_batch > 0 && !gal_type_find(t, 0, &rows)) {
        return gal_type_broken(t, "reads what no instruction wrote as a whole");
    }
    if (!writes(t, o)) {
        (void)gal_type_find(t, k, &old);
    }
    piece->half_rows = t->in->sub_batch > 0 ? rows.rows + 1 : 0;
    if (old.half_rows == 0) {
        return true;
    }
    if (piece->half_rows == 0 || !gal_rows_join(&t->rows[old.half_rows - 1], &t->rows[rows.rows], &both)) {
        return gal_type_broken(t, "adds to a gradient of one sub-batch what is not of the other");
    }
    piece->half_rows = 0;
    return true;
}

bool gal_type_put_piece(gal_typer *t, uint32_t k, uint64_t m, uint64_t n, gal_group split_m, gal_group split_n,
                        gal_group partial)
{
    gal_typed piece = {
        .kind = GAL_VALUE_PIECE, .m = m, .n = n, .split_m = split_m, .split_n = split_n, .partial = partial};
    return gal_type_holds(t, ((split_m | split_n) & partial) == 0 && (split_m & split_n) == 0,
                          "a gradient split and summed over the same devices") &&
           gal_type_holds(t, m * n * gal_type_item_bytes(t, k) == t->operand[k].bytes, "a gradient of another size") &&
           note_half(t, k, &piece) && gal_type_put(t, k, &piece);
}

gal_group gal_type_owners_of(const gal_typer *t, const gal_typed *value)
{
    return t->rows[value->rows].owners;
}
