/* Typing rules of kernels, in the order of schemas/operator.h; those of attention are verify_types_attention.c. */
#include <string.h>

#include "runtime/program/verify/verify_internal.h"
#include "runtime/program/verify/verify_typer.h"

static void type_load(gal_typer *t)
{
    gal_typed tokens = {.kind = GAL_VALUE_TOKENS, .features = t->in->op};
    if (gal_type_layout_rows(t, t->shape->dims[1], &tokens.rows) &&
        gal_type_expect_layout(t, tokens.rows, t->shape->dims[0], t->shape->dims[1])) {
        gal_type_put(t, 0, &tokens);
    }
}

static void type_load_lengths(gal_typer *t)
{
    gal_typed lengths = {.kind = GAL_VALUE_LENGTHS, .features = t->shape->dims[1]};
    if (gal_type_layout_rows(t, 1, &lengths.rows) && gal_type_expect_layout(t, lengths.rows, t->shape->dims[0], 1)) {
        gal_type_put(t, 0, &lengths);
    }
}

static void type_load_patches(gal_typer *t)
{
    gal_typed patches = {.loaded = true};
    if (gal_type_layout_rows(t, t->shape->dims[1], &patches.rows) &&
        gal_type_expect_layout(t, patches.rows, t->shape->dims[0], t->shape->dims[1])) {
        gal_type_put_rows(t, 0, patches, t->shape->dims[2]);
    }
}

/* Targets, or what is embedded. */
static bool get_tokens(gal_typer *t, uint32_t k, bool targets, gal_typed *out)
{
    return gal_type_get_kind(t, k, GAL_VALUE_TOKENS, out) &&
           gal_type_holds(t, targets == (out->features == GAL_OP_LOAD_TARGETS),
                          "reads tokens for targets or targets for tokens") &&
           gal_type_expect_layout(t, out->rows, t->shape->dims[0], t->shape->dims[1]);
}

static void type_embed(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed tokens;
    gal_group by_rows;
    gal_group by_columns;
    if (get_tokens(t, 0, false, &tokens) && gal_type_get_weight(t, 1, d[3], d[2], &by_rows, &by_columns) &&
        gal_type_holds(t, by_rows == t->in->group, "its table is split over other devices") &&
        gal_type_holds(t, (gal_type_owners_of(t, &tokens) & (by_rows | by_columns)) == 0,
                       "looks up rows that other owners of the table do not have")) {
        gal_type_put_rows(t, 2, (gal_typed){.rows = tokens.rows, .split = by_columns, .partial = by_rows}, d[2]);
    }
}

/* The parts of the vocabulary that devices have, where the kernel has them all: the table was gathered. Its number is
 * 0.
 */
static uint32_t gathered_parts(const gal_typer *t, uint64_t vocabulary)
{
    for (uint32_t i = 0; i < t->program->parameter_count; i++) {
        const gal_parameter *p = &t->program->parameter[i];
        if (p->tensor == 0) {
            return p->split == vocabulary ? gal_type_size_of(t, p->split_group) : 1;
        }
    }
    return 1;
}

static void type_embed_backward(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    const uint32_t parts = gathered_parts(t, d[3]);
    gal_typed tokens;
    gal_typed de;
    if (!get_tokens(t, 0, false, &tokens) || !gal_type_get_complete(t, 1, d[2], &de) ||
        !gal_type_holds(t, de.rows == tokens.rows, "operands with different rows")) {
        return;
    }
    if (parts > 1) {
        const gal_typed panel = {.kind = GAL_VALUE_PIECE,
                                 .m = d[3] / parts,
                                 .n = d[2],
                                 .split_n = de.split,
                                 .partial = gal_type_owners_of(t, &de),
                                 .chunks = parts,
                                 .chunk = parts,
                                 .chunk_rows = true};
        if (gal_type_holds(t, t->operand[2].bytes == (uint64_t)d[3] * d[2] * gal_type_item_bytes(t, 2),
                           "a gradient of another size")) {
            gal_type_put(t, 2, &panel);
        }
    } else {
        gal_type_put_piece(t, 2, d[3], d[2], t->in->group, de.split, gal_type_owners_of(t, &de));
    }
}

