/* How fast single kernels of the bf16 table are, each beside what limits it: memory-bound ones beside the copy rate of
 * the device, products beside the fastest of all algorithms that cuBLASLt offers, attention by itself. Shapes are those
 * of blocks of hidden 4096 and of GPT-2 1.5B, on data that does not fit the cache.
 *
 * Prints a JSON object per line, seconds of one call: the median of ROUNDS rounds of CALLS calls each, between events.
 * The data is random, as products are faster on zeros. Exit 5 without a GPU. */
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/cuda/cuda.h"
#include "runtime/ops/cuda/gemm.h"
#include "runtime/ops/cuda/kernels.h"

enum { ROUNDS = 7, CALLS = 10, WARM_CALLS = 3, OPERANDS = GAL_KERNEL_OPERANDS_MAX, CANDIDATES = 128 };
enum { HIDDEN = 4096, ROWS = 16384, FFN = 16384, SEQUENCE = 4096, SAMPLES = ROWS / SEQUENCE };
enum { VOCABULARY = 50257, LOGITS = 50304, LOGIT_ROWS = 8192, ADAM_ELEMENTS = 1 << 26 };

static const uint64_t arena_bytes = UINT64_C(6) << 30, random_bytes = UINT64_C(64) << 20;
static const uint64_t library_workspace_bytes = UINT64_C(64) << 20;

static void must(gal_code code, const gal_error *err)
{
    if (code != GAL_OK) {
        (void)fprintf(stderr, "rates: %s\n", err->text);
        exit((int)code);
    }
}

