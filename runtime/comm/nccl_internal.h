/* The NCCL communicator's state, for the files of this folder. */
#ifndef GAL_RUNTIME_COMM_NCCL_INTERNAL_H
#define GAL_RUNTIME_COMM_NCCL_INTERNAL_H

#include <nccl.h>
#include <pthread.h>

#include "runtime/comm/nccl.h"
#include "runtime/comm/splits.h"

/* Windows are of NCCL 2.27. */
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
typedef ncclWindow_t gal_nccl_window;
#else
typedef void *gal_nccl_window;
#endif

enum { GAL_NCCL_RECORDS = 64, GAL_NCCL_PLACE_BYTES = 96 };

typedef struct gal_nccl_group {
    ncclComm_t comm; /* NULL: this rank is in no group of the round */
    uint32_t index;  /* of this rank in the group */
    uint32_t rank_count, stream, transfers;
    char place[GAL_NCCL_PLACE_BYTES]; /* "tensor of ranks 2, 3": for messages */
    bool alike;                       /* as of all its channels */
    gal_nccl_window window;           /* of the registered memory; NULL: none */
    void *registration;               /* where there is no window; NULL: none */
    uint64_t issued;                  /* requests so far */
} gal_nccl_group;

/* A request that was put on a queue. */
typedef struct gal_nccl_record {
    uint32_t group;  /* into gal_nccl_state.group */
    uint64_t number; /* in the group, from 1 */
    gal_op op;
    gal_dtype dtype;
    uint64_t elements;
} gal_nccl_record;

typedef struct gal_nccl_state {
    gal_comm *control;
    gal_nccl_options options;
    gal_splits splits;
    uint32_t group_count;
    gal_nccl_group *group; /* [1 + rounds]: the world, then the groups of the rounds */
    bool broken;           /* creation has failed: communicators are aborted, not finalized */

    /* Between the host thread and the watchdog. The lock is held for what is below and while communicators are polled
     * or aborted, never while a request waits for other ranks. */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t watchdog;
    bool has_lock, has_wake, has_watchdog;
    bool ending;
    bool aborted;
    double watch_end_seconds; /* 0: nothing is awaited */
    double watch_deadline_seconds;
    gal_nccl_record record[GAL_NCCL_RECORDS]; /* a ring */
    uint64_t record_count;                    /* ever written */
} gal_nccl_state;

extern const gal_comm_ops gal_nccl_ops;

/* GAL_OK if result is ncclSuccess, else GAL_ERR_DEVICE: "what: the library's text (its last error)". */
gal_code gal_nccl_check(ncclResult_t result, ncclComm_t comm, const char *what, gal_error *err);
#define GAL_NCCL_TRY(result, comm, what) GAL_TRY(gal_nccl_check((result), (comm), (what), err))

/* Waits until the communicator has done what it was told, `result` being what that call returned. Takes part in roll
 * calls; GAL_ERR_DEVICE after the deadline or on an error of the library. */
gal_code gal_nccl_settle(gal_nccl_state *state, const gal_nccl_group *group, ncclResult_t result, const char *what,
                         gal_error *err);

bool gal_nccl_goes_on(ncclResult_t result);
/* Ends the group whatever came before, since an open one swallows all that follows; returns the first failure. */
ncclResult_t gal_nccl_group_end(ncclResult_t result);

/* The request as one call, or one group of calls, of the library; the result of the last one. */
ncclResult_t gal_nccl_put(const gal_nccl_group *group, const gal_comm_request *request);

/* Connects the group's transfers, with one byte of device memory at scratch for each direction. */
gal_code gal_nccl_connect(gal_nccl_state *state, const gal_nccl_group *group, char *scratch, void *queue,
                          gal_error *err);

/* A symmetric window of memory: collective over the communicator, and perhaps still in progress when it returns.
 * *out is NULL in the end where the library, or what the ranks are joined by, has no windows. */
ncclResult_t gal_nccl_window_open(ncclComm_t comm, void *base, size_t byte_count, gal_nccl_window *out);
void gal_nccl_window_close(ncclComm_t comm, gal_nccl_window window);

/* The watchdog. note: a request is about to be put on a queue. */
gal_code gal_nccl_watchdog_start(gal_comm *comm, gal_error *err);
void gal_nccl_watchdog_stop(gal_nccl_state *state);
void gal_nccl_note(gal_nccl_state *state, const gal_nccl_group *group, const gal_comm_request *request);
void gal_nccl_watch(gal_comm *comm, double deadline_seconds);
/* Every communicator that is left, in one group, so that none waits for another. */
void gal_nccl_abort_all(gal_nccl_state *state);

void gal_nccl_release(gal_comm *comm);

#endif
