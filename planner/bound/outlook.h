/* Bounds of unfinished paths, from what they have become so far.
 *
 * Once stages are closed, weights that were best for all paths are not best for this one: a path whose first stage is
 * slow is bounded by that stage, one whose first stage is short by the stages left. An outlook keeps several weights
 * (planner/bound/dual.h): the dual's own, all weight of max g on one stage, and the dual's spread over the last stages;
 * each with its table of least weighted seconds to the end. What is closed counts by its true maxima with the weight
 * that the open stages leave, so no weight is lost. The largest of the bounds holds. */
#ifndef GAL_PLANNER_BOUND_OUTLOOK_H
#define GAL_PLANNER_BOUND_OUTLOOK_H

#include "planner/bound/bottleneck.h"

typedef struct gal_view gal_view;

typedef struct gal_outlook {
    const gal_cell *cell;
    const gal_dual *dual;
    uint32_t view_count;
    gal_view *view;
} gal_outlook;

/* Uses the dual to fill its tables and leaves it as it was. GAL_ERR_SYSTEM without memory. */
gal_code gal_outlook_create(gal_dual *dual, gal_outlook *out, gal_error *err);
void gal_outlook_free(gal_outlook *outlook);

/* Whether every completion of the path that ends at the node takes at least `seconds`. */
bool gal_outlook_reaches(const gal_outlook *outlook, uint32_t block, uint32_t stage, uint32_t strategy,
                         const gal_path *path, double seconds);

#endif
