/* From assignments to columns and back. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/solve/ilp_program.h"

/* Room that GLPK's tolerance takes once more when it let an answer by that does not fit. */
#define TIGHTENED_FACTOR 1.5

/* ---- to columns ---- */

static uint32_t stage_of(const gal_ilp *p, const gal_assignment *a, uint32_t layer)
{
    uint32_t stage = 0;
    while (stage + 1 < p->g->stage_count && a->stage_first[stage + 1] <= layer) {
        stage++;
    }
    return stage;
}

static bool is_counted(const gal_ilp *p, const gal_ilp_column *c, const gal_assignment *a, uint32_t l)
{
    const gal_instance *g = p->g;
    const uint32_t class = g->class_of[a->strategy[l]];
    const bool is_first = a->stage_first[c->stage] == l;
    if (stage_of(p, a, l) != c->stage || (c->kind < GAL_ILP_HOP_WITHIN && class != c->class)) {
        return false;
    }
    switch (c->kind) {
    case GAL_ILP_CROSS:
        return l == p->part_first[c->part] && !is_first && g->class_of[a->strategy[l - 1]] == c->from;
    case GAL_ILP_INNER:
        return l > p->part_first[c->part] && !is_first && g->class_of[a->strategy[l - 1]] == c->from;
    case GAL_ILP_ENTRY:
        return is_first;
    case GAL_ILP_EXIT:
        return a->stage_first[c->stage + 1] == l + 1;
    case GAL_ILP_HOP_WITHIN:
        return is_first && l > p->part_first[c->part];
    case GAL_ILP_HOP_ACROSS:
        return is_first && l == p->part_first[c->part];
    case GAL_ILP_COUNT:
        return a->strategy[l] == c->choice->strategy && !(is_first && gal_ilp_counts_entries(p, c->stage));
    case GAL_ILP_ENTRY_COUNT:
        return a->strategy[l] == c->choice->strategy && is_first;
    default:
        return false;
    }
}

static double slowest_of(const gal_ilp *p, const gal_assignment *a)
{
    int64_t slowest = 0;
    for (uint32_t i = 0; i < p->g->stage_count; i++) {
        const int64_t here =
            gal_instance_stage_cost(p->g, i, a->stage_first[i], a->stage_first[i + 1], a->strategy).seconds_ps;
        slowest = here > slowest ? here : slowest;
    }
    return (double)slowest / p->second_scale_ps;
}

bool gal_ilp_express(gal_ilp *p, const gal_assignment *a)
{
    double layers = 0.0; /* that are counted, and that are come to: each once, if nothing is left out */
    double steps = 0.0;
    double *total = calloc((size_t)p->lp.row_count + 1, sizeof *total);
    if (total == NULL) {
        return false;
    }
    for (int c = 1; c <= p->lp.column_count; c++) {
        const gal_ilp_column *at = &p->column[c];
        p->value[c] = at->kind == GAL_ILP_SLOWEST ? slowest_of(p, a) : 0.0;
        for (uint32_t l = p->part_first[at->part];
             at->kind != GAL_ILP_SLOWEST && at->kind != GAL_ILP_TOTAL && l < p->part_first[at->part + 1]; l++) {
            p->value[c] += is_counted(p, at, a, l) ? 1.0 : 0.0;
        }
        layers += at->kind == GAL_ILP_COUNT || at->kind == GAL_ILP_ENTRY_COUNT ? p->value[c] : 0.0;
        steps +=
            at->kind == GAL_ILP_CROSS || at->kind == GAL_ILP_INNER || at->kind == GAL_ILP_ENTRY ? p->value[c] : 0.0;
    }
    for (int e = 1; e <= p->lp.entry_count; e++) {
        total[p->lp.entry_row[e]] += p->value[p->lp.entry_column[e]];
    }
    for (int c = 1; c <= p->lp.column_count; c++) {
        if (p->column[c].kind == GAL_ILP_TOTAL) {
            p->value[c] = total[p->column[c].total];
        }
    }
    free(total);
    return layers == (double)p->g->layer_count && steps == (double)p->g->layer_count;
}

/* ---- from columns ---- */

static uint32_t whole(const gal_ilp *p, int column)
{
    return (uint32_t)lround(p->value[column]);
}

static uint32_t *changes_of(gal_ilp *p, uint32_t from)
{
    return p->changes + (size_t)from * p->g->class_count;
}

/* Changes of one stage in one part; returns the class it begins with, UINT32_MAX if it is not there. */
static uint32_t read_changes(gal_ilp *p, uint32_t part, uint32_t stage)
{
    uint32_t begin = UINT32_MAX;
    memset(p->changes, 0, (size_t)p->g->class_count * p->g->class_count * sizeof *p->changes);
    for (int c = 1; c <= p->lp.column_count; c++) {
        const gal_ilp_column *at = &p->column[c];
        if (at->kind > GAL_ILP_ENTRY || at->part != part || at->stage != stage || whole(p, c) == 0) {
            continue;
        }
        if (at->kind == GAL_ILP_INNER) {
            changes_of(p, at->from)[at->class] = whole(p, c);
        } else if (at->kind != GAL_ILP_SLOWEST) {
            begin = at->class;
        }
    }
    return begin;
}

/* Hierholzer: one trail through all changes that are connected with the class `begin`; what is left in changes is not.
 * trail := classes of the layers in order. Returns how many, 0 if more than the part has. */
