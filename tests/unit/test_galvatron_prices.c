/* The price provider `galvatron`: its own predictions come back, and its formulas by hand on round numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "costmodel/galvatron.h"
#include "planner/galvatron/galvatron_files.h"
#include "tests/support/galvatron_files.h"

/* What its own fits of curves leave open is below this. */
#define CLOSE 1e-6

static void is_close(double got, double expected, double relative)
{
    if (!(fabs(got - expected) <= relative * fabs(expected))) {
        print_error("got %.17g, expected %.17g\n", got, expected);
        fail();
    }
}

static double throughput(const gal_galvatron_profile *profile, const gal_galvatron_plan *plan)
{
    gal_error err = {0};
    gal_galvatron_tables *tables = NULL;
    gal_galvatron_price price = {0};
    assert_int_equal(gal_galvatron_tables_create(profile, &tables, &err), GAL_OK);
    assert_int_equal(gal_galvatron_price_plan(tables, plan, &price, &err), GAL_OK);
    const double result = price.samples_per_second;
    gal_galvatron_price_free(&price);
    gal_galvatron_tables_free(tables);
    return result;
}

static void test_searched_plans(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_galvatron_profile profile;
    gal_peer_row rows[GAL_PEER_ROWS];
    assert_int_equal(gal_peer_llama(&profile, &err), GAL_OK);
    assert_true(gal_peer_rows(rows));
    for (uint32_t i = 0; i < GAL_PEER_ROWS; i++) {
        gal_galvatron_plan plan = {0};
        assert_int_equal(gal_peer_plan(rows[i].file, &plan, &err), GAL_OK);
        is_close(throughput(&profile, &plan), rows[i].samples_per_second, CLOSE);
        gal_galvatron_plan_free(&plan);
    }
    gal_galvatron_profile_free(&profile);
}

/* What tests/search_engine/test_parallelsim_optimization.py of that project asserts. */
static void test_golden(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_galvatron_profile profile;
    gal_galvatron_plan plan = {0};
    assert_int_equal(gal_peer_seq8192(&profile, &err), GAL_OK);
    assert_int_equal(gal_peer_plan("seq8192/golden_plan.json", &plan, &err), GAL_OK);
    is_close(throughput(&profile, &plan), 2.6485091403918064, CLOSE);
    gal_galvatron_plan_free(&plan);
    gal_galvatron_profile_free(&profile);
}

/* The notes on its search: batch 15 on 8 replicas, "29.30 samples/s", 8 samples of which are priced. Ours refuse it. */
static void test_batch_that_does_not_divide(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_galvatron_profile profile;
    gal_galvatron_plan plan = {0};
    gal_plan ours = {0};
    gal_model model;
    gal_cluster cluster;
    assert_int_equal(gal_peer_llama(&profile, &err), GAL_OK);
    assert_int_equal(gal_peer_plan("searched/llama2-7b_8gpus_80GB_bsz64_chunks8.json", &plan, &err), GAL_OK);
    assert_int_equal(gal_model_read("llama2-7b", &model, &err), GAL_OK);
    assert_int_equal(gal_cluster_read("h100-8", &cluster, &err), GAL_OK);
    assert_int_equal(gal_galvatron_plan_to(&plan, &model, &cluster, &ours, &err), GAL_OK);
    gal_plan_free(&ours);
    plan.global_batch_samples = 15;
    plan.microbatch_count = 1;
    const double fifteen = throughput(&profile, &plan);
    plan.global_batch_samples = 8;
    is_close(fifteen, throughput(&profile, &plan) * 15.0 / 8.0, 1e-12);
    plan.global_batch_samples = 15;
    assert_int_equal(gal_galvatron_plan_to(&plan, &model, &cluster, &ours, &err), GAL_ERR_DOCUMENT);
    assert_non_null(strstr(err.text, "must divide"));
    gal_galvatron_plan_free(&plan);
    gal_galvatron_profile_free(&profile);
}

