/* Named algorithms beside exact, over random small models in one space: what they return is legal, fits, is priced as
 * it says, and is no faster than what exact proves of its cell; and an instance on which no two return the same plan.
 * 60 models; with PLANS of 500 and more (make check-all) 600. GLPK, which takes most of the time, is asked on every
 * sixth. timeout_seconds: 900 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/objective.h"
#include "planner/search/named.h"
#include "schemas/plan_check.h"
#include "tests/support/random_plan.h"

enum { LIMITS = 3, ILP_EVERY = 6 };

static const gal_solver_limits limits = {.label_limit = 1000000, .time_limit_seconds = 5.0};

typedef struct trial {
    gal_model model;
    gal_cluster cluster;
    gal_durations *durations;
    gal_search_request request;
} trial;

static gal_link_level draw_level(uint64_t *state, const char *name, uint32_t span_devices)
{
    gal_link_level level = {.span_devices = span_devices,
                            .latency_seconds = 1e-6,
                            .bytes_per_second = gal_random_between(state, 1e7, 1e11)};
    (void)snprintf(level.name, sizeof level.name, "%s", name);
    return level;
}

static void create(uint64_t seed, trial *t)
{
    uint64_t state = seed;
    gal_error err = {0};
    const uint32_t devices = UINT32_C(2) << gal_random_below(&state, 2);
    memset(t, 0, sizeof *t);
    gal_model_defaults(&t->model);
    (void)snprintf(t->model.name, sizeof t->model.name, "small");
    t->model.layer_count = 2 + gal_random_below(&state, 2);
    t->model.hidden = 64;
    t->model.head_count = 4;
    t->model.ffn_hidden = UINT32_C(128) << gal_random_below(&state, 3);
    t->model.sequence_length = 32;
    t->model.vocabulary = UINT32_C(64) << gal_random_below(&state, 4);
    t->model.vocabulary_multiple = 8;
    t->model.tied_embeddings = gal_random_below(&state, 2) == 0;
    t->model.global_batch_samples = 8;
    (void)snprintf(t->cluster.name, sizeof t->cluster.name, "random");
    t->cluster.device_count = devices;
    t->cluster.device = (gal_device){.kind = "device",
                                     .memory_bytes = UINT64_C(1) << 34,
                                     .fp32_flops_per_second = gal_random_between(&state, 1e9, 1e12),
                                     .fp64_flops_per_second = 1e9,
                                     .memory_bytes_per_second = gal_random_between(&state, 1e8, 1e11)};
    t->cluster.level_count = devices > 2 ? 2 : 1;
    t->cluster.level[0] = draw_level(&state, "inner", 2);
    t->cluster.level[1] = draw_level(&state, "outer", devices);
    assert_int_equal(gal_durations_create_analytic(&t->cluster, &t->durations, &err), GAL_OK);
    t->request =
        (gal_search_request){.model = &t->model,
                             .durations = t->durations,
                             .profile_hash = "",
                             .microbatch_counts = {.count = 2, .value = {2, 4}},
                             .schedule = gal_random_below(&state, 2) == 0 ? GAL_SCHEDULE_GPIPE : GAL_SCHEDULE_1F1B,
                             .prefetch_depth = 2,
                             .label_limit = 20000,
                             .finalist_count = 100}; /* more than cells: all are solved */
}

/* The same for all: bytes of conversions are those of the space (planner/space/conversions.h). */
static void use_space(const char *words, const bool *takeaway, gal_search_request *request)
{
    gal_error err = {0};
    memcpy(request->space.takeaway, takeaway, sizeof request->space.takeaway);
    assert_int_equal(gal_space_parse(words, &request->space, &err), GAL_OK);
}

static void check_priced(const trial *t, const gal_finalist *f, uint64_t memory_bytes)
{
    gal_error err = {0};
    gal_price_cache *cache = NULL;
    double objective = 0.0;
    assert_int_equal(gal_plan_check(&f->plan, NULL, &err), GAL_OK);
    assert_true(f->peak_bytes <= memory_bytes);
    assert_int_equal(gal_price_cache_create(&t->model, t->durations, &cache, &err), GAL_OK);
    assert_int_equal(gal_plan_objective(cache, t->durations, &f->plan, &objective, &err), GAL_OK);
    if (!(fabs(objective - f->objective_seconds) <= 1e-9 * objective)) {
        fail_msg("search %.17g, plan %.17g", f->objective_seconds, objective);
    }
    gal_price_cache_free(cache);
}

