/* Import, export and conversion of Hetu-Galvatron's files: every form that is known is read, what is wrong is one clear
 * line, and plans come back as they were. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planner/galvatron/galvatron_files.h"
#include "schemas/base/file.h"
#include "schemas/document.h"
#include "tests/support/galvatron_files.h"

#define V240 GAL_PEER_FOLDER "v2.4.0/"
#define HARDWARE GAL_PEER_FOLDER "hardware/"

static char path_a[64], path_b[64];

static void write_text(const char *path, const char *text)
{
    assert_int_equal(gal_file_replace(path, text, strlen(text), NULL), GAL_OK);
}

/* ---- profiles ---- */

static gal_code import(const char *const *paths, uint32_t count, const gal_galvatron_layer_type *types,
                       uint32_t type_count, gal_galvatron_profile *out, gal_error *err)
{
    bool outside_missing = false;
    *out = (gal_galvatron_profile){.name = "test"};
    out->layer_type = calloc(type_count, sizeof *types);
    assert_non_null(out->layer_type);
    memcpy(out->layer_type, types, type_count * sizeof *types);
    out->layer_type_count = type_count;
    return gal_galvatron_import_profile(paths, count, out, &outside_missing, err);
}

static void test_units(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_galvatron_profile p;
    assert_int_equal(gal_peer_llama(&p, &err), GAL_OK);
    assert_int_equal(p.device_count, 8);
    assert_true(p.sequence_parallel);
    assert_int_equal(p.layer_time_count, 12);
    assert_int_equal(p.message_time_count, 66);
    assert_int_equal(p.outside_size_count, 12);
    /* 154.203 MB/ms, 0.07895 ms, 778.2236328125 MB, 4.396252679824831 ms */
    assert_true(p.all_reduce_rate[0].bytes_per_second == 154.203 * 1048576.0 * 1000.0);
    assert_true(p.message_time[0].seconds == 0.07895 * 1e-3 && p.message_time[0].message_bytes == 1048576);
    assert_true(p.layer_size[0].parameter_bytes == 816026624.0);
    assert_true(p.layer_time[0].seconds == 4.396252679824831 * 1e-3);
    gal_galvatron_profile_free(&p);
}

static void test_release_2_4_0(void **state)
{
    (void)state;
    static const char *const paths[] = {
        HARDWARE "allreduce_bandwidth_1nodes_4gpus_per_node.json", HARDWARE "p2p_bandwidth_1nodes_4gpus_per_node.json",
        HARDWARE "overlap_coefficient.json", V240 "computation.json", V240 "memory.json"};
    const gal_galvatron_layer_type type = {2, 64, 2048};
    gal_error err = {0};
    gal_galvatron_profile p;
    assert_int_equal(import(paths, 5, &type, 1, &p, &err), GAL_OK);
    assert_int_equal(p.device_count, 4);
    assert_false(p.sequence_parallel);
    /* A key without a batch comes first and is of one sample; lengths are the model's. */
    assert_int_equal(p.layer_time_count, 3);
    assert_int_equal(p.layer_time[2].batch_samples, 2);
    assert_int_equal(p.layer_time[2].sequence_length, 2048);
    assert_int_equal(p.outside_time_count, 2);
    assert_int_equal(p.outside_time[1].batch_samples, 2);
    /* Plain numbers are of one device. */
    assert_int_equal(p.outside_size_count, 3);
    assert_int_equal(p.outside_size[2].place, GAL_GALVATRON_LAST_STAGE);
    assert_int_equal(p.outside_size[2].degree, 1);
    assert_true(p.outside_size[2].state_bytes == 3431.0 * 1048576.0);
    assert_int_equal(p.activation_count, 4);
    gal_galvatron_profile_free(&p);
}