/* The part of the features of a row that the kernel is told of. */
static bool expect_features(gal_typer *t, const gal_typed *value)
{
    return gal_type_holds(t, value->split == t->in->group,
                          t->in->group == GAL_GROUP_NONE ? "reads split features as whole ones"
                                                         : "its features are split over other devices");
}

/* A table whose rows are of these features. */
static bool get_rows_table(gal_typer *t, uint32_t k, uint64_t m, uint64_t n)
{
    gal_group by_rows;
    gal_group by_columns;
    return gal_type_get_weight(t, k, m, n, &by_rows, &by_columns) &&
           gal_type_holds(t, by_rows == GAL_GROUP_NONE && by_columns == t->in->group,
                          "reads a split table as a whole one");
}

static void type_position(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed e;
    if (gal_type_get_complete(t, 0, d[2], &e) && expect_features(t, &e) &&
        gal_type_expect_layout(t, e.rows, d[0], d[1]) && get_rows_table(t, 1, d[3], d[2]) &&
        (d[4] == 0 || get_rows_table(t, 3, d[4], d[2])) &&
        (d[5] == 0 || gal_type_get_vector(t, 3, d[2], t->in->group))) {
        gal_type_put_rows(t, 2, e, d[2]);
    }
}

static void type_position_backward(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed dy;
    if (gal_type_get_complete(t, 0, d[2], &dy) && expect_features(t, &dy) &&
        gal_type_expect_layout(t, dy.rows, d[0], d[1]) && gal_type_put_rows(t, 1, dy, d[2]) &&
        gal_type_put_piece(t, 2, d[3], d[2], GAL_GROUP_NONE, dy.split, gal_type_owners_of(t, &dy)) && d[4] + d[5] > 0) {
        gal_type_put_piece(t, 3, d[4] + d[5], d[2], GAL_GROUP_NONE, dy.split, gal_type_owners_of(t, &dy));
    }
}

static void type_layer_norm(gal_typer *t)
{
    uint64_t h = t->shape->dims[1];
    gal_typed x;
    if (gal_type_get_complete(t, 0, h, &x) &&
        gal_type_holds(t, x.split == GAL_GROUP_NONE, "reads split features as whole ones") &&
        gal_type_get_whole_vector(t, 1, h) && gal_type_get_whole_vector(t, 2, h) && gal_type_put_rows(t, 3, x, h)) {
        gal_type_put_rows(t, 4, x, 2);
    }
}

static void type_layer_norm_backward(gal_typer *t)
{
    uint64_t h = t->shape->dims[1];
    gal_typed dy;
    gal_typed stats;
    if (gal_type_get_complete(t, 0, h, &dy) &&
        gal_type_holds(t, dy.split == GAL_GROUP_NONE, "reads split features as whole ones") &&
        gal_type_get_alike(t, 1, &dy) && gal_type_get_whole_vector(t, 2, h) && gal_type_get_complete(t, 3, 2, &stats) &&
        gal_type_holds(t, stats.rows == dy.rows, "operands with different rows") &&
        (t->shape->dims[2] == 0 || gal_type_get_alike(t, 7, &dy)) && gal_type_put_rows(t, 4, dy, h) &&
        gal_type_put_piece(t, 5, 1, h, GAL_GROUP_NONE, GAL_GROUP_NONE, gal_type_owners_of(t, &dy))) {
        gal_type_put_piece(t, 6, 1, h, GAL_GROUP_NONE, GAL_GROUP_NONE, gal_type_owners_of(t, &dy));
    }
}

static void type_rms_norm(gal_typer *t)
{
    uint64_t h = t->shape->dims[1];
    gal_typed x;
    if (gal_type_get_complete(t, 0, h, &x) &&
        gal_type_holds(t, x.split == GAL_GROUP_NONE, "reads split features as whole ones") &&
        gal_type_get_whole_vector(t, 1, h) && gal_type_put_rows(t, 2, x, h)) {
        gal_type_put_rows(t, 3, x, 1);
    }
}