/* Of the same cell; where exact left that out as hopeless there is nothing to compare. */
static bool check_slower(const gal_search_result *exact, const gal_finalist *f, const char *name, uint64_t seed)
{
    for (uint32_t i = 0; i < exact->finalist_count; i++) {
        const gal_finalist *e = &exact->finalist[i];
        if (e->microbatch_count == f->microbatch_count && e->pp_degree == f->pp_degree) {
            /* cells of other strategies round to other units (planner/cell/cell.h) */
            if (f->objective_seconds < e->bound_seconds * (1.0 - 1e-12)) {
                fail_msg("seed %llu, %u microbatches, P %u: %s %.17g, exact proves %.17g", (unsigned long long)seed,
                         f->microbatch_count, f->pp_degree, name, f->objective_seconds, e->bound_seconds);
            }
            return true;
        }
    }
    return false;
}

static void run(gal_algorithm_kind kind, const gal_search_request *request, gal_algorithm_answer *out)
{
    gal_error err = {0};
    if (gal_algorithms[kind].search(request, &limits, out, &err) != GAL_OK) {
        fail_msg("%s: %s", gal_algorithm_names[kind], err.text);
    }
}

/* One limit of memory. compared[kind] rises by the plans that were. */
static void compare(uint64_t seed, const trial *t, const gal_search_request *request, const gal_algorithm_answer *exact,
                    gal_algorithm_kind kind, uint32_t *compared)
{
    gal_algorithm_answer named;
    run(kind, request, &named);
    for (uint32_t f = 0; f < named.search.finalist_count; f++) {
        check_priced(t, &named.search.finalist[f], request->memory_bytes);
        compared[kind] += check_slower(&exact->search, &named.search.finalist[f], gal_algorithm_names[kind], seed);
    }
    assert_true(exact->search.feasible || !named.search.feasible);
    gal_algorithm_answer_free(&named);
}

/* Under all memory, 80 % of what the plan of exact takes, and 60 % of that. */
static void compare_limits(uint64_t seed, const trial *t, gal_algorithm_kind first, gal_algorithm_kind last,
                           uint32_t *compared)
{
    gal_search_request request = t->request;
    bool feasible = true;
    request.memory_bytes = t->cluster.device.memory_bytes;
    for (uint32_t i = 0; i < LIMITS && feasible; i++) {
        gal_algorithm_answer exact;
        run(GAL_ALGORITHM_EXACT, &request, &exact);
        for (gal_algorithm_kind kind = first; kind <= last; kind++) {
            compare(seed, t, &request, &exact, kind, compared);
        }
        feasible = exact.search.feasible;
        request.memory_bytes = feasible ? exact.search.finalist[0].peak_bytes * (4 - i) / 5 : 0;
        gal_algorithm_answer_free(&exact);
    }
}

static void test_never_better_than_exact(void **state)
{
    (void)state;
    static const bool galvatron[4] = {false, true, true, true};
    static const bool oases[4] = {false, false, true, false};
    const char *plans = getenv("PLANS");
    const uint32_t seeds = plans != NULL && atoi(plans) >= 500 ? 600 : 60;
    uint32_t compared[GAL_ALGORITHM_COUNT] = {0};
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        trial t;
        create(seed, &t);
        use_space("dp,zero3,tp,recompute", galvatron, &t.request);
        compare_limits(seed, &t, seed % ILP_EVERY == 0 ? GAL_ALGORITHM_ILP : GAL_ALGORITHM_GALVATRON_BASE,
                       GAL_ALGORITHM_GALVATRON_BMW, compared);
        use_space("dp,tp,recompute,overlap", oases, &t.request);
        compare_limits(seed, &t, GAL_ALGORITHM_OASES, GAL_ALGORITHM_OASES, compared);
        gal_durations_free(t.durations);
    }
    for (uint32_t kind = GAL_ALGORITHM_EXACT + 1; kind < GAL_ALGORITHM_COUNT; kind++) {
        print_message("%s: %u plans\n", gal_algorithm_names[kind], compared[kind]);
        assert_true(compared[kind] >= (kind == GAL_ALGORITHM_ILP ? seeds / ILP_EVERY : seeds));
    }
}

