/* Typing rules of products, of the panels that grids gather for them, of norms of rows whose features are split, and of
 * strided copies.
 *
 * A product reads or writes a part of a panel. Of what it contracts it takes the same part of both factors; its result
 * is then a sum of which the other parts are still to be added, in order, and nobody may read it before. */
#include "runtime/program/verify/verify_internal.h"
#include "runtime/program/verify/verify_typer.h"

/* ---- products ---- */

/* Activations of `features` per row, complete; one matrix or a part of a panel of them. */
static bool get_factor(gal_typer *t, uint32_t k, uint64_t features, gal_typed *out)
{
    return gal_type_get_part(t, k, out) &&
           gal_type_holds(t, out->kind == GAL_VALUE_ROWS, "an operand of the wrong kind") &&
           gal_type_holds(t, out->chunks == 0 || out->chunk < out->chunks, "reads a panel as one matrix") &&
           gal_type_holds(t, out->features == features, "an operand with another number of features") &&
           gal_type_holds(t,
                          t->rows[out->rows].local_count * features * gal_type_item_bytes(t, k) == t->operand[k].bytes,
                          "an operand with another number of rows") &&
           gal_type_holds(t, (out->partial | out->max_partial) == GAL_GROUP_NONE && out->terms_left == 0,
                          "reads a sum that is still partial");
}

/* c[features of a][features of b] = sum over rows: partial over the devices that own the rows. */
static void type_gemm_over_rows(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed a;
    gal_typed b;
    if (!gal_type_holds(t, (d[3] & ~(uint32_t)GAL_GEMM_FP32_C) == GAL_GEMM_TRANSPOSE_A,
                        "contracts rows in a form that has no rule") ||
        !get_factor(t, 0, d[0], &a) || !get_factor(t, 1, d[1], &b) ||
        !gal_type_holds(t, a.rows == b.rows, "operands with different rows") ||
        !gal_type_holds(t, a.chunks == 0 || b.chunks == 0, "multiplies parts of two panels") ||
        !gal_type_holds(t, t->rows[a.rows].local_count == d[2], "its shape has another number of rows")) {
        return;
    }
    if (a.chunks + b.chunks == 0) {
        gal_type_put_piece(t, 2, d[0], d[1], a.split, b.split, gal_type_owners_of(t, &a));
        return;
    }
    const gal_typed piece = {.kind = GAL_VALUE_PIECE,
                             .m = d[0],
                             .n = d[1],
                             .split_m = a.split,
                             .split_n = b.split,
                             .partial = gal_type_owners_of(t, &a),
                             .chunks = a.chunks + b.chunks,
                             .chunk = a.chunks > 0 ? a.chunk : b.chunk,
                             .chunk_rows = a.chunks > 0};
    if (gal_type_holds(t, ((a.split | b.split) & piece.partial) == 0 && (a.split & b.split) == 0,
                       "a gradient split and summed over the same devices") &&
        gal_type_holds(t, piece.m * piece.n * gal_type_item_bytes(t, 2) == t->operand[2].bytes,
                       "a gradient of another size")) {
        gal_type_put_part(t, 2, &piece);
    }
}

/* Adds the next term to a sum over the parts of what is contracted, or begins it. */
static void put_term(gal_typer *t, gal_typed sum, uint32_t chunks, uint32_t chunk)
{
    const gal_operand *o = &t->operand[2];
    const gal_stretch *at = gal_store_exact(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes);
    const bool begins = o->access == GAL_WRITE;
    const gal_typed *old = begins || at == NULL ? NULL : &at->value;
    if (gal_type_holds(t, begins ? chunk == 0 : chunk > 0 && old != NULL && old->terms_left == chunks - chunk,
                       "adds the parts of a product out of order") &&
        gal_type_holds(t,
                       begins ||
                           (old->kind == GAL_VALUE_ROWS && old->rows == sum.rows && old->chunks == 0 &&
                            old->features == sum.features && old->split == sum.split && old->partial == sum.partial),
                       "adds values of different types")) {
        sum.terms_left = chunks - 1 - chunk;
        gal_type_put_rows(t, 2, sum, sum.features);
    }
}

