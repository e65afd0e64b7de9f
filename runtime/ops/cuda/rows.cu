/* Rows that move: layouts are converted by permute, features dealt out to devices, grids of patches merged, positions
 * averaged. */
#include "runtime/ops/cuda/launch.cuh"

/* ---- permute ---- */

enum { PLACES = 5 };

/* Target row [c0]...[c4] is source row sum(c_i stride_i). count[0] is not needed. */
template <class T, int W> struct permuted {
    const T *source;
    T *target;
    gal_divider row, count[PLACES];
    uint32_t stride[PLACES];

    typedef gal_raw<T, W> loaded;

    __device__ __forceinline__ loaded load(uint64_t index) const
    {
        uint32_t access, place;
        uint32_t left = row.divide((uint32_t)index, &access);
        uint64_t from = 0;
#pragma unroll
        for (int i = PLACES - 1; i > 0; i--) {
            left = count[i].divide(left, &place);
            from += (uint64_t)place * stride[i];
        }
        from += (uint64_t)left * stride[0];
        return gal_load<W>(source, from * row.divisor + access);
    }
    __device__ __forceinline__ void store(uint64_t index, loaded in) const
    {
        gal_store<W>(target, index, in);
    }
};

/* Rows that follow one another become one: count 1 for the innermost place, and rows that are so much longer. */
template <class T> struct permute_shape {
    uint64_t row_elements, count[PLACES], stride[PLACES];

    void join_rows()
    {
        while (count[PLACES - 1] > 1 && stride[PLACES - 1] == 1 && row_fits()) {
            row_elements *= count[PLACES - 1];
            for (int i = 0; i < PLACES - 1; i++) {
                stride[i] /= count[PLACES - 1];
            }
            for (int i = PLACES - 1; i > 0; i--) {
                count[i] = count[i - 1];
                stride[i] = stride[i - 1];
            }
            count[0] = 1;
            stride[0] = 0;
        }
    }
    /* Every other stride is a multiple of the longer row. */
    bool row_fits() const
    {
        bool fits = true;
        for (int i = 0; i < PLACES - 1; i++) {
            fits = fits && (count[i] == 1 || stride[i] % count[PLACES - 1] == 0);
        }
        return fits;
    }
};

template <class T, int W>
static gal_code run_permute(const gal_kernel_call *call, gal_error *err, const permute_shape<T> &shape)
{
    permuted<T, W> f = {};
    f.source = (const T *)call->operand[0];
    f.target = (T *)call->operand[1];
    f.row = gal_divider_of(shape.row_elements / W);
    uint64_t accesses = shape.row_elements / W;
    for (int i = 0; i < PLACES; i++) {
        f.count[i] = gal_divider_of(shape.count[i]);
        f.stride[i] = (uint32_t)shape.stride[i];
        accesses *= shape.count[i];
    }
    return gal_map_rows(call, err, "permute", f, accesses);
}

template <class T> static gal_code permute(const gal_kernel_call *call, gal_error *err)
{
    permute_shape<T> shape;
    shape.row_elements = call->dims[0];
    for (int i = 0; i < PLACES; i++) {
        shape.count[i] = call->dims[1 + i];
        shape.stride[i] = call->dims[1 + PLACES + i];
    }
    shape.join_rows();
    const bool wide = gal_rows_are_wide<T>(shape.row_elements, call->operand[0], call->operand[1]);
    return (wide ? run_permute<T, gal_wide<T>> : run_permute<T, 1>)(call, err, shape);
}
GAL_CUDA_ENTRIES(permute)

/* ---- features of parts dealt out to members ---- */

enum { PARTS = GAL_FEATURE_PARTS };

