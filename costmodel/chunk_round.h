/* The round of a stage with chunks of weights, from its program. For costmodel alone.
 *
 * Where forward and backward turn, the first chunk of the one waits for the buffer that the last of the other is in: of
 * an odd number of chunks, one most of all, nothing hides that gather. This is no sum over blocks, whose prices are
 * shares of chunks that come at once: stages came out up to 32 % too cheap, steps 19 %. So a stage with chunks takes
 * its blocks' prices, but no less than its program alone. With more, a search's bound holds all the same
 * (planner/search/chunk_search.h). */
#ifndef GAL_COSTMODEL_CHUNK_ROUND_H
#define GAL_COSTMODEL_CHUNK_ROUND_H

#include "costmodel/duration.h"
#include "schemas/plan.h"

/* Whether the stage has chunks and its forward and backward take turns. */
bool gal_chunk_round_counts(const gal_plan *plan, uint32_t stage);
/* Seconds of forward and backward of the second microbatch, transfers at no cost. GAL_ERR_SYSTEM without memory;
 * GAL_ERR_DOCUMENT if a tensor is too large. */
gal_code gal_chunk_round(const gal_durations *durations, const gal_plan *plan, uint32_t stage, double *seconds,
                         gal_error *err);

#endif
