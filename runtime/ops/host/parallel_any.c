/* A job is published by one 64-bit word, the ticket: number of the job, parts, and the next part to take. Taking a part
 * is a compare-and-swap on the whole word, so that a thread that was away while jobs came and went cannot take a part
 * of a job that it has not read. Threads spin for some microseconds before they sleep: kernels follow one another. */
#include "runtime/ops/host/parallel.h"

#include <cblas.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "schemas/base/status.h"

enum { THREAD_COUNT_MAX = 1024, SPIN_COUNT = 2000, STACK_BYTES = 1 << 20, PARTS_PER_THREAD = 4 };

typedef struct thread_set {
    uint32_t thread_count; /* the caller's included */
    _Atomic(gal_part) work;
    _Atomic(const void *) context;
    _Atomic uint64_t ticket; /* job << 32 | part_count << 16 | next part */
    _Atomic uint32_t left;   /* parts that are not done */
    _Atomic uint32_t sleeping;
    _Atomic bool caller_sleeps;
    pthread_mutex_t lock;
    pthread_cond_t job_published, job_done;
} thread_set;

static thread_set threads = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .job_published = PTHREAD_COND_INITIALIZER, .job_done = PTHREAD_COND_INITIALIZER};
static pthread_once_t started = PTHREAD_ONCE_INIT;

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static bool has_parts(uint64_t ticket)
{
    return (uint16_t)ticket < (uint16_t)(ticket >> 16);
}

/* The thread that finishes the last part wakes the caller if that sleeps: either it sees here that the caller sleeps,
 * or the caller, which says so first, sees that nothing is left. */
static void finish_part(void)
{
    if (atomic_fetch_sub(&threads.left, 1) == 1 && atomic_load(&threads.caller_sleeps)) {
        pthread_mutex_lock(&threads.lock);
        pthread_cond_signal(&threads.job_done);
        pthread_mutex_unlock(&threads.lock);
    }
}

/* Takes parts until there are none. What is read between the ticket and the swap belongs to the ticket's job, or the
 * swap fails. */
static void take_parts(void)
{
    uint64_t ticket = atomic_load(&threads.ticket);
    while (has_parts(ticket)) {
        const gal_part work = atomic_load(&threads.work);
        const void *context = atomic_load(&threads.context);
        if (atomic_compare_exchange_strong(&threads.ticket, &ticket, ticket + 1)) {
            work(context, (uint16_t)ticket);
            finish_part();
            ticket = atomic_load(&threads.ticket);
        }
    }
}

static void await_job(void)
{
    for (uint32_t i = 0; i < SPIN_COUNT; i++) {
        if (has_parts(atomic_load_explicit(&threads.ticket, memory_order_relaxed))) {
            return;
        }
        pause_briefly();
    }
    pthread_mutex_lock(&threads.lock);
    atomic_fetch_add(&threads.sleeping, 1);
    while (!has_parts(atomic_load(&threads.ticket))) {
        pthread_cond_wait(&threads.job_published, &threads.lock);
    }
    atomic_fetch_sub(&threads.sleeping, 1);
    pthread_mutex_unlock(&threads.lock);
}

static void await_parts(void)
{
    for (uint32_t i = 0; i < SPIN_COUNT; i++) {
        if (atomic_load(&threads.left) == 0) {
            return;
        }
        pause_briefly();
    }
    pthread_mutex_lock(&threads.lock);
    atomic_store(&threads.caller_sleeps, true);
    while (atomic_load(&threads.left) > 0) {
        pthread_cond_wait(&threads.job_done, &threads.lock);
    }
    atomic_store(&threads.caller_sleeps, false);
    pthread_mutex_unlock(&threads.lock);
}

static void *serve(void *unused)
{
    (void)unused;
    for (;;) {
        await_job();
        take_parts();
    }
    return NULL;
}

/* Signals stay with the caller's thread. */
static void start_threads(void)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    const int wanted = openblas_get_num_threads();
    threads.thread_count = 1;
    openblas_set_num_threads(1);
    sigfillset(&all);
    if (wanted <= 1 || pthread_attr_init(&attributes) != 0) {
        return;
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (threads.thread_count < (uint32_t)wanted && threads.thread_count < THREAD_COUNT_MAX) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, serve, NULL) != 0) {
            break;
        }
        threads.thread_count++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

uint32_t gal_parallel_threads(void)
{
    pthread_once(&started, start_threads);
    return threads.thread_count;
}

void gal_parallel(uint32_t part_count, gal_part work, const void *context)
{
    GAL_ASSERT(part_count <= UINT16_MAX);
    if (part_count <= 1 || gal_parallel_threads() == 1) {
        for (uint32_t part = 0; part < part_count; part++) {
            work(context, part);
        }
        return;
    }
    const uint64_t job = (atomic_load(&threads.ticket) >> 32) + 1;
    atomic_store(&threads.work, work);
    atomic_store(&threads.context, context);
    atomic_store(&threads.left, part_count);
    atomic_store(&threads.ticket, job << 32 | (uint64_t)part_count << 16);
    if (atomic_load(&threads.sleeping) > 0) {
        pthread_mutex_lock(&threads.lock);
        pthread_cond_broadcast(&threads.job_published);
        pthread_mutex_unlock(&threads.lock);
    }
    take_parts();
    await_parts();
}

gal_cut gal_cut_for_threads(size_t count, size_t unit, size_t least)
{
    const size_t thread_count = gal_parallel_threads(), parts_max = thread_count * PARTS_PER_THREAD;
    size_t part_count = count / (least > unit ? least : unit);
    part_count = part_count < parts_max ? part_count : parts_max;
    part_count = part_count > thread_count ? part_count / thread_count * thread_count : part_count;
    part_count = thread_count == 1 || part_count == 0 ? 1 : part_count;
    return (gal_cut){.count = count, .unit = unit, .part_count = (uint32_t)part_count};
}
