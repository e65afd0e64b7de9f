/* galplan search --pareto: the front of throughput against memory. */
#ifndef GAL_PLANNER_CLI_SEARCH_PARETO_H
#define GAL_PLANNER_CLI_SEARCH_PARETO_H

#include <stdio.h>

#include "planner/cli/assumed.h"
#include "planner/search/pareto.h"
#include "schemas/base/json.h"

/* Of at least one point. most: as asked for. */
void gal_pareto_print(FILE *out, const gal_pareto *pareto, uint32_t most);
/* put_plan: writes what a plan is made of into the object of a point. seconds < 0: no timing is asked for. */
gal_code gal_pareto_print_json(const gal_pareto *pareto, const gal_assumed *assumed,
                               void (*put_plan)(gal_json_writer *out, const gal_plan *plan), double seconds,
                               gal_error *err);

#endif
