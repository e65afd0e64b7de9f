/* Galvatron-BMW's model of a cell, for its two algorithms and for GLPK (planner/search/named.h).
 *
 *     c(l, s)   forward + backward of a microbatch, and an mth of what a step has once: gradient sync and update. Eq. 5
 *               multiplies c by the microbatches; Eq. 9 has the sync only with the last of them.
 *     R(s, s')  the conversion, as c; of both, 0 where it is less by a gain in overlap
 *     O_ms      parameters, gradients, moments    O_f  saved of one microbatch
 *     O_b       rings, scratch and work of the block alone
 * All of the stage where it costs most: tables know no stages. What a block cannot take (recompute of an embedding)
 * stands in the tables for what it can, at that one's costs: so every answer is legal. Borders, transfers and the tied
 * table's reduction cost nothing: Eq. 5 has none of them. Galvatron's space is DP, SDP (ZeRO-3), TP and CKPT under its
 * three takeaways; GLPK is given all of the request's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "planner/cell/path.h"
#include "planner/search/named_search.h"

#define TOTAL_SECONDS_MAX 4e6 /* as of problem documents: sums of picoseconds stay below 2^62 */

/* What stands for a strategy at a block: itself, else itself without recompute, else the first that is allowed. */
static uint32_t stand_in(const gal_named_cell *named, uint32_t block, uint32_t strategy)
{
    const gal_cell *cell = named->cell;
    gal_strategy plain = cell->strategy[strategy];
    uint32_t found = cell->strategy_count;
    plain.recompute = GAL_RECOMPUTE_NONE;
    if (gal_named_allows(named, block, strategy)) {
        return strategy;
    }
    for (uint32_t s = cell->strategy_count; s-- > 0;) {
        const bool allowed = gal_named_allows(named, block, s);
        if (allowed && gal_strategy_equal(&cell->strategy[s], &plain)) {
            return s;
        }
        found = allowed ? s : found;
    }
    return found;
}

/* ---- prices ---- */

static double step_seconds(const gal_cell *cell, double each_seconds, double once_seconds)
{
    return fmax(0.0, each_seconds + once_seconds / cell->spec.microbatch_count);
}

/* Of a block among its like: whether others hide it no sum of the papers' knows (costmodel/lag.h). */
static double sync_seconds(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy)
{
    const gal_block_price *price = gal_cell_price(cell, block, stage, strategy);
    return price->sync_seconds - (gal_cell_borrows_table(cell, block, stage) ? price->table_sync_seconds : 0.0);
}

static gal_problem_cost cost_of(const gal_cell *cell, uint32_t block, uint32_t strategy)
{
    const gal_block_bytes *bytes = &gal_cell_price(cell, block, 0, strategy)->memory->bytes;
    gal_problem_cost cost = {.state_bytes = bytes->state + bytes->gradient, .forward_bytes = bytes->saved};
    for (uint32_t stage = 0; stage < cell->spec.pp_degree; stage++) {
        const gal_cell_node *node = &cell->node[gal_cell_price_index(cell, block, stage, strategy)];
        const gal_cell_step *own = &node->block;
        const double sync = sync_seconds(cell, block, stage, strategy);
        const double seconds =
            step_seconds(cell, own->forward_seconds + own->backward_seconds, sync + own->update_seconds);
        cost.seconds = fmax(cost.seconds, seconds);
        cost.backward_bytes = (uint64_t)(gal_shared_sum(&own->shared) + 2 * node->boundary_bytes);
    }
    return cost;
}

/* Into block; infinity: not legal. */
static double change_seconds(const gal_cell *cell, uint32_t block, uint32_t from, uint32_t to)
{
    double worst = 0.0;
    for (uint32_t stage = 0; stage < cell->spec.pp_degree; stage++) {
        const gal_cell_edge *edge = &cell->edge[gal_cell_pair_index(cell, block, stage, from, to)];
        const double each = edge->forward_seconds + edge->backward_seconds + edge->crowded_forward_seconds +
                            edge->crowded_backward_seconds;
        const double seconds = step_seconds(cell, each, edge->tail_seconds);
        worst = edge->legal ? fmax(worst, seconds) : HUGE_VAL;
    }
    return worst;
}

