#include "planner/cell/search_request.h"

#include <stdlib.h>

double gal_finalist_rate(const gal_finalist *finalist)
{
    return finalist->global_batch_samples / finalist->objective_seconds;
}

void gal_search_result_free(gal_search_result *result)
{
    for (uint32_t i = 0; i < result->finalist_count; i++) {
        gal_plan_free(&result->finalist[i].plan);
    }
    free(result->finalist);
    *result = (gal_search_result){0};
}
