#include "costmodel/duration.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/analytic_collective.h"
#include "costmodel/analytic_kernel.h"
#include "costmodel/ctas.h"
#include "costmodel/fit.h"
#include "costmodel/host_work.h"
#include "costmodel/interval.h"
#include "costmodel/work.h"

typedef struct kernel_entry {
    gal_shape shape;
    double seconds, spread_seconds;
    gal_source source;
} kernel_entry;

typedef struct kernel_fit {
    bool known;
    bool scaled;           /* analytic times coefficient[0] */
    double coefficient[3]; /* seconds, per flop, per byte */
    double log_residual;   /* root of the mean square of log (fitted / measured), unless scaled */
} kernel_fit;

struct gal_durations {
    gal_cluster cluster;
    double fixed_step_seconds;
    uint64_t fixed_bytes;
    double instruction_seconds;
    gal_host_work host;
    double deviations; /* that all durations are off by, upwards */
    bool borrows;      /* its tables are another's */
    double slowdown[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT];
    double communication_alone;                           /* factor on what a message takes beyond one byte */
    double forward_factor, backward_factor, again_factor; /* again: of kernels that backward runs again */
    uint32_t kernel_count;
    kernel_entry *kernel;
    uint32_t slot_mask;
    uint32_t *slot; /* open addressing: index + 1 into kernel */
    kernel_fit fit[GAL_OP_COUNT][GAL_DTYPE_COUNT];
    uint32_t collective_count;
    gal_profile_collective *collective; /* by op, level_counts, bytes */
};

/* ---- kernels ---- */

static uint32_t shape_hash(const gal_shape *shape)
{
    uint64_t hash = ((uint64_t)shape->op << 8 | (uint64_t)shape->dtype) * UINT64_C(0x9E3779B97F4A7C15);
    for (uint32_t i = 0; i < gal_op_dim_count[shape->op]; i++) {
        hash = (hash ^ shape->dims[i]) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 29;
    }
    return (uint32_t)(hash >> 32);
}

static bool shapes_equal(const gal_shape *a, const gal_shape *b)
{
    return a->op == b->op && a->dtype == b->dtype &&
           memcmp(a->dims, b->dims, gal_op_dim_count[a->op] * sizeof a->dims[0]) == 0;
}

static const kernel_entry *kernel_find(const gal_durations *d, const gal_shape *shape)
{
    if (d->kernel_count == 0) {
        return NULL;
    }
    for (uint32_t at = shape_hash(shape) & d->slot_mask; d->slot[at] != 0; at = (at + 1) & d->slot_mask) {
        const kernel_entry *entry = &d->kernel[d->slot[at] - 1];
        if (shapes_equal(&entry->shape, shape)) {
            return entry;
        }
    }
    return NULL;
}

static gal_code copy_kernels(gal_durations *d, const gal_profile *profile, gal_error *err)
{
    uint32_t slots = 16;
    while (slots < 2 * profile->operator_count) {
        slots *= 2;
    }
    d->kernel = calloc((size_t)profile->operator_count + 1, sizeof *d->kernel);
    d->slot = calloc(slots, sizeof *d->slot);
    if (d->kernel == NULL || d->slot == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: durations");
    }
    d->slot_mask = slots - 1;
    for (uint32_t i = 0; i < profile->operator_count; i++) {
        const gal_profile_operator *from = &profile->operators[i];
        if (kernel_find(d, &from->shape) != NULL) {
            continue;
        }
        d->kernel[d->kernel_count] = (kernel_entry){from->shape, from->seconds, from->spread_seconds, from->source};
        uint32_t at = shape_hash(&from->shape) & d->slot_mask;
        while (d->slot[at] != 0) {
            at = (at + 1) & d->slot_mask;
        }
        d->slot[at] = ++d->kernel_count;
    }
    return GAL_OK;
}

static double fitted_seconds(const kernel_fit *fit, const double x[3])
{
    return fit->coefficient[0] * x[0] + fit->coefficient[1] * x[1] + fit->coefficient[2] * x[2];
}

