/* How much an open stage of a path can still grow: where even the most fits, its bytes decide nothing. */
#ifndef GAL_PLANNER_ROOM_H
#define GAL_PLANNER_ROOM_H

#include "planner/dual.h"

typedef struct gal_room {
    const gal_cell *cell;
    int64_t *bytes;           /* [block][stage] the most that what is not shared can still add behind the block */
    gal_shared_bytes *shared; /* [block][stage] the most of each behind the block */
} gal_room;

/* Over the paths that the dual allows and whose bound is below best_seconds. GAL_ERR_SYSTEM without memory. */
gal_code gal_room_create(const gal_dual *dual, double best_seconds, gal_room *out, gal_error *err);
void gal_room_free(gal_room *room);

/* Whether the stage open at `block` fits whatever follows. */
bool gal_room_is_ample(const gal_room *room, uint32_t block, uint32_t stage, const gal_path *path);

#endif
