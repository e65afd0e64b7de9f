/* NCCL: the requests of a program's channels on device memory, put on the device's streams.
 *
 * Communicators are made once: the world's, then one per channel by ncclCommSplit, in rounds that are the same on all
 * ranks (splits.h). They do not share resources (splitShare stays 0): those that share are one in flight at a time, so
 * a receive that waits for the stage before would stop the all-reduce that this stage needs to answer.
 *
 * Why one host thread that issues in the order of the program cannot deadlock:
 *   - All calls are non-blocking (config.blocking 0). A call that is not done is polled, with the deadline.
 *   - A call may wait on the host for its peers once, where connections are made. Those of transfers are made at
 *     creation, in the order of the rounds: the least round that is not done is the next one of both its ranks. The
 *     others belong to collectives within a stage, whose ranks have the same program and so the same order, or to the
 *     update, which comes after all transfers.
 *   - A channel carries transfers in one direction only (its streams say which), so no send waits behind a receive on
 *     the same stream, and sends and receives need no groups between them. An all-to-all is a group of its own.
 *   - On the device a stream has one kernel of NCCL at a time, of `ctas` blocks at most; kernels of compute end by
 *     themselves. So every head of a stream gets its multiprocessors if GAL_STREAM_COUNT - 1 times ctas are there.
 *
 * A watchdog thread polls the communicators' asynchronous errors and holds the deadline of a step (gal_comm_ops.watch)
 * for a host thread that is itself stuck in a call. On a fault it tells the first cause, aborts every communicator and
 * ends the process with GAL_ERR_DEVICE; the launcher then ends the other ranks.
 *
 * Source: NVIDIA, "NCCL User Guide", 2.28: "Creating a Communicator", "Fault Tolerance", "Using multiple NCCL
 * communicators concurrently", "User Buffer Registration". */
#ifndef GAL_RUNTIME_COMM_NCCL_H
#define GAL_RUNTIME_COMM_NCCL_H

#include "runtime/comm/comm.h"

typedef struct gal_nccl_options {
    uint32_t ctas;                  /* blocks (multiprocessors) of one operation, at most 64; 0: the library's choice */
    double deadline_seconds;        /* that a call waits for other ranks; > 0 */
    void (*tell)(const char *text); /* the one line that a rank says before the watchdog ends it; NULL: none */
} gal_nccl_options;

/* Collective over the control comm's world (of any table with control), which is borrowed and outlives *out; the
 * calling thread's current device is the rank's. channels: of this rank, each of two ranks or more. All ranks get the
 * same code, but where one finds the others gone: GAL_ERR_DEVICE, or the roll call of control ends all.
 * The result's table has no test (it is queued) and no control. Requests name a queue, a cudaStream_t. */
gal_code gal_comm_nccl_create(gal_comm *control, const gal_nccl_options *options, const gal_channel_spec *channels,
                              uint32_t channel_count, gal_comm **out, gal_error *err);

/* Device memory of ncclMemAlloc that requests lie in, so that the library moves it without staging copies. Channels
 * that say that all lies alike get a symmetric window of it, where the library (2.27) and the links have windows: its
 * collectives then read and write the other ranks' memory by offset. All ranks of the world do so, or none; once per
 * comm. To be withdrawn before the memory is released. */
gal_code gal_nccl_register(gal_comm *comm, void *base, uint64_t byte_count, gal_error *err);
void gal_nccl_unregister(gal_comm *comm); /* also where nothing is registered */

void gal_nccl_version(char *text, size_t capacity); /* "NCCL 2.28.9": of the library that runs */

#endif
