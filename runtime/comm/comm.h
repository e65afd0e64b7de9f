/* Communication: a table of functions over a pool of groups that is created once. Host: MPI (mpi.c). Device: NCCL
 * (nccl.h). Control without MPI: TCP (tcp.h).
 *
 * A request is started, then tested until it is complete; nothing blocks, so the caller interleaves progress of many
 * streams and applies a deadline. On a device it is put on a queue instead, and the queue says when it is complete.
 * Requests of one channel (group, stream) are started in the same order by all its members. Requests live in the
 * communicator: start and test allocate nothing of ours. */
#ifndef GAL_RUNTIME_COMM_COMM_H
#define GAL_RUNTIME_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/base/dtype.h"
#include "schemas/base/status.h"
#include "schemas/operator.h"

typedef struct gal_comm gal_comm;

enum { GAL_TRANSFER_SENDS = 1, GAL_TRANSFER_RECEIVES = 2 };

/* One communicator to be made: the world ranks of this rank's group, in member order (group index 0 first), on one
 * stream. All ranks of the world pass their channels in one call; two channels with the same members and stream are
 * one. */
typedef struct gal_channel_spec {
    const uint32_t *ranks;
    uint32_t rank_count;
    uint32_t stream;
    uint32_t transfers; /* GAL_TRANSFER_* that this rank makes on it; the other side has the opposite ones */
    bool alike;         /* all that is sent on it lies at the same offsets of arenas of one size, on all its ranks: so
                         * they all say, or none */
} gal_channel_spec;

typedef struct gal_comm_request {
    gal_op op;        /* all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, rotate, mirror, send,
                       * receive */
    uint32_t channel; /* index of the channel spec; send, receive: a channel of two ranks or more */
    uint32_t peer;    /* send, receive: group index of the other side; broadcast, reduce: of the root */
    gal_dtype dtype;
    uint32_t reduce;    /* GAL_REDUCE_* */
    uint64_t elements;  /* dims[0] of the shape: see schemas/operator.h */
    bool in_place;      /* all_gather, reduce_scatter: target is the whole, this rank's part at its index */
    const void *source; /* send, all_gather, reduce_scatter, all_to_all, broadcast, reduce, rotate, mirror (not in
                         * place) */
    void *target;       /* all others */
    void *queue;        /* of the device (device.h) whose memory these are; NULL: the host's */
} gal_comm_request;

/* One thing that a rank waits for: what, in words, and the world ranks that it needs for it (none: all). */
typedef struct gal_comm_wait {
    const char *text;
    const uint32_t *ranks;
    uint32_t rank_count;
    bool own; /* no other rank is needed */
} gal_comm_wait;

/* The blocking helpers at the end of this header, as a table has them. */
typedef struct gal_comm_control {
    gal_code (*barrier)(gal_comm *comm, double deadline_seconds, gal_error *err);
    gal_code (*broadcast)(gal_comm *comm, uint32_t root, void *data, uint64_t byte_count, double deadline_seconds,
                          gal_error *err);
    gal_code (*reduce_f64)(gal_comm *comm, double *values, uint32_t count, uint32_t reduce, double deadline_seconds,
                           gal_error *err);
    gal_code (*gather)(gal_comm *comm, uint32_t root, const void *mine, uint64_t byte_count, void *all,
                       double deadline_seconds, gal_error *err);
    gal_code (*agree)(gal_comm *comm, gal_code mine, double deadline_seconds, gal_error *err);
} gal_comm_control;

typedef struct gal_comm_ops {
    const char *name; /* "mpi", "nccl", "tcp" */
    /* true: start puts all of the request into its queue and is done with it; there is nothing to test. false, with a
     * queue: when the request is complete its result has been put into the queue, and what is queued from then on finds
     * it there. */
    bool queued;
    const gal_comm_control *control; /* NULL: requests alone */
    void (*release)(gal_comm *comm); /* what gal_comm_free does */
    /* Starts a request; *handle is a small number that test takes. NULL: control alone. */
    gal_code (*start)(gal_comm *comm, const gal_comm_request *request, uint32_t *handle, gal_error *err);
    /* *done: complete, the handle is free again. Never blocks. */
    gal_code (*test)(gal_comm *comm, uint32_t handle, bool *done, gal_error *err);
    /* Of gal_now_seconds: no request in flight is complete earlier; 0: nothing is known. NULL: nothing ever is. */
    double (*due)(gal_comm *comm);
    void (*abort)(gal_comm *comm, gal_code code); /* ends all ranks; does not return */
    /* The roll call, NULL: there is none. called: another rank has begun one; never blocks. roll_call: see
     * gal_mpi_roll_call_enable; returns if that was not called. */
    bool (*called)(gal_comm *comm);
    void (*roll_call)(gal_comm *comm, const gal_comm_wait *waits, uint32_t wait_count, double deadline_seconds);
    void (*blame)(gal_comm *comm, const gal_error *err); /* see gal_mpi_roll_call_blame; NULL: no roll call */
    /* From now on something of the step must be complete, and this be called again, within deadline_seconds; 0: the
     * step is over. Else all ranks end. NULL: only the caller holds a deadline. */
    void (*watch)(gal_comm *comm, double deadline_seconds);
} gal_comm_ops;