static void put_product(gal_typer *t, const gal_typed *a, const gal_type_matrix *w, bool contracts, gal_typed c)
{
    if (w->chunks == 0) {
        if (gal_type_holds(t, a->chunks == 0, "contracts a part of the features with whole weights") &&
            (t->operand[2].access == GAL_WRITE ||
             (gal_type_holds(t, c.partial == GAL_GROUP_NONE, "adds a partial sum to a whole one") &&
              gal_type_get_alike(t, 2, &c)))) {
            gal_type_put_rows(t, 2, c, c.features);
        }
    } else if (contracts) {
        if (gal_type_holds(t, a->chunks == w->chunks && a->chunk == w->chunk, "multiplies parts that do not belong")) {
            put_term(t, c, w->chunks, w->chunk);
        }
    } else if (gal_type_holds(t, a->chunks == 0, "multiplies parts that do not belong") &&
               gal_type_holds(
                   t, t->rows[c.rows].local_count * c.features * gal_type_item_bytes(t, 2) == t->operand[2].bytes,
                   "an output with another number of rows")) {
        c.kind = GAL_VALUE_ROWS;
        c.chunks = w->chunks;
        c.chunk = w->chunk;
        gal_type_put_part(t, 2, &c);
    }
}

/* c = a W: partial over the devices that split what is contracted. */
static void type_gemm(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    uint64_t n = d[1];
    uint64_t k = d[2];
    gal_typed a;
    gal_type_matrix w;
    if ((d[3] & GAL_GEMM_TRANSPOSE_A) != 0) {
        type_gemm_over_rows(t);
        return;
    }
    bool transposed = (d[3] & GAL_GEMM_TRANSPOSE_B) != 0;
    if (!get_factor(t, 0, k, &a) ||
        !gal_type_holds(t, t->rows[a.rows].local_count == d[0], "its shape has another number of rows") ||
        !gal_type_get_matrix(t, 1, transposed ? n : k, transposed ? k : n, &w)) {
        return;
    }
    gal_group contracted = transposed ? w.by_columns : w.by_rows;
    gal_group kept = transposed ? w.by_rows : w.by_columns;
    if (!gal_type_holds(t, a.split == contracted, "contracts features that are split differently") ||
        !gal_type_holds(t, (gal_type_owners_of(t, &a) & (contracted | kept)) == 0,
                        "splits features over devices that own rows") ||
        ((d[3] & GAL_GEMM_BIAS) != 0 &&
         (!gal_type_holds(t, contracted == GAL_GROUP_NONE, "adds a bias to a partial sum") ||
          !gal_type_holds(t, t->operand[2].access == GAL_WRITE, "adds a bias again") ||
          !gal_type_get_vector(t, 3, n, kept)))) {
        return;
    }
    const gal_typed c = {.rows = a.rows, .features = n, .split = kept, .partial = contracted};
    put_product(t, &a, &w, w.chunk_rows != transposed, c);
}

/* ---- norms ---- */

/* Two numbers per row, or one. */
static bool get_row_numbers(gal_typer *t, uint32_t k, uint64_t count, const gal_typed *rows)
{
    gal_typed value;
    return gal_type_get_complete(t, k, count, &value) &&
           gal_type_holds(t, value.rows == rows->rows && value.split == GAL_GROUP_NONE, "operands with different rows");
}

static bool expect_parts(gal_typer *t, const gal_typed *x, uint32_t parts)
{
    return gal_type_holds(t, x->split != GAL_GROUP_NONE && gal_type_size_of(t, x->split) == parts,
                          "its features are in another number of parts");
}

static void type_norm_sums(gal_typer *t)
{
    gal_typed x;
    if (gal_type_get_complete(t, 0, t->shape->dims[1], &x) &&
        gal_type_holds(t, t->rows[x.rows].local_count == t->shape->dims[0], "its shape has another number of rows")) {
        gal_type_put_rows(t, 1, (gal_typed){.rows = x.rows, .split = x.split}, 2);
    }
}

