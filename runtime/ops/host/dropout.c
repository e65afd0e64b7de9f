/* Dropout factors by global index, as runtime/ops/ops.h defines them. */
#include "runtime/ops/host/kernels.h"

gal_dropout gal_dropout_of(const gal_kernel_call *call, double probability, uint32_t site)
{
    gal_dropout dropout = {.active = false};
    if (call->step->training && probability > 0.0) {
        dropout.active = true;
        dropout.drop_max = (uint32_t)((uint64_t)ceil(probability * 0x1p32) - 1U);
        dropout.keep_scale = (gal_real)(1.0 / (1.0 - probability));
        dropout.key = call->step->seed;
        dropout.site = 2U * call->block + site;
        dropout.step = (uint32_t)call->step->step;
    }
    return dropout;
}

GAL_VECTOR
static void select_factors(const uint32_t *lanes, uint32_t drop_max, gal_real keep_scale, size_t count,
                           gal_real *factor)
{
    for (size_t i = 0; i < count; i++) {
        factor[i] = lanes[i] > drop_max ? keep_scale : (gal_real)0;
    }
}

void gal_dropout_factors(const gal_dropout *dropout, uint64_t first_index, size_t count, gal_real *factor)
{
    uint32_t lanes[GAL_DROPOUT_CHUNK + 8];
    const size_t skipped = (size_t)(first_index % 4);
    GAL_ASSERT(count <= GAL_DROPOUT_CHUNK);
    gal_philox_many(dropout->key, first_index / 4, dropout->site, dropout->step, (skipped + count + 3) / 4, lanes);
    select_factors(lanes + skipped, dropout->drop_max, dropout->keep_scale, count, factor);
}

GAL_VECTOR
static void multiply(const gal_real *from, const gal_real *factor, size_t count, gal_real *to)
{
    for (size_t j = 0; j < count; j++) {
        to[j] = from[j] * factor[j];
    }
}

void gal_dropout_apply_row(const gal_dropout *dropout, uint64_t first_index, size_t count, const gal_real *from,
                           gal_real *to)
{
    gal_real factor[GAL_DROPOUT_CHUNK];
    for (size_t j = 0; j < count; j += GAL_DROPOUT_CHUNK) {
        const size_t span = count - j < GAL_DROPOUT_CHUNK ? count - j : GAL_DROPOUT_CHUNK;
        gal_dropout_factors(dropout, first_index + j, span, factor);
        multiply(from + j, factor, span, to + j);
    }
}
