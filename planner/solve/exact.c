/* Partition and strategies together, exactly.
 *
 * Every row of layers has a bound from below of what it takes as a stage. The best partition under the bounds is a
 * bound of Eq. 5 (it rises with every stage's time); the stages of that partition are solved exactly, which raises
 * their bounds, until the best partition is no better than the best assignment known. Each round turns a bound into a
 * value, so it ends. */
#include <stdlib.h>

#include "planner/solve/intervals.h"
#include "planner/solve/solver.h"

/* ---- the best partition under the bounds ---- */

typedef struct split {
    int64_t slowest_ps, sum_ps; /* of the stages so far; slowest 0 with one microbatch, which does not pay it */
    uint32_t parent;            /* in the pool */
    uint32_t first;             /* layer of the last stage so far */
} split;

typedef struct partition {
    const gal_intervals *intervals;
    split *pool;
    size_t count, capacity;
    size_t *begin, *end;      /* (stage, end layer): in the pool */
    int64_t *rest_slowest_ps; /* (stage, first layer): least of the stages from this one on */
    int64_t *rest_sum_ps;
} partition;

static void free_partition(partition *p)
{
    free(p->pool);
    free(p->begin);
    free(p->end);
    free(p->rest_slowest_ps);
    free(p->rest_sum_ps);
}

