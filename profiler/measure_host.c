/* The host beside a GPU: copies between the two, and Adam by a core. */
#include <string.h>

#include "profiler/fit.h"
#include "profiler/measure.h"

enum { SIZES = 6, ADAM_ELEMENTS = 1 << 22 };
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

static gal_code measure_direction(gal_bench *bench, void *target, const void *source, uint64_t bytes_max,
                                  gal_profile_copies *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_transfer transfer[SIZES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < SIZES; i++) {
        gal_timing timing;
        gal_copy_run run = {.bench = bench, .target = target, .source = source, .bytes = copy_first_bytes << (2 * i)};
        if (run.bytes > bytes_max) {
            break;
        }
        GAL_TRY(gal_bench_time(bench, gal_copy_repeat, &run, &timing, err));
        transfer[count++] = (gal_transfer){(double)run.bytes, timing.seconds};
    }
    if (count > 0) {
        gal_fit_link(transfer, count, &out->latency_seconds, &out->bytes_per_second);
    }
cleanup:
    return code;
}

gal_code gal_measure_copies(gal_bench *bench, const gal_pools *pools, gal_profile_gpu *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_device_queue_ops *queue = bench->backend->device->queue;
    const uint64_t largest = copy_first_bytes << (2 * (SIZES - 1));
    const uint64_t bytes = pools->settings.bytes < largest ? pools->settings.bytes : largest;
    void *pinned = NULL;
    code = queue->host_allocate(bytes, &pinned, err);
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    memset(pinned, 0, bytes); /* its pages are there, whoever made them */
    GAL_TRY(measure_direction(bench, pools->written.base, pinned, bytes, &out->to_device, err));
    GAL_TRY(measure_direction(bench, pinned, pools->normal.base, bytes, &out->from_device, err));
cleanup:
    if (pinned != NULL) {
        queue->host_release(pinned);
    }
    return code;
}

/* Each rank by its own core, all at once. */
gal_code gal_measure_host_adam(const gal_bench *bench, const gal_model *model, double *elements_per_second,
                               gal_error *err)
{
    gal_code code = GAL_OK;
    gal_bench host = {.world = bench->world,
                      .backend = &gal_backend_host,
                      .stop = bench->stop,
                      .begin_seconds = bench->begin_seconds};
    gal_pools pools = {0};
    gal_operator_run run;
    gal_timing timing;
    const uint64_t bytes = (uint64_t)ADAM_ELEMENTS * sizeof(float);
    const gal_candidate_operator adam = {
        .shape = {.op = GAL_OP_ADAM, .dtype = GAL_FP32, .dims = {ADAM_ELEMENTS, ADAM_ELEMENTS}},
        .model = model,
        .group_count = 1,
        .operand_count = 5,
        .operand_bytes = {bytes, bytes, bytes, bytes, 2 * sizeof(double)},
        .access = {GAL_UPDATE, GAL_READ, GAL_UPDATE, GAL_UPDATE, GAL_READ}};
    const gal_pool_settings settings = {
        .dtype = GAL_FP32, .bytes = gal_operator_bytes(&adam, 0), .token_bytes = GAL_ALIGNMENT_BYTES, .vocabulary = 1};
    code = gal_pools_create(&host, &settings, &pools, err);
    if (code == GAL_OK) {
        code = gal_operator_prepare(&adam, &pools, &run, err);
    }
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    GAL_TRY(gal_bench_time(&host, gal_operator_repeat, &run, &timing, err));
    *elements_per_second = ADAM_ELEMENTS / timing.seconds;
cleanup:
    gal_pools_free(&pools);
    return code;
}
