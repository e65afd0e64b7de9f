/* Prices of layer kinds: floors below prices, and prices summed up are the simulation of plans of one kind. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/simulate.h"
#include "planner/price/kind_table.h"

typedef struct setting {
    gal_model model;
    gal_cluster cluster;
    gal_durations *durations;
    gal_price_cache *cache;
    gal_space space;
    gal_layers layers;
    gal_meshes meshes;
    gal_kind_table table;
} setting;

static void set_up(setting *s, const char *model, const char *cluster, uint32_t samples, uint32_t microbatches)
{
    gal_error err = {0};
    assert_int_equal(gal_model_read(model, &s->model, &err), GAL_OK);
    assert_int_equal(gal_cluster_read(cluster, &s->cluster, &err), GAL_OK);
    s->model.compute_dtype = GAL_BF16;
    gal_model_keep_layers(&s->model, 12);
    assert_int_equal(gal_durations_create_analytic(&s->cluster, &s->durations, &err), GAL_OK);
    assert_int_equal(gal_price_cache_create(&s->model, s->durations, &s->cache, &err), GAL_OK);
    gal_space_all(&s->space);
    assert_int_equal(gal_layers_create(&s->model, s->durations, &s->layers, &err), GAL_OK);
    assert_int_equal(gal_meshes_create(&s->space, s->cluster.device_count, &s->meshes, &err), GAL_OK);
    const gal_kind_query query = {.model = &s->model,
                                  .durations = s->durations,
                                  .cache = s->cache,
                                  .layers = &s->layers,
                                  .meshes = &s->meshes,
                                  .device_count = s->cluster.device_count,
                                  .stage_count = 1,
                                  .microbatch_samples = samples,
                                  .microbatch_count = microbatches,
                                  .prefetch_depth = 2};
    assert_int_equal(gal_kind_table_create(&query, &s->table, &err), GAL_OK);
}

static void tear_down(setting *s)
{
    gal_kind_table_free(&s->table);
    gal_meshes_free(&s->meshes);
    gal_layers_free(&s->layers);
    gal_price_cache_free(s->cache);
    gal_durations_free(s->durations);
}

/* The plan in which every layer of a type has that kind: its simulated seconds. */
static double simulate(const setting *s, const uint32_t *kind_of_type)
{
    gal_error err = {0};
    gal_program *program = NULL;
    gal_simulation simulation = {0};
    const uint32_t blocks = gal_model_block_count(&s->model);
    gal_plan_stage stage = {.run_count = blocks};
    gal_plan plan = {.model = s->model,
                     .cluster = s->cluster,
                     .global_batch_samples = s->table.query.microbatch_samples * s->table.query.microbatch_count,
                     .microbatch_count = s->table.query.microbatch_count,
                     .pp_degree = 1,
                     .stage_count = 1,
                     .schedule = GAL_SCHEDULE_1F1B,
                     .prefetch_depth = 2,
                     .stage = &stage,
                     .run_count = blocks,
                     .run = calloc(blocks, sizeof *plan.run)};
    assert_non_null(plan.run);
    for (uint32_t layer = 0; layer < s->layers.layer_count; layer++) {
        const uint32_t first = s->layers.first_block[layer];
        const gal_kind *kind = &s->table.kind[kind_of_type[s->layers.type_of[layer]]];
        for (uint32_t b = 0; first + b < s->layers.first_block[layer + 1]; b++) {
            plan.run[first + b] = (gal_plan_run){1, *gal_kind_strategy(&s->table, kind, b)};
        }
    }
    assert_int_equal(gal_lower_plan(&plan, &program, &err), GAL_OK);
    assert_int_equal(gal_simulate(&program, 1, s->durations, false, &simulation, &err), GAL_OK);
    const double seconds = simulation.iteration_seconds;
    gal_simulation_free(&simulation);
    gal_program_free(program);
    free(plan.run);
    return seconds;
}

/* A kind of the group with no recompute in either half and that ZeRO stage, whole, in both. */
static uint32_t plain_kind(const setting *s, uint32_t rows, uint32_t type, uint32_t zero_stage)
{
    const gal_kind_group *group = &s->table.group[rows];
    for (uint32_t k = group->first[type]; k < group->first[type + 1]; k++) {
        const gal_strategy *a = &s->meshes.strategy[s->table.kind[k].strategy[GAL_HALF_ATTENTION]];
        const gal_strategy *f = &s->meshes.strategy[s->table.kind[k].strategy[GAL_HALF_FFN]];
        if (gal_strategy_equal(a, f) && a->zero_stage == zero_stage && a->recompute == GAL_RECOMPUTE_NONE &&
            gal_strategy_degree(a, GAL_AXIS_DP) == 1) {
            return k;
        }
    }
    fail();
    return 0;
}

/* Sums over the layers by prices, the turn of a stage of that kind with them. */
static double sum_of(const setting *s, const uint32_t *kind_of_type, uint32_t layer_type)
{
    double sum =
        s->table.kind[kind_of_type[layer_type]].turn.step_seconds + gal_durations_fixed_step_seconds(s->durations);
    for (uint32_t layer = 0; layer < s->layers.layer_count; layer++) {
        sum += s->table.kind[kind_of_type[s->layers.type_of[layer]]].times.step_seconds;
    }
    return sum;
}

