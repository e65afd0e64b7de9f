/* The profiler's parts that measure nothing: fits, levels, candidates, medians. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "profiler/bench.h"
#include "profiler/candidates.h"
#include "profiler/fit.h"
#include "profiler/topology.h"

/* 2 us and 4 GB/s: 4,000 bytes take 3 us, 400,000 take 102 us. */
static void test_link_is_found(void **state)
{
    (void)state;
    const gal_transfer exact[] = {{4e3, 3e-6}, {4e4, 12e-6}, {4e5, 102e-6}};
    double latency = 0.0, bandwidth = 0.0;
    gal_fit_link(exact, 3, &latency, &bandwidth);
    assert_float_equal(latency, 2e-6, 1e-12);
    assert_float_equal(bandwidth, 4e9, 1.0);
}

/* Seconds that grow faster than bytes would need a negative latency: 0 then. One transfer: its bandwidth. */
static void test_latency_is_not_negative(void **state)
{
    (void)state;
    const gal_transfer steep[] = {{1e3, 1e-6}, {1e4, 20e-6}};
    double latency = 1.0, bandwidth = 0.0;
    gal_fit_link(steep, 2, &latency, &bandwidth);
    assert_true(latency == 0.0 && bandwidth > 0.0);
    gal_fit_link(steep, 1, &latency, &bandwidth);
    assert_true(latency == 0.0);
    assert_float_equal(bandwidth, 1e9, 1.0);
    const gal_transfer falling[] = {{1e3, 2e-6}, {1e4, 1e-6}};
    gal_fit_link(falling, 2, &latency, &bandwidth);
    assert_true(latency >= 0.0 && bandwidth > 0.0);
}

/* Twice as long while both go on: 4 and 6 s alone are 4 x 2 s together and the last 2 alone. */
static void test_slowdown_of_runs(void **state)
{
    (void)state;
    assert_float_equal(gal_slowdown_of_runs(4.0, 6.0, 10.0), 2.0, 1e-12);
    assert_float_equal(gal_slowdown_of_runs(6.0, 4.0, 10.0), 2.0, 1e-12);
    assert_float_equal(gal_slowdown_of_runs(4.0, 6.0, 5.0), 1.0, 1e-12);
}

/* One way up to sixteen times as fast as the other, which takes 5 ms an item: of balanced runs an error of 5 % in what
 * both take is 6 % of the factor at most (the runs differ by half an item of four at most). Of four items each it was
 * 5 % of the longer run over the shorter one: 38 % of a factor of 2. */
static void test_balanced_runs_are_well_conditioned(void **state)
{
    (void)state;
    for (double ratio = 1.0; ratio <= 16.0; ratio += 0.25) {
        uint32_t items[2];
        const double item_seconds[] = {5e-3, 5e-3 / ratio}, factor = 2.0;
        gal_balance_runs(item_seconds, 4, 64, items);
        assert_int_equal(items[0], 4);
        const double one = items[0] * item_seconds[0], other = items[1] * item_seconds[1];
        const double both = fmin(one, other) * factor + fabs(one - other);
        assert_float_equal(gal_slowdown_of_runs(one, other, both), factor, 1e-9);
        assert_true(fabs(gal_slowdown_of_runs(one, other, 1.05 * both) / factor - 1.0) <= 0.06);
    }
    uint32_t items[2];
    gal_balance_runs((const double[]){1e-3, 1.0}, 4, 64, items);
    assert_true(items[0] == 64 && items[1] == 4);
}

/* 1 2 3 4: at 0.75, 1.5 and 2.25 places from the first. */
static void test_quartiles(void **state)
{
    (void)state;
    double value[] = {4.0, 1.0, 3.0, 2.0};
    assert_float_equal(gal_quartile(value, 4, 1), 1.75, 1e-15);
    assert_float_equal(gal_quartile(value, 4, 2), 2.5, 1e-15);
    assert_float_equal(gal_quartile(value, 4, 3), 3.25, 1e-15);
    assert_float_equal(gal_quartile(value, 1, 3), 1.0, 1e-15);
}

