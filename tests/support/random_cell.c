#include "tests/support/random_cell.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/random_plan.h"

enum { PATHS_MAX = 400000, LONG_PATHS_MAX = 100000 };

static double uniform(uint64_t *state)
{
    return (double)(gal_random_next(state) >> 11) / 9007199254740992.0;
}

static void draw_documents(uint64_t *state, gal_random_cell *t, uint32_t devices)
{
    gal_model_defaults(&t->model);
    (void)snprintf(t->model.name, sizeof t->model.name, "small");
    t->model.layer_count = 1 + gal_random_below(state, 2);
    t->model.hidden = 64;
    t->model.head_count = 4;
    t->model.ffn_hidden = UINT32_C(128) << gal_random_below(state, 3);
    t->model.sequence_length = 32;
    t->model.vocabulary = UINT32_C(64) << gal_random_below(state, 4);
    t->model.vocabulary_multiple = 8;
    t->model.tied_embeddings = gal_random_below(state, 2) == 0;
    (void)snprintf(t->cluster.name, sizeof t->cluster.name, "random");
    t->cluster.device_count = devices;
    t->cluster.device = (gal_device){.kind = "device",
                                     .memory_bytes = UINT64_C(1) << 40,
                                     .fp32_flops_per_second = gal_random_between(state, 1e9, 1e12),
                                     .fp64_flops_per_second = 1e9,
                                     .memory_bytes_per_second = gal_random_between(state, 1e8, 1e11)};
    t->cluster.level_count = devices > 2 ? 2 : 1;
    t->cluster.level[0] = (gal_link_level){.name = "inner",
                                           .span_devices = devices > 2 ? 2 : devices,
                                           .latency_seconds = gal_random_between(state, 1e-7, 1e-4),
                                           .bytes_per_second = gal_random_between(state, 1e7, 1e11)};
    t->cluster.level[1] = (gal_link_level){.name = "outer",
                                           .span_devices = devices,
                                           .latency_seconds = gal_random_between(state, 1e-7, 1e-4),
                                           .bytes_per_second = gal_random_between(state, 1e7, 1e10)};
}

/* One layer in each stack; targets shorter than the source, as long, or longer. */
static void turn_to_t5(uint64_t *state, gal_model *model)
{
    model->family = GAL_FAMILY_T5;
    model->layer_count = model->decoder_layer_count = 1;
    model->decoder_sequence_length = UINT32_C(16) << gal_random_below(state, 3);
    model->head_dim = 8;
    model->relative_bucket_count = 8;
    model->relative_max_distance = 16;
    model->activation = GAL_ACTIVATION_RELU;
}

/* Few enough strategies that all paths can be tried. */
static void draw_space(uint64_t *state, gal_random_cell *t)
{
    gal_space *space = &t->space;
    memset(space, 0, sizeof *space);
    space->axis[GAL_AXIS_DP] = true;
    space->axis[GAL_AXIS_TP] = gal_random_below(state, 2) == 0;
    space->axis[GAL_AXIS_SDP] = gal_random_below(state, 2) == 0;
    space->zero_stage[1 + gal_random_below(state, 3)] = space->axis[GAL_AXIS_SDP];
    space->sequence_parallel = space->axis[GAL_AXIS_TP] && gal_random_below(state, 2) == 0;
    space->recompute = gal_random_below(state, 2) == 0;
    /* These seeds have a trial whose slowest stage follows an embedding that is a stage. */
    space->tp_grid[GAL_TP_2D] = gal_random_below(state, 2) == 0;
    space->tp_grid[GAL_TP_2P5D] = gal_random_below(state, 4) == 0;
    uint64_t apart = *state;
    space->tp_grid[GAL_TP_3D] = gal_random_below(&apart, 3) == 0;
    space->keep_panels = gal_random_below(&apart, 3) == 0;
    const uint32_t one = gal_random_below(&apart, 5); /* and not the others: the paths stay few */
    space->offload = one == 1 && !space->axis[GAL_AXIS_TP];
    space->overlap = one == 2;
    space->stepped = one == 3;
    space->bucket = one == 4;
}

/* All together less than a block may take. */
static gal_pass_seconds draw_hidden(uint64_t *state, const gal_strategy *strategy)
{
    const double most = gal_price_gathers(strategy) ? 0.24 : 0.0;
    const double forward = most * uniform(state);
    return (gal_pass_seconds){forward, most * uniform(state)};
}

/* Prices of any sign where the measured ones may have any; of the bytes, working memory is five times larger in every
 * third cell. */
