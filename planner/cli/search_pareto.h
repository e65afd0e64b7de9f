/* galplan search --pareto: the front of throughput against memory. */
#ifndef GAL_PLANNER_CLI_SEARCH_PARETO_H
#define GAL_PLANNER_CLI_SEARCH_PARETO_H

#include <stdio.h>

#include "planner/cli/assumed.h"
#include "planner/search/pareto.h"
#include "schemas/base/json.h"

/* The points, at least one, then the plan of the first, which is the fastest. most: as asked for. tf32: of the
 * durations. GAL_ERR_SYSTEM without memory. */
gal_code gal_pareto_print(FILE *out, const gal_pareto *pareto, bool tf32, uint32_t most, gal_error *err);
/* seconds < 0: no timing is asked for. */
gal_code gal_pareto_print_json(const gal_pareto *pareto, const gal_assumed *assumed, bool tf32, double seconds,
                               gal_error *err);

#endif
