/* Operands of typing rules that are weights: the tensors that they are, and how those are split. */
#include "runtime/program/verify/verify_typer.h"

#include <string.h>

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

/* A tensor is of one block: another may have one of its shape. Of several are the token table, which is tensor 0, and
 * the tables of relative positions, one of attention to all positions and one of attention to earlier ones. */
static bool read_by_owner(gal_typer *t, uint32_t parameter)
{
    enum { IS_CAUSAL = 4 }; /* dims of relative attention */
    const bool relative = t->in->op == GAL_OP_RELATIVE_ATTENTION || t->in->op == GAL_OP_RELATIVE_ATTENTION_BACKWARD;
    const uint32_t reader = relative ? UINT32_MAX - (t->shape->dims[IS_CAUSAL] != 0) : t->in->block + 1;
    uint32_t *owner = &t->now->owner[parameter];
    if (*owner == 0) {
        *owner = reader;
    }
    return gal_type_holds(t, *owner == reader || t->program->parameter[parameter].tensor == 0,
                          "reads weights of another block");
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
        if (!read_by_owner(t, j)) {
            return false;
        }
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
