/* Sequences of equal and of repeating things, folded. */
#ifndef GAL_PLANNER_ANSWERS_FOLD_H
#define GAL_PLANNER_ANSWERS_FOLD_H

#include <stdint.h>

#include "schemas/base/status.h"

/* Patterns are no longer than this. */
enum { GAL_FOLD_PERIOD_MAX = 16 };

/* The things first .. first + period - 1, turns times over; a run of equal ones has a period of 1. */
typedef struct gal_fold {
    uint32_t first, period, turns;
} gal_fold;

/* Cuts kind[count] into folds with the fewest runs of equal kinds in all their periods: the rows that a table of them
 * takes. Of equally short cuts, from the front on, the one with the shorter period, then with more turns.
 * folds      [count]
 * Returns how many folds there are; 0 without memory. count >= 1. */
uint32_t gal_fold_kinds(const uint32_t *kind, uint32_t count, gal_fold *folds);

#endif
