/* The whole problem as one integer program in GLPK; the only file that knows it.
 *
 * Layers flow through (stage, class): 0 or 1 on every edge between neighbours, on every entry to a stage and every
 * exit. Which strategy of a class a layer takes is counted by parts of runs (rows of equal layers), not said for each:
 * layers that may change places are what GLPK loses its time on. Entries have counts of their own, for what a border
 * costs. Of the rows of Eq. 2 each stage has at first only sum of kept bytes <= budget, and the last layer's own. Where
 * the answer breaks the row of a layer, its part is cut so that the layer stands alone, which makes its row linear, and
 * the program is solved again: each time the optimum of a relaxation, so a bound, and in the end an answer that fits.
 *
 * With one stage, columns that no path as fast as that of the label search can use (by the Lagrangian bound) are left
 * out: the program checks that there is no faster one, and finds one as fast by itself.
 * A problem of more than 200,000 columns is not tried. GLPK computes in doubles, to tolerances: bounds are lowered by
 * 1e-6 of their value. */
#include <glpk.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "planner/solve/solver.h"
#include "planner/solve/stage_solve.h"

enum { COLUMNS_MAX = 200000, ROWS_MAX = 2000000 };
#define TOLERANCE 1e-6

typedef enum column_kind { EDGE, ENTRY, EXIT, INNER_COUNT, ENTRY_COUNT, SLOWEST } column_kind;

typedef struct column {
    column_kind kind;
    uint32_t place; /* layer of what flows (of an edge: the later one); part of a count */
    uint32_t stage, class, from;
    const gal_choice *choice;
} column;

typedef struct program {
    const gal_instance *g;
    gal_menu **menu; /* (stage) */
    /* Parts. */
    bool *alone; /* (layer): a part of its own, with a peak row in every stage */
    uint32_t *part;
    uint32_t part_count;
    /* GLPK's. */
    glp_prob *lp;
    column *columns; /* from 1 */
    int column_count, column_capacity;
    int *row_of, *column_of;
    double *value;
    int entry_count, entry_capacity;
    bool no_memory, too_large;
    /* Fixing, one stage: what no path of at most best_ps uses. */
    gal_stage_bound bound;
    bool has_bound;
    /* Scales: GLPK likes numbers near 1. */
    double second_scale_ps, byte_scale;
    double *tightened; /* (layer + 1 for the base row, stage): share of the budget taken off where GLPK's tolerance let
                          an answer by that does not fit */
    /* What came of it. */
    double deadline, best_bound;
    uint64_t branch_count;
    gal_assignment trial;
} program;

static double clock_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- rows, by number from 1 ---- */

static int row_flow(const program *p, uint32_t layer, uint32_t stage, uint32_t class)
{
    return (int)((layer * p->g->stage_count + stage) * p->g->class_count + class) + 1;
}

static int row_hub(const program *p, uint32_t layer, uint32_t stage)
{
    return row_flow(p, p->g->layer_count, 0, 0) + (int)(layer * p->g->stage_count + stage);
}

static int row_count(const program *p, uint32_t part, uint32_t stage, uint32_t class, bool is_entry)
{
    const uint32_t at = ((part * p->g->stage_count + stage) * p->g->class_count + class) * 2 + (is_entry ? 1 : 0);
    return row_hub(p, p->g->layer_count, 0) + (int)at;
}

static int row_time(const program *p, uint32_t stage)
{
    return row_count(p, p->part_count, 0, 0, false) + (int)stage;
}

/* layer == layer_count: the base row. */
static int row_bytes(const program *p, uint32_t layer, uint32_t stage)
{
    return row_time(p, p->g->stage_count) + (int)(layer * p->g->stage_count + stage);
}

