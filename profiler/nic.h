/* Which network adapter is nearest to a GPU, by where both are on PCI. */
#ifndef GAL_PROFILER_NIC_H
#define GAL_PROFILER_NIC_H

#include <hwloc.h>

#include "schemas/profile.h"

/* From the nearest to the farthest. */
typedef enum gal_nic_distance {
    GAL_NIC_SAME_SWITCH,  /* of PCIe: data goes from one to the other without the host */
    GAL_NIC_SAME_PACKAGE, /* through the processor that both hang on */
    GAL_NIC_OTHER_PACKAGE,
    GAL_NIC_NONE,
    GAL_NIC_DISTANCE_COUNT
} gal_nic_distance;

typedef struct gal_nic {
    char name[GAL_NAME_BYTES]; /* "mlx5_0"; empty: there is none */
    gal_nic_distance distance;
} gal_nic;

/* topology: loaded with its I/O objects. bus_id "0000:1b:00.0". Adapters for RDMA come before others; of equally near
 * ones it is the first. */
void gal_nic_nearest(hwloc_topology_t topology, const char *bus_id, gal_nic *out);
/* The same, of this machine. */
gal_code gal_nic_read(const char *bus_id, gal_nic *out, gal_error *err);
/* ", mlx5_0 behind the same PCIe switch" */
void gal_nic_describe(const gal_nic *nic, char *text, size_t capacity);

#endif
