/* Devices: one table of functions per backend for the memory in which a program runs, and for the queues of a device
 * that works by itself. Host: host.c. GPUs: cuda/.
 *
 * A rank has one device, and one arena per engine, allocated once; nothing else is allocated while a program runs. */
#ifndef GAL_RUNTIME_DEVICE_DEVICE_H
#define GAL_RUNTIME_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/base/status.h"

/* base is aligned to 256 bytes at least. On the host an access to the byte before the mapping or after base + bytes
 * faults. */
typedef struct gal_memory {
    void *base;
    uint64_t bytes; /* usable, from base on */
    void *mapping;  /* of the backend: what release gives back */
    uint64_t mapping_bytes;
    const struct gal_memory *host; /* in the host's memory: what the offsets from `bytes` on mean. NULL: none */
    struct gal_storage *storage;   /* in a file: what the offsets behind those mean. NULL: none */
} gal_memory;

/* For backends: whether an offset is in the memory's file; *in_file: its place there. */
static inline bool gal_memory_stores(const gal_memory *memory, uint64_t offset, uint64_t *in_file)
{
    const uint64_t before = memory->bytes + (memory->host != NULL ? memory->host->bytes : 0);
    *in_file = offset - before;
    return memory->storage != NULL && offset >= before;
}

/* Queues of a device: what is put into one is carried out in that order, some time after the call has returned; what is
 * in different ones at the same time, but for waits. Queues and events are the backend's pointers (cudaStream_t,
 * cudaEvent_t). One host thread uses them. All functions fail with GAL_ERR_DEVICE, also for what failed in a queue
 * before. Only those named create or allocate take memory. */
typedef struct gal_device_queue_ops {
    /* urgent: what waits in it goes before what waits in others. */
    gal_code (*create)(bool urgent, void **queue, gal_error *err);
    void (*destroy)(void *queue); /* when it is done */
    /* timed: for seconds_between, which costs. */
    gal_code (*event_create)(bool timed, void **event, gal_error *err);
    void (*event_destroy)(void *event);
    /* The event is reached when all that the queue was given before is done. Waits mean the latest record before them:
     * an event can be recorded anew as soon as those who wait for it are queued. */
    gal_code (*record)(void *queue, void *event, gal_error *err);
    gal_code (*wait)(void *queue, void *event, gal_error *err);      /* what is queued from here on starts after it */
    gal_code (*reached)(void *event, bool *reached, gal_error *err); /* never blocks */
    double (*seconds_between)(void *begin, void *end);               /* two events that were timed and are reached */
    /* Between any memories of the device and of host_allocate. */
    gal_code (*copy)(void *queue, void *target, const void *source, uint64_t byte_count, gal_error *err);
    /* work(payload), on a thread of the host that the queue waits for; it must not call the device. payload stays. */
    gal_code (*call_host)(void *queue, void (*work)(void *payload), void *payload, gal_error *err);
    gal_code (*host_allocate)(uint64_t bytes, void **out, gal_error *err); /* pinned; GAL_ERR_SYSTEM without memory */
    void (*host_release)(void *memory);
    /* Between begin and end the queue only notes what it is given, and what other queues are given that wait for it;
     * they must have been waited for before end. A graph carries all of it out again. NULL: there is none of the four.
     */
    gal_code (*capture_begin)(void *queue, gal_error *err);
    gal_code (*capture_end)(void *queue, void **graph_created, gal_error *err);
    gal_code (*graph_launch)(void *graph, void *queue, gal_error *err);
    void (*graph_destroy)(void *graph);
} gal_device_queue_ops;

typedef struct gal_device_ops {
    const char *name; /* "host", "cuda" */
    /* bytes a multiple of 256, > 0. poison: every byte is 0xFF (NaN as a floating-point number), else 0.
     * GAL_ERR_SYSTEM without memory. */
    gal_code (*allocate)(uint64_t bytes, bool poison, gal_memory *out, gal_error *err);
    void (*release)(gal_memory *memory); /* accepts a zeroed one, and zeroes it */
    /* Between this process and the memory; offsets and counts in bytes, inside the memory or what it has on the host or
     * in a file, whose failures are kept there (gal_storage_status); synchronous. */
    void (*write)(const gal_memory *memory, uint64_t offset, const void *source, uint64_t byte_count);
    void (*read)(const gal_memory *memory, uint64_t offset, void *target, uint64_t byte_count);
    void (*zero)(const gal_memory *memory, uint64_t offset, uint64_t byte_count);
    uint64_t (*used_bytes)(void);      /* of the device's memory, now, by all who use it; NULL: not known */
    const gal_device_queue_ops *queue; /* NULL: kernels are done when they return */
} gal_device_ops;

extern const gal_device_ops gal_device_host;

#endif
