/* An MPI profiling layer that counts communication: preload it into the ranks,
 *
 *     mpirun -x LD_PRELOAD=build/tests/libpmpi_count.so -x GALPLAN_COUNT_FILE=/tmp/count ...
 *
 * and rank r writes /tmp/count.r in MPI_Finalize, a line per row, sorted by first use:
 *
 *     phase function group_size calls in_place bytes
 *
 * group_size  ranks of the communicator; 2 for transfers; of one that is made, those of the one that it is made from
 * in_place    of the calls, those that were given MPI_IN_PLACE
 * bytes       the count argument times the size of its type, summed over the calls: the whole buffer of an all-reduce,
 *             reduce, broadcast, send or receive; what one member receives from one other in an all-gather or
 *             all-to-all; what it receives in all of a reduce-scatter; nothing of a communicator that is made
 * phase       the last name given to pmpi_count_phase, "none" before the first. The program under test finds it by
 *             dlsym(RTLD_DEFAULT, "pmpi_count_phase"), so it runs unchanged without this layer.
 *
 * Without GALPLAN_COUNT_FILE it writes nothing. It includes no header of the project: it must not share its mistakes.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_COUNT_MAX = 4096, PHASE_COUNT_MAX = 64, NAME_BYTES = 48 };

typedef struct row {
    int phase;
    const char *function;
    int group_size;
    uint64_t calls, in_place, bytes;
} row;

static row rows[ROW_COUNT_MAX];
static int row_count;
static char phases[PHASE_COUNT_MAX][NAME_BYTES] = {"none"};
static int phase_count = 1;
static int phase;
static uint64_t lost; /* calls that found no room: written as a row of its own */

void pmpi_count_phase(const char *name)
{
    for (phase = 0; phase < phase_count; phase++) {
        if (strncmp(phases[phase], name, NAME_BYTES - 1) == 0) {
            return;
        }
    }
    if (phase_count == PHASE_COUNT_MAX) {
        (void)fprintf(stderr, "pmpi_count: more than %d phases\n", PHASE_COUNT_MAX);
        abort();
    }
    (void)snprintf(phases[phase_count++], NAME_BYTES, "%s", name);
}

static void add(const char *function, int group_size, bool in_place, uint64_t bytes)
{
    int i = 0;
    while (i < row_count &&
           (rows[i].phase != phase || rows[i].group_size != group_size || strcmp(rows[i].function, function) != 0)) {
        i++;
    }
    if (i == ROW_COUNT_MAX) {
        lost++;
        return;
    }
    if (i == row_count) {
        rows[row_count++] = (row){.phase = phase, .function = function, .group_size = group_size};
    }
    rows[i].calls++;
    rows[i].in_place += in_place;
    rows[i].bytes += bytes;
}

static int size_of(MPI_Comm comm)
{
    int group_size = 0;
    PMPI_Comm_size(comm, &group_size);
    return group_size;
}

static uint64_t bytes_of(int count, MPI_Datatype type)
{
    int type_bytes = 0;
    PMPI_Type_size(type, &type_bytes);
    return (uint64_t)count * (uint64_t)type_bytes;
}

static void add_group(const char *function, MPI_Comm comm, const void *source, int count, MPI_Datatype type)
{
    add(function, size_of(comm), source == MPI_IN_PLACE, bytes_of(count, type));
}

static void write_rows(const char *stem)
{
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char path[4096];
    (void)snprintf(path, sizeof path, "%s.%d", stem, rank);
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        perror(path);
        return;
    }
    for (int i = 0; i < row_count; i++) {
        (void)fprintf(file, "%s %s %d %llu %llu %llu\n", phases[rows[i].phase], rows[i].function, rows[i].group_size,
                      (unsigned long long)rows[i].calls, (unsigned long long)rows[i].in_place,
                      (unsigned long long)rows[i].bytes);
    }
    if (lost > 0) {
        (void)fprintf(file, "none lost 0 %llu 0 0\n", (unsigned long long)lost);
    }
    if (fclose(file) != 0) {
        perror(path);
    }
}

int MPI_Finalize(void)
{
    const char *stem = getenv("GALPLAN_COUNT_FILE");
    if (stem != NULL && stem[0] != '\0') {
        write_rows(stem);
    }
    return PMPI_Finalize();
}

/* The wrappers: name, parameters, arguments, what to count. */
#define WRAP(function, parameters, arguments, counted)                                                                 \
    int function parameters                                                                                            \
    {                                                                                                                  \
        counted;                                                                                                       \
        return P##function arguments;                                                                                  \
    }

