/* The cell search against brute force over every path. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "planner/bound/bottleneck.h"
#include "planner/search/joint_search.h"
#include "planner/stages/cell_solve.h"
#include "planner/stages/staged.h"
#include "tests/support/every_path.h"
#include "tests/support/random_cell.h"
#include "tests/support/random_plan.h"

enum { SEEDS = 400, LABELS = 1000000 };

/* ---- comparisons ---- */

static int ascending(const void *x, const void *y)
{
    const uint64_t a = *(const uint64_t *)x;
    const uint64_t b = *(const uint64_t *)y;
    return a < b ? -1 : a > b;
}

/* Limits from below the smallest path to above the largest, at borders, among the tightest and at random. */
static uint32_t draw_limits(uint64_t *state, const gal_every_path *all, uint64_t limits[8])
{
    uint64_t *sorted = malloc(all->path_count * sizeof *sorted);
    assert_non_null(sorted);
    memcpy(sorted, all->most_bytes, all->path_count * sizeof *sorted);
    qsort(sorted, all->path_count, sizeof *sorted, ascending);
    limits[0] = sorted[0] - 1;
    limits[1] = sorted[0];
    limits[2] = sorted[all->path_count - 1];
    for (uint32_t i = 3; i < 8; i++) {
        const uint32_t from = (uint32_t)all->path_count / (i < 6 ? 20 : 1) + 1;
        limits[i] = sorted[gal_random_below(state, from < all->path_count ? from : (uint32_t)all->path_count)] -
                    gal_random_below(state, 2);
    }
    free(sorted);
    return 8;
}

/* Few labels: boxes are split. */
static void compare(const gal_random_cell *t, const gal_every_path *all, uint64_t limit_bytes, uint32_t few_labels)
{
    uint32_t stage[GAL_EVERY_PATH_BLOCKS_MAX] = {0}, strategy[GAL_EVERY_PATH_BLOCKS_MAX] = {0};
    const gal_solve_settings settings = {.label_limit = LABELS, .few_labels = few_labels, .give_up_seconds = HUGE_VAL};
    gal_cell_answer answer = {.stage = stage, .strategy = strategy};
    gal_error err = {0};
    uint64_t bytes = 0;
    const double best = gal_every_path_best(all, limit_bytes);
    t->cell->spec.arena_limit_bytes = limit_bytes;
    assert_int_equal(gal_cell_solve(t->cell, &settings, &answer, &err), GAL_OK);
    if (best == HUGE_VAL) {
        assert_true(answer.seconds == HUGE_VAL);
        assert_true(answer.bound == HUGE_VAL);
        return;
    }
    if (!(fabs(answer.seconds - best) <= 1e-12 * fabs(best))) {
        fail_msg("search %.17g, brute force %.17g of %zu paths", answer.seconds, best, all->path_count);
    }
    assert_true(answer.bound == answer.seconds); /* proven */
    const double again = gal_cell_evaluate(t->cell, stage, strategy, &bytes);
    assert_true(fabs(again - best) <= 1e-12 * fabs(best));
    assert_true(bytes <= limit_bytes);
}

/* Labels are dropped for good: what is proven stays true. */
static void compare_limited(const gal_random_cell *t, const gal_every_path *all, uint64_t limit_bytes,
                            uint32_t label_limit)
{
    uint32_t stage[GAL_EVERY_PATH_BLOCKS_MAX] = {0}, strategy[GAL_EVERY_PATH_BLOCKS_MAX] = {0};
    const gal_solve_settings settings = {
        .label_limit = label_limit, .few_labels = label_limit, .give_up_seconds = HUGE_VAL};
    gal_cell_answer answer = {.stage = stage, .strategy = strategy};
    gal_error err = {0};
    const double best = gal_every_path_best(all, limit_bytes);
    t->cell->spec.arena_limit_bytes = limit_bytes;
    assert_int_equal(gal_cell_solve(t->cell, &settings, &answer, &err), GAL_OK);
    assert_true(answer.bound <= best * (1.0 + 1e-12));
    assert_true(answer.seconds >= best * (1.0 - 1e-12));
}

