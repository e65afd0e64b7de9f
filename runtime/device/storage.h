/* Storage: a file of a rank's own, for what a program keeps outside of every memory (GAL_CLASS_STORAGE).
 *
 * The file has exactly the planned bytes, all of them allocated when it is made, and no name: it is gone with the
 * process, however that ends. What it holds is copied to and from checkpoints, never found again by itself.
 * Transfers of a step go past the page cache where the file system lets them (O_DIRECT), in whole blocks of
 * GAL_STORAGE_BLOCK_BYTES between memory and file addresses that are multiples of it. They are started and tested as
 * messages are; who moves the bytes meanwhile is a way: io_uring, or threads that read and write. */
#ifndef GAL_RUNTIME_DEVICE_STORAGE_H
#define GAL_RUNTIME_DEVICE_STORAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/status.h"

typedef struct gal_storage gal_storage;

/* X(enumerator, name) */
#define GAL_STORAGE_WAYS(X)                                                                                            \
    X(GAL_STORAGE_DEFAULT, "default") /* io_uring where it is built in and the system allows it, else threads */       \
    X(GAL_STORAGE_IO_URING, "io_uring")                                                                                \
    X(GAL_STORAGE_THREADS, "threads")
#define X(enumerator, name) enumerator,
typedef enum gal_storage_way { GAL_STORAGE_WAYS(X) GAL_STORAGE_WAY_COUNT } gal_storage_way;
#undef X
extern const char *const gal_storage_way_names[GAL_STORAGE_WAY_COUNT];

/* bytes > 0, a multiple of GAL_STORAGE_BLOCK_BYTES; its content is zeros. GAL_ERR_SYSTEM: no such directory, no room,
 * no memory, or a way that is asked for by name is not to be had. */
gal_code gal_storage_open(const char *directory, uint64_t bytes, gal_storage_way way, gal_storage **out,
                          gal_error *err);
void gal_storage_close(gal_storage *storage); /* waits for what is under way; accepts NULL */

/* One transfer of a direction may be under way. offset, bytes and memory: multiples of a block, memory stays. */
typedef enum gal_storage_direction {
    GAL_STORAGE_READ,
    GAL_STORAGE_WRITE,
    GAL_STORAGE_DIRECTIONS
} gal_storage_direction;
gal_code gal_storage_start(gal_storage *storage, gal_storage_direction direction, uint64_t offset, void *memory,
                           uint64_t bytes, gal_error *err);
/* Whether the transfer of a direction is done; never blocks. GAL_ERR_SYSTEM: it failed, all of it or a part. */
gal_code gal_storage_test(gal_storage *storage, gal_storage_direction direction, bool *done, gal_error *err);

/* Between steps, of any bytes: synchronous. The first failure sticks: what is read from then on is zeros. */
void gal_storage_put(gal_storage *storage, uint64_t offset, const void *source, uint64_t byte_count);
void gal_storage_get(gal_storage *storage, uint64_t offset, void *target, uint64_t byte_count);
void gal_storage_zero(gal_storage *storage, uint64_t offset, uint64_t byte_count);
gal_code gal_storage_status(const gal_storage *storage, gal_error *err); /* that failure; accepts NULL: none */

typedef struct gal_storage_facts {
    uint64_t bytes;         /* of the file, as the system says */
    uint64_t written_bytes; /* the end of the last block that a step has written */
    bool direct;            /* past the page cache */
    gal_storage_way way;    /* not DEFAULT */
} gal_storage_facts;
gal_storage_facts gal_storage_facts_of(const gal_storage *storage);

#endif
