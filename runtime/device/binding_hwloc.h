/* The choice behind gal_binding_apply, on any topology. For runtime/device and its tests: needs hwloc. */
#ifndef GAL_RUNTIME_DEVICE_BINDING_HWLOC_H
#define GAL_RUNTIME_DEVICE_BINDING_HWLOC_H

#include <hwloc.h>
#include <stdint.h>

typedef enum gal_binding_choice {
    GAL_BINDING_CHOSEN,
    GAL_BINDING_ALONE, /* one rank: it may use the whole host */
    GAL_BINDING_FEW,   /* fewer cores than ranks */
    GAL_BINDING_KEPT   /* the process is bound already */
} gal_binding_choice;

/* present: what the process is bound to. out: the processing units of the run of cores of local_rank < local_count;
 * set only if the choice is CHOSEN. Without cores in the topology processing units stand for them. */
gal_binding_choice gal_binding_choose(hwloc_topology_t topology, hwloc_const_bitmap_t present, uint32_t local_rank,
                                      uint32_t local_count, hwloc_bitmap_t out);

#endif
