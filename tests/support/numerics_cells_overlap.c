/* Schedules that overlap collectives with kernels (Oases). */
#include "tests/support/numerics_cells.h"

#define CELLS(X)                                                                                                       \
    X(OVERLAP_INTRA_OP, "products and their sums in halves")                                                           \
    X(OVERLAP_KEPT, "two sub-batches, all kept")                                                                       \
    X(OVERLAP_IN_PASS, "two sub-batches, in-pass, recompute")                                                          \
    X(OVERLAP_CROSS_PASS, "two sub-batches, cross-pass")                                                               \
    X(OVERLAP_FINE, "two sub-batches, fine")                                                                           \
    X(OVERLAP_SP, "two sub-batches, tp+sp")

GAL_CELLS(CELLS);

static void hit_overlap(const gal_plan *plan, bool *hit)
{
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const gal_strategy *s = &plan->run[r].strategy;
        const bool redo = s->recompute == GAL_RECOMPUTE_FULL;
        hit[OVERLAP_INTRA_OP] |= s->overlap == GAL_OVERLAP_INTRA_OP;
        hit[OVERLAP_KEPT] |= s->overlap == GAL_OVERLAP_IN_PASS && !redo;
        hit[OVERLAP_IN_PASS] |= s->overlap == GAL_OVERLAP_IN_PASS && redo;
        hit[OVERLAP_CROSS_PASS] |= s->overlap == GAL_OVERLAP_CROSS_PASS;
        hit[OVERLAP_FINE] |= s->overlap == GAL_OVERLAP_FINE;
        hit[OVERLAP_SP] |= s->overlap >= GAL_OVERLAP_IN_PASS && s->sequence_parallel;
    }
}

const gal_coverage_cells gal_cells_of_overlap = {CELL_COUNT, names, hit_overlap};
