#include "costmodel/duration.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/analytic_kernel.h"
#include "costmodel/collective_table.h"
#include "costmodel/ctas.h"
#include "costmodel/fit.h"
#include "costmodel/host_work.h"
#include "costmodel/interval.h"
#include "costmodel/kernel_table.h"

struct gal_durations {
    gal_cluster cluster;
    double fixed_step_seconds;
    uint64_t fixed_bytes;
    double instruction_seconds;
    gal_host_work host;
    double deviations; /* that all durations are off by, upwards */
    bool borrows;      /* its tables are another's */
    double slowdown[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT];
    gal_company_factors company;
    double communication_alone;                           /* factor on what a message takes beyond one byte */
    double forward_factor, backward_factor, again_factor; /* again: of kernels that backward runs again */
    gal_kernel_table kernels;
    gal_collective_table collectives;
};

static double at_quantile(const gal_durations *d, double seconds, gal_origin from)
{
    const bool analytic = from.source == GAL_SOURCE_ANALYTIC;
    const double spread = analytic ? GAL_INTERVAL_ANALYTIC : GAL_INTERVAL_MEASURED;
    const double deviation = hypot(gal_interval_log_deviation(spread), analytic ? 0.0 : from.log_deviation);
    return seconds * exp(d->deviations * deviation);
}

/* What goes on beside the device, and is not slowed by it. */
static bool is_beside(const gal_durations *d, gal_op op)
{
    return gal_is_storage_work(op) || (d->host.beside && gal_is_host_work(op));
}

static double predicted_kernel_seconds(const gal_durations *d, const gal_shape *shape, gal_origin *from)
{
    double seconds;
    if (gal_kernel_table_seconds(&d->kernels, &d->cluster.device, shape, &seconds, from)) {
        return seconds;
    }
    const bool known = gal_host_work_knows(&d->host, shape->op);
    *from = (gal_origin){known ? GAL_SOURCE_FITTED : GAL_SOURCE_ANALYTIC, 0.0};
    return known || is_beside(d, shape->op) ? gal_host_work_seconds(&d->host, shape)
                                            : gal_kernel_analytic_seconds(&d->cluster.device, shape);
}

/* A part of an update takes what an update of as many elements does. */
static gal_shape measured_as(const gal_shape *shape)
{
    const bool part = shape->op == GAL_OP_HOST_ADAM_PART;
    return part ? (gal_shape){.op = GAL_OP_HOST_ADAM, .dtype = shape->dtype, .dims = {shape->dims[0], shape->dims[1]}}
                : *shape;
}

double gal_kernel_seconds(const gal_durations *d, const gal_shape *asked, gal_source *source)
{
    gal_origin from;
    const gal_shape like = measured_as(asked), *shape = &like;
    const double seconds = predicted_kernel_seconds(d, shape, &from);
    if (source != NULL) {
        *source = from.source;
    }
    return d->deviations == 0.0 ? seconds : at_quantile(d, seconds, from);
}

double gal_collective_seconds(const gal_durations *d, gal_op op, const uint32_t level_counts[GAL_LINK_LEVELS_MAX],
                              uint64_t bytes, gal_source *source)
{
    gal_origin from, ignored;
    double seconds = gal_collective_table_seconds(&d->collectives, &d->cluster, op, level_counts, bytes, &from);
    if (source != NULL) {
        *source = from.source;
    }
    if (d->communication_alone != 1.0) {
        const double one_byte =
            gal_collective_table_seconds(&d->collectives, &d->cluster, op, level_counts, 1, &ignored);
        seconds = seconds > one_byte ? one_byte + (seconds - one_byte) * d->communication_alone : seconds;
    }
    return d->deviations == 0.0 ? seconds : at_quantile(d, seconds, from);
}

/* ---- creation ---- */

