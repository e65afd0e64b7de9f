#include "planner/solve/stage_solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/solve/stage_halves.h"
#include "schemas/limits.h"

/* Labels refer to each other by 32 bits. */
static size_t pool_limit(uint64_t label_limit)
{
    return label_limit > UINT32_MAX / 2 ? UINT32_MAX / 2 : (size_t)label_limit;
}

/* ---- rounds with a rising goal ---- */

/* The first goal's share of the gap to the best path known; and the share of a time below which no gap is parted. */
static const int64_t first_share = 16, least_share = 1000000;
/* Labels that a round may be expected to have, by cell; labels grow with some fourth power of a goal's distance. */
static const double wanted_labels = 8.0, label_power = 4.0;
static const double growth_least = 1.25, growth_most = 4.0;

/* Of a goal's distance from the bound, after a round. */
static double growth_of(uint64_t label_count, size_t cell_count)
{
    const double room = wanted_labels * (double)cell_count / (double)(label_count + 1);
    return fmin(growth_most, fmax(growth_least, pow(room, 1.0 / label_power)));
}

/* A round that finds a path has found the best; one whose goal is just below the best path known and finds none has
 * proven that. Goals between keep the rounds small while the best path known is poor. */
static gal_code raise_goal(const gal_stage *stage, gal_stage_bound *b, gal_halves *h, gal_error *err)
{
    const size_t cells = (size_t)(stage->end - stage->first) * stage->choices->instance->class_count;
    const int64_t begin_ps = b->bound_ps;
    int64_t reach_ps = (b->best_ps - begin_ps) / first_share;
    reach_ps = reach_ps > b->best_ps / least_share ? reach_ps : b->best_ps / least_share;
    while (b->bound_ps < b->best_ps) {
        const int64_t below_ps = b->best_ps - 1;
        const int64_t goal_ps = reach_ps >= below_ps - begin_ps ? below_ps : begin_ps + reach_ps;
        const uint64_t labels = h->label_count;
        switch (gal_halves_run(h, goal_ps, b->best, &b->best_ps)) {
        case GAL_HALVES_NO_MEMORY:
            return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
        case GAL_HALVES_LIMIT:
            return GAL_OK;
        case GAL_HALVES_FOUND:
            b->bound_ps = b->best_ps;
            break;
        case GAL_HALVES_NONE:
            b->bound_ps = goal_ps + 1;
        }
        const double reach = (double)(goal_ps - begin_ps) * growth_of(h->label_count - labels, cells);
        reach_ps = reach < (double)below_ps ? (int64_t)reach + 1 : below_ps;
    }
    return GAL_OK;
}

gal_code gal_stage_solve(const gal_stage *stage, uint64_t label_limit, uint32_t *strategy, gal_stage_answer *out,
                         gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_instance *g = stage->choices->instance;
    gal_stage_bound bound = {0};
    gal_halves halves = {0};
    int64_t least = 0;
    bool is_exact = false;
    GAL_TRY(gal_stage_bound_create(stage, &bound, err));
    if (bound.bound_ps != GAL_NEVER && bound.best_ps == GAL_NEVER) {
        GAL_TRY(gal_stage_least_bytes(stage, label_limit, g->budget_bytes, bound.path[0], &least, &is_exact, err));
        gal_stage_offer(stage, &bound, bound.path[0]);
        bound.bound_ps = bound.best_ps == GAL_NEVER && is_exact ? GAL_NEVER : bound.bound_ps;
    }
    if (bound.bound_ps < bound.best_ps && bound.best_ps != GAL_NEVER) {
        if (!gal_halves_create(stage, &bound, pool_limit(label_limit), &halves)) {
            GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
        }
        GAL_TRY(raise_goal(stage, &bound, &halves, err));
    }
    if (bound.best_ps != GAL_NEVER) {
        memcpy(strategy + stage->first, bound.best + stage->first, (stage->end - stage->first) * sizeof *strategy);
    }
    *out = (gal_stage_answer){bound.best_ps, bound.bound_ps, halves.label_count};
cleanup:
    gal_stage_bound_free(&bound);
    gal_halves_free(&halves);
    return code;
}

/* ---- the least bytes ---- */

