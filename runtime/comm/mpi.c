/* Requests on MPI's non-blocking collectives.
 *
 * Same bits: Open MPI's non-blocking collectives (coll/libnbc) are schedules of rounds with fixed partners and fixed
 * operand order, fixed by rank, size, count and in-place alone, not by arrival. An in-place all-reduce is a binomial
 * reduction to member 0 and a broadcast, so all members hold its bits; a reduce-scatter is a binomial reduction and a
 * scatter. (Source: Open MPI 4.1, ompi/mca/coll/libnbc/nbc_iallreduce.c, nbc_ireduce_scatter_block.c.) Nothing needs
 * to be set for this; tests/numerics/comm_world.c compares bits over repeated calls under skewed arrival.
 *
 * In place (MPI_IN_PLACE; counted by tests/numerics/collectives.c):
 *   all-reduce      always
 *   all-gather      updated weights of ZeRO-1 and 2. Not: weights of ZeRO-3, whose shard stays while the whole
 *                   lies in a ring; rows under sequence parallelism and in conversions, whose chunk is read again.
 *                   There a rank's own part must be copied, whoever does it
 *   reduce-scatter  gradients of ZeRO-1. Not: buckets of ZeRO-2 and 3, whose sum goes to a buffer of a shard's
 *                   bytes so that the bucket is free for the next gradients; rows under sequence parallelism,
 *                   whose sum outlives the whole. In place MPI leaves the sum in front, from where it is moved:
 *                   no copy would be saved
 *   all-to-all      never: between layouts, which are other buffers
 *
 * Large requests: a call beyond part_elements is split into several. Parts of an all-gather or a reduce-scatter are
 * not contiguous over the members, so there each member's share goes by itself: broadcast from its owner, reduced to
 * its owner; an all-to-all becomes its sends and receives. All parts are started at once: later requests of the
 * channel then follow them in the same order on all members. */
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/mpi_internal.h"

enum { TAG_TRANSFER = 0, TAG_EXCHANGE = 1 };

typedef struct call {
    const gal_comm_request *request;
    const gal_mpi_channel *channel;
    gal_mpi_slot *slot;
    MPI_Datatype type;
    MPI_Op op;
    size_t element_bytes;
    uint64_t part_elements;
} call;

static MPI_Datatype mpi_type(gal_dtype dtype)
{
    switch (dtype) {
    case GAL_FP32:
        return MPI_FLOAT;
    case GAL_FP64:
        return MPI_DOUBLE;
    case GAL_I32:
        return MPI_INT32_T;
    default:
        GAL_ASSERT(dtype < GAL_DTYPE_COUNT);
        return MPI_DATATYPE_NULL;
    }
}

static char *target_at(const call *c, uint64_t element)
{
    return (char *)c->request->target + element * c->element_bytes;
}

static const char *source_at(const call *c, uint64_t element)
{
    return (const char *)c->request->source + element * c->element_bytes;
}

/* The count of the part that begins at `first` of a share. */
static int part_count(const call *c, uint64_t first)
{
    const uint64_t rest = c->request->elements - first;
    return (int)(rest < c->part_elements ? rest : c->part_elements);
}

/* The next MPI request of the slot; start() has made sure that there are enough. */
static MPI_Request *next_part(const call *c)
{
    GAL_ASSERT(c->slot->part_count < GAL_MPI_PARTS);
    MPI_Request *part = &c->slot->part[c->slot->part_count++];
    *part = MPI_REQUEST_NULL;
    return part;
}

/* True for the operations whose buffers hold one share per member. */
static bool is_shared_out(gal_op op)
{
    return op == GAL_OP_ALL_GATHER || op == GAL_OP_REDUCE_SCATTER || op == GAL_OP_ALL_TO_ALL;
}

static bool fits_one_call(const call *c)
{
    const uint64_t shares = is_shared_out(c->request->op) ? c->channel->rank_count : 1;
    return c->request->elements <= c->part_elements / shares;
}

/* MPI requests that the call is split into. */
static uint64_t parts_needed(const call *c)
{
    if (fits_one_call(c)) {
        return c->request->op == GAL_OP_ROTATE || c->request->op == GAL_OP_MIRROR ? 2 : 1;
    }
    const uint64_t parts = (c->request->elements - 1) / c->part_elements + 1;
    switch (c->request->op) {
    case GAL_OP_ALL_GATHER:
    case GAL_OP_REDUCE_SCATTER:
        return parts * c->channel->rank_count;
    case GAL_OP_ALL_TO_ALL:
        return parts * 2 * (c->channel->rank_count - 1);
    case GAL_OP_ROTATE:
    case GAL_OP_MIRROR:
        return parts * 2;
    default:
        return parts;
    }
}