static void type_rms_norm_backward(gal_typer *t)
{
    uint64_t h = t->shape->dims[1];
    gal_typed dy;
    gal_typed reciprocals;
    if (gal_type_get_complete(t, 0, h, &dy) &&
        gal_type_holds(t, dy.split == GAL_GROUP_NONE, "reads split features as whole ones") &&
        gal_type_get_alike(t, 1, &dy) && gal_type_get_whole_vector(t, 2, h) &&
        gal_type_get_complete(t, 3, 1, &reciprocals) &&
        gal_type_holds(t, reciprocals.rows == dy.rows, "operands with different rows") &&
        (t->shape->dims[2] == 0 || gal_type_get_alike(t, 6, &dy)) && gal_type_put_rows(t, 4, dy, h)) {
        gal_type_put_piece(t, 5, 1, h, GAL_GROUP_NONE, GAL_GROUP_NONE, gal_type_owners_of(t, &dy));
    }
}

static void type_bias_gradient(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed dy;
    if (gal_type_get_complete(t, 0, d[1], &dy) &&
        gal_type_holds(t, t->rows[dy.rows].local_count == d[0], "its shape has another number of rows")) {
        gal_type_put_piece(t, 1, 1, d[1], GAL_GROUP_NONE, dy.split, gal_type_owners_of(t, &dy));
    }
}

/* Number of features of an elementwise kernel's first operand, whatever they are. */
static uint64_t features_of(gal_typer *t, uint32_t k)
{
    gal_typed value;
    return gal_type_get_kind(t, k, GAL_VALUE_ROWS, &value) ? value.features : 0;
}

static void type_scale(gal_typer *t)
{
    gal_typed a;
    if (gal_type_get_complete(t, 0, features_of(t, 0), &a) && gal_type_expect_elements(t, 0)) {
        gal_type_put_rows(t, 0, a, a.features);
    }
}

static void type_activation(gal_typer *t)
{
    gal_typed u;
    if (gal_type_get_complete(t, 0, features_of(t, 0), &u) && gal_type_expect_elements(t, 0)) {
        gal_type_put_rows(t, 1, u, u.features);
    }
}

static void type_activation_backward(gal_typer *t)
{
    gal_typed dg;
    if (gal_type_get_complete(t, 0, features_of(t, 0), &dg) && gal_type_expect_elements(t, 0) &&
        gal_type_get_alike(t, 1, &dg)) {
        gal_type_put_rows(t, 2, dg, dg.features);
    }
}

static void type_gated_activation(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed u;
    if (gal_type_get_complete(t, 0, 2 * (uint64_t)d[1], &u) &&
        gal_type_holds(t, t->rows[u.rows].local_count == d[0], "its shape has another number of rows")) {
        gal_type_put_rows(t, 1, u, d[1]);
    }
}

static void type_gated_activation_backward(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed dg;
    gal_typed u;
    if (gal_type_get_complete(t, 0, d[1], &dg) && gal_type_get_complete(t, 1, 2 * (uint64_t)d[1], &u) &&
        gal_type_holds(t, u.rows == dg.rows && t->rows[u.rows].local_count == d[0], "operands with different rows") &&
        gal_type_holds(t, u.split == dg.split, "operands whose features are split differently")) {
        gal_type_put_rows(t, 2, u, 2 * (uint64_t)d[1]);
    }
}

static void type_residual(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed x;
    if (gal_type_get_complete(t, 0, d[2], &x) && expect_features(t, &x) &&
        gal_type_expect_layout(t, x.rows, d[0], d[1]) && gal_type_get_alike(t, 1, &x) &&
        (d[3] == 0 || gal_type_get_vector(t, 3, d[2], t->in->group))) {
        gal_type_put_rows(t, 2, x, d[2]);
    }
}

static void type_dropout(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed x;
    if (gal_type_get_complete(t, 0, d[2], &x) && expect_features(t, &x) &&
        gal_type_expect_layout(t, x.rows, d[0], d[1])) {
        gal_type_put_rows(t, 1, x, d[2]);
    }
}

