#include "costmodel/analytic_kernel.h"

#include "costmodel/work.h"

/* What a document does not say: shares of the peaks that large kernels reach, and what a kernel costs at least. */
static const double default_gemm_fraction = 0.7;
static const double default_memory_fraction = 0.8;
static const double default_launch_seconds = 2e-6;

static double said_or(double said, double otherwise)
{
    return said > 0.0 ? said : otherwise;
}

static double longer(double a, double b)
{
    return a > b ? a : b;
}

static bool is_attention(const gal_shape *shape)
{
    return shape->op == GAL_OP_ATTENTION || shape->op == GAL_OP_ATTENTION_BACKWARD ||
           shape->op == GAL_OP_ATTENTION_STEP || shape->op == GAL_OP_ATTENTION_STEP_BACKWARD;
}

/* ---- processors ---- */

/* Shares of the peak. Half of a product's rate is lost at 64 in a dimension: a core's blocks are then half empty. */
static const double processor_attention_share = 0.4;
static const double processor_other_share = 0.1;
static const double processor_half_dimension = 64.0;

static double processor_flop_seconds(const gal_device *device, const gal_shape *shape, double flops)
{
    double share = processor_other_share;
    gal_dtype dtype = shape->dtype;
    if (shape->op == GAL_OP_GEMM) {
        share = said_or(device->gemm_fraction, default_gemm_fraction);
        for (uint32_t i = 0; i < 3; i++) {
            share *= (double)shape->dims[i] / ((double)shape->dims[i] + processor_half_dimension);
        }
    } else if (is_attention(shape)) {
        share = processor_attention_share;
    } else {
        dtype = gal_dtype_wide(dtype);
    }
    return flops / (gal_device_peak_flops_per_second(device, dtype, false) * share);
}

/* ---- products in tiles ---- */

enum { TILES = 6, SPLITS_MAX = 8 };

/* The longer side of the result takes the longer side of the tile. share: a tile loads rows + columns for rows x
 * columns of work, so its rate is taken as h / (h + 8), h = rows columns / (rows + columns), of the largest one's:
 * assumed. */
static const struct {
    uint32_t long_bits, short_bits; /* sides of 2^bits */
    double share;
} tiles_of[TILES] = {{8, 7, 1.0}, {7, 7, 0.972}, {7, 6, 0.921}, {6, 6, 0.875}, {6, 5, 0.795}, {6, 4, 0.673}};

/* Of k: two steps of 32 to fill the pipeline of a tile and to empty it. Assumed. */
static const uint64_t fill_depth = 64;

static uint64_t pieces(uint64_t count, uint32_t bits)
{
    return (count + (UINT64_C(1) << bits) - 1) >> bits;
}

/* Flops of the busiest multiprocessor at the best tile's rate, the least over tiles and splits; the sums of splits as
 * flops in the same time. */
static double busiest_flops(const gal_device *device, const gal_shape *shape, double flops_per_byte)
{
    const uint64_t m = shape->dims[0], n = shape->dims[1], k = shape->dims[2];
    const uint64_t longest = m > n ? m : n, shortest = m > n ? n : m;
    const uint64_t multiprocessors = device->multiprocessor_count;
    const double split_flops =
        2.0 * flops_per_byte * (double)(m * n) * (double)gal_dtype_bytes(gal_dtype_wide(shape->dtype));
    const double even_flops = 2.0 * (double)(m * n) * (double)k / (double)multiprocessors; /* no tile needs fewer */
    double least = -1.0;
    for (uint32_t t = 0; t < TILES; t++) {
        if (least >= 0.0 && even_flops >= least * tiles_of[t].share) {
            continue;
        }
        const uint64_t tiles = pieces(longest, tiles_of[t].long_bits) * pieces(shortest, tiles_of[t].short_bits);
        const double tile_flops =
            (double)(UINT64_C(2) << (tiles_of[t].long_bits + tiles_of[t].short_bits)) / tiles_of[t].share;
        const uint64_t waves = (tiles + multiprocessors - 1) / multiprocessors;
        const double whole = (double)waves * (double)(k + fill_depth) * tile_flops;
        least = least < 0.0 || whole < least ? whole : least;
        for (uint32_t bits = 1; tiles << bits <= multiprocessors && 1u << bits <= SPLITS_MAX; bits++) {
            const double split =
                (double)(pieces(k, bits) + fill_depth) * tile_flops + (double)(UINT64_C(1) << bits) * split_flops;
            least = split < least ? split : least;
        }
    }
    return least;
}

