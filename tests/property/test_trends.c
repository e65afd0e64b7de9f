/* Trends of the literature that analytic prices must show, each with its reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/analytic_collective.h"
#include "costmodel/price.h"
#include "planner/search/joint_search.h"

/* ---- Colossal-AI, section V-C, figures 13 and 14: systems I and II ---- */

/* The four devices of section V-C's smaller experiment. */
static gal_cluster four_of(const char *name)
{
    gal_cluster cluster;
    gal_error err = {0};
    if (gal_cluster_read(name, &cluster, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    cluster.device_count = 4;
    cluster.level[cluster.level_count - 1].span_devices = 4;
    return cluster;
}

/* A chain of the experiment's ViT: 64 layers, hidden 3072, 48 heads, 197 positions. */
static void model_of_experiment(gal_model *model)
{
    gal_model_defaults(model);
    model->layer_count = 64;
    model->hidden = 3072;
    model->head_count = 48;
    model->ffn_hidden = 4 * 3072;
    model->sequence_length = 197;
    model->vocabulary = 1000;
}

enum { TP4, TP2_INSIDE, TP2_ACROSS, DP4, PLACEMENTS };

/* A layer's forward, backward and gradient reduction in company. */
static void rank_placements(const char *system, uint32_t samples, double seconds[PLACEMENTS])
{
    static const gal_strategy placements[PLACEMENTS] = {
        [TP4] = {.axis_count = 1, .axis = {{GAL_AXIS_TP, 4}}},
        [TP2_INSIDE] = {.axis_count = 2, .axis = {{GAL_AXIS_TP, 2}, {GAL_AXIS_DP, 2}}},
        [TP2_ACROSS] = {.axis_count = 2, .axis = {{GAL_AXIS_DP, 2}, {GAL_AXIS_TP, 2}}},
        [DP4] = {.axis_count = 1, .axis = {{GAL_AXIS_DP, 4}}},
    };
    const gal_cluster cluster = four_of(system);
    gal_model model;
    gal_durations *durations = NULL;
    gal_price_cache *cache = NULL;
    gal_error err = {0};
    model_of_experiment(&model);
    assert_int_equal(gal_durations_create_analytic(&cluster, &durations, &err), GAL_OK);
    assert_int_equal(gal_price_cache_create(&model, durations, &cache, &err), GAL_OK);
    for (uint32_t i = 0; i < PLACEMENTS; i++) {
        seconds[i] = 0.0;
        for (uint32_t block = 1; block <= 2; block++) { /* attention and FFN */
            const gal_block_price *price = NULL;
            gal_block_shape shape;
            gal_model_block(&model, block, &shape);
            const gal_price_query query = {.type = shape.type,
                                           .strategy = &placements[i],
                                           .device_count = 4,
                                           .stage_count = 1,
                                           .microbatch_samples = samples,
                                           .prefetch_depth = 2};
            assert_int_equal(gal_price_block(cache, &query, &price, &err), GAL_OK);
            seconds[i] += price->forward_seconds + price->backward_seconds + price->sync_seconds;
        }
    }
    gal_price_cache_free(cache);
    gal_durations_free(durations);
}

/* Pairs are as fast on both systems. A group of four has NVLink throughout on I and PCIe in between on II: 184 against
 * 15 GB/s in the paper. */
static void groups_of_four_lose_their_links(void **unused)
{
    (void)unused;
    const gal_cluster one = four_of("colossal-1"), two = four_of("colossal-2");
    const uint32_t pair[GAL_LINK_LEVELS_MAX] = {2, 1, 1, 1, 1, 1, 1, 1};
    const uint32_t of_one[GAL_LINK_LEVELS_MAX] = {4, 1, 1, 1, 1, 1, 1, 1};
    const uint32_t of_two[GAL_LINK_LEVELS_MAX] = {2, 2, 1, 1, 1, 1, 1, 1};
    const uint64_t bytes = 125000000; /* of figure 13 */
    assert_true(gal_collective_analytic_seconds(&one, GAL_OP_ALL_REDUCE, pair, bytes) ==
                gal_collective_analytic_seconds(&two, GAL_OP_ALL_REDUCE, pair, bytes));
    assert_true(gal_collective_analytic_seconds(&two, GAL_OP_ALL_REDUCE, of_two, bytes) >
                5.0 * gal_collective_analytic_seconds(&one, GAL_OP_ALL_REDUCE, of_one, bytes));
}

/* So on I it does not matter which two of the four devices share a tensor, and sharing it among all costs little; on II
 * the pairs with a link of their own are the place for it, and sharing among all costs more than that: it moves every
 * layer's rows over PCIe. Gradients of DP alone do not all find room beside backward. */
static void systems_rank_placements_differently(void **unused)
{
    (void)unused;
    double one[PLACEMENTS], two[PLACEMENTS];
    rank_placements("colossal-1", 16, one);
    rank_placements("colossal-2", 16, two);
    assert_true(one[TP2_INSIDE] == one[TP2_ACROSS]);
    assert_true(one[TP4] < 1.05 * one[TP2_INSIDE] && one[TP4] < one[DP4]);
    assert_true(two[TP2_INSIDE] < 0.98 * two[TP2_ACROSS]);
    assert_true(two[TP4] > 1.05 * two[TP2_INSIDE] && two[DP4] > two[TP2_INSIDE]);
}

/* ---- pipelines ---- */

/* The best plan of gpt2-medium with that many stages on two nodes of eight, whose network gives a device so much. */
static double best_seconds(double network_bytes_per_second, uint32_t pp_degree)
{
    gal_cluster cluster;
    gal_model model;
    gal_durations *durations = NULL;
    gal_search_result result = {0};
    gal_error err = {0};
    assert_int_equal(gal_cluster_read("titan-16", &cluster, &err), GAL_OK);
    assert_int_equal(gal_model_read("gpt2-medium", &model, &err), GAL_OK);
    cluster.level[1].bytes_per_second = network_bytes_per_second;
    assert_int_equal(gal_durations_create_analytic(&cluster, &durations, &err), GAL_OK);
    gal_search_request request = {.model = &model,
                                  .durations = durations,
                                  .profile_hash = "",
                                  .batches = {.count = 1, .value = {32}},
                                  .microbatch_counts = {.count = 2, .value = {1, 4}},
                                  .pp_degrees = {.count = 1, .value = {pp_degree}},
                                  .schedule = GAL_SCHEDULE_1F1B,
                                  .prefetch_depth = 2,
                                  .label_limit = 200};
    assert_int_equal(gal_space_parse("dp,zero3,tp,sp", &request.space, &err), GAL_OK);
    assert_int_equal(gal_search(&request, &result, &err), GAL_OK);
    assert_true(result.feasible);
    const double seconds = result.finalist[0].simulated_seconds;
    gal_search_result_free(&result);
    gal_durations_free(durations);
    return seconds;
}

/* Between nodes DP and TP move gradients (1.4 GB a step) or rows of every layer; a pipeline moves one layer's rows.
 * Over 10 Gbit/s a node that is worth the bubble, over a network as fast as the inside it is not. */
static void pipelines_win_on_slow_links(void **unused)
{
    (void)unused;
    const double slow = 1.5625e8, fast = 1.575e10;
    assert_true(best_seconds(slow, 2) < best_seconds(slow, 1));
    assert_true(best_seconds(fast, 1) < best_seconds(fast, 2));
}

/* ---- ZeRO ---- */

/* Bytes that a device sends in a step of one microbatch, by rings, in units of (n-1)/n: of the reductions of gradients,
 * and of what ZeRO-3 gathers and scatters. */
typedef struct traffic {
    uint64_t all_reduced, gathered, scattered;
} traffic;

static void count_fragment(const gal_program *program, gal_fragment_kind fragment, traffic *out)
{
    for (uint32_t i = 0; i < program->fragment[fragment].count; i++) {
        const gal_instruction *in = &program->instruction[program->fragment[fragment].first + i];
        if ((in->group & GAL_GROUP_RELATION) == 0) {
            out->all_reduced += in->op == GAL_OP_ALL_REDUCE ? 2 * in->bytes : 0;
            out->gathered += in->op == GAL_OP_ALL_GATHER ? in->bytes : 0;
            out->scattered += in->op == GAL_OP_REDUCE_SCATTER ? in->bytes : 0;
        }
    }
}

/* Of two layers in the middle of a pipeline. */
static traffic count_traffic(const gal_strategy *strategy, gal_dtype dtype)
{
    traffic out = {0};
    gal_model model;
    gal_program *program = NULL;
    gal_error err = {0};
    gal_block_spec block[4];
    assert_int_equal(gal_model_read("gpt2-small", &model, &err), GAL_OK);
    model.compute_dtype = dtype;
    for (uint32_t i = 0; i < 4; i++) {
        block[i] = gal_block_spec_of(&model, 1 + i, strategy);
    }
    gal_stage_spec spec = {.model = &model,
                           .device_count = 4,
                           .stage = 1,
                           .stage_count = 3,
                           .microbatch_samples = 4,
                           .microbatch_count = 1,
                           .schedule = GAL_SCHEDULE_1F1B,
                           .prefetch_depth = 2,
                           .block_count = 4,
                           .block = block,
                           .own_entry = true};
    assert_int_equal(gal_lower_spec(&spec, &program, &err), GAL_OK);
    count_fragment(program, GAL_FRAGMENT_FORWARD, &out);
    count_fragment(program, GAL_FRAGMENT_BACKWARD_SYNC, &out);
    count_fragment(program, GAL_FRAGMENT_UPDATE, &out);
    gal_program_free(program);
    return out;
}

/* DP reduces a gradient: a scatter and a gather of it. ZeRO-3 scatters it and gathers the weights twice, in forward and
 * in backward: 3/2 (Rajbhandari and others, "ZeRO", section 7.2). Norms and biases are never sharded: what ZeRO-3 still
 * reduces whole is not counted on either side. */
static void zero3_costs_half_more(void **unused)
{
    (void)unused;
    const gal_strategy dp = {.axis_count = 1, .axis = {{GAL_AXIS_DP, 4}}};
    const gal_strategy zero3 = {.axis_count = 1, .axis = {{GAL_AXIS_SDP, 4}}, .zero_stage = 3};
    const traffic plain = count_traffic(&dp, GAL_FP32), sharded = count_traffic(&zero3, GAL_FP32);
    assert_int_equal(plain.gathered + plain.scattered, 0);
    assert_true(sharded.all_reduced < plain.all_reduced / 100);
    assert_int_equal(2 * (sharded.gathered + sharded.scattered), 3 * (plain.all_reduced - sharded.all_reduced));
    assert_int_equal(sharded.gathered, 2 * sharded.scattered);
}

/* In bf16 gradients are reduced in fp32 while the weights that are gathered have half as many bytes: as much as DP. */
static void zero3_costs_the_same_in_bf16(void **unused)
{
    (void)unused;
    const gal_strategy dp = {.axis_count = 1, .axis = {{GAL_AXIS_DP, 4}}};
    const gal_strategy zero3 = {.axis_count = 1, .axis = {{GAL_AXIS_SDP, 4}}, .zero_stage = 3};
    const traffic plain = count_traffic(&dp, GAL_BF16), sharded = count_traffic(&zero3, GAL_BF16);
    assert_int_equal(plain.gathered + plain.scattered, 0);
    assert_int_equal(sharded.gathered + sharded.scattered, plain.all_reduced - sharded.all_reduced);
    assert_int_equal(sharded.gathered, sharded.scattered);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_four_lose_their_links), cmocka_unit_test(systems_rank_placements_differently),
        cmocka_unit_test(pipelines_win_on_slow_links),     cmocka_unit_test(zero3_costs_half_more),
        cmocka_unit_test(zero3_costs_the_same_in_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
