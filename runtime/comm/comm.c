/* What is the same for all tables. */
#include "runtime/comm/comm.h"

void gal_comm_free(gal_comm *comm)
{
    if (comm != NULL) {
        comm->ops->release(comm);
    }
}

gal_code gal_comm_barrier(gal_comm *comm, double deadline_seconds, gal_error *err)
{
    return comm->ops->control->barrier(comm, deadline_seconds, err);
}

gal_code gal_comm_broadcast(gal_comm *comm, uint32_t root, void *data, uint64_t byte_count, double deadline_seconds,
                            gal_error *err)
{
    return comm->ops->control->broadcast(comm, root, data, byte_count, deadline_seconds, err);
}

gal_code gal_comm_reduce_f64(gal_comm *comm, double *values, uint32_t count, uint32_t reduce, double deadline_seconds,
                             gal_error *err)
{
    return comm->ops->control->reduce_f64(comm, values, count, reduce, deadline_seconds, err);
}

gal_code gal_comm_gather(gal_comm *comm, uint32_t root, const void *mine, uint64_t byte_count, void *all,
                         double deadline_seconds, gal_error *err)
{
    return comm->ops->control->gather(comm, root, mine, byte_count, all, deadline_seconds, err);
}

gal_code gal_comm_agree(gal_comm *comm, gal_code mine, double deadline_seconds, gal_error *err)
{
    return comm->ops->control->agree(comm, mine, deadline_seconds, err);
}
