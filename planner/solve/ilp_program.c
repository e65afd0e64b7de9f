#include "planner/solve/ilp_program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 200000 };

/* ---- rows, made where they are first needed ---- */

typedef enum row_kind {
    ROW_FLOW,    /* (part, stage, class): what comes in goes out */
    ROW_COUNT,   /* (part, stage, class): layers but the stage's first are counted */
    ROW_FIRST,   /* (part, stage, class): the first one is */
    ROW_REACHED, /* (part, stage, class): a class that stays is entered */
    ROW_VISIT,   /* (part, stage): so is a stage */
    ROW_BEGIN,   /* (part, stage): entries are hops */
    ROW_END,     /* (part, stage): exits are hops */
    ROW_LENGTH,  /* (part): all its layers have a stage */
    ROW_BYTES,   /* (part, stage): Eq. 2 of the layer that is the part */
    ROW_BASE,    /* (stage): kept bytes */
    ROW_TIME,    /* (stage) */
    ROW_LAYERS,  /* (stage): total of its layers */
    ROW_CLASS,   /* (stage, class): total */
    ROW_STRATEGY /* (stage, strategy): total */
} row_kind;

static size_t row_slot(const gal_ilp *p, row_kind kind, uint32_t part, uint32_t stage, uint32_t class)
{
    const gal_instance *g = p->g;
    const size_t hubs = (size_t)g->layer_count * g->stage_count;
    const size_t hub = (size_t)part * g->stage_count + stage;
    const size_t after_cells = 4 * hubs * g->class_count;
    const size_t after_hubs = after_cells + 4 * hubs + g->layer_count;
    const size_t after_stages = after_hubs + 3 * (size_t)g->stage_count;
    switch (kind) {
    case ROW_FLOW:
    case ROW_COUNT:
    case ROW_FIRST:
    case ROW_REACHED:
        return ((size_t)kind * hubs + hub) * g->class_count + class;
    case ROW_BEGIN:
        return after_cells + hub;
    case ROW_END:
        return after_cells + hubs + hub;
    case ROW_BYTES:
        return after_cells + 2 * hubs + hub;
    case ROW_VISIT:
        return after_cells + 3 * hubs + hub;
    case ROW_LENGTH:
        return after_cells + 4 * hubs + part;
    case ROW_BASE:
    case ROW_TIME:
    case ROW_LAYERS:
        return after_hubs + (size_t)(kind - ROW_BASE) * g->stage_count + stage;
    case ROW_CLASS:
        return after_stages + (size_t)stage * g->class_count + class;
    default:
        return after_stages + (size_t)g->stage_count * g->class_count + (size_t)stage * g->strategy_count + class;
    }
}

static size_t row_slots(const gal_instance *g)
{
    const size_t hubs = (size_t)g->layer_count * g->stage_count;
    return 4 * hubs * g->class_count + 4 * hubs + g->layer_count +
           (size_t)g->stage_count * (3 + g->class_count + g->strategy_count);
}

static double room_of(const gal_ilp *p, uint32_t layer, uint32_t stage)
{
    return (double)p->g->budget_bytes / p->byte_scale - p->tightened[(size_t)layer * p->g->stage_count + stage];
}

static int add_row_of(gal_ilp *p, row_kind kind, uint32_t part, uint32_t stage)
{
    const double length = kind == ROW_LENGTH ? (double)(p->part_first[part + 1] - p->part_first[part]) : 0.0;
    const bool is_begin = kind == ROW_BEGIN && part == 0 && stage == 0;
    const bool is_end = kind == ROW_END && part + 1 == p->part_count && stage + 1 == p->g->stage_count;
    switch (kind) {
    case ROW_LENGTH:
        return gal_lp_add_row(&p->lp, length, length);
    case ROW_BYTES:
        return gal_lp_add_row(&p->lp, -INFINITY, room_of(p, p->part_first[part], stage));
    case ROW_BASE:
        return gal_lp_add_row(&p->lp, -INFINITY, room_of(p, p->g->layer_count, stage));
    case ROW_TIME:
        return gal_lp_add_row(&p->lp, -INFINITY, 0.0);
    case ROW_REACHED:
    case ROW_VISIT:
        return gal_lp_add_row(&p->lp, 0.0, INFINITY);
    default:
        return gal_lp_add_row(&p->lp, is_begin || is_end ? 1.0 : 0.0, is_begin || is_end ? 1.0 : 0.0);
    }
}

