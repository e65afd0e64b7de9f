/* Seconds and bytes of a step under a described framework (schemas/framework.h), in closed form.
 *
 * Per block and microbatch, with t = TP degree, s = t under sequence parallelism, else 1:
 *   products    each the longer of flops / (peak gemm_fraction) (1 + H/m) (1 + H/n) (1 + H/k), H = gemm_half, and
 *               bytes / memory rate; backward twice forward. Flash attention: causal pairs alone, at its share of that
 *   passes      bytes of rows / s, inner / t, ffn / t and scores / t, each times its passes, over the memory rate
 *   kernels     kernel_seconds each on the device, host_seconds each on the host; the longer side counts, per
 *               microbatch and stage; a collective of TP counts as two
 *   TP          one all-reduce in forward and one in backward (sequence parallel: gather and scatter, backward with one
 *               gather more), never overlapped
 *   recompute   what is made again is added to backward, its communication included; but for the last product of a
 *               layer where the framework stops there (recompute_stops_early; PyTorch, torch.utils.checkpoint,
 *               early_stop)
 *   ZeRO-3      gathers weights in the compute type in forward and in backward, scatters gradients
 * Of a step, tau_i the seconds of stage i for one microbatch, v pieces per stage, m microbatches:
 *   m max tau + (sum of tau - max tau) / v + 2 v (m + p - 2) transfers + sums of gradients + update + step_seconds
 * (GPipe and 1F1B alike; D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
 * Megatron-LM", 2021, section 2.2, with stages that differ). Two activities x and y that overlap take
 * max(x, y) + (overlap_slowdown - 1) min(x, y).
 * Collectives: analytic_collective.h, with the constants for rates and latencies; groups lie tp, dp, pp from the
 * inside. Bytes of a device: weights, gradients and states (by ZeRO stage), what the microbatches in flight keep, what
 * one block makes again, logits, the context. */
#ifndef GAL_COSTMODEL_FRAMEWORK_H
#define GAL_COSTMODEL_FRAMEWORK_H

#include "schemas/cluster.h"
#include "schemas/constants.h"
#include "schemas/framework.h"
#include "schemas/model.h"
#include "schemas/plan.h"

/* One strategy for all blocks; dp_degree * tp_degree * pp_degree devices. */
typedef struct gal_uniform_layout {
    uint32_t dp_degree, tp_degree, pp_degree;
    uint32_t zero_stage; /* 0: plain data parallel */
    bool sequence_parallel;
    gal_recompute recompute;
    gal_schedule schedule;
    uint32_t chunk_count;         /* pieces of a stage; 1 unless interleaved */
    const uint32_t *stage_layers; /* [pp_degree], with the sum of all layers; NULL: dealt evenly */
    uint32_t microbatch_samples, global_batch_samples;
} gal_uniform_layout;

/* GAL_NO with the reason if the numbers do not divide, there are fewer layers than pieces, or more tokens in a step
 * than GAL_BATCH_TOKENS_MAX. */
gal_code gal_uniform_layout_check(const gal_uniform_layout *layout, const gal_model *model, gal_error *err);

typedef struct gal_framework_estimate {
    double seconds;
    double bytes; /* of the fullest device */
} gal_framework_estimate;

/* What cluster and framework say of the constants, nothing fitted; the interval is the framework's. */
void gal_constants_default(const gal_cluster *cluster, const gal_framework *framework, gal_constants *out);
/* Those of `fitted` that were fitted in place of the others; its interval too. */
void gal_constants_apply(const gal_constants *fitted, gal_constants *constants);

/* Layers in front of stage `stage`, 0 .. pp_degree. */
uint32_t gal_uniform_layout_layers_before(const gal_uniform_layout *layout, const gal_model *model, uint32_t stage);

/* layout: checked. Pure; cannot fail. */
void gal_framework_price(const gal_framework *framework, const gal_cluster *cluster, const gal_constants *constants,
                         const gal_model *model, const gal_uniform_layout *layout, gal_framework_estimate *out);

#endif
