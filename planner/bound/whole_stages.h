/* A bound of a cell from whole blocks on whole stages: conversions left out, borders where they may be.
 *
 * For stage p and the blocks [a, b) tables bound what the stage takes (planner/bound/mixture.h): its round, what it
 * adds to the sum over stages, and both at once, added + share * round. The objective (costmodel/objective.h) is at
 * least slowest_rounds * max round_p + sum added_p over all cuts of the chain. Cuts are bounded by the slowest stage in
 * turn: between two values of it, the lower one and the least sum of stages none of which is above the upper one. What
 * is quick need not add little: where no round is above `most`, a stage adds at least both - share * most. And the
 * slowest is no faster than the mean, so with share = slowest_rounds / stages the sum of both bounds the objective too.
 */
#ifndef GAL_PLANNER_BOUND_WHOLE_STAGES_H
#define GAL_PLANNER_BOUND_WHOLE_STAGES_H

#include "planner/bound/mixture.h"
#include "planner/space/chain_kinds.h"

/* What is known better of one stage and the blocks [begin, end), and of chains like it. */
typedef struct gal_tight_stage {
    uint32_t stage, begin, end;
    double round_seconds, added_seconds; /* at least */
} gal_tight_stage;

/* What is asked of a stage's bounds; the floor: gal_mix_floor of its round. */
typedef enum gal_whole_stages_row {
    GAL_WHOLE_ROUND,
    GAL_WHOLE_ADDED,
    GAL_WHOLE_BOTH,
    GAL_WHOLE_FLOOR,
    GAL_WHOLE_ROWS
} gal_whole_stages_row;

typedef struct gal_whole_stages {
    const gal_block_types *types;
    const gal_chain_kinds *chains; /* of types */
    uint32_t stage_count;
    double slowest_rounds;      /* how often the slowest round counts beside the sum */
    const gal_mix_bound *round; /* [stage] */
    const gal_mix_bound *added; /* [stage] */
    const gal_mix_bound *both;  /* [stage]; not read where slowest_rounds is 0 */
    const gal_tight_stage *tight;
    uint32_t tight_count;
    double *known; /* [gal_whole_stages_row][stage][kind of chain]: what was said, for later calls with these bounds and
                    * all that is tight now; 0: not asked yet. NULL: nothing is kept */
} gal_whole_stages;

#define GAL_NO_CUT UINT32_MAX

/* No cut takes less; infinity: none fits. first[stage_count]: the blocks at which the stages of a good cut begin;
 * first[0] GAL_NO_CUT: none was found. Once the bound is above enough_seconds it need not be the best. GAL_ERR_SYSTEM
 * without memory. */
gal_code gal_whole_stages_bound(const gal_whole_stages *stages, double enough_seconds, double *bound, uint32_t *first,
                                gal_error *err);

#endif
