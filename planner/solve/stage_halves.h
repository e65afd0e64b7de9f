/* All paths through one stage that take at most a goal, searched from both ends, for planner/solve/stage_solve.c alone.
 *
 * Under a multiplier a path's length is the bound plus what it loses against shortest paths, step by step. A path of at
 * most the goal loses at most their difference D. So it has a first layer by which it has lost more than D / 2: its
 * head up to the layer before lost no more than that, and its tail behind the layer loses less. Heads and tails that
 * lose at most D / 2 are made, one step more of every head, and there both are joined; or the head reaches the end.
 * Labels grow with a power of what they may lose, some fourth of it where strategies are many: half of D is a small
 * part of them. */
#ifndef GAL_PLANNER_SOLVE_STAGE_HALVES_H
#define GAL_PLANNER_SOLVE_STAGE_HALVES_H

#include "planner/solve/stage_labels.h"

typedef enum gal_halves_outcome {
    GAL_HALVES_FOUND,
    GAL_HALVES_NONE,
    GAL_HALVES_LIMIT,
    GAL_HALVES_NO_MEMORY
} gal_halves_outcome;

typedef struct gal_halves {
    const gal_stage *stage;
    const gal_stage_bound *bound;
    gal_stage_floors floors;
    gal_heads heads, tails;
    gal_head_rows rows;
    size_t *head_begin;              /* (layer - first, class): heads that end there; and the end */
    size_t *tail_begin, *tail_count; /* (layer - first, class): tails behind it */
    size_t limit;                    /* of labels in a round */
    uint64_t label_count;            /* of all rounds */
    /* of the round */
    int64_t goal_ps;
    double half, slack; /* picoseconds that heads, and tails, may lose */
    /* the best joined: a head at a layer, and the tail behind it */
    int64_t found_ps;
    gal_head found;
    size_t found_layer, found_tail;
} gal_halves;

/* bound outlives it. False without memory, *out to be freed all the same. */
bool gal_halves_create(const gal_stage *stage, const gal_stage_bound *bound, size_t label_limit, gal_halves *out);
void gal_halves_free(gal_halves *halves);

/* Found: the fastest path that fits, of at most goal_ps; strategy[first .. end) and *seconds_ps are written. */
gal_halves_outcome gal_halves_run(gal_halves *halves, int64_t goal_ps, uint32_t *strategy, int64_t *seconds_ps);

#endif
