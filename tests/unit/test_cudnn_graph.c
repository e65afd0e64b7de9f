/* The graphs of attention, carried out: a double of cuDNN's backend keeps what it is told and, asked to execute, does
 * the operations one by one in fp64, on the addresses and strides it was given. What comes out must be what the host's
 * kernels give: so operations, masks, shared keys, layouts and the addresses of a call are right. Inputs hold numbers
 * of bf16; what is written is rounded to bf16 once (2^-8 of its size at most, as half a unit of the last of 8 digits),
 * or to fp32 (2^-24). The log-sum-exp, rounded so, moves probabilities and slopes by 2^-20 of theirs at most (it is
 * below 16); sums of some hundred of those, below 4, stay within 1e-3. */
#include "tests/support/ops_case.h"

#include <math.h>

#include "runtime/ops/cuda/attention_cudnn.h"

#include <cuda_runtime_api.h>

/* ---- the double ---- */

enum { FAKE_OPERATIONS = 40, FAKE_UIDS = 64 };

typedef struct fake {
    cudnnBackendDescriptorType_t type;
    struct fake *next; /* of all that are alive */
    /* tensor */
    cudnnDataType_t data_type;
    int64_t dim[4], stride[4], uid;
    bool is_virtual, by_value;
    double *value; /* while it is executed: [dim0][dim1][dim2][dim3] */
    /* what an operation does */
    cudnnPointwiseMode_t mode;
    int64_t axis;
    cudnnReduceTensorOp_t reduction;
    /* operation; y is what it writes */
    struct fake *what, *x, *b, *t, *y;
    struct fake *rows, *columns, *depth; /* of a product: how many, by sample */
    int32_t multiprocessors;             /* heuristics */
    /* graph, and what is made from one */
    struct fake *operation[FAKE_OPERATIONS], *graph;
    int64_t operation_count;
    /* variant pack */
    int64_t uids[FAKE_UIDS], uid_count;
    void *address[FAKE_UIDS];
} fake;

static fake *alive;
static uint32_t executed;
static int32_t engines_for; /* multiprocessors that the heuristics whose engines were taken were asked for */
static bool refuses_a_part;

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out)
{
    fake *made = calloc(1, sizeof *made);
    assert_non_null(made);
    made->type = type;
    made->next = alive;
    alive = made;
    *out = made;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    fake **at = &alive;
    while (*at != descriptor) {
        assert_non_null(*at);
        at = &(*at)->next;
    }
    *at = (*at)->next;
    free(((fake *)descriptor)->value);
    free(descriptor);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    assert_non_null(descriptor);
    return CUDNN_STATUS_SUCCESS;
}

