#include "planner/search/joint_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/cell/cell_list.h"
#include "planner/cell/finalist.h"
#include "planner/cell/uniform.h"
#include "planner/certificate/certify.h"
#include "planner/least/least.h"
#include "planner/least/least_cell.h"
#include "planner/stages/cell_search.h"
#include "planner/stages/staged.h"
#include "runtime/program/schedule.h"

/* The objective of a plan strays from its simulation by as much as the finalists' do, and by this much at most. */
static const double largest_stray = 0.25;

/* Share of the gap that is asked of whole stages, whose bounds are soon raised; of chains, which take long, all of it.
 * With a quarter gpt2-xl on h100-8 took five times as long, for 0.20 instead of 0.30 %. */
static const double staged_share = 0.5;

/* Cells of stages of so few devices in so few stages have few strategies: a first plan of theirs, soon found, spares
 * the others, which have thousands, much of their time. */
enum { NARROW_DEVICES = 8, NARROW_STAGES = 16 };

/* Once a plan is known the chains of all cells together may take what so many solves of one may, each cell half of what
 * is left; less than such a part of a solve is not worth a beginning. A cell that is the only one takes what it may,
 * and so do all where a proof is asked for. */
enum { CHAIN_SOLVES = 2, CHAINS_LEAST = 16 };

typedef enum candidate_level { FLOORED, SCREENED, STAGED, CLOSED } candidate_level;
static const uint32_t no_finalist = UINT32_MAX;

/* A cell that may still win. */
typedef struct candidate {
    gal_cell_numbers numbers;
    candidate_level level;
    double bound; /* seconds */
    double least_bytes;
    gal_screened screened;
    uint32_t finalist;          /* its number in the result, or no_finalist */
    uint32_t *stage, *strategy; /* [block] of its path, as screened numbers strategies; owned, NULL: none */
    double *exposed;            /* [stage] as gal_staged has it with that path; owned */
} candidate;

typedef struct outer {
    const gal_search_request *request;
    gal_search_result *result;
    gal_price_cache *cache, *own_cache; /* the one in use; the request has none */
    gal_block_types types;
    gal_screens *screens;
    gal_screened_prices *prices;
    gal_cell_answer answer; /* its arrays */
    candidate *candidate;
    uint32_t candidate_count;
    double stray;        /* the most of any finalist */
    uint64_t chain_work; /* of chains of the search, since it knows a plan */
    gal_search_progress now;
} outer;

/* ---- progress ---- */

static void tell_work(void *context, uint64_t work, uint64_t work_limit)
{
    outer *o = context;
    o->now.work = work;
    o->now.work_limit = work_limit;
    if (o->request->tell != NULL) {
        o->request->tell(o->request->tell_context, &o->now);
    }
}

static void close_cell(outer *o, candidate *c)
{
    c->level = CLOSED;
    gal_screened_free(&c->screened);
    free(c->stage);
    free(c->exposed);
    c->stage = c->strategy = NULL;
    c->exposed = NULL;
    o->now.closed_cell_count++;
    tell_work(o, 0, 0);
}

/* ---- the cells ---- */

static gal_cell_spec spec_of(const outer *o, const candidate *c)
{
    return gal_search_cell_spec(o->request, &c->numbers, o->cache);
}

static bool is_uniform(const gal_search_request *r)
{
    return r->schedule == GAL_SCHEDULE_INTERLEAVED || gal_schedule_splits(r->schedule);
}

/* A cell whose numbers divide becomes a candidate with its floor. */
static gal_code add_candidate(outer *o, const gal_cell_numbers *numbers, gal_error *err)
{
    candidate *c = &o->candidate[o->candidate_count];
    gal_error refusal = {0};
    *c = (candidate){.numbers = *numbers, .finalist = no_finalist};
    const gal_cell_spec spec = spec_of(o, c);
    gal_code code = gal_cell_refused(&spec, &refusal);
    code = code == GAL_OK && is_uniform(o->request) ? gal_uniform_refused(&spec, &refusal) : code;
    if (code != GAL_OK) {
        memcpy(o->result->refusal, refusal.text, sizeof o->result->refusal);
        return GAL_OK;
    }
    o->candidate_count++;
    code = gal_screen_floor(o->screens, &spec, &c->bound, &c->least_bytes, err);
    return code;
}

static gal_code list_candidates(outer *o, gal_error *err)
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
    o->result->cell_count = o->now.cell_count = o->candidate_count;
