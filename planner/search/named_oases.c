/* Oases' planner on a cell (planner/search/named.h): its equations (planner/solve/oases.h) with prices in its way.
 *
 * Every block takes a degree of tensor parallelism, a power of two; its other devices are replicas (section 4.1). All
 * lie in one stage: the paper's experiments have no pipeline. All-reduces and all-gathers by volume over the bytes per
 * second of the outermost link crossed; computation is the price without the all-reduce that galrun's program has in
 * it; halves take half of both. Layers are recomputed, as its schedule does, if the space has that, and the all-reduce
 * is not repeated for it (section 3.2). The gradients of replicas cost nothing: Eq. 5 does not have them.
 * Where there are no two halves of a sample each, computation and all-reduce are one after the other.
 * The plan has the schedule that was priced: overlap fine, in_pass without recompute, wherever halves can be. */
#include <math.h>
#include <stdlib.h>

#include "planner/cell/path.h"
#include "planner/search/named_search.h"
#include "planner/solve/oases.h"
#include "schemas/plan_check.h"

enum { DEGREES_MAX = 32 };

typedef struct plan_view {
    const gal_named_cell *named;
    gal_oases oases;
    uint32_t *strategy; /* (block, degree): of the cell; its count: not allowed */
} plan_view;

/* Inside, next to each other. */
static bool has_degree(const gal_strategy *strategy, uint32_t tp_degree)
{
    return gal_strategy_degree(strategy, GAL_AXIS_TP) == tp_degree &&
           (tp_degree == 1 || strategy->axis[0].kind == GAL_AXIS_TP);
}

static uint32_t strategy_of(const gal_named_cell *named, uint32_t block, uint32_t tp_degree)
{
    const gal_cell *cell = named->cell;
    uint32_t found = cell->strategy_count;
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        if (has_degree(&cell->strategy[s], tp_degree) && gal_named_allows(named, block, s)) {
            found = s; /* the one with recompute is behind the one without */
        }
    }
    return found;
}

static const gal_cell_node *node_of(const plan_view *v, uint32_t block, uint32_t s)
{
    const gal_cell *cell = v->named->cell;
    return &cell->node[gal_cell_price_index(cell, block, 0, v->strategy[block * v->oases.degree_count + s])];
}

static bool is_allowed(const plan_view *v, uint32_t block, uint32_t s)
{
    return v->strategy[block * v->oases.degree_count + s] < v->named->cell->strategy_count;
}

/* ---- prices ---- */

static double link_bytes_per_second(const gal_cell *cell, uint32_t degree)
{
    const gal_cluster *cluster = gal_durations_cluster(cell->spec.durations);
    const gal_link_level *level = &cluster->level[gal_cluster_level_between(cluster, 0, degree - 1)];
    return level->bytes_per_second * (level->achievable_fraction > 0.0 ? level->achievable_fraction : 1.0);
}

/* As galrun's prices have it. */
static double priced_reduce_seconds(const gal_cell *cell, const gal_strategy *strategy, uint64_t bytes)
{
    gal_atoms atoms;
    uint32_t level_counts[GAL_LINK_LEVELS_MAX];
    gal_atoms_of(cell->stage_devices, &atoms);
    const gal_place_in_cluster place = {&atoms, cell->stage_devices, 0, cell->spec.pp_degree};
    gal_group_level_counts(gal_durations_cluster(cell->spec.durations), &place, gal_mesh_of(&atoms, strategy).tp,
                           level_counts);
    return gal_collective_seconds(cell->spec.durations, GAL_OP_ALL_REDUCE, level_counts, bytes, NULL);
}

/* Why a block cannot work on two sub-batches under a strategy, or NULL; *halves: whether it would. with: the strategy,
 * under the kind of overlap that it then has. */
