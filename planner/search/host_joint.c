#include "planner/search/host_joint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/cell/cell_list.h"
#include "planner/cell/finalist.h"
#include "planner/search/host_chains.h"
#include "planner/search/joint_search.h"

/* Searches under a charge, and labels at a block in their chains: what those leave open is closed at the end. */
enum { CHARGES = 8, CHARGED_LABELS = 200 };
static const double widen = 4.0, rounding = 1e-9;
/* Of the seconds that a charged search may leave open: what a charge proves is short of the optimum anyhow. */
static const double charged_gap = 5e-3;

/* A charge, and what its search's plan takes: seconds without it, bytes of the stage that decides. */
typedef struct probe {
    double seconds_per_byte, seconds, bytes;
} probe;

typedef struct joint {
    const gal_search_request *request;
    const gal_host_limits *limits;
    gal_search_result *best;
    gal_certificate certificate; /* with what can be proved again */
    double proved_seconds, bound_seconds;
    double charge;   /* of bound_seconds */
    bool storage;    /* moments may be there in the plans that are looked for at hand, and what else the limits allow */
    probe low, high; /* the plan takes more than the limit; no more. high.seconds_per_byte 0: none is known */
} joint;

/* ---- plans ---- */

/* A plan's true objective, with as much on storage as the limits ask for; kept if it is the fastest. */
static gal_code take_within(joint *j, const gal_host_limits *limits, const gal_finalist *from, gal_error *err)
{
    gal_code code = GAL_OK;
    bool fits = false;
    gal_finalist own = *from;
    const gal_search_request *r = j->request;
    gal_search_result *best = j->best;
    GAL_TRY(gal_plan_copy(&from->plan, &own.plan, err));
    own.peak_bytes = 0;
    GAL_TRY(gal_storage_fit(r->cache, limits, &own.plan, &fits, err));
    if (fits) {
        GAL_TRY(gal_plan_objective(r->cache, r->durations, &own.plan, &own.objective_seconds, err));
        own.plan.objective_seconds = own.objective_seconds;
    }
    if (fits && (!best->feasible || own.objective_seconds < best->finalist[0].objective_seconds)) {
        GAL_TRY(gal_finalist_predict(r, &own, err));
        const gal_finalist slower = best->finalist[0];
        best->finalist[0] = own;
        own = slower;
        best->feasible = true;
        best->finalist_count = 1;
    }
cleanup:
    gal_plan_free(&own.plan);
    return code;
}

/* With weights in memory, and where they may be there on storage. */
static gal_code take(joint *j, const gal_finalist *from, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_host_limits limits = *j->limits;
    limits.weights = false;
    GAL_TRY(take_within(j, &limits, from, err));
    if (j->limits->weights && j->limits->storage_bytes > 0) {
        GAL_TRY(take_within(j, j->limits, from, err));
    }
cleanup:
    return code;
}

static double best_seconds(const joint *j)
{
    return j->best->feasible ? j->best->finalist[0].objective_seconds : HUGE_VAL;
}

static bool is_good_enough(const joint *j)
{
    return best_seconds(j) <= j->bound_seconds * (1.0 + j->request->gap);
}

/* ---- a charge ---- */

/* What the block takes of the host's memory and for its update, by the share of least charge. */
static gal_code charged_block(const joint *j, const gal_plan *plan, uint32_t stage, uint32_t block, double charge,
                              double *seconds, double *bytes, gal_error *err)
{
    gal_price_share share[GAL_PRICE_SHARES_MAX];
    uint32_t count = 1;
    const gal_price_query query = gal_price_query_of(plan, stage, block);
    const gal_code code =
        j->storage ? gal_price_shares(j->request->cache, &query,
                                      (gal_stored_kinds){j->limits->masters, j->limits->weights}, share, &count, err)
                   : gal_price_block(j->request->cache, &query, &share[0].price, err);
    double least = HUGE_VAL;
    for (uint32_t i = 0; code == GAL_OK && i < count; i++) {
        const gal_block_memory *memory = &share[i].price->memory;
        const double kept = (double)(memory->host.state + memory->host.kept);
        const double charged = share[i].price->update_seconds + charge * kept;
        if (charged < least) {
            least = charged;
            *seconds = share[i].price->update_seconds;
            *bytes = kept;
        }
    }
    return code;
}

