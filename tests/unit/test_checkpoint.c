/* Checkpoints: what is written is read back to the same bits by every device; what is damaged or foreign is refused. */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/narrow.h"
#include "runtime/train/shard_file.h"
#include "runtime/train/weights.h"
#include "tests/support/scratch_folder.h"

enum { PATH_BYTES = 64, DEVICES_MAX = 8 };

static const char *below(const char *name)
{
    static char path[3 * PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", gal_scratch_folder, name);
    return path;
}

/* One stage of a plan with the memory of all its devices. */
typedef struct stage {
    gal_plan plan;
    gal_program *program;
    gal_memory memory[DEVICES_MAX];
} stage;

static void open_stage_of(stage *s, const char *plan_path, uint32_t number, gal_dtype dtype)
{
    gal_error err = {0};
    memset(s, 0, sizeof *s);
    if (gal_plan_read(plan_path, &s->plan, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    s->plan.model.compute_dtype = dtype;
    if (gal_lower(&s->plan, number, &s->program, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    assert_true(s->program->device_count <= DEVICES_MAX);
    for (uint32_t d = 0; d < s->program->device_count; d++) {
        /* what would be in another memory lies behind */
        const uint64_t bytes = s->program->arena_bytes + s->program->host_bytes;
        assert_int_equal(gal_device_host.allocate(bytes, true, &s->memory[d], &err), GAL_OK);
    }
}

static void open_stage(stage *s, const char *plan_path, uint32_t number)
{
    open_stage_of(s, plan_path, number, GAL_FP64);
}

static void close_stage(stage *s)
{
    for (uint32_t d = 0; d < s->program->device_count; d++) {
        gal_device_host.release(&s->memory[d]);
    }
    gal_program_free(s->program);
    gal_plan_free(&s->plan);
}

static gal_checkpoint_state state_of(const stage *s, uint32_t device)
{
    return (gal_checkpoint_state){.plan = &s->plan,
                                  .program = s->program,
                                  .device = device,
                                  .ops = &gal_device_host,
                                  .memory = &s->memory[device]};
}

/* Numbers that are functions of unit, part, place in the split group and element, so that replicas agree. */
static double number_of(uint32_t unit, uint32_t part, uint32_t split_index, uint64_t element)
{
    return (double)(unit + 1) * 1e6 + part * 1e5 + split_index * 1e4 + (double)element;
}

/* The number as the part has it, exactly or rounded. */
static double as_held(gal_dtype dtype, double number)
{
    double room;
    gal_put_real(dtype, &room, 0, number);
    return gal_get_real(dtype, &room, 0);
}

/* One part of a unit on a device. Copies of the weights have their numbers. */
static void visit_part(const stage *s, uint32_t device, uint32_t u, gal_state_part part, bool check)
{
    const gal_unit *unit = &s->program->unit[u];
    const uint32_t split_index = gal_group_index(&s->program->atoms, unit->split_group, device);
    const gal_dtype dtype = gal_state_dtype(s->program, part);
    const gal_state_range range = gal_state_range_of(s->program, unit, device, part);
    char *values = (char *)s->memory[device].base + range.offset_bytes;
    for (uint64_t i = 0; i < range.count; i++) {
        const double number =
            number_of(u, part > GAL_STATE_GRADIENT ? GAL_STATE_WEIGHT : part, split_index, range.first + i);
        if (check) {
            assert_true(gal_get_real(dtype, values, i) == as_held(dtype, number));
        }
        gal_put_real(dtype, values, i, check ? -1.0 : number);
    }
}

/* Writing leaves out the copies of the weights: a checkpoint does not have them. */
static void visit(const stage *s, bool check)
{
    for (uint32_t d = 0; d < s->program->device_count; d++) {
        for (uint32_t u = 0; u < s->program->unit_count; u++) {
            for (uint32_t p = 0; p < GAL_STATE_GRADIENT; p++) {
                visit_part(s, d, u, (gal_state_part)p, check);
            }
            gal_state_part copies[GAL_STATE_COPIES_MAX];
            const uint32_t count = check ? gal_state_copies(&s->program->unit[u], copies) : 0;
            for (uint32_t i = 0; i < count; i++) {
                visit_part(s, d, u, copies[i], check);
            }
        }
    }
}

/* Every device of a stage under mixed strategies writes its file; all read their state from those files. */
static void check_shards(const char *plan_path, uint32_t number, gal_dtype dtype)
{
    stage s;
    gal_error err = {0};
    gal_shard_record records[DEVICES_MAX];
    open_stage_of(&s, plan_path, number, dtype);
    visit(&s, false);
    uint64_t total = 0;
    for (uint32_t d = 0; d < s.program->device_count; d++) {
        const gal_checkpoint_state state = state_of(&s, d);
        assert_int_equal(gal_shard_write(gal_scratch_folder, &state, &records[d], &err), GAL_OK);
        assert_int_equal(gal_shard_check(gal_scratch_folder, &state, &records[d], &err), GAL_OK);
        total += records[d].file_bytes;
    }
    for (uint32_t d = 0; d < s.program->device_count; d++) {
        memset(s.memory[d].base, 0xFF, s.memory[d].bytes);
    }
    for (uint32_t d = 0; d < s.program->device_count; d++) {
        const gal_checkpoint_state state = state_of(&s, d);
        if (gal_shard_read(gal_scratch_folder, &state, &err) != GAL_OK) {
            fail_msg("%s", err.text);
        }
    }
    visit(&s, true);
    /* Nothing is written twice: elements over the split group, three parts, masters in fp32. */
    uint64_t expected = 0;
    for (uint32_t u = 0; u < s.program->unit_count; u++) {
        const gal_unit *unit = &s.program->unit[u];
        expected += unit->elements * gal_group_size(&s.program->atoms, unit->split_group) * 3 *
                    gal_dtype_bytes(gal_dtype_wide(dtype));
    }
    assert_int_equal(total, expected);
    close_stage(&s);
}

static void test_shards_of_every_strategy(void **state)
{
    (void)state;
    static const gal_dtype dtypes[] = {GAL_FP64, GAL_FP32, GAL_BF16, GAL_FP16};
    for (uint32_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        check_shards("tests/numerics/plans/serial.json", 0, dtypes[d]);
        check_shards("tests/numerics/plans/tp2-dp2.json", 0, dtypes[d]);
        check_shards("tests/numerics/plans/zero3-pp2.json", 0, dtypes[d]);
        check_shards("tests/numerics/plans/zero3-pp2.json", 1, dtypes[d]);
        check_shards("tests/numerics/plans/mixed.json", 0, dtypes[d]);
        check_shards("tests/numerics/plans/mixed-host.json", 0, dtypes[d]);
    }
}

static const gal_world alone = {.deadline_seconds = 10.0};

/* A folder without an owner: the tests of this file are alone in theirs. */
static gal_save_folder folder_of(const char *run)
{
    static char path[3 * PATH_BYTES];
    gal_save_folder folder = {.directory = path};
    snprintf(path, sizeof path, "%s/save", gal_scratch_folder);
    snprintf(folder.run, sizeof folder.run, "%s", run);
    assert_true(mkdir(path, 0777) == 0 || errno == EEXIST);
    return folder;
}

static void save_as(const stage *s, const char *run, uint64_t step, uint32_t keep)
{
    gal_error err = {0};
    const gal_checkpoint_state state = state_of(s, 0);
    const gal_save_folder folder = folder_of(run);
    const gal_checkpoint_position position = {.step = step, .seed = 5, .train_windows = 17, .data_fingerprint = 18};
    if (gal_checkpoint_save(&folder, &state, &position, keep, &alone, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
}

static void save(const stage *s, uint64_t step, uint32_t keep)
{
    save_as(s, "00000000000000aa", step, keep);
}

static void assert_refused(const stage *s, const char *path, gal_code code, const char *text)
{
    gal_error err = {0};
    gal_checkpoint_position position = {.step = 99};
    const gal_checkpoint_state state = state_of(s, 0);
    assert_int_equal(gal_checkpoint_load(path, &state, &position, &alone, NULL, &err), code);
    assert_int_equal(position.step, 99);
    if (strstr(err.text, text) == NULL) {
        fail_msg("got: %s", err.text);
    }
}

static bool exists(const char *name)
{
    struct stat status;
    return stat(below(name), &status) == 0;
}

static int count_entries(const char *name)
{
    int count = -2; /* without . and .. */
    DIR *opened = opendir(below(name));
    assert_non_null(opened);
    while (readdir(opened) != NULL) {
        count++;
    }
    closedir(opened);
    return count;
}

/* Saves at 1, 2, 3, again 3, keeping two: 2 and 3 remain, `latest` is 3, nothing unfinished is left. */
static void test_save_keep_load(void **state)
{
    (void)state;
    stage s;
    gal_error err = {0};
    gal_checkpoint_position position = {0};
    open_stage(&s, "tests/numerics/plans/serial.json", 0);
    visit(&s, false);
    save(&s, 1, 2);
    save(&s, 2, 2);
    save(&s, 3, 2);
    save(&s, 3, 2);
    assert_false(exists("save/step-00000001"));
    assert_true(exists("save/step-00000002/index.json"));
    assert_int_equal(count_entries("save"), 3); /* two steps and latest: nothing unfinished */
    visit(&s, true);
    const gal_checkpoint_state at = state_of(&s, 0);
    assert_int_equal(gal_checkpoint_load(below("save"), &at, &position, &alone, NULL, &err), GAL_OK);
    assert_int_equal(position.step, 3);
    assert_int_equal(position.seed, 5);
    assert_int_equal(position.train_windows, 17);
    assert_int_equal(position.data_fingerprint, 18);
    assert_string_equal(position.run, "00000000000000aa");
    visit(&s, true);
    assert_int_equal(gal_checkpoint_load(below("save/step-00000002"), &at, &position, &alone, NULL, &err), GAL_OK);
    assert_int_equal(position.step, 2);
    visit(&s, true);
    close_stage(&s);
}

static void change_file(const char *name, long offset, const char *text)
{
    FILE *file = fopen(below(name), "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    assert_true(fputs(text, file) >= 0);
    fclose(file);
}

static void test_refusals(void **state)
{
    (void)state;
    stage s;
    open_stage(&s, "tests/numerics/plans/serial.json", 0);
    visit(&s, false);
    assert_refused(&s, below("nowhere"), GAL_ERR_SYSTEM, "no checkpoint");
    save(&s, 4, 0);
    change_file("save/step-00000004/rank-00000.bin", 100, "x");
    assert_refused(&s, below("save/step-00000004"), GAL_ERR_DOCUMENT, "rank-00000.bin: the content is damaged");
    save(&s, 4, 0);
    assert_int_equal(truncate(below("save/step-00000004/rank-00000.bin"), 1000), 0);
    assert_refused(&s, below("save/step-00000004"), GAL_ERR_DOCUMENT, "the file ends at byte 1000");
    save(&s, 4, 0);
    change_file("save/step-00000004/index.json", 0, "[");
    assert_refused(&s, below("save/step-00000004"), GAL_ERR_DOCUMENT, "index.json:");
    change_file("save/latest", 0, "../else");
    assert_refused(&s, below("save"), GAL_ERR_DOCUMENT, "must name a step directory");
    save(&s, 4, 0);
    s.plan.model.optimizer.weight_decay = 0.2;
    assert_refused(&s, below("save"), GAL_ERR_DOCUMENT, "written under another plan of model 'tiny'");
    s.plan.model.optimizer.weight_decay = 0.1;
    s.plan.simulated_seconds = 3.0; /* predictions do not matter */
    gal_error err = {0};
    gal_checkpoint_position position = {0};
    const gal_checkpoint_state at = state_of(&s, 0);
    assert_int_equal(gal_checkpoint_load(below("save"), &at, &position, &alone, NULL, &err), GAL_OK);
    close_stage(&s);
}

/* Plans under which ranks hold other elements have other hashes: 1d, 2.5d, 3d, and 3d whose weights stay; buckets that
 * are cut where matrices are kept elsewhere. */
static void test_hashes_tell_layouts_apart(void **state)
{
    (void)state;
    static const gal_strategy strategies[] = {
        {.axis_count = 1, .axis = {{GAL_AXIS_TP, 8}}},
        {.axis_count = 1, .axis = {{GAL_AXIS_TP, 8}}, .tp_mode = GAL_TP_2P5D, .tp_depth = 2},
        {.axis_count = 1, .axis = {{GAL_AXIS_TP, 8}}, .tp_mode = GAL_TP_3D},
        {.axis_count = 1, .axis = {{GAL_AXIS_SDP, 8}}, .zero_stage = 2},
        {.axis_count = 1, .axis = {{GAL_AXIS_SDP, 8}}, .zero_stage = 2, .shard_unit = GAL_SHARD_BUCKET},
        {.axis_count = 1,
         .axis = {{GAL_AXIS_SDP, 8}},
         .zero_stage = 2,
         .shard_unit = GAL_SHARD_BUCKET,
         .offload_optimizer_percent = 60},
        {.axis_count = 1,
         .axis = {{GAL_AXIS_SDP, 8}},
         .zero_stage = 2,
         .shard_unit = GAL_SHARD_BUCKET,
         .offload_optimizer_percent = 60,
         .offload_storage_percent = 30},
        {.axis_count = 1, .axis = {{GAL_AXIS_TP, 8}}, .tp_mode = GAL_TP_3D, .zero_stage = 2},
        {.axis_count = 1, .axis = {{GAL_AXIS_TP, 8}}, .tp_mode = GAL_TP_3D, .zero_stage = 2, .keep_weights = true}};
    enum { COUNT = sizeof strategies / sizeof strategies[0] };
    char hash[COUNT][GAL_HASH_BYTES];
    gal_plan plan;
    gal_error err = {0};
    assert_int_equal(gal_plan_read("tests/fixtures/valid/plan_cube.json", &plan, &err), GAL_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        for (uint32_t r = 0; r < plan.run_count; r++) {
            plan.run[r].strategy = strategies[i];
        }
        assert_int_equal(gal_checkpoint_plan_hash(&plan, hash[i], &err), GAL_OK);
        for (uint32_t j = 0; j < i; j++) {
            assert_string_not_equal(hash[i], hash[j]);
        }
    }
    char of_matrices[2][GAL_HASH_BYTES]; /* lie where they do wherever they are kept */
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t r = 0; r < plan.run_count; r++) {
            plan.run[r].strategy = (gal_strategy){
                .axis_count = 1, .axis = {{GAL_AXIS_SDP, 8}}, .zero_stage = 2, .offload_optimizer_percent = 60 * i};
        }
        assert_int_equal(gal_checkpoint_plan_hash(&plan, of_matrices[i], &err), GAL_OK);
    }
    assert_string_equal(of_matrices[0], of_matrices[1]);
    gal_plan_free(&plan);
}

static gal_code load_scaling(const stage *s, gal_loss_scaling *out, gal_error *err)
{
    gal_checkpoint_position position = {0};
    const gal_checkpoint_state at = state_of(s, 0);
    const gal_code code = gal_checkpoint_load(below("save"), &at, &position, &alone, NULL, err);
    *out = position.loss_scaling;
    return code;
}

static void edit_index(const char *command)
{
    char line[16 * PATH_BYTES];
    snprintf(line, sizeof line, "sed -i '%s' '%s'", command, below("save/step-00000001/index.json"));
    assert_int_equal(system(line), 0);
}

/* Version 1 had no run, no fingerprint of the data and no checksum of the index. */
static const char make_version_1[] =
    "s/\"version\": 2/\"version\": 1/; /\"run\"/d; /\"data_fingerprint\"/d; /\"index_checksum\"/d; s/^  \\],/  ]/";

/* One digit of the index is changed, of a kind that every rule of its fields allows. */
static void test_edited_index(void **state)
{
    (void)state;
    stage s;
    gal_error err = {0};
    gal_checkpoint_position position = {0};
    open_stage(&s, "tests/numerics/plans/serial.json", 0);
    visit(&s, false);
    const gal_checkpoint_state at = state_of(&s, 0);
    save(&s, 1, 0);
    edit_index("s/\"seed\": 5/\"seed\": 6/");
    assert_refused(&s, below("save/step-00000001"), GAL_ERR_DOCUMENT, "index_checksum does not fit");
    save(&s, 1, 0);
    edit_index("s/\"data_train_windows\": 17/\"data_train_windows\": 16/");
    assert_refused(&s, below("save/step-00000001"), GAL_ERR_DOCUMENT, "index_checksum does not fit");
    edit_index(make_version_1);
    assert_int_equal(gal_checkpoint_load(below("save/step-00000001"), &at, &position, &alone, NULL, &err), GAL_OK);
    assert_int_equal(position.train_windows, 16); /* version 1 cannot tell */
    assert_int_equal(position.data_fingerprint, 0);
    assert_string_equal(position.run, "");
    close_stage(&s);
}

/* The newest checkpoint of a folder is damaged: the next older whole one is taken; a step that is named is not
 * replaced. */
static void test_falls_back(void **state)
{
    (void)state;
    stage s;
    gal_error err = {0};
    gal_checkpoint_position position = {0};
    open_stage(&s, "tests/numerics/plans/serial.json", 0);
    visit(&s, false);
    const gal_checkpoint_state at = state_of(&s, 0);
    for (uint64_t step = 11; step <= 13; step++) {
        save(&s, step, 0);
    }
    change_file("save/step-00000013/rank-00000.bin", 100, "x");
    assert_int_equal(unlink(below("save/step-00000012/index.json")), 0);
    assert_int_equal(gal_checkpoint_load(below("save"), &at, &position, &alone, NULL, &err), GAL_OK);
    assert_int_equal(position.step, 11);
    assert_refused(&s, below("save/step-00000013"), GAL_ERR_DOCUMENT, "the content is damaged");
    assert_int_equal(unlink(below("save/latest")), 0);
    assert_int_equal(gal_checkpoint_load(below("save"), &at, &position, &alone, NULL, &err), GAL_OK);
    s.plan.model.optimizer.weight_decay = 0.2; /* of another plan: an older one would not be what is asked for */
    assert_int_equal(unlink(below("save/step-00000013/rank-00000.bin")), 0);
    save(&s, 14, 0);
    s.plan.model.optimizer.weight_decay = 0.1;
    assert_refused(&s, below("save"), GAL_ERR_DOCUMENT, "written under another plan");
    close_stage(&s);
}

/* Pruning takes the run's own checkpoints, and none with a file that galrun did not write; no link is followed. */
static void test_prunes_own(void **state)
{
    (void)state;
    stage s;
    open_stage(&s, "tests/numerics/plans/serial.json", 0);
    visit(&s, false);
    save_as(&s, "00000000000000bb", 21, 0);
    save_as(&s, "00000000000000aa", 22, 0);
    save_as(&s, "00000000000000aa", 23, 0);
    assert_int_equal(mkdir(below("save/step-00000022/eval"), 0777), 0);
    save_as(&s, "00000000000000aa", 24, 1);
    assert_true(exists("save/step-00000021/index.json")); /* another run's */
    assert_true(exists("save/step-00000022/eval"));
    assert_true(exists("save/step-00000022/index.json"));
    assert_false(exists("save/step-00000023"));
    assert_true(exists("save/step-00000024"));
    assert_int_equal(mkdir(below("elsewhere"), 0777), 0);
    FILE *file = fopen(below("elsewhere/precious"), "w");
    assert_non_null(file);
    fclose(file);
    char target[3 * PATH_BYTES];
    snprintf(target, sizeof target, "%s", below("elsewhere"));
    assert_int_equal(symlink(target, below("save/next-00000000000000aa.partial")), 0);
    assert_int_equal(symlink(target, below("save/removed-step-00000024.partial")), 0);
    save_as(&s, "00000000000000aa", 25, 1);
    assert_true(exists("elsewhere/precious"));
    assert_true(exists("save/step-00000025/index.json"));
    assert_false(exists("save/step-00000024"));
    close_stage(&s);
}

/* The scale of a loss of fp16 comes back; a checkpoint without it is read, one that is none is refused, and so is that
 * of a program that has none. */
static void test_loss_scaling(void **state)
{
    (void)state;
    stage s;
    gal_error err = {0};
    gal_loss_scaling found;
    const gal_checkpoint_position position = {
        .step = 1, .seed = 5, .train_windows = 17, .loss_scaling = {.scale = 4096.0, .finite_steps = 1999}};
    open_stage_of(&s, "tests/numerics/plans/serial.json", 0, GAL_FP16);
    visit(&s, false);
    const gal_checkpoint_state at = state_of(&s, 0);
    const gal_save_folder folder = folder_of("00000000000000aa");
    assert_int_equal(gal_checkpoint_save(&folder, &at, &position, 0, &alone, &err), GAL_OK);
    assert_int_equal(load_scaling(&s, &found, &err), GAL_OK);
    assert_true(found.scale == 4096.0 && found.finite_steps == 1999);
    edit_index("s/4096/4095/");
    assert_int_equal(load_scaling(&s, &found, &err), GAL_ERR_DOCUMENT);
    assert_non_null(strstr(err.text, "must be a power of two"));
    edit_index(make_version_1);
    edit_index("/\"loss_scaling\": {/,/}/d");
    assert_int_equal(load_scaling(&s, &found, &err), GAL_OK);
    assert_true(found.scale == 0.0);
    close_stage(&s);
    open_stage(&s, "tests/numerics/plans/serial.json", 0);
    visit(&s, false);
    save(&s, 1, 0);
    edit_index("s/\"files\":/\"loss_scaling\": {\"scale\": 2, \"finite_steps\": 0}, &/");
    err = (gal_error){0};
    assert_int_equal(load_scaling(&s, &found, &err), GAL_ERR_DOCUMENT);
    assert_non_null(strstr(err.text, "loss_scaling"));
    close_stage(&s);
}

/* The digits of the index's one checksum are replaced: all but 16 small hexadecimal ones are refused as such, before
 * any file is read. */
static void test_checksum_digits(void **state)
{
    (void)state;
    static const char *const wrong[] = {"0x23456789abcdef", "+123456789abcdef", "-123456789abcdef", " 123456789abcdef",
                                        "123456789abcdef ", "123456789ABCDEF0", "123456789abcdeg0", "123456789abcdef"};
    stage s;
    char index[4096], whole[64];
    open_stage(&s, "tests/numerics/plans/serial.json", 0);
    visit(&s, false);
    save(&s, 1, 0);
    FILE *file = fopen(below("save/step-00000001/index.json"), "r");
    assert_non_null(file);
    index[fread(index, 1, sizeof index - 1, file)] = '\0';
    fclose(file);
    const char *found = strstr(index, "\"checksum\"");
    assert_non_null(found);
    const long offset = (long)strcspn(found, ":") + 3 + (found - index);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(whole, sizeof whole, "%s\"%s", wrong[i], strlen(wrong[i]) < 16 ? " " : "");
        change_file("save/step-00000001/index.json", offset, whole);
        assert_refused(&s, below("save/step-00000001"), GAL_ERR_DOCUMENT, "16 hexadecimal digits");
    }
    change_file("save/step-00000001/index.json", offset, "0123456789abcdef\"");
    assert_refused(&s, below("save/step-00000001"), GAL_ERR_DOCUMENT, "index_checksum does not fit");
    edit_index(make_version_1);
    assert_refused(&s, below("save/step-00000001"), GAL_ERR_DOCUMENT, "the index says 0123456789abcdef");
    close_stage(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shards_of_every_strategy),
        cmocka_unit_test(test_save_keep_load),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_hashes_tell_layouts_apart),
        cmocka_unit_test(test_edited_index),
        cmocka_unit_test(test_falls_back),
        cmocka_unit_test(test_prunes_own),
        cmocka_unit_test(test_loss_scaling),
        cmocka_unit_test(test_checksum_digits),
    };
    return cmocka_run_group_tests(tests, gal_scratch_folder_make, gal_scratch_folder_remove);
}
