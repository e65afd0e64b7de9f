/* Storage of a directory: what galrun's file there is read and written at, all ranks at once, each way alone. */
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
    gal_storage_direction direction;
    void *memory;
    uint32_t place; /* of the next transfer */
} storage_run;

static gal_code transfer(void *context, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    storage_run *run = context;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t offset = (uint64_t)(run->place++ % PLACES) * TRANSFER_BYTES;
        bool done = false;
        GAL_TRY(gal_storage_start(run->storage, run->direction, offset, run->memory, TRANSFER_BYTES, err));
        while (!done) {
            GAL_TRY(gal_storage_test(run->storage, run->direction, &done, err));
        }
    }
cleanup:
    return code;
}

static gal_code measure_rate(gal_bench *bench, storage_run *run, gal_storage_direction direction, double *rate,
                             gal_error *err)
{
    gal_timing timing = {0};
    run->direction = direction;
    const gal_code code = gal_bench_time(bench, transfer, run, &timing, err);
    if (code == GAL_OK && timing.seconds > 0.0) {
        *rate = TRANSFER_BYTES / timing.seconds;
    }
    return code;
}

/* Blocks that were never written are read and written at other rates. */
static gal_code open_run(const char *directory, storage_run *run, gal_error *err)
{
    gal_code code = GAL_OK;
    if (posix_memalign(&run->memory, GAL_STORAGE_BLOCK_BYTES, TRANSFER_BYTES) != 0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: storage");
    }
    memset(run->memory, 1, TRANSFER_BYTES);
    GAL_TRY(gal_storage_open(directory, (uint64_t)PLACES * TRANSFER_BYTES, GAL_STORAGE_DEFAULT, &run->storage, err));
    run->direction = GAL_STORAGE_WRITE;
    GAL_TRY(transfer(run, PLACES, err));
cleanup:
    return code;
}

gal_code gal_measure_storage(gal_bench *bench, const char *directory, gal_device *out, gal_error *err)
{
    storage_run run = {0};
    struct statvfs room;
    gal_code code = open_run(directory, &run, err);
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    GAL_TRY(measure_rate(bench, &run, GAL_STORAGE_WRITE, &out->storage_write_bytes_per_second, err));
    GAL_TRY(measure_rate(bench, &run, GAL_STORAGE_READ, &out->storage_read_bytes_per_second, err));
    if (statvfs(directory, &room) == 0) {
        out->storage_bytes = (uint64_t)room.f_bavail * room.f_frsize / gal_world_size(&bench->world);
    }
cleanup:
    gal_storage_close(run.storage);
    free(run.memory);
    return code;
}
