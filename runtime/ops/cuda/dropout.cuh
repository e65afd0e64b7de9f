/* Dropout by global index, as runtime/ops/ops.h defines it: the host's masks, bit by bit. */
#ifndef GAL_RUNTIME_OPS_CUDA_DROPOUT_CUH
#define GAL_RUNTIME_OPS_CUDA_DROPOUT_CUH

#include "runtime/ops/cuda/launch.cuh"

/* The four lanes of gal_philox. */
__device__ __forceinline__ uint4 gal_cuda_philox(uint64_t key, uint64_t quad, uint32_t site, uint32_t step)
{
    uint4 counter = make_uint4((uint32_t)quad, (uint32_t)(quad >> 32), site, step);
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const uint64_t product0 = (uint64_t)0xD2511F53U * counter.x;
        const uint64_t product1 = (uint64_t)0xCD9E8D57U * counter.z;
        counter = make_uint4((uint32_t)(product1 >> 32) ^ counter.y ^ key0, (uint32_t)product1,
                             (uint32_t)(product0 >> 32) ^ counter.w ^ key1, (uint32_t)product0);
        key0 += 0x9E3779B9U;
        key1 += 0xBB67AE85U;
    }
    return counter;
}

/* Of one call over local rows [position][sample] of `features`. */
struct gal_row_dropout {
    const gal_cuda_step *step;
    const uint32_t *sample_map;
    uint64_t longest_sequence, features;
    uint32_t position_begin, drop_max, site;
    float keep_scale;

    /* Factors of W features from `first` on, W of which 4 is a divisor only if it is of features and first. */
    template <int W>
    __device__ __forceinline__ gal_lanes<W> factors(uint32_t position, uint32_t sample, uint32_t first) const
    {
        const uint64_t row = (uint64_t)sample_map[sample] * longest_sequence + position_begin + position;
        const uint64_t index = row * features + first;
        gal_lanes<W> factor;
        if constexpr (W == 1) {
            const uint4 lanes = gal_cuda_philox(step->seed, index / 4, site, step->step);
            const uint32_t low = index % 2 == 0 ? lanes.x : lanes.y, high = index % 2 == 0 ? lanes.z : lanes.w;
            factor.x[0] = factor_of(index % 4 < 2 ? low : high);
        } else {
#pragma unroll
            for (int quad = 0; quad < W / 4; quad++) {
                const uint4 lanes = gal_cuda_philox(step->seed, index / 4 + (uint64_t)quad, site, step->step);
                factor.x[4 * quad] = factor_of(lanes.x);
                factor.x[4 * quad + 1] = factor_of(lanes.y);
                factor.x[4 * quad + 2] = factor_of(lanes.z);
                factor.x[4 * quad + 3] = factor_of(lanes.w);
            }
        }
        return factor;
    }

    __device__ __forceinline__ float factor_of(uint32_t lane) const
    {
        return lane > drop_max ? keep_scale : 0.0F;
    }
};

static inline bool gal_row_dropout_is_on(const gal_kernel_call *call, double probability)
{
    return call->step->training && probability > 0.0;
}

static inline gal_row_dropout gal_row_dropout_of(const gal_kernel_call *call, double probability, uint32_t features)
{
    gal_row_dropout dropout = {};
    dropout.step = (const gal_cuda_step *)call->device_step;
    dropout.sample_map = call->sample_map;
    dropout.longest_sequence = gal_model_longest_sequence(call->step->model);
    dropout.features = features;
    dropout.position_begin = call->position_begin;
    dropout.drop_max = (uint32_t)((uint64_t)ceil(probability * 4294967296.0) - 1U);
    dropout.site = 2U * call->block;
    dropout.keep_scale = (float)(1.0 / (1.0 - probability));
    return dropout;
}

#endif