/* The rows of one position of all samples of the instruction's layout, on every device that shares its positions. */
static bool first_rows(gal_typer *t, gal_group *positions, uint32_t *out)
{
    if (t->in->layout == 0 || t->in->layout >= t->program->layout_count) {
        return gal_type_broken(t, "has no layout");
    }
    gal_layout layout = t->program->layout[t->in->layout];
    gal_rows rows;
    *positions = layout.sequence_group;
    layout.sequence_group = GAL_GROUP_NONE;
    if (!gal_rows_of_layout(&layout, &t->program->atoms, 1, &rows)) {
        return gal_type_broken(t, "has a layout that is none");
    }
    *out = gal_type_intern(t, &rows);
    return true;
}

static void type_first_position(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed x, y = {0};
    if (gal_type_get_complete(t, 0, d[2], &x) && gal_type_expect_layout(t, x.rows, d[0], d[1]) &&
        first_rows(t, &y.partial, &y.rows)) {
        y.split = x.split;
        gal_type_put_rows(t, 1, y, d[2]);
    }
}

static void type_first_position_backward(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    gal_typed dy, dx = {0};
    gal_group positions;
    uint32_t first;
    if (gal_type_get_complete(t, 0, d[2], &dy) && first_rows(t, &positions, &first) &&
        gal_type_holds(t, dy.rows == first, "its rows are not those of one position") &&
        gal_type_layout_rows(t, d[1], &dx.rows) && gal_type_expect_layout(t, dx.rows, d[0], d[1])) {
        dx.split = dy.split;
        gal_type_put_rows(t, 1, dx, d[2]);
    }
}

/* Of all positions the local ones are this device's share. */
static bool shares_positions(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    const bool laid = t->in->layout < t->program->layout_count;
    const gal_group group = laid ? t->program->layout[t->in->layout].sequence_group : GAL_GROUP_NONE;
    return gal_type_holds(t, laid && d[1] * (uint64_t)gal_type_size_of(t, group) == d[3],
                          "divides by another number of positions");
}

static void type_mean_position(gal_typer *t)
{
    if (shares_positions(t)) {
        type_first_position(t);
    }
}

static void type_mean_position_backward(gal_typer *t)
{
    if (shares_positions(t)) {
        type_first_position_backward(t);
    }
}

/* Rows of the grid of which this device has an even number, and of the grid that they merge to. Where features are
 * split the merged ones are, as those of queries, keys and values that are one matrix: the same part of each. */
static bool merged_rows(gal_typer *t, uint32_t *from, uint32_t *to)
{
    const uint32_t *d = t->shape->dims;
    return gal_type_holds(t, d[3] > 0 && d[3] % 2 == 0 && d[1] % (2 * d[3]) == 0, "merges rows that are elsewhere") &&
           gal_type_layout_rows(t, d[1], from) && gal_type_layout_rows(t, d[1] / 4, to);
}

static void type_merge(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    uint32_t from = 0;
    gal_typed x, y = {0};
    if (gal_type_get_complete(t, 0, d[2], &x) && merged_rows(t, &from, &y.rows) &&
        gal_type_holds(t, x.rows == from, "its rows are not those of the grid")) {
        y.split = x.split;
        gal_type_put_rows(t, 1, y, 4 * (uint64_t)d[2]);
    }
}

static void type_merge_backward(gal_typer *t)
{
    const uint32_t *d = t->shape->dims;
    uint32_t merged = 0;
    gal_typed dy, dx = {0};
    if (gal_type_get_complete(t, 0, 4 * (uint64_t)d[2], &dy) && merged_rows(t, &dx.rows, &merged) &&
        gal_type_holds(t, dy.rows == merged, "its rows are not those of the merged grid")) {
        dx.split = dy.split;
        gal_type_put_rows(t, 1, dx, d[2]);
    }
}

static bool get_logits(gal_typer *t, uint32_t k, uint64_t features, gal_typed *out)
{
    return gal_type_get_complete(t, k, features, out) &&
           gal_type_holds(t, out->split == t->in->group, "its vocabulary is split over other devices");
}

static void type_cross_entropy_max(gal_typer *t)
{
    gal_typed logits;
    if (get_logits(t, 0, t->shape->dims[1], &logits)) {
        gal_type_put_rows(t, 1, (gal_typed){.rows = logits.rows, .max_partial = logits.split}, 1);
    }
}

