/* The names and the life of checkpoints in a folder: how one takes its name, which one is the newest, which ones go.
 * The content of one is described in checkpoint.h. One rank alone calls these, but for join. Paths are of
 * GAL_PATH_BYTES. All return GAL_ERR_SYSTEM with the path and the system's text. No symbolic link is followed below the
 * folder. */
#ifndef GAL_RUNTIME_TRAIN_CHECKPOINT_FOLDER_H
#define GAL_RUNTIME_TRAIN_CHECKPOINT_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/log.h"
#include "schemas/base/status.h"

enum { GAL_PATH_BYTES = 4096, GAL_CHECKPOINT_STEP_MAX = 99999999, GAL_CHECKPOINT_NAME_BYTES = 32 };

/* directory/name, or an error if that is too long. */
gal_code gal_checkpoint_join(const char *directory, const char *name, char *path, gal_error *err);
/* "step-00000120" */
void gal_checkpoint_step_name(uint64_t step, char name[GAL_CHECKPOINT_NAME_BYTES]);

/* Where a run writes a checkpoint before it takes its name; a run has one such name of its own. */
gal_code gal_checkpoint_partial_path(const char *directory, const char *run, char *path, gal_error *err);
/* Makes an empty directory of that path. */
gal_code gal_checkpoint_make_partial(const char *partial, gal_error *err);
/* Removes a directory and the files in it; a link or a file of that name is removed itself. One that is not there is
 * removed already. */
gal_code gal_checkpoint_remove(const char *path, gal_error *err);
/* Removes unfinished checkpoints that earlier runs left. One that cannot be removed is warned of and left. */
void gal_checkpoint_sweep(const char *directory, const gal_log *log);

/* The finished `partial` becomes directory/step-N and what `latest` names, on disk when this returns; one of the same
 * step is replaced. Killed at any point it leaves the previous or the new one. */
gal_code gal_checkpoint_publish(const char *directory, const char *partial, uint64_t step, gal_error *err);

/* Moves the checkpoint of a step aside, then removes it: it goes whole or not at all. */
gal_code gal_checkpoint_retire(const char *directory, uint64_t step, gal_error *err);

/* The highest step below `below` that the directory has a checkpoint of; false: none. */
bool gal_checkpoint_next_older(const char *directory, uint64_t below, uint64_t *step);

/* What a path to resume from names. */
typedef struct gal_checkpoint_place {
    bool is_step;  /* the path is a step directory itself */
    uint64_t step; /* else the step that `latest` names or, without it, the newest one */
} gal_checkpoint_place;

/* GAL_NO with a text in *err: there is no checkpoint. GAL_ERR_DOCUMENT: `latest` names no step. */
gal_code gal_checkpoint_find(const char *path, gal_checkpoint_place *out, gal_error *err);

#endif
