/* Every path of a cell: its seconds and bytes, by sums that are written out once more here, block by block. For tests.
 */
#ifndef GAL_TESTS_SUPPORT_EVERY_PATH_H
#define GAL_TESTS_SUPPORT_EVERY_PATH_H

#include "planner/cell/cell.h"

enum { GAL_EVERY_PATH_BLOCKS_MAX = 8 };

typedef struct gal_every_path {
    const gal_cell *cell;
    uint32_t stage[GAL_EVERY_PATH_BLOCKS_MAX], strategy[GAL_EVERY_PATH_BLOCKS_MAX];
    double best;
    uint64_t least_bytes; /* of the largest stage */
    uint64_t *most_bytes; /* [path] of the largest stage; in the host's memory, parts on their way from storage at
                           * their most; on storage */
    uint64_t *host_bytes, *stored_bytes;
    double *seconds, *slowest; /* [path] of all; of a microbatch in its slowest stage */
    size_t path_count, capacity;
} gal_every_path;

/* All that the cell's strategies allow, whatever they take. Ends the test without memory. */
void gal_every_path_list(const gal_cell *cell, gal_every_path *out);
void gal_every_path_free(gal_every_path *all);

/* The least seconds of those whose largest stage is within the limit; infinity: none is. */
double gal_every_path_best(const gal_every_path *all, uint64_t limit_bytes);
/* Likewise within limits of the host's memory and of storage too. */
double gal_every_path_best_within(const gal_every_path *all, uint64_t limit_bytes, uint64_t host_bytes,
                                  uint64_t stored_bytes);

#endif
