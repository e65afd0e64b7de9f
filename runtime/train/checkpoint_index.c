#include "runtime/train/checkpoint_index.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/checkpoint_folder.h"
#include "schemas/base/file.h"
#include "schemas/base/fnv.h"

enum { VERSION_WITH_RUN = 2, INDEX_BYTES_MAX = 64 << 20 };

/* What decides where elements lie, and more; what is as it was before there was a choice is not told, so that what was
 * written then is known again. */
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
    if (strategy->tp_mode != GAL_TP_1D) {
        gal_json_put_string(out, "mode", gal_tp_mode_names[strategy->tp_mode]);
        gal_json_put_u64(out, "depth", strategy->tp_depth);
        gal_json_put_bool(out, "keep_weights", strategy->keep_weights);
    }
    if (strategy->shard_unit != GAL_SHARD_MATRIX) {
        gal_json_put_string(out, "shard_unit", gal_shard_unit_names[strategy->shard_unit]);
        gal_json_put_u64(out, "chunk_elements", strategy->chunk_elements);
    }
    if (strategy->shard_unit != GAL_SHARD_MATRIX && strategy->offload_optimizer_percent > 0) {
        gal_json_begin_array(out, "cut_percents"); /* a bucket ends where the next matrix is kept elsewhere */
        gal_json_put_u64(out, NULL, strategy->offload_optimizer_percent);
        gal_json_put_u64(out, NULL, strategy->offload_parameters_percent);
        gal_json_put_u64(out, NULL, strategy->offload_storage_percent);
        gal_json_put_u64(out, NULL, strategy->offload_storage_parameters_percent);
        gal_json_end_array(out);
    }
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
    for (uint32_t s = 0; s < gal_plan_piece_count(plan); s++) {
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

/* ---- the checksum of the index itself ---- */

static const char index_checksum_key[] = "\"index_checksum\": \"";
static const char no_checksum[] = "0000000000000000";

/* The 16 digits of the member "index_checksum", as it is written; NULL: there are none. */
static const char *find_index_checksum(const char *text)
{
    const char *found = strstr(text, index_checksum_key);
    if (found == NULL || strlen(found) < sizeof index_checksum_key - 1 + GAL_HASH_BYTES - 1) {
        return NULL;
    }
    return found + sizeof index_checksum_key - 1;
}

/* FNV-1a 64 of the text as it is with digits 0 in the place of its own checksum. */
static uint64_t index_checksum(const char *text, size_t byte_count, const char *digits)
{
    const size_t before = (size_t)(digits - text), digit_count = GAL_HASH_BYTES - 1;
    uint64_t hash = gal_fnv(GAL_FNV_START, text, before);
    hash = gal_fnv(hash, no_checksum, digit_count);
    return gal_fnv(hash, digits + digit_count, byte_count - before - digit_count);
}

static gal_code save_with_checksum(gal_json_writer *out, const char *path, gal_error *err)
{
    gal_code code = GAL_OK;
    const char *text = NULL;
    size_t byte_count = 0;
    char checksum[GAL_HASH_BYTES];
    char *signed_text = NULL;
    GAL_TRY(gal_json_writer_text(out, &text, &byte_count, err));
    const char *digits = find_index_checksum(text);
    signed_text = malloc(byte_count + 1);
    if (signed_text == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "%s: out of memory", path));
    }
    snprintf(checksum, sizeof checksum, "%016llx", (unsigned long long)index_checksum(text, byte_count, digits));
    memcpy(signed_text, text, byte_count + 1);
    memcpy(signed_text + (digits - text), checksum, sizeof checksum - 1);
    GAL_TRY(gal_file_replace(path, signed_text, byte_count, err));
cleanup:
    free(signed_text);
    return code;
}

static gal_code check_index_checksum(const char *path, const char *text, size_t byte_count, gal_error *err)
{
    char checksum[GAL_HASH_BYTES];
    const char *digits = find_index_checksum(text);
    if (digits != NULL) {
        snprintf(checksum, sizeof checksum, "%016llx", (unsigned long long)index_checksum(text, byte_count, digits));
    }
    if (digits == NULL || memcmp(digits, checksum, sizeof checksum - 1) != 0) {
        return gal_fail(err, GAL_ERR_DOCUMENT,
                        "%s: the content is damaged or was edited: index_checksum does not fit it", path);
    }
    return GAL_OK;
}

/* ---- write and read ---- */

