#ifndef GAL_PLANNER_CLI_SEARCH_COMPARE_H
#define GAL_PLANNER_CLI_SEARCH_COMPARE_H

#include "planner/cli/assumed.h"
#include "planner/cli/searching.h"
#include "planner/search/named.h"

/* `galplan search --compare`: every algorithm's plan for one request, a row each, on stdout. searching: of a zeroed
 * struct, with quiet set or not. GAL_NO: exact finds no plan. Else as gal_algorithm.search. */
gal_code gal_cli_search_compare(const gal_search_request *request, const gal_solver_limits *limits,
                                const gal_assumed *assumed, bool json, bool timing, gal_searching *searching,
                                gal_error *err);

#endif