static int start_all_reduce(const call *c)
{
    int result = MPI_SUCCESS;
    for (uint64_t first = 0; result == MPI_SUCCESS && first < c->request->elements; first += c->part_elements) {
        result = MPI_Iallreduce(MPI_IN_PLACE, target_at(c, first), part_count(c, first), c->type, c->op,
                                c->channel->comm, next_part(c));
    }
    return result;
}

static int start_all_gather(const call *c)
{
    const uint64_t elements = c->request->elements;
    if (fits_one_call(c)) {
        const void *source = c->request->in_place ? MPI_IN_PLACE : c->request->source;
        return MPI_Iallgather(source, (int)elements, c->type, c->request->target, (int)elements, c->type,
                              c->channel->comm, next_part(c));
    }
    if (!c->request->in_place) {
        memcpy(target_at(c, c->channel->index * elements), c->request->source, elements * c->element_bytes);
    }
    int result = MPI_SUCCESS;
    for (uint64_t first = 0; first < elements; first += c->part_elements) {
        for (uint32_t owner = 0; result == MPI_SUCCESS && owner < c->channel->rank_count; owner++) {
            result = MPI_Ibcast(target_at(c, owner * elements + first), part_count(c, first), c->type, (int)owner,
                                c->channel->comm, next_part(c));
        }
    }
    return result;
}

/* In place MPI leaves the result at the start of the buffer, we want it at this rank's index: the other shares are
 * scratch by then, so completion moves it. */
static int start_reduce_scatter_whole(const call *c)
{
    const int count = (int)c->request->elements;
    if (!c->request->in_place) {
        return MPI_Ireduce_scatter_block(c->request->source, c->request->target, count, c->type, c->op,
                                         c->channel->comm, next_part(c));
    }
    if (c->channel->index > 0) {
        c->slot->move_target = target_at(c, c->channel->index * c->request->elements);
        c->slot->move_source = c->request->target;
        c->slot->move_bytes = c->request->elements * c->element_bytes;
    }
    return MPI_Ireduce_scatter_block(MPI_IN_PLACE, c->request->target, count, c->type, c->op, c->channel->comm,
                                     next_part(c));
}

static int start_reduce_scatter(const call *c)
{
    if (fits_one_call(c)) {
        return start_reduce_scatter_whole(c);
    }
    const uint64_t elements = c->request->elements;
    const bool in_place = c->request->in_place;
    int result = MPI_SUCCESS;
    for (uint64_t first = 0; first < elements; first += c->part_elements) {
        for (uint32_t owner = 0; result == MPI_SUCCESS && owner < c->channel->rank_count; owner++) {
            const uint64_t at = owner * elements + first;
            const bool mine = owner == c->channel->index;
            const void *source = in_place ? target_at(c, at) : source_at(c, at);
            void *target = mine ? target_at(c, in_place ? at : first) : NULL;
            result = MPI_Ireduce(mine && in_place ? MPI_IN_PLACE : source, target, part_count(c, first), c->type, c->op,
                                 (int)owner, c->channel->comm, next_part(c));
        }
    }
    return result;
}

static int start_all_to_all(const call *c)
{
    const uint64_t elements = c->request->elements;
    if (fits_one_call(c)) {
        return MPI_Ialltoall(c->request->source, (int)elements, c->type, c->request->target, (int)elements, c->type,
                             c->channel->comm, next_part(c));
    }
    const uint64_t mine = c->channel->index * elements;
    memcpy(target_at(c, mine), source_at(c, mine), elements * c->element_bytes);
    int result = MPI_SUCCESS;
    for (uint64_t first = 0; first < elements; first += c->part_elements) {
        for (uint32_t peer = 0; peer < c->channel->rank_count; peer++) {
            if (peer == c->channel->index || result != MPI_SUCCESS) {
                continue;
            }
            const uint64_t at = peer * elements + first;
            result = MPI_Irecv(target_at(c, at), part_count(c, first), c->type, (int)peer, TAG_EXCHANGE,
                               c->channel->comm, next_part(c));
            if (result == MPI_SUCCESS) {
                result = MPI_Isend(source_at(c, at), part_count(c, first), c->type, (int)peer, TAG_EXCHANGE,
                                   c->channel->comm, next_part(c));
            }
        }
    }
    return result;
}

