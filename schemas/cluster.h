/* The cluster document: equal devices on a tree of links.
 *
 * Levels are listed from the innermost outwards; level i joins `span_devices` consecutive devices (a multiple of the
 * level below; the last one spans device_count). Two devices talk over the innermost level that holds both.
 * What a document may leave out is 0 here: readers of the cluster take what their formulas take then. */
#ifndef GAL_SCHEMAS_CLUSTER_H
#define GAL_SCHEMAS_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/json.h"
#include "schemas/base/status.h"
#include "schemas/model.h"

enum { GAL_CLUSTER_VERSION = 1, GAL_LINK_LEVELS_MAX = 8 };

typedef struct gal_device {
    char kind[GAL_NAME_BYTES];    /* "h100-80g", or the processor's name on a host */
    uint64_t memory_bytes;        /* what one rank may use */
    double fp32_flops_per_second; /* peak rates, > 0 */
    double fp64_flops_per_second;
    double memory_bytes_per_second;
    /* May be left out. Peak rates of matrix units, dense, with sums in fp32: */
    double tf32_flops_per_second, fp16_flops_per_second, bf16_flops_per_second;
    uint32_t multiprocessor_count; /* of a GPU: what tiles of a kernel are spread over */
    double launch_seconds;         /* what a kernel takes that has next to nothing to do */
    double gemm_fraction;          /* of the peak rate that large products reach, (0, 1] */
    double memory_fraction;        /* of the memory rate that large copies reach, (0, 1] */
    /* Of the host, a device's share when all devices ask for theirs: */
    uint64_t host_memory_bytes;
    double host_memory_bytes_per_second;
    double host_copy_bytes_per_second; /* between the two, each way, also while the other way is busy */
    /* Of its storage, likewise: */
    uint64_t storage_bytes;
    double storage_read_bytes_per_second, storage_write_bytes_per_second; /* each way alone */
    double storage_read_latency_seconds, storage_write_latency_seconds;   /* of a transfer of any size */
} gal_device;

typedef struct gal_link_level {
    char name[GAL_NAME_BYTES];
    uint32_t span_devices;
    double latency_seconds;
    double bytes_per_second; /* per device and direction, when all devices send at once */
    /* May be left out. */
    double achievable_fraction; /* of bytes_per_second that large messages reach, (0, 1] */
    bool shared; /* devices of a unit of the level below may use each other's share: a node's network adapters */
} gal_link_level;

typedef struct gal_cluster {
    char name[GAL_NAME_BYTES];
    uint32_t device_count;
    gal_device device;
    uint32_t level_count; /* 1 .. GAL_LINK_LEVELS_MAX */
    gal_link_level level[GAL_LINK_LEVELS_MAX];
} gal_cluster;

/* As gal_document_read and gal_document_write (schemas/document.h); nothing is owned. A path that is no file and no
 * built-in name may be words: "8xh100" (schemas/cluster_words.h). */
gal_code gal_cluster_read(const char *path, gal_cluster *out, gal_error *err);
gal_code gal_cluster_write(const char *path, const gal_cluster *cluster, gal_error *err);
/* From and to a place inside a larger document: errors stick in the document, the members go into an object that is
 * begun. */
void gal_cluster_read_at(const gal_json_cursor *at, gal_cluster *out);
void gal_cluster_write_at(gal_json_writer *out, const gal_cluster *cluster);
/* The members of the key "device". */
void gal_device_write_members(gal_json_writer *out, const gal_device *device);

/* The peak rate of products in a dtype, dense, > 0. A device that names no rate for 16 bits is taken at its rate of
 * fp32; with tf32, fp32 is at the rate of tf32 where the device names that. */
double gal_device_peak_flops_per_second(const gal_device *device, gal_dtype dtype, bool tf32);

/* Whether a part of so many devices is a cluster too: at every level whole units of the one below, or a part of the
 * first unit. */
bool gal_cluster_has_part(const gal_cluster *cluster, uint32_t devices);

/* The innermost level that spans both devices, 0-based. */
uint32_t gal_cluster_level_between(const gal_cluster *cluster, uint32_t device_a, uint32_t device_b);

#endif
