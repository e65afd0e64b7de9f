/* The framework document: how a training framework that is not galrun carries a layout out.
 *
 * galrun's own seconds and bytes come from its programs. What others measured was run by PyTorch, Megatron-LM and their
 * like; a prediction of it needs to know what they fuse, keep, communicate and overlap. This is that description, in
 * numbers that their sources or papers state; costmodel/framework.h has the formulas.
 *
 * Rows are the residual stream (positions x features, whole under TP unless sequence parallel), inner is the width of
 * queries, keys, values and their result (divided by TP), ffn the width of the FFN (likewise), scores are the attention
 * matrices (heads x queries x keys). A pass reads or writes every element once. "kept" is what forward leaves for
 * backward; masks are of one byte. */
#ifndef GAL_SCHEMAS_FRAMEWORK_H
#define GAL_SCHEMAS_FRAMEWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/json.h"
#include "schemas/base/status.h"
#include "schemas/model.h"

enum { GAL_FRAMEWORK_VERSION = 1, GAL_FRAMEWORK_SOURCE_BYTES = 512 };

/* X(member and key, least, most) */
#define GAL_FRAMEWORK_NUMBERS(X)                                                                                       \
    /* kernels launched in forward: of an attention block without its core, of that core, what the core takes more     \
     * where its softmax is not fused, of another block; backward's as multiples of forward's */                       \
    X(attention_kernels, 0.0, 1e4)                                                                                     \
    X(core_kernels, 0.0, 1e4)                                                                                          \
    X(unfused_core_kernels, 0.0, 1e4)                                                                                  \
    X(ffn_kernels, 0.0, 1e4)                                                                                           \
    X(backward_kernels_factor, 0.0, 1e2)                                                                               \
    /* passes over memory in forward beside those of products: rows and inner of a block, ffn, scores, logits (all     \
     * three directions); backward's as multiples of forward's */                                                      \
    X(row_passes, 0.0, 1e3)                                                                                            \
    X(inner_passes, 0.0, 1e3)                                                                                          \
    X(ffn_passes, 0.0, 1e3)                                                                                            \
    X(score_passes, 0.0, 1e3)                                                                                          \
    X(unfused_score_passes, 0.0, 1e3)                                                                                  \
    X(logit_passes, 0.0, 1e3)                                                                                          \
    X(backward_passes_factor, 0.0, 1e2)                                                                                \
    /* a fused softmax needs samples * heads of a device to be a multiple of this; 0: it is never fused */             \
    X(softmax_fused_multiple, 0.0, 1e6)                                                                                \
    /* of the rate of products that flash attention reaches */                                                         \
    X(flash_forward_share, 1e-3, 1.0)                                                                                  \
    X(flash_backward_share, 1e-3, 1.0)                                                                                 \
    /* kept, in elements of the compute type and masks: per row of a block, more where its norm is RMS, ... */         \
    X(kept_row_elements, 0.0, 1e3)                                                                                     \
    X(kept_rms_row_elements, 0.0, 1e3)                                                                                 \
    X(kept_row_masks, 0.0, 1e3) /* only where rows have dropout */                                                     \
    X(kept_inner_elements, 0.0, 1e3)                                                                                   \
    X(kept_ffn_elements, 0.0, 1e3)                                                                                     \
    X(kept_gated_ffn_elements, 0.0, 1e3) /* of a gated FFN, in place of those */                                       \
    X(kept_score_elements, 0.0, 1e3)     /* without flash attention */                                                 \
    X(kept_score_dropout_elements, 0.0, 1e3)                                                                           \
    X(kept_score_masks, 0.0, 1e3) /* these two where scores have dropout */                                            \
    X(kept_logit_elements, 0.0, 1e3)                                                                                   \
    X(peak_logit_bytes, 0.0, 1e3) /* per logit, of one microbatch, at the peak */                                      \
    /* selective recompute: scores are made again; beside them these shares of a block's products and passes are, and  \
     * this share of what is kept beside scores remains */                                                             \
    X(selective_products_again, 0.0, 1.0)                                                                              \
    X(selective_passes_again, 0.0, 1.0)                                                                                \
    X(selective_kept_share, 0.0, 1.0)                                                                                  \
    /* bytes per parameter: as kernels read them, gradients, what only the update reads; what the sum of gradients     \
     * sends; what the update moves */                                                                                 \
    X(weight_bytes, 0.0, 64.0)                                                                                         \
    X(gradient_bytes, 0.0, 64.0)                                                                                       \
    X(state_bytes, 0.0, 64.0)                                                                                          \
    X(sync_bytes, 0.0, 64.0)                                                                                           \
    X(update_bytes, 0.0, 1e3)                                                                                          \
    X(gathered_blocks, 0.0, 1e3) /* ZeRO-3: blocks whose whole weights and gradients lie in memory at the peak */      \
    X(context_bytes, 0.0, 1e12)                                                                                        \
    X(allocator_factor, 1.0, 10.0) /* on all but the context: what an allocator holds of what was asked for */         \
    /* of the host: to launch a kernel; a transfer between stages beside its bytes; of a step */                       \
    X(host_seconds, 0.0, 1.0)                                                                                          \
    X(transfer_seconds, 0.0, 10.0)                                                                                     \
    X(step_seconds, 0.0, 1e3)                                                                                          \
    /* half the width of the 90 % interval of a prediction that nothing was fitted for, in log units */                \
    X(seconds_spread, 0.0, 10.0)                                                                                       \
    X(bytes_spread, 0.0, 10.0)

/* X(member and key) */
#define GAL_FRAMEWORK_FLAGS(X)                                                                                         \
    X(flash_attention)                                                                                                 \
    X(tf32)                       /* fp32 products run on the matrix units in tf32 */                                  \
    X(sync_overlaps)              /* sums of gradients run under backward */                                           \
    X(sync_overlaps_in_pipelines) /* with more than one stage too */                                                   \
    X(gather_overlaps)            /* gathers of ZeRO-3 run under kernels */                                            \
    X(reduces_every_microbatch)   /* ZeRO-2 and 3: gradients are scattered in each backward */                         \
    X(splits_transfers)           /* transfers between stages are split over TP, and gathered behind */                \
    X(gathers_logits)             /* for the loss every device has those of the whole vocabulary, under TP */          \
    X(pipeline_keeps_logits)      /* GPipe holds the logits of all microbatches, for a loss of the whole batch */      \
    X(recompute_stops_early)      /* a full recompute ends where backward has what it reads: a layer's last product    \
                                   * and its reduction are not made again */

typedef struct gal_framework {
    char name[GAL_NAME_BYTES];
    char source[GAL_FRAMEWORK_SOURCE_BYTES]; /* where the numbers are from */
#define X(member) bool member;
    GAL_FRAMEWORK_FLAGS(X)
#undef X
#define X(member, least, most) double member;
    GAL_FRAMEWORK_NUMBERS(X)
#undef X
} gal_framework;

/* The members, of an object that is open. */
void gal_framework_read_at(const gal_json_cursor *at, gal_framework *out);
void gal_framework_write_at(gal_json_writer *out, const gal_framework *framework);
/* As gal_document_read (schemas/document.h); nothing is owned. */
gal_code gal_framework_read(const char *path, gal_framework *out, gal_error *err);

#endif
