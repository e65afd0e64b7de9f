/* What the machine is: devices, memory, and the tree of links over the ranks of all machines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "profiler/profile_internal.h"
#include "schemas/base/fnv.h"

static void copy_text(char *target, size_t capacity, const char *text)
{
    (void)snprintf(target, capacity, "%s", text);
}

static void describe(gal_profiling *p)
{
    gal_profile *out = &p->profile;
    const time_t now = time(NULL);
    struct tm utc;
    copy_text(out->processor, sizeof out->processor, p->topology.processor);
    copy_text(out->command, sizeof out->command, p->settings->command);
    const gal_gpu *gpu = p->settings->gpu;
    char mpi[GAL_NAME_BYTES];
    gal_mpi_version(mpi, sizeof mpi);
    (void)snprintf(out->libraries, sizeof out->libraries, "%.100s; %.50s; hwloc %.20s%s%.63s", p->settings->blas, mpi,
                   p->topology.version, gpu != NULL ? "; " : "", gpu != NULL ? gpu->version : "");
    if (gmtime_r(&now, &utc) != NULL) {
        (void)strftime(out->date, sizeof out->date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    }
    out->rank_count = gal_world_size(&p->bench.world);
    copy_text(out->cluster.name, sizeof out->cluster.name, gpu != NULL ? "gpus" : "host");
    copy_text(out->cluster.device.kind, sizeof out->cluster.device.kind, gpu != NULL ? gpu->name : p->topology.kind);
    out->cluster.device_count = out->rank_count;
    out->cluster.device.multiprocessor_count = gpu != NULL ? gpu->multiprocessor_count : 0;
    if (p->settings->fabric != NULL) {
        char nic[GAL_NAME_BYTES];
        gal_nic_describe(&p->nic, nic, sizeof nic);
        (void)snprintf(out->processor, sizeof out->processor, "%.127s; %.60s; %.60s", p->settings->fabric->text, nic,
                       p->topology.kind);
    }
}

/* Equal in ranks that share a GPU. */
static uint64_t device_key(const gal_profiling *p)
{
    const gal_gpu *gpu = p->settings->gpu;
    return gpu != NULL ? gal_fnv(p->topology.machine_key, gpu->bus_id, strlen(gpu->bus_id)) : p->topology.machine_key;
}

/* What a rank may use; of a GPU sessions leave alone what is taken already, and a sixteenth for libraries. */
static void settle_memory(gal_profiling *p, uint32_t ranks_here)
{
    const gal_gpu *gpu = p->settings->gpu;
    const uint64_t memory_bytes =
        gpu != NULL ? gpu->memory_bytes / p->bench.sharing_count : p->topology.memory_bytes / ranks_here;
    uint64_t *bytes = &p->profile.cluster.device.memory_bytes;
    *bytes = p->settings->memory_bytes != 0 ? p->settings->memory_bytes : memory_bytes;
    p->session_bytes = *bytes;
    p->cold_bytes = GAL_COLD_BYTES_HOST;
    if (gpu != NULL) {
        const uint64_t taken = *bytes / 16 + p->profile.gpu.context_bytes;
        p->session_bytes = *bytes > taken ? *bytes - taken : 0;
        p->cold_bytes = 2 * gpu->cache_bytes > p->cold_bytes ? 2 * gpu->cache_bytes : p->cold_bytes;
    }
}

/* The NUMA nodes of the ranks, each once and in order; of more than a profile has room for the first ones. */
static void list_nodes(const gal_rank_place *place, uint32_t rank_count, gal_profile_host *out)
{
    bool more = true;
    uint32_t last = 0;
    while (more && out->node_count < GAL_PROFILE_NODES_MAX) {
        uint32_t next = UINT32_MAX;
        for (uint32_t i = 0; i < rank_count; i++) {
            const uint32_t own = place[i].numa_node;
            next = own < next && (out->node_count == 0 || own > last) ? own : next;
        }
        more = next != UINT32_MAX;
        last = next;
        if (more) {
            out->node[out->node_count++].node = next;
        }
    }
}

