#include "planner/stages/cell_solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/bound/bottleneck.h"
#include "planner/bound/boxes.h"
#include "planner/bound/first_path.h"

enum { FIRST_ROUNDS = 120, ROUNDS = 30, BYTE_ROUNDS = 10, BEAM_EVERY = 8 };

typedef struct solver {
    const gal_cell *cell;
    const gal_solve_settings *settings;
    gal_cell_answer *answer;
    gal_best_path best; /* the answer's arrays */
    gal_dual *dual;
    gal_choices choices; /* of the dual over all paths */
    gal_choices wide;    /* of the box at hand */
    gal_boxes boxes;
    gal_bottleneck *bottleneck;
    uint32_t box_count;
    uint64_t work_limit;
    double open_bound; /* least bound of boxes that were left unfinished */
} solver;

static void met(solver *s, uint64_t bytes)
{
    gal_cell_answer *a = s->answer;
    a->least_bytes = a->least_bytes == 0 || bytes < a->least_bytes ? bytes : a->least_bytes;
}

static void note_bytes(solver *s)
{
    const gal_dual *dual = s->dual;
    uint64_t bytes = 0;
    if (dual->bound < HUGE_VAL && gal_cell_tables_alike(s->cell, dual->strategy)) {
        gal_cell_evaluate(s->cell, dual->stage, dual->strategy, &bytes);
        met(s, bytes);
    }
}

static void tell(const solver *s)
{
    if (s->settings->tell != NULL) {
        s->settings->tell(s->settings->tell_context, s->dual->work, s->work_limit);
    }
}

/* Shorter than this is worth finding. */
static double useful(const solver *s)
{
    return s->best.seconds * (1.0 - 1e-12);
}

/* What whole blocks make of the slowest stage; where nothing is known of it, nothing. */
static gal_code look_at_bottleneck(solver *s, gal_error *err)
{
    const gal_cell *cell = s->cell;
    if (cell->spec.pp_degree == 1 || cell->spec.microbatch_count == 1 || !cell->types.alternates) {
        return GAL_OK;
    }
    gal_bottleneck_free(s->bottleneck);
    s->bottleneck = s->dual->bottleneck = NULL;
    const gal_code code = gal_bottleneck_create(s->dual, &s->bottleneck, err);
    s->dual->bottleneck = s->bottleneck;
    if (code == GAL_OK) {
        gal_bottleneck_look(s->bottleneck, s->dual);
        s->dual->slowest_least = fmax(fmin(s->bottleneck->at_all, s->dual->most_seconds), 0.0);
        gal_dual_weigh(s->dual);
        gal_dual_solve(s->dual);
    }
    return code;
}

/* ---- boxes ---- */

/* Embeddings that are not tied alike to one before. */
static bool first_of_class(const gal_cell *cell, uint32_t strategy)
{
    for (uint32_t s = 0; s < strategy; s++) {
        if (gal_cell_price(cell, 0, 0, s) != NULL &&
            gal_strategy_same_shards(&cell->strategy[s], &cell->strategy[strategy])) {
            return false;
        }
    }
    return gal_cell_price(cell, 0, 0, strategy) != NULL;
}

static gal_code search_labels(solver *s, const gal_label_settings *settings, double *bound, gal_error *err)
{
    gal_label_result labels;
    const gal_code code = gal_label_search(s->dual, settings, &s->best, &labels, err);
    if (code == GAL_OK) {
        s->answer->label_count += labels.label_count;
        *bound = fmax(*bound, labels.bound);
    }
    tell(s);
    return code;
}

/* The dual of one class of tied tables, or of all paths; false: there is no such class. */
static bool load_class(solver *s, uint32_t class)
{
    const bool tied = s->cell->types.table_shared;
    if (tied ? !first_of_class(s->cell, class) : class > 0) {
        return false;
    }
    gal_choices_copy(s->cell, &s->choices, &s->dual->choices);
    if (tied) {
        gal_dual_tie(s->dual, class);
    }
    gal_dual_weigh(s->dual);
    gal_dual_solve(s->dual);
    return true;
}

