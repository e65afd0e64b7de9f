/* From a path of a cell to a plan with predictions. */
#ifndef GAL_PLANNER_CELL_FINALIST_H
#define GAL_PLANNER_CELL_FINALIST_H

#include "planner/cell/search_request.h"

/* All of a finalist but its strategies and what is predicted of them. */
void gal_finalist_begin(const gal_search_request *request, const gal_cell_spec *spec, gal_finalist *finalist);
/* Begins one at the end of the result; NULL without memory. Pointers to those before it are void. */
gal_finalist *gal_finalist_add(const gal_search_request *request, const gal_cell_spec *spec, gal_search_result *result);
/* Takes the last one away. */
void gal_finalist_drop(gal_search_result *result);

/* The path stage[block], numbered[strategy[block]] as the stages and runs of a plan. GAL_ERR_SYSTEM without memory. */
gal_code gal_finalist_write_path(const gal_strategy *numbered, const uint32_t *stage, const uint32_t *strategy,
                                 gal_plan *plan, gal_error *err);

/* Lowers and simulates; fills the predictions of the plan and of the finalist. GAL_ERR_DOCUMENT if it cannot be
 * lowered. */
gal_code gal_finalist_predict(const gal_search_request *request, gal_finalist *finalist, gal_error *err);

/* Its 90 % interval, in its plan too; durations: as predicted. As gal_plan_interval. */
gal_code gal_finalist_interval(const gal_durations *durations, gal_finalist *finalist, gal_error *err);
/* Of the first `count`, or of as many as there are. */
gal_code gal_finalists_interval(const gal_durations *durations, gal_search_result *result, uint32_t count,
                                gal_error *err);

/* Objective, of one sample. */
double gal_finalist_per_sample(const gal_finalist *finalist);

/* The same of the last of the `wanted` best, 0: as 1; infinity: fewer are known. */
double gal_finalists_wanted(const gal_search_result *result, uint32_t wanted);

/* For qsort, of finalists: by simulation and by objective; of equals in the order of their cells' numbers. */
int gal_finalist_faster_first(const void *x, const void *y);
int gal_finalist_less_objective_first(const void *x, const void *y);

#endif
