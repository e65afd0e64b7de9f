#include "runtime/comm/slow_link.h"

#include <stdlib.h>

#include "schemas/base/clock.h"

enum { SLOTS = 128 }; /* requests in flight: half of what MPI's table has, as each is two there */

typedef struct slow_slot {
    bool in_use, arrived, met;
    uint32_t data, meeting; /* handles of the communicator inside */
    double start_seconds;   /* when this rank started it; then when the last member did */
    double link_seconds;    /* that the link takes */
    double due_seconds;     /* valid once it has arrived and the members have met */
} slow_slot;

typedef struct slow_state {
    gal_comm *inner;
    double bytes_per_second, free_seconds;
    uint32_t *rank_count; /* [channel] */
    slow_slot slot[SLOTS];
} slow_state;

static void slow_release(gal_comm *comm)
{
    slow_state *state = comm->state;
    gal_comm_free(state->inner);
    free(state->rank_count);
    free(state);
    free(comm);
}

static double sent_bytes(const gal_comm_request *request, uint32_t rank_count)
{
    const double n = rank_count, bytes = (double)request->elements * (double)gal_dtype_bytes(request->dtype);
    switch (request->op) {
    case GAL_OP_ALL_REDUCE:
        return 2.0 * (n - 1.0) / n * bytes;
    case GAL_OP_ALL_GATHER:
    case GAL_OP_REDUCE_SCATTER:
    case GAL_OP_ALL_TO_ALL:
        return (n - 1.0) * bytes;
    default:
        return bytes;
    }
}

static gal_code slow_start(gal_comm *comm, const gal_comm_request *request, uint32_t *handle, gal_error *err)
{
    gal_code code = GAL_OK;
    slow_state *state = comm->state;
    gal_comm *inner = state->inner;
    uint32_t index = 0;
    while (index < SLOTS && state->slot[index].in_use) {
        index++;
    }
    if (index == SLOTS) {
        return gal_fail(err, GAL_ERR_DEVICE, "%s: all %d request slots are in use", gal_op_names[request->op], SLOTS);
    }
    slow_slot *slot = &state->slot[index];
    const uint32_t rank_count = state->rank_count[request->channel];
    *slot = (slow_slot){.start_seconds = gal_now_seconds(), .met = rank_count == 1};
    slot->link_seconds = sent_bytes(request, rank_count) / state->bytes_per_second;
    GAL_TRY(inner->ops->start(inner, request, &slot->data, err));
    if (!slot->met) {
        const gal_comm_request meeting = {.op = GAL_OP_ALL_REDUCE,
                                          .channel = request->channel,
                                          .dtype = GAL_FP64,
                                          .reduce = GAL_REDUCE_MAX,
                                          .elements = 1,
                                          .target = &slot->start_seconds};
        GAL_TRY(inner->ops->start(inner, &meeting, &slot->meeting, err));
    }
    slot->in_use = true;
    *handle = index;
cleanup:
    return code;
}

/* When all is known the link is taken, in the order in which it became known. */
static gal_code slow_test(gal_comm *comm, uint32_t handle, bool *done, gal_error *err)
{
    gal_code code = GAL_OK;
    slow_state *state = comm->state;
    gal_comm *inner = state->inner;
    slow_slot *slot = &state->slot[handle];
    GAL_ASSERT(handle < SLOTS && slot->in_use);
    const bool known = slot->arrived && slot->met;
    if (!slot->arrived) {
        GAL_TRY(inner->ops->test(inner, slot->data, &slot->arrived, err));
    }
    if (!slot->met) {
        GAL_TRY(inner->ops->test(inner, slot->meeting, &slot->met, err));
    }
    if (!known && slot->arrived && slot->met) {
        const double begin_seconds =
            slot->start_seconds > state->free_seconds ? slot->start_seconds : state->free_seconds;
        slot->due_seconds = begin_seconds + slot->link_seconds;
        state->free_seconds = slot->due_seconds;
    }
    *done = slot->arrived && slot->met && gal_now_seconds() >= slot->due_seconds;
    slot->in_use = !*done;
cleanup:
    return code;
}

static double slow_due(gal_comm *comm)
{
    const slow_state *state = comm->state;
    double first_seconds = 0.0;
    for (uint32_t i = 0; i < SLOTS; i++) {
        const slow_slot *slot = &state->slot[i];
        if (slot->in_use && !(slot->arrived && slot->met)) {
            return 0.0;
        }
        if (slot->in_use && (first_seconds <= 0.0 || slot->due_seconds < first_seconds)) {
            first_seconds = slot->due_seconds;
        }
    }
    return first_seconds;
}

static void slow_abort(gal_comm *comm, gal_code code)
{
    gal_comm *inner = ((slow_state *)comm->state)->inner;
    inner->ops->abort(inner, code);
}

static bool slow_called(gal_comm *comm)
{
    gal_comm *inner = ((slow_state *)comm->state)->inner;
    return inner->ops->called(inner);
}

static void slow_roll_call(gal_comm *comm, const gal_comm_wait *waits, uint32_t wait_count, double deadline_seconds)
{
    gal_comm *inner = ((slow_state *)comm->state)->inner;
    inner->ops->roll_call(inner, waits, wait_count, deadline_seconds);
}

static void slow_blame(gal_comm *comm, const gal_error *err)
{
    gal_comm *inner = ((slow_state *)comm->state)->inner;
    inner->ops->blame(inner, err);
}

static const gal_comm_ops slow_ops = {.name = "slow",
                                      .release = slow_release,
                                      .start = slow_start,
                                      .test = slow_test,
                                      .due = slow_due,
                                      .abort = slow_abort,
                                      .called = slow_called,
                                      .roll_call = slow_roll_call,
                                      .blame = slow_blame};

gal_code gal_comm_slow_create(gal_comm *inner, double bytes_per_second, const gal_channel_spec *channels,
                              uint32_t channel_count, gal_comm **out, gal_error *err)
{
    gal_comm *comm = malloc(sizeof *comm);
    slow_state *state = calloc(1, sizeof *state);
    uint32_t *rank_count = calloc((size_t)channel_count + 1, sizeof *rank_count);
    GAL_ASSERT(inner->ops->roll_call != NULL && !inner->ops->queued && bytes_per_second > 0.0);
    if (comm == NULL || state == NULL || rank_count == NULL) {
        free(comm);
        free(state);
        free(rank_count);
        gal_comm_free(inner);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: slow link");
    }
    *comm = *inner; /* rank and world, how many communicators and how long they took */
    comm->ops = &slow_ops;
    comm->state = state;
    state->inner = inner;
    state->bytes_per_second = bytes_per_second;
    state->rank_count = rank_count;
    for (uint32_t i = 0; i < channel_count; i++) {
        rank_count[i] = channels[i].rank_count;
    }
    *out = comm;
    return GAL_OK;
}
