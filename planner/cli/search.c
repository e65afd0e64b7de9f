/* galplan search: the fastest plan that fits. */
#include "planner/cli/search.h"

#include <stdio.h>
#include <string.h>

#include "planner/cell/finalist.h"
#include "planner/cli/assumed.h"
#include "planner/cli/cluster_input.h"
#include "planner/cli/next.h"
#include "planner/cli/search_compare.h"
#include "planner/cli/search_counts.h"
#include "planner/cli/search_ctas.h"
#include "planner/cli/search_none.h"
#include "planner/cli/search_numbers.h"
#include "planner/cli/search_options.h"
#include "planner/cli/search_pareto.h"
#include "planner/cli/search_prices.h"
#include "planner/cli/search_print.h"
#include "planner/cli/searching.h"
#include "planner/cli/threads_of.h"
#include "planner/published/framework_search.h"
#include "planner/search/risk.h"

enum { SOLVER_LABELS = 4000000 };

/* The pipeline degrees that are left, where a takeaway leaves some out. */
static gal_code apply_takeaways(gal_search_request *request, gal_error *err)
{
    const gal_cluster *cluster = gal_durations_cluster(request->durations);
    if (!request->space.takeaway[1] && !request->space.takeaway[2]) {
        return GAL_OK;
    }
    const uint32_t blocks = gal_model_block_count(request->model);
    request->pp_degrees = gal_space_pp_degrees(&request->space, cluster, &request->pp_degrees,
                                               blocks < GAL_STAGES_MAX ? blocks : GAL_STAGES_MAX);
    return request->pp_degrees.count > 0 ? GAL_OK
                                         : gal_fail(err, GAL_ERR_USAGE, "--takeaways: no degree of --pp is left");
}

static gal_code shrink_cluster(gal_cluster *cluster, uint32_t devices, gal_error *err)
{
    if (devices > cluster->device_count) {
        return gal_fail(err, GAL_ERR_USAGE, "--devices: must be at most the cluster's %u, got %u",
                        cluster->device_count, devices);
    }
    if (!gal_cluster_has_part(cluster, devices)) {
        uint32_t fewer = devices, more = devices;
        while (!gal_cluster_has_part(cluster, fewer)) {
            fewer--;
        }
        while (!gal_cluster_has_part(cluster, more)) {
            more++;
        }
        return gal_fail(err, GAL_ERR_USAGE,
                        "--devices: %u are no part of %s that is built alike: take whole groups of each link, %u or %u",
                        devices, cluster->name, fewer, more);
    }
    gal_cluster_resize(cluster, devices);
    return GAL_OK;
}

/* whole: the cluster before --devices. *profile: the caller's to free; zeroed if durations are of a cluster. */
static gal_code read_durations(const gal_search_options *o, gal_profile *profile, gal_durations **durations,
                               gal_cluster *whole, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_cluster cluster;
    if (o->prices != GAL_SEARCH_PRICES_GALVATRON && o->profile != NULL) {
        GAL_TRY(gal_profile_read(o->profile, profile, err));
        GAL_TRY(gal_cli_threads_of(profile, o->thread_count, err));
        if (profile->gpu.tf32) {
            (void)fprintf(stderr, "galplan: note: %s was measured with --tf32: train its plans by galrun --tf32\n",
                          o->profile);
        }
        *whole = profile->cluster;
        GAL_TRY(gal_durations_create_at(profile, o->ctas.ctas, durations, err));
    } else if (o->thread_count > 0) {
        GAL_TRY(gal_fail(err, GAL_ERR_USAGE, "--threads needs the --profile whose rates it is about"));
    } else {
        GAL_TRY(gal_cli_cluster_read(o->cluster, &cluster, err));
        *whole = cluster;
        if (o->devices != 0) {
            GAL_TRY(shrink_cluster(&cluster, o->devices, err));
        }
        GAL_TRY(gal_durations_create_analytic(&cluster, durations, err));
    }
cleanup:
    return code;
}

/* ---- risk ---- */

