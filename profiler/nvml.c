/* Loading NVML: it comes with the driver, and a machine without one has none. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "profiler/fabric.h"

typedef int (*start)(void);

/* ISO C has no conversion from data to functions; POSIX promises that the bytes are those. */
static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool find_all(gal_nvml *out)
{
    void *library = out->library;
    (void)find(library, "nvmlDeviceGetNvLinkRemoteDeviceType", &out->get_nvlink_remote_type);
    return find(library, "nvmlDeviceGetCount_v2", &out->get_count) &&
           find(library, "nvmlDeviceGetHandleByIndex_v2", &out->get_handle_by_index) &&
           find(library, "nvmlDeviceGetPciInfo_v3", &out->get_pci_info) &&
           find(library, "nvmlDeviceGetNvLinkState", &out->get_nvlink_state) &&
           find(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2", &out->get_nvlink_remote_pci) &&
           find(library, "nvmlDeviceGetCurrPcieLinkGeneration", &out->get_pcie_generation) &&
           find(library, "nvmlDeviceGetCurrPcieLinkWidth", &out->get_pcie_width) &&
           find(library, "nvmlDeviceGetClockInfo", &out->get_clock) &&
           find(library, "nvmlDeviceGetMaxClockInfo", &out->get_clock_max);
}

bool gal_nvml_open(gal_nvml *out, char *why, size_t capacity)
{
    start begin = NULL;
    *out = (gal_nvml){.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
    if (out->library == NULL) {
        (void)snprintf(why, capacity, "no NVML (libnvidia-ml.so.1): what joins the GPUs is not known");
        return false;
    }
    if (!find(out->library, "nvmlInit_v2", &begin) || !find_all(out)) {
        (void)snprintf(why, capacity, "an old NVML: what joins the GPUs is not known");
        gal_nvml_close(out);
        return false;
    }
    const int failure = begin();
    if (failure != 0) {
        (void)snprintf(why, capacity, "NVML does not start (%d): what joins the GPUs is not known", failure);
        gal_nvml_close(out);
        return false;
    }
    return true;
}

void gal_nvml_close(gal_nvml *nvml)
{
    start end = NULL;
    if (nvml->library != NULL) {
        if (nvml->get_count != NULL && find(nvml->library, "nvmlShutdown", &end)) {
            (void)end();
        }
        (void)dlclose(nvml->library);
    }
    *nvml = (gal_nvml){0};
}
