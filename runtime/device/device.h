/* Devices: one table of functions per backend for the memory in which a program runs. Host: host.c.
 *
 * A rank has one arena per engine, allocated once; nothing else is allocated while a program runs. */
#ifndef GAL_RUNTIME_DEVICE_DEVICE_H
#define GAL_RUNTIME_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/status.h"

/* base is aligned to 256 bytes at least. An access to the byte before the mapping or after base + bytes faults. */
typedef struct gal_memory {
    void *base;
    uint64_t bytes; /* usable, from base on */
    void *mapping;  /* of the backend: what release gives back */
    uint64_t mapping_bytes;
} gal_memory;

typedef struct gal_device_ops {
    const char *name; /* "host" */
    /* bytes a multiple of 256, > 0. poison: every byte is 0xFF (NaN as a floating-point number), else 0.
     * GAL_ERR_SYSTEM without memory. */
    gal_code (*allocate)(uint64_t bytes, bool poison, gal_memory *out, gal_error *err);
    void (*release)(gal_memory *memory); /* accepts a zeroed one, and zeroes it */
    /* Between this process and the memory; offsets and counts in bytes, inside the memory; synchronous. */
    void (*write)(const gal_memory *memory, uint64_t offset, const void *source, uint64_t byte_count);
    void (*read)(const gal_memory *memory, uint64_t offset, void *target, uint64_t byte_count);
    void (*zero)(const gal_memory *memory, uint64_t offset, uint64_t byte_count);
} gal_device_ops;

extern const gal_device_ops gal_device_host;

#endif