static int row_of(gal_ilp *p, row_kind kind, uint32_t part, uint32_t stage, uint32_t class)
{
    int *row = &p->row[row_slot(p, kind, part, stage, class)];
    if (*row == 0) {
        *row = add_row_of(p, kind, part, stage);
    }
    return *row;
}

/* ---- columns ---- */

static void add_column(gal_ilp *p, gal_ilp_column added, gal_lp_kind kind, double upper, double cost)
{
    p->is_too_large = p->is_too_large || p->lp.column_count >= COLUMNS_MAX;
    if (p->is_too_large || p->lp.no_memory) {
        return;
    }
    const int at = gal_lp_add_column(&p->lp, kind, cost, upper);
    if (at + 1 > p->column_capacity) {
        const int capacity = p->column_capacity == 0 ? 1024 : p->column_capacity * 2;
        gal_ilp_column *larger = realloc(p->column, (size_t)capacity * sizeof *larger);
        if (larger == NULL) {
            p->lp.no_memory = true;
            return;
        }
        p->column = larger;
        p->column_capacity = capacity;
    }
    p->column[at] = added;
}

/* One that takes time in its stage. With one stage the slowest is that one, and no column says so. */
static void add_timed(gal_ilp *p, gal_ilp_column added, double upper, int64_t cost_ps)
{
    const double seconds = (double)cost_ps / p->second_scale_ps;
    const bool is_only = p->g->stage_count == 1;
    add_column(p, added, GAL_LP_WHOLE, upper, seconds * (is_only ? (double)p->g->microbatch_count : 1.0));
    if (!is_only) {
        gal_lp_put(&p->lp, row_of(p, ROW_TIME, 0, added.stage, 0), seconds);
    }
}

static uint32_t length_of(const gal_ilp *p, uint32_t part)
{
    return p->part_first[part + 1] - p->part_first[part];
}

/* May the stage hold a layer of the part? */
static bool may_hold(const gal_ilp *p, uint32_t part, uint32_t stage)
{
    for (uint32_t l = p->part_first[part]; l < p->part_first[part + 1]; l++) {
        if (gal_relaxed_holds(p->g, l, stage)) {
            return true;
        }
    }
    return false;
}

static int island_row(gal_ilp *p, uint32_t island, uint32_t part)
{
    int *row = &p->island_row[(size_t)island * p->g->layer_count + part];
    if (*row == 0) {
        *row = gal_lp_add_row(&p->lp, 0.0, INFINITY);
    }
    return *row;
}

/* The share of an island's row in what comes into class k from `from` (UINT32_MAX: from outside the part). */
static void put_islands(gal_ilp *p, uint32_t part, uint32_t stage, uint32_t from, uint32_t k)
{
    for (uint32_t n = 0; n < p->island_count; n++) {
        const gal_ilp_island *w = &p->island[n];
        if (length_of(p, part) > 1 && w->stage == stage && w->first <= p->part_first[part] &&
            p->part_first[part] < w->end && w->is_in[k]) {
            const bool enters = from == UINT32_MAX || !w->is_in[from];
            gal_lp_put(&p->lp, island_row(p, n, part), (enters ? 1.0 : 0.0) - 1.0 / (double)length_of(p, part));
        }
    }
}

