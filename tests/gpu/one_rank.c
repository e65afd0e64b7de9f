/* NCCL on one GPU, by the calls that galrun makes: non-blocking init, split, registration of memory, every collective,
 * a transfer to itself, capture and replays of a graph, abort, and init anew. Of one rank every collective is a copy,
 * so what arrives is known.
 *
 * Prints "ok NAME" or "not ok NAME: why"; exit 1 if one is not, 5 without a GPU. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "runtime/comm/nccl_internal.h"
#include "runtime/device/cuda/cuda.h"
#include "schemas/base/clock.h"

enum { ELEMENTS = 4099, REPLAYS = 3, SLOTS = 4, CTAS = 8 };

static const double deadline_seconds = 60.0;

typedef struct scene {
    gal_nccl_group world, split;
    gal_memory memory; /* SLOTS parts of a page each, fp32 */
    void *queue;
    void *registration;
} scene;

static const uint64_t slot_bytes = (ELEMENTS * sizeof(float) / 256 + 1) * 256;

/* ---- calls that are not done when they return ---- */

static gal_code settle(ncclComm_t comm, ncclResult_t result, const char *what, gal_error *err)
{
    const struct timespec nap = {0, 100000};
    const double begin_seconds = gal_now_seconds();
    while (result == ncclInProgress && gal_now_seconds() < begin_seconds + deadline_seconds) {
        ncclResult_t called = ncclCommGetAsyncError(comm, &result);
        result = called != ncclSuccess ? called : result;
        nanosleep(&nap, NULL);
    }
    return result == ncclInProgress ? gal_fail(err, GAL_ERR_DEVICE, "%s: not done after %.0f s", what, deadline_seconds)
                                    : gal_nccl_check(result, comm, what, err);
}

static gal_code drain(void *queue, gal_error *err)
{
    gal_code code = GAL_OK;
    void *event = NULL;
    bool reached = false;
    const double begin_seconds = gal_now_seconds();
    const gal_device_queue_ops *ops = gal_device_cuda.queue;
    GAL_TRY(ops->event_create(false, &event, err));
    GAL_TRY(ops->record(queue, event, err));
    while (!reached && gal_now_seconds() < begin_seconds + deadline_seconds) {
        GAL_TRY(ops->reached(event, &reached, err));
    }
    code = reached ? GAL_OK : gal_fail(err, GAL_ERR_DEVICE, "the queue is not done after %.0f s", deadline_seconds);
cleanup:
    if (event != NULL) {
        ops->event_destroy(event);
    }
    return code;
}

/* ---- numbers ---- */

static float value_of(uint32_t round, uint32_t i)
{
    return (float)(round * 10007 + i % 8191);
}

static void write_slot(const scene *at, uint32_t slot, uint32_t round)
{
    float values[ELEMENTS];
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        values[i] = value_of(round, i);
    }
    gal_device_cuda_registered.write(&at->memory, slot * slot_bytes, values, sizeof values);
}

static gal_code expect_slot(const scene *at, uint32_t slot, uint32_t round, gal_error *err)
{
    float values[ELEMENTS];
    gal_device_cuda_registered.read(&at->memory, slot * slot_bytes, values, sizeof values);
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        if (!(values[i] == value_of(round, i))) {
            return gal_fail(err, GAL_ERR_DEVICE, "slot %u, element %u: %g, expected %g", slot, i, (double)values[i],
                            (double)value_of(round, i));
        }
    }
    return GAL_OK;
}

static gal_comm_request request_of(const scene *at, gal_op op, uint32_t from, uint32_t to)
{
    char *base = at->memory.base;
    return (gal_comm_request){.op = op,
                              .dtype = GAL_FP32,
                              .reduce = GAL_REDUCE_SUM,
                              .elements = ELEMENTS,
                              .source = base + from * slot_bytes,
                              .target = base + to * slot_bytes,
                              .queue = at->queue};
}

static gal_code put(const scene *at, gal_op op, uint32_t from, uint32_t to, gal_error *err)
{
    const gal_comm_request request = request_of(at, op, from, to);
    return settle(at->split.comm, gal_nccl_put(&at->split, &request), gal_op_names[op], err);
}

/* ---- steps; each stands on those before ---- */

static gal_code init(scene *at, gal_error *err)
{
    gal_code code = GAL_OK;
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.minCTAs = config.maxCTAs = CTAS;
    GAL_NCCL_TRY(ncclGetUniqueId(&id), NULL, "ncclGetUniqueId");
    const ncclResult_t result = ncclCommInitRankConfig(&at->world.comm, 1, id, 0, &config);
    GAL_TRY(settle(at->world.comm, result, "ncclCommInitRankConfig", err));
    at->world.rank_count = 1;
cleanup:
    return code;
}

static gal_code split(scene *at, gal_error *err)
{
    gal_code code = GAL_OK;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.minCTAs = config.maxCTAs = CTAS;
    const ncclResult_t result = ncclCommSplit(at->world.comm, 0, 0, &at->split.comm, &config);
    GAL_TRY(settle(at->world.comm, result, "ncclCommSplit", err));
    GAL_TRY(settle(at->split.comm, ncclInProgress, "ncclCommSplit", err));
    at->split.rank_count = 1;
cleanup:
    return code;
}

