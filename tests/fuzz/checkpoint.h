/* Fuzzing checkpoints: one rank of a tiny model, whose checkpoint lies in a folder of this process. */
#ifndef GAL_TESTS_FUZZ_CHECKPOINT_H
#define GAL_TESTS_FUZZ_CHECKPOINT_H

#include "runtime/train/checkpoint.h"

typedef struct gal_fuzz_checkpoint {
    const char *directory, *index_path, *shard_path; /* of the step that was saved */
    gal_checkpoint_state state;
} gal_fuzz_checkpoint;

/* Made and saved at the first call; lives as long as the process. */
const gal_fuzz_checkpoint *gal_fuzz_checkpoint_get(void);

/* Loads it. A refusal leaves the position alone and is one clear line. */
gal_code gal_fuzz_checkpoint_load(const gal_fuzz_checkpoint *checkpoint);

#endif