/* ---- Galvatron's tables ---- */

static uint32_t index_of(const gal_cell *cell, const gal_strategy *strategy)
{
    uint32_t s = 0;
    while (s < cell->strategy_count && !gal_strategy_equal(&cell->strategy[s], strategy)) {
        s++;
    }
    assert_true(s < cell->strategy_count);
    return s;
}

/* What the objective has of a single stage and Eq. 5 has not: the turns at both ends of the chain, the norm. */
static double left_out_seconds(const gal_cell *cell, const gal_plan *plan)
{
    const uint32_t last = cell->block_count - 1;
    const uint32_t s = index_of(cell, gal_plan_block_strategy(plan, 0));
    const uint32_t e = index_of(cell, gal_plan_block_strategy(plan, last));
    const gal_cell_node *first_node = &cell->node[gal_cell_price_index(cell, 0, 0, s)];
    const gal_cell_node *last_node = &cell->node[gal_cell_price_index(cell, last, 0, e)];
    return cell->spec.microbatch_count * (first_node->enter_seconds + last_node->close.backward_seconds) +
           first_node->enter_tail_seconds + cell->common_seconds;
}

static bool is_gain(const gal_cell *cell, double each_seconds, double once_seconds)
{
    return each_seconds * cell->spec.microbatch_count + once_seconds < 0.0;
}

/* Of a block among its like, as the tables have it. */
static double sync_seconds(const gal_cell *cell, uint32_t block, uint32_t strategy)
{
    const gal_block_price *price = gal_cell_price(cell, block, 0, strategy);
    return price->sync_seconds - (gal_cell_borrows_table(cell, block, 0) ? price->table_sync_seconds : 0.0);
}

/* Of sync, what the objective takes for hidden by others (costmodel/lag.h). */
static double hidden_seconds(const gal_cell *cell, const gal_plan *plan)
{
    double hidden = 0.0, lag = 0.0, largest = 0.0;
    uint32_t from = 0;
    for (uint32_t i = 0; i < cell->block_count; i++) {
        const uint32_t s = index_of(cell, gal_plan_block_strategy(plan, i));
        const gal_cell_node *node = &cell->node[gal_cell_price_index(cell, i, 0, s)];
        const double beside =
            i == 0 ? node->enter_tail_seconds : cell->edge[gal_cell_pair_index(cell, i, 0, from, s)].tail_seconds;
        lag += node->block.tail_seconds + beside;
        hidden += sync_seconds(cell, i, s) + beside - node->block.once_seconds;
        largest = fmax(largest, lag);
        lag = cell->strategy[s].zero_stage >= 2 ? largest : lag;
        from = s;
    }
    return hidden - largest;
}

/* Whether some block or change of layout costs less than nothing, by a gain in overlap: tables have no such numbers; or
 * the sync of all: the objective has none. */
static bool has_gain(const gal_cell *cell, const gal_plan *plan)
{
    bool has = false;
    uint32_t from = 0;
    double tail_seconds = 0.0;
    for (uint32_t i = 0; i < cell->block_count; i++) {
        const uint32_t s = index_of(cell, gal_plan_block_strategy(plan, i));
        const gal_cell_step *own = &cell->node[gal_cell_price_index(cell, i, 0, s)].block;
        const double sync = sync_seconds(cell, i, s);
        const double once_seconds = sync + own->update_seconds;
        has = has || is_gain(cell, own->forward_seconds + own->backward_seconds, once_seconds);
        tail_seconds += sync;
        tail_seconds += i == 0 ? cell->node[gal_cell_price_index(cell, 0, 0, s)].enter_tail_seconds : 0.0;
        if (i > 0) {
            const gal_cell_edge *edge = &cell->edge[gal_cell_pair_index(cell, i, 0, from, s)];
            has = has || is_gain(cell, edge->forward_seconds + edge->backward_seconds, edge->tail_seconds);
            tail_seconds += edge->tail_seconds;
        }
        from = s;
    }
    return has || tail_seconds < 0.0;
}

/* With one stage Eq. 5 is the objective but for that, so the tables hold what the plan they lead to costs: to whole
 * picoseconds, one for each block and each change, times the microbatches. */