static void set_slowdown(gal_durations *d, const gal_profile *profile, uint32_t ctas)
{
    const gal_profile_gpu *gpu = &profile->gpu;
    memcpy(d->slowdown, profile->slowdown, sizeof d->slowdown);
    d->communication_alone = 1.0;
    if (ctas == 0 || !profile->has_gpu || gpu->by_ctas_count == 0) {
        return;
    }
    const gal_profile_ctas at = gal_ctas_between(gpu, ctas);
    d->slowdown[GAL_ACTIVITY_COMPUTE][GAL_ACTIVITY_COMMUNICATION] = at.compute;
    d->slowdown[GAL_ACTIVITY_COMMUNICATION][GAL_ACTIVITY_COMPUTE] = at.communication;
    d->communication_alone = gal_ctas_know_alone(gpu) ? at.communication_alone : 1.0;
}

/* What a backward with recompute takes more than the one without, over what its operators take more. False if it was
 * not measured. */
static bool ratio_of_more(const gal_profile_block *block, const gal_profile_again *again, double *ratio)
{
    const double operator_seconds = again->operator_seconds - block->backward_operator_seconds;
    if (!(again->seconds > 0.0 && operator_seconds > 0.0)) {
        return false;
    }
    *ratio = (again->seconds - block->backward_seconds) / operator_seconds;
    return true;
}

/* Median over the blocks of measured seconds / sum of the operators' seconds; 1 without blocks. Of what runs again the
 * measurements are differences: a median that is not positive is noise. */
static gal_code company_factors(gal_durations *d, const gal_profile *profile, gal_error *err)
{
    double *forward = malloc(4 * ((size_t)profile->block_count + 1) * sizeof *forward);
    if (forward == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: durations");
    }
    double *backward = forward + profile->block_count + 1, *again = backward + profile->block_count + 1;
    uint32_t count = 0, again_count = 0;
    for (uint32_t i = 0; i < profile->block_count; i++) {
        const gal_profile_block *block = &profile->blocks[i];
        if (block->forward_operator_seconds > 0.0 && block->backward_operator_seconds > 0.0 &&
            block->forward_seconds > 0.0 && block->backward_seconds > 0.0) {
            forward[count] = block->forward_seconds / block->forward_operator_seconds;
            backward[count] = block->backward_seconds / block->backward_operator_seconds;
            count++;
            again_count += ratio_of_more(block, &block->backward_full, &again[again_count]);
            again_count += ratio_of_more(block, &block->backward_selective, &again[again_count]);
        }
    }
    d->forward_factor = count > 0 ? gal_median(forward, count) : 1.0;
    d->backward_factor = count > 0 ? gal_median(backward, count) : 1.0;
    const double ratio = again_count > 0 ? gal_median(again, again_count) : 0.0;
    d->again_factor = ratio > 0.0 ? ratio : d->backward_factor;
    free(forward);
    return GAL_OK;
}

gal_code gal_durations_create_at(const gal_profile *profile, uint32_t communication_ctas, gal_durations **out,
                                 gal_error *err)
{
    gal_code code = GAL_OK;
    gal_durations *d = calloc(1, sizeof *d);
    if (d == NULL) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "out of memory: durations");
        goto cleanup;
    }
    d->cluster = profile->cluster;
    d->fixed_step_seconds = profile->fixed_step_seconds;
    d->fixed_bytes = profile->fixed_bytes;
    d->instruction_seconds = profile->instruction_seconds;
    gal_host_work_of(profile, &d->host);
    set_slowdown(d, profile, communication_ctas);
    d->company = gal_company_factors_of((const double(*)[GAL_ACTIVITY_COUNT])d->slowdown);
    GAL_TRY(gal_kernel_table_create(profile, &d->kernels, err));
    GAL_TRY(gal_collective_table_create(profile, &d->collectives, err));
    GAL_TRY(company_factors(d, profile, err));
    *out = d;
    d = NULL;
cleanup:
    gal_durations_free(d);
    return code;
}

gal_code gal_durations_create(const gal_profile *profile, gal_durations **out, gal_error *err)
{
    return gal_durations_create_at(profile, 0, out, err);
}

