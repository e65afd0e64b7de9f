/* What a search rules out, against one that rules nothing out: small models of every family, any axes, memory ample or
 * short. A cell solved among all strategies that the rules of plans allow, bounded by its dual alone
 * (differential/test_search.c: equal to brute force), gives a plan; no bound of the cell may be above it, no strategy
 * of it may be priced out below it, and the whole search has the best of all cells. Counted is what each pruning rules
 * out. Inputs: one for every two of PLANS (50 in make check, 500 in make check-all). timeout_seconds: 1800 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/lone.h"
#include "planner/cell/cell_list.h"
#include "planner/stages/cell_search.h"
#include "planner/stages/staged.h"
#include "schemas/plan_check.h"
#include "tests/support/random_plan.h"
#include "tests/support/random_search.h"

enum { STRATEGIES_MOST = 48, DRAWS = 30, BLOCKS_MOST = 32, CELLS_MOST = 16, LABELS = 5000, KEY_MOST = 1 << 16 };
/* Seeds in an order in which the first 50 have those that found something: 259 a cut that whole stages missed, 26 a
 * head below its kernels. */
enum { SEED_STEP = 181, SEEDS = 500 };
enum { TRIALS_TO_COUNT = 50 }; /* of fewer some pruning may have had nothing to do */

/* Of seconds: sums of rounded prices differ by no more (planner/cell/cell.h). */
static const double rounding = 1e-9;

/* Each with the bound that it rules out by. */
typedef enum pruning {
    FLOORS,     /* planner/bound/screen.h: by compute alone */
    SOME,       /* planner/bound/screened.h: by as few prices as show it */
    PRICES,     /* of all */
    STAGES,     /* planner/stages/staged.h: whole stages, in one class first, exact stages, dominated strategies */
    FIRSTS,     /* without conversions, of first orders of axes: planner/space/orders.h */
    TIES,       /* of the token table */
    TIES_AGAIN, /* after a first look */
    COLUMNS,    /* planner/stages/cell_search.h: strategies priced out */
    LEFT_OUT,   /* planner/bound/screened.h: of those that are left, and of the rest */
    LOOK,       /* for a first plan */
    PRUNING_COUNT
} pruning;

static const char *const pruning_names[PRUNING_COUNT] = {"floors", "some",       "prices",  "stages",   "firsts",
                                                         "ties",   "ties again", "columns", "left out", "look"};

/* A cell, by a search that rules nothing out. */
typedef struct off {
    gal_cell_spec spec;
    double seconds; /* of the best plan; infinity: none was found */
    double bound;
    uint32_t stage[BLOCKS_MOST], strategy[BLOCKS_MOST];
    gal_strategy listed[STRATEGIES_MOST];
} off;

typedef struct trial {
    uint64_t seed;
    gal_random_search search;
    gal_block_types types;
    gal_screens *screens;
    gal_screened_prices *prices;
    uint64_t random;
    off cell[CELLS_MOST];
    uint32_t cell_count;
    double best_per_sample; /* of all cells */
} trial;

static struct {
    uint32_t cells, proven, short_of_memory;
    uint32_t ruled_out[PRUNING_COUNT];    /* cells, each by this alone */
    uint32_t unlikely, hopeless, missing; /* types with strategies that are left out; plans that have one */
} counted;

static uint32_t trial_count(void)
{
    const char *plans = getenv("PLANS");
    return plans == NULL ? 50 : ((uint32_t)strtoul(plans, NULL, 10) + 1) / 2;
}

static uint64_t seed_of(uint32_t index)
{
    return 1 + (uint64_t)index * SEED_STEP % SEEDS + index / SEEDS * (uint64_t)SEEDS;
}

/* ---- a trial ---- */

/* Each axis with a chance of one in three, until there are few enough strategies on all devices to solve with. */
static void draw_space(uint64_t *random, uint32_t devices, gal_space *out)
{
    static const char *const words[] = {"sdp",     "zero1",  "zero2",   "zero3",     "tp",       "sp",   "ulysses",
                                        "ring",    "zigzag", "2d",      "2.5d",      "3d",       "keep", "stepped",
                                        "overlap", "bucket", "offload", "recompute", "selective"};
    gal_error err = {0};
    for (uint32_t i = 0; i < DRAWS; i++) {
        char text[256] = "dp";
        for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
            if (gal_random_below(random, 3) == 0) {
                (void)strcat(strcat(text, ","), words[w]);
            }
        }
        assert_int_equal(gal_space_parse(text, out, &err), GAL_OK);
        if (gal_space_strategies(out, devices, NULL) <= STRATEGIES_MOST) {
            return;
        }
    }
    assert_int_equal(gal_space_parse("dp,tp", out, &err), GAL_OK);
}

