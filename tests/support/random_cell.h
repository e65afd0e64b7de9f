/* Random cells of the search whose paths can all be tried, for differential tests. Same seed, same cell. */
#ifndef GAL_TESTS_SUPPORT_RANDOM_CELL_H
#define GAL_TESTS_SUPPORT_RANDOM_CELL_H

#include "planner/cell/cell.h"

typedef struct gal_random_cell {
    gal_model model;
    gal_cluster cluster;
    gal_space space;
    gal_durations *durations;
    gal_price_cache *cache;
    gal_cell *cell;
    gal_block_price *price; /* random ones, in place of the cache's */
    gal_block_memory *memory;
    gal_pair_price *pair;
} gal_random_cell;

/* 1 to 3 stages of 1 to 4 devices; decoders of 1 or 2 layers, every third an encoder-decoder of 1 and 1; of every other
 * cell the prices are random. False: no strategy is legal, or there are more paths than can be tried. Ends the test
 * where anything fails. The caller frees it either way. */
bool gal_random_cell_create(uint64_t seed, gal_random_cell *out);
void gal_random_cell_free(gal_random_cell *cell);

#endif
