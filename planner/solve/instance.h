/* A problem in the units of the solvers, and what an answer to it costs.
 *
 * Whole picoseconds and bytes, int64_t: the reader of the document has bounded all sums below 2^62. */
#ifndef GAL_PLANNER_SOLVE_INSTANCE_H
#define GAL_PLANNER_SOLVE_INSTANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/status.h"
#include "schemas/problem.h"

#define GAL_NEVER INT64_MAX /* picoseconds of what is not there */

typedef struct gal_instance {
    uint32_t layer_count, strategy_count, stage_count, microbatch_count, kind_count;
    int64_t budget_bytes;
    uint32_t *kind;       /* (layer) */
    uint32_t *run_first;  /* (layer): first layer of the row of neighbours of its kind */
    uint32_t *transition; /* (kind) */
    uint32_t *in_flight;  /* (stage) */
    int64_t *seconds_ps, *enter_ps, *state_bytes, *forward_bytes, *backward_bytes; /* (kind, strategy) */
    int64_t *tied_ps;                                                              /* (strategy) */
    int64_t *change_ps;                                                            /* (transition, from, to) */
    /* Strategies whose rows and columns are equal in every transition share a class: a layered path needs to know the
     * class alone. */
    uint32_t class_count;
    uint32_t *class_of;       /* (strategy) */
    int64_t *class_change_ps; /* (transition, from, to) */
} gal_instance;

/* The caller frees it. GAL_ERR_SYSTEM without memory. */
gal_code gal_instance_create(const gal_problem *problem, gal_instance **out, gal_error *err);
void gal_instance_free(gal_instance *instance);

/* What a strategy adds to a layer for being first or last of stage `stage` (schemas/problem.h). */
int64_t gal_instance_edge_ps(const gal_instance *instance, uint32_t stage, uint32_t kind, uint32_t strategy,
                             bool is_first, bool is_last);

/* One stage: layers [first, end) under strategy[layer] (by layer of the model). */
typedef struct gal_stage_cost {
    int64_t seconds_ps;
    int64_t peak_bytes;  /* Eq. 2 */
    uint32_t peak_layer; /* whose backward is the peak */
} gal_stage_cost;
gal_stage_cost gal_instance_stage_cost(const gal_instance *instance, uint32_t stage, uint32_t first, uint32_t end,
                                       const uint32_t *strategy);

/* An answer: strategy (layer), first layer of each stage and, last, layer_count. */
typedef struct gal_assignment {
    uint32_t *strategy;
    uint32_t *stage_first;
    int64_t value_ps; /* Eq. 5; GAL_NEVER: none, or over the budget */
} gal_assignment;

gal_code gal_assignment_create(const gal_instance *instance, gal_assignment *out, gal_error *err);
void gal_assignment_free(gal_assignment *assignment);
void gal_assignment_copy(const gal_instance *instance, gal_assignment *to, const gal_assignment *from);
/* Sets value_ps. */
void gal_assignment_price(const gal_instance *instance, gal_assignment *assignment);

#endif
