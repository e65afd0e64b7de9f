/* Token and position embedding. Token ids outside this rank's rows of the table belong to another rank. */
#include <string.h>

#include "runtime/ops/host/kernels.h"

/* Row of the local table, or -1. */
static int64_t local_row(const gal_kernel_call *call, const int32_t *tokens, size_t sample, size_t position)
{
    const int64_t sequence = call->dims[1], vocabulary_local = call->dims[3];
    const int64_t id = tokens[(int64_t)sample * sequence + (int64_t)position];
    const int64_t row = id - (int64_t)call->group_index * vocabulary_local;
    return row >= 0 && row < vocabulary_local ? row : -1;
}

gal_code GAL_KERNEL(embed)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    const size_t samples = call->dims[0], sequence = call->dims[1], hidden = call->dims[2];
    const int32_t *tokens = call->operand[0];
    const gal_real *table = call->operand[1];
    gal_real *e = call->operand[2];
    for (size_t p = 0; p < sequence; p++) {
        for (size_t s = 0; s < samples; s++, e += hidden) {
            const int64_t row = local_row(call, tokens, s, p);
            if (row >= 0) {
                memcpy(e, table + (size_t)row * hidden, hidden * sizeof *e);
            } else {
                memset(e, 0, hidden * sizeof *e);
            }
        }
    }
    return GAL_OK;
}

GAL_VECTOR
static void add_row(const gal_real *from, gal_real *to, size_t count)
{
    for (size_t j = 0; j < count; j++) {
        to[j] += from[j];
    }
}

/* Rows of equal tokens are added in the order of the rows: the same bits each time. */
gal_code GAL_KERNEL(embed_backward)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    const size_t samples = call->dims[0], sequence = call->dims[1], hidden = call->dims[2];
    const int32_t *tokens = call->operand[0];
    const gal_real *de = call->operand[1];
    gal_real *dtable = call->operand[2];
    if (!call->add) {
        memset(dtable, 0, (size_t)call->dims[3] * hidden * sizeof *dtable);
    }
    for (size_t p = 0; p < sequence; p++) {
        for (size_t s = 0; s < samples; s++, de += hidden) {
            const int64_t row = local_row(call, tokens, s, p);
            if (row >= 0) {
                add_row(de, dtable + (size_t)row * hidden, hidden);
            }
        }
    }
    return GAL_OK;
}

GAL_VECTOR
static void sum_rows(const gal_real *from, const gal_real *table, gal_real *to, size_t count)
{
    for (size_t j = 0; j < count; j++) {
        to[j] = from[j] + table[j];
    }
}

gal_code GAL_KERNEL(position)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    const uint32_t samples = call->dims[0], positions = call->dims[1], hidden = call->dims[2];
    const gal_real *e = call->operand[0];
    const gal_real *table = call->operand[1];
    gal_real *y = call->operand[2];
    const gal_dropout dropout = gal_dropout_of(call, call->step->model->embedding_dropout, 0);
    for (uint32_t p = 0; p < positions; p++) {
        const gal_real *place = table + ((size_t)call->position_begin + p) * hidden;
        for (uint32_t s = 0; s < samples; s++, e += hidden, y += hidden) {
            sum_rows(e, place, y, hidden);
            if (dropout.active) {
                gal_dropout_apply_row(&dropout, gal_dropout_row(call, p, s, hidden), hidden, y, y);
            }
        }
    }
    return GAL_OK;
}

gal_code GAL_KERNEL(position_backward)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    const uint32_t samples = call->dims[0], positions = call->dims[1], hidden = call->dims[2];
    const gal_real *dy = call->operand[0];
    gal_real *de = call->operand[1];
    gal_real *dtable = call->operand[2];
    const gal_dropout dropout = gal_dropout_of(call, call->step->model->embedding_dropout, 0);
    if (!call->add) {
        memset(dtable, 0, (size_t)call->dims[3] * hidden * sizeof *dtable);
    }
    for (uint32_t p = 0; p < positions; p++) {
        gal_real *place = dtable + ((size_t)call->position_begin + p) * hidden;
        for (uint32_t s = 0; s < samples; s++, dy += hidden, de += hidden) {
            if (dropout.active) {
                gal_dropout_apply_row(&dropout, gal_dropout_row(call, p, s, hidden), hidden, dy, de);
            } else {
                memmove(de, dy, hidden * sizeof *de);
            }
            add_row(de, place, hidden);
        }
    }
    return GAL_OK;
}