/* ---- by hand ---- */

/* One layer type of 2 layers, 1 sample = 4 x 256 elements of 4 bytes = 4096 bytes; forward 1 s a sample; 1 byte/s of an
 * all-reduce; slowdown 2; an all-reduce among 2 takes 10 s, an all-to-all 6 s, whatever the size. */
typedef struct by_hand {
    gal_galvatron_layer_type type;
    gal_galvatron_layer_time time;
    gal_galvatron_layer_size size;
    gal_galvatron_activation activation[2];
    gal_galvatron_outside_time outside_time;
    gal_galvatron_outside_size outside_size[6];
    gal_galvatron_all_reduce_rate rate[3];
    gal_galvatron_p2p_rate p2p;
    gal_galvatron_message_time message[2];
    gal_galvatron_profile profile;
    gal_galvatron_tables *tables;
    gal_galvatron_job job;
} by_hand;

static void begin(by_hand *h)
{
    gal_error err = {0};
    *h = (by_hand){
        .type = {2, 256, 4},
        .time = {0, 1, 4, 1.0},
        .size = {0, 4, 12.0, 3.0},
        .activation = {{0, 4, 1, 40.0}, {0, 4, 2, 20.0}},
        .outside_time = {1, 4, 0.5},
        .outside_size = {{GAL_GALVATRON_ONLY_STAGE, 4, 1, 64.0, 5.0},
                         {GAL_GALVATRON_ONLY_STAGE, 4, 2, 32.0, 3.0},
                         {GAL_GALVATRON_FIRST_STAGE, 4, 1, 40.0, 2.0},
                         {GAL_GALVATRON_FIRST_STAGE, 4, 2, 20.0, 1.0},
                         {GAL_GALVATRON_LAST_STAGE, 4, 1, 24.0, 3.0},
                         {GAL_GALVATRON_LAST_STAGE, 4, 2, 12.0, 2.0}},
        .rate = {{4, false, 1.0}, {2, false, 2.0}, {2, true, 1.0}},
        .p2p = {2, 4096.0},
        .message = {{GAL_GALVATRON_ALL_REDUCE, 2, 4096, 10.0}, {GAL_GALVATRON_ALL_TO_ALL, 2, 4096, 6.0}},
        .job = {.device_count = 4,
                .pp_degree = 1,
                .global_batch_samples = 8,
                .microbatch_count = 2,
                .schedule = GAL_SCHEDULE_1F1B,
                .data_parallel = GAL_GALVATRON_ZERO2},
    };
    h->profile = (gal_galvatron_profile){.name = "by hand",
                                         .dtype = GAL_GALVATRON_FP32,
                                         .sequence_parallel = true,
                                         .overlap_slowdown = 2.0,
                                         .layer_type_count = 1,
                                         .layer_time_count = 1,
                                         .layer_size_count = 1,
                                         .activation_count = 2,
                                         .outside_time_count = 1,
                                         .outside_size_count = 6,
                                         .all_reduce_rate_count = 3,
                                         .p2p_rate_count = 1,
                                         .message_time_count = 2,
                                         .layer_type = &h->type,
                                         .layer_time = &h->time,
                                         .layer_size = &h->size,
                                         .activation = h->activation,
                                         .outside_time = &h->outside_time,
                                         .outside_size = h->outside_size,
                                         .all_reduce_rate = h->rate,
                                         .p2p_rate = &h->p2p,
                                         .message_time = h->message};
    assert_int_equal(gal_galvatron_tables_create(&h->profile, &h->tables, &err), GAL_OK);
}

static gal_galvatron_seconds seconds_of(const by_hand *h, gal_galvatron_strategy strategy)
{
    gal_error err = {0};
    gal_galvatron_seconds out;
    assert_int_equal(gal_galvatron_layer_seconds(h->tables, &h->job, 0, &strategy, &out, &err), GAL_OK);
    return out;
}

