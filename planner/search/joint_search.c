#include "planner/search/joint_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/cell/finalist.h"
#include "planner/cell/illegal.h"
#include "planner/cell/uniform.h"
#include "planner/certificate/certify.h"
#include "planner/least/least.h"
#include "planner/search/joint_internal.h"

/* Cells of stages of so few devices in so few stages have few strategies: a first plan of theirs, soon found, spares
 * the others, which have thousands, much of their time. */
enum { NARROW_DEVICES = 8, NARROW_STAGES = 16 };

/* That plan may be a poor one: where a cell's bound is so many times better, the cell is solved before others begin,
 * and narrow stages come first no longer, but in spaces so wide that cells are taken several at a time. With them
 * always t5-large-48 on a100-64 took 1.09 times the instructions, on h100-64 1.30; without them in wide spaces
 * swin-huge-32 on a100-64 took twice the time. */
static const double far = 1.2;

/* ---- the cells ---- */

/* Whether tensors are too large under all strategies that are legal: a candidate without a floor. */
static gal_code count_too_large(gal_joint *o, const gal_joint_cell *c, const gal_cell_spec *spec, gal_error *err)
{
    bool legal = false;
    gal_code code = GAL_OK;
    if (c->least_bytes == HUGE_VAL) {
        code = gal_cell_types_are_legal(spec, &o->types, &legal, err);
    }
    o->result->too_large_cell_count += legal;
    return code;
}

/* A cell whose numbers divide becomes a candidate with its floor. */
static gal_code add_candidate(gal_joint *o, const gal_cell_numbers *numbers, gal_error *err)
{
    gal_joint_cell *c = &o->candidate[o->candidate_count];
    gal_error refusal = {0};
    *c = (gal_joint_cell){.numbers = *numbers, .finalist = GAL_JOINT_NO_FINALIST};
    const gal_cell_spec spec = gal_joint_spec(o, c);
    gal_code code = gal_cell_refused(&spec, &refusal);
    code = code == GAL_OK && gal_search_is_uniform(o->request) ? gal_uniform_refused(&spec, &refusal) : code;
    if (code != GAL_OK) {
        memcpy(o->result->refusal, refusal.text, sizeof o->result->refusal);
        return GAL_OK;
    }
    o->candidate_count++;
    code = gal_screen_floor(o->screens, &spec, &c->bound, &c->least_bytes, err);
    return code == GAL_OK ? count_too_large(o, c, &spec, err) : code;
}

