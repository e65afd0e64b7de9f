#include "planner/stages/staged.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/bound/mixture_exact.h"
#include "planner/bound/whole_stages.h"
#include "planner/cell/path.h"
#include "planner/stages/stage_classes.h"
#include "planner/stages/stage_filling.h"
#include "planner/stages/tail_weights.h"

enum { TIGHTENINGS = 8, TAIL_ROUNDS = 6, CUT_ROUNDS = 10, TIGHT_MAX = 24, KNOWN_MAX = 1 << 22 };

/* Share of a target: a bound that is closer is not raised by paths through classes. */
static const double matters = 5e-3;

/* Share of the bound: weights that promise less are not looked at. */
static const double promising = 2e-3;

typedef struct solver {
    const gal_screened *s;
    gal_stage_tables tables;
    gal_stage_classes *classes;
    gal_mix_bound *bound;   /* [table][stage] */
    bool have_rounds;       /* of the rounds, which no weights are in */
    uint32_t *weighed;      /* [stage] what the others are of (gal_stage_tables.weighed) */
    gal_mix_bound *untied;  /* of them, while the table is tied: its holders as they like */
    gal_chain_kinds chains; /* of the model's blocks */
    double *known;          /* what bound says of them (planner/bound/whole_stages.h) */
    const bool *ways;       /* how the holders of the table may keep it; NULL: as they like */
    gal_tails weights;      /* at hand */
    gal_tail_weights tails; /* what is known of weights */
    gal_cut cut;
    gal_tight_stage tight[TIGHT_MAX];
    uint32_t tight_count;
    double target; /* a bound that is no less need not be raised */
    gal_staged *out;
    uint32_t *strategy; /* [block] of the path at hand */
    uint32_t *stage, *own;
    bool *allowed;
    gal_error *err;
} solver;

/* ---- create ---- */

