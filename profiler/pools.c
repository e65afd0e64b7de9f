#include <stdlib.h>

#include "profiler/measure.h"
#include "runtime/narrow.h"

enum { DRAWN_ELEMENTS = 1 << 22 };

/* splitmix64. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static double uniform(uint64_t *state)
{
    return (double)(next_random(state) >> 11) * 0x1p-53;
}

/* Near enough to normal with deviation 1/2: twelve 5-bit digits summed, mean 0. */
static double normal(uint64_t *state)
{
    uint64_t bits = next_random(state);
    double sum = 0.0;
    for (int i = 0; i < 12; i++, bits >>= 5) {
        sum += (double)(bits & 31u) - 15.5;
    }
    return sum * (0.5 / 32.0);
}

static void put(gal_dtype dtype, void *at, uint64_t index, double value)
{
    switch (dtype) {
    case GAL_FP64:
        ((double *)at)[index] = value;
        break;
    case GAL_FP32:
        ((float *)at)[index] = (float)value;
        break;
    default:
        ((uint16_t *)at)[index] = gal_narrow((float)value, dtype);
    }
}

/* ---- filling ---- */

/* The first bytes, again and again. On a device with queues by copies there, each as long as all before. */
static gal_code put_repeated(const gal_bench *bench, const gal_memory *memory, const void *first, uint64_t first_bytes,
                             gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_device_ops *device = bench->backend->device;
    uint64_t done = first_bytes < memory->bytes ? first_bytes : memory->bytes;
    device->write(memory, 0, first, done);
    while (done < memory->bytes) {
        const uint64_t left = memory->bytes - done;
        if (device->queue == NULL) {
            device->write(memory, done, first, left < first_bytes ? left : first_bytes);
            done += left < first_bytes ? left : first_bytes;
            continue;
        }
        const uint64_t bytes = left < done ? left : done;
        GAL_TRY(
            device->queue->copy(bench->queue[GAL_LANE_COMPUTE], (char *)memory->base + done, memory->base, bytes, err));
        done += bytes;
    }
cleanup:
    return code;
}

static gal_code fill(gal_pools *pools, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_bench *bench = pools->bench;
    const gal_dtype dtype = pools->settings.dtype;
    uint64_t state = 1;
    const uint64_t elements = pools->settings.bytes / gal_dtype_bytes(dtype);
    const uint64_t drawn = elements < DRAWN_ELEMENTS ? elements : DRAWN_ELEMENTS;
    const uint64_t drawn_bytes = drawn * gal_dtype_bytes(dtype), token_bytes = pools->settings.token_bytes;
    char *area = malloc(drawn_bytes + drawn_bytes + token_bytes); /* normal, positive, tokens */
    if (area == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: random numbers");
    }
    for (uint64_t i = 0; i < drawn; i++) {
        put(dtype, area, i, normal(&state));
        put(dtype, area + drawn_bytes, i, 0.5 + uniform(&state));
    }
    int32_t *tokens = (int32_t *)(void *)(area + 2 * drawn_bytes);
    for (uint64_t i = 0; i < token_bytes / sizeof *tokens; i++) {
        tokens[i] = (int32_t)(next_random(&state) % pools->settings.vocabulary);
    }
    bench->backend->device->write(&pools->tokens, 0, tokens, token_bytes);
    GAL_TRY(put_repeated(bench, &pools->normal, area, drawn_bytes, err));
    GAL_TRY(put_repeated(bench, &pools->written, area, drawn_bytes, err));
    GAL_TRY(put_repeated(bench, &pools->positive, area + drawn_bytes, drawn_bytes, err));
    if (bench->backend->device->queue != NULL) {
        GAL_TRY(gal_bench_settle(bench, GAL_LANE_COMPUTE, err));
    }
cleanup:
    free(area);
    return code;
}

/* ---- pools ---- */

static gal_code create_samples(gal_pools *pools, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_device_ops *device = pools->bench->backend->device;
    const uint32_t count = pools->settings.samples_max;
    pools->host_samples = calloc((size_t)count + 1, sizeof *pools->host_samples);
    if (pools->host_samples == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: samples");
    }
    for (uint32_t i = 0; i < count; i++) {
        pools->host_samples[i] = i;
    }
    GAL_TRY(device->allocate(gal_align(((uint64_t)count + 1) * sizeof(uint32_t)), false, &pools->samples, err));
    device->write(&pools->samples, 0, pools->host_samples, count * sizeof(uint32_t));
cleanup:
    return code;
}

