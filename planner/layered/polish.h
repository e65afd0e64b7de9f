/* The last touch on a pipeline: cuts moved by single blocks, by the simulator's word.
 *
 * Nodes cut between whole layers. Where stages have few layers, half a layer more or less on some is faster: every move
 * of neighbouring cuts by one block in one direction is looked at, by the pipeline's recursion with the kinds' seconds
 * shared out over their halves. The best one is lowered and simulated, and taken if that is faster and fits. */
#ifndef GAL_PLANNER_LAYERED_POLISH_H
#define GAL_PLANNER_LAYERED_POLISH_H

#include "planner/layered/layered_plan.h"

/* finalist: the plan of the solution, simulated; replaced by a faster one. Errors as gal_solution_plan. */
gal_code gal_polish(const gal_search_request *request, const gal_node *node, const gal_node_limits *limits,
                    const gal_node_solution *solution, gal_finalist *finalist, gal_error *err);

#endif
