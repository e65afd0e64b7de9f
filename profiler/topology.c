#include "profiler/topology.h"

#include <hwloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "schemas/base/fnv.h"

static unsigned count_of(hwloc_topology_t topology, hwloc_obj_type_t type)
{
    const int count = hwloc_get_nbobjs_by_type(topology, type);
    return count > 0 ? (unsigned)count : 0;
}

static void describe_kind(hwloc_topology_t topology, gal_topology *out)
{
    const hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    const char *model = package != NULL ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
    if (model == NULL) {
        model = hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology), "CPUModel");
    }
    (void)snprintf(out->kind, sizeof out->kind, "%s", model != NULL && model[0] != '\0' ? model : "cpu");
}

/* ", L2 2048 KiB" behind text. */
static void put_cache(hwloc_topology_t topology, hwloc_obj_type_t type, const char *name, char *text, size_t capacity)
{
    const hwloc_obj_t cache = hwloc_get_obj_by_type(topology, type, 0);
    const size_t used = strlen(text);
    if (cache != NULL) {
        (void)snprintf(text + used, capacity - used, ", %u x %s %llu KiB", count_of(topology, type), name,
                       (unsigned long long)(cache->attr->cache.size / 1024));
    }
}

static void describe_processor(hwloc_topology_t topology, gal_topology *out)
{
    (void)snprintf(out->processor, sizeof out->processor,
                   "%s: %u packages, %u NUMA nodes, %u cores, %u processing units", out->kind,
                   count_of(topology, HWLOC_OBJ_PACKAGE), count_of(topology, HWLOC_OBJ_NUMANODE),
                   count_of(topology, HWLOC_OBJ_CORE), count_of(topology, HWLOC_OBJ_PU));
    put_cache(topology, HWLOC_OBJ_L1CACHE, "L1", out->processor, sizeof out->processor);
    put_cache(topology, HWLOC_OBJ_L2CACHE, "L2", out->processor, sizeof out->processor);
    put_cache(topology, HWLOC_OBJ_L3CACHE, "L3", out->processor, sizeof out->processor);
    const size_t used = strlen(out->processor);
    (void)snprintf(out->processor + used, sizeof out->processor - used, ", %llu MiB",
                   (unsigned long long)(out->memory_bytes >> 20));
}

/* The package that all of this process's binding lies in, or NULL. */
static hwloc_obj_t bound_package(hwloc_topology_t topology)
{
    hwloc_obj_t found = NULL;
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();
    if (bound != NULL && count_of(topology, HWLOC_OBJ_PACKAGE) > 1 &&
        hwloc_get_cpubind(topology, bound, HWLOC_CPUBIND_PROCESS) == 0) {
        for (unsigned i = 0; i < count_of(topology, HWLOC_OBJ_PACKAGE); i++) {
            const hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, i);
            found = hwloc_bitmap_isincluded(bound, package->cpuset) ? package : found;
        }
    }
    hwloc_bitmap_free(bound);
    return found;
}

static uint32_t first_node(hwloc_topology_t topology)
{
    uint32_t found = 0;
    hwloc_bitmap_t bound = hwloc_bitmap_alloc(), nodes = hwloc_bitmap_alloc();
    if (bound != NULL && nodes != NULL && hwloc_get_cpubind(topology, bound, HWLOC_CPUBIND_PROCESS) == 0 &&
        hwloc_cpuset_to_nodeset(topology, bound, nodes) == 0 && !hwloc_bitmap_iszero(nodes)) {
        const hwloc_obj_t node = hwloc_get_numanode_obj_by_os_index(topology, (unsigned)hwloc_bitmap_first(nodes));
        found = node != NULL ? node->logical_index : 0;
    }
    hwloc_bitmap_free(nodes);
    hwloc_bitmap_free(bound);
    return found;
}