#define CUDA(call)                                                                                                     \
    do {                                                                                                               \
        const cudaError_t failure_ = (call);                                                                           \
        if (failure_ != cudaSuccess) {                                                                                 \
            (void)fprintf(stderr, "rates: %s: %s\n", #call, cudaGetErrorString(failure_));                             \
            exit(GAL_ERR_DEVICE);                                                                                      \
        }                                                                                                              \
    } while (0)

/* ---- the device ---- */

typedef struct bench {
    char *arena;
    cudaStream_t stream;
    cudaEvent_t begin, end;
    void *context;
    gal_model model;
    gal_kernel_step step;
    void *device_step;
    uint32_t *sample_map;
} bench;

/* bf16 numbers of sizes in [0.5, 2), which are such in fp32 too. */
static void fill_arena(const bench *b)
{
    uint64_t state = 1;
    uint16_t *block = malloc(random_bytes);
    if (block == NULL) {
        exit(GAL_ERR_SYSTEM);
    }
    for (uint64_t i = 0; i < random_bytes / sizeof *block; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const uint16_t bits = (uint16_t)(state >> 48);
        block[i] = (uint16_t)((bits & 0x8000) | (0x3F00 + (bits & 0xFF)));
    }
    CUDA(cudaMemcpy(b->arena, block, random_bytes, cudaMemcpyHostToDevice));
    for (uint64_t at = random_bytes; at < arena_bytes; at += random_bytes) {
        CUDA(cudaMemcpy(b->arena + at, b->arena, random_bytes, cudaMemcpyDeviceToDevice));
    }
    free(block);
}

static void open_bench(bench *b)
{
    gal_error err = {.code = GAL_OK};
    uint32_t samples[SAMPLES * 4];
    memset(b, 0, sizeof *b);
    must(gal_cuda_open(0, &err), &err);
    CUDA(cudaMalloc((void **)&b->arena, arena_bytes));
    CUDA(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking));
    CUDA(cudaEventCreate(&b->begin));
    CUDA(cudaEventCreate(&b->end));
    const gal_kernel_choice choice = {.deterministic = false};
    must(gal_ops_cuda_bf16.queued->open(&choice, &b->context, &err), &err);
    b->model.norm_epsilon = 1e-5;
    b->model.optimizer =
        (gal_optimizer){.kind = GAL_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};
    b->step = (gal_kernel_step){.model = &b->model, .learning_rate = 1e-4, .loss_scale = 1.0, .training = true};
    const gal_cuda_step step = gal_cuda_step_of(&b->step, 1.0);
    CUDA(cudaMalloc(&b->device_step, sizeof step));
    CUDA(cudaMemcpy(b->device_step, &step, sizeof step, cudaMemcpyHostToDevice));
    for (uint32_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        samples[i] = i;
    }
    CUDA(cudaMalloc((void **)&b->sample_map, sizeof samples));
    CUDA(cudaMemcpy(b->sample_map, samples, sizeof samples, cudaMemcpyHostToDevice));
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* rounds: at most ROUNDS */
static double seconds_of(const bench *b, uint32_t rounds, void (*call)(const bench *b, void *what), void *what)
{
    double seconds[ROUNDS];
    for (uint32_t i = 0; i < WARM_CALLS; i++) {
        call(b, what);
    }
    for (uint32_t r = 0; r < rounds; r++) {
        float milliseconds = 0.0F;
        CUDA(cudaEventRecord(b->begin, b->stream));
        for (uint32_t i = 0; i < CALLS; i++) {
            call(b, what);
        }
        CUDA(cudaEventRecord(b->end, b->stream));
        CUDA(cudaEventSynchronize(b->end));
        CUDA(cudaEventElapsedTime(&milliseconds, b->begin, b->end));
        seconds[r] = 1e-3 * (double)milliseconds / CALLS;
    }
    qsort(seconds, rounds, sizeof *seconds, by_value);
    return seconds[rounds / 2];
}

/* ---- cases ---- */

/* Types of operands. ONES: fp64 ones. TOKENS: int32 below the vocabulary. */
typedef enum kind { BF16, FP32, ONES, TOKENS } kind;

typedef struct place {
    kind kind;
    uint64_t count;
    uint32_t passes; /* over device memory that cannot be saved: 1 read or written, 2 both, 0 hardly anything */
} place;

typedef struct one_case {
    const char *name, *family; /* "memory", "product", "attention" */
    gal_op op;
    uint32_t dims[12];
    place operand[OPERANDS];
    bool add;
    double flops;
    gal_kernel_call call; /* filled in before it runs */
} one_case;

static const uint64_t whole = (uint64_t)ROWS * HIDDEN, wide = (uint64_t)ROWS * FFN,
                      logits = (uint64_t)LOGIT_ROWS * LOGITS;

static void measure_memory(void (*measure)(const bench *b, one_case *c), const bench *b, one_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cases[i].family = "memory";
        measure(b, &cases[i]);
    }
}

static void norm_cases(void (*measure)(const bench *b, one_case *c), const bench *b)
{
    one_case cases[] = {
        {.name = "layer_norm",
         .op = GAL_OP_LAYER_NORM,
         .dims = {ROWS, HIDDEN},
         .operand = {{BF16, whole, 1}, {BF16, HIDDEN, 0}, {BF16, HIDDEN, 0}, {BF16, whole, 1}, {FP32, 2 * ROWS, 1}}},
        {.name = "layer_norm_backward",
         .op = GAL_OP_LAYER_NORM_BACKWARD,
         .dims = {ROWS, HIDDEN, 1},
         .operand = {{BF16, whole, 1},
                     {BF16, whole, 1},
                     {BF16, HIDDEN, 0},
                     {FP32, 2 * ROWS, 1},
                     {BF16, whole, 1},
                     {FP32, HIDDEN, 0},
                     {FP32, HIDDEN, 0},
                     {BF16, whole, 1}}},
        {.name = "rms_norm",
         .op = GAL_OP_RMS_NORM,
         .dims = {ROWS, HIDDEN},
         .operand = {{BF16, whole, 1}, {BF16, HIDDEN, 0}, {BF16, whole, 1}, {FP32, ROWS, 1}}},
        {.name = "rms_norm_backward",
         .op = GAL_OP_RMS_NORM_BACKWARD,
         .dims = {ROWS, HIDDEN, 1},
         .operand = {{BF16, whole, 1},
                     {BF16, whole, 1},
                     {BF16, HIDDEN, 0},
                     {FP32, ROWS, 1},
                     {BF16, whole, 1},
                     {FP32, HIDDEN, 0},
                     {BF16, whole, 1}}},
    };
    measure_memory(measure, b, cases, sizeof cases / sizeof *cases);
}

