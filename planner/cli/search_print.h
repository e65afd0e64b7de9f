/* What galplan search says of the plan that it found. */
#ifndef GAL_PLANNER_CLI_SEARCH_PRINT_H
#define GAL_PLANNER_CLI_SEARCH_PRINT_H

#include <stdio.h>

#include "planner/cli/assumed.h"
#include "planner/cli/search_ctas.h"
#include "planner/cli/search_none.h"
#include "planner/search/named.h"

/* The table of its stages: blocks, strategies, bytes. */
void gal_search_print_plan(FILE *out, const gal_plan *plan);

/* A feasible answer, and its best `top` finalists where these are several. */
void gal_search_print(FILE *out, const gal_algorithm *algorithm, const gal_algorithm_answer *answer, uint32_t top);

/* What an answer's object holds besides. */
typedef struct gal_search_said {
    const gal_assumed *assumed;
    const gal_ctas *ctas;
    const gal_no_plan *none; /* of exact, where nothing is feasible; else NULL */
    double seconds;          /* of the search; below 0: no timing is asked for */
} gal_search_said;

/* One object to stdout, also of what is not feasible. */
gal_code gal_search_print_json(const gal_algorithm *algorithm, const gal_algorithm_answer *answer,
                               const gal_search_said *said, gal_error *err);

/* The members low_seconds, high_seconds, low_bytes, high_bytes of an object. */
void gal_search_put_interval(gal_json_writer *out, const gal_prediction *interval);

/* The members "strategies" and "stage_block_counts" of a plan's object. */
void gal_search_put_strategies(gal_json_writer *out, const gal_plan *plan);

#endif
