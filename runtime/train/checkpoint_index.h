/* index.json of a checkpoint: what it continues, and its files (schemas/checkpoint.schema.json). */
#ifndef GAL_RUNTIME_TRAIN_CHECKPOINT_INDEX_H
#define GAL_RUNTIME_TRAIN_CHECKPOINT_INDEX_H

#include "runtime/train/checkpoint.h"
#include "runtime/train/shard_file.h"

/* Writes it into the directory. records[record_count]: of all ranks. GAL_ERR_SYSTEM. */
gal_code gal_checkpoint_write_index(const char *directory, const gal_checkpoint_state *state,
                                    const gal_checkpoint_position *position, const gal_shard_record *records,
                                    uint32_t record_count, gal_error *err);

/* The position and the record of one rank. GAL_ERR_SYSTEM: cannot be read; GAL_ERR_DOCUMENT: against the schema, or of
 * another plan than the state's; position and record are then undefined. */
gal_code gal_checkpoint_read_index(const char *directory, const gal_checkpoint_state *state, uint32_t rank,
                                   gal_checkpoint_position *position, gal_shard_record *record, gal_error *err);

#endif