static const char *overlap_broken(const gal_model *model, uint32_t block, uint32_t device_count, uint32_t samples,
                                  gal_strategy *with, bool *halves)
{
    gal_block_shape shape;
    gal_model_block(model, block, &shape);
    with->overlap = gal_space_overlap_of(with);
    *halves = gal_strategy_halves(with, shape.kind);
    return gal_strategy_block_rule_broken(model, &shape, with, device_count, samples);
}

static bool has_halves(const plan_view *v, uint32_t block, const gal_strategy *strategy)
{
    const gal_cell *cell = v->named->cell;
    gal_strategy with = *strategy;
    bool halves = false;
    return overlap_broken(cell->spec.model, block, cell->stage_devices, cell->samples, &with, &halves) == NULL &&
           halves;
}

static void price_pass(const plan_view *v, uint32_t block, uint32_t s, gal_oases_pass pass, gal_oases_cost *out)
{
    const gal_cell *cell = v->named->cell;
    const gal_cell_node *node = node_of(v, block, s);
    const uint32_t degree = v->oases.degree[s];
    const bool forward = pass == GAL_OASES_FORWARD;
    const bool reduces = degree > 1 && block != (forward ? cell->block_count - 1 : 0);
    const gal_strategy *strategy = &cell->strategy[v->strategy[block * v->oases.degree_count + s]];
    double compute = forward ? node->block.forward_seconds : node->block.backward_seconds;
    double reduce = 0.0;
    if (reduces) {
        compute -= priced_reduce_seconds(cell, strategy, (uint64_t)node->boundary_bytes);
        reduce = gal_oases_reduce_seconds((double)node->boundary_bytes, degree, link_bytes_per_second(cell, degree));
    }
    compute = fmax(0.0, compute);
    if (reduces && !has_halves(v, block, strategy)) {
        out->compute_seconds[pass][1] = compute + reduce;
        return;
    }
    for (uint32_t half = 0; half < 2; half++) {
        out->compute_seconds[pass][half] = compute / 2.0;
        out->reduce_seconds[pass][half] = reduce / 2.0;
    }
}

/* What is not allowed needs the whole budget, so Eq. 6 refuses it. */
static void price_block(const plan_view *v, uint32_t block, uint32_t s, gal_oases_cost *out)
{
    const gal_cell *cell = v->named->cell;
    *out = (gal_oases_cost){.state_bytes = v->oases.budget_bytes};
    if (is_allowed(v, block, s)) {
        const uint32_t strategy = v->strategy[block * v->oases.degree_count + s];
        const gal_block_bytes *bytes = &gal_cell_price(cell, block, 0, strategy)->memory->bytes;
        const gal_cell_node *node = node_of(v, block, s);
        price_pass(v, block, s, GAL_OASES_FORWARD, out);
        price_pass(v, block, s, GAL_OASES_BACKWARD, out);
        out->state_bytes = bytes->state + bytes->gradient;
        out->saved_bytes = bytes->saved;
        out->runtime_bytes = (uint64_t)(gal_shared_sum(&node->block.shared) + 2 * node->boundary_bytes);
        if (has_halves(v, block, &cell->strategy[strategy])) { /* beside its neighbour's */
            out->runtime_bytes +=
                (uint64_t)(node->block.shared.of[GAL_SHARED_WORK_EVEN] + node->block.shared.of[GAL_SHARED_WORK_ODD]);
        }
    }
}

/* Rows of the larger degree, of which its devices have those of the smaller: what a group of its gathers. */
static double gather_seconds(const plan_view *v, uint32_t block, uint32_t from, uint32_t to)
{
    const uint32_t large = from < to ? to : from;
    const uint32_t small = from < to ? from : to;
    if (large == small || !is_allowed(v, block - 1, from) || !is_allowed(v, block, to)) {
        return 0.0;
    }
    const gal_cell_node *node = from < to ? node_of(v, block, to) : node_of(v, block - 1, from);
    return gal_oases_gather_seconds((double)node->boundary_bytes, v->oases.degree[large] / v->oases.degree[small],
                                    link_bytes_per_second(v->named->cell, v->oases.degree[large]));
}