static void test_layer_seconds(void **state)
{
    (void)state;
    by_hand h;
    begin(&h);
    /* 4 replicas, 8 / 2 / 4 = 1 sample: forward 1, backward 2. Gradients 2 * 3/4 * 12 = 18 bytes, 18 s beside 2 s:
     * 2 * 2 + 16. ZeRO 3 gathers half of them once more: 9 s. */
    gal_galvatron_seconds s = seconds_of(&h, (gal_galvatron_strategy){.degree = 1});
    is_close(s.plain, 3.0, 1e-15);
    is_close(s.synced, 21.0, 1e-15);
    s = seconds_of(&h, (gal_galvatron_strategy){.degree = 1, .zero3 = true});
    is_close(s.plain, 12.0, 1e-15);
    is_close(s.synced, 30.0, 1e-15);
    /* Two devices split it, 2 replicas of 2 samples: forward 1, backward 2; 6 half all-reduces 30 s. Gradients of 6
     * bytes among devices that are no neighbours: 2 * 1/2 * 6 = 6 bytes, 6 s: 2 * 2 + 4. */
    s = seconds_of(&h, (gal_galvatron_strategy){.degree = 2});
    is_close(s.plain, 33.0, 1e-15);
    is_close(s.synced, 39.0, 1e-15);
    /* Recompute: backward 3, half as many collectives again; 6 s beside 3 s: 2 * 3 + 3. */
    s = seconds_of(&h, (gal_galvatron_strategy){.degree = 2, .recompute = true});
    is_close(s.plain, 1.0 + 3.0 + 45.0, 1e-15);
    is_close(s.synced, 1.0 + 9.0 + 45.0, 1e-15);
    /* Ulysses: 4 all-to-alls, states shard over all 4: gradients as of 4 replicas. */
    s = seconds_of(&h, (gal_galvatron_strategy){.degree = 2, .ulysses = true});
    is_close(s.plain, 27.0, 1e-15);
    is_close(s.synced, 1.0 + 20.0 + 24.0, 1e-15);
    /* Two stages: 2 replicas of 2 samples; 2 stages x 2 directions x 8192 bytes / 4096 byte/s over 2 layers: 4 s. */
    h.job.pp_degree = 2;
    s = seconds_of(&h, (gal_galvatron_strategy){.degree = 1});
    is_close(s.plain, 6.0 + 4.0, 1e-15);
    gal_galvatron_tables_free(h.tables);
}

static double bytes_of(const by_hand *h, gal_galvatron_strategy strategy, uint32_t stage)
{
    gal_error err = {0};
    double out;
    assert_int_equal(gal_galvatron_layer_bytes(h->tables, &h->job, 0, &strategy, stage, &out, &err), GAL_OK);
    return out;
}

static void test_layer_bytes(void **state)
{
    (void)state;
    by_hand h;
    begin(&h);
    const double shard = 0.25 + 0.003;
    /* States 4 * 12 bytes; fp32: gradients are a quarter of them. Accumulated as they come: ZeRO 2 keeps half whole,
     * ZeRO 3 a quarter. */
    is_close(bytes_of(&h, (gal_galvatron_strategy){.degree = 1}, 0), 48.0 * (0.5 * shard + 0.5) + 40.0, 1e-14);
    is_close(bytes_of(&h, (gal_galvatron_strategy){.degree = 1, .zero3 = true}, 0), 48.0 * (0.75 * shard + 0.25) + 40.0,
             1e-14);
    /* Two replicas of 2 samples, half the parameters; recompute keeps 3 bytes a sample, over both devices. */
    is_close(bytes_of(&h, (gal_galvatron_strategy){.degree = 2, .recompute = true}, 0),
             24.0 * (0.5 * 0.503 + 0.5) + 3.0, 1e-14);
    /* One replica has nothing to shard. */
    h.job.pp_degree = 2;
    is_close(bytes_of(&h, (gal_galvatron_strategy){.degree = 2, .zero3 = true}, 1), 24.0 + 4.0 * 20.0, 1e-14);
    /* The first of two stages holds two microbatches; under GPipe each holds all. */
    is_close(bytes_of(&h, (gal_galvatron_strategy){.degree = 2}, 0), 24.0 + 2.0 * 4.0 * 20.0, 1e-14);
    h.job.schedule = GAL_SCHEDULE_GPIPE;
    is_close(bytes_of(&h, (gal_galvatron_strategy){.degree = 2}, 1), 24.0 + 2.0 * 4.0 * 20.0, 1e-14);
    gal_galvatron_tables_free(h.tables);
}

