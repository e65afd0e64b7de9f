/* The subgradient steps of planner/bound/dual.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/bound/dual.h"

/* Shorter steps than this share of Polyak's raise a bound no more that would be worth their time. */
static const double least_pace = 0.1;

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
        gal_cell_reach(cell, i, stage, strategy, &step);
        add_totals(&totals[stage[i]], &step);
        if (i + 1 == cell->block_count || stage[i + 1] != stage[i]) {
            gal_cell_close(cell, i, stage[i], strategy[i], &step);
            add_totals(&totals[stage[i]], &step);
            totals[stage[i]].bytes += (double)gal_shared_sum(&dual->least[stage[i]]);
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
    double sorted[GAL_STAGES_MAX + 1];
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

/* Towards the slower stages; the share that they leave is one more of them, as slow as slowest_least. */
static void turn_to_slower(const gal_dual *dual, const stage_totals *totals, double *share, double *ahead)
{
    const uint32_t count = dual->cell->spec.pp_degree;
    const double rounds = dual->cell->rounds.slowest;
    double mean = 0.0;
    share[count] = 1.0;
    for (uint32_t p = 0; p < count; p++) {
        mean += totals[p].round / count;
        share[p] = dual->weights.slowest[p];
        share[count] = gal_at_least_zero(share[count] - share[p]);
    }
    for (uint32_t p = 0; p < count; p++) {
        ahead[p] = rounds * (totals[p].round - mean);
    }
    ahead[count] = rounds * (dual->slowest_least - mean);
    ahead[count] = share[count] > 0.0 || ahead[count] > 0.0 ? ahead[count] : 0.0;
}

/* One step of length `ahead` / |subgradient| (Polyak). Bytes are scaled so that a stage's limit counts as the bound. */
static void move_weights(gal_dual *dual, const stage_totals *totals, double ahead)
{
    const gal_cell *cell = dual->cell;
    uint32_t count = cell->spec.pp_degree;
    double limit = fmax((double)cell->spec.arena_limit_bytes, 1.0);
    double scale = fmax(fabs(dual->bound), 1e-12);
    double share[GAL_STAGES_MAX + 1], slow[GAL_STAGES_MAX + 1];
    double exposed[GAL_STAGES_MAX], update[GAL_STAGES_MAX], bytes[GAL_STAGES_MAX];
    double drained = 0.0;
    double mean_update = 0.0;
    turn_to_slower(dual, totals, share, slow);
    double square = slow[count] * slow[count];
    for (uint32_t p = 0; p < count; p++) {
        mean_update += totals[p].update / count;
    }
    for (uint32_t p = 0; p < count; p++) {
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
        share[p] += step * slow[p];
        dual->weights.exposed[p] += step * exposed[p];
        dual->weights.update[p] += step * update[p];
        dual->weights.per_byte[p] = fmax(dual->weights.per_byte[p] + step * bytes[p] * scale / limit, 0.0);
    }
    share[count] += step * slow[count];
    project(share, count + 1, true);
    memcpy(dual->weights.slowest, share, count * sizeof share[0]);
    project(dual->weights.exposed, count, false);
    project(dual->weights.update, count, true);
}

static void keep_if_better(const gal_dual *dual, gal_best_path *best)
{
    const gal_cell *cell = dual->cell;
    const double seconds = gal_cell_evaluate(cell, dual->stage, dual->strategy, NULL);
    if (seconds < best->seconds && gal_cell_tables_alike(cell, dual->strategy)) {
        best->seconds = seconds;
        memcpy(best->stage, dual->stage, cell->block_count * sizeof *best->stage);
        memcpy(best->strategy, dual->strategy, cell->block_count * sizeof *best->strategy);
    }
}

void gal_dual_raise(gal_dual *dual, uint32_t rounds, gal_best_path *best)
{
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
        keep_if_better(dual, best);
        idle++;
        if (dual->bound > best_bound) {
            idle = dual->bound > best_bound + 1e-4 * fabs(best_bound) ? 0 : idle;
            best_bound = dual->bound;
            best_weights = dual->weights;
            gal_dual_narrow(dual, best->seconds);
        }
        if (best_bound >= best->seconds * (1 - 1e-12) || best_bound > dual->most_seconds) {
            break;
        }
        if (idle == 5) {
            pace *= 0.6;
            idle = 0;
            if (pace < least_pace) {
                break;
            }
        }
        double target = best->seconds < HUGE_VAL ? best->seconds : best_bound + 0.2 * fabs(best_bound);
        path_totals(dual, totals);
        move_weights(dual, totals, pace * fmax(target - dual->bound, 1e-6 * fabs(best_bound)));
        gal_dual_weigh(dual);
    }
    dual->weights = best_weights;
    gal_dual_weigh(dual);
    gal_dual_solve(dual);
}

/* Towards the stages that are over the limit. */
static void move_bytes(gal_dual *dual, const stage_totals *totals, double pace)
{
    const uint32_t stages = dual->cell->spec.pp_degree;
    double most = 0.0;
    double mean = 0.0;
    for (uint32_t p = 0; p < stages; p++) {
        mean += totals[p].bytes / stages;
    }
    for (uint32_t p = 0; p < stages; p++) {
        most = fmax(most, fabs(totals[p].bytes - mean));
    }
    for (uint32_t p = 0; most > 0.0 && p < stages; p++) {
        dual->weights.per_byte[p] += pace * (totals[p].bytes - mean) / most;
    }
    project(dual->weights.per_byte, stages, true);
    gal_dual_weigh(dual);
}

bool gal_dual_is_too_large(gal_dual *dual, uint32_t rounds, gal_best_path *best)
{
    const uint32_t stages = dual->cell->spec.pp_degree;
    const double limit = (double)dual->cell->spec.arena_limit_bytes;
    const gal_weights before = dual->weights;
    stage_totals totals[GAL_STAGES_MAX];
    bool too_large = false;
    gal_dual_take_bytes(dual);
    gal_dual_weigh(dual);
    for (uint32_t round = 0; round < rounds && !too_large; round++) {
        bool fits = true;
        gal_dual_solve(dual);
        too_large = dual->bound > 1e-9 * limit;
        if (too_large) {
            break;
        }
        keep_if_better(dual, best);
        path_totals(dual, totals);
        for (uint32_t p = 0; p < stages; p++) {
            fits = fits && totals[p].bytes <= limit;
        }
        if (fits) {
            break;
        }
        move_bytes(dual, totals, 0.5 / (round + 1.0));
    }
    gal_dual_take_seconds(dual, &before);
    gal_dual_weigh(dual);
    gal_dual_solve(dual);
    return too_large;
}