static double log_residual(const kernel_fit *fit, const gal_fit_row *row, uint32_t count)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        const double off = log(fitted_seconds(fit, row[i].x) / row[i].y);
        sum += isfinite(off) ? off * off : 0.0;
    }
    return sqrt(sum / count);
}

/* The measured entries of one (op, dtype), as rows of a fit. */
static void fit_kernels(gal_durations *d, gal_op op, gal_dtype dtype, gal_fit_row *row, double *ratio)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < d->kernel_count; i++) {
        const kernel_entry *entry = &d->kernel[i];
        if (entry->shape.op != op || entry->shape.dtype != dtype || entry->source != GAL_SOURCE_MEASURED ||
            !(entry->seconds > 0.0)) {
            continue;
        }
        row[count] = (gal_fit_row){.x = {1.0, gal_shape_flops(&entry->shape), gal_shape_bytes(&entry->shape)},
                                   .y = entry->seconds};
        ratio[count] = entry->seconds / gal_kernel_analytic_seconds(&d->cluster.device, &entry->shape);
        count++;
    }
    kernel_fit *fit = &d->fit[op][dtype];
    fit->known = count > 0;
    fit->scaled = count < 4;
    if (fit->known && fit->scaled) {
        fit->coefficient[0] = gal_median(ratio, count);
    } else if (fit->known) {
        gal_fit_non_negative(row, count, fit->coefficient);
        fit->log_residual = log_residual(fit, row, count);
    }
}

static gal_code fit_all(gal_durations *d, gal_error *err)
{
    gal_fit_row *row = malloc(((size_t)d->kernel_count + 1) * sizeof *row);
    double *ratio = malloc(((size_t)d->kernel_count + 1) * sizeof *ratio);
    const bool complete = row != NULL && ratio != NULL;
    if (complete) {
        for (uint32_t op = 0; op < GAL_OP_COUNT; op++) {
            for (uint32_t dtype = 0; dtype < GAL_DTYPE_COUNT; dtype++) {
                fit_kernels(d, (gal_op)op, (gal_dtype)dtype, row, ratio);
            }
        }
    }
    free(ratio);
    free(row);
    return complete ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: durations");
}

/* What is known of a duration: how it was had, and what else than that makes its logarithm stray. */
typedef struct origin {
    gal_source source;
    double log_deviation;
} origin;

/* Of repeats of which half lie within spread_seconds around the median. */
static origin of_repeats(gal_source source, double seconds, double spread_seconds)
{
    return (origin){source, seconds > 0.0 ? spread_seconds / seconds / GAL_NORMAL_AT_75 : 0.0};
}

static double at_quantile(const gal_durations *d, double seconds, origin from)
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

static double predicted_kernel_seconds(const gal_durations *d, const gal_shape *shape, origin *from)
{
    const kernel_entry *entry = kernel_find(d, shape);
    if (entry != NULL) {
        *from = of_repeats(entry->source, entry->seconds, entry->spread_seconds);
        return entry->seconds;
    }
    const kernel_fit *fit = &d->fit[shape->op][shape->dtype];
    *from = (origin){GAL_SOURCE_FITTED,
                     fit->scaled ? gal_interval_log_deviation(GAL_INTERVAL_ANALYTIC) : fit->log_residual};
    if (fit->known && fit->scaled) {
        return fit->coefficient[0] * gal_kernel_analytic_seconds(&d->cluster.device, shape);
    }
    if (fit->known) {
        const double fitted = fitted_seconds(fit, (double[]){1.0, gal_shape_flops(shape), gal_shape_bytes(shape)});
        if (fitted > 0.0) {
            return fitted;
        }
    }
    const bool known = gal_host_work_knows(&d->host, shape->op);
    *from = (origin){known ? GAL_SOURCE_FITTED : GAL_SOURCE_ANALYTIC, 0.0};
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
    origin from;
    const gal_shape like = measured_as(asked), *shape = &like;
    const double seconds = predicted_kernel_seconds(d, shape, &from);
    if (source != NULL) {
        *source = from.source;
    }
    return d->deviations == 0.0 ? seconds : at_quantile(d, seconds, from);
}