static void put(program *p, int row, double value)
{
    if (p->too_large) {
        return;
    }
    if (p->entry_count + 2 > p->entry_capacity) {
        const int capacity = p->entry_capacity == 0 ? 4096 : p->entry_capacity * 2;
        int *rows = realloc(p->row_of, (size_t)capacity * sizeof *rows);
        p->row_of = rows == NULL ? p->row_of : rows;
        int *columns = realloc(p->column_of, (size_t)capacity * sizeof *columns);
        p->column_of = columns == NULL ? p->column_of : columns;
        double *values = realloc(p->value, (size_t)capacity * sizeof *values);
        p->value = values == NULL ? p->value : values;
        if (rows == NULL || columns == NULL || values == NULL) {
            p->no_memory = true;
            return;
        }
        p->entry_capacity = capacity;
    }
    if (value != 0.0) {
        p->entry_count++;
        p->row_of[p->entry_count] = row;
        p->column_of[p->entry_count] = p->column_count;
        p->value[p->entry_count] = value;
    }
}

static void add_column(program *p, column added, int kind, double upper, int64_t cost_ps)
{
    p->too_large = p->too_large || p->column_count >= COLUMNS_MAX;
    if (p->too_large) {
        return;
    }
    if (p->column_count + 2 > p->column_capacity) {
        const int capacity = p->column_capacity == 0 ? 1024 : p->column_capacity * 2;
        column *larger = realloc(p->columns, (size_t)capacity * sizeof *larger);
        if (larger == NULL) {
            p->no_memory = true;
            return;
        }
        p->columns = larger;
        p->column_capacity = capacity;
    }
    const int at = glp_add_cols(p->lp, 1);
    p->column_count = at;
    p->columns[at] = added;
    glp_set_col_bnds(p->lp, at, kind == GLP_CV ? GLP_LO : GLP_DB, 0.0, upper);
    glp_set_col_kind(p->lp, at, kind);
    const double cost = (double)cost_ps / p->second_scale_ps;
    if (added.kind == SLOWEST) {
        glp_set_obj_coef(p->lp, at, (double)(p->g->microbatch_count - 1));
    } else {
        glp_set_obj_coef(p->lp, at, cost);
        put(p, row_time(p, added.stage), cost);
    }
}

/* ---- which columns there are ---- */

static bool may_hold(const gal_instance *g, uint32_t layer, uint32_t stage)
{
    return stage <= layer && g->stage_count - 1 - stage <= g->layer_count - 1 - layer;
}

static const uint32_t *start_of(const program *p, uint32_t layer, uint32_t stage, bool is_first)
{
    const gal_menu *menu = p->menu[stage];
    const bool is_last = layer + 1 == p->g->layer_count;
    return menu->start + gal_menu_slot(menu, p->g->kind[layer], is_first, is_last);
}

static const int64_t *change_into(const program *p, uint32_t layer)
{
    const gal_instance *g = p->g;
    return g->class_change_ps + (size_t)g->transition[g->kind[layer]] * g->class_count * g->class_count;
}

/* Is a path of this relaxed length slower than the one that is known? */
static bool is_slow(const program *p, double length)
{
    const gal_multiplier *m = &p->bound.multiplier[0];
    const double best = (double)p->bound.best_ps;
    return length - m->lambda * (double)p->g->budget_bytes > best + gal_multiplier_slack(m, p->g->budget_bytes, best);
}

static bool is_used(const program *p, uint32_t layer, uint32_t class)
{
    const size_t cell = (size_t)layer * p->g->class_count + class;
    return !p->has_bound || !is_slow(p, p->bound.prefix[cell] + p->bound.multiplier[0].suffix[cell]);
}

static bool edge_is_used(const program *p, uint32_t layer, uint32_t from, uint32_t to)
{
    const size_t cell = (size_t)layer * p->g->class_count + to;
    return !p->has_bound || !is_slow(p, p->bound.prefix[cell - to - p->g->class_count + from] +
                                            (double)change_into(p, layer)[(size_t)from * p->g->class_count + to] +
                                            p->bound.node[cell] + p->bound.multiplier[0].suffix[cell]);
}

static bool choice_is_used(const program *p, uint32_t layer, uint32_t class, const gal_choice *choice)
{
    if (!p->has_bound) {
        return true;
    }
    const size_t cell = (size_t)layer * p->g->class_count + class;
    const int64_t bytes = choice->kept_bytes + (layer + 1 == p->g->layer_count ? choice->backward_bytes : 0);
    return !is_slow(p, p->bound.prefix[cell] + p->bound.multiplier[0].suffix[cell] - p->bound.node[cell] +
                           (double)choice->seconds_ps + p->bound.multiplier[0].lambda * (double)bytes);
}