/* Searches at the quantile, and notes it. The request's durations are as predicted, before and after. */
static gal_code search_at_risk(const gal_search_options *o, const gal_algorithm *algorithm, const gal_profile *profile,
                               const gal_search_request *request, const gal_solver_limits *limits,
                               gal_algorithm_answer *answer, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_durations *at = NULL;
    gal_search_request risky = *request;
    const gal_cluster *cluster = gal_durations_cluster(request->durations);
    const uint64_t limit = request->memory_bytes != 0 ? request->memory_bytes : cluster->device.memory_bytes;
    const uint64_t left = gal_risk_memory_bytes(limit, gal_durations_fixed_bytes(request->durations), o->risk);
    GAL_TRY(o->profile != NULL ? gal_durations_create_at(profile, o->ctas.ctas, &at, err)
                               : gal_durations_create_analytic(cluster, &at, err));
    gal_durations_set_quantile(at, o->risk);
    risky.durations = at;
    risky.memory_bytes = left > 0 ? left : 1;
    GAL_TRY(algorithm->search(&risky, limits, answer, err));
    GAL_TRY(gal_risk_note(request, o->risk, limit, &answer->search, err));
cleanup:
    gal_durations_free(at);
    return code;
}

static gal_code search_framework(const gal_search_options *o, const gal_search_request *request,
                                 gal_algorithm_answer *answer, gal_error *err)
{
    char refusal[GAL_ERROR_TEXT_BYTES];
    const uint64_t own = gal_durations_cluster(request->durations)->device.memory_bytes;
    gal_code code = gal_search_by_framework(request, &o->pricing, o->risk > 0.0 ? o->risk : 0.5, answer, refusal, err);
    if (code == GAL_OK && refusal[0] != '\0') {
        (void)fprintf(stderr, "galplan: note: a layout that %s takes for faster is left out (%s)\n",
                      o->pricing.framework.name, refusal);
    }
    if (code == GAL_OK && o->risk > 0.0) {
        code = gal_risk_note(request, o->risk, request->memory_bytes != 0 ? request->memory_bytes : own,
                             &answer->search, err);
    }
    return code;
}

/* ---- reports ---- */

/* Where text for people goes: stdout, unless the plan does. */
static FILE *text_file(const gal_search_options *o)
{
    return o->output != NULL && strcmp(o->output, "-") == 0 ? stderr : stdout;
}

static gal_code report_none(const gal_search_options *o, const gal_search_request *request, const gal_cluster *whole,
                            const gal_assumed *assumed, const gal_algorithm *algorithm,
                            const gal_algorithm_answer *answer, double seconds, gal_error *err)
{
    const bool proves = algorithm == &gal_algorithms[GAL_ALGORITHM_EXACT];
    const uint64_t own = gal_durations_cluster(request->durations)->device.memory_bytes;
    gal_no_plan none = {.of = {.request = request,
                               .result = &answer->search,
                               .whole = whole,
                               .pp_degrees = &o->pp_degrees,
                               .space = o->space,
                               .measured = o->profile != NULL,
                               .time_limit_seconds = o->time_limit_seconds}};
    gal_code code = GAL_OK;
    if (proves) {
        GAL_TRY(gal_no_plan_find(&none, err));
    }
    if (!o->json) {
        gal_assumed_print(text_file(o), assumed);
    }
    if (proves) {
        gal_no_plan_print(&none);
    } else {
        gal_no_plan_print_named(algorithm, &answer->search, o->memory_bytes != 0 ? o->memory_bytes : own);
    }
    if (o->json) {
        const gal_search_said said = {
            .assumed = assumed, .ctas = &o->ctas, .none = proves ? &none : NULL, .seconds = o->timing ? seconds : -1.0};
        GAL_TRY(gal_search_print_json(algorithm, answer, &said, err));
    }
    code = GAL_NO;
cleanup:
    return code;
}

/* The profile that galplan verify asks for; NULL where the plan was not made by it: prices of Hetu-Galvatron. */
static const char *profile_of(const gal_search_options *o, const gal_plan *plan)
{
    return plan->profile_hash[0] != '\0' ? o->profile : NULL;
}

