/* Copies between the device and the host's memory, by NUMA node of the ranks. Of GPUs between them and pinned memory,
 * of ranks that are processors by galrun's own kernels, beyond the caches. */
#include <string.h>

#include "profiler/fit.h"
#include "profiler/measure.h"

enum { SIZES = 6 };
static const uint64_t copy_first_bytes = 65536; /* then times 4, to 64 MiB */

gal_code gal_copy_repeat(void *copy_run, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_copy_run *run = copy_run;
    const gal_bench *bench = run->bench;
    for (uint32_t i = 0; i < count; i++) {
        GAL_TRY(
            bench->backend->device->queue->copy(bench->queue[run->lane], run->target, run->source, run->bytes, err));
    }
cleanup:
    return code;
}

gal_code gal_host_copy_repeat(void *host_copy, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_host_copy *run = host_copy;
    const uint32_t dims[] = {(uint32_t)run->bytes, 1};
    for (uint32_t i = 0; i < count; i++) {
        run->next_byte = run->next_byte + 2 * run->bytes <= run->area_bytes ? run->next_byte + run->bytes : 0;
        const gal_kernel_call call = {.dims = dims,
                                      .operand = {run->source + run->next_byte, run->target + run->next_byte},
                                      .operand_count = 2,
                                      .group_count = 1};
        GAL_TRY(run->kernel(&call, err));
    }
cleanup:
    return code;
}

/* A rank that is on another node. */
static gal_code stand_by(void *context, uint32_t count, gal_error *err)
{
    (void)context;
    (void)count;
    (void)err;
    return GAL_OK;
}

/* What is copied; bytes of each. */
typedef struct direction {
    gal_op op;
    void *target;
    void *source;
    uint64_t bytes;
    bool stands_by;
} direction;

static gal_code time_copy(gal_bench *bench, const gal_pools *pools, const direction *at, uint64_t bytes,
                          gal_timing *timing, gal_error *err)
{
    gal_copy_run queued = {.bench = bench, .target = at->target, .source = at->source, .bytes = bytes};
    gal_host_copy direct = {.kernel = pools->ops->kernel[at->op],
                            .target = at->target,
                            .source = at->source,
                            .bytes = bytes,
                            .area_bytes = at->bytes};
    if (at->stands_by) {
        return gal_bench_time(bench, stand_by, NULL, timing, err);
    }
    return bench->backend->device->queue != NULL ? gal_bench_time(bench, gal_copy_repeat, &queued, timing, err)
                                                 : gal_bench_time(bench, gal_host_copy_repeat, &direct, timing, err);
}

static gal_code measure_direction(gal_bench *bench, const gal_pools *pools, const direction *at,
                                  gal_profile_copies *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_transfer transfer[SIZES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < SIZES; i++) {
        gal_timing timing;
        const uint64_t bytes = copy_first_bytes << (2 * i);
        if (bytes > at->bytes) {
            break;
        }
        GAL_TRY(time_copy(bench, pools, at, bytes, &timing, err));
        transfer[count++] = (gal_transfer){(double)bytes, timing.seconds};
    }
    gal_fit_link(transfer, count, &out->latency_seconds, &out->bytes_per_second);
cleanup:
    return code;
}

gal_code gal_measure_copies(gal_bench *bench, const gal_pools *pools, uint32_t own_node, gal_profile_host *out,
                            gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_device_queue_ops *queue = bench->backend->device->queue;
    const uint64_t largest = copy_first_bytes << (2 * (SIZES - 1));
    const uint64_t bytes = pools->settings.bytes < largest ? pools->settings.bytes : largest;
    void *pinned = NULL;
    code = queue != NULL ? queue->host_allocate(bytes, &pinned, err) : GAL_OK;
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    if (pinned != NULL) {
        memset(pinned, 0, bytes); /* its pages are there, whoever made them */
    }
    for (uint32_t i = 0; i < out->node_count; i++) {
        gal_profile_node *node = &out->node[i];
        const bool stands_by = node->node != own_node;
        const direction in = {GAL_OP_COPY_IN, pools->written.base, pinned != NULL ? pinned : pools->normal.base, bytes,
                              stands_by},
                        out_of = {GAL_OP_COPY_OUT, pinned != NULL ? pinned : pools->written.base, pools->normal.base,
                                  bytes, stands_by};
        GAL_TRY(measure_direction(bench, pools, &in, &node->to_device, err));
        GAL_TRY(measure_direction(bench, pools, &out_of, &node->from_device, err));
    }
cleanup:
    if (pinned != NULL) {
        queue->host_release(pinned);
    }
    return code;
}
