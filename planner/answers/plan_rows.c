#include "planner/answers/plan_rows.h"

#include <stdio.h>
#include <stdlib.h>

#include "planner/answers/fold.h"

/* ---- units: rows of one layer ---- */

static bool is_of_layer(gal_block_kind kind)
{
    return kind == GAL_BLOCK_ATTENTION || kind == GAL_BLOCK_CROSS_ATTENTION || kind == GAL_BLOCK_FFN;
}

static gal_plan_part part_of(gal_block_kind kind)
{
    return kind == GAL_BLOCK_FFN               ? GAL_PART_FFN
           : kind == GAL_BLOCK_CROSS_ATTENTION ? GAL_PART_CROSS_ATTENTION
                                               : GAL_PART_ATTENTION;
}

static gal_plan_row unit_of(const gal_model *model, const gal_block_shape *block)
{
    const bool layer = is_of_layer(block->kind), two_stacks = model->decoder_layer_count > 0;
    gal_plan_row unit = {.kind = layer ? GAL_BLOCK_ATTENTION : block->kind, .repeat = 1};
    if (layer && two_stacks) {
        unit.stack = block->decodes ? GAL_STACK_DECODER : GAL_STACK_ENCODER;
    }
    if (model->level_count > 0 && (layer || block->kind == GAL_BLOCK_MERGE)) {
        unit.level = block->level + 1;
    }
    unit.first_layer = unit.last_layer = layer ? block->layer + 1 : 0;
    return unit;
}

static bool same_layer(const gal_plan_row *a, const gal_plan_row *b)
{
    return a->first_layer > 0 && a->first_layer == b->first_layer && a->stack == b->stack && a->level == b->level;
}

/* The units of a piece. unit has room for one a block. Returns how many. */
static uint32_t units_of(const gal_plan *plan, uint32_t piece, gal_plan_row *unit)
{
    const uint32_t first = gal_plan_stage_first_block(plan, piece);
    const uint32_t blocks = gal_plan_stage_block_count(plan, piece);
    uint32_t count = 0;
    for (uint32_t b = first; b < first + blocks; b++) {
        gal_block_shape block;
        gal_model_block(&plan->model, b, &block);
        const gal_plan_row next = unit_of(&plan->model, &block);
        if (count == 0 || !same_layer(&unit[count - 1], &next)) {
            unit[count++] = next;
        }
        unit[count - 1].strategy[part_of(block.kind)] = gal_plan_block_strategy(plan, b);
    }
    return count;
}

static bool same_strategy(const gal_strategy *a, const gal_strategy *b)
{
    return a == NULL || b == NULL ? a == b : gal_strategy_equal(a, b);
}

/* But for the number of the layer. */
static bool equal_units(const gal_plan_row *a, const gal_plan_row *b)
{
    bool equal = a->kind == b->kind && a->stack == b->stack && a->level == b->level;
    for (uint32_t part = 0; equal && part < GAL_PART_COUNT; part++) {
        equal = same_strategy(a->strategy[part], b->strategy[part]);
    }
    return equal;
}

/* ---- rows and groups ---- */

/* kind[i]: the first unit that is equal to unit i. */
static void number_kinds(const gal_plan_row *unit, uint32_t count, uint32_t *kind)
{
    for (uint32_t i = 0; i < count; i++) {
        kind[i] = 0;
        while (!equal_units(&unit[kind[i]], &unit[i])) {
            kind[i]++;
        }
    }
}

/* The rows of a fold: the runs of equal units in its first turn. */
static void add_fold(const gal_plan_row *unit, const uint32_t *kind, const gal_fold *fold, gal_plan_rows *out)
{
    const bool run = fold->period == 1;
    for (uint32_t i = fold->first; i < fold->first + fold->period; i++) {
        if (i > fold->first && kind[i] == kind[i - 1]) {
            out->row[out->row_count - 1].last_layer++;
            continue;
        }
        gal_plan_row *row = &out->row[out->row_count++];
        *row = unit[i];
        row->last_layer += run && row->last_layer > 0 ? fold->turns - 1 : 0;
        row->repeat = run ? 1 : fold->turns;
        row->period = run ? 0 : fold->period;
    }
}