/* Whether a path fits at all: *none where it is sure that none does. */
static gal_code find_any(solver *s, bool *none, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_label_settings settings = {.reach_seconds = HUGE_VAL,
                                         .label_limit = s->settings->label_limit,
                                         .work_limit = s->dual->work + s->work_limit / 4,
                                         .stop_at_limit = true,
                                         .any_path = true};
    const gal_weights weights = s->dual->weights;
    double bound = HUGE_VAL;
    gal_dual_take_bytes(s->dual);
    for (uint32_t i = 0; code == GAL_OK && i < s->cell->strategy_count && s->best.seconds == HUGE_VAL; i++) {
        if (load_class(s, i) && s->dual->bound < HUGE_VAL) {
            double of_class = -HUGE_VAL;
            note_bytes(s);
            code = search_labels(s, &settings, &of_class, err);
            bound = fmin(bound, of_class);
        }
    }
    gal_dual_take_seconds(s->dual, &weights);
    *none = s->best.seconds == HUGE_VAL && bound == HUGE_VAL;
    return code;
}

static gal_code add_first_boxes(solver *s, gal_error *err)
{
    const bool tied = s->cell->types.table_shared;
    gal_code code = GAL_OK;
    for (uint32_t i = 0; code == GAL_OK && i < s->cell->strategy_count; i++) {
        if (load_class(s, i) && s->dual->bound < useful(s)) {
            const gal_box_state class = {s->dual->bound, tied ? i : GAL_BOX_UNTIED, 0};
            code = gal_boxes_add(&s->boxes, s->dual, &class, NULL, err);
        }
    }
    return code;
}

/* Looks for paths just above the bound first, then further and further: few labels live there, and a path found is the
 * best of the box. Stops where `limit` labels do not suffice; *bound is then where they did. */
static gal_code climb(solver *s, uint32_t limit, double *bound, gal_error *err)
{
    gal_code code = GAL_OK;
    const double bottom = *bound;
    const double top = s->best.seconds < HUGE_VAL ? s->best.seconds : 2.0 * bottom;
    gal_choices_copy(s->cell, &s->dual->choices, &s->wide);
    for (uint32_t parts = 64; code == GAL_OK && parts > 0 && *bound < useful(s); parts /= 4) {
        const double reach = parts > 1 ? bottom + (top - bottom) / parts : s->best.seconds;
        const gal_label_settings settings = {
            .label_limit = limit, .stop_at_limit = true, .reach_seconds = reach, .work_limit = s->work_limit};
        gal_dual_narrow(s->dual, reach);
        code = search_labels(s, &settings, bound, err);
        gal_choices_copy(s->cell, &s->wide, &s->dual->choices);
        gal_dual_weigh(s->dual);
        gal_dual_solve(s->dual);
        if (*bound < reach && *bound < useful(s)) {
            break;
        }
    }
    return code;
}

/* Any better path, by the most promising labels. */
static gal_code try_beam(solver *s, uint32_t limit, double *bound, gal_error *err)
{
    const gal_label_settings settings = {
        .label_limit = limit, .reach_seconds = s->best.seconds, .work_limit = s->work_limit};
    return search_labels(s, &settings, bound, err);
}

static gal_code add_halves(solver *s, const gal_box_state *state, gal_split *split, gal_error *err)
{
    split->upper = false;
    const gal_code code = gal_boxes_add(&s->boxes, s->dual, state, split, err);
    split->upper = true;
    return code == GAL_OK ? gal_boxes_add(&s->boxes, s->dual, state, split, err) : code;
}

/* Four times the labels for each failure. */
static uint32_t labels_for(const gal_solve_settings *settings, uint32_t effort)
{
    const uint64_t wanted = effort < 15 ? (uint64_t)settings->few_labels << 2 * effort : UINT64_MAX;
    return wanted < settings->label_limit ? (uint32_t)wanted : settings->label_limit;
}

/* Closes the box, or puts its two halves back; one that cannot be split, to be met again with more labels. */
static gal_code explore(solver *s, gal_box *box, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_dual *dual = s->dual;
    gal_box_state state = gal_box_state_of(box);
    gal_split split;
    gal_choices_copy(s->cell, &s->choices, &dual->choices);
    gal_box_load(box, dual);
    if (s->best.seconds == HUGE_VAL && gal_dual_is_too_large(dual, BYTE_ROUNDS, &s->best)) {
        return GAL_OK;
    }
    gal_dual_raise(dual, ROUNDS, &s->best);
    tell(s);
    note_bytes(s);
    state.bound = fmax(state.bound, dual->bound);
    if (gal_dual_is_infeasible(dual) || state.bound >= useful(s)) {
        return GAL_OK;
    }
    const bool splits = gal_box_choose_split(dual, &split);
    const uint32_t limit = labels_for(s->settings, state.effort);
    if (s->box_count++ % BEAM_EVERY == 0) {
        GAL_TRY(try_beam(s, labels_for(s->settings, 0), &state.bound, err));
    }
    GAL_TRY(climb(s, limit, &state.bound, err));
    if (state.bound >= useful(s)) {
        return GAL_OK;
    }
    if (splits) {
        GAL_TRY(add_halves(s, &state, &split, err));
    } else if (limit < s->settings->label_limit) {
        state.effort++;
        GAL_TRY(gal_boxes_add(&s->boxes, dual, &state, NULL, err));
    } else {
        GAL_TRY(try_beam(s, limit, &state.bound, err));
        s->open_bound = fmin(s->open_bound, state.bound);
    }
cleanup:
    return code;
}

