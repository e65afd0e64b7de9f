#include "planner/published/oases_case.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "costmodel/simulate.h"
#include "planner/least/least.h"
#include "planner/search/named.h"
#include "schemas/plan_check.h"

#define X(enumerator, name) [enumerator] = name,
const char *const gal_oases_method_names[GAL_OASES_METHOD_COUNT] = {GAL_OASES_METHODS(X)};
#undef X

gal_code gal_oases_case_read(const char *model, const char *cluster, uint32_t devices, uint32_t tp_degree,
                             gal_oases_case *out, gal_error *err)
{
    gal_code code = GAL_OK;
    *out = (gal_oases_case){.tp_degree = tp_degree, .pp_degree = 1, .microbatch_count = 1};
    GAL_TRY(gal_model_read(model, &out->model, err));
    GAL_TRY(gal_cluster_read(cluster, &out->cluster, err));
    gal_cluster_resize(&out->cluster, devices);
    out->model.compute_dtype = GAL_FP16;
    out->global_batch_samples = out->model.global_batch_samples;
cleanup:
    return code;
}

/* ---- uniform plans ---- */

static gal_strategy strategy_of(const gal_oases_case *of, gal_oases_method method)
{
    static const struct {
        gal_recompute recompute;
        gal_overlap overlap;
    } kinds[GAL_OASES_METHOD_COUNT] = {[GAL_OASES_MEGATRON] = {GAL_RECOMPUTE_REPEAT, GAL_OVERLAP_NONE},
                                       [GAL_OASES_MERAK] = {GAL_RECOMPUTE_FULL, GAL_OVERLAP_IN_PASS},
                                       [GAL_OASES_CROSS_PASS] = {GAL_RECOMPUTE_FULL, GAL_OVERLAP_CROSS_PASS},
                                       [GAL_OASES_FINE] = {GAL_RECOMPUTE_FULL, GAL_OVERLAP_FINE},
                                       [GAL_OASES_PLANNER] = {GAL_RECOMPUTE_FULL, GAL_OVERLAP_FINE}};
    const uint32_t replicas = of->cluster.device_count / of->pp_degree / of->tp_degree;
    gal_strategy out = {.recompute = kinds[method].recompute, .overlap = kinds[method].overlap};
    if (of->tp_degree > 1) {
        out.axis[out.axis_count++] = (gal_axis){GAL_AXIS_TP, of->tp_degree};
    }
    if (replicas > 1) {
        out.axis[out.axis_count++] = (gal_axis){GAL_AXIS_DP, replicas};
    }
    return out;
}

gal_code gal_oases_case_plan(const gal_oases_case *of, gal_oases_method method, gal_plan *out, gal_error *err)
{
    const uint32_t stages = of->pp_degree, layers = of->model.layer_count;
    gal_error illegal = {0};
    *out = (gal_plan){.model = of->model,
                      .cluster = of->cluster,
                      .global_batch_samples = of->global_batch_samples,
                      .microbatch_count = of->microbatch_count,
                      .pp_degree = stages,
                      .schedule = GAL_SCHEDULE_1F1B,
                      .prefetch_depth = 2,
                      .stage_count = stages,
                      .stage = calloc(stages, sizeof *out->stage),
                      .run_count = stages,
                      .run = calloc(stages, sizeof *out->run)};
    if (out->stage == NULL || out->run == NULL) {
        gal_plan_free(out);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: a plan");
    }
    for (uint32_t s = 0; s < stages; s++) {
        const uint32_t own = layers * (s + 1) / stages - layers * s / stages;
        out->stage[s] = (gal_plan_stage){.first_run = s, .run_count = 1};
        out->run[s] = (gal_plan_run){2 * own + (s == 0) + (s + 1 == stages), strategy_of(of, method)};
    }
    if (gal_plan_check(out, NULL, &illegal) != GAL_OK) {
        gal_plan_free(out);
        return gal_fail(err, GAL_NO, "%s", illegal.text);
    }
    return GAL_OK;
}

