#include "planner/search/space_counts.h"

#include <stdlib.h>

#include "planner/bound/screened.h"
#include "planner/space/orders.h"
#include "schemas/plan_check.h"

/* first[strategy]: of its orders (gal_orders_number). */
static void count_type(const gal_cell_spec *spec, const gal_screened *screened, uint32_t type, const uint32_t *first,
                       double plan_seconds, gal_space_count *out)
{
    const gal_block_shape *shape = &screened->types->shape[type];
    const uint32_t samples = spec->global_batch_samples / spec->microbatch_count;
    *out = (gal_space_count){.kind = shape->kind};
    out->listed = gal_space_strategies(spec->space, spec->device_count / spec->pp_degree, NULL);
    for (uint32_t b = 0; b < screened->types->block_count; b++) {
        out->block_count += screened->types->type_of[b] == type;
    }
    for (uint32_t s = 0; s < screened->strategy_count; s++) {
        const gal_strategy *strategy = &screened->strategy[s];
        const size_t at = (size_t)type * screened->strategy_count + s;
        out->legal += gal_strategy_gathers_rule_broken(strategy, spec->prefetch_depth) == NULL &&
                      gal_strategy_block_rule_broken(spec->model, shape, strategy, spec->device_count / spec->pp_degree,
                                                     samples) == NULL;
        const bool tried = gal_cell_is_legal(spec, screened->types, type, strategy);
        out->tried += tried;
        out->first += tried && first[s] == s;
        out->open += screened->legal[at] && screened->reduced_seconds[at] <= plan_seconds;
    }
}

gal_code gal_space_counts_create(const gal_cell_spec *spec, double plan_seconds, gal_space_counts *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_block_types types = {0};
    gal_screened_prices *prices = NULL;
    gal_screened screened = {0};
    gal_space_counts counts = {0};
    uint32_t *first = NULL;
    GAL_TRY(gal_block_types_create(spec->model, spec->durations, &types, err));
    GAL_TRY(gal_screened_create(spec, &types, GAL_ALL_ORDERS, NULL, &prices, &screened, err));
    counts.of = calloc(types.type_count, sizeof *counts.of);
    first = malloc(((size_t)screened.strategy_count + 1) * sizeof *first);
    if (counts.of == NULL || first == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to count strategies"));
    }
    GAL_TRY(gal_orders_number(gal_durations_cluster(spec->durations), spec->device_count / spec->pp_degree,
                              screened.strategy, screened.strategy_count, first, err));
    for (uint32_t type = 0; type < types.type_count; type++) {
        count_type(spec, &screened, type, first, plan_seconds, &counts.of[counts.type_count++]);
    }
    *out = counts;
    counts.of = NULL;
cleanup:
    free(first);
    free(counts.of);
    gal_screened_free(&screened);
    gal_screened_prices_free(prices);
    gal_block_types_free(&types);
    return code;
}

void gal_space_counts_free(gal_space_counts *counts)
{
    free(counts->of);
    *counts = (gal_space_counts){0};
}
