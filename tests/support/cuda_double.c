#include "tests/support/cuda_double.h"

#include <cuda_runtime_api.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/random_plan.h"

enum { LAZY_MOVES = 3, EAGER_MOVES = 200 };

typedef enum item_kind { KIND_WORK, KIND_COPY, KIND_RECORD, KIND_WAIT, KIND_GRAPH } item_kind;

typedef struct work_item {
    item_kind kind;
    void (*work)(void *payload);
    unsigned char payload[GAL_DOUBLE_PAYLOAD_BYTES];
    void *target;
    const void *source;
    size_t bytes;
    size_t point;
    struct CUgraphExec_st *graph;
} work_item;

typedef struct item_list {
    work_item *item;
    size_t count, room;
} item_list;

typedef uint32_t clock_of[GAL_DOUBLE_STREAMS_MAX];

typedef struct work_log {
    gal_double_work *work;
    size_t count, room;
} work_log;

struct CUstream_st {
    uint32_t number;
    int priority;
    bool open;
    item_list list;
    size_t next;                /* item to be carried out */
    uint32_t work_count;        /* kernels and copies that it was given, since the log was cleared */
    clock_of clock;             /* the first so many of each stream come before what it is given next */
    struct CUgraph_st *capture; /* NULL: it is not captured. Else counts and clock are those within the capture */
    uint32_t saved_work_count;
    clock_of saved_clock;
};

struct CUevent_st {
    size_t point;               /* of the latest record; 0: there is none */
    clock_of clock;             /* of the latest record */
    struct CUgraph_st *capture; /* in which it was recorded last */
    bool open, timed;
};

/* Of a captured list the order is that in which the host issued it, which is one that the events allow. */
struct CUgraph_st {
    item_list list;
    work_log log;
    struct CUstream_st *origin;
    uint64_t joined; /* streams, as bits, that the capture has */
    uint32_t work_count[GAL_DOUBLE_STREAMS_MAX];
};

struct CUgraphExec_st {
    item_list list;
    work_log log;
    uint32_t work_count[GAL_DOUBLE_STREAMS_MAX];
    bool open;
};

static struct {
    uint64_t random;
    bool lazy;
    struct CUstream_st *stream[GAL_DOUBLE_STREAMS_MAX];
    uint32_t stream_count;
    gal_double_counts counts;
    work_log log;
    /* [point]: one for every record: 0 not reached, else 1 more than what was done then. Waits mean the record before
     * them, whatever becomes of the event. */
    uint64_t *reached;
    uint64_t done; /* kernels and copies */
    bool clock_counts;
    size_t point_count, point_room;
    int devices, device;
    uint64_t calls, fail_at;
} cuda = {.devices = 1};

/* ---- bookkeeping ---- */

static bool fails_now(void)
{
    cuda.calls++;
    return cuda.fail_at != 0 && cuda.calls == cuda.fail_at;
}

static size_t new_point(void)
{
    if (cuda.point_count + 1 >= cuda.point_room) {
        cuda.point_room = cuda.point_room == 0 ? 256 : 2 * cuda.point_room;
        cuda.reached = realloc(cuda.reached, cuda.point_room * sizeof *cuda.reached);
        assert_non_null(cuda.reached);
    }
    cuda.reached[++cuda.point_count] = 0;
    return cuda.point_count;
}

static work_item *append(item_list *list, item_kind kind)
{
    if (list->count == list->room) {
        list->room = list->room == 0 ? 64 : 2 * list->room;
        list->item = realloc(list->item, list->room * sizeof *list->item);
        assert_non_null(list->item);
    }
    work_item *item = &list->item[list->count++];
    memset(item, 0, sizeof *item);
    item->kind = kind;
    return item;
}

void gal_cuda_double_reset(uint64_t seed, bool lazy)
{
    for (uint32_t s = 0; s < cuda.stream_count; s++) {
        free(cuda.stream[s]->list.item);
        free(cuda.stream[s]);
    }
    free(cuda.log.work);
    free(cuda.reached);
    memset(&cuda, 0, sizeof cuda);
    cuda.random = seed;
    cuda.lazy = lazy;
    cuda.devices = 1;
}

void gal_cuda_double_clock_counts(void)
{
    cuda.clock_counts = true;
}

gal_double_counts gal_cuda_double_counts(void)
{
    return cuda.counts;
}

bool gal_cuda_double_is_drained(void)
{
    for (uint32_t s = 0; s < cuda.stream_count; s++) {
        const item_list *list = &cuda.stream[s]->list;
        for (size_t i = cuda.stream[s]->next; i < list->count; i++) {
            if (list->item[i].kind != KIND_WAIT) {
                return false;
            }
        }
    }
    return true;
}

