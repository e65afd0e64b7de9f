#include "planner/galvatron/galvatron_search.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/galvatron/galvatron_cell.h"

#define X(enumerator, name) [enumerator] = name,
const char *const gal_galvatron_rules_names[GAL_GALVATRON_RULES_COUNT] = {GAL_GALVATRON_RULES(X)};
#undef X

/* A fifth of a limit above this stays free. */
enum { LIMIT_WITHOUT_RESERVE_GIBIBYTES = 20 };

typedef struct search {
    const gal_galvatron_request *request;
    gal_galvatron_found *out;
    uint64_t limit_mebibytes; /* what the rules leave */
    gal_galvatron_cell *cell;
    size_t cell_count, cell_capacity;
    uint64_t least_mebibytes;
    double best_per_sample, bound_per_sample;
    uint32_t *strategy; /* (layer): scratch */
} search;

static uint64_t left_of(gal_galvatron_rules rules, uint64_t mebibytes)
{
    const bool reserves = rules == GAL_GALVATRON_RULES_THEIRS && mebibytes / 1024 > LIMIT_WITHOUT_RESERVE_GIBIBYTES;
    return reserves ? mebibytes - (uint64_t)((double)mebibytes * 0.2) : mebibytes;
}

/* The least limit of which so much is left. */
static uint64_t limit_for(gal_galvatron_rules rules, uint64_t needed)
{
    uint64_t limit = needed;
    if (left_of(rules, limit) < needed) {
        limit = needed + needed / 4;
        while (left_of(rules, limit) >= needed) {
            limit--;
        }
        while (left_of(rules, limit) < needed) {
            limit++;
        }
    }
    return limit;
}

/* ---- cells ---- */

static gal_code add_cell(search *s, gal_galvatron_cell cell, gal_error *err)
{
    gal_galvatron_case *c = NULL;
    gal_code code = gal_galvatron_case_create(s->request, &cell, &c, s->out->left_out, sizeof s->out->left_out, err);
    if (code != GAL_OK || c == NULL) {
        return code;
    }
    const uint64_t needs = gal_galvatron_case_least_mebibytes(c);
    s->least_mebibytes = needs < s->least_mebibytes ? needs : s->least_mebibytes;
    cell.per_sample_bound = gal_galvatron_case_bound(c) / cell.job.global_batch_samples;
    gal_galvatron_case_free(c);
    cell.number = s->out->cell_count++;
    if (needs > s->limit_mebibytes) {
        return GAL_OK;
    }
    if (s->cell_count == s->cell_capacity) {
        const size_t capacity = s->cell_capacity == 0 ? 256 : 2 * s->cell_capacity;
        gal_galvatron_cell *larger = realloc(s->cell, capacity * sizeof *larger);
        if (larger == NULL) {
            return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
        }
        s->cell = larger;
        s->cell_capacity = capacity;
    }
    s->cell[s->cell_count++] = cell;
    return GAL_OK;
}

/* Embedding and head under every strategy that a layer might have but for recompute. */
static gal_code add_outsides(search *s, gal_galvatron_job job, uint32_t buffer_degree, gal_error *err)
{
    const uint32_t devices = job.device_count / job.pp_degree;
    const uint32_t samples = job.global_batch_samples / job.microbatch_count;
    gal_code code = GAL_OK;
    for (uint32_t degree = 1; degree <= s->request->degree_max && devices % degree == 0; degree *= 2) {
        const uint32_t replicas = devices / degree;
        if (replicas > samples || (s->request->rules == GAL_GALVATRON_RULES_EVEN && samples % replicas != 0)) {
            continue;
        }
        for (uint32_t i = 0; i < 4; i++) {
            const gal_galvatron_strategy outside = {.degree = degree, .ulysses = (i & 2) != 0, .zero3 = (i & 1) != 0};
            const uint32_t most = buffer_degree == 0 ? (outside.ulysses ? degree : 1) : buffer_degree;
            if ((outside.ulysses && (degree == 1 || s->request->tensors_alone)) || (outside.zero3 && replicas == 1) ||
                degree > most) {
                continue;
            }
            GAL_TRY(
                add_cell(s, (gal_galvatron_cell){.job = job, .buffer_degree = buffer_degree, .outside = outside}, err));
        }
    }
cleanup:
    return code;
}

