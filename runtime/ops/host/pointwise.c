/* Operators that treat elements or rows one by one: residual, dropout, copies. */
#include <string.h>

#include "runtime/ops/host/kernels.h"

GAL_VECTOR
static void biased_span(const gal_real *x, const gal_real *o, const gal_real *bias, const gal_real *factor,
                        size_t count, gal_real *y)
{
    if (factor == NULL) {
        for (size_t j = 0; j < count; j++) {
            y[j] = x[j] + (o[j] + bias[j]);
        }
    } else {
        for (size_t j = 0; j < count; j++) {
            y[j] = x[j] + (o[j] + bias[j]) * factor[j];
        }
    }
}

GAL_VECTOR
static void plain_span(const gal_real *x, const gal_real *o, const gal_real *factor, size_t count, gal_real *y)
{
    if (factor == NULL) {
        for (size_t j = 0; j < count; j++) {
            y[j] = x[j] + o[j];
        }
    } else {
        for (size_t j = 0; j < count; j++) {
            y[j] = x[j] + o[j] * factor[j];
        }
    }
}

/* bias and factor may be NULL. */
static void residual_span(const gal_real *x, const gal_real *o, const gal_real *bias, const gal_real *factor,
                          size_t count, gal_real *y)
{
    if (bias == NULL) {
        plain_span(x, o, factor, count, y);
    } else {
        biased_span(x, o, bias, factor, count, y);
    }
}

static void residual_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const gal_kernel_call *call = at->call;
    const uint32_t samples = call->dims[0], hidden = call->dims[2];
    const uint32_t begin = (uint32_t)gal_cut_begin(&at->cut, part), end = (uint32_t)gal_cut_begin(&at->cut, part + 1);
    const gal_real *x = call->operand[0];
    const gal_real *o = call->operand[1];
    gal_real *y = call->operand[2];
    const gal_real *bias = call->dims[3] != 0 ? call->operand[3] : NULL;
    const gal_dropout dropout = gal_dropout_of(call, call->step->model->residual_dropout, 0);
    gal_real factor[GAL_DROPOUT_CHUNK];
    for (uint32_t p = begin; p < end; p++) {
        for (uint32_t s = 0; s < samples; s++) {
            const size_t row = ((size_t)p * samples + s) * hidden;
            if (!dropout.active) {
                residual_span(x + row, o + row, bias, NULL, hidden, y + row);
                continue;
            }
            const uint64_t index = gal_dropout_row(call, p, s, hidden);
            for (size_t j = 0; j < hidden; j += GAL_DROPOUT_CHUNK) {
                const size_t count = hidden - j < GAL_DROPOUT_CHUNK ? hidden - j : GAL_DROPOUT_CHUNK;
                gal_dropout_factors(&dropout, index + j, count, factor);
                residual_span(x + row + j, o + row + j, bias != NULL ? bias + j : NULL, factor, count, y + row + j);
            }
        }
    }
}

gal_code GAL_KERNEL(residual)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, call->dims[1], 1, (size_t)call->dims[0] * call->dims[2], residual_part);
    return GAL_OK;
}

static void dropout_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const gal_kernel_call *call = at->call;
    const uint32_t samples = call->dims[0], hidden = call->dims[2];
    const uint32_t begin = (uint32_t)gal_cut_begin(&at->cut, part), end = (uint32_t)gal_cut_begin(&at->cut, part + 1);
    const gal_real *x = call->operand[0];
    gal_real *y = call->operand[1];
    const gal_dropout dropout = gal_dropout_of(call, call->step->model->residual_dropout, 0);
    if (!dropout.active) {
        const size_t first = (size_t)begin * samples * hidden;
        memmove(y + first, x + first, (size_t)(end - begin) * samples * hidden * sizeof *y);
        return;
    }
    for (uint32_t p = begin; p < end; p++) {
        for (uint32_t s = 0; s < samples; s++) {
            const size_t row = ((size_t)p * samples + s) * hidden;
            gal_dropout_apply_row(&dropout, gal_dropout_row(call, p, s, hidden), hidden, x + row, y + row);
        }
    }
}

gal_code GAL_KERNEL(dropout)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, call->dims[1], 1, (size_t)call->dims[0] * call->dims[2], dropout_part);
    return GAL_OK;
}

gal_code GAL_KERNEL(first_position)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    const size_t bytes = (size_t)call->dims[0] * call->dims[2] * sizeof(gal_real);
    if (call->position_begin == 0) {
        memcpy(call->operand[1], call->operand[0], bytes);
    } else {
        memset(call->operand[1], 0, bytes);
    }
    return GAL_OK;
}

gal_code GAL_KERNEL(first_position_backward)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    const size_t bytes = (size_t)call->dims[0] * call->dims[2] * sizeof(gal_real);
    memset(call->operand[1], 0, call->dims[1] * bytes);
    if (call->position_begin == 0) {
        memcpy(call->operand[1], call->operand[0], bytes);
    }
    return GAL_OK;
}

/* Where source rows follow one another (innermost stride 1) they are copied as one piece. */
gal_code GAL_KERNEL(permute)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    const size_t row_elements = call->dims[0];
    const uint32_t *count = call->dims + 1;
    const uint32_t *stride = call->dims + 6;
    const bool contiguous = stride[4] == 1;
    const size_t piece = row_elements * (contiguous ? count[4] : 1U);
    const uint32_t pieces = contiguous ? 1U : count[4];
    const gal_real *source = call->operand[0];
    gal_real *target = call->operand[1];
    for (size_t c0 = 0; c0 < count[0]; c0++) {
        for (size_t c1 = 0; c1 < count[1]; c1++) {
            for (size_t c2 = 0; c2 < count[2]; c2++) {
                for (size_t c3 = 0; c3 < count[3]; c3++) {
                    const size_t row = c0 * stride[0] + c1 * stride[1] + c2 * stride[2] + c3 * stride[3];
                    for (size_t c4 = 0; c4 < pieces; c4++) {
                        memcpy(target, source + (row + c4 * stride[4]) * row_elements, piece * sizeof *target);
                        target += piece;
                    }
                }
            }
        }
    }
    return GAL_OK;
}

GAL_VECTOR
static void add_elements(const gal_real *source, gal_real *target, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        target[i] += source[i];
    }
}

static void add_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const size_t begin = gal_cut_begin(&at->cut, part), count = gal_cut_begin(&at->cut, part + 1) - begin;
    const gal_real *source = at->call->operand[0];
    gal_real *target = at->call->operand[1];
    if (at->call->add) {
        add_elements(source + begin, target + begin, count);
    } else {
        memmove(target + begin, source + begin, count * sizeof *target);
    }
}

gal_code GAL_KERNEL(add)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, call->dims[0], GAL_COLUMN_UNIT, 1, add_part);
    return GAL_OK;
}

static void fill_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const size_t begin = gal_cut_begin(&at->cut, part);
    gal_real *target = at->call->operand[0];
    memset(target + begin, 0, (gal_cut_begin(&at->cut, part + 1) - begin) * sizeof *target);
}

gal_code GAL_KERNEL(fill)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, call->dims[0], GAL_COLUMN_UNIT, 1, fill_part);
    return GAL_OK;
}
