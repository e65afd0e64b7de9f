/* Token, position and type embedding, class token. Token ids outside this rank's rows of the table belong to another
 * rank. */
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

static void embed_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const size_t samples = at->call->dims[0], hidden = at->call->dims[2];
    const size_t end = gal_cut_begin(&at->cut, part + 1);
    const gal_real *table = at->call->operand[1];
    for (size_t p = gal_cut_begin(&at->cut, part); p < end; p++) {
        gal_real *e = (gal_real *)at->call->operand[2] + p * samples * hidden;
        for (size_t s = 0; s < samples; s++, e += hidden) {
            const int64_t row = local_row(at->call, at->call->operand[0], s, p);
            if (row >= 0) {
                memcpy(e, table + (size_t)row * hidden, hidden * sizeof *e);
            } else {
                memset(e, 0, hidden * sizeof *e);
            }
        }
    }
}

gal_code GAL_KERNEL(embed)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, call->dims[1], 1, (size_t)call->dims[0] * call->dims[2], embed_part);
    return GAL_OK;
}

GAL_VECTOR
static void add_row(const gal_real *from, gal_real *to, size_t count)
{
    for (size_t j = 0; j < count; j++) {
        to[j] += from[j];
    }
}

static void clear_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const size_t hidden = at->call->dims[2], begin = gal_cut_begin(&at->cut, part);
    gal_real *dtable = at->call->operand[2];
    memset(dtable + begin * hidden, 0, (gal_cut_begin(&at->cut, part + 1) - begin) * hidden * sizeof *dtable);
}

/* Some columns of all rows: rows of equal tokens are added in the order of the rows, the same bits each time. */
static void scatter_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const size_t samples = at->call->dims[0], sequence = at->call->dims[1], hidden = at->call->dims[2];
    const size_t begin = gal_cut_begin(&at->cut, part), columns = gal_cut_begin(&at->cut, part + 1) - begin;
    const gal_real *de = (const gal_real *)at->call->operand[1] + begin;
    gal_real *dtable = (gal_real *)at->call->operand[2] + begin;
    for (size_t p = 0; p < sequence; p++) {
        for (size_t s = 0; s < samples; s++, de += hidden) {
            const int64_t row = local_row(at->call, at->call->operand[0], s, p);
            if (row >= 0) {
                add_row(de, dtable + (size_t)row * hidden, columns);
            }
        }
    }
}

gal_code GAL_KERNEL(embed_backward)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    if (!call->add) {
        gal_split_run(call, call->dims[3], 1, call->dims[2], clear_part);
    }
    gal_split_run(call, call->dims[2], GAL_COLUMN_UNIT, (size_t)call->dims[0] * call->dims[1], scatter_part);
    return GAL_OK;
}

GAL_VECTOR
static void sum_rows(const gal_real *from, const gal_real *table, gal_real *to, size_t count)
{
    for (size_t j = 0; j < count; j++) {
        to[j] = from[j] + table[j];
    }
}

static bool is_class_token(const gal_kernel_call *call, uint32_t position)
{
    return call->dims[5] != 0 && call->position_begin + position == 0;
}

static void position_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const gal_kernel_call *call = at->call;
    const uint32_t samples = call->dims[0], hidden = call->dims[2];
    const uint32_t begin = (uint32_t)gal_cut_begin(&at->cut, part), end = (uint32_t)gal_cut_begin(&at->cut, part + 1);
    const gal_real *e = (const gal_real *)call->operand[0] + (size_t)begin * samples * hidden;
    const gal_real *table = call->operand[1];
    gal_real *y = (gal_real *)call->operand[2] + (size_t)begin * samples * hidden;
    const gal_real *type = call->dims[4] != 0 ? call->operand[3] : NULL;
    const gal_dropout dropout = gal_dropout_of(call, call->step->model->embedding_dropout, 0);
    for (uint32_t p = begin; p < end; p++) {
        const gal_real *place = table + ((size_t)call->position_begin + p) * hidden;
        const bool class_token = is_class_token(call, p);
        for (uint32_t s = 0; s < samples; s++, e += hidden, y += hidden) {
            sum_rows(class_token ? call->operand[3] : e, place, y, hidden);
            if (type != NULL) {
                add_row(type, y, hidden);
            }
            if (dropout.active) {
                gal_dropout_apply_row(&dropout, gal_dropout_row(call, p, s, hidden), hidden, y, y);
            }
        }
    }
}

gal_code GAL_KERNEL(position)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, call->dims[1], 1, (size_t)call->dims[0] * call->dims[2], position_part);
    return GAL_OK;
}

static void position_backward_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const gal_kernel_call *call = at->call;
    const uint32_t samples = call->dims[0], hidden = call->dims[2];
    const uint32_t begin = (uint32_t)gal_cut_begin(&at->cut, part), end = (uint32_t)gal_cut_begin(&at->cut, part + 1);
    const gal_real *dy = (const gal_real *)call->operand[0] + (size_t)begin * samples * hidden;
    gal_real *de = (gal_real *)call->operand[1] + (size_t)begin * samples * hidden;
    gal_real *dtable = call->operand[2];
    const gal_dropout dropout = gal_dropout_of(call, call->step->model->embedding_dropout, 0);
    for (uint32_t p = begin; p < end; p++) {
        gal_real *place = dtable + ((size_t)call->position_begin + p) * hidden;
        for (uint32_t s = 0; s < samples; s++, dy += hidden, de += hidden) {
            if (dropout.active) {
                gal_dropout_apply_row(&dropout, gal_dropout_row(call, p, s, hidden), hidden, dy, de);
            } else {
                memmove(de, dy, hidden * sizeof *de);
            }
            add_row(de, place, hidden);
            if (is_class_token(call, p)) { /* of one position: so no other part adds here */
                add_row(de, call->operand[3], hidden);
                memset(de, 0, hidden * sizeof *de);
            }
        }
    }
}

/* Every row is of type 0: some columns of its gradient, over all rows. */
static void type_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const size_t rows = (size_t)at->call->dims[0] * at->call->dims[1], hidden = at->call->dims[2];
    const gal_real *de = at->call->operand[1];
    gal_real *dtype = at->call->operand[3];
    for (size_t j = gal_cut_begin(&at->cut, part); j < gal_cut_begin(&at->cut, part + 1); j++) {
        double sum = 0.0;
        for (size_t i = 0; i < rows; i++) {
            sum += (double)de[i * hidden + j];
        }
        dtype[j] += (gal_real)sum;
    }
}

gal_code GAL_KERNEL(position_backward)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    const size_t row_bytes = call->dims[2] * sizeof(gal_real);
    const uint32_t more_rows = call->dims[4] + call->dims[5];
    if (!call->add) {
        memset(call->operand[2], 0, call->dims[3] * row_bytes);
    }
    if (!call->add && more_rows > 0) {
        memset(call->operand[3], 0, more_rows * row_bytes);
    }
    gal_split_run(call, call->dims[1], 1, (size_t)call->dims[0] * call->dims[2], position_backward_part);
    if (call->dims[4] != 0) {
        gal_split_run(call, call->dims[2], GAL_COLUMN_UNIT, (size_t)call->dims[0] * call->dims[1], type_part);
    }
    return GAL_OK;
}
