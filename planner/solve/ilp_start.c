#include "planner/solve/ilp_start.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/solve/ilp_glpk.h"
#include "schemas/base/clock.h"

enum {
    ROUNDS_MAX = 300,  /* of the master program */
    DEARER_STEPS = 24, /* prices of bytes raised for paths that fit */
    PASSES_MAX = 20    /* of changes one by one */
};
#define DEARER 1.06         /* a step */
#define CLOSED 1e-9         /* of the bound: no path is left that would lower the master program */
#define ARTIFICIAL 1e6      /* price of a whole budget's excess; values are some 1000 */
#define WORTH_A_CHANGE 1.05 /* of the best value: paths that are slower are not improved */

typedef struct start {
    gal_relaxed *relaxed;
    const gal_instance *instance;
    gal_lp master;
    double *price;                    /* (row) */
    double *best_price;               /* (2, stage): of seconds and bytes, under which the bound is bound_ps */
    int64_t *kept_bytes, *seconds_ps; /* (stage): of the path */
    uint32_t *kept_strategy;          /* (layer) */
    gal_assignment path, *best;
    double second_scale_ps, bound_ps, deadline;
} start;

/* ---- paths that fit ---- */

/* Gives layers [first, end) of one stage the one strategy that lowers the value most, if one does. */
static bool change_layers(start *s, uint32_t stage, uint32_t first, uint32_t end)
{
    const gal_instance *g = s->instance;
    const gal_menu *menu = s->relaxed->menu[stage];
    const uint32_t *menu_start = gal_relaxed_start(s->relaxed, first, stage, first == s->path.stage_first[stage]);
    const int64_t before = s->path.value_ps;
    int64_t least = before;
    uint32_t *strategy = s->path.strategy;
    uint32_t best = 0;
    memcpy(s->kept_strategy, strategy, g->layer_count * sizeof *strategy);
    for (uint32_t c = menu_start[0]; c < menu_start[g->class_count]; c++) {
        for (uint32_t l = first; l < end; l++) {
            strategy[l] = menu->choice[c].strategy;
        }
        gal_assignment_price(g, &s->path);
        if (s->path.value_ps < least) {
            least = s->path.value_ps;
            best = menu->choice[c].strategy;
        }
    }
    for (uint32_t l = first; l < end; l++) {
        strategy[l] = least < before ? best : s->kept_strategy[l];
    }
    s->path.value_ps = least;
    return least < before;
}

/* Of lengths that grow by a quarter. */
static bool change_ranges(start *s, uint32_t stage)
{
    const uint32_t end = s->path.stage_first[stage + 1];
    bool gains = false;
    for (uint32_t l = s->path.stage_first[stage]; l < end && gal_now_seconds() < s->deadline; l++) {
        for (uint32_t length = 1; length <= end - l; length += 1 + length / 4) {
            gains = change_layers(s, stage, l, l + length) || gains;
        }
    }
    return gains;
}

/* Moves the first layer of a stage by one, if that lowers the value; the layer that moves takes a neighbour's strategy.
 */
static bool move_border(start *s, uint32_t stage, bool earlier)
{
    const int64_t before = s->path.value_ps;
    uint32_t *first = s->path.stage_first;
    const uint32_t was = first[stage];
    const uint32_t moved = earlier ? was - 1 : was;
    const uint32_t strategy = s->path.strategy[moved];
    if (earlier ? first[stage - 1] + 1 == was : was + 1 == first[stage + 1]) {
        return false;
    }
    first[stage] = earlier ? was - 1 : was + 1;
    gal_assignment_price(s->instance, &s->path);
    if (s->path.value_ps < before) {
        return true;
    }
    s->path.strategy[moved] = s->path.strategy[earlier ? was : was - 1];
    gal_assignment_price(s->instance, &s->path);
    if (s->path.value_ps < before) {
        return true;
    }
    first[stage] = was;
    s->path.strategy[moved] = strategy;
    s->path.value_ps = before;
    return false;
}

