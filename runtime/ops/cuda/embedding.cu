/* Token, position and type embedding, class token; as runtime/ops/host/embedding.c. */
#include "runtime/ops/cuda/columns.cuh"
#include "runtime/ops/cuda/dropout.cuh"
#include "runtime/ops/cuda/workspace.h"

/* Tokens of rows [position][sample], and which rows of the table are this rank's. */
struct token_rows {
    const int32_t *tokens; /* [samples][sequence] */
    uint32_t samples, sequence, vocabulary_local;
    int64_t first_row;

    /* Row of the local table, or vocabulary_local. */
    __device__ __forceinline__ uint32_t of(uint32_t row) const
    {
        const int64_t id = tokens[(uint64_t)(row % samples) * sequence + row / samples];
        const int64_t local = id - first_row;
        return local >= 0 && local < (int64_t)vocabulary_local ? (uint32_t)local : vocabulary_local;
    }
};

static token_rows tokens_of(const gal_kernel_call *call)
{
    return {(const int32_t *)call->operand[0], call->dims[0], call->dims[1], call->dims[3],
            (int64_t)call->group_index * (int64_t)call->dims[3]};
}

template <class T, int W> struct embedded {
    token_rows tokens;
    const T *table;
    T *e;
    gal_divider row;

    typedef gal_raw<T, W> loaded;

    __device__ __forceinline__ loaded load(uint64_t index) const
    {
        uint32_t access;
        const uint32_t local = tokens.of(row.divide((uint32_t)index, &access));
        if (local == tokens.vocabulary_local) {
            const gal_lanes<W> zeros = {};
            return gal_pack<T, W>(zeros);
        }
        return gal_load<W>(table, (uint64_t)local * row.divisor + access);
    }
    __device__ __forceinline__ void store(uint64_t index, loaded in) const
    {
        gal_store<W>(e, index, in);
    }
};

template <class T, int W> static gal_code run_embed(const gal_kernel_call *call, gal_error *err)
{
    const uint64_t row = call->dims[2] / W;
    const embedded<T, W> f = {tokens_of(call), (const T *)call->operand[1], (T *)call->operand[2], gal_divider_of(row)};
    return gal_map_rows(call, err, "embed", f, (uint64_t)call->dims[0] * call->dims[1] * row);
}

template <class T> static gal_code embed(const gal_kernel_call *call, gal_error *err)
{
    const bool wide = gal_rows_are_wide<T>(call->dims[2], call->operand[1], call->operand[2]);
    return (wide ? run_embed<T, gal_wide<T>> : run_embed<T, 1>)(call, err);
}
GAL_CUDA_ENTRIES(embed)

/* ---- gradient of the table ----
 *
 * Rows of de are put in the order of their table row (equal ones in the order of the rows) and cut in pieces of 32. A
 * block adds a piece: a table row that lies within it is written; of one that goes on from the piece before, or into
 * the next, the sum is kept, and a last kernel adds those in their order. No sum depends on who comes first, and a
 * table row of many tokens is shared by many blocks. */

enum { ORDER_THREADS = 256, ORDER_ROWS = 32, ORDER_LINES = ORDER_THREADS / ORDER_ROWS, ORDER_TILE = 1024 };

/* Place of each row in the order: rows before it of the same key or less, and rows behind it of less. 8 threads share
 * the counting for one row. Quadratic, and a matter of microseconds: for 16,384 tokens 2^28 comparisons. */
