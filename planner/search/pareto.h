/* The Pareto front of throughput against memory: which plan is returned under which limit.
 *
 * Searches at falling limits, the next one a byte below the memory of the plan found, until no plan fits. Under its own
 * limit each point is the answer of gal_search, and no limit below it gives a plan of as much memory. A plan of less
 * memory that is no slower takes the place of those before it: within the gap of the search that can be. */
#ifndef GAL_PLANNER_SEARCH_PARETO_H
#define GAL_PLANNER_SEARCH_PARETO_H

#include "planner/search/joint_search.h"

typedef struct gal_pareto_point {
    uint64_t limit_bytes;       /* of a device: under which gal_search returns the plan */
    gal_finalist finalist;      /* owned; its peak_bytes are what it needs */
    double lower_bound_seconds; /* under the limit, of the plan's batch */
    bool proven;                /* every cell solved is proven to its end */
} gal_pareto_point;

/* Fastest first: both bytes and samples per second fall strictly. */
typedef struct gal_pareto {
    uint32_t point_count;
    gal_pareto_point *point; /* owned */
    bool complete;           /* no plan fits below the last point; else more were not asked for */
    gal_search_result none;  /* of the first limit under which nothing fits; if not complete, zeroed */
} gal_pareto;

/* most: points wanted, the fastest ones; 0: all. step_bytes: how far the next limit is below the memory of the plan
 * found; 1: every change is seen, more: those so far apart. Errors as gal_search. */
gal_code gal_pareto_find(const gal_search_request *request, uint32_t most, uint64_t step_bytes, gal_pareto *out,
                         gal_error *err);
void gal_pareto_free(gal_pareto *pareto);

#endif