static uint32_t device_count(const trial *t)
{
    return gal_durations_cluster(t->search.durations)->device_count;
}

static void create(uint64_t seed, trial *t)
{
    gal_error err = {0};
    memset(t, 0, sizeof *t);
    gal_random_search_create(seed, seed % 2 == 0, &t->search);
    t->seed = seed;
    t->random = seed ^ UINT64_C(0x5DEECE66D);
    gal_search_request *request = &t->search.request;
    draw_space(&t->random, device_count(t), &request->space);
    request->label_limit = LABELS;
    assert_int_equal(gal_price_cache_create(&t->search.model, t->search.durations, &request->cache, &err), GAL_OK);
    assert_int_equal(gal_block_types_create(&t->search.model, t->search.durations, &t->types, &err), GAL_OK);
    assert_true(t->types.block_count <= BLOCKS_MOST);
    assert_int_equal(
        gal_screens_create(&t->search.model, t->search.durations, &t->types, &request->space, &t->screens, &err),
        GAL_OK);
}

static void destroy(trial *t)
{
    gal_screened_prices_free(t->prices);
    gal_screens_free(t->screens);
    gal_block_types_free(&t->types);
    gal_price_cache_free(t->search.request.cache);
    gal_random_search_free(&t->search);
}

/* Every third has all memory that it wants; the others up to two thirds less than that. */
static void draw_memory(trial *t)
{
    gal_search_result ample;
    const uint32_t percent = 34 + gal_random_below(&t->random, 66);
    if (gal_random_below(&t->random, 3) == 0) {
        return;
    }
    gal_random_search_run(&t->search, 0, &ample);
    if (ample.feasible) {
        t->search.request.memory_bytes = ample.finalist[0].peak_bytes / 100 * percent;
        counted.short_of_memory++;
    }
    gal_search_result_free(&ample);
}

/* ---- without prunings ---- */

/* Strategies are numbered as all that the space lists. */
static void solve_off(const trial *t, const gal_cell_spec *spec, off *out)
{
    const gal_solve_settings settings = {
        .label_limit = LABELS, .few_labels = GAL_FEW_LABELS, .give_up_seconds = HUGE_VAL};
    gal_cell_answer answer = {.stage = out->stage, .strategy = out->strategy};
    gal_cell *cell = NULL;
    gal_error err = {0};
    out->spec = *spec;
    out->spec.listed_count = gal_space_strategies(spec->space, spec->device_count / spec->pp_degree, NULL);
    assert_true(out->spec.listed_count <= STRATEGIES_MOST);
    (void)gal_space_strategies(spec->space, spec->device_count / spec->pp_degree, out->listed);
    out->spec.listed = out->listed;
    assert_int_equal(gal_cell_create(&out->spec, &cell, &err), GAL_OK);
    assert_int_equal(gal_cell_solve(cell, &settings, &answer, &err), GAL_OK);
    for (uint32_t i = 0; i < t->types.block_count && answer.seconds < HUGE_VAL; i++) {
        out->strategy[i] = cell->listed[out->strategy[i]];
    }
    out->seconds = answer.seconds;
    out->bound = answer.bound;
    counted.cells++;
    counted.proven += answer.bound == answer.seconds;
    gal_cell_free(cell);
}

static double per_sample(const off *cell)
{
    return cell->seconds / cell->spec.global_batch_samples;
}

static void solve_cells_off(trial *t)
{
    gal_cell_numbers *numbers = NULL;
    gal_error err = {0};
    uint32_t count = 0;
    t->best_per_sample = HUGE_VAL;
    assert_int_equal(gal_search_cells(&t->search.request, &numbers, &count, &err), GAL_OK);
    for (uint32_t i = 0; i < count; i++) {
        const gal_cell_spec spec = gal_search_cell_spec(&t->search.request, &numbers[i], t->search.request.cache);
        if (gal_cell_refused(&spec, &err) == GAL_OK) {
            assert_true(t->cell_count < CELLS_MOST);
            off *cell = &t->cell[t->cell_count++];
            solve_off(t, &spec, cell);
            t->best_per_sample = fmin(t->best_per_sample, per_sample(cell));
        }
    }
    free(numbers);
}