static gal_code report(const gal_search_options *o, const gal_assumed *assumed, const gal_algorithm *algorithm,
                       const gal_algorithm_answer *answer, const gal_profile *profile, const gal_durations *durations,
                       double seconds, gal_error *err)
{
    const gal_search_result *result = &answer->search;
    const gal_search_said said = {.assumed = assumed,
                                  .ctas = &o->ctas,
                                  .seconds = o->timing ? seconds : -1.0,
                                  .tokens = o->tokens,
                                  .tf32 = profile->gpu.tf32,
                                  .measured = gal_durations_have_measurements(durations)};
    gal_code code = GAL_OK;
    if (o->output != NULL) {
        GAL_TRY(gal_plan_write(o->output, &result->finalist[0].plan, err));
    }
    if (o->json) {
        GAL_TRY(gal_search_print_json(algorithm, answer, &said, err));
    } else {
        FILE *out = text_file(o);
        gal_assumed_print(out, assumed);
        GAL_TRY(gal_search_print(out, algorithm, answer, &said, o->top, err));
        gal_left_out_print(result);
        gal_ctas_print(out, &o->ctas, profile->gpu.by_ctas_count > 0);
        if (o->timing) {
            fprintf(out, "\nsearched %u cells", result->cell_count);
            if (result->label_count > 0) {
                fprintf(out, ", %llu labels", (unsigned long long)result->label_count);
            }
            fprintf(out, " in %.1f ms\n", seconds * 1e3);
        }
        if (out == stdout && !o->counts) {
            gal_next_of_search(out, &result->finalist[0].plan, o->output, profile_of(o, &result->finalist[0].plan));
        }
    }
cleanup:
    return code;
}

/* The fastest plan is the one written. */
static gal_code report_front(const gal_search_options *o, const gal_assumed *assumed, const gal_pareto *pareto,
                             bool tf32, double seconds, gal_error *err)
{
    FILE *out = text_file(o);
    gal_code code = GAL_OK;
    if (o->output != NULL) {
        GAL_TRY(gal_plan_write(o->output, &pareto->point[0].finalist.plan, err));
    }
    if (o->json) {
        GAL_TRY(gal_pareto_print_json(pareto, assumed, tf32, o->timing ? seconds : -1.0, err));
    } else {
        gal_assumed_print(out, assumed);
        GAL_TRY(gal_pareto_print(out, pareto, tf32, o->top, err));
        if (o->timing) {
            fprintf(out, "\nsearched in %.1f ms\n", seconds * 1e3);
        }
        if (o->output == NULL) {
            gal_next_of_front(out);
        } else if (out == stdout) {
            gal_next_of_search(out, &pareto->point[0].finalist.plan, o->output, o->profile);
        }
    }
cleanup:
    return code;
}

static gal_code run_front(const gal_search_options *o, const gal_search_request *request, const gal_cluster *whole,
                          const gal_assumed *assumed, bool tf32, gal_searching *searching, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_pareto pareto = {0};
    gal_algorithm_answer none = {0};
    double seconds = 0.0;
    gal_searching_begin(searching);
    code = gal_pareto_find(request, o->top, o->pareto_step_bytes, &pareto, err);
    seconds = gal_searching_end(searching);
    GAL_TRY(code);
    for (uint32_t i = 0; i < pareto.point_count; i++) {
        GAL_TRY(gal_finalist_interval(request->durations, &pareto.point[i].finalist, err));
    }
    if (pareto.point_count > 0) {
        pareto.point[0].finalist.plan.communication_ctas = o->ctas.ctas;
        GAL_TRY(report_front(o, assumed, &pareto, tf32, seconds, err));
    } else {
        none.search = pareto.none; /* lent */
        GAL_TRY(report_none(o, request, whole, assumed, &gal_algorithms[GAL_ALGORITHM_EXACT], &none, seconds, err));
    }
cleanup:
    gal_pareto_free(&pareto);
    return code;
}

/* A space that does not fit must not be cut off in silence. */
static gal_code space_rule(const gal_search_request *request, gal_error *err)
{
    const uint32_t devices = gal_durations_cluster(request->durations)->device_count;
    const uint32_t count = gal_space_strategies(&request->space, devices, NULL);
    return count <= GAL_SPACE_MAX
               ? GAL_OK
               : gal_fail(err, GAL_ERR_USAGE, "--space: %u strategies of %u devices are more than %d: leave axes out",
                          count, devices, GAL_SPACE_MAX);
}

