#include "planner/published/colossal_offload.h"

#include <stdlib.h>

#include "planner/cell/finalist.h"
#include "planner/least/least.h"
#include "planner/search/host_limit.h"

static const char system_name[] = "colossal-2";
enum { LAYERS = 50, HIDDEN = 4096, HEADS = 32, SAMPLES_OF_GPU = 4, GPUS_MAX = 8, LABELS = 20000 };

/* GPT-2's, of the catalogue, in another size. */
static gal_code read_model(gal_model *out, gal_error *err)
{
    const gal_code code = gal_model_read("gpt2-xl", out, err);
    out->layer_count = LAYERS;
    out->hidden = HIDDEN;
    out->head_count = HEADS;
    out->ffn_hidden = 4 * HIDDEN;
    out->compute_dtype = GAL_FP16;
    return code;
}

/* All of the optimizer on the host, full recompute: one plan. *rate 0: it does not fit. */
static gal_code rate_on_host(const gal_search_request *request, uint32_t gpus, double *rate, gal_error *err)
{
    gal_strategy strategy = {.recompute = GAL_RECOMPUTE_FULL, .offload_optimizer_percent = 100};
    gal_plan_run run = {.block_count = gal_model_block_count(request->model)};
    gal_plan_stage stage = {.run_count = 1};
    gal_finalist f = {.global_batch_samples = SAMPLES_OF_GPU * gpus};
    if (gpus > 1) {
        strategy.axis_count = 1;
        strategy.axis[0] = (gal_axis){GAL_AXIS_SDP, gpus};
        strategy.zero_stage = 3;
    }
    run.strategy = strategy;
    f.plan = (gal_plan){.model = *request->model,
                        .cluster = *gal_durations_cluster(request->durations),
                        .global_batch_samples = f.global_batch_samples,
                        .microbatch_count = 1,
                        .pp_degree = 1,
                        .schedule = GAL_SCHEDULE_1F1B,
                        .prefetch_depth = request->prefetch_depth,
                        .stage_count = 1,
                        .stage = &stage,
                        .run_count = 1,
                        .run = &run};
    const gal_code code = gal_finalist_predict(request, &f, err);
    const bool fits = code == GAL_OK && f.peak_bytes <= f.plan.cluster.device.memory_bytes;
    *rate = fits ? f.global_batch_samples / f.simulated_seconds : 0.0;
    return code;
}

static gal_code rate_of_hybrid(const gal_search_request *request, double *rate, gal_error *err)
{
    gal_search_result result = {0};
    const gal_code code = gal_host_limited_search(request, &result, err);
    *rate = result.feasible ? result.finalist[0].global_batch_samples / result.finalist[0].simulated_seconds : 0.0;
    gal_search_result_free(&result);
    return code;
}

static gal_code put_point(const gal_model *model, uint32_t gpus,
                          gal_code (*each)(void *context, const gal_colossal_row *row), void *context, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_cluster cluster;
    gal_durations *durations = NULL;
    gal_colossal_row row = {.figure = "fig17",
                            .system = system_name,
                            .devices = gpus,
                            .depth = 1,
                            .batch = SAMPLES_OF_GPU * gpus,
                            .refused = ""};
    GAL_TRY(gal_cluster_read(system_name, &cluster, err));
    gal_cluster_resize(&cluster, gpus);
    GAL_TRY(gal_durations_create_analytic(&cluster, &durations, err));
    gal_search_request request = {.model = model,
                                  .durations = durations,
                                  .profile_hash = "",
                                  .batches = {1, {row.batch}},
                                  .microbatch_counts = {1, {1}},
                                  .pp_degrees = {1, {1}},
                                  .schedule = GAL_SCHEDULE_1F1B,
                                  .prefetch_depth = 2,
                                  .label_limit = LABELS,
                                  .gap = 0.005};
    GAL_TRY(gal_space_parse("zero3,recompute,offload", &request.space, err));
    row.mode = "zero3-host";
    GAL_TRY(rate_on_host(&request, gpus, &row.value, err));
    row.refused = row.value > 0.0 ? "" : "does not fit";
    GAL_TRY(each(context, &row));
    row.mode = "hybrid";
    GAL_TRY(rate_of_hybrid(&request, &row.value, err));
    row.refused = row.value > 0.0 ? "" : "does not fit";
    GAL_TRY(each(context, &row));
cleanup:
    gal_durations_free(durations);
    return code;
}

gal_code gal_colossal_offload(gal_code (*each)(void *context, const gal_colossal_row *row), void *context,
                              gal_error *err)
{
    gal_model model;
    gal_code code = read_model(&model, err);
    for (uint32_t gpus = 1; code == GAL_OK && gpus <= GPUS_MAX; gpus *= 2) {
        code = put_point(&model, gpus, each, context, err);
    }
    return code;
}
