/* The referee of plans: every structural rule that links a plan to its model and cluster, in one place. galplan and
 * galrun both call it; the search generates only what it accepts; schemas/plan.c calls it after reading. */
#ifndef GAL_SCHEMAS_PLAN_CHECK_H
#define GAL_SCHEMAS_PLAN_CHECK_H

#include "schemas/plan.h"

/* One rule that a strategy breaks for a block, or NULL if it is legal: a static string such as
 * "tp degree must divide head_count". device_count is D; microbatch_samples the samples of one microbatch.
 *   axes multiply to D, each degree >= 2, no kind twice; every axis covers whole prime factors of D taken in
 *     ascending order from the innermost (the atoms of runtime/program/atoms.h)
 *   zero_stage in 1..3 with an SDP axis, 1 or 2 with keep_weights, 0 without these and without an axis of the positions
 *     (Ulysses or ring, never both); sequence_parallel only with TP and not beside such an axis
 *   a TP axis of mode 2d has q^2 devices, of 2.5d depth q^2, of 3d l^3, its sides cover whole atoms too
 *     (gal_mesh_of); sequence_parallel and an axis of the positions only with mode 1d; keep_weights only with 3d, where
 *     otherwise l^2 divides hidden, ffn_hidden, the features of all heads and the padded vocabulary
 *   DP x SDP (and what a grid adds: gal_strategy_sample_parts) divides microbatch_samples; in these modes the side
 *     stands for TP in what follows, and divides hidden; TP divides head_count, kv_head_count, ffn_hidden and the
 *     padded vocabulary; with sequence_parallel TP divides the positions of what enters and leaves the block, and twice
 *     TP the side of a grid that is merged: every device has pairs of its rows; so does an axis of the positions
 *   TP x Ulysses divides head_count and kv_head_count; a ring has at most GAL_RING_DEGREE_MAX devices, and is not for
 *     models whose attention has a table of positions (T5, Swin) or reads lengths of samples (BERT with padding) */
const char *gal_strategy_block_rule_broken(const gal_model *model, const gal_block_shape *block,
                                           const gal_strategy *strategy, uint32_t device_count,
                                           uint32_t microbatch_samples);
/* Of these rules what is asked for whatever the block, and the rest, of a strategy that breaks none of the former: for
 * who asks for many blocks. */
const char *gal_strategy_all_blocks_rule_broken(const gal_model *model, const gal_strategy *strategy,
                                                uint32_t device_count, uint32_t microbatch_samples);
const char *gal_strategy_one_block_rule_broken(const gal_model *model, const gal_block_shape *block,
                                               const gal_strategy *strategy, uint32_t microbatch_samples);
/* The same for the first block of a kind; a kind that the model has not is a broken rule. */
const char *gal_strategy_rule_broken(const gal_model *model, gal_block_kind kind, const gal_strategy *strategy,
                                     uint32_t device_count, uint32_t microbatch_samples);

/* The same of what a plan says for all of its blocks: ZeRO-3 beside a TP grid needs prefetch_depth 2, a buffer for a
 * whole weight and one for the panel that is gathered from it, or the part that is spread. */
const char *gal_strategy_gathers_rule_broken(const gal_strategy *strategy, uint32_t prefetch_depth);

/* For all blocks of a model. */
bool gal_strategy_fits_all(const gal_model *model, const gal_strategy *strategy, uint32_t device_count,
                           uint32_t microbatch_samples);

/* Checks the whole plan: stages cover the blocks once and in order, none empty; pp_degree divides device_count;
 * microbatch_count divides global_batch_samples; pp_degree times it is at most GAL_STAGE_MICROBATCHES_MAX; every
 * strategy legal; the blocks that hold the token table have equal axes, zero_stage and places of parameters and
 * optimizer. GAL_ERR_DOCUMENT with the plan's path ("/stages/1/runs/0/strategy: ..."); prefix (may be NULL) is put
 * before it, "plan.json: " say. */
gal_code gal_plan_check(const gal_plan *plan, const char *prefix, gal_error *err);

#endif
