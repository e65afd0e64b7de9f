/* The search: over batches, microbatch counts and pipeline degrees.
 *
 * Every cell has a bound: by compute alone (planner/bound/screen.h), by prices (planner/bound/screened.h), by whole
 * blocks on whole stages, which finds a path as well (planner/stages/staged.h), by branch and bound
 * (planner/stages/cell_search.h; interleaved and zero bubble: among uniform plans). The cell of the least bound per
 * sample gets its next one first; until a plan is known narrow stages, whose bounds are soon found, before all others
 * that are not far better, and a cell that was begun before others. Of one stage, whose strategies are most, a first
 * plan is looked for among those that some prices show to be likely, and what is then in no faster plan gets no price.
 * Where the space has offload, which gains nothing but bytes, parts of it are searched first (joint_parts.c): without
 * offload on devices of any size, whose bounds are those of all plans; a plan of these that has no room, with as much
 * of it in the host's memory as makes it fit; without offload within memory. Mostly nothing is left then. What branch
 * and bound may take once a plan is known is limited for all cells together. Once no bound is further below the best
 * plan than the gap that is allowed, no cell that is left can win by more; of half the gap where that is soon found: by
 * whole blocks on whole stages. The plan of the least objective per sample is returned, so that more memory never gives
 * less. The objective strays from the simulation a little: if asked, plans within as much of the best one as that
 * strays are simulated too, and of all that are the one that simulates fastest is returned. */
#ifndef GAL_PLANNER_SEARCH_JOINT_SEARCH_H
#define GAL_PLANNER_SEARCH_JOINT_SEARCH_H

#include "planner/cell/search_request.h"

/* GAL_OK also when nothing fits (feasible false). GAL_ERR_SYSTEM without memory; GAL_ERR_DOCUMENT if a winner cannot be
 * lowered. *out is freed by gal_search_result_free. */
gal_code gal_search(const gal_search_request *request, gal_search_result *out, gal_error *err);

#endif
