/* Global gradient norm, and Adam; as runtime/ops/host/optimizer.c. Moments and master weights are fp32 in every table,
 * and gradients, but where they lie in their weights' place. */
#include "runtime/ops/cuda/launch.cuh"
#include "runtime/ops/cuda/reduce.cuh"
#include "runtime/ops/cuda/workspace.h"

enum { THREADS = 256, TOTAL_THREADS = 512 };

static __global__ void start_kernel(const double *loss, double replicas, double *norm)
{
    norm[0] = 0.0;
    norm[1] = loss != nullptr ? loss[0] / replicas : 0.0;
}

template <class T> static gal_code norm_start(const gal_kernel_call *call, gal_error *err)
{
    const bool has_loss = call->operand_count == 2;
    return gal_launch(call, err, "norm_start", start_kernel, dim3(1), 1,
                      has_loss ? (const double *)call->operand[0] : nullptr, (double)call->dims[0],
                      (double *)call->operand[has_loss ? 1 : 0]);
}
GAL_CUDA_ENTRIES(norm_start)

/* ---- norm: squares and their sums in fp64, where fp32 numbers cannot overflow ---- */

template <int W> static __device__ __forceinline__ double squares_of(gal_lanes<W> x)
{
    double sum = 0.0;
#pragma unroll
    for (int j = 0; j < W; j++) {
        sum += (double)x.x[j] * (double)x.x[j];
    }
    return sum;
}

/* One sum per block: of accesses of W elements blockIdx, blockIdx + gridDim, ... blocks apart; the last elements, which
 * fill no access, go to the first block. */
template <class T, int W>
__global__ void __launch_bounds__(THREADS) squares_kernel(const T *x, uint32_t elements, double *parts)
{
    const uint64_t accesses = elements / W, stride = (uint64_t)gridDim.x * THREADS;
    uint64_t access = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    double sum = 0.0;
    for (; access + 3 * stride < accesses; access += 4 * stride) {
        gal_raw<T, W> raw[4];
#pragma unroll
        for (int u = 0; u < 4; u++) {
            raw[u] = gal_load<W>(x, access + (uint64_t)u * stride);
        }
#pragma unroll
        for (int u = 0; u < 4; u++) {
            sum += squares_of<W>(gal_unpack<T, W>(raw[u]));
        }
    }
    for (; access < accesses; access += stride) {
        sum += squares_of<W>(gal_unpack<T, W>(gal_load<W>(x, access)));
    }
    if (blockIdx.x == 0 && threadIdx.x < elements % W) {
        const double last = (double)gal_to_float(x[accesses * W + threadIdx.x]);
        sum += last * last;
    }
    sum = gal_reduce<gal_sum, THREADS>(sum);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
    }
}

/* The gradients of fp16 programs are scaled; the norm is not. */
static __global__ void __launch_bounds__(TOTAL_THREADS)
    squares_total_kernel(const double *parts, uint32_t part_count, double replicas, const gal_cuda_step *step,
                         double *norm)
{
    double sum = 0.0;
    for (uint32_t part = threadIdx.x; part < part_count; part += TOTAL_THREADS) {
        sum += parts[part];
    }
    sum = gal_reduce<gal_sum, TOTAL_THREADS>(sum);
    if (threadIdx.x == 0) {
        norm[0] += sum / (step->gradient_scale * step->gradient_scale) / replicas;
    }
}

template <class T> static gal_code sum_squares(const gal_kernel_call *call, gal_error *err)
{
    const T *x = (const T *)call->operand[0];
    const uint32_t parts = gal_cuda_square_parts(call->dims[0]);
    gal_code code = gal_need_workspace(call, GAL_OP_SUM_SQUARES, err);
    if (code == GAL_OK) {
        code = gal_launch(call, err, "sum_squares",
                          gal_is_aligned(x) ? squares_kernel<T, gal_wide<T>> : squares_kernel<T, 1>, dim3(parts),
                          THREADS, x, call->dims[0], (double *)call->workspace);
    }
    if (code == GAL_OK) {
        code = gal_launch(call, err, "sum_squares", squares_total_kernel, dim3(1), TOTAL_THREADS,
                          (const double *)call->workspace, parts, (double)call->dims[1],
                          (const gal_cuda_step *)call->device_step, (double *)call->operand[1]);
    }
    return code;
}
GAL_CUDA_ENTRIES(sum_squares)

/* ---- Adam ---- */

/* What a model fixes; the rest is in gal_cuda_step. */
struct adam_constants {
    float l2, beta1, beta2, rest1, rest2, epsilon;
    double clip_norm;  /* 0: off */
    uint64_t decaying; /* elements before this one decay */
};

struct adam_scalars {
    float clip, l2, decoupled_rate, corrected_rate, v_correction;
};

