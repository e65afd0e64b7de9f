#include "planner/search/joint_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/cell/finalist.h"
#include "planner/cell/uniform.h"
#include "planner/least/least_cell.h"
#include "planner/stages/staged.h"

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

/* A cell's step. While others are taken at the same time it changes the cell and this alone; settle() does the rest. */
typedef struct step {
    gal_joint *o;
    gal_joint_cell *c;
    gal_cell_answer *answer; /* of chains; its arrays */
    gal_left_out left;       /* what the cell does without */
    bool done;               /* once its prices are there */
    bool hopeless;           /* not worth another look */
    bool found;              /* a path of the cell's own */
    uint64_t shared_work;    /* of chains, that other cells have less of */
} step;

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
    if (!gal_screened_prices_listed(c->numbers.pp_degree, samples_of(c), which, o->prices)) {
        return;
    }
    for (uint32_t i = 0; i < o->candidate_count; i++) {
        const gal_joint_cell *d = &o->candidate[i];
        if (d != c && d->level < from && d->numbers.pp_degree == c->numbers.pp_degree &&
            samples_of(d) == samples_of(c)) {
            return;
        }
    }
    gal_screened_prices_drop(c->numbers.pp_degree, samples_of(c), which, &o->prices);
}

static void forget_path(gal_joint_cell *c)
{
    free(c->stage);
    free(c->weights);
    c->stage = c->strategy = NULL;
    c->weights = NULL;
}

void gal_joint_close(gal_joint *o, gal_joint_cell *c)
{
    c->level = GAL_JOINT_CLOSED;
    gal_screened_free(&c->screened);
    drop_prices(o, c, GAL_FIRST_ORDERS, GAL_JOINT_STAGED);
    drop_prices(o, c, GAL_ALL_ORDERS, GAL_JOINT_CLOSED);
    forget_path(c);
    o->now.closed_cell_count++;
    tell_work(o, 0, 0);
}

void gal_joint_note_solved(gal_joint *o, gal_joint_cell *c)
{
    o->result->solved_cell_count += !c->solved;
    c->solved = true;
}

gal_cell_spec gal_joint_spec(const gal_joint *o, const gal_joint_cell *c)
{
    return gal_search_cell_spec(o->request, &c->numbers, o->cache);
}

double gal_joint_wanted_per_sample(const gal_joint *o)
{
    const double own = gal_finalists_wanted(o->result, o->request->finalist_count);
    return o->known_per_sample > 0.0 ? fmin(own, o->known_per_sample) : own;
}

static double gap_of(const gal_joint *o, gal_joint_level below)
{
    return o->request->gap * (below <= GAL_JOINT_STAGED ? staged_share : 1.0);
}

/* Seconds per sample above which a cell is not worth another look, below the level. */
double gal_joint_hopeless_per_sample(const gal_joint *o, gal_joint_level below)
{
    return gal_joint_wanted_per_sample(o) / (1.0 + gap_of(o, below));
}