static void assert_levels(const gal_cluster *cluster, uint32_t count, const uint32_t *spans)
{
    assert_int_equal(cluster->level_count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(cluster->level[i].span_devices, spans[i]);
    }
}

static void test_levels(void **state)
{
    (void)state;
    gal_cluster cluster;
    const gal_rank_place one_machine[] = {{1, 1, 0, 0}, {1, 1, 0, 0}, {1, 1, 0, 0}, {1, 1, 0, 0}};
    const gal_rank_place two_machines[] = {{1, 1, 0, 0}, {1, 1, 0, 0}, {2, 2, 0, 0}, {2, 2, 0, 0}};
    const gal_rank_place packages[] = {{1, 10, 0, 0}, {1, 10, 0, 0}, {1, 11, 0, 0}, {1, 11, 0, 0},
                                       {2, 20, 0, 0}, {2, 20, 0, 0}, {2, 21, 0, 0}, {2, 21, 0, 0}};
    const gal_rank_place uneven[] = {{1, 1, 0, 0}, {1, 1, 0, 0}, {1, 1, 0, 0}, {2, 2, 0, 0}};
    const gal_rank_place scattered[] = {{1, 1, 0, 0}, {2, 2, 0, 0}, {3, 3, 0, 0}, {4, 4, 0, 0}};
    gal_topology_levels(one_machine, 4, &gal_host_levels, &cluster);
    assert_levels(&cluster, 1, (const uint32_t[]){4});
    gal_topology_levels(one_machine, 1, &gal_host_levels, &cluster);
    assert_levels(&cluster, 1, (const uint32_t[]){1});
    gal_topology_levels(two_machines, 4, &gal_host_levels, &cluster);
    assert_levels(&cluster, 2, (const uint32_t[]){2, 4});
    gal_topology_levels(packages, 8, &gal_host_levels, &cluster);
    assert_levels(&cluster, 3, (const uint32_t[]){2, 4, 8});
    assert_string_equal(cluster.level[2].name, "network");
    gal_topology_levels(uneven, 4, &gal_host_levels, &cluster);
    assert_levels(&cluster, 1, (const uint32_t[]){4});
    gal_topology_levels(scattered, 4, &gal_host_levels, &cluster);
    assert_levels(&cluster, 1, (const uint32_t[]){4});
}

/* Nodes of 2 under a network of 8: {0, 1} stays inside, {0, 2, 4, 6} meets one rank in each of 4 nodes. */
static void test_level_counts(void **state)
{
    (void)state;
    gal_cluster cluster = {.device_count = 8, .level_count = 2};
    cluster.level[0].span_devices = 2;
    cluster.level[1].span_devices = 8;
    const uint32_t inside[] = {0, 1}, across[] = {0, 2, 4, 6}, both[] = {0, 1, 2, 3};
    uint32_t counts[GAL_LINK_LEVELS_MAX];
    uint32_t units[3][GAL_LINK_LEVELS_MAX] = {{0}};
    gal_topology_count(&cluster, inside, 2, units[0]);
    gal_topology_level_counts(&cluster, units[0], 2, counts);
    assert_true(counts[0] == 2 && counts[1] == 1);
    gal_topology_count(&cluster, across, 4, units[1]);
    gal_topology_level_counts(&cluster, units[1], 4, counts);
    assert_true(counts[0] == 1 && counts[1] == 4);
    gal_topology_count(&cluster, both, 4, units[2]);
    gal_topology_level_counts(&cluster, units[2], 4, counts);
    assert_true(counts[0] == 2 && counts[1] == 2 && counts[2] == 1);
}

/* ---- candidates ---- */