static void *place_of(fake *f, cudnnBackendAttributeName_t name)
{
    switch (name) {
    case CUDNN_ATTR_TENSOR_DATA_TYPE:
        return &f->data_type;
    case CUDNN_ATTR_TENSOR_DIMENSIONS:
        return f->dim;
    case CUDNN_ATTR_TENSOR_STRIDES:
        return f->stride;
    case CUDNN_ATTR_TENSOR_UNIQUE_ID:
        return &f->uid;
    case CUDNN_ATTR_TENSOR_IS_VIRTUAL:
        return &f->is_virtual;
    case CUDNN_ATTR_TENSOR_IS_BY_VALUE:
        return &f->by_value;
    case CUDNN_ATTR_POINTWISE_MODE:
        return &f->mode;
    case CUDNN_ATTR_POINTWISE_AXIS:
        return &f->axis;
    case CUDNN_ATTR_REDUCTION_OPERATOR:
        return &f->reduction;
    case CUDNN_ATTR_OPERATION_MATMUL_DESC:
    case CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR:
    case CUDNN_ATTR_OPERATION_REDUCTION_DESC:
        return &f->what;
    case CUDNN_ATTR_OPERATION_MATMUL_ADESC:
    case CUDNN_ATTR_OPERATION_POINTWISE_XDESC:
    case CUDNN_ATTR_OPERATION_REDUCTION_XDESC:
    case CUDNN_ATTR_OPERATION_RESHAPE_XDESC:
        return &f->x;
    case CUDNN_ATTR_OPERATION_MATMUL_BDESC:
    case CUDNN_ATTR_OPERATION_POINTWISE_BDESC:
        return &f->b;
    case CUDNN_ATTR_OPERATION_POINTWISE_TDESC:
        return &f->t;
    case CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC:
        return &f->rows;
    case CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC:
        return &f->columns;
    case CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC:
        return &f->depth;
    case CUDNN_ATTR_OPERATION_MATMUL_CDESC:
    case CUDNN_ATTR_OPERATION_POINTWISE_YDESC:
    case CUDNN_ATTR_OPERATION_REDUCTION_YDESC:
    case CUDNN_ATTR_OPERATION_RESHAPE_YDESC:
        return &f->y;
    case CUDNN_ATTR_OPERATIONGRAPH_OPS:
        return f->operation;
    case CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH:
        return &f->graph;
    case CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET:
        return &f->multiprocessors;
    case CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS:
        return f->uids;
    case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS:
        return f->address;
    default:
        return NULL; /* precisions, alignments, handles: nothing here depends on them */
    }
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *value)
{
    fake *f = descriptor;
    void *place = place_of(f, name);
    const size_t each = type == CUDNN_TYPE_BOOLEAN ? 1
                        : type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_BACKEND_DESCRIPTOR ||
                                type == CUDNN_TYPE_VOID_PTR || type == CUDNN_TYPE_HANDLE
                            ? 8
                            : 4;
    if (name == CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET && refuses_a_part) {
        return CUDNN_STATUS_NOT_SUPPORTED;
    }
    if (name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG) {
        f->graph = (*(fake *const *)value)->graph;
    }
    if (name == CUDNN_ATTR_OPERATIONGRAPH_OPS) {
        f->operation_count = count;
    }
    if (name == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) {
        f->uid_count = count;
    }
    if (place != NULL) {
        memcpy(place, value, each * (size_t)count);
    }
    return CUDNN_STATUS_SUCCESS;
}

/* One engine, which says nothing against itself, for every graph; plans need no workspace. */
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted, int64_t *count, void *value)
{
    (void)type, (void)wanted;
    *count = 0;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
        (*(fake **)value)->graph = ((fake *)descriptor)->graph;
        engines_for = ((fake *)descriptor)->multiprocessors;
        *count = 1;
    } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
        *(int64_t *)value = 0;
        *count = 1;
    }
    return CUDNN_STATUS_SUCCESS;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    (void)status;
    return "status";
}
cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    *handle = NULL;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    (void)handle;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    (void)handle, (void)stream;
    return CUDNN_STATUS_SUCCESS;
}
cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    *event = NULL;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    *memory = malloc(bytes);
    return *memory != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void *memory)
{
    free(memory);
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    (void)kind;
    memcpy(to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    memset(memory, value, bytes);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)event, (void)stream;
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    (void)event;
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t stop)
{
    (void)start, (void)stop;
    *milliseconds = 1.0F;
    return cudaSuccess;
}

/* ---- numbers in memory ---- */

static double bf16_value(uint16_t bits)
{
    const uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return (double)value;
}

static uint16_t bf16_bits(double value)
{
    const float single = (float)value;
    uint32_t word;
    memcpy(&word, &single, sizeof word);
    return (uint16_t)((word + 0x7FFFU + (word >> 16 & 1U)) >> 16);
}

static size_t count_of(const fake *tensor)
{
    return (size_t)(tensor->dim[0] * tensor->dim[1] * tensor->dim[2] * tensor->dim[3]);
}

static void split(const fake *tensor, size_t number, int64_t index[4])
{
    int64_t left = (int64_t)number;
    for (int d = 3; d >= 0; d--) {
        index[d] = left % tensor->dim[d];
        left /= tensor->dim[d];
    }
}

static size_t offset_of(const fake *tensor, const int64_t index[4])
{
    return (size_t)(index[0] * tensor->stride[0] + index[1] * tensor->stride[1] + index[2] * tensor->stride[2] +
                    index[3] * tensor->stride[3]);
}

static void *address_of(const fake *pack, const fake *tensor)
{
    for (int64_t i = 0; i < pack->uid_count; i++) {
        if (pack->uids[i] == tensor->uid) {
            return pack->address[i];
        }
    }
    fail_msg("tensor %d has no address", (int)tensor->uid);
    return NULL;
}