/* Whether the units are those before, each so many layers on. */
static bool shifted(const gal_plan_row *before, const gal_plan_row *now, uint32_t count, uint32_t *shift)
{
    *shift = now[0].first_layer - before[0].first_layer;
    for (uint32_t i = 0; i < count; i++) {
        if (!equal_units(&before[i], &now[i]) || now[i].first_layer - before[i].first_layer != *shift) {
            return false;
        }
    }
    return true;
}

/* Scratch of a search for rows, each with room for one entry a block. */
typedef struct scratch {
    gal_plan_row *before, *now;
    uint32_t before_count, now_count;
    uint32_t *kind;
    gal_fold *fold;
} scratch;

static bool add_piece(const gal_plan *plan, uint32_t piece, scratch *s, gal_plan_rows *out)
{
    gal_plan_group *last = out->group_count > 0 ? &out->group[out->group_count - 1] : NULL;
    uint32_t shift = 0;
    s->now_count = units_of(plan, piece, s->now);
    if (last != NULL && s->now_count == s->before_count && shifted(s->before, s->now, s->now_count, &shift) &&
        (last->piece_count == 1 || last->shift == shift)) {
        last->piece_count++;
        last->shift = shift;
        return true;
    }
    number_kinds(s->now, s->now_count, s->kind);
    const uint32_t folds = gal_fold_kinds(s->kind, s->now_count, s->fold);
    gal_plan_group *group = &out->group[out->group_count++];
    *group = (gal_plan_group){.piece = piece, .piece_count = 1, .first_row = out->row_count};
    for (uint32_t i = 0; i < folds; i++) {
        add_fold(s->now, s->kind, &s->fold[i], out);
    }
    group->row_count = out->row_count - group->first_row;
    return folds > 0;
}

gal_code gal_plan_rows_find(const gal_plan *plan, gal_plan_rows *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t blocks = gal_model_block_count(&plan->model), pieces = gal_plan_piece_count(plan);
    gal_plan_rows found = {.group = calloc(pieces, sizeof *found.group), .row = calloc(blocks, sizeof *found.row)};
    scratch s = {.before = calloc(blocks, sizeof *s.before),
                 .now = calloc(blocks, sizeof *s.now),
                 .kind = calloc(blocks, sizeof *s.kind),
                 .fold = calloc(blocks, sizeof *s.fold)};
    bool ok = found.group != NULL && found.row != NULL && s.before != NULL && s.now != NULL && s.kind != NULL &&
              s.fold != NULL;
    for (uint32_t p = 0; ok && p < pieces; p++) {
        ok = add_piece(plan, p, &s, &found);
        gal_plan_row *swap = s.before;
        s.before = s.now;
        s.before_count = s.now_count;
        s.now = swap;
    }
    if (!ok) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to list the plan"));
    }
    *out = found;
    found = (gal_plan_rows){0};
cleanup:
    free(s.before);
    free(s.now);
    free(s.kind);
    free(s.fold);
    gal_plan_rows_free(&found);
    return code;
}

void gal_plan_rows_free(gal_plan_rows *rows)
{
    free(rows->group);
    free(rows->row);
    *rows = (gal_plan_rows){0};
}

/* ---- what they say ---- */

const char *const gal_plan_part_names[GAL_PART_COUNT] = {"attention", "cross-attention", "FFN"};

bool gal_plan_row_is_whole(const gal_plan_row *row)
{
    const bool crosses = row->stack == GAL_STACK_DECODER;
    return row->first_layer == 0 || (row->strategy[GAL_PART_ATTENTION] != NULL && row->strategy[GAL_PART_FFN] != NULL &&
                                     (!crosses || row->strategy[GAL_PART_CROSS_ATTENTION] != NULL));
}

