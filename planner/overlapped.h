/* Plans whose tensor parallel blocks overlap (schemas/plan.h, gal_overlap), beside what a search has found.
 *
 * What such a block takes and needs depends on its neighbours, which run beside it, so the exact search, which adds up
 * what blocks take each for itself and their pairs, is not asked for them. Tried are instead, of every cell, the best
 * uniform plan of overlapped strategies by the objective (planner/uniform.h), whose prices are those of chains lowered
 * with their neighbours; and the plan that the search has found with overlap in every run of blocks that can have it,
 * then without it in one run after the other. Simulation decides among them, and between them and the search's plan;
 * bytes are those of the programs.
 *
 * Full recompute overlaps as fine, the others as in_pass: in_pass and cross_pass with full recompute do what fine does
 * and more. */
#ifndef GAL_PLANNER_OVERLAPPED_H
#define GAL_PLANNER_OVERLAPPED_H

#include "planner/joint_search.h"

/* The fastest one, if there is one that simulates faster than the best finalist per sample, or any that fits where
 * there is none, becomes the first finalist. Nothing is proved of it: bound_seconds, the result's lower bound and the
 * plan's are 0 then, and the plan has no certificate. request->space.overlap is on. GAL_ERR_SYSTEM without memory. */
gal_code gal_overlapped_search(const gal_search_request *request, gal_search_result *result, gal_error *err);

#endif
