/* Figure 17 of Colossal-AI (section V-D): GPT-2 of 10 billion parameters by ZeRO-3 on 1 to 8 GPUs of system II, four
 * samples a GPU, samples per second: with the optimizer in the host's memory (mode zero3-host), and with as much of it
 * there as the device's memory asks for, block by block (mode hybrid: section III-B's adaptive hybrid Adam, here an
 * exact search over what is offloaded and recomputed). Both recompute where they must; of the paper's own text the
 * figure's gain is 2.33 on 8 GPUs, which also counts what its baseline's implementation loses. The paper says neither
 * layers nor width (here 50 layers of 4096, 32 heads), precision (here fp16 beside fp32 masters) nor whether the batch
 * of four is a GPU's (taken so). */
#ifndef GAL_PLANNER_PUBLISHED_COLOSSAL_OFFLOAD_H
#define GAL_PLANNER_PUBLISHED_COLOSSAL_OFFLOAD_H

#include "planner/published/colossal.h"

/* As gal_colossal_reproduce, of figure "fig17". */
gal_code gal_colossal_offload(gal_code (*each)(void *context, const gal_colossal_row *row), void *context,
                              gal_error *err);

#endif
