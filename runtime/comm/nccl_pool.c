/* Making and freeing the communicators. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/nccl_internal.h"
#include "runtime/program/program.h"
#include "schemas/base/clock.h"

enum { SCRATCH_BYTES = 256 };
static const double failed_seconds = 5.0;

static gal_code check_cuda(cudaError_t result, const char *what, gal_error *err)
{
    return result == cudaSuccess ? GAL_OK
                                 : gal_fail(err, GAL_ERR_DEVICE, "%s: CUDA: %s", what, cudaGetErrorString(result));
}

#define GAL_CUDA_TRY(result, what) GAL_TRY(check_cuda((result), (what), err))

/* "tensor of ranks 2, 3"; a long list is cut. */
static void name_place(const gal_channel_spec *channel, gal_nccl_group *group)
{
    size_t used = (size_t)snprintf(group->place, sizeof group->place, "%s of ranks",
                                   channel->stream < GAL_STREAM_COUNT ? gal_stream_names[channel->stream] : "stream");
    for (uint32_t i = 0; i < channel->rank_count && used + 20 < sizeof group->place; i++) {
        used += (size_t)snprintf(group->place + used, sizeof group->place - used, "%s %u", i > 0 ? "," : "",
                                 channel->ranks[i]);
        if (i + 1 < channel->rank_count && used + 20 >= sizeof group->place) {
            (void)snprintf(group->place + used, sizeof group->place - used, ", ...");
        }
    }
}

/* No block count of the library's choice may change what a plan was priced with, so both ends are set. */
static ncclConfig_t config_of(const gal_nccl_options *options)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (options->ctas > 0) {
        config.minCTAs = (int)options->ctas;
        config.maxCTAs = (int)options->ctas;
    }
    return config;
}

static gal_code share_id(gal_nccl_state *state, ncclUniqueId *id, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_comm *control = state->control;
    const double deadline_seconds = state->options.deadline_seconds;
    memset(id, 0, sizeof *id);
    if (control->rank == 0) {
        code = gal_nccl_check(ncclGetUniqueId(id), NULL, "ncclGetUniqueId", err);
    }
    GAL_TRY(gal_comm_agree(control, code, deadline_seconds, err));
    GAL_TRY(gal_comm_broadcast(control, 0, id, sizeof *id, deadline_seconds, err));
cleanup:
    return code;
}

static gal_code make_world(gal_nccl_state *state, ncclUniqueId id, gal_error *err)
{
    const gal_comm *control = state->control;
    gal_nccl_group *world = &state->group[0];
    ncclConfig_t config = config_of(&state->options);
    world->rank_count = control->world_size;
    world->index = control->rank;
    (void)snprintf(world->place, sizeof world->place, "the world");
    const ncclResult_t result =
        ncclCommInitRankConfig(&world->comm, (int)control->world_size, id, (int)control->rank, &config);
    return gal_nccl_settle(state, world, result, "ncclCommInitRankConfig", err);
}

/* All ranks take part in every round; the parent is done when the split is, then the child makes itself ready. */
static gal_code make_group(gal_nccl_state *state, uint32_t round, const gal_channel_spec *channels, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_split *split = &state->splits.split[round];
    const bool in = split->color != GAL_NO_SPLIT;
    gal_nccl_group *world = &state->group[0], *group = &state->group[1 + round];
    ncclConfig_t config = config_of(&state->options);
    if (in) {
        const gal_channel_spec *channel = &channels[split->channel];
        group->index = split->key;
        group->rank_count = channel->rank_count;
        group->stream = channel->stream;
        group->alike = true;
        name_place(channel, group);
    }
    const ncclResult_t result = ncclCommSplit(world->comm, in ? (int)split->color : NCCL_SPLIT_NOCOLOR,
                                              in ? (int)split->key : 0, &group->comm, &config);
    GAL_TRY(gal_nccl_settle(state, world, result, "ncclCommSplit", err));
    if (in) {
        GAL_TRY(gal_nccl_settle(state, group, ncclInProgress, "ncclCommSplit", err));
    }
cleanup:
    return code;
}

gal_code gal_nccl_connect(gal_nccl_state *state, const gal_nccl_group *group, char *scratch, void *queue,
                          gal_error *err)
{
    const uint32_t peer = 1 - group->index;
    gal_comm_request request = {
        .op = GAL_OP_SEND, .peer = peer, .dtype = GAL_FP32, .elements = 1, .source = scratch, .queue = queue};
    ncclResult_t result = ncclGroupStart();
    if (gal_nccl_goes_on(result) && (group->transfers & GAL_TRANSFER_SENDS) != 0) {
        result = gal_nccl_put(group, &request);
    }
    if (gal_nccl_goes_on(result) && (group->transfers & GAL_TRANSFER_RECEIVES) != 0) {
        request.op = GAL_OP_RECEIVE;
        request.target = scratch + SCRATCH_BYTES / 2;
        result = gal_nccl_put(group, &request);
    }
    return gal_nccl_settle(state, group, gal_nccl_group_end(result), "connecting", err);
}

