#include "runtime/train/save_folder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/train/checkpoint_folder.h"

/* An owner that was told to end is given so long: a rank that is killed in the middle of a write takes a moment. */
static const double wait_for_owner_seconds = 10.0;

static gal_code take_folder(const gal_save_folder_options *options, gal_save_folder *out, gal_error *err)
{
    gal_code code = GAL_OK;
    uint64_t step = 0;
    if (mkdir(options->directory, 0777) != 0 && errno != EEXIST) {
        return gal_fail(err, GAL_ERR_SYSTEM, "%s: %s", options->directory, strerror(errno));
    }
    GAL_TRY(gal_owner_take(options->directory, wait_for_owner_seconds, options->stop, &out->owner, err));
    if (!options->may_hold_others && gal_checkpoint_next_older(options->directory, UINT64_MAX, &step)) {
        code = gal_fail(err, GAL_ERR_USAGE,
                        "%s holds checkpoints of an earlier run (step %llu): go on from them by --resume latest, give "
                        "this run a folder of its own, or let it write beside and over them by --overwrite",
                        options->directory, (unsigned long long)step);
        goto cleanup;
    }
    gal_checkpoint_sweep(options->directory, options->log);
cleanup:
    return code;
}

gal_code gal_save_folder_open(const gal_save_folder_options *options, const gal_world *world, gal_save_folder *out,
                              gal_error *err)
{
    gal_code code = GAL_OK;
    *out = (gal_save_folder){.directory = options->directory, .log = options->log};
    snprintf(out->run, sizeof out->run, "%s", options->run);
    if (gal_world_rank(world) == 0) {
        code = take_folder(options, out, err);
    }
    return gal_world_agree(world, code, err);
}

void gal_save_folder_close(gal_save_folder *folder)
{
    gal_owner_release(folder->owner);
    folder->owner = NULL;
}