/* ---- with them ---- */

/* A true bound; counted where it rules the cell out. */
static void check_bound(const trial *t, const off *cell, pruning by, double bound)
{
    if (!(bound <= cell->seconds * (1.0 + rounding))) {
        fail_msg("seed %llu, %s: bound %.17g, a plan takes %.17g (pipeline of %u, %u microbatches)",
                 (unsigned long long)t->seed, pruning_names[by], bound, cell->seconds, cell->spec.pp_degree,
                 cell->spec.microbatch_count);
    }
    const double best = cell->spec.global_batch_samples * t->best_per_sample;
    counted.ruled_out[by] += cell->seconds > best * (1.0 + rounding) && bound > best;
}

static void check_before_prices(trial *t, const off *cell, const gal_cell_spec *spec, double enough)
{
    gal_error err = {0};
    double bound = 0.0;
    double least_bytes = 0.0;
    assert_int_equal(gal_screen_floor(t->screens, spec, &bound, &least_bytes, &err), GAL_OK);
    check_bound(t, cell, FLOORS, bound);
    assert_true(cell->seconds == HUGE_VAL || least_bytes <= (double)spec->arena_limit_bytes);
    gal_screened_prices *own = NULL; /* of this bound alone */
    double some = 0.0;
    assert_int_equal(gal_screened_bound_some(spec, &t->types, t->screens, enough, &own, &some, &err), GAL_OK);
    check_bound(t, cell, SOME, some);
    gal_screened_prices_free(own);
}

static void check_alike(const trial *t, const off *cell, const gal_screened *first, double enough)
{
    gal_staged staged = {0};
    gal_error err = {0};
    assert_int_equal(gal_staged_solve(first, enough, 0.0, GAL_STAGED_ALIKE, &staged, &err), GAL_OK);
    check_bound(t, cell, FIRSTS, fmin(staged.bound, enough));
}

static void check_stages(const trial *t, const off *cell, const gal_screened *screened, double enough)
{
    uint32_t stage[BLOCKS_MOST] = {0}, strategy[BLOCKS_MOST] = {0};
    double weights[2 * GAL_STAGES_MAX] = {0};
    gal_staged staged = {.stage = stage, .strategy = strategy, .weights = weights};
    gal_error err = {0};
    assert_int_equal(gal_staged_solve(screened, enough, 0.0, GAL_STAGED_QUICK, &staged, &err), GAL_OK);
    check_bound(t, cell, STAGES, staged.bound);
    assert_true(staged.seconds >= cell->bound * (1.0 - rounding)); /* what no path is faster than */
    if (t->types.table_shared && staged.seconds < HUGE_VAL) {
        gal_staged tied = staged;
        assert_int_equal(gal_staged_solve(screened, enough, 0.0, GAL_STAGED_AGAIN, &tied, &err), GAL_OK);
        check_bound(t, cell, TIES_AGAIN, tied.bound);
        assert_int_equal(gal_staged_solve(screened, enough, 0.0, GAL_STAGED_TIED, &tied, &err), GAL_OK);
        check_bound(t, cell, TIES, tied.bound);
    }
}

/* By as few prices as show it a cell of one stage has at least the bound that all show, or what tails say. */
static void check_few(const trial *t, const off *cell, const gal_screened *first)
{
    gal_screened_prices *own = NULL;
    double some = 0.0;
    gal_error err = {0};
    if (first->spec.pp_degree == 1) {
        assert_int_equal(gal_screened_bound_some(&first->spec, first->types, t->screens, HUGE_VAL, &own, &some, &err),
                         GAL_OK);
        if (!(some >= first->bound * (1.0 - rounding))) {
            fail_msg("seed %llu: bound of few %.17g, of all %.17g", (unsigned long long)t->seed, some, first->bound);
        }
        check_bound(t, cell, SOME, some);
    }
    gal_screened_prices_free(own);
}

static double own_update_seconds(const gal_block_price *price)
{
    double seconds = price->update_seconds;
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
        seconds -= price->shared_update_seconds[shared];
    }
    return seconds;
}

