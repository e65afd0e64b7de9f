#include "tests/support/nccl_double.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = GAL_DOUBLE_RANKS_MAX, POLLS = 2, LAST_ERROR_BYTES = 64, MISUSE_BYTES = 256 };

typedef struct clique clique;

/* A split of a clique, as far as its ranks have come. */
typedef struct split {
    struct split *next;
    uint32_t arrived;
    int color[RANKS], key[RANKS];
    struct ncclComm *child[RANKS];
} split;

struct clique {
    clique *next;
    char id[NCCL_UNIQUE_ID_BYTES];
    uint32_t number, size, joined;
    split *splits; /* in order */
};

struct ncclComm {
    struct ncclComm *next;
    clique *of;
    uint32_t rank, world_rank, splits_begun;
    split *waits_for; /* the split that it is in, of `of` */
    bool is_child;    /* its own clique is known once the split is complete */
    uint32_t polls_left;
    bool gone;
    ncclResult_t error;
};

static struct {
    pthread_mutex_t lock;
    clique *cliques;
    struct ncclComm *comms;
    uint32_t clique_count, ids;
    gal_double_call *call[RANKS];
    uint32_t call_count[RANKS], call_room[RANKS];
    bool stalled[RANKS];
    ncclResult_t refusal;
    bool no_windows;
    char misuse[MISUSE_BYTES];
    uint32_t *aborts_of_rank;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local uint32_t my_rank, group_depth, group_number, groups_begun;
static _Thread_local bool group_has_calls;

static void misuse(const char *what, uint32_t rank)
{
    if (all.misuse[0] == '\0') {
        (void)snprintf(all.misuse, sizeof all.misuse, "rank %u: %s", rank, what);
    }
}

static void record(gal_double_call call)
{
    const uint32_t r = my_rank;
    if (all.call_count[r] == all.call_room[r]) {
        all.call_room[r] = all.call_room[r] == 0 ? 256 : 2 * all.call_room[r];
        all.call[r] = realloc(all.call[r], all.call_room[r] * sizeof *all.call[r]);
        if (all.call[r] == NULL) {
            abort();
        }
    }
    call.grouped = group_depth > 0 ? group_number : 0;
    all.call[r][all.call_count[r]++] = call;
}

/* ---- for the test ---- */

void gal_double_reset(void)
{
    while (all.comms != NULL) {
        struct ncclComm *next = all.comms->next;
        free(all.comms);
        all.comms = next;
    }
    while (all.cliques != NULL) {
        clique *next = all.cliques->next;
        while (all.cliques->splits != NULL) {
            split *after = all.cliques->splits->next;
            free(all.cliques->splits);
            all.cliques->splits = after;
        }
        free(all.cliques);
        all.cliques = next;
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        free(all.call[r]);
    }
    memset(all.call, 0, sizeof all.call);
    memset(all.call_count, 0, sizeof all.call_count);
    memset(all.call_room, 0, sizeof all.call_room);
    memset(all.stalled, 0, sizeof all.stalled);
    all.clique_count = 0;
    all.refusal = ncclSuccess;
    all.no_windows = false;
    all.misuse[0] = '\0';
    all.aborts_of_rank = NULL;
}

void gal_double_enter(uint32_t rank)
{
    my_rank = rank;
    group_depth = group_number = groups_begun = 0;
}

const gal_double_call *gal_double_calls(uint32_t rank, uint32_t *count)
{
    *count = all.call_count[rank];
    return all.call[rank];
}

const char *gal_double_misuse(void)
{
    return all.misuse[0] != '\0' ? all.misuse : NULL;
}

uint32_t gal_double_alive(uint32_t rank)
{
    uint32_t count = 0;
    for (const struct ncclComm *comm = all.comms; comm != NULL; comm = comm->next) {
        count += comm->world_rank == rank && !comm->gone;
    }
    return count;
}

uint32_t gal_double_open_groups(void)
{
    return group_depth;
}

void gal_double_fail(uint32_t rank, uint32_t communicator, ncclResult_t result)
{
    pthread_mutex_lock(&all.lock);
    for (struct ncclComm *comm = all.comms; comm != NULL; comm = comm->next) {
        if (comm->world_rank == rank && comm->of->number == communicator) {
            comm->error = result;
        }
    }
    pthread_mutex_unlock(&all.lock);
}

void gal_double_stall(uint32_t rank)
{
    all.stalled[rank] = true;
}

void gal_double_refuse(ncclResult_t result)
{
    all.refusal = result;
}

void gal_double_refuse_windows(void)
{
    all.no_windows = true;
}

void gal_double_share_aborts(uint32_t *aborts_of_rank)
{
    all.aborts_of_rank = aborts_of_rank;
}

/* ---- communicators ---- */

static clique *new_clique(uint32_t size)
{
    clique *c = calloc(1, sizeof *c);
    if (c == NULL) {
        abort();
    }
    c->number = ++all.clique_count;
    c->size = size;
    c->next = all.cliques;
    all.cliques = c;
    return c;
}

static struct ncclComm *new_comm(uint32_t rank)
{
    struct ncclComm *comm = calloc(1, sizeof *comm);
    if (comm == NULL) {
        abort();
    }
    comm->rank = rank;
    comm->world_rank = my_rank;
    comm->next = all.comms;
    all.comms = comm;
    return comm;
}

static void check_config(const ncclConfig_t *config)
{
    if (config == NULL || config->magic != 0xcafebeef || config->blocking != 0) {
        misuse("a communicator that blocks", my_rank);
    } else if (config->splitShare == 1) {
        misuse("a communicator that shares resources", my_rank);
    }
}

static void record_making(const ncclConfig_t *config)
{
    record((gal_double_call){.kind = GAL_DOUBLE_MAKE,
                             .min_ctas = config != NULL ? config->minCTAs : 0,
                             .max_ctas = config != NULL ? config->maxCTAs : 0});
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 0, sizeof *id);
    pthread_mutex_lock(&all.lock);
    (void)snprintf(id->internal, sizeof id->internal, "id %u", ++all.ids);
    pthread_mutex_unlock(&all.lock);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int size, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    pthread_mutex_lock(&all.lock);
    const ncclResult_t refusal = all.refusal;
    if (refusal == ncclSuccess) {
        check_config(config);
        record_making(config);
        clique *c = all.cliques;
        while (c != NULL && memcmp(c->id, id.internal, sizeof c->id) != 0) {
            c = c->next;
        }
        if (c == NULL) {
            c = new_clique((uint32_t)size);
            memcpy(c->id, id.internal, sizeof c->id);
        }
        if ((uint32_t)rank != my_rank || c->size != (uint32_t)size || id.internal[0] == '\0') {
            misuse("another rank, world or id than the others'", my_rank);
        }
        *out = new_comm((uint32_t)rank);
        (*out)->of = c;
        (*out)->polls_left = POLLS;
        c->joined++;
    }
    pthread_mutex_unlock(&all.lock);
    return refusal == ncclSuccess ? ncclInProgress : refusal;
}

