/* The folder of --save while a run writes checkpoints there: the run is its owner (owner.h) and has an identity, by
 * which its checkpoints are told from those of other runs. The identity follows from what is computed (plan, seed,
 * data), so that equal runs write equal bytes. */
#ifndef GAL_RUNTIME_TRAIN_SAVE_FOLDER_H
#define GAL_RUNTIME_TRAIN_SAVE_FOLDER_H

#include <signal.h>
#include <stdbool.h>

#include "runtime/train/owner.h"
#include "runtime/train/world.h"
#include "schemas/base/json.h"
#include "schemas/base/log.h"

typedef struct gal_save_folder {
    const char *directory;    /* borrowed */
    char run[GAL_HASH_BYTES]; /* identity of the run: 16 hexadecimal digits */
    gal_owner *owner;         /* on rank 0; NULL elsewhere */
    const gal_log *log;       /* for what cannot be removed; NULL: nothing is said */
} gal_save_folder;

typedef struct gal_save_folder_options {
    const char *directory;
    const char *run;                   /* the same on all ranks */
    bool may_hold_others;              /* --resume or --overwrite: checkpoints of earlier runs may lie there */
    const volatile sig_atomic_t *stop; /* ends waiting for an owner that ends; NULL: nothing does */
    const gal_log *log;
} gal_save_folder_options;

/* Makes the folder if its parent exists, becomes its owner, and removes what earlier runs left unfinished. So a folder
 * that cannot be written shows before the first step. Collective; all ranks get the same code and text. GAL_ERR_SYSTEM:
 * it cannot be made or written, or another run writes there. GAL_ERR_USAGE: it holds checkpoints and may not. *out is
 * closed by gal_save_folder_close, also after an error. */
gal_code gal_save_folder_open(const gal_save_folder_options *options, const gal_world *world, gal_save_folder *out,
                              gal_error *err);
void gal_save_folder_close(gal_save_folder *folder); /* accepts a zeroed one */

#endif
