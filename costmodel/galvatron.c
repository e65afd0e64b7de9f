#include "costmodel/galvatron.h"

#include <math.h>
#include <stdlib.h>

#include "costmodel/galvatron_tables.h"

/* Constants of the formulas. */
#define BACKWARD_OF_FORWARD 2.0
#define CONTEXT_BYTES (1024.0 * 1048576.0)
#define SHARD_MARGIN 0.003       /* on top of 1/d, of sharded states */
#define STATES_OF_PARAMETERS 4.0 /* parameters, gradients and two moments */

gal_galvatron_job gal_galvatron_job_of(const gal_galvatron_plan *plan)
{
    return (gal_galvatron_job){.device_count = plan->device_count,
                               .pp_degree = plan->pp_degree,
                               .global_batch_samples = plan->global_batch_samples,
                               .microbatch_count = plan->microbatch_count,
                               .schedule = plan->schedule,
                               .data_parallel = plan->data_parallel};
}

uint32_t gal_galvatron_replicas(const gal_galvatron_job *job, const gal_galvatron_strategy *strategy)
{
    return job->device_count / job->pp_degree / strategy->degree;
}

uint32_t gal_galvatron_samples(const gal_galvatron_job *job, const gal_galvatron_strategy *strategy)
{
    return job->global_batch_samples / job->microbatch_count / gal_galvatron_replicas(job, strategy);
}

/* Devices that split a layer's tensors, and those over which its states may be sharded. */
static uint32_t tensor_degree(const gal_galvatron_strategy *strategy)
{
    return strategy->ulysses ? 1 : strategy->degree;
}

static uint32_t shard_degree(const gal_galvatron_job *job, const gal_galvatron_strategy *strategy)
{
    return gal_galvatron_replicas(job, strategy) * (strategy->ulysses ? strategy->degree : 1);
}

/* One replica has nothing to shard, whatever the strategy says. */
static bool is_zero3(const gal_galvatron_job *job, const gal_galvatron_strategy *strategy)
{
    return strategy->zero3 && gal_galvatron_replicas(job, strategy) > 1;
}

static double element_bytes(const gal_galvatron_tables *tables)
{
    return gal_galvatron_tables_profile(tables)->dtype == GAL_GALVATRON_FP32 ? 4.0 : 2.0;
}

static gal_code samples_of(const gal_galvatron_job *job, const gal_galvatron_strategy *strategy, double *out,
                           gal_error *err)
{
    const uint32_t samples = gal_galvatron_samples(job, strategy);
    if (samples == 0) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "a replica gets no sample: batch %u in %u microbatches over %u replicas",
                        job->global_batch_samples, job->microbatch_count, gal_galvatron_replicas(job, strategy));
    }
    *out = samples;
    return GAL_OK;
}

/* ---- seconds ---- */

/* Compute and a message of `seconds` side by side, each slowed while the other runs; the longer one ends alone. */
static double overlap(double message_seconds, double compute_seconds, double slowdown)
{
    const double shorter = fmin(message_seconds, compute_seconds);
    return shorter * slowdown + fmax(message_seconds, compute_seconds) - shorter;
}

/* All-gathers (half an all-reduce each) of a layer split by tensors, or all-to-alls of one split by sequence. */
static gal_code split_seconds(const gal_galvatron_tables *tables, const gal_galvatron_layer_type *type,
                              const gal_galvatron_strategy *strategy, double samples, double *out, gal_error *err)
{
    const double bytes = samples * type->sequence_length * type->hidden * element_bytes(tables);
    const double again = strategy->recompute ? 1.5 : 1.0;
    double one = 0.0;
    if (strategy->degree == 1) {
        *out = 0.0;
        return GAL_OK;
    }
    const gal_code code =
        gal_galvatron_message_seconds(tables, strategy->ulysses ? GAL_GALVATRON_ALL_TO_ALL : GAL_GALVATRON_ALL_REDUCE,
                                      strategy->degree, bytes, &one, err);
    *out = strategy->ulysses ? 4.0 * again * one : 6.0 * again * 0.5 * one;
    return code;
}

/* What stages send each other, spread over the layers of the type. */
static gal_code border_seconds(const gal_galvatron_tables *tables, const gal_galvatron_job *job,
                               const gal_galvatron_layer_type *type, double samples, double *out, gal_error *err)
{
    double cost = 0.0;
    gal_code code = GAL_OK;
    if (job->pp_degree > 1) {
        code = gal_galvatron_p2p_cost(tables, job->pp_degree, &cost, err);
    }
    *out = 2.0 * job->pp_degree * samples * type->sequence_length * type->hidden * element_bytes(tables) * cost /
           type->layer_count;
    return code;
}