/* When the last rank has come: the children with the same color are a clique, in the order of their keys. */
static void complete(const clique *parent, split *s)
{
    for (uint32_t r = 0; r < parent->size; r++) {
        if (s->color[r] == NCCL_SPLIT_NOCOLOR || s->child[r]->of != NULL) {
            continue;
        }
        clique *c = new_clique(0);
        for (uint32_t i = r; i < parent->size; i++) {
            if (s->color[i] == s->color[r]) {
                s->child[i]->of = c;
                s->child[i]->rank = (uint32_t)s->key[i];
                c->size++;
            }
        }
        c->joined = c->size;
    }
}

static bool is_ready(const struct ncclComm *comm)
{
    const bool whole = comm->of != NULL && comm->of->joined == comm->of->size;
    return whole && comm->polls_left == 0 && (comm->waits_for == NULL || comm->waits_for->arrived == comm->of->size);
}

/* The communicator's number; 0 and a misuse if it cannot be used now. */
static uint32_t use(struct ncclComm *comm)
{
    if (comm == NULL || comm->gone) {
        misuse("a communicator that is gone", my_rank);
        return 0;
    }
    if (comm->world_rank != my_rank) {
        misuse("a communicator of another rank", my_rank);
    }
    if (!is_ready(comm) && group_depth == 0) {
        misuse("a communicator that is not ready", my_rank);
    }
    return comm->of != NULL ? comm->of->number : 0;
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t *out, ncclConfig_t *config)
{
    pthread_mutex_lock(&all.lock);
    (void)use(parent);
    check_config(config);
    clique *of = parent->of;
    split **at = &of->splits;
    for (uint32_t i = 0; i < parent->splits_begun; i++) {
        at = &(*at)->next;
    }
    if (*at == NULL) {
        *at = calloc(1, sizeof **at);
        if (*at == NULL) {
            abort();
        }
    }
    split *s = *at;
    parent->splits_begun++;
    parent->waits_for = s;
    parent->polls_left = POLLS;
    s->color[parent->rank] = color;
    s->key[parent->rank] = key;
    *out = NULL;
    if (color != NCCL_SPLIT_NOCOLOR) {
        record_making(config);
        *out = s->child[parent->rank] = new_comm(0);
        (*out)->is_child = true;
        (*out)->polls_left = POLLS;
    }
    if (++s->arrived == of->size) {
        complete(of, s);
    }
    pthread_mutex_unlock(&all.lock);
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *result)
{
    pthread_mutex_lock(&all.lock);
    if (comm->gone) {
        misuse("a poll of a communicator that is gone", my_rank);
    }
    if (comm->polls_left > 0) {
        comm->polls_left--;
    }
    *result = comm->error != ncclSuccess ? comm->error : is_ready(comm) ? ncclSuccess : ncclInProgress;
    if (all.stalled[comm->world_rank]) {
        *result = ncclInProgress;
    }
    pthread_mutex_unlock(&all.lock);
    return ncclSuccess;
}

