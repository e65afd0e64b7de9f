/* index.json of a checkpoint: what it continues, and its files (schemas/checkpoint.schema.json). */
#ifndef GAL_RUNTIME_TRAIN_CHECKPOINT_INDEX_H
#define GAL_RUNTIME_TRAIN_CHECKPOINT_INDEX_H

#include "runtime/train/checkpoint.h"
#include "runtime/train/shard_file.h"

/* Writes it into the directory. records[record_count]: of all ranks. GAL_ERR_SYSTEM. */
gal_code gal_checkpoint_write_index(const char *directory, const gal_checkpoint_state *state,
                                    const gal_checkpoint_position *position, const gal_shard_record *records,
                                    uint32_t record_count, gal_error *err);

typedef struct gal_checkpoint_index {
    gal_checkpoint_position position;
    gal_shard_record record;   /* of one rank */
    char hash[GAL_HASH_BYTES]; /* FNV-1a 64 of the file, so that ranks can compare what they read */
    bool of_another_plan;      /* the one error that no older checkpoint of the folder can mend */
} gal_checkpoint_index;

/* Reads the index, versions 1 and 2. Version 1 has no run, no fingerprint of the data and no checksum of the index:
 * `run` is "" and the fingerprint 0. GAL_ERR_SYSTEM: cannot be read; GAL_ERR_DOCUMENT: against the schema, damaged or
 * edited, or of another plan than the state's. *out is undefined then, but for of_another_plan. */
gal_code gal_checkpoint_read_index(const char *directory, const gal_checkpoint_state *state, uint32_t rank,
                                   gal_checkpoint_index *out, gal_error *err);

/* The run that wrote the checkpoint of a directory; false if its index does not say. */
bool gal_checkpoint_run_of(const char *directory, char run[GAL_HASH_BYTES]);

#endif
