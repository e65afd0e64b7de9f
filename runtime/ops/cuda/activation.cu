/* Activations, and activations that gate a second half of the row. Formulas and sources: runtime/ops/host/activation.c;
 * arithmetic in fp32 (math.cuh). */
#include "runtime/ops/cuda/launch.cuh"
#include "runtime/ops/cuda/math.cuh"

/* of(u), and its derivative, for results of type T. */
template <int KIND, class T> struct curve;

/* u s(2a), s(2a) = e / (1 + e) with e = exp(-2|a|) where a < 0: no cancellation. */
template <class T> struct curve<GAL_ACTIVATION_GELU_TANH, T> {
    static constexpr float slope = 0.7978845608028653559F; /* sqrt(2/pi) */
    static constexpr float cubic = 0.044715F;

    static __device__ __forceinline__ float of(float u)
    {
        const float a = slope * (u + cubic * u * u * u);
        const float e = gal_exp<T>(-2.0F * fabsf(a));
        return u * gal_divide<T>(a < 0.0F ? e : 1.0F, 1.0F + e);
    }
    static __device__ __forceinline__ float derivative(float u)
    {
        const float a = slope * (u + cubic * u * u * u);
        const float e = gal_exp<T>(-2.0F * fabsf(a));
        const float reciprocal = gal_divide<T>(1.0F, 1.0F + e);
        const float s = (a < 0.0F ? e : 1.0F) * reciprocal;
        return s + 2.0F * u * (e * reciprocal * reciprocal) * (slope * (1.0F + 3.0F * cubic * u * u));
    }
};

template <class T> struct curve<GAL_ACTIVATION_GELU_ERF, T> {
    static constexpr float sqrt_half = 0.7071067811865475244F;
    static constexpr float density = 0.3989422804014326779F; /* 1 / sqrt(2 pi) */

    static __device__ __forceinline__ float of(float u)
    {
        return u * (0.5F * gal_erfc<T>(-u * sqrt_half));
    }
    static __device__ __forceinline__ float derivative(float u)
    {
        return 0.5F * gal_erfc<T>(-u * sqrt_half) + u * (density * gal_exp<T>(-0.5F * u * u));
    }
};

template <class T> struct curve<GAL_ACTIVATION_RELU, T> {
    static __device__ __forceinline__ float of(float u)
    {
        return u <= 0.0F ? 0.0F : u; /* NaN stays */
    }
    static __device__ __forceinline__ float derivative(float u)
    {
        return u > 0.0F ? 1.0F : 0.0F;
    }
};

template <class T> struct curve<GAL_ACTIVATION_SILU, T> {
    static __device__ __forceinline__ float of(float u)
    {
        const float e = gal_exp<T>(-fabsf(u));
        return u * gal_divide<T>(u < 0.0F ? e : 1.0F, 1.0F + e);
    }
    static __device__ __forceinline__ float derivative(float u)
    {
        const float e = gal_exp<T>(-fabsf(u));
        const float reciprocal = gal_divide<T>(1.0F, 1.0F + e);
        const float s = (u < 0.0F ? e : 1.0F) * reciprocal;
        return s + u * (e * reciprocal * reciprocal);
    }
};

/* d times the derivative; of relu, what d is not 0 times. */
template <int KIND, class T> static __device__ __forceinline__ float slope_times(float d, float u)
{
    if constexpr (KIND == GAL_ACTIVATION_RELU) {
        return u > 0.0F ? d : 0.0F;
    } else {
        return d * curve<KIND, T>::derivative(u);
    }
}

/* ---- plain ---- */