static ncclResult_t end_comm(ncclComm_t comm, gal_double_kind kind)
{
    pthread_mutex_lock(&all.lock);
    if (comm->gone) {
        misuse("the end of a communicator that is gone", my_rank);
    }
    comm->gone = true;
    if (kind == GAL_DOUBLE_ABORT && all.aborts_of_rank != NULL) {
        all.aborts_of_rank[comm->world_rank]++;
    }
    record((gal_double_call){.kind = kind, .communicator = comm->of != NULL ? comm->of->number : 0});
    pthread_mutex_unlock(&all.lock);
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    pthread_mutex_lock(&all.lock);
    (void)use(comm);
    comm->polls_left = POLLS;
    pthread_mutex_unlock(&all.lock);
    return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    return end_comm(comm, GAL_DOUBLE_DESTROY);
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    return end_comm(comm, GAL_DOUBLE_ABORT);
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *base, size_t bytes, void **handle)
{
    pthread_mutex_lock(&all.lock);
    record((gal_double_call){.kind = GAL_DOUBLE_REGISTER, .communicator = use(comm), .count = bytes, .target = base});
    *handle = comm;
    pthread_mutex_unlock(&all.lock);
    return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    pthread_mutex_lock(&all.lock);
    if (handle != comm) {
        misuse("a registration of another communicator", my_rank);
    }
    record((gal_double_call){.kind = GAL_DOUBLE_DEREGISTER, .communicator = use(comm)});
    pthread_mutex_unlock(&all.lock);
    return ncclSuccess;
}

/* Of all ranks together: it is done some polls later, and what it gives is known then. */
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *base, size_t bytes, ncclWindow_t *window, int flags)
{
    pthread_mutex_lock(&all.lock);
    if ((uintptr_t)base % NCCL_WIN_REQUIRED_ALIGNMENT != 0 || flags != NCCL_WIN_COLL_SYMMETRIC) {
        misuse("a window that is not aligned, or not symmetric", my_rank);
    }
    const uint32_t communicator = use(comm);
    if (!all.no_windows) {
        record(
            (gal_double_call){.kind = GAL_DOUBLE_WINDOW, .communicator = communicator, .count = bytes, .target = base});
    }
    *window = all.no_windows ? NULL : (ncclWindow_t)(void *)comm;
    comm->polls_left = POLLS;
    pthread_mutex_unlock(&all.lock);
    return ncclInProgress;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
    return ncclCommDeregister(comm, window);
}