static gal_model small_model(void)
{
    gal_model model;
    gal_model_defaults(&model);
    model.layer_count = 2;
    model.hidden = 32;
    model.head_count = 4;
    model.ffn_hidden = 64;
    model.sequence_length = 8;
    model.vocabulary = 100;
    model.vocabulary_multiple = 4;
    model.tied_embeddings = true;
    model.compute_dtype = GAL_FP32;
    model.global_batch_samples = 8;
    return model;
}

static gal_candidates list(const gal_model *model, uint32_t rank_count, gal_code expected)
{
    gal_cluster cluster = {.device_count = rank_count, .level_count = 1};
    cluster.level[0].span_devices = rank_count;
    const uint32_t microbatches[] = {1, 2};
    const gal_candidate_settings settings = {.model = model,
                                             .model_count = 1,
                                             .rank_count = rank_count,
                                             .cluster = &cluster,
                                             .microbatches = microbatches,
                                             .microbatches_count = 2};
    gal_candidates out = {0};
    gal_error err = {0};
    assert_int_equal(gal_candidates_list(&settings, &out, &err), expected);
    return out;
}

static const gal_candidate_operator *find(const gal_candidates *candidates, const gal_shape *shape)
{
    for (uint32_t i = 0; i < candidates->operator_count; i++) {
        if (memcmp(&candidates->operators[i].shape, shape, sizeof *shape) == 0) {
            return &candidates->operators[i];
        }
    }
    return NULL;
}

/* Every kernel of a stage but those of evaluation alone. */
static void assert_kernels_are_listed(const gal_candidates *all, const gal_plan *plan, uint32_t stage)
{
    gal_program *program = NULL;
    gal_error err = {0};
    assert_int_equal(gal_lower(plan, stage, &program, &err), GAL_OK);
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        const gal_instruction *in = &program->instruction[i];
        const gal_fragment *evaluate = &program->fragment[GAL_FRAGMENT_EVALUATE];
        if (!gal_op_is_collective[in->op] && i < evaluate->first) {
            assert_non_null(find(all, &program->shape[in->shape]));
        }
    }
    gal_program_free(program);
}

static uint32_t count_sends(const gal_candidates *all, uint64_t bytes)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < all->collective_count; i++) {
        count += all->collectives[i].shape.op == GAL_OP_SEND && all->collectives[i].bytes == bytes;
    }
    return count;
}

/* Two stages cut in the decoder: the rows of the source are sent too, 4 samples of 8 positions and 32 features. */
static void test_encoder_decoders_are_covered(void **state)
{
    (void)state;
    gal_model model = small_model();
    model.family = GAL_FAMILY_T5;
    model.decoder_layer_count = 2;
    model.decoder_sequence_length = 4;
    model.head_dim = 8;
    model.relative_bucket_count = 8;
    model.relative_max_distance = 16;
    model.activation = GAL_ACTIVATION_RELU;
    gal_candidates all = list(&model, 2, GAL_OK);
    gal_plan_stage stage[] = {{.first_run = 0, .run_count = 1}, {.first_run = 1, .run_count = 1}};
    gal_plan_run run[] = {{9, {0}}, {4, {0}}};
    const gal_plan plan = {.model = model,
                           .cluster = {.device_count = 2},
                           .global_batch_samples = 8,
                           .microbatch_count = 2,
                           .pp_degree = 2,
                           .schedule = GAL_SCHEDULE_1F1B,
                           .prefetch_depth = 2,
                           .stage_count = 2,
                           .stage = stage,
                           .run_count = 2,
                           .run = run};
    for (uint32_t s = 0; s < 2; s++) {
        assert_kernels_are_listed(&all, &plan, s);
    }
    assert_int_equal(count_sends(&all, 4 * 8 * 32 * sizeof(float)), 1);
    assert_int_equal(count_sends(&all, 4 * 4 * 32 * sizeof(float)), 1);
    gal_candidates_free(&all);
}