/* Index over y[member][row][chunk of every part]; x[row][parts whole]. */
template <class T, int W, bool DEAL> struct dealt {
    const T *from;
    T *to;
    gal_divider chunks, rows; /* accesses of a row in y; rows */
    uint32_t features;        /* accesses of a row in x */
    uint32_t chunk[PARTS], begin[PARTS], whole[PARTS]; /* of a part: accesses in y, where they begin there and in x */

    typedef gal_raw<T, W> loaded;

    __device__ __forceinline__ uint64_t whole_index(uint64_t index) const
    {
        uint32_t access, row;
        const uint32_t member = rows.divide(chunks.divide((uint32_t)index, &access), &row);
        uint32_t part = 0;
#pragma unroll
        for (int i = 1; i < PARTS; i++) {
            part = access >= begin[i] ? (uint32_t)i : part;
        }
        return (uint64_t)row * features + whole[part] + member * chunk[part] + access - begin[part];
    }
    __device__ __forceinline__ loaded load(uint64_t index) const
    {
        return gal_load<W>(from, DEAL ? whole_index(index) : index);
    }
    __device__ __forceinline__ void store(uint64_t index, loaded in) const
    {
        gal_store<W>(to, DEAL ? index : whole_index(index), in);
    }
};

template <class T, int W, bool DEAL>
static gal_code run_dealt(const gal_kernel_call *call, gal_error *err, const char *name)
{
    dealt<T, W, DEAL> f = {};
    const uint32_t members = call->dims[1];
    uint32_t chunks = 0;
    for (int i = 0; i < PARTS; i++) {
        f.chunk[i] = call->dims[2 + i] / members / W;
        f.begin[i] = f.chunk[i] == 0 ? UINT32_MAX : chunks;
        f.whole[i] = f.features;
        chunks += f.chunk[i];
        f.features += call->dims[2 + i] / W;
    }
    f.from = (const T *)call->operand[0];
    f.to = (T *)call->operand[1];
    f.chunks = gal_divider_of(chunks);
    f.rows = gal_divider_of(call->dims[0]);
    return gal_map_rows(call, err, name, f, (uint64_t)call->dims[0] * f.features);
}

template <class T, bool DEAL>
static gal_code deal_rows(const gal_kernel_call *call, gal_error *err, const char *name)
{
    const uint32_t *d = call->dims;
    bool wide = true;
    for (int i = 0; i < PARTS; i++) {
        wide = wide && gal_rows_are_wide<T>(d[2 + i] / d[1], call->operand[0], call->operand[1]);
    }
    return (wide ? run_dealt<T, gal_wide<T>, DEAL> : run_dealt<T, 1, DEAL>)(call, err, name);
}

template <class T> static gal_code deal_features(const gal_kernel_call *call, gal_error *err)
{
    return deal_rows<T, true>(call, err, "deal_features");
}
GAL_CUDA_ENTRIES(deal_features)

template <class T> static gal_code collect_features(const gal_kernel_call *call, gal_error *err)
{
    return deal_rows<T, false>(call, err, "collect_features");
}
GAL_CUDA_ENTRIES(collect_features)

/* ---- mean over positions ---- */

/* Index over [samples][features]; rows[positions] of so many accesses each. */
template <class T, int W> struct position_mean {
    const T *x;
    T *y;
    uint64_t row_accesses;
    uint32_t positions;
    float sequence;

    struct loaded {
    };

    __device__ __forceinline__ loaded load(uint64_t) const
    {
        return {};
    }
    __device__ __forceinline__ void store(uint64_t index, loaded) const
    {
        gal_lanes<W> sum = {};
#pragma unroll 4
        for (uint32_t p = 0; p < positions; p++) {
            const gal_lanes<W> in = gal_unpack<T, W>(gal_load<W>(x, p * row_accesses + index));
#pragma unroll
            for (int j = 0; j < W; j++) {
                sum.x[j] += in.x[j];
            }
        }
#pragma unroll
        for (int j = 0; j < W; j++) {
            sum.x[j] /= sequence;
        }
        gal_store<W>(y, index, gal_pack<T, W>(sum));
    }
};

template <class T, int W> static gal_code run_mean(const gal_kernel_call *call, gal_error *err)
{
    const uint64_t row = (uint64_t)call->dims[0] * call->dims[2] / W;
    const position_mean<T, W> f = {(const T *)call->operand[0], (T *)call->operand[1], row, call->dims[1],
                                   (float)call->dims[3]};
    return gal_map_rows<1>(call, err, "mean_position", f, row);
}

template <class T> static gal_code mean_position(const gal_kernel_call *call, gal_error *err)
{
    const bool wide = gal_rows_are_wide<T>((uint64_t)call->dims[0] * call->dims[2], call->operand[0], call->operand[1]);
    return (wide ? run_mean<T, gal_wide<T>> : run_mean<T, 1>)(call, err);
}
GAL_CUDA_ENTRIES(mean_position)