/* Takes the path, and what changes one by one make of it. */
static void offer(start *s)
{
    const gal_instance *g = s->instance;
    gal_assignment_price(g, &s->path);
    if (s->path.value_ps == GAL_NEVER) {
        return;
    }
    bool gains =
        s->best->value_ps == GAL_NEVER || (double)s->path.value_ps < (double)s->best->value_ps * WORTH_A_CHANGE;
    for (uint32_t pass = 0; gains && pass < PASSES_MAX && gal_now_seconds() < s->deadline; pass++) {
        gains = false;
        for (uint32_t i = 1; i < g->stage_count; i++) {
            gains = move_border(s, i, true) || gains;
            gains = move_border(s, i, false) || gains;
        }
        for (uint32_t i = 0; i < g->stage_count; i++) {
            gains = change_ranges(s, i) || gains;
        }
    }
    if (s->path.value_ps < s->best->value_ps) {
        gal_assignment_copy(g, s->best, &s->path);
    }
}

/* ---- the master program ---- */

/* Rows: 1 the mix; then of each stage its seconds - M <= 0 and its kept bytes <= budget. */
static int row_seconds(uint32_t stage)
{
    return 2 + 2 * (int)stage;
}

static void begin_master(start *s)
{
    const gal_instance *g = s->instance;
    (void)gal_lp_add_row(&s->master, 1.0, 1.0);
    for (uint32_t i = 0; i < g->stage_count; i++) {
        (void)gal_lp_add_row(&s->master, -INFINITY, 0.0);
        (void)gal_lp_add_row(&s->master, -INFINITY, 1.0);
    }
    (void)gal_lp_add_column(&s->master, GAL_LP_ANY, (double)(g->microbatch_count - 1), INFINITY);
    for (uint32_t i = 0; i < g->stage_count; i++) {
        gal_lp_put(&s->master, row_seconds(i), -1.0);
    }
    for (uint32_t i = 0; i < g->stage_count; i++) {
        (void)gal_lp_add_column(&s->master, GAL_LP_ANY, ARTIFICIAL, INFINITY);
        gal_lp_put(&s->master, row_seconds(i) + 1, -1.0);
    }
}

/* Of the path. */
static void add_path(start *s)
{
    const gal_instance *g = s->instance;
    int64_t sum_ps = 0;
    for (uint32_t i = 0; i < g->stage_count; i++) {
        const gal_stage_cost cost =
            gal_instance_stage_cost(g, i, s->path.stage_first[i], s->path.stage_first[i + 1], s->path.strategy);
        s->seconds_ps[i] = cost.seconds_ps;
        sum_ps += cost.seconds_ps;
    }
    (void)gal_lp_add_column(&s->master, GAL_LP_ANY, (double)sum_ps / s->second_scale_ps, INFINITY);
    gal_lp_put(&s->master, 1, 1.0);
    for (uint32_t i = 0; i < g->stage_count; i++) {
        gal_lp_put(&s->master, row_seconds(i), (double)s->seconds_ps[i] / s->second_scale_ps);
        gal_lp_put(&s->master, row_seconds(i) + 1, (double)s->kept_bytes[i] / (double)g->budget_bytes);
    }
}

/* The tables under the prices, and a path. */
static void take_path(start *s)
{
    gal_relaxed *r = s->relaxed;
    const uint32_t stages = s->instance->stage_count;
    gal_relaxed_price(r);
    if (r->length_ps > s->bound_ps) {
        s->bound_ps = r->length_ps;
        memcpy(s->best_price, r->weight, stages * sizeof *s->best_price);
        memcpy(s->best_price + stages, r->byte_price, stages * sizeof *s->best_price);
    }
    gal_relaxed_path(r, &s->path, s->kept_bytes);
}

/* The prices of the master program's rows. A rounding below 0 is 0; those of seconds add up to m - 1 at most. */
static void take_prices(start *s)
{
    const gal_instance *g = s->instance;
    const double most = (double)(g->microbatch_count - 1);
    double sum = 0.0;
    for (uint32_t i = 0; i < g->stage_count; i++) {
        const double of_seconds = fmax(0.0, -s->price[row_seconds(i)]);
        const double of_bytes = fmax(0.0, -s->price[row_seconds(i) + 1]);
        sum += of_seconds;
        s->relaxed->weight[i] = 1.0 + of_seconds;
        s->relaxed->byte_price[i] = of_bytes * s->second_scale_ps / (double)g->budget_bytes;
    }
    for (uint32_t i = 0; i < g->stage_count; i++) {
        s->relaxed->weight[i] = 1.0 + (sum > most ? most / sum : 1.0) * (s->relaxed->weight[i] - 1.0);
    }
}

