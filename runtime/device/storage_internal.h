/* Ways to move bytes between a file and memory beside the caller: one table each. For storage*.c alone. */
#ifndef GAL_RUNTIME_DEVICE_STORAGE_INTERNAL_H
#define GAL_RUNTIME_DEVICE_STORAGE_INTERNAL_H

#include "runtime/device/storage.h"

/* What is moved at a time at most: several of these are under way in a transfer. */
enum { GAL_STORAGE_PIECE_BYTES = 1 << 20 };

/* A transfer. The way sets failure to an errno, or to 0 when all is done. */
typedef struct gal_transfer {
    gal_storage_direction direction;
    uint64_t offset, bytes;
    char *memory;
    int failure;
} gal_transfer;

typedef struct gal_storage_movers {
    /* NULL in *out and GAL_OK: the system has no such way. */
    gal_code (*open)(int file, void **out, gal_error *err);
    void (*close)(void *way);                        /* when all is done; accepts NULL */
    int (*start)(void *way, gal_transfer *transfer); /* 0, or an errno */
    bool (*test)(void *way, gal_transfer *transfer);
} gal_storage_movers;

extern const gal_storage_movers gal_storage_threads;
extern const gal_storage_movers gal_storage_io_uring; /* in a build without liburing opens nothing */

/* pread or pwrite to the end: 0, or an errno; ENODATA for a file that ends before. */
int gal_storage_move(int file, gal_storage_direction direction, uint64_t offset, char *memory, uint64_t bytes);

#endif
