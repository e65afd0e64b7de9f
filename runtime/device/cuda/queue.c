/* Queues are streams. None waits for the default stream, nor it for them: the host settles what comes before a step and
 * after it. */
#include "runtime/device/cuda/api.h"

static gal_code queue_create(bool urgent, void **queue, gal_error *err)
{
    gal_code code = GAL_OK;
    int least = 0, greatest = 0; /* the greatest priority is the smallest number */
    cudaStream_t stream;
    GAL_CUDA_TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    GAL_CUDA_TRY(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, urgent ? greatest : least));
    *queue = stream;
cleanup:
    return code;
}

static void queue_destroy(void *queue)
{
    (void)cudaStreamDestroy(queue);
}

static gal_code event_create(bool timed, void **event, gal_error *err)
{
    gal_code code = GAL_OK;
    cudaEvent_t created;
    GAL_CUDA_TRY(cudaEventCreateWithFlags(&created, timed ? cudaEventDefault : cudaEventDisableTiming));
    *event = created;
cleanup:
    return code;
}

static void event_destroy(void *event)
{
    (void)cudaEventDestroy(event);
}

static gal_code event_record(void *queue, void *event, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_CUDA_TRY(cudaEventRecord(event, queue));
cleanup:
    return code;
}

static gal_code event_wait(void *queue, void *event, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_CUDA_TRY(cudaStreamWaitEvent(queue, event, cudaEventWaitDefault));
cleanup:
    return code;
}

static gal_code event_reached(void *event, bool *reached, gal_error *err)
{
    gal_code code = GAL_OK;
    const cudaError_t state = cudaEventQuery(event);
    *reached = state == cudaSuccess;
    if (state != cudaErrorNotReady) {
        GAL_CUDA_TRY(state);
    }
cleanup:
    return code;
}

static double event_seconds_between(void *begin, void *end)
{
    float milliseconds = 0.0f;
    (void)cudaEventElapsedTime(&milliseconds, begin, end);
    return (double)milliseconds * 1e-3;
}

static gal_code queue_copy(void *queue, void *target, const void *source, uint64_t byte_count, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_CUDA_TRY(cudaMemcpyAsync(target, source, byte_count, cudaMemcpyDefault, queue));
cleanup:
    return code;
}

static gal_code call_host(void *queue, void (*work)(void *payload), void *payload, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_CUDA_TRY(cudaLaunchHostFunc(queue, work, payload));
cleanup:
    return code;
}

static gal_code host_allocate(uint64_t bytes, void **out, gal_error *err)
{
    gal_code code = GAL_OK;
    const cudaError_t failure = cudaMallocHost(out, bytes);
    if (failure == cudaErrorMemoryAllocation) {
        return gal_fail(err, GAL_ERR_SYSTEM, "%llu bytes of pinned memory: %s", (unsigned long long)bytes,
                        cudaGetErrorString(failure));
    }
    GAL_CUDA_TRY(failure);
cleanup:
    return code;
}

static void host_release(void *memory)
{
    (void)cudaFreeHost(memory);
}

/* Thread-local: other threads of the process, such as one that watches communicators, may go on calling CUDA. */
static gal_code capture_begin(void *queue, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_CUDA_TRY(cudaStreamBeginCapture(queue, cudaStreamCaptureModeThreadLocal));
cleanup:
    return code;
}

static gal_code capture_end(void *queue, void **graph, gal_error *err)
{
    gal_code code = GAL_OK;
    cudaGraph_t noted = NULL;
    cudaGraphExec_t executable;
    GAL_CUDA_TRY(cudaStreamEndCapture(queue, &noted));
    GAL_CUDA_TRY(cudaGraphInstantiate(&executable, noted, 0));
    *graph = executable;
cleanup:
    if (noted != NULL) {
        (void)cudaGraphDestroy(noted);
    }
    return code;
}

static gal_code graph_launch(void *graph, void *queue, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_CUDA_TRY(cudaGraphLaunch(graph, queue));
cleanup:
    return code;
}

static void graph_destroy(void *graph)
{
    (void)cudaGraphExecDestroy(graph);
}

const gal_device_queue_ops gal_cuda_queues = {
    .create = queue_create,
    .destroy = queue_destroy,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .record = event_record,
    .wait = event_wait,
    .reached = event_reached,
    .seconds_between = event_seconds_between,
    .copy = queue_copy,
    .call_host = call_host,
    .host_allocate = host_allocate,
    .host_release = host_release,
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .graph_launch = graph_launch,
    .graph_destroy = graph_destroy,
};