/* A plan that changes strategy and has two stages: every kernel and every collective of it is listed, once. */
static void test_programs_are_covered(void **state)
{
    (void)state;
    const gal_model model = small_model();
    gal_candidates all = list(&model, 4, GAL_OK);
    double share = 0.0;
    const gal_strategy split = {.axis_count = 1, .axis = {{GAL_AXIS_TP, 2}}};
    const gal_strategy sharded = {.axis_count = 1, .axis = {{GAL_AXIS_SDP, 2}}, .zero_stage = 3};
    gal_plan_stage stage[] = {{.first_run = 0, .run_count = 2}, {.first_run = 2, .run_count = 2}};
    gal_plan_run run[] = {{2, split}, {1, sharded}, {2, sharded}, {1, split}};
    const gal_plan plan = {.model = model,
                           .cluster = {.device_count = 4},
                           .global_batch_samples = 8,
                           .microbatch_count = 2,
                           .pp_degree = 2,
                           .schedule = GAL_SCHEDULE_GPIPE,
                           .prefetch_depth = 1,
                           .stage_count = 2,
                           .stage = stage,
                           .run_count = 4,
                           .run = run};
    for (uint32_t s = 0; s < 2; s++) {
        assert_kernels_are_listed(&all, &plan, s);
    }
    for (uint32_t i = 0; i < all.operator_count; i++) {
        share += all.operators[i].share;
        assert_ptr_equal(find(&all, &all.operators[i].shape), &all.operators[i]);
        assert_true(i == 0 || all.operators[i - 1].share >= all.operators[i].share);
    }
    for (uint32_t i = 0; i < all.collective_count; i++) {
        share += all.collectives[i].share;
        assert_true(all.collectives[i].level_counts[0] == 2 || all.collectives[i].level_counts[0] == 4);
    }
    assert_float_equal(share, 1.0, 1e-9);
    gal_candidates_free(&all);
}

static void test_one_rank_has_no_collectives(void **state)
{
    (void)state;
    const gal_model model = small_model();
    gal_candidates all = list(&model, 1, GAL_OK);
    assert_int_equal(all.collective_count, 0);
    assert_true(all.operator_count > 20);
    gal_candidates_free(&all);
}

/* 5 ranks divide neither heads nor samples, but 5 stages do: 6 blocks. 7 do not. */
static void test_nothing_fits(void **state)
{
    (void)state;
    const gal_model model = small_model();
    gal_candidates five = list(&model, 5, GAL_OK);
    gal_candidates_free(&five);
    (void)list(&model, 7, GAL_ERR_USAGE);
}

/* Every rank is in one group of a place at most, and all members name the same one. */
static void test_places_part_the_world(void **state)
{
    (void)state;
    const gal_model model = small_model();
    gal_candidates all = list(&model, 4, GAL_OK);
    assert_true(all.place_count > 0);
    for (uint32_t p = 0; p < all.place_count; p++) {
        for (uint32_t rank = 0; rank < 4; rank++) {
            uint32_t mine[4], theirs[4];
            const uint32_t count = gal_candidate_members(&all.place[p], 4, rank, mine);
            bool found = count == 0;
            for (uint32_t i = 0; i < count; i++) {
                found = found || mine[i] == rank;
                assert_int_equal(gal_candidate_members(&all.place[p], 4, mine[i], theirs), count);
                assert_memory_equal(mine, theirs, count * sizeof mine[0]);
            }
            assert_true(found);
        }
    }
    gal_candidates_free(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_link_is_found),
        cmocka_unit_test(test_latency_is_not_negative),
        cmocka_unit_test(test_slowdown_of_runs),
        cmocka_unit_test(test_balanced_runs_are_well_conditioned),
        cmocka_unit_test(test_quartiles),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_level_counts),
        cmocka_unit_test(test_programs_are_covered),
        cmocka_unit_test(test_encoder_decoders_are_covered),
        cmocka_unit_test(test_one_rank_has_no_collectives),
        cmocka_unit_test(test_nothing_fits),
        cmocka_unit_test(test_places_part_the_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