static int start_broadcast(const call *c)
{
    const uint32_t root = c->request->peer;
    int result = MPI_SUCCESS;
    if (root == c->channel->index) {
        memcpy(c->request->target, c->request->source, c->request->elements * c->element_bytes);
    }
    for (uint64_t first = 0; result == MPI_SUCCESS && first < c->request->elements; first += c->part_elements) {
        result =
            MPI_Ibcast(target_at(c, first), part_count(c, first), c->type, (int)root, c->channel->comm, next_part(c));
    }
    return result;
}

/* The target of others than the root is not touched. */
static int start_reduce(const call *c)
{
    const uint32_t root = c->request->peer;
    int result = MPI_SUCCESS;
    for (uint64_t first = 0; result == MPI_SUCCESS && first < c->request->elements; first += c->part_elements) {
        result = MPI_Ireduce(source_at(c, first), root == c->channel->index ? target_at(c, first) : NULL,
                             part_count(c, first), c->type, c->op, (int)root, c->channel->comm, next_part(c));
    }
    return result;
}

/* The elements from `begin` on to one member, and as many from one. */
static int start_pass(const call *c, uint64_t begin, uint32_t to, uint32_t from)
{
    int result = MPI_SUCCESS;
    for (uint64_t first = 0; result == MPI_SUCCESS && first < c->request->elements; first += c->part_elements) {
        result = MPI_Irecv(target_at(c, begin + first), part_count(c, first), c->type, (int)from, TAG_EXCHANGE,
                           c->channel->comm, next_part(c));
        if (result == MPI_SUCCESS) {
            result = MPI_Isend(source_at(c, begin + first), part_count(c, first), c->type, (int)to, TAG_EXCHANGE,
                               c->channel->comm, next_part(c));
        }
    }
    return result;
}

/* To the next member, from the one before. */
static int start_rotate(const call *c)
{
    const uint32_t count = c->channel->rank_count, index = c->channel->index;
    return start_pass(c, 0, (index + 1) % count, (index + count - 1) % count);
}

/* The one in the middle of an odd number is its own mirror. */
static int start_mirror(const call *c)
{
    const uint64_t elements = c->request->elements;
    const uint32_t mirror = c->channel->rank_count - 1 - c->channel->index;
    const bool alone = mirror == c->channel->index;
    memcpy(c->request->target, c->request->source, (alone ? 2 : 1) * elements * c->element_bytes);
    return alone ? MPI_SUCCESS : start_pass(c, elements, mirror, mirror);
}

static int start_transfer(const call *c)
{
    const gal_comm_request *request = c->request;
    GAL_ASSERT(request->peer < c->channel->rank_count && request->peer != c->channel->index);
    int result = MPI_SUCCESS;
    for (uint64_t first = 0; result == MPI_SUCCESS && first < request->elements; first += c->part_elements) {
        if (request->op == GAL_OP_SEND) {
            result = MPI_Isend(source_at(c, first), part_count(c, first), c->type, (int)request->peer, TAG_TRANSFER,
                               c->channel->comm, next_part(c));
        } else {
            result = MPI_Irecv(target_at(c, first), part_count(c, first), c->type, (int)request->peer, TAG_TRANSFER,
                               c->channel->comm, next_part(c));
        }
    }
    return result;
}

static int start_calls(const call *c)
{
    switch (c->request->op) {
    case GAL_OP_ALL_REDUCE:
        return start_all_reduce(c);
    case GAL_OP_ALL_GATHER:
        return start_all_gather(c);
    case GAL_OP_REDUCE_SCATTER:
        return start_reduce_scatter(c);
    case GAL_OP_ALL_TO_ALL:
        return start_all_to_all(c);
    case GAL_OP_BROADCAST:
        return start_broadcast(c);
    case GAL_OP_REDUCE:
        return start_reduce(c);
    case GAL_OP_ROTATE:
        return start_rotate(c);
    case GAL_OP_MIRROR:
        return start_mirror(c);
    case GAL_OP_SEND:
    case GAL_OP_RECEIVE:
        return start_transfer(c);
    default:
        return MPI_ERR_UNSUPPORTED_OPERATION;
    }
}