/* What comes into a class of a part: `from` as in put_islands. */
static void put_incoming(gal_ilp *p, uint32_t part, uint32_t stage, uint32_t from, uint32_t k, row_kind counted)
{
    const uint32_t length = length_of(p, part);
    gal_lp_put(&p->lp, row_of(p, counted, part, stage, k), 1.0);
    if (length > 1) {
        const bool stays = from == k;
        gal_lp_put(&p->lp, row_of(p, ROW_REACHED, part, stage, k), stays ? -1.0 / (double)(length - 1) : 1.0);
        if (from == UINT32_MAX) {
            gal_lp_put(&p->lp, row_of(p, ROW_VISIT, part, stage, 0), 1.0);
        }
        put_islands(p, part, stage, from, k);
    }
}

static void add_crosses(gal_ilp *p, uint32_t part, uint32_t stage, uint32_t k)
{
    const gal_instance *g = p->g;
    const uint32_t l = p->part_first[part];
    const int64_t *change = g->class_change_ps + (size_t)g->transition[g->kind[l]] * g->class_count * g->class_count;
    if (l == 0 || !gal_relaxed_holds(g, l, stage) || !gal_relaxed_holds(g, l - 1, stage)) {
        return;
    }
    for (uint32_t from = 0; from < g->class_count; from++) {
        if (p->relaxed->edge[gal_relaxed_cell(g, l, stage, from) * g->class_count + k]) {
            add_timed(p,
                      (gal_ilp_column){.kind = GAL_ILP_CROSS, .part = part, .stage = stage, .class = k, .from = from},
                      1.0, change[(size_t)from * g->class_count + k]);
            gal_lp_put(&p->lp, row_of(p, ROW_FLOW, part, stage, k), 1.0);
            gal_lp_put(&p->lp, row_of(p, ROW_FLOW, part - 1, stage, from), -1.0);
            put_incoming(p, part, stage, UINT32_MAX, k, ROW_COUNT);
        }
    }
}

static void add_inners(gal_ilp *p, uint32_t part, uint32_t stage, uint32_t k)
{
    const gal_instance *g = p->g;
    const uint32_t first = p->part_first[part];
    const int64_t *change =
        g->class_change_ps + (size_t)g->transition[g->kind[first]] * g->class_count * g->class_count;
    for (uint32_t from = 0; from < g->class_count; from++) {
        bool used = false;
        for (uint32_t l = first + 1; l < p->part_first[part + 1] && !used; l++) {
            used = gal_relaxed_holds(g, l, stage) && gal_relaxed_holds(g, l - 1, stage) &&
                   p->relaxed->edge[gal_relaxed_cell(g, l, stage, from) * g->class_count + k];
        }
        if (used) {
            add_timed(p,
                      (gal_ilp_column){.kind = GAL_ILP_INNER, .part = part, .stage = stage, .class = k, .from = from},
                      (double)(length_of(p, part) - 1), change[(size_t)from * g->class_count + k]);
            if (from != k) {
                gal_lp_put(&p->lp, row_of(p, ROW_FLOW, part, stage, k), 1.0);
                gal_lp_put(&p->lp, row_of(p, ROW_FLOW, part, stage, from), -1.0);
            }
            put_incoming(p, part, stage, from, k, ROW_COUNT);
        }
    }
}

static bool any_layer(const gal_ilp *p, const bool *cells, uint32_t part, uint32_t stage, uint32_t k)
{
    for (uint32_t l = p->part_first[part]; l < p->part_first[part + 1]; l++) {
        if (gal_relaxed_holds(p->g, l, stage) && cells[gal_relaxed_cell(p->g, l, stage, k)]) {
            return true;
        }
    }
    return false;
}

/* Of the choices that a layer of the part may take as the last of the stage. */
static int64_t least_backward(const gal_ilp *p, uint32_t part, uint32_t stage, uint32_t k)
{
    int64_t least = INT64_MAX;
    for (uint32_t is_first = 0; is_first < 2; is_first++) {
        const uint32_t *start = gal_relaxed_start(p->relaxed, p->part_first[part], stage, is_first);
        for (uint32_t c = start[k]; c < start[k + 1]; c++) {
            const gal_choice *choice = &p->relaxed->menu[stage]->choice[c];
            least = choice->backward_bytes < least ? choice->backward_bytes : least;
        }
    }
    return least;
}