/* ---- building ---- */

static void add_flows(program *p, uint32_t layer, uint32_t stage)
{
    const gal_instance *g = p->g;
    for (uint32_t k = 0; k < g->class_count; k++) {
        if (!is_used(p, layer, k)) {
            continue;
        }
        const int here = row_flow(p, layer, stage, k);
        for (uint32_t from = 0; layer > stage && from < g->class_count; from++) {
            if (may_hold(g, layer - 1, stage) && is_used(p, layer - 1, from) && edge_is_used(p, layer, from, k)) {
                add_column(p, (column){EDGE, layer, stage, k, from, NULL}, GLP_BV, 1.0,
                           change_into(p, layer)[(size_t)from * g->class_count + k]);
                put(p, here, 1.0);
                put(p, row_flow(p, layer - 1, stage, from), -1.0);
                put(p, row_count(p, p->part[layer], stage, k, false), -1.0);
            }
        }
        if (stage == 0 ? layer == 0 : may_hold(g, layer - 1, stage - 1)) {
            add_column(p, (column){ENTRY, layer, stage, k, 0, NULL}, GLP_BV, 1.0, 0);
            put(p, here, 1.0);
            put(p, row_hub(p, layer, stage), 1.0);
            put(p, row_count(p, p->part[layer], stage, k, true), -1.0);
        }
        if (layer + 1 == g->layer_count || (stage + 1 < g->stage_count && may_hold(g, layer + 1, stage + 1))) {
            add_column(p, (column){EXIT, layer, stage, k, 0, NULL}, GLP_BV, 1.0, 0);
            put(p, here, -1.0);
            if (layer + 1 < g->layer_count) {
                put(p, row_hub(p, layer + 1, stage + 1), -1.0);
            }
        }
    }
}

/* A count in the rows of bytes: its layers are before, at or behind the layer of each row. */
static void put_bytes(program *p, uint32_t part, uint32_t stage, const gal_choice *choice)
{
    const gal_instance *g = p->g;
    put(p, row_bytes(p, g->layer_count, stage), (double)choice->kept_bytes / p->byte_scale);
    for (uint32_t l = 0; l < g->layer_count; l++) {
        if (p->alone[l]) {
            const uint32_t at = p->part[l];
            const int64_t bytes =
                part > at ? choice->held_bytes : choice->kept_bytes + (part == at ? choice->backward_bytes : 0);
            put(p, row_bytes(p, l, stage), (double)bytes / p->byte_scale);
        }
    }
}

static void add_counts(program *p, uint32_t first, uint32_t end, uint32_t stage, bool is_entry)
{
    const gal_instance *g = p->g;
    const uint32_t *start = start_of(p, first, stage, is_entry);
    for (uint32_t k = 0; k < g->class_count; k++) {
        for (uint32_t c = start[k]; c < start[k + 1]; c++) {
            const gal_choice *choice = &p->menu[stage]->choice[c];
            bool used = false;
            for (uint32_t l = first; l < end && !used; l++) {
                used = may_hold(g, l, stage) && choice_is_used(p, l, k, choice);
            }
            if (used) {
                const uint32_t most = is_entry ? 1 : end - first;
                add_column(p, (column){is_entry ? ENTRY_COUNT : INNER_COUNT, p->part[first], stage, k, 0, choice},
                           GLP_IV, (double)most, choice->seconds_ps);
                put(p, row_count(p, p->part[first], stage, k, is_entry), 1.0);
                put_bytes(p, p->part[first], stage, choice);
            }
        }
    }
}

static void cut_parts(program *p)
{
    const gal_instance *g = p->g;
    p->part_count = 0;
    for (uint32_t l = 0; l < g->layer_count; l++) {
        p->part_count += l > 0 && (g->kind[l] != g->kind[l - 1] || p->alone[l] || p->alone[l - 1]);
        p->part[l] = p->part_count;
    }
    p->part_count++;
}

