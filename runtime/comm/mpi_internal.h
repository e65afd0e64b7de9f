/* The MPI communicator's state, for the files of this folder and for the test that narrows part_elements. */
#ifndef GAL_RUNTIME_COMM_MPI_INTERNAL_H
#define GAL_RUNTIME_COMM_MPI_INTERNAL_H

#include <mpi.h>

#include "runtime/comm/comm.h"

enum {
    GAL_MPI_SLOTS = 256, /* requests in flight in one comm */
    GAL_MPI_PARTS = 64   /* MPI requests that one of ours may be split into */
};

/* Most elements of one MPI call, over all members: counts are int, and 2^27 elements of 8 bytes keep every product of
 * count and size below 2^31 as well, inside the library too. */
#define GAL_MPI_PART_ELEMENTS (UINT64_C(1) << 27)

typedef struct gal_mpi_channel {
    MPI_Comm comm;  /* borrowed from the pool; MPI_COMM_NULL if rank_count == 1 */
    uint32_t index; /* of this rank in the group */
    uint32_t rank_count;
} gal_mpi_channel;

typedef struct gal_mpi_slot {
    MPI_Request part[GAL_MPI_PARTS];
    int part_count;
    bool in_use;
    void *move_target; /* move_bytes > 0: what completion moves, within one buffer */
    const void *move_source;
    size_t move_bytes;
} gal_mpi_slot;

typedef struct gal_mpi_state {
    MPI_Comm world;           /* the control helpers' own */
    uint64_t part_elements;   /* GAL_MPI_PART_ELEMENTS; equal on all ranks */
    gal_mpi_channel *channel; /* [channel_count], as the caller numbered them */
    uint32_t channel_count;
    MPI_Comm *pool; /* [pool_count], distinct */
    uint32_t pool_count;
    uint32_t free_slot[GAL_MPI_SLOTS]; /* a stack */
    uint32_t free_count;
    gal_mpi_slot slot[GAL_MPI_SLOTS];
    /* Control messages live here and not on the stack: a helper that gives up leaves its MPI request behind. */
    uint64_t words[2];
    char text[GAL_ERROR_TEXT_BYTES];
    gal_comm *kept; /* the next one that could not be freed */
} gal_mpi_state;

extern const gal_comm_ops gal_mpi_ops;
extern const gal_comm_control gal_mpi_control;
void gal_mpi_release(gal_comm *comm);

/* GAL_OK if result is MPI_SUCCESS, else GAL_ERR_DEVICE with the library's text: "what: text". */
gal_code gal_mpi_check(int result, const char *what, gal_error *err);
/* Around each call that blocks; see gal_mpi_set_deadline. rank_count 0: all ranks. */
void gal_mpi_blocked(const char *text, const uint32_t *ranks, uint32_t rank_count);
void gal_mpi_unblocked(void);
double gal_mpi_deadline_seconds(void);
/* True if another rank has begun a roll call (comm.h). Never blocks. */
bool gal_mpi_roll_called(void);
/* Takes part, or begins. Does not return, unless the roll call is not enabled. */
void gal_mpi_roll_call(const gal_comm_wait *waits, uint32_t wait_count, double deadline_seconds);
/* Tests until the request is complete; after deadline_seconds the roll is called, or GAL_ERR_DEVICE (the request is
 * then left to itself). */
gal_code gal_mpi_wait(MPI_Request *request, double deadline_seconds, const char *what, gal_error *err);
/* Whether gal_mpi_wait has ever left a request to itself: MPI may still use its communicator and its memory. */
bool gal_mpi_has_abandoned(void);

#endif
