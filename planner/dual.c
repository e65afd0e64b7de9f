#include "planner/dual.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

gal_code gal_dual_create(const gal_cell *cell, uint32_t embedding, gal_dual **out, gal_error *err)
{
    size_t nodes = (size_t)cell->block_count * cell->spec.pp_degree * cell->strategy_count;
    gal_dual *dual = calloc(1, sizeof *dual);
    if (dual != NULL) {
        dual->cell = cell;
        dual->embedding = embedding;
        dual->to_go = calloc(nodes + 1, sizeof *dual->to_go);
        dual->stage = calloc(cell->block_count, sizeof *dual->stage);
        dual->strategy = calloc(cell->block_count, sizeof *dual->strategy);
    }
    if (dual == NULL || dual->to_go == NULL || dual->stage == NULL || dual->strategy == NULL) {
        gal_dual_free(dual);
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    for (uint32_t p = 0; p < cell->spec.pp_degree; p++) {
        dual->weights.slowest[p] = 1.0 / cell->spec.pp_degree;
        dual->weights.update[p] = 1.0 / cell->spec.pp_degree;
    }
    dual->weights.exposed[0] = 1.0;
    *out = dual;
    return GAL_OK;
}

void gal_dual_free(gal_dual *dual)
{
    if (dual != NULL) {
        free(dual->strategy);
        free(dual->stage);
        free(dual->to_go);
        free(dual);
    }
}

bool gal_dual_allows(const gal_dual *dual, uint32_t block, uint32_t strategy)
{
    const gal_cell *cell = dual->cell;
    bool end = block == 0 || block + 1 == cell->block_count;
    return !end || gal_cell_tied_alike(cell, dual->embedding, strategy);
}

static double backward_weight(const gal_dual *dual, uint32_t stage)
{
    double later = 0.0; /* backward of this stage hides the sync of every later one */
    for (uint32_t p = stage + 1; p < dual->cell->spec.pp_degree; p++) {
        later += dual->weights.exposed[p];
    }
    return later;
}

double gal_dual_step_seconds(const gal_dual *dual, uint32_t stage, const gal_cell_step *step)
{
    const gal_weights *w = &dual->weights;
    double round = step->forward_seconds + step->backward_seconds;
    return (1.0 + (dual->cell->spec.microbatch_count - 1) * w->slowest[stage]) * round +
           w->exposed[stage] * step->tail_seconds - backward_weight(dual, stage) * step->backward_seconds +
           w->update[stage] * step->update_seconds + w->per_byte[stage] * (double)step->bytes;
}

double gal_dual_close_seconds(const gal_dual *dual, uint32_t block, uint32_t stage, uint32_t strategy)
{
    gal_cell_step step;
    double transfer = 0.0;
    gal_cell_close(dual->cell, block, stage, strategy, &step, &transfer);
    return gal_dual_step_seconds(dual, stage, &step) + 2.0 * transfer;
}

double gal_dual_constant(const gal_dual *dual)
{
    double constant = dual->cell->common_seconds;
    for (uint32_t p = 0; p < dual->cell->spec.pp_degree; p++) {
        constant -= dual->weights.per_byte[p] * (double)dual->cell->spec.arena_limit_bytes;
    }
    return constant;
}

/* The best way on from a node, and its cost; next_* are left alone if there is none. */
static double best_next(const gal_dual *dual, uint32_t block, uint32_t stage, uint32_t strategy, uint32_t *next_stage,
                        uint32_t *next_strategy)
{
    const gal_cell *cell = dual->cell;
    double best = HUGE_VAL;
    uint32_t stages_left = cell->spec.pp_degree - 1 - stage;
    uint32_t blocks_left = cell->block_count - 1 - block;
    double close = stages_left > 0 ? gal_dual_close_seconds(dual, block, stage, strategy) : 0.0;
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        for (uint32_t cross = 0; cross <= (stages_left > 0 ? 1u : 0u); cross++) {
            gal_cell_step step;
            uint32_t to = stage + cross;
            double rest = dual->to_go[gal_dual_node(cell, block + 1, to, s)];
            if (rest == HUGE_VAL || blocks_left < stages_left) {
                continue;
            }
            if (cross == 1) {
                gal_cell_cross(cell, block + 1, to, strategy, s, &step);
            } else {
                gal_cell_follow(cell, block + 1, to, strategy, s, &step);
            }
            double cost = gal_dual_step_seconds(dual, to, &step) + (cross == 1 ? close : 0.0) + rest;
            if (cost < best) {
                best = cost;
                *next_stage = to;
                *next_strategy = s;
            }
        }
    }
    return best;
}

