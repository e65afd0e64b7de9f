#include "planner/dual.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One block for each pair of neighbouring kinds; *count of them. */
static void edge_blocks(const gal_cell *cell, uint32_t block[4], uint32_t *count)
{
    const uint32_t last = cell->block_count - 1;
    *count = 0;
    for (uint32_t i = 1; i < last && i <= 3; i++) {
        block[(*count)++] = i;
    }
    block[(*count)++] = last;
}

static double at_least_zero(double x)
{
    return x > 0.0 ? x : 0.0;
}

/* Every maximum of the objective is at most a sum over all blocks. */
static double step_most(const gal_cell *cell, const gal_cell_step *step)
{
    return cell->spec.microbatch_count * at_least_zero(step->forward_seconds + step->backward_seconds) +
           at_least_zero(step->tail_seconds) + at_least_zero(-step->backward_seconds) +
           at_least_zero(step->update_seconds) + at_least_zero(step->once_seconds);
}

static double edge_most(const gal_cell *cell, uint32_t block)
{
    double most = 0.0;
    for (uint32_t p = 0; p < cell->spec.pp_degree; p++) {
        for (uint32_t from = 0; from < cell->strategy_count; from++) {
            for (uint32_t to = 0; to < cell->strategy_count; to++) {
                gal_cell_step step, crossing, closing;
                if (cell->pair[gal_cell_pair_index(cell, block, p, from, to)] == NULL) {
                    continue;
                }
                gal_cell_follow(cell, block, p, from, to, &step);
                gal_cell_cross(cell, block, p, from, to, &crossing);
                gal_cell_close(cell, block, p, to, &closing);
                most = fmax(most, fmax(step_most(cell, &step), step_most(cell, &crossing)) + step_most(cell, &closing));
            }
        }
    }
    return most;
}

static double path_most(const gal_cell *cell)
{
    double most = 0.0;
    uint32_t block[4], count;
    edge_blocks(cell, block, &count);
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        gal_cell_step step, closing;
        if (gal_cell_price(cell, 0, 0, s) != NULL) {
            gal_cell_start(cell, s, &step);
            gal_cell_close(cell, 0, 0, s, &closing);
            most = fmax(most, step_most(cell, &step) + step_most(cell, &closing));
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        const bool repeats = block[i] == 2 || block[i] == 3;
        most += edge_most(cell, block[i]) * (repeats ? cell->spec.model->layer_count : 1);
    }
    return (most + cell->common_seconds) * (1.0 + 1e-6);
}