static gal_code wait_for_queue(gal_nccl_state *state, cudaStream_t queue, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_comm_wait wait = {.text = "connecting the transfers between stages"};
    gal_comm_patience patience = gal_comm_patience_begin(state->options.deadline_seconds);
    for (cudaError_t result = cudaErrorNotReady; result != cudaSuccess;) {
        result = cudaStreamQuery(queue);
        if (result == cudaErrorNotReady) {
            GAL_TRY(gal_comm_idle(state->control, &patience, &wait, err));
            gal_comm_give_way(NULL, patience.begin_seconds);
        } else {
            GAL_CUDA_TRY(result, wait.text);
        }
    }
cleanup:
    return code;
}

/* Transfers go between two ranks, so the rounds' order is enough (nccl.h). */
static gal_code connect_transfers(gal_nccl_state *state, const gal_channel_spec *channels, gal_error *err)
{
    gal_code code = GAL_OK;
    cudaStream_t queue = NULL;
    void *scratch = NULL;
    for (uint32_t c = 0; c < state->splits.channel_count; c++) {
        GAL_ASSERT(channels[c].transfers == 0 || channels[c].rank_count == 2);
        gal_nccl_group *group = &state->group[1 + state->splits.round_of[c]];
        group->transfers |= channels[c].transfers;
        group->alike = group->alike && channels[c].alike;
    }
    GAL_CUDA_TRY(cudaStreamCreateWithFlags(&queue, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    GAL_CUDA_TRY(cudaMalloc(&scratch, SCRATCH_BYTES), "cudaMalloc");
    for (uint32_t g = 1; g < state->group_count; g++) {
        if (state->group[g].transfers != 0) {
            GAL_TRY(gal_nccl_connect(state, &state->group[g], scratch, queue, err));
        }
    }
    GAL_TRY(wait_for_queue(state, queue, err));
cleanup:
    /* After an error a transfer may still hold both: the process ends, and they with it. */
    if (code == GAL_OK) {
        code = check_cuda(cudaFree(scratch), "cudaFree", err);
        const gal_code destroyed = check_cuda(cudaStreamDestroy(queue), "cudaStreamDestroy", err);
        code = code == GAL_OK ? destroyed : code;
    }
    return code;
}

static gal_code make_all(gal_nccl_state *state, const gal_channel_spec *channels, gal_error *err)
{
    gal_code code = GAL_OK;
    ncclUniqueId id;
    GAL_TRY(share_id(state, &id, err));
    GAL_TRY(make_world(state, id, err));
    for (uint32_t round = 0; round < state->splits.round_count; round++) {
        GAL_TRY(make_group(state, round, channels, err));
    }
    GAL_TRY(connect_transfers(state, channels, err));
cleanup:
    return code;
}

static gal_code no_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: communicators");
}

static gal_code allocate(gal_comm *control, const gal_nccl_options *options, gal_comm **out, gal_error *err)
{
    gal_comm *comm = calloc(1, sizeof *comm);
    gal_nccl_state *state = calloc(1, sizeof *state);
    if (comm == NULL || state == NULL) {
        free(comm);
        free(state);
        return no_memory(err);
    }
    comm->ops = &gal_nccl_ops;
    comm->rank = control->rank;
    comm->world_size = control->world_size;
    comm->state = state;
    state->control = control;
    state->options = *options;
    state->broken = true;
    *out = comm;
    return GAL_OK;
}

static uint32_t count_communicators(const gal_nccl_state *state)
{
    uint32_t count = 0;
    for (uint32_t g = 0; g < state->group_count; g++) {
        count += state->group[g].comm != NULL;
    }
    return count;
}

/* Ranks that wait in the library for one that has failed hear of it by the roll call, which this one calls soon. */
static gal_code agree_or_blame(gal_comm *comm, gal_code mine, double deadline_seconds, gal_error *err)
{
    const gal_nccl_state *state = comm->state;
    if (mine != GAL_OK && err != NULL) {
        comm->ops->blame(comm, err);
    }
    return gal_comm_agree(state->control, mine,
                          mine != GAL_OK ? fmin(deadline_seconds, failed_seconds) : deadline_seconds, err);
}

gal_code gal_comm_nccl_create(gal_comm *control, const gal_nccl_options *options, const gal_channel_spec *channels,
                              uint32_t channel_count, gal_comm **out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_comm *comm = NULL;
    gal_nccl_state *state = NULL;
    const double begin_seconds = gal_now_seconds(), deadline_seconds = options->deadline_seconds;
    GAL_ASSERT(options->ctas <= GAL_COMMUNICATION_CTAS_MAX && control->ops->control != NULL);
    GAL_TRY(gal_comm_agree(control, allocate(control, options, &comm, err), deadline_seconds, err));
    state = comm->state;
    GAL_TRY(gal_splits_create(control, channels, channel_count, deadline_seconds, &state->splits, err));
    state->group = calloc((size_t)state->splits.round_count + 1, sizeof *state->group);
    GAL_TRY(gal_comm_agree(control, state->group != NULL ? GAL_OK : no_memory(err), deadline_seconds, err));
    state->group_count = state->splits.round_count + 1;
    code = make_all(state, channels, err);
    if (code == GAL_OK) {
        code = gal_nccl_watchdog_start(comm, err);
    }
    GAL_TRY(agree_or_blame(comm, code, deadline_seconds, err));
    state->broken = false;
    comm->communicator_count = count_communicators(state);
    comm->creation_seconds = gal_now_seconds() - begin_seconds;
    *out = comm;
    comm = NULL;
cleanup:
    gal_comm_free(comm);
    return code;
}

/* ---- memory that the library knows ---- */

static gal_code register_group(gal_nccl_state *state, gal_nccl_group *group, void *base, uint64_t byte_count,
                               gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_ASSERT(group->registration == NULL && group->window == NULL);
    if (group->alike) {
        const ncclResult_t opened = gal_nccl_window_open(group->comm, base, byte_count, &group->window);
        GAL_TRY(gal_nccl_settle(state, group, opened, "ncclCommWindowRegister", err));
    }
    if (group->window == NULL) {
        const ncclResult_t result = ncclCommRegister(group->comm, base, byte_count, &group->registration);
        GAL_TRY(gal_nccl_settle(state, group, result, "ncclCommRegister", err));
    }
cleanup:
    return code;
}

/* A window is made by all ranks of its group together: by the rounds' order none waits in a circle. */
gal_code gal_nccl_register(gal_comm *comm, void *base, uint64_t byte_count, gal_error *err)
{
    gal_nccl_state *state = comm->state;
    gal_code code = GAL_OK;
    for (uint32_t g = 1; g < state->group_count; g++) {
        if (state->group[g].comm != NULL) {
            GAL_TRY(register_group(state, &state->group[g], base, byte_count, err));
        }
    }
cleanup:
    return code;
}

void gal_nccl_unregister(gal_comm *comm)
{
    gal_nccl_state *state = comm->state;
    for (uint32_t g = 1; g < state->group_count && !state->aborted; g++) {
        gal_nccl_group *group = &state->group[g];
        if (group->window != NULL) {
            gal_nccl_window_close(group->comm, group->window);
            group->window = NULL;
        }
        if (group->registration != NULL) {
            (void)ncclCommDeregister(group->comm, group->registration);
            group->registration = NULL;
        }
    }
}

/* ---- the end ---- */

/* Children first. Each is quiet on all its ranks before it goes, in the same order everywhere; who finds the others
 * gone aborts what is left. */
static void finalize_all(gal_nccl_state *state)
{
    gal_error unsaid = {0};
    for (uint32_t g = state->group_count; g-- > 0;) {
        gal_nccl_group *group = &state->group[g];
        if (group->comm == NULL) {
            continue;
        }
        if (gal_nccl_settle(state, group, ncclCommFinalize(group->comm), "ncclCommFinalize", &unsaid) != GAL_OK) {
            return;
        }
        (void)ncclCommDestroy(group->comm);
        group->comm = NULL;
    }
}

void gal_nccl_release(gal_comm *comm)
{
    gal_nccl_state *state = comm->state;
    gal_nccl_watchdog_stop(state);
    if (!state->broken && !state->aborted) {
        gal_nccl_unregister(comm);
        finalize_all(state);
    }
    gal_nccl_abort_all(state);
    if (state->has_wake) {
        pthread_cond_destroy(&state->wake);
    }
    if (state->has_lock) {
        pthread_mutex_destroy(&state->lock);
    }
    gal_splits_free(&state->splits);
    free(state->group);
    free(state);
    free(comm);
}