gal_code gal_galvatron_layer_seconds(const gal_galvatron_tables *tables, const gal_galvatron_job *job,
                                     uint32_t layer_type, const gal_galvatron_strategy *strategy,
                                     gal_galvatron_seconds *out, gal_error *err)
{
    const gal_galvatron_profile *profile = gal_galvatron_tables_profile(tables);
    const gal_galvatron_layer_type *type = &profile->layer_type[layer_type];
    const double shards = shard_degree(job, strategy);
    gal_code code = GAL_OK;
    double samples = 0.0;
    double reduce_cost;
    double split;
    double border;
    GAL_TRY(samples_of(job, strategy, &samples, err));
    GAL_TRY(gal_galvatron_reduce_cost(tables, (uint32_t)shards, tensor_degree(strategy) > 1, &reduce_cost, err));
    GAL_TRY(split_seconds(tables, type, strategy, samples, &split, err));
    GAL_TRY(border_seconds(tables, job, type, samples, &border, err));
    const double forward = gal_galvatron_forward_seconds(tables, layer_type, samples / strategy->degree);
    const double backward = forward * BACKWARD_OF_FORWARD + (strategy->recompute ? forward : 0.0);
    /* Parameters are measured in fp32; the sum is of what is computed in. */
    const double volume = 2.0 * (shards - 1.0) / shards * gal_galvatron_parameter_bytes(tables, layer_type) /
                          tensor_degree(strategy) * (element_bytes(tables) / 4.0);
    const double reduce = gal_galvatron_replicas(job, strategy) == 1 ? 0.0 : volume * reduce_cost;
    const double gather = is_zero3(job, strategy) ? 0.5 * volume * reduce_cost : 0.0;
    out->plain = forward + backward + split + gather + border;
    out->synced = forward + overlap(reduce, backward, profile->overlap_slowdown) + split + gather + border;
cleanup:
    return code;
}

static gal_galvatron_place place_of(const gal_galvatron_job *job, uint32_t stage)
{
    return job->pp_degree == 1 ? GAL_GALVATRON_ONLY_STAGE
           : stage == 0        ? GAL_GALVATRON_FIRST_STAGE
                               : GAL_GALVATRON_LAST_STAGE;
}

static bool has_outside(const gal_galvatron_job *job, uint32_t stage)
{
    return stage == 0 || stage + 1 == job->pp_degree;
}

/* Here only compute is slowed by what runs beside it. */
static double hidden_under(double message_seconds, double compute_seconds, double slowdown)
{
    const double slowed = compute_seconds * slowdown;
    return slowed > message_seconds ? message_seconds + (slowed - message_seconds) / slowdown : message_seconds;
}

gal_code gal_galvatron_outside_seconds(const gal_galvatron_tables *tables, const gal_galvatron_job *job,
                                       const gal_galvatron_strategy *strategy, uint32_t stage, double *plain,
                                       gal_error *err)
{
    const gal_galvatron_profile *profile = gal_galvatron_tables_profile(tables);
    const double shards = shard_degree(job, strategy);
    const double here = job->pp_degree == 1 ? 1.0 : 0.5;
    gal_code code = GAL_OK;
    double samples = 0.0;
    double reduce_cost;
    double states;
    double split = 0.0;
    if (!has_outside(job, stage)) {
        *plain = 0.0;
        return GAL_OK;
    }
    GAL_TRY(samples_of(job, strategy, &samples, err));
    GAL_TRY(gal_galvatron_reduce_cost(tables, (uint32_t)shards, tensor_degree(strategy) > 1, &reduce_cost, err));
    GAL_TRY(gal_galvatron_outside_state_bytes(tables, place_of(job, stage), tensor_degree(strategy), &states, err));
    /* One collective where the layers begin (their first type) and one where they end. */
    for (uint32_t end = 0; end < 2; end++) {
        const uint32_t t = end == 0 ? 0 : profile->layer_type_count - 1;
        const gal_galvatron_layer_type *type = &profile->layer_type[t];
        double one;
        if (tensor_degree(strategy) == 1 || (end == 0 ? stage != 0 : stage + 1 != job->pp_degree)) {
            continue;
        }
        GAL_TRY(gal_galvatron_message_seconds(tables, GAL_GALVATRON_ALL_REDUCE, strategy->degree,
                                              samples * type->sequence_length * type->hidden * element_bytes(tables),
                                              &one, err));
        split += 0.5 * one;
    }
    const double forward = here * gal_galvatron_outside_forward_seconds(tables, samples / strategy->degree);
    const double volume =
        states / STATES_OF_PARAMETERS * (element_bytes(tables) / 4.0) * (shards - 1.0) / shards * reduce_cost;
    const double gather = is_zero3(job, strategy) ? 0.5 * volume : 0.0;
    *plain = hidden_under(gather, forward, profile->overlap_slowdown) +
             hidden_under(gather, BACKWARD_OF_FORWARD * forward, profile->overlap_slowdown) + split;
cleanup:
    return code;
}