/* The moments of all parts of the rows of x. */
static bool get_moments(gal_typer *t, uint32_t k, const gal_typed *x, uint32_t parts)
{
    gal_typed moments;
    return gal_type_get_part(t, k, &moments) &&
           gal_type_holds(t, moments.kind == GAL_VALUE_ROWS && moments.rows == x->rows && moments.features == 2,
                          "operands with different rows") &&
           gal_type_holds(t, moments.chunks == parts && moments.chunk == parts && moments.partial == GAL_GROUP_NONE,
                          "reads the moments of another number of parts");
}

static void type_norm_by_sums(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed x;
    if (gal_type_get_complete(t, 0, d[1], &x) && expect_parts(t, &x, d[2]) &&
        gal_type_get_vector(t, 1, d[1], x.split) && get_moments(t, 2, &x, d[2]) &&
        (d[3] == 0 || gal_type_get_vector(t, 5, d[1], x.split)) && gal_type_put_rows(t, 3, x, d[1])) {
        gal_type_put_rows(t, 4, (gal_typed){.rows = x.rows}, d[3] != 0 ? 2 : 1);
    }
}

static void type_norm_sums_backward(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed dy;
    if (gal_type_get_complete(t, 0, d[1], &dy) && gal_type_get_alike(t, 1, &dy) &&
        gal_type_get_vector(t, 2, d[1], dy.split) && get_row_numbers(t, 3, d[2] != 0 ? 2 : 1, &dy) &&
        gal_type_put_rows(t, 4, (gal_typed){.rows = dy.rows, .partial = dy.split}, 2) &&
        gal_type_put_piece(t, 5, 1, d[1], GAL_GROUP_NONE, dy.split, gal_type_owners_of(t, &dy)) && d[2] != 0) {
        gal_type_put_piece(t, 6, 1, d[1], GAL_GROUP_NONE, dy.split, gal_type_owners_of(t, &dy));
    }
}

static void type_norm_by_sums_backward(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed dy;
    if (gal_type_get_complete(t, 0, d[1], &dy) && expect_parts(t, &dy, d[2]) && gal_type_get_alike(t, 1, &dy) &&
        gal_type_get_vector(t, 2, d[1], dy.split) && get_row_numbers(t, 3, d[3] != 0 ? 2 : 1, &dy) &&
        get_row_numbers(t, 4, 2, &dy) && (d[4] == 0 || gal_type_get_alike(t, 6, &dy))) {
        gal_type_put_rows(t, 5, dy, d[1]);
    }
}

static void type_add_bias(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed x;
    if (gal_type_get_complete(t, 0, d[1], &x) &&
        gal_type_holds(t, t->rows[x.rows].local_count == d[0], "its shape has another number of rows") &&
        gal_type_get_vector(t, 1, d[1], x.split)) {
        gal_type_put_rows(t, 0, x, d[1]);
    }
}

/* ---- copies of rows, and of parts of their features ---- */

/* A panel of parts of rows to whole rows. */
static void join_features(gal_typer *t, gal_typed value)
{
    const uint32_t *d = t->shape->dims, *stride = d + 6;
    const uint64_t rows = t->rows[value.rows].local_count;
    if (gal_type_holds(t,
                       t->operand[0].view == GAL_GROUP_NONE && value.chunk == value.chunks && d[1] == 1 && d[2] == 1 &&
                           d[3] == 1 && d[4] == rows && d[5] == value.chunks && stride[3] == 1 && stride[4] == rows,
                       "puts parts of rows together in another order")) {
        value.features *= value.chunks;
        value.chunks = value.chunk = 0;
        gal_type_put_rows(t, 1, value, value.features);
    }
}

