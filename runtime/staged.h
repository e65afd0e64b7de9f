/* Communication of device memory through the host's: what a request reads is copied to pinned memory, another
 * communicator (MPI) carries the request out there, and the result is copied back, all in the order of the request's
 * queue. Slow, and works where NCCL does not: several ranks on one device.
 *
 * Types of 16 bits travel as fp32, in which they are also added up; the sum is rounded once, to nearest even. */
#ifndef GAL_RUNTIME_STAGED_H
#define GAL_RUNTIME_STAGED_H

#include "runtime/comm/comm.h"
#include "runtime/device/device.h"
#include "runtime/program/program.h"

typedef struct gal_staged_options {
    const gal_device_queue_ops *queue;
    const gal_channel_spec *channel; /* those that inner was made with; borrowed */
    uint32_t channel_count;
    const gal_program *program; /* of the largest requests; read only by create */
} gal_staged_options;

/* Takes inner over, also when it fails; it has no queues of its own. The result's table is not queued: a request is
 * complete when its result has been put on its queue. One request at a time on each of the program's streams.
 * GAL_ERR_SYSTEM without memory. */
gal_code gal_comm_staged_create(gal_comm *inner, const gal_staged_options *options, gal_comm **out, gal_error *err);

#endif
