/* What joins the GPUs of a machine, as NVML tells it: the driver's library, which is loaded when it is asked for. */
#ifndef GAL_PROFILER_FABRIC_H
#define GAL_PROFILER_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler/gpu.h"

enum { GAL_GPUS_MAX = 32, GAL_NVLINKS_MAX = 18, GAL_NVML_BUS_ID_BYTES = 32, GAL_FABRIC_TEXT_BYTES = 128 };

/* nvml.h: nvmlPciInfo_t */
typedef struct gal_nvml_pci {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[GAL_NVML_BUS_ID_BYTES]; /* "00000000:1B:00.0" */
} gal_nvml_pci;

enum { GAL_NVML_REMOTE_GPU = 0, GAL_NVML_REMOTE_SWITCH = 2, GAL_NVML_CLOCK_SM = 1 };

/* The calls that are made of NVML, under its names without nvmlDevice; all return 0 when they succeed. Source: NVIDIA,
 * "NVML API Reference Guide". */
typedef struct gal_nvml {
    void *library; /* of dlopen */
    int (*get_count)(unsigned *count);
    int (*get_handle_by_index)(unsigned index, void **device);
    int (*get_pci_info)(void *device, gal_nvml_pci *pci);
    int (*get_nvlink_state)(void *device, unsigned link, int *active);
    int (*get_nvlink_remote_type)(void *device, unsigned link, int *type); /* NULL: an old driver */
    int (*get_nvlink_remote_pci)(void *device, unsigned link, gal_nvml_pci *pci);
    int (*get_pcie_generation)(void *device, unsigned *generation);
    int (*get_pcie_width)(void *device, unsigned *lanes);
    int (*get_clock)(void *device, int type, unsigned *megahertz);
    int (*get_clock_max)(void *device, int type, unsigned *megahertz);
} gal_nvml;

/* False: this machine has no NVML, or one that lacks a call; *why says so, *out is zeroed. */
bool gal_nvml_open(gal_nvml *out, char *why, size_t capacity);
void gal_nvml_close(gal_nvml *nvml); /* accepts a zeroed one */

/* Number `own` is this process's GPU; gpu_count 0: nothing is known. */
typedef struct gal_fabric {
    uint32_t gpu_count, own;
    char bus_id[GAL_GPUS_MAX][GAL_BUS_ID_BYTES];
    uint32_t link_count[GAL_GPUS_MAX][GAL_GPUS_MAX]; /* of NVLink, from one to the other without a switch */
    uint32_t switch_link_count[GAL_GPUS_MAX];        /* of NVLink, to switches */
    uint32_t island[GAL_GPUS_MAX]; /* the lowest GPU that this one reaches over NVLink, itself if none */
    uint32_t pcie_generation, pcie_lanes;
    double clock_hertz_max;
    char own_bus_id[GAL_BUS_ID_BYTES];
    char text[GAL_FABRIC_TEXT_BYTES]; /* "8 GPUs in 1 island of NVLink, 18 links each; PCIe 5.0 x16" */
} gal_fabric;

/* nvml NULL: nothing is known, and text is `why`. Whatever NVML does not tell is left out. */
void gal_fabric_read(const gal_nvml *nvml, const char *bus_id, const char *why, gal_fabric *out);

/* Equal in ranks whose GPUs are of one island of one machine. Without NVLink, or where it is not known, each GPU is an
 * island. */
uint64_t gal_fabric_key(const gal_fabric *fabric, uint64_t machine_key);

/* Of the multiprocessors, now; 0: not known. nvml may be NULL. */
double gal_nvml_clock_hertz(const gal_nvml *nvml, const gal_fabric *fabric);

#endif
