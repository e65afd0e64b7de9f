#include "planner/search/host_joint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/cell/cell_list.h"
#include "planner/cell/finalist.h"
#include "planner/search/host_chains.h"
#include "planner/search/joint_search.h"

/* Searches under a charge, and labels at a block in their chains: what those leave open is closed at the end. */
enum { CHARGES = 8, CHARGED_LABELS = 2000 };
/* Searches in boxes, of which so many in one that cannot be cut. */
enum { BOX_SEARCHES = 32, BOX_CHARGES = 3, BOXES_MAX = BOX_SEARCHES + 2, LINES_MAX = CHARGES + BOX_SEARCHES };
static const double widen = 4.0, rounding = 1e-9;
/* Of the seconds that a charged search may leave open: what a charge proves is short of the optimum anyhow. */
static const double charged_gap = 5e-3;

/* A charge, and what its search's plan takes: seconds without it, of the stage that decides bytes and the largest parts
 * on their way. */
typedef struct probe {
    double seconds_per_byte, seconds, bytes;
    gal_stored_parts parts;
} probe;

/* What a charged search showed: no plan takes less with its charge. */
typedef struct line {
    double seconds_per_byte, seconds;
} line;

/* Plans whose parts on their way are of such sizes. */
typedef struct box {
    gal_stored_parts below, least; /* smaller than, 0: any; the largest are no smaller than */
    line line[LINES_MAX];
    uint32_t line_count;
    double bound_seconds;
    probe low, high;        /* the plan takes more than the limit; no more. high.seconds_per_byte 0: none is known */
    gal_stored_parts found; /* of the last search's plan */
    bool searched;          /* which is one of the box */
    uint32_t tries;         /* since it was cut */
} box;

typedef struct joint {
    const gal_search_request *request;
    const gal_host_limits *limits;
    const gal_finalist *known; /* within the limits; NULL: none */
    gal_search_result *best;
    gal_certificate certificate; /* with what can be proved again */
    double proved_seconds, bound_seconds;
    double charge;    /* of the bound of all plans */
    gal_space stored; /* the request's, with what else than moments may be on storage */
    bool storage; /* moments may be there in the plans that are looked for at hand, and what else the limits allow */
    box *box;     /* [BOXES_MAX]; the first bounds all plans until it is cut */
    uint32_t box_count;
} joint;

/* ---- plans ---- */

