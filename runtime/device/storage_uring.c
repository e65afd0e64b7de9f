/* io_uring by liburing: the pieces of a transfer are queued together, and the kernel says which are done. */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>

#include "runtime/device/storage_internal.h"

enum { DEPTH = 64 /* pieces of both directions */, LANE_DEPTH = DEPTH / GAL_STORAGE_DIRECTIONS };

/* A piece that is under way; what of it is left. */
typedef struct piece {
    gal_transfer *transfer; /* NULL: free */
    uint64_t begin, bytes;
} piece;

typedef struct ring {
    struct io_uring uring;
    int file;
    piece piece[DEPTH];
    uint64_t taken[GAL_STORAGE_DIRECTIONS];
    uint32_t under_way[GAL_STORAGE_DIRECTIONS];
} ring;

static gal_code uring_open(int file, void **out, gal_error *err)
{
    ring *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: storage");
    }
    r->file = file;
    *out = r;
    if (io_uring_queue_init(DEPTH, &r->uring, 0) < 0) { /* an old kernel, or one that forbids it */
        free(r);
        *out = NULL;
    }
    return GAL_OK;
}

/* A full queue takes none; there are as many entries as pieces. */
static void queue(ring *r, piece *p)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(&r->uring);
    GAL_ASSERT(entry != NULL);
    char *memory = p->transfer->memory + p->begin;
    if (p->transfer->direction == GAL_STORAGE_READ) {
        io_uring_prep_read(entry, r->file, memory, (unsigned)p->bytes, p->transfer->offset + p->begin);
    } else {
        io_uring_prep_write(entry, r->file, memory, (unsigned)p->bytes, p->transfer->offset + p->begin);
    }
    io_uring_sqe_set_data(entry, p);
}

/* Queues pieces of the transfer, of which no more than LANE_DEPTH are under way. */
static void fill(ring *r, gal_transfer *t)
{
    const gal_storage_direction d = t->direction;
    for (uint32_t i = 0; i < DEPTH && r->under_way[d] < LANE_DEPTH && r->taken[d] < t->bytes && t->failure == 0; i++) {
        if (r->piece[i].transfer == NULL) {
            const uint64_t left = t->bytes - r->taken[d];
            r->piece[i] = (piece){t, r->taken[d], left < GAL_STORAGE_PIECE_BYTES ? left : GAL_STORAGE_PIECE_BYTES};
            r->taken[d] += r->piece[i].bytes;
            r->under_way[d]++;
            queue(r, &r->piece[i]);
        }
    }
}

/* What a piece came to: done, failed, or with a rest that goes on its way again. */
static void take(ring *r, piece *p, int result)
{
    gal_transfer *t = p->transfer;
    if (result > 0 && (uint64_t)result < p->bytes) {
        p->begin += (uint64_t)result;
        p->bytes -= (uint64_t)result;
        queue(r, p);
        return;
    }
    if (result == -EINTR || result == -EAGAIN) {
        queue(r, p);
        return;
    }
    t->failure = t->failure != 0 ? t->failure : result < 0 ? -result : result == 0 ? ENODATA : 0;
    r->under_way[t->direction]--;
    p->transfer = NULL;
    fill(r, t);
}

static bool may_pass(int failure)
{
    return failure == EAGAIN || failure == EBUSY || failure == EINTR;
}

/* 0, or an errno. What the kernel does not take now stays in the queue and is offered again with the next look. */
static int offer(ring *r)
{
    const int taken = io_uring_sq_ready(&r->uring) > 0 ? io_uring_submit(&r->uring) : 0;
    return taken >= 0 || may_pass(-taken) ? 0 : -taken;
}

/* All that is done by now, of both directions. */
static void look(ring *r)
{
    struct io_uring_cqe *entry = NULL;
    while (io_uring_peek_cqe(&r->uring, &entry) == 0 && entry != NULL) {
        piece *p = io_uring_cqe_get_data(entry);
        const int result = entry->res;
        io_uring_cqe_seen(&r->uring, entry);
        take(r, p, result);
        entry = NULL;
    }
    (void)offer(r);
}

static int uring_start(void *way, gal_transfer *transfer)
{
    ring *r = way;
    r->taken[transfer->direction] = 0;
    fill(r, transfer);
    return offer(r);
}

static bool uring_test(void *way, gal_transfer *transfer)
{
    ring *r = way;
    look(r);
    return r->under_way[transfer->direction] == 0;
}

static void uring_close(void *way)
{
    ring *r = way;
    if (r == NULL) {
        return;
    }
    while (r->under_way[GAL_STORAGE_READ] + r->under_way[GAL_STORAGE_WRITE] > 0) {
        const int taken = io_uring_submit_and_wait(&r->uring, 1);
        if (taken < 0 && !may_pass(-taken)) {
            break;
        }
        look(r);
    }
    io_uring_queue_exit(&r->uring);
    free(r);
}

const gal_storage_movers gal_storage_io_uring = {uring_open, uring_close, uring_start, uring_test};