const gal_strategy *gal_plan_row_strategy(const gal_plan_row *row)
{
    const gal_strategy *one = NULL;
    for (uint32_t part = 0; part < GAL_PART_COUNT; part++) {
        const gal_strategy *now = row->strategy[part];
        if (now != NULL && one != NULL && !gal_strategy_equal(one, now)) {
            return NULL;
        }
        one = now != NULL ? now : one;
    }
    return one;
}

const gal_strategy *gal_plan_group_strategy(const gal_plan_rows *rows, const gal_plan_group *group)
{
    const gal_strategy *one = gal_plan_row_strategy(&rows->row[group->first_row]);
    for (uint32_t i = 1; one != NULL && i < group->row_count; i++) {
        const gal_strategy *now = gal_plan_row_strategy(&rows->row[group->first_row + i]);
        one = now != NULL && gal_strategy_equal(one, now) ? one : NULL;
    }
    return one;
}

/* Into a buffer of 32: "3", or "3-5". */
static const char *range_text(uint32_t first, uint32_t last, char *buffer)
{
    (void)(first == last ? snprintf(buffer, 32, "%u", first) : snprintf(buffer, 32, "%u-%u", first, last));
    return buffer;
}

/* "layers 1-26", "layers 1, 3 ... 23 (x 12)". Returns the length. */
static size_t write_layers(const gal_plan_row *row, char *buffer)
{
    static const char *const stack_names[] = {"", "encoder ", "decoder "};
    char level[32] = "", first[32], second[32], last[32];
    const uint32_t a = row->first_layer, b = row->last_layer, turn = row->period, end = turn * (row->repeat - 1);
    if (row->level > 0) {
        (void)snprintf(level, sizeof level, "level %u ", row->level);
    }
    const char *const many = a == b && row->repeat == 1 ? "" : "s";
    size_t used = (size_t)snprintf(buffer, GAL_PLAN_ROW_NAME_BYTES, "%s%slayer%s %s", level, stack_names[row->stack],
                                   many, range_text(a, b, first));
    if (row->repeat > 1) {
        range_text(a + turn, b + turn, second);
        range_text(a + end, b + end, last);
        const char *const between = row->repeat > 3 ? " ... " : ", ";
        used += (size_t)snprintf(buffer + used, GAL_PLAN_ROW_NAME_BYTES - used, ", %s%s%s (x %u)", second,
                                 row->repeat > 2 ? between : "", row->repeat > 2 ? last : "", row->repeat);
    }
    return used;
}

static const char *layers_name(const gal_plan_row *row, char *buffer)
{
    size_t used = write_layers(row, buffer);
    const char *between = " ";
    for (uint32_t part = 0; !gal_plan_row_is_whole(row) && part < GAL_PART_COUNT; part++) {
        if (row->strategy[part] != NULL) {
            used += (size_t)snprintf(buffer + used, GAL_PLAN_ROW_NAME_BYTES - used, "%s%s", between,
                                     gal_plan_part_names[part]);
            between = ", ";
        }
    }
    return buffer;
}

const char *gal_plan_row_name(const gal_plan_row *row, char *buffer)
{
    switch (row->kind) {
    case GAL_BLOCK_EMBEDDING:
        (void)snprintf(buffer, GAL_PLAN_ROW_NAME_BYTES, "embedding");
        return buffer;
    case GAL_BLOCK_BRIDGE:
        (void)snprintf(buffer, GAL_PLAN_ROW_NAME_BYTES, "decoder embedding");
        return buffer;
    case GAL_BLOCK_MERGE:
        (void)snprintf(buffer, GAL_PLAN_ROW_NAME_BYTES, "merge %u", row->level);
        return buffer;
    case GAL_BLOCK_HEAD:
        (void)snprintf(buffer, GAL_PLAN_ROW_NAME_BYTES, "head");
        return buffer;
    default:
        return layers_name(row, buffer);
    }
}
