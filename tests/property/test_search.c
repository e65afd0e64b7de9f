/* Whole searches over random small models: what comes back is legal, fits, is priced as it says, and gets no worse with
 * more memory. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "planner/bound/screened.h"
#include "planner/search/joint_search.h"
#include "planner/stages/cell_search.h"
#include "planner/stages/cell_solve.h"
#include "tests/support/random_plan.h"
#include "tests/support/random_search.h"

enum { SEEDS = 8, LIMITS = 3 };

typedef struct trial {
    gal_model model;
    gal_cluster cluster;
    gal_durations *durations;
    gal_search_request request;
} trial;

/* Every fourth model. */
static void turn_to_t5(gal_model *model)
{
    model->family = GAL_FAMILY_T5;
    model->layer_count = model->decoder_layer_count = 1;
    model->decoder_sequence_length = 48;
    model->head_dim = 16;
    model->relative_bucket_count = 8;
    model->relative_max_distance = 16;
    model->activation = GAL_ACTIVATION_RELU;
}

static void create(uint64_t seed, trial *t)
{
    static const uint32_t worlds[] = {1, 2, 4, 4, 6, 8};
    uint64_t state = seed;
    gal_error err = {0};
    const uint32_t devices = worlds[gal_random_below(&state, 6)];
    memset(t, 0, sizeof *t);
    gal_model_defaults(&t->model);
    (void)snprintf(t->model.name, sizeof t->model.name, "small");
    t->model.layer_count = 2 + gal_random_below(&state, 2);
    t->model.hidden = 96;
    t->model.head_count = 6;
    t->model.ffn_hidden = 384;
    t->model.sequence_length = 96;
    t->model.vocabulary = 250;
    t->model.vocabulary_multiple = 24;
    t->model.tied_embeddings = gal_random_below(&state, 2) == 0;
    t->model.global_batch_samples = devices == 6 ? 12 : 8;
    if (seed % 4 == 3) {
        turn_to_t5(&t->model);
    }
    (void)snprintf(t->cluster.name, sizeof t->cluster.name, "random");
    t->cluster.device_count = devices;
    t->cluster.device = (gal_device){.kind = "device",
                                     .memory_bytes = UINT64_C(1) << 34,
                                     .fp32_flops_per_second = gal_random_between(&state, 1e9, 1e12),
                                     .fp64_flops_per_second = 1e9,
                                     .memory_bytes_per_second = gal_random_between(&state, 1e8, 1e11)};
    t->cluster.level_count = devices > 2 ? 2 : 1;
    t->cluster.level[0] = (gal_link_level){.name = "inner",
                                           .span_devices = devices > 2 ? 2 : devices,
                                           .latency_seconds = 1e-6,
                                           .bytes_per_second = gal_random_between(&state, 1e8, 1e11)};
    t->cluster.level[1] = (gal_link_level){.name = "outer",
                                           .span_devices = devices,
                                           .latency_seconds = 1e-5,
                                           .bytes_per_second = gal_random_between(&state, 1e7, 1e10)};
    assert_int_equal(gal_durations_create_analytic(&t->cluster, &t->durations, &err), GAL_OK);
    t->request =
        (gal_search_request){.model = &t->model,
                             .durations = t->durations,
                             .profile_hash = "",
                             .microbatch_counts = {.count = 2, .value = {2, 4}},
                             .schedule = gal_random_below(&state, 2) == 0 ? GAL_SCHEDULE_GPIPE : GAL_SCHEDULE_1F1B,
                             .prefetch_depth = 1 + gal_random_below(&state, 2),
                             .label_limit = 20000};
    gal_space_all(&t->request.space);
    if (devices >= 4) {
        assert_int_equal(gal_space_parse("dp,zero3,tp,sp", &t->request.space, &err), GAL_OK);
    }
}