gal_code gal_dual_create(const gal_cell *cell, gal_dual **out, gal_error *err)
{
    const size_t nodes = (size_t)cell->block_count * cell->spec.pp_degree * cell->strategy_count;
    const size_t kinds = (size_t)GAL_BLOCK_KIND_COUNT * cell->spec.pp_degree * cell->strategy_count;
    gal_dual *dual = calloc(1, sizeof *dual);
    if (dual != NULL) {
        dual->cell = cell;
        dual->embedding = GAL_DUAL_ANY;
        dual->follow = calloc(gal_cell_pair_count(cell) + 1, sizeof *dual->follow);
        dual->cross = calloc(gal_cell_pair_count(cell) + 1, sizeof *dual->cross);
        dual->start = calloc(cell->strategy_count + 1, sizeof *dual->start);
        dual->close = calloc(kinds + 1, sizeof *dual->close);
        dual->to_go = calloc(nodes + 1, sizeof *dual->to_go);
        dual->stage = calloc(cell->block_count, sizeof *dual->stage);
        dual->strategy = calloc(cell->block_count, sizeof *dual->strategy);
    }
    if (dual == NULL || dual->follow == NULL || dual->cross == NULL || dual->start == NULL || dual->close == NULL ||
        dual->to_go == NULL || dual->stage == NULL || dual->strategy == NULL) {
        gal_dual_free(dual);
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    for (uint32_t p = 0; p < cell->spec.pp_degree; p++) {
        dual->weights.slowest[p] = 1.0 / cell->spec.pp_degree;
        dual->weights.update[p] = 1.0 / cell->spec.pp_degree;
    }
    dual->weights.exposed[0] = 1.0;
    dual->most_seconds = path_most(cell);
    gal_dual_weigh(dual);
    *out = dual;
    return GAL_OK;
}

void gal_dual_free(gal_dual *dual)
{
    if (dual != NULL) {
        free(dual->strategy);
        free(dual->stage);
        free(dual->to_go);
        free(dual->close);
        free(dual->start);
        free(dual->cross);
        free(dual->follow);
        free(dual);
    }
}

static bool allows(const gal_dual *dual, uint32_t block, uint32_t strategy)
{
    const gal_cell *cell = dual->cell;
    const bool end = block == 0 || block + 1 == cell->block_count;
    return !end || dual->embedding == GAL_DUAL_ANY || gal_cell_tied_alike(cell, dual->embedding, strategy);
}

/* ---- weighted seconds ---- */

/* What a step's numbers count in a stage. */
typedef struct rates {
    double forward, backward, tail, update, byte;
} rates;

static rates rates_of(const gal_dual *dual, uint32_t stage)
{
    const gal_weights *w = &dual->weights;
    const double round = 1.0 + (dual->cell->spec.microbatch_count - 1) * w->slowest[stage];
    double later = 0.0; /* backward of this stage hides the sync of every later one */
    for (uint32_t p = stage + 1; p < dual->cell->spec.pp_degree; p++) {
        later += w->exposed[p];
    }
    return (rates){round, round - later, w->exposed[stage], w->update[stage], w->per_byte[stage]};
}

static double weighted(const rates *r, const gal_cell_step *step)
{
    return r->forward * step->forward_seconds + r->backward * step->backward_seconds + r->tail * step->tail_seconds +
           r->update * step->update_seconds + r->byte * (double)step->bytes + step->once_seconds;
}

static double shared_by_one(const gal_shared_bytes *shared)
{
    return (double)(shared->gathered + shared->bucket + shared->scratch + shared->work);
}

static void weigh_close(gal_dual *dual, uint32_t block, uint32_t stage, const rates *r)
{
    const gal_cell *cell = dual->cell;
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        gal_cell_step step;
        const size_t at = gal_cell_price_index(cell, block, stage, s);
        dual->close[at] = HUGE_VAL;
        if (cell->price[at] != NULL) {
            gal_cell_close(cell, block, stage, s, &step);
            dual->close[at] = weighted(r, &step) + r->byte * shared_by_one(&cell->shared[at]);
        }
    }
}

static void weigh_edges(gal_dual *dual, uint32_t block, uint32_t stage, const rates *r)
{
    const gal_cell *cell = dual->cell;
    for (uint32_t from = 0; from < cell->strategy_count; from++) {
        for (uint32_t to = 0; to < cell->strategy_count; to++) {
            gal_cell_step step;
            const size_t at = gal_cell_pair_index(cell, block, stage, from, to);
            dual->follow[at] = dual->cross[at] = HUGE_VAL;
            if (cell->pair[at] == NULL) {
                continue;
            }
            gal_cell_follow(cell, block, stage, from, to, &step);
            dual->follow[at] = weighted(r, &step);
            if (stage > 0) {
                gal_cell_cross(cell, block, stage, from, to, &step);
                dual->cross[at] =
                    weighted(r, &step) + dual->close[gal_cell_price_index(cell, block - 1, stage - 1, from)];
            }
        }
    }
}

void gal_dual_weigh(gal_dual *dual)
{
    const gal_cell *cell = dual->cell;
    uint32_t block[4], count;
    edge_blocks(cell, block, &count);
    dual->constant = cell->common_seconds;
    for (uint32_t p = 0; p < cell->spec.pp_degree; p++) {
        const rates r = rates_of(dual, p);
        dual->constant -= r.byte * (double)cell->spec.arena_limit_bytes;
        weigh_close(dual, 0, p, &r);
        for (uint32_t i = 0; i < count; i++) {
            weigh_close(dual, block[i], p, &r);
        }
        for (uint32_t i = 0; i < count; i++) {
            weigh_edges(dual, block[i], p, &r);
        }
    }
    const rates first = rates_of(dual, 0);
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        gal_cell_step step;
        dual->start[s] = HUGE_VAL;
        if (gal_cell_price(cell, 0, 0, s) != NULL) {
            gal_cell_start(cell, s, &step);
            dual->start[s] = weighted(&first, &step);
        }
    }
}

/* ---- the shortest path ---- */

/* The best way on from a node, and its cost; next_* are left alone if there is none. */
static double best_next(const gal_dual *dual, uint32_t block, uint32_t stage, uint32_t strategy, uint32_t *next_stage,
                        uint32_t *next_strategy)
{
    const gal_cell *cell = dual->cell;
    double best = HUGE_VAL;
    for (uint32_t to = stage; to <= stage + 1 && to < cell->spec.pp_degree; to++) {
        const double *edge =
            (to == stage ? dual->follow : dual->cross) + gal_cell_pair_index(cell, block + 1, to, strategy, 0);
        const double *rest = &dual->to_go[gal_dual_node(cell, block + 1, to, 0)];
        for (uint32_t s = 0; s < cell->strategy_count; s++) {
            const double cost = edge[s] + rest[s];
            if (cost < best) {
                best = cost;
                *next_stage = to;
                *next_strategy = s;
            }
        }
    }
    return best;
}