static __global__ void __launch_bounds__(ORDER_THREADS)
    order_kernel(token_rows tokens, uint32_t rows, int32_t *order, int32_t *keys)
{
    __shared__ uint32_t tile[ORDER_TILE];
    __shared__ uint32_t counted[ORDER_LINES][ORDER_ROWS];
    const uint32_t lane = threadIdx.x % ORDER_ROWS, line = threadIdx.x / ORDER_ROWS;
    const uint32_t row = blockIdx.x * ORDER_ROWS + lane;
    const uint32_t key = row < rows ? tokens.of(row) : 0;
    uint32_t before = 0;
    for (uint32_t first = 0; first < rows; first += ORDER_TILE) {
        const uint32_t count = rows - first < ORDER_TILE ? rows - first : (uint32_t)ORDER_TILE;
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < count; i += ORDER_THREADS) {
            tile[i] = tokens.of(first + i);
        }
        __syncthreads();
        for (uint32_t i = line; i < count; i += ORDER_LINES) {
            before += tile[i] < key || (tile[i] == key && first + i < row) ? 1 : 0;
        }
    }
    counted[line][lane] = before;
    __syncthreads();
    if (line == 0 && row < rows) {
        for (uint32_t l = 1; l < ORDER_LINES; l++) {
            before += counted[l][lane];
        }
        order[before] = (int32_t)row;
        keys[before] = (int32_t)key;
    }
}

template <class T> struct table_slopes {
    const T *de;
    const int32_t *order, *keys;
    float *dtable;
    float *heads, *tails; /* [pieces][hidden]: of the table row that came from the piece before; that goes on */
    uint32_t rows, hidden, vocabulary_local;
    bool adds;

    template <int W> __device__ __forceinline__ void write(uint32_t table_row, uint32_t access, gal_lanes<W> sum) const
    {
        float *target = dtable + (uint64_t)table_row * hidden;
        if (adds) {
            const gal_lanes<W> old = gal_load_floats<W>(target, access);
#pragma unroll
            for (int j = 0; j < W; j++) {
                sum.x[j] += old.x[j];
            }
        }
        gal_store_floats<W>(target, access, sum);
    }
};

/* blockIdx.x a piece, a thread W columns. Of a piece that is all of one table row which goes on at both ends, the sum
 * is its head. */
template <class T, int W> __global__ void __launch_bounds__(128) piece_kernel(table_slopes<T> at)
{
    __shared__ int32_t order[GAL_CUDA_PIECE_TOKENS], keys[GAL_CUDA_PIECE_TOKENS + 2]; /* keys: one more at both ends */
    const uint32_t first = blockIdx.x * GAL_CUDA_PIECE_TOKENS;
    const uint32_t count = at.rows - first < GAL_CUDA_PIECE_TOKENS ? at.rows - first : (uint32_t)GAL_CUDA_PIECE_TOKENS;
    if (threadIdx.x < count) {
        order[threadIdx.x] = at.order[first + threadIdx.x];
    }
    if (threadIdx.x < count + 2) {
        const int64_t place = (int64_t)first + (int64_t)threadIdx.x - 1;
        keys[threadIdx.x] = place >= 0 && place < (int64_t)at.rows ? at.keys[place] : -1;
    }
    __syncthreads();
    const uint32_t access = blockIdx.y * 128 + threadIdx.x;
    if (access >= at.hidden / W) {
        return;
    }
    gal_lanes<W> sum = {};
    bool from_before = keys[0] == keys[1];
#pragma unroll 4
    for (uint32_t i = 0; i < count; i++) {
        const int32_t key = keys[i + 1];
        if (key == (int32_t)at.vocabulary_local) {
            break; /* the last keys: tokens of other ranks */
        }
        const gal_lanes<W> de = gal_unpack<T, W>(gal_load<W>(at.de + (uint64_t)(uint32_t)order[i] * at.hidden, access));
#pragma unroll
        for (int j = 0; j < W; j++) {
            sum.x[j] += de.x[j];
        }
        const bool ends = keys[i + 2] != key;
        if (from_before && (ends || i + 1 == count)) {
            gal_store_floats<W>(at.heads + (uint64_t)blockIdx.x * at.hidden, access, sum);
        } else if (ends) {
            at.template write<W>((uint32_t)key, access, sum);
        } else if (i + 1 == count) {
            gal_store_floats<W>(at.tails + (uint64_t)blockIdx.x * at.hidden, access, sum);
        }
        if (ends) {
            sum = {};
            from_before = false;
        }
    }
}