static gal_code explore_all(solver *s, gal_error *err)
{
    gal_code code = GAL_OK;
    bool none = false;
    if (s->best.seconds == HUGE_VAL) {
        code = find_any(s, &none, err);
    }
    if (code == GAL_OK && !none) {
        gal_choices_copy(s->cell, &s->choices, &s->dual->choices);
        code = look_at_bottleneck(s, err);
    }
    if (code == GAL_OK && !none) {
        code = add_first_boxes(s, err);
    }
    while (code == GAL_OK && s->boxes.count > 0 && gal_boxes_least_bound(&s->boxes) < useful(s) &&
           s->dual->work < s->work_limit) {
        gal_box *box = gal_boxes_take(&s->boxes);
        code = explore(s, box, err);
        gal_box_free(box);
    }
    if (s->boxes.count > 0) {
        s->open_bound = fmin(s->open_bound, gal_boxes_least_bound(&s->boxes));
    }
    return code;
}

/* The bound over all paths: a third of the rounds, then with what is known by then. */
static gal_code raise_root(solver *s, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t third = 0; third < 3 && code == GAL_OK; third++) {
        gal_dual_raise(s->dual, FIRST_ROUNDS / 3, &s->best);
        if (s->dual->bound == HUGE_VAL || s->dual->bound >= useful(s) || s->best.seconds == HUGE_VAL) {
            continue;
        }
        if (s->cell->spec.pp_degree > 1) {
            gal_dual_narrow_stages(s->dual, s->best.seconds);
        }
        if (third < 2) {
            code = look_at_bottleneck(s, err);
        }
    }
    return code;
}

gal_code gal_cell_solve(const gal_cell *cell, const gal_solve_settings *settings, gal_cell_answer *answer,
                        gal_error *err)
{
    gal_code code = GAL_OK;
    solver s = {.cell = cell,
                .settings = settings,
                .answer = answer,
                .best = {settings->give_up_seconds, answer->stage, answer->strategy},
                .work_limit = settings->work_limit > 0 ? settings->work_limit
                                                       : (uint64_t)settings->label_limit * GAL_WORK_PER_LABEL,
                .open_bound = HUGE_VAL};
    double found = settings->give_up_seconds; /* what is shorter was found */
    answer->least_bytes = 0;
    answer->label_count = 0;
    if (settings->starts) {
        s.best.seconds = gal_cell_evaluate(cell, answer->stage, answer->strategy, NULL);
        found = HUGE_VAL;
    }
    GAL_TRY(gal_first_path(cell, &s.best, &answer->least_bytes, err));
    GAL_TRY(gal_dual_create(cell, &s.dual, err));
    GAL_TRY(gal_choices_create(cell, &s.choices, err));
    GAL_TRY(gal_choices_create(cell, &s.wide, err));
    gal_dual_solve(s.dual);
    GAL_TRY(raise_root(&s, err));
    answer->weights = s.dual->weights;
    tell(&s);
    note_bytes(&s);
    gal_choices_copy(cell, &s.dual->choices, &s.choices);
    if (s.dual->bound < useful(&s) && !gal_dual_is_infeasible(s.dual)) {
        GAL_TRY(explore_all(&s, err));
    }
    answer->seconds = s.best.seconds < found ? s.best.seconds : HUGE_VAL;
    answer->bound = fmin(s.open_bound, s.best.seconds);
    answer->work = s.dual->work;
cleanup:
    gal_boxes_free(&s.boxes);
    gal_choices_free(&s.wide);
    gal_choices_free(&s.choices);
    gal_dual_free(s.dual);
    gal_bottleneck_free(s.bottleneck);
    return code;
}