static void fill_to_go(gal_dual *dual)
{
    const gal_cell *cell = dual->cell;
    uint32_t ignored_stage = 0;
    uint32_t ignored_strategy = 0;
    for (uint32_t i = cell->block_count; i-- > 0;) {
        for (uint32_t p = 0; p < cell->spec.pp_degree; p++) {
            for (uint32_t s = 0; s < cell->strategy_count; s++) {
                double *to_go = &dual->to_go[gal_dual_node(cell, i, p, s)];
                *to_go = HUGE_VAL;
                if (p > i || gal_cell_price(cell, i, p, s) == NULL || !gal_dual_allows(dual, i, s)) {
                    continue;
                }
                if (i + 1 < cell->block_count) {
                    *to_go = best_next(dual, i, p, s, &ignored_stage, &ignored_strategy);
                } else if (p + 1 == cell->spec.pp_degree) {
                    *to_go = gal_dual_close_seconds(dual, i, p, s);
                }
            }
        }
    }
}

void gal_dual_solve(gal_dual *dual)
{
    const gal_cell *cell = dual->cell;
    fill_to_go(dual);
    dual->bound = HUGE_VAL;
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        gal_cell_step step;
        double rest = dual->to_go[gal_dual_node(cell, 0, 0, s)];
        if (rest == HUGE_VAL) {
            continue;
        }
        gal_cell_start(cell, s, &step);
        double cost = gal_dual_step_seconds(dual, 0, &step) + rest;
        if (cost < dual->bound) {
            dual->bound = cost;
            dual->stage[0] = 0;
            dual->strategy[0] = s;
        }
    }
    if (dual->bound == HUGE_VAL) {
        return;
    }
    dual->bound += gal_dual_constant(dual);
    for (uint32_t i = 0; i + 1 < cell->block_count; i++) {
        best_next(dual, i, dual->stage[i], dual->strategy[i], &dual->stage[i + 1], &dual->strategy[i + 1]);
    }
}

/* What each stage of the path sums up to: the subgradient. */
typedef struct stage_totals {
    double round, backward, tail, update;
    int64_t bytes;
} stage_totals;

static void add_totals(stage_totals *t, const gal_cell_step *step)
{
    t->round += step->forward_seconds + step->backward_seconds;
    t->backward += step->backward_seconds;
    t->tail += step->tail_seconds;
    t->update += step->update_seconds;
    t->bytes += step->bytes;
}

static void path_totals(const gal_dual *dual, stage_totals *totals)
{
    const gal_cell *cell = dual->cell;
    const uint32_t *stage = dual->stage;
    const uint32_t *strategy = dual->strategy;
    memset(totals, 0, cell->spec.pp_degree * sizeof *totals);
    for (uint32_t i = 0; i < cell->block_count; i++) {
        gal_cell_step step;
        double transfer = 0.0;
        if (i == 0) {
            gal_cell_start(cell, strategy[0], &step);
        } else if (stage[i] == stage[i - 1]) {
            gal_cell_follow(cell, i, stage[i], strategy[i - 1], strategy[i], &step);
        } else {
            gal_cell_cross(cell, i, stage[i], strategy[i - 1], strategy[i], &step);
        }
        add_totals(&totals[stage[i]], &step);
        if (i + 1 == cell->block_count || stage[i + 1] != stage[i]) {
            gal_cell_close(cell, i, stage[i], strategy[i], &step, &transfer);
            add_totals(&totals[stage[i]], &step);
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
    for (uint32_t i = 0; i < count; i++) {
        sorted[i] = x[i];
        positive += fmax(x[i], 0.0);
    }
    double threshold = 0.0;
    if (whole || positive > 1.0) {
        double sum = 0.0;
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
    double limit = (double)cell->spec.arena_limit_bytes;
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
        bytes[p] = scale * ((double)totals[p].bytes / limit - 1.0);
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
        if (seconds < *best_seconds) {
            *best_seconds = seconds;
            memcpy(best_stage, dual->stage, cell->block_count * sizeof *best_stage);
            memcpy(best_strategy, dual->strategy, cell->block_count * sizeof *best_strategy);
        }
        idle++;
        if (dual->bound > best_bound) {
            best_bound = dual->bound;
            best_weights = dual->weights;
            idle = 0;
        }
        if (best_bound >= *best_seconds * (1 - 1e-9)) {
            break;
        }
        if (idle == 5) {
            pace *= 0.6;
            idle = 0;
        }
        double target = *best_seconds < HUGE_VAL ? *best_seconds : best_bound + 0.2 * fabs(best_bound);
        path_totals(dual, totals);
        move_weights(dual, totals, pace * fmax(target - dual->bound, 1e-6 * fabs(best_bound)));
    }
    dual->weights = best_weights;
    gal_dual_solve(dual);
}
