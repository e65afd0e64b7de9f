/* The 90 % interval that a prediction of a plan carries.
 *
 * Seconds: the step is simulated with all durations at their quantiles 0.05 and 0.95 (gal_durations_set_quantile);
 * where nothing was measured all stray by one factor, and so does the step. Bytes: an arena's are exact; what lies
 * beside it (fixed bytes) strays as what was measured (GAL_INTERVAL_MEASURED). By a described framework: its constants'
 * factors on seconds, its own spread of bytes. */
#ifndef GAL_COSTMODEL_PREDICTION_H
#define GAL_COSTMODEL_PREDICTION_H

#include "costmodel/duration.h"
#include "schemas/constants.h"

/* low <= what is predicted <= high; bytes of the fullest device. */
typedef struct gal_prediction {
    double low_seconds, high_seconds;
    double low_bytes, high_bytes;
} gal_prediction;

/* Of programs whose step takes simulated_seconds by `durations`, which are as predicted. fixed_bytes: those that each
 * device has besides. As gal_simulate. */
gal_code gal_programs_interval(gal_program *const *program, uint32_t stage_count, const gal_durations *durations,
                               double simulated_seconds, uint64_t fixed_bytes, gal_prediction *out, gal_error *err);

/* Of a plan's simulated_seconds and of its stages' predicted bytes. Lowers it where anything was measured. */
gal_code gal_plan_interval(const gal_plan *plan, const gal_durations *durations, gal_prediction *out, gal_error *err);

/* Of seconds and bytes by the framework that the plan is priced by (gal_pricing; its objective_seconds). */
void gal_pricing_interval(const gal_plan *plan, gal_prediction *out);

#endif
