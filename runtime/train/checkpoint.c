#include "runtime/train/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/agreement.h"
#include "runtime/train/checkpoint_folder.h"
#include "runtime/train/checkpoint_index.h"
#include "runtime/train/checkpoint_prune.h"
#include "runtime/train/shard_file.h"

/* ---- saving ---- */

/* On rank 0, when all shards are on disk. */
static gal_code publish(const gal_save_folder *folder, const char *partial, const gal_checkpoint_state *state,
                        const gal_checkpoint_position *position, const gal_shard_record *records, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(gal_checkpoint_write_index(partial, state, position, records,
                                       state->program->stage_count * state->program->device_count, err));
    GAL_TRY(folder->owner != NULL ? gal_owner_check(folder->owner, err) : GAL_OK);
    GAL_TRY(gal_checkpoint_publish(folder->directory, partial, position->step, err));
cleanup:
    return code;
}

/* Every rank's path of the unfinished checkpoint; rank 0 makes it. */
static gal_code begin(const gal_save_folder *folder, const gal_checkpoint_position *position, bool first, char *partial,
                      gal_error *err)
{
    gal_code code = GAL_OK;
    if (position->step > GAL_CHECKPOINT_STEP_MAX) {
        return gal_fail(err, GAL_ERR_SYSTEM, "%s: step %llu: checkpoints end at step %d", folder->directory,
                        (unsigned long long)position->step, GAL_CHECKPOINT_STEP_MAX);
    }
    GAL_TRY(gal_checkpoint_partial_path(folder->directory, folder->run, partial, err));
    if (first) {
        GAL_TRY(folder->owner != NULL ? gal_owner_check(folder->owner, err) : GAL_OK);
        GAL_TRY(gal_checkpoint_make_partial(partial, err));
    }
cleanup:
    return code;
}

gal_code gal_checkpoint_save(const gal_save_folder *folder, const gal_checkpoint_state *state,
                             const gal_checkpoint_position *position, uint32_t keep, const gal_world *world,
                             gal_error *err)
{
    gal_code code = GAL_OK;
    char partial[GAL_PATH_BYTES];
    gal_shard_record mine = {0};
    gal_checkpoint_position written = *position;
    const bool first = gal_world_rank(world) == 0;
    gal_shard_record *all = calloc(gal_world_size(world), sizeof *all);
    memcpy(written.run, folder->run, sizeof written.run);
    code = all != NULL ? begin(folder, position, first, partial, err)
                       : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: checkpoint");
    GAL_TRY(gal_world_agree(world, code, err));
    code = gal_world_agree(world, gal_shard_write(partial, state, &mine, err), err);
    if (code != GAL_OK && first) {
        (void)gal_checkpoint_remove(partial, NULL); /* a full disk has use for the room */
    }
    GAL_TRY(code);
    GAL_TRY(gal_world_gather(world, &mine, sizeof mine, first ? all : NULL, err));
    code = first ? publish(folder, partial, state, &written, all, err) : GAL_OK;
    GAL_TRY(gal_world_agree(world, code, err));
    if (first) {
        gal_checkpoint_prune(folder->directory, folder->run, position->step, keep, folder->log);
    }
cleanup:
    free(all);
    return code;
}

/* ---- loading ---- */

/* The place that rank 0 finds, on all ranks. GAL_NO: there is none. */
static gal_code find(const char *path, const gal_world *world, gal_checkpoint_place *out, gal_error *err)
{
    gal_code code = GAL_OK;
    bool none = false;
    gal_error missing = {0};
    *out = (gal_checkpoint_place){.is_step = false};
    if (gal_world_rank(world) == 0) {
        code = gal_checkpoint_find(path, out, &missing);
        none = code == GAL_NO;
        code = none || code == GAL_OK ? GAL_OK : gal_fail(err, code, "%s", missing.text);
    }
    GAL_TRY(gal_world_agree(world, code, err));
    GAL_TRY(gal_world_share(world, out, sizeof *out, err));
    GAL_TRY(gal_world_share(world, &none, sizeof none, err));
    code = none ? GAL_NO : GAL_OK;
cleanup:
    return code;
}