/* blockIdx.x a piece whose last table row begins in it and goes on: its tail, and the heads that belong to it. */
template <class T, int W> __global__ void __launch_bounds__(128) join_kernel(table_slopes<T> at)
{
    const uint32_t end = (blockIdx.x + 1) * GAL_CUDA_PIECE_TOKENS; /* not the last piece's */
    const int32_t key = at.keys[end - 1];
    const uint32_t first = end - GAL_CUDA_PIECE_TOKENS;
    const bool begins = at.keys[first] != key || first == 0 || at.keys[first - 1] != key;
    const uint32_t access = blockIdx.y * 128 + threadIdx.x;
    if (access >= at.hidden / W || key == (int32_t)at.vocabulary_local || at.keys[end] != key || !begins) {
        return;
    }
    gal_lanes<W> sum = gal_load_floats<W>(at.tails + (uint64_t)blockIdx.x * at.hidden, access);
    for (uint32_t piece = blockIdx.x + 1; piece * GAL_CUDA_PIECE_TOKENS < at.rows; piece++) {
        if (at.keys[piece * GAL_CUDA_PIECE_TOKENS] != key) {
            break;
        }
        const gal_lanes<W> head = gal_load_floats<W>(at.heads + (uint64_t)piece * at.hidden, access);
#pragma unroll
        for (int j = 0; j < W; j++) {
            sum.x[j] += head.x[j];
        }
    }
    at.template write<W>((uint32_t)key, access, sum);
}

template <class T, int W>
static gal_code run_pieces(const gal_kernel_call *call, gal_error *err, const table_slopes<T> &at)
{
    const uint32_t pieces = (uint32_t)gal_cuda_pieces(at.rows);
    const uint32_t columns = (uint32_t)gal_ceil_divide(at.hidden / W, 128);
    const gal_code code = gal_launch(call, err, "embed_backward", piece_kernel<T, W>, dim3(pieces, columns), 128, at);
    return code != GAL_OK
               ? code
               : gal_launch(call, err, "embed_backward", join_kernel<T, W>, dim3(pieces - 1, columns), 128, at);
}

template <class T> static gal_code embed_backward(const gal_kernel_call *call, gal_error *err)
{
    const uint64_t tokens = (uint64_t)call->dims[0] * call->dims[1];
    const uint32_t hidden = call->dims[2], rows = (uint32_t)tokens;
    int32_t *order = (int32_t *)call->workspace;
    float *heads = (float *)((char *)call->workspace + gal_cuda_order_bytes(tokens));
    const table_slopes<T> at = {(const T *)call->operand[1],
                                order,
                                order + tokens,
                                (float *)call->operand[2],
                                heads,
                                heads + gal_cuda_pieces(tokens) * hidden,
                                rows,
                                hidden,
                                call->dims[3],
                                call->add};
    gal_code code = gal_need_workspace(call, GAL_OP_EMBED_BACKWARD, err);
    if (code == GAL_OK && !call->add) {
        code = gal_cuda_code(
            cudaMemsetAsync(at.dtable, 0, (uint64_t)call->dims[3] * hidden * sizeof(float), (cudaStream_t)call->stream),
            "embed_backward", err);
    }
    if (code == GAL_OK) {
        code = gal_launch(call, err, "embed_backward", order_kernel, dim3((uint32_t)gal_ceil_divide(rows, ORDER_ROWS)),
                          ORDER_THREADS, tokens_of(call), rows, order, order + tokens);
    }
    if (code == GAL_OK) {
        const bool wide = gal_rows_are_wide<T>(hidden, at.de, at.dtable, at.heads);
        code = (wide ? run_pieces<T, gal_wide<T>> : run_pieces<T, 1>)(call, err, at);
    }
    return code;
}
GAL_CUDA_ENTRIES(embed_backward)

/* ---- positions ---- */

