/* The folder of a run's checkpoints: how one takes its name, which one is the newest, which ones go. Its content is
 * described in checkpoint.h. One rank alone calls these, but for find and join. Paths are of GAL_PATH_BYTES. All return
 * GAL_ERR_SYSTEM with the path and the system's text. */
#ifndef GAL_RUNTIME_TRAIN_CHECKPOINT_FOLDER_H
#define GAL_RUNTIME_TRAIN_CHECKPOINT_FOLDER_H

#include <stdint.h>

#include "schemas/base/status.h"

enum { GAL_PATH_BYTES = 4096, GAL_CHECKPOINT_STEP_MAX = 99999999 };

/* directory/name, or an error if that is too long. */
gal_code gal_checkpoint_join(const char *directory, const char *name, char *path, gal_error *err);

/* An empty `partial` below directory, which is made if its parent exists. */
gal_code gal_checkpoint_make_partial(const char *directory, const char *partial, gal_error *err);
/* A directory of plain files; one that is not there is removed already. */
gal_code gal_checkpoint_remove(const char *path, gal_error *err);
/* The finished `partial` becomes directory/step-N and what `latest` names, on disk when this returns; one of the same
 * step is replaced. Then only the `keep` newest stay (0: all). Killed at any point it leaves the previous or the new
 * one. */
gal_code gal_checkpoint_publish(const char *directory, const char *partial, uint64_t step, uint32_t keep,
                                gal_error *err);

/* The step directory that path names, by itself or by its `latest`. GAL_ERR_DOCUMENT: `latest` names no step. */
gal_code gal_checkpoint_find(const char *path, char *directory, gal_error *err);

#endif