static void bound_rows(program *p)
{
    const gal_instance *g = p->g;
    (void)glp_add_rows(p->lp, row_bytes(p, g->layer_count + 1, 0) - 1);
    for (int row = 1; row < row_time(p, 0); row++) {
        glp_set_row_bnds(p->lp, row, GLP_FX, 0.0, 0.0);
    }
    glp_set_row_bnds(p->lp, row_hub(p, 0, 0), GLP_FX, 1.0, 1.0);
    for (uint32_t i = 0; i < g->stage_count; i++) {
        glp_set_row_bnds(p->lp, row_time(p, i), g->stage_count > 1 || p->has_bound ? GLP_UP : GLP_FR, 0.0,
                         p->has_bound ? (double)p->bound.best_ps / p->second_scale_ps * (1.0 + 1e-9) : 0.0);
        for (uint32_t l = 0; l <= g->layer_count; l++) {
            const double room = (double)g->budget_bytes / p->byte_scale - p->tightened[l * g->stage_count + i];
            glp_set_row_bnds(p->lp, row_bytes(p, l, i), l == g->layer_count || p->alone[l] ? GLP_UP : GLP_FR, 0.0,
                             room);
        }
    }
}

static bool build(program *p)
{
    const gal_instance *g = p->g;
    p->column_count = p->entry_count = 0;
    p->lp = glp_create_prob();
    cut_parts(p);
    bound_rows(p);
    if (g->stage_count > 1) {
        add_column(p, (column){.kind = SLOWEST}, GLP_CV, 0.0, 0);
        for (uint32_t i = 0; i < g->stage_count; i++) {
            put(p, row_time(p, i), -1.0);
        }
    }
    for (uint32_t l = 0; l < g->layer_count && !p->no_memory && !p->too_large; l++) {
        for (uint32_t i = 0; i < g->stage_count; i++) {
            if (may_hold(g, l, i)) {
                add_flows(p, l, i);
            }
        }
    }
    for (uint32_t first = 0, end = 0; first < g->layer_count && !p->no_memory && !p->too_large; first = end) {
        for (end = first + 1; end < g->layer_count && p->part[end] == p->part[first];) {
            end++;
        }
        for (uint32_t i = 0; i < g->stage_count; i++) {
            add_counts(p, first, end, i, false);
            add_counts(p, first, end, i, true);
        }
    }
    if (!p->no_memory && !p->too_large) {
        glp_load_matrix(p->lp, p->entry_count, p->row_of, p->column_of, p->value);
    }
    return !p->no_memory && !p->too_large;
}

/* ---- reading the answer ---- */

/* The stage and class of each layer by the edges, then strategies by the counts: inside a part and class those of
 * larger backward bytes come first, which no other order beats (all of them are of one kind, and a row ends in its
 * layer's backward). */
static void read_answer(program *p)
{
    const gal_instance *g = p->g;
    uint32_t *strategy = p->trial.strategy;
    for (uint32_t l = 0; l < g->layer_count; l++) {
        strategy[l] = UINT32_MAX;
    }
    for (int c = 1; c <= p->column_count; c++) {
        const column *at = &p->columns[c];
        if (at->kind == ENTRY && glp_mip_col_val(p->lp, c) > 0.5) {
            p->trial.stage_first[at->stage] = at->place;
        }
    }
    for (;;) {
        int next = 0;
        for (int c = 1; c <= p->column_count; c++) {
            const column *at = &p->columns[c];
            if ((at->kind == INNER_COUNT || at->kind == ENTRY_COUNT) && glp_mip_col_val(p->lp, c) > 0.5 &&
                (next == 0 || at->choice->backward_bytes > p->columns[next].choice->backward_bytes)) {
                next = c;
            }
        }
        if (next == 0) {
            return;
        }
        const column *count = &p->columns[next];
        int left = (int)lround(glp_mip_col_val(p->lp, next));
        for (int c = 1; c <= p->column_count && left > 0; c++) {
            const column *at = &p->columns[c];
            const column_kind flow = count->kind == INNER_COUNT ? EDGE : ENTRY;
            if (at->kind == flow && at->stage == count->stage && at->class == count->class &&
                p->part[at->place] == count->place && strategy[at->place] == UINT32_MAX &&
                glp_mip_col_val(p->lp, c) > 0.5) {
                strategy[at->place] = count->choice->strategy;
                left--;
            }
        }
        p->columns[next].kind = SLOWEST; /* done */
    }
}