void gal_profile_analytic(const gal_cluster *cluster, gal_profile *out)
{
    *out = (gal_profile){
        .cluster = *cluster,
        .rank_count = cluster->device_count,
        .slowdown = {[GAL_ACTIVITY_COMPUTE] = {2.0, 1.1, 1.0, 1.0},
                     [GAL_ACTIVITY_COMMUNICATION] = {1.3, 2.0, 1.0, 1.0},
                     [GAL_ACTIVITY_COPY] = {1.0, 1.0, 1.0, 1.0},
                     [GAL_ACTIVITY_STORAGE] = {1.0, 1.0, 1.0, 1.0}},
    };
    if (cluster->device.multiprocessor_count == 0) {
        gal_profile_copies_are_kernels(out);
    }
}

gal_code gal_durations_create_analytic(const gal_cluster *cluster, gal_durations **out, gal_error *err)
{
    gal_profile profile;
    gal_profile_analytic(cluster, &profile);
    return gal_durations_create(&profile, out, err);
}

void gal_durations_set_quantile(gal_durations *d, double quantile)
{
    GAL_ASSERT(d->deviations == 0.0);
    d->deviations = gal_normal_quantile(quantile);
    const gal_origin measured = {GAL_SOURCE_MEASURED, 0.0};
    d->fixed_step_seconds = at_quantile(d, d->fixed_step_seconds, measured);
    d->instruction_seconds = at_quantile(d, d->instruction_seconds, measured);
}

gal_code gal_durations_create_quantile(const gal_durations *of, double quantile, gal_durations **out, gal_error *err)
{
    gal_durations *d = malloc(sizeof *d);
    if (d == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: durations");
    }
    *d = *of;
    d->borrows = true;
    gal_durations_set_quantile(d, quantile);
    *out = d;
    return GAL_OK;
}

bool gal_durations_have_measurements(const gal_durations *d)
{
    return d->fixed_step_seconds > 0.0 || d->instruction_seconds > 0.0 ||
           gal_kernel_table_has_measurements(&d->kernels) || gal_collective_table_has_measurements(&d->collectives);
}

bool gal_durations_know_kernel(const gal_durations *d, gal_op op)
{
    return gal_kernel_table_knows(&d->kernels, op);
}

void gal_durations_free(gal_durations *d)
{
    if (d != NULL && d->borrows) {
        free(d);
    } else if (d != NULL) {
        gal_kernel_table_free(&d->kernels);
        gal_collective_table_free(&d->collectives);
        free(d);
    }
}

const gal_cluster *gal_durations_cluster(const gal_durations *d)
{
    return &d->cluster;
}

double gal_durations_fixed_step_seconds(const gal_durations *d)
{
    return d->fixed_step_seconds;
}

uint64_t gal_durations_fixed_bytes(const gal_durations *d)
{
    return d->fixed_bytes;
}

double gal_durations_slowdown(const gal_durations *d, gal_activity slowed, gal_activity beside)
{
    return d->slowdown[slowed][beside];
}

const gal_company_factors *gal_durations_company(const gal_durations *d)
{
    return &d->company;
}

/* ---- programs ---- */

gal_cost gal_collective_cost(const gal_durations *d, gal_op op, const uint32_t level_counts[GAL_LINK_LEVELS_MAX],
                             uint64_t bytes)
{
    uint8_t level = 0;
    for (uint32_t i = 0; i < d->cluster.level_count; i++) {
        level = level_counts[i] > 1 ? (uint8_t)i : level;
    }
    return (gal_cost){.seconds = gal_collective_seconds(d, op, level_counts, bytes, NULL),
                      .activity = GAL_ACTIVITY_COMMUNICATION,
                      .level = level};
}