cleanup:
    free(numbers);
    return code;
}

static double per_sample(const candidate *c)
{
    return c->bound / c->numbers.global_batch_samples;
}

static bool is_narrow(const outer *o, const candidate *c)
{
    const uint32_t devices = gal_durations_cluster(o->request->durations)->device_count;
    return c->numbers.pp_degree <= NARROW_STAGES && devices / c->numbers.pp_degree <= NARROW_DEVICES;
}

/* The open one of the least bound per sample, below the level if there is such a one; NULL: all are closed. */
static candidate *most_promising(outer *o, candidate_level below, bool narrow)
{
    candidate *best = NULL;
    for (uint32_t i = 0; i < o->candidate_count; i++) {
        candidate *c = &o->candidate[i];
        const bool listed = c->level < below && (!narrow || is_narrow(o, c));
        best = listed && (best == NULL || per_sample(c) < per_sample(best)) ? c : best;
    }
    return best;
}

/* ---- finalists ---- */

/* Of the last finalist that is wanted; infinity: fewer are known. */
static double wanted_per_sample(const outer *o)
{
    const uint32_t wanted = o->request->finalist_count < 1 ? 1 : o->request->finalist_count;
    double worst = -HUGE_VAL; /* of those wanted: the least value with `wanted` at or below */
    for (uint32_t rank = 0; rank < wanted; rank++) {
        double next = HUGE_VAL;
        uint32_t at_or_below = 0;
        for (uint32_t i = 0; i < o->result->finalist_count; i++) {
            const double own = gal_finalist_per_sample(&o->result->finalist[i]);
            at_or_below += own <= worst;
            next = own > worst ? fmin(next, own) : next;
        }
        if (at_or_below >= wanted) {
            break;
        }
        if (next == HUGE_VAL) { /* fewer are known: any cell may be wanted */
            return HUGE_VAL;
        }
        worst = next;
    }
    return worst;
}

static double gap_of(const outer *o, candidate_level below)
{
    return o->request->gap * (below <= STAGED ? staged_share : 1.0);
}

/* Seconds per sample above which a cell is not worth another look, below the level. */
static double hopeless_per_sample(const outer *o, candidate_level below)
{
    return wanted_per_sample(o) * (1.0 - gap_of(o, below));
}

static gal_code no_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

/* A path of the cell, in place of one that was known; not simulated yet. */
static gal_code note_path(outer *o, candidate *c, const uint32_t *stage, const uint32_t *strategy, double seconds,
                          gal_error *err)
{
    const gal_cell_spec spec = spec_of(o, c);
    if (c->finalist == no_finalist) {
        if (gal_finalist_add(o->request, &spec, o->result) == NULL) {
            return no_memory(err);
        }
        c->finalist = o->result->finalist_count - 1;
    } else {
        gal_plan_free(&o->result->finalist[c->finalist].plan);
        gal_finalist_begin(o->request, &spec, &o->result->finalist[c->finalist]);
    }
    gal_finalist *f = &o->result->finalist[c->finalist];
    f->plan.objective_seconds = f->objective_seconds = seconds;
    o->now.samples_per_second = fmax(o->now.samples_per_second, f->global_batch_samples / seconds);
    return gal_finalist_write_path(c->screened.strategy, stage, strategy, &f->plan, err);
}

static gal_code simulate(outer *o, gal_finalist *f, gal_error *err)
{
    const gal_code code = gal_finalist_predict(o->request, f, err);
    if (code == GAL_OK) {
        const double stray = fabs(f->simulated_seconds - f->objective_seconds) / f->objective_seconds;
        o->stray = fmin(largest_stray, fmax(o->stray, stray));
    }
    return code;
}

