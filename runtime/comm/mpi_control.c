/* The blocking helpers, over MPI's non-blocking calls and a deadline. None of them is an all-reduce or a transfer for
 * MPI, so a count of a step's all-reduces, gathers and transfers does not contain them. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "runtime/comm/mpi_internal.h"

#define CHUNK_BYTES (UINT64_C(1) << 30)

static bool has_abandoned;

bool gal_mpi_has_abandoned(void)
{
    return has_abandoned;
}

gal_code gal_mpi_wait(MPI_Request *request, double deadline_seconds, const char *what, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_comm any = {.ops = &gal_mpi_ops}; /* the roll call is of all ranks */
    gal_comm_patience patience = gal_comm_patience_begin(deadline_seconds);
    for (;;) {
        int complete = 0;
        gal_comm_look(true);
        const int result = MPI_Test(request, &complete, MPI_STATUS_IGNORE);
        gal_comm_look(false);
        GAL_TRY(gal_mpi_check(result, what, err));
        if (complete) {
            break;
        }
        code = gal_comm_idle(&any, &patience, &(gal_comm_wait){.text = what}, err);
        has_abandoned = has_abandoned || code != GAL_OK;
        GAL_TRY(code);
        gal_comm_give_way(NULL, patience.begin_seconds);
    }
cleanup:
    return code;
}

static gal_code mpi_barrier(gal_comm *comm, double deadline_seconds, gal_error *err)
{
    const gal_mpi_state *state = comm->state;
    gal_code code = GAL_OK;
    MPI_Request request = MPI_REQUEST_NULL;
    GAL_TRY(gal_mpi_check(MPI_Ibarrier(state->world, &request), "barrier", err));
    GAL_TRY(gal_mpi_wait(&request, deadline_seconds, "barrier", err));
cleanup:
    return code;
}

static gal_code mpi_broadcast(gal_comm *comm, uint32_t root, void *data, uint64_t byte_count, double deadline_seconds,
                              gal_error *err)
{
    const gal_mpi_state *state = comm->state;
    gal_code code = GAL_OK;
    GAL_ASSERT(root < comm->world_size);
    for (uint64_t first = 0; first < byte_count; first += CHUNK_BYTES) {
        const int count = (int)(byte_count - first < CHUNK_BYTES ? byte_count - first : CHUNK_BYTES);
        MPI_Request request = MPI_REQUEST_NULL;
        GAL_TRY(gal_mpi_check(MPI_Ibcast((char *)data + first, count, MPI_BYTE, (int)root, state->world, &request),
                              "broadcast", err));
        GAL_TRY(gal_mpi_wait(&request, deadline_seconds, "broadcast", err));
    }
cleanup:
    return code;
}

/* values[count] of all ranks, reduced into rank 0's. */
static gal_code reduce_to_first(gal_comm *comm, void *values, int count, MPI_Datatype type, MPI_Op op,
                                double deadline_seconds, const char *what, gal_error *err)
{
    const gal_mpi_state *state = comm->state;
    gal_code code = GAL_OK;
    MPI_Request request = MPI_REQUEST_NULL;
    const bool first = comm->rank == 0;
    GAL_TRY(gal_mpi_check(
        MPI_Ireduce(first ? MPI_IN_PLACE : values, first ? values : NULL, count, type, op, 0, state->world, &request),
        what, err));
    GAL_TRY(gal_mpi_wait(&request, deadline_seconds, what, err));
cleanup:
    return code;
}

static gal_code mpi_reduce_f64(gal_comm *comm, double *values, uint32_t count, uint32_t reduce, double deadline_seconds,
                               gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_ASSERT(count <= INT_MAX);
    if (count == 0) {
        return GAL_OK;
    }
    const MPI_Op op = reduce == GAL_REDUCE_MAX ? MPI_MAX : MPI_SUM;
    GAL_TRY(reduce_to_first(comm, values, (int)count, MPI_DOUBLE, op, deadline_seconds, "reduction", err));
    GAL_TRY(mpi_broadcast(comm, 0, values, count * sizeof *values, deadline_seconds, err));
cleanup:
    return code;
}

