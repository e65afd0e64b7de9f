#include "runtime/device/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/device/storage_internal.h"
#include "schemas/plan.h"

enum { PATH_BYTES = PATH_MAX, BLOCK = GAL_STORAGE_BLOCK_BYTES, ROOM_BYTES = 1 << 20 };

const char *const gal_storage_way_names[GAL_STORAGE_WAY_COUNT] = {
#define X(enumerator, name) name,
    GAL_STORAGE_WAYS(X)
#undef X
};

struct gal_storage {
    char directory[PATH_BYTES];
    int file;
    bool direct, touched;
    gal_storage_way way;
    const gal_storage_movers *movers;
    void *moving;
    gal_transfer transfer[GAL_STORAGE_DIRECTIONS];
    bool busy[GAL_STORAGE_DIRECTIONS];
    uint64_t written_bytes;
    char *room; /* ROOM_BYTES at the address of a block: what is between steps goes through it */
    gal_code code;
    gal_error failed;
};

static const char *const doing[GAL_STORAGE_DIRECTIONS] = {"reading", "writing"};

int gal_storage_move(int file, gal_storage_direction direction, uint64_t offset, char *memory, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes;) {
        const size_t left = (size_t)(bytes - done);
        const ssize_t moved = direction == GAL_STORAGE_READ ? pread(file, memory + done, left, (off_t)(offset + done))
                                                            : pwrite(file, memory + done, left, (off_t)(offset + done));
        if (moved < 0 && errno != EINTR) {
            return errno;
        }
        if (moved == 0) {
            return ENODATA;
        }
        done += moved > 0 ? (uint64_t)moved : 0;
    }
    return 0;
}

static gal_code fail(const gal_storage *s, gal_storage_direction direction, uint64_t offset, uint64_t bytes, int cause,
                     gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "storage %s: %s %llu bytes at %llu: %s", s->directory, doing[direction],
                    (unsigned long long)bytes, (unsigned long long)offset, strerror(cause));
}

/* ---- the file ---- */

/* Past the page cache, unless the file system refuses that, be it only when it is asked to read. */
static void try_direct(gal_storage *s)
{
    const int flags = fcntl(s->file, F_GETFL);
    s->direct = flags >= 0 && fcntl(s->file, F_SETFL, flags | O_DIRECT) == 0;
    if (s->direct && gal_storage_move(s->file, GAL_STORAGE_READ, 0, s->room, BLOCK) != 0) {
        s->direct = false;
        (void)fcntl(s->file, F_SETFL, flags);
    }
}

/* Its name is taken away at once. */
static gal_code create_file(gal_storage *s, uint64_t bytes, gal_error *err)
{
    char path[PATH_BYTES + 32];
    (void)snprintf(path, sizeof path, "%s/.galrun-XXXXXX", s->directory);
    s->file = mkostemp(path, O_CLOEXEC);
    if (s->file < 0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "storage %s: %s", s->directory, strerror(errno));
    }
    (void)unlink(path);
    int cause = EINTR;
    while (cause == EINTR) {
        cause = posix_fallocate(s->file, 0, (off_t)bytes);
    }
    if (cause != 0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "storage %s: a file of %llu bytes: %s", s->directory,
                        (unsigned long long)bytes, strerror(cause));
    }
    try_direct(s);
    return GAL_OK;
}

static gal_code open_way(gal_storage *s, gal_storage_way way, gal_error *err)
{
    gal_code code = GAL_OK;
    s->movers = &gal_storage_io_uring;
    s->way = GAL_STORAGE_IO_URING;
    if (way != GAL_STORAGE_THREADS) {
        GAL_TRY(s->movers->open(s->file, &s->moving, err));
    }
    if (s->moving == NULL && way == GAL_STORAGE_IO_URING) {
        return gal_fail(err, GAL_ERR_SYSTEM,
                        "storage %s: no io_uring: built without liburing, or the system forbids it", s->directory);
    }
    if (s->moving == NULL) {
        s->movers = &gal_storage_threads;
        s->way = GAL_STORAGE_THREADS;
        GAL_TRY(s->movers->open(s->file, &s->moving, err));
    }
cleanup:
    return code;
}

gal_code gal_storage_open(const char *directory, uint64_t bytes, gal_storage_way way, gal_storage **out, gal_error *err)
{
    gal_code code = GAL_OK;
    void *room = NULL;
    gal_storage *s = calloc(1, sizeof *s);
    GAL_ASSERT(bytes > 0 && bytes % BLOCK == 0);
    if (s == NULL || posix_memalign(&room, BLOCK, ROOM_BYTES) != 0) {
        free(s);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: storage");
    }
    s->file = -1;
    s->room = memset(room, 0, ROOM_BYTES); /* resident from now on, not from the first save on */
    if (strlen(directory) >= sizeof s->directory) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "storage: a directory of %zu characters", strlen(directory));
        goto cleanup;
    }
    memcpy(s->directory, directory, strlen(directory) + 1);
    GAL_TRY(create_file(s, bytes, err));
    GAL_TRY(open_way(s, way, err));
    *out = s;
    s = NULL;
cleanup:
    gal_storage_close(s);
    return code;
}