static void make_values(fake *tensor)
{
    free(tensor->value);
    tensor->value = calloc(count_of(tensor), sizeof *tensor->value);
    assert_non_null(tensor->value);
}

static void load(const fake *pack, fake *tensor)
{
    if (tensor == NULL || tensor->value != NULL) {
        return;
    }
    assert_false(tensor->is_virtual); /* nobody has written it */
    make_values(tensor);
    for (size_t i = 0; i < count_of(tensor); i++) {
        int64_t index[4];
        split(tensor, i, index);
        const void *from = address_of(pack, tensor);
        const size_t at = offset_of(tensor, index);
        tensor->value[i] = tensor->data_type == CUDNN_DATA_BFLOAT16 ? bf16_value(((const uint16_t *)from)[at])
                           : tensor->data_type == CUDNN_DATA_INT32  ? (double)((const int32_t *)from)[at]
                                                                    : (double)((const float *)from)[at];
    }
}

/* What is not defined, NaN here, does not get to memory. */
static void store(const fake *pack, const fake *tensor)
{
    for (size_t i = 0; i < count_of(tensor) && !tensor->is_virtual; i++) {
        int64_t index[4];
        split(tensor, i, index);
        void *to = address_of(pack, tensor);
        if (isnan(tensor->value[i])) {
            continue;
        }
        if (tensor->data_type == CUDNN_DATA_BFLOAT16) {
            ((uint16_t *)to)[offset_of(tensor, index)] = bf16_bits(tensor->value[i]);
        } else {
            ((float *)to)[offset_of(tensor, index)] = (float)tensor->value[i];
        }
    }
}

/* ---- operations ---- */

/* Of an index in `like`, where fewer entries of a dimension serve several. */
static double shared(const fake *tensor, const fake *like, const int64_t index[4])
{
    size_t number = 0;
    for (int d = 0; d < 4; d++) {
        assert_int_equal(like->dim[d] % tensor->dim[d], 0);
        number = number * (size_t)tensor->dim[d] + (size_t)(index[d] / (like->dim[d] / tensor->dim[d]));
    }
    return tensor->value[number];
}

static int64_t limit_of(const fake *limit, int64_t sample, int64_t all)
{
    return limit == NULL ? all : (int64_t)limit->value[sample];
}

/* NaN behind the limits of rows and columns. */
static void do_matmul(const fake *op)
{
    assert_int_equal(op->x->dim[3], op->b->dim[2]);
    assert_int_equal(op->y->dim[2], op->x->dim[2]);
    assert_int_equal(op->y->dim[3], op->b->dim[3]);
    for (size_t i = 0; i < count_of(op->y); i++) {
        int64_t at[4];
        split(op->y, i, at);
        const int64_t b_head = at[1] / (op->y->dim[1] / op->b->dim[1]);
        const double *a = op->x->value + ((at[0] * op->x->dim[1] + at[1]) * op->x->dim[2] + at[2]) * op->x->dim[3];
        const double *b = op->b->value + (at[0] * op->b->dim[1] + b_head) * op->b->dim[2] * op->b->dim[3] + at[3];
        const bool wanted =
            at[2] < limit_of(op->rows, at[0], op->y->dim[2]) && at[3] < limit_of(op->columns, at[0], op->y->dim[3]);
        double sum = 0.0;
        for (int64_t k = 0; k < limit_of(op->depth, at[0], op->x->dim[3]); k++) {
            sum += a[k] * b[k * op->b->dim[3]];
        }
        op->y->value[i] = wanted ? sum : (double)NAN;
    }
}

