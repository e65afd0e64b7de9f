/* Threads that read and write: each has a direction and takes the pieces of its transfer in turn with the other ones of
 * that direction, so that a device is asked for several pieces at a time, each way. */
#include <pthread.h>
#include <stdlib.h>

#include "runtime/device/storage_internal.h"

enum { THREADS = 2 /* of each direction */ };

typedef struct lane {
    int file;
    pthread_mutex_t mutex;
    pthread_cond_t work;
    pthread_t thread[THREADS];
    uint32_t thread_count;
    bool ends;
    gal_transfer *transfer; /* NULL: none */
    uint64_t taken, done;   /* of its bytes: given to threads, moved */
    int failure;
} lane;

typedef struct lanes {
    lane of[GAL_STORAGE_DIRECTIONS];
    uint32_t made;
} lanes;

/* Under the mutex, which is open while bytes move. */
static void move_piece(lane *l)
{
    const gal_transfer at = *l->transfer;
    const uint64_t begin = l->taken;
    const uint64_t bytes = at.bytes - begin < GAL_STORAGE_PIECE_BYTES ? at.bytes - begin : GAL_STORAGE_PIECE_BYTES;
    l->taken += bytes;
    pthread_mutex_unlock(&l->mutex);
    const int failure = gal_storage_move(l->file, at.direction, at.offset + begin, at.memory + begin, bytes);
    pthread_mutex_lock(&l->mutex);
    l->failure = l->failure == 0 ? failure : l->failure;
    l->done += bytes;
}

static bool has_work(const lane *l)
{
    return l->transfer != NULL && l->taken < l->transfer->bytes;
}

static void *serve(void *context)
{
    lane *l = context;
    pthread_mutex_lock(&l->mutex);
    while (!l->ends || has_work(l)) {
        if (has_work(l)) {
            move_piece(l);
        } else {
            pthread_cond_wait(&l->work, &l->mutex);
        }
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

static void threads_close(void *way)
{
    lanes *all = way;
    if (all == NULL) {
        return;
    }
    for (uint32_t d = 0; d < all->made; d++) {
        lane *l = &all->of[d];
        pthread_mutex_lock(&l->mutex);
        l->ends = true;
        pthread_cond_broadcast(&l->work);
        pthread_mutex_unlock(&l->mutex);
        for (uint32_t t = 0; t < l->thread_count; t++) {
            pthread_join(l->thread[t], NULL);
        }
        pthread_cond_destroy(&l->work);
        pthread_mutex_destroy(&l->mutex);
    }
    free(all);
}

static gal_code threads_open(int file, void **out, gal_error *err)
{
    lanes *all = calloc(1, sizeof *all);
    bool made = all != NULL;
    for (uint32_t d = 0; made && d < GAL_STORAGE_DIRECTIONS; d++) {
        lane *l = &all->of[all->made++];
        l->file = file;
        pthread_mutex_init(&l->mutex, NULL);
        pthread_cond_init(&l->work, NULL);
        while (made && l->thread_count < THREADS) {
            made = pthread_create(&l->thread[l->thread_count], NULL, serve, l) == 0;
            l->thread_count += made;
        }
    }
    if (!made) {
        threads_close(all);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: threads of storage");
    }
    *out = all;
    return GAL_OK;
}

static int threads_start(void *way, gal_transfer *transfer)
{
    lane *l = &((lanes *)way)->of[transfer->direction];
    pthread_mutex_lock(&l->mutex);
    l->transfer = transfer;
    l->taken = l->done = 0;
    l->failure = 0;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->mutex);
    return 0;
}

static bool threads_test(void *way, gal_transfer *transfer)
{
    lane *l = &((lanes *)way)->of[transfer->direction];
    pthread_mutex_lock(&l->mutex);
    const bool done = l->done == transfer->bytes;
    if (done) {
        transfer->failure = l->failure;
        l->transfer = NULL;
    }
    pthread_mutex_unlock(&l->mutex);
    return done;
}

const gal_storage_movers gal_storage_threads = {threads_open, threads_close, threads_start, threads_test};