/* Backward, and what it adds to all of a stage's tail. */
static double late_seconds(const gal_block_price *price)
{
    return gal_price_least_backward(price) + gal_price_once(price, 1) + price->lag_seconds - price->table_sync_seconds;
}

/* What is said of an item before it is priced: its bytes, and seconds that any number of rounds takes at least. */
static void check_floor(const gal_block_price *floor, const gal_block_price *price)
{
    assert_memory_equal(floor->memory, price->memory, sizeof *price->memory);
    assert_true(floor->forward_seconds <= gal_price_least_forward(price));
    assert_true(floor->backward_seconds <= gal_price_least_backward(price));
    assert_true(late_seconds(floor) <= late_seconds(price));
    assert_true(own_update_seconds(floor) <= own_update_seconds(price));
}

static void check_floors(const gal_screened *first)
{
    for (size_t i = 0; i < (size_t)first->types->type_count * first->strategy_count; i++) {
        const gal_price_query query = {.type = first->types->shape[i / first->strategy_count].type,
                                       .strategy = &first->strategy[i % first->strategy_count],
                                       .device_count = first->spec.device_count / first->spec.pp_degree,
                                       .stage_count = first->spec.pp_degree,
                                       .microbatch_samples =
                                           first->spec.global_batch_samples / first->spec.microbatch_count,
                                       .prefetch_depth = first->spec.prefetch_depth};
        const gal_block_price *floor = NULL, *price = NULL;
        gal_error err = {0};
        if (first->legal[i]) {
            assert_int_equal(gal_price_block_floor(first->spec.cache, &query, &floor, &err), GAL_OK);
            assert_int_equal(gal_price_block(first->spec.cache, &query, &price, &err), GAL_OK);
            check_floor(floor, price);
        }
    }
}

/* No strategy of the plan is priced out below what it takes. */
static void check_reduced(const trial *t, const off *cell, const gal_screened *screened)
{
    for (uint32_t i = 0; i < t->types.block_count && cell->seconds < HUGE_VAL; i++) {
        const uint32_t type = t->types.type_of[i];
        for (uint32_t s = 0; s < screened->strategy_count; s++) {
            const size_t at = (size_t)type * screened->strategy_count + s;
            if (screened->legal[at] && gal_strategy_equal(&screened->strategy[s], &cell->listed[cell->strategy[i]]) &&
                !(screened->reduced_seconds[at] <= cell->seconds * (1.0 + rounding))) {
                fail_msg("a strategy is priced out at %.17g, a plan with it takes %.17g", screened->reduced_seconds[at],
                         cell->seconds);
            }
        }
    }
}

static void add_count(const gal_left_out *left, const gal_block_types *types, uint32_t *count)
{
    for (size_t i = 0; left->out != NULL && i < (size_t)types->type_count * left->strategy_count; i++) {
        *count += left->out[i];
    }
}

/* The cell's plan has nothing that is left out, or takes no less than is said of that; in all orders of the axes. */
static void check_rest(const trial *t, const off *cell, const gal_screened *screened)
{
    bool has = false;
    for (uint32_t i = 0; i < t->types.block_count && cell->seconds < HUGE_VAL; i++) {
        const gal_strategy *own = &cell->listed[cell->strategy[i]];
        uint32_t s = 0;
        while (!gal_strategy_equal(&screened->strategy[s], own)) {
            s++;
            assert_true(s < screened->strategy_count);
        }
        has = has || !screened->legal[(size_t)t->types.type_of[i] * screened->strategy_count + s];
    }
    counted.missing += has;
    assert_true(!has || screened->rest_seconds <= cell->seconds * (1.0 + rounding));
    check_bound(t, cell, LEFT_OUT, fmin(screened->bound, screened->rest_seconds));
}

/* Where a first plan is looked for, among first orders of what is likely. */
static void check_look(const trial *t, const off *cell, const gal_screened *likely)
{
    uint32_t stage[BLOCKS_MOST] = {0}, strategy[BLOCKS_MOST] = {0};
    double weights[2 * GAL_STAGES_MAX] = {0};
    gal_staged staged = {.stage = stage, .strategy = strategy, .weights = weights};
    gal_error err = {0};
    assert_int_equal(gal_staged_solve(likely, HUGE_VAL, 0.0, GAL_STAGED_QUICK, &staged, &err), GAL_OK);
    check_bound(t, cell, LOOK, fmin(staged.bound, likely->rest_seconds));
    assert_true(staged.seconds >= cell->bound * (1.0 - rounding));
}