const gal_double_work *gal_cuda_double_log(size_t *count)
{
    *count = cuda.log.count;
    return cuda.log.work;
}

void gal_cuda_double_clear_log(void)
{
    cuda.log.count = 0;
    for (uint32_t s = 0; s < cuda.stream_count; s++) {
        cuda.stream[s]->work_count = 0;
        memset(cuda.stream[s]->clock, 0, sizeof cuda.stream[s]->clock);
    }
}

int gal_cuda_double_priority(uint32_t stream)
{
    return cuda.stream[stream]->priority;
}

void gal_cuda_double_set_devices(int count)
{
    cuda.devices = count;
}

void gal_cuda_double_fail_at(uint64_t call)
{
    cuda.calls = 0;
    cuda.fail_at = call;
}

/* ---- streams ---- */

static gal_double_work *new_work(work_log *log, uint32_t stream)
{
    if (log->count == log->room) {
        log->room = log->room == 0 ? 256 : 2 * log->room;
        log->work = realloc(log->work, log->room * sizeof *log->work);
        assert_non_null(log->work);
    }
    gal_double_work *work = &log->work[log->count++];
    work->stream = stream;
    return work;
}

/* What comes next on the stream comes after it, and after those before it only if they are known to. */
static void count_work(struct CUstream_st *stream)
{
    uint32_t *known = &stream->clock[stream->number];
    *known += *known == stream->work_count;
    stream->work_count++;
}

static void log_work(struct CUstream_st *stream)
{
    work_log *log = stream->capture != NULL ? &stream->capture->log : &cuda.log;
    memcpy(new_work(log, stream->number)->after, stream->clock, sizeof(clock_of));
    count_work(stream);
}

static item_list *list_of(struct CUstream_st *stream)
{
    assert_true(stream->open);
    return stream->capture != NULL ? &stream->capture->list : &stream->list;
}

void gal_cuda_double_launch(void *stream, void (*work)(void *payload), const void *payload, size_t payload_bytes)
{
    assert_true(payload_bytes <= GAL_DOUBLE_PAYLOAD_BYTES);
    work_item *item = append(list_of(stream), KIND_WORK);
    item->work = work;
    memcpy(item->payload, payload, payload_bytes);
    log_work(stream);
}

static void carry_out(work_item *item);

static bool is_ready(const work_item *item)
{
    return item->kind != KIND_WAIT || cuda.reached[item->point] != 0;
}

static void carry_out_list(const item_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        work_item copy = list->item[i];
        carry_out(&copy);
    }
}

static void carry_out(work_item *item)
{
    switch (item->kind) {
    case KIND_WORK:
        item->work(item->payload);
        cuda.done++;
        break;
    case KIND_COPY:
        memmove(item->target, item->source, item->bytes);
        cuda.done++;
        break;
    case KIND_RECORD:
        cuda.reached[item->point] = 1 + cuda.done;
        break;
    case KIND_GRAPH:
        carry_out_list(&item->graph->list);
        break;
    case KIND_WAIT:
        break;
    }
}

/* The head of one of the streams that can move; false: none can. */
static bool move_one(void)
{
    if (cuda.stream_count == 0) {
        return false;
    }
    const uint32_t first = gal_random_below(&cuda.random, cuda.stream_count);
    for (uint32_t i = 0; i < cuda.stream_count; i++) {
        struct CUstream_st *stream = cuda.stream[(first + i) % cuda.stream_count];
        if (stream->next < stream->list.count && is_ready(&stream->list.item[stream->next])) {
            work_item copy = stream->list.item[stream->next++];
            carry_out(&copy);
            if (stream->next == stream->list.count) {
                stream->next = stream->list.count = 0;
            }
            return true;
        }
    }
    return false;
}

