#include "costmodel/kernel_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/analytic_kernel.h"
#include "costmodel/fit.h"
#include "costmodel/interval.h"
#include "costmodel/work.h"

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

static const gal_kernel_entry *find(const gal_kernel_table *table, const gal_shape *shape)
{
    if (table->count == 0) {
        return NULL;
    }
    for (uint32_t at = shape_hash(shape) & table->slot_mask; table->slot[at] != 0; at = (at + 1) & table->slot_mask) {
        const gal_kernel_entry *entry = &table->entry[table->slot[at] - 1];
        if (shapes_equal(&entry->shape, shape)) {
            return entry;
        }
    }
    return NULL;
}

static gal_code copy_kernels(gal_kernel_table *table, const gal_profile *profile, gal_error *err)
{
    uint32_t slots = 16;
    while (slots < 2 * profile->operator_count) {
        slots *= 2;
    }
    table->entry = calloc((size_t)profile->operator_count + 1, sizeof *table->entry);
    table->slot = calloc(slots, sizeof *table->slot);
    if (table->entry == NULL || table->slot == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: durations");
    }
    table->slot_mask = slots - 1;
    for (uint32_t i = 0; i < profile->operator_count; i++) {
        const gal_profile_operator *from = &profile->operators[i];
        if (find(table, &from->shape) != NULL) {
            continue;
        }
        table->entry[table->count] = (gal_kernel_entry){from->shape, from->seconds, from->spread_seconds, from->source};
        uint32_t at = shape_hash(&from->shape) & table->slot_mask;
        while (table->slot[at] != 0) {
            at = (at + 1) & table->slot_mask;
        }
        table->slot[at] = ++table->count;
    }
    return GAL_OK;
}

static double fitted_seconds(const gal_kernel_fit *fit, const double x[3])
{
    return fit->coefficient[0] * x[0] + fit->coefficient[1] * x[1] + fit->coefficient[2] * x[2];
}

static double log_residual(const gal_kernel_fit *fit, const gal_fit_row *row, uint32_t count)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        const double off = log(fitted_seconds(fit, row[i].x) / row[i].y);
        sum += isfinite(off) ? off * off : 0.0;
    }
    return sqrt(sum / count);
}

/* The measured entries of one (op, dtype), as rows of a fit. */
static void fit_kernels(gal_kernel_table *table, const gal_device *device, gal_op op, gal_dtype dtype, gal_fit_row *row,
                        double *ratio)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        const gal_kernel_entry *entry = &table->entry[i];
        if (entry->shape.op != op || entry->shape.dtype != dtype || entry->source != GAL_SOURCE_MEASURED ||
            !(entry->seconds > 0.0)) {
            continue;
        }
        row[count] = (gal_fit_row){.x = {1.0, gal_shape_flops(&entry->shape), gal_shape_bytes(&entry->shape)},
                                   .y = entry->seconds};
        ratio[count] = entry->seconds / gal_kernel_analytic_seconds(device, &entry->shape);
        count++;
    }
    gal_kernel_fit *fit = &table->fit[op][dtype];
    fit->known = count > 0;
    fit->scaled = count < 4;
    if (fit->known && fit->scaled) {
        fit->coefficient[0] = gal_median(ratio, count);
    } else if (fit->known) {
        gal_fit_non_negative(row, count, fit->coefficient);
        fit->log_residual = log_residual(fit, row, count);
    }
}

static gal_code fit_all(gal_kernel_table *table, const gal_device *device, gal_error *err)
{
    gal_fit_row *row = malloc(((size_t)table->count + 1) * sizeof *row);
    double *ratio = malloc(((size_t)table->count + 1) * sizeof *ratio);
    const bool complete = row != NULL && ratio != NULL;
    if (complete) {
        for (uint32_t op = 0; op < GAL_OP_COUNT; op++) {
            for (uint32_t dtype = 0; dtype < GAL_DTYPE_COUNT; dtype++) {
                fit_kernels(table, device, (gal_op)op, (gal_dtype)dtype, row, ratio);
            }
        }
    }
    free(ratio);
    free(row);
    return complete ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: durations");
}

gal_code gal_kernel_table_create(const gal_profile *profile, gal_kernel_table *out, gal_error *err)
{
    const gal_code code = copy_kernels(out, profile, err);
    return code == GAL_OK ? fit_all(out, &profile->cluster.device, err) : code;
}

void gal_kernel_table_free(gal_kernel_table *table)
{
    free(table->entry);
    free(table->slot);
}

bool gal_kernel_table_seconds(const gal_kernel_table *table, const gal_device *device, const gal_shape *shape,
                              double *seconds, gal_origin *from)
{
    const gal_kernel_entry *entry = find(table, shape);
    if (entry != NULL) {
        *from = gal_origin_of_repeats(entry->source, entry->seconds, entry->spread_seconds);
        *seconds = entry->seconds;
        return true;
    }
    const gal_kernel_fit *fit = &table->fit[shape->op][shape->dtype];
    if (!fit->known) {
        return false;
    }
    const double fitted = fit->scaled
                              ? fit->coefficient[0] * gal_kernel_analytic_seconds(device, shape)
                              : fitted_seconds(fit, (double[]){1.0, gal_shape_flops(shape), gal_shape_bytes(shape)});
    if (!fit->scaled && !(fitted > 0.0)) {
        return false;
    }
    const double analytic = gal_interval_log_deviation(GAL_INTERVAL_ANALYTIC);
    *from = (gal_origin){GAL_SOURCE_FITTED, fit->scaled ? analytic : fit->log_residual};
    *seconds = fitted;
    return true;
}

bool gal_kernel_table_knows(const gal_kernel_table *table, gal_op op)
{
    bool known = false;
    for (uint32_t i = 0; i < table->count && !known; i++) {
        known = table->entry[i].shape.op == op;
    }
    return known;
}

bool gal_kernel_table_has_measurements(const gal_kernel_table *table)
{
    bool any = false;
    for (uint32_t i = 0; i < table->count && !any; i++) {
        any = table->entry[i].source != GAL_SOURCE_ANALYTIC;
    }
    return any;
}
