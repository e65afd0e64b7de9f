#include "planner/galvatron/galvatron_cell.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEBIBYTE 1048576.0
/* Sums of a stage stay far below what a raw problem may have (schemas/problem.c). */
#define STAGE_SECONDS_MAX 1e6
#define STAGE_MEBIBYTES_MAX 1e9

uint32_t gal_galvatron_layer_type_of(const gal_galvatron_profile *profile, uint32_t layer)
{
    uint32_t type = 0;
    while (layer >= profile->layer_type[type].layer_count) {
        layer -= profile->layer_type[type++].layer_count;
    }
    return type;
}

/* ---- strategies ---- */

static bool divides_evenly(const gal_galvatron_request *request, const gal_galvatron_job *job, uint32_t replicas)
{
    return request->rules == GAL_GALVATRON_RULES_THEIRS ||
           (job->global_batch_samples % job->microbatch_count == 0 &&
            job->global_batch_samples / job->microbatch_count % replicas == 0);
}

/* Every strategy of the layers: splits in rising degree, tensors before Ulysses. */
static void list_strategies(const gal_galvatron_request *request, gal_galvatron_case *c)
{
    const gal_galvatron_job *job = &c->cell->job;
    const uint32_t devices = job->device_count / job->pp_degree;
    const uint32_t samples = job->global_batch_samples / job->microbatch_count;
    for (uint32_t degree = 1; degree <= request->degree_max && devices % degree == 0; degree *= 2) {
        const uint32_t replicas = devices / degree;
        if (replicas > samples || !divides_evenly(request, job, replicas)) {
            continue;
        }
        for (uint32_t i = 0; i < 8; i++) {
            const gal_galvatron_strategy s = {
                .degree = degree, .ulysses = (i & 4) != 0, .zero3 = (i & 1) != 0, .recompute = (i & 2) != 0};
            const uint32_t most = c->cell->buffer_degree == 0 ? (s.ulysses ? degree : 1) : c->cell->buffer_degree;
            if ((s.ulysses && (degree == 1 || request->tensors_alone)) || (s.zero3 && replicas == 1) || degree > most ||
                c->strategy_count == GAL_GALVATRON_STRATEGIES_MAX) {
                continue;
            }
            c->strategy[c->strategy_count++] = s;
        }
    }
}

/* ---- prices ---- */

static void note_left_out(char *left_out, size_t byte_count, const gal_error *why)
{
    if (left_out[0] == '\0') {
        (void)snprintf(left_out, byte_count, "%.*s", (int)byte_count - 1, why->text);
    }
}

static uint64_t whole_mebibytes(double bytes)
{
    return (uint64_t)ceil(fmin(bytes / MEBIBYTE, 4.0 * STAGE_MEBIBYTES_MAX));
}

static bool price_layers(const gal_galvatron_request *request, const gal_galvatron_case *c, uint32_t from, uint32_t to,
                         gal_error *why)
{
    const uint32_t types = c->profile->layer_type_count;
    const size_t n = GAL_GALVATRON_STRATEGIES_MAX;
    for (uint32_t t = 0; t < types; t++) {
        if (gal_galvatron_layer_seconds(request->tables, &c->cell->job, t, &c->strategy[from], &c->seconds[t * n + to],
                                        why) != GAL_OK) {
            return false;
        }
        for (uint32_t i = 0; i < c->cell->job.pp_degree; i++) {
            double bytes;
            if (gal_galvatron_layer_bytes(request->tables, &c->cell->job, t, &c->strategy[from], i, &bytes, why) !=
                GAL_OK) {
                return false;
            }
            c->mebibytes[((size_t)i * types + t) * n + to] = whole_mebibytes(bytes);
        }
    }
    return true;
}

/* Strategies that a table has no row for go. */
static void price_strategies(const gal_galvatron_request *request, gal_galvatron_case *c, char *left_out,
                             size_t left_out_bytes)
{
    uint32_t kept = 0;
    for (uint32_t s = 0; s < c->strategy_count; s++) {
        gal_error why = {0};
        if (price_layers(request, c, s, kept, &why)) {
            c->strategy[kept++] = c->strategy[s];
        } else {
            note_left_out(left_out, left_out_bytes, &why);
        }
    }
    c->strategy_count = kept;
}

static bool price_outside(const gal_galvatron_request *request, const gal_galvatron_case *c, gal_error *why)
{
    const gal_galvatron_cell *cell = c->cell;
    const double buffer =
        cell->buffer_degree == 0 ? 0.0 : gal_galvatron_buffer_bytes(request->tables, &cell->job, cell->buffer_degree);
    for (uint32_t i = 0; i < cell->job.pp_degree; i++) {
        double bytes;
        if (gal_galvatron_outside_seconds(request->tables, &cell->job, &cell->outside, i, &c->outside_seconds[i],
                                          why) != GAL_OK ||
            gal_galvatron_outside_bytes(request->tables, &cell->job, &cell->outside, i, &bytes, why) != GAL_OK) {
            return false;
        }
        c->outside_mebibytes[i] = whole_mebibytes(bytes) + (uint64_t)fmin(buffer / MEBIBYTE, STAGE_MEBIBYTES_MAX);
    }
    return true;
}

