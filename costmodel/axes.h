/* Where the groups of a strategy's axes lie in the link tree. For costmodel alone.
 *
 * Groups of a block's collectives are of whole axes, or of the rows or columns of a grid; so a set of them, as bits,
 * stands for a group whatever the order of the axes: DP, SDP, TP or a grid's rows, the last but one, and the outputs of
 * a 3d grid. A strategy has at most one of an axis that splits the positions and a grid's columns: these share a bit.
 */
#ifndef GAL_COSTMODEL_AXES_H
#define GAL_COSTMODEL_AXES_H

#include "costmodel/duration.h"

enum { GAL_MESH_AXES = 5, GAL_AXIS_SETS = 1 << GAL_MESH_AXES, GAL_AXIS_SET_TP = 1 << 2 /* of TP alone */ };

/* Members at every link level: gal_group_level_counts. */
typedef struct gal_axis_levels {
    uint32_t counts[GAL_AXIS_SETS][GAL_LINK_LEVELS_MAX];
} gal_axis_levels;

/* Of these sets a strategy's groups are among the first so many. */
uint32_t gal_axis_sets_of(const gal_strategy *strategy);
/* Of a group of whole axes of the mesh. */
uint32_t gal_axis_set_of(const gal_mesh *mesh, gal_group group);
/* Of all sets, on the devices of a stage. */
void gal_axis_levels_of(const gal_cluster *cluster, const gal_strategy *strategy, uint32_t device_count, uint32_t stage,
                        uint32_t stage_count, gal_axis_levels *out);
/* Whether any order of axes is legal, and every atom lies inside the units of a level or between them, on all stages:
 * then a group's members at each level are those of its atoms there (costmodel/levels.c). */
bool gal_axes_are_regular(const gal_cluster *cluster, const gal_atoms *atoms, uint32_t device_count);

#endif