template <class T, int W, bool DROPS> struct placed {
    const T *e, *table, *type, *class_token; /* table from the first local position on; the last two may be NULL */
    T *y;
    gal_divider row, samples;
    gal_row_dropout dropout;

    typedef gal_raw<T, W> loaded;

    __device__ __forceinline__ loaded load(uint64_t index) const
    {
        return gal_load<W>(e, index);
    }
    __device__ __forceinline__ void store(uint64_t index, loaded in) const
    {
        uint32_t access, sample;
        const uint32_t position = samples.divide(row.divide((uint32_t)index, &access), &sample);
        if (class_token != nullptr && dropout.position_begin + position == 0) {
            in = gal_load<W>(class_token, access);
        }
        gal_lanes<W> sum = gal_unpack<T, W>(in);
        const gal_lanes<W> place = gal_unpack<T, W>(gal_load<W>(table, (uint64_t)position * row.divisor + access));
        gal_lanes<W> more = {};
        if (type != nullptr) {
            more = gal_unpack<T, W>(gal_load<W>(type, access));
        }
#pragma unroll
        for (int j = 0; j < W; j++) {
            sum.x[j] = sum.x[j] + place.x[j] + more.x[j];
        }
        if (DROPS) {
            const gal_lanes<W> factor = dropout.factors<W>(position, sample, access * W);
#pragma unroll
            for (int j = 0; j < W; j++) {
                sum.x[j] *= factor.x[j];
            }
        }
        gal_store<W>(y, index, gal_pack<T, W>(sum));
    }
};

template <class T, int W, bool DROPS> static gal_code run_position(const gal_kernel_call *call, gal_error *err)
{
    const uint64_t hidden = call->dims[2], row = hidden / W;
    const placed<T, W, DROPS> f = {(const T *)call->operand[0],
                                   (const T *)call->operand[1] + call->position_begin * hidden,
                                   call->dims[4] != 0 ? (const T *)call->operand[3] : nullptr,
                                   call->dims[5] != 0 ? (const T *)call->operand[3] : nullptr,
                                   (T *)call->operand[2],
                                   gal_divider_of(row),
                                   gal_divider_of(call->dims[0]),
                                   gal_row_dropout_of(call, call->step->model->embedding_dropout, call->dims[2])};
    return gal_map_rows(call, err, "position", f, (uint64_t)call->dims[0] * call->dims[1] * row);
}

template <class T> static gal_code position(const gal_kernel_call *call, gal_error *err)
{
    constexpr int W = gal_wide<T>;
    const void *more = call->dims[4] + call->dims[5] != 0 ? call->operand[3] : nullptr;
    const bool wide = gal_rows_are_wide<T>(call->dims[2], call->operand[0], call->operand[1], call->operand[2], more);
    if (gal_row_dropout_is_on(call, call->step->model->embedding_dropout)) {
        return (wide ? run_position<T, W, true> : run_position<T, 1, true>)(call, err);
    }
    return (wide ? run_position<T, W, false> : run_position<T, 1, false>)(call, err);
}
GAL_CUDA_ENTRIES(position)

