/* How much an open stage of a path can still grow: at most, where even that fits its bytes decide nothing; at least,
 * for what is sure to count. */
#ifndef GAL_PLANNER_BOUND_ROOM_H
#define GAL_PLANNER_BOUND_ROOM_H

#include "planner/bound/dual.h"

/* What a stage still takes behind a node, closing included. */
typedef struct gal_least_rest {
    double round, tail, update; /* seconds */
} gal_least_rest;

typedef struct gal_room {
    const gal_cell *cell;
    int64_t *bytes;           /* [block][stage] the most that what is not shared can still add behind the block */
    gal_shared_bytes *shared; /* [block][stage] the most of each behind the block */
    gal_least_rest *least;    /* gal_dual_node: each the least of its kind */
} gal_room;

/* Over the paths that the dual allows and whose bound is below best_seconds. GAL_ERR_SYSTEM without memory. */
gal_code gal_room_create(gal_dual *dual, double best_seconds, gal_room *out, gal_error *err);
void gal_room_free(gal_room *room);

/* Whether the stage open at `block` fits whatever follows. */
bool gal_room_is_ample(const gal_room *room, uint32_t block, uint32_t stage, const gal_path *path);

/* Two paths that end at the same node: by how much, after any equal completion, a is slower than b at most; by how much
 * the stage then open is larger. */
double gal_room_slower_by(const gal_room *room, size_t node, uint32_t stage, const gal_path *a, const gal_path *b);
int64_t gal_room_larger_by(const gal_room *room, uint32_t block, uint32_t stage, const gal_path *a, const gal_path *b);

#endif