/* The weights of early, rising and late rounds; the strategies that a raise narrows are back in play. */
static gal_dual *create_raised(const gal_random_cell *t, uint32_t rounds, double best)
{
    uint32_t stage[GAL_EVERY_PATH_BLOCKS_MAX] = {0}, strategy[GAL_EVERY_PATH_BLOCKS_MAX] = {0};
    gal_best_path known = {HUGE_VAL, stage, strategy};
    gal_error err = {0};
    gal_dual *raised = NULL;
    gal_dual *dual = NULL;
    assert_int_equal(gal_dual_create(t->cell, &raised, &err), GAL_OK);
    assert_int_equal(gal_dual_create(t->cell, &dual, &err), GAL_OK);
    gal_dual_raise(raised, rounds, &known);
    assert_true(known.seconds >= best * (1.0 - 1e-12));
    assert_true(best == HUGE_VAL || fmin(raised->bound, known.seconds) <= best * (1.0 + 1e-12));
    dual->weights = raised->weights;
    gal_dual_weigh(dual);
    gal_dual_solve(dual);
    assert_true(best == HUGE_VAL || dual->bound <= best * (1.0 + 1e-12));
    assert_true(best == HUGE_VAL || best <= dual->most_seconds);
    gal_dual_free(raised);
    return dual;
}

/* Borders of whole blocks: no path that fits has a faster slowest stage. */
static void compare_bottleneck(const gal_dual *dual, const gal_every_path *all, uint64_t limit_bytes)
{
    gal_error err = {0};
    gal_bottleneck *bottleneck = NULL;
    double slowest = HUGE_VAL;
    for (size_t i = 0; i < all->path_count; i++) {
        slowest = all->most_bytes[i] <= limit_bytes ? fmin(slowest, all->slowest[i]) : slowest;
    }
    assert_int_equal(gal_bottleneck_create(dual, &bottleneck, &err), GAL_OK);
    assert_true(slowest == HUGE_VAL || bottleneck->at_all <= slowest * (1.0 + 1e-12));
    gal_bottleneck_free(bottleneck);
}

static void compare_dual(const gal_random_cell *t, const gal_every_path *all, uint64_t limit_bytes, bool keep_dominated)
{
    uint32_t stage[GAL_EVERY_PATH_BLOCKS_MAX] = {0}, strategy[GAL_EVERY_PATH_BLOCKS_MAX] = {0};
    gal_error err = {0};
    gal_label_result result;
    const gal_label_settings settings = {
        .reach_seconds = HUGE_VAL, .label_limit = LABELS, .work_limit = UINT64_MAX, .keep_dominated = keep_dominated};
    const double best = gal_every_path_best(all, limit_bytes);
    t->cell->spec.arena_limit_bytes = limit_bytes;
    for (uint32_t round = 0; round < 3; round++) {
        gal_dual *dual = create_raised(t, 1 + 20 * round, best);
        gal_best_path found = {HUGE_VAL, stage, strategy};
        if (t->cell->spec.pp_degree > 1 && t->cell->types.alternates) {
            compare_bottleneck(dual, all, limit_bytes);
        }
        if (!t->cell->types.table_shared) {
            assert_int_equal(gal_label_search(dual, &settings, &found, &result, &err), GAL_OK);
            assert_true(found.seconds == best || fabs(found.seconds - best) <= 1e-12 * fabs(best));
        }
        gal_dual_free(dual);
    }
}

static void each_trial(void (*check)(const gal_random_cell *, const gal_every_path *, uint64_t limit_bytes,
                                     uint64_t *state))
{
    uint32_t tried = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        gal_random_cell t;
        if (gal_random_cell_create(seed, &t)) {
            gal_every_path all;
            uint64_t state = seed ^ UINT64_C(0xABCDEF);
            uint64_t limits[8];
            gal_every_path_list(t.cell, &all);
            const uint32_t count = all.path_count == 0 ? 0 : draw_limits(&state, &all, limits);
            for (uint32_t i = 0; i < count; i++) {
                check(&t, &all, limits[i], &state);
            }
            tried += count;
            gal_every_path_free(&all);
        }
        gal_random_cell_free(&t);
    }
    print_message("%u searches\n", tried);
    assert_true(tried >= SEEDS);
}

static void check_search(const gal_random_cell *t, const gal_every_path *all, uint64_t limit_bytes, uint64_t *state)
{
    (void)state;
    compare(t, all, limit_bytes, GAL_FEW_LABELS);
}

static void check_boxes(const gal_random_cell *t, const gal_every_path *all, uint64_t limit_bytes, uint64_t *state)
{
    (void)state;
    compare(t, all, limit_bytes, 20);
}

static void check_limited(const gal_random_cell *t, const gal_every_path *all, uint64_t limit_bytes, uint64_t *state)
{
    compare_limited(t, all, limit_bytes, 1 + gal_random_below(state, 3));
}

static void check_bounds(const gal_random_cell *t, const gal_every_path *all, uint64_t limit_bytes, uint64_t *state)
{
    compare_dual(t, all, limit_bytes, all->path_count < 5000 && gal_random_below(state, 2) == 0);
}

/* ---- bounds of whole stages ---- */

/* Of the trials: neighbours hide something; tables are tied on one stage of several nodes; there ties raise the bound
 */
