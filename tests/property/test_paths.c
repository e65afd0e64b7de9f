/* Random paths of a cell: as plans they have the objective that the cell says, and take no more bytes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "planner/cell/path.h"
#include "schemas/plan_check.h"
#include "tests/support/random_plan.h"

enum { SEEDS = 60, PATHS = 12, TRIES = 40, BLOCKS_MAX = 24 };

typedef struct trial {
    gal_model model;
    gal_cluster cluster;
    gal_space space;
    gal_durations *durations;
    gal_price_cache *cache;
    gal_cell *cell;
} trial;

static void describe_cluster(gal_cluster *cluster, uint32_t devices)
{
    (void)snprintf(cluster->name, sizeof cluster->name, "small");
    cluster->device_count = devices;
    cluster->device = (gal_device){.kind = "device",
                                   .memory_bytes = UINT64_C(1) << 40,
                                   .fp32_flops_per_second = 1e12,
                                   .fp64_flops_per_second = 1e12,
                                   .memory_bytes_per_second = 1e11};
    cluster->level_count = 1;
    cluster->level[0] =
        (gal_link_level){.name = "link", .span_devices = devices, .latency_seconds = 1e-6, .bytes_per_second = 1e10};
}

/* Models of tests/support/random_plan.h, in turn an encoder-decoder and any. */
static void draw_model(uint64_t *state, bool encodes, gal_model *out)
{
    gal_plan plan;
    do {
        gal_random_plan(gal_random_next(state), 4, &plan);
        *out = plan.model;
        gal_plan_free(&plan);
    } while (encodes && out->family != GAL_FAMILY_T5);
}