static gal_code create_queued(gal_pools *pools, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_device_ops *device = pools->bench->backend->device;
    const gal_kernel_choice choice = {.tf32 = pools->bench->tf32};
    GAL_TRY(pools->ops->queued->open(&choice, &pools->context, err));
    GAL_TRY(device->allocate(gal_align(pools->ops->queued->step_bytes), false, &pools->step, err));
    if (pools->settings.staging_bytes > 0) {
        GAL_TRY(device->queue->host_allocate(pools->settings.staging_bytes, &pools->staging, err));
    }
cleanup:
    return code;
}

gal_code gal_pools_create(const gal_bench *bench, const gal_pool_settings *settings, gal_pools *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_device_ops *device = bench->backend->device;
    *out = (gal_pools){.bench = bench, .settings = *settings, .ops = bench->backend->ops(settings->dtype)};
    GAL_ASSERT(out->ops != NULL);
    GAL_TRY(device->allocate(settings->bytes, false, &out->normal, err));
    GAL_TRY(device->allocate(settings->bytes, false, &out->positive, err));
    GAL_TRY(device->allocate(settings->bytes, false, &out->written, err));
    GAL_TRY(device->allocate(settings->token_bytes, false, &out->tokens, err));
    GAL_TRY(create_samples(out, err));
    if (device->queue != NULL) {
        GAL_TRY(create_queued(out, err));
    }
    GAL_TRY(fill(out, err));
cleanup:
    return code;
}

void gal_pools_free(gal_pools *pools)
{
    if (pools->bench == NULL) {
        return;
    }
    const gal_device_ops *device = pools->bench->backend->device;
    device->release(&pools->normal);
    device->release(&pools->positive);
    device->release(&pools->written);
    device->release(&pools->tokens);
    device->release(&pools->samples);
    device->release(&pools->step);
    for (uint32_t lane = 0; lane < GAL_LANE_COUNT; lane++) {
        device->release(&pools->workspace[lane]);
    }
    if (pools->context != NULL) {
        pools->ops->queued->close(pools->context);
    }
    if (pools->staging != NULL) {
        device->queue->host_release(pools->staging);
    }
    free(pools->host_samples);
    *pools = (gal_pools){0};
}

/* ---- loads ---- */

gal_code gal_random_tokens(void *context, const gal_token_request *request, int32_t *out, gal_error *err)
{
    const uint32_t vocabulary = *(const uint32_t *)context;
    (void)err;
    for (uint32_t s = 0; s < request->sample_count; s++) {
        uint64_t state = request->batch * UINT64_C(1000003) + request->samples[s];
        for (uint32_t i = 0; i < request->sequence_length; i++) {
            out[(uint64_t)s * request->sequence_length + i] = (int32_t)(next_random(&state) % vocabulary);
        }
    }
    return GAL_OK;
}

gal_code gal_whole_lengths(void *context, const gal_token_request *request, int32_t *out, gal_error *err)
{
    (void)context;
    (void)err;
    for (uint32_t s = 0; s < request->sample_count; s++) {
        out[s] = (int32_t)request->sequence_length;
    }
    return GAL_OK;
}

gal_code gal_many_targets(void *context, uint64_t batch, bool evaluation, uint64_t *out, gal_error *err)
{
    (void)context;
    (void)batch;
    (void)evaluation;
    (void)err;
    *out = UINT64_C(1) << 16;
    return GAL_OK;
}

gal_code gal_random_patches(void *context, const gal_patch_request *request, void *out, gal_error *err)
{
    const uint64_t entries = (uint64_t)request->sample_count * request->position_count * request->features;
    uint64_t state = request->batch * UINT64_C(1000003) + 1;
    (void)context;
    (void)err;
    for (uint64_t i = 0; i < entries; i++) {
        put(request->dtype, out, i, 2.0 * uniform(&state) - 1.0);
    }
    return GAL_OK;
}
