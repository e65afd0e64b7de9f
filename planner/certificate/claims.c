#include "planner/certificate/claims.h"

#include <math.h>
#include <stdlib.h>

#include "planner/certificate/certificate.h"
#include "planner/space/strategy_space.h"
#include "runtime/program/program.h"
#include "runtime/program/schedule.h"

static const double rounding = 1e-9; /* of what is compared: sums in another order */

static bool differs(double a, double b)
{
    return !(fabs(a - b) <= rounding * fmax(fabs(a), fabs(b)));
}

/* ---- the plan ---- */

static gal_code check_seconds(gal_price_cache *cache, const gal_durations *durations, const gal_plan *plan,
                              gal_error *err)
{
    double seconds = 0.0;
    const gal_code code = gal_plan_objective(cache, durations, plan, &seconds, err);
    if (code == GAL_OK && differs(seconds, plan->objective_seconds)) {
        return gal_fail(err, GAL_NO, "objective: the plan claims %.9g s, its prices come to %.9g s",
                        plan->objective_seconds, seconds);
    }
    return code;
}

static gal_code check_bytes(gal_price_cache *cache, const gal_durations *durations, const gal_plan *plan,
                            gal_error *err)
{
    const uint64_t fixed = gal_durations_fixed_bytes(durations);
    if (plan->fixed_bytes != fixed) {
        return gal_fail(err, GAL_NO, "fixed bytes: the plan claims %llu, the durations have %llu",
                        (unsigned long long)plan->fixed_bytes, (unsigned long long)fixed);
    }
    for (uint32_t p = 0; p < gal_plan_piece_count(plan); p++) {
        uint64_t bytes = 0;
        const gal_code code = gal_plan_stage_bytes(cache, plan, p % plan->stage_count, &bytes, err);
        if (code != GAL_OK) {
            return code;
        }
        if (plan->stage[p].predicted_bytes != bytes + fixed) {
            return gal_fail(err, GAL_NO, "bytes of stage %u: the plan claims %llu, it takes %llu",
                            p % plan->stage_count, (unsigned long long)plan->stage[p].predicted_bytes,
                            (unsigned long long)(bytes + fixed));
        }
        if (bytes + fixed > plan->certificate.memory_bytes) {
            return gal_fail(err, GAL_NO, "memory: the certificate has %llu bytes, stage %u takes %llu",
                            (unsigned long long)plan->certificate.memory_bytes, p % plan->stage_count,
                            (unsigned long long)(bytes + fixed));
        }
    }
    return GAL_OK;
}

static bool lists(const gal_u32_list *list, uint32_t value)
{
    bool found = false;
    for (uint32_t i = 0; i < list->count; i++) {
        found = found || list->value[i] == value;
    }
    return found;
}

/* The space of a certificate with what its charge says of storage. */
static gal_space space_of(const gal_certificate *c)
{
    gal_space out = c->space;
    const bool stores = c->host.host_memory_bytes > 0 && c->host.storage;
    out.store_activations = stores && c->host.activations;
    out.store_weights = stores && c->host.weights;
    out.store_moments = false;
    return out;
}

/* The strategy of the space whose bound is one of this too. Smaller chunks take no less than the largest
 * (chunk_search.h). What is on storage takes of a device what it takes on the host, and no less time; under a charge
 * for the host's memory moments without weights, and masters, are a share of the strategy, the rest is not. */
static gal_strategy bounding(const gal_certificate *c, const gal_strategy *strategy)
{
    gal_strategy out = *strategy;
    const bool charged = c->host.host_memory_bytes > 0;
    out.offload_storage_parameters_percent = charged ? out.offload_storage_parameters_percent : 0;
    out.offload_storage_activations_percent = charged ? out.offload_storage_activations_percent : 0;
    out.offload_storage_percent = out.offload_storage_parameters_percent > 0 ? out.offload_storage_percent : 0;
    out.offload_storage_masters = false;
    if (out.shard_unit == GAL_SHARD_CHUNK && out.chunk_elements < GAL_CHUNK_ELEMENTS_MOST) {
        out.chunk_elements = GAL_CHUNK_ELEMENTS_MOST;
    }
    return out;
}

