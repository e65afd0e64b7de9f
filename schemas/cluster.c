#include "schemas/cluster.h"

#include <string.h>
#include <unistd.h>

#include "schemas/catalogue/catalogue.h"
#include "schemas/cluster_words.h"
#include "schemas/document.h"
#include "schemas/limits.h"

enum { MULTIPROCESSORS_MAX = 65536 };

static void read_name(const gal_json_cursor *at, const char *key, char *buffer, size_t capacity)
{
    gal_json_string(at, key, buffer, capacity);
    if (buffer[0] == '\0') {
        gal_json_member_error(at, key, "must not be empty");
    }
}

/* 0 if it is left out. */
static double read_optional(const gal_json_cursor *at, const char *key, double max)
{
    return gal_json_has(at, key) ? gal_json_f64(at, key, GAL_POSITIVE_MIN, max) : 0.0;
}

static void read_device(const gal_json_cursor *at, gal_device *out)
{
    read_name(at, "kind", out->kind, sizeof out->kind);
    out->memory_bytes = gal_json_u64(at, "memory_bytes", 1, GAL_BYTES_MAX);
    out->fp32_flops_per_second = gal_json_f64(at, "fp32_flops_per_second", GAL_POSITIVE_MIN, GAL_RATE_MAX);
    out->fp64_flops_per_second = gal_json_f64(at, "fp64_flops_per_second", GAL_POSITIVE_MIN, GAL_RATE_MAX);
    out->memory_bytes_per_second = gal_json_f64(at, "memory_bytes_per_second", GAL_POSITIVE_MIN, GAL_RATE_MAX);
    out->tf32_flops_per_second = read_optional(at, "tf32_flops_per_second", GAL_RATE_MAX);
    out->fp16_flops_per_second = read_optional(at, "fp16_flops_per_second", GAL_RATE_MAX);
    out->bf16_flops_per_second = read_optional(at, "bf16_flops_per_second", GAL_RATE_MAX);
    if (gal_json_has(at, "multiprocessor_count")) {
        out->multiprocessor_count = gal_json_u32(at, "multiprocessor_count", 1, MULTIPROCESSORS_MAX);
    }
    out->launch_seconds = read_optional(at, "launch_seconds", GAL_SECONDS_MAX);
    out->gemm_fraction = read_optional(at, "gemm_fraction", 1.0);
    out->memory_fraction = read_optional(at, "memory_fraction", 1.0);
    if (gal_json_has(at, "host_memory_bytes")) {
        out->host_memory_bytes = gal_json_u64(at, "host_memory_bytes", 1, GAL_BYTES_MAX);
    }
    out->host_memory_bytes_per_second = read_optional(at, "host_memory_bytes_per_second", GAL_RATE_MAX);
    out->host_copy_bytes_per_second = read_optional(at, "host_copy_bytes_per_second", GAL_RATE_MAX);
    if (gal_json_has(at, "storage_bytes")) {
        out->storage_bytes = gal_json_u64(at, "storage_bytes", 1, GAL_BYTES_MAX);
    }
    out->storage_read_bytes_per_second = read_optional(at, "storage_read_bytes_per_second", GAL_RATE_MAX);
    out->storage_write_bytes_per_second = read_optional(at, "storage_write_bytes_per_second", GAL_RATE_MAX);
    out->storage_read_latency_seconds = read_optional(at, "storage_read_latency_seconds", GAL_SECONDS_MAX);
    out->storage_write_latency_seconds = read_optional(at, "storage_write_latency_seconds", GAL_SECONDS_MAX);
    gal_json_reject_unknown(at);
}

