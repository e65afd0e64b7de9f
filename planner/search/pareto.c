#include "planner/search/pareto.h"

#include <stdlib.h>
#include <string.h>

#include "planner/cell/cell_list.h"

static void drop_last(gal_pareto *pareto)
{
    gal_plan_free(&pareto->point[--pareto->point_count].finalist.plan);
}

/* Takes the winner out of the result. */
static gal_code add(gal_pareto *pareto, uint64_t limit_bytes, gal_search_result *result, gal_error *err)
{
    while (pareto->point_count > 0 && gal_finalist_rate(&pareto->point[pareto->point_count - 1].finalist) <=
                                          gal_finalist_rate(&result->finalist[0])) {
        drop_last(pareto);
    }
    gal_pareto_point *grown = realloc(pareto->point, (pareto->point_count + 1) * sizeof *grown);
    if (grown == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    pareto->point = grown;
    grown[pareto->point_count++] = (gal_pareto_point){.limit_bytes = limit_bytes,
                                                      .finalist = result->finalist[0],
                                                      .lower_bound_seconds = result->lower_bound_seconds,
                                                      .proven = result->unproven_cell_count == 0};
    memset(&result->finalist[0].plan, 0, sizeof result->finalist[0].plan);
    return GAL_OK;
}

static bool offloads(const gal_plan *plan)
{
    bool found = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        found = found || gal_strategy_offloads(&plan->run[r].strategy);
    }
    return found;
}

gal_code gal_pareto_find(const gal_search_request *request, uint32_t most, uint64_t step_bytes, gal_pareto *out,
                         gal_error *err)
{
    gal_code code = GAL_OK;
    gal_pareto pareto = {0};
    gal_search_result result = {0};
    gal_search_request own = *request;
    gal_price_cache *cache = NULL; /* a limit changes no price */
    own.memory_bytes = request->memory_bytes != 0 ? request->memory_bytes
                                                  : gal_durations_cluster(request->durations)->device.memory_bytes;
    if (own.cache == NULL) {
        GAL_TRY(gal_search_cache_create(&own, &cache, err));
        own.cache = cache;
    }
    while (!pareto.complete && (most == 0 || pareto.point_count <= most)) { /* one more may yet oust the last wanted */
        GAL_TRY(gal_search(&own, &result, err));
        pareto.complete = !result.feasible;
        if (pareto.complete) {
            pareto.none = result;
            memset(&result, 0, sizeof result);
            break;
        }
        const uint64_t peak_bytes = result.finalist[0].peak_bytes;
        own.is_short = own.is_short || offloads(&result.finalist[0].plan);
        GAL_TRY(add(&pareto, own.memory_bytes, &result, err));
        gal_search_result_free(&result);
        own.memory_bytes = peak_bytes > step_bytes ? peak_bytes - step_bytes : 1;
    }
    if (most != 0 && pareto.point_count > most) {
        drop_last(&pareto);
    }
    *out = pareto;
    memset(&pareto, 0, sizeof pareto);
cleanup:
    gal_search_result_free(&result);
    gal_pareto_free(&pareto);
    gal_price_cache_free(cache);
    return code;
}

void gal_pareto_free(gal_pareto *pareto)
{
    while (pareto->point_count > 0) {
        drop_last(pareto);
    }
    free(pareto->point);
    gal_search_result_free(&pareto->none);
    *pareto = (gal_pareto){0};
}