static void pointwise_cases(void (*measure)(const bench *b, one_case *c), const bench *b)
{
    one_case cases[] = {
        {.name = "gelu",
         .op = GAL_OP_ACTIVATION,
         .dims = {(uint32_t)wide, GAL_ACTIVATION_GELU_TANH},
         .operand = {{BF16, wide, 1}, {BF16, wide, 1}}},
        {.name = "gelu_backward",
         .op = GAL_OP_ACTIVATION_BACKWARD,
         .dims = {(uint32_t)wide, GAL_ACTIVATION_GELU_TANH},
         .operand = {{BF16, wide, 1}, {BF16, wide, 1}, {BF16, wide, 1}}},
        {.name = "swiglu",
         .op = GAL_OP_GATED_ACTIVATION,
         .dims = {ROWS, FFN / 2, GAL_ACTIVATION_SILU},
         .operand = {{BF16, wide, 1}, {BF16, wide / 2, 1}}},
        {.name = "swiglu_backward",
         .op = GAL_OP_GATED_ACTIVATION_BACKWARD,
         .dims = {ROWS, FFN / 2, GAL_ACTIVATION_SILU},
         .operand = {{BF16, wide / 2, 1}, {BF16, wide, 1}, {BF16, wide, 1}}},
        {.name = "residual",
         .op = GAL_OP_RESIDUAL,
         .dims = {SAMPLES, SEQUENCE, HIDDEN, 1},
         .operand = {{BF16, whole, 1}, {BF16, whole, 1}, {BF16, whole, 1}, {BF16, HIDDEN, 0}}},
        {.name = "add",
         .op = GAL_OP_ADD,
         .dims = {(uint32_t)whole},
         .operand = {{BF16, whole, 1}, {BF16, whole, 2}},
         .add = true},
        {.name = "rotary",
         .op = GAL_OP_ROTARY,
         .dims = {SAMPLES, SEQUENCE, HIDDEN / 128, 128, HIDDEN, 0},
         .operand = {{BF16, whole, 2}}},
        {.name = "embed",
         .op = GAL_OP_EMBED,
         .dims = {SAMPLES, SEQUENCE, HIDDEN, LOGITS},
         .operand = {{TOKENS, ROWS, 1}, {BF16, (uint64_t)LOGITS * HIDDEN, 0}, {BF16, whole, 2}}},
        {.name = "bias_gradient",
         .op = GAL_OP_BIAS_GRADIENT,
         .dims = {ROWS, FFN},
         .operand = {{BF16, wide, 1}, {FP32, FFN, 0}}},
    };
    measure_memory(measure, b, cases, sizeof cases / sizeof *cases);
}

