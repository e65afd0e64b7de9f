#include "runtime/train/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/train/shard_file.h"
#include "schemas/base/file.h"
#include "schemas/base/fnv.h"

enum { STEP_MAX = 99999999, LATEST_BYTES = 64 };

static const char step_format[] = "step-%08llu";

static gal_code system_failure(gal_error *err, const char *path)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "%s: %s", path, strerror(errno));
}

static gal_code join(const char *directory, const char *name, char *path, gal_error *err)
{
    if (snprintf(path, GAL_PATH_BYTES, "%s/%s", directory, name) >= GAL_PATH_BYTES) {
        return gal_fail(err, GAL_ERR_SYSTEM, "%s: the path is too long", directory);
    }
    return GAL_OK;
}

/* ---- plan ---- */

static void put_strategy(gal_json_writer *out, const gal_strategy *strategy)
{
    gal_json_begin_array(out, "axes");
    for (uint32_t a = 0; a < strategy->axis_count; a++) {
        gal_json_put_string(out, NULL, gal_axis_kind_names[strategy->axis[a].kind]);
        gal_json_put_u64(out, NULL, strategy->axis[a].degree);
    }
    gal_json_end_array(out);
    gal_json_put_u64(out, "zero_stage", strategy->zero_stage);
    gal_json_put_bool(out, "sequence_parallel", strategy->sequence_parallel);
    gal_json_put_string(out, "recompute", gal_recompute_names[strategy->recompute]);
}

gal_code gal_checkpoint_plan_hash(const gal_plan *plan, char hash[GAL_HASH_BYTES], gal_error *err)
{
    gal_code code = GAL_OK;
    const char *text = NULL;
    size_t byte_count = 0;
    gal_json_writer *out = gal_json_writer_create();
    gal_json_begin_object(out, NULL);
    gal_json_begin_object(out, "model");
    gal_model_write_at(out, &plan->model);
    gal_json_end_object(out);
    gal_json_put_u64(out, "global_batch_samples", plan->global_batch_samples);
    gal_json_put_u64(out, "microbatch_count", plan->microbatch_count);
    gal_json_put_string(out, "schedule", gal_schedule_names[plan->schedule]);
    gal_json_begin_array(out, "stages");
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        gal_json_put_u64(out, NULL, gal_plan_stage_first_block(plan, s));
    }
    gal_json_end_array(out);
    gal_json_put_u64(out, "stage_devices", gal_plan_stage_devices(plan));
    gal_json_begin_array(out, "blocks");
    for (uint32_t b = 0; b < gal_model_block_count(&plan->model); b++) {
        gal_json_begin_object(out, NULL);
        put_strategy(out, gal_plan_block_strategy(plan, b));
        gal_json_end_object(out);
    }
    gal_json_end_array(out);
    gal_json_end_object(out);
    GAL_TRY(gal_json_writer_text(out, &text, &byte_count, err));
    snprintf(hash, GAL_HASH_BYTES, "%016llx", (unsigned long long)gal_fnv(GAL_FNV_START, text, byte_count));
cleanup:
    gal_json_writer_free(out);
    return code;
}

/* ---- index ---- */

static gal_code write_index(const char *directory, const gal_checkpoint_state *state,
                            const gal_checkpoint_position *position, const gal_shard_record *records,
                            uint32_t record_count, gal_error *err)
{
    gal_code code = GAL_OK;
    char path[GAL_PATH_BYTES], hash[GAL_HASH_BYTES];
    gal_json_writer *out = gal_json_writer_create();
    GAL_TRY(join(directory, "index.json", path, err));
    GAL_TRY(gal_checkpoint_plan_hash(state->plan, hash, err));
    gal_json_begin_object(out, NULL);
    gal_json_put_string(out, "document", "checkpoint");
    gal_json_put_u64(out, "version", GAL_CHECKPOINT_VERSION);
    gal_json_put_string(out, "plan_hash", hash);
    gal_json_put_string(out, "model", state->plan->model.name);
    gal_json_put_u64(out, "step", position->step);
    gal_json_put_u64(out, "seed", position->seed);
    gal_json_put_u64(out, "data_position_samples", position->step * state->plan->global_batch_samples);
    gal_json_put_u64(out, "data_train_windows", position->train_windows);
    gal_json_begin_array(out, "files");
    for (uint32_t r = 0; r < record_count; r++) {
        char checksum[GAL_HASH_BYTES];
        snprintf(checksum, sizeof checksum, "%016llx", (unsigned long long)records[r].checksum);
        gal_json_begin_object(out, NULL);
        gal_json_put_u64(out, "rank", r);
        gal_json_put_u64(out, "file_bytes", records[r].file_bytes);
        gal_json_put_string(out, "checksum", checksum);
        gal_json_end_object(out);
    }
    gal_json_end_array(out);
    gal_json_end_object(out);
    GAL_TRY(gal_json_writer_save(out, path, err));
cleanup:
    gal_json_writer_free(out);
    return code;
}

