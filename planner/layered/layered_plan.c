#include "planner/layered/layered_plan.h"

#include <stdlib.h>
#include <string.h>

#include "planner/cell/finalist.h"

/* The layers of one type on a stage: those that have the kind of the first, and all. */
typedef struct share {
    uint32_t kind, other; /* of the first layer, and another one; equal: all are of one kind */
    uint32_t first_count, count;
} share;

static void count_shares(const gal_node *node, const gal_node_solution *solution, uint32_t stage, share *out)
{
    const gal_layers *layers = node->table->query.layers;
    memset(out, 0, GAL_LAYER_TYPES_MAX * sizeof *out);
    for (uint32_t layer = solution->cut[stage]; layer < solution->cut[stage + 1]; layer++) {
        share *own = &out[layers->type_of[layer]];
        const uint32_t kind = solution->kind[layer];
        if (own->count == 0) {
            *own = (share){.kind = kind, .other = kind};
        }
        own->other = kind != own->kind ? kind : own->other;
        own->first_count += kind == own->kind;
        own->count++;
    }
}

bool gal_solution_mixes(const gal_node *node, const gal_node_solution *solution)
{
    share of[GAL_LAYER_TYPES_MAX];
    bool mixes = false;
    for (uint32_t stage = 0; stage < node->numbers.pp_degree; stage++) {
        count_shares(node, solution, stage, of);
        for (uint32_t type = 0; type < GAL_LAYER_TYPES_MAX; type++) {
            mixes = mixes || of[type].kind != of[type].other;
        }
    }
    return mixes;
}

/* The kind of the index-th layer of a share. */
static uint32_t kind_in(const share *of, gal_layer_order order, uint32_t index)
{
    const uint64_t first = of->first_count, count = of->count;
    bool takes_first = index < first;
    if (order == GAL_LAYERS_LOW_FIRST) {
        takes_first = index >= count - first;
    } else if (order == GAL_LAYERS_SPREAD) {
        takes_first = (index + 1) * first / count > index * first / count;
    }
    return takes_first ? of->kind : of->other;
}

/* Behind the plan's runs, unless it goes on with the last one. */
static void add_block(gal_plan *plan, uint32_t stage, bool begins_stage, const gal_strategy *strategy)
{
    gal_plan_stage *at = &plan->stage[stage];
    if (begins_stage) {
        at->first_run = plan->run_count;
    }
    if (begins_stage || !gal_strategy_equal(&plan->run[plan->run_count - 1].strategy, strategy)) {
        plan->run[plan->run_count++] = (gal_plan_run){0, *strategy};
        at->run_count++;
    }
    plan->run[plan->run_count - 1].block_count++;
}

/* The strategies of a stage's blocks. */
static void list_stage(const gal_node *node, const gal_node_solution *solution, gal_layer_order order, uint32_t stage,
                       const gal_strategy **strategy)
{
    const gal_layers *layers = node->table->query.layers;
    share of[GAL_LAYER_TYPES_MAX];
    uint32_t written[GAL_LAYER_TYPES_MAX] = {0};
    count_shares(node, solution, stage, of);
    for (uint32_t layer = solution->cut[stage]; layer < solution->cut[stage + 1]; layer++) {
        const uint32_t type = layers->type_of[layer];
        const gal_kind *kind = &node->table->kind[kind_in(&of[type], order, written[type]++)];
        for (uint32_t b = 0; b < layers->type[type].block_count; b++) {
            strategy[layers->first_block[layer] + b] = gal_kind_strategy(node->table, kind, b);
        }
    }
}

gal_code gal_blocks_plan(const gal_search_request *request, const gal_node *node, const gal_node_limits *limits,
                         const uint32_t *cut, const gal_strategy *const *strategy, gal_finalist *out, bool *fits,
                         gal_error *err)
{
    gal_code code = GAL_OK;
    gal_finalist finalist;
    const gal_cell_spec spec = {.pp_degree = node->numbers.pp_degree,
                                .microbatch_count = node->numbers.microbatch_count,
                                .global_batch_samples = node->numbers.global_batch_samples,
                                .schedule = limits->schedule,
                                .prefetch_depth = request->prefetch_depth};
    gal_finalist_begin(request, &spec, &finalist);
    gal_plan *plan = &finalist.plan;
    plan->stage = calloc(plan->pp_degree, sizeof *plan->stage);
    plan->run = calloc(gal_model_block_count(&plan->model), sizeof *plan->run);
    if (plan->stage == NULL || plan->run == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    plan->stage_count = plan->pp_degree;
    for (uint32_t stage = 0; stage < plan->stage_count; stage++) {
        for (uint32_t block = cut[stage]; block < cut[stage + 1]; block++) {
            add_block(plan, stage, block == cut[stage], strategy[block]);
        }
    }
    GAL_TRY(gal_finalist_predict(request, &finalist, err));
    *fits = finalist.peak_bytes <= limits->arena_bytes + plan->fixed_bytes;
    *out = finalist;
    memset(&finalist, 0, sizeof finalist);
cleanup:
    gal_plan_free(&finalist.plan);
    return code;
}

gal_code gal_solution_plan(const gal_search_request *request, const gal_node *node, const gal_node_limits *limits,
                           const gal_node_solution *solution, gal_layer_order order, gal_finalist *out, bool *fits,
                           gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_layers *layers = node->table->query.layers;
    const uint32_t stages = node->numbers.pp_degree;
    const gal_strategy **strategy = calloc(layers->first_block[layers->layer_count], sizeof *strategy);
    uint32_t *cut = calloc((size_t)stages + 1, sizeof *cut);
    if (strategy == NULL || cut == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    for (uint32_t stage = 0; stage <= stages; stage++) {
        cut[stage] = layers->first_block[solution->cut[stage]];
    }
    for (uint32_t stage = 0; stage < stages; stage++) {
        list_stage(node, solution, order, stage, strategy);
    }
    GAL_TRY(gal_blocks_plan(request, node, limits, cut, strategy, out, fits, err));
    out->objective_seconds = out->plan.objective_seconds = solution->objective_seconds;
    out->bound_seconds = solution->bound_seconds;
cleanup:
    free(strategy);
    free(cut);
    return code;
}