/* ---- tables ---- */

static gal_code create(const gal_cell *cell, gal_named_view *out, gal_error *err)
{
    const gal_block_types *types = &cell->types;
    const size_t n = cell->strategy_count;
    const size_t kinds = types->pair_count + 1; /* one more for block 0, which follows none */
    *out = (gal_named_view){
        .problem = {.name = "cell",
                    .schedule = cell->spec.schedule,
                    .stage_count = cell->spec.pp_degree,
                    .microbatch_count = cell->spec.microbatch_count,
                    .budget_bytes = cell->spec.arena_limit_bytes,
                    .strategy_count = cell->strategy_count,
                    .transition_count = (uint32_t)kinds,
                    .kind_count = (uint32_t)kinds,
                    .strategy = calloc(n, sizeof *out->problem.strategy),
                    .transition_seconds = calloc(kinds * n * n, sizeof *out->problem.transition_seconds),
                    .kind = calloc(kinds, sizeof *out->problem.kind),
                    .cost = calloc(kinds * n, sizeof *out->problem.cost),
                    .run = calloc(cell->block_count, sizeof *out->problem.run)},
        .strategy = calloc(cell->block_count * n, sizeof *out->strategy),
        .repeats = 1.0};
    const gal_problem *p = &out->problem;
    const bool have = p->strategy != NULL && p->transition_seconds != NULL && p->kind != NULL && p->cost != NULL &&
                      p->run != NULL && out->strategy != NULL;
    return have ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

/* Runs of blocks of one kind: block 0 is of kind 0, others of 1 + the number of the pair they end. */
static void fill_runs(const gal_cell *cell, gal_problem *p)
{
    for (uint32_t i = 0; i < cell->block_count; i++) {
        const uint32_t kind = i == 0 ? 0 : 1 + cell->types.pair_of[i];
        if (p->run_count == 0 || p->run[p->run_count - 1].kind_index != kind) {
            p->run[p->run_count++] = (gal_problem_run){kind, 0};
        }
        p->run[p->run_count - 1].layer_count++;
    }
    for (uint32_t k = 0; k < p->kind_count; k++) {
        p->kind[k].transition_index = k;
    }
}

/* Returns the most that a path may cost before a change that is not legal. */
static double fill_costs(const gal_cell *cell, gal_named_view *view)
{
    gal_problem *p = &view->problem;
    const size_t n = p->strategy_count;
    double cost = 0.0;
    double change = 0.0;
    for (uint32_t kind = 0; kind < p->kind_count; kind++) {
        const uint32_t block = kind == 0 ? 0 : cell->types.pair_first[kind - 1];
        for (uint32_t to = 0; to < n; to++) {
            const uint32_t own = view->strategy[block * n + to];
            p->cost[kind * n + to] = cost_of(cell, block, own);
            cost = fmax(cost, p->cost[kind * n + to].seconds);
            for (uint32_t from = 0; from < n && block > 0; from++) {
                const double seconds = change_seconds(cell, block, view->strategy[(block - 1) * n + from], own);
                p->transition_seconds[(kind * n + from) * n + to] = seconds;
                change = seconds < HUGE_VAL ? fmax(change, seconds) : change;
            }
        }
    }
    return cell->block_count * (cost + change);
}

/* Changes that are not legal cost more than any path, or as much as there is room for: an answer that has one is no
 * answer (gal_named_search). */
static void price_the_illegal(const gal_cell *cell, double path_seconds, gal_problem *p)
{
    const size_t count = (size_t)p->transition_count * p->strategy_count * p->strategy_count;
    const double room = TOTAL_SECONDS_MAX / cell->spec.microbatch_count - path_seconds;
    const double price = fmin(2.0 * path_seconds, room / cell->block_count);
    for (size_t i = 0; i < count; i++) {
        p->transition_seconds[i] = p->transition_seconds[i] < HUGE_VAL ? p->transition_seconds[i] : price;
    }
}

static gal_code view_of(const gal_named_cell *named, gal_named_view *out, gal_error *err)
{
    const gal_cell *cell = named->cell;
    const size_t n = cell->strategy_count;
    char name[GAL_STRATEGY_NAME_BYTES];
    if (n == 0 || cell->spec.arena_limit_bytes == 0) {
        return GAL_NO;
    }
    gal_code code = create(cell, out, err);
    for (uint32_t i = 0; i < cell->block_count && code == GAL_OK; i++) {
        for (uint32_t s = 0; s < n; s++) {
            out->strategy[i * n + s] = stand_in(named, i, s);
            code = out->strategy[i * n + s] == n ? GAL_NO : code;
        }
    }
    if (code == GAL_OK) {
        for (uint32_t s = 0; s < n; s++) {
            (void)snprintf(out->problem.strategy[s].name, sizeof out->problem.strategy[s].name, "%s",
                           gal_strategy_name(&cell->strategy[s], name));
        }
        fill_runs(cell, &out->problem);
        const double path_seconds = fill_costs(cell, out);
        price_the_illegal(cell, path_seconds, &out->problem);
        code = path_seconds * cell->spec.microbatch_count < TOTAL_SECONDS_MAX / 2.0 ? GAL_OK : GAL_NO;
    }
    if (code != GAL_OK) {
        gal_problem_free(&out->problem);
        free(out->strategy);
        *out = (gal_named_view){0};
    }
    return code;
}

/* ---- the algorithms ---- */

static const gal_space galvatron_space = {.axis = {true, true, true},
                                          .zero_stage = {[3] = true},
                                          .recompute = true,
                                          .takeaway = {[1] = true, [2] = true, [3] = true}};

gal_code gal_algorithm_galvatron_base(const gal_search_request *request, const gal_solver_limits *limits,
                                      gal_algorithm_answer *out, gal_error *err)
{
    const gal_named_rule rule = {galvatron_space, UINT32_MAX, &gal_solvers[GAL_SOLVER_GALVATRON_BASE], view_of, NULL};
    return gal_named_search(request, &rule, limits, out, err);
}

gal_code gal_algorithm_galvatron_bmw(const gal_search_request *request, const gal_solver_limits *limits,
                                     gal_algorithm_answer *out, gal_error *err)
{
    const gal_named_rule rule = {galvatron_space, UINT32_MAX, &gal_solvers[GAL_SOLVER_GALVATRON_BMW], view_of, NULL};
    return gal_named_search(request, &rule, limits, out, err);
}

gal_code gal_algorithm_galvatron_memory(const gal_search_request *request, const gal_solver_limits *limits,
                                        gal_algorithm_answer *out, gal_error *err)
{
    static const gal_solver solver = {"1f1b+mem", false, gal_solve_galvatron_memory};
    const gal_named_rule rule = {galvatron_space, UINT32_MAX, &solver, view_of, NULL};
    return gal_named_search(request, &rule, limits, out, err);
}

gal_code gal_algorithm_galvatron_time(const gal_search_request *request, const gal_solver_limits *limits,
                                      gal_algorithm_answer *out, gal_error *err)
{
    static const gal_solver solver = {"1f1b+time", false, gal_solve_galvatron_time};
    const gal_named_rule rule = {galvatron_space, UINT32_MAX, &solver, view_of, NULL};
    return gal_named_search(request, &rule, limits, out, err);
}

gal_code gal_algorithm_ilp(const gal_search_request *request, const gal_solver_limits *limits,
                           gal_algorithm_answer *out, gal_error *err)
{
    gal_named_rule rule = {.pp_most = UINT32_MAX, .solver = &gal_solvers[GAL_SOLVER_ILP], .view = view_of};
    gal_space_all(&rule.space);
    return gal_named_search(request, &rule, limits, out, err);
}