/* Without a buffer nothing is split by tensors; with one, nothing over more devices than it is for. */
static gal_code add_stage_count(search *s, gal_galvatron_job job, gal_error *err)
{
    const uint32_t devices = job.device_count / job.pp_degree;
    const uint32_t samples = job.global_batch_samples / job.microbatch_count;
    const uint32_t replicas = samples < devices ? samples : devices;
    gal_code code = GAL_OK;
    if (samples == 0) {
        return GAL_OK;
    }
    GAL_TRY(add_outsides(s, job, 0, err));
    for (uint32_t degree = 1; degree <= s->request->degree_max && devices % degree == 0; degree *= 2) {
        if (degree >= devices / replicas) {
            GAL_TRY(add_outsides(s, job, degree, err));
        }
    }
cleanup:
    return code;
}

static gal_code add_microbatch_count(search *s, uint32_t batch, uint32_t count, gal_error *err)
{
    const gal_galvatron_request *r = s->request;
    const uint32_t layer_count = gal_galvatron_layer_count(gal_galvatron_tables_profile(r->tables));
    gal_code code = GAL_OK;
    if (batch % count != 0) {
        return GAL_OK;
    }
    for (uint32_t pp = 1; pp <= r->degree_max && pp <= count && pp <= layer_count && r->device_count % pp == 0;
         pp *= 2) {
        const gal_galvatron_job job = {.device_count = r->device_count,
                                       .pp_degree = pp,
                                       .global_batch_samples = batch,
                                       .microbatch_count = count,
                                       .schedule = r->schedule,
                                       .data_parallel = r->data_parallel};
        GAL_TRY(add_stage_count(s, job, err));
    }
cleanup:
    return code;
}

static gal_code add_batch(search *s, uint32_t batch, gal_error *err)
{
    const gal_u32_list *counts = &s->request->microbatch_counts;
    gal_code code = GAL_OK;
    for (uint32_t i = 0; i < counts->count; i++) {
        GAL_TRY(add_microbatch_count(s, batch, counts->value[i], err));
    }
    for (uint32_t count = 1; counts->count == 0 && count <= batch; count++) {
        GAL_TRY(add_microbatch_count(s, batch, count, err));
    }
cleanup:
    return code;
}

/* ---- solving ---- */

static int order_cells(const void *a, const void *b)
{
    const gal_galvatron_cell *x = a;
    const gal_galvatron_cell *y = b;
    if (x->per_sample_bound != y->per_sample_bound) {
        return x->per_sample_bound < y->per_sample_bound ? -1 : 1;
    }
    return x->number < y->number ? -1 : x->number > y->number;
}

