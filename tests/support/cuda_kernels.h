/* The host's kernels as a device's, for tests with cuda_double.h: queued on the call's stream, carried out when the
 * stream gets there, with the step that is then in device memory. */
#ifndef GAL_TESTS_SUPPORT_CUDA_KERNELS_H
#define GAL_TESTS_SUPPORT_CUDA_KERNELS_H

#include "runtime/ops/ops.h"

extern const gal_ops gal_ops_queued_fp64;
/* How many pairs have been queued as one kernel, by kind: products and what is done with them, of which the backward
 * one leaves out (and poisons) what the product alone would write, and sums and their norms. */
typedef enum gal_pair_kind { GAL_PAIR_ACTIVATION, GAL_PAIR_DERIVATIVE, GAL_PAIR_NORM, GAL_PAIR_KINDS } gal_pair_kind;
extern uint64_t gal_fused_pairs[GAL_PAIR_KINDS];
/* The same without arithmetic. */
extern const gal_ops gal_ops_queued_idle;
/* Of programs of 16 bits, and what serves their gradients: each has only the kernels that are asked of it. */
extern const gal_ops gal_ops_queued_idle_bf16, gal_ops_queued_idle_fp16, gal_ops_queued_idle_fp32;
/* The step whose record was put last. */
extern gal_kernel_step gal_queued_step;
/* What was opened last. */
extern gal_kernel_choice gal_queued_choice;

#endif
