/* The lower convex hull of kinds over bytes, and layers shared out over its points within a limit of bytes.
 *
 * A kind takes seconds and bytes a layer. Of n layers of one type, of which each has its kind, the least seconds within
 * a limit of bytes are, as a linear program, on the hull: all layers on one point, or on two neighbours. Several types
 * under one limit share the Lagrange multiplier: it is the slope, seconds over bytes, of the step of a hull that is the
 * next to pay. Whole layers cost at most one step of one layer more. */
#ifndef GAL_PLANNER_HULL_HULL_H
#define GAL_PLANNER_HULL_HULL_H

#include <stdbool.h>
#include <stdint.h>

typedef struct gal_hull_point {
    double seconds; /* of a layer, finite and >= 0 */
    int64_t bytes;  /* of a layer; may be below 0 */
    uint32_t id;    /* the caller's */
} gal_hull_point;

/* Leaves of the points those on the lower hull, from the least bytes to the least seconds, in point[0 ..]: bytes rise,
 * seconds fall, and what a byte gains falls. Of equal points the one with the least id. Returns how many. */
uint32_t gal_hull_keep(gal_hull_point *point, uint32_t count);

/* Layers of one type: layer_count of them, each on a point of a hull of at least one point. */
typedef struct gal_hull_part {
    uint32_t layer_count, point_count;
    const gal_hull_point *point;
} gal_hull_part;

/* high_layers of them are on point `low` + 1, the rest on point `low`. */
typedef struct gal_hull_mix {
    uint32_t low;
    double high_layers; /* 0 on the last point; else below layer_count */
} gal_hull_mix;

typedef struct gal_hull_fill {
    double seconds;          /* the sum over all layers; infinite: they do not fit even on their first points */
    double seconds_per_byte; /* the Lagrange multiplier of the limit, >= 0; 0: the limit does not bind */
} gal_hull_fill;

/* The least seconds of all parts together within the limit, layers divisible: a lower bound of what whole ones take.
 * mix[part_count]; of several parts one at most has both of its points. */
gal_hull_fill gal_hull_share(const gal_hull_part *part, uint32_t part_count, int64_t limit_bytes, gal_hull_mix *mix);

#endif
