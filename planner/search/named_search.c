#include "planner/search/named_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/cell/finalist.h"
#include "planner/cell/path.h"
#include "schemas/limits.h"

typedef struct search {
    const gal_search_request *request; /* with the rule's space and degrees */
    const gal_named_rule *rule;
    const gal_solver_limits *limits;
    gal_price_cache *cache;
    gal_algorithm_answer *out;
    gal_opinion *opinions; /* [finalist] */
    double misfit_per_sample;
    /* Of the cell at hand: */
    uint32_t *stage, *strategy; /* [block] */
    gal_opinion opinion;        /* of infinite seconds: nothing was found */
    bool unproven;              /* the solver, which can, does not prove that it is the best of its tables */
    uint32_t *trial_stage, *trial_strategy;
} search;

#define TOLERANCE 1e-5 /* of a proof: GLPK computes in doubles and lowers its bounds by 1e-6 */

/* ---- one cell ---- */

bool gal_named_allows(const gal_named_cell *named, uint32_t block, uint32_t strategy)
{
    const gal_cell *cell = named->cell;
    for (uint32_t stage = 0; stage < cell->spec.pp_degree; stage++) {
        if (gal_cell_price(cell, block, stage, strategy) == NULL) {
            return false;
        }
    }
    return named->embedding == GAL_ANY_EMBEDDING || !gal_cell_holds_table(cell, block) ||
           gal_strategy_same_shards(&cell->strategy[named->embedding], &cell->strategy[strategy]);
}

static bool is_legal(const gal_cell *cell, const uint32_t *stage, const uint32_t *strategy)
{
    for (uint32_t i = 1; i < cell->block_count; i++) {
        if (!cell->edge[gal_cell_pair_index(cell, i, stage[i], strategy[i - 1], strategy[i])].legal) {
            return false;
        }
    }
    return true;
}

static void keep_better(search *s, const gal_cell *cell, const gal_named_view *view, const gal_instance *instance,
                        const gal_assignment *answer)
{
    const double seconds = (double)answer->value_ps * 1e-12 * view->repeats;
    const size_t n = view->problem.strategy_count;
    if (answer->value_ps == GAL_NEVER || seconds >= s->opinion.seconds) {
        return;
    }
    for (uint32_t p = 0; p < cell->spec.pp_degree; p++) {
        for (uint32_t i = answer->stage_first[p]; i < answer->stage_first[p + 1]; i++) {
            s->trial_stage[i] = p;
            s->trial_strategy[i] = view->strategy[i * n + answer->strategy[i]];
        }
    }
    if (is_legal(cell, s->trial_stage, s->trial_strategy)) {
        memcpy(s->stage, s->trial_stage, cell->block_count * sizeof *s->stage);
        memcpy(s->strategy, s->trial_strategy, cell->block_count * sizeof *s->strategy);
        s->opinion.seconds = seconds;
        gal_balance_degrees(instance, answer, &s->opinion.seconds_balance_degree, &s->opinion.bytes_balance_degree);
    }
}

/* Seconds of an iteration that are of interest no more: the cell has a better proposal, or another cell has one that
 * fits. */
static double enough_seconds(const search *s, const gal_cell *cell)
{
    const gal_search_result *result = &s->out->search;
    if (result->finalist_count == 0) {
        return s->opinion.seconds;
    }
    const double per_sample = s->opinions[0].seconds / result->finalist[0].global_batch_samples;
    return fmin(s->opinion.seconds, per_sample * cell->spec.global_batch_samples);
}

static gal_code solve_view(search *s, const gal_named_cell *named, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_named_view view = {0};
    gal_instance *instance = NULL;
    gal_solution solution = {0};
    code = s->rule->view(named, &view, err);
    if (code == GAL_NO) {
        return GAL_OK;
    }
    if (code != GAL_OK) {
        return code;
    }
    GAL_TRY(gal_instance_create(&view.problem, &instance, err));
    GAL_TRY(gal_solve_bound(instance, &solution.bound_ps, err));
    if (solution.bound_ps == GAL_NEVER ||
        (double)solution.bound_ps * 1e-12 * view.repeats >= enough_seconds(s, named->cell)) {
        goto cleanup;
    }
    GAL_TRY(gal_assignment_create(instance, &solution.best, err));
    GAL_TRY(s->rule->solver->solve(instance, s->limits, &solution, err));
    if (s->rule->solver->proves && solution.bound_ps < solution.best.value_ps &&
        (solution.best.value_ps == GAL_NEVER ||
         (double)solution.bound_ps < (double)solution.best.value_ps * (1.0 - TOLERANCE))) {
        s->unproven = true;
    }
    keep_better(s, named->cell, &view, instance, &solution.best);
cleanup:
    gal_solution_free(&solution);
    gal_instance_free(instance);
    gal_problem_free(&view.problem);
    free(view.strategy);
    return code;
}

/* Whether an earlier strategy of the embedding has the same shards. */
static bool is_repeated(const gal_cell *cell, uint32_t strategy)
{
    const gal_named_cell any = {cell, GAL_ANY_EMBEDDING};
    for (uint32_t s = 0; s < strategy; s++) {
        if (gal_named_allows(&any, 0, s) && gal_strategy_same_shards(&cell->strategy[s], &cell->strategy[strategy])) {
            return true;
        }
    }
    return false;
}

