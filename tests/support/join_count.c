/* A fault interposer for the MPI calls that all ranks must come to: counts those of one name, and before the i-th
 * stops, ends or delays the process. Preload it into the ranks (a program that mpirun starts: before MPI is there, so
 * it must be in the program's own environment).
 *
 *     GALPLAN_FAULT_CALL=MPI_Comm_create_group   or MPI_Init_thread, MPI_Finalize, MPI_Isend (over MPI_COMM_WORLD)
 *     GALPLAN_FAULT_AT=2                         1-based
 *     GALPLAN_FAULT_KIND=stop                    SIGSTOP
 *                        kill                    SIGKILL
 *                        late                    sleeps for a second; all other ranks do for two before MPI_Abort, so
 *                                                that who is late can still do what it would
 *     GALPLAN_FAULT_RANK=3                       only in this rank of Open MPI */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void count(const char *name)
{
    static long calls;
    const char *call = getenv("GALPLAN_FAULT_CALL"), *at = getenv("GALPLAN_FAULT_AT"),
               *kind = getenv("GALPLAN_FAULT_KIND");
    const char *rank = getenv("GALPLAN_FAULT_RANK"), *launched = getenv("OMPI_COMM_WORLD_RANK");
    if (call == NULL || at == NULL || kind == NULL || rank == NULL || launched == NULL) {
        return;
    }
    const bool late = strcmp(kind, "late") == 0;
    if (strcmp(rank, launched) != 0 || strcmp(call, name) != 0) {
        sleep(late && strcmp(rank, launched) != 0 && strcmp(name, "MPI_Abort") == 0 ? 2 : 0);
        return;
    }
    if (++calls != strtol(at, NULL, 10)) {
        return;
    }
    if (late) {
        sleep(1);
    } else {
        (void)raise(strcmp(kind, "stop") == 0 ? SIGSTOP : SIGKILL);
    }
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    count("MPI_Init_thread");
    return PMPI_Init_thread(argc, argv, required, provided);
}

int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made)
{
    count("MPI_Comm_create_group");
    return PMPI_Comm_create_group(comm, group, tag, made);
}

int MPI_Isend(const void *data, int data_count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    if (comm == MPI_COMM_WORLD) {
        count("MPI_Isend");
    }
    return PMPI_Isend(data, data_count, type, peer, tag, comm, request);
}

int MPI_Abort(MPI_Comm comm, int code)
{
    count("MPI_Abort");
    return PMPI_Abort(comm, code);
}

int MPI_Finalize(void)
{
    count("MPI_Finalize");
    return PMPI_Finalize();
}