/* w (W of them, in fp32) by g, m, v; of elements of which only the first `decaying` decay. */
template <int W>
static __device__ __forceinline__ void adam_lanes(const adam_constants &at, const adam_scalars &a, int decaying,
                                                  gal_lanes<W> *w, const gal_lanes<W> &g, gal_lanes<W> *m,
                                                  gal_lanes<W> *v)
{
#pragma unroll
    for (int j = 0; j < W; j++) {
        const float l2 = j < decaying ? a.l2 : 0.0F, decay = j < decaying ? a.decoupled_rate : 0.0F;
        const float gradient = g.x[j] * a.clip + l2 * w->x[j];
        m->x[j] = at.beta1 * m->x[j] + at.rest1 * gradient;
        v->x[j] = at.beta2 * v->x[j] + at.rest2 * gradient * gradient;
        const float deviation = sqrtf(v->x[j]) * a.v_correction + at.epsilon;
        w->x[j] = (w->x[j] - decay * w->x[j]) - a.corrected_rate * m->x[j] / deviation;
    }
}

/* 4 fp32 elements are read and written at a time, and beside them 4 of T. */
template <class T, int W> static __device__ __forceinline__ void store_rounded(T *w, uint64_t index, gal_lanes<W> lanes)
{
    if constexpr (W == 1) {
        gal_from_float(lanes.x[0], w + index);
    } else if constexpr (sizeof(T) == sizeof(float)) {
        gal_store_floats<W>(w, index, lanes);
    } else {
        static_assert(sizeof(T) == 2 && W == 4, "8 bytes");
        uint2 bits;
        bits.x = gal_pack_word(lanes.x, (const T *)nullptr);
        bits.y = gal_pack_word(lanes.x + 2, (const T *)nullptr);
        reinterpret_cast<uint2 *>(w)[index] = bits;
    }
}

template <class T, int W> static __device__ __forceinline__ gal_lanes<W> load_rounded(const T *x, uint64_t index)
{
    if constexpr (sizeof(T) == sizeof(float)) {
        return gal_load_floats<W>(x, index);
    } else {
        gal_lanes<W> lanes;
        if constexpr (W == 1) {
            lanes.x[0] = gal_to_float(x[index]);
        } else {
            static_assert(W == 4, "8 bytes");
            const uint2 bits = reinterpret_cast<const uint2 *>(x)[index];
            gal_unpack_word(bits.x, lanes.x, (const T *)nullptr);
            gal_unpack_word(bits.y, lanes.x + 2, (const T *)nullptr);
        }
        return lanes;
    }
}

/* Where the weights are, and the gradients, G. */
enum adam_form {
    ALONE,   /* w holds the weights, in fp32 */
    MIXED,   /* master holds them, w is they rounded */
    IN_PLACE /* the same, and w has the gradient before: g is w */
};

template <class T, class G, int W, adam_form FORM> struct adam_arrays {
    T *w;
    const G *g;
    float *m, *v, *master; /* master: ALONE: w */

    __device__ __forceinline__ void update(const adam_constants &at, const adam_scalars &a, uint64_t index) const
    {
        const uint64_t first = index * W;
        const int decaying = first + W <= at.decaying ? W : first < at.decaying ? (int)(at.decaying - first) : 0;
        gal_lanes<W> weights = gal_load_floats<W>(master, index), m_lanes = gal_load_floats<W>(m, index);
        gal_lanes<W> v_lanes = gal_load_floats<W>(v, index);
        const gal_lanes<W> g_lanes = load_rounded<G, W>(g, index);
        adam_lanes<W>(at, a, decaying, &weights, g_lanes, &m_lanes, &v_lanes);
        gal_store_floats<W>(master, index, weights);
        gal_store_floats<W>(m, index, m_lanes);
        gal_store_floats<W>(v, index, v_lanes);
        if constexpr (FORM != ALONE) {
            store_rounded<T, W>(w, index, weights);
        }
    }

    /* The weights as they are, where a gradient lies. */
    __device__ __forceinline__ void put_back(uint64_t index) const
    {
        store_rounded<T, W>(w, index, gal_load_floats<W>(master, index));
    }
};

/* If the norm or the loss is not finite the step is skipped on every rank alike: nothing is written but weights where
 * gradients are. */
template <class T, class G, int W, adam_form FORM>
__global__ void __launch_bounds__(THREADS) adam_kernel(adam_arrays<T, G, W, FORM> arrays, adam_constants at,
                                                       uint64_t elements, const double *norm, const gal_cuda_step *step)
{
    __shared__ adam_scalars shared;
    __shared__ bool skips;
    if (threadIdx.x == 0) {
        double clip = 1.0;
        if (at.clip_norm > 0.0) {
            clip = at.clip_norm / (sqrt(norm[0]) + 1e-6);
            clip = clip > 1.0 ? 1.0 : clip;
        }
        shared = {(float)(clip / step->gradient_scale), at.l2, step->decoupled_rate, step->corrected_rate,
                  step->v_correction};
        skips = !(isfinite(norm[0]) && isfinite(norm[1]));
    }
    __syncthreads();
    if (FORM != IN_PLACE && skips) {
        return;
    }
    const adam_scalars a = shared;
    const bool updates = FORM != IN_PLACE || !skips;
    const uint64_t accesses = elements / W, stride = (uint64_t)gridDim.x * THREADS;
    const uint64_t thread = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    for (uint64_t index = thread; index < accesses; index += stride) {
        updates ? arrays.update(at, a, index) : arrays.put_back(index);
    }
    if constexpr (W > 1) {
        const adam_arrays<T, G, 1, FORM> rest = {arrays.w, arrays.g, arrays.m, arrays.v, arrays.master};
        if (thread < elements % W) {
            const uint64_t index = accesses * W + thread;
            updates ? rest.update(at, a, index) : rest.put_back(index);
        }
    }
}

