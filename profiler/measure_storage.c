/* Storage of a directory: what galrun's file there is read and written at, all ranks at once, by transfers of several
 * sizes: of units smaller than a part a part is no more. In a step parts are read and written at the same time, and a
 * device shares its rate between them: each way is measured alone, then both at once, the faster one with more
 * transfers, so that they go on together to the end. What they take longer is one factor on either, as the simulation
 * has it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "profiler/fit.h"
#include "profiler/measure.h"
#include "runtime/device/storage.h"
#include "schemas/plan.h"

/* Transfers up to a plan's by default, some one behind the other each way, over as many places as defeat what a device
 * remembers of the last one. */
enum { TRANSFER_BYTES = GAL_STORAGE_PART_BYTES, SIZES = 3, PLACES = 8, RUN_TRANSFERS = 4, RUN_TRANSFERS_MAX = 64 };
static const uint64_t transfer_bytes[SIZES] = {TRANSFER_BYTES / 16, TRANSFER_BYTES / 4, TRANSFER_BYTES};
static const double latency_seconds_min = 1e-6; /* 0 in a document means that it is not known */

/* One way. */
typedef struct storage_way {
    uint32_t transfers; /* of a run; 0: this way does not move */
    uint32_t left;      /* of them: still to be started */
    uint32_t place;     /* of the next one; where both move, the other way's first is as far away as can be */
    bool busy;
} storage_way;

typedef struct storage_run {
    gal_storage *storage;
    storage_way way[GAL_STORAGE_DIRECTIONS];
    uint64_t bytes; /* of a transfer */
    char *memory;   /* TRANSFER_BYTES for each way */
} storage_run;

/* Starts the way's next transfer, or looks whether the one under way is done. */
static gal_code move_on(storage_run *run, gal_storage_direction direction, gal_error *err)
{
    gal_code code = GAL_OK;
    storage_way *way = &run->way[direction];
    bool done = false;
    if (way->busy) {
        GAL_TRY(gal_storage_test(run->storage, direction, &done, err));
        way->busy = !done;
    } else if (way->left > 0) {
        const uint64_t offset = (uint64_t)(way->place++ % PLACES) * TRANSFER_BYTES;
        GAL_TRY(gal_storage_start(run->storage, direction, offset, run->memory + (size_t)direction * TRANSFER_BYTES,
                                  run->bytes, err));
        way->left--;
        way->busy = true;
    }
cleanup:
    return code;
}

/* Runs; neither way waits for the other within one. */
static gal_code transfer(void *context, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    storage_run *run = context;
    storage_way *read = &run->way[GAL_STORAGE_READ], *write = &run->way[GAL_STORAGE_WRITE];
    for (uint32_t i = 0; i < count; i++) {
        read->left = read->transfers;
        write->left = write->transfers;
        while (read->busy || write->busy || read->left + write->left > 0) {
            GAL_TRY(move_on(run, GAL_STORAGE_READ, err));
            GAL_TRY(move_on(run, GAL_STORAGE_WRITE, err));
        }
    }
cleanup:
    return code;
}

/* Of a run. */
static gal_code measure(gal_bench *bench, storage_run *run, uint64_t bytes, double *seconds, gal_error *err)
{
    gal_timing timing = {0};
    run->bytes = bytes;
    const gal_code code = gal_bench_time(bench, transfer, run, &timing, err);
    *seconds = timing.seconds;
    return code;
}

/* One way by itself; *whole: of a transfer of the largest size. */
static gal_code measure_way(gal_bench *bench, storage_run *run, gal_storage_direction direction,
                            double *latency_seconds, double *bytes_per_second, double *whole, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_transfer transfers[SIZES];
    for (uint32_t d = 0; d < GAL_STORAGE_DIRECTIONS; d++) {
        run->way[d].transfers = d == direction ? RUN_TRANSFERS : 0;
    }
    for (uint32_t i = 0; i < SIZES; i++) {
        GAL_TRY(measure(bench, run, transfer_bytes[i], whole, err));
        *whole /= RUN_TRANSFERS;
        transfers[i] = (gal_transfer){(double)transfer_bytes[i], *whole};
    }
    gal_fit_link(transfers, SIZES, latency_seconds, bytes_per_second);
    *latency_seconds = fmax(*latency_seconds, latency_seconds_min);
cleanup:
    return code;
}

/* Both ways at once; alone_seconds: of one transfer of each, the same on all ranks. */
static gal_code measure_both(gal_bench *bench, storage_run *run, const double alone_seconds[GAL_STORAGE_DIRECTIONS],
                             double *slowdown, gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t transfers[GAL_STORAGE_DIRECTIONS];
    double both = 0.0;
    gal_balance_runs(alone_seconds, RUN_TRANSFERS, RUN_TRANSFERS_MAX, transfers);
    for (uint32_t d = 0; d < GAL_STORAGE_DIRECTIONS; d++) {
        run->way[d] = (storage_way){.transfers = transfers[d], .place = d * PLACES / GAL_STORAGE_DIRECTIONS};
    }
    GAL_TRY(measure(bench, run, TRANSFER_BYTES, &both, err));
    *slowdown = gal_slowdown_of_runs(transfers[0] * alone_seconds[0], transfers[1] * alone_seconds[1], both);
cleanup:
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
    run->way[GAL_STORAGE_WRITE] = (storage_way){.transfers = RUN_TRANSFERS};
    run->bytes = TRANSFER_BYTES;
    GAL_TRY(transfer(run, PLACES / RUN_TRANSFERS, err));
cleanup:
    return code;
}

gal_code gal_measure_storage(gal_bench *bench, const char *directory, gal_device *out, double *slowdown, gal_error *err)
{
    storage_run run = {0};
    struct statvfs room;
    double alone_seconds[GAL_STORAGE_DIRECTIONS] = {0.0};
    gal_code code = open_run(directory, &run, err);
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    GAL_TRY(measure_way(bench, &run, GAL_STORAGE_WRITE, &out->storage_write_latency_seconds,
                        &out->storage_write_bytes_per_second, &alone_seconds[GAL_STORAGE_WRITE], err));
    GAL_TRY(measure_way(bench, &run, GAL_STORAGE_READ, &out->storage_read_latency_seconds,
                        &out->storage_read_bytes_per_second, &alone_seconds[GAL_STORAGE_READ], err));
    if (alone_seconds[GAL_STORAGE_READ] > 0.0 && alone_seconds[GAL_STORAGE_WRITE] > 0.0) {
        GAL_TRY(measure_both(bench, &run, alone_seconds, slowdown, err));
    }
    if (statvfs(directory, &room) == 0) {
        out->storage_bytes = (uint64_t)room.f_bavail * room.f_frsize / gal_world_size(&bench->world);
    }
cleanup:
    gal_storage_close(run.storage);
    free(run.memory);
    return code;
}
