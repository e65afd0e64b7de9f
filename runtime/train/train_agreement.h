/* All ranks of a training are about to do the same: one plan, one seed, one set of options, one content of the data. */
#ifndef GAL_RUNTIME_TRAIN_TRAIN_AGREEMENT_H
#define GAL_RUNTIME_TRAIN_TRAIN_AGREEMENT_H

#include "runtime/train/data.h"
#include "runtime/train/train.h"

/* Finds the fingerprints of the data and compares everything that ranks must have in common (agreement.h). Collective.
 * GAL_ERR_USAGE on all ranks: one differs, and the message names rank, item and both values; GAL_ERR_SYSTEM: the data
 * cannot be read any more. */
gal_code gal_train_agree(const gal_plan *plan, const gal_train_options *options, const gal_data *data,
                         const gal_world *world, gal_data_content *content, gal_error *err);

#endif
