/* All ranks of a run, for control between steps. One rank needs no communicator: then every call is done at once. All
 * are collective, and have the deadline and the errors of the helpers in comm.h. */
#ifndef GAL_RUNTIME_TRAIN_WORLD_H
#define GAL_RUNTIME_TRAIN_WORLD_H

#include "runtime/comm/comm.h"

typedef struct gal_world {
    gal_comm *comm;          /* NULL: one rank */
    double deadline_seconds; /* of each call */
} gal_world;

uint32_t gal_world_rank(const gal_world *world);
uint32_t gal_world_size(const gal_world *world);

/* The worst code of all ranks, on all ranks, and the text of the lowest rank that failed. */
gal_code gal_world_agree(const gal_world *world, gal_code mine, gal_error *err);
/* values[count] become the largest of all ranks, on all ranks. */
gal_code gal_world_maximum(const gal_world *world, double *values, uint32_t count, gal_error *err);
/* GAL_ERR_USAGE on all ranks unless mine (a NUL-terminated text, of what all must have in common) is the same on all;
 * the message names the lowest rank that differs from rank 0: "rank 2: this rank runs B, rank 0 runs A". */
gal_code gal_world_same(const gal_world *world, const char *mine, gal_error *err);
/* bytes[byte_count] become rank 0's on all ranks. */
gal_code gal_world_share(const gal_world *world, void *bytes, uint64_t byte_count, gal_error *err);
/* all[world size][byte_count] on rank 0, NULL elsewhere. */
gal_code gal_world_gather(const gal_world *world, const void *mine, uint64_t byte_count, void *all, gal_error *err);

#endif