/* Of the stage whose update and charge are the most. */
static gal_code probe_plan(const joint *j, const gal_finalist *f, double charge, probe *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_plan *plan = &f->plan;
    double most = -HUGE_VAL;
    uint32_t block = 0;
    for (uint32_t stage = 0; stage < plan->stage_count; stage++) {
        double update = 0.0, bytes = 0.0;
        const uint32_t end = block + gal_plan_stage_block_count(plan, stage);
        for (; block < end; block++) {
            double seconds = 0.0, kept = 0.0;
            GAL_TRY(charged_block(j, plan, stage, block, charge, &seconds, &kept, err));
            update += seconds;
            bytes += kept;
        }
        if (update + charge * bytes > most) {
            most = update + charge * bytes;
            *out = (probe){charge, f->objective_seconds - charge * bytes, bytes};
        }
    }
cleanup:
    return code;
}

/* What a charged search proves, of plans within the limit: of all of them if they may store. */
static void take_bound(joint *j, const gal_search_result *found, double charge)
{
    const gal_plan *plan = &found->finalist[0].plan;
    const double of_limit = charge * (double)j->limits->host_bytes;
    const double proved = plan->lower_bound_seconds > 0.0 ? plan->lower_bound_seconds - of_limit : 0.0;
    const bool stores = j->limits->storage_bytes > 0;
    if (proved > j->proved_seconds) {
        j->proved_seconds = proved;
        j->certificate = plan->certificate;
        j->certificate.host = (gal_host_charge){j->limits->host_bytes, charge, stores, stores && j->limits->masters,
                                                stores && j->limits->weights};
    }
    if (found->lower_bound_seconds - of_limit > j->bound_seconds) {
        j->bound_seconds = found->lower_bound_seconds - of_limit;
        j->charge = charge;
    }
}

/* Searches under a charge, and moves one end of the range to it. */
static gal_code try_charge(joint *j, double charge, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_price_charge prices = {charge, j->storage, j->storage && j->limits->masters,
                                     j->storage && j->limits->weights};
    gal_price_cache *charged = NULL;
    gal_search_result found = {0};
    gal_search_request request = *j->request;
    probe at = {0};
    GAL_TRY(gal_price_cache_create_charged(j->request->cache, &prices, &charged, err));
    request.cache = charged;
    request.ranks_by_simulation = false;
    request.label_limit = request.label_limit < CHARGED_LABELS ? request.label_limit : CHARGED_LABELS;
    request.gap = fmax(request.gap, charged_gap) * j->bound_seconds / /* a share of true seconds */
                  (j->bound_seconds + charge * (double)j->limits->host_bytes);
    GAL_TRY(gal_search(&request, &found, err));
    GAL_ASSERT(found.feasible); /* it fits devices as the search without a charge does */
    if (j->storage == (j->limits->storage_bytes > 0)) {
        take_bound(j, &found, charge);
    }
    for (uint32_t i = 0; i < found.finalist_count; i++) {
        GAL_TRY(take(j, &found.finalist[i], err));
    }
    GAL_TRY(probe_plan(j, &found.finalist[0], charge, &at, err));
    *(at.bytes > (double)j->limits->host_bytes ? &j->low : &j->high) = at;
cleanup:
    gal_search_result_free(&found);
    gal_price_cache_free(charged);
    return code;
}