static void put_hash(gal_json_writer *out, const char *key, uint64_t hash)
{
    char text[GAL_HASH_BYTES];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    gal_json_put_string(out, key, text);
}

gal_code gal_checkpoint_write_index(const char *directory, const gal_checkpoint_state *state,
                                    const gal_checkpoint_position *position, const gal_shard_record *records,
                                    uint32_t record_count, gal_error *err)
{
    gal_code code = GAL_OK;
    char path[GAL_PATH_BYTES], hash[GAL_HASH_BYTES];
    gal_json_writer *out = gal_json_writer_create();
    GAL_TRY(gal_checkpoint_join(directory, "index.json", path, err));
    GAL_TRY(gal_checkpoint_plan_hash(state->plan, hash, err));
    gal_json_begin_object(out, NULL);
    gal_json_put_string(out, "document", "checkpoint");
    gal_json_put_u64(out, "version", GAL_CHECKPOINT_VERSION);
    gal_json_put_string(out, "run", position->run);
    gal_json_put_string(out, "plan_hash", hash);
    gal_json_put_string(out, "model", state->plan->model.name);
    gal_json_put_u64(out, "step", position->step);
    gal_json_put_u64(out, "seed", position->seed);
    gal_json_put_u64(out, "data_position_samples", position->step * state->plan->global_batch_samples);
    gal_json_put_u64(out, "data_train_windows", position->train_windows);
    put_hash(out, "data_fingerprint", position->data_fingerprint);
    if (state->program->dtype == GAL_FP16) {
        gal_json_begin_object(out, "loss_scaling");
        gal_json_put_f64(out, "scale", position->loss_scaling.scale);
        gal_json_put_u64(out, "finite_steps", position->loss_scaling.finite_steps);
        gal_json_end_object(out);
    }
    gal_json_begin_array(out, "files");
    for (uint32_t r = 0; r < record_count; r++) {
        gal_json_begin_object(out, NULL);
        gal_json_put_u64(out, "rank", r);
        gal_json_put_u64(out, "file_bytes", records[r].file_bytes);
        put_hash(out, "checksum", records[r].checksum);
        gal_json_end_object(out);
    }
    gal_json_end_array(out);
    gal_json_put_string(out, "index_checksum", no_checksum);
    gal_json_end_object(out);
    GAL_TRY(save_with_checksum(out, path, err));
cleanup:
    gal_json_writer_free(out);
    return code;
}

/* Checkpoints from before it was kept have none; they are read all the same. */
static void read_loss_scaling(const gal_json_cursor *root, gal_loss_scaling *scaling)
{
    int exponent;
    if (!gal_json_has(root, "loss_scaling")) {
        return;
    }
    const gal_json_cursor at = gal_json_object(root, "loss_scaling");
    scaling->scale = gal_json_f64(&at, "scale", 1.0, GAL_LOSS_SCALING_MAX);
    if (frexp(scaling->scale, &exponent) != 0.5) {
        gal_json_member_error(&at, "scale", "must be a power of two");
    }
    scaling->finite_steps = gal_json_u32(&at, "finite_steps", 0, GAL_LOSS_SCALING_STEPS - 1);
    gal_json_reject_unknown(&at);
}

/* A hash as it is written: strtoull alone would take signs, blanks and 0x. */
static uint64_t read_hash(const gal_json_cursor *at, const char *key)
{
    char text[GAL_HASH_BYTES];
    gal_json_string(at, key, text, sizeof text);
    if (strlen(text) != GAL_HASH_BYTES - 1 || text[strspn(text, "0123456789abcdef")] != '\0') {
        gal_json_member_error(at, key, "must be 16 hexadecimal digits 0-9a-f");
    }
    return strtoull(text, NULL, 16);
}

static void read_record(const gal_json_cursor *files, uint32_t rank, gal_shard_record *record)
{
    const gal_json_cursor at = gal_json_element(files, rank);
    gal_json_u64(&at, "rank", rank, rank);
    record->file_bytes = gal_json_u64(&at, "file_bytes", 0, UINT64_C(1) << 53);
    record->checksum = read_hash(&at, "checksum");
    gal_json_reject_unknown(&at);
}

static void read_records(const gal_json_cursor *root, uint32_t world_size, uint32_t rank, gal_shard_record *record)
{
    uint32_t file_count = 0;
    const gal_json_cursor files = gal_json_array(root, "files", world_size, world_size, &file_count);
    for (uint32_t r = 0; r < file_count; r++) {
        gal_shard_record each = {0};
        read_record(&files, r, &each);
        if (r == rank) {
            *record = each;
        }
    }
}

