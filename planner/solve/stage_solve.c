#include "planner/solve/stage_solve.h"

#include <stdlib.h>
#include <string.h>

#include "planner/solve/stage_labels.h"
#include "schemas/limits.h"

/* What layers behind the one at hand need at least, by layer - first. */
typedef struct floors {
    int64_t *held; /* sum of their least held bytes */
    int64_t *own;  /* least peak of their own, without held bytes */
} floors;

typedef struct rounds {
    const gal_stage *stage;
    gal_stage_bound bound;
    floors floor;
    gal_heads pool;
    gal_head_rows rows;
    size_t *range;   /* (layer - first, class): where its heads begin in the pool; and the end */
    size_t limit;    /* of heads in the pool */
    int64_t goal_ps; /* paths that take longer are dropped */
    uint64_t label_count;
} rounds;

typedef enum outcome { FOUND, NONE, LIMIT, NO_MEMORY } outcome;

static bool fill_floors(const gal_stage *stage, floors *f)
{
    const gal_menu *o = stage->choices;
    const size_t count = stage->end - stage->first;
    f->held = calloc(count, sizeof *f->held);
    f->own = calloc(count, sizeof *f->own);
    if (f->held == NULL || f->own == NULL) {
        return false;
    }
    for (uint32_t l = stage->end - 1; l > stage->first; l--) {
        const uint32_t *start = gal_stage_start(stage, l);
        const size_t i = l - stage->first;
        int64_t held = INT64_MAX;
        int64_t own = INT64_MAX;
        for (uint32_t c = start[0]; c < start[o->instance->class_count]; c++) {
            const gal_choice *at = &o->choice[c];
            const int64_t behind = at->backward_bytes > f->own[i] ? at->backward_bytes : f->own[i];
            const int64_t mine = at->kept_bytes - at->held_bytes + behind;
            held = at->held_bytes < held ? at->held_bytes : held;
            own = mine < own ? mine : own;
        }
        f->held[i - 1] = f->held[i] + held;
        f->own[i - 1] = own;
    }
    return true;
}

/* The head with one layer more. Its peak is raised to the least that any tail leads to, so that heads that differ only
 * where every tail passes them are one. */
static gal_head extend(const gal_head *head, const gal_choice *choice, const floors *f, size_t i)
{
    gal_head next = {.kept_bytes = head->kept_bytes + choice->kept_bytes, .strategy = choice->strategy};
    const int64_t old = head->peak_bytes + choice->held_bytes;
    const int64_t here = next.kept_bytes + choice->backward_bytes;
    const int64_t behind = next.kept_bytes + f->own[i];
    next.seconds_ps = head->seconds_ps + choice->seconds_ps;
    next.peak_bytes = old > here ? old : here;
    next.peak_bytes = next.peak_bytes > behind ? next.peak_bytes : behind;
    return next;
}

/* ---- one round: every path of at most goal_ps ---- */

/* A tail cannot bring it below goal and budget together, by any multiplier. */
static bool is_hopeless(const rounds *r, const gal_head *head, const gal_choice *choice, size_t cell, bool is_last)
{
    const int64_t budget = r->stage->choices->instance->budget_bytes;
    const int64_t over = head->kept_bytes + (is_last ? choice->backward_bytes : 0) - budget;
    for (uint32_t i = 0; i < r->bound.multiplier_count; i++) {
        const gal_multiplier *m = &r->bound.multiplier[i];
        const double least = (double)head->seconds_ps + m->suffix[cell] + m->lambda * (double)over;
        if (least > (double)r->goal_ps + gal_multiplier_slack(m, budget, (double)r->goal_ps)) {
            return true;
        }
    }
    return false;
}