/* ---- operations ---- */

static ncclResult_t put(ncclComm_t comm, gal_double_call call)
{
    pthread_mutex_lock(&all.lock);
    call.communicator = use(comm);
    call.group_index = comm->rank;
    call.rank_count = comm->of->size;
    if (call.count == 0 || call.peer >= comm->of->size) {
        misuse("an operation of nothing, or with nobody", my_rank);
    }
    record(call);
    comm->polls_left = POLLS;
    pthread_mutex_unlock(&all.lock);
    group_has_calls = true;
    return group_depth > 0 ? ncclSuccess : ncclInProgress;
}

ncclResult_t ncclAllReduce(const void *source, void *target, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream)
{
    return put(comm, (gal_double_call){.kind = GAL_DOUBLE_ALL_REDUCE,
                                       .source = source,
                                       .target = target,
                                       .count = count,
                                       .type = type,
                                       .reduce = op,
                                       .stream = stream});
}

ncclResult_t ncclAllGather(const void *source, void *target, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream)
{
    return put(comm, (gal_double_call){.kind = GAL_DOUBLE_ALL_GATHER,
                                       .source = source,
                                       .target = target,
                                       .count = count,
                                       .type = type,
                                       .stream = stream});
}

ncclResult_t ncclBroadcast(const void *source, void *target, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    return put(comm, (gal_double_call){.kind = GAL_DOUBLE_BROADCAST,
                                       .source = source,
                                       .target = target,
                                       .count = count,
                                       .type = type,
                                       .peer = (uint32_t)root,
                                       .stream = stream});
}

ncclResult_t ncclReduce(const void *source, void *target, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream)
{
    return put(comm, (gal_double_call){.kind = GAL_DOUBLE_REDUCE,
                                       .source = source,
                                       .target = target,
                                       .count = count,
                                       .type = type,
                                       .reduce = op,
                                       .peer = (uint32_t)root,
                                       .stream = stream});
}

ncclResult_t ncclReduceScatter(const void *source, void *target, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
    return put(comm, (gal_double_call){.kind = GAL_DOUBLE_REDUCE_SCATTER,
                                       .source = source,
                                       .target = target,
                                       .count = count,
                                       .type = type,
                                       .reduce = op,
                                       .stream = stream});
}

ncclResult_t ncclSend(const void *source, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return put(comm, (gal_double_call){.kind = GAL_DOUBLE_SEND,
                                       .source = source,
                                       .count = count,
                                       .type = type,
                                       .peer = (uint32_t)peer,
                                       .stream = stream});
}

ncclResult_t ncclRecv(void *target, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    return put(comm, (gal_double_call){.kind = GAL_DOUBLE_RECEIVE,
                                       .target = target,
                                       .count = count,
                                       .type = type,
                                       .peer = (uint32_t)peer,
                                       .stream = stream});
}

/* Inside a group a call is only noted, so it cannot be in progress; the end of the group is. */
ncclResult_t ncclGroupStart(void)
{
    if (group_depth++ == 0) {
        group_number = ++groups_begun;
        group_has_calls = false;
    }
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    if (group_depth == 0) {
        misuse("the end of a group that was not begun", my_rank);
        return ncclInvalidUsage;
    }
    group_depth--;
    return group_depth == 0 && group_has_calls ? ncclInProgress : ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclRemoteError ? "remote process exited or there was a network error" : "unhandled cuda error";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "the double's last error";
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

/* ---- CUDA ---- */

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    pthread_mutex_lock(&all.lock);
    record((gal_double_call){.kind = GAL_DOUBLE_MAKE});
    pthread_mutex_unlock(&all.lock);
    *out = malloc(bytes);
    return *out != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *memory)
{
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned int flags)
{
    (void)flags;
    return cudaMalloc((void **)out, 1);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    static _Thread_local uint32_t queries;
    return stream != NULL && ++queries % 2 == 0 ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return cudaFree(stream);
}

const char *cudaGetErrorString(cudaError_t error)
{
    (void)error;
    return "an error of CUDA";
}