/* Index over [position][features]: the samples of a position one after another. */
template <class T, int W, bool DROPS> struct placed_slopes {
    const T *dy;
    T *de;
    float *dtable; /* from the first local position on */
    float *dclass; /* NULL: none */
    float *sums;   /* [positions][hidden] of de, for the type; NULL: none */
    gal_divider row;
    uint32_t samples;
    bool adds;
    gal_row_dropout dropout;

    struct loaded {
    };

    __device__ __forceinline__ loaded load(uint64_t) const
    {
        return {};
    }
    __device__ __forceinline__ void add_to(float *target, uint64_t index, gal_lanes<W> sum) const
    {
        if (adds) {
            const gal_lanes<W> old = gal_load_floats<W>(target, index);
#pragma unroll
            for (int j = 0; j < W; j++) {
                sum.x[j] += old.x[j];
            }
        }
        gal_store_floats<W>(target, index, sum);
    }
    __device__ __forceinline__ void store(uint64_t index, loaded) const
    {
        uint32_t access;
        const uint32_t position = row.divide((uint32_t)index, &access);
        const bool is_class = dclass != nullptr && dropout.position_begin + position == 0;
        const gal_lanes<W> zeros = {};
        gal_lanes<W> sum = {};
        for (uint32_t sample = 0; sample < samples; sample++) {
            const uint64_t at = ((uint64_t)position * samples + sample) * row.divisor + access;
            gal_lanes<W> d = gal_unpack<T, W>(gal_load<W>(dy, at));
            if (DROPS) {
                const gal_lanes<W> factor = dropout.factors<W>(position, sample, access * W);
#pragma unroll
                for (int j = 0; j < W; j++) {
                    d.x[j] *= factor.x[j];
                }
            }
#pragma unroll
            for (int j = 0; j < W; j++) {
                sum.x[j] += d.x[j];
            }
            gal_store<W>(de, at, gal_pack<T, W>(is_class ? zeros : d));
        }
        add_to(dtable, index, sum);
        if (is_class) {
            add_to(dclass, access, sum);
        }
        if (sums != nullptr) {
            gal_store_floats<W>(sums, index, sum);
        }
    }
};

template <class T, int W, bool DROPS> static gal_code run_position_backward(const gal_kernel_call *call, gal_error *err)
{
    const uint64_t hidden = call->dims[2], row = hidden / W;
    const placed_slopes<T, W, DROPS> f = {
        (const T *)call->operand[0],
        (T *)call->operand[1],
        (float *)call->operand[2] + call->position_begin * hidden,
        call->dims[5] != 0 ? (float *)call->operand[3] : nullptr,
        call->dims[4] != 0 ? (float *)call->workspace : nullptr,
        gal_divider_of(row),
        call->dims[0],
        call->add,
        gal_row_dropout_of(call, call->step->model->embedding_dropout, call->dims[2])};
    return gal_map_rows<1>(call, err, "position_backward", f, call->dims[1] * row);
}

template <class T> static gal_code run_position_slopes(const gal_kernel_call *call, gal_error *err)
{
    constexpr int W = gal_wide<T>;
    const void *more = call->dims[5] != 0 ? call->operand[3] : nullptr;
    const bool wide = gal_rows_are_wide<T>(call->dims[2], call->operand[0], call->operand[1], call->operand[2], more);
    if (gal_row_dropout_is_on(call, call->step->model->embedding_dropout)) {
        return (wide ? run_position_backward<T, W, true> : run_position_backward<T, 1, true>)(call, err);
    }
    return (wide ? run_position_backward<T, W, false> : run_position_backward<T, 1, false>)(call, err);
}

/* Rows of the table that no local position has, and types that no row has, are written too: as zeros. */
template <class T> static gal_code position_backward(const gal_kernel_call *call, gal_error *err)
{
    const uint64_t row_bytes = call->dims[2] * sizeof(float);
    const uint32_t more_rows = call->dims[4] + call->dims[5];
    gal_code code = gal_need_workspace(call, GAL_OP_POSITION_BACKWARD, err);
    if (code == GAL_OK && !call->add) {
        code =
            gal_cuda_code(cudaMemsetAsync(call->operand[2], 0, call->dims[3] * row_bytes, (cudaStream_t)call->stream),
                          "position_backward", err);
    }
    if (code == GAL_OK && !call->add && more_rows > 0) {
        code = gal_cuda_code(cudaMemsetAsync(call->operand[3], 0, more_rows * row_bytes, (cudaStream_t)call->stream),
                             "position_backward", err);
    }
    if (code == GAL_OK) {
        code = run_position_slopes<T>(call, err);
    }
    if (code == GAL_OK && call->dims[4] != 0) {
        code = gal_column_sums(call, err, "position_backward", (const float *)call->workspace, call->dims[1],
                               call->dims[2], (float *)call->operand[3], nullptr);
    }
    return code;
}
GAL_CUDA_ENTRIES(position_backward)