/* Row values that go with logits. */
static bool get_row_values(gal_typer *t, uint32_t k, uint64_t features, const gal_typed *logits)
{
    gal_typed value;
    return gal_type_get_complete(t, k, features, &value) &&
           gal_type_holds(t, value.rows == logits->rows && value.split == GAL_GROUP_NONE,
                          "operands with different rows");
}

static void type_cross_entropy_sum(gal_typer *t)
{
    gal_typed logits;
    gal_typed targets;
    if (get_logits(t, 0, t->shape->dims[2], &logits) && get_row_values(t, 1, 1, &logits) &&
        get_tokens(t, 2, true, &targets) &&
        gal_type_holds(t, targets.rows == logits.rows, "operands with different rows")) {
        gal_type_put_rows(t, 3, (gal_typed){.rows = logits.rows, .partial = logits.split}, 2);
    }
}

static void type_cross_entropy_loss(gal_typer *t)
{
    gal_typed sums;
    if (gal_type_get_complete(t, 0, 2, &sums) && gal_type_holds(t, t->rows[sums.rows].local_count == t->shape->dims[0],
                                                                "its shape has another number of rows")) {
        gal_type_put(t, 1, &(gal_typed){.kind = GAL_VALUE_LOSS, .partial = gal_type_owners_of(t, &sums)});
    }
}

static void type_cross_entropy_backward(gal_typer *t)
{
    gal_typed logits;
    gal_typed targets;
    if (get_logits(t, 0, t->shape->dims[2], &logits) && get_row_values(t, 1, 1, &logits) &&
        get_row_values(t, 2, 2, &logits) && get_tokens(t, 3, true, &targets) &&
        gal_type_holds(t, targets.rows == logits.rows, "operands with different rows")) {
        gal_type_put_rows(t, 0, logits, logits.features);
    }
}

/* Features of the parts that the shape says, of all members; false if they are not divided by them. */
static bool read_parts(gal_typer *t, uint64_t *features, uint64_t part[GAL_FEATURE_PARTS])
{
    const uint32_t *d = t->shape->dims;
    const uint64_t members = gal_type_size_of(t, t->in->group);
    bool divides = members == d[1];
    *features = 0;
    for (uint32_t i = 0; divides && i < GAL_FEATURE_PARTS; i++) {
        divides = d[2 + i] % members == 0;
        part[i] = d[2 + i] / members;
        *features += d[2 + i];
    }
    return gal_type_holds(t, divides, "its parts do not divide by the group");
}

static void type_deal_features(gal_typer *t)
{
    uint64_t features;
    uint64_t part[GAL_FEATURE_PARTS];
    gal_typed x;
    if (read_parts(t, &features, part) && gal_type_get_complete(t, 0, features, &x) &&
        gal_type_holds(t, t->rows[x.rows].local_count == t->shape->dims[0], "its shape has another number of rows") &&
        gal_type_holds(t, (x.split & t->in->group) == 0, "deals out over devices that split the features")) {
        x.dealt = t->in->group;
        memcpy(x.part, part, sizeof part);
        gal_type_put_rows(t, 1, x, features);
    }
}

static void type_collect_features(gal_typer *t)
{
    const gal_operand *o = &t->operand[0];
    const gal_stretch *at = gal_store_exact(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes);
    uint64_t features;
    uint64_t part[GAL_FEATURE_PARTS];
    if (!read_parts(t, &features, part) ||
        !gal_type_holds(t, o->view == GAL_GROUP_NONE && at != NULL && at->value.kind == GAL_VALUE_ROWS,
                        "an operand of the wrong kind") ||
        !gal_type_holds(t,
                        at->value.dealt == t->in->group &&
                            (at->value.within | at->value.ring | at->value.mirrored) == GAL_GROUP_NONE,
                        "its features are dealt out over other devices") ||
        !gal_type_holds(t, memcmp(part, at->value.part, sizeof part) == 0 && at->value.features == features,
                        "its features were dealt out in other parts") ||
        !gal_type_holds(t, (at->value.partial | at->value.max_partial) == GAL_GROUP_NONE,
                        "reads a sum that is still partial") ||
        !gal_type_holds(t, t->rows[at->value.rows].local_count == t->shape->dims[0],
                        "its shape has another number of rows")) {
        return;
    }
    gal_typed y = at->value;
    y.dealt = GAL_GROUP_NONE;
    memset(y.part, 0, sizeof y.part);
    gal_type_put_rows(t, 1, y, features);
}

