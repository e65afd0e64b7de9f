/* The answer of galplan search where no plan fits: the reason, the contents of the memory, the repairs. */
#ifndef GAL_PLANNER_CLI_SEARCH_NONE_H
#define GAL_PLANNER_CLI_SEARCH_NONE_H

#include "planner/cell/illegal.h"
#include "planner/cli/repairs.h"
#include "planner/search/named.h"

typedef struct gal_no_plan {
    gal_repair_case of;  /* result: of gal_search, nothing feasible; most_devices by find */
    gal_illegal illegal; /* after find, where no plan is legal */
    gal_repairs repairs; /* after find; none where the host's memory binds */
} gal_no_plan;

/* Looks for reasons and repairs, within its time limit. GAL_ERR_SYSTEM without memory. */
gal_code gal_no_plan_find(gal_no_plan *none, gal_error *err);
/* To stderr. */
void gal_no_plan_print(const gal_no_plan *none);
/* The same as members of an object that is begun. */
void gal_no_plan_put(const gal_no_plan *none, gal_json_writer *out);

/* To stderr, of a named algorithm, which proves nothing. */
void gal_no_plan_print_named(const gal_algorithm *algorithm, const gal_search_result *result, uint64_t memory_bytes);

/* To stderr, if there are any: cells that were left out because tensors are too large for a program. */
void gal_left_out_print(const gal_search_result *result);

#endif