static void move_some(void)
{
    const uint32_t moves = gal_random_below(&cuda.random, cuda.lazy ? LAZY_MOVES : EAGER_MOVES);
    for (uint32_t i = 0; i < moves && move_one(); i++) {
    }
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned int flags, int priority)
{
    assert_int_equal(flags, cudaStreamNonBlocking);
    assert_true(cuda.stream_count < GAL_DOUBLE_STREAMS_MAX);
    if (fails_now()) {
        return cudaErrorMemoryAllocation;
    }
    struct CUstream_st *stream = calloc(1, sizeof *stream);
    assert_non_null(stream);
    stream->number = cuda.stream_count;
    stream->priority = priority;
    stream->open = true;
    cuda.stream[cuda.stream_count++] = stream;
    cuda.counts.streams++;
    cuda.counts.made++;
    *out = stream;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    assert_true(stream->open);
    while (move_one()) { /* what has been put on it is still carried out */
    }
    stream->open = false;
    cuda.counts.streams--;
    return cudaSuccess;
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned int flags)
{
    if (fails_now()) {
        return cudaErrorMemoryAllocation;
    }
    struct CUevent_st *event = calloc(1, sizeof *event);
    assert_non_null(event);
    event->open = true;
    event->timed = (flags & cudaEventDisableTiming) == 0;
    cuda.counts.events++;
    cuda.counts.made++;
    *out = event;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    assert_true(event->open);
    event->open = false;
    cuda.counts.events--;
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    assert_true(event->open && stream->open);
    if (fails_now()) {
        return cudaErrorLaunchFailure;
    }
    memcpy(event->clock, stream->clock, sizeof event->clock);
    event->capture = stream->capture;
    if (stream->capture == NULL) {
        event->point = new_point();
        append(&stream->list, KIND_RECORD)->point = event->point;
    }
    return cudaSuccess;
}

static void learn(struct CUstream_st *stream, const clock_of clock)
{
    for (uint32_t s = 0; s < GAL_DOUBLE_STREAMS_MAX; s++) {
        stream->clock[s] = clock[s] > stream->clock[s] ? clock[s] : stream->clock[s];
    }
}

static void enter_capture(struct CUstream_st *stream, struct CUgraph_st *capture)
{
    stream->capture = capture;
    stream->saved_work_count = stream->work_count;
    memcpy(stream->saved_clock, stream->clock, sizeof stream->clock);
    stream->work_count = 0;
    memset(stream->clock, 0, sizeof stream->clock);
    capture->joined |= UINT64_C(1) << stream->number;
}

static void leave_capture(struct CUstream_st *stream)
{
    stream->capture = NULL;
    stream->work_count = stream->saved_work_count;
    memcpy(stream->clock, stream->saved_clock, sizeof stream->clock);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    assert_true(event->open && stream->open);
    assert_int_equal(flags, cudaEventWaitDefault);
    if (fails_now()) {
        return cudaErrorLaunchFailure;
    }
    if (event->capture != NULL) {
        if (stream->capture == NULL) { /* it joins the capture */
            enter_capture(stream, event->capture);
        }
        assert_ptr_equal(stream->capture, event->capture);
        learn(stream, event->clock);
        return cudaSuccess;
    }
    learn(stream, event->clock);
    assert_null(stream->capture); /* cudaErrorStreamCaptureIsolation */
    assert_true(event->point > 0);
    append(&stream->list, KIND_WAIT)->point = event->point;
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    assert_true(event->open && event->capture == NULL);
    if (fails_now()) {
        return cudaErrorLaunchFailure;
    }
    move_some();
    return event->point == 0 || cuda.reached[event->point] != 0 ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end)
{
    assert_true(begin->timed && end->timed && cuda.reached[begin->point] != 0 && cuda.reached[end->point] != 0);
    *milliseconds = cuda.clock_counts ? (float)(cuda.reached[end->point] - cuda.reached[begin->point]) : 1.0f;
    return cudaSuccess;
}

/* ---- capture ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    assert_int_equal(mode, cudaStreamCaptureModeThreadLocal);
    assert_true(stream->open && stream->capture == NULL);
    struct CUgraph_st *capture = calloc(1, sizeof *capture);
    assert_non_null(capture);
    capture->origin = stream;
    enter_capture(stream, capture);
    return cudaSuccess;
}

/* What the streams that joined have done must be known to the origin. */
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    struct CUgraph_st *capture = stream->capture;
    assert_non_null(capture);
    assert_ptr_equal(capture->origin, stream);
    for (uint32_t s = 0; s < cuda.stream_count; s++) {
        if ((capture->joined >> s & 1u) != 0) {
            capture->work_count[s] = cuda.stream[s]->work_count;
            assert_int_equal(stream->clock[s], capture->work_count[s]);
        }
    }
    for (uint32_t s = 0; s < cuda.stream_count; s++) {
        if (cuda.stream[s]->capture == capture) {
            leave_capture(cuda.stream[s]);
        }
    }
    *graph = capture;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    assert_int_equal(flags, 0);
    if (fails_now()) {
        return cudaErrorMemoryAllocation;
    }
    struct CUgraphExec_st *executable = calloc(1, sizeof *executable);
    assert_non_null(executable);
    executable->list = graph->list;
    executable->log = graph->log;
    memcpy(executable->work_count, graph->work_count, sizeof graph->work_count);
    executable->open = true;
    memset(&graph->list, 0, sizeof graph->list);
    memset(&graph->log, 0, sizeof graph->log);
    cuda.counts.graphs++;
    cuda.counts.made++;
    *out = executable;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    free(graph->list.item);
    free(graph->log.work);
    free(graph);
    return cudaSuccess;
}