static void test_one_stage_costs_what_the_tables_say(void **state)
{
    (void)state;
    static const bool takeaways[4] = {false, true, true, true};
    uint32_t exact_count = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        trial t;
        gal_error err = {0};
        gal_algorithm_answer answer;
        gal_cell *cell = NULL;
        gal_price_cache *cache = NULL;
        create(seed, &t);
        use_space("dp,zero3,tp,recompute", takeaways, &t.request);
        t.request.pp_degrees = (gal_u32_list){1, {1}};
        t.request.microbatch_counts = (gal_u32_list){1, {4}};
        run(GAL_ALGORITHM_GALVATRON_BASE, &t.request, &answer);
        assert_true(answer.search.feasible);
        const gal_finalist *f = &answer.search.finalist[0];
        assert_int_equal(gal_price_cache_create(&t.model, t.durations, &cache, &err), GAL_OK);
        const gal_cell_numbers numbers = {f->global_batch_samples, f->microbatch_count, f->pp_degree};
        const gal_cell_spec spec = gal_search_cell_spec(&t.request, &numbers, cache);
        assert_int_equal(gal_cell_create(&spec, &cell, &err), GAL_OK);
        const double expected =
            f->objective_seconds + hidden_seconds(cell, &f->plan) - left_out_seconds(cell, &f->plan);
        const double tolerance = 2.0 * cell->block_count * f->microbatch_count * 1e-12;
        const bool gains = has_gain(cell, &f->plan);
        exact_count += !gains;
        if (!gains && !(fabs(answer.opinion.seconds - expected) <= tolerance)) {
            fail_msg("seed %llu: tables %.17g, objective %.17g of which %.17g are theirs", (unsigned long long)seed,
                     answer.opinion.seconds, f->objective_seconds, expected);
        }
        gal_cell_free(cell);
        gal_price_cache_free(cache);
        gal_algorithm_answer_free(&answer);
        gal_durations_free(t.durations);
    }
    assert_true(exact_count >= 10);
}

/* ---- the instance on which all differ ---- */

static bool same_plan(const gal_plan *a, const gal_plan *b)
{
    bool same = a->microbatch_count == b->microbatch_count && a->stage_count == b->stage_count;
    for (uint32_t i = 0; same && i < gal_model_block_count(&a->model); i++) {
        same = gal_strategy_equal(gal_plan_block_strategy(a, i), gal_plan_block_strategy(b, i));
    }
    for (uint32_t p = 0; same && p < a->stage_count; p++) {
        same = gal_plan_stage_block_count(a, p) == gal_plan_stage_block_count(b, p);
    }
    return same;
}

static void test_an_instance_on_which_all_differ(void **state)
{
    (void)state;
    static const bool none[4] = {false};
    trial t = {0};
    gal_error err = {0};
    gal_algorithm_answer answer[GAL_ALGORITHM_COUNT];
    assert_int_equal(gal_model_read("tests/golden/search_compare/files/model.json", &t.model, &err), GAL_OK);
    assert_int_equal(gal_cluster_read("tests/golden/search_compare/files/cluster.json", &t.cluster, &err), GAL_OK);
    assert_int_equal(gal_durations_create_analytic(&t.cluster, &t.durations, &err), GAL_OK);
    t.request = (gal_search_request){.model = &t.model,
                                     .durations = t.durations,
                                     .profile_hash = "",
                                     .memory_bytes = UINT64_C(60540) << 10,
                                     .schedule = GAL_SCHEDULE_1F1B,
                                     .prefetch_depth = 2,
                                     .finalist_count = UINT32_MAX, /* every cell */
                                     .label_limit = 20000};
    use_space("dp,zero3,tp,recompute", none, &t.request);
    for (uint32_t a = 0; a < GAL_ALGORITHM_COUNT; a++) {
        run((gal_algorithm_kind)a, &t.request, &answer[a]);
        assert_true(answer[a].search.feasible);
        for (uint32_t b = 0; b < a; b++) {
            assert_false(same_plan(&answer[a].search.finalist[0].plan, &answer[b].search.finalist[0].plan));
        }
    }
    for (uint32_t a = 0; a < GAL_ALGORITHM_COUNT; a++) {
        gal_algorithm_answer_free(&answer[a]);
    }
    gal_durations_free(t.durations);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_better_than_exact),
        cmocka_unit_test(test_one_stage_costs_what_the_tables_say),
        cmocka_unit_test(test_an_instance_on_which_all_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
