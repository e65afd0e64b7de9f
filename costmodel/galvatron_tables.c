#include "costmodel/galvatron_tables.h"

#include <math.h>
#include <stdlib.h>

typedef struct line {
    double slope, offset;
} line;

/* What memory_mode takes of a layer type. */
typedef struct layer_size {
    double parameter_bytes, recompute_bytes;
    uint32_t activation_sequence; /* of the rows that are taken */
    double activation_factor;     /* to its own sequence length */
} layer_size;

typedef struct message_line {
    uint32_t op, group_size;
    line seconds; /* over bytes */
} message_line;

struct gal_galvatron_tables {
    const gal_galvatron_profile *profile;
    line *forward; /* [layer_type_count], seconds over samples */
    layer_size *size;
    line outside;
    uint32_t outside_sequence; /* of the rows that memory_mode takes */
    double outside_factor;
    uint32_t message_line_count;
    message_line *message; /* at most one per row of message_time */
};

const gal_galvatron_profile *gal_galvatron_tables_profile(const gal_galvatron_tables *tables)
{
    return tables->profile;
}

static gal_code lacks(const gal_galvatron_tables *tables, gal_error *err, const char *what, uint32_t number)
{
    return gal_fail(err, GAL_ERR_DOCUMENT, "profile %s: no row for %s %u", tables->profile->name, what, number);
}

/* ---- least squares ---- */

/* Sums of a polynomial fit in u = (x - middle) / width, |u| <= 1. */
typedef struct points {
    uint32_t count;
    double middle, width;
    double power[5];  /* sum of u^k */
    double moment[3]; /* sum of y u^k */
} points;

typedef struct point {
    double x, y;
} point;

static points sums_of(const point *p, uint32_t count)
{
    points s = {.count = count, .width = 1.0};
    double least = INFINITY;
    double most = -INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        least = fmin(least, p[i].x);
        most = fmax(most, p[i].x);
    }
    if (count > 0) {
        s.middle = 0.5 * (least + most);
        s.width = most > least ? 0.5 * (most - least) : 1.0;
    }
    for (uint32_t i = 0; i < count; i++) {
        double u = 1.0;
        for (uint32_t k = 0; k < 5; k++) {
            s.power[k] += u;
            s.moment[k % 3] += k < 3 ? p[i].y * u : 0.0;
            u *= (p[i].x - s.middle) / s.width;
        }
    }
    return s;
}

/* False where the points do not determine it: fewer than two places. */
static bool fit_line(const point *p, uint32_t count, line *out)
{
    const points s = sums_of(p, count);
    const double determinant = s.power[0] * s.power[2] - s.power[1] * s.power[1];
    if (!(determinant > 1e-12 * s.power[0])) {
        return false;
    }
    const double slope = (s.power[0] * s.moment[1] - s.power[1] * s.moment[0]) / determinant;
    const double offset = (s.power[2] * s.moment[0] - s.power[1] * s.moment[1]) / determinant;
    *out = (line){slope / s.width, offset - slope * s.middle / s.width};
    return true;
}

/* The value at x of the parabola, by Cramer's rule. False where the points do not determine it: fewer than three
 * places. */
static bool fit_parabola_at(const point *p, uint32_t count, double x, double *out)
{
    const points s = sums_of(p, count);
    const double *w = s.power;
    const double *y = s.moment;
    const double minor0 = w[2] * w[4] - w[3] * w[3];
    const double minor1 = w[1] * w[4] - w[2] * w[3];
    const double minor2 = w[1] * w[3] - w[2] * w[2];
    const double determinant = w[0] * minor0 - w[1] * minor1 + w[2] * minor2;
    if (!(determinant > 1e-12 * w[0])) {
        return false;
    }
    const double c = (y[0] * minor0 - y[1] * minor1 + y[2] * minor2) / determinant;
    const double b =
        (-y[0] * minor1 + y[1] * (w[0] * w[4] - w[2] * w[2]) - y[2] * (w[0] * w[3] - w[1] * w[2])) / determinant;
    const double a =
        (y[0] * minor2 - y[1] * (w[0] * w[3] - w[1] * w[2]) + y[2] * (w[0] * w[2] - w[1] * w[1])) / determinant;
    const double u = (x - s.middle) / s.width;
    *out = c + u * (b + u * a);
    return true;
}