static void read_record(const gal_json_cursor *files, uint32_t rank, gal_shard_record *record)
{
    char text[GAL_HASH_BYTES];
    const gal_json_cursor at = gal_json_element(files, rank);
    gal_json_u64(&at, "rank", rank, rank);
    record->file_bytes = gal_json_u64(&at, "file_bytes", 0, UINT64_C(1) << 53);
    gal_json_string(&at, "checksum", text, sizeof text);
    /* As it is written: strtoull alone would take signs, blanks and 0x. */
    if (strlen(text) != GAL_HASH_BYTES - 1 || text[strspn(text, "0123456789abcdef")] != '\0') {
        gal_json_member_error(&at, "checksum", "must be 16 hexadecimal digits 0-9a-f");
    }
    record->checksum = strtoull(text, NULL, 16);
    gal_json_reject_unknown(&at);
}

/* The position and this rank's record. */
static gal_code read_index(const char *directory, const gal_checkpoint_state *state, uint32_t rank,
                           gal_checkpoint_position *position, gal_shard_record *record, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_json_doc *doc = NULL;
    char path[GAL_PATH_BYTES], hash[GAL_HASH_BYTES], found[GAL_HASH_BYTES], model[GAL_NAME_BYTES];
    uint32_t file_count = 0;
    GAL_TRY(join(directory, "index.json", path, err));
    GAL_TRY(gal_checkpoint_plan_hash(state->plan, hash, err));
    GAL_TRY(gal_json_open(path, &doc, err));
    const gal_json_cursor root = gal_json_root(doc);
    gal_json_expect_document(&root, "checkpoint", GAL_CHECKPOINT_VERSION);
    gal_json_string(&root, "plan_hash", found, sizeof found);
    gal_json_string(&root, "model", model, sizeof model);
    GAL_TRY(gal_json_status(doc, err));
    if (strcmp(found, hash) != 0) {
        code = gal_fail(err, GAL_ERR_DOCUMENT,
                        "%s: written under another plan of model '%s' (%s, this plan is %s of '%s'): resume with the "
                        "plan that wrote it",
                        path, model, found, hash, state->plan->model.name);
        goto cleanup;
    }
    position->step = gal_json_u64(&root, "step", 0, STEP_MAX);
    position->seed = gal_json_u64(&root, "seed", 0, UINT64_C(1) << 53);
    const uint64_t samples = position->step * state->plan->global_batch_samples;
    gal_json_u64(&root, "data_position_samples", samples, samples);
    position->train_windows = gal_json_u64(&root, "data_train_windows", 1, UINT64_C(1) << 53);
    const uint32_t world_size = state->program->stage_count * state->program->device_count;
    const gal_json_cursor files = gal_json_array(&root, "files", world_size, world_size, &file_count);
    for (uint32_t r = 0; r < file_count; r++) {
        gal_shard_record each = {0};
        read_record(&files, r, &each);
        if (r == rank) {
            *record = each;
        }
    }
    gal_json_reject_unknown(&root);
    GAL_TRY(gal_json_status(doc, err));
cleanup:
    gal_json_close(doc);
    return code;
}

/* ---- directories ---- */

static gal_code sync_directory(const char *path, gal_error *err)
{
    gal_code code = GAL_OK;
    const int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0 || fsync(descriptor) != 0) {
        code = system_failure(err, path);
    }
    if (descriptor >= 0) {
        close(descriptor);
    }
    return code;
}

