/* The exact search of a cell: labels along the chain, pruned by the dual's bound and by dominance.
 *
 * A label is a path up to a block. It is dropped when its weighted seconds plus the dual's to_go reach the best known
 * path (also under other weights, planner/bound/outlook.h), when its open stage cannot fit, or when another label at
 * the same node is, for every way on, no slower and no larger: the objective is made of sums and maxima, so the
 * difference of two completions is at most the sum of the differences that can survive them. When no label is dropped
 * for lack of room the best path found is optimal, but for a relative 1e-12 that rounding may take. */
#ifndef GAL_PLANNER_STAGES_LABELS_H
#define GAL_PLANNER_STAGES_LABELS_H

#include "planner/bound/dual.h"

typedef struct gal_label_result {
    uint64_t label_count; /* kept over all blocks */
    double bound;         /* no path of the dual is faster than the smaller of this and the best one */
} gal_label_result;

typedef struct gal_label_settings {
    double reach_seconds; /* only paths faster than this are looked for */
    uint32_t label_limit; /* at one block */
    uint64_t work_limit;  /* of dual->work: stops there */
    bool stop_at_limit;   /* do not go on with the most promising ones */
    bool any_path;        /* whether one fits at all: of paths to a node, those that leave most room; the dual weighs
                             bytes alone, its weights sum up to 1 */
    bool keep_dominated;  /* bounds and bytes alone drop labels: slow, to check the rest */
} gal_label_settings;

/* Improves best to the optimum among the paths that the dual allows (solved; left as it was), whose tables must be
 * alike if they are tied. GAL_ERR_SYSTEM without memory. */
gal_code gal_label_search(gal_dual *dual, const gal_label_settings *settings, gal_best_path *best,
                          gal_label_result *out, gal_error *err);

#endif