static void randomise_prices(uint64_t *state, gal_random_cell *t)
{
    gal_cell *cell = t->cell;
    const size_t prices = (size_t)cell->spec.pp_degree * cell->types.type_count * cell->strategy_count;
    t->price = calloc(prices + 1, sizeof *t->price);
    t->memory = calloc(prices + 1, sizeof *t->memory);
    t->pair = calloc(gal_cell_pair_count(cell) + 1, sizeof *t->pair);
    const uint64_t inflation = gal_random_below(state, 3) == 0 ? 5 : 1;
    uint64_t apart = *state;
    assert_non_null(t->price);
    assert_non_null(t->memory);
    assert_non_null(t->pair);
    for (size_t i = 0; i < prices; i++) {
        if (cell->price[i] != NULL) {
            gal_block_price *p = &t->price[i];
            *p = *cell->price[i];
            p->forward_seconds = 0.5 + 4.0 * uniform(state);
            p->backward_seconds = 0.5 + 4.0 * uniform(state);
            p->lag_seconds = 10.0 * uniform(state) - 3.0;
            p->once_seconds = cell->spec.pp_degree == 1 ? p->lag_seconds * p->lag_seconds / 16.0 : 0.0;
            p->enter_seconds = uniform(state) - 0.5;
            p->leave_seconds = uniform(state) - 0.5;
            p->tail_seconds = 6.0 * uniform(state) - 2.0;
            p->update_seconds = 3.0 * uniform(state);
            p->on_device =
                (gal_pass_seconds){0.2 * uniform(&apart), 0.4 * uniform(&apart)}; /* some room is too little */
            p->hidden_before = draw_hidden(&apart, &cell->strategy[i % cell->strategy_count]);
            p->hidden_behind = draw_hidden(&apart, &cell->strategy[i % cell->strategy_count]);
            t->memory[i] = *p->memory;
            t->memory[i].bytes.work *= inflation;
            p->memory = &t->memory[i];
            cell->price[i] = p;
        }
    }
    for (size_t i = 0; i < gal_cell_pair_count(cell); i++) {
        if (cell->pair[i] != NULL) {
            gal_pair_price *p = &t->pair[i];
            *p = *cell->pair[i];
            p->forward_seconds = uniform(state) - 0.3;
            p->backward_seconds = uniform(state) - 0.3;
            p->sync_seconds = uniform(state) - 0.5;
            cell->pair[i] = p;
        }
    }
    gal_cell_tabulate(cell);
}

bool gal_random_cell_create(uint64_t seed, gal_random_cell *t)
{
    uint64_t state = seed;
    gal_error err = {0};
    memset(t, 0, sizeof *t);
    const uint32_t pp_degree = 1 + gal_random_below(&state, 3);
    const uint32_t stage_devices = UINT32_C(1) << gal_random_below(&state, pp_degree == 3 ? 2 : 3);
    draw_documents(&state, t, pp_degree * stage_devices);
    draw_space(&state, t);
    if (seed % 3 == 0) {
        turn_to_t5(&state, &t->model);
    }
    const uint32_t microbatches = UINT32_C(1) << gal_random_below(&state, 4);
    assert_int_equal(gal_durations_create_analytic(&t->cluster, &t->durations, &err), GAL_OK);
    assert_int_equal(gal_price_cache_create(&t->model, t->durations, &t->cache, &err), GAL_OK);
    const gal_cell_spec spec = {.model = &t->model,
                                .durations = t->durations,
                                .cache = t->cache,
                                .space = &t->space,
                                .device_count = pp_degree * stage_devices,
                                .pp_degree = pp_degree,
                                .microbatch_count = microbatches,
                                .global_batch_samples = microbatches * (UINT32_C(4) << gal_random_below(&state, 2)),
                                .schedule = (gal_schedule)gal_random_below(&state, GAL_SCHEDULE_COUNT),
                                .prefetch_depth = 1 + gal_random_below(&state, 2),
                                .arena_limit_bytes = UINT64_C(1) << 40};
    if (gal_cell_create(&spec, &t->cell, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    if (gal_random_below(&state, 2) == 0) {
        randomise_prices(&state, t);
    }
    return t->cell->strategy_count > 0 &&
           pow(t->cell->strategy_count, t->cell->block_count) * (pp_degree == 1 ? 1 : 5) <
               (t->cell->types.alternates ? PATHS_MAX : LONG_PATHS_MAX);
}

void gal_random_cell_free(gal_random_cell *t)
{
    gal_cell_free(t->cell);
    gal_price_cache_free(t->cache);
    gal_durations_free(t->durations);
    free(t->memory);
    free(t->price);
    free(t->pair);
}
