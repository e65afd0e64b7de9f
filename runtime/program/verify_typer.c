/* Operands of typing rules: values in, values out, and the tensors that weights are. */
#include "runtime/program/verify_typer.h"
#include "runtime/program/verify_internal.h"

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

bool gal_type_get_rows(gal_typer *t, uint32_t k, uint64_t features, gal_typed *out)
{
    return gal_type_get_kind(t, k, GAL_VALUE_ROWS, out) &&
           gal_type_holds(t, out->features == features, "an operand with another number of features") &&
           gal_type_holds(t,
                          t->rows[out->rows].local_count * features * gal_type_item_bytes(t, k) == t->operand[k].bytes,
                          "an operand with another number of rows");
}

bool gal_type_get_complete(gal_typer *t, uint32_t k, uint64_t features, gal_typed *out)
{
    return gal_type_get_rows(t, k, features, out) &&
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

/* ---- weights ---- */

typedef struct local_shape {
    uint64_t outer, split, inner;
} local_shape;

static local_shape local_shape_of(const gal_typer *t, const gal_parameter *p)
{
    return (local_shape){p->outer / gal_type_size_of(t, p->outer_group), p->split / gal_type_size_of(t, p->split_group),
                         p->inner / gal_type_size_of(t, p->inner_group)};
}

uint64_t gal_type_local_elements(const gal_typer *t, const gal_parameter *p)
{
    const local_shape local = local_shape_of(t, p);
    return local.outer * local.split * local.inner;
}

void gal_type_split_of(const gal_typer *t, const gal_parameter *p, uint64_t elements, uint64_t n, gal_group *by_rows,
                       gal_group *by_columns)
{
    const local_shape local = local_shape_of(t, p);
    /* One column of many on this device: its rows are those of `outer`. */
    const bool column = local.inner == 1 && local.split == n;
    bool rows = elements > n && local.inner % n == 0 && !column;
    *by_rows = rows ? p->outer_group | p->split_group : p->outer_group;
    *by_columns = rows ? p->inner_group : p->split_group | p->inner_group;
}

static bool splits_like(const gal_typer *t, const gal_parameter *a, const gal_parameter *b, uint64_t n)
{
    gal_group rows_a, columns_a, rows_b, columns_b;
    gal_type_split_of(t, a, gal_type_local_elements(t, a), n, &rows_a, &columns_a);
    gal_type_split_of(t, b, gal_type_local_elements(t, b), n, &rows_b, &columns_b);
    return rows_a == rows_b && columns_a == columns_b && gal_type_local_elements(t, b) % n == 0;
}

uint32_t gal_type_joined(const gal_typer *t, uint32_t unit, uint64_t first_element, uint64_t elements, uint64_t n,
                         uint32_t *first)
{
    const uint32_t end = t->now->first_parameter[unit + 1];
    uint32_t i = t->now->first_parameter[unit];
    while (i < end && t->program->parameter[i].offset_elements != first_element) {
        i++;
    }
    *first = i;
    uint64_t covered = 0;
    for (uint32_t count = 1; i < end; i++, count++) {
        const gal_parameter *p = &t->program->parameter[i];
        const bool vectors = n == elements; /* side by side: each is a part of the n columns */
        covered += gal_type_local_elements(t, p);
        if (count > 1 && (vectors ? p->inner != 1 : !splits_like(t, &t->program->parameter[*first], p, n))) {
            return 0;
        }
        if (covered == elements) {
            return count;
        }
    }
    return 0;
}

/* A GEMM that reads data has no other that reads its matrix transposed. */
static bool multiplies_data(gal_typer *t)
{
    const gal_operand *o = &t->operand[0];
    const gal_stretch *a = gal_store_exact(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes);
    return a != NULL && a->value.loaded;
}

static uint8_t use_of(gal_typer *t, uint32_t k)
{
    bool matrix = t->in->op == GAL_OP_GEMM && k == 1 && !multiplies_data(t);
    bool transposed = (t->shape->dims[3] & GAL_GEMM_TRANSPOSE_B) != 0;
    uint32_t step = GAL_USE_STEP | (matrix ? (transposed ? GAL_USE_STEP_TRANSPOSED : GAL_USE_STEP_PLAIN) : 0);
    uint32_t evaluation =
        GAL_USE_EVALUATION | (matrix ? (transposed ? GAL_USE_EVALUATION_TRANSPOSED : GAL_USE_EVALUATION_PLAIN) : 0);
    return (uint8_t)(t->evaluates ? evaluation : step);
}

/* Whether the kernel reads the unit that it has read before, if it has: one of equal shapes would do for the types. */
static bool reads_again(gal_typer *t, uint32_t k, uint32_t unit)
{
    gal_type_reader *reader = t->now->reader[t->in->block];
    uint32_t i = 0;
    while (i < GAL_TYPE_READERS && reader[i].name != NULL &&
           (strcmp(reader[i].name, t->in->name) != 0 || reader[i].op != t->in->op || reader[i].operand != k)) {
        i++;
    }
    GAL_ASSERT(i < GAL_TYPE_READERS);
    if (reader[i].name == NULL) {
        reader[i] = (gal_type_reader){t->in->name, t->in->op, k, unit};
    }
    return gal_type_holds(t, reader[i].unit == unit, "reads weights of another unit than before");
}

/* The tensors that elements [first, + m n) of a unit are, as m rows of n. */
static bool use_tensors(gal_typer *t, uint32_t k, uint32_t unit, uint64_t first, uint64_t m, uint64_t n,
                        gal_group *by_rows, gal_group *by_columns)
{
    uint32_t i;
    const uint32_t count = gal_type_joined(t, unit, first, m * n, n, &i);
    if (count == 0) {
        return gal_type_broken(t, "reads weights that are no tensor of this shape");
    }
    const gal_parameter *p = &t->program->parameter[i];
    gal_type_split_of(t, p, gal_type_local_elements(t, p), n, by_rows, by_columns);
    for (uint32_t j = i; j < i + count; j++) {
        t->now->uses[j] |= use_of(t, k);
    }
    return reads_again(t, k, unit);
}

bool gal_type_cuts_last(gal_group all, gal_group part)
{
    const gal_group rest = all & ~part;
    return part != GAL_GROUP_NONE && (part & ~all) == 0 && (rest == 0 || part < (rest & ~(rest - 1)));
}

/* A panel, or a part of one: as a matrix what was gathered is whole. */
static bool get_gathered(gal_typer *t, uint32_t k, const gal_typed *panel, uint64_t m, uint64_t n, gal_type_matrix *out)
{
    const bool whole = panel->chunk == panel->chunks;
    const uint64_t part_rows = whole ? m / panel->chunks : m;
    if (!gal_type_holds(t, part_rows * n == panel->element_count, "reads weights that are no tensor of this shape") ||
        !use_tensors(t, k, panel->unit, panel->first_element, part_rows, n, &out->by_rows, &out->by_columns)) {
        return false;
    }
    out->chunk_rows = (out->by_rows & panel->split) == panel->split;
    *(out->chunk_rows ? &out->by_rows : &out->by_columns) &= ~panel->split;
    out->chunks = whole ? 0 : panel->chunks;
    out->chunk = panel->chunk;
    return gal_type_holds(t, out->chunk_rows || !whole, "reads a panel as one matrix");
}

/* Panels of rows one behind another, each of a tensor of its own, in the order in which these lie in their unit. */
static bool get_panels(gal_typer *t, uint32_t k, uint64_t m, uint64_t n, gal_type_matrix *out)
{
    const gal_operand *o = &t->operand[k];
    const uint64_t row_bytes = n * gal_type_item_bytes(t, k), end = o->offset_bytes + o->bytes;
    uint64_t covered = o->offset_bytes;
    uint32_t at = 0;
    gal_typed last = {0};
    const gal_stretch *s;
    while ((s = gal_store_next(&t->now->store, o->buffer, o->offset_bytes, end, &at)) != NULL) {
        const gal_typed *panel = &s->value;
        gal_type_matrix own = {0};
        const bool follows =
            covered == o->offset_bytes || (panel->unit == last.unit && panel->split == last.split &&
                                           panel->first_element == last.first_element + last.element_count);
        if (!gal_type_holds(t,
                            s->begin == covered && s->end <= end && panel->kind == GAL_VALUE_WEIGHT &&
                                panel->chunks > 0 && panel->chunk == panel->chunks && follows,
                            "reads weights that are no tensor of this shape") ||
            !get_gathered(t, k, panel, (s->end - s->begin) / row_bytes, n, &own) ||
            !gal_type_holds(
                t, covered == o->offset_bytes || (own.by_rows == out->by_rows && own.by_columns == out->by_columns),
                "reads tensors that are split differently as one")) {
            return false;
        }
        *out = own;
        last = *panel;
        covered = s->end;
    }
    return gal_type_holds(t, covered == end && o->bytes == m * row_bytes, "reads weights where there are none");
}

bool gal_type_get_matrix(gal_typer *t, uint32_t k, uint64_t m, uint64_t n, gal_type_matrix *out)
{
    const gal_operand *o = &t->operand[k];
    const gal_stretch *at = gal_store_around(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes);
    gal_typed panel;
    *out = (gal_type_matrix){0};
    if (o->view == GAL_GROUP_NONE && at == NULL) {
        return get_panels(t, k, m, n, out);
    }
    if (o->view != GAL_GROUP_NONE || at->value.kind != GAL_VALUE_WEIGHT) {
        return gal_type_broken(t, "reads weights where there are none");
    }
    if (at->value.in_place || at->value.range != GAL_GROUP_NONE) {
        return gal_type_broken(t, "reads weights that are not gathered");
    }
    if (at->value.chunks > 0) {
        return gal_type_get_part(t, k, &panel) &&
               gal_type_holds(t, o->bytes == m * n * gal_type_item_bytes(t, k),
                              "reads weights that are no tensor of this shape") &&
               get_gathered(t, k, &panel, m, n, out);
    }
    const uint64_t item = gal_type_item_bytes(t, k), offset = o->offset_bytes - at->begin;
    return gal_type_holds(t, offset % item == 0 && o->bytes == m * n * item,
                          "reads weights that are no tensor of this shape") &&
           use_tensors(t, k, at->value.unit, offset / item, m, n, &out->by_rows, &out->by_columns);
}

bool gal_type_get_weight(gal_typer *t, uint32_t k, uint64_t m, uint64_t n, gal_group *by_rows, gal_group *by_columns)
{
    gal_type_matrix matrix;
    const bool got = gal_type_get_matrix(t, k, m, n, &matrix);
    *by_rows = matrix.by_rows;
    *by_columns = matrix.by_columns;
    return got && gal_type_holds(t, matrix.chunks == 0, "reads a part of a panel as a whole matrix");
}

bool gal_type_get_vector(gal_typer *t, uint32_t k, uint64_t n, gal_group split)
{
    gal_group by_rows;
    gal_group by_columns;
    return gal_type_get_weight(t, k, 1, n, &by_rows, &by_columns) &&
           gal_type_holds(t, by_columns == split,
                          split == GAL_GROUP_NONE ? "reads a split vector as a whole one"
                                                  : "reads a vector that is split differently");
}

bool gal_type_get_whole_vector(gal_typer *t, uint32_t k, uint64_t n)
{
    return gal_type_get_vector(t, k, n, GAL_GROUP_NONE);
}

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