static void loss_cases(void (*measure)(const bench *b, one_case *c), const bench *b)
{
    one_case cases[] = {
        {.name = "cross_entropy_max",
         .op = GAL_OP_CROSS_ENTROPY_MAX,
         .dims = {LOGIT_ROWS, LOGITS, VOCABULARY},
         .operand = {{BF16, logits, 1}, {FP32, LOGIT_ROWS, 1}}},
        {.name = "cross_entropy_sum",
         .op = GAL_OP_CROSS_ENTROPY_SUM,
         .dims = {LOGIT_ROWS / 1024, 1024, LOGITS, VOCABULARY},
         .operand = {{BF16, logits, 1}, {FP32, LOGIT_ROWS, 1}, {TOKENS, LOGIT_ROWS, 1}, {FP32, 2 * LOGIT_ROWS, 1}}},
        {.name = "cross_entropy_backward",
         .op = GAL_OP_CROSS_ENTROPY_BACKWARD,
         .dims = {LOGIT_ROWS / 1024, 1024, LOGITS, VOCABULARY},
         .operand = {{BF16, logits, 2}, {FP32, LOGIT_ROWS, 1}, {FP32, 2 * LOGIT_ROWS, 1}, {TOKENS, LOGIT_ROWS, 1}}},
        {.name = "sum_squares",
         .op = GAL_OP_SUM_SQUARES,
         .dims = {4 * ADAM_ELEMENTS, 1},
         .operand = {{FP32, 4 * (uint64_t)ADAM_ELEMENTS, 1}, {ONES, 2, 0}}},
        {.name = "adam",
         .op = GAL_OP_ADAM,
         .dims = {ADAM_ELEMENTS, ADAM_ELEMENTS},
         .operand = {{BF16, ADAM_ELEMENTS, 1},
                     {FP32, ADAM_ELEMENTS, 1},
                     {FP32, ADAM_ELEMENTS, 2},
                     {FP32, ADAM_ELEMENTS, 2},
                     {ONES, 2, 0},
                     {FP32, ADAM_ELEMENTS, 2}}},
    };
    measure_memory(measure, b, cases, sizeof cases / sizeof *cases);
}

/* Of a block of so many rows and features: forward, gradient of the input, gradient of the weight in fp32. */
static void product_cases(void (*measure)(const bench *b, one_case *c), const bench *b, const char *model,
                          uint32_t rows, uint32_t hidden, uint32_t ffn)
{
    const struct {
        const char *name;
        uint32_t in, out;
    } layers[] = {{"qkv", hidden, 3 * hidden},
                  {"out", hidden, hidden},
                  {"up", hidden, ffn},
                  {"down", ffn, hidden},
                  {"head", hidden, LOGITS}};
    for (uint32_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        const uint32_t in = layers[i].in, out = layers[i].out;
        const uint64_t x = (uint64_t)rows * in, y = (uint64_t)rows * out, w = (uint64_t)in * out;
        const double flops = 2.0 * rows * (double)w;
        char name[3][64];
        (void)snprintf(name[0], sizeof name[0], "%s %s forward", model, layers[i].name);
        (void)snprintf(name[1], sizeof name[1], "%s %s input gradient", model, layers[i].name);
        (void)snprintf(name[2], sizeof name[2], "%s %s weight gradient", model, layers[i].name);
        one_case cases[] = {
            {.name = name[0],
             .family = "product",
             .op = GAL_OP_GEMM,
             .dims = {rows, out, in, 0},
             .operand = {{BF16, x, 1}, {BF16, w, 1}, {BF16, y, 1}},
             .flops = flops},
            {.name = name[1],
             .family = "product",
             .op = GAL_OP_GEMM,
             .dims = {rows, in, out, GAL_GEMM_TRANSPOSE_B},
             .operand = {{BF16, y, 1}, {BF16, w, 1}, {BF16, x, 1}},
             .flops = flops},
            {.name = name[2],
             .family = "product",
             .op = GAL_OP_GEMM,
             .dims = {in, out, rows, GAL_GEMM_TRANSPOSE_A | GAL_GEMM_FP32_C},
             .operand = {{BF16, x, 1}, {BF16, y, 1}, {FP32, w, 2}},
             .add = true,
             .flops = flops},
        };
        for (uint32_t c = 0; c < 3; c++) {
            measure(b, &cases[c]);
        }
    }
}

