/* What tests gather and compare by blocking calls, so that who waits there rests as in the programs (patience.c): Open
 * MPI's own waits would hold the core, or give it away without end. In place of MPI's functions, by its profiling
 * interface; calls of these are in no count of a step's messages. */
#include <mpi.h>

#include "runtime/comm/comm.h"
#include "schemas/base/clock.h"

static int wait_for(int result, MPI_Request *request)
{
    const double begin_seconds = gal_now_seconds();
    for (int complete = 0; result == MPI_SUCCESS;) {
        gal_comm_look(true);
        result = PMPI_Test(request, &complete, MPI_STATUS_IGNORE);
        gal_comm_look(false);
        if (complete) {
            break;
        }
        gal_comm_give_way(NULL, begin_seconds);
    }
    return result;
}

int MPI_Barrier(MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    return wait_for(PMPI_Ibarrier(comm, &request), &request);
}

int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    return wait_for(PMPI_Ibcast(data, count, type, root, comm, &request), &request);
}

int MPI_Reduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    return wait_for(PMPI_Ireduce(from, to, count, type, op, root, comm, &request), &request);
}

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    return wait_for(PMPI_Iallreduce(from, to, count, type, op, comm, &request), &request);
}