static void test_layer_types(void **state)
{
    (void)state;
    static const char *const paths[] = {
        HARDWARE "allreduce_bandwidth_2nodes_8gpus_per_node.json", HARDWARE "p2p_bandwidth_2nodes_8gpus_per_node.json",
        HARDWARE "overlap_coefficient.json", V240 "computation_types.json", V240 "memory_types.json"};
    const gal_galvatron_layer_type types[] = {{4, 64, 512}, {2, 32, 128}};
    gal_error err = {0};
    gal_galvatron_profile p;
    assert_int_equal(import(paths, 5, types, 2, &p, &err), GAL_OK);
    assert_int_equal(p.device_count, 16);
    assert_int_equal(p.layer_time[1].layer_type, 1);
    assert_int_equal(p.layer_time[1].sequence_length, 128);
    assert_int_equal(p.outside_time[0].sequence_length, 512); /* of "[512,128]" the first type's */
    assert_int_equal(p.outside_size_count, 6);
    assert_int_equal(p.outside_size[1].sequence_length, 512);
    gal_galvatron_profile_free(&p);
    assert_int_equal(import(paths, 5, types, 1, &p, &err), GAL_ERR_DOCUMENT);
    assert_non_null(strstr(err.text, "/layertype_1_bsz1_seq128: is of layer type 1, and the model has 1"));
    gal_galvatron_profile_free(&p);
}

/* What stands in one file beside the tables that are needed, and the error behind the file's name. */
static const struct {
    const char *text, *error;
} hostile_profiles[] = {
    {"{", "1:2: expected a key in quotes, got the end of the text"},
    {"[]", "1:1: /: must be an object, got an array"},
    {"{\"allreduce_size_8_consec_1\": NaN}", NULL},
    {"{\"allreduce_size_8_consec_1\": \"fast\"}", "1:31: /allreduce_size_8_consec_1: must be a number, got \"fast\""},
    {"{\"allreduce_size_8_consec_1\": 0}", "1:31: /allreduce_size_8_consec_1: must be >= 1e-12, got 0"},
    {"{\"allreduce_size_8_consec_2\": 1}",
     "1:31: /allreduce_size_8_consec_2: is no key of a profile of Hetu-Galvatron, got 1"},
    {"{\"allreduce_size_0_consec_1\": 1}",
     "1:31: /allreduce_size_0_consec_1: has 0 in its key, which must be 1 to 1048576, got 1"},
    {"{\"allreduce_size_99999999999_consec_1\": 1}",
     "1:41: /allreduce_size_99999999999_consec_1: is no key of a profile of Hetu-Galvatron, got 1"},
    {"{\"overlap_coe\": 0.5}", "1:17: /overlap_coe: must be >= 1, got 0.5"},
    {"{\"layertype_0_bsz1_seqlong\": 1}",
     "1:30: /layertype_0_bsz1_seqlong: has 0 in its key, which must be 1 to 4194304, got 1"},
    {"{\"layertype_0_bsz1x\": 1}", "1:23: /layertype_0_bsz1x: is no key of a profile of Hetu-Galvatron, got 1"},
    {"{\"layertype_7_bsz1_seq8\": 1}",
     "1:27: /layertype_7_bsz1_seq8: is of layer type 7, and the model has 1 (--layers, --hidden, --sequence take "
     "lists), got 1"},
    {"{\"layertype_0_bsz1_seq8\": -1}", "1:27: /layertype_0_bsz1_seq8: must be >= 0, got -1"},
    {"{\"layertype_0_sp\": {\"8\": {\"parameter_size\": 1}}}",
     "1:26: /layertype_0_sp/8: key \"tp_activation_per_bsz_dict\" is missing"},
    {"{\"layertype_0_sp\": {\"8\": {\"parameter_size\": 1, \"tp_activation_per_bsz_dict\": {\"1\": 1}}}}",
     "1:78: /layertype_0_sp/8/tp_activation_per_bsz_dict: key \"checkpoint\" is missing"},
    {"{\"layertype_0_sp\": {\"8\": {\"parameter_size\": 1e99, \"tp_activation_per_bsz_dict\": {\"checkpoint\": 1}}}}",
     "1:45: /layertype_0_sp/8/parameter_size: must be <= 8589934592, got 1e99"},
    {"{\"layertype_0\": {\"parameter_size\": 1, \"tp_activation_per_bsz_dict\": {\"checkpoint\": 1, \"many\": 1}}}",
     "1:95: /layertype_0/tp_activation_per_bsz_dict/many: must have a degree or \"checkpoint\" for its key, got 1"},
    {"{\"other_memory_pp_off\": {\"model_states\": {\"1\": 1, \"2\": 1}, \"activation\": {\"1\": 1}}}",
     "1:74: /other_memory_pp_off/activation: key \"2\" is missing"},
    {"{\"bandwidth\": 3}", "1:15: /bandwidth: is no key of a profile of Hetu-Galvatron, got 3"},
};

