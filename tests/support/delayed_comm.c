#include "tests/support/delayed_comm.h"

#include <stdlib.h>

#include "schemas/base/clock.h"
#include "tests/support/random_plan.h"

enum { HANDLES_MAX = 1024, SHORT_MICROSECONDS = 200, LONG_MICROSECONDS = 2000, LONG_EVERY = 16 };

typedef struct delayed {
    gal_comm_ops ops; /* the inner table but for what is delayed */
    gal_comm *inner;
    uint64_t random;
    double due_seconds[HANDLES_MAX]; /* [handle of the inner one]: it is not looked at before */
} delayed;

static void release(gal_comm *comm)
{
    delayed *d = comm->state;
    gal_comm_free(d->inner);
    free(d);
    free(comm);
}

static gal_code start(gal_comm *comm, const gal_comm_request *request, uint32_t *handle, gal_error *err)
{
    delayed *d = comm->state;
    const gal_code code = d->inner->ops->start(d->inner, request, handle, err);
    GAL_ASSERT(code != GAL_OK || *handle < HANDLES_MAX);
    if (code == GAL_OK) {
        const uint32_t most = gal_random_below(&d->random, LONG_EVERY) == 0 ? LONG_MICROSECONDS : SHORT_MICROSECONDS;
        d->due_seconds[*handle] = gal_now_seconds() + 1e-6 * gal_random_below(&d->random, most);
    }
    return code;
}

static gal_code test(gal_comm *comm, uint32_t handle, bool *done, gal_error *err)
{
    delayed *d = comm->state;
    *done = false;
    return gal_now_seconds() < d->due_seconds[handle] ? GAL_OK : d->inner->ops->test(d->inner, handle, done, err);
}

/* The rest of the table takes a communicator only to leave it alone (comm/mpi.c). */
gal_comm *gal_delayed_comm_create(gal_comm *inner, uint64_t seed)
{
    gal_comm *comm = malloc(sizeof *comm);
    delayed *d = calloc(1, sizeof *d);
    GAL_ASSERT(comm != NULL && d != NULL && !inner->ops->queued);
    d->ops = *inner->ops;
    d->ops.control = NULL;
    d->ops.release = release;
    d->ops.start = start;
    d->ops.test = test;
    d->inner = inner;
    d->random = seed;
    *comm = *inner;
    comm->ops = &d->ops;
    comm->state = d;
    return comm;
}