static void test_outside(void **state)
{
    (void)state;
    by_hand h;
    begin(&h);
    gal_error err = {0};
    double got;
    const gal_galvatron_strategy plain = {.degree = 1};
    const gal_galvatron_strategy split = {.degree = 2, .zero3 = true};
    /* 1 sample: forward 0.5, backward 1; nothing to send. */
    assert_int_equal(gal_galvatron_outside_seconds(h.tables, &h.job, &plain, 0, &got, &err), GAL_OK);
    is_close(got, 1.5, 1e-15);
    /* Split: 2 samples over 2 devices; 2 all-gathers of 5 s; ZeRO 3 gathers 32 / 4 * 1/2 * 1/2 = 2 s under forward
     * (0.5 * 2 < 2: 2 s) and under backward (1 * 2, as long: 2 s). */
    assert_int_equal(gal_galvatron_outside_seconds(h.tables, &h.job, &split, 0, &got, &err), GAL_OK);
    is_close(got, 2.0 + 2.0 + 10.0, 1e-15);
    const double context = 1024.0 * 1048576.0;
    assert_int_equal(gal_galvatron_outside_bytes(h.tables, &h.job, &plain, 0, &got, &err), GAL_OK);
    is_close(got - context, 64.0 * (0.5 * 0.253 + 0.5) + 5.0, 1e-6);
    /* Two stages of two devices: half of the time on each, one all-gather on each. */
    h.job.pp_degree = 2;
    assert_int_equal(gal_galvatron_outside_seconds(h.tables, &h.job, &split, 1, &got, &err), GAL_OK);
    is_close(got, 0.5 * 1.5 * 4.0 / 2.0 + 5.0, 1e-15);
    gal_galvatron_tables_free(h.tables);
}

static void test_pipeline(void **state)
{
    (void)state;
    /* One stage, 4 microbatches: 4 * 3, and 5 - 3 of the last sum are exposed. */
    is_close(gal_galvatron_pipeline_seconds(1, 4, (double[]){3.0}, (double[]){5.0}), 14.0, 1e-15);
    /* Last stage slower: 2 + 5 + 5 * 3 = 22. First slower: max(5, 2) + 5 * (4 + 1 - 2) = 20 against 7 + 2 * 3. */
    is_close(gal_galvatron_pipeline_seconds(2, 4, (double[]){2.0, 5.0}, (double[]){0.0, 0.0}), 22.0, 1e-15);
    is_close(gal_galvatron_pipeline_seconds(2, 4, (double[]){5.0, 2.0}, (double[]){0.0, 0.0}), 20.0, 1e-15);
    /* The second stage's sum hides behind both: 9 - 7. */
    is_close(gal_galvatron_pipeline_seconds(2, 4, (double[]){5.0, 2.0}, (double[]){5.0, 9.0}), 22.0, 1e-15);
}

/* ---- what the tables do not say ---- */