static const uint64_t blocks_max = 132 * 8 * 4; /* each pays once for the clip: so several accesses per thread */

static uint32_t blocks_of(uint64_t accesses)
{
    const uint64_t wanted = gal_ceil_divide(accesses, THREADS);
    return (uint32_t)(wanted < blocks_max ? wanted : blocks_max);
}

template <class T, class G, int W, adam_form FORM>
static gal_code run_adam(const gal_kernel_call *call, gal_error *err, const adam_arrays<T, G, W, FORM> &arrays,
                         const double *norm)
{
    const gal_optimizer *optimizer = &call->step->model->optimizer;
    const uint64_t elements = call->dims[0], first = (uint64_t)call->group_index * elements;
    const adam_constants at = {
        (float)(optimizer->kind == GAL_OPTIMIZER_ADAMW ? 0.0 : optimizer->weight_decay),
        (float)optimizer->beta1,
        (float)optimizer->beta2,
        (float)(1.0 - optimizer->beta1),
        (float)(1.0 - optimizer->beta2),
        (float)optimizer->epsilon,
        optimizer->gradient_clip_norm,
        call->dims[1] > first ? call->dims[1] - first : 0,
    };
    return gal_launch(call, err, "adam", adam_kernel<T, G, W, FORM>, dim3(blocks_of(gal_ceil_divide(elements, W))),
                      THREADS, arrays, at, elements, norm, (const gal_cuda_step *)call->device_step);
}

/* All operands but the norm, of which two numbers are read. */
static bool all_aligned(const gal_kernel_call *call, uint32_t norm)
{
    bool wide = true;
    for (uint32_t o = 0; o < call->operand_count; o++) {
        wide = wide && (o == norm || gal_is_aligned(call->operand[o]));
    }
    return wide;
}

template <class T, int W, adam_form FORM> static gal_code adam_of(const gal_kernel_call *call, gal_error *err)
{
    void *const *operand = call->operand;
    const adam_arrays<T, float, W, FORM> arrays = {(T *)operand[0], (const float *)operand[1], (float *)operand[2],
                                                   (float *)operand[3], (float *)operand[FORM == ALONE ? 0 : 5]};
    return run_adam(call, err, arrays, (const double *)operand[4]);
}

/* fp32: five operands. bf16, fp16: six, the last one the master weights. */
template <class T> static gal_code adam(const gal_kernel_call *call, gal_error *err)
{
    constexpr adam_form form = sizeof(T) == 2 ? MIXED : ALONE;
    if (call->operand_count != (form == MIXED ? 6U : 5U)) {
        return gal_fail(err, GAL_ERR_DEVICE, "adam: %u operands", call->operand_count);
    }
    return (all_aligned(call, 4) ? adam_of<T, 4, form> : adam_of<T, 1, form>)(call, err);
}
GAL_CUDA_ENTRIES(adam)

template <class T, int W> static gal_code in_place_of(const gal_kernel_call *call, gal_error *err)
{
    void *const *operand = call->operand;
    const adam_arrays<T, T, W, IN_PLACE> arrays = {(T *)operand[0], (const T *)operand[0], (float *)operand[1],
                                                   (float *)operand[2], (float *)operand[4]};
    return run_adam(call, err, arrays, (const double *)operand[3]);
}

template <class T> static gal_code adam_in_place(const gal_kernel_call *call, gal_error *err)
{
    return (all_aligned(call, 3) ? in_place_of<T, 4> : in_place_of<T, 1>)(call, err);
}
GAL_CUDA_ENTRIES(adam_in_place)

/* ---- a gradient to where its weights were ---- */

template <class T, int W>
__global__ void __launch_bounds__(THREADS) keep_kernel(const float *gradient, uint64_t elements, T *place)
{
    const uint64_t accesses = elements / W, stride = (uint64_t)gridDim.x * THREADS;
    const uint64_t thread = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    for (uint64_t index = thread; index < accesses; index += stride) {
        store_rounded<T, W>(place, index, gal_load_floats<W>(gradient, index));
    }
    if (thread < elements % W) {
        gal_from_float(gradient[accesses * W + thread], place + accesses * W + thread);
    }
}

template <class T> static gal_code keep_gradient(const gal_kernel_call *call, gal_error *err)
{
    const bool wide = all_aligned(call, UINT32_MAX);
    const uint64_t elements = call->dims[0];
    return gal_launch(call, err, "keep_gradient", wide ? keep_kernel<T, 4> : keep_kernel<T, 1>,
                      dim3(blocks_of(gal_ceil_divide(elements, wide ? 4 : 1))), THREADS,
                      (const float *)call->operand[0], elements, (T *)call->operand[1]);
}
GAL_CUDA_ENTRIES(keep_gradient)