/* All heads of one class before, with one choice behind them. change_ps: between the two. */
static bool extend_all(rounds *r, const gal_head *from, size_t count, size_t first_parent, int64_t change_ps,
                       const gal_choice *choice, size_t i, size_t cell)
{
    const int64_t room = r->stage->choices->instance->budget_bytes - r->floor.held[i];
    const bool is_last = r->stage->first + i + 1 == r->stage->end;
    if (!gal_head_rows_begin(&r->rows)) {
        return false;
    }
    for (size_t h = 0; h < count; h++) {
        gal_head next = extend(&from[h], choice, &r->floor, i);
        next.seconds_ps += change_ps;
        next.parent = (uint32_t)(first_parent + h);
        if (next.seconds_ps <= r->goal_ps && next.peak_bytes <= room && !is_hopeless(r, &next, choice, cell, is_last) &&
            !gal_heads_push(&r->rows.heads, next)) {
            return false;
        }
    }
    return true;
}

/* Least length of a path over this choice and the edge before it, against the goal. */
static bool is_fixed_out(const rounds *r, double before, const gal_choice *choice, size_t cell, bool is_last)
{
    const int64_t budget = r->stage->choices->instance->budget_bytes;
    const gal_multiplier *m = &r->bound.multiplier[0];
    const int64_t bytes = choice->kept_bytes + (is_last ? choice->backward_bytes : 0) - budget;
    const double least = before + (double)choice->seconds_ps + m->lambda * (double)bytes + m->suffix[cell];
    return least > (double)r->goal_ps + gal_multiplier_slack(m, budget, (double)r->goal_ps);
}

static bool reach(rounds *r, size_t i, uint32_t class)
{
    static const gal_head none = {0};
    const gal_menu *o = r->stage->choices;
    const uint32_t classes = o->instance->class_count;
    const uint32_t layer = r->stage->first + (uint32_t)i;
    const uint32_t *start = gal_stage_start(r->stage, layer);
    const size_t cell = i * classes + class;
    const bool is_last = layer + 1 == r->stage->end;
    gal_head_rows_clear(&r->rows);
    for (uint32_t from = 0; from < (i == 0 ? 1 : classes); from++) {
        const size_t row = (i == 0 ? 0 : (i - 1) * classes) + from;
        const size_t count = i == 0 ? 1 : r->range[row + 1] - r->range[row];
        const int64_t change = i == 0 ? 0 : gal_stage_change(r->stage, layer)[(size_t)from * classes + class];
        const double before = i == 0 ? 0.0 : r->bound.prefix[row] + (double)change;
        for (uint32_t c = start[class]; count > 0 && c < start[class + 1]; c++) {
            if (is_fixed_out(r, before, &o->choice[c], cell, is_last)) {
                continue;
            }
            const size_t parent = i == 0 ? 0 : r->range[row];
            if (!extend_all(r, i == 0 ? &none : r->pool.head + parent, count, parent, change, &o->choice[c], i, cell)) {
                return false;
            }
        }
    }
    return gal_head_rows_keep_best(&r->rows, &r->pool);
}

/* The parents of the heads of layer i are in the rows of layer i - 1. */
static void trace(const rounds *r, size_t head, uint32_t *strategy)
{
    for (uint32_t l = r->stage->end; l-- > r->stage->first;) {
        strategy[l] = r->pool.head[head].strategy;
        head = r->pool.head[head].parent;
    }
}

static outcome run_round(rounds *r)
{
    const uint32_t classes = r->stage->choices->instance->class_count;
    const size_t count = r->stage->end - r->stage->first;
    r->pool.count = 0;
    r->range[0] = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t begin = r->pool.count;
        for (uint32_t k = 0; k < classes; k++) {
            if (!reach(r, i, k)) {
                return NO_MEMORY;
            }
            r->range[i * classes + k + 1] = r->pool.count;
        }
        r->label_count += r->pool.count - begin;
        if (r->pool.count == begin) {
            return NONE;
        }
        if (r->pool.count > r->limit) {
            return LIMIT;
        }
    }
    size_t best = r->range[(count - 1) * classes];
    for (size_t h = best; h < r->pool.count; h++) {
        best = r->pool.head[h].seconds_ps < r->pool.head[best].seconds_ps ? h : best;
    }
    trace(r, best, r->bound.best);
    r->bound.best_ps = r->pool.head[best].seconds_ps;
    return FOUND;
}

