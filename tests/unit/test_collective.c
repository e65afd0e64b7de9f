/* Collectives: where groups lie in the link tree, closed forms, and what a profile makes of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "costmodel/analytic_collective.h"
#include "costmodel/duration.h"

/* Nodes of 4 devices; 1 us and 100 GB/s inside, 10 us and 10 GB/s across. */
static gal_cluster cluster_of(uint32_t device_count)
{
    return (gal_cluster){
        .name = "test",
        .device_count = device_count,
        .device = {.kind = "d",
                   .memory_bytes = UINT64_C(1) << 30,
                   .fp32_flops_per_second = 1e12,
                   .fp64_flops_per_second = 1e12,
                   .memory_bytes_per_second = 1e11},
        .level_count = 2,
        .level = {{.name = "node", .span_devices = 4, .latency_seconds = 1e-6, .bytes_per_second = 1e11},
                  {.name = "net", .span_devices = device_count, .latency_seconds = 1e-5, .bytes_per_second = 1e10}}};
}

static void assert_near(double a, double b)
{
    assert_true(fabs(a - b) <= 1e-12 * fabs(b));
}

static void closed_forms(void **unused)
{
    (void)unused;
    const gal_cluster cluster = cluster_of(16);
    const uint32_t inside[GAL_LINK_LEVELS_MAX] = {4, 1, 1, 1, 1, 1, 1, 1};
    const uint32_t across[GAL_LINK_LEVELS_MAX] = {4, 2, 1, 1, 1, 1, 1, 1};
    const uint32_t alone[GAL_LINK_LEVELS_MAX] = {1, 1, 1, 1, 1, 1, 1, 1};
    const uint64_t bytes = 100000000;
    /* 2 x 3 x 1 us + 2 x 3/4 x 1e8 / 1e11 = 6 us + 1.5 ms */
    assert_near(gal_collective_analytic_seconds(&cluster, GAL_OP_ALL_REDUCE, inside, bytes), 6e-6 + 1.5e-3);
    /* a ring of 8 in two nodes: 6 hops of 1 us and 2 of 10 us, 7/8 of a lap = 22.75 us; 7/8 x 1e8 / 1e10 = 8.75 ms */
    assert_near(gal_collective_analytic_seconds(&cluster, GAL_OP_ALL_GATHER, across, bytes), 22.75e-6 + 8.75e-3);
    assert_near(gal_collective_analytic_seconds(&cluster, GAL_OP_REDUCE_SCATTER, across, bytes), 22.75e-6 + 8.75e-3);
    /* half of each device's bytes leave its node: 1/2 x 1e8 / 1e10 = 5 ms; 7/8 x 1e8 / 1e11 inside is less */
    assert_near(gal_collective_analytic_seconds(&cluster, GAL_OP_ALL_TO_ALL, across, bytes), 22.75e-6 + 5e-3);
    /* 16 bytes over 8: the tree, two steps inside and one across: 2 x (2 x 1 us + 10 us) + 2 x 16 / 1e10 */
    assert_near(gal_collective_analytic_seconds(&cluster, GAL_OP_ALL_REDUCE, across, 16), 24e-6 + 3.2e-9);
    assert_true(gal_collective_analytic_seconds(&cluster, GAL_OP_ALL_REDUCE, alone, bytes) == 0.0);
    const uint32_t pair[GAL_LINK_LEVELS_MAX] = {1, 2, 1, 1, 1, 1, 1, 1};
    assert_near(gal_collective_analytic_seconds(&cluster, GAL_OP_SEND, pair, bytes), 1e-5 + 1e-2);
}

/* A node's adapters give 4 x 10 GB/s: a group with all 4 devices of a node in it has them all, one with a device in
 * each node shares them with three others like it. */
static void shared_ways_out(void **unused)
{
    (void)unused;
    gal_cluster cluster = cluster_of(16);
    const uint32_t whole[GAL_LINK_LEVELS_MAX] = {4, 2, 1, 1, 1, 1, 1, 1};
    const uint32_t half[GAL_LINK_LEVELS_MAX] = {2, 2, 1, 1, 1, 1, 1, 1};
    const uint32_t one[GAL_LINK_LEVELS_MAX] = {1, 2, 1, 1, 1, 1, 1, 1};
    const uint64_t bytes = 100000000;
    cluster.level[1].shared = true;
    cluster.level[1].latency_seconds = 0.0;
    cluster.level[0].latency_seconds = 0.0;
    /* 7/8 x 1e8 / 4e10, 3/4 x 1e8 / 2e10, 1/2 x 1e8 / 1e10 */
    assert_near(gal_collective_analytic_seconds(&cluster, GAL_OP_ALL_GATHER, whole, bytes), 2.1875e-3);
    assert_near(gal_collective_analytic_seconds(&cluster, GAL_OP_ALL_GATHER, half, bytes), 3.75e-3);
    assert_near(gal_collective_analytic_seconds(&cluster, GAL_OP_ALL_GATHER, one, bytes), 5e-3);
    /* what each device sends out of its node it sends by its own share, shared or not: 1/2 x 1e8 / 1e10 */
    assert_near(gal_collective_analytic_seconds(&cluster, GAL_OP_ALL_TO_ALL, whole, bytes), 5e-3);
    /* of a ring one member goes out of its node, with the shares of all 4; half of a trade's buffer by each one's own
     */
    assert_near(gal_collective_analytic_seconds(&cluster, GAL_OP_ROTATE, whole, bytes), 2.5e-3);
    assert_near(gal_collective_analytic_seconds(&cluster, GAL_OP_ROTATE, one, bytes), 1e-2);
    assert_near(gal_collective_analytic_seconds(&cluster, GAL_OP_MIRROR, whole, bytes), 5e-3);
    /* half of the rate is reached, 7/8 x 1e8 / 2e10 */
    cluster.level[1].achievable_fraction = 0.5;
    assert_near(gal_collective_analytic_seconds(&cluster, GAL_OP_ALL_GATHER, whole, bytes), 4.375e-3);
    /* on a GPU it is a kernel too */
    cluster.device.multiprocessor_count = 100;
    cluster.device.launch_seconds = 1e-6;
    assert_near(gal_collective_analytic_seconds(&cluster, GAL_OP_ALL_GATHER, whole, bytes), 4.376e-3);
}

