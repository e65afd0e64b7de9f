#include "schemas/catalogue/links.h"

#include <stdio.h>
#include <string.h>

/* Latency and achievable fraction of each technology. */
#define NVLINK 3.4e-6
#define PCI 5.7e-6
#define NETWORK 14e-6

const gal_catalogue_link gal_catalogue_links[] = {
    {"nvlink", 2, false, NVLINK, 150e9, 0.82},  {"nvlink", 3, false, NVLINK, 300e9, 0.82},
    {"nvlink", 4, false, NVLINK, 450e9, 0.82},  {"nvlink", 5, false, NVLINK, 900e9, 0.82},
    {"pcie", 3, false, PCI, 15.75e9, 0.8},      {"pcie", 4, false, PCI, 31.5e9, 0.8},
    {"pcie", 5, false, PCI, 63e9, 0.8},         {"infinity-fabric", 0, false, NVLINK, 448e9, 0.82},
    {"infiniband", 0, true, NETWORK, 0.0, 0.9}, {"ethernet", 0, true, NETWORK, 0.0, 0.9}};
const uint32_t gal_catalogue_link_count = sizeof gal_catalogue_links / sizeof gal_catalogue_links[0];

const gal_link_word gal_link_words[] = {{"nvlink", "nvlink"},
                                        {"nvswitch", "nvlink"},
                                        {"pcie", "pcie"},
                                        {"infinityfabric", "infinity-fabric"},
                                        {"xgmi", "infinity-fabric"},
                                        {"infiniband", "infiniband"},
                                        {"ib", "infiniband"},
                                        {"ethernet", "ethernet"},
                                        {"eth", "ethernet"},
                                        {"roce", "ethernet"}};
const uint32_t gal_link_word_count = sizeof gal_link_words / sizeof gal_link_words[0];

const gal_catalogue_link *gal_catalogue_link_find(const char *family, uint32_t generation)
{
    for (uint32_t i = 0; i < gal_catalogue_link_count; i++) {
        const gal_catalogue_link *link = &gal_catalogue_links[i];
        if (link->generation == generation && strcmp(link->family, family) == 0) {
            return link;
        }
    }
    return NULL;
}

void gal_catalogue_link_name(const gal_catalogue_link *link, char name[GAL_NAME_BYTES])
{
    (void)snprintf(name, GAL_NAME_BYTES, link->generation > 0 ? "%s-%u" : "%s", link->family, link->generation);
}
