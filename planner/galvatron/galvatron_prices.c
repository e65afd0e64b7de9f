#include "planner/galvatron/galvatron_prices.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/cell/finalist.h"
#include "planner/galvatron/galvatron_files.h"
#include "planner/galvatron/galvatron_search.h"

/* What both documents say must be one thing. */
static gal_code check_alike(const gal_galvatron_profile *profile, const gal_model *model, gal_error *err)
{
    const uint32_t layers = gal_galvatron_layer_count(profile);
    const gal_galvatron_layer_type *type = &profile->layer_type[0];
    if (profile->layer_type_count != 1 || layers != model->layer_count || type->hidden != model->hidden ||
        type->sequence_length != model->sequence_length) {
        return gal_fail(
            err, GAL_ERR_DOCUMENT,
            "the profile is of %u layers (hidden %u, sequence %u), the model %s has %u (hidden %u, sequence "
            "%u)",
            layers, type->hidden, type->sequence_length, model->name, model->layer_count, model->hidden,
            model->sequence_length);
    }
    return GAL_OK;
}

/* The faster of what replicas may do; the first of equals. */
static gal_code search_both(gal_galvatron_request *request, gal_galvatron_found *best, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_galvatron_found found = {0};
    for (uint32_t kind = 0; kind < GAL_GALVATRON_DATA_PARALLEL_COUNT; kind++) {
        request->data_parallel = (gal_galvatron_data_parallel)kind;
        GAL_TRY(gal_galvatron_search_plans(request, &found, err));
        const uint32_t cells = best->cell_count + found.cell_count;
        const double bound = best->samples_per_second_bound > found.samples_per_second_bound
                                 ? best->samples_per_second_bound
                                 : found.samples_per_second_bound;
        const bool least = best->least_limit_bytes == 0 ||
                           (found.least_limit_bytes != 0 && found.least_limit_bytes < best->least_limit_bytes);
        const uint64_t least_bytes = least ? found.least_limit_bytes : best->least_limit_bytes;
        if (kind == 0 || found.samples_per_second > best->samples_per_second) {
            const gal_galvatron_found slower = *best;
            *best = found;
            found = slower;
        }
        best->cell_count = cells;
        best->samples_per_second_bound = bound;
        best->least_limit_bytes = least_bytes;
        gal_galvatron_found_free(&found);
    }
cleanup:
    gal_galvatron_found_free(&found);
    return code;
}

/* Balance degrees 1 - max / sum (Galvatron-BMW, Eq. 6), of the bytes. */
static double balance_of(const gal_galvatron_found *found)
{
    double sum = 0.0, most = 0.0;
    for (uint32_t i = 0; i < found->plan.pp_degree; i++) {
        sum += (double)found->stage_bytes[i];
        most = (double)found->stage_bytes[i] > most ? (double)found->stage_bytes[i] : most;
    }
    return 1.0 - most / sum;
}

static gal_code value_plan(const gal_search_request *request, const gal_galvatron_found *found,
                           gal_algorithm_answer *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_plan plan = {0};
    gal_price_cache *cache = NULL;
    const gal_cluster *cluster = gal_durations_cluster(request->durations);
    const uint64_t memory = request->memory_bytes != 0 ? request->memory_bytes : cluster->device.memory_bytes;
    const gal_galvatron_plan *theirs = &found->plan;
    const gal_cell_spec spec = {.pp_degree = theirs->pp_degree,
                                .microbatch_count = theirs->microbatch_count,
                                .global_batch_samples = theirs->global_batch_samples,
                                .schedule = theirs->schedule,
                                .prefetch_depth = request->prefetch_depth};
    GAL_TRY(gal_galvatron_plan_to(theirs, request->model, cluster, &plan, err));
    gal_finalist *f = gal_finalist_add(request, &spec, &out->search);
    if (f == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    f->plan.stage = plan.stage;
    f->plan.stage_count = plan.stage_count;
    f->plan.run = plan.run;
    f->plan.run_count = plan.run_count;
    memset(&plan, 0, sizeof plan);
    GAL_TRY(gal_price_cache_create(request->model, request->durations, &cache, err));
    GAL_TRY(gal_plan_objective(cache, request->durations, &f->plan, &f->objective_seconds, err));
    f->plan.objective_seconds = f->objective_seconds;
    GAL_TRY(gal_finalist_predict(request, f, err));
    out->opinion = (gal_opinion){
        .seconds = found->iteration_seconds,
        .bound_seconds = fmin(found->iteration_seconds, theirs->global_batch_samples / found->samples_per_second_bound),
        .bytes_balance_degree = balance_of(found)};
    out->search.feasible = f->peak_bytes <= memory;
    if (!out->search.feasible) {
        out->misfit_cell_count = 1;
        out->misfit = (gal_misfit){.numbers = {f->global_batch_samples, f->microbatch_count, f->pp_degree},
                                   .own_seconds = found->iteration_seconds,
                                   .objective_seconds = f->objective_seconds,
                                   .bytes = f->peak_bytes};
        out->search.least_bytes = f->peak_bytes;
        gal_finalist_drop(&out->search);
    }
cleanup:
    gal_price_cache_free(cache);
    gal_plan_free(&plan);
    return code;
}

gal_code gal_search_by_galvatron(const gal_search_request *request, const gal_galvatron_profile *profile,
                                 gal_algorithm_answer *out, char left_out[GAL_ERROR_TEXT_BYTES], gal_error *err)
{
    gal_code code = GAL_OK;
    gal_galvatron_tables *tables = NULL;
    gal_galvatron_found found = {0};
    gal_algorithm_answer answer = {0};
    const gal_cluster *cluster = gal_durations_cluster(request->durations);
    const gal_u32_list own_batch = {1, {request->model->global_batch_samples}};
    left_out[0] = '\0';
    if (request->schedule != GAL_SCHEDULE_GPIPE && request->schedule != GAL_SCHEDULE_1F1B) {
        return gal_fail(err, GAL_ERR_USAGE, "--schedule: --prices galvatron knows gpipe and 1f1b, not %s",
                        gal_schedule_names[request->schedule]);
    }
    GAL_TRY(check_alike(profile, request->model, err));
    GAL_TRY(gal_galvatron_tables_create(profile, &tables, err));
    gal_galvatron_request own = {.tables = tables,
                                 .device_count = cluster->device_count,
                                 .limit_bytes =
                                     request->memory_bytes != 0 ? request->memory_bytes : cluster->device.memory_bytes,
                                 .batches = request->batches.count > 0 ? request->batches : own_batch,
                                 .microbatch_counts = request->microbatch_counts,
                                 .degree_max = cluster->device_count,
                                 .schedule = request->schedule,
                                 .rules = GAL_GALVATRON_RULES_EVEN,
                                 .tensors_alone = true};
    GAL_TRY(search_both(&own, &found, err));
    answer.search.cell_count = found.cell_count;
    answer.search.least_bytes = found.feasible ? 0 : found.least_limit_bytes;
    memcpy(left_out, found.left_out, sizeof found.left_out);
    if (found.least_limit_bytes == 0) {
        (void)snprintf(answer.search.refusal, sizeof answer.search.refusal,
                       "no strategy has a price in the profile for these batches and microbatches");
        answer.search.cell_count = 0;
    }
    if (found.feasible) {
        GAL_TRY(value_plan(request, &found, &answer, err));
    }
    *out = answer;
    answer = (gal_algorithm_answer){0};
cleanup:
    gal_algorithm_answer_free(&answer);
    gal_galvatron_found_free(&found);
    gal_galvatron_tables_free(tables);
    return code;
}