static void check_left(const trial *t, const off *cell, const gal_cell_spec *spec, const gal_left_out *left, bool looks,
                       gal_screened_prices **prices)
{
    gal_screened screened = {0};
    gal_error err = {0};
    assert_int_equal(gal_screened_create(spec, &t->types, GAL_FIRST_ORDERS, left, prices, &screened, &err), GAL_OK);
    assert_true(screened.rest_seconds == left->seconds);
    if (looks) {
        check_look(t, cell, &screened);
    }
    gal_screened_free(&screened);
    assert_int_equal(gal_screened_create(spec, &t->types, GAL_ALL_ORDERS, left, prices, &screened, &err), GAL_OK);
    check_rest(t, cell, &screened);
    gal_screened_free(&screened);
}

/* What a cell of one stage does without, as it is unlikely, and then as no plan with it is faster than about what the
 * cell takes. */
static void check_left_out(trial *t, const off *cell, const gal_cell_spec *spec)
{
    gal_screened_prices *own = NULL;
    gal_left_out left = {0};
    double bound = 0.0;
    gal_error err = {0};
    const double enough = cell->seconds * gal_random_between(&t->random, 0.97, 1.01);
    if (spec->pp_degree > 1) {
        return;
    }
    assert_int_equal(gal_screened_bound_some(spec, &t->types, t->screens, HUGE_VAL, &own, &bound, &err), GAL_OK);
    assert_int_equal(gal_screened_leave_unlikely(spec, &t->types, bound, own, &left, &err), GAL_OK);
    add_count(&left, &t->types, &counted.unlikely);
    check_left(t, cell, spec, &left, bound < HUGE_VAL, &own);
    gal_left_out_free(&left);
    assert_int_equal(gal_screened_leave_hopeless(spec, &t->types, t->screens, enough, own, &left, &err), GAL_OK);
    assert_true(left.seconds >= enough);
    add_count(&left, &t->types, &counted.hopeless);
    check_left(t, cell, spec, &left, false, &own);
    gal_left_out_free(&left);
    gal_screened_prices_free(own);
}

/* A plan that is no faster than give_up_seconds is not looked for: the bound is then of faster ones alone. */
static void check_columns(const trial *t, const off *cell, gal_screened *screened, double give_up_seconds)
{
    uint32_t stage[BLOCKS_MOST] = {0}, strategy[BLOCKS_MOST] = {0};
    const gal_solve_settings settings = {
        .label_limit = LABELS, .few_labels = GAL_FEW_LABELS, .give_up_seconds = give_up_seconds};
    gal_cell_answer answer = {.stage = stage, .strategy = strategy};
    gal_error err = {0};
    assert_int_equal(gal_cell_search(screened, &settings, &answer, &err), GAL_OK);
    check_bound(t, cell, COLUMNS, fmin(answer.bound, give_up_seconds));
    assert_true(answer.seconds >= cell->bound * (1.0 - rounding));
    check_reduced(t, cell, screened);
}

/* Bounds that need be no better than `enough`: about what the cell takes, what the search wants, or all there is. */
static void check_cell(trial *t, const off *cell)
{
    gal_screened first = {0}, screened = {0};
    gal_cell_spec spec = cell->spec;
    gal_error err = {0};
    const double wanted = spec.global_batch_samples * t->best_per_sample;
    const uint32_t draw = gal_random_below(&t->random, 3);
    const double enough = draw == 0   ? HUGE_VAL
                          : draw == 1 ? wanted
                                      : cell->seconds * gal_random_between(&t->random, 0.8, 1.2);
    spec.listed = NULL;
    spec.listed_count = 0;
    check_before_prices(t, cell, &spec, enough);
    assert_int_equal(gal_screened_create(&spec, &t->types, GAL_FIRST_ORDERS, NULL, &t->prices, &first, &err), GAL_OK);
    assert_int_equal(gal_screened_create(&spec, &t->types, GAL_ALL_ORDERS, NULL, &t->prices, &screened, &err), GAL_OK);
    assert_true(first.bound <= screened.bound * (1.0 + rounding) && first.bound >= screened.bound * (1.0 - rounding));
    check_few(t, cell, &first);
    check_left_out(t, cell, &spec);
    check_floors(&first);
    check_bound(t, cell, PRICES, screened.bound);
    check_reduced(t, cell, &screened);
    if (screened.bound < HUGE_VAL) {
        check_alike(t, cell, &first, enough);
        check_stages(t, cell, &screened, enough);
        check_columns(t, cell, &screened, HUGE_VAL);
    }
    gal_screened_free(&first);
    gal_screened_free(&screened);
}

