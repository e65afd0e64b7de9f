/* What would do where no plan fits: the least memory per device, and the least number of devices.
 *
 * Both are of the space, batches, microbatch counts and pipeline degrees that the request asks for, by bytes alone:
 * planner/least/least_cell.h says of which chains; interleaved and zero-bubble plans are uniform
 * (planner/cell/uniform.h). A cell is not looked at where its floor (planner/bound/screen.h) is above what is known. */
#ifndef GAL_PLANNER_LEAST_LEAST_H
#define GAL_PLANNER_LEAST_LEAST_H

#include "planner/cell/cell_list.h"

typedef struct gal_least_memory {
    bool exists;                /* false: no chain of any cell is legal */
    uint64_t bytes;             /* of a device, fixed bytes included */
    uint64_t bound_bytes;       /* nothing less will do; = bytes: the least */
    gal_cell_numbers numbers;   /* of the first cell that has it */
    uint32_t *stage, *strategy; /* owned; [block], strategies of gal_space_strategies; NULL where plans are uniform */
} gal_least_memory;

/* For the request whatever its limit. GAL_ERR_SYSTEM without memory. */
gal_code gal_least_memory_find(const gal_search_request *request, gal_least_memory *out, gal_error *err);
void gal_least_memory_free(gal_least_memory *least);

/* The counts that a cluster could have, in ascending order: divisors of its node, then whole nodes, up to `most`. A
 * node is what the outermost link joins; the whole of a cluster of one link. More nodes hang on the outermost link. */
typedef struct gal_device_counts {
    const gal_cluster *cluster; /* before any of its devices were left out */
    uint32_t most;
} gal_device_counts;

uint32_t gal_node_devices(const gal_cluster *cluster);
/* The count behind `devices`; 0 behind the last one. The first one is behind 0. */
uint32_t gal_device_counts_next(const gal_device_counts *counts, uint32_t devices);
/* The cluster with so many devices. */
void gal_cluster_resize(gal_cluster *cluster, uint32_t devices);

typedef struct gal_least_devices {
    bool exists;
    uint32_t device_count;
    bool proven; /* no smaller count will do; where none exists, none up to the most */
    gal_cell_numbers numbers;
} gal_least_devices;

/* The smallest count for which a plan fits in the request's memory. More devices need not be better: what divides
 * decides. So all counts are tried from the smallest on. pp_degrees: those asked for (the request's may be cut to its
 * cluster's); takeaways count. GAL_ERR_SYSTEM without memory. */
gal_code gal_least_devices_find(const gal_search_request *request, const gal_u32_list *pp_degrees,
                                const gal_device_counts *counts, gal_least_devices *out, gal_error *err);

#endif