/* Cuts the layers out whose rows are broken; where one has its row already, the budget of that row shrinks by what the
 * tolerance let through. *is_relaxed: no budget has shrunk. True if something was broken. */
static bool repair(program *p, bool *is_relaxed)
{
    const gal_instance *g = p->g;
    bool broken = false;
    for (uint32_t i = 0; i < g->stage_count; i++) {
        const gal_stage_cost cost =
            gal_instance_stage_cost(g, i, p->trial.stage_first[i], p->trial.stage_first[i + 1], p->trial.strategy);
        if (cost.peak_bytes <= g->budget_bytes) {
            continue;
        }
        broken = true;
        if (p->alone[cost.peak_layer]) {
            p->tightened[cost.peak_layer * g->stage_count + i] +=
                1.5 * (double)(cost.peak_bytes - g->budget_bytes) / p->byte_scale;
            *is_relaxed = false;
        }
        p->alone[cost.peak_layer] = true;
    }
    return broken;
}

/* ---- solving ---- */

static void on_event(glp_tree *tree, void *context)
{
    program *p = context;
    int active = 0;
    int all = 0;
    int total = 0;
    const int best = glp_ios_best_node(tree);
    glp_ios_tree_size(tree, &active, &all, &total);
    p->branch_count += glp_ios_reason(tree) == GLP_ISELECT;
    if (best != 0 && glp_ios_node_bound(tree, best) > p->best_bound && glp_ios_reason(tree) == GLP_ISELECT) {
        p->best_bound = glp_ios_node_bound(tree, best);
    }
}

/* The objective of the program in picoseconds, lowered by the tolerance. */
static int64_t proven_ps(const program *p, double objective)
{
    const double factor = p->g->stage_count == 1 ? (double)p->g->microbatch_count : 1.0;
    const double proven = objective * p->second_scale_ps * factor * (1.0 - TOLERANCE) - 1.0;
    return proven > 0.0 ? (int64_t)proven : 0;
}

/* One relaxation. *done: its answer fits, there is none, or the time is up. */
static void solve_once(program *p, bool *is_relaxed, bool *done, gal_solution *out)
{
    glp_iocp how;
    glp_init_iocp(&how);
    const double left = (p->deadline - clock_seconds()) * 1e3;
    how.msg_lev = GLP_MSG_OFF;
    how.presolve = GLP_ON;
    how.gmi_cuts = how.mir_cuts = how.cov_cuts = GLP_ON;
    how.tm_lim = left < 1.0 ? 1 : left > 2e9 ? 2000000000 : (int)left;
    how.cb_func = on_event;
    how.cb_info = p;
    p->best_bound = 0.0;
    const int returned = glp_intopt(p->lp, &how);
    const int status = glp_mip_status(p->lp);
    *done = true;
    if (returned == GLP_ENOPFS || (returned == 0 && status == GLP_NOFEAS)) {
        if (*is_relaxed) { /* with columns left out: nothing is faster than what they were left out for */
            out->bound_ps = p->has_bound ? proven_ps(p, (double)p->bound.best_ps / p->second_scale_ps) : GAL_NEVER;
        }
        return;
    }
    const double objective = returned == 0 ? glp_mip_obj_val(p->lp) : p->best_bound;
    const int64_t proven = proven_ps(p, objective);
    out->bound_ps = *is_relaxed && proven > out->bound_ps ? proven : out->bound_ps;
    if (status == GLP_OPT || status == GLP_FEAS) {
        read_answer(p);
        gal_assignment_price(p->g, &p->trial);
        if (p->trial.value_ps < out->best.value_ps) {
            gal_assignment_copy(p->g, &out->best, &p->trial);
        }
        *done = !repair(p, is_relaxed) || returned != 0;
    }
}