/* ---- collectives ---- */

static int compare_key(gal_op op, const uint32_t *level_counts, const gal_profile_collective *b)
{
    if (op != b->op) {
        return op < b->op ? -1 : 1;
    }
    for (uint32_t i = 0; i < GAL_LINK_LEVELS_MAX; i++) {
        if (level_counts[i] != b->level_counts[i]) {
            return level_counts[i] < b->level_counts[i] ? -1 : 1;
        }
    }
    return 0;
}

static int compare_collectives(const void *left, const void *right)
{
    const gal_profile_collective *a = left;
    const gal_profile_collective *b = right;
    const int key = compare_key(a->op, a->level_counts, b);
    return key != 0 ? key : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static gal_code copy_collectives(gal_durations *d, const gal_profile *profile, gal_error *err)
{
    d->collective = calloc((size_t)profile->collective_count + 1, sizeof *d->collective);
    if (d->collective == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: durations");
    }
    for (uint32_t i = 0; i < profile->collective_count; i++) {
        gal_profile_collective *to = &d->collective[d->collective_count];
        *to = profile->collectives[i];
        for (uint32_t level = 0; level < GAL_LINK_LEVELS_MAX; level++) {
            to->level_counts[level] += to->level_counts[level] == 0;
        }
        d->collective_count += to->seconds > 0.0 && to->bytes > 0;
    }
    qsort(d->collective, d->collective_count, sizeof *d->collective, compare_collectives);
    return GAL_OK;
}

static uint32_t member_count(const uint32_t *level_counts)
{
    uint32_t count = 1;
    for (uint32_t i = 0; i < GAL_LINK_LEVELS_MAX; i++) {
        count *= level_counts[i];
    }
    return count;
}

/* The entries of a key are [*first, *end). */
static bool collective_range(const gal_durations *d, gal_op op, const uint32_t *level_counts, uint32_t *first,
                             uint32_t *end)
{
    uint32_t low = 0;
    for (uint32_t high = d->collective_count; low < high;) {
        const uint32_t middle = low + (high - low) / 2;
        if (compare_key(op, level_counts, &d->collective[middle]) > 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *first = low;
    while (low < d->collective_count && compare_key(op, level_counts, &d->collective[low]) == 0) {
        low++;
    }
    *end = low;
    return *end > *first;
}

static double between(const gal_profile_collective *a, const gal_profile_collective *b, double bytes)
{
    const double share = (log(bytes) - log((double)a->bytes)) / (log((double)b->bytes) - log((double)a->bytes));
    return exp(log(a->seconds) + share * (log(b->seconds) - log(a->seconds)));
}

static double beyond(const gal_durations *d, const gal_profile_collective *nearest, uint64_t bytes)
{
    const double there =
        gal_collective_analytic_seconds(&d->cluster, nearest->op, nearest->level_counts, nearest->bytes);
    const double here = gal_collective_analytic_seconds(&d->cluster, nearest->op, nearest->level_counts, bytes);
    return there > 0.0 && isfinite(there) ? nearest->seconds * here / there : nearest->seconds;
}

static origin of_entry(const gal_profile_collective *entry, gal_source source)
{
    return of_repeats(source, entry->seconds, entry->spread_seconds);
}

/* With as many blocks of a GPU as the library takes. */
static double library_seconds(const gal_durations *d, gal_op op, const uint32_t *level_counts, uint64_t bytes,
                              origin *from)
{
    const gal_op key = op == GAL_OP_RECEIVE ? GAL_OP_SEND : op;
    *from = (origin){GAL_SOURCE_ANALYTIC, 0.0};
    uint32_t first = 0;
    uint32_t end = 0;
    if (member_count(level_counts) <= 1 || bytes == 0 || !collective_range(d, key, level_counts, &first, &end)) {
        return gal_collective_analytic_seconds(&d->cluster, key, level_counts, bytes);
    }
    const gal_profile_collective *less = NULL, *more = NULL;
    for (uint32_t i = first; i < end && more == NULL; i++) {
        const gal_profile_collective *entry = &d->collective[i];
        if (entry->bytes == bytes) {
            *from = of_entry(entry, entry->source);
            return entry->seconds;
        }
        if (entry->source != GAL_SOURCE_ANALYTIC && entry->bytes < bytes) {
            less = entry;
        } else if (entry->source != GAL_SOURCE_ANALYTIC) {
            more = entry;
        }
    }
    if (less == NULL && more == NULL) {
        return gal_collective_analytic_seconds(&d->cluster, key, level_counts, bytes);
    }
    if (less == NULL || more == NULL) {
        *from = (origin){GAL_SOURCE_FITTED, gal_interval_log_deviation(GAL_INTERVAL_ANALYTIC)};
        return beyond(d, less != NULL ? less : more, bytes);
    }
    const origin low = of_entry(less, GAL_SOURCE_FITTED), high = of_entry(more, GAL_SOURCE_FITTED);
    *from = low.log_deviation > high.log_deviation ? low : high;
    return between(less, more, (double)bytes);
}

double gal_collective_seconds(const gal_durations *d, gal_op op, const uint32_t level_counts[GAL_LINK_LEVELS_MAX],
                              uint64_t bytes, gal_source *source)
{
    origin from, ignored;
    double seconds = library_seconds(d, op, level_counts, bytes, &from);
    if (source != NULL) {
        *source = from.source;
    }
    if (d->communication_alone != 1.0) {
        const double one_byte = library_seconds(d, op, level_counts, 1, &ignored);
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
    GAL_TRY(copy_kernels(d, profile, err));
    GAL_TRY(fit_all(d, err));
    GAL_TRY(copy_collectives(d, profile, err));
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
        .slowdown = {[GAL_ACTIVITY_COMPUTE] = {2.0, 1.1, 1.0},
                     [GAL_ACTIVITY_COMMUNICATION] = {1.3, 2.0, 1.0},
                     [GAL_ACTIVITY_COPY] = {1.0, 1.0, 1.0}},
    };
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
    const origin measured = {GAL_SOURCE_MEASURED, 0.0};
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
    bool any = d->fixed_step_seconds > 0.0 || d->instruction_seconds > 0.0;
    for (uint32_t i = 0; i < d->kernel_count && !any; i++) {
        any = d->kernel[i].source != GAL_SOURCE_ANALYTIC;
    }
    for (uint32_t i = 0; i < d->collective_count && !any; i++) {
        any = d->collective[i].source != GAL_SOURCE_ANALYTIC;
    }
    return any;
}

void gal_durations_free(gal_durations *d)
{
    if (d != NULL && d->borrows) {
        free(d);
    } else if (d != NULL) {
        free(d->kernel);
        free(d->slot);
        free(d->collective);
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

uint8_t gal_kernel_activity(const gal_durations *d, gal_op op)
{
    if (!is_beside(d, op)) {
        return GAL_ACTIVITY_COMPUTE;
    }
    return op == GAL_OP_COPY_OUT || op == GAL_OP_COPY_IN ? GAL_ACTIVITY_COPY : GAL_ACTIVITY_BESIDE;
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
    return (gal_cost){.seconds = gal_kernel_seconds(d, shape, NULL),
                      .activity = gal_kernel_activity(d, (gal_op)in->op)};
}

void gal_instruction_costs(const gal_durations *d, const gal_program *program, uint32_t first, uint32_t count,
                           gal_cost *cost)
{
    const gal_place_in_cluster place = {.atoms = &program->atoms,
                                        .device_count = program->device_count,
                                        .stage = program->stage,
                                        .stage_count = program->stage_count};
    for (uint32_t i = 0; i < count; i++) {
        const gal_instruction *in = &program->instruction[first + i];
        cost[i] = gal_one_cost(d, &place, in, &program->shape[in->shape]);
        if (!gal_op_is_collective[in->op]) {
            cost[i].seconds =
                gal_kernel_in_company(d, program, gal_program_fragment_of(program, first + i), in, cost[i].seconds);
        }
    }
}