/* Where the lines of both ends cross, if that is between them. */
static double next_charge(const joint *j)
{
    const double over = j->low.bytes - (double)j->limits->host_bytes;
    const double lost = best_seconds(j) < HUGE_VAL ? best_seconds(j) - j->low.seconds : j->bound_seconds;
    if (j->high.seconds_per_byte == 0.0) {
        return fmax(widen * j->low.seconds_per_byte, fmax(lost, rounding * j->bound_seconds) / fmax(over, 1.0));
    }
    const double crossing = (j->high.seconds - j->low.seconds) / (j->low.bytes - j->high.bytes);
    const bool inside =
        crossing > j->low.seconds_per_byte * (1.0 + rounding) && crossing < j->high.seconds_per_byte * (1.0 - rounding);
    return inside ? crossing : 0.5 * (j->low.seconds_per_byte + j->high.seconds_per_byte);
}

static gal_code try_charges(joint *j, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t i = 0; i < CHARGES && !is_good_enough(j); i++) {
        const double before = j->bound_seconds;
        GAL_TRY(try_charge(j, next_charge(j), err));
        if (j->high.seconds_per_byte > 0.0 && i > CHARGES / 2 && j->bound_seconds < before * (1.0 + rounding)) {
            break;
        }
    }
cleanup:
    return code;
}

/* Plans without storage have no parts on their way in the host's memory, which no price of a block knows: they are
 * looked for once more by themselves. */
static gal_code try_without_storage(joint *j, const gal_search_result *whole, gal_error *err)
{
    gal_code code = GAL_OK;
    j->storage = false;
    j->high = (probe){0};
    GAL_TRY(probe_plan(j, &whole->finalist[0], 0.0, &j->low, err));
    GAL_TRY(try_charges(j, err));
cleanup:
    return code;
}

/* ---- what is left ---- */

