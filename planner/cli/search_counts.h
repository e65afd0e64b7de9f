/* What galplan search --counts says. */
#ifndef GAL_PLANNER_CLI_SEARCH_COUNTS_H
#define GAL_PLANNER_CLI_SEARCH_COUNTS_H

#include <stdio.h>

#include "planner/search/joint_search.h"

/* How many strategies each rule leaves, in the cell of the best plan. As gal_space_counts_create. */
gal_code gal_search_print_counts(FILE *out, const gal_search_request *request, const gal_finalist *best,
                                 gal_error *err);

#endif