template <class T, int W> struct mean_slope {
    const T *dy;
    T *dx;
    gal_divider row;
    float sequence;

    typedef gal_raw<T, W> loaded;

    __device__ __forceinline__ loaded load(uint64_t index) const
    {
        uint32_t access;
        row.divide((uint32_t)index, &access);
        return gal_load<W>(dy, access);
    }
    __device__ __forceinline__ void store(uint64_t index, loaded in) const
    {
        gal_lanes<W> d = gal_unpack<T, W>(in);
#pragma unroll
        for (int j = 0; j < W; j++) {
            d.x[j] /= sequence;
        }
        gal_store<W>(dx, index, gal_pack<T, W>(d));
    }
};

template <class T, int W> static gal_code run_mean_backward(const gal_kernel_call *call, gal_error *err)
{
    const uint64_t row = (uint64_t)call->dims[0] * call->dims[2] / W;
    const mean_slope<T, W> f = {(const T *)call->operand[0], (T *)call->operand[1], gal_divider_of(row),
                                (float)call->dims[3]};
    return gal_map_rows(call, err, "mean_position_backward", f, row * call->dims[1]);
}

template <class T> static gal_code mean_position_backward(const gal_kernel_call *call, gal_error *err)
{
    const bool wide = gal_rows_are_wide<T>((uint64_t)call->dims[0] * call->dims[2], call->operand[0], call->operand[1]);
    return (wide ? run_mean_backward<T, gal_wide<T>> : run_mean_backward<T, 1>)(call, err);
}
GAL_CUDA_ENTRIES(mean_position_backward)

/* ---- merging of 2 by 2 positions ---- */

/* Index over the separate rows [grid row][column][sample]. */
template <class T, int W, bool FORWARD> struct merged {
    const T *from;
    T *to;
    gal_divider row, samples, side;

    typedef gal_raw<T, W> loaded;

    /* Index of the same access among the merged rows [grid row / 2][column / 2][sample][4]. */
    __device__ __forceinline__ uint64_t merged_index(uint64_t index) const
    {
        uint32_t access, sample, column;
        const uint32_t position = samples.divide(row.divide((uint32_t)index, &access), &sample);
        const uint32_t line = side.divide(position, &column);
        const uint32_t place = column % 2 * 2 + line % 2;
        const uint64_t pair = (uint64_t)(line / 2) * (side.divisor / 2) + column / 2;
        return ((pair * samples.divisor + sample) * 4 + place) * row.divisor + access;
    }
    __device__ __forceinline__ loaded load(uint64_t index) const
    {
        return gal_load<W>(from, FORWARD ? index : merged_index(index));
    }
    __device__ __forceinline__ void store(uint64_t index, loaded in) const
    {
        gal_store<W>(to, FORWARD ? merged_index(index) : index, in);
    }
};

template <class T, int W, bool FORWARD>
static gal_code run_merge(const gal_kernel_call *call, gal_error *err, const char *name)
{
    const uint64_t row = call->dims[2] / W;
    const merged<T, W, FORWARD> f = {(const T *)call->operand[0], (T *)call->operand[1], gal_divider_of(row),
                                     gal_divider_of(call->dims[0]), gal_divider_of(call->dims[3])};
    return gal_map_rows(call, err, name, f, (uint64_t)call->dims[0] * call->dims[1] * row);
}

template <class T> static gal_code merge(const gal_kernel_call *call, gal_error *err)
{
    const bool wide = gal_rows_are_wide<T>(call->dims[2], call->operand[0], call->operand[1]);
    return (wide ? run_merge<T, gal_wide<T>, true> : run_merge<T, 1, true>)(call, err, "merge");
}
GAL_CUDA_ENTRIES(merge)

template <class T> static gal_code merge_backward(const gal_kernel_call *call, gal_error *err)
{
    const bool wide = gal_rows_are_wide<T>(call->dims[2], call->operand[0], call->operand[1]);
    return (wide ? run_merge<T, gal_wide<T>, false> : run_merge<T, 1, false>)(call, err, "merge_backward");
}
GAL_CUDA_ENTRIES(merge_backward)