static void fill(plan_view *v)
{
    gal_oases *o = &v->oases;
    const size_t n = o->degree_count;
    for (uint32_t i = 0; i < o->block_count; i++) {
        for (uint32_t to = 0; to < n; to++) {
            price_block(v, i, to, &o->cost[i * n + to]);
            for (uint32_t from = 0; from < n && i > 0; from++) {
                o->gather_seconds[(i * n + from) * n + to] = gather_seconds(v, i, from, to);
            }
        }
    }
}

/* ---- the view ---- */

static bool can_choose(plan_view *v)
{
    const gal_oases *o = &v->oases;
    bool everywhere = true;
    for (uint32_t i = 0; i < o->block_count; i++) {
        bool here = false;
        for (uint32_t s = 0; s < o->degree_count; s++) {
            v->strategy[i * o->degree_count + s] = strategy_of(v->named, i, o->degree[s]);
            here = here || is_allowed(v, i, s);
        }
        everywhere = everywhere && here;
    }
    return everywhere;
}

static gal_code view_of(const gal_named_cell *named, gal_named_view *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_cell *cell = named->cell;
    plan_view v = {.named = named};
    uint32_t degree_count = 0;
    while (degree_count < DEGREES_MAX && cell->stage_devices >> degree_count != 0) {
        degree_count++;
    }
    GAL_TRY(gal_oases_create(cell->block_count, degree_count, &v.oases, err));
    v.strategy = calloc((size_t)cell->block_count * degree_count, sizeof *v.strategy);
    if (v.strategy == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    v.oases.budget_bytes = cell->spec.arena_limit_bytes + 1;
    for (uint32_t s = 0; s < degree_count; s++) {
        v.oases.degree[s] = UINT32_C(1) << s;
    }
    if (cell->spec.arena_limit_bytes == 0 || !can_choose(&v)) {
        code = GAL_NO;
        goto cleanup;
    }
    fill(&v);
    *out = (gal_named_view){.repeats = cell->spec.microbatch_count};
    GAL_TRY(gal_oases_tabulate(&v.oases, &out->problem, err));
    out->strategy = v.strategy;
    v.strategy = NULL;
cleanup:
    free(v.strategy);
    gal_oases_free(&v.oases);
    return code;
}

/* Runs in which nothing is against it. */
static void finish(gal_plan *plan)
{
    uint32_t block = 0;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        bool legal = true, any = false;
        gal_strategy with = plan->run[r].strategy;
        for (uint32_t i = 0; i < plan->run[r].block_count; i++, block++) {
            bool halves = false;
            legal = overlap_broken(&plan->model, block, gal_plan_stage_devices(plan), gal_plan_microbatch_samples(plan),
                                   &with, &halves) == NULL &&
                    legal;
            any = any || halves;
        }
        plan->run[r].strategy = legal && any ? with : plan->run[r].strategy;
    }
}

static gal_code search_by(gal_solver_kind solver, const gal_search_request *request, const gal_solver_limits *limits,
                          gal_algorithm_answer *out, gal_error *err)
{
    const gal_named_rule rule = {
        .space = {.axis = {[GAL_AXIS_DP] = true, [GAL_AXIS_TP] = true}, .recompute = true, .takeaway = {[2] = true}},
        .pp_most = 1,
        .solver = &gal_solvers[solver],
        .view = view_of,
        .finish = finish};
    return gal_named_search(request, &rule, limits, out, err);
}

gal_code gal_algorithm_oases(const gal_search_request *request, const gal_solver_limits *limits,
                             gal_algorithm_answer *out, gal_error *err)
{
    return search_by(GAL_SOLVER_EXACT, request, limits, out, err);
}

gal_code gal_algorithm_oases_ilp(const gal_search_request *request, const gal_solver_limits *limits,
                                 gal_algorithm_answer *out, gal_error *err)
{
    return search_by(GAL_SOLVER_ILP, request, limits, out, err);
}
