#include "tests/support/priced_plan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/fit.h"
#include "costmodel/objective.h"
#include "costmodel/simulate.h"
#include "schemas/plan_check.h"
#include "tests/support/random_plan.h"

void gal_priced_describe(uint64_t *state, gal_plan *plan)
{
    static const uint32_t hidden[] = {1024, 2048, 4096, 8192};
    gal_model *model = &plan->model;
    gal_cluster *cluster = &plan->cluster;
    memset(plan, 0, sizeof *plan);
    gal_model_defaults(model);
    (void)snprintf(model->name, sizeof model->name, "random");
    model->hidden = hidden[gal_random_below(state, 4)];
    model->head_count = model->hidden / 64;
    model->ffn_hidden = 4 * model->hidden;
    model->sequence_length = 1024;
    model->vocabulary = 50257;
    model->vocabulary_multiple = 128;
    model->tied_embeddings = gal_random_below(state, 2) == 0;
    plan->pp_degree = UINT32_C(1) << gal_random_below(state, 4);
    plan->stage_count = plan->pp_degree;
    static const double inner[] = {300e9, 100e9, 30e9};
    static const double outer[] = {50e9, 25e9, 10e9};
    const uint32_t devices = UINT32_C(1) << gal_random_below(state, 5);
    model->layer_count = plan->pp_degree * (3 + gal_random_below(state, 6));
    plan->microbatch_count = plan->pp_degree * (2 + gal_random_below(state, 7));
    plan->global_batch_samples = plan->microbatch_count * devices * (1 + gal_random_below(state, 2));
    model->global_batch_samples = plan->global_batch_samples;
    plan->schedule = GAL_SCHEDULE_1F1B;
    plan->prefetch_depth = 2;
    (void)snprintf(cluster->name, sizeof cluster->name, "random");
    cluster->device_count = plan->pp_degree * devices;
    cluster->device = (gal_device){.kind = "device",
                                   .memory_bytes = UINT64_C(80) << 30,
                                   .fp32_flops_per_second = 60e12,
                                   .fp64_flops_per_second = 30e12,
                                   .memory_bytes_per_second = 3.3e12};
    cluster->level_count = cluster->device_count > 8 ? 2 : 1;
    cluster->level[0] = (gal_link_level){.name = "inner",
                                         .span_devices = cluster->device_count > 8 ? 8 : cluster->device_count,
                                         .latency_seconds = 5e-6,
                                         .bytes_per_second = inner[gal_random_below(state, 3)]};
    cluster->level[1] = (gal_link_level){.name = "outer",
                                         .span_devices = cluster->device_count,
                                         .latency_seconds = 1e-5,
                                         .bytes_per_second = outer[gal_random_below(state, 3)]};
}

void gal_priced_turn_to(gal_family family, gal_model *model)
{
    model->family = family;
    if (family == GAL_FAMILY_BERT) {
        model->type_count = 2;
    } else if (family == GAL_FAMILY_VIT) {
        model->image_size = 112;
        model->patch_size = 16;
        model->channel_count = 3;
        model->sequence_length = 50;
        model->vocabulary = 1000;
        model->pixel_standard_deviation = 1.0;
        model->tied_embeddings = false;
    } else if (family == GAL_FAMILY_T5) { /* blocks of both stacks take about as long: stages can be even */
        model->layer_count = model->decoder_layer_count = (model->layer_count + 1) / 2;
        model->decoder_sequence_length = model->sequence_length;
        model->head_dim = model->hidden / model->head_count;
        model->relative_bucket_count = 32;
        model->relative_max_distance = 128;
        model->activation = GAL_ACTIVATION_RELU;
    } else if (family ==
               GAL_FAMILY_SWIN) { /* 64 x 64, 32 x 32 and 16 x 16 positions; most layers in the second level */
        model->image_size = 256;
        model->patch_size = 4;
        model->channel_count = 3;
        model->sequence_length = 64 * 64;
        model->window_size = 8;
        model->vocabulary = 1000;
        model->pixel_standard_deviation = 1.0;
        model->tied_embeddings = false;
        model->hidden /= 4;
        model->ffn_hidden /= 4;
        model->head_count = model->hidden / 32;
        model->level_count = 3;
        for (uint32_t level = 0; level < model->level_count; level++) {
            model->level_layer_count[level] = level == 1 ? model->layer_count - 2 : 1;
            model->level_head_count[level] = model->head_count << level;
        }
    }
}