static void expect_counts(const gal_cluster *cluster, uint32_t device_count, uint32_t stage, uint32_t stage_count,
                          gal_group group, uint32_t inner, uint32_t outer)
{
    gal_atoms atoms;
    uint32_t counts[GAL_LINK_LEVELS_MAX];
    gal_atoms_of(device_count, &atoms);
    const gal_place_in_cluster place = {&atoms, device_count, stage, stage_count};
    gal_group_level_counts(cluster, &place, group, counts);
    assert_int_equal(counts[0], inner);
    assert_int_equal(counts[1], outer);
    assert_int_equal(counts[2], 1);
}

static void groups_in_the_tree(void **unused)
{
    (void)unused;
    const gal_cluster cluster = cluster_of(16);
    /* 8 devices per stage = 2 nodes: atoms 0 and 1 stay in a node of 4, atom 2 joins two nodes */
    expect_counts(&cluster, 8, 0, 2, 1u, 2, 1);
    expect_counts(&cluster, 8, 1, 2, 3u, 4, 1);
    expect_counts(&cluster, 8, 0, 2, 4u, 1, 2);
    expect_counts(&cluster, 8, 0, 2, 7u, 4, 2);
    expect_counts(&cluster, 8, 0, 2, GAL_GROUP_NEXT, 1, 2);
    expect_counts(&cluster, 8, 0, 2, GAL_GROUP_WORLD, 4, 4);
    expect_counts(&cluster, 8, 0, 2, GAL_GROUP_TIED, 1, 2);
    /* 2 devices per stage: stages 0 and 1 share a node, 1 and 2 do not */
    expect_counts(&cluster, 2, 0, 8, GAL_GROUP_NEXT, 2, 1);
    expect_counts(&cluster, 2, 1, 8, GAL_GROUP_NEXT, 1, 2);
    expect_counts(&cluster, 2, 1, 8, GAL_GROUP_PREVIOUS, 2, 1);
    /* 6 devices per stage in nodes of 4: atoms 2 and 3. Pairs {0,1} lie in one node everywhere; threes such as
     * {0,2,4} touch two nodes: 2 members in one of them */
    const gal_cluster uneven = cluster_of(12);
    expect_counts(&uneven, 6, 0, 2, 1u, 2, 1);
    expect_counts(&uneven, 6, 0, 2, 2u, 2, 2);
}

static gal_profile_collective entry(gal_op op, uint32_t members, uint64_t bytes, double seconds)
{
    return (gal_profile_collective){op, {members, 1, 1, 1, 1, 1, 1, 1}, bytes, seconds, 0.0, GAL_SOURCE_MEASURED};
}

static void measured_then_fitted(void **unused)
{
    (void)unused;
    gal_profile_collective entries[] = {
        entry(GAL_OP_ALL_REDUCE, 4, 4000000, 4e-3),
        entry(GAL_OP_ALL_REDUCE, 4, 1000000, 1e-3),
        entry(GAL_OP_SEND, 2, 1000, 5e-6),
    };
    const gal_profile profile = {
        .cluster = cluster_of(16), .slowdown = {{1.0, 1.0}, {1.0, 1.0}}, .collective_count = 3, .collectives = entries};
    const uint32_t four[GAL_LINK_LEVELS_MAX] = {4, 1, 1, 1, 1, 1, 1, 1};
    const uint32_t two[GAL_LINK_LEVELS_MAX] = {2, 1, 1, 1, 1, 1, 1, 1};
    gal_durations *d = NULL;
    gal_error err = {0};
    gal_source source;
    assert_int_equal(gal_durations_create(&profile, &d, &err), GAL_OK);
    assert_true(gal_collective_seconds(d, GAL_OP_ALL_REDUCE, four, 1000000, &source) == 1e-3);
    assert_int_equal(source, GAL_SOURCE_MEASURED);
    /* halfway in log bytes: 2 MB, and halfway in log seconds: 2 ms */
    assert_near(gal_collective_seconds(d, GAL_OP_ALL_REDUCE, four, 2000000, &source), 2e-3);
    assert_int_equal(source, GAL_SOURCE_FITTED);
    /* beyond: the analytic ratio of 8 MB (6 us + 120 us) to 4 MB (6 us + 60 us) */
    assert_near(gal_collective_seconds(d, GAL_OP_ALL_REDUCE, four, 8000000, &source), 4e-3 * 126.0 / 66.0);
    assert_true(gal_collective_seconds(d, GAL_OP_RECEIVE, two, 1000, &source) == 5e-6);
    (void)gal_collective_seconds(d, GAL_OP_ALL_REDUCE, two, 1000000, &source);
    assert_int_equal(source, GAL_SOURCE_ANALYTIC);
    gal_durations_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(closed_forms), cmocka_unit_test(shared_ways_out),
                                       cmocka_unit_test(groups_in_the_tree), cmocka_unit_test(measured_then_fitted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
