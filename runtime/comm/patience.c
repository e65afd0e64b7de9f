/* How long one waits for others, and what then. */
#include <sched.h>

#include "runtime/clock.h"
#include "runtime/comm/comm.h"

gal_comm_patience gal_comm_patience_begin(double deadline_seconds)
{
    const double now_seconds = gal_now_seconds();
    return (gal_comm_patience){.deadline_seconds = deadline_seconds,
                               .begin_seconds = now_seconds,
                               .listen_seconds = now_seconds + GAL_ROLL_LISTEN_SECONDS};
}

void gal_comm_give_way(gal_comm *comm)
{
    const double due_seconds = comm != NULL && comm->ops->due != NULL ? comm->ops->due(comm) : 0.0;
    const double left_seconds = due_seconds > 0.0 ? due_seconds - gal_now_seconds() : 0.0;
    if (left_seconds > 0.0) {
        const double rest_seconds = left_seconds < GAL_ROLL_LISTEN_SECONDS ? left_seconds : GAL_ROLL_LISTEN_SECONDS;
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = (long)(rest_seconds * 1e9)}, NULL);
    } else {
        (void)sched_yield();
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
