#include "planner/search/joint_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/cell/finalist.h"
#include "planner/cell/uniform.h"
#include "planner/least/least_cell.h"
#include "planner/stages/staged.h"
#include "runtime/program/schedule.h"

/* Share of the gap that is asked of whole stages, whose bounds are soon raised; of chains, which take long, all of it.
 * With a quarter gpt2-xl on h100-8 took five times as long, for 0.20 instead of 0.30 %. */
static const double staged_share = 0.5;

/* Once a plan is known the chains of all cells together may take what so many solves of one may, each cell half of what
 * is left; less than such a part of a solve is not worth a beginning. A cell that is the only one takes what it may,
 * and so do all where a proof is asked for. */
enum { CHAIN_SOLVES = 2, CHAINS_LEAST = 16 };

static gal_code no_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

static void tell_work(void *context, uint64_t work, uint64_t work_limit)
{
    gal_joint *o = context;
    o->now.work = work;
    o->now.work_limit = work_limit;
    if (o->request->tell != NULL) {
        o->request->tell(o->request->tell_context, &o->now);
    }
}

static uint32_t samples_of(const gal_joint_cell *c)
{
    return c->numbers.global_batch_samples / c->numbers.microbatch_count;
}

/* Prices that no cell will look at again: first orders once all are listed, all once the cell is closed. */
static void drop_prices(gal_joint *o, const gal_joint_cell *c, gal_screened_orders which, gal_joint_level from)
{
    for (uint32_t i = 0; i < o->candidate_count; i++) {
        const gal_joint_cell *d = &o->candidate[i];
        if (d != c && d->level < from && d->numbers.pp_degree == c->numbers.pp_degree &&
            samples_of(d) == samples_of(c)) {
            return;
        }
    }
    gal_screened_prices_drop(c->numbers.pp_degree, samples_of(c), which, &o->prices);
}

void gal_joint_close(gal_joint *o, gal_joint_cell *c)
{
    c->level = GAL_JOINT_CLOSED;
    gal_screened_free(&c->screened);
    drop_prices(o, c, GAL_FIRST_ORDERS, GAL_JOINT_STAGED);
    drop_prices(o, c, GAL_ALL_ORDERS, GAL_JOINT_CLOSED);
    free(c->stage);
    free(c->weights);
    c->stage = c->strategy = NULL;
    c->weights = NULL;
    o->now.closed_cell_count++;
    tell_work(o, 0, 0);
}

gal_cell_spec gal_joint_spec(const gal_joint *o, const gal_joint_cell *c)
{
    return gal_search_cell_spec(o->request, &c->numbers, o->cache);
}

bool gal_joint_is_uniform(const gal_search_request *r)
{
    return r->schedule == GAL_SCHEDULE_INTERLEAVED || gal_schedule_splits(r->schedule);
}

double gal_joint_wanted_per_sample(const gal_joint *o)
{
    return gal_finalists_wanted(o->result, o->request->finalist_count);
}

static double gap_of(const gal_joint *o, gal_joint_level below)
{
    return o->request->gap * (below <= GAL_JOINT_STAGED ? staged_share : 1.0);
}

/* Seconds per sample above which a cell is not worth another look, below the level. */
double gal_joint_hopeless_per_sample(const gal_joint *o, gal_joint_level below)
{
    return gal_joint_wanted_per_sample(o) * (1.0 - gap_of(o, below));
}

