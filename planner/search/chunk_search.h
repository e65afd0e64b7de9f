/* Chunks of weights, whose size is chosen when the blocks of a stage are known.
 *
 * A chunk is of several blocks, and how long its messages are depends on all of them: no sum over blocks says what it
 * takes. So the search has it twice. First it is asked as if every chunk were of GAL_CHUNK_ELEMENTS_MOST elements and
 * cost its blocks no more than their share of such a message, and no bytes beyond their own (costmodel/lone.c): of a
 * chunk of any size the search admits that is a bound, as a message costs less per byte the longer it is. Its finalists
 * then, and those of a search without chunks with all that may be chunks made some, get a size each run: that of least
 * waste (planner/space/chunk_size.h) whose messages, as the durations say, reach a share of the link's rate, of a few
 * shares, and are of a block at least. These plans are lowered, priced and simulated as they are; those that take more
 * than there is of any memory are dropped. The fastest of all plans is returned, one without chunks among them: where
 * matrices are better, the price says so. The bound is that of the first search. */
#ifndef GAL_PLANNER_SEARCH_CHUNK_SEARCH_H
#define GAL_PLANNER_SEARCH_CHUNK_SEARCH_H

#include "planner/cell/search_request.h"

/* As gal_host_limited_search, which it is without chunks in the space. GAL_ERR_USAGE: with a schedule whose plans have
 * one strategy for all blocks (planner/cell/uniform.h). */
gal_code gal_chunk_search(const gal_search_request *request, gal_search_result *out, gal_error *err);

/* Elements of the smallest message on the way whose rate is at least so large a share of that of
 * GAL_CHUNK_ELEMENTS_MOST, to a sixteenth of it. op: of a chunk, over a group of these level counts. */
uint64_t gal_chunk_message_elements(const gal_durations *durations, gal_op op, gal_dtype dtype,
                                    const uint32_t level_counts[GAL_LINK_LEVELS_MAX], double share);

/* Sizes for all runs of chunks in a plan, for this share. A run that no size fits becomes one of matrices. */
gal_code gal_chunk_settle(const gal_durations *durations, double share, gal_plan *plan, gal_error *err);

#endif