static void test_missing_rows(void **state)
{
    (void)state;
    by_hand h;
    begin(&h);
    gal_error err = {0};
    gal_galvatron_seconds seconds;
    const gal_galvatron_strategy four = {.degree = 4, .ulysses = true};
    const gal_galvatron_strategy one = {.degree = 1};
    double bytes;
    assert_int_equal(gal_galvatron_layer_seconds(h.tables, &h.job, 0, &four, &seconds, &err), GAL_ERR_DOCUMENT);
    assert_string_equal(err.text, "profile by hand: no row for times of all-to-alls among devices: 4");
    err = (gal_error){0};
    assert_int_equal(gal_galvatron_layer_bytes(h.tables, &h.job, 0, &four, 0, &bytes, &err), GAL_ERR_DOCUMENT);
    assert_string_equal(err.text, "profile by hand: no row for activations of a layer split over devices: 4");
    err = (gal_error){0};
    h.job.global_batch_samples = 7;
    assert_int_equal(gal_galvatron_layer_seconds(h.tables, &h.job, 0, &one, &seconds, &err), GAL_ERR_DOCUMENT);
    assert_string_equal(err.text, "a replica gets no sample: batch 7 in 2 microbatches over 4 replicas");
    gal_galvatron_tables_free(h.tables);
}

/* ---- fits ---- */

/* seconds * samples = 3 samples + 5, so in mode `batch` a layer takes that; in mode `sequence` 2 x^2 - x + 7 at 30. */
static void test_fits(void **state)
{
    (void)state;
    by_hand h;
    begin(&h);
    gal_galvatron_tables_free(h.tables);
    gal_error err = {0};
    gal_galvatron_layer_time times[] = {{0, 1, 4, 8.0}, {0, 5, 4, 4.0}, {0, 2, 9, 100.0}};
    gal_galvatron_outside_time outside[] = {{1, 4, 2.0}, {2, 4, 1.0}};
    h.profile.layer_time = times;
    h.profile.layer_time_count = 3;
    h.profile.outside_time = outside;
    h.profile.outside_time_count = 2;
    h.profile.time_mode = GAL_GALVATRON_TIME_BATCH;
    assert_int_equal(gal_galvatron_tables_create(&h.profile, &h.tables, &err), GAL_OK);
    is_close(seconds_of(&h, (gal_galvatron_strategy){.degree = 1}).plain, 3.0 * 8.0, 1e-12);
    gal_galvatron_tables_free(h.tables);
    h.tables = NULL;

    gal_galvatron_layer_time curve[] = {{0, 1, 10, 197.0}, {0, 1, 20, 787.0}, {0, 1, 50, 4957.0}, {0, 2, 30, 1.0}};
    h.profile.layer_time = curve;
    h.profile.layer_time_count = 4;
    h.profile.time_mode = GAL_GALVATRON_TIME_SEQUENCE;
    h.type.sequence_length = 30;
    h.size.sequence_length = 30;
    outside[1] = (gal_galvatron_outside_time){1, 8, 4.0};
    assert_int_equal(gal_galvatron_tables_create(&h.profile, &h.tables, &err), GAL_OK);
    is_close(seconds_of(&h, (gal_galvatron_strategy){.degree = 1}).plain, 3.0 * 1777.0, 1e-12);
    gal_galvatron_tables_free(h.tables);
    h.tables = NULL;
    h.profile.layer_time_count = 2;
    assert_int_equal(gal_galvatron_tables_create(&h.profile, &h.tables, &err), GAL_ERR_DOCUMENT);
    assert_string_equal(err.text,
                        "profile by hand: /time_mode: sequence needs times of more batches or sequence lengths");
    assert_null(h.tables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_searched_plans),
                                       cmocka_unit_test(test_golden),
                                       cmocka_unit_test(test_batch_that_does_not_divide),
                                       cmocka_unit_test(test_layer_seconds),
                                       cmocka_unit_test(test_layer_bytes),
                                       cmocka_unit_test(test_outside),
                                       cmocka_unit_test(test_pipeline),
                                       cmocka_unit_test(test_missing_rows),
                                       cmocka_unit_test(test_fits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