/* A path of the cell, in place of one that was known; not simulated yet. */
static gal_code note_path(gal_joint *o, gal_joint_cell *c, const uint32_t *stage, const uint32_t *strategy,
                          double seconds, gal_error *err)
{
    const gal_cell_spec spec = gal_joint_spec(o, c);
    if (c->finalist == GAL_JOINT_NO_FINALIST) {
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

static gal_code solve_uniform(gal_joint *o, gal_joint_cell *c, gal_error *err)
{
    const gal_cell_spec spec = gal_joint_spec(o, c);
    gal_uniform_answer answer;
    gal_finalist *finalist = gal_finalist_add(o->request, &spec, o->result);
    if (finalist == NULL) {
        return no_memory(err);
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

/* Of the plan that is known of the cell; infinity: none is. */
static double known_seconds(const gal_joint *o, const gal_joint_cell *c)
{
    return c->finalist == GAL_JOINT_NO_FINALIST ? HUGE_VAL : o->result->finalist[c->finalist].objective_seconds;
}

/* The candidate's own path, from the answer's arrays. */
static gal_code keep_path(gal_joint *o, gal_joint_cell *c, const gal_staged *staged, gal_error *err)
{
    const size_t blocks = o->types.block_count;
    c->stage = malloc(2 * blocks * sizeof *c->stage);
    c->weights = malloc(2 * (size_t)c->numbers.pp_degree * sizeof *c->weights);
    if (c->stage == NULL || c->weights == NULL) {
        return no_memory(err);
    }
    c->strategy = c->stage + blocks;
    memcpy(c->stage, staged->stage, blocks * sizeof *c->stage);
    memcpy(c->strategy, staged->strategy, blocks * sizeof *c->strategy);
    memcpy(c->weights, staged->weights, 2 * (size_t)c->numbers.pp_degree * sizeof *c->weights);
    c->path_seconds = staged->seconds;
    return c->path_seconds < known_seconds(o, c) ? note_path(o, c, c->stage, c->strategy, c->path_seconds, err)
                                                 : GAL_OK;
}

/* By what first orders of axes show, without conversions; from there on all orders are listed. *hopeless: the cell is
 * not worth another look. */
static gal_code list_all_orders(gal_joint *o, gal_joint_cell *c, const gal_cell_spec *spec, bool *hopeless,
                                gal_error *err)
{
    gal_code code = GAL_OK;
    const double gap = gap_of(o, GAL_JOINT_STAGED);
    const double enough = c->numbers.global_batch_samples * gal_joint_hopeless_per_sample(o, GAL_JOINT_STAGED);
    gal_staged staged = {0};
    gal_screened all = {0};
    *hopeless = false;
    if (enough < HUGE_VAL) {
        GAL_TRY(gal_staged_solve(&c->screened, enough, gap, GAL_STAGED_ALIKE, &staged, err));
        *hopeless = staged.bound >= enough / (1.0 - gap);
    }
    if (*hopeless) {
        c->bound = fmax(c->bound, staged.bound);
        o->result->solved_cell_count++;
        goto cleanup;
    }
    GAL_TRY(gal_screened_create(spec, &o->types, GAL_ALL_ORDERS, &o->prices, &all, err));
    gal_screened_free(&c->screened);
    c->screened = all;
    drop_prices(o, c, GAL_FIRST_ORDERS, GAL_JOINT_STAGED);
cleanup:
    return code;
}

/* enough_seconds: a bound that is no less need not be raised, nor one of a cell that is not worth another look. */
static gal_code solve_staged(gal_joint *o, gal_joint_cell *c, gal_staged_effort effort, double enough_seconds,
                             gal_error *err)
{
    gal_code code = GAL_OK;
    double weights[2 * GAL_STAGES_MAX];
    const gal_joint_level below = effort == GAL_STAGED_QUICK ? GAL_JOINT_STAGED : GAL_JOINT_CLOSED;
    const double hopeless = c->numbers.global_batch_samples * gal_joint_hopeless_per_sample(o, below);
    gal_staged staged = {.stage = o->answer.stage, .strategy = o->answer.strategy, .weights = weights};
    if (effort == GAL_STAGED_AGAIN) {
        staged = (gal_staged){c->bound, c->path_seconds, c->stage, c->strategy, c->weights};
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
static double settled_seconds(const gal_joint *o, const gal_joint_cell *c)
{
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < o->candidate_count; i++) {
        const gal_joint_cell *d = &o->candidate[i];
        const bool settles = d->level == GAL_JOINT_CLOSED &&
                             d->numbers.global_batch_samples == c->numbers.global_batch_samples &&
                             gal_joint_per_sample(d) < gal_joint_hopeless_per_sample(o, GAL_JOINT_CLOSED);
        least = settles ? fmin(least, d->bound) : least;
    }
    return least;
}

/* What ties of the token table show: a bound, and no path where one is known. */
static gal_code solve_ties(gal_joint *o, gal_joint_cell *c, gal_error *err)
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
static uint64_t work_left(const gal_joint *o)
{
    const uint64_t all = CHAIN_SOLVES * (uint64_t)o->request->label_limit * GAL_WORK_PER_LABEL;
    return all > o->chain_work ? all - o->chain_work : 0;
}

static gal_code solve_chains(gal_joint *o, gal_joint_cell *c, gal_error *err)
{
    gal_code code = GAL_OK;
    const bool shares = o->result->finalist_count > 0 && o->candidate_count > 1 && o->request->gap > 0.0;
    const uint64_t left = work_left(o);
    gal_cell_answer *answer = &o->answer;
    const gal_solve_settings settings = {.label_limit = o->request->label_limit,
                                         .few_labels = GAL_FEW_LABELS,
                                         .work_limit = shares ? left / 2 : 0,
                                         .starts = c->stage != NULL,
                                         .give_up_seconds = c->numbers.global_batch_samples *
                                                            gal_joint_hopeless_per_sample(o, GAL_JOINT_CLOSED),
                                         .tell = tell_work,
                                         .tell_context = o};
    const gal_cell_spec spec = gal_joint_spec(o, c);
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
    answer->seconds = c->stage != NULL ? c->path_seconds : HUGE_VAL;
    if (c->stage != NULL) {
        memcpy(answer->stage, c->stage, o->types.block_count * sizeof *answer->stage);
        memcpy(answer->strategy, c->strategy, o->types.block_count * sizeof *answer->strategy);
    }
    GAL_TRY(gal_cell_search(&c->screened, &settings, answer, err));
    o->result->label_count += answer->label_count;
    o->chain_work += shares ? answer->work : 0;
    c->bound = fmax(c->bound, answer->bound);
    if (answer->seconds < known_seconds(o, c)) {
        GAL_TRY(note_path(o, c, answer->stage, answer->strategy, answer->seconds, err));
    }
cleanup:
    return code;
}

/* By as few prices as show what all do; the others are asked for when the cell's turn comes again. */
static gal_code bound_some(gal_joint *o, gal_joint_cell *c, const gal_cell_spec *spec, gal_error *err)
{
    const double wanted = c->numbers.global_batch_samples * gal_joint_wanted_per_sample(o);
    const gal_code code = wanted < HUGE_VAL
                              ? gal_screened_bound_some(spec, &o->types, o->screens, wanted, &o->prices, &c->bound, err)
                              : GAL_OK;
    c->level = GAL_JOINT_BOUNDED;
    if (code == GAL_OK && gal_joint_per_sample(c) >= gal_joint_hopeless_per_sample(o, GAL_JOINT_SCREENED)) {
        gal_joint_close(o, c);
    }
    return code;
}

static gal_code screen(gal_joint *o, gal_joint_cell *c, const gal_cell_spec *spec, gal_error *err)
{
    const gal_code code = gal_screened_create(spec, &o->types, GAL_FIRST_ORDERS, &o->prices, &c->screened, err);
    c->bound = code == GAL_OK ? fmax(c->bound, c->screened.bound) : c->bound;
    c->level = GAL_JOINT_SCREENED;
    return code;
}

/* One step on: a truer bound, or the cell solved. */
gal_code gal_joint_advance(gal_joint *o, gal_joint_cell *c, gal_error *err)
{
    gal_code code = GAL_OK;
    bool hopeless = false;
    const gal_cell_spec spec = gal_joint_spec(o, c);
    if (gal_joint_is_uniform(o->request)) {
        o->result->solved_cell_count++;
        code = solve_uniform(o, c, err);
        gal_joint_close(o, c);
        return code;
    }
    switch (c->level) {
    case GAL_JOINT_FLOORED:
        code = bound_some(o, c, &spec, err);
        break;
    case GAL_JOINT_BOUNDED:
        code = screen(o, c, &spec, err);
        break;
    case GAL_JOINT_SCREENED:
        code = list_all_orders(o, c, &spec, &hopeless, err);
        code = code == GAL_OK && !hopeless ? solve_staged(o, c, GAL_STAGED_QUICK, HUGE_VAL, err) : code;
        c->level = GAL_JOINT_STAGED;
        if (hopeless || gal_joint_per_sample(c) >= gal_joint_hopeless_per_sample(o, GAL_JOINT_STAGED)) {
            gal_joint_close(o, c); /* for good: of a hopeless one first orders alone are listed */
        }
        break;
    default:
        code = solve_ties(o, c, err);
        code = code == GAL_OK && gal_joint_per_sample(c) < gal_joint_hopeless_per_sample(o, GAL_JOINT_CLOSED)
                   ? solve_chains(o, c, err)
                   : code;
        gal_joint_close(o, c);
    }
    return code;
}
