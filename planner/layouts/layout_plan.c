#include "planner/layouts/layout_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/simulate.h"
#include "schemas/plan_check.h"

/* From the inside: TP, the axis that splits positions, data parallelism. ZeRO shards over the latter two. */
static void set_strategy(const gal_layout_row *row, gal_strategy *out)
{
    const gal_uniform_layout *layout = &row->layout;
    *out = (gal_strategy){.sequence_parallel = layout->sequence_parallel, .recompute = layout->recompute};
    if (layout->tp_degree > 1) {
        out->axis[out->axis_count++] = (gal_axis){GAL_AXIS_TP, layout->tp_degree};
    }
    if (row->sequence.degree > 1) {
        out->axis[out->axis_count++] = row->sequence;
        out->zero_stage = layout->zero_stage;
    }
    if (layout->dp_degree > 1) {
        const gal_axis_kind kind = layout->zero_stage > 0 ? GAL_AXIS_SDP : GAL_AXIS_DP;
        out->axis[out->axis_count++] = (gal_axis){kind, layout->dp_degree};
        out->zero_stage = layout->zero_stage;
    }
}

/* Pieces begin with whole layers, as those of costmodel/framework.h. */
static void cut(gal_plan *plan, const gal_uniform_layout *layout, const gal_strategy *strategy)
{
    const uint32_t pieces = gal_plan_piece_count(plan), blocks = gal_model_block_count(&plan->model);
    const uint64_t layers = (uint64_t)plan->model.layer_count + plan->model.decoder_layer_count;
    uint32_t block = 0, done = 0;
    for (uint32_t i = 0; i < pieces; i++) {
        const uint32_t first = block, until = layout->stage_layers != NULL
                                                  ? gal_uniform_layout_layers_before(layout, &plan->model, i + 1)
                                                  : (uint32_t)(layers * (i + 1) / pieces);
        for (; block < blocks; block++) {
            const bool starts = gal_model_block_kind(&plan->model, block) == GAL_BLOCK_ATTENTION;
            if (starts && done == until && i + 1 < pieces) {
                break;
            }
            done += starts;
        }
        plan->stage[i] = (gal_plan_stage){.first_run = i, .run_count = 1};
        plan->run[i] = (gal_plan_run){block - first, *strategy};
    }
    plan->run_count = pieces;
}

gal_code gal_layout_plan(const gal_layout_row *row, gal_plan *out, gal_error *err)
{
    const gal_uniform_layout *layout = &row->layout;
    gal_code code = GAL_OK;
    gal_strategy strategy;
    gal_error broken = {0};
    gal_plan plan = {.model = row->model,
                     .cluster = *row->cluster,
                     .global_batch_samples = layout->global_batch_samples,
                     .microbatch_count =
                         layout->global_batch_samples / (layout->dp_degree * layout->microbatch_samples),
                     .pp_degree = layout->pp_degree,
                     .stage_count = layout->pp_degree,
                     .schedule = layout->schedule,
                     .chunk_count = layout->chunk_count,
                     .prefetch_depth = 2};
    plan.stage = calloc(gal_plan_piece_count(&plan), sizeof *plan.stage);
    plan.run = calloc(gal_plan_piece_count(&plan), sizeof *plan.run);
    if (plan.stage == NULL || plan.run == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: a plan"));
    }
    set_strategy(row, &strategy);
    cut(&plan, layout, &strategy);
    if (gal_plan_check(&plan, NULL, &broken) != GAL_OK) {
        GAL_TRY(gal_fail(err, GAL_NO, "galrun: %s", broken.text));
    }
    *out = plan;
    memset(&plan, 0, sizeof plan);
cleanup:
    gal_plan_free(&plan);
    return code;
}

gal_code gal_layout_simulate(const gal_layout_row *row, const gal_durations *durations, gal_framework_estimate *out,
                             gal_prediction *interval, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_plan plan = {0};
    gal_program **programs = NULL;
    gal_simulation simulation = {0};
    GAL_TRY(gal_layout_plan(row, &plan, err));
    programs = calloc(plan.stage_count, sizeof *programs);
    if (programs == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: programs"));
    }
    GAL_TRY(gal_lower_plan(&plan, programs, err));
    GAL_TRY(gal_simulate(programs, plan.stage_count, durations, false, &simulation, err));
    out->seconds = simulation.iteration_seconds;
    out->bytes = 0.0;
    for (uint32_t s = 0; s < plan.stage_count; s++) {
        out->bytes = fmax(out->bytes, (double)(programs[s]->arena_bytes + gal_durations_fixed_bytes(durations)));
    }
    GAL_TRY(gal_programs_interval(programs, plan.stage_count, durations, out->seconds,
                                  gal_durations_fixed_bytes(durations), interval, err));
cleanup:
    gal_simulation_free(&simulation);
    for (uint32_t s = 0; programs != NULL && s < plan.stage_count; s++) {
        gal_program_free(programs[s]);
    }
    free(programs);
    gal_plan_free(&plan);
    return code;
}
