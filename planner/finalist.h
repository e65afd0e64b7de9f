/* The winner of a cell, as a plan, with what simulation says of it. */
#ifndef GAL_PLANNER_FINALIST_H
#define GAL_PLANNER_FINALIST_H

#include "planner/cell_search.h"

typedef struct gal_finalist {
    uint32_t global_batch_samples, microbatch_count, pp_degree;
    gal_plan plan; /* owned; with predicted bytes and seconds */
    double objective_seconds, simulated_seconds;
    double bound_seconds; /* no chain of the cell is faster; where plans are uniform: no such plan */
    uint64_t peak_bytes;  /* of its largest stage, fixed bytes included */
} gal_finalist;

/* The cell's numbers; its plan is without stages. The caller frees the plan. */
void gal_finalist_begin(const gal_cell_spec *spec, const char *profile_hash, gal_finalist *out);
/* Its stages, from the answer's path. GAL_ERR_SYSTEM without memory. */
gal_code gal_finalist_take_path(gal_finalist *finalist, const gal_cell_answer *answer, const gal_screened *screened,
                                gal_error *err);
/* Lowers and simulates: fills the predictions. GAL_ERR_SYSTEM without memory; GAL_ERR_DOCUMENT if it cannot be lowered.
 */
gal_code gal_finalist_predict(gal_finalist *finalist, const gal_durations *durations, gal_error *err);

#endif