static uint32_t hiding, tied_one_stage, raised_by_ties;

/* again: of a second look, where the first one has found a path. */
static double staged_bound(const gal_screened *screened, gal_staged_effort effort, double *again)
{
    uint32_t stage[GAL_EVERY_PATH_BLOCKS_MAX] = {0}, strategy[GAL_EVERY_PATH_BLOCKS_MAX] = {0};
    double weights[2 * GAL_EVERY_PATH_BLOCKS_MAX] = {0.0};
    gal_staged staged = {.stage = stage, .strategy = strategy, .weights = weights};
    gal_error err = {0};
    assert_int_equal(gal_staged_solve(screened, HUGE_VAL, 0.0, effort, &staged, &err), GAL_OK);
    const double bound = *again = staged.bound;
    if (staged.seconds < HUGE_VAL) {
        assert_int_equal(gal_staged_solve(screened, HUGE_VAL, 0.0, GAL_STAGED_AGAIN, &staged, &err), GAL_OK);
        *again = staged.bound;
    }
    return bound;
}

static void check_bound(double bound, double best, const gal_every_path *all)
{
    if (!(bound <= best * (1.0 + 1e-12))) {
        fail_msg("bound %.17g, brute force %.17g of %zu paths", bound, best, all->path_count);
    }
}

/* Whether neighbours hide something of a block (costmodel/price.h). */
static bool hides(const gal_screened *screened)
{
    bool any = false;
    for (size_t i = 0; i < (size_t)screened->types->type_count * screened->strategy_count; i++) {
        const gal_screened_item *item = &screened->item[i];
        any = any || (screened->legal[i] && item->hidden_before.forward_seconds + item->hidden_before.backward_seconds +
                                                    item->hidden_behind.forward_seconds +
                                                    item->hidden_behind.backward_seconds >
                                                0.0);
    }
    return any;
}

/* By the cell's own prices, which are the cache's: no path that fits takes less, the token table tied or not. */
static void check_staged(const gal_random_cell *t, const gal_every_path *all, uint64_t limit_bytes, uint64_t *state)
{
    gal_screened_prices *prices = NULL;
    gal_screened screened = {0};
    gal_error err = {0};
    (void)state;
    if (t->price != NULL) {
        return;
    }
    const double best = gal_every_path_best(all, limit_bytes);
    gal_cell_spec spec = t->cell->spec;
    spec.arena_limit_bytes = limit_bytes;
    assert_int_equal(gal_screened_create(&spec, &t->cell->types, GAL_ALL_ORDERS, NULL, &prices, &screened, &err),
                     GAL_OK);
    if (screened.bound < HUGE_VAL) {
        double again, tied_again;
        const double quick = staged_bound(&screened, GAL_STAGED_QUICK, &again);
        const double tied = staged_bound(&screened, GAL_STAGED_TIED, &tied_again);
        const bool counts = t->cell->types.table_shared && spec.pp_degree == 1 && t->cluster.level_count > 1;
        tied_one_stage += counts;
        hiding += hides(&screened);
        raised_by_ties += counts && tied > quick * (1.0 + 1e-9);
        assert_true(quick <= tied && tied <= again * (1.0 + 1e-9));
        check_bound(tied, best, all);
        check_bound(again, best, all);
        check_bound(tied_again, best, all);
    } else {
        assert_true(best == HUGE_VAL);
    }
    gal_screened_free(&screened);
    gal_screened_prices_free(prices);
}

static void test_stages_bound_truly(void **state)
{
    (void)state;
    each_trial(check_staged);
    print_message("tied tables on one stage of several nodes: %u, ties raise the bound of %u\n", tied_one_stage,
                  raised_by_ties);
    print_message("cells in which neighbours hide something: %u\n", hiding);
    assert_true(hiding >= 20);
    assert_true(tied_one_stage >= 20);
    assert_true(raised_by_ties >= 5);
}

static void test_search_equals_brute_force(void **state)
{
    (void)state;
    each_trial(check_search);
}

static void test_split_boxes_equal_brute_force(void **state)
{
    (void)state;
    each_trial(check_boxes);
}

static void test_few_labels_bound_truly(void **state)
{
    (void)state;
    each_trial(check_limited);
}

static void test_bounds_hold_with_and_without_dominance(void **state)
{
    (void)state;
    each_trial(check_bounds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_search_equals_brute_force),
        cmocka_unit_test(test_stages_bound_truly),
        cmocka_unit_test(test_split_boxes_equal_brute_force),
        cmocka_unit_test(test_few_labels_bound_truly),
        cmocka_unit_test(test_bounds_hold_with_and_without_dominance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
