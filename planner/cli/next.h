/* The next commands to run: lines behind the answer of a command. */
#ifndef GAL_PLANNER_CLI_NEXT_H
#define GAL_PLANNER_CLI_NEXT_H

#include <stdio.h>

#include "schemas/plan.h"

/* Behind a search. path: of the plan, as written; NULL: it was not. profile_path: NULL without one. */
void gal_next_of_search(FILE *out, const gal_plan *plan, const char *path, const char *profile_path);

/* Behind a front, none of whose plans was written. */
void gal_next_of_front(FILE *out);

/* Behind a simulation. trace_path: as written, or NULL. */
void gal_next_of_simulation(FILE *out, const gal_plan *plan, const char *path, const char *profile_path,
                            const char *trace_path);

/* Behind an estimate. cluster: as given, or NULL. */
void gal_next_of_estimate(FILE *out, const char *cluster);

#endif