static double tiled_gemm_seconds(const gal_device *device, const gal_shape *shape, double memory_rate)
{
    const double rate = gal_device_peak_flops_per_second(device, shape->dtype, false) *
                        said_or(device->gemm_fraction, default_gemm_fraction) / (double)device->multiprocessor_count;
    return busiest_flops(device, shape, rate / memory_rate) / rate;
}

/* ---- attention in tiles ---- */

enum { ATTENTION_TILE_BITS = 7, ATTENTION_TILE = 1 << ATTENTION_TILE_BITS, HEAD_DIM_BITS = 5 };

/* Of what a product reaches: FlashAttention-2 section 4.1 has 73 % (forward) and 63 % (backward) of the A100's peak
 * where its products have some 85 %. */
static const double attention_share = 0.85, attention_backward_share = 0.73;

static double tiled_attention_seconds(const gal_device *device, const gal_shape *shape, double flops)
{
    const double fraction = said_or(device->gemm_fraction, default_gemm_fraction);
    const bool forward = shape->op == GAL_OP_ATTENTION || shape->op == GAL_OP_ATTENTION_STEP;
    const double share = forward ? attention_share : attention_backward_share;
    const double rate = gal_device_peak_flops_per_second(device, shape->dtype, false) * fraction * share;
    const double sequence = shape->dims[1], head_dim = shape->dims[3];
    const double heads = (double)shape->dims[0] * shape->dims[2];
    const double blocks = (double)pieces(shape->dims[1], ATTENTION_TILE_BITS);
    const double dims = (double)(pieces(shape->dims[3], HEAD_DIM_BITS) << HEAD_DIM_BITS);
    const double pairs = gal_attention_pairs(shape), queries = heads * sequence;
    const bool causal = gal_attention_has_diagonal(shape);
    /* the block on the diagonal is half masked; the last tile of queries may be part empty */
    const double met = (pairs + (causal ? queries * ATTENTION_TILE / 2 : 0.0)) * (blocks * ATTENTION_TILE / sequence);
    const double done = flops / pairs * (dims / head_dim) * met;
    const double longest = done / (heads * blocks) * (causal ? 2.0 * blocks / (blocks + 1.0) : 1.0);
    return longer(done / rate, longest * (double)device->multiprocessor_count / rate);
}

/* ---- all kernels ---- */

/* Of a GPU's peak, which counts multiply-adds: single operations, some of them on the slower special units. Assumed. Of
 * 16-bit values they are done in fp32. */
static const double other_share = 0.25;

static double flop_seconds(const gal_device *device, const gal_shape *shape, double flops, double memory_rate)
{
    if (!(flops > 0.0) || (is_attention(shape) && shape->dims[3] == 0)) {
        return 0.0; /* a block that stands beside an embedding of its strategy may have no head on a device */
    }
    if (device->multiprocessor_count == 0) {
        return processor_flop_seconds(device, shape, flops);
    }
    if (shape->op == GAL_OP_GEMM) {
        return tiled_gemm_seconds(device, shape, memory_rate);
    }
    if (is_attention(shape)) {
        return tiled_attention_seconds(device, shape, flops);
    }
    return flops / (gal_device_peak_flops_per_second(device, gal_dtype_wide(shape->dtype), false) * other_share);
}

double gal_kernel_analytic_seconds(const gal_device *device, const gal_shape *shape)
{
    const double memory_rate =
        device->memory_bytes_per_second * said_or(device->memory_fraction, default_memory_fraction);
    const double flops = gal_shape_flops(shape);
    return said_or(device->launch_seconds, default_launch_seconds) +
           longer(gal_shape_bytes(shape) / memory_rate, flop_seconds(device, shape, flops, memory_rate));
}
