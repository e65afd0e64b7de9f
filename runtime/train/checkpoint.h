/* Checkpoints: what a run needs to go on with the same bits under the same plan.
 *
 *     DIR/latest                 name of the newest one and a newline
 *     DIR/step-00000120/
 *         index.json             document "checkpoint": run, plan, step, seed, position in the data and its
 * fingerprint, files with checksums, and a checksum of the index rank-00000.bin         what this rank owns: per unit
 * weights, first and second moments, as in memory (little-endian elements of fp64 or fp32, as the model's moments) A
 * unit's elements are written once: by the rank whose digits outside the unit's split and ZeRO groups are zero, and of
 * a ZeRO group by each member its range. All ranks see DIR (a shared file system when there are several nodes). A
 * checkpoint appears whole or not at all: it is written under another name, synchronised to disk, then renamed;
 * `latest` is replaced afterwards. One run at a time writes in DIR (save_folder.h). */
#ifndef GAL_RUNTIME_TRAIN_CHECKPOINT_H
#define GAL_RUNTIME_TRAIN_CHECKPOINT_H

#include "runtime/device/device.h"
#include "runtime/engine/loss_scaling.h"
#include "runtime/program/program.h"
#include "runtime/train/save_folder.h"
#include "runtime/train/world.h"

enum { GAL_CHECKPOINT_VERSION = 2 };

typedef struct gal_checkpoint_position {
    uint64_t step; /* steps done */
    uint64_t seed;
    uint64_t train_windows;        /* of the training split */
    uint64_t data_fingerprint;     /* of the data's content; 0: of a checkpoint of version 1, which has none */
    char run[GAL_HASH_BYTES];      /* identity of the run, kept over resumes; "": of a checkpoint of version 1 */
    gal_loss_scaling loss_scaling; /* of programs of fp16; scale 0: none, or of a checkpoint from before it was kept */
} gal_checkpoint_position;

/* The state of one rank. */
typedef struct gal_checkpoint_state {
    const gal_plan *plan;
    const gal_program *program;
    uint32_t device;
    const gal_device_ops *ops;
    const gal_memory *memory;
} gal_checkpoint_state;

/* All ranks call these together and get the same code (and the same text). */

/* Writes DIR/step-N (replacing one of the same step) for the folder's run, then removes the run's oldest beyond `keep`
 * (0: keeps all). The folder is open. GAL_ERR_SYSTEM: it cannot be written, or another run has taken it. */
gal_code gal_checkpoint_save(const gal_save_folder *folder, const gal_checkpoint_state *state,
                             const gal_checkpoint_position *position, uint32_t keep, const gal_world *world,
                             gal_error *err);

/* Whether there is something to load at a path that gal_checkpoint_load takes, as rank 0 sees it. */
gal_code gal_checkpoint_exists(const char *path, const gal_world *world, bool *out, gal_error *err);

/* path: a step directory, or a directory whose `latest` names one. Fills weights and moments; all ranks load the same
 * step and have read the same index. Where the checkpoint of a directory is damaged or not whole, the next older one is
 * taken instead, and log (of rank 0) warned. GAL_ERR_SYSTEM: cannot be read; GAL_ERR_DOCUMENT: written under another
 * plan or model, a file is short or its checksum differs; GAL_ERR_USAGE: ranks see different checkpoints. */
gal_code gal_checkpoint_load(const char *path, const gal_checkpoint_state *state, gal_checkpoint_position *position,
                             const gal_world *world, const gal_log *log, gal_error *err);

/* Names what a checkpoint's bytes depend on: model, batch, stages, strategies; not predictions or cluster. */
gal_code gal_checkpoint_plan_hash(const gal_plan *plan, char hash[GAL_HASH_BYTES], gal_error *err);

#endif