static void search(const trial *t, uint64_t memory_bytes, gal_search_result *out)
{
    gal_error err = {0};
    gal_search_request request = t->request;
    request.memory_bytes = memory_bytes;
    if (gal_search(&request, out, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
}

static void check_finalist(const trial *t, const gal_finalist *f, uint64_t memory_bytes)
{
    gal_error err = {0};
    gal_price_cache *cache = NULL;
    double objective = 0.0;
    gal_random_search_check_plan(&f->plan);
    assert_true(f->peak_bytes <= memory_bytes);
    assert_true(f->bound_seconds <= f->objective_seconds);
    assert_int_equal(gal_price_cache_create(&t->model, t->durations, &cache, &err), GAL_OK);
    assert_int_equal(gal_plan_objective(cache, t->durations, &f->plan, &objective, &err), GAL_OK);
    if (!(fabs(objective - f->objective_seconds) <= 1e-9 * objective)) {
        fail_msg("search %.17g, plan %.17g", f->objective_seconds, objective);
    }
    gal_price_cache_free(cache);
}

/* Of the cell; 0 where it was left out as hopeless. */
static double cell_seconds(const gal_search_result *result, const gal_finalist *of)
{
    for (uint32_t i = 0; i < result->finalist_count; i++) {
        const gal_finalist *f = &result->finalist[i];
        if (f->microbatch_count == of->microbatch_count && f->pp_degree == of->pp_degree) {
            return f->objective_seconds;
        }
    }
    return 0.0;
}

static void test_plans_are_legal_and_fit_and_gain_by_memory(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        trial t;
        create(seed, &t);
        gal_search_result roomy = {0};
        search(&t, 0, &roomy);
        assert_true(roomy.feasible);
        uint64_t memory_bytes = roomy.finalist[0].peak_bytes;
        for (uint32_t i = 0; i < LIMITS && roomy.feasible; i++) {
            gal_search_result tight = {0};
            search(&t, memory_bytes, &tight);
            for (uint32_t f = 0; f < tight.finalist_count; f++) {
                check_finalist(&t, &tight.finalist[f], memory_bytes);
                assert_true(cell_seconds(&roomy, &tight.finalist[f]) <=
                            tight.finalist[f].objective_seconds * (1.0 + 1e-12));
            }
            gal_search_result_free(&roomy);
            roomy = tight;
            memory_bytes -= memory_bytes / 5;
        }
        gal_search_result_free(&roomy);
        gal_durations_free(t.durations);
    }
}

static void test_least_bytes_are_met(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        trial t;
        gal_search_result nothing = {0};
        gal_search_result least = {0};
        create(seed, &t);
        search(&t, 4096, &nothing);
        assert_false(nothing.feasible);
        assert_true(nothing.least_bytes > 4096);
        search(&t, nothing.least_bytes, &least);
        assert_true(least.feasible);
        for (uint32_t f = 0; f < least.finalist_count; f++) {
            check_finalist(&t, &least.finalist[f], nothing.least_bytes);
        }
        gal_search_result_free(&nothing);
        gal_search_result_free(&least);
        gal_durations_free(t.durations);
    }
}

static void read_all(const char *path, char **text, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    *text = calloc(1, 1u << 20);
    assert_non_null(*text);
    *bytes = fread(*text, 1, 1u << 20, file);
    (void)fclose(file);
}

static void test_same_input_same_bytes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        char *text[2];
        size_t bytes[2];
        for (uint32_t i = 0; i < 2; i++) {
            trial t;
            gal_search_result result = {0};
            gal_error err = {0};
            char path[] = "/tmp/test_search_XXXXXX";
            const int descriptor = mkstemp(path);
            assert_true(descriptor >= 0);
            (void)fclose(fdopen(descriptor, "wb"));
            create(seed, &t);
            search(&t, 0, &result);
            assert_int_equal(gal_plan_write(path, &result.finalist[0].plan, &err), GAL_OK);
            read_all(path, &text[i], &bytes[i]);
            (void)remove(path);
            gal_search_result_free(&result);
            gal_durations_free(t.durations);
        }
        assert_int_equal(bytes[0], bytes[1]);
        assert_memory_equal(text[0], text[1], bytes[0]);
        free(text[0]);
        free(text[1]);
    }
}

typedef struct told {
    gal_search_progress last;
    uint32_t calls;
} told;

static void hear(void *context, const gal_search_progress *now)
{
    told *t = context;
    if (t->calls++ == 0) {
        t->last = *now;
    }
    assert_int_equal(now->cell_count, t->last.cell_count);
    assert_true(now->closed_cell_count >= t->last.closed_cell_count);
    assert_true(now->samples_per_second >= t->last.samples_per_second);
    assert_true(now->closed_cell_count <= now->cell_count);
    t->last = *now;
}

static void test_progress_counts_every_cell(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        trial t;
        told heard = {0};
        gal_search_result result = {0};
        create(seed, &t);
        t.request.tell = hear;
        t.request.tell_context = &heard;
        search(&t, 0, &result);
        assert_int_equal(heard.last.closed_cell_count, heard.last.cell_count);
        assert_int_equal(heard.last.cell_count, result.cell_count);
        assert_true(heard.calls > heard.last.cell_count); /* at the end of each, and meanwhile */
        gal_search_result_free(&result);
        gal_durations_free(t.durations);
    }
}

static void open_cell(const trial *t, gal_price_cache *cache, uint32_t pp_degree, uint64_t memory_bytes,
                      gal_cell_spec *out)
{
    *out = (gal_cell_spec){.model = &t->model,
                           .durations = t->durations,
                           .cache = cache,
                           .space = &t->request.space,
                           .device_count = t->cluster.device_count,
                           .pp_degree = pp_degree,
                           .microbatch_count = 4,
                           .global_batch_samples = t->model.global_batch_samples,
                           .schedule = t->request.schedule,
                           .prefetch_depth = t->request.prefetch_depth,
                           .arena_limit_bytes = memory_bytes};
}

/* One cell by all strategies at once, and by columns: bounds hold, and what is proven is the same. Returns its largest
 * stage's least bytes and seconds. */