static gal_code solve_cell(search *s, const gal_cell *cell, gal_error *err)
{
    gal_named_cell named = {cell, GAL_ANY_EMBEDDING};
    gal_code code = GAL_OK;
    s->opinion = (gal_opinion){.seconds = HUGE_VAL};
    s->unproven = cell->strategy_count > GAL_PROBLEM_STRATEGIES_MAX;
    if (s->unproven) { /* more than tables have */
        return GAL_OK;
    }
    if (!cell->types.table_shared) {
        return solve_view(s, &named, err);
    }
    for (uint32_t e = 0; e < cell->strategy_count && code == GAL_OK; e++) {
        named.embedding = GAL_ANY_EMBEDDING;
        if (gal_named_allows(&named, 0, e) && !is_repeated(cell, e)) {
            named.embedding = e;
            code = solve_view(s, &named, err);
        }
    }
    return code;
}

/* ---- what a proposal is worth ---- */

static gal_code out_of_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

/* Into its place: the best by the algorithm's own measure first. */
static void sort_in(search *s)
{
    gal_finalist *f = s->out->search.finalist;
    uint32_t at = s->out->search.finalist_count - 1;
    const gal_finalist newest = f[at];
    const double per_sample = s->opinion.seconds / newest.global_batch_samples;
    for (; at > 0 && s->opinions[at - 1].seconds / f[at - 1].global_batch_samples > per_sample; at--) {
        f[at] = f[at - 1];
        s->opinions[at] = s->opinions[at - 1];
    }
    f[at] = newest;
    s->opinions[at] = s->opinion;
    s->out->opinion = s->opinions[0];
}

/* bytes: of its largest stage, fixed ones included. */
static void add_misfit(search *s, const gal_cell *cell, uint64_t bytes)
{
    const gal_cell_spec *spec = &cell->spec;
    const double own_per_sample = s->opinion.seconds / spec->global_batch_samples;
    gal_cell roomy = *cell;
    roomy.spec.arena_limit_bytes = INT64_MAX;
    s->out->misfit_cell_count++;
    if (s->out->search.least_bytes == 0 || bytes < s->out->search.least_bytes) {
        s->out->search.least_bytes = bytes;
    }
    if (own_per_sample < s->misfit_per_sample) {
        s->misfit_per_sample = own_per_sample;
        s->out->misfit = (gal_misfit){.numbers = {spec->global_batch_samples, spec->microbatch_count, spec->pp_degree},
                                      .own_seconds = s->opinion.seconds,
                                      .objective_seconds = gal_cell_evaluate(&roomy, s->stage, s->strategy, NULL),
                                      .bytes = bytes};
    }
}

/* What a cell has a block under: of one that does not work on two sub-batches, the same without overlap. */
static uint32_t strategy_in(const gal_cell *cell, const gal_plan *plan, uint32_t block)
{
    gal_strategy wanted = *gal_plan_block_strategy(plan, block);
    if (!gal_strategy_halves(&wanted, cell->types.shape[cell->types.type_of[block]].kind)) {
        wanted.overlap = GAL_OVERLAP_NONE;
    }
    uint32_t strategy = 0;
    while (strategy < cell->strategy_count && !gal_strategy_equal(&cell->strategy[strategy], &wanted)) {
        strategy++;
    }
    GAL_ASSERT(strategy < cell->strategy_count);
    return strategy;
}

/* The rule's schedule; *bytes as the cell with such strategies charges the plan. */
static gal_code finish(search *s, const gal_cell *cell, gal_plan *plan, double *seconds, uint64_t *bytes,
                       gal_error *err)
{
    gal_space space = *cell->spec.space;
    gal_cell_spec spec = cell->spec;
    gal_cell *with = NULL;
    s->rule->finish(plan);
    space.overlap = true;
    spec.space = &space;
    gal_code code = gal_cell_create(&spec, &with, err);
    if (code != GAL_OK) {
        return code;
    }
    for (uint32_t block = 0; block < with->block_count; block++) {
        s->trial_strategy[block] = strategy_in(with, plan, block);
    }
    (void)gal_cell_evaluate(with, s->stage, s->trial_strategy, bytes);
    gal_cell_free(with);
    return gal_plan_objective(s->cache, s->request->durations, plan, seconds, err);
}

/* bytes: as the cell charges it. */
static gal_code add_proposal(search *s, const gal_cell *cell, double objective_seconds, uint64_t bytes, gal_error *err)
{
    gal_finalist *finalist = gal_finalist_add(s->request, &cell->spec, &s->out->search);
    if (finalist == NULL) {
        return out_of_memory(err);
    }
    gal_code code = gal_finalist_write_path(cell->strategy, s->stage, s->strategy, &finalist->plan, err);
    if (code == GAL_OK && s->rule->finish != NULL) {
        code = finish(s, cell, &finalist->plan, &objective_seconds, &bytes, err);
    }
    if (code == GAL_OK) {
        finalist->plan.objective_seconds = finalist->objective_seconds = objective_seconds;
        code = gal_finalist_predict(s->request, finalist, err);
    }
    if (code == GAL_OK && bytes > cell->spec.arena_limit_bytes) {
        bytes += finalist->plan.fixed_bytes;
        gal_finalist_drop(&s->out->search); /* by what was added */
        add_misfit(s, cell, bytes);
    } else if (code == GAL_OK) {
        sort_in(s);
    }
    return code;
}