static gal_code create_partition(const gal_intervals *t, partition *p, gal_error *err)
{
    const size_t cells = ((size_t)t->instance->stage_count + 1) * (t->instance->layer_count + 1);
    *p = (partition){.intervals = t};
    p->begin = calloc(cells, sizeof *p->begin);
    p->end = calloc(cells, sizeof *p->end);
    p->rest_slowest_ps = calloc(cells, sizeof *p->rest_slowest_ps);
    p->rest_sum_ps = calloc(cells, sizeof *p->rest_sum_ps);
    if (p->begin == NULL || p->end == NULL || p->rest_slowest_ps == NULL || p->rest_sum_ps == NULL) {
        free_partition(p);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    return GAL_OK;
}

static size_t cell_of(const partition *p, uint32_t stage, uint32_t layer)
{
    return (size_t)stage * (p->intervals->instance->layer_count + 1) + layer;
}

/* The last layer + 1 that a stage may hold: one is left for each stage behind it. */
static uint32_t last_end(const gal_instance *g, uint32_t stage)
{
    return g->layer_count - (g->stage_count - 1 - stage);
}

static void sum_rest(partition *p)
{
    const gal_instance *g = p->intervals->instance;
    for (uint32_t l = 0; l <= g->layer_count; l++) {
        const size_t cell = cell_of(p, g->stage_count, l);
        p->rest_slowest_ps[cell] = p->rest_sum_ps[cell] = l == g->layer_count ? 0 : GAL_NEVER;
    }
    for (uint32_t i = g->stage_count; i-- > 0;) {
        for (uint32_t first = i; first < last_end(g, i); first++) {
            int64_t slowest = GAL_NEVER;
            int64_t sum = GAL_NEVER;
            for (uint32_t end = first + 1; end <= last_end(g, i); end++) {
                const int64_t here = gal_interval_at(p->intervals, i, first, end)->bound_ps;
                const size_t rest = cell_of(p, i + 1, end);
                if (here == GAL_NEVER || p->rest_sum_ps[rest] == GAL_NEVER) {
                    continue;
                }
                const int64_t worst = here > p->rest_slowest_ps[rest] ? here : p->rest_slowest_ps[rest];
                slowest = worst < slowest ? worst : slowest;
                sum = here + p->rest_sum_ps[rest] < sum ? here + p->rest_sum_ps[rest] : sum;
            }
            p->rest_slowest_ps[cell_of(p, i, first)] = slowest;
            p->rest_sum_ps[cell_of(p, i, first)] = sum;
        }
    }
}

static int order_splits(const void *a, const void *b)
{
    const split *x = a;
    const split *y = b;
    if (x->slowest_ps != y->slowest_ps) {
        return x->slowest_ps < y->slowest_ps ? -1 : 1;
    }
    if (x->sum_ps != y->sum_ps) {
        return x->sum_ps < y->sum_ps ? -1 : 1;
    }
    return x->first == y->first ? 0 : x->first < y->first ? -1 : 1;
}

static bool push(partition *p, split s)
{
    if (p->count == p->capacity) {
        const size_t capacity = p->capacity == 0 ? 1024 : p->capacity * 2;
        split *larger = realloc(p->pool, capacity * sizeof *larger);
        if (larger == NULL) {
            return false;
        }
        p->pool = larger;
        p->capacity = capacity;
    }
    p->pool[p->count++] = s;
    return true;
}

static int64_t total_ps(const gal_instance *g, int64_t slowest_ps, int64_t sum_ps)
{
    return (int64_t)(g->microbatch_count - 1) * slowest_ps + sum_ps;
}

/* All splits whose stage i ends at `end`, of those the ones that none beats in both times. False without memory. */
static bool reach(partition *p, uint32_t i, uint32_t end, int64_t below_ps)
{
    const gal_instance *g = p->intervals->instance;
    const size_t begin = p->count;
    const size_t rest = cell_of(p, i + 1, end);
    for (uint32_t first = i; p->rest_sum_ps[rest] != GAL_NEVER && first < (i == 0 ? 1 : end); first++) {
        const int64_t here = gal_interval_at(p->intervals, i, first, end)->bound_ps;
        const size_t from = i == 0 ? 0 : cell_of(p, i - 1, first);
        const size_t h_begin = i == 0 ? 0 : p->begin[from];
        const size_t h_end = i == 0 ? 1 : p->end[from];
        for (size_t h = h_begin; here != GAL_NEVER && h < h_end; h++) {
            split next = {.parent = (uint32_t)h, .first = first};
            next.slowest_ps = i == 0 ? 0 : p->pool[h].slowest_ps;
            next.slowest_ps = here > next.slowest_ps && g->microbatch_count > 1 ? here : next.slowest_ps;
            next.sum_ps = here + (i == 0 ? 0 : p->pool[h].sum_ps);
            const int64_t worst =
                next.slowest_ps > p->rest_slowest_ps[rest] ? next.slowest_ps : p->rest_slowest_ps[rest];
            if (total_ps(g, worst, next.sum_ps + p->rest_sum_ps[rest]) < below_ps && !push(p, next)) {
                return false;
            }
        }
    }
    size_t kept = begin;
    if (p->count > begin) {
        qsort(p->pool + begin, p->count - begin, sizeof *p->pool, order_splits);
    }
    for (size_t h = begin; h < p->count; h++) {
        if (kept == begin || p->pool[h].sum_ps < p->pool[kept - 1].sum_ps) {
            p->pool[kept++] = p->pool[h];
        }
    }
    p->count = kept;
    p->begin[cell_of(p, i, end)] = begin;
    p->end[cell_of(p, i, end)] = kept;
    return true;
}

/* The best partition that takes less than below_ps by the bounds: its stages' first layers and its time, GAL_NEVER if
 * there is none. */
static gal_code best_partition(partition *p, int64_t below_ps, uint32_t *stage_first, int64_t *best_ps, gal_error *err)
{
    const gal_instance *g = p->intervals->instance;
    p->count = 0;
    sum_rest(p);
    for (uint32_t i = 0; i < g->stage_count; i++) {
        for (uint32_t end = i + 1; end <= last_end(g, i); end++) {
            if (!reach(p, i, end, below_ps)) {
                return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
            }
        }
    }
    const size_t cell = cell_of(p, g->stage_count - 1, g->layer_count);
    size_t best = p->begin[cell];
    *best_ps = GAL_NEVER;
    for (size_t h = p->begin[cell]; h < p->end[cell]; h++) {
        const int64_t time = total_ps(g, p->pool[h].slowest_ps, p->pool[h].sum_ps);
        if (time < *best_ps) {
            *best_ps = time;
            best = h;
        }
    }
    for (uint32_t i = g->stage_count; *best_ps != GAL_NEVER && i-- > 0;) {
        stage_first[i] = p->pool[best].first;
        best = p->pool[best].parent;
    }
    return GAL_OK;
}

/* ---- rounds ---- */

/* Solves the stages; *moved if one was not solved before. The assignment, where every stage has one, may become the
 * best. */
static gal_code solve_stages(gal_intervals *t, uint64_t label_limit, gal_assignment *trial, gal_assignment *best,
                             bool *moved, gal_error *err)
{
    const gal_instance *g = t->instance;
    gal_code code = GAL_OK;
    bool is_whole = true;
    *moved = false;
    for (uint32_t i = 0; i < g->stage_count; i++) {
        const uint32_t first = trial->stage_first[i];
        const uint32_t end = trial->stage_first[i + 1];
        const gal_interval *at = gal_interval_at(t, i, first, end);
        *moved = *moved || at->solved == 0;
        GAL_TRY(gal_interval_solve(t, i, first, end, label_limit, err));
        const gal_interval_answer *answer = &t->answer[at->solved - 1];
        is_whole = is_whole && answer->seconds_ps != GAL_NEVER;
        for (uint32_t l = first; is_whole && l < end; l++) {
            trial->strategy[l] = answer->strategy[l - first];
        }
    }
    if (is_whole) {
        gal_assignment_price(g, trial);
        GAL_ASSERT(trial->value_ps != GAL_NEVER);
        if (trial->value_ps < best->value_ps) {
            gal_assignment_copy(g, best, trial);
        }
    }
cleanup:
    return code;
}

static gal_code run_rounds(gal_intervals *t, uint64_t label_limit, gal_solution *out, gal_error *err)
{
    gal_code code = GAL_OK;
    partition p = {0};
    gal_assignment trial = {0};
    bool moved = true;
    int64_t time = 0;
    GAL_TRY(create_partition(t, &p, err));
    GAL_TRY(gal_assignment_create(t->instance, &trial, err));
    while (moved) {
        GAL_TRY(best_partition(&p, out->best.value_ps, trial.stage_first, &time, err));
        if (time == GAL_NEVER) {
            out->bound_ps = out->best.value_ps;
            break;
        }
        out->bound_ps = time > out->bound_ps ? time : out->bound_ps;
        GAL_TRY(solve_stages(t, label_limit, &trial, &out->best, &moved, err));
    }
    out->effort_count = t->label_count;
cleanup:
    gal_assignment_free(&trial);
    free_partition(&p);
    return code;
}

static gal_code solve_one_stage(const gal_instance *g, uint64_t label_limit, gal_solution *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_menu *choices = NULL;
    gal_stage_answer answer;
    GAL_TRY(gal_menu_create(g, 0, &choices, err));
    const gal_stage stage = {choices, 0, g->layer_count};
    GAL_TRY(gal_stage_solve(&stage, label_limit, out->best.strategy, &answer, err));
    out->bound_ps = answer.bound_ps == GAL_NEVER ? GAL_NEVER : (int64_t)g->microbatch_count * answer.bound_ps;
    out->effort_count = answer.label_count;
    if (answer.seconds_ps != GAL_NEVER) {
        gal_assignment_price(g, &out->best);
        GAL_ASSERT(out->best.value_ps != GAL_NEVER);
    }
cleanup:
    gal_menu_free(choices);
    return code;
}

gal_code gal_solve_exact(const gal_instance *g, const gal_solver_limits *limits, gal_solution *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_intervals *t = NULL;
    if (g->stage_count == 1) {
        return solve_one_stage(g, limits->label_limit, out, err);
    }
    GAL_TRY(gal_intervals_create(g, &t, err));
    GAL_TRY(gal_intervals_bound(t, err));
    GAL_TRY(run_rounds(t, limits->label_limit, out, err));
cleanup:
    gal_intervals_free(t);
    return code;
}

gal_code gal_solve_bound(const gal_instance *g, int64_t *bound_ps, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_intervals *t = NULL;
    partition p = {0};
    uint32_t *stage_first = calloc((size_t)g->stage_count + 1, sizeof *stage_first);
    if (stage_first == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    if (g->stage_count == 1) {
        gal_menu *choices = NULL;
        gal_stage_bound bound;
        GAL_TRY(gal_menu_create(g, 0, &choices, err));
        const gal_stage stage = {choices, 0, g->layer_count};
        code = gal_stage_bound_create(&stage, &bound, err);
        if (code == GAL_OK) {
            *bound_ps = bound.bound_ps == GAL_NEVER ? GAL_NEVER : (int64_t)g->microbatch_count * bound.bound_ps;
            gal_stage_bound_free(&bound);
        }
        gal_menu_free(choices);
        goto cleanup;
    }
    GAL_TRY(gal_intervals_create(g, &t, err));
    GAL_TRY(gal_intervals_bound(t, err));
    GAL_TRY(create_partition(t, &p, err));
    GAL_TRY(best_partition(&p, GAL_NEVER, stage_first, bound_ps, err));
cleanup:
    free(stage_first);
    free_partition(&p);
    gal_intervals_free(t);
    return code;
}