static gal_code solve_uniform(outer *o, candidate *c, gal_error *err)
{
    const gal_cell_spec spec = spec_of(o, c);
    gal_uniform_answer answer;
    gal_finalist *finalist = gal_finalist_add(o->request, &spec, o->result);
    if (finalist == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    gal_error why = {0};
    const gal_code code = gal_uniform_solve(&spec, &finalist->plan, &answer, &why);
    if (code == GAL_NO) { /* too few blocks for so many pieces */
        memcpy(o->result->refusal, why.text, sizeof o->result->refusal);
        gal_finalist_drop(o->result);
        return GAL_OK;
    }
    if (code != GAL_OK) {
        return gal_fail(err, code, "%s", why.text);
    }
    c->bound = fmax(c->bound, answer.seconds);
    if (answer.seconds == HUGE_VAL) {
        gal_finalist_drop(o->result);
        return GAL_OK;
    }
    c->finalist = o->result->finalist_count - 1;
    finalist->plan.objective_seconds = finalist->objective_seconds = answer.seconds;
    o->now.samples_per_second = fmax(o->now.samples_per_second, finalist->global_batch_samples / answer.seconds);
    return GAL_OK;
}

/* The candidate's own path, from the answer's arrays. */
static gal_code keep_path(outer *o, candidate *c, const gal_staged *staged, gal_error *err)
{
    const size_t blocks = o->types.block_count;
    c->stage = malloc(2 * blocks * sizeof *c->stage);
    c->exposed = malloc(c->numbers.pp_degree * sizeof *c->exposed);
    if (c->stage == NULL || c->exposed == NULL) {
        return no_memory(err);
    }
    c->strategy = c->stage + blocks;
    memcpy(c->stage, staged->stage, blocks * sizeof *c->stage);
    memcpy(c->strategy, staged->strategy, blocks * sizeof *c->strategy);
    memcpy(c->exposed, staged->exposed, c->numbers.pp_degree * sizeof *c->exposed);
    return note_path(o, c, c->stage, c->strategy, staged->seconds, err);
}

/* enough_seconds: a bound that is no less need not be raised, nor one of a cell that is not worth another look. */
static gal_code solve_staged(outer *o, candidate *c, gal_staged_effort effort, double enough_seconds, gal_error *err)
{
    gal_code code = GAL_OK;
    double exposed[GAL_STAGES_MAX];
    const candidate_level below = effort == GAL_STAGED_QUICK ? STAGED : CLOSED;
    const double hopeless = c->numbers.global_batch_samples * hopeless_per_sample(o, below);
    gal_staged staged = {.stage = o->answer.stage, .strategy = o->answer.strategy, .exposed = exposed};
    if (effort == GAL_STAGED_AGAIN) {
        const double seconds = o->result->finalist[c->finalist].objective_seconds;
        staged = (gal_staged){c->bound, seconds, c->stage, c->strategy, c->exposed};
    }
    o->result->solved_cell_count += effort == GAL_STAGED_QUICK;
    GAL_TRY(gal_staged_solve(&c->screened, fmin(hopeless, enough_seconds), gap_of(o, below), effort, &staged, err));
    c->bound = fmin(fmax(c->bound, staged.bound), staged.seconds); /* above the path it is by rounding alone */
    if (staged.seconds < HUGE_VAL && c->bound < hopeless && c->stage == NULL) {
        GAL_TRY(keep_path(o, c, &staged, err));
    }
cleanup:
    return code;
}

/* What the search's bound is at most by a closed cell of the batch, which may hold a faster plan; infinity: by none. */
static double settled_seconds(const outer *o, const candidate *c)
{
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < o->candidate_count; i++) {
        const candidate *d = &o->candidate[i];
        const bool settles = d->level == CLOSED && d->numbers.global_batch_samples == c->numbers.global_batch_samples &&
                             per_sample(d) < hopeless_per_sample(o, CLOSED);
        least = settles ? fmin(least, d->bound) : least;
    }
    return least;
}

/* What ties of the token table show: a bound, and no path where one is known. */
static gal_code solve_ties(outer *o, candidate *c, gal_error *err)
{
    if (!o->types.table_shared) {
        return GAL_OK;
    }
    if (c->stage == NULL) {
        return solve_staged(o, c, GAL_STAGED_TIED, HUGE_VAL, err);
    }
    const double settled = settled_seconds(o, c);
    return c->bound < settled ? solve_staged(o, c, GAL_STAGED_AGAIN, settled, err) : GAL_OK;
}

/* That chains of all cells may still take. */
static uint64_t work_left(const outer *o)
{
    const uint64_t all = CHAIN_SOLVES * (uint64_t)o->request->label_limit * GAL_WORK_PER_LABEL;
    return all > o->chain_work ? all - o->chain_work : 0;
}