/* ---- rounds with a rising goal ---- */

/* A round that finds a path has found the best; one whose goal is just below the best path known and finds none has
 * proven that. Goals between keep the rounds small while the best path known is poor. */
static gal_code raise_goal(rounds *r, gal_error *err)
{
    gal_stage_bound *b = &r->bound;
    int64_t step = (b->best_ps - b->bound_ps) / 16 + 1;
    while (b->bound_ps < b->best_ps) {
        const int64_t below = b->best_ps - 1;
        r->goal_ps = step >= below - b->bound_ps ? below : b->bound_ps + step;
        const outcome got = run_round(r);
        if (got == NO_MEMORY) {
            return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
        }
        if (got == LIMIT) {
            return GAL_OK;
        }
        b->bound_ps = got == FOUND ? b->best_ps : r->goal_ps + 1;
        step *= step < GAL_NEVER / 8 ? 4 : 1;
    }
    return GAL_OK;
}

static void free_rounds(rounds *r)
{
    gal_stage_bound_free(&r->bound);
    free(r->floor.held);
    free(r->floor.own);
    free(r->pool.head);
    gal_head_rows_free(&r->rows);
    free(r->range);
}

gal_code gal_stage_solve(const gal_stage *stage, uint64_t label_limit, uint32_t *strategy, gal_stage_answer *out,
                         gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_instance *g = stage->choices->instance;
    rounds r = {.stage = stage, .limit = label_limit > UINT32_MAX / 2 ? UINT32_MAX / 2 : (size_t)label_limit};
    int64_t least = 0;
    bool is_exact = false;
    GAL_TRY(gal_stage_bound_create(stage, &r.bound, err));
    if (r.bound.bound_ps != GAL_NEVER && r.bound.best_ps == GAL_NEVER) {
        GAL_TRY(gal_stage_least_bytes(stage, label_limit, g->budget_bytes, r.bound.path[0], &least, &is_exact, err));
        gal_stage_offer(stage, &r.bound, r.bound.path[0]);
        r.bound.bound_ps = r.bound.best_ps == GAL_NEVER && is_exact ? GAL_NEVER : r.bound.bound_ps;
    }
    if (r.bound.bound_ps != GAL_NEVER && r.bound.best_ps != GAL_NEVER) {
        r.range = calloc((size_t)(stage->end - stage->first) * g->class_count + 1, sizeof *r.range);
        if (r.range == NULL || !fill_floors(stage, &r.floor)) {
            GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
        }
        GAL_TRY(raise_goal(&r, err));
    }
    if (r.bound.best_ps != GAL_NEVER) {
        memcpy(strategy + stage->first, r.bound.best + stage->first, (stage->end - stage->first) * sizeof *strategy);
    }
    *out = (gal_stage_answer){r.bound.best_ps, r.bound.bound_ps, r.label_count};
cleanup:
    free_rounds(&r);
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

/* Heads of any class and of no time, below the least bytes known. False without memory; *limit_hit by the limit. */
static bool shrink(rounds *r, int64_t *bytes, uint32_t *strategy, bool *limit_hit)
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
                gal_head next = extend(i == 0 ? &none : &r->pool.head[h], &o->choice[c], &r->floor, i);
                next.parent = (uint32_t)h;
                next.seconds_ps = 0;
                if (next.peak_bytes + r->floor.held[i] < *bytes && !gal_heads_push(&r->rows.heads, next)) {
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
    rounds r = {.stage = stage, .limit = label_limit > UINT32_MAX / 2 ? UINT32_MAX / 2 : (size_t)label_limit};
    uint32_t *scratch = calloc(stage->end, sizeof *scratch);
    if (scratch == NULL || !fill_floors(stage, &r.floor)) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    first_least(stage, strategy, scratch, bytes);
    if (*bytes > enough_bytes && !shrink(&r, bytes, strategy, &limit_hit)) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    *is_exact = !limit_hit;
cleanup:
    free(scratch);
    free_rounds(&r);
    return code;
}