/* Causal: half of the scores. Two products forward, five backward. */
static void attention_cases(void (*measure)(const bench *b, one_case *c), const bench *b, const char *model,
                            uint32_t samples, uint32_t sequence, uint32_t heads, uint32_t dim, uint32_t kv_heads)
{
    const uint64_t tokens = (uint64_t)samples * sequence, ctx = tokens * heads * dim,
                   qkv = tokens * (heads + 2 * kv_heads) * dim, lse = (uint64_t)samples * heads * sequence;
    const double product = (double)samples * heads * (double)sequence * sequence * dim;
    char name[2][64];
    (void)snprintf(name[0], sizeof name[0], "%s attention", model);
    (void)snprintf(name[1], sizeof name[1], "%s attention_backward", model);
    one_case forward = {.name = name[0],
                        .family = "attention",
                        .op = GAL_OP_ATTENTION,
                        .dims = {samples, sequence, heads, dim, kv_heads, GAL_ATTENTION_CAUSAL},
                        .operand = {{BF16, qkv, 1}, {BF16, ctx, 1}, {FP32, lse, 1}},
                        .flops = 2.0 * product};
    one_case backward = {.name = name[1],
                         .family = "attention",
                         .op = GAL_OP_ATTENTION_BACKWARD,
                         .dims = {samples, sequence, heads, dim, kv_heads, GAL_ATTENTION_CAUSAL},
                         .operand = {{BF16, ctx, 1}, {BF16, qkv, 1}, {BF16, ctx, 1}, {FP32, lse, 1}, {BF16, qkv, 1}},
                         .flops = 5.0 * product};
    measure(b, &forward);
    measure(b, &backward);
}

/* ---- one case ---- */

static void queue_case(const bench *b, void *what)
{
    one_case *c = what;
    gal_error err = {.code = GAL_OK};
    (void)b;
    const bool of_fp32 = c->op == GAL_OP_SUM_SQUARES; /* as of a program's gradients */
    must((of_fp32 ? &gal_ops_cuda_fp32 : &gal_ops_cuda_bf16)->kernel[c->op](&c->call, &err), &err);
}

static uint64_t bytes_of(const place *o)
{
    return o->count * (o->kind == BF16 ? 2 : o->kind == ONES ? sizeof(double) : 4);
}

static void give_values(const place *o, char *at)
{
    const double one = 1.0;
    uint32_t state = 1;
    for (uint64_t i = 0; i < o->count && o->kind == ONES; i++) {
        CUDA(cudaMemcpy(at + i * sizeof one, &one, sizeof one, cudaMemcpyHostToDevice));
    }
    if (o->kind == TOKENS) {
        int32_t *tokens = malloc(o->count * sizeof *tokens);
        for (uint64_t i = 0; tokens != NULL && i < o->count; i++) {
            state = state * 1664525u + 1013904223u;
            tokens[i] = (int32_t)((uint64_t)state * VOCABULARY >> 32);
        }
        CUDA(cudaMemcpy(at, tokens, o->count * sizeof *tokens, cudaMemcpyHostToDevice));
        free(tokens);
    }
}

/* Operands one after the other in the arena, then the workspace. */
static void place_operands(const bench *b, one_case *c)
{
    gal_error err = {.code = GAL_OK};
    uint64_t used = 0;
    c->call = (gal_kernel_call){.dims = c->dims,
                                .add = c->add,
                                .group_count = 1,
                                .sample_map = b->sample_map,
                                .step = &b->step,
                                .stream = b->stream,
                                .context = b->context,
                                .device_step = b->device_step};
    for (uint32_t o = 0; o < OPERANDS && c->operand[o].count > 0; o++) {
        c->call.operand[o] = b->arena + used;
        c->call.operand_count = o + 1;
        give_values(&c->operand[o], b->arena + used);
        used += (bytes_of(&c->operand[o]) + 255) / 256 * 256;
    }
    c->call.workspace = b->arena + used;
    c->call.workspace_bytes = gal_ops_cuda_bf16.queued->workspace_bytes(b->context, c->op, &c->call);
    GAL_ASSERT(used + c->call.workspace_bytes + library_workspace_bytes <= arena_bytes);
    must(gal_ops_cuda_bf16.queued->prepare(c->op, &c->call, &err), &err);
    fill_arena(b); /* candidates have overwritten what is written */
    for (uint32_t o = 0; o < c->call.operand_count; o++) {
        give_values(&c->operand[o], c->call.operand[o]);
    }
}

