#include "planner/search/space_counts.h"

#include <stdlib.h>

#include "planner/bound/screened.h"
#include "schemas/plan_check.h"

static void count_type(const gal_cell_spec *spec, const gal_screened *screened, uint32_t type, uint32_t listed_count,
                       double plan_seconds, gal_space_count *out)
{
    const gal_block_shape *shape = &screened->types->shape[type];
    const uint32_t samples = spec->global_batch_samples / spec->microbatch_count;
    *out = (gal_space_count){.kind = shape->kind, .listed = listed_count};
    for (uint32_t b = 0; b < screened->types->block_count; b++) {
        out->block_count += screened->types->type_of[b] == type;
    }
    for (uint32_t s = 0; s < screened->strategy_count; s++) {
        const gal_strategy *strategy = &screened->strategy[s];
        const size_t at = (size_t)type * screened->strategy_count + s;
        out->legal += gal_strategy_gathers_rule_broken(strategy, spec->prefetch_depth) == NULL &&
                      gal_strategy_block_rule_broken(spec->model, shape, strategy, spec->device_count / spec->pp_degree,
                                                     samples) == NULL;
        out->tried += gal_cell_is_legal(spec, screened->types, type, strategy);
        out->open += screened->item[at].legal && screened->reduced_seconds[at] <= plan_seconds;
    }
}

gal_code gal_space_counts_create(const gal_cell_spec *spec, double plan_seconds, gal_space_counts *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_block_types types = {0};
    gal_screened_prices *prices = NULL;
    gal_screened screened = {0};
    gal_space_counts counts = {0};
    const uint32_t listed_count = gal_space_strategies(spec->space, spec->device_count / spec->pp_degree, NULL);
    GAL_TRY(gal_block_types_create(spec->model, &types, err));
    GAL_TRY(gal_screened_create(spec, &types, GAL_ALL_ORDERS, &prices, &screened, err));
    counts.of = calloc(types.type_count, sizeof *counts.of);
    if (counts.of == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to count strategies"));
    }
    for (uint32_t type = 0; type < types.type_count; type++) {
        count_type(spec, &screened, type, listed_count, plan_seconds, &counts.of[counts.type_count++]);
    }
    *out = counts;
    counts.of = NULL;
cleanup:
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
