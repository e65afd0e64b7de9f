/* Requests on NCCL's calls. In place means the same here: a rank's part at its index of the whole. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/comm/nccl_internal.h"

gal_code gal_nccl_check(ncclResult_t result, ncclComm_t comm, const char *what, gal_error *err)
{
    if (result == ncclSuccess) {
        return GAL_OK;
    }
    const char *last = ncclGetLastError(comm);
    const bool has_last = last != NULL && last[0] != '\0';
    return gal_fail(err, GAL_ERR_DEVICE, "%s: NCCL: %s%s%s%s", what, ncclGetErrorString(result), has_last ? " (" : "",
                    has_last ? last : "", has_last ? ")" : "");
}

gal_code gal_nccl_settle(gal_nccl_state *state, const gal_nccl_group *group, ncclResult_t result, const char *what,
                         gal_error *err)
{
    gal_code code = GAL_OK;
    if (result == ncclSuccess) {
        return GAL_OK;
    }
    char text[2 * GAL_NCCL_PLACE_BYTES];
    (void)snprintf(text, sizeof text, "%s on %s", what, group->place);
    gal_comm_patience patience = gal_comm_patience_begin(state->options.deadline_seconds);
    while (result == ncclInProgress) {
        ncclResult_t called = ncclCommGetAsyncError(group->comm, &result);
        GAL_NCCL_TRY(called, group->comm, text);
        if (result == ncclInProgress) {
            GAL_TRY(gal_comm_idle(state->control, &patience, &(gal_comm_wait){.text = text}, err));
            gal_comm_give_way(NULL, patience.begin_seconds);
        }
    }
    GAL_NCCL_TRY(result, group->comm, text);
cleanup:
    return code;
}

bool gal_nccl_goes_on(ncclResult_t result)
{
    return result == ncclSuccess || result == ncclInProgress;
}

ncclResult_t gal_nccl_group_end(ncclResult_t result)
{
    const ncclResult_t end = ncclGroupEnd();
    return gal_nccl_goes_on(result) ? end : result;
}

static ncclDataType_t type_of(gal_dtype dtype)
{
    switch (dtype) {
    case GAL_FP32:
        return ncclFloat32;
    case GAL_FP64:
        return ncclFloat64;
    case GAL_I32:
        return ncclInt32;
    case GAL_BF16:
        return ncclBfloat16;
    case GAL_FP16:
        return ncclFloat16;
    case GAL_DTYPE_COUNT:
        break;
    }
    GAL_ASSERT(dtype < GAL_DTYPE_COUNT);
    return ncclNumTypes;
}

/* ncclAlltoAll is of 2.28; older libraries have the same as a group. */
static ncclResult_t put_all_to_all(const gal_nccl_group *group, const gal_comm_request *request)
{
    const size_t part_bytes = request->elements * gal_dtype_bytes(request->dtype);
    const ncclDataType_t type = type_of(request->dtype);
    ncclResult_t result = ncclGroupStart();
    for (uint32_t peer = 0; peer < group->rank_count && gal_nccl_goes_on(result); peer++) {
        result = ncclSend((const char *)request->source + peer * part_bytes, request->elements, type, (int)peer,
                          group->comm, request->queue);
        if (gal_nccl_goes_on(result)) {
            result = ncclRecv((char *)request->target + peer * part_bytes, request->elements, type, (int)peer,
                              group->comm, request->queue);
        }
    }
    return gal_nccl_group_end(result);
}

static ncclResult_t put_rotate(const gal_nccl_group *group, const gal_comm_request *request)
{
    const ncclDataType_t type = type_of(request->dtype);
    const uint32_t count = group->rank_count;
    ncclResult_t result = ncclGroupStart();
    if (gal_nccl_goes_on(result)) {
        result = ncclSend(request->source, request->elements, type, (int)((group->index + 1) % count), group->comm,
                          request->queue);
    }
    if (gal_nccl_goes_on(result)) {
        result = ncclRecv(request->target, request->elements, type, (int)((group->index + count - 1) % count),
                          group->comm, request->queue);
    }
    return gal_nccl_group_end(result);
}

/* The first half from this member itself, the second from the mirror. */
static ncclResult_t put_mirror(const gal_nccl_group *group, const gal_comm_request *request)
{
    const uint64_t half_bytes = request->elements * gal_dtype_bytes(request->dtype);
    const uint32_t from[2] = {group->index, group->rank_count - 1 - group->index};
    ncclResult_t result = ncclGroupStart();
    for (uint32_t half = 0; half < 2; half++) {
        const char *source = (const char *)request->source + half * half_bytes;
        char *target = (char *)request->target + half * half_bytes;
        if (gal_nccl_goes_on(result)) {
            result = ncclSend(source, request->elements, type_of(request->dtype), (int)from[half], group->comm,
                              request->queue);
        }
        if (gal_nccl_goes_on(result)) {
            result = ncclRecv(target, request->elements, type_of(request->dtype), (int)from[half], group->comm,
                              request->queue);
        }
    }
    return gal_nccl_group_end(result);
}

