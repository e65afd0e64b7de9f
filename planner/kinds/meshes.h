/* Strategies of D devices in the canonical order of axes, and which of them lay out rows alike.
 *
 * Innermost first: TP, the axis of the positions, SDP, DP. TP then has the fastest links and DP the slowest, which is
 * the order of ranks in other frameworks; another order costs the same or more wherever a level of the links is wider
 * than the one outside it. Strategies whose rows lie alike can follow each other with nothing converted between them:
 * the halves of a layer, and all layers of a stage, are chosen among those. */
#ifndef GAL_PLANNER_KINDS_MESHES_H
#define GAL_PLANNER_KINDS_MESHES_H

#include "planner/space/strategy_space.h"

typedef struct gal_meshes {
    uint32_t strategy_count, rows_count;
    gal_strategy *strategy; /* owned */
    uint32_t *rows_of;      /* [strategy]: below rows_count, equal where rows lie alike; owned */
} gal_meshes;

/* GAL_ERR_SYSTEM without memory. */
gal_code gal_meshes_create(const gal_space *space, uint32_t device_count, gal_meshes *out, gal_error *err);
void gal_meshes_free(gal_meshes *meshes); /* accepts a zeroed one */

#endif