static gal_code check_sums(const gal_galvatron_case *c, gal_error *err)
{
    const size_t n = GAL_GALVATRON_STRATEGIES_MAX;
    double seconds = 0.0;
    double mebibytes = 0.0;
    for (uint32_t t = 0; t < c->profile->layer_type_count; t++) {
        double most_seconds = 0.0;
        double most_mebibytes = 0.0;
        for (uint32_t s = 0; s < c->strategy_count; s++) {
            most_seconds = fmax(most_seconds, fmax(c->seconds[t * n + s].plain, c->seconds[t * n + s].synced));
            for (uint32_t i = 0; i < c->cell->job.pp_degree; i++) {
                most_mebibytes =
                    fmax(most_mebibytes, (double)c->mebibytes[((size_t)i * c->profile->layer_type_count + t) * n + s]);
            }
        }
        seconds += most_seconds * c->profile->layer_type[t].layer_count;
        mebibytes += most_mebibytes * c->profile->layer_type[t].layer_count;
    }
    for (uint32_t i = 0; i < c->cell->job.pp_degree; i++) {
        mebibytes = fmax(mebibytes, (double)c->outside_mebibytes[i]);
    }
    if (!(seconds <= STAGE_SECONDS_MAX) || !(mebibytes <= STAGE_MEBIBYTES_MAX)) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "profile %s: it takes more than 1e6 seconds a microbatch, or 1e9 MiB",
                        c->profile->name);
    }
    return GAL_OK;
}

/* ---- life ---- */

static void cut_stages(gal_galvatron_case *c)
{
    const uint32_t each = c->layer_count / c->cell->job.pp_degree;
    for (uint32_t i = 0; i < c->cell->job.pp_degree; i++) {
        c->stage_first[i] = i * each;
    }
    c->stage_first[c->cell->job.pp_degree] = c->layer_count;
}

gal_code gal_galvatron_case_create(const gal_galvatron_request *request, const gal_galvatron_cell *cell,
                                   gal_galvatron_case **out, char *left_out, size_t left_out_bytes, gal_error *err)
{
    const gal_galvatron_profile *profile = gal_galvatron_tables_profile(request->tables);
    const size_t types = profile->layer_type_count;
    const size_t stages = cell->job.pp_degree;
    gal_code code = GAL_OK;
    gal_error why = {0};
    gal_galvatron_case *c = calloc(1, sizeof *c);
    *out = NULL;
    if (c == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    c->profile = profile;
    c->cell = cell;
    c->layer_count = gal_galvatron_layer_count(profile);
    c->seconds = calloc(types * GAL_GALVATRON_STRATEGIES_MAX, sizeof *c->seconds);
    c->stage_first = calloc(stages + 1, sizeof *c->stage_first);
    c->outside_seconds = calloc(stages, sizeof *c->outside_seconds);
    c->outside_mebibytes = calloc(stages, sizeof *c->outside_mebibytes);
    c->mebibytes = calloc(stages * types * GAL_GALVATRON_STRATEGIES_MAX, sizeof *c->mebibytes);
    if (c->seconds == NULL || c->stage_first == NULL || c->outside_seconds == NULL || c->outside_mebibytes == NULL ||
        c->mebibytes == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    cut_stages(c);
    list_strategies(request, c);
    if (!price_outside(request, c, &why)) {
        note_left_out(left_out, left_out_bytes, &why);
        goto cleanup;
    }
    price_strategies(request, c, left_out, left_out_bytes);
    GAL_TRY(check_sums(c, err));
    if (c->strategy_count > 0) {
        *out = c;
        c = NULL;
    }
cleanup:
    gal_galvatron_case_free(c);
    return code;
}

void gal_galvatron_case_free(gal_galvatron_case *c)
{
    if (c != NULL) {
        free(c->seconds);
        free(c->stage_first);
        free(c->outside_seconds);
        free(c->outside_mebibytes);
        free(c->mebibytes);
        free(c);
    }
}

/* ---- bounds without memory ---- */

double gal_galvatron_case_bound(const gal_galvatron_case *c)
{
    const size_t n = GAL_GALVATRON_STRATEGIES_MAX;
    const uint32_t stages = c->cell->job.pp_degree;
    const uint32_t m = c->cell->job.microbatch_count;
    double sum = 0.0;
    double least_first = 0.0;
    double least_last = 0.0;
    for (uint32_t i = 0; i < stages; i++) {
        double plain = c->outside_seconds[i];
        for (uint32_t l = c->stage_first[i]; l < c->stage_first[i + 1]; l++) {
            const gal_galvatron_seconds *row = &c->seconds[gal_galvatron_layer_type_of(c->profile, l) * n];
            double least = INFINITY;
            for (uint32_t s = 0; s < c->strategy_count; s++) {
                least = fmin(least, row[s].plain);
            }
            plain += least;
        }
        sum += plain;
        least_first = i == 0 ? plain : least_first;
        least_last = plain;
    }
    /* Two terms of the pipeline's formula. */
    return fmax(sum + (m - 1.0) * least_last, (double)m * least_first);
}

uint64_t gal_galvatron_case_least_mebibytes(const gal_galvatron_case *c)
{
    const size_t n = GAL_GALVATRON_STRATEGIES_MAX;
    const size_t types = c->profile->layer_type_count;
    uint64_t largest = 0;
    for (uint32_t i = 0; i < c->cell->job.pp_degree; i++) {
        uint64_t here = c->outside_mebibytes[i];
        for (uint32_t l = c->stage_first[i]; l < c->stage_first[i + 1]; l++) {
            const uint64_t *row = &c->mebibytes[(i * types + gal_galvatron_layer_type_of(c->profile, l)) * n];
            uint64_t least = UINT64_MAX;
            for (uint32_t s = 0; s < c->strategy_count; s++) {
                least = row[s] < least ? row[s] : least;
            }
            here += least;
        }
        largest = here > largest ? here : largest;
    }
    return largest;
}
