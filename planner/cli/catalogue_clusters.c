/* galplan clusters: the lists of clusters and of kinds of devices. */
#include <stdio.h>
#include <string.h>

#include "planner/cli/catalogue_lists.h"
#include "schemas/catalogue/catalogue.h"
#include "schemas/catalogue/devices.h"
#include "schemas/cluster.h"

static void print_heading(const char *group)
{
    printf(group[0] == '\0' ? "Clusters that people use:\n" : "\nClusters of %s:\n", group);
    printf("%-18s %4s   %-14s %6s  %8s  %8s  %6s  %s\n", "", "", "", "memory", "bf16", "fp32", "GB/s",
           "links, and GB/s per device");
}

/* "989 T", or "-" for a rate that the device has not. */
static void print_rate(double flops_per_second)
{
    if (flops_per_second > 0.0) {
        printf("  %6.4g T", flops_per_second * 1e-12);
    } else {
        printf("  %8s", "-");
    }
}

static void print_cluster(const char *name, const gal_cluster *cluster)
{
    const gal_device *device = &cluster->device;
    printf("%-18s %4u x %-14s %3.0f GB", name, cluster->device_count, device->kind,
           (double)device->memory_bytes * 1e-9);
    print_rate(device->bf16_flops_per_second);
    print_rate(device->fp32_flops_per_second);
    printf("  %6.0f  ", device->memory_bytes_per_second * 1e-9);
    for (uint32_t i = 0; i < cluster->level_count; i++) {
        const gal_link_level *level = &cluster->level[i];
        printf("%s%u by %s %.4g", i == 0 ? "" : ", ", level->span_devices, level->name, level->bytes_per_second * 1e-9);
    }
    printf("\n");
}

static void write_cluster(gal_json_writer *json, const gal_catalogue_entry *entry, const gal_cluster *cluster)
{
    gal_json_begin_object(json, NULL);
    gal_json_put_string(json, "name", entry->name);
    gal_json_put_string(json, "group", gal_list_group(entry->group));
    gal_json_put_u64(json, "device_count", cluster->device_count);
    gal_json_put_string(json, "device_kind", cluster->device.kind);
    gal_json_put_u64(json, "memory_bytes", cluster->device.memory_bytes);
    gal_json_put_u64(json, "level_count", cluster->level_count);
    gal_json_end_object(json);
}

gal_code gal_list_clusters(gal_json_writer *json, gal_error *err)
{
    const char *group = NULL;
    for (uint32_t i = 0; i < gal_catalogue_entry_count; i++) {
        const gal_catalogue_entry *entry = &gal_catalogue_entries[i];
        gal_cluster cluster;
        if (strcmp(entry->kind, "cluster") != 0) {
            continue;
        }
        const gal_code code = gal_cluster_read(entry->name, &cluster, err);
        if (code != GAL_OK) {
            return code;
        }
        if (json != NULL) {
            write_cluster(json, entry, &cluster);
            continue;
        }
        if (group == NULL || strcmp(entry->group, group) != 0) {
            print_heading(entry->group);
        }
        group = entry->group;
        print_cluster(entry->name, &cluster);
    }
    return GAL_OK;
}

/* ---- kinds of devices ---- */

static void print_named_rate(const char *name, double flops_per_second)
{
    if (flops_per_second > 0.0) {
        printf(" %s %.4g", name, flops_per_second * 1e-12);
    }
}

static void print_device(const gal_device *device)
{
    printf("%-15s %4.0f GB at %5.0f GB/s; TFLOP/s", device->kind, (double)device->memory_bytes * 1e-9,
           device->memory_bytes_per_second * 1e-9);
    print_named_rate("fp32", device->fp32_flops_per_second);
    print_named_rate("fp64", device->fp64_flops_per_second);
    print_named_rate("tf32", device->tf32_flops_per_second);
    print_named_rate("fp16", device->fp16_flops_per_second);
    print_named_rate("bf16", device->bf16_flops_per_second);
    printf("; %u multiprocessors\n", device->multiprocessor_count);
}

gal_code gal_list_devices(gal_json_writer *json, gal_error *err)
{
    (void)err;
    for (uint32_t i = 0; i < gal_catalogue_device_count; i++) {
        const gal_device device = gal_catalogue_device_figures(&gal_catalogue_devices[i]);
        if (json == NULL) {
            print_device(&device);
        } else {
            gal_json_begin_object(json, NULL);
            gal_device_write_members(json, &device);
            gal_json_end_object(json);
        }
    }
    return GAL_OK;
}
