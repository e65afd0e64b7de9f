/* The CUDA kernels as tables of an engine on the host, carried out on emulated threads (device.h). Products are the
 * host's, of 16 bits in fp32 and rounded: cuBLASLt has no source. So is what the host does beside a device. */
#ifndef GAL_TESTS_SUPPORT_EMULATED_KERNELS_H
#define GAL_TESTS_SUPPORT_EMULATED_KERNELS_H

#include "runtime/ops/ops.h"

extern const gal_ops gal_ops_emulated_fp32;
extern const gal_ops gal_ops_emulated_bf16, gal_ops_emulated_fp16; /* with the one of fp32 as wide_ops */

#endif
