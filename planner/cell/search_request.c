#include "planner/cell/search_request.h"

#include <stdlib.h>

#include "runtime/program/schedule.h"

bool gal_search_is_uniform(const gal_search_request *request)
{
    return request->schedule == GAL_SCHEDULE_INTERLEAVED || gal_schedule_splits(request->schedule);
}

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
