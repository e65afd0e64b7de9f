/* Labels of partial paths through one stage, for planner/solve/stage_solve.c and stage_halves.c alone: a label is the
 * head of a path by what its tail can feel of it. Appending a layer keeps the order by (seconds, kept, peak) in each
 * component, so of two heads with the same end the one that is nowhere better is dropped. The same holds of tails. */
#ifndef GAL_PLANNER_SOLVE_STAGE_LABELS_H
#define GAL_PLANNER_SOLVE_STAGE_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "planner/solve/stage_bound.h"

typedef struct gal_head {
    int64_t seconds_ps;
    int64_t kept_bytes; /* of its layers, once their forwards ran */
    int64_t peak_bytes; /* most so far, with what its layers hold all the time */
    int64_t row_bytes;  /* in the relaxed row (planner/solve/stage_bound.h) */
    int64_t least_ps;   /* tails: of this one and those of its cell before it */
    uint32_t parent;    /* in the pool */
    uint32_t strategy;  /* of its last layer */
} gal_head;

typedef struct gal_heads {
    gal_head *head;
    size_t count, capacity;
} gal_heads;

/* False without memory. */
bool gal_heads_push(gal_heads *heads, gal_head head);

/* Candidates for one end: rows of heads, each in order of (kept, seconds, peak): all that follow gal_head_rows_begin.
 */
typedef struct gal_head_rows {
    gal_heads heads, spare;
    size_t *row; /* where each begins */
    size_t row_count, row_capacity;
} gal_head_rows;

void gal_head_rows_clear(gal_head_rows *rows);
bool gal_head_rows_begin(gal_head_rows *rows);
/* Adds to the last row, or begins one with what would be out of order. False without memory. */
bool gal_head_rows_add(gal_head_rows *rows, gal_head head);
/* Moves those that no other replaces to the end of `to`; false without memory. */
bool gal_head_rows_keep_best(gal_head_rows *rows, gal_heads *to);
void gal_head_rows_free(gal_head_rows *rows);

/* What layers behind the one at hand need at least, by layer - first. */
typedef struct gal_stage_floors {
    int64_t *held_bytes; /* sum of their least held bytes */
    int64_t *own_bytes;  /* least peak of their own, without held bytes */
} gal_stage_floors;

/* False without memory, *out to be freed all the same. */
bool gal_stage_floors_create(const gal_stage *stage, gal_stage_floors *out);
void gal_stage_floors_free(gal_stage_floors *floors);

/* The head with one layer more, i behind the first: all but row_bytes and the parent. Its peak is raised to the least
 * that any tail leads to, so that heads that differ only where every tail passes them are one. */
gal_head gal_head_extend(const gal_head *head, const gal_choice *choice, const gal_stage_floors *floors, size_t i);

#endif