static gal_code solve_chains(outer *o, candidate *c, gal_error *err)
{
    gal_code code = GAL_OK;
    const bool shares = o->result->finalist_count > 0 && o->candidate_count > 1 && o->request->gap > 0.0;
    const uint64_t left = work_left(o);
    gal_cell_answer *answer = &o->answer;
    const double known = c->finalist == no_finalist ? HUGE_VAL : o->result->finalist[c->finalist].objective_seconds;
    const gal_solve_settings settings = {.label_limit = o->request->label_limit,
                                         .few_labels = GAL_FEW_LABELS,
                                         .work_limit = shares ? left / 2 : 0,
                                         .starts = c->stage != NULL,
                                         .give_up_seconds =
                                             c->numbers.global_batch_samples * hopeless_per_sample(o, CLOSED),
                                         .tell = tell_work,
                                         .tell_context = o};
    const gal_cell_spec spec = spec_of(o, c);
    if (shares && left < (uint64_t)o->request->label_limit * GAL_WORK_PER_LABEL / CHAINS_LEAST) {
        return GAL_OK;
    }
    if (o->result->finalist_count == 0 && o->result->solved_cell_count > 1) { /* memory is short */
        gal_least_answer least = {0};
        GAL_TRY(gal_least_cell(&spec, &o->types, GAL_LEAST_ANY, &least, err));
        if (!least.found && least.bound_bytes == UINT64_MAX) { /* said sooner by bytes alone */
            c->bound = HUGE_VAL;
            goto cleanup;
        }
    }
    answer->seconds = known;
    if (c->stage != NULL) {
        memcpy(answer->stage, c->stage, o->types.block_count * sizeof *answer->stage);
        memcpy(answer->strategy, c->strategy, o->types.block_count * sizeof *answer->strategy);
    }
    GAL_TRY(gal_cell_search(&c->screened, &settings, answer, err));
    o->result->label_count += answer->label_count;
    o->chain_work += shares ? answer->work : 0;
    c->bound = fmax(c->bound, answer->bound);
    if (answer->seconds < known) {
        GAL_TRY(note_path(o, c, answer->stage, answer->strategy, answer->seconds, err));
    }
cleanup:
    return code;
}

/* One step on: a truer bound, or the cell solved. */
static gal_code advance(outer *o, candidate *c, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_cell_spec spec = spec_of(o, c);
    if (is_uniform(o->request)) {
        o->result->solved_cell_count++;
        code = solve_uniform(o, c, err);
        close_cell(o, c);
        return code;
    }
    switch (c->level) {
    case FLOORED:
        code = gal_screened_create(&spec, &o->types, &o->prices, &c->screened, err);
        c->bound = code == GAL_OK ? fmax(c->bound, c->screened.bound) : c->bound;
        c->level = SCREENED;
        break;
    case SCREENED:
        code = solve_staged(o, c, GAL_STAGED_QUICK, HUGE_VAL, err);
        c->level = STAGED;
        if (per_sample(c) >= hopeless_per_sample(o, STAGED)) {
            close_cell(o, c);
        }
        break;
    default:
        code = solve_ties(o, c, err);
        code = code == GAL_OK && per_sample(c) < hopeless_per_sample(o, CLOSED) ? solve_chains(o, c, err) : code;
        close_cell(o, c);
    }
    return code;
}

/* narrow: those alone, until a plan is known. */
static gal_code advance_all(outer *o, candidate_level below, bool narrow, gal_error *err)
{
    gal_code code = GAL_OK;
    candidate *c = most_promising(o, below, narrow);
    while (code == GAL_OK && c != NULL && per_sample(c) < hopeless_per_sample(o, below) &&
           !(narrow && o->result->finalist_count > 0)) {
        code = advance(o, c, err);
        c = most_promising(o, below, narrow);
    }
    return code;
}

/* All cells in their stages first: a good plan spares the rest. */
static gal_code search_candidates(outer *o, gal_error *err)
{
    gal_code code = advance_all(o, STAGED, true, err);
    code = code == GAL_OK ? advance_all(o, STAGED, false, err) : code;
    return code == GAL_OK ? advance_all(o, CLOSED, false, err) : code;
}

/* ---- nothing was found: the least that would do ---- */

/* The chain of fewest bytes fits, where the search ran out of labels or work, or charged more in a larger space. */
static gal_code take_least(outer *o, const gal_least_memory *least, gal_error *err)
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
        candidate *c = &o->candidate[i];
        const gal_cell_spec own = spec_of(o, c);
        GAL_TRY(gal_screen_floor(o->screens, &own, &c->bound, &c->least_bytes, err));
        const bool here = memcmp(&c->numbers, &least->numbers, sizeof c->numbers) == 0;
        finalist->bound_seconds = here ? fmin(c->bound, seconds) : finalist->bound_seconds;
    }
    o->result->unproven_cell_count++;