gal_strategy gal_priced_draw(uint64_t *state, const gal_plan *plan, bool sharded)
{
    const uint32_t devices = gal_plan_stage_devices(plan);
    for (;;) {
        gal_strategy s = {0};
        uint32_t left = devices;
        uint32_t degree = UINT32_C(1) << gal_random_below(state, 4);
        degree = degree > left ? left : degree;
        if (degree > 1) {
            s.axis[s.axis_count++] = (gal_axis){GAL_AXIS_TP, degree};
            s.sequence_parallel = gal_random_below(state, 2) == 0;
            left /= degree;
        }
        if (left > 1) {
            const bool sdp = sharded || gal_random_below(state, 2) == 0;
            s.axis[s.axis_count++] = (gal_axis){sdp ? GAL_AXIS_SDP : GAL_AXIS_DP, left};
            s.zero_stage = !sdp ? 0 : sharded ? 2 + gal_random_below(state, 2) : 1;
        }
        s.recompute = gal_random_below(state, 3) == 0 ? GAL_RECOMPUTE_FULL : GAL_RECOMPUTE_NONE;
        if (gal_strategy_fits_all(&plan->model, &s, devices, gal_plan_microbatch_samples(plan))) {
            return s;
        }
    }
}

bool gal_priced_holds_table(const gal_model *model, uint32_t block)
{
    gal_block_shape shape;
    gal_model_block(model, block, &shape);
    return (shape.shared >> GAL_SHARED_TABLE & 1U) != 0;
}

/* The first block of a stage, of all: even in layers, or where they are of two kinds in blocks. */
static uint32_t first_block(const gal_model *model, uint32_t stage, uint32_t stages)
{
    const uint32_t blocks = gal_model_block_count(model);
    const bool alike = model->family != GAL_FAMILY_T5 && model->family != GAL_FAMILY_SWIN;
    return stage == 0        ? 0
           : stage == stages ? blocks
           : alike           ? 1 + stage * (2 * model->layer_count / stages)
                             : blocks * stage / stages;
}

void gal_priced_fill(uint64_t *state, gal_plan *plan, bool mixed, bool sharded)
{
    const uint32_t blocks = gal_model_block_count(&plan->model);
    const uint32_t stages = plan->stage_count;
    plan->stage = calloc(stages, sizeof *plan->stage);
    plan->run = calloc(blocks, sizeof *plan->run);
    assert_non_null(plan->stage);
    assert_non_null(plan->run);
    plan->run_count = blocks;
    gal_strategy now = gal_priced_draw(state, plan, sharded);
    const gal_strategy first = now;
    for (uint32_t i = 0; i < blocks; i++) {
        if (mixed && i > 0 && gal_random_below(state, 4) == 0) {
            now = gal_priced_draw(state, plan, sharded);
        }
        plan->run[i] = (gal_plan_run){1, i + 1 == blocks || gal_priced_holds_table(&plan->model, i) ? first : now};
    }
    for (uint32_t s = 0; s < stages; s++) {
        const uint32_t begin = first_block(&plan->model, s, stages);
        plan->stage[s] =
            (gal_plan_stage){.first_run = begin, .run_count = first_block(&plan->model, s + 1, stages) - begin};
    }
}

void gal_priced_free(gal_program **programs, uint32_t count)
{
    for (uint32_t s = 0; s < count; s++) {
        gal_program_free(programs[s]);
    }
    free(programs);
}

gal_program **gal_priced_lower(const gal_plan *plan)
{
    gal_error err = {0};
    gal_program **programs = calloc(plan->stage_count, sizeof *programs);
    assert_non_null(programs);
    if (gal_lower_plan(plan, programs, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    return programs;
}

double gal_priced_error(const gal_plan *plan, const gal_profile *profile, double *simulated_seconds)
{
    gal_error err = {0};
    gal_durations *durations = NULL;
    gal_price_cache *cache = NULL;
    gal_simulation simulation = {0};
    double objective = 0.0;
    gal_program **programs = gal_priced_lower(plan);
    if (gal_durations_create(profile, &durations, &err) != GAL_OK ||
        gal_price_cache_create(&plan->model, durations, &cache, &err) != GAL_OK ||
        gal_plan_objective(cache, durations, plan, &objective, &err) != GAL_OK ||
        gal_simulate(programs, plan->stage_count, durations, false, &simulation, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    const double error = objective / simulation.iteration_seconds - 1.0;
    if (simulated_seconds != NULL) {
        *simulated_seconds = simulation.iteration_seconds;
    }
    gal_simulation_free(&simulation);
    gal_price_cache_free(cache);
    gal_durations_free(durations);
    gal_priced_free(programs, plan->stage_count);
    return error;
}

void gal_priced_add(gal_priced_errors *errors, double error)
{
    assert_true(errors->count < GAL_PRICED_ERRORS_MAX);
    errors->of[errors->count++] = error;
    errors->worst = fmax(errors->worst, error);
}

void gal_priced_check(const char *name, gal_priced_errors *errors, double median_bound, double worst_bound)
{
    const double median = gal_median(errors->of, errors->count); /* which sorts */
    printf("prices, %s: %u plans, median %.2f %%, 90th percentile %.2f %%, 99th %.2f %%, worst %.2f %%\n", name,
           errors->count, 100 * median, 100 * errors->of[errors->count * 9 / 10],
           100 * errors->of[errors->count * 99 / 100], 100 * errors->worst);
    assert_true(median <= median_bound);
    assert_true(errors->worst <= worst_bound);
}
