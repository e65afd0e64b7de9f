/* The pool: one communicator per distinct channel, made once.
 *
 * Making them cannot deadlock: each rank makes its communicators in one global order (stream, then members), and
 * MPI_Comm_create_group involves the members alone. The least communicator not yet made is therefore the next one of
 * all its members. That needs lists that agree, which is checked first, with a deadline. */
#include <stdlib.h>

#include "runtime/comm/mpi_internal.h"
#include "runtime/comm/splits.h"
#include "schemas/base/clock.h"

enum { TAG_RANGE = 1 << 14 };

static int compare_entries(const void *a, const void *b)
{
    return gal_channel_compare(*(const gal_channel_spec *const *)a, *(const gal_channel_spec *const *)b);
}

/* FNV-1a over the words, then spread over all bits: sums of these tell lists apart. */
static uint64_t hash_spec(const gal_channel_spec *spec)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    hash = (hash ^ spec->stream) * UINT64_C(0x100000001b3);
    for (uint32_t i = 0; i < spec->rank_count; i++) {
        hash = (hash ^ (spec->ranks[i] + UINT64_C(1))) * UINT64_C(0x100000001b3);
    }
    hash = (hash ^ (hash >> 31)) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

static gal_code make_communicator(const gal_channel_spec *spec, MPI_Comm *out, gal_error *err)
{
    gal_code code = GAL_OK;
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group members = MPI_GROUP_NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    int *ranks = malloc(spec->rank_count * sizeof *ranks);
    if (ranks == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: communicators");
    }
    for (uint32_t i = 0; i < spec->rank_count; i++) {
        ranks[i] = (int)spec->ranks[i];
    }
    const int tag = (int)(hash_spec(spec) % TAG_RANGE);
    GAL_TRY(gal_mpi_check(MPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group", err));
    GAL_TRY(gal_mpi_check(MPI_Group_incl(all, (int)spec->rank_count, ranks, &members), "MPI_Group_incl", err));
    gal_mpi_blocked("MPI_Comm_create_group", spec->ranks, spec->rank_count);
    const int result = MPI_Comm_create_group(MPI_COMM_WORLD, members, tag, &comm);
    gal_mpi_unblocked();
    GAL_TRY(gal_mpi_check(result, "MPI_Comm_create_group", err));
    *out = comm;
    GAL_TRY(gal_mpi_check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "error handler", err));
cleanup:
    if (members != MPI_GROUP_NULL) {
        MPI_Group_free(&members);
    }
    if (all != MPI_GROUP_NULL) {
        MPI_Group_free(&all);
    }
    free(ranks);
    return code;
}

static gal_code make_world(uint32_t rank_count, MPI_Comm *out, gal_error *err)
{
    uint32_t *ranks = malloc(rank_count * sizeof *ranks);
    if (ranks == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: communicators");
    }
    for (uint32_t i = 0; i < rank_count; i++) {
        ranks[i] = i;
    }
    const gal_code code = make_communicator(&(gal_channel_spec){.ranks = ranks, .rank_count = rank_count}, out, err);
    free(ranks);
    return code;
}

/* Every distinct channel must be in the lists of all its members: summed over the ranks, what the lists hold equals
 * what the first members hold, times the members. Modulo 2^64, so a disagreement is missed once in 2^64. */
static gal_code check_lists_agree(gal_mpi_state *state, uint32_t rank, const gal_channel_spec *const *sorted,
                                  uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    MPI_Request request = MPI_REQUEST_NULL;
    uint64_t *sums = state->words;
    sums[0] = 0;
    sums[1] = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0 && gal_channel_compare(sorted[i - 1], sorted[i]) == 0) {
            continue;
        }
        const uint64_t hash = hash_spec(sorted[i]);
        sums[0] += hash;
        sums[1] += sorted[i]->ranks[0] == rank ? hash * sorted[i]->rank_count : 0;
    }
    GAL_TRY(gal_mpi_check(MPI_Iallreduce(MPI_IN_PLACE, sums, 2, MPI_UINT64_T, MPI_SUM, state->world, &request),
                          "agreement on the channels", err));
    GAL_TRY(gal_mpi_wait(&request, gal_mpi_deadline_seconds(), "agreement on the channels", err));
    if (sums[0] != sums[1]) {
        return gal_fail(err, GAL_ERR_DEVICE, "the ranks do not agree on their communication channels");
    }
cleanup:
    return code;
}