static void type_fill(gal_typer *t)
{
    gal_type_put(t, 0, &(gal_typed){.kind = GAL_VALUE_ZERO});
}

static void type_add(gal_typer *t)
{
    gal_typed source;
    if (!gal_type_add_part(t) && gal_type_get(t, 0, &source) && gal_type_expect_elements(t, 0)) {
        gal_type_put(t, 1, &source);
    }
}

const gal_typing_rule gal_type_kernel_rules[GAL_OP_COUNT] = {
    [GAL_OP_LOAD_TOKENS] = {type_load, 1, 1},
    [GAL_OP_LOAD_TARGETS] = {type_load, 1, 1},
    [GAL_OP_LOAD_PATCHES] = {type_load_patches, 1, 1},
    [GAL_OP_LOAD_DECODER_TOKENS] = {type_load, 1, 1},
    [GAL_OP_LOAD_LENGTHS] = {type_load_lengths, 1, 1},
    [GAL_OP_EMBED] = {type_embed, 3, 3},
    [GAL_OP_EMBED_BACKWARD] = {type_embed_backward, 3, 3},
    [GAL_OP_POSITION] = {type_position, 3, 4},
    [GAL_OP_POSITION_BACKWARD] = {type_position_backward, 3, 4},
    [GAL_OP_LAYER_NORM] = {type_layer_norm, 5, 5},
    [GAL_OP_LAYER_NORM_BACKWARD] = {type_layer_norm_backward, 7, 8},
    [GAL_OP_RMS_NORM] = {type_rms_norm, 4, 4},
    [GAL_OP_RMS_NORM_BACKWARD] = {type_rms_norm_backward, 6, 7},
    [GAL_OP_BIAS_GRADIENT] = {type_bias_gradient, 2, 2},
    [GAL_OP_SCALE] = {type_scale, 1, 1},
    [GAL_OP_ACTIVATION] = {type_activation, 2, 2},
    [GAL_OP_ACTIVATION_BACKWARD] = {type_activation_backward, 3, 3},
    [GAL_OP_GATED_ACTIVATION] = {type_gated_activation, 2, 2},
    [GAL_OP_GATED_ACTIVATION_BACKWARD] = {type_gated_activation_backward, 3, 3},
    [GAL_OP_RESIDUAL] = {type_residual, 3, 4},
    [GAL_OP_DROPOUT] = {type_dropout, 2, 2},
    [GAL_OP_FIRST_POSITION] = {type_first_position, 2, 2},
    [GAL_OP_FIRST_POSITION_BACKWARD] = {type_first_position_backward, 2, 2},
    [GAL_OP_MEAN_POSITION] = {type_mean_position, 2, 2},
    [GAL_OP_MEAN_POSITION_BACKWARD] = {type_mean_position_backward, 2, 2},
    [GAL_OP_MERGE] = {type_merge, 2, 2},
    [GAL_OP_MERGE_BACKWARD] = {type_merge_backward, 2, 2},
    [GAL_OP_CROSS_ENTROPY_MAX] = {type_cross_entropy_max, 2, 2},
    [GAL_OP_CROSS_ENTROPY_SUM] = {type_cross_entropy_sum, 4, 4},
    [GAL_OP_CROSS_ENTROPY_LOSS] = {type_cross_entropy_loss, 2, 2},
    [GAL_OP_CROSS_ENTROPY_BACKWARD] = {type_cross_entropy_backward, 4, 4},
    [GAL_OP_DEAL_FEATURES] = {type_deal_features, 2, 2},
    [GAL_OP_COLLECT_FEATURES] = {type_collect_features, 2, 2},
    [GAL_OP_ADD] = {type_add, 2, 2},
    [GAL_OP_FILL] = {type_fill, 1, 1},
};