/* What of a strategy is on storage and not in the plans that a charge is about; NULL: nothing. */
static const char *stored_beyond(const gal_host_charge *host, const gal_strategy *strategy)
{
    const struct {
        bool has, may;
        const char *what;
    } kinds[] = {{strategy->offload_storage_activations_percent > 0, host->storage && host->activations, "activations"},
                 {strategy->offload_storage_percent > 0, host->storage, "moments"},
                 {strategy->offload_storage_parameters_percent > 0, host->weights, "weights"},
                 {strategy->offload_storage_masters, host->masters, "masters"}};
    const char *what = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && what == NULL; i++) {
        what = kinds[i].has && !kinds[i].may ? kinds[i].what : NULL;
    }
    return what;
}

/* A charged bound is of plans within its limit, and of plans that store where it is charged so. */
static gal_code check_host(const gal_plan *plan, gal_error *err)
{
    const gal_host_charge *host = &plan->certificate.host;
    if (host->host_memory_bytes == 0) {
        return GAL_OK;
    }
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const char *what = stored_beyond(host, &plan->run[r].strategy);
        if (what != NULL) {
            return gal_fail(err, GAL_NO, "certificate: the plan has %s on storage, its bound is of plans without",
                            what);
        }
    }
    for (uint32_t stage = 0; stage < plan->stage_count; stage++) {
        gal_program *program = NULL;
        const gal_code code = gal_lower(plan, stage, &program, err);
        const uint64_t bytes = code == GAL_OK ? program->host_bytes : 0;
        gal_program_free(program);
        if (code != GAL_OK) {
            return code;
        }
        if (bytes > host->host_memory_bytes) {
            return gal_fail(err, GAL_NO, "host memory: the certificate has %llu bytes, stage %u takes %llu",
                            (unsigned long long)host->host_memory_bytes, stage, (unsigned long long)bytes);
        }
    }
    return GAL_OK;
}

/* A bound of others says nothing of this one. */
static gal_code check_membership(const gal_plan *plan, gal_error *err)
{
    const gal_space space = space_of(&plan->certificate);
    gal_strategy *strategy = calloc(gal_space_room(&space, gal_plan_stage_devices(plan)), sizeof *strategy);
    gal_code code = GAL_OK;
    if (strategy == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to verify");
    }
    const gal_certificate *c = &plan->certificate;
    const uint32_t count = gal_space_strategies(&space, gal_plan_stage_devices(plan), strategy);
    if (!lists(&c->microbatch_counts, plan->microbatch_count) || !lists(&c->pp_degrees, plan->pp_degree)) {
        code = gal_fail(err, GAL_NO, "certificate: the plan's %u microbatches, pp_degree %u are not on its lists",
                        plan->microbatch_count, plan->pp_degree);
    }
    for (uint32_t r = 0; r < plan->run_count && code == GAL_OK; r++) {
        char name[GAL_STRATEGY_NAME_BYTES];
        bool found = false;
        const gal_strategy like = bounding(c, &plan->run[r].strategy);
        for (uint32_t s = 0; s < count && !found; s++) {
            found = gal_strategy_equal(&like, &strategy[s]);
        }
        if (!found) {
            code = gal_fail(err, GAL_NO, "certificate: the plan's strategy %s is not in its space",
                            gal_strategy_name(&plan->run[r].strategy, name));
        }
    }
    free(strategy);
    return code;
}

gal_code gal_claims_check_plan(gal_price_cache *cache, const gal_durations *durations, const gal_plan *plan,
                               gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(check_host(plan, err));
    GAL_TRY(check_membership(plan, err));
    GAL_TRY(check_seconds(cache, durations, plan, err));
    GAL_TRY(check_bytes(cache, durations, plan, err));
cleanup:
    return code;
}