template <int KIND> struct plain {
    template <class T, int W> struct forward {
        const T *u;
        T *g;

        typedef gal_raw<T, W> loaded;

        __device__ __forceinline__ loaded load(uint64_t index) const
        {
            return gal_load<W>(u, index);
        }
        __device__ __forceinline__ void store(uint64_t index, loaded in) const
        {
            gal_lanes<W> x = gal_unpack<T, W>(in);
#pragma unroll
            for (int j = 0; j < W; j++) {
                x.x[j] = curve<KIND, T>::of(x.x[j]);
            }
            gal_store<W>(g, index, gal_pack<T, W>(x));
        }
    };

    template <class T, int W> struct backward {
        const T *dg, *u;
        T *du;

        struct loaded {
            gal_raw<T, W> dg, u;
        };

        __device__ __forceinline__ loaded load(uint64_t index) const
        {
            return {gal_load<W>(dg, index), gal_load<W>(u, index)};
        }
        __device__ __forceinline__ void store(uint64_t index, loaded in) const
        {
            const gal_lanes<W> x = gal_unpack<T, W>(in.u);
            gal_lanes<W> d = gal_unpack<T, W>(in.dg);
#pragma unroll
            for (int j = 0; j < W; j++) {
                d.x[j] = slope_times<KIND, T>(d.x[j], x.x[j]);
            }
            gal_store<W>(du, index, gal_pack<T, W>(d));
        }
    };
};

/* case by case: one instance of run<KIND> each */
#define EACH_ACTIVATION(kind, run)                                                                                     \
    switch ((gal_activation)(kind)) {                                                                                  \
    case GAL_ACTIVATION_GELU_TANH:                                                                                     \
        return run(GAL_ACTIVATION_GELU_TANH);                                                                          \
    case GAL_ACTIVATION_GELU_ERF:                                                                                      \
        return run(GAL_ACTIVATION_GELU_ERF);                                                                           \
    case GAL_ACTIVATION_RELU:                                                                                          \
        return run(GAL_ACTIVATION_RELU);                                                                               \
    case GAL_ACTIVATION_SILU:                                                                                          \
        return run(GAL_ACTIVATION_SILU);                                                                               \
    case GAL_ACTIVATION_COUNT:                                                                                         \
        break;                                                                                                         \
    }                                                                                                                  \
    return gal_fail(err, GAL_ERR_DEVICE, "activation %u is none", (unsigned)(kind))

template <class T> static gal_code activation(const gal_kernel_call *call, gal_error *err)
{
    const T *u = (const T *)call->operand[0];
    T *g = (T *)call->operand[1];
    const bool wide = gal_is_aligned(u) && gal_is_aligned(g);
#define RUN(kind) (gal_map_flat<plain<kind>::template forward, T>(call, err, "activation", call->dims[0], wide, u, g))
    EACH_ACTIVATION(call->dims[1], RUN);
#undef RUN
}
GAL_CUDA_ENTRIES(activation)

template <class T> static gal_code activation_backward(const gal_kernel_call *call, gal_error *err)
{
    const T *dg = (const T *)call->operand[0];
    const T *u = (const T *)call->operand[1];
    T *du = (T *)call->operand[2];
    const bool wide = gal_is_aligned(dg) && gal_is_aligned(u) && gal_is_aligned(du);
#define RUN(kind)                                                                                                      \
    (gal_map_flat<plain<kind>::template backward, T>(call, err, "activation_backward", call->dims[0], wide, dg, u, du))
    EACH_ACTIVATION(call->dims[1], RUN);
#undef RUN
}
GAL_CUDA_ENTRIES(activation_backward)

/* ---- gated: u[rows][2][features] ---- */

/* Index of the gate's access in u; the other half's is `row` accesses later. */
static __device__ __forceinline__ uint64_t gate_index(gal_divider row, uint64_t index)
{
    return index + (uint64_t)row.quotient((uint32_t)index) * row.divisor;
}