/* ---- bytes ---- */

/* Which part of the states a device holds. Gradients are kept whole while they are summed over microbatches; a
 * synchronous sum keeps them in fp32, a quarter more. */
static double state_share(const gal_galvatron_tables *tables, const gal_galvatron_job *job,
                          const gal_galvatron_strategy *strategy)
{
    const gal_galvatron_profile *profile = gal_galvatron_tables_profile(tables);
    const bool fp32 = profile->dtype == GAL_GALVATRON_FP32;
    const double gradients = fp32 ? 1.0 / 4.0 : 1.0 / 8.0;
    const double shard = 1.0 / shard_degree(job, strategy) + SHARD_MARGIN;
    const bool zero3 = is_zero3(job, strategy);
    const bool sharded =
        zero3 || (job->data_parallel == GAL_GALVATRON_ZERO2 && gal_galvatron_replicas(job, strategy) > 1);
    const bool accumulates = job->microbatch_count > 1;
    if (!sharded) {
        return 1.0;
    }
    double whole = zero3 ? 0.0 : gradients;
    if (accumulates && !profile->synchronous_reduce) {
        whole += gradients;
    }
    const double share = (1.0 - whole) * shard + whole;
    return accumulates && profile->synchronous_reduce && (zero3 || !fp32) ? share * 1.25 : share;
}

/* Microbatches that a stage holds at once. */
static uint32_t in_flight(const gal_galvatron_job *job, uint32_t stage)
{
    return job->pp_degree == 1                   ? 1
           : job->schedule == GAL_SCHEDULE_GPIPE ? job->microbatch_count
                                                 : job->pp_degree - stage;
}

gal_code gal_galvatron_layer_bytes(const gal_galvatron_tables *tables, const gal_galvatron_job *job,
                                   uint32_t layer_type, const gal_galvatron_strategy *strategy, uint32_t stage,
                                   double *out, gal_error *err)
{
    gal_code code = GAL_OK;
    double samples = 0.0;
    double kept = gal_galvatron_recompute_bytes(tables, layer_type);
    if (strategy->ulysses || gal_galvatron_tables_profile(tables)->sequence_parallel) {
        kept /= strategy->degree;
    }
    GAL_TRY(samples_of(job, strategy, &samples, err));
    if (!strategy->recompute) {
        GAL_TRY(gal_galvatron_activation_bytes(tables, layer_type, strategy->degree, &kept, err));
    }
    *out = STATES_OF_PARAMETERS * gal_galvatron_parameter_bytes(tables, layer_type) / tensor_degree(strategy) *
               state_share(tables, job, strategy) +
           kept * in_flight(job, stage) * samples;
cleanup:
    return code;
}

gal_code gal_galvatron_outside_bytes(const gal_galvatron_tables *tables, const gal_galvatron_job *job,
                                     const gal_galvatron_strategy *strategy, uint32_t stage, double *out,
                                     gal_error *err)
{
    gal_code code = GAL_OK;
    double samples = 0.0;
    double states;
    double kept;
    if (!has_outside(job, stage)) {
        *out = CONTEXT_BYTES;
        return GAL_OK;
    }
    const gal_galvatron_place place = place_of(job, stage);
    GAL_TRY(samples_of(job, strategy, &samples, err));
    GAL_TRY(gal_galvatron_outside_state_bytes(tables, place, tensor_degree(strategy), &states, err));
    GAL_TRY(gal_galvatron_outside_activation_bytes(tables, place, strategy->degree, &kept, err));
    *out = states * state_share(tables, job, strategy) + kept * in_flight(job, stage) * samples + CONTEXT_BYTES;
cleanup:
    return code;
}

double gal_galvatron_buffer_bytes(const gal_galvatron_tables *tables, const gal_galvatron_job *job, uint32_t degree)
{
    const gal_galvatron_profile *profile = gal_galvatron_tables_profile(tables);
    const uint32_t replicas = job->device_count / job->pp_degree / degree;
    if (!profile->sequence_parallel) {
        return 0.0;
    }
    double widest = 0.0;
    double longest = 0.0;
    for (uint32_t t = 0; t < profile->layer_type_count; t++) {
        widest = fmax(widest, profile->layer_type[t].hidden);
        longest = fmax(longest, profile->layer_type[t].sequence_length);
    }
    /* Two bytes whatever is computed in. */
    return (double)job->global_batch_samples / job->microbatch_count / replicas * widest * longest * 2.0;
}

/* ---- a plan ---- */