struct gal_comm {
    const gal_comm_ops *ops;
    uint32_t rank, world_size;
    uint32_t communicator_count; /* made for this rank: the pool's and one of all ranks. None is made later. */
    double creation_seconds;     /* that making them took, the agreement on the channels included */
    void *state;
};

/* MPI. The environment is initialised once per process (MPI_Init_thread SERIALIZED:
 * threads of a rank may take turns) and finalised at exit; ranks may
 * make several comms one after the other (collectively). rank_count 0: all ranks of the launch; else the first
 * rank_count ranks take part and the others get *out = NULL. */
gal_code gal_mpi_init(int *argc, char ***argv, gal_error *err);
void gal_mpi_finalize(void);
uint32_t gal_mpi_rank(void);
uint32_t gal_mpi_world_size(void);
void gal_mpi_version(char *text, size_t capacity); /* "Open MPI 4.1.4": the library's name and version, for reports */

/* How long the making of a comm waits for other ranks (60 s at first). What MPI does by a blocking call alone (its
 * start and end, the making of a group) comes between blocked and unblocked, so that somebody else can hold the
 * deadline; NULL: nobody does. wait: the call, and the ranks that it needs (none: all). After the end of MPI, which is
 * the process's own, unblocked is not called. To be set before gal_mpi_init. */
void gal_mpi_set_deadline(double deadline_seconds, void (*blocked)(const gal_comm_wait *wait), void (*unblocked)(void));

/* From here on a rank that has waited for others too long (in a step or in a helper below) calls the roll: all ranks
 * that wait say so, and for what. Then one of them hands one error to tell, naming the ranks that did not answer or the
 * lowest that gal_mpi_roll_call_blame was called on, and ends all ranks with GAL_ERR_DEVICE, or that rank's code. One
 * rank speaks if all that can answer do so in time; else tell may be called on another too. GAL_ERR_SYSTEM without
 * memory. */
gal_code gal_mpi_roll_call_enable(void (*tell)(const gal_error *err), gal_error *err);
void gal_mpi_roll_call_disable(void);
/* This rank has failed alone and cannot go on: the next roll call names it, with this error. */
void gal_mpi_roll_call_blame(const gal_error *err);
/* How often a rank that waits looks whether another calls. */
#define GAL_ROLL_LISTEN_SECONDS 0.01
/* The last part of a deadline, in which the answers are awaited. */
double gal_roll_call_seconds(double deadline_seconds);

gal_code gal_comm_mpi_create(uint32_t rank_count, const gal_channel_spec *channels, uint32_t channel_count,
                             gal_comm **out, gal_error *err);
void gal_comm_free(gal_comm *comm); /* of any table; accepts NULL */

/* One wait for others, from its begin on. */
typedef struct gal_comm_patience {
    double deadline_seconds;
    double begin_seconds, listen_seconds; /* when it began; when to look next whether another rank calls the roll */
} gal_comm_patience;

gal_comm_patience gal_comm_patience_begin(double deadline_seconds);
/* For a loop that finds again that what it waits for is not there. Takes part in a roll call, and calls one when the
 * deadline is near; then it does not return. Without one GAL_ERR_DEVICE after the deadline. */
gal_code gal_comm_idle(gal_comm *comm, gal_comm_patience *patience, const gal_comm_wait *wait, gal_error *err);

/* Between two looks whether a request is complete: the peer that this rank waits for may need the core. Sleeps where it
 * is known that nothing will be, and a little where others have the core too (patience.c).
 * begin_seconds  of gal_now_seconds: since when nothing has been complete
 * comm           NULL: nothing is known */
void gal_comm_give_way(gal_comm *comm, double begin_seconds);

/* Around calls of a library that look whether something is complete: within them this thread's sched_yield does
 * nothing, as whoever looks in vain gives way by the function above. */
void gal_comm_look(bool begins);

/* Small blocking helpers for control (never inside a step) of a comm whose table has them. Each returns GAL_ERR_DEVICE
 * on errors of what carries them and after deadline_seconds without an answer, unless the roll call is enabled: then
 * that ends all ranks. They run over the comm's world. */
gal_code gal_comm_barrier(gal_comm *comm, double deadline_seconds, gal_error *err);
gal_code gal_comm_broadcast(gal_comm *comm, uint32_t root, void *data, uint64_t byte_count, double deadline_seconds,
                            gal_error *err);
gal_code gal_comm_reduce_f64(gal_comm *comm, double *values, uint32_t count, uint32_t reduce, double deadline_seconds,
                             gal_error *err); /* all-reduce */
/* Rank root receives byte_count from each rank, in rank order, into `all` (world_size * byte_count); others: NULL. */
gal_code gal_comm_gather(gal_comm *comm, uint32_t root, const void *mine, uint64_t byte_count, void *all,
                         double deadline_seconds, gal_error *err);
/* All ranks agree on the worst (largest) code; the error text of the lowest rank that has it, prefixed "rank 3: ", goes
 * to all. */
gal_code gal_comm_agree(gal_comm *comm, gal_code mine, double deadline_seconds, gal_error *err);

#endif
