#include "runtime/staged.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/narrow.h"

typedef enum stage { STAGE_FREE, STAGE_LEAVING, STAGE_TRAVELLING } stage;

/* What a request reads and writes in device memory. On the host sums in place stay so: MPI may add in another order out
 * of place. */
typedef struct extent {
    const void *source; /* NULL: nothing */
    uint64_t source_elements;
    void *target; /* NULL: nothing */
    uint64_t target_elements;
    bool sums_in_place;
    uint64_t own_elements; /* then the result is so far behind the source's begin */
} extent;

/* The request of one stream. Its memory is used again as soon as its result is on the queue: what comes next on the
 * stream comes after that on the same queue. */
typedef struct slot {
    stage stage;
    gal_comm_request request;
    extent extent;
    uint32_t handle;        /* of inner */
    void *left;             /* an event: the copy to the host is done */
    char *pinned;           /* room_bytes for the source, then room_elements on as many for the target */
    float *wide;            /* as many elements, of 16-bit requests; NULL: there are none */
    uint64_t room_bytes;    /* of the largest request */
    uint64_t room_elements; /* in them, of the request's type */
} slot;

typedef struct state {
    gal_comm *inner;
    const gal_device_queue_ops *queue;
    const gal_channel_spec *channel;
    slot slot[GAL_STREAM_COUNT];
} state;

/* ---- extents ---- */

static bool is_narrow(gal_dtype dtype)
{
    return dtype == GAL_BF16 || dtype == GAL_FP16;
}

static uint32_t own_index(const gal_comm *comm, const gal_channel_spec *channel)
{
    uint32_t index = 0;
    while (channel->ranks[index] != comm->rank) {
        index++;
        GAL_ASSERT(index < channel->rank_count);
    }
    return index;
}

static extent extent_of(const gal_comm *comm, const gal_comm_request *request)
{
    const gal_channel_spec *channel = &((const state *)comm->state)->channel[request->channel];
    const uint64_t elements = request->elements, whole = elements * channel->rank_count;
    const uint64_t own = request->in_place ? own_index(comm, channel) * elements : 0;
    char *own_target = (char *)request->target + own * gal_dtype_bytes(request->dtype);
    switch (request->op) {
    case GAL_OP_ALL_REDUCE:
        return (extent){request->target, elements, request->target, elements, true, 0};
    case GAL_OP_ALL_GATHER:
        return (extent){request->in_place ? own_target : request->source, elements, request->target, whole, false, 0};
    case GAL_OP_REDUCE_SCATTER:
        return (extent){
            request->in_place ? request->target : request->source, whole, own_target, elements, request->in_place, own};
    case GAL_OP_ALL_TO_ALL:
        return (extent){request->source, whole, request->target, whole, false, 0};
    case GAL_OP_REDUCE:
        if (own_index(comm, channel) != request->peer) {
            return (extent){request->source, elements, NULL, 0, false, 0};
        }
        return (extent){request->source, elements, request->target, elements, false, 0};
    case GAL_OP_BROADCAST:
    case GAL_OP_ROTATE:
        return (extent){request->source, elements, request->target, elements, false, 0};
    case GAL_OP_MIRROR:
        return (extent){request->source, 2 * elements, request->target, 2 * elements, false, 0};
    case GAL_OP_SEND:
        return (extent){request->source, elements, NULL, 0, false, 0};
    default:
        GAL_ASSERT(request->op == GAL_OP_RECEIVE);
        return (extent){NULL, 0, request->target, elements, false, 0};
    }
}

/* ---- a request ---- */

/* The request on the host: its source at the begin of the memory, its target in the second half. */
static gal_comm_request on_host(const slot *at)
{
    const bool narrow = is_narrow(at->request.dtype);
    char *base = narrow ? (char *)at->wide : at->pinned;
    gal_comm_request request = at->request;
    request.dtype = narrow ? GAL_FP32 : request.dtype;
    request.in_place = at->extent.sums_in_place;
    request.queue = NULL;
    request.source = at->extent.source != NULL && !request.in_place ? base : NULL;
    request.target = request.in_place ? base : base + at->room_elements * gal_dtype_bytes(request.dtype);
    return request;
}

/* How far behind the begin the result of `elements` lies. */
static uint64_t result_at(const slot *at)
{
    return at->extent.sums_in_place ? at->extent.own_elements : at->room_elements;
}

static gal_code begin_travel(state *s, slot *at, gal_error *err)
{
    const gal_dtype dtype = at->request.dtype;
    for (uint64_t i = 0; is_narrow(dtype) && i < at->extent.source_elements; i++) {
        at->wide[i] = gal_widen(((const uint16_t *)(const void *)at->pinned)[i], dtype);
    }
    const gal_comm_request request = on_host(at);
    at->stage = STAGE_TRAVELLING;
    return s->inner->ops->start(s->inner, &request, &at->handle, err);
}

static gal_code end_travel(const state *s, slot *at, gal_error *err)
{
    const gal_dtype dtype = at->request.dtype;
    const uint64_t elements = at->extent.target_elements, first = result_at(at);
    uint16_t *narrow = (uint16_t *)(void *)at->pinned;
    at->stage = STAGE_FREE;
    if (at->extent.target == NULL) {
        return GAL_OK;
    }
    for (uint64_t i = first; is_narrow(dtype) && i < first + elements; i++) {
        narrow[i] = gal_narrow(at->wide[i], dtype);
    }
    return s->queue->copy(at->request.queue, at->extent.target, at->pinned + first * gal_dtype_bytes(dtype),
                          elements * gal_dtype_bytes(dtype), err);
}