static gal_code value_proposal(search *s, const gal_cell *cell, gal_error *err)
{
    uint64_t bytes = 0;
    if (s->opinion.seconds == HUGE_VAL) {
        return GAL_OK;
    }
    const double seconds = gal_cell_evaluate(cell, s->stage, s->strategy, &bytes);
    if (seconds == HUGE_VAL) {
        add_misfit(s, cell, bytes + gal_durations_fixed_bytes(cell->spec.durations));
        return GAL_OK;
    }
    return add_proposal(s, cell, seconds, bytes, err);
}

/* ---- all cells ---- */

static gal_code search_cell(search *s, const gal_cell_numbers *numbers, gal_error *err)
{
    const gal_cell_spec spec = gal_search_cell_spec(s->request, numbers, s->cache);
    gal_cell *cell = NULL;
    gal_error refusal = {0};
    gal_code code = gal_cell_create(&spec, &cell, &refusal);
    if (code == GAL_NO) {
        memcpy(s->out->search.refusal, refusal.text, sizeof refusal.text);
        return GAL_OK;
    }
    if (code != GAL_OK) {
        return gal_fail(err, code, "%s", refusal.text);
    }
    s->out->search.cell_count++;
    code = solve_cell(s, cell, err);
    s->out->search.unproven_cell_count += s->unproven;
    code = code == GAL_OK ? value_proposal(s, cell, err) : code;
    gal_cell_free(cell);
    return code;
}

static void tell(const search *s, const gal_search_progress *now)
{
    if (s->request->tell != NULL) {
        s->request->tell(s->request->tell_context, now);
    }
}

static gal_code search_cells(search *s, gal_error *err)
{
    gal_cell_numbers *cells = NULL;
    gal_search_progress now = {0};
    gal_code code = gal_search_cells(s->request, &cells, &now.cell_count, err);
    s->opinions = calloc((size_t)now.cell_count + 1, sizeof *s->opinions);
    if (code == GAL_OK && s->opinions == NULL) {
        code = out_of_memory(err);
    }
    for (; now.closed_cell_count < now.cell_count && code == GAL_OK; now.closed_cell_count++) {
        tell(s, &now);
        code = search_cell(s, &cells[now.closed_cell_count], err);
    }
    free(cells);
    return code;
}

static gal_code run(search *s, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_search_request *r = s->request;
    const uint32_t blocks = gal_model_block_count(r->model);
    uint32_t *path = calloc(4 * (size_t)blocks, sizeof *path);
    if (path == NULL) {
        GAL_TRY(out_of_memory(err));
    }
    s->stage = path;
    s->strategy = path + blocks;
    s->trial_stage = path + 2 * (size_t)blocks;
    s->trial_strategy = path + 3 * (size_t)blocks;
    GAL_TRY(gal_price_cache_create(r->model, r->durations, &s->cache, err));
    GAL_TRY(search_cells(s, err));
    s->out->search.feasible = s->out->search.finalist_count > 0;
cleanup:
    gal_price_cache_free(s->cache);
    free(s->opinions);
    free(path);
    return code;
}

gal_code gal_named_search(const gal_search_request *request, const gal_named_rule *rule,
                          const gal_solver_limits *limits, gal_algorithm_answer *out, gal_error *err)
{
    const gal_cluster *cluster = gal_durations_cluster(request->durations);
    const uint32_t blocks = gal_model_block_count(request->model);
    const uint32_t most = blocks < GAL_STAGES_MAX ? blocks : GAL_STAGES_MAX;
    gal_search_request own = *request;
    search s = {.request = &own, .rule = rule, .limits = limits, .out = out, .misfit_per_sample = HUGE_VAL};
    *out = (gal_algorithm_answer){0};
    if (request->schedule != GAL_SCHEDULE_GPIPE && request->schedule != GAL_SCHEDULE_1F1B) {
        return gal_fail(err, GAL_ERR_USAGE, "--schedule: named algorithms know gpipe and 1f1b, not %s",
                        gal_schedule_names[request->schedule]);
    }
    gal_space_meet(&request->space, &rule->space, &own.space);
    own.pp_degrees =
        gal_space_pp_degrees(&own.space, cluster, &request->pp_degrees, rule->pp_most < most ? rule->pp_most : most);
    if (own.pp_degrees.count == 0) { /* none of them is for this algorithm */
        (void)snprintf(out->search.refusal, sizeof out->search.refusal, "it has no use for these pipeline degrees");
        return GAL_OK;
    }
    const gal_code code = run(&s, err);
    if (code != GAL_OK) {
        gal_algorithm_answer_free(out);
    }
    return code;
}