static double do_element(const fake *op, double x, double b, double t, const int64_t index[4])
{
    switch (op->what->mode) {
    case CUDNN_POINTWISE_MUL:
        return x * b;
    case CUDNN_POINTWISE_SUB:
        return x - b;
    case CUDNN_POINTWISE_ADD:
        return x + b;
    case CUDNN_POINTWISE_DIV:
        return x / b;
    case CUDNN_POINTWISE_EXP:
        return exp(x);
    case CUDNN_POINTWISE_LOG:
        return log(x);
    case CUDNN_POINTWISE_IDENTITY:
        return x;
    case CUDNN_POINTWISE_GEN_INDEX:
        return (double)index[op->what->axis];
    case CUDNN_POINTWISE_CMP_GE:
        return x >= b ? 1.0 : 0.0;
    case CUDNN_POINTWISE_CMP_LT:
        return x < b ? 1.0 : 0.0;
    case CUDNN_POINTWISE_LOGICAL_AND:
        return x != 0.0 && b != 0.0 ? 1.0 : 0.0;
    case CUDNN_POINTWISE_BINARY_SELECT:
        return t != 0.0 ? x : b;
    default:
        fail_msg("mode %d", (int)op->what->mode);
        return 0.0;
    }
}

static void do_pointwise(const fake *op)
{
    for (size_t i = 0; i < count_of(op->y); i++) {
        int64_t index[4];
        split(op->y, i, index);
        op->y->value[i] = do_element(op, shared(op->x, op->y, index), op->b != NULL ? shared(op->b, op->y, index) : 0.0,
                                     op->t != NULL ? shared(op->t, op->y, index) : 0.0, index);
    }
}

static void do_reduction(const fake *op)
{
    const bool max = op->what->reduction == CUDNN_REDUCE_TENSOR_MAX;
    for (size_t i = 0; i < count_of(op->y); i++) {
        op->y->value[i] = max ? -INFINITY : 0.0;
    }
    for (size_t i = 0; i < count_of(op->x); i++) {
        int64_t index[4];
        size_t number = 0;
        split(op->x, i, index);
        for (int d = 0; d < 4; d++) {
            number = number * (size_t)op->y->dim[d] + (size_t)(index[d] / (op->x->dim[d] / op->y->dim[d]));
        }
        double *to = &op->y->value[number];
        *to = max ? fmax(*to, op->x->value[i]) : *to + op->x->value[i];
    }
}

/* The same memory by other dimensions and strides. */
static void do_reshape(const fake *op)
{
    size_t places = 0;
    int64_t index[4];
    assert_int_equal(count_of(op->x), count_of(op->y));
    for (size_t i = 0; i < count_of(op->x); i++) {
        split(op->x, i, index);
        places = offset_of(op->x, index) >= places ? offset_of(op->x, index) + 1 : places;
    }
    double *memory = calloc(places, sizeof *memory);
    assert_non_null(memory);
    for (size_t i = 0; i < count_of(op->x); i++) {
        split(op->x, i, index);
        memory[offset_of(op->x, index)] = op->x->value[i];
    }
    for (size_t i = 0; i < count_of(op->y); i++) {
        split(op->y, i, index);
        assert_true(offset_of(op->y, index) < places);
        op->y->value[i] = memory[offset_of(op->y, index)];
    }
    free(memory);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)
{
    const fake *graph = ((const fake *)plan)->graph;
    (void)handle;
    executed++;
    for (fake *f = alive; f != NULL; f = f->next) {
        free(f->value);
        f->value = NULL;
    }
    for (int64_t i = 0; i < graph->operation_count; i++) {
        const fake *op = graph->operation[i];
        load(pack, op->x);
        load(pack, op->b);
        load(pack, op->t);
        load(pack, op->rows);
        load(pack, op->columns);
        load(pack, op->depth);
        make_values(op->y);
        switch (op->type) {
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
            do_matmul(op);
            break;
        case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
            do_pointwise(op);
            break;
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
            do_reduction(op);
            break;
        default:
            assert_int_equal(op->type, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
            do_reshape(op);
        }
        store(pack, op->y);
    }
    return CUDNN_STATUS_SUCCESS;
}

/* ---- against the host ---- */

enum { SAMPLES = 2, SEQUENCE = 9, HEADS = 4, DIM = 8 };
enum { ROWS = SAMPLES * SEQUENCE, CTX = ROWS * HEADS * DIM, LSE = ROWS * HEADS };
enum { QKV_MOST = ROWS * 3 * HEADS * DIM, WORKSPACE = 1 << 16 };

typedef struct problem {
    double qkv[QKV_MOST], ctx[CTX], lse[LSE], dctx[CTX], dqkv[QKV_MOST]; /* the host's */
    uint16_t qkv_bits[QKV_MOST], ctx_bits[CTX], dctx_bits[CTX], dqkv_bits[QKV_MOST];
    float lse_single[LSE];
    _Alignas(256) char workspace[WORKSPACE];
    ops_case at;
} problem;

static void random_bits(double *x, uint16_t *bits, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        bits[i] = bf16_bits(1.5 * ops_random(&seed));
        x[i] = bf16_value(bits[i]);
    }
}

