/* What the equivalence test can be carried out on, by name: the host's tables (equivalence_host.c), or the GPU's in the
 * program that is linked with tests/gpu/equivalence_cuda.c instead. */
#ifndef GAL_TESTS_NUMERICS_EQUIVALENCE_ON_H
#define GAL_TESTS_NUMERICS_EQUIVALENCE_ON_H

#include "tests/support/numerics_trial.h"

/* fp32 against fp64, u = 2^-24. In the random plans' models no sum has more than 256 terms, so an operator is off by
 * 264 u of its terms' sizes (tests/unit/test_ops_precision.c), and on the way from a token through at most 4 blocks of
 * 6 products and back lie 2 * 4 * 6 of them: 48 * 264 u = 7.6e-4 of the largest entry. Weights: Adam divides a gradient
 * by its own size, so one that is nothing but rounding still moves its weight by the learning rate, in either
 * direction: 2 of them per step. */
#define GAL_EQUIVALENCE_FP32_BOUND (48 * 264 * 0x1p-24)
#define GAL_EQUIVALENCE_FP32_WEIGHT_BOUND 2.0

/* NULL: there is none of that name. Ends the process where there is no such device. */
const gal_trial_on *gal_equivalence_on(const char *name);

#endif
