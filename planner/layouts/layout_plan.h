/* A layout as galrun would carry it out: one strategy for all blocks, layers dealt evenly; lowered and simulated. */
#ifndef GAL_PLANNER_LAYOUTS_LAYOUT_PLAN_H
#define GAL_PLANNER_LAYOUTS_LAYOUT_PLAN_H

#include "costmodel/prediction.h"
#include "planner/layouts/layout_rows.h"

/* The plan, which out owns. GAL_NO with the rule that galrun breaks on; GAL_ERR_SYSTEM without memory. */
gal_code gal_layout_plan(const gal_layout_row *row, gal_plan *out, gal_error *err);

/* As its programs and these durations have it, and the 90 % interval. As gal_layout_plan, gal_lower and gal_simulate.
 */
gal_code gal_layout_simulate(const gal_layout_row *row, const gal_durations *durations, gal_framework_estimate *out,
                             gal_prediction *interval, gal_error *err);

#endif