ncclResult_t gal_nccl_put(const gal_nccl_group *group, const gal_comm_request *request)
{
    const ncclDataType_t type = type_of(request->dtype);
    const ncclRedOp_t op = request->reduce == GAL_REDUCE_MAX ? ncclMax : ncclSum;
    char *own = request->target;
    if (request->in_place) {
        own += group->index * request->elements * gal_dtype_bytes(request->dtype);
    }
    switch (request->op) {
    case GAL_OP_ALL_REDUCE:
        return ncclAllReduce(request->target, request->target, request->elements, type, op, group->comm,
                             request->queue);
    case GAL_OP_ALL_GATHER:
        return ncclAllGather(request->in_place ? own : request->source, request->target, request->elements, type,
                             group->comm, request->queue);
    case GAL_OP_REDUCE_SCATTER:
        return ncclReduceScatter(request->in_place ? request->target : request->source, own, request->elements, type,
                                 op, group->comm, request->queue);
    case GAL_OP_BROADCAST:
        return ncclBroadcast(request->source, request->target, request->elements, type, (int)request->peer, group->comm,
                             request->queue);
    case GAL_OP_REDUCE:
        return ncclReduce(request->source, request->target, request->elements, type, op, (int)request->peer,
                          group->comm, request->queue);
    case GAL_OP_ALL_TO_ALL:
        return put_all_to_all(group, request);
    case GAL_OP_ROTATE:
        return put_rotate(group, request);
    case GAL_OP_MIRROR:
        return put_mirror(group, request);
    case GAL_OP_SEND:
        return ncclSend(request->source, request->elements, type, (int)request->peer, group->comm, request->queue);
    case GAL_OP_RECEIVE:
        return ncclRecv(request->target, request->elements, type, (int)request->peer, group->comm, request->queue);
    default:
        return ncclInvalidArgument;
    }
}

static gal_code nccl_start(gal_comm *comm, const gal_comm_request *request, uint32_t *handle, gal_error *err)
{
    gal_nccl_state *state = comm->state;
    GAL_ASSERT(request->channel < state->splits.channel_count);
    gal_nccl_group *group = &state->group[1 + state->splits.round_of[request->channel]];
    const bool transfer = request->op == GAL_OP_SEND || request->op == GAL_OP_RECEIVE;
    GAL_ASSERT(!transfer || (request->peer < group->rank_count && request->peer != group->index));
    *handle = 0;
    if (request->elements == 0) {
        return GAL_OK;
    }
    gal_nccl_note(state, group, request);
    return gal_nccl_settle(state, group, gal_nccl_put(group, request), gal_op_names[request->op], err);
}

static void nccl_abort(gal_comm *comm, gal_code code)
{
    gal_nccl_state *state = comm->state;
    gal_nccl_abort_all(state);
    state->control->ops->abort(state->control, code);
    _Exit((int)code);
}

static bool nccl_called(gal_comm *comm)
{
    const gal_nccl_state *state = comm->state;
    return state->control->ops->called != NULL && state->control->ops->called(state->control);
}

static void nccl_roll_call(gal_comm *comm, const gal_comm_wait *waits, uint32_t wait_count, double deadline_seconds)
{
    const gal_nccl_state *state = comm->state;
    if (state->control->ops->roll_call != NULL) {
        state->control->ops->roll_call(state->control, waits, wait_count, deadline_seconds);
    }
}

static void nccl_blame(gal_comm *comm, const gal_error *err)
{
    const gal_nccl_state *state = comm->state;
    if (state->control->ops->blame != NULL) {
        state->control->ops->blame(state->control, err);
    }
}

void gal_nccl_version(char *text, size_t capacity)
{
    int version = 0;
    (void)ncclGetVersion(&version);
    (void)snprintf(text, capacity, "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

const gal_comm_ops gal_nccl_ops = {.name = "nccl",
                                   .queued = true,
                                   .release = gal_nccl_release,
                                   .start = nccl_start,
                                   .abort = nccl_abort,
                                   .called = nccl_called,
                                   .roll_call = nccl_roll_call,
                                   .blame = nccl_blame,
                                   .watch = gal_nccl_watch};