static gal_code list_candidates(gal_joint *o, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_cell_numbers *numbers = NULL;
    uint32_t count = 0;
    GAL_TRY(gal_search_cells(o->request, &numbers, &count, err));
    o->candidate = calloc((size_t)count + 1, sizeof *o->candidate);
    if (o->candidate == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    for (uint32_t i = 0; i < count; i++) {
        GAL_TRY(add_candidate(o, &numbers[i], err));
    }
    o->result->cell_count = o->candidate_count;
    o->now.cell_count += o->candidate_count;
cleanup:
    free(numbers);
    return code;
}

static bool is_narrow(const gal_joint *o, const gal_joint_cell *c)
{
    const uint32_t devices = gal_durations_cluster(o->request->durations)->device_count;
    return c->numbers.pp_degree <= NARROW_STAGES && devices / c->numbers.pp_degree <= NARROW_DEVICES;
}

static bool is_among(const gal_joint_cell *c, gal_joint_cell *const *cell, uint32_t count)
{
    bool found = false;
    for (uint32_t i = 0; i < count; i++) {
        found = found || cell[i] == c;
    }
    return found;
}

/* The open one of the least bound per sample, below the level, but these; NULL: there is none. */
static gal_joint_cell *most_promising(gal_joint *o, gal_joint_level below, bool narrow, gal_joint_cell *const *but,
                                      uint32_t but_count)
{
    gal_joint_cell *best = NULL;
    for (uint32_t i = 0; i < o->candidate_count; i++) {
        gal_joint_cell *c = &o->candidate[i];
        const bool listed = c->level < below && (!narrow || is_narrow(o, c)) && !is_among(c, but, but_count);
        best = listed && (best == NULL || gal_joint_per_sample(c) < gal_joint_per_sample(best)) ? c : best;
    }
    return best;
}

/* Until a plan is known, unless another cell's bound is far better than theirs. */
static bool narrow_first(gal_joint *o, gal_joint_level below)
{
    if (o->result->finalist_count > 0) {
        return false;
    }
    const gal_joint_cell *of_narrow = most_promising(o, below, true, NULL, 0);
    return of_narrow != NULL &&
           (o->at_once > 1 ||
            gal_joint_per_sample(of_narrow) <= far * gal_joint_per_sample(most_promising(o, below, false, NULL, 0)));
}

/* Of the cells that were begun the one of the least bound, if that is far better than the best plan known; else NULL.
 * As long as no plan is known, any is. */
static gal_joint_cell *far_better(gal_joint *o, gal_joint_level below, bool narrow)
{
    const double wanted = gal_joint_wanted_per_sample(o);
    gal_joint_cell *best = NULL;
    for (uint32_t i = 0; i < o->candidate_count; i++) {
        gal_joint_cell *c = &o->candidate[i];
        const bool begun = c->level > GAL_JOINT_FLOORED && c->level < below && (!narrow || is_narrow(o, c));
        const double own = gal_joint_per_sample(c);
        best = begun && own * far < wanted && (best == NULL || own < gal_joint_per_sample(best)) ? c : best;
    }
    return best;
}

/* Of these who is on the lowest level; who is ahead waits for the others, as equal steps take about as long. Chains are
 * solved of one cell at a time: what one finds spares others most of theirs. Returns how many. */
static uint32_t keep_lowest(gal_joint_cell **cell, uint32_t count)
{
    gal_joint_level lowest = GAL_JOINT_CLOSED;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        lowest = cell[i]->level < lowest ? cell[i]->level : lowest;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (cell[i]->level == lowest) {
            cell[kept++] = cell[i];
        }
    }
    return lowest == GAL_JOINT_STAGED ? 1 : kept;
}

/* Those that take the next step: of the most promising, which are worth another look; one as long as no plan is known,
 * which may spare the others their prices. */
static uint32_t choose(gal_joint *o, gal_joint_level below, gal_joint_cell **cell)
{
    const bool narrow = below <= GAL_JOINT_STAGED && narrow_first(o, below);
    const double hopeless = gal_joint_hopeless_per_sample(o, below);
    const uint32_t most = hopeless < HUGE_VAL ? o->at_once : 1;
    uint32_t count = 0;
    cell[0] = below <= GAL_JOINT_STAGED ? far_better(o, below, narrow) : NULL;
    if (cell[0] != NULL) {
        return 1;
    }
    for (gal_joint_cell *c = most_promising(o, below, narrow, cell, 0);
         count < most && c != NULL && gal_joint_per_sample(c) < hopeless;
         c = most_promising(o, below, narrow, cell, count)) {
        cell[count++] = c;
    }
    return keep_lowest(cell, count);
}

gal_code gal_joint_advance_all(gal_joint *o, gal_joint_level below, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_joint_cell *cell[GAL_CELLS_AT_ONCE];
    uint32_t count = choose(o, below, cell);
    while (code == GAL_OK && count > 0) {
        code = gal_joint_advance(o, cell, count, err);
        count = choose(o, below, cell);
    }
    return code;
}

/* All cells in their stages first: a good plan spares the rest. */
gal_code gal_joint_search_candidates(gal_joint *o, gal_error *err)
{
    const gal_code code = gal_joint_advance_all(o, GAL_JOINT_STAGED, err);
    return code == GAL_OK ? gal_joint_advance_all(o, GAL_JOINT_CLOSED, err) : code;
}

/* ---- nothing was found: the least that would do ---- */

