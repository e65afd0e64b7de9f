/* What commands share that take plans of Hetu-Galvatron beside ours. */
#ifndef GAL_PLANNER_CLI_GALVATRON_H
#define GAL_PLANNER_CLI_GALVATRON_H

#include <stdbool.h>

#include "schemas/galvatron_plan.h"

/* A galvatron_plan, or a plan said as one. */
gal_code gal_cli_read_any_plan(const char *path, gal_galvatron_plan *out, gal_error *err);

/* simulate --prices galvatron: the price of a plan of either kind by a galvatron_profile. */
gal_code gal_cli_price_galvatron(const char *plan_path, const char *profile_path, bool json, gal_error *err);

#endif