static gal_code run(gal_search_options *o, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_model model;
    gal_durations *durations = NULL;
    gal_algorithm_answer answer = {0};
    const gal_algorithm *algorithm = NULL;
    const gal_solver_limits limits = {.label_limit = SOLVER_LABELS, .time_limit_seconds = o->time_limit_seconds};
    gal_searching searching = {.quiet = o->quiet};
    double seconds = 0.0;
    gal_profile profile = {.hash = ""};
    gal_cluster whole;
    gal_assumed assumed = {.model = &model};
    gal_search_request request = {.model = &model,
                                  .profile_hash = profile.hash,
                                  .memory_bytes = o->memory_bytes,
                                  .host_memory_bytes = o->host_memory_bytes,
                                  .storage_bytes = o->storage_bytes,
                                  .storage_masters = o->storage_masters,
                                  .storage_parameters = o->storage_parameters,
                                  .pp_degrees = o->pp_degrees,
                                  .prefetch_depth = o->prefetch_depth,
                                  .thread_count = o->job_count,
                                  .label_limit = o->label_limit,
                                  .gap = gal_search_options_gap(o),
                                  .finalist_count = o->pareto ? 1 : o->top,
                                  .planner = (gal_planner)o->planner,
                                  .ranks_by_simulation = o->rank == GAL_RANK_SIMULATION,
                                  .tell = gal_searching_tell,
                                  .tell_context = &searching};
    gal_space_all(&request.space);
    GAL_TRY(gal_search_options_rules(o, &request, err));
    GAL_TRY(gal_search_prices_algorithm(o->prices, o->algorithm, &algorithm, err));
    GAL_TRY(read_durations(o, &profile, &durations, &whole, err));
    request.durations = durations;
    assumed.device = &whole.device;
    GAL_TRY(
        gal_model_choose(o->model, &o->arithmetic, gal_device_dtypes(assumed.device), &model, &assumed.origins, err));
    if (request.batches.count > 0) {
        assumed.batches = request.batches;
        assumed.origins.batch = GAL_ORIGIN_OPTION;
    }
    GAL_TRY(gal_search_numbers_rule(&request, o->microbatches, &o->pp_degrees, err));
    GAL_TRY(apply_takeaways(&request, err));
    GAL_TRY(space_rule(&request, err));
    if (o->compare) {
        GAL_TRY(gal_cli_search_compare(&request, &limits, &assumed, o->json, o->timing, &searching, err));
        goto cleanup;
    }
    if (o->pareto) {
        GAL_TRY(run_front(o, &request, &whole, &assumed, profile.gpu.tf32, &searching, err));
        goto cleanup;
    }
    gal_searching_begin(&searching);
    if (o->prices == GAL_SEARCH_PRICES_FRAMEWORK) {
        code = search_framework(o, &request, &answer, err);
    } else if (o->risk > 0.0) {
        code = search_at_risk(o, algorithm, &profile, &request, &limits, &answer, err);
    } else if (o->prices == GAL_SEARCH_PRICES_GALVATRON) {
        code = gal_search_prices_galvatron(&request, o->profile, &answer, err);
    } else if (o->ctas.is_auto) {
        code = gal_ctas_search(&profile, algorithm, &request, &limits, &o->ctas, &durations, &answer, err);
    } else {
        code = algorithm->search(&request, &limits, &answer, err);
    }
    seconds = gal_searching_end(&searching);
    GAL_TRY(code);
    gal_ctas_mark(&o->ctas, &answer.search);
    GAL_TRY(gal_finalists_interval(durations, &answer.search, o->top > 1 ? o->top : 1, err));
    GAL_TRY(answer.search.feasible ? report(o, &assumed, algorithm, &answer, &profile, durations, seconds, err)
                                   : report_none(o, &request, &whole, &assumed, algorithm, &answer, seconds, err));
    if (o->counts) {
        GAL_TRY(gal_search_print_counts(text_file(o), &request, &answer.search.finalist[0], err));
    }
cleanup:
    gal_algorithm_answer_free(&answer);
    gal_durations_free(durations);
    gal_profile_free(&profile);
    return code;
}

int gal_cli_search(int argc, char **argv)
{
    gal_search_options o;
    gal_error err = {0};
    int exit_code = 0;
    if (!gal_search_options_parse(argc, argv, &o, &exit_code)) {
        return exit_code;
    }
    const gal_code code = run(&o, &err);
    return gal_options_end("galplan", "search", code, &err);
}
