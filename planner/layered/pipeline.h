/* Seconds of a step on a pipeline: the recursion over the calls of all stages, each with its stage's own seconds.
 *
 * A forward starts when its stage is free and the stage before has sent; a backward when its stage is free and the
 * stage behind has sent. The update starts when all stages are done, as the norm of the gradients is of all. */
#ifndef GAL_PLANNER_LAYERED_PIPELINE_H
#define GAL_PLANNER_LAYERED_PIPELINE_H

#include "schemas/base/status.h"
#include "schemas/plan.h"

typedef struct gal_pipeline_stage {
    double forward_seconds, backward_seconds; /* of one microbatch */
    double last_seconds;                      /* of the last backward, beside which gradients are reduced */
    double sync_seconds;                      /* what reductions take beyond that */
    double update_seconds;
    double transfer_seconds; /* to the next stage, one way */
} gal_pipeline_stage;

/* schedule: gpipe or 1f1b. GAL_ERR_SYSTEM without memory. */
gal_code gal_pipeline_seconds(const gal_pipeline_stage *stage, uint32_t stage_count, uint32_t microbatch_count,
                              gal_schedule schedule, double *seconds, gal_error *err);

#endif