static double node_to_go(const gal_dual *dual, uint32_t block, uint32_t stage, uint32_t strategy)
{
    const gal_cell *cell = dual->cell;
    const bool last = block + 1 == cell->block_count;
    uint32_t ignored_stage = 0;
    uint32_t ignored_strategy = 0;
    if (stage > block || (stage + 1 < cell->spec.pp_degree && last) ||
        gal_cell_price(cell, block, stage, strategy) == NULL || !allows(dual, block, strategy)) {
        return HUGE_VAL;
    }
    return last ? dual->close[gal_cell_price_index(cell, block, stage, strategy)]
                : best_next(dual, block, stage, strategy, &ignored_stage, &ignored_strategy);
}

void gal_dual_solve(gal_dual *dual)
{
    const gal_cell *cell = dual->cell;
    for (uint32_t i = cell->block_count; i-- > 0;) {
        for (uint32_t p = 0; p < cell->spec.pp_degree; p++) {
            for (uint32_t s = 0; s < cell->strategy_count; s++) {
                dual->to_go[gal_dual_node(cell, i, p, s)] = node_to_go(dual, i, p, s);
            }
        }
    }
    dual->bound = HUGE_VAL;
    dual->stage[0] = 0;
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        const double cost = dual->start[s] + dual->to_go[gal_dual_node(cell, 0, 0, s)];
        if (cost < dual->bound) {
            dual->bound = cost;
            dual->strategy[0] = s;
        }
    }
    if (dual->bound == HUGE_VAL) {
        return;
    }
    dual->bound += dual->constant;
    for (uint32_t i = 0; i + 1 < cell->block_count; i++) {
        best_next(dual, i, dual->stage[i], dual->strategy[i], &dual->stage[i + 1], &dual->strategy[i + 1]);
    }
}

bool gal_dual_is_infeasible(const gal_dual *dual)
{
    return dual->bound > dual->most_seconds;
}

/* ---- subgradient steps ---- */

/* What each stage of the path sums up to: the subgradient. */
typedef struct stage_totals {
    double round, backward, tail, update;
    double bytes;
} stage_totals;

static void add_totals(stage_totals *t, const gal_cell_step *step)
{
    t->round += step->forward_seconds + step->backward_seconds;
    t->backward += step->backward_seconds;
    t->tail += step->tail_seconds;
    t->update += step->update_seconds;
    t->bytes += (double)step->bytes;
}

static void path_totals(const gal_dual *dual, stage_totals *totals)
{
    const gal_cell *cell = dual->cell;
    const uint32_t *stage = dual->stage;
    const uint32_t *strategy = dual->strategy;
    gal_cell_step step;
    memset(totals, 0, cell->spec.pp_degree * sizeof *totals);
    for (uint32_t i = 0; i < cell->block_count; i++) {
        if (i == 0) {
            gal_cell_start(cell, strategy[0], &step);
        } else if (stage[i] == stage[i - 1]) {
            gal_cell_follow(cell, i, stage[i], strategy[i - 1], strategy[i], &step);
        } else {
            gal_cell_cross(cell, i, stage[i], strategy[i - 1], strategy[i], &step);
        }
        add_totals(&totals[stage[i]], &step);
        if (i + 1 == cell->block_count || stage[i + 1] != stage[i]) {
            gal_cell_close(cell, i, stage[i], strategy[i], &step);
            add_totals(&totals[stage[i]], &step);
            totals[stage[i]].bytes +=
                shared_by_one(&cell->shared[gal_cell_price_index(cell, i, stage[i], strategy[i])]);
        }
    }
}

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x > y ? -1 : x < y;
}

