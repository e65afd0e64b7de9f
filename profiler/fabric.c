#include "profiler/fabric.h"

#include <stdio.h>
#include <string.h>

#include "schemas/base/fnv.h"

/* "00000000:1B:00.0" as "0000:1b:00.0". */
static void put_bus_id(const gal_nvml_pci *pci, char out[GAL_BUS_ID_BYTES])
{
    (void)snprintf(out, GAL_BUS_ID_BYTES, "%04x:%02x:%02x.0", pci->domain & 0xFFFFu, pci->bus & 0xFFu,
                   pci->device & 0xFFu);
}

static uint32_t number_of(const gal_fabric *f, const char *bus_id)
{
    uint32_t i = 0;
    while (i < f->gpu_count && strcmp(f->bus_id[i], bus_id) != 0) {
        i++;
    }
    return i;
}

static void *device_of(const gal_nvml *nvml, uint32_t number)
{
    void *device = NULL;
    return nvml->get_handle_by_index(number, &device) == 0 ? device : NULL;
}

/* The links of one GPU. What a link leads to says the remote type, and where an old driver has no such call the PCI
 * address: a GPU of this machine, or else a switch. */
static void read_links(const gal_nvml *nvml, gal_fabric *f, uint32_t gpu)
{
    void *device = device_of(nvml, gpu);
    for (unsigned link = 0; device != NULL && link < GAL_NVLINKS_MAX; link++) {
        int active = 0, type = GAL_NVML_REMOTE_GPU;
        char bus_id[GAL_BUS_ID_BYTES];
        gal_nvml_pci pci;
        memset(&pci, 0, sizeof pci);
        if (nvml->get_nvlink_state(device, link, &active) != 0 || active == 0) {
            continue;
        }
        const bool known =
            nvml->get_nvlink_remote_type != NULL && nvml->get_nvlink_remote_type(device, link, &type) == 0;
        if (known && type == GAL_NVML_REMOTE_SWITCH) {
            f->switch_link_count[gpu]++;
        } else if (nvml->get_nvlink_remote_pci(device, link, &pci) == 0) {
            put_bus_id(&pci, bus_id);
            const uint32_t other = number_of(f, bus_id);
            if (other < f->gpu_count && other != gpu) {
                f->link_count[gpu][other]++;
            } else if (!known) {
                f->switch_link_count[gpu]++;
            }
        }
    }
}

static bool are_joined(const gal_fabric *f, uint32_t a, uint32_t b)
{
    return f->link_count[a][b] > 0 || f->link_count[b][a] > 0 ||
           (f->switch_link_count[a] > 0 && f->switch_link_count[b] > 0);
}

/* The lowest number spreads until nothing changes: as often as there are GPUs at most. */
static void find_islands(gal_fabric *f)
{
    for (uint32_t i = 0; i < f->gpu_count; i++) {
        f->island[i] = i;
    }
    for (uint32_t round = 0; round < f->gpu_count; round++) {
        for (uint32_t a = 0; a < f->gpu_count; a++) {
            for (uint32_t b = 0; b < f->gpu_count; b++) {
                if (are_joined(f, a, b) && f->island[b] < f->island[a]) {
                    f->island[a] = f->island[b];
                }
            }
        }
    }
}

static uint32_t own_links(const gal_fabric *f)
{
    uint32_t count = f->switch_link_count[f->own];
    for (uint32_t i = 0; i < f->gpu_count; i++) {
        count += f->link_count[f->own][i];
    }
    return count;
}

static void describe(gal_fabric *f)
{
    uint32_t islands = 0;
    char links[48] = "no NVLink", pcie[32] = "";
    for (uint32_t i = 0; i < f->gpu_count; i++) {
        islands += f->island[i] == i;
    }
    if (own_links(f) > 0) {
        (void)snprintf(links, sizeof links, "%u island%s of NVLink, %u links each", islands, islands == 1 ? "" : "s",
                       own_links(f));
    }
    if (f->pcie_generation > 0 && f->pcie_lanes > 0) {
        (void)snprintf(pcie, sizeof pcie, "; PCIe %u.0 x%u", f->pcie_generation, f->pcie_lanes);
    }
    (void)snprintf(f->text, sizeof f->text, "%u GPU%s, %s%s", f->gpu_count, f->gpu_count == 1 ? "" : "s", links, pcie);
}

static void read_own(const gal_nvml *nvml, gal_fabric *f)
{
    unsigned generation = 0, lanes = 0, megahertz = 0;
    void *device = device_of(nvml, f->own);
    if (device != NULL && nvml->get_pcie_generation(device, &generation) == 0 &&
        nvml->get_pcie_width(device, &lanes) == 0) {
        f->pcie_generation = generation;
        f->pcie_lanes = lanes;
    }
    if (device != NULL && nvml->get_clock_max(device, GAL_NVML_CLOCK_SM, &megahertz) == 0) {
        f->clock_hertz_max = megahertz * 1e6;
    }
}

void gal_fabric_read(const gal_nvml *nvml, const char *bus_id, const char *why, gal_fabric *out)
{
    unsigned count = 0;
    memset(out, 0, sizeof *out);
    (void)snprintf(out->own_bus_id, sizeof out->own_bus_id, "%s", bus_id);
    (void)snprintf(out->text, sizeof out->text, "%s", why);
    if (nvml == NULL || nvml->get_count(&count) != 0) {
        return;
    }
    out->gpu_count = count < GAL_GPUS_MAX ? count : GAL_GPUS_MAX;
    for (uint32_t i = 0; i < out->gpu_count; i++) {
        gal_nvml_pci pci;
        memset(&pci, 0, sizeof pci);
        void *device = device_of(nvml, i);
        if (device != NULL && nvml->get_pci_info(device, &pci) == 0) {
            put_bus_id(&pci, out->bus_id[i]);
        }
    }
    out->own = number_of(out, bus_id);
    if (out->own == out->gpu_count) { /* it is one that NVML does not see: a part of a GPU, say */
        out->gpu_count = 0;
        (void)snprintf(out->text, sizeof out->text, "NVML knows no GPU %s: what joins the GPUs is not known", bus_id);
        return;
    }
    for (uint32_t i = 0; i < out->gpu_count; i++) {
        read_links(nvml, out, i);
    }
    find_islands(out);
    read_own(nvml, out);
    describe(out);
}

uint64_t gal_fabric_key(const gal_fabric *fabric, uint64_t machine_key)
{
    const char *first = fabric->gpu_count > 0 ? fabric->bus_id[fabric->island[fabric->own]] : fabric->own_bus_id;
    return gal_fnv(machine_key, first, strlen(first));
}

double gal_nvml_clock_hertz(const gal_nvml *nvml, const gal_fabric *fabric)
{
    unsigned megahertz = 0;
    void *device = nvml != NULL && fabric->gpu_count > 0 ? device_of(nvml, fabric->own) : NULL;
    return device != NULL && nvml->get_clock(device, GAL_NVML_CLOCK_SM, &megahertz) == 0 ? megahertz * 1e6 : 0.0;
}
