/* Which checkpoints of a folder go when a run has written another one. */
#ifndef GAL_RUNTIME_TRAIN_CHECKPOINT_PRUNE_H
#define GAL_RUNTIME_TRAIN_CHECKPOINT_PRUNE_H

#include <stdint.h>

#include "schemas/base/json.h"
#include "schemas/base/log.h"

/* Removes the oldest checkpoints of a run until `keep` are left (0: keeps all), `newest` among them. A checkpoint of
 * another run, or one with a file that galrun did not write, is left; one that cannot be removed is warned of and left:
 * the run has done its work and goes on. */
void gal_checkpoint_prune(const char *directory, const char run[GAL_HASH_BYTES], uint64_t newest, uint32_t keep,
                          const gal_log *log);

#endif