static void test_hostile_profiles(void **state)
{
    (void)state;
    const gal_galvatron_layer_type type = {2, 64, 8};
    const char *const paths[] = {path_a};
    int wrong = 0;
    for (size_t i = 0; i < sizeof hostile_profiles / sizeof hostile_profiles[0]; i++) {
        gal_error err = {0};
        gal_galvatron_profile p;
        write_text(path_a, hostile_profiles[i].text);
        assert_int_equal(import(paths, 1, &type, 1, &p, &err), GAL_ERR_DOCUMENT);
        gal_galvatron_profile_free(&p);
        assert_memory_equal(err.text, path_a, strlen(path_a));
        const char *said = err.text + strlen(path_a) + 1;
        if (hostile_profiles[i].error != NULL && strcmp(said, hostile_profiles[i].error) != 0) {
            print_error("%s\n  got      %s\n  expected %s\n", hostile_profiles[i].text, said,
                        hostile_profiles[i].error);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

/* Each of the files that every price needs, left out. */
static void test_missing_files(void **state)
{
    (void)state;
    static const char *const paths[] = {HARDWARE "allreduce_bandwidth_1nodes_4gpus_per_node.json",
                                        HARDWARE "overlap_coefficient.json", V240 "computation.json",
                                        V240 "memory.json"};
    static const char *const missing[] = {"no all-reduce bandwidths", "no overlap coefficient",
                                          "no computation profile", "no memory profile"};
    const gal_galvatron_layer_type type = {2, 64, 2048};
    for (uint32_t left_out = 0; left_out < 4; left_out++) {
        const char *rest[3];
        uint32_t count = 0;
        gal_error err = {0};
        gal_galvatron_profile p;
        for (uint32_t i = 0; i < 4; i++) {
            if (i != left_out) {
                rest[count++] = paths[i];
            }
        }
        assert_int_equal(import(rest, count, &type, 1, &p, &err), GAL_ERR_DOCUMENT);
        assert_memory_equal(err.text, missing[left_out], strlen(missing[left_out]));
        gal_galvatron_profile_free(&p);
    }
}

/* Cut after each byte: refused, or read. */
static void test_truncated(void **state)
{
    (void)state;
    const gal_galvatron_layer_type type = {2, 64, 2048};
    const char *const paths[] = {path_a};
    char *text = NULL;
    size_t byte_count = 0;
    assert_int_equal(gal_file_read(V240 "memory.json", 1 << 20, &text, &byte_count, NULL), GAL_OK);
    for (size_t cut = 0; cut + 2 < byte_count; cut++) {
        gal_error err = {0};
        gal_galvatron_profile p;
        gal_galvatron_plan plan = {0};
        assert_int_equal(gal_file_replace(path_a, text, cut, NULL), GAL_OK);
        assert_int_equal(import(paths, 1, &type, 1, &p, &err), GAL_ERR_DOCUMENT);
        gal_galvatron_profile_free(&p);
        assert_int_equal(gal_galvatron_import_plan(path_a, 8, &plan, NULL), GAL_ERR_DOCUMENT);
    }
    free(text);
}

/* ---- strategies ---- */

#define STRATEGY(world, rest)                                                                                          \
    "{\"pp_deg\": 2, \"tp_sizes_enc\": \"2,4,1\", \"global_bsz\": 8, \"chunks\": 2, \"pp_division\": \"1,2\","         \
    "\"pipeline_type\": \"gpipe\", \"default_dp_type\": \"ddp\", \"vtp\": 2" world rest "}"

static void test_older_strategy(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_galvatron_plan plan = {0};
    write_text(path_a, STRATEGY("", ""));
    assert_int_equal(gal_galvatron_import_plan(path_a, 0, &plan, &err), GAL_ERR_DOCUMENT);
    assert_non_null(strstr(err.text, "has no world_size: give --devices"));
    assert_int_equal(gal_galvatron_import_plan(path_a, 8, &plan, NULL), GAL_OK);
    assert_int_equal(plan.run_count, 3);
    assert_int_equal(plan.run[1].strategy.degree, 4);
    assert_int_equal(plan.schedule, GAL_SCHEDULE_GPIPE);
    assert_int_equal(plan.stage_layer_count[1], 2);
    assert_false(plan.outside.zero3);
    gal_galvatron_plan_free(&plan);
    /* The name that its runtime reads counts too. */
    write_text(path_a, STRATEGY("", ", \"vocab_sdp\": 1"));
    assert_int_equal(gal_galvatron_import_plan(path_a, 8, &plan, NULL), GAL_OK);
    assert_true(plan.outside.zero3);
    gal_galvatron_plan_free(&plan);
}

static const struct {
    const char *text, *error; /* the error holds it */
} hostile_strategies[] = {
    {STRATEGY(", \"world_size\": 4", ""), "/world_size: must be --devices, which is 8"},
    {STRATEGY("", ", \"use_sp\": \"0,0\""), "/use_sp: must have the 3 layers of tp_sizes_enc"},
    {STRATEGY("", ", \"use_sp\": \"0,0,2\""), "/use_sp: must be at most 4096 numbers from 0 to 1 with commas"},
    {STRATEGY("", ", \"use_sp\": \"0,,0\""), "/use_sp: must be at most 4096 numbers from 0 to 1 with commas"},
    {STRATEGY("", ", \"use_sp\": [0, 0, 0]"), "/use_sp: must be a string"},
    {STRATEGY("", ", \"checkpoint\": \"99999999999,0,0\""), "/checkpoint: must be at most 4096 numbers"},
    {STRATEGY("", ", \"tp_consecutive_flags\": \"1,0,1\""),
     "/tp_consecutive_flags: must be 1 where tp_sizes_enc is above 1"},
    {STRATEGY("", ", \"embed_sdp\": 1, \"vocab_sdp\": 0"), "/vocab_sdp: must be embed_sdp"},
    {STRATEGY("", ", \"cp_sizes_enc\": \"1,2,1\""), "/cp_sizes_enc: must be 1 everywhere: context and expert"},
    {STRATEGY("", ", \"vcp\": 2"), "/vcp: must be 1: context parallelism has no price"},
    {STRATEGY("", ", \"chunk\": 2"), "/chunk: unknown key, did you mean \"chunks\"?"},
    {"{\"pp_deg\": 3, \"tp_sizes_enc\": \"1\"}", "key \"global_bsz\" is missing"},
    {"{\"pp_deg\": 1e9}", "/pp_deg: must be a whole number"},
    {"{\"pp_deg\": 2, \"tp_sizes_enc\": \"8,1\", \"global_bsz\": 8, \"chunks\": 2, \"pp_division\": \"1,1\","
     "\"pipeline_type\": \"gpipe\", \"default_dp_type\": \"ddp\", \"vtp\": 1}",
     "as a galvatron_plan: /runs/0/degree: must divide the 4 devices of a stage"},
    {"{\"pp_deg\": 2, \"tp_sizes_enc\": \"1,1\", \"global_bsz\": 8, \"chunks\": 2, \"pp_division\": \"2\","
     "\"pipeline_type\": \"gpipe\", \"default_dp_type\": \"ddp\", \"vtp\": 1}",
     "/pp_division: must have the 2 stages of pp_deg"},
};

static void test_hostile_strategies(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof hostile_strategies / sizeof hostile_strategies[0]; i++) {
        gal_error err = {0};
        gal_galvatron_plan plan = {0};
        write_text(path_a, hostile_strategies[i].text);
        assert_int_equal(gal_galvatron_import_plan(path_a, 8, &plan, &err), GAL_ERR_DOCUMENT);
        if (strstr(err.text, hostile_strategies[i].error) == NULL) {
            print_error("got %s\n  expected %s\n", err.text, hostile_strategies[i].error);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

static void same_text(const char *a, const char *b)
{
    char *first = NULL;
    char *second = NULL;
    size_t first_bytes = 0;
    size_t second_bytes = 0;
    assert_int_equal(gal_file_read(a, 1 << 20, &first, &first_bytes, NULL), GAL_OK);
    assert_int_equal(gal_file_read(b, 1 << 20, &second, &second_bytes, NULL), GAL_OK);
    assert_string_equal(first, second);
    free(first);
    free(second);
}

/* Its searched plans, written again: what was written is read to the same, and what is written of that has equal
 * bytes. */
static void test_export(void **state)
{
    (void)state;
    gal_peer_row rows[GAL_PEER_ROWS];
    gal_error err = {0};
    assert_true(gal_peer_rows(rows));
    for (uint32_t i = 0; i < GAL_PEER_ROWS; i++) {
        gal_galvatron_plan plan = {0};
        gal_galvatron_plan back = {0};
        char *text = NULL;
        size_t byte_count = 0;
        assert_int_equal(gal_peer_plan(rows[i].file, &plan, &err), GAL_OK);
        assert_int_equal(gal_galvatron_export_plan(path_a, &plan, &err), GAL_OK);
        assert_int_equal(gal_file_read(path_a, 1 << 20, &text, &byte_count, NULL), GAL_OK);
        assert_non_null(strstr(text, plan.outside.zero3 ? "\"embed_sdp\": 1" : "\"embed_sdp\": 0"));
        assert_non_null(strstr(text, plan.outside.zero3 ? "\"vocab_sdp\": 1" : "\"vocab_sdp\": 0"));
        free(text);
        assert_int_equal(gal_galvatron_import_plan(path_a, 0, &back, &err), GAL_OK);
        memcpy(back.name, plan.name, sizeof back.name);
        assert_int_equal(gal_galvatron_plan_write(path_a, &plan, &err), GAL_OK);
        assert_int_equal(gal_galvatron_plan_write(path_b, &back, &err), GAL_OK);
        same_text(path_a, path_b);
        gal_galvatron_plan_free(&back);
        gal_galvatron_plan_free(&plan);
    }
}

/* ---- as plans of ours ---- */

static void test_plans_and_back(void **state)
{
    (void)state;
    gal_peer_row rows[GAL_PEER_ROWS];
    gal_error err = {0};
    gal_model model;
    gal_cluster cluster;
    uint32_t splits = 0; /* runs with Ulysses */
    assert_true(gal_peer_rows(rows));
    assert_int_equal(gal_model_read("llama2-7b", &model, &err), GAL_OK);
    assert_int_equal(gal_cluster_read("h100-8", &cluster, &err), GAL_OK);
    for (uint32_t i = 0; i < GAL_PEER_ROWS; i++) {
        gal_galvatron_plan theirs = {0};
        gal_galvatron_plan back = {0};
        gal_plan ours = {0};
        err = (gal_error){0};
        assert_int_equal(gal_peer_plan(rows[i].file, &theirs, &err), GAL_OK);
        assert_int_equal(gal_galvatron_plan_to(&theirs, &model, &cluster, &ours, &err), GAL_OK);
        for (uint32_t r = 0; r < ours.run_count; r++) {
            splits += gal_strategy_degree(&ours.run[r].strategy, GAL_AXIS_ULYSSES) > 1;
        }
        assert_int_equal(gal_galvatron_plan_of(&ours, &back, &err), GAL_OK);
        memcpy(back.name, theirs.name, sizeof back.name);
        assert_int_equal(gal_galvatron_plan_write(path_a, &theirs, &err), GAL_OK);
        assert_int_equal(gal_galvatron_plan_write(path_b, &back, &err), GAL_OK);
        same_text(path_a, path_b);
        gal_plan_free(&ours);
        gal_galvatron_plan_free(&back);
        gal_galvatron_plan_free(&theirs);
    }
    assert_true(splits >= 3); /* 20, 24 and 36 GB use it */
}

/* Plans that its strategies cannot say, each by one change of a fixture. */
static void test_not_to_be_said(void **state)
{
    (void)state;
    gal_plan plan = {0};
    gal_error err = {0};
    gal_galvatron_plan out = {0};
    assert_int_equal(gal_plan_read("tests/fixtures/valid/plan_interleaved.json", &plan, &err), GAL_OK);
    assert_int_equal(gal_galvatron_plan_of(&plan, &out, &err), GAL_ERR_DOCUMENT);
    assert_string_equal(err.text, "/schedule: Hetu-Galvatron has no schedule interleaved");
    gal_plan_free(&plan);
    err = (gal_error){0};
    assert_int_equal(gal_plan_read("tests/fixtures/valid/plan_serial.json", &plan, &err), GAL_OK);
    assert_int_equal(gal_galvatron_plan_of(&plan, &out, &err), GAL_OK);
    gal_galvatron_plan_free(&out);
    plan.run[0].strategy.recompute = GAL_RECOMPUTE_SELECTIVE;
    assert_int_equal(gal_galvatron_plan_of(&plan, &out, &err), GAL_ERR_DOCUMENT);
    assert_string_equal(err.text, "block 0: Hetu-Galvatron has no selective recompute");
    err = (gal_error){0};
    plan.run[0].strategy =
        (gal_strategy){.axis_count = 2, .axis = {{GAL_AXIS_DP, 2}, {GAL_AXIS_SDP, 2}}, .zero_stage = 2};
    assert_int_equal(gal_galvatron_plan_of(&plan, &out, &err), GAL_ERR_DOCUMENT);
    assert_string_equal(err.text, "block 0: Hetu-Galvatron has no replicas of both kinds, DP and SDP");
    err = (gal_error){0};
    plan.run[0].strategy = (gal_strategy){.axis_count = 1, .axis = {{GAL_AXIS_SDP, 4}}, .zero_stage = 1};
    assert_int_equal(gal_galvatron_plan_of(&plan, &out, &err), GAL_ERR_DOCUMENT);
    assert_string_equal(err.text, "block 0: Hetu-Galvatron has no ZeRO 1");
    err = (gal_error){0};
    plan.run[0].strategy = (gal_strategy){.axis_count = 2, .axis = {{GAL_AXIS_DP, 2}, {GAL_AXIS_TP, 2}}};
    assert_int_equal(gal_galvatron_plan_of(&plan, &out, &err), GAL_ERR_DOCUMENT);
    assert_string_equal(err.text,
                        "block 0: Hetu-Galvatron has no tensor parallelism over devices that are no neighbours");
    err = (gal_error){0};
    plan.run[0].strategy = (gal_strategy){.axis_count = 2, .axis = {{GAL_AXIS_DP, 2}, {GAL_AXIS_ULYSSES, 2}}};
    assert_int_equal(gal_galvatron_plan_of(&plan, &out, &err), GAL_ERR_DOCUMENT);
    assert_string_equal(err.text, "block 0: Hetu-Galvatron has no Ulysses over devices that are no neighbours");
    err = (gal_error){0};
    plan.run[0].strategy =
        (gal_strategy){.axis_count = 2, .axis = {{GAL_AXIS_ULYSSES, 2}, {GAL_AXIS_DP, 2}}, .zero_stage = 3};
    assert_int_equal(gal_galvatron_plan_of(&plan, &out, &err), GAL_ERR_DOCUMENT);
    assert_string_equal(err.text, "block 0: Hetu-Galvatron has no states sharded along Ulysses and not over replicas");
    err = (gal_error){0};
    plan.run[0].strategy = (gal_strategy){.axis_count = 2, .axis = {{GAL_AXIS_ULYSSES, 2}, {GAL_AXIS_TP, 2}}};
    assert_int_equal(gal_galvatron_plan_of(&plan, &out, &err), GAL_ERR_DOCUMENT);
    assert_string_equal(err.text, "block 0: Hetu-Galvatron has no layer split by tensors and by Ulysses");
    err = (gal_error){0};
    plan.run[0].strategy = (gal_strategy){.axis_count = 1, .axis = {{GAL_AXIS_TP, 2}}};
    assert_int_equal(gal_galvatron_plan_of(&plan, &out, &err), GAL_ERR_DOCUMENT);
    assert_string_equal(err.text,
                        "block 0: Hetu-Galvatron has no tensor parallelism without sequence parallelism in a strategy");
    gal_plan_free(&plan);
}

static void test_other_models(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_galvatron_plan plan = {0};
    gal_plan ours = {0};
    gal_model model;
    gal_cluster cluster;
    assert_int_equal(gal_peer_plan("searched/llama2-7b_8gpus_80GB_bsz64_chunks8.json", &plan, &err), GAL_OK);
    assert_int_equal(gal_model_read("t5-large-32", &model, &err), GAL_OK);
    assert_int_equal(gal_cluster_read("h100-8", &cluster, &err), GAL_OK);
    assert_int_equal(gal_galvatron_plan_to(&plan, &model, &cluster, &ours, &err), GAL_ERR_DOCUMENT);
    assert_string_equal(err.text, "the plan has 32 layers of attention and FFN, the model t5-large-32 has others");
    err = (gal_error){0};
    assert_int_equal(gal_model_read("llama2-7b", &model, &err), GAL_OK);
    assert_int_equal(gal_cluster_read("a100-16", &cluster, &err), GAL_OK);
    assert_int_equal(gal_galvatron_plan_to(&plan, &model, &cluster, &ours, &err), GAL_ERR_DOCUMENT);
    assert_string_equal(err.text, "the plan is for 8 devices, the cluster has 16");
    gal_galvatron_plan_free(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_units),          cmocka_unit_test(test_release_2_4_0),
                                       cmocka_unit_test(test_layer_types),    cmocka_unit_test(test_hostile_profiles),
                                       cmocka_unit_test(test_missing_files),  cmocka_unit_test(test_truncated),
                                       cmocka_unit_test(test_older_strategy), cmocka_unit_test(test_hostile_strategies),
                                       cmocka_unit_test(test_export),         cmocka_unit_test(test_plans_and_back),
                                       cmocka_unit_test(test_not_to_be_said), cmocka_unit_test(test_other_models)};
    char folder[] = "/tmp/gal_galvatron_XXXXXX";
    if (mkdtemp(folder) == NULL) {
        perror("mkdtemp");
        return 1;
    }
    (void)snprintf(path_a, sizeof path_a, "%s/a.json", folder);
    (void)snprintf(path_b, sizeof path_b, "%s/b.json", folder);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path_a);
    (void)unlink(path_b);
    (void)rmdir(folder);
    return failed;
}