/* The same of the cell, up to rounding: a bound that is raised so far is enough. */
static double hopeless_seconds(const gal_joint *o, const gal_joint_cell *c, gal_joint_level below)
{
    return c->numbers.global_batch_samples * gal_joint_hopeless_per_sample(o, below) * (1.0 + 1e-12);
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
    o->result->too_large_cell_count += answer.least_bytes == 0 && answer.too_large_count > 0;
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

/* By what is proven of the strategies that the cell has not left out. */
static void raise_bound(gal_joint_cell *c, double bound)
{
    c->bound = fmax(c->bound, fmin(bound, c->screened.rest_seconds));
}

/* The candidate's own path, from the answer's arrays. */
static gal_code keep_path(step *s, const gal_staged *staged, gal_error *err)
{
    gal_joint_cell *c = s->c;
    const size_t blocks = s->o->types.block_count;
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
    s->found = true;
    return GAL_OK;
}

/* By what first orders of axes show, without conversions: whether all orders are worth their prices. */
static gal_code solve_alike(step *s, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_joint_cell *c = s->c;
    const double gap = gap_of(s->o, GAL_JOINT_STAGED);
    const double enough = hopeless_seconds(s->o, c, GAL_JOINT_STAGED);
    gal_staged staged = {0};
    if (enough < HUGE_VAL) {
        code = gal_staged_solve(&c->screened, enough, gap, GAL_STAGED_ALIKE, &staged, err);
        s->hopeless = staged.bound >= enough * (1.0 + gap);
    }
    if (s->hopeless) {
        raise_bound(c, staged.bound);
    }
    return code;
}

/* enough_seconds: a bound that is no less need not be raised, nor one of a cell that is not worth another look. */
static gal_code solve_staged(step *s, gal_staged_effort effort, double enough_seconds, gal_error *err)
{
    gal_code code = GAL_OK;
    double weights[2 * GAL_STAGES_MAX];
    gal_joint_cell *c = s->c;
    const gal_joint_level below = effort == GAL_STAGED_QUICK ? GAL_JOINT_STAGED : GAL_JOINT_CLOSED;
    const double hopeless = hopeless_seconds(s->o, c, below);
    gal_staged staged = {.stage = s->answer->stage, .strategy = s->answer->strategy, .weights = weights};
    if (effort == GAL_STAGED_AGAIN) {
        staged = (gal_staged){c->bound, c->path_seconds, c->stage, c->strategy, c->weights};
    }
    GAL_TRY(gal_staged_solve(&c->screened, fmin(hopeless, enough_seconds), gap_of(s->o, below), effort, &staged, err));
    raise_bound(c, staged.bound);
    c->bound = fmin(c->bound, staged.seconds); /* above the path it is by rounding alone */
    if (staged.seconds < HUGE_VAL && c->bound < hopeless && c->stage == NULL) {
        GAL_TRY(keep_path(s, &staged, err));
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
static gal_code solve_ties(step *s, gal_error *err)
{
    if (!s->o->types.table_shared) {
        return GAL_OK;
    }
    if (s->c->stage == NULL) {
        return solve_staged(s, GAL_STAGED_TIED, HUGE_VAL, err);
    }
    const double settled = settled_seconds(s->o, s->c);
    return s->c->bound < settled ? solve_staged(s, GAL_STAGED_AGAIN, settled, err) : GAL_OK;
}

/* That chains of all cells may still take. */
static uint64_t work_left(const gal_joint *o)
{
    const uint64_t all = CHAIN_SOLVES * (uint64_t)o->request->label_limit * GAL_WORK_PER_LABEL;
    return all > o->chain_work ? all - o->chain_work : 0;
}

/* Whether memory is so short that chains have none for the cell. */
static gal_code find_least(step *s, const gal_cell_spec *spec, gal_error *err)
{
    gal_least_answer least = {0};
    if (s->o->result->finalist_count > 0 || s->o->result->solved_cell_count < 2) {
        return GAL_OK;
    }
    const gal_code code = gal_least_cell(spec, &s->o->types, GAL_LEAST_ANY, &least, err);
    if (code == GAL_OK && !least.found && least.bound_bytes == UINT64_MAX) { /* said sooner by bytes alone */
        s->c->bound = HUGE_VAL;
        s->hopeless = true;
    }
    return code;
}

static gal_code solve_chains(step *s, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_joint_cell *c = s->c;
    const gal_joint *o = s->o;
    const bool shares = o->result->finalist_count > 0 && o->candidate_count > 1 && o->request->gap > 0.0;
    const uint64_t left = work_left(o);
    gal_cell_answer *answer = s->answer;
    const gal_solve_settings settings = {.label_limit = o->request->label_limit,
                                         .few_labels = GAL_FEW_LABELS,
                                         .work_limit = shares ? left / 2 : 0,
                                         .starts = c->stage != NULL,
                                         .give_up_seconds = hopeless_seconds(o, c, GAL_JOINT_CLOSED),
                                         .tell = tell_work,
                                         .tell_context = s->o};
    const gal_cell_spec spec = gal_joint_spec(o, c);
    if (shares && left < (uint64_t)o->request->label_limit * GAL_WORK_PER_LABEL / CHAINS_LEAST) {
        return GAL_OK;
    }
    GAL_TRY(find_least(s, &spec, err));
    if (s->hopeless) {
        goto cleanup;
    }
    if (c->stage != NULL) {
        answer->seconds = c->path_seconds;
        memcpy(answer->stage, c->stage, o->types.block_count * sizeof *answer->stage);
        memcpy(answer->strategy, c->strategy, o->types.block_count * sizeof *answer->strategy);
    }
    GAL_TRY(gal_cell_search(&c->screened, &settings, answer, err));
    s->shared_work = shares ? answer->work : 0;
    raise_bound(c, answer->bound);
cleanup:
    return code;
}

/* ---- a step ---- */

/* By as few prices as show what all do; the others are asked for when the cell's turn comes again. Where no plan is
 * known, the step looks for one among what is likely by them. */
static gal_code bound_some(step *s, const gal_cell_spec *spec, gal_error *err)
{
    gal_joint *o = s->o;
    gal_joint_cell *c = s->c;
    gal_code code = GAL_OK;
    const double wanted = c->numbers.global_batch_samples * gal_joint_wanted_per_sample(o);
    GAL_TRY(gal_screened_bound_some(spec, &o->types, o->screens, wanted, &o->prices, &c->bound, err));
    s->done = c->bound == HUGE_VAL || wanted < HUGE_VAL;
    if (!s->done) {
        GAL_TRY(gal_screened_leave_unlikely(spec, &o->types, c->bound, o->prices, &s->left, err));
        s->done = s->left.out == NULL;
    }
    if (!s->done) {
        GAL_TRY(gal_screened_price(spec, &o->types, GAL_FIRST_ORDERS, &s->left, &o->prices, err));
    }
    if (s->done) {
        c->level = GAL_JOINT_BOUNDED;
    }
    if (s->done && gal_joint_per_sample(c) >= gal_joint_hopeless_per_sample(o, GAL_JOINT_SCREENED)) {
        gal_joint_close(o, c);
    }
cleanup:
    return code;
}

/* The prices of its step, less those of strategies that are in no plan so fast that the cell is worth another look. */
static gal_code ask_promising(step *s, const gal_cell_spec *spec, gal_screened_orders which, gal_error *err)
{
    gal_joint *o = s->o;
    const double enough = s->c->numbers.global_batch_samples * gal_joint_hopeless_per_sample(o, GAL_JOINT_STAGED);
    const gal_code code = gal_screened_leave_hopeless(spec, &o->types, o->screens, enough, o->prices, &s->left, err);
    return code == GAL_OK ? gal_screened_price(spec, &o->types, which, &s->left, &o->prices, err) : code;
}

static gal_code ask(step *s, gal_error *err)
{
    const gal_cell_spec spec = gal_joint_spec(s->o, s->c);
    switch (s->c->level) {
    case GAL_JOINT_FLOORED:
        return bound_some(s, &spec, err);
    case GAL_JOINT_BOUNDED:
        return ask_promising(s, &spec, GAL_FIRST_ORDERS, err);
    case GAL_JOINT_PROMISING:
        return ask_promising(s, &spec, GAL_ALL_ORDERS, err);
    default:
        return GAL_OK;
    }
}

static gal_code screen(step *s, gal_screened_orders which, gal_error *err)
{
    gal_screened screened = {0};
    const gal_cell_spec spec = gal_joint_spec(s->o, s->c);
    const gal_code code = gal_screened_create(&spec, &s->o->types, which, &s->left, &s->o->prices, &screened, err);
    gal_screened_free(&s->c->screened);
    s->c->screened = screened;
    return code;
}

/* The step itself, of one of those of a time. */
static gal_code take(void *context, uint32_t index, gal_error *err)
{
    step *s = (step *)context + index;
    gal_joint_cell *c = s->c;
    gal_code code = GAL_OK;
    if (s->done) {
        return GAL_OK;
    }
    switch (c->level) {
    case GAL_JOINT_FLOORED:
        code = screen(s, GAL_FIRST_ORDERS, err);
        code = code == GAL_OK ? solve_staged(s, GAL_STAGED_QUICK, HUGE_VAL, err) : code;
        break;
    case GAL_JOINT_BOUNDED:
        code = screen(s, GAL_FIRST_ORDERS, err);
        if (code == GAL_OK) {
            raise_bound(c, c->screened.bound);
        }
        break;
    case GAL_JOINT_SCREENED:
        code = solve_alike(s, err);
        break;
    case GAL_JOINT_PROMISING:
        code = screen(s, GAL_ALL_ORDERS, err);
        code = code == GAL_OK ? solve_staged(s, GAL_STAGED_QUICK, HUGE_VAL, err) : code;
        break;
    default:
        code = solve_ties(s, err);
        code = code == GAL_OK && gal_joint_per_sample(c) < gal_joint_hopeless_per_sample(s->o, GAL_JOINT_CLOSED)
                   ? solve_chains(s, err)
                   : code;
    }
    return code;
}

/* Its paths, where they are faster than what is known of the cell, and what it took. */
static gal_code note_paths(const step *s, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_joint *o = s->o;
    gal_joint_cell *c = s->c;
    o->result->label_count += s->answer->label_count;
    o->chain_work += s->shared_work;
    if (s->found && c->path_seconds < known_seconds(o, c)) {
        code = note_path(o, c, c->stage, c->strategy, c->path_seconds, err);
    }
    if (code == GAL_OK && s->answer->seconds < known_seconds(o, c)) {
        code = note_path(o, c, s->answer->stage, s->answer->strategy, s->answer->seconds, err);
    }
    return code;
}

/* What others see of it: the cell is on its next level. */
static gal_code settle(const step *s, gal_error *err)
{
    gal_joint *o = s->o;
    gal_joint_cell *c = s->c;
    if (s->done) {
        return GAL_OK;
    }
    const gal_code code = note_paths(s, err);
    const bool staged = c->level == GAL_JOINT_PROMISING;
    const bool looked = c->level == GAL_JOINT_FLOORED;
    if (staged || looked || (c->level == GAL_JOINT_SCREENED && s->hopeless)) {
        gal_joint_note_solved(o, c);
    }
    if (looked) { /* a path in other numbers than those that come */
        forget_path(c);
    }
    c->level++;
    if (staged) {
        drop_prices(o, c, GAL_FIRST_ORDERS, GAL_JOINT_STAGED);
    }
    /* for good: of a hopeless one first orders alone are listed */
    if (c->level == GAL_JOINT_CLOSED || s->hopeless ||
        ((staged || looked) && gal_joint_per_sample(c) >= gal_joint_hopeless_per_sample(o, GAL_JOINT_STAGED))) {
        gal_joint_close(o, c);
    }
    return code;
}

static gal_code advance_uniform(gal_joint *o, gal_joint_cell *c, gal_error *err)
{
    gal_joint_note_solved(o, c);
    const gal_code code = solve_uniform(o, c, err);
    gal_joint_close(o, c);
    return code;
}

gal_code gal_joint_advance(gal_joint *o, gal_joint_cell **cell, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    step steps[GAL_CELLS_AT_ONCE];
    for (uint32_t i = 0; i < count && gal_search_is_uniform(o->request); i++) {
        GAL_TRY(advance_uniform(o, cell[i], err));
    }
    if (gal_search_is_uniform(o->request)) {
        goto cleanup;
    }
    for (uint32_t i = 0; i < count; i++) {
        gal_cell_answer *answer = &o->answer[i];
        *answer = (gal_cell_answer){.seconds = HUGE_VAL, .stage = answer->stage, .strategy = answer->strategy};
        steps[i] = (step){.o = o, .c = cell[i], .answer = answer, .left = {.seconds = HUGE_VAL}};
    }
    for (uint32_t i = 0; i < count; i++) {
        GAL_TRY(ask(&steps[i], err));
    }
    GAL_TRY(gal_price_at_once(o->cache, count, take, steps, err));
    for (uint32_t i = 0; i < count; i++) {
        GAL_TRY(settle(&steps[i], err));
    }
cleanup:
    for (uint32_t i = 0; i < count && !gal_search_is_uniform(o->request); i++) {
        gal_left_out_free(&steps[i].left);
    }
    return code;
}