/* A group of one: the result is the input. */
static void copy_alone(const call *c)
{
    const gal_comm_request *request = c->request;
    GAL_ASSERT(request->op != GAL_OP_SEND && request->op != GAL_OP_RECEIVE);
    const bool in_place = request->op == GAL_OP_ALL_REDUCE || (request->op != GAL_OP_ALL_TO_ALL && request->in_place);
    if (!in_place && request->elements > 0) {
        const uint64_t halves = request->op == GAL_OP_MIRROR ? 2 : 1;
        memcpy(request->target, request->source, halves * request->elements * c->element_bytes);
    }
}

static gal_code start_on(const call *c, gal_error *err)
{
    const gal_comm_request *request = c->request;
    if (c->channel->rank_count == 1) {
        copy_alone(c);
        return GAL_OK;
    }
    if (request->elements == 0) {
        return GAL_OK;
    }
    const char *name = gal_op_names[request->op];
    if (parts_needed(c) > GAL_MPI_PARTS) {
        return gal_fail(err, GAL_ERR_DEVICE, "%s of %llu elements over %u ranks: %llu parts, at most %d", name,
                        (unsigned long long)request->elements, c->channel->rank_count,
                        (unsigned long long)parts_needed(c), GAL_MPI_PARTS);
    }
    return gal_mpi_check(start_calls(c), name, err);
}

static gal_code mpi_start(gal_comm *comm, const gal_comm_request *request, uint32_t *handle, gal_error *err)
{
    gal_mpi_state *state = comm->state;
    GAL_ASSERT(request->channel < state->channel_count);
    if (state->free_count == 0) {
        return gal_fail(err, GAL_ERR_DEVICE, "%s: all %d request slots are in use", gal_op_names[request->op],
                        GAL_MPI_SLOTS);
    }
    const uint32_t index = state->free_slot[state->free_count - 1];
    gal_mpi_slot *slot = &state->slot[index];
    slot->part_count = 0;
    slot->move_bytes = 0;
    const call c = {
        .request = request,
        .channel = &state->channel[request->channel],
        .slot = slot,
        .type = mpi_type(request->dtype),
        .op = request->reduce == GAL_REDUCE_MAX ? MPI_MAX : MPI_SUM,
        .element_bytes = gal_dtype_bytes(request->dtype),
        .part_elements = state->part_elements,
    };
    const gal_code code = start_on(&c, err);
    if (code == GAL_OK) {
        slot->in_use = true;
        state->free_count--;
        *handle = index;
    }
    return code;
}

static gal_code mpi_test(gal_comm *comm, uint32_t handle, bool *done, gal_error *err)
{
    gal_mpi_state *state = comm->state;
    GAL_ASSERT(handle < GAL_MPI_SLOTS && state->slot[handle].in_use);
    gal_mpi_slot *slot = &state->slot[handle];
    int complete = 1;
    if (slot->part_count > 0) {
        gal_comm_look(true);
        const int result = MPI_Testall(slot->part_count, slot->part, &complete, MPI_STATUSES_IGNORE);
        gal_comm_look(false);
        const gal_code code = gal_mpi_check(result, "test of a request", err);
        if (code != GAL_OK) {
            return code;
        }
    }
    if (complete) {
        if (slot->move_bytes > 0) {
            memmove(slot->move_target, slot->move_source, slot->move_bytes);
        }
        slot->in_use = false;
        state->free_slot[state->free_count++] = handle;
    }
    *done = complete != 0;
    return GAL_OK;
}

static void mpi_abort(gal_comm *comm, gal_code code)
{
    (void)comm;
    MPI_Abort(MPI_COMM_WORLD, (int)code);
    _Exit((int)code);
}

static bool mpi_called(gal_comm *comm)
{
    (void)comm;
    return gal_mpi_roll_called();
}

static void mpi_roll_call(gal_comm *comm, const gal_comm_wait *waits, uint32_t wait_count, double deadline_seconds)
{
    (void)comm;
    gal_mpi_roll_call(waits, wait_count, deadline_seconds);
}

static void mpi_blame(gal_comm *comm, const gal_error *err)
{
    (void)comm;
    gal_mpi_roll_call_blame(err);
}

const gal_comm_ops gal_mpi_ops = {.name = "mpi",
                                  .control = &gal_mpi_control,
                                  .release = gal_mpi_release,
                                  .start = mpi_start,
                                  .test = mpi_test,
                                  .abort = mpi_abort,
                                  .called = mpi_called,
                                  .roll_call = mpi_roll_call,
                                  .blame = mpi_blame};