static void add_borders(gal_ilp *p, uint32_t part, uint32_t stage, uint32_t k)
{
    if (any_layer(p, p->relaxed->entry, part, stage, k)) {
        add_column(p, (gal_ilp_column){.kind = GAL_ILP_ENTRY, .part = part, .stage = stage, .class = k}, GAL_LP_WHOLE,
                   1.0, 0.0);
        gal_lp_put(&p->lp, row_of(p, ROW_FLOW, part, stage, k), 1.0);
        gal_lp_put(&p->lp, row_of(p, ROW_BEGIN, part, stage, 0), 1.0);
        put_incoming(p, part, stage, UINT32_MAX, k, gal_ilp_counts_entries(p, stage) ? ROW_FIRST : ROW_COUNT);
    }
    if (any_layer(p, p->relaxed->exit, part, stage, k)) {
        add_column(p, (gal_ilp_column){.kind = GAL_ILP_EXIT, .part = part, .stage = stage, .class = k}, GAL_LP_WHOLE,
                   1.0, 0.0);
        gal_lp_put(&p->lp, row_of(p, ROW_FLOW, part, stage, k), -1.0);
        gal_lp_put(&p->lp, row_of(p, ROW_END, part, stage, 0), 1.0);
        gal_lp_put(&p->lp, row_of(p, ROW_BASE, 0, stage, 0), (double)least_backward(p, part, stage, k) / p->byte_scale);
    }
}

/* From the stage before to this one. */
static void add_hops(gal_ilp *p, uint32_t part, uint32_t stage)
{
    if (stage > 0 && length_of(p, part) > 1 && may_hold(p, part, stage - 1)) {
        add_column(p, (gal_ilp_column){.kind = GAL_ILP_HOP_WITHIN, .part = part, .stage = stage}, GAL_LP_NODE, 1.0,
                   0.0);
        gal_lp_put(&p->lp, row_of(p, ROW_END, part, stage - 1, 0), -1.0);
        gal_lp_put(&p->lp, row_of(p, ROW_BEGIN, part, stage, 0), -1.0);
    }
    if (stage > 0 && part > 0 && may_hold(p, part - 1, stage - 1)) {
        add_column(p, (gal_ilp_column){.kind = GAL_ILP_HOP_ACROSS, .part = part, .stage = stage}, GAL_LP_NODE, 1.0,
                   0.0);
        gal_lp_put(&p->lp, row_of(p, ROW_END, part - 1, stage - 1, 0), -1.0);
        gal_lp_put(&p->lp, row_of(p, ROW_BEGIN, part, stage, 0), -1.0);
    }
}

/* ---- counts ---- */

/* In the rows of Eq. 2: layers are before, at or behind the layer of each row. */
static void put_bytes(gal_ilp *p, uint32_t part, uint32_t stage, const gal_choice *choice)
{
    gal_lp_put(&p->lp, row_of(p, ROW_BASE, 0, stage, 0), (double)choice->kept_bytes / p->byte_scale);
    for (uint32_t at = 0; at < p->part_count; at++) {
        if (p->alone[p->part_first[at]]) {
            const int64_t bytes =
                part > at ? choice->held_bytes : choice->kept_bytes + (part == at ? choice->backward_bytes : 0);
            gal_lp_put(&p->lp, row_of(p, ROW_BYTES, at, stage, 0), (double)bytes / p->byte_scale);
        }
    }
}

static bool is_used(const gal_ilp *p, uint32_t part, uint32_t stage, bool is_first, uint32_t strategy)
{
    for (uint32_t l = p->part_first[part]; l < p->part_first[part + 1]; l++) {
        if (gal_relaxed_holds(p->g, l, stage) &&
            p->relaxed->choice[gal_relaxed_choice(p->g, l, stage, is_first, strategy)]) {
            return true;
        }
    }
    return false;
}