/* A plan's true objective, with as many moments on storage as the limits ask for; kept if it is the fastest. */
static gal_code take(joint *j, const gal_finalist *from, gal_error *err)
{
    gal_code code = GAL_OK;
    bool fits = false;
    gal_finalist own = *from;
    const gal_search_request *r = j->request;
    gal_search_result *best = j->best;
    GAL_TRY(gal_plan_copy(&from->plan, &own.plan, err));
    own.peak_bytes = 0;
    GAL_TRY(gal_storage_fit(r->cache, j->limits, &own.plan, &fits, err));
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

static double best_seconds(const joint *j)
{
    return j->best->feasible ? j->best->finalist[0].objective_seconds : HUGE_VAL;
}

static double known_seconds(const joint *j)
{
    return j->known != NULL ? j->known->objective_seconds : HUGE_VAL;
}

static bool is_good_enough(const joint *j)
{
    return fmin(best_seconds(j), known_seconds(j)) <= j->bound_seconds * (1.0 + j->request->gap);
}

/* After what is searched under charges, which finds its own way to plans with something on storage. */
static gal_code take_known(joint *j, gal_error *err)
{
    if (known_seconds(j) >= best_seconds(j)) {
        return GAL_OK;
    }
    gal_finalist own = *j->known;
    const gal_code code = gal_plan_copy(&j->known->plan, &own.plan, err);
    if (code == GAL_OK) {
        gal_plan_free(&j->best->finalist[0].plan);
        j->best->finalist[0] = own;
        j->best->feasible = true;
        j->best->finalist_count = 1;
    }
    return code;
}

/* ---- a charge ---- */

static gal_price_charge charge_of(const joint *j, const box *b, double seconds_per_byte)
{
    return (gal_price_charge){seconds_per_byte, j->storage, j->storage && j->limits->masters, b->below};
}

/* What is left of the limit beside the ring that the box has. */
static double limit_of(const joint *j, const box *b)
{
    return (double)j->limits->host_bytes - (double)gal_stage_host_bytes(0, 0, 0, &b->least);
}

/* What the block adds to the stage, by the share of least charge. *table: whether a block before it has the token table
 * there, which is of all its holders but once. */
static gal_code probe_block(const joint *j, const gal_plan *plan, uint32_t stage, uint32_t block,
                            const gal_price_charge *charge, bool *table, probe *sum, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_price_share share[GAL_PRICE_SHARES_MAX];
    uint32_t count = 1;
    double least = HUGE_VAL;
    probe own_least = {0};
    const gal_block_price *own = NULL;
    const gal_price_query query = gal_price_query_of(plan, stage, block);
    GAL_TRY(gal_price_block(j->request->cache, &query, &own, err));
    share[0].price = own;
    if (charge->storage) {
        GAL_TRY(gal_price_shares(j->request->cache, &query, charge->masters, share, &count, err));
    }
    const bool holds = own->shared_update_seconds[GAL_SHARED_TABLE] > 0.0, borrows = holds && *table;
    *table = *table || holds;
    for (uint32_t i = 0; i < count; i++) {
        const gal_block_host *host = &share[i].price->memory->host;
        const double update =
            share[i].price->update_seconds - (borrows ? share[i].price->shared_update_seconds[GAL_SHARED_TABLE] : 0.0);
        const double kept = (double)(host->state - (borrows ? host->table_state : 0) + own->memory->host.kept);
        const double charged = update + charge->host_seconds_per_byte * kept;
        if (charged < least && gal_price_charge_allows(charge, own, &share[i])) {
            least = charged;
            own_least = (probe){.seconds = update, .bytes = kept, .parts = host->parts};
            own_least.parts.kept = own->memory->host.parts.kept;
        }
    }
    sum->seconds += own_least.seconds;
    sum->bytes += own_least.bytes;
    sum->parts = gal_stored_parts_join(&sum->parts, &own_least.parts);
cleanup:
    return code;
}

/* Of the stage whose update and charge are the most. */
static gal_code probe_plan(const joint *j, const gal_finalist *f, const gal_price_charge *charge, probe *out,
                           gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_plan *plan = &f->plan;
    const double rate = charge->host_seconds_per_byte;
    double most = -HUGE_VAL;
    uint32_t block = 0;
    for (uint32_t stage = 0; stage < plan->stage_count; stage++) {
        probe sum = {.seconds_per_byte = rate};
        bool table = false;
        const uint32_t end = block + gal_plan_stage_block_count(plan, stage);
        for (; block < end; block++) {
            GAL_TRY(probe_block(j, plan, stage, block, charge, &table, &sum, err));
        }
        if (sum.seconds + rate * sum.bytes > most) {
            most = sum.seconds + rate * sum.bytes;
            sum.seconds = f->objective_seconds - rate * sum.bytes;
            *out = sum;
        }
    }
cleanup:
    return code;
}

/* What a charged search proves, of all plans within the limit. */
static void take_proof(joint *j, const gal_search_result *found, double charge)
{
    const gal_plan *plan = &found->finalist[0].plan;
    const double of_limit = charge * (double)j->limits->host_bytes;
    const double proved = plan->lower_bound_seconds > 0.0 ? plan->lower_bound_seconds - of_limit : 0.0;
    if (proved > j->proved_seconds) {
        j->proved_seconds = proved;
        j->certificate = plan->certificate;
        j->certificate.space = j->request->space; /* what is there besides the charge says */
        j->certificate.host = (gal_host_charge){.host_memory_bytes = j->limits->host_bytes,
                                                .seconds_per_byte = charge,
                                                .storage = j->storage,
                                                .masters = j->storage && j->limits->masters,
                                                .weights = j->stored.store_weights,
                                                .activations = j->stored.store_activations};
    }
    if (found->lower_bound_seconds - of_limit > j->bound_seconds) {
        j->bound_seconds = found->lower_bound_seconds - of_limit;
        j->charge = charge;
    }
}

static void bound_box(const joint *j, box *b)
{
    const double limit = limit_of(j, b);
    for (uint32_t i = 0; i < b->line_count; i++) {
        b->bound_seconds = fmax(b->bound_seconds, b->line[i].seconds - b->line[i].seconds_per_byte * limit);
    }
    if (limit < 0.0) {
        b->bound_seconds = HUGE_VAL;
    }
    if (b->high.seconds_per_byte > 0.0 && b->high.bytes > limit) {
        b->low = b->high;
        b->high = (probe){0};
    }
}

/* Searches the box under a charge, and moves one end of its range to it. */
static gal_code try_charge(joint *j, box *b, double seconds_per_byte, gal_search_result *found, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_price_charge charge = charge_of(j, b, seconds_per_byte);
    gal_price_cache *charged = NULL;
    gal_search_request request = *j->request;
    probe at = {0};
    gal_search_result_free(found);
    *found = (gal_search_result){0};
    GAL_TRY(gal_price_cache_create_charged(j->request->cache, &charge, &charged, err));
    request.cache = charged;
    request.space = j->storage ? j->stored : j->request->space;
    request.ranks_by_simulation = false;
    request.label_limit = request.label_limit < CHARGED_LABELS ? request.label_limit : CHARGED_LABELS;
    request.gap = fmax(request.gap, charged_gap) * j->bound_seconds / /* a share of true seconds */
                  (j->bound_seconds + seconds_per_byte * (double)j->limits->host_bytes);
    GAL_TRY(gal_search(&request, found, err));
    GAL_ASSERT(found->feasible); /* it fits devices as the search without a charge does, with nothing on storage */
    for (uint32_t i = 0; i < found->finalist_count; i++) {
        GAL_TRY(take(j, &found->finalist[i], err));
    }
    GAL_TRY(probe_plan(j, &found->finalist[0], &charge, &at, err));
    GAL_ASSERT(b->line_count < LINES_MAX);
    b->line[b->line_count++] = (line){seconds_per_byte, found->lower_bound_seconds};
    *(at.bytes > limit_of(j, b) ? &b->low : &b->high) = at;
    b->found = at.parts;
    b->searched = true;
    bound_box(j, b);
cleanup:
    gal_price_cache_free(charged);
    return code;
}

/* Where the lines of both ends cross, if that is between them. */
static double next_charge(const joint *j, const box *b)
{
    const double over = b->low.bytes - limit_of(j, b);
    const double lost = best_seconds(j) < HUGE_VAL ? best_seconds(j) - b->low.seconds : j->bound_seconds;
    if (b->high.seconds_per_byte == 0.0) { /* in a cut box: to where the line of the low end meets the best plan */
        const double wide = widen * b->low.seconds_per_byte;
        const double to_best = fmax(lost, rounding * j->bound_seconds) / fmax(over, 1.0);
        return j->box_count > 1 && best_seconds(j) < HUGE_VAL ? fmin(wide, to_best) : fmax(wide, to_best);
    }
    const double crossing = (b->high.seconds - b->low.seconds) / (b->low.bytes - b->high.bytes);
    const bool inside =
        crossing > b->low.seconds_per_byte * (1.0 + rounding) && crossing < b->high.seconds_per_byte * (1.0 - rounding);
    return inside ? crossing : 0.5 * (b->low.seconds_per_byte + b->high.seconds_per_byte);
}

/* proves: what the box shows is of all plans. */
static gal_code try_charges(joint *j, box *b, bool proves, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_search_result found = {0};
    for (uint32_t i = 0; i < CHARGES && !is_good_enough(j); i++) {
        const double before = j->bound_seconds, charge = next_charge(j, b);
        GAL_TRY(try_charge(j, b, charge, &found, err));
        if (proves) {
            take_proof(j, &found, charge);
        }
        if (b->high.seconds_per_byte > 0.0 && i > CHARGES / 2 && j->bound_seconds < before * (1.0 + rounding)) {
            break;
        }
    }
cleanup:
    gal_search_result_free(&found);
    return code;
}

/* Plans without anything on storage have no parts on their way. */
static gal_code try_without_storage(joint *j, const gal_search_result *whole, gal_error *err)
{
    gal_code code = GAL_OK;
    box *without = calloc(1, sizeof *without);
    const gal_price_charge none = {0};
    if (without == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    j->storage = false;
    GAL_TRY(probe_plan(j, &whole->finalist[0], &none, &without->low, err));
    GAL_TRY(try_charges(j, without, false, err));
cleanup:
    free(without);
    return code;
}

/* ---- boxes ---- */

enum { PART_KINDS = 4 };

static uint64_t *part_of(gal_stored_parts *parts, uint32_t kind)
{
    uint64_t *const of[PART_KINDS] = {&parts->moment, &parts->master, &parts->weight, &parts->kept};
    return of[kind];
}

/* By the kind of part of the found plan whose ring is most beyond what the box has for sure; false: there is none. */
static bool cut(joint *j, box *b)
{
    uint64_t most = 0;
    uint32_t widest = PART_KINDS;
    for (uint32_t kind = 0; kind < PART_KINDS; kind++) {
        const uint64_t part = *part_of(&b->found, kind), least = *part_of(&b->least, kind);
        const uint64_t ring = part > least ? (part - least) * (kind == 0 ? GAL_STORED_MOMENTS : 1) : 0;
        widest = ring > most ? kind : widest;
        most = ring > most ? ring : most;
    }
    if (widest == PART_KINDS || !b->searched || j->box_count == BOXES_MAX) {
        return false;
    }
    box *larger = &j->box[j->box_count++];
    *larger = *b;
    *part_of(&larger->least, widest) = *part_of(&b->found, widest);
    *part_of(&b->below, widest) = *part_of(&b->found, widest);
    if (*part_of(&b->high.parts, widest) >= *part_of(&b->below, widest)) { /* a plan of the other one */
        b->high = (probe){0};
    }
    b->searched = false;
    b->tries = larger->tries = 0;
    bound_box(j, larger);
    return true;
}

/* Of those that may be searched; NULL: there is none. */
static box *least_box(const joint *j, uint32_t tries)
{
    box *least = NULL;
    for (uint32_t i = 0; i < j->box_count; i++) {
        box *b = &j->box[i];
        least = b->tries < tries && (least == NULL || b->bound_seconds < least->bound_seconds) ? b : least;
    }
    return least;
}

/* Until a plan is good enough, or is known and the box of the least bound has no more to say. */
static gal_code try_boxes(joint *j, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_search_result found = {0};
    for (uint32_t i = 0; i < BOX_SEARCHES && !is_good_enough(j);) {
        box *b = least_box(j, BOX_CHARGES);
        if (b == NULL || (j->best->feasible && b != least_box(j, UINT32_MAX))) {
            break;
        }
        if (!cut(j, b)) {
            b->tries++;
            GAL_TRY(try_charge(j, b, next_charge(j, b), &found, err));
            i++;
        }
        j->bound_seconds = fmax(j->bound_seconds, fmin(least_box(j, UINT32_MAX)->bound_seconds, best_seconds(j)));
    }
cleanup:
    gal_search_result_free(&found);
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
    GAL_TRY(gal_block_types_create(j->request->model, j->request->durations, &types, err));
    GAL_TRY(gal_search_cells(j->request, &numbers, &count, err));
    for (uint32_t i = 0; i < count; i++) {
        gal_error refusal = {0};
        gal_cell_spec spec = gal_search_cell_spec(j->request, &numbers[i], j->request->cache);
        spec.space = &j->stored;
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
    j->bound_seconds = fmax(j->bound_seconds, fmin(bound, best_seconds(j)));
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
    const gal_price_charge charge = {
        .host_seconds_per_byte = j->charge, .storage = stores, .masters = stores && j->limits->masters};
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
    j->box = calloc(BOXES_MAX, sizeof *j->box);
    if (j->box == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    j->box_count = 1;
    const gal_price_charge free_of_charge = charge_of(j, &j->box[0], 0.0);
    GAL_TRY(probe_plan(j, &whole->finalist[0], &free_of_charge, &j->box[0].low, err));
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

enum { LISTED_MOST = 262144 }; /* of more, what is on storage is not chosen beside all else */

static bool is_listed(const gal_search_request *request, const gal_space *space)
{
    const uint32_t devices = gal_durations_cluster(request->durations)->device_count;
    return gal_space_strategies(space, devices, NULL) <= LISTED_MOST;
}

gal_space gal_host_stored_space(const gal_search_request *request, const gal_host_limits *limits)
{
    gal_space out = request->space;
    out.store_moments = out.store_moments && is_listed(request, &out);
    out.store_activations = limits->storage_bytes > 0;
    out.store_activations = out.store_activations && is_listed(request, &out);
    out.store_weights = limits->storage_bytes > 0 && limits->weights;
    out.store_weights = out.store_weights && is_listed(request, &out);
    return out;
}

/* Whether all plans have; of several any may have the ring. */
static bool has_one_stage(const gal_search_request *request)
{
    const gal_u32_list *degrees = &request->pp_degrees;
    return gal_durations_cluster(request->durations)->device_count == 1 ||
           (degrees->count == 1 && degrees->value[0] == 1);
}

gal_code gal_host_joint(const gal_search_request *request, const gal_host_limits *limits,
                        const gal_search_result *whole, const gal_finalist *known, gal_search_result *best,
                        gal_error *err)
{
    gal_code code = GAL_OK;
    joint j = {.request = request,
               .limits = limits,
               .known = known,
               .best = best,
               .stored = gal_host_stored_space(request, limits),
               .storage = limits->storage_bytes > 0};
    GAL_TRY(begin(&j, whole, err));
    GAL_TRY(try_charges(&j, &j.box[0], true, err));
    if (j.storage && !is_good_enough(&j)) {
        GAL_TRY(has_one_stage(request) ? try_boxes(&j, err) : try_without_storage(&j, whole, err));
    }
    GAL_TRY(take_known(&j, err));
    if (!is_good_enough(&j)) {
        GAL_TRY(close_gap(&j, err));
    }
    if (best->feasible) {
        claim(&j);
    }
cleanup:
    free(j.box);
    if (code != GAL_OK) {
        gal_search_result_free(best);
        *best = (gal_search_result){0};
    }
    return code;
}