static void compare_cell(const trial *t, gal_price_cache *cache, uint32_t pp_degree, uint64_t *memory_bytes)
{
    const gal_solve_settings settings = {.label_limit = 20000, .few_labels = 100, .give_up_seconds = HUGE_VAL};
    uint32_t stage[64] = {0}, strategy[64] = {0};
    gal_cell_answer whole = {.stage = stage, .strategy = strategy};
    gal_cell_answer columns = {.stage = stage, .strategy = strategy};
    gal_block_types types;
    gal_screens *screens = NULL;
    gal_screened_prices *prices = NULL;
    gal_screened screened = {0};
    gal_cell_spec spec;
    gal_cell *cell = NULL;
    gal_error err = {0};
    double floor_seconds = 0.0;
    double floor_bytes = 0.0;
    open_cell(t, cache, pp_degree, *memory_bytes, &spec);
    assert_int_equal(gal_block_types_create(&t->model, t->durations, &types, &err), GAL_OK);
    assert_int_equal(gal_screens_create(&t->model, t->durations, &types, spec.space, &screens, &err), GAL_OK);
    assert_int_equal(gal_screen_floor(screens, &spec, &floor_seconds, &floor_bytes, &err), GAL_OK);
    assert_int_equal(gal_screened_create(&spec, &types, GAL_ALL_ORDERS, NULL, &prices, &screened, &err), GAL_OK);
    spec.listed = screened.strategy; /* so that both number strategies alike */
    spec.listed_count = screened.strategy_count;
    assert_int_equal(gal_cell_create(&spec, &cell, &err), GAL_OK);
    assert_int_equal(gal_cell_solve(cell, &settings, &whole, &err), GAL_OK);
    uint64_t bytes = 0;
    if (whole.seconds < HUGE_VAL) {
        (void)gal_cell_evaluate(cell, stage, strategy, &bytes);
        assert_true(floor_seconds <= whole.seconds);
        assert_true(floor_bytes <= (double)bytes);
        assert_true(screened.bound <= whole.seconds);
        for (uint32_t i = 0; i < cell->block_count; i++) { /* no plan with such a block is faster */
            const size_t at = (size_t)types.type_of[i] * screened.strategy_count + cell->listed[strategy[i]];
            assert_true(screened.reduced_seconds[at] <= whole.seconds);
        }
    }
    assert_int_equal(gal_cell_search(&screened, &settings, &columns, &err), GAL_OK);
    assert_true(columns.bound <= whole.seconds * (1.0 + 1e-12));
    assert_true(columns.seconds >= whole.bound * (1.0 - 1e-12));
    assert_true(screened.bound <= whole.seconds);
    *memory_bytes = bytes;
    gal_screened_free(&screened);
    gal_screened_prices_free(prices);
    gal_cell_free(cell);
    gal_screens_free(screens);
    gal_block_types_free(&types);
}

static void test_columns_bound_all(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4 * SEEDS; seed++) {
        trial t;
        gal_price_cache *cache = NULL;
        gal_error err = {0};
        create(seed, &t);
        assert_int_equal(gal_price_cache_create(&t.model, t.durations, &cache, &err), GAL_OK);
        for (uint32_t pp_degree = 1; pp_degree <= 2; pp_degree++) {
            uint64_t memory_bytes = UINT64_C(1) << 34;
            for (uint32_t i = 0; i < LIMITS && memory_bytes > 0 && t.cluster.device_count % pp_degree == 0; i++) {
                compare_cell(&t, cache, pp_degree, &memory_bytes);
                memory_bytes -= memory_bytes / 5;
            }
        }
        gal_price_cache_free(cache);
        gal_durations_free(t.durations);
    }
}

/* Plans of two chunks and plans whose backward is split: those that are found are legal, fit and verify. */
static void test_uniform_plans_are_legal_and_fit(void **state)
{
    (void)state;
    static const gal_schedule schedules[] = {GAL_SCHEDULE_INTERLEAVED, GAL_SCHEDULE_ZERO_BUBBLE};
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t found = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            trial t;
            create(seed, &t);
            t.request.schedule = schedules[i];
            t.request.chunk_count = schedules[i] == GAL_SCHEDULE_INTERLEAVED ? 2 : 0;
            gal_search_result result = {0};
            search(&t, 0, &result);
            for (uint32_t f = 0; f < result.finalist_count; f++) {
                assert_int_equal(result.finalist[f].plan.schedule, schedules[i]);
                check_finalist(&t, &result.finalist[f], UINT64_C(1) << 34);
            }
            found += result.finalist_count;
            gal_search_result_free(&result);
            gal_durations_free(t.durations);
        }
        assert_true(found > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans_are_legal_and_fit_and_gain_by_memory),
        cmocka_unit_test(test_uniform_plans_are_legal_and_fit),
        cmocka_unit_test(test_columns_bound_all),
        cmocka_unit_test(test_least_bytes_are_met),
        cmocka_unit_test(test_same_input_same_bytes),
        cmocka_unit_test(test_progress_counts_every_cell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
