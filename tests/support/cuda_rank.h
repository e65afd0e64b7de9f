/* One rank of a random plan on an engine on queues, against the double of the CUDA runtime; beside it a host that
 * updates nothing and communication of nobody. For tests that link cuda_double.c. Failures are assertions here. */
#ifndef GAL_TESTS_SUPPORT_CUDA_RANK_H
#define GAL_TESTS_SUPPORT_CUDA_RANK_H

#include "runtime/engine/engine.h"
#include "schemas/plan.h"

typedef struct gal_cuda_rank {
    gal_plan plan;
    gal_program *program;
    uint32_t device; /* number within the stage */
    gal_channels channels;
    gal_engine *engine;
} gal_cuda_rank;

/* The program of rank `number` of the plan that r has, on kernels of this type. */
void gal_cuda_rank_lower(uint32_t number, gal_dtype dtype, gal_cuda_rank *r);
/* Of the random plan of the seed for so many ranks, with offload as it falls. */
void gal_cuda_rank_open(uint64_t seed, uint32_t world, gal_dtype dtype, gal_cuda_rank *r);
void gal_cuda_rank_close(gal_cuda_rank *r);

/* The host updates nothing, but with gal_ops_queued_fp64, which compute. */
gal_engine_options gal_cuda_rank_options(const gal_cuda_rank *r, const gal_device_ops *device, const gal_ops *ops,
                                         gal_comm *comm);
void gal_cuda_rank_start(gal_cuda_rank *r, const gal_engine_options *options);
void gal_cuda_rank_run_on(gal_cuda_rank *r, const gal_device_ops *device, const gal_ops *ops, gal_comm *comm,
                          bool graphs);
gal_step_result gal_cuda_rank_step(gal_cuda_rank *r, uint64_t number);

/* By the host, of nothing. */
extern uint64_t gal_cuda_rank_updates;

/* Requests that are work on the queue; and those that the host carries out, which says when: their state is a
 * gal_slow_requests. */
extern const gal_comm_ops gal_nobody_queued, gal_nobody_slow;

enum { GAL_SLOW_SLOTS = 64 };
typedef struct gal_slow_requests {
    uint64_t random;
    void *queue[GAL_SLOW_SLOTS]; /* NULL: free */
    bool never;
} gal_slow_requests;

#endif