#define REDUCE_PARAMETERS const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm
#define GATHER_PARAMETERS const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt, MPI_Comm comm

WRAP(MPI_Iallreduce, (REDUCE_PARAMETERS, MPI_Request *q), (s, r, n, t, op, comm, q),
     add_group("MPI_Iallreduce", comm, s, n, t))
WRAP(MPI_Allreduce, (REDUCE_PARAMETERS), (s, r, n, t, op, comm), add_group("MPI_Allreduce", comm, s, n, t))
WRAP(MPI_Ireduce_scatter_block, (REDUCE_PARAMETERS, MPI_Request *q), (s, r, n, t, op, comm, q),
     add_group("MPI_Ireduce_scatter_block", comm, s, n, t))
WRAP(MPI_Reduce_scatter_block, (REDUCE_PARAMETERS), (s, r, n, t, op, comm),
     add_group("MPI_Reduce_scatter_block", comm, s, n, t))
WRAP(MPI_Iallgather, (GATHER_PARAMETERS, MPI_Request *q), (s, sn, st, r, rn, rt, comm, q),
     add_group("MPI_Iallgather", comm, s, rn, rt))
WRAP(MPI_Allgather, (GATHER_PARAMETERS), (s, sn, st, r, rn, rt, comm), add_group("MPI_Allgather", comm, s, rn, rt))
/* In place the send count says nothing; else both shares are equal. */
WRAP(MPI_Ialltoall, (GATHER_PARAMETERS, MPI_Request *q), (s, sn, st, r, rn, rt, comm, q),
     add_group("MPI_Ialltoall", comm, s, rn, rt))
WRAP(MPI_Alltoall, (GATHER_PARAMETERS), (s, sn, st, r, rn, rt, comm), add_group("MPI_Alltoall", comm, s, rn, rt))
WRAP(MPI_Ireduce, (const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm comm, MPI_Request *q),
     (s, r, n, t, op, root, comm, q), add_group("MPI_Ireduce", comm, s, n, t))
WRAP(MPI_Reduce, (const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm comm),
     (s, r, n, t, op, root, comm), add_group("MPI_Reduce", comm, s, n, t))
WRAP(MPI_Ibcast, (void *r, int n, MPI_Datatype t, int root, MPI_Comm comm, MPI_Request *q), (r, n, t, root, comm, q),
     add_group("MPI_Ibcast", comm, r, n, t))
WRAP(MPI_Bcast, (void *r, int n, MPI_Datatype t, int root, MPI_Comm comm), (r, n, t, root, comm),
     add_group("MPI_Bcast", comm, r, n, t))
WRAP(MPI_Isend, (const void *s, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm, MPI_Request *q),
     (s, n, t, peer, tag, comm, q), add("MPI_Isend", 2, false, bytes_of(n, t)))
WRAP(MPI_Send, (const void *s, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm), (s, n, t, peer, tag, comm),
     add("MPI_Send", 2, false, bytes_of(n, t)))
WRAP(MPI_Irecv, (void *r, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm, MPI_Request *q),
     (r, n, t, peer, tag, comm, q), add("MPI_Irecv", 2, false, bytes_of(n, t)))
WRAP(MPI_Recv, (void *r, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm, MPI_Status *status),
     (r, n, t, peer, tag, comm, status), add("MPI_Recv", 2, false, bytes_of(n, t)))

/* Whatever makes a communicator. */
#define WRAP_MAKER(function, parameters, arguments)                                                                    \
    WRAP(function, parameters, arguments, add(#function, size_of(comm), false, 0))

WRAP_MAKER(MPI_Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *out), (comm, group, out))
WRAP_MAKER(MPI_Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *out), (comm, group, tag, out))
WRAP_MAKER(MPI_Comm_dup, (MPI_Comm comm, MPI_Comm *out), (comm, out))
WRAP_MAKER(MPI_Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *out), (comm, info, out))
WRAP_MAKER(MPI_Comm_idup, (MPI_Comm comm, MPI_Comm *out, MPI_Request *q), (comm, out, q))
WRAP_MAKER(MPI_Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *out), (comm, color, key, out))
WRAP_MAKER(MPI_Comm_split_type, (MPI_Comm comm, int kind, int key, MPI_Info info, MPI_Comm *out),
           (comm, kind, key, info, out))