/* The chain of fewest bytes fits, where the search ran out of labels or work, or charged more in a larger space. */
static gal_code take_least(gal_joint *o, const gal_least_memory *least, gal_error *err)
{
    gal_code code = GAL_OK;
    double seconds = 0.0;
    const gal_cell_spec spec = gal_search_cell_spec(o->request, &least->numbers, o->cache);
    gal_strategy *strategy = calloc(gal_space_room(spec.space, spec.device_count / spec.pp_degree), sizeof *strategy);
    gal_finalist *finalist = gal_finalist_add(o->request, &spec, o->result);
    if (strategy == NULL || finalist == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    gal_space_strategies(spec.space, spec.device_count / spec.pp_degree, strategy);
    GAL_TRY(gal_finalist_write_path(strategy, least->stage, least->strategy, &finalist->plan, err));
    GAL_TRY(gal_plan_objective(o->cache, o->request->durations, &finalist->plan, &seconds, err));
    finalist->plan.objective_seconds = finalist->objective_seconds = seconds;
    for (uint32_t i = 0; i < o->candidate_count; i++) { /* so what the cells were said to hold is not proven */
        gal_joint_cell *c = &o->candidate[i];
        const gal_cell_spec own = gal_joint_spec(o, c);
        GAL_TRY(gal_screen_floor(o->screens, &own, &c->bound, &c->least_bytes, err));
        const bool here = memcmp(&c->numbers, &least->numbers, sizeof c->numbers) == 0;
        finalist->bound_seconds = here ? fmin(c->bound, seconds) : finalist->bound_seconds;
    }
    o->result->unproven_cell_count++;
cleanup:
    free(strategy);
    return code;
}

static gal_code search_least_bytes(gal_joint *o, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_least_memory least = {0};
    const gal_cluster *cluster = gal_durations_cluster(o->request->durations);
    const uint64_t memory = o->request->memory_bytes == 0 ? cluster->device.memory_bytes : o->request->memory_bytes;
    GAL_TRY(gal_least_memory_find(o->request, &least, err));
    o->result->least_bytes = least.bytes;
    o->result->least_bound_bytes = least.bound_bytes;
    o->result->least_numbers = least.numbers;
    if (least.exists && least.stage != NULL && least.bytes <= memory) {
        GAL_TRY(take_least(o, &least, err));
    }
cleanup:
    gal_least_memory_free(&least);
    return code;
}

/* ---- all of it ---- */

/* Share by which a finalist that is not wanted may be above those that are. */
static double reach_of(const gal_joint *o)
{
    return o->request->ranks_by_simulation ? o->stray : 0.0;
}

static gal_code simulate(gal_joint *o, gal_finalist *f, gal_error *err)
{
    const gal_code code = f->simulated_seconds > 0.0 ? GAL_OK : gal_finalist_predict(o->request, f, err);
    if (code == GAL_OK) {
        const double stray = fabs(f->simulated_seconds - f->objective_seconds) / f->objective_seconds;
        o->stray = fmin(GAL_JOINT_STRAY_MOST, fmax(o->stray, stray));
    }
    return code;
}

/* Simulates the finalists that are wanted and, where simulation ranks them, those that might be faster than they say;
 * drops the others. */
static gal_code simulate_finalists(gal_joint *o, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_search_result *result = o->result;
    const double wanted = gal_joint_wanted_per_sample(o);
    uint32_t kept = 0;
    if (result->finalist_count == 0) {
        return GAL_OK;
    }
    for (uint32_t i = 0; i < o->candidate_count; i++) {
        const gal_joint_cell *c = &o->candidate[i];
        if (c->finalist != GAL_JOINT_NO_FINALIST) {
            gal_finalist *f = &result->finalist[c->finalist];
            f->bound_seconds = fmin(c->bound, f->objective_seconds);
        }
    }
    qsort(result->finalist, result->finalist_count, sizeof result->finalist[0], gal_finalist_less_objective_first);
    while (code == GAL_OK && kept < result->finalist_count &&
           (kept == 0 || gal_finalist_per_sample(&result->finalist[kept]) <= wanted * (1.0 + reach_of(o)))) {
        code = simulate(o, &result->finalist[kept++], err);
    }
    while (result->finalist_count > kept) {
        gal_finalist_drop(result);
    }
    return code;
}

static void count_unproven(gal_joint *o, double best_per_sample)
{
    for (uint32_t i = 0; i < o->candidate_count && !gal_search_is_uniform(o->request); i++) {
        o->result->unproven_cell_count += gal_joint_per_sample(&o->candidate[i]) < best_per_sample * (1.0 - 1e-12);
    }
}

/* The certificate of the winner, from all cells of its batch. */
static gal_code certify(gal_joint *o, gal_finalist *winner, gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t count = 0;
    double *bound = &o->result->lower_bound_seconds;
    gal_certify_cell *cell = calloc(o->candidate_count, sizeof *cell);
    if (cell == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    *bound = winner->objective_seconds;
    for (uint32_t i = 0; i < o->candidate_count; i++) {
        const gal_joint_cell *c = &o->candidate[i];
        if (c->numbers.global_batch_samples == winner->global_batch_samples) {
            cell[count++] = (gal_certify_cell){.numbers = c->numbers, .bound_seconds = c->bound};
            *bound = fmin(*bound, c->bound);
        }
    }
    const gal_certificate_sources from = {o->request->durations, o->cache, gal_screens_floors(o->screens)};
    const gal_certificate_way way = !o->on_devices ? GAL_CERTIFICATE_AS_IT_IS
                                    : o->at_once > 1
                                        ? GAL_CERTIFICATE_ON_DEVICES /* of many strategies it is sooner done */
                                        : GAL_CERTIFICATE_BOTH_WAYS;
    code = gal_certify(o->request, &from, way, cell, count, bound, &winner->plan, err);
    free(cell);
    return code;
}

void gal_joint_close_all(gal_joint *o)
{
    for (uint32_t i = 0; i < o->candidate_count; i++) {
        if (o->candidate[i].level != GAL_JOINT_CLOSED) {
            gal_joint_close(o, &o->candidate[i]);
        }
    }
}

static gal_code conclude(gal_joint *o, gal_error *err)
{
    gal_search_result *result = o->result;
    gal_joint_close_all(o);
    result->feasible = result->finalist_count > 0;
    if (!result->feasible) {
        return GAL_OK;
    }
    count_unproven(o, gal_finalist_per_sample(&result->finalist[0]));
    if (o->request->ranks_by_simulation) {
        qsort(result->finalist, result->finalist_count, sizeof result->finalist[0], gal_finalist_faster_first);
    }
    return certify(o, &result->finalist[0], err);
}

gal_code gal_joint_create(gal_joint *o, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_search_request *r = o->request;
    const uint32_t blocks = gal_model_block_count(r->model);
    o->at_once = gal_search_cells_at_once(r);
    for (uint32_t i = 0; i < GAL_CELLS_AT_ONCE; i++) {
        gal_cell_answer *answer = &o->answer[i];
        answer->stage = calloc(blocks, sizeof *answer->stage);
        answer->strategy = calloc(blocks, sizeof *answer->strategy);
        if (answer->stage == NULL || answer->strategy == NULL) {
            GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
        }
    }
    GAL_TRY(gal_block_types_create(r->model, r->durations, &o->types, err));
    GAL_TRY(gal_screens_create(r->model, r->durations, &o->types, &r->space, &o->screens, err));
    if (r->cache == NULL) {
        GAL_TRY(gal_search_cache_create(r, &o->own_cache, err));
    }
    o->cache = r->cache == NULL ? o->own_cache : r->cache;
    GAL_TRY(list_candidates(o, err));
cleanup:
    return code;
}

void gal_joint_free(gal_joint *o)
{
    for (uint32_t i = 0; i < o->candidate_count; i++) {
        gal_screened_free(&o->candidate[i].screened);
        free(o->candidate[i].stage);
        free(o->candidate[i].weights);
    }
    free(o->candidate);
    gal_screened_prices_free(o->prices);
    gal_price_cache_free(o->own_cache);
    gal_screens_free(o->screens);
    gal_block_types_free(&o->types);
    for (uint32_t i = 0; i < GAL_CELLS_AT_ONCE; i++) {
        free(o->answer[i].strategy);
        free(o->answer[i].stage);
    }
}

gal_code gal_search(const gal_search_request *request, gal_search_result *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_search_result result = {0};
    gal_joint o = {.request = request, .result = &result};
    GAL_TRY(gal_joint_create(&o, err));
    GAL_TRY(gal_joint_begin(&o, err));
    if (!o.on_devices) {
        GAL_TRY(gal_joint_search_candidates(&o, err));
    }
    if (result.finalist_count == 0) {
        GAL_TRY(search_least_bytes(&o, err));
    }
    GAL_TRY(simulate_finalists(&o, err));
    GAL_TRY(conclude(&o, err));
    *out = result;
    memset(&result, 0, sizeof result);
cleanup:
    gal_joint_free(&o);
    gal_search_result_free(&result);
    return code;
}