template <class T, int W, int KIND> struct gated_forward {
    const T *u;
    T *g;
    gal_divider row;

    struct loaded {
        gal_raw<T, W> gate, up;
    };

    __device__ __forceinline__ loaded load(uint64_t index) const
    {
        const uint64_t at = gate_index(row, index);
        return {gal_load<W>(u, at), gal_load<W>(u, at + row.divisor)};
    }
    __device__ __forceinline__ void store(uint64_t index, loaded in) const
    {
        gal_lanes<W> gate = gal_unpack<T, W>(in.gate);
        const gal_lanes<W> up = gal_unpack<T, W>(in.up);
#pragma unroll
        for (int j = 0; j < W; j++) {
            gate.x[j] = curve<KIND, T>::of(gate.x[j]) * up.x[j];
        }
        gal_store<W>(g, index, gal_pack<T, W>(gate));
    }
};

/* g = a(gate) up: d gate = a'(gate) (dg up), d up = dg a(gate). */
template <class T, int W, int KIND> struct gated_backward {
    const T *dg, *u;
    T *du;
    gal_divider row;

    struct loaded {
        gal_raw<T, W> dg, gate, up;
    };

    __device__ __forceinline__ loaded load(uint64_t index) const
    {
        const uint64_t at = gate_index(row, index);
        return {gal_load<W>(dg, index), gal_load<W>(u, at), gal_load<W>(u, at + row.divisor)};
    }
    __device__ __forceinline__ void store(uint64_t index, loaded in) const
    {
        const uint64_t at = gate_index(row, index);
        const gal_lanes<W> d = gal_unpack<T, W>(in.dg), gate = gal_unpack<T, W>(in.gate);
        const gal_lanes<W> up = gal_unpack<T, W>(in.up);
        gal_lanes<W> dgate, dup;
#pragma unroll
        for (int j = 0; j < W; j++) {
            dgate.x[j] = slope_times<KIND, T>(d.x[j] * up.x[j], gate.x[j]);
            dup.x[j] = d.x[j] * curve<KIND, T>::of(gate.x[j]);
        }
        gal_store<W>(du, at, gal_pack<T, W>(dgate));
        gal_store<W>(du, at + row.divisor, gal_pack<T, W>(dup));
    }
};

template <class T, int W, int KIND> static gal_code run_gated(const gal_kernel_call *call, gal_error *err)
{
    const uint64_t row = call->dims[1] / W;
    const gated_forward<T, W, KIND> f = {(const T *)call->operand[0], (T *)call->operand[1], gal_divider_of(row)};
    return gal_map_rows(call, err, "gated_activation", f, call->dims[0] * row);
}

template <class T, int W, int KIND> static gal_code run_gated_backward(const gal_kernel_call *call, gal_error *err)
{
    const uint64_t row = call->dims[1] / W;
    const gated_backward<T, W, KIND> f = {(const T *)call->operand[0], (const T *)call->operand[1],
                                          (T *)call->operand[2], gal_divider_of(row)};
    return gal_map_rows(call, err, "gated_activation_backward", f, call->dims[0] * row);
}

template <class T> static gal_code gated_activation(const gal_kernel_call *call, gal_error *err)
{
    const bool wide = gal_rows_are_wide<T>(call->dims[1], call->operand[0], call->operand[1]);
#define RUN(kind) ((wide ? run_gated<T, gal_wide<T>, kind> : run_gated<T, 1, kind>)(call, err))
    EACH_ACTIVATION(call->dims[2], RUN);
#undef RUN
}
GAL_CUDA_ENTRIES(gated_activation)

template <class T> static gal_code gated_activation_backward(const gal_kernel_call *call, gal_error *err)
{
    const bool wide = gal_rows_are_wide<T>(call->dims[1], call->operand[0], call->operand[1], call->operand[2]);
#define RUN(kind) ((wide ? run_gated_backward<T, gal_wide<T>, kind> : run_gated_backward<T, 1, kind>)(call, err))
    EACH_ACTIVATION(call->dims[2], RUN);
#undef RUN
}
GAL_CUDA_ENTRIES(gated_activation_backward)
