#include "planner/cell/illegal.h"

#include <stdlib.h>
#include <string.h>

#include "planner/cell/cell_list.h"
#include "planner/cell/uniform.h"
#include "schemas/plan_check.h"

/* The strategies of a stage of a cell. */
typedef struct listed {
    uint32_t count;
    gal_strategy *strategy; /* owned */
} listed;

static gal_code list_strategies(const gal_cell_spec *spec, listed *out, gal_error *err)
{
    const uint32_t devices = spec->device_count / spec->pp_degree;
    out->strategy = calloc(gal_space_room(spec->space, devices), sizeof *out->strategy);
    if (out->strategy == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    out->count = gal_space_strategies(spec->space, devices, out->strategy);
    return GAL_OK;
}

static bool has_legal(const gal_cell_spec *spec, const gal_block_types *types, uint32_t type, const listed *all)
{
    bool found = false;
    for (uint32_t s = 0; s < all->count && !found; s++) {
        found = gal_cell_is_legal(spec, types, type, &all->strategy[s]);
    }
    return found;
}

gal_code gal_cell_types_are_legal(const gal_cell_spec *spec, const gal_block_types *types, bool *legal, gal_error *err)
{
    listed all = {0};
    const gal_code code = list_strategies(spec, &all, err);
    *legal = true;
    for (uint32_t type = 0; code == GAL_OK && type < types->type_count && *legal; type++) {
        *legal = has_legal(spec, types, type, &all);
    }
    free(all.strategy);
    return code;
}

/* ---- rules ---- */

static uint32_t samples_of(const gal_cell_spec *spec)
{
    return spec->global_batch_samples / spec->microbatch_count;
}

/* Strategies that differ in recompute, ZeRO stage and the like mostly break the same rules: one stands for all. */
static gal_strategy split_alone(const gal_strategy *strategy)
{
    gal_strategy split = {.axis_count = strategy->axis_count,
                          .tp_mode = strategy->tp_mode,
                          .tp_depth = strategy->tp_depth,
                          .sequence_parallel = strategy->sequence_parallel};
    memcpy(split.axis, strategy->axis, sizeof split.axis);
    split.zero_stage = strategy->zero_stage > 0 ? 1 : 0;
    return split;
}

static void add_strategy(gal_illegal_rule *rule, const gal_strategy *strategy)
{
    const gal_strategy split = split_alone(strategy);
    for (uint32_t i = 0; i < rule->strategy_count; i++) {
        if (gal_strategy_equal(&rule->strategy[i], &split)) {
            return;
        }
    }
    if (rule->strategy_count < GAL_ILLEGAL_STRATEGIES_MAX) {
        rule->strategy[rule->strategy_count++] = split;
    }
}

/* A rule is met once for each kind of block. */
static void add_rule(gal_illegal *out, const gal_cell_spec *spec, const gal_block_shape *block, const char *rule,
                     const gal_strategy *strategy)
{
    uint32_t i = 0;
    while (i < out->rule_count && (out->rule[i].rule != rule || out->rule[i].block.kind != block->kind)) {
        i++;
    }
    if (i == out->rule_count && i < GAL_ILLEGAL_RULES_MAX) {
        out->rule[out->rule_count++] =
            (gal_illegal_rule){.block = *block, .rule = rule, .microbatch_samples = samples_of(spec)};
    }
    if (i < out->rule_count) {
        add_strategy(&out->rule[i], strategy);
    }
}

static const char *rule_broken(const gal_cell_spec *spec, const gal_block_shape *block, const gal_strategy *strategy)
{
    const char *rule = gal_strategy_gathers_rule_broken(strategy, spec->prefetch_depth);
    return rule != NULL ? rule
                        : gal_strategy_block_rule_broken(spec->model, block, strategy,
                                                         spec->device_count / spec->pp_degree, samples_of(spec));
}

/* The rules that keep all strategies from a type of block. */
static bool add_type(gal_illegal *out, const gal_cell_spec *spec, const gal_block_types *types, uint32_t type,
                     const listed *all)
{
    if (has_legal(spec, types, type, all)) {
        return false;
    }
    for (uint32_t s = 0; s < all->count; s++) {
        const char *rule = rule_broken(spec, &types->shape[type], &all->strategy[s]);
        if (rule != NULL) {
            add_rule(out, spec, &types->shape[type], rule, &all->strategy[s]);
        }
    }
    return true;
}

/* Where all blocks have one strategy: of each the first block that it is not for. */
static bool add_uniform(gal_illegal *out, const gal_cell_spec *spec, const gal_block_types *types, const listed *all)
{
    for (uint32_t s = 0; s < all->count; s++) {
        const char *rule = NULL;
        for (uint32_t type = 0; type < types->type_count && rule == NULL; type++) {
            rule = rule_broken(spec, &types->shape[type], &all->strategy[s]);
            if (rule != NULL) {
                add_rule(out, spec, &types->shape[type], rule, &all->strategy[s]);
            }
        }
        if (rule == NULL) {
            return false;
        }
    }
    return true;
}

/* The first block that has a tensor too large under the strategy; none is named where a whole stage has it. */
static gal_code add_too_large(gal_illegal *out, const gal_cell_spec *spec, const gal_block_types *types,
                              const listed *all, gal_error *err)
{
    for (uint32_t type = 0; type < types->type_count; type++) {
        gal_code code = GAL_ERR_DOCUMENT;
        for (uint32_t s = 0; s < all->count && gal_is_too_large(code); s++) {
            const gal_price_query query = {.type = types->shape[type].type,
                                           .strategy = &all->strategy[s],
                                           .device_count = spec->device_count / spec->pp_degree,
                                           .stage_count = spec->pp_degree,
                                           .microbatch_samples = samples_of(spec),
                                           .prefetch_depth = spec->prefetch_depth};
            const gal_block_price *price = NULL;
            gal_error reason = {0};
            if (gal_cell_is_legal(spec, types, type, &all->strategy[s])) {
                code = gal_price_block(spec->cache, &query, &price, &reason);
            }
            if (code != GAL_OK && !gal_is_too_large(code)) {
                return gal_fail(err, code, "%s", reason.text);
            }
        }
        if (gal_is_too_large(code)) {
            const uint32_t last = all->count - 1;
            add_rule(out, spec, &types->shape[type], NULL, &all->strategy[last]);
            return GAL_OK;
        }
    }
    return GAL_OK;
}

static gal_code add_cell(gal_illegal *out, const gal_cell_spec *spec, const gal_block_types *types, bool uniform,
                         gal_error *err)
{
    gal_error refusal = {0};
    bool illegal = false;
    listed all = {0};
    if (gal_cell_refused(spec, &refusal) != GAL_OK || (uniform && gal_uniform_refused(spec, &refusal) != GAL_OK)) {
        return GAL_OK;
    }
    gal_code code = list_strategies(spec, &all, err);
    if (code == GAL_OK && all.count == 0) {
        out->bare_devices = spec->device_count / spec->pp_degree;
    } else if (code == GAL_OK) {
        for (uint32_t type = 0; type < types->type_count && !uniform; type++) {
            illegal = add_type(out, spec, types, type, &all) || illegal;
        }
        illegal = illegal || (uniform && add_uniform(out, spec, types, &all));
        code = illegal ? GAL_OK : add_too_large(out, spec, types, &all, err);
    }
    free(all.strategy);
    return code;
}

gal_code gal_search_illegal(const gal_search_request *request, gal_illegal *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_price_cache *cache = NULL;
    gal_block_types types = {0};
    gal_cell_numbers *numbers = NULL;
    uint32_t count = 0;
    const bool uniform = gal_search_is_uniform(request);
    memset(out, 0, sizeof *out);
    GAL_TRY(gal_search_cache_create(request, &cache, err));
    GAL_TRY(gal_block_types_create(request->model, request->durations, &types, err));
    GAL_TRY(gal_search_cells(request, &numbers, &count, err));
    for (uint32_t i = 0; i < count; i++) {
        const gal_cell_spec spec = gal_search_cell_spec(request, &numbers[i], cache);
        GAL_TRY(add_cell(out, &spec, &types, uniform, err));
    }
cleanup:
    free(numbers);
    gal_block_types_free(&types);
    gal_price_cache_free(cache);
    return code;
}