gal_code gal_checkpoint_exists(const char *path, const gal_world *world, bool *out, gal_error *err)
{
    gal_checkpoint_place place;
    const gal_code code = find(path, world, &place, err);
    *out = code == GAL_OK;
    return code == GAL_NO ? GAL_OK : code;
}

static gal_code place_directory(const char *path, const gal_checkpoint_place *place, char *directory, gal_error *err)
{
    char name[GAL_CHECKPOINT_NAME_BYTES];
    gal_checkpoint_step_name(place->step, name);
    if (!place->is_step) {
        return gal_checkpoint_join(path, name, directory, err);
    }
    return snprintf(directory, GAL_PATH_BYTES, "%s", path) < GAL_PATH_BYTES
               ? GAL_OK
               : gal_fail(err, GAL_ERR_SYSTEM, "%s: the path is too long", path);
}

static gal_code agree_on_index(const gal_checkpoint_index *index, const gal_world *world, gal_error *err)
{
    gal_agreement agreement = {0};
    gal_agreement_add(&agreement, "the checkpoint's step", "%llu", (unsigned long long)index->position.step);
    gal_agreement_add(&agreement, "the checkpoint's index.json", "%s", index->hash);
    return gal_agreement_check(&agreement, world, err);
}

/* GAL_NO with a text: no other checkpoint of the folder can help. */
static gal_code load_directory(const char *directory, const gal_checkpoint_state *state,
                               gal_checkpoint_position *position, const gal_world *world, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_checkpoint_index index;
    double foreign;
    code = gal_checkpoint_read_index(directory, state, gal_world_rank(world), &index, err);
    foreign = code != GAL_OK && index.of_another_plan ? 1.0 : 0.0;
    if (code == GAL_OK) {
        code = gal_shard_check(directory, state, &index.record, err);
    }
    code = gal_world_agree(world, code, err);
    if (code != GAL_OK && gal_world_maximum(world, &foreign, 1, err) == GAL_OK && foreign > 0.0) {
        return GAL_NO;
    }
    GAL_TRY(code);
    if (agree_on_index(&index, world, err) != GAL_OK) {
        return GAL_NO;
    }
    code = gal_shard_read(directory, state, err);
    GAL_TRY(gal_world_agree(world, code, err));
    *position = index.position;
cleanup:
    return code;
}

/* The next older step than place's, on all ranks; GAL_NO: there is none. */
static gal_code find_older(const char *path, const gal_world *world, gal_checkpoint_place *place, gal_error *err)
{
    gal_code code = GAL_OK;
    uint64_t older[2] = {0, 0}; /* found, step */
    if (gal_world_rank(world) == 0 && !place->is_step) {
        older[0] = gal_checkpoint_next_older(path, place->step, &older[1]) ? 1 : 0;
    }
    GAL_TRY(gal_world_share(world, older, sizeof older, err));
    place->step = older[1];
    code = older[0] != 0 ? GAL_OK : GAL_NO;
cleanup:
    return code;
}

gal_code gal_checkpoint_load(const char *path, const gal_checkpoint_state *state, gal_checkpoint_position *position,
                             const gal_world *world, const gal_log *log, gal_error *err)
{
    gal_checkpoint_place place;
    gal_error first = {0};
    gal_code code = find(path, world, &place, err);
    if (code == GAL_NO) {
        return gal_fail(err, GAL_ERR_SYSTEM, "%s: no checkpoint: neither index.json nor latest is there", path);
    }
    while (code == GAL_OK) {
        char directory[GAL_PATH_BYTES];
        gal_error cause = {0};
        code = gal_world_agree(world, place_directory(path, &place, directory, &cause), &cause);
        if (code == GAL_OK) {
            code = load_directory(directory, state, position, world, &cause);
        }
        if (code == GAL_OK) {
            return GAL_OK;
        }
        (void)gal_fail(&first, cause.code, "%s", cause.text);
        if (code == GAL_NO || find_older(path, world, &place, &cause) != GAL_OK) {
            break;
        }
        if (gal_world_rank(world) == 0) {
            gal_log_line(log, GAL_LOG_WARN, "%s; going on from the checkpoint of step %llu instead", cause.text,
                         (unsigned long long)place.step);
        }
        code = GAL_OK;
    }
    return first.code != GAL_OK ? gal_fail(err, first.code, "%s", first.text) : code;
}
