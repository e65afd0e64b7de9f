/* The machine as hwloc sees it, and the tree of links over the ranks. */
#ifndef GAL_PROFILER_TOPOLOGY_H
#define GAL_PROFILER_TOPOLOGY_H

#include <stdint.h>

#include "schemas/profile.h"

typedef struct gal_topology {
    char kind[GAL_NAME_BYTES];      /* the processor's name */
    char processor[GAL_TEXT_BYTES]; /* packages, NUMA nodes, cores, processing units, caches, memory */
    char version[GAL_NAME_BYTES];   /* hwloc's own */
    uint64_t memory_bytes;          /* of the machine */
    uint32_t core_count;            /* processing units that this process may run on */
    uint64_t machine_key;           /* equal in ranks of one machine */
    uint64_t package_key;           /* equal in ranks bound to one package of one machine; machine_key unless bound */
    uint32_t numa_node;             /* the first one that this process may run on: hwloc's logical index */
} gal_topology;

/* GAL_ERR_SYSTEM if hwloc fails. */
gal_code gal_topology_read(gal_topology *out, gal_error *err);

/* The keys of one rank. */
typedef struct gal_rank_place {
    uint64_t machine_key;
    uint64_t package_key; /* of GPUs: of the island of NVLink */
    uint64_t device_key;  /* equal in ranks on one GPU */
    uint32_t numa_node;
} gal_rank_place;

/* What levels are called: within a package, within a machine, and a machine that is one package; between machines. */
typedef struct gal_level_names {
    const char *package, *machine, *whole, *network;
} gal_level_names;
extern const gal_level_names gal_host_levels, gal_gpu_levels;

/* Levels of packages, machines and all of them over ranks 0 .. rank_count-1, those that exist: a level is there if
 * its units hold equally many consecutive ranks, and more than the level below. Ranks that no launcher has bound move
 * between packages, so only bound ones have the first. Rates are left 0. Sets level_count and level[].name and
 * .span_devices; the outermost spans all ranks. */
void gal_topology_levels(const gal_rank_place *place, uint32_t rank_count, const gal_level_names *names,
                         gal_cluster *out);

/* Members of ranks[count] (ascending) in their units at each level, as gal_profile_collective.level_counts has them.
 * counts is raised to the widest, so that it may be called for all groups of a kind. */
void gal_topology_count(const gal_cluster *cluster, const uint32_t *ranks, uint32_t count,
                        uint32_t units[GAL_LINK_LEVELS_MAX]);
/* From units touched at each level (gal_topology_count over every group) to level_counts. */
void gal_topology_level_counts(const gal_cluster *cluster, const uint32_t units[GAL_LINK_LEVELS_MAX],
                               uint32_t member_count, uint32_t level_counts[GAL_LINK_LEVELS_MAX]);

#endif
