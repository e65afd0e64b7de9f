#include "runtime/engine/courier.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "schemas/base/clock.h"

/* Between looks: at first, and when nothing moves slowly longer, in some 45 looks. A look and the two changes of thread
 * take some 5 us, so the longest interval costs a kernel 2 or 3 % of its core. Open MPI moves three pieces through
 * shared memory between a look of each side: of 128 KiB (launch.c) an all-reduce of 1 MiB takes some 10 looks. */
#define SHORT_SECONDS 50e-6
#define LONG_SECONDS 200e-6
#define GROWTH (33.0 / 32.0)

enum { STACK_BYTES = 512 << 10, TOUCHED_BYTES = 64 << 10, SLICE_NANOSECONDS = 100000, KEEP_POLICY = 8 };

struct gal_courier {
    gal_courier_look *look;
    void *context;
    pthread_t thread;
    pthread_mutex_t turn;
    sem_t bell;        /* rung when the thread is to wake up */
    atomic_bool awake; /* changed by who has the turn */
    atomic_bool stop;
};

static void sleep_for(double seconds)
{
    struct timespec rest = {.tv_nsec = (long)(seconds * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, &rest) == EINTR) {
    }
}

/* With the turn: how long to sleep next. */
static double look_once(gal_courier *p, double interval_seconds)
{
    double due_seconds = 0.0;
    const gal_courier_found found = p->look(p->context, &due_seconds);
    if (found == GAL_COURIER_NOTHING) {
        atomic_store(&p->awake, false);
    }
    double next_seconds = found == GAL_COURIER_WAITS ? GROWTH * interval_seconds : SHORT_SECONDS;
    next_seconds = next_seconds > LONG_SECONDS ? LONG_SECONDS : next_seconds;
    const double left_seconds = due_seconds - gal_now_seconds();
    return left_seconds <= 0.0 ? next_seconds : left_seconds < LONG_SECONDS ? left_seconds : LONG_SECONDS;
}

/* What MPI takes of the stack is there from the start: a step takes no memory that the one before did not. */
static void touch_stack(void)
{
    volatile char room[TOUCHED_BYTES];
    for (size_t i = 0; i < sizeof room; i += 1024) {
        room[i] = 0;
    }
}

/* What sched_setattr takes (sched_setattr(2)); the C library has it from 2.41 on only. */
typedef struct schedule {
    uint32_t bytes, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_nanoseconds, deadline, period;
} schedule;

/* The shortest slice that Linux grants, from 6.12 on, which asks for no privilege: a thread of a short slice takes the
 * core when it wakes up, and keeps it for a look. With that of the kernel's thread, which never sleeps, each of them
 * waits for the end of the other's slice: some 1.2 ms a look where 17 us would do (two ranks on two cores, all-reduce
 * of 1 MiB: 29 ms and 1.1). Older ones know no such slice; nothing is lost there. */
static void ask_for_short_slice(void)
{
    const schedule wanted = {.bytes = sizeof wanted,
                             .flags = KEEP_POLICY,
                             .nice = getpriority(PRIO_PROCESS, 0), /* of this thread, as it is */
                             .slice_nanoseconds = SLICE_NANOSECONDS};
    (void)syscall(SYS_sched_setattr, 0, &wanted, 0);
}

static void *keep_going(void *courier)
{
    gal_courier *p = courier;
    touch_stack();
    double interval_seconds = SHORT_SECONDS;
    ask_for_short_slice();
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); /* 1 us: the default adds 50 us to every sleep */
    while (!atomic_load(&p->stop)) {
        if (!atomic_load(&p->awake)) {
            (void)sem_wait(&p->bell);
            interval_seconds = SHORT_SECONDS;
            continue;
        }
        sleep_for(interval_seconds);
        if (pthread_mutex_trylock(&p->turn) == 0) {
            interval_seconds = look_once(p, interval_seconds);
            (void)pthread_mutex_unlock(&p->turn);
        } else {
            interval_seconds = SHORT_SECONDS; /* the first thread looks itself */
        }
    }
    return NULL;
}

/* Signals are the first thread's. */
static int start_thread(gal_courier *p)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    sigfillset(&all);
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int result = pthread_create(&p->thread, &attributes, keep_going, p);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return result;
}

gal_code gal_courier_create(gal_courier_look *look, void *context, gal_courier **out, gal_error *err)
{
    gal_courier *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: communication thread");
    }
    p->look = look;
    p->context = context;
    atomic_init(&p->awake, false);
    atomic_init(&p->stop, false);
    (void)pthread_mutex_init(&p->turn, NULL);
    (void)sem_init(&p->bell, 0, 0);
    (void)pthread_mutex_lock(&p->turn);
    if (start_thread(p) != 0) {
        (void)pthread_mutex_unlock(&p->turn);
        (void)pthread_mutex_destroy(&p->turn);
        (void)sem_destroy(&p->bell);
        free(p);
        return gal_fail(err, GAL_ERR_SYSTEM, "no thread for communication");
    }
    *out = p;
    return GAL_OK;
}

void gal_courier_free(gal_courier *courier)
{
    if (courier == NULL) {
        return;
    }
    atomic_store(&courier->stop, true);
    (void)sem_post(&courier->bell);
    (void)pthread_join(courier->thread, NULL);
    (void)pthread_mutex_unlock(&courier->turn);
    (void)pthread_mutex_destroy(&courier->turn);
    (void)sem_destroy(&courier->bell);
    free(courier);
}

void gal_courier_leave(gal_courier *courier, bool in_flight)
{
    if (courier == NULL) {
        return;
    }
    if (in_flight && !atomic_load(&courier->awake)) {
        atomic_store(&courier->awake, true);
        (void)sem_post(&courier->bell);
    }
    (void)pthread_mutex_unlock(&courier->turn);
}

void gal_courier_return(gal_courier *courier)
{
    if (courier != NULL) {
        (void)pthread_mutex_lock(&courier->turn);
    }
}

void gal_courier_rest(gal_courier *courier)
{
    if (courier != NULL) {
        atomic_store(&courier->awake, false);
    }
}
