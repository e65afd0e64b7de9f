/* Storage of a directory: what galrun's file there is read and written at, all ranks at once. In a step parts are read
 * and written at the same time, and a device shares its rate between them: each way is measured alone, then both at
 * once, and both rates are taken to fall by what that takes longer than the slower one alone. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "profiler/measure.h"
#include "runtime/device/storage.h"
#include "schemas/plan.h"

/* Transfers as a plan's by default, over as many places as defeat what a device remembers of the last one. */
enum { TRANSFER_BYTES = GAL_STORAGE_PART_BYTES, PLACES = 8 };

typedef struct storage_run {
    gal_storage *storage;
    bool moves[GAL_STORAGE_DIRECTIONS];
    char *memory;   /* TRANSFER_BYTES for each direction */
    uint32_t place; /* of the next transfer; the other direction's is as far away as can be */
} storage_run;

/* One transfer of each direction that moves, at the same time. */
static gal_code transfer(void *context, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    storage_run *run = context;
    for (uint32_t i = 0; i < count; i++, run->place++) {
        bool done[GAL_STORAGE_DIRECTIONS] = {!run->moves[GAL_STORAGE_READ], !run->moves[GAL_STORAGE_WRITE]};
        for (uint32_t d = 0; d < GAL_STORAGE_DIRECTIONS; d++) {
            const uint64_t offset = (uint64_t)((run->place + d * PLACES / 2) % PLACES) * TRANSFER_BYTES;
            if (run->moves[d]) {
                GAL_TRY(gal_storage_start(run->storage, (gal_storage_direction)d, offset,
                                          run->memory + (size_t)d * TRANSFER_BYTES, TRANSFER_BYTES, err));
            }
        }
        while (!done[GAL_STORAGE_READ] || !done[GAL_STORAGE_WRITE]) {
            for (uint32_t d = 0; d < GAL_STORAGE_DIRECTIONS; d++) {
                if (!done[d]) {
                    GAL_TRY(gal_storage_test(run->storage, (gal_storage_direction)d, &done[d], err));
                }
            }
        }
    }
cleanup:
    return code;
}

static gal_code measure(gal_bench *bench, storage_run *run, bool reads, bool writes, double *seconds, gal_error *err)
{
    gal_timing timing = {0};
    run->moves[GAL_STORAGE_READ] = reads;
    run->moves[GAL_STORAGE_WRITE] = writes;
    const gal_code code = gal_bench_time(bench, transfer, run, &timing, err);
    *seconds = timing.seconds;
    return code;
}

/* Blocks that were never written are read and written at other rates. */
static gal_code open_run(const char *directory, storage_run *run, gal_error *err)
{
    gal_code code = GAL_OK;
    void *memory = NULL;
    if (posix_memalign(&memory, GAL_STORAGE_BLOCK_BYTES, (size_t)GAL_STORAGE_DIRECTIONS * TRANSFER_BYTES) != 0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: storage");
    }
    run->memory = memset(memory, 1, (size_t)GAL_STORAGE_DIRECTIONS * TRANSFER_BYTES);
    GAL_TRY(gal_storage_open(directory, (uint64_t)PLACES * TRANSFER_BYTES, GAL_STORAGE_DEFAULT, &run->storage, err));
    run->moves[GAL_STORAGE_WRITE] = true;
    GAL_TRY(transfer(run, PLACES, err));
cleanup:
    return code;
}

gal_code gal_measure_storage(gal_bench *bench, const char *directory, gal_device *out, gal_error *err)
{
    storage_run run = {0};
    struct statvfs room;
    double read = 0.0, write = 0.0, both = 0.0;
    gal_code code = open_run(directory, &run, err);
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    GAL_TRY(measure(bench, &run, false, true, &write, err));
    GAL_TRY(measure(bench, &run, true, false, &read, err));
    GAL_TRY(measure(bench, &run, true, true, &both, err));
    if (read > 0.0 && write > 0.0) {
        const double slowdown = fmax(1.0, both / fmax(read, write));
        out->storage_read_bytes_per_second = TRANSFER_BYTES / (read * slowdown);
        out->storage_write_bytes_per_second = TRANSFER_BYTES / (write * slowdown);
    }
    if (statvfs(directory, &room) == 0) {
        out->storage_bytes = (uint64_t)room.f_bavail * room.f_frsize / gal_world_size(&bench->world);
    }
cleanup:
    gal_storage_close(run.storage);
    free(run.memory);
    return code;
}
