/* The file of one rank in a checkpoint: which elements it holds, where, and their transfer. See checkpoint.h. */
#ifndef GAL_RUNTIME_TRAIN_SHARD_FILE_H
#define GAL_RUNTIME_TRAIN_SHARD_FILE_H

#include "runtime/train/checkpoint.h"
#include "runtime/train/checkpoint_folder.h"

typedef struct gal_shard_record {
    uint64_t file_bytes;
    uint64_t checksum; /* gal_fnv of the file */
} gal_shard_record;

/* DIR/rank-00003.bin, at most GAL_PATH_BYTES with its NUL. */
void gal_shard_path(const char *directory, uint32_t rank, char *path);

/* Whether a file name is that of a shard. */
bool gal_shard_is_name(const char *name);

/* Writes this rank's file and synchronises it to disk; *record is what was written. GAL_ERR_SYSTEM. */
gal_code gal_shard_write(const char *directory, const gal_checkpoint_state *state, gal_shard_record *record,
                         gal_error *err);

/* Compares this rank's file with its record. GAL_ERR_SYSTEM: cannot be read; GAL_ERR_DOCUMENT: other bytes. */
gal_code gal_shard_check(const char *directory, const gal_checkpoint_state *state, const gal_shard_record *record,
                         gal_error *err);

/* Fills this rank's weights and moments from the files of the ranks that own them. The files have been checked
 * (gal_shard_check, each by its rank). GAL_ERR_SYSTEM; GAL_ERR_DOCUMENT if one has become shorter since. */
gal_code gal_shard_read(const char *directory, const gal_checkpoint_state *state, gal_error *err);

#endif
