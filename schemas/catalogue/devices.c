#include "schemas/catalogue/devices.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "schemas/base/nearest.h"

#define GB *UINT64_C(1000000000)

const gal_catalogue_device gal_catalogue_devices[] = {
    {.device = {.kind = "h100-sxm-80g",
                .memory_bytes = 80 GB,
                .memory_bytes_per_second = 3350e9,
                .fp32_flops_per_second = 67e12,
                .fp64_flops_per_second = 67e12,
                .tf32_flops_per_second = 494.5e12,
                .fp16_flops_per_second = 989e12,
                .bf16_flops_per_second = 989e12,
                .multiprocessor_count = 132},
     .words = {"h100", "h100sxm", "h10080g"},
     .node_devices = 8,
     .node_family = "nvlink",
     .node_generation = 4,
     .network_family = "infiniband",
     .network_bytes_per_second = 50e9},
    {.device = {.kind = "h100-pcie-80g",
                .memory_bytes = 80 GB,
                .memory_bytes_per_second = 2000e9,
                .fp32_flops_per_second = 51e12,
                .fp64_flops_per_second = 51e12,
                .tf32_flops_per_second = 378e12,
                .fp16_flops_per_second = 756e12,
                .bf16_flops_per_second = 756e12,
                .multiprocessor_count = 114},
     .words = {"h100pcie", "h10080gpcie"},
     .node_devices = 8,
     .node_family = "pcie",
     .node_generation = 5},
    {.device = {.kind = "h200-sxm-141g",
                .memory_bytes = 141 GB,
                .memory_bytes_per_second = 4800e9,
                .fp32_flops_per_second = 67e12,
                .fp64_flops_per_second = 67e12,
                .tf32_flops_per_second = 494.5e12,
                .fp16_flops_per_second = 989e12,
                .bf16_flops_per_second = 989e12,
                .multiprocessor_count = 132},
     .words = {"h200", "h200sxm", "h200141g"},
     .node_devices = 8,
     .node_family = "nvlink",
     .node_generation = 4,
     .network_family = "infiniband",
     .network_bytes_per_second = 50e9},
    {.device = {.kind = "gh200-96g",
                .memory_bytes = 96 GB,
                .memory_bytes_per_second = 4000e9,
                .fp32_flops_per_second = 67e12,
                .fp64_flops_per_second = 67e12,
                .tf32_flops_per_second = 494.5e12,
                .fp16_flops_per_second = 989e12,
                .bf16_flops_per_second = 989e12,
                .multiprocessor_count = 132},
     .words = {"gh200"},
     .node_devices = 32,
     .node_family = "nvlink",
     .node_generation = 4,
     .network_family = "infiniband",
     .network_bytes_per_second = 50e9},
    {.device = {.kind = "b200-180g",
                .memory_bytes = 180 GB,
                .memory_bytes_per_second = 7700e9,
                .fp32_flops_per_second = 75e12,
                .fp64_flops_per_second = 37e12,
                .tf32_flops_per_second = 1100e12,
                .fp16_flops_per_second = 2250e12,
                .bf16_flops_per_second = 2250e12,
                .multiprocessor_count = 148},
     .words = {"b200", "b200sxm"},
     .node_devices = 8,
     .node_family = "nvlink",
     .node_generation = 5,
     .network_family = "infiniband",
     .network_bytes_per_second = 50e9},
    {.device = {.kind = "a100-sxm-40g",
                .memory_bytes = 40 GB,
                .memory_bytes_per_second = 1555e9,
                .fp32_flops_per_second = 19.5e12,
                .fp64_flops_per_second = 19.5e12,
                .tf32_flops_per_second = 156e12,
                .fp16_flops_per_second = 312e12,
                .bf16_flops_per_second = 312e12,
                .multiprocessor_count = 108},
     .words = {"a100", "a100sxm", "a10040g"},
     .node_devices = 8,
     .node_family = "nvlink",
     .node_generation = 3,
     .network_family = "infiniband",
     .network_bytes_per_second = 25e9},
    {.device = {.kind = "a100-sxm-80g",
                .memory_bytes = 80 GB,
                .memory_bytes_per_second = 2039e9,
                .fp32_flops_per_second = 19.5e12,
                .fp64_flops_per_second = 19.5e12,
                .tf32_flops_per_second = 156e12,
                .fp16_flops_per_second = 312e12,
                .bf16_flops_per_second = 312e12,
                .multiprocessor_count = 108},
     .words = {"a10080g"},
     .node_devices = 8,
     .node_family = "nvlink",
     .node_generation = 3,
     .network_family = "infiniband",
     .network_bytes_per_second = 25e9},
    {.device = {.kind = "a100-pcie-80g",
                .memory_bytes = 80 GB,
                .memory_bytes_per_second = 1935e9,
                .fp32_flops_per_second = 19.5e12,
                .fp64_flops_per_second = 19.5e12,
                .tf32_flops_per_second = 156e12,
                .fp16_flops_per_second = 312e12,
                .bf16_flops_per_second = 312e12,
                .multiprocessor_count = 108},
     .words = {"a100pcie", "a10080gpcie"},
     .node_devices = 8,
     .node_family = "pcie",
     .node_generation = 4},
    {.device = {.kind = "v100-sxm2-32g",
                .memory_bytes = 32 GB,
                .memory_bytes_per_second = 900e9,
                .fp32_flops_per_second = 15.7e12,
                .fp64_flops_per_second = 7.8e12,
                .fp16_flops_per_second = 125e12,
                .multiprocessor_count = 80},
     .words = {"v100", "v100sxm", "v10032g"},
     .node_devices = 8,
     .node_family = "nvlink",
     .node_generation = 2,
     .network_family = "infiniband",
     .network_bytes_per_second = 6.25e9},
    {.device = {.kind = "p100-pcie-16g",
                .memory_bytes = 16 GB,
                .memory_bytes_per_second = 732e9,
                .fp32_flops_per_second = 9.3e12,
                .fp64_flops_per_second = 4.7e12,
                .fp16_flops_per_second = 18.7e12,
                .multiprocessor_count = 56},
     .words = {"p100", "p100pcie", "p10016g"},
     .node_devices = 8,
     .node_family = "pcie",
     .node_generation = 3},
    {.device = {.kind = "mi300x-192g",
                .memory_bytes = 192 GB,
                .memory_bytes_per_second = 5300e9,
                .fp32_flops_per_second = 163.4e12,
                .fp64_flops_per_second = 163.4e12,
                .tf32_flops_per_second = 653.7e12,
                .fp16_flops_per_second = 1307.4e12,
                .bf16_flops_per_second = 1307.4e12,
                .multiprocessor_count = 304},
     .words = {"mi300x", "mi300"},
     .node_devices = 8,
     .node_family = "infinity-fabric",
     .node_generation = 0,
     .network_family = "infiniband",
     .network_bytes_per_second = 50e9},
    {.device = {.kind = "l40s",
                .memory_bytes = 48 GB,
                .memory_bytes_per_second = 864e9,
                .fp32_flops_per_second = 91.6e12,
                .fp64_flops_per_second = 1.43e12,
                .tf32_flops_per_second = 183e12,
                .fp16_flops_per_second = 362e12,
                .bf16_flops_per_second = 362e12,
                .multiprocessor_count = 142},
     .words = {"l40s48g"},
     .node_devices = 8,
     .node_family = "pcie",
     .node_generation = 4},
    {.device = {.kind = "l4",
                .memory_bytes = 24 GB,
                .memory_bytes_per_second = 300e9,
                .fp32_flops_per_second = 30.3e12,
                .fp64_flops_per_second = 473e9,
                .tf32_flops_per_second = 60e12,
                .fp16_flops_per_second = 121e12,
                .bf16_flops_per_second = 121e12,
                .multiprocessor_count = 58},
     .words = {"l424g"},
     .node_devices = 8,
     .node_family = "pcie",
     .node_generation = 4},
    {.device = {.kind = "a10g",
                .memory_bytes = 24 GB,
                .memory_bytes_per_second = 600e9,
                .fp32_flops_per_second = 35e12,
                .fp64_flops_per_second = 547e9,
                .tf32_flops_per_second = 35e12,
                .fp16_flops_per_second = 70e12,
                .bf16_flops_per_second = 70e12,
                .multiprocessor_count = 80},
     .words = {"a10g24g"},
     .node_devices = 8,
     .node_family = "pcie",
     .node_generation = 4},
    {.device = {.kind = "rtx-a6000",
                .memory_bytes = 48 GB,
                .memory_bytes_per_second = 768e9,
                .fp32_flops_per_second = 38.7e12,
                .fp64_flops_per_second = 605e9,
                .tf32_flops_per_second = 77.4e12,
                .fp16_flops_per_second = 154.8e12,
                .bf16_flops_per_second = 154.8e12,
                .multiprocessor_count = 84},
     .words = {"a6000", "a600048g"},
     .node_devices = 8,
     .node_family = "pcie",
     .node_generation = 4},
    {.device = {.kind = "rtx-4090",
                .memory_bytes = 24 GB,
                .memory_bytes_per_second = 1008e9,
                .fp32_flops_per_second = 82.6e12,
                .fp64_flops_per_second = 1.29e12,
                .tf32_flops_per_second = 82.6e12,
                .fp16_flops_per_second = 165.2e12,
                .bf16_flops_per_second = 165.2e12,
                .multiprocessor_count = 128},
     .words = {"4090", "rtx409024g"},
     .node_devices = 8,
     .node_family = "pcie",
     .node_generation = 4},
    {.device = {.kind = "rtx-3090",
                .memory_bytes = 24 GB,
                .memory_bytes_per_second = 936e9,
                .fp32_flops_per_second = 35.6e12,
                .fp64_flops_per_second = 556e9,
                .tf32_flops_per_second = 35.6e12,
                .fp16_flops_per_second = 71e12,
                .bf16_flops_per_second = 71e12,
                .multiprocessor_count = 82},
     .words = {"3090", "rtx309024g"},
     .node_devices = 8,
     .node_family = "pcie",
     .node_generation = 4},
    {.device = {.kind = "rtx-titan",
                .memory_bytes = 24 GB,
                .memory_bytes_per_second = 672e9,
                .fp32_flops_per_second = 16.3e12,
                .fp64_flops_per_second = 510e9,
                .fp16_flops_per_second = 130.5e12,
                .multiprocessor_count = 72},
     .words = {"titan", "titanrtx"},
     .node_devices = 8,
     .node_family = "pcie",
     .node_generation = 3},
};
const uint32_t gal_catalogue_device_count = sizeof gal_catalogue_devices / sizeof gal_catalogue_devices[0];