/* Embedding, layers, head: types 0, 1, 2. */
static void prices_are_the_simulation(const char *model, const char *cluster, uint32_t samples, uint32_t microbatches,
                                      double share)
{
    setting s;
    gal_error err = {0};
    set_up(&s, model, cluster, samples, microbatches);
    assert_int_equal(s.layers.type_count, 3);
    uint32_t compared = 0;
    for (uint32_t rows = 0; rows < s.table.group_count; rows++) {
        for (uint32_t zero = 1; zero <= 3 && s.table.group[rows].complete; zero++) {
            const gal_strategy *any = &s.meshes.strategy[s.table.kind[s.table.group[rows].first[0]].strategy[0]];
            if (gal_strategy_sample_parts(any) == 1 || (zero == 2 && microbatches == 1)) {
                continue;
            }
            uint32_t kind[3];
            for (uint32_t type = 0; type < 3; type++) {
                kind[type] = plain_kind(&s, rows, type, zero);
            }
            const gal_kind_company begin = {GAL_NO_KIND, GAL_NO_KIND, kind[1]}, end = {kind[0], kind[1], GAL_NO_KIND};
            const double floor = s.table.kind[kind[1]].times.step_seconds;
            assert_int_equal(gal_kind_price(&s.table, kind[1], NULL, &err), GAL_OK);
            assert_int_equal(gal_kind_price(&s.table, kind[0], &begin, &err), GAL_OK);
            assert_int_equal(gal_kind_price(&s.table, kind[2], &end, &err), GAL_OK);
            assert_true(floor > 0.0 && floor <= s.table.kind[kind[1]].times.step_seconds * (1.0 + 1e-9));
            const double simulated = simulate(&s, kind);
            assert_true(fabs(sum_of(&s, kind, 1) - simulated) <= share * simulated);
            compared++;
        }
    }
    assert_in_range(compared, 2, 100);
    tear_down(&s);
}

static void test_prices_are_the_simulation(void **state)
{
    (void)state;
    prices_are_the_simulation("llama3-8b", "h100-8", 8, 4, 0.004);
    prices_are_the_simulation("llama3-8b", "h100-64", 64, 2, 0.004);
    prices_are_the_simulation("gpt2-xl", "a100-16", 16, 1, 0.004); /* a tied table */
    prices_are_the_simulation("bert-large", "rtx3090-32", 32, 4,
                              0.04); /* reductions of ZeRO-2 outlast backward: ends hide some */
}

/* Every kind of a small cluster: the floor is one. */
static void test_floors_are_below_prices(void **state)
{
    (void)state;
    setting s;
    gal_error err = {0};
    set_up(&s, "llama3-8b", "h100-8", 8, 3);
    uint32_t checked = 0;
    for (uint32_t k = 0; k < s.table.kind_count; k += 7) {
        gal_kind *kind = &s.table.kind[k];
        if (s.layers.type[kind->type].alone) {
            continue;
        }
        const gal_layer_times floor = kind->times;
        assert_int_equal(gal_kind_price(&s.table, k, NULL, &err), GAL_OK);
        assert_true(floor.step_seconds <= kind->times.step_seconds * (1.0 + 1e-9));
        assert_true(floor.forward_seconds <=
                    (kind->times.forward_seconds + kind->times.backward_seconds) * (1.0 + 1e-9));
        checked++;
    }
    assert_in_range(checked, 20, 1000000);
    tear_down(&s);
}

static void count_types(const char *model, uint32_t layer_count, uint32_t type_count)
{
    gal_model m;
    gal_cluster cluster;
    gal_durations *durations = NULL;
    gal_layers layers;
    gal_error err = {0};
    assert_int_equal(gal_model_read(model, &m, &err), GAL_OK);
    assert_int_equal(gal_cluster_read("h100-8", &cluster, &err), GAL_OK);
    assert_int_equal(gal_durations_create_analytic(&cluster, &durations, &err), GAL_OK);
    assert_int_equal(gal_layers_create(&m, durations, &layers, &err), GAL_OK);
    assert_int_equal(layers.layer_count, layer_count);
    assert_int_equal(layers.type_count, type_count);
    assert_int_equal(layers.first_block[layers.layer_count], gal_model_block_count(&m));
    gal_layers_free(&layers);
    gal_durations_free(durations);
}

/* Ends and layers; of an encoder-decoder a bridge between two stacks, the last decoder layer carrying nothing on; of a
 * Swin four levels, of which windows that turn cost as others, and three merges. */
static void test_layers_of_models(void **state)
{
    (void)state;
    count_types("gpt2-small", 12 + 2, 3);
    count_types("llama3-70b", 80 + 2, 3);
    count_types("t5-small", 6 + 6 + 3, 6);
    count_types("swin-tiny", 12 + 5, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers_of_models),
        cmocka_unit_test(test_prices_are_the_simulation),
        cmocka_unit_test(test_floors_are_below_prices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