/* Some strategies to begin with: layer by layer the least of one measure. */
static void by_measure(const gal_stage *stage, uint32_t measure, uint32_t *strategy)
{
    const gal_menu *o = stage->choices;
    for (uint32_t l = stage->first; l < stage->end; l++) {
        const uint32_t *start = gal_stage_start(stage, l);
        int64_t least = INT64_MAX;
        for (uint32_t c = start[0]; c < start[o->instance->class_count]; c++) {
            const gal_choice *at = &o->choice[c];
            const int64_t value = measure == 0   ? at->kept_bytes
                                  : measure == 1 ? at->held_bytes
                                                 : at->kept_bytes + at->backward_bytes;
            if (value < least) {
                least = value;
                strategy[l] = at->strategy;
            }
        }
    }
}

static int64_t peak_of(const gal_stage *stage, const uint32_t *strategy)
{
    const gal_menu *o = stage->choices;
    return gal_instance_stage_cost(o->instance, o->stage, stage->first, stage->end, strategy).peak_bytes;
}

static void first_least(const gal_stage *stage, uint32_t *strategy, uint32_t *scratch, int64_t *bytes)
{
    *bytes = INT64_MAX;
    for (uint32_t measure = 0; measure < 3; measure++) {
        by_measure(stage, measure, scratch);
        const int64_t peak = peak_of(stage, scratch);
        if (peak < *bytes) {
            *bytes = peak;
            memcpy(strategy + stage->first, scratch + stage->first, (stage->end - stage->first) * sizeof *strategy);
        }
    }
}

typedef struct shrinking {
    const gal_stage *stage;
    gal_stage_floors floors;
    gal_heads pool;
    gal_head_rows rows;
    size_t limit;
} shrinking;

/* The parents of the heads of layer i are in the rows of layer i - 1. */
static void trace(const shrinking *r, size_t head, uint32_t *strategy)
{
    for (uint32_t l = r->stage->end; l-- > r->stage->first;) {
        strategy[l] = r->pool.head[head].strategy;
        head = r->pool.head[head].parent;
    }
}

/* Heads of any class and of no time, below the least bytes known. False without memory; *limit_hit by the limit. */
static bool shrink(shrinking *r, int64_t *bytes, uint32_t *strategy, bool *limit_hit)
{
    static const gal_head none = {0};
    const gal_menu *o = r->stage->choices;
    const size_t count = r->stage->end - r->stage->first;
    size_t from = 0;
    size_t from_end = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t *start = gal_stage_start(r->stage, r->stage->first + (uint32_t)i);
        const size_t begin = r->pool.count;
        gal_head_rows_clear(&r->rows);
        for (uint32_t c = start[0]; c < start[o->instance->class_count]; c++) {
            if (!gal_head_rows_begin(&r->rows)) {
                return false;
            }
            for (size_t h = from; h < (i == 0 ? 1 : from_end); h++) {
                gal_head next = gal_head_extend(i == 0 ? &none : &r->pool.head[h], &o->choice[c], &r->floors, i);
                next.parent = (uint32_t)h;
                next.seconds_ps = 0;
                if (next.peak_bytes + r->floors.held_bytes[i] < *bytes && !gal_heads_push(&r->rows.heads, next)) {
                    return false;
                }
            }
        }
        if (!gal_head_rows_keep_best(&r->rows, &r->pool)) {
            return false;
        }
        from = begin;
        from_end = r->pool.count;
        *limit_hit = from_end > r->limit;
        if (from == from_end || *limit_hit) {
            return true;
        }
    }
    size_t best = from;
    for (size_t h = from; h < from_end; h++) {
        best = r->pool.head[h].peak_bytes < r->pool.head[best].peak_bytes ? h : best;
    }
    *bytes = r->pool.head[best].peak_bytes;
    trace(r, best, strategy);
    return true;
}

gal_code gal_stage_least_bytes(const gal_stage *stage, uint64_t label_limit, int64_t enough_bytes, uint32_t *strategy,
                               int64_t *bytes, bool *is_exact, gal_error *err)
{
    gal_code code = GAL_OK;
    bool limit_hit = false;
    shrinking r = {.stage = stage, .limit = pool_limit(label_limit)};
    uint32_t *scratch = calloc(stage->end, sizeof *scratch);
    if (scratch == NULL || !gal_stage_floors_create(stage, &r.floors)) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    first_least(stage, strategy, scratch, bytes);
    if (*bytes > enough_bytes && !shrink(&r, bytes, strategy, &limit_hit)) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    *is_exact = !limit_hit;
cleanup:
    free(scratch);
    gal_stage_floors_free(&r.floors);
    free(r.pool.head);
    gal_head_rows_free(&r.rows);
    return code;
}
