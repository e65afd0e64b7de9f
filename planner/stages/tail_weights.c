#include "planner/stages/tail_weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 2000 };

gal_tails gal_tails_of_path(const gal_screened *s, const uint32_t *stage, const uint32_t *strategy)
{
    gal_tails out = {{0.0}, {0.0}};
    double backward[GAL_STAGES_MAX] = {0};
    double drained = 0.0;
    for (uint32_t block = 0; block < s->types->block_count; block++) {
        const gal_screened_item *item =
            &s->item[(size_t)s->types->type_of[block] * s->strategy_count + strategy[block]];
        out.exposed[stage[block]] += item->tail_seconds;
        out.update[stage[block]] += item->update_seconds;
        backward[stage[block]] += item->backward_seconds;
    }
    for (uint32_t p = 0; p < s->spec.pp_degree; p++) {
        out.exposed[p] -= drained;
        drained += backward[p];
    }
    return out;
}

bool gal_tails_move(gal_tails *weights, uint32_t stage_count, const gal_tails *path, double share)
{
    bool moved = false;
    uint32_t stage = 0;
    for (uint32_t p = 1; p < stage_count; p++) {
        stage = path->exposed[p] > path->exposed[stage] ? p : stage;
    }
    for (uint32_t p = 0; p < stage_count; p++) {
        const bool towards = p == stage && path->exposed[p] > 0.0;
        const double own = (1.0 - share) * weights->exposed[p] + (towards ? share : 0.0);
        moved = moved || own != weights->exposed[p];
        weights->exposed[p] = own;
    }
    return moved;
}

/* ---- cutting planes ---- */

gal_code gal_tail_weights_create(uint32_t stage_count, gal_tail_weights *out, gal_error *err)
{
    *out = (gal_tail_weights){.stage_count = stage_count, .path = malloc(GAL_TAIL_PLANES * sizeof *out->path)};
    return out->path != NULL ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

void gal_tail_weights_free(gal_tail_weights *weights)
{
    free(weights->path);
    *weights = (gal_tail_weights){0};
}

/* Of the weights so much of each tail and update. */
static double weighted(uint32_t stage_count, const gal_tails *weights, const gal_tails *path)
{
    double seconds = 0.0;
    for (uint32_t p = 0; p < stage_count; p++) {
        seconds += weights->exposed[p] * path->exposed[p] + weights->update[p] * path->update[p];
    }
    return seconds;
}

void gal_tail_weights_note(gal_tail_weights *w, const gal_tails *at, double bound_seconds, const gal_tails *path)
{
    if (w->plane_count < GAL_TAIL_PLANES) {
        w->path[w->plane_count] = *path;
        w->seconds[w->plane_count++] = bound_seconds - weighted(w->stage_count, at, path);
    }
}

/* The plane that is least under the weights; *least: how much. */
static const gal_tails *least_plane(const gal_tail_weights *w, const gal_tails *weights, double *least)
{
    const gal_tails *plane = w->path;
    *least = HUGE_VAL;
    for (uint32_t k = 0; k < w->plane_count; k++) {
        const double seconds = w->seconds[k] + weighted(w->stage_count, weights, &w->path[k]);
        plane = seconds < *least ? &w->path[k] : plane;
        *least = fmin(*least, seconds);
    }
    return plane;
}

/* Adds a path's tails or updates to the sums, and moves the weights by a step of that size towards the stage that has
 * most in all; where none has more than nothing, towards no weights at all. */
static void answer(uint32_t stage_count, const double *path, double *sum, double *weight, double step)
{
    uint32_t stage = stage_count;
    double most = 0.0;
    for (uint32_t p = 0; p < stage_count; p++) {
        sum[p] += path[p];
        stage = sum[p] > most ? p : stage;
        most = fmax(most, sum[p]);
    }
    for (uint32_t p = 0; p < stage_count; p++) {
        weight[p] += ((p == stage ? 1.0 : 0.0) - weight[p]) * step;
    }
}

/* Fictitious play: in turn the least plane under the mean of the stages chosen so far, and the stages that are best
 * against all planes chosen so far; that mean nears the best weights (J. Robinson, "An Iterative Method of Solving a
 * Game", 1951). Sums and products alone: the same to the bit everywhere. */
double gal_tail_weights_find(const gal_tail_weights *w, gal_tails *out)
{
    gal_tails sum = {{0.0}, {0.0}};
    double least = 0.0;
    *out = (gal_tails){{0.0}, {0.0}};
    for (uint32_t step = 1; step <= STEPS; step++) {
        const gal_tails *path = least_plane(w, out, &least);
        answer(w->stage_count, path->exposed, sum.exposed, out->exposed, 1.0 / step);
        answer(w->stage_count, path->update, sum.update, out->update, 1.0 / step);
    }
    (void)least_plane(w, out, &least);
    return least;
}