static gal_code take_plan(search *s, const gal_galvatron_case *c, const gal_galvatron_cell *cell, double seconds,
                          gal_error *err)
{
    gal_galvatron_found *out = s->out;
    const uint32_t stages = cell->job.pp_degree;
    const size_t n = GAL_GALVATRON_STRATEGIES_MAX;
    gal_galvatron_plan *plan = &out->plan;
    gal_galvatron_plan_free(plan);
    free(out->stage_bytes);
    *plan = (gal_galvatron_plan){.device_count = cell->job.device_count,
                                 .pp_degree = stages,
                                 .global_batch_samples = cell->job.global_batch_samples,
                                 .microbatch_count = cell->job.microbatch_count,
                                 .schedule = cell->job.schedule,
                                 .data_parallel = cell->job.data_parallel,
                                 .outside = cell->outside};
    memcpy(plan->name, c->profile->name, sizeof plan->name);
    plan->stage_layer_count = calloc(stages, sizeof *plan->stage_layer_count);
    plan->run = calloc(c->layer_count, sizeof *plan->run);
    out->stage_bytes = calloc(stages, sizeof *out->stage_bytes);
    if (plan->stage_layer_count == NULL || plan->run == NULL || out->stage_bytes == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    for (uint32_t i = 0; i < stages; i++) {
        plan->stage_layer_count[i] = c->stage_first[i + 1] - c->stage_first[i];
        out->stage_bytes[i] = c->outside_mebibytes[i] << 20;
        for (uint32_t l = c->stage_first[i]; l < c->stage_first[i + 1]; l++) {
            const uint32_t chosen = s->strategy[l];
            const uint32_t type = gal_galvatron_layer_type_of(c->profile, l);
            const gal_galvatron_strategy *here = &c->strategy[chosen];
            out->stage_bytes[i] += c->mebibytes[((size_t)i * c->profile->layer_type_count + type) * n + chosen] << 20;
            if (plan->run_count == 0 || !gal_galvatron_strategy_equal(&plan->run[plan->run_count - 1].strategy, here)) {
                plan->run[plan->run_count++].strategy = *here;
            }
            plan->run[plan->run_count - 1].layer_count++;
        }
    }
    out->feasible = true;
    out->iteration_seconds = seconds;
    out->samples_per_second = cell->job.global_batch_samples / seconds;
    s->best_per_sample = seconds / cell->job.global_batch_samples;
    return GAL_OK;
}

static gal_code solve_cell(search *s, const gal_galvatron_cell *cell, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_galvatron_case *c = NULL;
    gal_galvatron_answer answer = {.strategy = s->strategy};
    GAL_TRY(gal_galvatron_case_create(s->request, cell, &c, s->out->left_out, sizeof s->out->left_out, err));
    GAL_TRY(gal_galvatron_case_solve(c, s->limit_mebibytes, s->best_per_sample * cell->job.global_batch_samples,
                                     &answer, err));
    s->out->solved_count++;
    if (isinf(answer.seconds)) {
        goto cleanup;
    }
    const double bound = fmax(answer.bound / cell->job.global_batch_samples, cell->per_sample_bound);
    s->bound_per_sample = fmin(s->bound_per_sample, bound);
    if (answer.seconds / cell->job.global_batch_samples < s->best_per_sample) {
        GAL_TRY(take_plan(s, c, cell, answer.seconds, err));
    }
cleanup:
    gal_galvatron_case_free(c);
    return code;
}

/* In the order of their bounds: the first whose bound is not below the best ends it. */
static gal_code solve_cells(search *s, gal_error *err)
{
    gal_code code = GAL_OK;
    if (s->cell_count > 0) {
        qsort(s->cell, s->cell_count, sizeof *s->cell, order_cells);
    }
    for (size_t i = 0; i < s->cell_count; i++) {
        if (s->cell[i].per_sample_bound >= s->best_per_sample) {
            s->bound_per_sample = fmin(s->bound_per_sample, s->cell[i].per_sample_bound);
            break;
        }
        GAL_TRY(solve_cell(s, &s->cell[i], err));
    }
cleanup:
    return code;
}

gal_code gal_galvatron_search_plans(const gal_galvatron_request *request, gal_galvatron_found *out, gal_error *err)
{
    const uint32_t layer_count = gal_galvatron_layer_count(gal_galvatron_tables_profile(request->tables));
    gal_code code = GAL_OK;
    gal_galvatron_found found = {0};
    search s = {.request = request,
                .out = &found,
                .limit_mebibytes = left_of(request->rules, request->limit_bytes >> 20),
                .least_mebibytes = UINT64_MAX,
                .best_per_sample = INFINITY,
                .bound_per_sample = INFINITY};
    s.strategy = calloc(layer_count, sizeof *s.strategy);
    if (s.strategy == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    for (uint32_t i = 0; i < request->batches.count; i++) {
        GAL_TRY(add_batch(&s, request->batches.value[i], err));
    }
    GAL_TRY(solve_cells(&s, err));
    found.used_limit_bytes = s.limit_mebibytes << 20;
    found.least_limit_bytes = s.least_mebibytes == UINT64_MAX ? 0 : limit_for(request->rules, s.least_mebibytes) << 20;
    if (found.feasible && !(s.best_per_sample > 0.0)) {
        GAL_TRY(gal_fail(err, GAL_ERR_DOCUMENT, "profile %s: a step takes no time", found.plan.name));
    }
    found.samples_per_second_bound =
        found.feasible ? fmin(1.0 / fmin(s.bound_per_sample, s.best_per_sample), DBL_MAX) : 0.0;
    *out = found;
    found = (gal_galvatron_found){0};
cleanup:
    gal_galvatron_found_free(&found);
    free(s.strategy);
    free(s.cell);
    return code;
}

void gal_galvatron_found_free(gal_galvatron_found *found)
{
    gal_galvatron_plan_free(&found->plan);
    free(found->stage_bytes);
    *found = (gal_galvatron_found){0};
}