static gal_code register_memory(scene *at, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(gal_device_cuda_registered.allocate(SLOTS * slot_bytes, true, &at->memory, err));
    GAL_TRY(gal_device_cuda.queue->create(true, &at->queue, err));
    const ncclResult_t result = ncclCommRegister(at->split.comm, at->memory.base, at->memory.bytes, &at->registration);
    GAL_TRY(settle(at->split.comm, result, "ncclCommRegister", err));
cleanup:
    return code;
}

static gal_code collectives(scene *at, gal_error *err)
{
    gal_code code = GAL_OK;
    write_slot(at, 0, 1);
    GAL_TRY(put(at, GAL_OP_ALL_REDUCE, 0, 0, err));
    GAL_TRY(put(at, GAL_OP_ALL_GATHER, 0, 1, err));
    GAL_TRY(put(at, GAL_OP_REDUCE_SCATTER, 1, 2, err));
    GAL_TRY(put(at, GAL_OP_ALL_TO_ALL, 2, 3, err));
    GAL_TRY(drain(at->queue, err));
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        GAL_TRY(expect_slot(at, slot, 1, err));
    }
cleanup:
    return code;
}

static gal_code capture_and_replay(scene *at, gal_error *err)
{
    gal_code code = GAL_OK;
    void *graph = NULL;
    const gal_device_queue_ops *ops = gal_device_cuda.queue;
    GAL_TRY(ops->capture_begin(at->queue, err));
    GAL_TRY(put(at, GAL_OP_ALL_REDUCE, 0, 0, err));
    GAL_TRY(put(at, GAL_OP_ALL_GATHER, 0, 1, err));
    GAL_TRY(ops->capture_end(at->queue, &graph, err));
    for (uint32_t round = 2; round < 2 + REPLAYS; round++) {
        write_slot(at, 0, round);
        GAL_TRY(ops->graph_launch(graph, at->queue, err));
        GAL_TRY(drain(at->queue, err));
        GAL_TRY(expect_slot(at, 1, round, err));
    }
cleanup:
    if (graph != NULL) {
        ops->graph_destroy(graph);
    }
    return code;
}

/* Without waiting for what was queued, as the watchdog does. */
static gal_code abort_all(scene *at, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(put(at, GAL_OP_ALL_REDUCE, 0, 0, err));
    GAL_NCCL_TRY(ncclGroupStart(), NULL, "ncclGroupStart");
    (void)ncclCommAbort(at->split.comm);
    (void)ncclCommAbort(at->world.comm);
    const ncclResult_t ended = ncclGroupEnd();
    GAL_NCCL_TRY(gal_nccl_goes_on(ended) ? ncclSuccess : ended, NULL, "ncclCommAbort");
    GAL_TRY(drain(at->queue, err));
    at->world.comm = at->split.comm = NULL;
    GAL_TRY(init(at, err));
    GAL_TRY(settle(at->world.comm, ncclCommFinalize(at->world.comm), "ncclCommFinalize", err));
    GAL_NCCL_TRY(ncclCommDestroy(at->world.comm), NULL, "ncclCommDestroy");
cleanup:
    return code;
}

/* The communicator of a run whose plan has no groups. */
static gal_code pool(scene *at, gal_error *err)
{
    gal_code code = GAL_OK;
    (void)at;
    gal_comm *control = NULL, *comm = NULL;
    const gal_nccl_options options = {.ctas = CTAS, .deadline_seconds = deadline_seconds};
    GAL_TRY(gal_comm_mpi_create(0, NULL, 0, &control, err));
    GAL_TRY(gal_comm_nccl_create(control, &options, NULL, 0, &comm, err));
cleanup:
    gal_comm_free(comm);
    gal_comm_free(control);
    return code;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        gal_code (*run)(scene *at, gal_error *err);
    } steps[] = {{"init without blocking", init},
                 {"split", split},
                 {"registered memory", register_memory},
                 {"collectives", collectives},
                 {"capture and replay", capture_and_replay},
                 {"abort, and init anew", abort_all},
                 {"the communicator of a run", pool}};
    gal_error err = {.code = GAL_OK};
    scene at = {.queue = NULL};
    bool failed = false;
    if (gal_cuda_open(0, &err) != GAL_OK || gal_mpi_init(&argc, &argv, &err) != GAL_OK) {
        (void)fprintf(stderr, "one_rank: %s\n", err.text);
        return GAL_ERR_DEVICE;
    }
    for (uint32_t s = 0; s < sizeof steps / sizeof *steps && !failed; s++) {
        failed = steps[s].run(&at, &err) != GAL_OK;
        (void)printf("%s %s%s%s\n", failed ? "not ok" : "ok", steps[s].name, failed ? ": " : "", err.text);
        (void)fflush(stdout);
    }
    gal_mpi_finalize();
    return failed ? 1 : 0;
}