static gal_code raise_bound(start *s, gal_error *err)
{
    const gal_instance *g = s->instance;
    gal_code code = GAL_OK;
    for (uint32_t i = 0; i < g->stage_count; i++) {
        s->relaxed->weight[i] = 1.0 + (double)(g->microbatch_count - 1) / g->stage_count;
    }
    for (uint32_t round = 0; round < ROUNDS_MAX && gal_now_seconds() < s->deadline; round++) {
        gal_lp_end end;
        double objective;
        take_path(s);
        add_path(s);
        offer(s);
        GAL_TRY(gal_lp_relax(&s->master, s->deadline - gal_now_seconds(), &end, &objective, NULL, s->price, err));
        if (end != GAL_LP_OPTIMUM || objective * s->second_scale_ps - s->bound_ps <= CLOSED * s->bound_ps) {
            break;
        }
        take_prices(s);
    }
cleanup:
    return code;
}

/* Paths under dearer bytes, which need fewer. */
static void try_dearer(start *s)
{
    const gal_instance *g = s->instance;
    double mean = 0.0;
    for (uint32_t i = 0; i < g->stage_count; i++) {
        mean += s->relaxed->byte_price[i] / g->stage_count;
    }
    for (uint32_t step = 0; step < DEARER_STEPS && gal_now_seconds() < s->deadline; step++) {
        for (uint32_t i = 0; i < g->stage_count; i++) {
            s->relaxed->byte_price[i] = s->relaxed->byte_price[i] * DEARER + mean * (DEARER - 1.0);
        }
        take_path(s);
        offer(s);
    }
}

/* Under the prices of the best bound. */
static void leave_out(start *s)
{
    const uint32_t stages = s->instance->stage_count;
    if (s->best->value_ps != GAL_NEVER && s->bound_ps > 0.0) {
        memcpy(s->relaxed->weight, s->best_price, stages * sizeof *s->best_price);
        memcpy(s->relaxed->byte_price, s->best_price + stages, stages * sizeof *s->best_price);
        gal_relaxed_price(s->relaxed);
        gal_relaxed_leave_out(s->relaxed, s->best->value_ps);
    }
}

static gal_code create(start *s, const gal_instance *g, gal_error *err)
{
    double sum = 1.0;
    for (uint32_t l = 0; l < g->layer_count; l++) {
        sum += (double)g->seconds_ps[(size_t)g->kind[l] * g->strategy_count];
    }
    s->second_scale_ps = sum * (double)g->microbatch_count / 1000.0;
    s->price = calloc(2 * (size_t)g->stage_count + 2, sizeof *s->price);
    s->best_price = calloc(2 * (size_t)g->stage_count, sizeof *s->best_price);
    s->kept_bytes = calloc(g->stage_count, sizeof *s->kept_bytes);
    s->seconds_ps = calloc(g->stage_count, sizeof *s->seconds_ps);
    s->kept_strategy = calloc(g->layer_count, sizeof *s->kept_strategy);
    if (s->kept_strategy == NULL || s->price == NULL || s->best_price == NULL || s->kept_bytes == NULL ||
        s->seconds_ps == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    begin_master(s);
    return gal_assignment_create(g, &s->path, err);
}

/* Above what seconds can be the prices of excess bytes alone are: nothing fits. */
static void raise(int64_t *bound_ps, double proven_ps)
{
    const int64_t proven = proven_ps < (double)GAL_NEVER ? (int64_t)proven_ps : GAL_NEVER;
    *bound_ps = proven > *bound_ps ? proven : *bound_ps;
}

gal_code gal_ilp_start(gal_relaxed *relaxed, double seconds_left, gal_assignment *best, int64_t *bound_ps,
                       gal_error *err)
{
    gal_code code = GAL_OK;
    start s = {
        .relaxed = relaxed, .instance = relaxed->instance, .best = best, .deadline = gal_now_seconds() + seconds_left};
    GAL_TRY(create(&s, relaxed->instance, err));
    GAL_TRY(raise_bound(&s, err));
    try_dearer(&s);
    leave_out(&s);
    raise(bound_ps, s.bound_ps * (1.0 - CLOSED));
cleanup:
    gal_lp_free(&s.master);
    gal_assignment_free(&s.path);
    free(s.price);
    free(s.best_price);
    free(s.kept_bytes);
    free(s.seconds_ps);
    free(s.kept_strategy);
    return code;
}