/* ---- the bound ---- */

static gal_code check_order(const gal_plan *plan, gal_error *err)
{
    const double searched = plan->certificate.searched_bound_seconds;
    const double most = plan->objective_seconds * (1.0 + rounding);
    if (plan->lower_bound_seconds > most || searched > most) {
        return gal_fail(err, GAL_NO, "bound: the plan claims %.9g s and takes %.9g s itself",
                        fmax(plan->lower_bound_seconds, searched), plan->objective_seconds);
    }
    if (searched != 0.0 && searched <= plan->lower_bound_seconds) {
        return gal_fail(err, GAL_NO, "bound: %.9g s is said to be closed beyond %.9g s", searched,
                        plan->lower_bound_seconds);
    }
    const bool pieces = gal_plan_chunk_count(plan) > 1 || gal_schedule_splits(plan->schedule);
    if (pieces && plan->lower_bound_seconds > 0.0) {
        return gal_fail(err, GAL_NO, "bound: the plan claims %.9g s, none can be proved of schedule %s",
                        plan->lower_bound_seconds, gal_schedule_names[plan->schedule]);
    }
    return GAL_OK;
}

static gal_code check_cell(const gal_certificate_sources *from, const gal_plan *plan, uint32_t microbatch_count,
                           uint32_t pp_degree, gal_error *err)
{
    const gal_certificate *c = &plan->certificate;
    const gal_space space = space_of(c);
    const gal_certificate_cell cell = {
        .model = &plan->model,
        .space = &space,
        .schedule = plan->schedule,
        .prefetch_depth = plan->prefetch_depth,
        .device_count = plan->cluster.device_count,
        .global_batch_samples = plan->global_batch_samples,
        .microbatch_count = microbatch_count,
        .pp_degree = pp_degree,
        .work_limit = UINT64_MAX,
        .arena_limit_bytes = c->memory_bytes > plan->fixed_bytes ? c->memory_bytes - plan->fixed_bytes : 0};
    const double charge = c->host.seconds_per_byte * (double)c->host.host_memory_bytes;
    const double claimed = (plan->lower_bound_seconds + charge) * (1.0 - rounding);
    gal_certificate_proof proof = {0};
    const gal_code code = gal_certificate_bound(from, &cell, claimed, claimed, &proof, err);
    if (code == GAL_OK && proof.seconds < claimed) {
        return gal_fail(err, GAL_NO, "bound: the plan claims %.9g s; with %u microbatches, pp_degree %u proved %.9g s",
                        plan->lower_bound_seconds, microbatch_count, pp_degree, proof.seconds - charge);
    }
    return code;
}

gal_code gal_claims_check_bound(gal_price_cache *cache, const gal_durations *durations, const gal_plan *plan,
                                gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_certificate *c = &plan->certificate;
    const gal_price_charge charge = {
        .host_seconds_per_byte = c->host.seconds_per_byte, .storage = c->host.storage, .masters = c->host.masters};
    gal_certificate_sources from = {.durations = durations, .cache = cache};
    gal_price_cache *charged = NULL;
    GAL_TRY(check_order(plan, err));
    if (c->host.host_memory_bytes > 0) {
        GAL_TRY(gal_price_cache_create_charged(cache, &charge, &charged, err));
        from.cache = charged;
    }
    GAL_TRY(gal_floors_create(&plan->model, durations, &from.floors, err));
    for (uint32_t p = 0; p < c->pp_degrees.count && plan->lower_bound_seconds > 0.0; p++) {
        for (uint32_t m = 0; m < c->microbatch_counts.count; m++) {
            GAL_TRY(check_cell(&from, plan, c->microbatch_counts.value[m], c->pp_degrees.value[p], err));
        }
    }
cleanup:
    gal_floors_free(from.floors);
    gal_price_cache_free(charged);
    return code;
}