/* ---- times ---- */

/* Of one layer type, or of what is outside (all the same type then). */
typedef struct time_row {
    uint32_t layer_type, batch_samples, sequence_length;
    double seconds;
} time_row;

static gal_code too_few(const gal_galvatron_profile *profile, gal_error *err)
{
    return gal_fail(err, GAL_ERR_DOCUMENT, "profile %s: /time_mode: %s needs times of more batches or sequence lengths",
                    profile->name, gal_galvatron_time_mode_names[profile->time_mode]);
}

/* `curved`: with sequence lengths by a parabola. scratch holds row_count points. */
static gal_code choose_time(const gal_galvatron_profile *profile, const time_row *rows, uint32_t row_count,
                            uint32_t layer_type, bool curved, point *scratch, line *out, gal_error *err)
{
    const uint32_t sequence = profile->layer_type[layer_type].sequence_length;
    const bool by_batch = profile->time_mode == GAL_GALVATRON_TIME_BATCH;
    uint32_t count = 0;
    for (uint32_t i = 0; i < row_count; i++) {
        const time_row *row = &rows[i];
        if (row->layer_type != layer_type) {
            continue;
        }
        if (profile->time_mode == GAL_GALVATRON_TIME_STATIC) {
            *out = (line){row->seconds, 0.0};
            return GAL_OK;
        }
        if (by_batch && row->sequence_length == sequence) {
            scratch[count++] = (point){row->batch_samples, row->seconds * row->batch_samples};
        } else if (!by_batch && row->batch_samples == 1) {
            scratch[count++] = (point){row->sequence_length, row->seconds};
        }
    }
    if (by_batch || !curved) {
        line fitted;
        if (!fit_line(scratch, count, &fitted)) {
            return too_few(profile, err);
        }
        *out = by_batch ? fitted : (line){fitted.slope * sequence + fitted.offset, 0.0};
        return GAL_OK;
    }
    *out = (line){0};
    return fit_parabola_at(scratch, count, sequence, &out->slope) ? GAL_OK : too_few(profile, err);
}