static void read_position(const gal_json_cursor *root, const gal_checkpoint_state *state, uint32_t version,
                          gal_checkpoint_position *position)
{
    *position = (gal_checkpoint_position){.run = ""};
    position->step = gal_json_u64(root, "step", 0, GAL_CHECKPOINT_STEP_MAX);
    position->seed = gal_json_u64(root, "seed", 0, UINT64_C(1) << 53);
    const uint64_t samples = position->step * state->plan->global_batch_samples;
    gal_json_u64(root, "data_position_samples", samples, samples);
    position->train_windows = gal_json_u64(root, "data_train_windows", 1, UINT64_C(1) << 53);
    if (version >= VERSION_WITH_RUN) {
        (void)read_hash(root, "run");
        gal_json_string(root, "run", position->run, sizeof position->run);
        position->data_fingerprint = read_hash(root, "data_fingerprint");
        (void)read_hash(root, "index_checksum");
    }
    if (state->program->dtype == GAL_FP16) {
        read_loss_scaling(root, &position->loss_scaling);
    }
}

/* GAL_NO: another plan wrote it. */
static gal_code check_plan(const gal_json_cursor *root, const char *path, const gal_checkpoint_state *state,
                           gal_json_doc *doc, gal_error *err)
{
    gal_code code = GAL_OK;
    char hash[GAL_HASH_BYTES], found[GAL_HASH_BYTES], model[GAL_NAME_BYTES];
    GAL_TRY(gal_checkpoint_plan_hash(state->plan, hash, err));
    gal_json_string(root, "plan_hash", found, sizeof found);
    gal_json_string(root, "model", model, sizeof model);
    GAL_TRY(gal_json_status(doc, err));
    if (strcmp(found, hash) != 0) {
        (void)gal_fail(err, GAL_ERR_DOCUMENT,
                       "%s: written under another plan of model '%s' (%s, this plan is %s of '%s'): resume with the "
                       "plan that wrote it",
                       path, model, found, hash, state->plan->model.name);
        code = GAL_NO;
    }
cleanup:
    return code;
}

gal_code gal_checkpoint_read_index(const char *directory, const gal_checkpoint_state *state, uint32_t rank,
                                   gal_checkpoint_index *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_json_doc *doc = NULL;
    char path[GAL_PATH_BYTES];
    char *text = NULL;
    size_t byte_count = 0;
    *out = (gal_checkpoint_index){.of_another_plan = false};
    GAL_TRY(gal_checkpoint_join(directory, "index.json", path, err));
    GAL_TRY(gal_file_read(path, INDEX_BYTES_MAX, &text, &byte_count, err));
    GAL_TRY(gal_json_open_text(path, text, byte_count, &doc, err));
    const gal_json_cursor root = gal_json_root(doc);
    const uint32_t version = gal_json_expect_versions(&root, "checkpoint", 1, GAL_CHECKPOINT_VERSION);
    code = check_plan(&root, path, state, doc, err);
    if (code == GAL_NO) {
        out->of_another_plan = true;
        code = GAL_ERR_DOCUMENT;
    }
    GAL_TRY(code);
    read_position(&root, state, version, &out->position);
    read_records(&root, state->program->stage_count * state->program->device_count, rank, &out->record);
    gal_json_reject_unknown(&root);
    GAL_TRY(gal_json_status(doc, err));
    if (version >= VERSION_WITH_RUN) {
        GAL_TRY(check_index_checksum(path, text, byte_count, err));
    }
    gal_json_hash(doc, out->hash);
cleanup:
    gal_json_close(doc);
    free(text);
    return code;
}

/* Only what pruning asks for: whatever else is wrong with the file is not looked at. */
bool gal_checkpoint_run_of(const char *directory, char run[GAL_HASH_BYTES])
{
    char path[GAL_PATH_BYTES];
    gal_json_doc *doc = NULL;
    bool found = false;
    if (gal_checkpoint_join(directory, "index.json", path, NULL) == GAL_OK &&
        gal_json_open(path, &doc, NULL) == GAL_OK) {
        const gal_json_cursor root = gal_json_root(doc);
        found = gal_json_has(&root, "run");
        if (found) {
            gal_json_string(&root, "run", run, GAL_HASH_BYTES);
            found = gal_json_status(doc, NULL) == GAL_OK;
        }
    }
    gal_json_close(doc);
    return found;
}