cleanup:
    free(strategy);
    return code;
}

static gal_code search_least_bytes(outer *o, gal_error *err)
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
static double reach_of(const outer *o)
{
    return o->request->ranks_by_simulation ? o->stray : 0.0;
}

/* Simulates the finalists that are wanted and, where simulation ranks them, those that might be faster than they say;
 * drops the others. */
static gal_code simulate_finalists(outer *o, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_search_result *result = o->result;
    const double wanted = wanted_per_sample(o);
    uint32_t kept = 0;
    if (result->finalist_count == 0) {
        return GAL_OK;
    }
    for (uint32_t i = 0; i < o->candidate_count; i++) {
        const candidate *c = &o->candidate[i];
        if (c->finalist != no_finalist) {
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

static void count_unproven(outer *o, double best_per_sample)
{
    for (uint32_t i = 0; i < o->candidate_count && !is_uniform(o->request); i++) {
        o->result->unproven_cell_count += per_sample(&o->candidate[i]) < best_per_sample * (1.0 - 1e-12);
    }
}

/* The certificate of the winner, from all cells of its batch. */
static gal_code certify(outer *o, gal_finalist *winner, gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t count = 0;
    double *bound = &o->result->lower_bound_seconds;
    gal_certify_cell *cell = calloc(o->candidate_count, sizeof *cell);
    if (cell == NULL) {
        return no_memory(err);
    }
    *bound = winner->objective_seconds;
    for (uint32_t i = 0; i < o->candidate_count; i++) {
        const candidate *c = &o->candidate[i];
        if (c->numbers.global_batch_samples == winner->global_batch_samples) {
            cell[count++] = (gal_certify_cell){.numbers = c->numbers, .bound_seconds = c->bound};
            *bound = fmin(*bound, c->bound);
        }
    }
    const gal_certificate_sources from = {o->request->durations, o->cache, gal_screens_floors(o->screens)};
    code = gal_certify(o->request, &from, cell, count, bound, &winner->plan, err);
    free(cell);
    return code;
}

static gal_code conclude(outer *o, gal_error *err)
{
    gal_search_result *result = o->result;
    for (uint32_t i = 0; i < o->candidate_count; i++) {
        if (o->candidate[i].level != CLOSED) {
            close_cell(o, &o->candidate[i]);
        }
    }
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

static gal_code create(outer *o, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_search_request *r = o->request;
    const uint32_t blocks = gal_model_block_count(r->model);
    o->answer.stage = calloc(blocks, sizeof *o->answer.stage);
    o->answer.strategy = calloc(blocks, sizeof *o->answer.strategy);
    if (o->answer.stage == NULL || o->answer.strategy == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    GAL_TRY(gal_block_types_create(r->model, &o->types, err));
    GAL_TRY(gal_screens_create(r->model, r->durations, &o->types, &r->space, &o->screens, err));
    if (r->cache == NULL) {
        GAL_TRY(gal_price_cache_create(r->model, r->durations, &o->own_cache, err));
    }
    o->cache = r->cache == NULL ? o->own_cache : r->cache;
    GAL_TRY(list_candidates(o, err));
cleanup:
    return code;
}

static void outer_free(outer *o)
{
    for (uint32_t i = 0; i < o->candidate_count; i++) {
        gal_screened_free(&o->candidate[i].screened);
        free(o->candidate[i].stage);
        free(o->candidate[i].exposed);
    }
    free(o->candidate);
    gal_screened_prices_free(o->prices);
    gal_price_cache_free(o->own_cache);
    gal_screens_free(o->screens);
    gal_block_types_free(&o->types);
    free(o->answer.strategy);
    free(o->answer.stage);
}

gal_code gal_search(const gal_search_request *request, gal_search_result *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_search_result result = {0};
    outer o = {.request = request, .result = &result};
    GAL_TRY(create(&o, err));
    GAL_TRY(search_candidates(&o, err));
    if (result.finalist_count == 0) {
        GAL_TRY(search_least_bytes(&o, err));
    }
    GAL_TRY(simulate_finalists(&o, err));
    GAL_TRY(conclude(&o, err));
    *out = result;
    memset(&result, 0, sizeof result);
cleanup:
    outer_free(&o);
    gal_search_result_free(&result);
    return code;
}