static void expect_near(const char *name, const double *exact, const uint16_t *bits, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!(fabs(bf16_value(bits[i]) - exact[i]) <= 0x1p-8 * fabs(exact[i]) + 1e-3)) {
            fail_msg("%s[%zu]: %.9g, not %.9g", name, i, bf16_value(bits[i]), exact[i]);
        }
    }
}

static void run(gal_cudnn_attention *attention, problem *p, const uint32_t *dims, bool backward, bool deterministic,
                int32_t *lengths)
{
    gal_error err = {.code = GAL_OK};
    gal_kernel_call call = p->at.call;
    uint64_t bytes = 0;
    const gal_cudnn_attention_key key = {.samples = dims[0],
                                         .sequence = dims[1],
                                         .heads = dims[2],
                                         .dim = dims[3],
                                         .kv_heads = dims[4],
                                         .causal = dims[5],
                                         .padded = lengths != NULL,
                                         .backward = backward,
                                         .deterministic = deterministic,
                                         .type = CUDNN_DATA_BFLOAT16};
    void *const forward_operands[] = {p->qkv_bits, p->ctx_bits, p->lse_single, lengths};
    void *const backward_operands[] = {p->dctx_bits, p->qkv_bits, p->ctx_bits, p->lse_single, p->dqkv_bits, lengths};
    memcpy(call.operand, backward ? backward_operands : forward_operands,
           backward ? sizeof backward_operands : sizeof forward_operands);
    call.dims = dims;
    assert_int_equal(gal_cudnn_attention_plan(attention, &key, &bytes, &err), GAL_OK);
    assert_true(bytes <= WORKSPACE);
    call.workspace = p->workspace;
    call.workspace_bytes = bytes;
    executed = 0;
    assert_int_equal(gal_cudnn_attention_run(attention, &key, &call, &err), GAL_OK);
    assert_int_equal(executed, 1);
    if (bytes > 0) {
        call.workspace_bytes = bytes - 1;
        assert_int_equal(gal_cudnn_attention_run(attention, &key, &call, &err), GAL_ERR_DEVICE);
    }
}

/* lengths: [SAMPLES], or NULL. */
static void check_padded(uint32_t kv_heads, uint32_t causal, bool deterministic, int32_t *lengths)
{
    static problem p;
    gal_error err = {.code = GAL_OK};
    gal_cudnn_attention *attention = NULL;
    const uint32_t dims[] = {SAMPLES, SEQUENCE, HEADS, DIM, kv_heads, causal != 0 ? GAL_ATTENTION_CAUSAL : 0};
    const size_t qkv = (size_t)ROWS * (HEADS + 2 * kv_heads) * DIM;
    ops_case_init(&p.at);
    p.at.model.sequence_length = SEQUENCE;
    random_bits(p.qkv, p.qkv_bits, qkv, 1);
    random_bits(p.dctx, p.dctx_bits, CTX, 2);
    memset(p.ctx_bits, 0xFF, sizeof p.ctx_bits);
    memset(p.dqkv_bits, 0xFF, sizeof p.dqkv_bits);
    assert_int_equal(gal_cudnn_attention_create(0, &attention, &err), GAL_OK);
    run(attention, &p, dims, false, deterministic, lengths);
    ops_run(&p.at, &gal_ops_host_fp64, GAL_OP_ATTENTION, dims, lengths == NULL ? 3 : 4,
            (void *[]){p.qkv, p.ctx, p.lse, lengths});
    expect_near("ctx", p.ctx, p.ctx_bits, CTX);
    for (size_t i = 0; i < LSE; i++) {
        assert_true(fabs((double)p.lse_single[i] - p.lse[i]) <= 0x1p-20);
    }
    for (size_t i = 0; i < CTX; i++) { /* both backwards see the ctx that was written */
        p.ctx[i] = bf16_value(p.ctx_bits[i]);
    }
    run(attention, &p, dims, true, deterministic, lengths);
    ops_run(&p.at, &gal_ops_host_fp64, GAL_OP_ATTENTION_BACKWARD, dims, lengths == NULL ? 5 : 6,
            (void *[]){p.dctx, p.qkv, p.ctx, p.lse, p.dqkv, lengths});
    expect_near("dqkv", p.dqkv, p.dqkv_bits, qkv);
    gal_cudnn_attention_free(attention);
    assert_null(alive);
}

