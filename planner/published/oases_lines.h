/* Figure 3 of Oases: time lines of the backward of one attention and FFN under each schedule. */
#ifndef GAL_PLANNER_PUBLISHED_OASES_LINES_H
#define GAL_PLANNER_PUBLISHED_OASES_LINES_H

#include "planner/published/oases_case.h"
#include "planner/published/oases_fit.h"

enum { GAL_OASES_SCHEDULES = GAL_OASES_PLANNER /* the methods in front of it */, GAL_OASES_LINES = 3 };
enum { GAL_OASES_COLUMNS = 100 };

extern const char *const gal_oases_line_names[GAL_OASES_LINES]; /* recompute, backward, all-reduce */

/* text: a character for each span of time, the sub-batch (0 or 1; - of whole microbatches) that was at work in most of
 * it, or a blank. */
typedef struct gal_oases_line {
    double seconds; /* from the first of these instructions to the end of the last */
    char text[GAL_OASES_LINES][GAL_OASES_COLUMNS + 1];
} gal_oases_line;

/* A layer of hidden 2048 under TP of 4 on the cluster "3090", a microbatch of 16 samples: as simulated, all schedules
 * on one scale. GAL_ERR_SYSTEM without memory. */
gal_code gal_oases_lines(const gal_oases_fit *fit, gal_oases_line out[GAL_OASES_SCHEDULES], gal_error *err);

#endif