static void add_counts(gal_ilp *p, uint32_t part, uint32_t stage, uint32_t k, bool is_entry)
{
    const bool counts_entries = gal_ilp_counts_entries(p, stage);
    const uint32_t *start = gal_relaxed_start(p->relaxed, p->part_first[part], stage, is_entry);
    for (uint32_t c = start[k]; c < start[k + 1]; c++) {
        const gal_choice *choice = &p->relaxed->menu[stage]->choice[c];
        if (is_used(p, part, stage, is_entry, choice->strategy) ||
            (!counts_entries && is_used(p, part, stage, true, choice->strategy))) {
            const gal_ilp_column added = {.kind = is_entry ? GAL_ILP_ENTRY_COUNT : GAL_ILP_COUNT,
                                          .part = part,
                                          .stage = stage,
                                          .class = k,
                                          .choice = choice};
            const uint32_t length = length_of(p, part);
            add_timed(p, added, is_entry ? 1.0 : (double)length, choice->seconds_ps);
            gal_lp_put(&p->lp, row_of(p, is_entry ? ROW_FIRST : ROW_COUNT, part, stage, k), -1.0);
            gal_lp_put(&p->lp, row_of(p, ROW_LENGTH, part, 0, 0), 1.0);
            gal_lp_put(&p->lp, row_of(p, ROW_STRATEGY, 0, stage, choice->strategy), 1.0);
            gal_lp_put(&p->lp, row_of(p, ROW_CLASS, 0, stage, k), 1.0);
            if (p->g->stage_count > 1) {
                gal_lp_put(&p->lp, row_of(p, ROW_LAYERS, 0, stage, 0), 1.0);
            }
            if (length > 1) {
                gal_lp_put(&p->lp, row_of(p, ROW_VISIT, part, stage, 0), -1.0 / (double)length);
            }
            put_bytes(p, part, stage, choice);
        }
    }
}

static void add_total(gal_ilp *p, row_kind kind, uint32_t stage, uint32_t which)
{
    const int row = p->row[row_slot(p, kind, 0, stage, which)];
    if (row != 0) {
        add_column(p, (gal_ilp_column){.kind = GAL_ILP_TOTAL, .stage = stage, .total = row},
                   kind == ROW_LAYERS ? GAL_LP_STAGE : GAL_LP_TOTAL, (double)p->g->layer_count, 0.0);
        gal_lp_put(&p->lp, row, -1.0);
    }
}

static void add_totals(gal_ilp *p)
{
    for (uint32_t i = 0; i < p->g->stage_count; i++) {
        add_total(p, ROW_LAYERS, i, 0);
        for (uint32_t k = 0; k < p->g->class_count; k++) {
            add_total(p, ROW_CLASS, i, k);
        }
        for (uint32_t s = 0; s < p->g->strategy_count; s++) {
            add_total(p, ROW_STRATEGY, i, s);
        }
    }
}

/* ---- build ---- */

static void cut_parts(gal_ilp *p)
{
    const gal_instance *g = p->g;
    p->part_count = 0;
    for (uint32_t l = 0; l < g->layer_count; l++) {
        if (l == 0 || g->kind[l] != g->kind[l - 1] || p->alone[l] || p->alone[l - 1]) {
            p->part_first[p->part_count++] = l;
        }
        p->part[l] = p->part_count - 1;
    }
    p->part_first[p->part_count] = g->layer_count;
}

static void add_slowest(gal_ilp *p)
{
    if (p->g->stage_count > 1) {
        add_column(p, (gal_ilp_column){.kind = GAL_ILP_SLOWEST}, GAL_LP_ANY, INFINITY,
                   (double)(p->g->microbatch_count - 1));
        for (uint32_t i = 0; i < p->g->stage_count; i++) {
            gal_lp_put(&p->lp, row_of(p, ROW_TIME, 0, i, 0), -1.0);
        }
    }
}