/* The whole search: of gap 0 the best of all cells; of a gap no further from it. */
static void check_search(trial *t, double gap)
{
    gal_search_result result;
    t->search.request.gap = gap;
    gal_random_search_run(&t->search, t->search.request.memory_bytes, &result);
    double proven = HUGE_VAL;
    for (uint32_t i = 0; i < t->cell_count; i++) {
        proven = fmin(proven, t->cell[i].bound / t->cell[i].spec.global_batch_samples);
    }
    const double found = gal_random_search_objective(&result);
    assert_true(found >= proven * (1.0 - rounding));
    if (result.feasible) {
        const uint32_t batch = result.finalist[0].global_batch_samples;
        const double bound = result.lower_bound_seconds / batch;
        if (!(bound <= t->best_per_sample * (1.0 + rounding)) ||
            (result.unproven_cell_count == 0 && !(found <= t->best_per_sample * (1.0 + gap) * (1.0 + rounding)))) {
            fail_msg("gap %g: found %.17g, bound %.17g, without prunings %.17g", gap, found, bound, t->best_per_sample);
        }
    } else {
        assert_true(t->best_per_sample == HUGE_VAL);
    }
    gal_search_result_free(&result);
}

/* ---- of equal programs one ---- */

/* Recompute of a block that is neither attention nor FFN, and activations of an end in the host's memory: other
 * programs, but none that a search looks at (planner/cell/cell.h). */
static bool is_of_no_search(const gal_block_shape *shape, const gal_strategy *strategy)
{
    const bool ends = shape->kind == GAL_BLOCK_EMBEDDING || shape->kind == GAL_BLOCK_HEAD;
    const bool may_recompute =
        shape->kind == GAL_BLOCK_ATTENTION || shape->kind == GAL_BLOCK_CROSS_ATTENTION || shape->kind == GAL_BLOCK_FFN;
    return (strategy->recompute != GAL_RECOMPUTE_NONE && !may_recompute) ||
           (ends && strategy->offload_activations_percent > 0);
}

/* The strategy that the space has in place of one that is as another for a block (gal_cell_is_legal). */
static gal_strategy plainest(const gal_space *space, const gal_block_shape *shape, const gal_strategy *strategy)
{
    const bool attends = shape->kind == GAL_BLOCK_ATTENTION || shape->kind == GAL_BLOCK_CROSS_ATTENTION;
    gal_strategy plain = *strategy;
    if (!gal_strategy_halves(strategy, shape->kind)) {
        plain.overlap = GAL_OVERLAP_NONE;
    }
    if (shape->kind == GAL_BLOCK_FFN && plain.recompute == GAL_RECOMPUTE_SELECTIVE) {
        plain.recompute = GAL_RECOMPUTE_NONE;
    }
    const bool *axis = space->axis;
    for (uint32_t i = 0; i < plain.axis_count && !attends; i++) {
        if (gal_axis_splits_positions(plain.axis[i].kind)) {
            plain.axis[i].kind = axis[GAL_AXIS_ULYSSES] ? GAL_AXIS_ULYSSES
                                 : axis[GAL_AXIS_RING]  ? GAL_AXIS_RING
                                                        : GAL_AXIS_ZIGZAG;
        }
    }
    return plain;
}

static void lower(const trial *t, uint32_t type, const gal_strategy *strategy, gal_program **out)
{
    gal_error err = {0};
    const gal_price_query query = {.type = t->types.shape[type].type,
                                   .strategy = strategy,
                                   .device_count = device_count(t),
                                   .stage_count = 1,
                                   .microbatch_samples = t->search.model.global_batch_samples,
                                   .prefetch_depth = t->search.request.prefetch_depth};
    assert_int_equal(gal_lone_lower(&t->search.model, &query, NULL, out, &err), GAL_OK);
}