gal_code gal_topology_read(gal_topology *out, gal_error *err)
{
    char host[256] = "";
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "hwloc cannot be initialised");
    }
    if (hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        return gal_fail(err, GAL_ERR_SYSTEM, "hwloc cannot read this machine");
    }
    memset(out, 0, sizeof *out);
    out->memory_bytes = hwloc_get_root_obj(topology)->total_memory;
    const int cores = hwloc_bitmap_weight(hwloc_topology_get_allowed_cpuset(topology));
    out->core_count = cores > 0 ? (uint32_t)cores : 1;
    (void)snprintf(out->version, sizeof out->version, "%s", HWLOC_VERSION);
    describe_kind(topology, out);
    describe_processor(topology, out);
    (void)gethostname(host, sizeof host - 1);
    out->machine_key = gal_fnv(GAL_FNV_START, host, strlen(host));
    const hwloc_obj_t package = bound_package(topology);
    out->package_key = package != NULL
                           ? gal_fnv(out->machine_key, &package->logical_index, sizeof package->logical_index)
                           : out->machine_key;
    out->numa_node = first_node(topology);
    hwloc_topology_destroy(topology);
    return GAL_OK;
}

/* ---- levels ---- */

/* Ranks per unit if the units are equally many consecutive ranks each, else 0. */
static uint32_t span_of(const gal_rank_place *place, uint32_t rank_count, bool packages)
{
    uint32_t span = 0;
    for (uint32_t begin = 0; begin < rank_count;) {
        uint32_t end = begin + 1;
        while (end < rank_count && place[end].machine_key == place[begin].machine_key &&
               (!packages || place[end].package_key == place[begin].package_key)) {
            end++;
        }
        if (span != 0 && end - begin != span) {
            return 0;
        }
        span = end - begin;
        begin = end;
    }
    return span;
}

static void add_level(gal_cluster *out, const char *name, uint32_t span)
{
    gal_link_level *level = &out->level[out->level_count++];
    (void)snprintf(level->name, sizeof level->name, "%s", name);
    level->span_devices = span;
}

const gal_level_names gal_host_levels = {"package", "shared memory", "shared memory", "network"};
const gal_level_names gal_gpu_levels = {"nvlink", "pcie", "nvlink", "network"};

void gal_topology_levels(const gal_rank_place *place, uint32_t rank_count, const gal_level_names *names,
                         gal_cluster *out)
{
    const uint32_t machine = span_of(place, rank_count, false);
    const uint32_t package = span_of(place, rank_count, true);
    out->level_count = 0;
    if (package > 1 && package < rank_count && machine > package && machine % package == 0) {
        add_level(out, names->package, package);
    }
    if (machine > 1 || rank_count == 1) {
        add_level(out, package == machine ? names->whole : names->machine, machine);
    }
    if (out->level_count == 0 || out->level[out->level_count - 1].span_devices < rank_count) {
        add_level(out, names->network, rank_count);
    }
}

void gal_topology_count(const gal_cluster *cluster, const uint32_t *ranks, uint32_t count,
                        uint32_t units[GAL_LINK_LEVELS_MAX])
{
    for (uint32_t level = 0; level < cluster->level_count; level++) {
        const uint32_t span = cluster->level[level].span_devices;
        uint32_t touched = 1;
        for (uint32_t i = 1; i < count; i++) {
            touched += ranks[i] / span != ranks[i - 1] / span;
        }
        units[level] = touched > units[level] ? touched : units[level];
    }
}

void gal_topology_level_counts(const gal_cluster *cluster, const uint32_t units[GAL_LINK_LEVELS_MAX],
                               uint32_t member_count, uint32_t level_counts[GAL_LINK_LEVELS_MAX])
{
    uint32_t below = member_count;
    for (uint32_t level = 0; level < GAL_LINK_LEVELS_MAX; level++) {
        level_counts[level] = 1;
        if (level < cluster->level_count) {
            level_counts[level] = (below + units[level] - 1) / units[level];
            below = units[level];
        }
    }
}