gal_code gal_ilp_build(gal_ilp *p, gal_error *err)
{
    const gal_instance *g = p->g;
    gal_lp_clear(&p->lp);
    memset(p->row, 0, row_slots(g) * sizeof *p->row);
    free(p->island_row);
    p->island_row = calloc((size_t)p->island_count * g->layer_count + 1, sizeof *p->island_row);
    if (p->island_row == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    cut_parts(p);
    add_slowest(p);
    for (uint32_t part = 0; part < p->part_count && !p->is_too_large && !p->lp.no_memory; part++) {
        for (uint32_t i = 0; i < g->stage_count; i++) {
            if (!may_hold(p, part, i)) {
                continue;
            }
            add_hops(p, part, i);
            for (uint32_t k = 0; k < g->class_count; k++) {
                add_crosses(p, part, i, k);
                add_inners(p, part, i, k);
                add_borders(p, part, i, k);
                add_counts(p, part, i, k, false);
                if (gal_ilp_counts_entries(p, i)) {
                    add_counts(p, part, i, k, true);
                }
            }
        }
    }
    add_totals(p);
    free(p->value);
    p->value = calloc((size_t)p->lp.column_count + 2, sizeof *p->value);
    return p->value == NULL || p->lp.no_memory ? gal_fail(err, GAL_ERR_SYSTEM, "out of memory") : GAL_OK;
}

/* ---- create ---- */

gal_code gal_ilp_create(const gal_relaxed *relaxed, gal_ilp *p, gal_error *err)
{
    const gal_instance *g = relaxed->instance;
    gal_code code = GAL_OK;
    double sum = 1.0;
    *p = (gal_ilp){.g = g, .relaxed = relaxed};
    p->alone = calloc(g->layer_count, sizeof *p->alone);
    p->part = calloc(g->layer_count, sizeof *p->part);
    p->part_first = calloc((size_t)g->layer_count + 1, sizeof *p->part_first);
    p->tightened = calloc((size_t)(g->layer_count + 1) * g->stage_count, sizeof *p->tightened);
    p->row = calloc(row_slots(g), sizeof *p->row);
    p->changes = calloc((size_t)g->class_count * g->class_count, sizeof *p->changes);
    p->trail = calloc(g->layer_count, sizeof *p->trail);
    p->stack = calloc(g->layer_count, sizeof *p->stack);
    p->is_in = calloc(g->class_count, sizeof *p->is_in);
    if (p->alone == NULL || p->part == NULL || p->part_first == NULL || p->tightened == NULL || p->row == NULL ||
        p->changes == NULL || p->trail == NULL || p->stack == NULL || p->is_in == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    GAL_TRY(gal_assignment_create(g, &p->answer, err));
    p->alone[g->layer_count - 1] = true;
    for (uint32_t l = 0; l < g->layer_count; l++) {
        sum += (double)g->seconds_ps[(size_t)g->kind[l] * g->strategy_count];
    }
    p->second_scale_ps = sum / 1000.0;
    p->byte_scale = (double)g->budget_bytes / 100.0;
cleanup:
    if (code != GAL_OK) {
        gal_ilp_free(p);
    }
    return code;
}

void gal_ilp_free(gal_ilp *p)
{
    for (uint32_t n = 0; n < p->island_count; n++) {
        free(p->island[n].is_in);
    }
    gal_assignment_free(&p->answer);
    gal_lp_free(&p->lp);
    free(p->island);
    free(p->island_row);
    free(p->alone);
    free(p->part);
    free(p->part_first);
    free(p->tightened);
    free(p->row);
    free(p->column);
    free(p->value);
    free(p->changes);
    free(p->trail);
    free(p->stack);
    free(p->is_in);
    *p = (gal_ilp){0};
}