/* Communicators of the distinct channels of two ranks or more, in the global order. */
static gal_code make_pool(gal_comm *comm, const gal_channel_spec *const *sorted, const gal_channel_spec *channels,
                          gal_error *err)
{
    gal_mpi_state *state = comm->state;
    gal_code code = GAL_OK;
    for (uint32_t i = 0; i < state->channel_count; i++) {
        const gal_channel_spec *spec = sorted[i];
        const bool known = i > 0 && gal_channel_compare(sorted[i - 1], spec) == 0;
        gal_mpi_channel *channel = &state->channel[spec - channels];
        channel->index = gal_channel_index(spec, comm->rank, comm->world_size);
        channel->rank_count = spec->rank_count;
        channel->comm = MPI_COMM_NULL;
        if (spec->rank_count == 1) {
            continue;
        }
        if (!known) {
            GAL_TRY(make_communicator(spec, &state->pool[state->pool_count], err));
            state->pool_count++;
        }
        channel->comm = state->pool[state->pool_count - 1];
    }
cleanup:
    return code;
}

static gal_comm *allocate_comm(uint32_t channel_count)
{
    gal_comm *comm = calloc(1, sizeof *comm);
    gal_mpi_state *state = calloc(1, sizeof *state);
    if (comm == NULL || state == NULL) {
        free(comm);
        free(state);
        return NULL;
    }
    comm->ops = &gal_mpi_ops;
    comm->state = state;
    state->world = MPI_COMM_NULL;
    state->part_elements = GAL_MPI_PART_ELEMENTS;
    for (uint32_t i = 0; i < GAL_MPI_SLOTS; i++) {
        state->free_slot[i] = GAL_MPI_SLOTS - 1 - i;
    }
    state->free_count = GAL_MPI_SLOTS;
    state->channel_count = channel_count;
    state->channel = calloc((size_t)channel_count + 1, sizeof *state->channel);
    state->pool = calloc((size_t)channel_count + 1, sizeof *state->pool);
    if (state->channel == NULL || state->pool == NULL) {
        gal_comm_free(comm);
        return NULL;
    }
    return comm;
}

gal_code gal_comm_mpi_create(uint32_t rank_count, const gal_channel_spec *channels, uint32_t channel_count,
                             gal_comm **out, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t launched = gal_mpi_world_size();
    if (rank_count > launched) {
        return gal_fail(err, GAL_ERR_DEVICE, "%u ranks are needed, %u were started", rank_count, launched);
    }
    const uint32_t world_size = rank_count == 0 ? launched : rank_count;
    if (gal_mpi_rank() >= world_size) {
        *out = NULL;
        return GAL_OK;
    }
    gal_comm *comm = allocate_comm(channel_count);
    const gal_channel_spec **sorted = calloc((size_t)channel_count + 1, sizeof(const gal_channel_spec *));
    if (comm == NULL || sorted == NULL) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "out of memory: communicators");
        goto cleanup;
    }
    comm->rank = gal_mpi_rank();
    comm->world_size = world_size;
    gal_mpi_state *state = comm->state;
    for (uint32_t i = 0; i < channel_count; i++) {
        sorted[i] = &channels[i];
    }
    if (channel_count > 1) {
        qsort(sorted, channel_count, sizeof(const gal_channel_spec *), compare_entries);
    }
    const double begin_seconds = gal_now_seconds();
    GAL_TRY(make_world(world_size, &state->world, err));
    GAL_TRY(check_lists_agree(state, comm->rank, sorted, channel_count, err));
    GAL_TRY(make_pool(comm, sorted, channels, err));
    comm->communicator_count = state->pool_count + 1;
    comm->creation_seconds = gal_now_seconds() - begin_seconds;
    *out = comm;
    comm = NULL;
cleanup:
    free((void *)sorted);
    gal_comm_free(comm);
    return code;
}

void gal_mpi_release(gal_comm *comm)
{
    static gal_comm *kept; /* whose requests were left to themselves: MPI may still come to them */
    gal_mpi_state *state = comm->state;
    if (gal_mpi_has_abandoned()) {
        state->kept = kept;
        kept = comm;
        return;
    }
    for (uint32_t i = state->pool_count; i-- > 0;) {
        MPI_Comm_free(&state->pool[i]);
    }
    if (state->world != MPI_COMM_NULL) {
        MPI_Comm_free(&state->world);
    }
    free(state->pool);
    free(state->channel);
    free(state);
    free(comm);
}