/* ---- every algorithm of cuBLASLt ---- */

#define LT(call)                                                                                                       \
    do {                                                                                                               \
        const cublasStatus_t status_ = (call);                                                                         \
        if (status_ != CUBLAS_STATUS_SUCCESS) {                                                                        \
            (void)fprintf(stderr, "rates: %s: %s\n", #call, cublasLtGetStatusString(status_));                         \
            exit(GAL_ERR_DEVICE);                                                                                      \
        }                                                                                                              \
    } while (0)

typedef struct product {
    const one_case *c;
    cublasLtHandle_t lt;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, d;
    const cublasLtMatmulAlgo_t *algorithm;
    bool refused;
} product;

static void queue_product(const bench *b, void *what)
{
    product *p = what;
    const float one = 1.0F, beta = p->c->add ? 1.0F : 0.0F;
    void *const *operand = p->c->call.operand;
    char *workspace = b->arena + (arena_bytes - library_workspace_bytes);
    p->refused |= cublasLtMatmul(p->lt, p->operation, &one, operand[1], p->a, operand[0], p->b, &beta, operand[2], p->d,
                                 operand[2], p->d, p->algorithm, workspace, library_workspace_bytes,
                                 b->stream) != CUBLAS_STATUS_SUCCESS;
}

/* The library's matrices are column-major: c^T = op(b)^T op(a)^T, so its A is our b (runtime/ops/cuda/gemm.h). */
static void describe(const one_case *c, product *p)
{
    const uint32_t m = c->dims[0], n = c->dims[1], k = c->dims[2];
    const bool left = (c->dims[3] & GAL_GEMM_TRANSPOSE_B) != 0, right = (c->dims[3] & GAL_GEMM_TRANSPOSE_A) != 0;
    const int32_t transpose_a = left ? CUBLAS_OP_T : CUBLAS_OP_N, transpose_b = right ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cudaDataType_t output = (c->dims[3] & GAL_GEMM_FP32_C) != 0 ? CUDA_R_32F : CUDA_R_16BF;
    p->c = c;
    LT(cublasLtMatmulDescCreate(&p->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    LT(cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_TRANSA, &transpose_a, sizeof transpose_a));
    LT(cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_TRANSB, &transpose_b, sizeof transpose_b));
    LT(cublasLtMatrixLayoutCreate(&p->a, CUDA_R_16BF, left ? k : n, left ? n : k, left ? k : n));
    LT(cublasLtMatrixLayoutCreate(&p->b, CUDA_R_16BF, right ? m : k, right ? k : m, right ? m : k));
    LT(cublasLtMatrixLayoutCreate(&p->d, output, n, m, n));
}

/* Seconds of the fastest, of those that one round finds near it; *tried: how many there were. */
static const double near = 1.05;

static double best_seconds(const bench *b, const one_case *c, uint32_t *tried)
{
    static cublasLtHandle_t lt;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    int count = 0;
    double once[CANDIDATES], least = INFINITY, best = INFINITY;
    product p = {.c = NULL};
    if (lt == NULL) {
        LT(cublasLtCreate(&lt));
    }
    p.lt = lt;
    describe(c, &p);
    LT(cublasLtMatmulPreferenceCreate(&preference));
    LT(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                            &library_workspace_bytes, sizeof library_workspace_bytes));
    LT(cublasLtMatmulAlgoGetHeuristic(p.lt, p.operation, p.a, p.b, p.d, p.d, preference, CANDIDATES, found, &count));
    for (int i = 0; i < count; i++) {
        p.algorithm = &found[i].algo;
        p.refused = found[i].state != CUBLAS_STATUS_SUCCESS;
        once[i] = p.refused ? INFINITY : seconds_of(b, 1, queue_product, &p);
        once[i] = p.refused ? INFINITY : once[i];
        least = fmin(least, once[i]);
    }
    for (int i = 0; i < count; i++) {
        if (once[i] <= near * least) {
            p.algorithm = &found[i].algo;
            best = fmin(best, seconds_of(b, ROUNDS, queue_product, &p));
        }
    }
    *tried = (uint32_t)count;
    LT(cublasLtMatmulPreferenceDestroy(preference));
    LT(cublasLtMatrixLayoutDestroy(p.d));
    LT(cublasLtMatrixLayoutDestroy(p.b));
    LT(cublasLtMatrixLayoutDestroy(p.a));
    LT(cublasLtMatmulDescDestroy(p.operation));
    return best;
}

