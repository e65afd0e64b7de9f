/* One cell solved: branch and bound over boxes (planner/bound/boxes.h), the one of the least bound first. A box is
 * closed by its dual's bound, or by labels; few are tried first, for a box that few cannot finish is better split. With
 * tied tables the first boxes are the classes of embeddings that are alike. */
#ifndef GAL_PLANNER_STAGES_CELL_SOLVE_H
#define GAL_PLANNER_STAGES_CELL_SOLVE_H

#include "planner/stages/labels.h"

typedef struct gal_cell_answer {
    double seconds; /* infinity: no path was found that fits and is faster than give_up_seconds */
    double bound;   /* no path that fits is faster; equal to seconds, or not below give_up_seconds: proven */
    uint32_t *stage, *strategy; /* [block] the caller's arrays */
    uint64_t least_bytes;       /* of its largest stage, the smallest path met, fitting or not; 0: no path at all */
    uint64_t label_count;
    uint64_t work;       /* taken, as work_limit counts it */
    gal_weights weights; /* of the dual over all paths */
} gal_cell_answer;

/* GAL_WORK_PER_LABEL: what a cell may take, in gal_dual.work per label of the limit. */
enum { GAL_FEW_LABELS = 100, GAL_WORK_PER_LABEL = 5000 };

typedef struct gal_solve_settings {
    uint32_t label_limit; /* at one block */
    uint64_t work_limit; /* in gal_dual.work, of the cell: no box is begun behind it; 0: in proportion to label_limit */
    uint32_t few_labels; /* likewise, before a box is split */
    bool starts;         /* the answer comes with a path to start from */
    double give_up_seconds;                                          /* only paths faster than this are looked for */
    void (*tell)(void *context, uint64_t work, uint64_t work_limit); /* how far it is, every few ms; or NULL */
    void *tell_context;
} gal_solve_settings;

/* GAL_ERR_SYSTEM without memory. */
gal_code gal_cell_solve(const gal_cell *cell, const gal_solve_settings *settings, gal_cell_answer *best,
                        gal_error *err);

#endif