/* The nearest point of { x >= 0, sum x = 1 } (whole) or sum x <= 1. */
static void project(double *x, uint32_t count, bool whole)
{
    double sorted[GAL_STAGES_MAX];
    double positive = 0.0;
    double most = x[0];
    for (uint32_t i = 0; i < count; i++) {
        positive += fmax(x[i], 0.0);
        most = fmax(most, x[i]);
    }
    double threshold = 0.0;
    if (whole || positive > 1.0) { /* counted from the largest: a step may have gone far beyond 1 */
        double sum = 0.0;
        for (uint32_t i = 0; i < count; i++) {
            x[i] -= most;
            sorted[i] = x[i];
        }
        qsort(sorted, count, sizeof sorted[0], descending);
        for (uint32_t i = 0; i < count; i++) {
            sum += sorted[i];
            double candidate = (sum - 1.0) / (i + 1);
            if (sorted[i] > candidate) {
                threshold = candidate;
            }
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        x[i] = fmax(x[i] - threshold, 0.0);
    }
}

/* One step of length `ahead` / |subgradient| (Polyak). Bytes are scaled so that a stage's limit counts as the bound. */
static void move_weights(gal_dual *dual, const stage_totals *totals, double ahead)
{
    const gal_cell *cell = dual->cell;
    uint32_t count = cell->spec.pp_degree;
    double limit = fmax((double)cell->spec.arena_limit_bytes, 1.0);
    double scale = fmax(fabs(dual->bound), 1e-12);
    double square = 0.0;
    double slow[GAL_STAGES_MAX], exposed[GAL_STAGES_MAX], update[GAL_STAGES_MAX], bytes[GAL_STAGES_MAX];
    double drained = 0.0;
    double mean_round = 0.0;
    double mean_update = 0.0;
    for (uint32_t p = 0; p < count; p++) {
        mean_round += totals[p].round / count;
        mean_update += totals[p].update / count;
    }
    for (uint32_t p = 0; p < count; p++) {
        slow[p] = (cell->spec.microbatch_count - 1) * (totals[p].round - mean_round);
        exposed[p] = totals[p].tail - drained;
        update[p] = totals[p].update - mean_update;
        bytes[p] = scale * (totals[p].bytes / limit - 1.0);
        drained += totals[p].backward;
        double b = bytes[p] > 0 || dual->weights.per_byte[p] > 0 ? bytes[p] : 0.0;
        square += slow[p] * slow[p] + exposed[p] * exposed[p] + update[p] * update[p] + b * b;
    }
    if (square <= 0.0) {
        return;
    }
    double step = ahead / square;
    for (uint32_t p = 0; p < count; p++) {
        dual->weights.slowest[p] += step * slow[p];
        dual->weights.exposed[p] += step * exposed[p];
        dual->weights.update[p] += step * update[p];
        dual->weights.per_byte[p] = fmax(dual->weights.per_byte[p] + step * bytes[p] * scale / limit, 0.0);
    }
    project(dual->weights.slowest, count, true);
    project(dual->weights.exposed, count, false);
    project(dual->weights.update, count, true);
}

void gal_dual_raise(gal_dual *dual, uint32_t rounds, double *best_seconds, uint32_t *best_stage,
                    uint32_t *best_strategy)
{
    const gal_cell *cell = dual->cell;
    const uint32_t last = cell->block_count - 1;
    stage_totals totals[GAL_STAGES_MAX];
    gal_weights best_weights = dual->weights;
    double best_bound = -HUGE_VAL;
    double pace = 1.0;
    uint32_t idle = 0;
    for (uint32_t round = 0; round < rounds; round++) {
        gal_dual_solve(dual);
        if (dual->bound == HUGE_VAL) {
            return;
        }
        double seconds = gal_cell_evaluate(cell, dual->stage, dual->strategy, NULL);
        if (seconds < *best_seconds && gal_cell_tied_alike(cell, dual->strategy[0], dual->strategy[last])) {
            *best_seconds = seconds;
            memcpy(best_stage, dual->stage, cell->block_count * sizeof *best_stage);
            memcpy(best_strategy, dual->strategy, cell->block_count * sizeof *best_strategy);
        }
        idle++;
        if (dual->bound > best_bound) {
            idle = dual->bound > best_bound + 1e-4 * fabs(best_bound) ? 0 : idle;
            best_bound = dual->bound;
            best_weights = dual->weights;
        }
        if (best_bound >= *best_seconds * (1 - 1e-12) || best_bound > dual->most_seconds) {
            break;
        }
        if (idle == 5) {
            pace *= 0.6;
            idle = 0;
        }
        double target = *best_seconds < HUGE_VAL ? *best_seconds : best_bound + 0.2 * fabs(best_bound);
        path_totals(dual, totals);
        move_weights(dual, totals, pace * fmax(target - dual->bound, 1e-6 * fabs(best_bound)));
        gal_dual_weigh(dual);
    }
    dual->weights = best_weights;
    gal_dual_weigh(dual);
    gal_dual_solve(dual);
}