/* What bounds are found by; for a path room is needed too. */
static gal_code create_bounds(const gal_screened *screened, bool one_class, solver *v)
{
    gal_code code = GAL_OK;
    for (uint32_t p = 0; p < screened->spec.pp_degree; p++) {
        v->weights.update[p] = 1.0 / screened->spec.pp_degree;
    }
    v->bound = calloc(3 * (size_t)screened->spec.pp_degree, sizeof *v->bound);
    v->weighed = calloc(screened->spec.pp_degree, sizeof *v->weighed);
    if (v->bound == NULL || v->weighed == NULL) {
        GAL_TRY(gal_fail(v->err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    GAL_TRY(gal_chain_kinds_create(screened->types, &v->chains, v->err));
    GAL_TRY(gal_tail_weights_create(screened->spec.pp_degree, &v->tails, v->err));
    const size_t known = (size_t)GAL_WHOLE_ROWS * screened->spec.pp_degree * v->chains.count;
    v->known = screened->spec.pp_degree > 1 && known <= KNOWN_MAX ? malloc(known * sizeof *v->known) : NULL;
    GAL_TRY(gal_stage_tables_create(screened, one_class, &v->tables, v->err));
cleanup:
    return code;
}

static void free_bounds(gal_mix_bound *bound, uint32_t stages)
{
    for (uint32_t i = 0; bound != NULL && i < 3 * stages; i++) {
        gal_mix_bound_free(&bound[i]);
    }
}

static void free_solver(solver *v)
{
    free_bounds(v->bound, v->s->spec.pp_degree);
    gal_stage_classes_free(v->classes);
    gal_stage_tables_free(&v->tables);
    free(v->known);
    gal_tail_weights_free(&v->tails);
    gal_chain_kinds_free(&v->chains);
    free(v->allowed);
    free(v->strategy);
    free(v->weighed);
    free(v->bound);
}

/* ---- bound ---- */

/* Bounds of the stages' rounds; of one stage, of all its seconds. */
static const gal_mix_bound *rounds_of(const solver *v)
{
    return v->s->spec.pp_degree > 1 ? v->bound : v->bound + 1;
}

static void forget_known(const solver *v, uint32_t row)
{
    if (v->known != NULL) {
        memset(v->known + row * v->chains.count, 0, v->chains.count * sizeof *v->known);
    }
}

/* Of one table and stage; of its round the floor too. */
static void forget_bound(const solver *v, uint32_t at)
{
    const uint32_t stages = v->s->spec.pp_degree;
    gal_mix_bound_free(&v->bound[at]);
    forget_known(v, at);
    if (rounds_of(v) + at % stages == &v->bound[at]) {
        forget_known(v, GAL_WHOLE_FLOOR * stages + at % stages);
    }
}

/* Seconds that belong to no block. */
static double common_seconds(const gal_cell_spec *spec)
{
    return gal_price_common_update(spec->model, spec->durations, spec->device_count / spec->pp_degree,
                                   spec->pp_degree) +
           gal_durations_fixed_step_seconds(spec->durations);
}

static gal_code cut_stages(solver *v, double enough_seconds, double *bound)
{
    const uint32_t stages = v->s->spec.pp_degree;
    const gal_cell_spec *spec = &v->s->spec;
    const double common = common_seconds(spec);
    const gal_round_counts rounds = gal_round_counts_of(spec->schedule, stages, spec->microbatch_count);
    const gal_whole_stages whole = {.types = v->s->types,
                                    .chains = &v->chains,
                                    .stage_count = stages,
                                    .slowest_rounds = stages == 1 ? 0.0 : rounds.slowest,
                                    .round = rounds_of(v),
                                    .added = v->bound + stages,
                                    .both = v->bound + 2 * stages,
                                    .tight = v->tight,
                                    .tight_count = v->tight_count,
                                    .known = v->known};
    const gal_code code = gal_whole_stages_bound(&whole, enough_seconds - common, bound, v->cut.first, v->err);
    *bound += common;
    return code;
}

/* How often a round counts where an item's seconds are of all of them: a byte's best price is nearly so many of one. */
static double rounds_counted(const solver *v, uint32_t stage, gal_stage_table table)
{
    const gal_cell_spec *spec = &v->s->spec;
    const gal_round_counts rounds = gal_round_counts_of(spec->schedule, spec->pp_degree, spec->microbatch_count);
    return gal_rounds_of_stage(&rounds, stage) + (table == GAL_TABLE_BOTH ? rounds.slowest / spec->pp_degree : 0.0);
}

/* Of one table and stage. While the table is tied from the untied one, which differs in what its holders may take; else
 * where a round's is known with the levels and prices of that. */
static gal_code bound_stage(solver *v, uint32_t stage, gal_stage_table table, uint32_t at)
{
    const gal_block_types *types = v->s->types;
    bool changed[GAL_TYPES_MAX];
    bool any = false;
    forget_bound(v, at);
    for (uint32_t type = 0; type < types->type_count && v->untied != NULL; type++) {
        changed[type] = gal_holds_table(types, type) && gal_stage_tables_may_hold(v->s, stage, type);
        any = any || changed[type];
    }
    if (v->untied != NULL && !any) {
        return gal_mix_bound_copy(types, &v->untied[at], &v->bound[at], v->err);
    }
    const gal_mix_stage menus = gal_stage_tables_fill(&v->tables, stage, table, v->ways);
    if (v->untied != NULL) {
        return gal_mix_bound_create_like(&menus, &v->untied[at], changed, 1.0, &v->bound[at], v->err);
    }
    return table == GAL_TABLE_ROUND || v->s->spec.pp_degree == 1
               ? gal_mix_bound_create(&menus, &v->bound[at], v->err)
               : gal_mix_bound_create_like(&menus, &v->bound[stage], NULL, rounds_counted(v, stage, table),
                                           &v->bound[at], v->err);
}

/* Of weights at which they are known already. */
static bool is_known(const solver *v, uint32_t stage)
{
    return v->untied == NULL && v->bound[v->s->spec.pp_degree + stage].memory != NULL &&
           v->weighed[stage] == v->tables.weighed[stage];
}

static gal_code find_bound(solver *v, double enough_seconds, double *bound)
{
    const uint32_t stages = v->s->spec.pp_degree;
    gal_code code = GAL_OK;
    const bool known = v->have_rounds && v->untied == NULL;
    for (uint32_t p = 0; p < stages; p++) {
        if (stages > 1 && !known) { /* a stage that is all adds all of its seconds */
            GAL_TRY(bound_stage(v, p, GAL_TABLE_ROUND, p));
        }
        if (is_known(v, p)) {
            continue;
        }
        if (stages > 1 && v->s->spec.microbatch_count > 1) {
            GAL_TRY(bound_stage(v, p, GAL_TABLE_BOTH, 2 * stages + p));
        }
        GAL_TRY(bound_stage(v, p, GAL_TABLE_ADDED, stages + p));
        v->weighed[p] = v->tables.weighed[p];
        memcpy(v->cut.turns[p], rounds_of(v)[p].turns[rounds_of(v)[p].least_level], sizeof v->cut.turns[p]);
    }
    v->have_rounds = v->untied == NULL;
    GAL_TRY(v->tables.code);
    GAL_TRY(cut_stages(v, enough_seconds, bound));
cleanup:
    return code;
}

/* ---- path ---- */

static void keep(solver *v, double seconds)
{
    if (seconds < v->out->seconds) {
        v->out->seconds = seconds;
        memcpy(v->out->stage, v->stage, v->s->types->block_count * sizeof *v->stage);
        memcpy(v->out->strategy, v->strategy, v->s->types->block_count * sizeof *v->strategy);
    }
}

static void place_stages(const solver *v)
{
    for (uint32_t block = 0, p = 0; block < v->s->types->block_count; block++) {
        p += p + 1 < v->s->spec.pp_degree && block == v->cut.first[p + 1];
        v->stage[block] = p;
    }
}

/* The cell of the path's strategies alone; the path in its numbers. */
static gal_code create_cell(solver *v, gal_cell **cell)
{
    const gal_block_types *types = v->s->types;
    const size_t count = (size_t)types->type_count * v->s->strategy_count;
    gal_cell_spec spec = v->s->spec;
    memset(v->allowed, 0, count * sizeof *v->allowed);
    for (uint32_t block = 0; block < types->block_count; block++) {
        v->allowed[(size_t)types->type_of[block] * v->s->strategy_count + v->strategy[block]] = true;
    }
    spec.listed = v->s->strategy;
    spec.listed_count = v->s->strategy_count;
    spec.allowed = v->allowed;
    const gal_code code = gal_cell_create(&spec, cell, v->err);
    for (uint32_t block = 0; code == GAL_OK && block < types->block_count; block++) {
        v->own[block] = 0;
        while ((*cell)->listed[v->own[block]] != v->strategy[block]) {
            v->own[block]++;
        }
    }
    return code;
}

static bool is_legal(const solver *v, const gal_cell *cell)
{
    for (uint32_t i = 1; i < cell->block_count; i++) {
        if (cell->pair[gal_cell_pair_index(cell, i, v->stage[i], v->own[i - 1], v->own[i])] == NULL) {
            return false;
        }
    }
    return gal_cell_tables_alike(cell, v->own);
}

/* Evaluates the path; what a stage is over its limit is left free there next time, twice as much each time. *again:
 * some stage is. */
static gal_code evaluate(solver *v, uint32_t round, bool *again)
{
    gal_cell *cell = NULL;
    int64_t bytes[GAL_STAGES_MAX];
    const gal_code code = create_cell(v, &cell);
    *again = false;
    if (code == GAL_OK && is_legal(v, cell)) {
        keep(v, gal_cell_evaluate(cell, v->stage, v->own, NULL));
        gal_cell_stage_bytes(cell, v->stage, v->own, bytes);
        for (uint32_t p = 0; p < v->s->spec.pp_degree; p++) {
            const double over = (double)bytes[p] - (double)v->s->spec.arena_limit_bytes;
            if (over > 0.0) {
                v->cut.spare_bytes[p] += 1.02 * ldexp(over, (int)round);
                *again = true;
            }
        }
    }
    gal_cell_free(cell);
    return code;
}

static gal_code find_path(solver *v, bool *any)
{
    gal_code code = GAL_OK;
    bool again = true;
    *any = false;
    memset(v->cut.spare_bytes, 0, sizeof v->cut.spare_bytes);
    place_stages(v);
    for (uint32_t round = 0; code == GAL_OK && again && round < TIGHTENINGS; round++) {
        bool found = false;
        code = gal_stages_fill(&v->tables, &v->cut, v->strategy, &found, v->err);
        again = false;
        if (code == GAL_OK && found) {
            *any = true;
            code = evaluate(v, round, &again);
        }
    }
    return code;
}

/* ---- both ---- */

/* Under the weights at hand; *found: a path that they are best for. */
static gal_code solve_at(solver *v, double enough_seconds, bool *found)
{
    gal_code code = GAL_OK;
    double bound = 0.0;
    *found = false;
    gal_stage_tables_weigh(&v->tables, v->weights.exposed, v->weights.update);
    GAL_TRY(find_bound(v, enough_seconds, &bound));
    v->out->bound = fmax(v->out->bound, bound);
    if (v->out->bound < enough_seconds && v->cut.first[0] != GAL_NO_CUT) {
        GAL_TRY(find_path(v, found));
    }
    if (*found) {
        const gal_tails path = gal_tails_of_path(v->s, v->stage, v->strategy);
        gal_tail_weights_note(&v->tails, &v->weights, bound, &path);
    }
cleanup:
    return code;
}

/* The bound is more than the share `gap` below the path, and not enough. */
static bool is_open(const solver *v, double enough_seconds, double gap)
{
    return v->out->bound < fmin(enough_seconds, v->out->seconds / (1.0 + gap));
}

/* Under weights by cutting planes, as long as they promise more than the bound. The solver's bounds are then of the
 * best weights; *bound: what they say, where others were looked at behind them. */
static gal_code solve_by_cuts(solver *v, double enough_seconds, double gap, double *bound)
{
    gal_code code = GAL_OK;
    gal_tails best = v->weights;
    gal_tails next;
    bool found = true;
    bool at_best = true;
    for (uint32_t round = 0; round < CUT_ROUNDS && found && is_open(v, enough_seconds, gap); round++) {
        const double known = v->out->bound;
        if (gal_tail_weights_find(&v->tails, &next) < known * (1.0 + promising)) {
            break;
        }
        v->weights = next;
        GAL_TRY(solve_at(v, enough_seconds, &found));
        at_best = v->out->bound > known;
        best = at_best ? v->weights : best;
    }
    if (!at_best) {
        v->weights = best;
        gal_stage_tables_weigh(&v->tables, best.exposed, best.update);
        GAL_TRY(find_bound(v, enough_seconds, bound));
    }
cleanup:
    return code;
}

/* Until the bound is no more than the share `gap` below the path, or the weights stay: of one stage the second ones. */
static gal_code solve(solver *v, double enough_seconds, double gap)
{
    const size_t bytes = v->s->spec.pp_degree * sizeof *v->out->weights;
    bool found = false;
    double bound = 0.0;
    gal_code code = solve_at(v, enough_seconds, &found);
    gal_tails best = v->weights;
    bool at_best = true;
    for (uint32_t round = 1; code == GAL_OK && found && round <= TAIL_ROUNDS && is_open(v, enough_seconds, gap);
         round++) {
        const gal_tails path = gal_tails_of_path(v->s, v->stage, v->strategy);
        const double known = v->out->bound;
        if (!gal_tails_move(&v->weights, v->s->spec.pp_degree, &path, 1.0 / round)) {
            break;
        }
        code = solve_at(v, enough_seconds, &found);
        at_best = v->out->bound > known;
        best = at_best ? v->weights : best;
    }
    if (code == GAL_OK && !at_best) {
        v->weights = best;
        gal_stage_tables_weigh(&v->tables, best.exposed, best.update);
        code = find_bound(v, enough_seconds, &bound);
    }
    if (code == GAL_OK && found && v->s->spec.pp_degree > 1) {
        code = solve_by_cuts(v, enough_seconds, gap, &bound);
        v->out->bound = fmax(v->out->bound, bound);
    }
    memcpy(v->out->weights, v->weights.exposed, bytes);
    memcpy(v->out->weights + v->s->spec.pp_degree, v->weights.update, bytes);
    return code;
}

/* Under the weights that an earlier look found best. */
static gal_code solve_again(solver *v, double enough_seconds)
{
    double bound = 0.0;
    const size_t bytes = v->s->spec.pp_degree * sizeof *v->out->weights;
    memcpy(v->weights.exposed, v->out->weights, bytes);
    memcpy(v->weights.update, v->out->weights + v->s->spec.pp_degree, bytes);
    gal_stage_tables_weigh(&v->tables, v->weights.exposed, v->weights.update);
    const gal_code code = find_bound(v, enough_seconds, &bound);
    v->out->bound = fmax(v->out->bound, bound);
    return code;
}

/* ---- whole blocks ---- */

static uint32_t end_of(const solver *v, uint32_t stage)
{
    return stage + 1 < v->s->spec.pp_degree ? v->cut.first[stage + 1] : v->s->types->block_count;
}

static bool is_tight(const solver *v, uint32_t stage)
{
    bool found = false;
    for (uint32_t i = 0; i < v->tight_count; i++) {
        found = found || (v->tight[i].stage == stage && v->tight[i].begin == v->cut.first[stage] &&
                          v->tight[i].end == end_of(v, stage));
    }
    return found;
}

/* Seconds of the cut's stage by the relaxation. */
static double relaxed_round(const solver *v, uint32_t stage)
{
    uint32_t *const before = v->own; /* room */
    uint32_t *const behind = v->own + v->s->types->pair_count;
    memset(before, 0, 2 * (size_t)v->s->types->pair_count * sizeof *before);
    for (uint32_t block = v->cut.first[stage] + 1; block < end_of(v, stage); block++) {
        behind[v->s->types->pair_of[block]]++;
    }
    const bool one = end_of(v, stage) - v->cut.first[stage] == 1;
    const gal_mix_chain chain = {.behind = behind,
                                 .before = before,
                                 .first_type = v->s->types->type_of[v->cut.first[stage]],
                                 .first_pair = one ? 0 : v->s->types->pair_of[v->cut.first[stage] + 1],
                                 .last_pair = one ? 0 : v->s->types->pair_of[end_of(v, stage) - 1]};
    return gal_mix_least(&rounds_of(v)[stage], &chain);
}

/* The slowest stage of the cut that is not tight yet; stage_count: none. */
static uint32_t slowest_loose(const solver *v)
{
    const uint32_t stages = v->s->spec.pp_degree;
    uint32_t slowest = stages;
    double most = 0.0;
    for (uint32_t p = 0; p < stages; p++) {
        const double own = is_tight(v, p) || end_of(v, p) - v->cut.first[p] < 2 ? 0.0 : relaxed_round(v, p);
        slowest = own > most ? p : slowest;
        most = fmax(most, own);
    }
    return slowest;
}

/* The cut's slowest stage in whole blocks, up to what would make the bound `target`. */
static gal_code tighten(solver *v, uint32_t stage, double target)
{
    const uint32_t stages = v->s->spec.pp_degree;
    const gal_stage_table table = stages == 1 ? GAL_TABLE_ADDED : GAL_TABLE_ROUND;
    const gal_mix_stage menus = gal_stage_tables_fill(&v->tables, stage, table, v->ways);
    gal_tight_stage *tight = &v->tight[v->tight_count++];
    double least = 0.0;
    *tight = (gal_tight_stage){.stage = stage, .begin = v->cut.first[stage], .end = end_of(v, stage)};
    const double cutoff =
        stages == 1 ? target - common_seconds(&v->s->spec) : target / (v->s->spec.microbatch_count + stages - 1.0);
    const double loose = relaxed_round(v, stage);
    const double most = stages == 1 ? cutoff : fmax(cutoff, 1.02 * loose);
    const double in_classes =
        loose < most * (1.0 - matters)
            ? gal_stage_classes_bound(v->classes, &menus, &rounds_of(v)[stage], tight->begin, tight->end, loose, most)
            : 0.0;
    gal_code code = v->tables.code;
    if (code == GAL_OK && in_classes < most) {
        code = gal_mix_exact(&menus, tight->begin, tight->end, most, &least, v->err);
    }
    least = fmax(least, in_classes);
    tight->round_seconds = stages == 1 ? 0.0 : least;
    tight->added_seconds = stages == 1 ? least : 0.0;
    return code;
}

/* Whole blocks in the stages of the best cut, until another cut is the best, or the bound is `target`. */
static gal_code tighten_stages(solver *v, double target, double *bound)
{
    gal_code code = GAL_OK;
    while (code == GAL_OK && *bound < target && v->tight_count < TIGHT_MAX && v->cut.first[0] != GAL_NO_CUT) {
        const uint32_t stage = slowest_loose(v);
        double own = 0.0;
        if (stage == v->s->spec.pp_degree) {
            break;
        }
        code = tighten(v, stage, target);
        code = code == GAL_OK ? cut_stages(v, target, &own) : code;
        *bound = fmax(*bound, own);
    }
    return code;
}

/* ---- the token table ---- */

/* With it kept in some of these ways. Rounds that are known better stay so; of one stage all seconds are of the tie. */
static gal_code bound_ways(void *context, const bool *allowed, double *bound)
{
    solver *v = context;
    const uint32_t tight_count = v->tight_count;
    v->ways = allowed;
    v->tight_count = v->s->spec.pp_degree == 1 ? 0 : tight_count;
    gal_code code = find_bound(v, v->target, bound);
    code = code == GAL_OK ? tighten_stages(v, v->target, bound) : code;
    v->tight_count = tight_count;
    v->ways = NULL;
    return code;
}

/* Seconds per byte that bound the stage most, the table kept as they like. */
static double price_of(const solver *v, uint32_t stage)
{
    const gal_mix_bound *bound = &v->untied[v->s->spec.pp_degree + stage];
    return bound->level_count > 0 ? bound->price[bound->least_level] : 0.0;
}

/* All holders keep it in one way, under the weights at hand. */
static gal_code bound_ties(solver *v)
{
    gal_code code = GAL_OK;
    const uint32_t stages = v->s->spec.pp_degree;
    double least = 0.0;
    gal_priced_way *way = malloc(((size_t)v->tables.ways.count + 1) * sizeof *way);
    double *room = malloc(((size_t)v->tables.ways.count + 1) * sizeof *room);
    v->untied = v->bound;
    v->bound = calloc(3 * (size_t)stages, sizeof *v->bound);
    if (way == NULL || room == NULL || v->bound == NULL) {
        GAL_TRY(gal_fail(v->err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    const uint32_t count = gal_stage_tables_list_ways(&v->tables, price_of(v, 0), price_of(v, stages - 1), way, room);
    GAL_TRY(gal_table_ways_bound(way, count, v->tables.ways.count, v->target, bound_ways, v, &least, v->err));
    v->out->bound = fmax(v->out->bound, least);
cleanup:
    free(room);
    free(way);
    free_bounds(v->untied, stages);
    free(v->untied);
    v->untied = NULL;
    return code;
}

/* ---- all of it ---- */

/* As if rows lay alike under all strategies, without and with the first stage's tail, which nothing hides: that alone
 * rules most cells out, and no conversion is priced. */
static gal_code bound_in_one_class(const gal_screened *screened, double enough_seconds, double *bound, gal_error *err)
{
    solver v = {.s = screened, .err = err};
    gal_code code = create_bounds(screened, true, &v);
    for (uint32_t tail = 0; code == GAL_OK && tail < 2 && *bound < enough_seconds; tail++) {
        double own = 0.0;
        v.weights.exposed[0] = tail;
        gal_stage_tables_weigh(&v.tables, v.weights.exposed, v.weights.update);
        code = find_bound(&v, enough_seconds, &own);
        *bound = fmax(*bound, own);
    }
    free_solver(&v);
    return code;
}

gal_code gal_staged_solve(const gal_screened *screened, double enough_seconds, double gap, gal_staged_effort effort,
                          gal_staged *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const size_t blocks = screened->types->block_count;
    solver v = {.s = screened, .out = out, .err = err};
    if (effort != GAL_STAGED_AGAIN) {
        out->bound = screened->bound;
        out->seconds = HUGE_VAL;
    }
    if (effort == GAL_STAGED_ALIKE) { /* beyond: else classes show more of a cell, which a gap may need */
        GAL_TRY(bound_in_one_class(screened, enough_seconds * (1.0 + gap), &out->bound, err));
        goto cleanup;
    }
    v.strategy = calloc(3 * blocks + 2 * (size_t)screened->types->pair_count, sizeof *v.strategy);
    v.allowed = calloc((size_t)screened->types->type_count * screened->strategy_count + 1, sizeof *v.allowed);
    if (v.strategy == NULL || v.allowed == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    v.stage = v.strategy + blocks;
    v.own = v.stage + blocks;
    GAL_TRY(create_bounds(screened, false, &v));
    GAL_TRY(gal_stage_classes_create(screened->types->block_count, screened->types->type_count, v.tables.class_count,
                                     &v.classes, err));
    GAL_TRY(effort == GAL_STAGED_AGAIN ? solve_again(&v, enough_seconds) : solve(&v, enough_seconds, gap));
    v.target = fmin(enough_seconds, out->seconds / (1.0 + gap));
    GAL_TRY(tighten_stages(&v, v.target, &out->bound));
    if (effort != GAL_STAGED_QUICK && screened->types->table_shared && out->bound < v.target && v.target < HUGE_VAL) {
        GAL_TRY(bound_ties(&v));
    }
cleanup:
    free_solver(&v);
    return code;
}