/* Of every stream whose work so far comes before the launch, the graph's counts go on from there; of others nothing is
 * known. The stream of the launch comes after all of it. */
static void log_graph(const struct CUgraphExec_st *graph, struct CUstream_st *stream)
{
    clock_of before;
    memcpy(before, stream->clock, sizeof before);
    for (size_t i = 0; i < graph->log.count; i++) {
        const gal_double_work *work = &graph->log.work[i];
        gal_double_work *now = new_work(&cuda.log, work->stream);
        for (uint32_t s = 0; s < cuda.stream_count; s++) {
            now->after[s] = before[s] + (before[s] == cuda.stream[s]->work_count ? work->after[s] : 0);
        }
    }
    for (uint32_t s = 0; s < cuda.stream_count; s++) {
        stream->clock[s] += before[s] == cuda.stream[s]->work_count ? graph->work_count[s] : 0;
        cuda.stream[s]->work_count += graph->work_count[s];
    }
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    assert_true(graph->open && stream->capture == NULL);
    if (fails_now()) {
        return cudaErrorLaunchFailure;
    }
    append(list_of(stream), KIND_GRAPH)->graph = graph;
    log_graph(graph, stream);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    assert_true(graph->open && gal_cuda_double_is_drained());
    free(graph->list.item);
    free(graph->log.work);
    free(graph);
    cuda.counts.graphs--;
    return cudaSuccess;
}

/* ---- memory ---- */

static cudaError_t allocate(void **out, size_t bytes, uint32_t *count)
{
    if (fails_now()) {
        return cudaErrorMemoryAllocation;
    }
    *out = aligned_alloc(256, (bytes + 255) / 256 * 256);
    assert_non_null(*out);
    memset(*out, 0xA5, bytes);
    ++*count;
    cuda.counts.made++;
    return cudaSuccess;
}

static cudaError_t release(void *memory, uint32_t *count)
{
    *count -= memory != NULL;
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    return allocate(out, bytes, &cuda.counts.allocations);
}

cudaError_t cudaFree(void *memory)
{
    return release(memory, &cuda.counts.allocations);
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    return allocate(out, bytes, &cuda.counts.pinned);
}

cudaError_t cudaFreeHost(void *memory)
{
    return release(memory, &cuda.counts.pinned);
}

/* Does not wait for streams, which do not wait for the default stream. */
cudaError_t cudaMemcpy(void *target, const void *source, size_t bytes, enum cudaMemcpyKind direction)
{
    (void)direction;
    memcpy(target, source, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *target, const void *source, size_t bytes, enum cudaMemcpyKind direction,
                            cudaStream_t stream)
{
    assert_int_equal(direction, cudaMemcpyDefault);
    if (fails_now()) {
        return cudaErrorLaunchFailure;
    }
    work_item *item = append(list_of(stream), KIND_COPY);
    item->target = target;
    item->source = source;
    item->bytes = bytes;
    log_work(stream);
    return cudaSuccess;
}

typedef struct host_function {
    cudaHostFn_t work;
    void *payload;
} host_function;

static void call_host(void *payload)
{
    const host_function *at = payload;
    at->work(at->payload);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t work, void *payload)
{
    if (fails_now()) {
        return cudaErrorLaunchFailure;
    }
    const host_function at = {work, payload};
    gal_cuda_double_launch(stream, call_host, &at, sizeof at);
    return cudaSuccess;
}

cudaError_t cudaMemset(void *memory, int value, size_t bytes)
{
    memset(memory, value, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = 1000;
    *total_bytes = 4000;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    while (move_one()) {
    }
    assert_true(gal_cuda_double_is_drained());
    return cudaSuccess;
}

/* ---- devices ---- */

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = cuda.devices > 0 ? cuda.devices : 0;
    return cuda.devices < 0 ? cudaErrorInsufficientDriver : cuda.devices == 0 ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    assert_in_range(device, 0, cuda.devices - 1);
    cuda.device = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = cuda.device;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = cuda.devices < 0 ? 0 : 13000;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    (void)device;
    memset(properties, 0, sizeof *properties);
    strcpy(properties->name, "GPU of tests");
    properties->major = 9;
    properties->totalGlobalMem = 4000;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t failure)
{
    return failure == cudaErrorMemoryAllocation ? "out of memory" : "unspecified launch failure";
}