/* A directory of plain files; one that is not there is removed already. */
static gal_code remove_directory(const char *path, gal_error *err)
{
    gal_code code = GAL_OK;
    char name[GAL_PATH_BYTES];
    struct dirent *entry;
    DIR *directory = opendir(path);
    if (directory == NULL) {
        return errno == ENOENT ? GAL_OK : system_failure(err, path);
    }
    while (code == GAL_OK && (entry = readdir(directory)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        GAL_TRY(join(path, entry->d_name, name, err));
        if (unlink(name) != 0) {
            code = system_failure(err, name);
        }
    }
    if (code == GAL_OK && rmdir(path) != 0) {
        code = system_failure(err, path);
    }
cleanup:
    closedir(directory);
    return code;
}

static gal_code make_partial(const char *directory, const char *partial, gal_error *err)
{
    gal_code code = GAL_OK;
    if (mkdir(directory, 0777) != 0 && errno != EEXIST) {
        return system_failure(err, directory);
    }
    GAL_TRY(remove_directory(partial, err));
    if (mkdir(partial, 0777) != 0) {
        code = system_failure(err, partial);
    }
cleanup:
    return code;
}

/* The step of a checkpoint's directory name, or false. */
static bool step_of(const char *name, uint64_t *step)
{
    char again[LATEST_BYTES];
    if (strncmp(name, "step-", 5) != 0 || strlen(name) >= sizeof again) {
        return false;
    }
    *step = strtoull(name + 5, NULL, 10);
    snprintf(again, sizeof again, step_format, (unsigned long long)*step);
    return strcmp(name, again) == 0;
}

/* The lowest step other than `but`, and how many there are. */
static gal_code scan_steps(const char *directory, uint64_t but, uint64_t *lowest, uint32_t *count, gal_error *err)
{
    struct dirent *entry;
    DIR *opened = opendir(directory);
    if (opened == NULL) {
        return system_failure(err, directory);
    }
    *count = 0;
    *lowest = UINT64_MAX;
    while ((entry = readdir(opened)) != NULL) {
        uint64_t step = 0;
        if (step_of(entry->d_name, &step) && step != but) {
            *count += 1;
            *lowest = step < *lowest ? step : *lowest;
        }
    }
    closedir(opened);
    return GAL_OK;
}

/* Under another name first: a checkpoint goes whole or not at all. */
static gal_code retire(const char *directory, const char *path, gal_error *err)
{
    gal_code code = GAL_OK;
    char aside[GAL_PATH_BYTES];
    GAL_TRY(join(directory, "removed.partial", aside, err));
    GAL_TRY(remove_directory(aside, err));
    if (rename(path, aside) != 0 && errno != ENOENT) {
        code = system_failure(err, path);
        goto cleanup;
    }
    GAL_TRY(remove_directory(aside, err));
cleanup:
    return code;
}

/* Leaves `newest` and the keep - 1 highest others. */
static gal_code prune(const char *directory, uint64_t newest, uint32_t keep, gal_error *err)
{
    gal_code code = GAL_OK;
    while (keep > 0) {
        uint64_t lowest = 0;
        uint32_t others = 0;
        char name[LATEST_BYTES], path[GAL_PATH_BYTES];
        GAL_TRY(scan_steps(directory, newest, &lowest, &others, err));
        if (others < keep) {
            break;
        }
        snprintf(name, sizeof name, step_format, (unsigned long long)lowest);
        GAL_TRY(join(directory, name, path, err));
        GAL_TRY(retire(directory, path, err));
    }
cleanup:
    return code;
}

/* The finished directory takes its name. One of the same step is exchanged for it, at once: between two renames there
 * would be neither, and `latest` may name it. File systems without exchange (EINVAL: NFS) have that moment. */
static gal_code take_name(const char *directory, const char *partial, const char *path, gal_error *err)
{
    gal_code code = GAL_OK;
    if (renameat2(AT_FDCWD, partial, AT_FDCWD, path, RENAME_EXCHANGE) == 0) {
        return GAL_OK;
    }
    if (errno == EINVAL || errno == ENOSYS) {
        GAL_TRY(retire(directory, path, err));
    } else if (errno != ENOENT) {
        return system_failure(err, path);
    }
    if (rename(partial, path) != 0) {
        code = system_failure(err, partial);
    }
cleanup:
    return code;
}

/* What was exchanged is removed once the new one is on disk. */
static gal_code publish(const char *directory, const char *partial, const char *name, gal_error *err)
{
    gal_code code = GAL_OK;
    char path[GAL_PATH_BYTES], latest[GAL_PATH_BYTES], text[LATEST_BYTES + 2];
    GAL_TRY(join(directory, name, path, err));
    GAL_TRY(join(directory, "latest", latest, err));
    GAL_TRY(sync_directory(partial, err));
    GAL_TRY(take_name(directory, partial, path, err));
    GAL_TRY(sync_directory(directory, err));
    snprintf(text, sizeof text, "%s\n", name);
    GAL_TRY(gal_file_replace(latest, text, strlen(text), err));
    GAL_TRY(sync_directory(directory, err));
    GAL_TRY(remove_directory(partial, err));
cleanup:
    return code;
}

static gal_code finish(const char *directory, const char *partial, const gal_checkpoint_state *state,
                       const gal_checkpoint_position *position, const gal_shard_record *records, uint32_t keep,
                       gal_error *err)
{
    gal_code code = GAL_OK;
    char name[LATEST_BYTES];
    snprintf(name, sizeof name, step_format, (unsigned long long)position->step);
    GAL_TRY(write_index(partial, state, position, records, state->program->stage_count * state->program->device_count,
                        err));
    GAL_TRY(publish(directory, partial, name, err));
    GAL_TRY(prune(directory, position->step, keep, err));
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
    } else if (position->step > STEP_MAX) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "%s: step %llu: checkpoints end at step %d", directory,
                        (unsigned long long)position->step, STEP_MAX);
    } else {
        code = join(directory, "next.partial", partial, err);
    }
    if (code == GAL_OK && first) {
        code = make_partial(directory, partial, err);
    }
    GAL_TRY(gal_world_agree(world, code, err));
    code = gal_world_agree(world, gal_shard_write(partial, state, &mine, err), err);
    if (code != GAL_OK && first) {
        (void)remove_directory(partial, NULL); /* a full disk has use for the room */
    }
    GAL_TRY(code);
    GAL_TRY(gal_world_gather(world, &mine, sizeof mine, first ? all : NULL, err));
    code = first ? finish(directory, partial, state, position, all, keep, err) : GAL_OK;
    GAL_TRY(gal_world_agree(world, code, err));
