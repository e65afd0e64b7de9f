/* The event simulation of one expanded stage alone, for prices: allocates nothing. For costmodel alone. */
#ifndef GAL_COSTMODEL_ALONE_H
#define GAL_COSTMODEL_ALONE_H

#include "costmodel/expand.h"
#include "costmodel/simulate.h"

enum { GAL_ALONE_CALLS_MAX = 4, GAL_ALONE_BLOCKS_MAX = 4 };

/* Ends on the compute stream; in the last call on all streams. */
typedef struct gal_alone_ends {
    double call_seconds[GAL_ALONE_CALLS_MAX];
    double block_seconds[GAL_ALONE_CALLS_MAX][GAL_ALONE_BLOCKS_MAX];
} gal_alone_ends;

/* The expansion is one with `alone`, of at most so many calls and blocks. Of the input the slowdowns are read. */
void gal_play_alone(const gal_expansion *expansion, const gal_simulation_input *input, gal_alone_ends *ends);

#endif