double gal_galvatron_pipeline_seconds(uint32_t stage_count, uint32_t microbatch_count, const double *plain,
                                      const double *synced)
{
    const double m = microbatch_count;
    double sum = 0.0;
    double exposed = 0.0;
    for (uint32_t i = 0; i < stage_count; i++) {
        sum += plain[i];
        exposed = fmax(exposed, synced[i] - sum);
    }
    const double by_last = sum + plain[stage_count - 1] * (m - 1.0);
    const double filling = fmin(stage_count - 1.0, m - 1.0) * plain[0];
    const double by_first = fmax(filling, sum - plain[0]) + plain[0] * fmax(0.0, m + 1.0 - stage_count);
    return fmax(by_last, by_first) + exposed;
}

/* Of the widest split by tensors; a plan without any needs none. */
static double plan_buffer_bytes(const gal_galvatron_tables *tables, const gal_galvatron_plan *plan)
{
    const gal_galvatron_job job = gal_galvatron_job_of(plan);
    uint32_t degree = tensor_degree(&plan->outside);
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const uint32_t here = tensor_degree(&plan->run[r].strategy);
        degree = here > degree ? here : degree;
    }
    return degree == 1 ? 0.0 : gal_galvatron_buffer_bytes(tables, &job, degree);
}

static gal_code price_stage(const gal_galvatron_tables *tables, const gal_galvatron_plan *plan, uint32_t stage,
                            uint32_t first, double *plain, double *synced, double *bytes, gal_error *err)
{
    const gal_galvatron_profile *profile = gal_galvatron_tables_profile(tables);
    const gal_galvatron_job job = gal_galvatron_job_of(plan);
    gal_code code = GAL_OK;
    double one_bytes;
    double outside_seconds;
    uint32_t type = 0;
    uint32_t type_end = profile->layer_type[0].layer_count;
    GAL_TRY(gal_galvatron_outside_bytes(tables, &job, &plan->outside, stage, bytes, err));
    *plain = 0.0;
    *synced = 0.0;
    for (uint32_t l = first; l < first + plan->stage_layer_count[stage]; l++) {
        gal_galvatron_seconds seconds;
        while (l >= type_end) {
            type_end += profile->layer_type[++type].layer_count;
        }
        const gal_galvatron_strategy *strategy = gal_galvatron_plan_strategy(plan, l);
        GAL_TRY(gal_galvatron_layer_seconds(tables, &job, type, strategy, &seconds, err));
        GAL_TRY(gal_galvatron_layer_bytes(tables, &job, type, strategy, stage, &one_bytes, err));
        *plain += seconds.plain;
        *synced += seconds.synced;
        *bytes += one_bytes;
    }
    GAL_TRY(gal_galvatron_outside_seconds(tables, &job, &plan->outside, stage, &outside_seconds, err));
    *plain += outside_seconds;
cleanup:
    return code;
}

gal_code gal_galvatron_price_plan(const gal_galvatron_tables *tables, const gal_galvatron_plan *plan,
                                  gal_galvatron_price *out, gal_error *err)
{
    const uint32_t layer_count = gal_galvatron_layer_count(gal_galvatron_tables_profile(tables));
    const double buffer = plan_buffer_bytes(tables, plan);
    gal_code code = GAL_OK;
    double *plain = calloc(plan->pp_degree, sizeof *plain);
    double *synced = calloc(plan->pp_degree, sizeof *synced);
    double *bytes = calloc(plan->pp_degree, sizeof *bytes);
    uint32_t first = 0;
    if (plain == NULL || synced == NULL || bytes == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    if (gal_galvatron_plan_layer_count(plan) != layer_count) {
        GAL_TRY(gal_fail(err, GAL_ERR_DOCUMENT, "the plan has %u layers, the profile %u",
                         gal_galvatron_plan_layer_count(plan), layer_count));
    }
    for (uint32_t s = 0; s < plan->pp_degree; s++) {
        GAL_TRY(price_stage(tables, plan, s, first, &plain[s], &synced[s], &bytes[s], err));
        bytes[s] += buffer;
        first += plan->stage_layer_count[s];
    }
    out->stage_count = plan->pp_degree;
    out->iteration_seconds = gal_galvatron_pipeline_seconds(plan->pp_degree, plan->microbatch_count, plain, synced);
    out->samples_per_second = plan->global_batch_samples / out->iteration_seconds;
    if (!(out->iteration_seconds > 0.0) || !isfinite(out->iteration_seconds) || !isfinite(out->samples_per_second)) {
        GAL_TRY(gal_fail(err, GAL_ERR_DOCUMENT, "profile %s: a step would take %g seconds",
                         gal_galvatron_tables_profile(tables)->name, out->iteration_seconds));
    }
    out->stage_bytes = bytes;
    bytes = NULL;
cleanup:
    free(plain);
    free(synced);
    free(bytes);
    return code;
}

void gal_galvatron_price_free(gal_galvatron_price *price)
{
    free(price->stage_bytes);
    *price = (gal_galvatron_price){0};
}