static void check(uint32_t kv_heads, uint32_t causal, bool deterministic)
{
    check_padded(kv_heads, causal, deterministic, NULL);
}

static void graphs_give_what_the_host_gives(void **state)
{
    (void)state;
    for (uint32_t causal = 0; causal < 2; causal++) {
        check(HEADS, causal, false);
        check(HEADS, causal, true);
    }
}

static void graphs_of_shared_keys(void **state)
{
    (void)state;
    for (uint32_t causal = 0; causal < 2; causal++) {
        check(2, causal, false);
        check(1, causal, true);
    }
}

/* Queries behind an end get numbers too; keys behind it zeros as gradients. */
static void graphs_of_padded_samples(void **state)
{
    (void)state;
    int32_t lengths[SAMPLES] = {SEQUENCE, 4};
    for (uint32_t deterministic = 0; deterministic < 2; deterministic++) {
        check_padded(HEADS, 0, deterministic != 0, lengths);
        check_padded(2, 0, deterministic != 0, lengths);
        lengths[0] = 1;
    }
}

/* Every layer's instruction asks. */
static void a_graph_is_timed_once(void **state)
{
    (void)state;
    for (uint32_t deterministic = 0; deterministic < 2; deterministic++) {
        static problem p;
        gal_error err = {.code = GAL_OK};
        gal_cudnn_attention *attention = NULL;
        const gal_cudnn_attention_key key = {.samples = SAMPLES,
                                             .sequence = SEQUENCE,
                                             .heads = HEADS,
                                             .dim = DIM,
                                             .kv_heads = HEADS,
                                             .deterministic = deterministic,
                                             .type = CUDNN_DATA_BFLOAT16};
        gal_kernel_call call = {.operand = {p.qkv_bits, p.ctx_bits, p.lse_single}};
        assert_int_equal(gal_cudnn_attention_create(0, &attention, &err), GAL_OK);
        executed = 0;
        assert_int_equal(gal_cudnn_attention_prepare(attention, &key, &call, &err), GAL_OK);
        assert_int_equal(executed > 0, deterministic == 0);
        executed = 0;
        assert_int_equal(gal_cudnn_attention_prepare(attention, &key, &call, &err), GAL_OK);
        assert_int_equal(executed, 0);
        gal_cudnn_attention_free(attention);
        assert_null(alive);
    }
}

/* What communication leaves is asked for; a library that refuses that is asked for engines of all. */
static void engines_are_for_what_is_left(void **state)
{
    (void)state;
    for (uint32_t refuses = 0; refuses < 2; refuses++) {
        gal_error err = {.code = GAL_OK};
        gal_cudnn_attention *attention = NULL;
        uint64_t workspace_bytes = 0;
        const gal_cudnn_attention_key key = {.samples = SAMPLES,
                                             .sequence = SEQUENCE,
                                             .heads = HEADS,
                                             .dim = DIM,
                                             .kv_heads = HEADS,
                                             .type = CUDNN_DATA_BFLOAT16};
        refuses_a_part = refuses != 0;
        engines_for = -1;
        assert_int_equal(gal_cudnn_attention_create(116, &attention, &err), GAL_OK);
        assert_int_equal(gal_cudnn_attention_plan(attention, &key, &workspace_bytes, &err), GAL_OK);
        assert_int_equal(engines_for, refuses_a_part ? 0 : 116);
        gal_cudnn_attention_free(attention);
        assert_null(alive);
    }
    refuses_a_part = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_give_what_the_host_gives), cmocka_unit_test(graphs_of_shared_keys),
        cmocka_unit_test(graphs_of_padded_samples),        cmocka_unit_test(a_graph_is_timed_once),
        cmocka_unit_test(engines_are_for_what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