/* The chain as a plan of the cell. */
static gal_code take_chain(joint *j, const gal_cell_spec *spec, const gal_host_answer *answer, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t blocks = gal_model_block_count(j->request->model);
    gal_finalist own = {0};
    uint32_t *number = calloc(blocks, sizeof *number);
    if (number == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    for (uint32_t i = 0; i < blocks; i++) { /* equal strategies have one number: that of the first */
        while (!gal_strategy_equal(&answer->strategy[number[i]], &answer->strategy[i])) {
            number[i]++;
        }
    }
    gal_finalist_begin(j->request, spec, &own);
    GAL_TRY(gal_finalist_write_path(answer->strategy, answer->stage, number, &own.plan, err));
    GAL_TRY(gal_plan_objective(j->request->cache, j->request->durations, &own.plan, &own.objective_seconds, err));
    own.plan.objective_seconds = own.objective_seconds;
    if (own.objective_seconds < best_seconds(j)) {
        GAL_TRY(gal_finalist_predict(j->request, &own, err));
        const gal_finalist slower = j->best->finalist[0];
        j->best->finalist[0] = own;
        own = slower;
        j->best->feasible = true;
        j->best->finalist_count = 1;
    }
cleanup:
    gal_plan_free(&own.plan);
    free(number);
    return code;
}

/* Every cell of the batch: what none of them has a plan below is the bound. */
static gal_code solve_cells(joint *j, const gal_price_charge *charge, gal_price_cache *charged, gal_host_answer *answer,
                            gal_error *err)
{
    gal_code code = GAL_OK;
    gal_cell_numbers *numbers = NULL;
    gal_block_types types = {0};
    uint32_t count = 0;
    double bound = HUGE_VAL;
    GAL_TRY(gal_block_types_create(j->request->model, &types, err));
    GAL_TRY(gal_search_cells(j->request, &numbers, &count, err));
    for (uint32_t i = 0; i < count; i++) {
        gal_error refusal = {0};
        const gal_cell_spec spec = gal_search_cell_spec(j->request, &numbers[i], j->request->cache);
        const gal_host_chains task = {.spec = &spec,
                                      .types = &types,
                                      .charged = charged,
                                      .charge = *charge,
                                      .limits = *j->limits,
                                      .give_up_seconds = best_seconds(j) / (1.0 + j->request->gap),
                                      .label_limit = j->request->label_limit};
        if (gal_cell_refused(&spec, &refusal) != GAL_OK) {
            continue;
        }
        GAL_TRY(gal_host_chains_solve(&task, answer, err));
        bound = fmin(bound, fmin(answer->bound, answer->seconds));
        if (answer->seconds < best_seconds(j)) {
            GAL_TRY(take_chain(j, &spec, answer, err));
        }
    }
    if (!j->limits->weights) { /* chains have none on storage */
        j->bound_seconds = fmax(j->bound_seconds, fmin(bound, best_seconds(j)));
    }
cleanup:
    gal_block_types_free(&types);
    free(numbers);
    return code;
}

static gal_code close_gap(joint *j, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t blocks = gal_model_block_count(j->request->model);
    const bool stores = j->limits->storage_bytes > 0;
    const gal_price_charge charge = {j->charge, stores, stores && j->limits->masters, stores && j->limits->weights};
    gal_price_cache *charged = NULL;
    gal_host_answer answer = {.stage = calloc(blocks, sizeof *answer.stage),
                              .strategy = calloc(blocks, sizeof *answer.strategy)};
    if (answer.stage == NULL || answer.strategy == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    GAL_TRY(gal_price_cache_create_charged(j->request->cache, &charge, &charged, err));
    GAL_TRY(solve_cells(j, &charge, charged, &answer, err));
cleanup:
    gal_price_cache_free(charged);
    free(answer.strategy);
    free(answer.stage);
    return code;
}

/* ---- all of it ---- */

static gal_code begin(joint *j, const gal_search_result *whole, gal_error *err)
{
    gal_code code = GAL_OK;
    *j->best = *whole;
    j->best->feasible = false;
    j->best->finalist_count = 0;
    j->best->finalist = calloc(1, sizeof *j->best->finalist);
    if (j->best->finalist == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    j->certificate = whole->finalist[0].plan.certificate;
    j->proved_seconds = whole->finalist[0].plan.lower_bound_seconds;
    j->bound_seconds = whole->lower_bound_seconds;
    for (uint32_t i = 0; i < whole->finalist_count; i++) {
        GAL_TRY(take(j, &whole->finalist[i], err));
    }
    GAL_TRY(probe_plan(j, &whole->finalist[0], 0.0, &j->low, err));
cleanup:
    return code;
}

/* What is claimed of the winner. */
static void claim(joint *j)
{
    gal_finalist *winner = &j->best->finalist[0];
    const double bound = fmin(j->bound_seconds, winner->objective_seconds); /* above it is by rounding alone */
    const double proved = fmin(j->proved_seconds, winner->objective_seconds);
    winner->plan.certificate = j->certificate;
    winner->plan.certificate.searched_bound_seconds = bound > proved ? bound : 0.0;
    winner->plan.lower_bound_seconds = proved;
    winner->bound_seconds = bound;
    j->best->lower_bound_seconds = bound;
    j->best->unproven_cell_count = winner->objective_seconds > bound * (1.0 + j->request->gap);
}

gal_code gal_host_joint(const gal_search_request *request, const gal_host_limits *limits,
                        const gal_search_result *whole, gal_search_result *best, gal_error *err)
{
    gal_code code = GAL_OK;
    joint j = {.request = request, .limits = limits, .best = best, .storage = limits->storage_bytes > 0};
    GAL_TRY(begin(&j, whole, err));
    GAL_TRY(try_charges(&j, err));
    if (j.storage && !is_good_enough(&j)) {
        GAL_TRY(try_without_storage(&j, whole, err));
    }
    if (!is_good_enough(&j)) {
        GAL_TRY(close_gap(&j, err));
    }
    if (best->feasible) {
        claim(&j);
    }
cleanup:
    if (code != GAL_OK) {
        gal_search_result_free(best);
        *best = (gal_search_result){0};
    }
    return code;
}