/* A channel of transfers has the sender's stream. */
static uint32_t stream_of(const state *s, const gal_comm_request *request)
{
    const uint32_t stream = s->channel[request->channel].stream;
    if (request->op != GAL_OP_RECEIVE) {
        return stream;
    }
    return stream == GAL_STREAM_SEND_FORWARD ? GAL_STREAM_RECEIVE_FORWARD : GAL_STREAM_RECEIVE_BACKWARD;
}

static gal_code staged_start(gal_comm *comm, const gal_comm_request *request, uint32_t *handle, gal_error *err)
{
    gal_code code = GAL_OK;
    state *s = comm->state;
    const uint32_t stream = stream_of(s, request);
    slot *at = &s->slot[stream];
    GAL_ASSERT(at->stage == STAGE_FREE && request->queue != NULL);
    at->request = *request;
    at->extent = extent_of(comm, request);
    at->room_elements = at->room_bytes / gal_dtype_bytes(request->dtype);
    GAL_ASSERT(at->extent.source_elements <= at->room_elements && at->extent.target_elements <= at->room_elements);
    const uint64_t bytes = at->extent.source_elements * gal_dtype_bytes(request->dtype);
    if (bytes > 0) {
        GAL_TRY(s->queue->copy(request->queue, at->pinned, at->extent.source, bytes, err));
    }
    /* Also of a receive: what is to be overwritten must have been read. */
    GAL_TRY(s->queue->record(request->queue, at->left, err));
    at->stage = STAGE_LEAVING;
    *handle = stream;
cleanup:
    return code;
}

static gal_code staged_test(gal_comm *comm, uint32_t handle, bool *done, gal_error *err)
{
    gal_code code = GAL_OK;
    state *s = comm->state;
    slot *at = &s->slot[handle];
    bool ready = false;
    *done = false;
    if (at->stage == STAGE_LEAVING) {
        GAL_TRY(s->queue->reached(at->left, &ready, err));
        if (ready) {
            GAL_TRY(begin_travel(s, at, err));
        }
        return GAL_OK;
    }
    GAL_TRY(s->inner->ops->test(s->inner, at->handle, &ready, err));
    if (ready) {
        GAL_TRY(end_travel(s, at, err));
        *done = true;
    }
cleanup:
    return code;
}

/* ---- the table ---- */

static void staged_abort(gal_comm *comm, gal_code code)
{
    gal_comm *inner = ((state *)comm->state)->inner;
    inner->ops->abort(inner, code);
}

static bool staged_called(gal_comm *comm)
{
    gal_comm *inner = ((state *)comm->state)->inner;
    return inner->ops->roll_call != NULL && inner->ops->called(inner);
}

static void staged_roll_call(gal_comm *comm, const gal_comm_wait *waits, uint32_t wait_count, double deadline_seconds)
{
    gal_comm *inner = ((state *)comm->state)->inner;
    if (inner->ops->roll_call != NULL) {
        inner->ops->roll_call(inner, waits, wait_count, deadline_seconds);
    }
}

static void staged_release(gal_comm *comm)
{
    state *s = comm->state;
    for (uint32_t i = 0; i < GAL_STREAM_COUNT; i++) {
        slot *at = &s->slot[i];
        if (at->left != NULL) {
            s->queue->event_destroy(at->left);
        }
        if (at->pinned != NULL) {
            s->queue->host_release(at->pinned);
        }
        free(at->wide);
    }
    gal_comm_free(s->inner);
    free(s);
    free(comm);
}

static const gal_comm_ops staged_ops = {
    .name = "mpi",
    .release = staged_release,
    .start = staged_start,
    .test = staged_test,
    .abort = staged_abort,
    .called = staged_called,
    .roll_call = staged_roll_call,
};

/* ---- what is made once ---- */

static gal_code create_slots(const gal_staged_options *options, state *s, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_program *program = options->program;
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        const gal_instruction *instruction = &program->instruction[i];
        uint64_t *room_bytes = &s->slot[instruction->stream].room_bytes;
        if (gal_op_is_collective[instruction->op] && instruction->bytes > *room_bytes) {
            *room_bytes = gal_align(instruction->bytes);
        }
    }
    for (uint32_t i = 0; i < GAL_STREAM_COUNT; i++) {
        slot *at = &s->slot[i];
        void *pinned = NULL;
        if (at->room_bytes == 0) {
            continue;
        }
        GAL_TRY(s->queue->event_create(false, &at->left, err));
        GAL_TRY(s->queue->host_allocate(2 * at->room_bytes, &pinned, err));
        at->pinned = pinned;
        at->wide =
            is_narrow(program->dtype) ? malloc(2 * (at->room_bytes / sizeof(uint16_t)) * sizeof *at->wide) : NULL;
        if (is_narrow(program->dtype) && at->wide == NULL) {
            code = gal_fail(err, GAL_ERR_SYSTEM, "out of memory: staging of communication");
            goto cleanup;
        }
    }
cleanup:
    return code;
}

gal_code gal_comm_staged_create(gal_comm *inner, const gal_staged_options *options, gal_comm **out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_comm *comm = calloc(1, sizeof *comm);
    state *s = calloc(1, sizeof *s);
    if (comm == NULL || s == NULL) {
        gal_comm_free(inner);
        free(comm);
        free(s);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: staging of communication");
    }
    *s = (state){.inner = inner, .queue = options->queue, .channel = options->channel};
    *comm = *inner;
    comm->ops = &staged_ops;
    comm->state = s;
    GAL_TRY(create_slots(options, s, err));
    *out = comm;
    comm = NULL;
cleanup:
    gal_comm_free(comm);
    return code;
}