cleanup:
    free(all);
    return code;
}

/* The step directory that path names, by itself or by its `latest`. */
static gal_code resolve(const char *path, char *directory, gal_error *err)
{
    gal_code code = GAL_OK;
    char name[GAL_PATH_BYTES];
    char *text = NULL;
    size_t byte_count = 0;
    struct stat status;
    GAL_TRY(join(path, "index.json", name, err));
    if (stat(name, &status) == 0) {
        snprintf(directory, GAL_PATH_BYTES, "%s", path);
        return GAL_OK;
    }
    GAL_TRY(join(path, "latest", name, err));
    if (stat(name, &status) != 0) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "%s: no checkpoint: neither index.json nor latest is there", path);
        goto cleanup;
    }
    GAL_TRY(gal_file_read(name, LATEST_BYTES, &text, &byte_count, err));
    uint64_t step = 0;
    text[strcspn(text, "\n")] = '\0';
    if (!step_of(text, &step)) {
        code = gal_fail(err, GAL_ERR_DOCUMENT, "%s: must name a step directory, got '%s'", name, text);
        goto cleanup;
    }
    GAL_TRY(join(path, text, directory, err));
cleanup:
    free(text);
    return code;
}

gal_code gal_checkpoint_load(const char *path, const gal_checkpoint_state *state, gal_checkpoint_position *position,
                             const gal_world *world, gal_error *err)
{
    gal_code code = GAL_OK;
    char directory[GAL_PATH_BYTES];
    gal_shard_record record = {0};
    gal_checkpoint_position found = {0};
    code = resolve(path, directory, err);
    if (code == GAL_OK) {
        code = read_index(directory, state, gal_world_rank(world), &found, &record, err);
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
