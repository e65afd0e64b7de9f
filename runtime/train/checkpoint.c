#include "runtime/train/checkpoint.h"

#include <stdlib.h>

#include "runtime/train/checkpoint_folder.h"
#include "runtime/train/checkpoint_index.h"
#include "runtime/train/shard_file.h"

static gal_code finish(const char *directory, const char *partial, const gal_checkpoint_state *state,
                       const gal_checkpoint_position *position, const gal_shard_record *records, uint32_t keep,
                       gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(gal_checkpoint_write_index(partial, state, position, records,
                                       state->program->stage_count * state->program->device_count, err));
    GAL_TRY(gal_checkpoint_publish(directory, partial, position->step, keep, err));
cleanup:
    return code;
}

gal_code gal_checkpoint_save(const char *directory, const gal_checkpoint_state *state,
                             const gal_checkpoint_position *position, uint32_t keep, const gal_world *world,
                             gal_error *err)
{
    gal_code code = GAL_OK;
    char partial[GAL_PATH_BYTES];
    gal_shard_record mine = {0};
    const bool first = gal_world_rank(world) == 0;
    gal_shard_record *all = calloc(gal_world_size(world), sizeof *all);
    if (all == NULL) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "out of memory: checkpoint");
    } else if (position->step > GAL_CHECKPOINT_STEP_MAX) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "%s: step %llu: checkpoints end at step %d", directory,
                        (unsigned long long)position->step, GAL_CHECKPOINT_STEP_MAX);
    } else {
        code = gal_checkpoint_join(directory, "next.partial", partial, err);
    }
    if (code == GAL_OK && first) {
        code = gal_checkpoint_make_partial(directory, partial, err);
    }
    GAL_TRY(gal_world_agree(world, code, err));
    code = gal_world_agree(world, gal_shard_write(partial, state, &mine, err), err);
    if (code != GAL_OK && first) {
        (void)gal_checkpoint_remove(partial, NULL); /* a full disk has use for the room */
    }
    GAL_TRY(code);
    GAL_TRY(gal_world_gather(world, &mine, sizeof mine, first ? all : NULL, err));
    code = first ? finish(directory, partial, state, position, all, keep, err) : GAL_OK;
    GAL_TRY(gal_world_agree(world, code, err));
cleanup:
    free(all);
    return code;
}

gal_code gal_checkpoint_load(const char *path, const gal_checkpoint_state *state, gal_checkpoint_position *position,
                             const gal_world *world, gal_error *err)
{
    gal_code code = GAL_OK;
    char directory[GAL_PATH_BYTES];
    gal_shard_record record = {0};
    gal_checkpoint_position found = {0};
    code = gal_checkpoint_find(path, directory, err);
    if (code == GAL_OK) {
        code = gal_checkpoint_read_index(directory, state, gal_world_rank(world), &found, &record, err);
    }
    if (code == GAL_OK) {
        code = gal_shard_check(directory, state, &record, err);
    }
    GAL_TRY(gal_world_agree(world, code, err));
    code = gal_shard_read(directory, state, err);
    GAL_TRY(gal_world_agree(world, code, err));
    *position = found;
cleanup:
    return code;
}
