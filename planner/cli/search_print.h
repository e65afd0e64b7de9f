/* What galplan search says of the plan that it found. */
#ifndef GAL_PLANNER_CLI_SEARCH_PRINT_H
#define GAL_PLANNER_CLI_SEARCH_PRINT_H

#include <stdio.h>

#include "planner/cli/assumed.h"
#include "planner/cli/search_ctas.h"
#include "planner/cli/search_none.h"
#include "planner/search/named.h"

/* The rest that is said of an answer. */
typedef struct gal_search_said {
    const gal_assumed *assumed;
    const gal_ctas *ctas;
    const gal_no_plan *none; /* of exact, where nothing is feasible; else NULL */
    double seconds;          /* of the search; below 0: no timing is asked for */
    double tokens;           /* of a training whose length is asked for; 0: none */
    bool tf32, measured;     /* of the durations: gal_step_said */
} gal_search_said;

/* A feasible answer: the figures of its first plan, its best `top` finalists where these are several, the plan.
 * GAL_ERR_SYSTEM without memory. */
gal_code gal_search_print(FILE *out, const gal_algorithm *algorithm, const gal_algorithm_answer *answer,
                          const gal_search_said *said, uint32_t top, gal_error *err);

/* One object to stdout, also of what is not feasible. */
gal_code gal_search_print_json(const gal_algorithm *algorithm, const gal_algorithm_answer *answer,
                               const gal_search_said *said, gal_error *err);

/* The members low_seconds, high_seconds, low_bytes, high_bytes of an object. */
void gal_search_put_interval(gal_json_writer *out, const gal_prediction *interval);

#endif