/* Whether the chunk's forward has the kernel too. */
static bool runs_again(const gal_program *program, uint32_t chunk, const gal_instruction *in)
{
    const gal_fragment *forward = &program->fragment[gal_fragment_number(GAL_FRAGMENT_FORWARD, chunk)];
    for (uint32_t i = forward->first; i < forward->first + forward->count; i++) {
        const gal_instruction *other = &program->instruction[i];
        if (other->block == in->block && other->shape == in->shape && strcmp(other->name, in->name) == 0) {
            return true;
        }
    }
    return false;
}

/* On ranks that are processors a copy is a kernel of the rank's thread, with factors of its own. */
static uint8_t activity_of(const gal_durations *d, gal_op op)
{
    if (gal_is_storage_work(op)) {
        return GAL_ACTIVITY_STORAGE;
    }
    if (op == GAL_OP_COPY_OUT || op == GAL_OP_COPY_IN) {
        return GAL_ACTIVITY_COPY;
    }
    return is_beside(d, op) ? GAL_ACTIVITY_BESIDE : GAL_ACTIVITY_COMPUTE;
}

gal_cost gal_kernel_cost(const gal_durations *d, gal_op op, double seconds)
{
    return (gal_cost){.seconds = seconds, .activity = activity_of(d, op)};
}

double gal_kernel_in_company(const gal_durations *d, const gal_program *program, uint32_t fragment,
                             const gal_instruction *in, double seconds)
{
    double factor = d->forward_factor;
    if (is_beside(d, (gal_op)in->op)) {
        return seconds + d->instruction_seconds;
    }
    switch (gal_fragment_kind_of(fragment)) {
    case GAL_FRAGMENT_BACKWARD:
    case GAL_FRAGMENT_BACKWARD_SYNC:
    case GAL_FRAGMENT_WEIGHT:
    case GAL_FRAGMENT_WEIGHT_SYNC: /* a part of backward */
        factor = d->again_factor != d->backward_factor && runs_again(program, gal_fragment_chunk(fragment), in)
                     ? d->again_factor
                     : d->backward_factor;
        break;
    case GAL_FRAGMENT_UPDATE:
        factor = 1.0;
        break;
    default:
        break;
    }
    return seconds * factor + d->instruction_seconds;
}

gal_cost gal_one_cost(const gal_durations *d, const gal_place_in_cluster *place, const gal_instruction *in,
                      const gal_shape *shape)
{
    if (gal_op_is_collective[in->op]) {
        uint32_t level_counts[GAL_LINK_LEVELS_MAX];
        gal_group_level_counts(&d->cluster, place, in->group, level_counts);
        return gal_collective_cost(d, (gal_op)in->op, level_counts, in->bytes);
    }
    return gal_kernel_cost(d, (gal_op)in->op, gal_kernel_seconds(d, shape, NULL));
}

void gal_instruction_costs(const gal_durations *d, const gal_program *program, uint32_t first, uint32_t count,
                           gal_cost *cost)
{
    const gal_place_in_cluster place = {.atoms = &program->atoms,
                                        .device_count = program->device_count,
                                        .stage = program->stage,
                                        .stage_count = program->stage_count};
    enum { KEPT = 64 };
    uint32_t shape[KEPT]; /* [number of a shape, less multiples]: the one asked for last: blocks have the same ones */
    gal_cost alone[KEPT];
    memset(shape, 0xFF, sizeof shape);
    for (uint32_t i = 0; i < count; i++) {
        const gal_instruction *in = &program->instruction[first + i];
        const uint32_t at = in->shape % KEPT;
        if (gal_op_is_collective[in->op]) {
            cost[i] = gal_one_cost(d, &place, in, &program->shape[in->shape]);
            continue;
        }
        if (shape[at] != in->shape) {
            shape[at] = in->shape;
            alone[at] = gal_one_cost(d, &place, in, &program->shape[in->shape]);
        }
        cost[i] = alone[at];
        cost[i].seconds =
            gal_kernel_in_company(d, program, gal_program_fragment_of(program, first + i), in, cost[i].seconds);
    }
}