static void read_level(const gal_json_cursor *at, gal_link_level *out)
{
    read_name(at, "name", out->name, sizeof out->name);
    out->span_devices = gal_json_u32(at, "span_devices", 1, GAL_DEVICES_MAX);
    out->latency_seconds = gal_json_f64(at, "latency_seconds", 0.0, GAL_SECONDS_MAX);
    out->bytes_per_second = gal_json_f64(at, "bytes_per_second", GAL_POSITIVE_MIN, GAL_RATE_MAX);
    out->achievable_fraction = read_optional(at, "achievable_fraction", 1.0);
    out->shared = gal_json_has(at, "shared") && gal_json_bool(at, "shared");
    gal_json_reject_unknown(at);
}

static void read_levels(const gal_json_cursor *at, gal_cluster *out)
{
    gal_json_cursor levels = gal_json_array(at, "levels", 1, GAL_LINK_LEVELS_MAX, &out->level_count);
    for (uint32_t i = 0; i < out->level_count; i++) {
        gal_json_cursor level = gal_json_element(&levels, i);
        read_level(&level, &out->level[i]);
        uint32_t span = out->level[i].span_devices;
        uint32_t below = i == 0 ? 1 : out->level[i - 1].span_devices;
        if (below != 0 && (span % below != 0 || (i > 0 && span == below))) {
            gal_json_member_error(&level, "span_devices", "must be a larger multiple of the level below's %u", below);
        }
        if (i + 1 == out->level_count && span != out->device_count) {
            gal_json_member_error(&level, "span_devices", "must be device_count %u in the last level",
                                  out->device_count);
        }
    }
}

void gal_cluster_read_at(const gal_json_cursor *at, gal_cluster *out)
{
    *out = (gal_cluster){0};
    gal_json_expect_document(at, "cluster", GAL_CLUSTER_VERSION);
    read_name(at, "name", out->name, sizeof out->name);
    out->device_count = gal_json_u32(at, "device_count", 1, GAL_DEVICES_MAX);
    gal_json_cursor device = gal_json_object(at, "device");
    read_device(&device, &out->device);
    read_levels(at, out);
    gal_json_reject_unknown(at);
}

static void write_optional(gal_json_writer *out, const char *key, double value)
{
    if (value > 0.0) {
        gal_json_put_f64(out, key, value);
    }
}

void gal_device_write_members(gal_json_writer *out, const gal_device *device)
{
    gal_json_put_string(out, "kind", device->kind);
    gal_json_put_u64(out, "memory_bytes", device->memory_bytes);
    gal_json_put_f64(out, "fp32_flops_per_second", device->fp32_flops_per_second);
    gal_json_put_f64(out, "fp64_flops_per_second", device->fp64_flops_per_second);
    gal_json_put_f64(out, "memory_bytes_per_second", device->memory_bytes_per_second);
    write_optional(out, "tf32_flops_per_second", device->tf32_flops_per_second);
    write_optional(out, "fp16_flops_per_second", device->fp16_flops_per_second);
    write_optional(out, "bf16_flops_per_second", device->bf16_flops_per_second);
    if (device->multiprocessor_count > 0) {
        gal_json_put_u64(out, "multiprocessor_count", device->multiprocessor_count);
    }
    write_optional(out, "launch_seconds", device->launch_seconds);
    write_optional(out, "gemm_fraction", device->gemm_fraction);
    write_optional(out, "memory_fraction", device->memory_fraction);
    if (device->host_memory_bytes > 0) {
        gal_json_put_u64(out, "host_memory_bytes", device->host_memory_bytes);
    }
    write_optional(out, "host_memory_bytes_per_second", device->host_memory_bytes_per_second);
    write_optional(out, "host_copy_bytes_per_second", device->host_copy_bytes_per_second);
    if (device->storage_bytes > 0) {
        gal_json_put_u64(out, "storage_bytes", device->storage_bytes);
    }
    write_optional(out, "storage_read_bytes_per_second", device->storage_read_bytes_per_second);
    write_optional(out, "storage_write_bytes_per_second", device->storage_write_bytes_per_second);
    write_optional(out, "storage_read_latency_seconds", device->storage_read_latency_seconds);
    write_optional(out, "storage_write_latency_seconds", device->storage_write_latency_seconds);
}

