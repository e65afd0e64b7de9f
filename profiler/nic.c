#include "profiler/nic.h"

#include <stdio.h>
#include <string.h>

static bool holds(hwloc_obj_t above, hwloc_obj_t below)
{
    while (below != NULL && below != above) {
        below = below->parent;
    }
    return below != NULL;
}

static hwloc_obj_t common_parent(hwloc_obj_t a, hwloc_obj_t b)
{
    while (!holds(a, b)) {
        a = a->parent;
    }
    return a;
}

/* A bridge above both is a switch, or a root port of one; the host's own bridge is the processor. */
static gal_nic_distance distance_between(hwloc_obj_t gpu, hwloc_obj_t adapter)
{
    const hwloc_obj_t above = common_parent(gpu, adapter);
    if (above->type == HWLOC_OBJ_BRIDGE && above->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI) {
        return GAL_NIC_SAME_SWITCH;
    }
    return above->type == HWLOC_OBJ_MACHINE && above->arity > 1 ? GAL_NIC_OTHER_PACKAGE : GAL_NIC_SAME_PACKAGE;
}

static void look(hwloc_topology_t topology, hwloc_obj_t gpu, hwloc_obj_osdev_type_t type, gal_nic *out)
{
    for (hwloc_obj_t at = hwloc_get_next_osdev(topology, NULL); at != NULL; at = hwloc_get_next_osdev(topology, at)) {
        if (at->attr->osdev.type != type || at->parent == NULL || at->parent->type != HWLOC_OBJ_PCI_DEVICE) {
            continue;
        }
        const gal_nic_distance distance = distance_between(gpu, at);
        if (distance < out->distance) {
            out->distance = distance;
            (void)snprintf(out->name, sizeof out->name, "%s", at->name);
        }
    }
}

void gal_nic_nearest(hwloc_topology_t topology, const char *bus_id, gal_nic *out)
{
    *out = (gal_nic){.distance = GAL_NIC_NONE};
    const hwloc_obj_t gpu = hwloc_get_pcidev_by_busidstring(topology, bus_id);
    if (gpu == NULL) {
        return;
    }
    look(topology, gpu, HWLOC_OBJ_OSDEV_OPENFABRICS, out);
    if (out->distance == GAL_NIC_NONE) {
        look(topology, gpu, HWLOC_OBJ_OSDEV_NETWORK, out);
    }
}

gal_code gal_nic_read(const char *bus_id, gal_nic *out, gal_error *err)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "hwloc cannot be initialised");
    }
    if (hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL) != 0 ||
        hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        return gal_fail(err, GAL_ERR_SYSTEM, "hwloc cannot read this machine's PCI devices");
    }
    gal_nic_nearest(topology, bus_id, out);
    hwloc_topology_destroy(topology);
    return GAL_OK;
}

void gal_nic_describe(const gal_nic *nic, char *text, size_t capacity)
{
    static const char *const where[GAL_NIC_DISTANCE_COUNT] = {[GAL_NIC_SAME_SWITCH] = "behind the same PCIe switch",
                                                              [GAL_NIC_SAME_PACKAGE] = "on the same processor",
                                                              [GAL_NIC_OTHER_PACKAGE] = "on another processor"};
    if (nic->distance == GAL_NIC_NONE) {
        (void)snprintf(text, capacity, "no network adapter on PCI");
        return;
    }
    (void)snprintf(text, capacity, "%.20s %s", nic->name, where[nic->distance]);
}
