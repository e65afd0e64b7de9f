/* All strategies over D devices, for the profiler: it may not see the planner's space and needs no choice from it. */
#ifndef GAL_PROFILER_STRATEGIES_H
#define GAL_PROFILER_STRATEGIES_H

#include "schemas/plan.h"

enum { GAL_STRATEGIES_MAX = 1024 };

/* Axes in every order, each at most once, with every ZeRO stage, with and without sequence parallelism and recompute;
 * legal for a model or not. Writes at most GAL_STRATEGIES_MAX, returns how many. */
uint32_t gal_strategies_list(uint32_t device_count, gal_strategy *out);

#endif