static void on_failure(void *place)
{
    longjmp(*(jmp_buf *)place, 1);
}

/* GLPK ends the process where it fails, unless its hook jumps. */
static bool solve_all(program *p, gal_solution *out)
{
    volatile bool good = false;
    jmp_buf place;
    glp_term_out(GLP_OFF);
    glp_error_hook(on_failure, &place);
    if (setjmp(place) == 0) {
        bool done = false;
        bool is_relaxed = true;
        while (!done && build(p)) {
            solve_once(p, &is_relaxed, &done, out);
            glp_delete_prob(p->lp);
            done = done || clock_seconds() > p->deadline;
        }
        good = !p->no_memory;
    }
    glp_error_hook(NULL, NULL);
    (void)glp_free_env();
    return good;
}

/* Of rows; columns are counted as they are added. */
static bool is_too_large(const gal_instance *g)
{
    return 3.0 * g->layer_count * g->stage_count * g->class_count + 4.0 * g->layer_count * g->stage_count > ROWS_MAX;
}

static gal_code prepare(program *p, uint64_t label_limit, gal_error *err)
{
    const gal_instance *g = p->g;
    gal_code code = GAL_OK;
    double sum = 1.0;
    p->menu = calloc(g->stage_count, sizeof *p->menu);
    p->alone = calloc(g->layer_count, sizeof *p->alone);
    p->part = calloc(g->layer_count, sizeof *p->part);
    p->tightened = calloc((size_t)(g->layer_count + 1) * g->stage_count, sizeof *p->tightened);
    if (p->menu == NULL || p->alone == NULL || p->part == NULL || p->tightened == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    GAL_TRY(gal_assignment_create(g, &p->trial, err));
    for (uint32_t i = 0; i < g->stage_count; i++) {
        GAL_TRY(gal_menu_create(g, i, &p->menu[i], err));
    }
    p->alone[g->layer_count - 1] = true;
    for (uint32_t l = 0; l < g->layer_count; l++) {
        sum += (double)g->seconds_ps[(size_t)g->kind[l] * g->strategy_count];
    }
    p->second_scale_ps = sum / 1000.0;
    p->byte_scale = (double)g->budget_bytes / 100.0;
    if (g->stage_count == 1) {
        const gal_stage stage = {p->menu[0], 0, g->layer_count};
        GAL_TRY(gal_stage_bound_create(&stage, &p->bound, err));
        if (p->bound.bound_ps != GAL_NEVER) {
            gal_stage_answer answer;
            GAL_TRY(gal_stage_solve(&stage, label_limit, p->trial.strategy, &answer, err));
            if (answer.seconds_ps != GAL_NEVER) {
                gal_stage_offer(&stage, &p->bound, p->trial.strategy);
            }
        }
        p->has_bound = p->bound.bound_ps != GAL_NEVER && p->bound.best_ps != GAL_NEVER;
    }
cleanup:
    return code;
}

static void free_program(program *p)
{
    for (uint32_t i = 0; p->menu != NULL && i < p->g->stage_count; i++) {
        gal_menu_free(p->menu[i]);
    }
    gal_stage_bound_free(&p->bound);
    gal_assignment_free(&p->trial);
    free(p->menu);
    free(p->alone);
    free(p->part);
    free(p->tightened);
    free(p->columns);
    free(p->row_of);
    free(p->column_of);
    free(p->value);
}

gal_code gal_solve_ilp(const gal_instance *g, const gal_solver_limits *limits, gal_solution *out, gal_error *err)
{
    gal_code code = GAL_OK;
    program p = {.g = g, .deadline = clock_seconds() + limits->time_limit_seconds};
    if (is_too_large(g)) {
        return GAL_OK;
    }
    GAL_TRY(prepare(&p, limits->label_limit, err));
    if (!solve_all(&p, out)) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory, or GLPK gave up"));
    }
    out->effort_count = p.branch_count;
cleanup:
    free_program(&p);
    return code;
}