void gal_cluster_write_at(gal_json_writer *out, const gal_cluster *cluster)
{
    gal_json_put_string(out, "document", "cluster");
    gal_json_put_u64(out, "version", GAL_CLUSTER_VERSION);
    gal_json_put_string(out, "name", cluster->name);
    gal_json_put_u64(out, "device_count", cluster->device_count);
    gal_json_begin_object(out, "device");
    gal_device_write_members(out, &cluster->device);
    gal_json_end_object(out);
    gal_json_begin_array(out, "levels");
    for (uint32_t i = 0; i < cluster->level_count; i++) {
        const gal_link_level *level = &cluster->level[i];
        gal_json_begin_object(out, NULL);
        gal_json_put_string(out, "name", level->name);
        gal_json_put_u64(out, "span_devices", level->span_devices);
        gal_json_put_f64(out, "latency_seconds", level->latency_seconds);
        gal_json_put_f64(out, "bytes_per_second", level->bytes_per_second);
        write_optional(out, "achievable_fraction", level->achievable_fraction);
        if (level->shared) {
            gal_json_put_bool(out, "shared", true);
        }
        gal_json_end_object(out);
    }
    gal_json_end_array(out);
}

static bool read_cluster(const gal_json_cursor *root, void *out)
{
    gal_cluster_read_at(root, out);
    return true;
}

static void write_cluster(gal_json_writer *out, const void *cluster)
{
    gal_cluster_write_at(out, cluster);
}

const gal_document_form gal_cluster_form = {sizeof(gal_cluster), read_cluster, NULL, write_cluster, NULL};

gal_code gal_cluster_read(const char *path, gal_cluster *out, gal_error *err)
{
    const bool is_file = strcmp(path, "-") == 0 || access(path, F_OK) == 0;
    const gal_catalogue_entry *entry = is_file ? NULL : gal_catalogue_find_entry("cluster", path);
    if (entry != NULL && entry->text[0] != '{') {
        return gal_cluster_from_words(entry->text, entry->name, out, err);
    }
    if (!is_file && entry == NULL && gal_cluster_is_words(path)) {
        return gal_cluster_from_words(path, NULL, out, err);
    }
    return gal_document_read(GAL_DOCUMENT_CLUSTER, path, out, err);
}

gal_code gal_cluster_write(const char *path, const gal_cluster *cluster, gal_error *err)
{
    return gal_document_write(GAL_DOCUMENT_CLUSTER, path, cluster, err);
}

uint32_t gal_cluster_level_between(const gal_cluster *cluster, uint32_t device_a, uint32_t device_b)
{
    GAL_ASSERT(device_a < cluster->device_count && device_b < cluster->device_count);
    uint32_t level = 0;
    while (device_a / cluster->level[level].span_devices != device_b / cluster->level[level].span_devices) {
        level++;
    }
    return level;
}

bool gal_cluster_has_part(const gal_cluster *cluster, uint32_t devices)
{
    bool whole = devices >= 1 && devices <= cluster->device_count;
    for (uint32_t i = 0; i < cluster->level_count && cluster->level[i].span_devices < devices; i++) {
        whole = whole && devices % cluster->level[i].span_devices == 0;
    }
    return whole;
}

static double said_or(double said, double otherwise)
{
    return said > 0.0 ? said : otherwise;
}

double gal_device_peak_flops_per_second(const gal_device *device, gal_dtype dtype, bool tf32)
{
    const double fp32 =
        tf32 ? said_or(device->tf32_flops_per_second, device->fp32_flops_per_second) : device->fp32_flops_per_second;
    switch (dtype) {
    case GAL_FP64:
        return device->fp64_flops_per_second;
    case GAL_BF16:
        return said_or(device->bf16_flops_per_second, fp32);
    case GAL_FP16:
        return said_or(device->fp16_flops_per_second, fp32);
    default:
        return fp32;
    }
}