/* The places of all ranks to all of them: levels, NUMA nodes, and whether ranks share cores. */
static gal_code find_levels(gal_profiling *p, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_world *world = &p->bench.world;
    const uint32_t rank_count = gal_world_size(world);
    const gal_fabric *fabric = p->settings->fabric;
    const gal_rank_place mine = {.machine_key = p->topology.machine_key,
                                 .package_key = fabric != NULL ? gal_fabric_key(fabric, p->topology.machine_key)
                                                               : p->topology.package_key,
                                 .device_key = device_key(p),
                                 .numa_node = p->topology.numa_node};
    gal_rank_place *place = calloc(rank_count, sizeof *place);
    uint32_t here = 0;
    code = place != NULL ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: ranks");
    GAL_TRY(gal_world_agree(world, code, err));
    GAL_TRY(gal_world_gather(world, &mine, sizeof mine, gal_world_rank(world) == 0 ? place : NULL, err));
    if (world->comm != NULL) {
        GAL_TRY(gal_comm_broadcast(world->comm, 0, place, rank_count * sizeof *place, world->deadline_seconds, err));
    }
    gal_topology_levels(place, rank_count, fabric != NULL ? &gal_gpu_levels : &gal_host_levels, &p->profile.cluster);
    for (uint32_t i = 0; i < rank_count; i++) {
        here += place[i].machine_key == mine.machine_key;
        p->bench.sharing_count += p->settings->gpu != NULL && place[i].device_key == mine.device_key;
    }
    p->bench.sharing_count = p->bench.sharing_count > 0 ? p->bench.sharing_count : 1;
    settle_memory(p, here);
    p->threads_most = p->topology.core_count > here ? p->topology.core_count / here : 1;
    list_nodes(place, rank_count, &p->profile.host);
    /* One clock for all: makespans can be told only on one machine. */
    p->bench.shared_cores = p->settings->gpu == NULL && here == rank_count && here > p->topology.core_count;
cleanup:
    free(place);
    return code;
}

gal_code gal_profiling_look(gal_profiling *p, gal_error *err)
{
    const gal_device_ops *device = p->settings->backend->device;
    p->profile.has_gpu = p->settings->gpu != NULL;
    p->profile.gpu.tf32 = p->settings->tf32;
    p->profile.gpu.context_bytes = p->profile.has_gpu && device->used_bytes != NULL ? device->used_bytes() : 0;
    gal_code code = gal_topology_read(&p->topology, err);
    if (code == GAL_OK && p->profile.has_gpu) {
        code = gal_nic_read(p->settings->gpu->bus_id, &p->nic, err);
    }
    GAL_TRY(gal_world_agree(&p->bench.world, code, err));
    GAL_TRY(gal_world_same(&p->bench.world, p->profile.has_gpu ? p->settings->gpu->name : "the host", err));
    describe(p);
    GAL_TRY(find_levels(p, err));
    p->profile.gpu.context_bytes /= p->bench.sharing_count;
cleanup:
    return code;
}

/* What a fixed number of bytes consists of, once a communicator's is known; and rates that are the machine's alone. */
void gal_profiling_settle_gpu(gal_profiling *p)
{
    gal_profile_gpu *gpu = &p->profile.gpu;
    gal_device *device = &p->profile.cluster.device;
    if (!p->profile.has_gpu) {
        return;
    }
    const uint64_t known = gpu->context_bytes + gpu->communicator_bytes * p->session_communicators;
    gpu->library_bytes = p->profile.fixed_bytes > known ? p->profile.fixed_bytes - known : 0;
    if (device->fp64_flops_per_second == 0.0) { /* no kernels: by the data sheet's ratio */
        device->fp64_flops_per_second = device->fp32_flops_per_second * p->settings->gpu->fp64_ratio;
    }
    device->gemm_fraction = device->memory_fraction = 1.0; /* the rates are what was reached */
}
