/* Masked language modelling: which positions of a sample are asked for, and what the model sees there.
 *
 * gal_model_loss_positions_of each sample, a permutation's first ones: a fixed count instead of one draw per position,
 * so that every rank knows how many a batch has. Of them 80 % are replaced by the mask token, 10 % by a
 * random one, 10 % kept. All of it is a function of the key alone.
 * Source: J. Devlin et al., "BERT", arXiv 1810.04805, section 3.1. */
#ifndef GAL_RUNTIME_TRAIN_MASKING_H
#define GAL_RUNTIME_TRAIN_MASKING_H

#include <stdbool.h>

#include "runtime/train/order.h"
#include "schemas/model.h"

/* tokens[count]: the sample's from position `begin` on, in place; those from token_count on are padding. targets: what
 * is asked for, -1 elsewhere; else what the model sees. */
void gal_mask_sample(const gal_model *model, uint64_t key, uint32_t token_count, bool targets, uint32_t begin,
                     uint32_t count, int32_t *tokens);

#endif