void gal_storage_close(gal_storage *s)
{
    if (s == NULL) {
        return;
    }
    if (s->movers != NULL) {
        s->movers->close(s->moving);
    }
    if (s->file >= 0) {
        close(s->file);
    }
    free(s->room);
    free(s);
}

/* ---- in a step ---- */

gal_code gal_storage_start(gal_storage *s, gal_storage_direction direction, uint64_t offset, void *memory,
                           uint64_t bytes, gal_error *err)
{
    gal_transfer *transfer = &s->transfer[direction];
    GAL_ASSERT(!s->busy[direction] && offset % BLOCK == 0 && bytes % BLOCK == 0 && (uintptr_t)memory % BLOCK == 0);
    *transfer = (gal_transfer){.direction = direction, .offset = offset, .bytes = bytes, .memory = memory};
    s->touched = true;
    const int cause = s->movers->start(s->moving, transfer);
    if (cause != 0) {
        return fail(s, direction, offset, bytes, cause, err);
    }
    s->busy[direction] = true;
    return GAL_OK;
}

gal_code gal_storage_test(gal_storage *s, gal_storage_direction direction, bool *done, gal_error *err)
{
    const gal_transfer *transfer = &s->transfer[direction];
    *done = !s->busy[direction] || s->movers->test(s->moving, &s->transfer[direction]);
    if (!*done || !s->busy[direction]) {
        return GAL_OK;
    }
    s->busy[direction] = false;
    if (transfer->failure != 0) {
        return fail(s, direction, transfer->offset, transfer->bytes, transfer->failure, err);
    }
    const uint64_t end = transfer->offset + transfer->bytes;
    s->written_bytes = direction == GAL_STORAGE_WRITE && end > s->written_bytes ? end : s->written_bytes;
    return GAL_OK;
}

/* ---- between steps ---- */

static bool move_blocks(gal_storage *s, gal_storage_direction direction, uint64_t offset, uint64_t bytes)
{
    const int cause = s->code == GAL_OK ? gal_storage_move(s->file, direction, offset, s->room, bytes) : 0;
    if (cause != 0) {
        s->code = fail(s, direction, offset, bytes, cause, &s->failed);
    }
    return s->code == GAL_OK;
}

/* The blocks that hold some of [offset, offset + left): as many as there is room for. */
typedef struct blocks {
    uint64_t first, bytes; /* of the file */
    uint64_t skipped, used;
} blocks;

static blocks blocks_of(uint64_t offset, uint64_t left)
{
    blocks b = {.first = offset / BLOCK * BLOCK, .skipped = offset % BLOCK};
    const uint64_t wanted = (b.skipped + left + BLOCK - 1) / BLOCK * BLOCK;
    b.bytes = wanted < ROOM_BYTES ? wanted : ROOM_BYTES;
    b.used = b.bytes - b.skipped < left ? b.bytes - b.skipped : left;
    return b;
}

/* source NULL: zeros. */
static void put(gal_storage *s, uint64_t offset, const char *source, uint64_t byte_count)
{
    for (uint64_t done = 0; done < byte_count && s->code == GAL_OK;) {
        const blocks b = blocks_of(offset + done, byte_count - done);
        const bool whole = b.used == b.bytes;
        if (!whole && !move_blocks(s, GAL_STORAGE_READ, b.first, b.bytes)) {
            return;
        }
        if (source == NULL) {
            memset(s->room + b.skipped, 0, b.used);
        } else {
            memcpy(s->room + b.skipped, source + done, b.used);
        }
        (void)move_blocks(s, GAL_STORAGE_WRITE, b.first, b.bytes);
        done += b.used;
    }
    s->touched = true;
}

void gal_storage_put(gal_storage *s, uint64_t offset, const void *source, uint64_t byte_count)
{
    put(s, offset, source, byte_count);
}

/* A file that nobody has written to has zeros already. */
void gal_storage_zero(gal_storage *s, uint64_t offset, uint64_t byte_count)
{
    if (s->touched) {
        put(s, offset, NULL, byte_count);
    }
}

void gal_storage_get(gal_storage *s, uint64_t offset, void *target, uint64_t byte_count)
{
    for (uint64_t done = 0; done < byte_count;) {
        const blocks b = blocks_of(offset + done, byte_count - done);
        const bool read = move_blocks(s, GAL_STORAGE_READ, b.first, b.bytes);
        if (read) {
            memcpy((char *)target + done, s->room + b.skipped, b.used);
        } else {
            memset((char *)target + done, 0, b.used);
        }
        done += b.used;
    }
}

gal_code gal_storage_status(const gal_storage *s, gal_error *err)
{
    return s == NULL || s->code == GAL_OK ? GAL_OK : gal_fail(err, s->code, "%s", s->failed.text);
}

gal_storage_facts gal_storage_facts_of(const gal_storage *s)
{
    struct stat status;
    const uint64_t bytes = fstat(s->file, &status) == 0 ? (uint64_t)status.st_size : 0;
    return (gal_storage_facts){.bytes = bytes, .written_bytes = s->written_bytes, .direct = s->direct, .way = s->way};
}