/* One chunk of every rank's bytes; at the root rank r's begins at all + r * stride_bytes. */
static gal_code gather_chunk(gal_comm *comm, uint32_t root, const void *mine, int count, void *all,
                             uint64_t stride_bytes, double deadline_seconds, gal_error *err)
{
    const gal_mpi_state *state = comm->state;
    gal_code code = GAL_OK;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype chunk = MPI_DATATYPE_NULL;
    MPI_Datatype strided = MPI_DATATYPE_NULL;
    GAL_TRY(gal_mpi_check(MPI_Type_contiguous(count, MPI_BYTE, &chunk), "gather", err));
    GAL_TRY(gal_mpi_check(MPI_Type_create_resized(chunk, 0, (MPI_Aint)stride_bytes, &strided), "gather", err));
    GAL_TRY(gal_mpi_check(MPI_Type_commit(&strided), "gather", err));
    GAL_TRY(gal_mpi_check(MPI_Igather(mine, count, MPI_BYTE, all, 1, strided, (int)root, state->world, &request),
                          "gather", err));
    GAL_TRY(gal_mpi_wait(&request, deadline_seconds, "gather", err));
cleanup:
    if (strided != MPI_DATATYPE_NULL) {
        MPI_Type_free(&strided);
    }
    if (chunk != MPI_DATATYPE_NULL) {
        MPI_Type_free(&chunk);
    }
    return code;
}

static gal_code mpi_gather(gal_comm *comm, uint32_t root, const void *mine, uint64_t byte_count, void *all,
                           double deadline_seconds, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_ASSERT(root < comm->world_size);
    for (uint64_t first = 0; first < byte_count; first += CHUNK_BYTES) {
        const int count = (int)(byte_count - first < CHUNK_BYTES ? byte_count - first : CHUNK_BYTES);
        char *target = comm->rank == root ? (char *)all + first : NULL;
        GAL_TRY(gather_chunk(comm, root, (const char *)mine + first, count, target, byte_count, deadline_seconds, err));
    }
cleanup:
    return code;
}

static gal_code mpi_agree(gal_comm *comm, gal_code mine, double deadline_seconds, gal_error *err)
{
    gal_mpi_state *state = comm->state;
    gal_code code = GAL_OK;
    /* The largest word is the worst code and, among its ranks, the lowest. */
    state->words[0] = ((uint64_t)mine << 32) | (UINT32_MAX - comm->rank);
    GAL_TRY(reduce_to_first(comm, state->words, 1, MPI_UINT64_T, MPI_MAX, deadline_seconds, "agreement", err));
    GAL_TRY(mpi_broadcast(comm, 0, state->words, sizeof state->words[0], deadline_seconds, err));
    const gal_code worst = (gal_code)(state->words[0] >> 32);
    const uint32_t rank = UINT32_MAX - (uint32_t)(state->words[0] & UINT32_MAX);
    if (worst == GAL_OK) {
        return GAL_OK;
    }
    if (comm->rank == rank) {
        const bool has_text = err != NULL && err->code != GAL_OK;
        (void)snprintf(state->text, sizeof state->text, "rank %u: %.1000s", rank, has_text ? err->text : "failed");
    }
    GAL_TRY(mpi_broadcast(comm, rank, state->text, sizeof state->text, deadline_seconds, err));
    if (err != NULL) {
        err->code = worst;
        memcpy(err->text, state->text, sizeof err->text);
    }
    code = worst;
cleanup:
    return code;
}

const gal_comm_control gal_mpi_control = {.barrier = mpi_barrier,
                                          .broadcast = mpi_broadcast,
                                          .reduce_f64 = mpi_reduce_f64,
                                          .gather = mpi_gather,
                                          .agree = mpi_agree};