static void narrow_gradients(gal_program *program)
{
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        gal_instruction *in = &program->instruction[i];
        in->bytes /= in->stream == GAL_STREAM_REDUCE ? 2 : 1;
    }
}

gal_code gal_oases_plan_lower(const gal_plan *plan, gal_program **programs, gal_error *err)
{
    const gal_code code = gal_lower_plan(plan, programs, err);
    for (uint32_t s = 0; code == GAL_OK && s < plan->stage_count; s++) {
        narrow_gradients(programs[s]);
    }
    return code;
}

gal_code gal_oases_plan_seconds(const gal_plan *plan, const gal_durations *durations, gal_oases_seconds *out,
                                gal_error *err)
{
    gal_code code = GAL_OK;
    gal_simulation simulation = {0};
    gal_program **programs = calloc(plan->stage_count, sizeof *programs);
    *out = (gal_oases_seconds){0};
    if (programs == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: a plan"));
    }
    GAL_TRY(gal_oases_plan_lower(plan, programs, err));
    GAL_TRY(gal_simulate(programs, plan->stage_count, durations, false, &simulation, err));
    out->step = simulation.iteration_seconds;
    out->compute = simulation.stage[0].busy_seconds[GAL_STREAM_COMPUTE];
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const uint64_t bytes = programs[s]->arena_bytes + gal_durations_fixed_bytes(durations);
        out->device_bytes = bytes > out->device_bytes ? bytes : out->device_bytes;
    }
cleanup:
    gal_simulation_free(&simulation);
    for (uint32_t s = 0; programs != NULL && s < plan->stage_count; s++) {
        gal_program_free(programs[s]);
    }
    free(programs);
    return code;
}

gal_code gal_oases_case_search(const gal_oases_case *of, gal_oases_method method, const gal_durations *durations,
                               uint32_t *tp_degree, double *step_seconds, gal_error *err)
{
    gal_code code = GAL_OK;
    *tp_degree = 0;
    for (uint32_t degree = 1; degree <= of->cluster.device_count / of->pp_degree; degree *= 2) {
        gal_oases_case tried = *of;
        gal_oases_seconds seconds = {0};
        gal_error illegal = {0};
        gal_plan plan;
        tried.tp_degree = degree;
        code = gal_oases_case_plan(&tried, method, &plan, &illegal);
        if (code == GAL_NO) {
            code = GAL_OK;
            continue;
        }
        if (code != GAL_OK) {
            return gal_fail(err, code, "%s", illegal.text);
        }
        code = gal_oases_plan_seconds(&plan, durations, &seconds, err);
        gal_plan_free(&plan);
        if (code != GAL_OK) {
            return code;
        }
        if (seconds.device_bytes <= of->cluster.device.memory_bytes &&
            (*tp_degree == 0 || seconds.step < *step_seconds)) {
            *tp_degree = degree;
            *step_seconds = seconds.step;
        }
    }
    return code;
}

/* ---- Planner ---- */

gal_code gal_oases_case_propose(const gal_oases_case *of, const gal_durations *durations, gal_plan *out,
                                double *seconds, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_algorithm_answer answer = {0};
    const gal_solver_limits limits = {.label_limit = 4000000, .time_limit_seconds = 10.0};
    gal_search_request request = {.model = &of->model,
                                  .durations = durations,
                                  .profile_hash = "",
                                  .batches = {1, {of->global_batch_samples}},
                                  .microbatch_counts = {1, {of->microbatch_count}},
                                  .pp_degrees = {1, {of->pp_degree}},
                                  .schedule = GAL_SCHEDULE_1F1B,
                                  .prefetch_depth = 2};
    gal_space_all(&request.space);
    const clock_t begin = clock();
    GAL_TRY(gal_algorithm_oases(&request, &limits, &answer, err));
    *seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (!answer.search.feasible) {
        GAL_TRY(gal_fail(err, GAL_NO, "no choice of degrees fits"));
    }
    GAL_TRY(gal_plan_copy(&answer.search.finalist[0].plan, out, err));
cleanup:
    gal_algorithm_answer_free(&answer);
    return code;
}
