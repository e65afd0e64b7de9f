/* How long one waits for others, and what then.
 *
 * Who waits gives the core away between looks: the peer may need it, and where nobody does the next look comes at once.
 * Where others have the core too, who waits also rests, for an eighth of what it has waited: a wait ends late by no
 * more than that. For Linux keeps the threads of other sessions, and its own, waiting for seconds on a core where
 * threads of one session give away again and again while others of it sleep and wake up, as ranks and their couriers
 * do. On 6.18, 2 cores, 8 processes that compute for 0 to 3 ms, then give away 10 times at most, each with a thread
 * that sleeps for 100 us at a time: a process of another session that sleeps for 20 ms came 6.9 s late of 7, one of the
 * same session 3 ms. With a rest of 20 us at each of the 10 it was 0.15 s. Threads of the kernel wait as well (60 s
 * were seen), and with them the end of every write past the page cache. One such thread on each core is enough, to
 * which a yield does not look shared (2 that yield for 6 s, each with a sleeper: 0.9 s late; 8: 5.4). So who has given
 * away for a millisecond rests in any case (0.004 and 0.2 s).
 * (Sessions are groups to the scheduler, sched(7): autogroup. Mended there of what sched_yield does are 79104becf42b,
 * "sched/fair: Forfeit vruntime on yield", and 1319ea57529e, of tasks that overtake each other by it.)
 *
 * Open MPI gives the core away by itself (mpi_yield_when_idle), in every test of a request that is not complete and
 * again and again in calls that block, as of a new group. sched_yield of this program is therefore the one below (the
 * Makefile exports it to libraries): within a look it does nothing, for who looks gives way when all looks are in vain,
 * and elsewhere it rests as well. */
#include <math.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/comm/comm.h"
#include "schemas/base/clock.h"

/* Of a call of sched_yield: 0.7 us where nobody else wants the core, 2.8 and more where it changes hands and comes back
 * (AMD EPYC 9004, Linux 6.18, tests/unit/test_patience.c), or 0.3 and 1.6 (Intel Xeon, model 207, Linux 6.18). A slower
 * machine rests where it need not. */
#define CHANGED_HANDS_SECONDS 1.2e-6
/* Of calls in which it did, less those in which it did not: from how many on it is taken for shared. A courier of one's
 * own wakes up in some of 50 calls. */
enum { SHARED_CALLS = 8, SHARED_CALLS_MAX = 16 };
#define SPELL_SECONDS 1e-3 /* longer, nobody gives away without a rest */
#define REST_SHARE 0.125
#define REST_SECONDS_MIN 20e-6
#define REST_SECONDS_MAX 200e-6 /* as the courier's */
#define SLACK_NANOSECONDS 1000UL

gal_comm_patience gal_comm_patience_begin(double deadline_seconds)
{
    const double now_seconds = gal_now_seconds();
    return (gal_comm_patience){.deadline_seconds = deadline_seconds,
                               .begin_seconds = now_seconds,
                               .listen_seconds = now_seconds + GAL_ROLL_LISTEN_SECONDS};
}

/* The default of a thread adds 50 us to every sleep. */
static void rest(double seconds)
{
    static _Thread_local bool asked;
    if (!asked) {
        asked = true;
        (void)prctl(PR_SET_TIMERSLACK, SLACK_NANOSECONDS, 0UL, 0UL, 0UL);
    }
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = (long)(seconds * 1e9)}, NULL);
}

/* Whether calls have followed each other for a spell, which ends with that. */
static bool ends_spell(double now_seconds)
{
    static _Thread_local double begin_seconds, last_seconds;
    const bool follows = now_seconds - last_seconds < SPELL_SECONDS;
    const bool ends = follows && now_seconds - begin_seconds > SPELL_SECONDS;
    begin_seconds = follows && !ends ? begin_seconds : now_seconds;
    last_seconds = now_seconds;
    return ends;
}

/* Gives the core away once. Whether a rest is due: others have the core too, by this call and those before, or nobody
 * has rested for long. */
static bool yield(double now_seconds)
{
    static _Thread_local int shared_calls;
    const bool ends = ends_spell(now_seconds);
    (void)syscall(SYS_sched_yield);
    const bool changed_hands = gal_now_seconds() - now_seconds > CHANGED_HANDS_SECONDS;
    if (changed_hands && shared_calls < SHARED_CALLS_MAX) {
        shared_calls++;
    } else if (!changed_hands && shared_calls > 0) {
        shared_calls--;
    }
    return ends || shared_calls >= SHARED_CALLS;
}

static _Thread_local bool is_looking;

void gal_comm_look(bool begins)
{
    is_looking = begins;
}

/* In place of the C library's, for libraries that wait. */
int sched_yield(void)
{
    if (!is_looking && yield(gal_now_seconds())) {
        rest(REST_SECONDS_MIN);
    }
    return 0;
}

void gal_comm_give_way(gal_comm *comm, double begin_seconds)
{
    const double due_seconds = comm != NULL && comm->ops->due != NULL ? comm->ops->due(comm) : 0.0;
    const double now_seconds = gal_now_seconds();
    if (due_seconds > now_seconds) {
        rest(fmin(due_seconds - now_seconds, GAL_ROLL_LISTEN_SECONDS));
    } else if (yield(now_seconds)) {
        const double share_seconds = REST_SHARE * (gal_now_seconds() - begin_seconds);
        rest(fmax(REST_SECONDS_MIN, fmin(share_seconds, REST_SECONDS_MAX)));
    }
}

gal_code gal_comm_idle(gal_comm *comm, gal_comm_patience *patience, const gal_comm_wait *wait, gal_error *err)
{
    const double now_seconds = gal_now_seconds(), idle_seconds = now_seconds - patience->begin_seconds;
    const double deadline_seconds = patience->deadline_seconds;
    if (comm->ops->roll_call != NULL) {
        bool called = idle_seconds > deadline_seconds - gal_roll_call_seconds(deadline_seconds);
        if (!called && now_seconds > patience->listen_seconds) {
            called = comm->ops->called(comm);
            patience->listen_seconds = now_seconds + GAL_ROLL_LISTEN_SECONDS;
        }
        if (called) {
            comm->ops->roll_call(comm, wait, 1, deadline_seconds);
        }
    }
    return idle_seconds > deadline_seconds
               ? gal_fail(err, GAL_ERR_DEVICE, "no answer from the other ranks within %g s (%s)", deadline_seconds,
                          wait->text)
               : GAL_OK;
}