/* Of a panel of all parts of the features that of this device. */
static void take_part(gal_typer *t, gal_typed value, uint64_t row_bytes)
{
    const uint32_t *d = t->shape->dims, *stride = d + 6;
    const gal_operand *o = &t->operand[0];
    const uint64_t rows = t->rows[value.rows].local_count;
    if (gal_type_holds(t,
                       value.chunk == value.chunks && value.chunks == gal_type_size_of(t, o->view) &&
                           o->view_stride_bytes == rows * row_bytes && d[1] == 1 && d[2] == 1 && d[3] == 1 &&
                           d[4] == 1 && d[5] == rows && stride[4] == 1,
                       "reads rows where there are none") &&
        gal_type_holds(t, ((value.split | value.partial | gal_type_owners_of(t, &value)) & o->view) == 0,
                       "slices over devices that hold different values")) {
        value.split = o->view;
        value.chunks = value.chunk = 0;
        gal_type_put_rows(t, 1, value, value.features);
    }
}

/* Of every row the part of this device. */
static void cut_features(gal_typer *t, gal_typed value, uint64_t row_bytes)
{
    const uint32_t *d = t->shape->dims, *stride = d + 6;
    const gal_operand *o = &t->operand[0];
    const uint32_t parts = gal_type_size_of(t, o->view);
    if (gal_type_holds(t,
                       value.features == (uint64_t)d[0] * parts && o->view_stride_bytes == row_bytes && d[1] == 1 &&
                           d[2] == 1 && d[3] == 1 && d[4] == 1 && d[5] == t->rows[value.rows].local_count &&
                           stride[4] == parts,
                       "reads rows where there are none") &&
        gal_type_holds(t,
                       ((value.split | value.partial | gal_type_owners_of(t, &value)) & o->view) == 0 &&
                           value.split == GAL_GROUP_NONE,
                       "slices over devices that hold different values")) {
        value.split = o->view;
        gal_type_put_rows(t, 1, value, d[0]);
    }
}

static void type_permute(gal_typer *t)
{
    const gal_operand *o = &t->operand[0];
    uint64_t row_bytes = t->shape->dims[0] * gal_type_item_bytes(t, 0);
    const gal_stretch *source =
        gal_store_around(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + gal_operand_span(t->program, o));
    gal_typed value = {.kind = GAL_VALUE_COUNT};
    if (source != NULL && source->begin == o->offset_bytes) {
        value = source->value;
    } else if (source == NULL) {
        (void)gal_type_find(t, 0, &value);
    }
    if (value.kind != GAL_VALUE_ROWS || value.terms_left > 0 ||
        (value.dealt | value.within | value.ring | value.mirrored) != GAL_GROUP_NONE ||
        o->view_stride_bytes % row_bytes != 0) {
        gal_type_broken(t, "reads rows where there are none");
        return;
    }
    if (value.chunks > 0 || value.features != t->shape->dims[0]) {
        if (value.chunks > 0 && value.features == t->shape->dims[0]) {
            (o->view == GAL_GROUP_NONE ? join_features(t, value) : take_part(t, value, row_bytes));
        } else if (gal_type_holds(t, value.chunks == 0 && o->view != GAL_GROUP_NONE,
                                  "reads rows where there are none")) {
            cut_features(t, value, row_bytes);
        }
        return;
    }
    gal_rows to;
    const char *rule = gal_rows_permute(&t->rows[value.rows], &t->program->atoms, t->shape->dims, o->view,
                                        o->view_stride_bytes / row_bytes, &to);
    if (gal_type_holds(t, rule == NULL, rule) && gal_type_holds(t, ((value.split | value.partial) & o->view) == 0,
                                                                "slices over devices that hold different values")) {
        value.rows = gal_type_intern(t, &to);
        gal_type_put_rows(t, 1, value, value.features);
    }
}

const gal_typing_rule gal_type_grid_rules[GAL_OP_COUNT] = {
    [GAL_OP_NORM_SUMS] = {type_norm_sums, 2, 2},
    [GAL_OP_NORM_BY_SUMS] = {type_norm_by_sums, 5, 6},
    [GAL_OP_NORM_SUMS_BACKWARD] = {type_norm_sums_backward, 6, 7},
    [GAL_OP_NORM_BY_SUMS_BACKWARD] = {type_norm_by_sums_backward, 6, 7},
    [GAL_OP_ADD_BIAS] = {type_add_bias, 2, 2},
    [GAL_OP_GEMM] = {type_gemm, 3, 4},
    [GAL_OP_PERMUTE] = {type_permute, 2, 2},
};