#undef GB

gal_device gal_catalogue_device_figures(const gal_catalogue_device *row)
{
    gal_device device = row->device;
    device.launch_seconds = 3e-6;
    device.gemm_fraction = 0.85;
    device.memory_fraction = 0.85;
    return device;
}

/* ---- names ---- */

/* Words of a device's full name that tell nothing apart: makers, and kinds of memory. */
static bool is_noise(const char *word)
{
    static const char *const noise[] = {"nvidia", "geforce", "tesla", "quadro", "amd",  "instinct", "radeon",
                                        "gpu",    "gpus",    "hbm2",  "hbm2e",  "hbm3", "hbm3e"};
    for (size_t i = 0; i < sizeof noise / sizeof noise[0]; i++) {
        if (strcmp(word, noise[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Shorten "80gb", or "gb" behind a number, to "80g", and "sxm5" to "sxm", in place. */
static void shorten(char *word, bool behind_number)
{
    const size_t length = strlen(word);
    const bool is_number = length > 2 ? isdigit((unsigned char)word[length - 3]) != 0 : length == 2 && behind_number;
    if (is_number && strcmp(word + length - 2, "gb") == 0) {
        word[length - 1] = '\0';
    } else if (length == 4 && strncmp(word, "sxm", 3) == 0 && isdigit((unsigned char)word[3])) {
        word[3] = '\0';
    }
}

bool gal_device_plain(const char *name, char out[GAL_PLAIN_BYTES])
{
    size_t used = strlen(out);
    while (*name != '\0') {
        char word[GAL_PLAIN_BYTES];
        size_t length = 0;
        for (; *name != '\0' && !isalnum((unsigned char)*name); name++) {
        }
        for (; isalnum((unsigned char)*name) && length + 1 < sizeof word; name++) {
            word[length++] = (char)tolower((unsigned char)*name);
        }
        word[length] = '\0';
        shorten(word, used > 0 && isdigit((unsigned char)out[used - 1]));
        length = is_noise(word) ? 0 : strlen(word);
        if (used + length >= GAL_PLAIN_BYTES) {
            return false;
        }
        memcpy(out + used, word, length);
        used += length;
        out[used] = '\0';
    }
    return true;
}

/* The row whose kind or word is so many edits from a plain name at most, the nearest; or NULL. */
static const gal_catalogue_device *find_within(const char *plain, uint32_t edits_max)
{
    const gal_catalogue_device *nearest = NULL;
    uint32_t fewest = edits_max + 1;
    for (uint32_t i = 0; i < gal_catalogue_device_count; i++) {
        const gal_catalogue_device *row = &gal_catalogue_devices[i];
        char kind[GAL_PLAIN_BYTES] = "";
        GAL_ASSERT(gal_device_plain(row->device.kind, kind));
        uint32_t edits = gal_edits_between(plain, kind);
        for (uint32_t w = 0; w < GAL_DEVICE_WORDS_MAX && row->words[w] != NULL; w++) {
            const uint32_t others = gal_edits_between(plain, row->words[w]);
            edits = others < edits ? others : edits;
        }
        if (edits < fewest) {
            fewest = edits;
            nearest = row;
        }
    }
    return nearest;
}

const gal_catalogue_device *gal_catalogue_device_find(const char *plain)
{
    return find_within(plain, 0);
}

const char *gal_catalogue_device_nearest(const char *plain)
{
    const gal_catalogue_device *row = find_within(plain, GAL_EDITS_FAR - 1);
    return row == NULL ? NULL : row->device.kind;
}

void gal_catalogue_device_kinds(char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < gal_catalogue_device_count && used + 1 < capacity; i++) {
        (void)snprintf(text + used, capacity - used, "%s%s", used == 0 ? "" : ", ",
                       gal_catalogue_devices[i].device.kind);
        used = strlen(text);
    }
}
