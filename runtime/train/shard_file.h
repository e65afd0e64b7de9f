/* The file of one rank in a checkpoint: which elements it holds, where, and their transfer. See checkpoint.h. */
#ifndef GAL_RUNTIME_TRAIN_SHARD_FILE_H
#define GAL_RUNTIME_TRAIN_SHARD_FILE_H

#include "runtime/train/checkpoint.h"

typedef struct gal_shard_record {
    uint64_t file_bytes;
    uint64_t checksum; /* FNV-1a 64 of the file */
} gal_shard_record;

#define GAL_FNV_START UINT64_C(0xCBF29CE484222325)
/* Continues the FNV-1a 64 hash over more bytes. Source: draft-eastlake-fnv, section 2. */
uint64_t gal_fnv(uint64_t hash, const void *bytes, uint64_t byte_count);

/* DIR/rank-00003.bin, at most GAL_PATH_BYTES with its NUL. */
void gal_shard_path(const char *directory, uint32_t rank, char *path);

/* Writes this rank's file and synchronises it to disk. GAL_ERR_SYSTEM. */
gal_code gal_shard_write(const char *directory, const gal_checkpoint_state *state, gal_shard_record *record,
                         gal_error *err);

/* Compares this rank's file with its record. GAL_ERR_SYSTEM, GAL_ERR_DOCUMENT. */
gal_code gal_shard_check(const char *directory, const gal_checkpoint_state *state, const gal_shard_record *record,
                         gal_error *err);

/* Fills this rank's weights and moments from the files of the ranks that own them. */
gal_code gal_shard_read(const char *directory, const gal_checkpoint_state *state, gal_error *err);

#endif
