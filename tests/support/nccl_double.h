/* A double of NCCL and of the little of CUDA that comm/nccl calls, for tests: it records who calls what, moves nothing,
 * and keeps a list of what the library would not have forgiven. A program that calls it has the double linked in place
 * of the libraries. Ranks are threads of one process.
 *
 * As the library does, a call on a non-blocking communicator returns ncclInProgress and is done some polls later; a
 * communicator is ready when all its ranks have come. */
#ifndef GAL_TESTS_SUPPORT_NCCL_DOUBLE_H
#define GAL_TESTS_SUPPORT_NCCL_DOUBLE_H

#include <nccl.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum gal_double_kind {
    GAL_DOUBLE_ALL_REDUCE,
    GAL_DOUBLE_ALL_GATHER,
    GAL_DOUBLE_BROADCAST,
    GAL_DOUBLE_REDUCE,
    GAL_DOUBLE_REDUCE_SCATTER,
    GAL_DOUBLE_SEND,
    GAL_DOUBLE_RECEIVE,
    GAL_DOUBLE_REGISTER,
    GAL_DOUBLE_WINDOW,
    GAL_DOUBLE_DEREGISTER,
    GAL_DOUBLE_ABORT,
    GAL_DOUBLE_DESTROY,
    GAL_DOUBLE_MAKE /* a communicator, a stream, memory: whatever a step must not make */
} gal_double_kind;

typedef struct gal_double_call {
    gal_double_kind kind;
    uint32_t communicator; /* number of the clique: the same on all its ranks; 0: none */
    uint32_t group_index, rank_count;
    uint32_t grouped; /* number of the ncclGroup on this rank, 0: outside */
    uint32_t peer;
    ncclDataType_t type;
    ncclRedOp_t reduce;
    uint64_t count;
    const void *source, *target;
    const void *stream;
    int min_ctas, max_ctas; /* MAKE of a communicator */
} gal_double_call;

enum { GAL_DOUBLE_RANKS_MAX = 16 };

/* Forgets everything, and frees what was recorded. */
void gal_double_reset(void);
/* The calling thread is this world rank from here on. */
void gal_double_enter(uint32_t rank);
/* What the rank has called so far, in order; valid until it calls again. */
const gal_double_call *gal_double_calls(uint32_t rank, uint32_t *count);
/* The first misuse, or NULL: a call on a communicator that is not ready, or gone; a group that was not closed; the end
 * of one that was not begun; blocking or shared communicators; a peer that does not exist. */
const char *gal_double_misuse(void);
/* Communicators of the rank that were made and neither destroyed nor aborted. */
uint32_t gal_double_alive(uint32_t rank);
/* Groups of calls that the rank has open. */
uint32_t gal_double_open_groups(void);

/* From now on the rank's communicators of this clique report an error when they are polled. */
void gal_double_fail(uint32_t rank, uint32_t communicator, ncclResult_t result);
/* From now on no call of the rank is ever done. */
void gal_double_stall(uint32_t rank);
/* From now on nothing that joins the ranks has windows: who asks for one gets NULL. */
void gal_double_refuse_windows(void);
/* ncclCommInitRankConfig returns it, as without a driver. */
void gal_double_refuse(ncclResult_t result);
/* How many communicators each of `ranks` ranks has aborted, readable by the parent of a fork that calls this before. */
void gal_double_share_aborts(uint32_t *aborts_of_rank);

#endif