static uint32_t find_trail(gal_ilp *p, uint32_t begin, uint32_t most)
{
    uint32_t depth = 0;
    uint32_t count = 0;
    p->stack[depth++] = begin;
    while (depth > 0) {
        uint32_t *out = changes_of(p, p->stack[depth - 1]);
        uint32_t to = 0;
        while (to < p->g->class_count && out[to] == 0) {
            to++;
        }
        if (to < p->g->class_count) {
            if (depth + count == most) {
                return 0;
            }
            out[to]--;
            p->stack[depth++] = to;
        } else {
            p->trail[most - ++count] = p->stack[--depth];
        }
    }
    memmove(p->trail, p->trail + most - count, count * sizeof *p->trail);
    return count;
}

/* The classes between which changes are left are an island from now on. */
static gal_code keep_rest(gal_ilp *p, uint32_t part, uint32_t stage, bool *is_island, gal_error *err)
{
    const uint32_t n = p->g->class_count;
    *is_island = false;
    memset(p->is_in, false, n * sizeof *p->is_in);
    for (size_t cell = 0; cell < (size_t)n * n; cell++) {
        if (p->changes[cell] > 0) {
            p->is_in[cell / n] = p->is_in[cell % n] = *is_island = true;
        }
    }
    return *is_island ? gal_ilp_keep_island(p, part, stage, err) : GAL_OK;
}

/* A strategy for each layer of a trail, which begins at `first`: of the counts of a class those of larger backward
 * bytes first, which no other order beats (all layers are of one kind, and a row ends in its layer's backward). The
 * counts that are taken fall. */
static void take_counts(gal_ilp *p, uint32_t part, uint32_t stage, uint32_t first, uint32_t count)
{
    const bool counts_entries = gal_ilp_counts_entries(p, stage);
    for (uint32_t n = 0; n < count; n++) {
        const bool is_entry = counts_entries && first + n == p->answer.stage_first[stage];
        const gal_ilp_kind kind = is_entry ? GAL_ILP_ENTRY_COUNT : GAL_ILP_COUNT;
        int next = 0;
        for (int c = 1; c <= p->lp.column_count; c++) {
            const gal_ilp_column *at = &p->column[c];
            if (at->kind == kind && at->part == part && at->stage == stage && at->class == p->trail[n] &&
                whole(p, c) > 0 && (next == 0 || at->choice->backward_bytes > p->column[next].choice->backward_bytes)) {
                next = c;
            }
        }
        GAL_ASSERT(next != 0);
        p->value[next] = (double)(whole(p, next) - 1);
        p->answer.strategy[first + n] = p->column[next].choice->strategy;
    }
}

/* Does the stage enter the part as the first of its own? */
static bool begins_in(const gal_ilp *p, uint32_t part, uint32_t stage)
{
    for (int c = 1; c <= p->lp.column_count; c++) {
        const gal_ilp_column *at = &p->column[c];
        if (at->kind == GAL_ILP_ENTRY && at->part == part && at->stage == stage && whole(p, c) > 0) {
            return true;
        }
    }
    return false;
}

/* *islands: how many were met. A stage that is not in the part may have made round trips there. */
static gal_code read_layers(gal_ilp *p, uint32_t *islands, gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t layer = 0;
    *islands = 0;
    for (uint32_t part = 0; part < p->part_count; part++) {
        for (uint32_t i = 0; i < p->g->stage_count; i++) {
            const uint32_t begin = read_changes(p, part, i);
            const uint32_t most = p->part_first[part + 1] - p->part_first[part];
            const uint32_t count = begin == UINT32_MAX ? 0 : find_trail(p, begin, most);
            bool is_island = false;
            GAL_TRY(keep_rest(p, part, i, &is_island, err));
            *islands += is_island;
            if (*islands == 0 && count > 0) {
                if (begins_in(p, part, i)) {
                    p->answer.stage_first[i] = layer;
                }
                take_counts(p, part, i, layer, count);
                layer += count;
            }
        }
    }
    GAL_ASSERT(*islands > 0 || layer == p->g->layer_count);
cleanup:
    return code;
}

/* Cuts the layers out whose rows are broken; where one has its row already, the budget of that row shrinks by what the
 * tolerance let through. */
static gal_ilp_verdict repair(gal_ilp *p)
{
    const gal_instance *g = p->g;
    gal_ilp_verdict verdict = GAL_ILP_FITS;
    for (uint32_t i = 0; i < g->stage_count; i++) {
        const gal_stage_cost cost =
            gal_instance_stage_cost(g, i, p->answer.stage_first[i], p->answer.stage_first[i + 1], p->answer.strategy);
        if (cost.peak_bytes <= g->budget_bytes) {
            continue;
        }
        verdict = verdict == GAL_ILP_FITS ? GAL_ILP_BROKEN : verdict;
        if (p->alone[cost.peak_layer]) {
            p->tightened[(size_t)cost.peak_layer * g->stage_count + i] +=
                TIGHTENED_FACTOR * (double)(cost.peak_bytes - g->budget_bytes) / p->byte_scale;
            verdict = GAL_ILP_TIGHTENED;
        }
        p->alone[cost.peak_layer] = true;
    }
    return verdict;
}

gal_code gal_ilp_read(gal_ilp *p, gal_ilp_verdict *verdict, gal_error *err)
{
    uint32_t islands;
    const gal_code code = read_layers(p, &islands, err);
    if (code != GAL_OK) {
        return code;
    }
    if (islands > 0) {
        p->answer.value_ps = GAL_NEVER;
        *verdict = GAL_ILP_BROKEN;
        return GAL_OK;
    }
    gal_assignment_price(p->g, &p->answer);
    *verdict = repair(p);
    return GAL_OK;
}