static gal_code choose_times(gal_galvatron_tables *tables, gal_error *err)
{
    const gal_galvatron_profile *p = tables->profile;
    const uint32_t most = p->layer_time_count > p->outside_time_count ? p->layer_time_count : p->outside_time_count;
    gal_code code = GAL_OK;
    time_row *rows = calloc((size_t)most + 1, sizeof *rows);
    point *scratch = calloc((size_t)most + 1, sizeof *scratch);
    if (rows == NULL || scratch == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    for (uint32_t i = 0; i < p->layer_time_count; i++) {
        const gal_galvatron_layer_time *t = &p->layer_time[i];
        rows[i] = (time_row){t->layer_type, t->batch_samples, t->sequence_length, t->seconds};
    }
    for (uint32_t type = 0; type < p->layer_type_count; type++) {
        GAL_TRY(choose_time(p, rows, p->layer_time_count, type, true, scratch, &tables->forward[type], err));
    }
    for (uint32_t i = 0; i < p->outside_time_count; i++) {
        const gal_galvatron_outside_time *t = &p->outside_time[i];
        rows[i] = (time_row){0, t->batch_samples, t->sequence_length, t->seconds};
    }
    GAL_TRY(choose_time(p, rows, p->outside_time_count, 0, false, scratch, &tables->outside, err));
cleanup:
    free(scratch);
    free(rows);
    return code;
}

double gal_galvatron_forward_seconds(const gal_galvatron_tables *tables, uint32_t layer_type, double samples)
{
    return tables->forward[layer_type].slope * samples + tables->forward[layer_type].offset;
}

double gal_galvatron_outside_forward_seconds(const gal_galvatron_tables *tables, double samples)
{
    return tables->outside.slope * samples + tables->outside.offset;
}

/* ---- communication ---- */

gal_code gal_galvatron_reduce_cost(const gal_galvatron_tables *tables, uint32_t group_size, bool strided, double *out,
                                   gal_error *err)
{
    const gal_galvatron_profile *p = tables->profile;
    const gal_galvatron_all_reduce_rate *found = NULL;
    if (group_size == 1) {
        *out = 0.0;
        return GAL_OK;
    }
    for (uint32_t i = 0; i < p->all_reduce_rate_count; i++) {
        const gal_galvatron_all_reduce_rate *row = &p->all_reduce_rate[i];
        if (row->group_size == group_size && (row->strided == strided || (found == NULL && !row->strided))) {
            found = row;
            if (row->strided == strided) {
                break;
            }
        }
    }
    if (found == NULL) {
        return lacks(tables, err, "all-reduces among devices:", group_size);
    }
    *out = 1.0 / found->bytes_per_second;
    return GAL_OK;
}

gal_code gal_galvatron_p2p_cost(const gal_galvatron_tables *tables, uint32_t stage_count, double *out, gal_error *err)
{
    const gal_galvatron_profile *p = tables->profile;
    for (uint32_t i = 0; i < p->p2p_rate_count; i++) {
        if (p->p2p_rate[i].stage_count == stage_count) {
            *out = 1.0 / p->p2p_rate[i].bytes_per_second;
            return GAL_OK;
        }
    }
    return lacks(tables, err, "sends between stages:", stage_count);
}

static message_line *find_message_line(const gal_galvatron_tables *tables, uint32_t op, uint32_t group_size)
{
    for (uint32_t i = 0; i < tables->message_line_count; i++) {
        if (tables->message[i].op == op && tables->message[i].group_size == group_size) {
            return &tables->message[i];
        }
    }
    return NULL;
}

static gal_code fit_messages(gal_galvatron_tables *tables, gal_error *err)
{
    const gal_galvatron_profile *p = tables->profile;
    gal_code code = GAL_OK;
    point *scratch = calloc((size_t)p->message_time_count + 1, sizeof *scratch);
    if (scratch == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    for (uint32_t i = 0; i < p->message_time_count; i++) {
        const gal_galvatron_message_time *first = &p->message_time[i];
        uint32_t count = 0;
        if (find_message_line(tables, first->op, first->group_size) != NULL) {
            continue;
        }
        for (uint32_t j = i; j < p->message_time_count; j++) {
            const gal_galvatron_message_time *row = &p->message_time[j];
            if (row->op == first->op && row->group_size == first->group_size) {
                scratch[count++] = (point){(double)row->message_bytes, row->seconds};
            }
        }
        message_line *next = &tables->message[tables->message_line_count++];
        *next = (message_line){.op = first->op, .group_size = first->group_size, .seconds = {0.0, first->seconds}};
        (void)fit_line(scratch, count, &next->seconds); /* one size only: that one's time, whatever is sent */
    }
cleanup:
    free(scratch);
    return code;
}

gal_code gal_galvatron_message_seconds(const gal_galvatron_tables *tables, gal_galvatron_collective op,
                                       uint32_t group_size, double message_bytes, double *out, gal_error *err)
{
    const gal_galvatron_profile *p = tables->profile;
    const message_line *fitted = find_message_line(tables, op, group_size);
    if (fitted == NULL) {
        return lacks(tables, err,
                     op == GAL_GALVATRON_ALL_REDUCE ? "times of all-reduces among devices:"
                                                    : "times of all-to-alls among devices:",
                     group_size);
    }
    *out = fitted->seconds.slope * message_bytes + fitted->seconds.offset;
    for (uint32_t i = 0; i < p->message_time_count; i++) {
        const gal_galvatron_message_time *row = &p->message_time[i];
        if (row->op == op && row->group_size == group_size && (double)row->message_bytes == message_bytes) {
            *out = row->seconds;
            break;
        }
    }
    return GAL_OK;
}

/* ---- bytes ---- */

static gal_code choose_size(gal_galvatron_tables *tables, uint32_t type, gal_error *err)
{
    const gal_galvatron_profile *p = tables->profile;
    const uint32_t own = p->layer_type[type].sequence_length;
    const bool by_sequence = p->memory_mode == GAL_GALVATRON_MEMORY_SEQUENCE;
    const gal_galvatron_layer_size *shortest = NULL;
    const gal_galvatron_layer_size *longest = NULL;
    for (uint32_t i = 0; i < p->layer_size_count; i++) {
        const gal_galvatron_layer_size *row = &p->layer_size[i];
        if (row->layer_type != type || (!by_sequence && row->sequence_length != own)) {
            continue;
        }
        shortest = shortest == NULL || row->sequence_length < shortest->sequence_length ? row : shortest;
        longest = longest == NULL || row->sequence_length > longest->sequence_length ? row : longest;
    }
    if (shortest == NULL) {
        return lacks(tables, err, "the memory of a layer at sequence length", own);
    }
    const double factor = (double)own / longest->sequence_length;
    tables->size[type] = (layer_size){.parameter_bytes = shortest->parameter_bytes,
                                      .recompute_bytes = longest->recompute_bytes * factor,
                                      .activation_sequence = longest->sequence_length,
                                      .activation_factor = factor};
    return GAL_OK;
}

static gal_code choose_sizes(gal_galvatron_tables *tables, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t type = 0; type < tables->profile->layer_type_count && code == GAL_OK; type++) {
        code = choose_size(tables, type, err);
    }
    tables->outside_sequence = tables->size[0].activation_sequence;
    tables->outside_factor = tables->size[0].activation_factor;
    return code;
}

double gal_galvatron_parameter_bytes(const gal_galvatron_tables *tables, uint32_t layer_type)
{
    return tables->size[layer_type].parameter_bytes;
}

double gal_galvatron_recompute_bytes(const gal_galvatron_tables *tables, uint32_t layer_type)
{
    return tables->size[layer_type].recompute_bytes;
}

gal_code gal_galvatron_activation_bytes(const gal_galvatron_tables *tables, uint32_t layer_type, uint32_t degree,
                                        double *out, gal_error *err)
{
    const gal_galvatron_profile *p = tables->profile;
    const layer_size *size = &tables->size[layer_type];
    for (uint32_t i = 0; i < p->activation_count; i++) {
        const gal_galvatron_activation *row = &p->activation[i];
        if (row->layer_type == layer_type && row->degree == degree &&
            row->sequence_length == size->activation_sequence) {
            *out = row->bytes * size->activation_factor;
            return GAL_OK;
        }
    }
    return lacks(tables, err, "activations of a layer split over devices:", degree);
}

static const gal_galvatron_outside_size *find_outside(const gal_galvatron_tables *tables, gal_galvatron_place place,
                                                      uint32_t degree)
{
    const gal_galvatron_profile *p = tables->profile;
    for (uint32_t i = 0; i < p->outside_size_count; i++) {
        const gal_galvatron_outside_size *row = &p->outside_size[i];
        if (row->place == place && row->degree == degree && row->sequence_length == tables->outside_sequence) {
            return row;
        }
    }
    return NULL;
}

gal_code gal_galvatron_outside_state_bytes(const gal_galvatron_tables *tables, gal_galvatron_place place,
                                           uint32_t degree, double *out, gal_error *err)
{
    const gal_galvatron_outside_size *row = find_outside(tables, place, degree);
    if (row == NULL) {
        return lacks(tables, err, "embedding and head split over devices:", degree);
    }
    *out = row->state_bytes;
    return GAL_OK;
}

gal_code gal_galvatron_outside_activation_bytes(const gal_galvatron_tables *tables, gal_galvatron_place place,
                                                uint32_t degree, double *out, gal_error *err)
{
    const gal_galvatron_outside_size *row = find_outside(tables, place, degree);
    if (row == NULL) {
        return lacks(tables, err, "embedding and head split over devices:", degree);
    }
    *out = row->activation_bytes * tables->outside_factor;
    return GAL_OK;
}

/* ---- life ---- */

gal_code gal_galvatron_tables_create(const gal_galvatron_profile *profile, gal_galvatron_tables **out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_galvatron_tables *tables = calloc(1, sizeof *tables);
    if (tables == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    tables->profile = profile;
    tables->forward = calloc(profile->layer_type_count, sizeof *tables->forward);
    tables->size = calloc(profile->layer_type_count, sizeof *tables->size);
    tables->message = calloc((size_t)profile->message_time_count + 1, sizeof *tables->message);
    if (tables->forward == NULL || tables->size == NULL || tables->message == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    GAL_TRY(choose_times(tables, err));
    GAL_TRY(choose_sizes(tables, err));
    GAL_TRY(fit_messages(tables, err));
    *out = tables;
    tables = NULL;
cleanup:
    gal_galvatron_tables_free(tables);
    return code;
}

void gal_galvatron_tables_free(gal_galvatron_tables *tables)
{
    if (tables != NULL) {
        free(tables->forward);
        free(tables->size);
        free(tables->message);
        free(tables);
    }
}