static void create(uint64_t seed, trial *t)
{
    uint64_t state = seed;
    gal_error err = {0};
    memset(t, 0, sizeof *t);
    const uint32_t pp_degree = UINT32_C(1) << gal_random_below(&state, 3);
    const uint32_t devices = pp_degree * (UINT32_C(1) << gal_random_below(&state, 3));
    draw_model(&state, seed % 2 == 1, &t->model);
    describe_cluster(&t->cluster, devices);
    gal_space_all(&t->space);
    t->space.overlap = seed % 4 >= 2;
    assert_int_equal(gal_durations_create_analytic(&t->cluster, &t->durations, &err), GAL_OK);
    assert_int_equal(gal_price_cache_create(&t->model, t->durations, &t->cache, &err), GAL_OK);
    const uint32_t microbatches = 1 + gal_random_below(&state, 4);
    const gal_cell_spec spec = {.model = &t->model,
                                .durations = t->durations,
                                .cache = t->cache,
                                .space = &t->space,
                                .device_count = devices,
                                .pp_degree = pp_degree,
                                .microbatch_count = microbatches,
                                .global_batch_samples = 8 * microbatches,
                                .schedule = (gal_schedule)gal_random_below(&state, GAL_SCHEDULE_1F1B + 1),
                                .prefetch_depth = 1 + gal_random_below(&state, 2),
                                .arena_limit_bytes = UINT64_C(1) << 50};
    if (gal_cell_create(&spec, &t->cell, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
}

static void destroy(trial *t)
{
    gal_cell_free(t->cell);
    gal_price_cache_free(t->cache);
    gal_durations_free(t->durations);
}

static void draw_stages(uint64_t *state, const gal_cell *cell, uint32_t *stage)
{
    uint32_t count[BLOCKS_MAX];
    for (uint32_t p = 0; p < cell->spec.pp_degree; p++) {
        count[p] = 1;
    }
    for (uint32_t left = cell->block_count - cell->spec.pp_degree; left > 0; left--) {
        count[gal_random_below(state, cell->spec.pp_degree)]++;
    }
    for (uint32_t i = 0, p = 0; i < cell->block_count; i++) {
        stage[i] = p;
        p += --count[p] == 0;
    }
}

static bool fits_in(const gal_cell *cell, uint32_t block, const uint32_t *stage, const uint32_t *strategy)
{
    return gal_cell_price(cell, block, stage[block], strategy[block]) != NULL &&
           (block == 0 ||
            cell->pair[gal_cell_pair_index(cell, block, stage[block], strategy[block - 1], strategy[block])] != NULL) &&
           (!gal_cell_holds_table(cell, block) ||
            gal_strategy_same_shards(&cell->strategy[strategy[0]], &cell->strategy[strategy[block]]));
}

/* Half of the blocks as the one before, where they may be; those that read the carried tensor anew, for what a version
 * takes that is converted first. False: none found for some block. */
static bool draw_strategies(uint64_t *state, const gal_cell *cell, const uint32_t *stage, uint32_t *strategy)
{
    for (uint32_t i = 0; i < cell->block_count; i++) {
        uint32_t tries = 0;
        const bool reads = cell->types.shape[cell->types.type_of[i]].kind == GAL_BLOCK_CROSS_ATTENTION;
        do {
            const bool again = i > 0 && !reads && gal_random_below(state, 2) == 0;
            strategy[i] = again ? strategy[i - 1] : gal_random_below(state, cell->strategy_count);
            tries++;
        } while (!fits_in(cell, i, stage, strategy) && tries < TRIES);
        if (!fits_in(cell, i, stage, strategy)) {
            return false;
        }
    }
    return true;
}

/* A run for every block. */
static void write_plan(const trial *t, const uint32_t *stage, const uint32_t *strategy, gal_plan_stage *stages,
                       gal_plan_run *runs, gal_plan *out)
{
    const gal_cell_spec *spec = &t->cell->spec;
    memset(stages, 0, spec->pp_degree * sizeof *stages);
    for (uint32_t i = 0; i < t->cell->block_count; i++) {
        stages[stage[i]].first_run = stages[stage[i]].run_count == 0 ? i : stages[stage[i]].first_run;
        stages[stage[i]].run_count++;
        runs[i] = (gal_plan_run){1, t->cell->strategy[strategy[i]]};
    }
    *out = (gal_plan){.model = t->model,
                      .cluster = t->cluster,
                      .global_batch_samples = spec->global_batch_samples,
                      .microbatch_count = spec->microbatch_count,
                      .pp_degree = spec->pp_degree,
                      .schedule = spec->schedule,
                      .prefetch_depth = spec->prefetch_depth,
                      .stage_count = spec->pp_degree,
                      .run_count = t->cell->block_count,
                      .stage = stages,
                      .run = runs};
}

static void compare(const trial *t, const uint32_t *stage, const uint32_t *strategy)
{
    gal_plan_stage stages[BLOCKS_MAX];
    gal_plan_run runs[BLOCKS_MAX];
    gal_program *programs[BLOCKS_MAX] = {NULL};
    gal_error err = {0};
    gal_plan plan;
    uint64_t most = 0;
    double objective = 0.0;
    write_plan(t, stage, strategy, stages, runs, &plan);
    const double seconds = gal_cell_evaluate(t->cell, stage, strategy, &most);
    if (gal_plan_check(&plan, NULL, &err) != GAL_OK || gal_lower_plan(&plan, programs, &err) != GAL_OK ||
        gal_plan_objective(t->cache, t->durations, &plan, &objective, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    if (!(fabs(objective - seconds) <= 1e-9 * objective)) {
        fail_msg("path %.17g, plan %.17g", seconds, objective);
    }
    for (uint32_t p = 0; p < plan.stage_count; p++) {
        if (programs[p]->arena_bytes > most) {
            fail_msg("path %lu bytes, stage %u %lu", (unsigned long)most, p, (unsigned long)programs[p]->arena_bytes);
        }
        gal_program_free(programs[p]);
    }
}

static void test_paths_are_plans(void **unused)
{
    (void)unused;
    uint32_t compared[2] = {0, 0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        trial t;
        create(seed, &t);
        uint64_t state = seed;
        for (uint32_t i = 0; i < PATHS && t.cell->block_count <= BLOCKS_MAX; i++) {
            uint32_t stage[BLOCKS_MAX], strategy[BLOCKS_MAX];
            draw_stages(&state, t.cell, stage);
            if (draw_strategies(&state, t.cell, stage, strategy)) {
                compare(&t, stage, strategy);
                compared[t.model.family == GAL_FAMILY_T5]++;
            }
        }
        destroy(&t);
    }
    print_message("%u paths of encoder-decoders, %u of others\n", compared[1], compared[0]);
    assert_true(compared[0] >= SEEDS && compared[1] >= SEEDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_paths_are_plans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