/* ---- lines ---- */

static void print_line(const one_case *c, double seconds, double bytes)
{
    (void)printf("{\"name\": \"%s\", \"family\": \"%s\", \"seconds\": %.9g, \"bytes\": %.0f, \"flops\": %.0f", c->name,
                 c->family, seconds, bytes, c->flops);
}

static void measure_case(const bench *b, one_case *c)
{
    double bytes = 0.0;
    place_operands(b, c);
    for (uint32_t o = 0; o < c->call.operand_count; o++) {
        bytes += (double)bytes_of(&c->operand[o]) * c->operand[o].passes;
    }
    print_line(c, seconds_of(b, ROUNDS, queue_case, c), bytes);
    if (c->op == GAL_OP_GEMM) {
        uint32_t tried = 0;
        const double best = best_seconds(b, c, &tried);
        (void)printf(", \"best_seconds\": %.9g, \"candidate_count\": %u", best, tried);
    }
    (void)printf("}\n");
    (void)fflush(stdout);
}

static void copy_half(const bench *b, void *what)
{
    (void)what;
    CUDA(cudaMemcpyAsync(b->arena + arena_bytes / 2, b->arena, arena_bytes / 2, cudaMemcpyDeviceToDevice, b->stream));
}

int main(void)
{
    bench b;
    open_bench(&b);
    fill_arena(&b);
    one_case copy = {.name = "copy", .family = "limit"};
    print_line(&copy, seconds_of(&b, ROUNDS, copy_half, NULL), (double)arena_bytes);
    (void)printf("}\n");
    one_case square = {"matmul",
                       "limit",
                       GAL_OP_GEMM,
                       {8192, 8192, 8192, 0},
                       .operand = {{BF16, UINT64_C(8192) * 8192, 1},
                                   {BF16, UINT64_C(8192) * 8192, 1},
                                   {BF16, UINT64_C(8192) * 8192, 1}},
                       .flops = 2.0 * 8192.0 * 8192.0 * 8192.0};
    measure_case(&b, &square);
    norm_cases(measure_case, &b);
    pointwise_cases(measure_case, &b);
    loss_cases(measure_case, &b);
    product_cases(measure_case, &b, "7b", 2 * SEQUENCE, HIDDEN, FFN);
    product_cases(measure_case, &b, "1.5b", 8 * 1024, 1600, 6400);
    product_cases(measure_case, &b, "124m", 16 * 1024, 768, 3072);
    attention_cases(measure_case, &b, "7b", 2, SEQUENCE, 32, 128, 32);
    attention_cases(measure_case, &b, "llama3-8b", 2, SEQUENCE, 32, 128, 8);
    attention_cases(measure_case, &b, "1.5b", 8, 1024, 25, 64, 25);
    attention_cases(measure_case, &b, "124m", 16, 1024, 12, 64, 12);
    gal_ops_cuda_bf16.queued->close(b.context);
    return 0;
}
