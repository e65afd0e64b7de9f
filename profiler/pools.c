#include <stdlib.h>
#include <string.h>

#include "profiler/measure.h"

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
    if (dtype == GAL_FP64) {
        ((double *)at)[index] = value;
    } else {
        ((float *)at)[index] = (float)value;
    }
}

/* Fills the rest with the first bytes, again and again. */
static void repeat(void *at, uint64_t first_bytes, uint64_t bytes)
{
    for (uint64_t done = first_bytes; done < bytes; done += first_bytes) {
        memcpy((char *)at + done, at, bytes - done < first_bytes ? bytes - done : first_bytes);
    }
}

gal_code gal_pools_create(gal_dtype dtype, uint64_t bytes, uint64_t token_bytes, uint32_t vocabulary, gal_pools *out,
                          gal_error *err)
{
    const uint64_t element_bytes = gal_dtype_bytes(dtype), elements = bytes / element_bytes;
    uint64_t state = 1;
    *out = (gal_pools){.dtype = dtype, .bytes = bytes, .token_bytes = token_bytes};
    out->normal = aligned_alloc(GAL_ALIGNMENT_BYTES, bytes);
    out->positive = aligned_alloc(GAL_ALIGNMENT_BYTES, bytes);
    out->written = aligned_alloc(GAL_ALIGNMENT_BYTES, bytes);
    out->tokens = aligned_alloc(GAL_ALIGNMENT_BYTES, token_bytes);
    if (out->normal == NULL || out->positive == NULL || out->written == NULL || out->tokens == NULL) {
        gal_pools_free(out);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: operands of %llu bytes", (unsigned long long)bytes);
    }
    const uint64_t drawn = elements < DRAWN_ELEMENTS ? elements : DRAWN_ELEMENTS;
    for (uint64_t i = 0; i < drawn; i++) {
        put(dtype, out->normal, i, normal(&state));
        put(dtype, out->positive, i, 0.5 + uniform(&state));
    }
    repeat(out->normal, drawn * element_bytes, bytes);
    repeat(out->positive, drawn * element_bytes, bytes);
    for (uint64_t i = 0; i < token_bytes / sizeof *out->tokens; i++) {
        out->tokens[i] = (int32_t)(next_random(&state) % vocabulary);
    }
    memcpy(out->written, out->normal, bytes);
    return GAL_OK;
}

void gal_pools_free(gal_pools *pools)
{
    free(pools->normal);
    free(pools->positive);
    free(pools->written);
    free(pools->tokens);
    *pools = (gal_pools){0};
}

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
