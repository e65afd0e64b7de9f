/* Which cores a rank gets, on machines that hwloc makes up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "runtime/device/binding.h"
#include "runtime/device/binding_hwloc.h"

static hwloc_topology_t machine(const char *synthetic)
{
    hwloc_topology_t topology;
    assert_int_equal(hwloc_topology_init(&topology), 0);
    assert_int_equal(hwloc_topology_set_synthetic(topology, synthetic), 0);
    assert_int_equal(hwloc_topology_load(topology), 0);
    return topology;
}

/* Ranks of all counts up to the cores: every one gets cores, no two share one, none is left over, and the largest
 * share is at most one core above the smallest. */
static void check_shares(const char *synthetic, uint32_t cores, uint32_t units_per_core)
{
    hwloc_topology_t topology = machine(synthetic);
    hwloc_const_bitmap_t all = hwloc_topology_get_topology_cpuset(topology);
    hwloc_bitmap_t mine = hwloc_bitmap_alloc(), taken = hwloc_bitmap_alloc();
    for (uint32_t count = 2; count <= cores; count++) {
        hwloc_bitmap_zero(taken);
        for (uint32_t rank = 0; rank < count; rank++) {
            assert_int_equal(gal_binding_choose(topology, all, rank, count, mine), GAL_BINDING_CHOSEN);
            assert_false(hwloc_bitmap_intersects(mine, taken));
            const int units = hwloc_bitmap_weight(mine);
            assert_true(units == (int)(cores / count * units_per_core) ||
                        units == (int)((cores + count - 1) / count * units_per_core));
            hwloc_bitmap_or(taken, taken, mine);
        }
        assert_true(hwloc_bitmap_isequal(taken, all));
    }
    hwloc_bitmap_free(taken);
    hwloc_bitmap_free(mine);
    hwloc_topology_destroy(topology);
}

static void test_disjoint_shares(void **state)
{
    (void)state;
    check_shares("numa:2 core:6 pu:2", 12, 2);
    check_shares("package:2 numa:2 core:4 pu:1", 16, 1);
    check_shares("pu:7", 7, 1); /* no cores are known */
}

/* As many ranks as NUMA nodes: each has one node. Two a node: none crosses. */
static void test_numa_nodes(void **state)
{
    (void)state;
    hwloc_topology_t topology = machine("package:2 numa:2 core:6 pu:2");
    hwloc_const_bitmap_t all = hwloc_topology_get_topology_cpuset(topology);
    hwloc_bitmap_t mine = hwloc_bitmap_alloc(), nodes = hwloc_bitmap_alloc();
    for (uint32_t count = 4; count <= 8; count += 4) {
        for (uint32_t rank = 0; rank < count; rank++) {
            assert_int_equal(gal_binding_choose(topology, all, rank, count, mine), GAL_BINDING_CHOSEN);
            hwloc_cpuset_to_nodeset(topology, mine, nodes);
            assert_int_equal(hwloc_bitmap_weight(nodes), 1);
            assert_int_equal(hwloc_bitmap_first(nodes), (int)(rank / (count / 4)));
        }
    }
    hwloc_bitmap_free(nodes);
    hwloc_bitmap_free(mine);
    hwloc_topology_destroy(topology);
}

static void test_left_alone(void **state)
{
    (void)state;
    hwloc_topology_t topology = machine("numa:1 core:4 pu:2");
    hwloc_const_bitmap_t all = hwloc_topology_get_topology_cpuset(topology);
    hwloc_bitmap_t mine = hwloc_bitmap_alloc(), narrow = hwloc_bitmap_dup(all);
    hwloc_bitmap_set(mine, 3);
    assert_int_equal(gal_binding_choose(topology, all, 0, 1, mine), GAL_BINDING_ALONE);
    assert_int_equal(gal_binding_choose(topology, all, 4, 5, mine), GAL_BINDING_FEW);
    hwloc_bitmap_clr(narrow, 7);
    assert_int_equal(gal_binding_choose(topology, narrow, 0, 2, mine), GAL_BINDING_KEPT);
    assert_int_equal(hwloc_bitmap_weight(mine), 1); /* untouched */
    hwloc_bitmap_free(narrow);
    hwloc_bitmap_free(mine);
    hwloc_topology_destroy(topology);
}

static void set_environment(const char *rank, const char *count)
{
    setenv("SLURM_LOCALID", rank, 1);
    setenv("SLURM_STEP_TASKS_PER_NODE", count, 1);
}

static void test_place(void **state)
{
    (void)state;
    uint32_t rank = 77, count = 77;
    unsetenv("OMPI_COMM_WORLD_LOCAL_RANK");
    unsetenv("MPI_LOCALRANKID");
    unsetenv("SLURM_LOCALID");
    assert_false(gal_binding_place(&rank, &count));
    set_environment("3", "8(x2)");
    assert_true(gal_binding_place(&rank, &count));
    assert_int_equal(rank, 3);
    assert_int_equal(count, 8);
    set_environment("3", "8(x2),4");
    assert_false(gal_binding_place(&rank, &count));
    set_environment("3", "3"); /* contradicts itself */
    assert_false(gal_binding_place(&rank, &count));
    set_environment("3x", "4");
    assert_false(gal_binding_place(&rank, &count));
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    assert_true(gal_binding_place(&rank, &count));
    assert_int_equal(rank, 1);
    assert_int_equal(count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_disjoint_shares),
        cmocka_unit_test(test_numa_nodes),
        cmocka_unit_test(test_left_alone),
        cmocka_unit_test(test_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
