#include "runtime/device/binding_hwloc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/device/binding.h"
#include "schemas/base/status.h"

enum { LIST_BYTES = 256 };

static uint32_t core_count(hwloc_topology_t topology, int *depth)
{
    *depth = hwloc_get_type_or_below_depth(topology, HWLOC_OBJ_CORE);
    return hwloc_get_nbobjs_by_depth(topology, *depth);
}

gal_binding_choice gal_binding_choose(hwloc_topology_t topology, hwloc_const_bitmap_t present, uint32_t local_rank,
                                      uint32_t local_count, hwloc_bitmap_t out)
{
    int depth;
    const uint32_t cores = core_count(topology, &depth);
    GAL_ASSERT(local_rank < local_count);
    if (!hwloc_bitmap_isequal(present, hwloc_topology_get_topology_cpuset(topology))) {
        return GAL_BINDING_KEPT;
    }
    if (local_count == 1) {
        return GAL_BINDING_ALONE;
    }
    if (cores < local_count) {
        return GAL_BINDING_FEW;
    }
    const uint32_t begin = (uint32_t)((uint64_t)cores * local_rank / local_count);
    const uint32_t end = (uint32_t)((uint64_t)cores * (local_rank + 1) / local_count);
    hwloc_bitmap_zero(out);
    for (uint32_t i = begin; i < end; i++) { /* hwloc numbers neighbours one after the other */
        const int failed = hwloc_bitmap_or(out, out, hwloc_get_obj_by_depth(topology, depth, i)->cpuset);
        GAL_ASSERT(failed == 0);
    }
    return GAL_BINDING_CHOSEN;
}

/* "processing units 0-3, NUMA node 0" */
static void describe(hwloc_topology_t topology, hwloc_const_bitmap_t units, char *text, size_t capacity)
{
    char unit_list[LIST_BYTES] = "?", node_list[LIST_BYTES] = "?";
    hwloc_bitmap_t nodes = hwloc_bitmap_alloc();
    (void)hwloc_bitmap_list_snprintf(unit_list, sizeof unit_list, units);
    if (nodes != NULL && hwloc_cpuset_to_nodeset(topology, units, nodes) == 0) {
        (void)hwloc_bitmap_list_snprintf(node_list, sizeof node_list, nodes);
    }
    (void)snprintf(text, capacity, "processing units %s, NUMA node %s", unit_list, node_list);
    hwloc_bitmap_free(nodes);
}

static void apply_on(hwloc_topology_t topology, uint32_t local_rank, uint32_t local_count, hwloc_bitmap_t present,
                     hwloc_bitmap_t chosen, char *text, size_t capacity)
{
    char where[2 * LIST_BYTES + 64];
    int depth;
    if (hwloc_get_cpubind(topology, present, HWLOC_CPUBIND_PROCESS) != 0) {
        (void)snprintf(text, capacity, "not bound: the system does not tell the present binding");
        return;
    }
    switch (gal_binding_choose(topology, present, local_rank, local_count, chosen)) {
    case GAL_BINDING_CHOSEN:
        describe(topology, chosen, where, sizeof where);
        if (hwloc_set_cpubind(topology, chosen, HWLOC_CPUBIND_PROCESS) == 0) {
            (void)snprintf(text, capacity, "bound to %s", where);
        } else {
            (void)snprintf(text, capacity, "not bound to %s: %s", where, strerror(errno));
        }
        break;
    case GAL_BINDING_ALONE:
        (void)snprintf(text, capacity, "not bound: the only rank of its host");
        break;
    case GAL_BINDING_FEW:
        (void)snprintf(text, capacity, "not bound: %u cores for %u ranks", core_count(topology, &depth), local_count);
        break;
    case GAL_BINDING_KEPT:
        describe(topology, present, where, sizeof where);
        (void)snprintf(text, capacity, "bound before the start to %s", where);
        break;
    }
}

void gal_binding_apply(uint32_t local_rank, uint32_t local_count, char *text, size_t capacity)
{
    hwloc_topology_t topology;
    hwloc_bitmap_t present = hwloc_bitmap_alloc(), chosen = hwloc_bitmap_alloc();
    (void)snprintf(text, capacity, "not bound: hwloc cannot read this machine");
    if (present != NULL && chosen != NULL && hwloc_topology_init(&topology) == 0) {
        if (hwloc_topology_load(topology) == 0) {
            apply_on(topology, local_rank, local_count, present, chosen, text, capacity);
        }
        hwloc_topology_destroy(topology);
    }
    hwloc_bitmap_free(chosen);
    hwloc_bitmap_free(present);
}
