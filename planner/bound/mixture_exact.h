/* The least seconds of a stage's blocks under its limit of bytes exactly, conversions left out: blocks are whole.
 *
 * Blocks that choose from one menu are alike, so what they take together is a list of (seconds, bytes) in which nothing
 * beats anything else; lists of twice as many blocks are sums of two. A price per byte and a cutoff keep them short:
 * what lies further above the relaxation than the cutoff cannot be part of anything below it. */
#ifndef GAL_PLANNER_BOUND_MIXTURE_EXACT_H
#define GAL_PLANNER_BOUND_MIXTURE_EXACT_H

#include "planner/bound/mixture.h"

/* For block_of types [begin, end) of the stage's chain, two blocks at least. *least: no choice takes less; exact if it
 * is below the cutoff and the lists did not grow too long. GAL_ERR_SYSTEM without memory. */
gal_code gal_mix_exact(const gal_mix_stage *stage, uint32_t begin, uint32_t end, double cutoff_seconds, double *least,
                       gal_error *err);

#endif
