/* Labels of partial paths through one stage, for planner/solve/stage_solve.c alone: a label is the head of a path by
 * what its tail can feel of it. Appending a layer keeps the order by (seconds, kept, peak) in each component, so of two
 * heads with the same end the one that is nowhere better is dropped. */
#ifndef GAL_PLANNER_SOLVE_STAGE_LABELS_H
#define GAL_PLANNER_SOLVE_STAGE_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gal_head {
    int64_t seconds_ps;
    int64_t kept_bytes; /* of its layers, once their forwards ran */
    int64_t peak_bytes; /* most so far, with what its layers hold all the time */
    uint32_t parent;    /* in the pool */
    uint32_t strategy;  /* of its last layer */
} gal_head;

typedef struct gal_heads {
    gal_head *head;
    size_t count, capacity;
} gal_heads;

/* False without memory. */
bool gal_heads_push(gal_heads *heads, gal_head head);

/* Candidates for one end: rows of heads, each in order of (kept, seconds, peak). */
typedef struct gal_head_rows {
    gal_heads heads, spare;
    size_t *row; /* where each begins */
    size_t row_count, row_capacity;
} gal_head_rows;

void gal_head_rows_clear(gal_head_rows *rows);
bool gal_head_rows_begin(gal_head_rows *rows);
/* Moves those that no other replaces to the end of `to`; false without memory. */
bool gal_head_rows_keep_best(gal_head_rows *rows, gal_heads *to);
void gal_head_rows_free(gal_head_rows *rows);

#endif