static void check_equal_programs(const trial *t, uint32_t type, const gal_strategy *left_out)
{
    static uint16_t key[2][KEY_MOST];
    const gal_strategy plain = plainest(&t->search.request.space, &t->types.shape[type], left_out);
    gal_program *program[2] = {NULL, NULL};
    char name[2][GAL_STRATEGY_NAME_BYTES];
    uint32_t count[2];
    lower(t, type, left_out, &program[0]);
    lower(t, type, &plain, &program[1]);
    for (uint32_t i = 0; i < 2; i++) {
        count[i] = gal_program_lists_key(program[i], NULL);
        assert_true(count[i] <= KEY_MOST);
        (void)gal_program_lists_key(program[i], key[i]);
    }
    bool equal = count[0] == count[1] && memcmp(key[0], key[1], count[0] * sizeof key[0][0]) == 0;
    for (uint32_t i = 0; i < program[0]->buffer_count && equal; i++) {
        equal = program[0]->buffer[i].bytes == program[1]->buffer[i].bytes;
    }
    for (uint32_t i = 0; i < program[0]->instruction_count && equal; i++) {
        equal = program[0]->instruction[i].group == program[1]->instruction[i].group;
    }
    if (!equal || gal_strategy_equal(left_out, &plain)) {
        fail_msg("seed %llu: %s of a block of kind %s is left out, but is not as %s", (unsigned long long)t->seed,
                 gal_strategy_name(left_out, name[0]), gal_block_kind_names[t->types.shape[type].kind],
                 gal_strategy_name(&plain, name[1]));
    }
    gal_program_free(program[1]);
    gal_program_free(program[0]);
}

/* Of one stage of all devices. */
static void test_what_is_useless_is_one_that_is_kept(void **state)
{
    (void)state;
    uint32_t useless = 0;
    uint32_t legal = 0;
    for (uint32_t i = 0; i < trial_count(); i++) {
        trial t;
        gal_strategy listed[STRATEGIES_MOST];
        create(seed_of(i), &t);
        const gal_cell_numbers numbers = {t.search.model.global_batch_samples, 1, 1};
        const gal_cell_spec spec = gal_search_cell_spec(&t.search.request, &numbers, t.search.request.cache);
        const uint32_t count = gal_space_strategies(spec.space, spec.device_count, listed);
        for (uint32_t s = 0; s < count * t.types.type_count; s++) {
            const uint32_t type = s / count;
            const gal_strategy *own = &listed[s % count];
            const bool breaks = gal_strategy_gathers_rule_broken(own, spec.prefetch_depth) != NULL ||
                                gal_strategy_block_rule_broken(spec.model, &t.types.shape[type], own, spec.device_count,
                                                               spec.global_batch_samples) != NULL;
            const bool left_out = !breaks && !is_of_no_search(&t.types.shape[type], own) &&
                                  !gal_cell_is_legal(&spec, &t.types, type, own);
            useless += left_out;
            legal += !breaks;
            if (left_out) {
                check_equal_programs(&t, type, own);
            }
        }
        destroy(&t);
    }
    print_message("of %u strategies of blocks %u are left out\n", legal, useless);
    assert_true(useless > 0);
}

static void test_nothing_is_ruled_out_wrongly(void **state)
{
    (void)state;
    const uint32_t trials = trial_count();
    for (uint32_t i = 0; i < trials; i++) {
        trial t;
        create(seed_of(i), &t);
        draw_memory(&t);
        solve_cells_off(&t);
        for (uint32_t c = 0; c < t.cell_count; c++) {
            check_cell(&t, &t.cell[c]);
        }
        check_search(&t, 0.0);
        check_search(&t, 0.05);
        destroy(&t);
    }
    print_message("%u instances, %u short of memory; %u cells, %u proven\n", trials, counted.short_of_memory,
                  counted.cells, counted.proven);
    for (uint32_t by = 0; by < PRUNING_COUNT; by++) {
        print_message("%s: %u cells ruled out\n", pruning_names[by], counted.ruled_out[by]);
        assert_true(trials < TRIALS_TO_COUNT || counted.ruled_out[by] >= trials / 10);
    }
    print_message("left out: %u unlikely, %u hopeless; %u plans have one\n", counted.unlikely, counted.hopeless,
                  counted.missing);
    assert_true(counted.unlikely > 0 && counted.hopeless > 0 && counted.missing > 0);
    assert_true(counted.proven >= counted.cells - counted.cells / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_ruled_out_wrongly),
        cmocka_unit_test(test_what_is_useless_is_one_that_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
