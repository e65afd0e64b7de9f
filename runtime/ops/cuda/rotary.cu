/* Rotary position embedding; as runtime/ops/host/rotary.c. A block turns the rows of one position and sample: its sines
 * are worked out once, for all heads. The frequencies come with the launch, from the host's pow: the angles are the
 * host's to the bit. */
#include "runtime/ops/cuda/launch.cuh"

enum { THREADS = 128, PAIRS = 128 }; /* pairs whose sines are kept at a time */

struct frequencies {
    double of[PAIRS];
};

template <class T> struct rotary_rows {
    T *x;
    uint32_t samples, heads, dim, row, first, pairs; /* pairs first ... first + pairs of each head */
    uint32_t position_begin;
    bool inverse;
};

/* An angle less the whole quarters of a turn in it, by which sine and cosine change places: what is left for fp32 is
 * within pi/4, and its rounding within 2^-25. */
static __device__ __forceinline__ void find_sine(double angle, float *cosine, float *sine)
{
    const double quarters = rint(angle * 0.63661977236758134308);
    const double rest = (angle - quarters * 1.5707963267948965580) - quarters * 6.1232339957367658860e-17;
    const int quarter = (int)(quarters - 4.0 * floor(quarters * 0.25));
    const float s = sinf((float)rest), c = cosf((float)rest);
    const float odd_sine = quarter % 2 == 0 ? s : c, odd_cosine = quarter % 2 == 0 ? c : s;
    *sine = quarter >= 2 ? -odd_sine : odd_sine;
    *cosine = quarter == 1 || quarter == 2 ? -odd_cosine : odd_cosine;
}

template <class T, int W>
__global__ void __launch_bounds__(THREADS) rotary_kernel(rotary_rows<T> at, frequencies frequency)
{
    __shared__ float cosine[PAIRS], sine[PAIRS];
    const uint32_t position = at.position_begin + blockIdx.x / at.samples;
    for (uint32_t i = threadIdx.x; i < at.pairs; i += THREADS) {
        float c, s;
        find_sine((double)position * frequency.of[i], &c, &s);
        cosine[i] = c;
        sine[i] = at.inverse ? -s : s;
    }
    __syncthreads();
    const uint32_t each = at.pairs / W, half = at.dim / 2;
    for (uint32_t item = threadIdx.x; item < at.heads * each; item += THREADS) {
        const uint32_t pair = item % each * W;
        T *head = at.x + (uint64_t)blockIdx.x * at.row + item / each * at.dim + at.first + pair;
        gal_lanes<W> a = gal_unpack<T, W>(gal_load<W>((const T *)head, 0));
        gal_lanes<W> b = gal_unpack<T, W>(gal_load<W>((const T *)head + half, 0));
#pragma unroll
        for (int j = 0; j < W; j++) {
            const float c = cosine[pair + (uint32_t)j], s = sine[pair + (uint32_t)j];
            const float turned = a.x[j] * c - b.x[j] * s;
            b.x[j] = b.x[j] * c + a.x[j] * s;
            a.x[j] = turned;
        }
        gal_store<W>(head, 0, gal_pack<T, W>(a));
        gal_store<W>(head + half, 0, gal_pack<T, W>(b));
    }
}

/* schemas/model.h, gal_rotary_scaling. */
static double scale_frequency(const gal_rotary_scaling *scaling, double frequency)
{
    const double turn_radians = 6.283185307179586;
    if (scaling->kind == GAL_ROTARY_SCALING_NONE) {
        return frequency;
    }
    double kept = 0.0; /* share of the frequency as it was */
    if (scaling->kind == GAL_ROTARY_SCALING_LLAMA3) {
        const double turns = scaling->original_positions * frequency / turn_radians;
        kept =
            (turns - scaling->low_frequency_factor) / (scaling->high_frequency_factor - scaling->low_frequency_factor);
        kept = fmin(fmax(kept, 0.0), 1.0);
    }
    return kept * frequency + (1.0 - kept) * frequency / scaling->factor;
}

template <class T> static gal_code rotary(const gal_kernel_call *call, gal_error *err)
{
    constexpr uint32_t W = gal_wide<T>;
    const gal_model *model = call->step->model;
    const uint32_t half = call->dims[3] / 2;
    gal_code code = GAL_OK;
    rotary_rows<T> at = {};
    at.x = (T *)call->operand[0];
    at.samples = call->dims[0];
    at.heads = call->dims[2];
    at.dim = call->dims[3];
    at.row = call->dims[4];
    at.inverse = call->dims[5] != 0;
    at.position_begin = call->position_begin;
    const bool wide = half % W == 0 && at.row % W == 0 && gal_is_aligned(at.x);
    for (at.first = 0; at.first < half && code == GAL_OK; at.first += PAIRS) {
        frequencies frequency;
        at.pairs = half - at.first < PAIRS ? half - at.first : (uint32_t)PAIRS;
        for (uint32_t i = 0; i < PAIRS; i++) {
            frequency.of[i] =
                scale_frequency(&model->rotary_scaling, pow(model->rotary_base, -(double)(at.first + i) / half));
        }
        code = gal_launch(call, err, "rotary", wide ? rotary_kernel<T, W> : rotary_kernel<T, 1>,
                          dim3(call->dims[0] * call->dims[1]), THREADS, at, frequency);
    }
    return code;
}
GAL_CUDA_ENTRIES(rotary)
