/* Our own attention on emulated threads: every kind, forward and backward, in fp32 by single threads and in bf16 and
 * fp16 by tiles, and the merge of a ring's parts.
 *
 * Three sides. `exact` is attention by definition in fp64, a pair at a time, on the index functions that the kernels
 * use too (flash.h). The host's kernels in fp64 must agree with it to 1e-10 (sums of some hundred numbers below 10 that
 * were rounded at 1e-16): so the index functions are right. The device's must agree within what rounding explains: with
 * u of the type and v = 2^-24 of fp32, sums of n terms are off by (n + 8) v times the sum of their sizes; a factor that
 * is rounded to the type adds u times that; a result adds u of itself. Scores are off by the first, and so are
 * probabilities by that relative error twice, theirs and the log-sum-exp's. */
#include <math.h>
#include <stdio.h>

#include "runtime/ops/cuda/flash_call.h"
#include "runtime/ops/cuda/gemm_bias.h"
#include "runtime/ops/cuda/kernels.h"
#include "tests/support/emulated/machine.h"
#include "tests/support/ops_case.h"

/* ---- numbers of 16 bits ---- */

static double round_to(gal_dtype dtype, double value)
{
    const int digits = dtype == GAL_BF16 ? 8 : dtype == GAL_FP16 ? 11 : 24;
    const int least = dtype == GAL_FP16 ? -14 : -126;
    if (value == 0.0 || !isfinite(value)) {
        return value;
    }
    const int exponent = ilogb(value) < least ? least : ilogb(value);
    return ldexp(nearbyint(ldexp(value, digits - 1 - exponent)), exponent - digits + 1);
}

static void put(gal_dtype dtype, void *to, size_t i, double value)
{
    const float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    if (dtype == GAL_FP32) {
        memcpy((float *)to + i, &single, sizeof single);
        return;
    }
    uint16_t half = (uint16_t)(bits >> 16);
    if (dtype == GAL_FP16) {
        const double size = fabs(value);
        const int exponent = size < 0x1p-14 ? -14 : ilogb(size);
        half = (uint16_t)((signbit(value) ? 0x8000 : 0) + (exponent + 14) * 1024 + (int)ldexp(size, 10 - exponent));
    }
    memcpy((uint16_t *)to + i, &half, sizeof half);
}

static double get(gal_dtype dtype, const void *from, size_t i)
{
    float single;
    uint16_t half;
    if (dtype == GAL_FP32) {
        memcpy(&single, (const float *)from + i, sizeof single);
        return (double)single;
    }
    memcpy(&half, (const uint16_t *)from + i, sizeof half);
    const uint32_t bits = (uint32_t)half << 16;
    if (dtype == GAL_BF16) {
        memcpy(&single, &bits, sizeof single);
        return (double)single;
    }
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const double size = exponent == 0 ? ldexp(fraction, -24) : ldexp(fraction + 1024, exponent - 25);
    return exponent == 31 ? (double)NAN : (half & 0x8000) != 0 ? -size : size;
}

/* ---- a problem ---- */

typedef struct tensor {
    size_t count;
    double *host;  /* what the host's kernel has */
    double *exact; /* by definition */
    double *bound; /* on what the device has, from exact */
    void *device;
    char *memory;
} tensor;

typedef struct problem {
    ops_case at;
    gal_dtype dtype;
    gal_op op; /* the forward */
    const uint32_t *dims;
    bool add, odd; /* odd: addresses that are not multiples of 16 */
    gal_flash f;
    int32_t *lengths;                                    /* of both sides, [samples]; NULL: no padding */
    tensor q, kv, table, ctx, lse, dctx, dq, dkv, dbias; /* kv, dkv: of cross-attention alone */
    double *p, *slope, *mask, *dots;                     /* of one head and window: [queries][keys] */
} problem;

static bool is_cross(const problem *p)
{
    return p->op == GAL_OP_CROSS_ATTENTION;
}

static gal_dtype type_of(const problem *p, const tensor *t)
{
    return t == &p->lse || t == &p->dbias ? GAL_FP32 : p->dtype;
}

static void make_tensor(problem *p, tensor *t, size_t count, double size, uint64_t seed)
{
    const size_t each = type_of(p, t) == GAL_FP32 ? 4 : 2;
    t->count = count;
    t->host = calloc(count + 1, sizeof *t->host);
    t->exact = calloc(count + 1, sizeof *t->exact);
    t->bound = calloc(count + 1, sizeof *t->bound);
    t->memory = gal_machine_allocate((count + 1) * each);
    assert_true(t->host != NULL && t->exact != NULL && t->bound != NULL && t->memory != NULL);
    t->device = t->memory + (p->odd ? each : 0);
    for (size_t i = 0; i < count; i++) {
        t->host[i] = t->exact[i] = size == 0.0 ? (double)NAN : round_to(type_of(p, t), size * ops_random(&seed));
        if (type_of(p, t) == GAL_FP32) {
            const float value = (float)t->host[i];
            memcpy((float *)t->device + i, &value, sizeof value);
        } else if (size == 0.0) {
            memset((uint16_t *)t->device + i, 0xFF, 2);
        } else {
            put(p->dtype, t->device, i, t->host[i]);
        }
    }
}

static void free_tensor(tensor *t)
{
    free(t->host);
    free(t->exact);
    free(t->bound);
    gal_machine_free(t->memory);
}

/* Forward and backward operands, on the host (0) or the device. */
static uint32_t list_operands(problem *p, bool backward, bool device, void **out)
{
    tensor *all[GAL_KERNEL_OPERANDS_MAX];
    uint32_t count = 0;
    if (backward) {
        all[count++] = &p->dctx;
    }
    all[count++] = &p->q;
    if (is_cross(p)) {
        all[count++] = &p->kv;
    }
    if (!backward && p->table.count > 0) {
        all[count++] = &p->table;
    }
    all[count++] = &p->ctx;
    all[count++] = &p->lse;
    if (backward) {
        if (p->table.count > 0) {
            all[count++] = &p->table;
        }
        all[count++] = &p->dq;
        if (is_cross(p)) {
            all[count++] = &p->dkv;
        }
        if (p->table.count > 0) {
            all[count++] = &p->dbias;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        out[i] = device ? gal_machine_at(all[i]->device) : all[i]->host;
    }
    if (p->lengths != NULL) {
        out[count++] = device ? gal_machine_at(p->lengths) : p->lengths;
    }
    return count;
}

static gal_op backward_of(gal_op op)
{
    return (gal_op)(op + 1);
}

static gal_kernel_call call_of(problem *p, bool backward, bool device)
{
    gal_kernel_call call = p->at.call;
    call.dims = p->dims;
    call.add = backward && p->add;
    call.operand_count = list_operands(p, backward, device, call.operand);
    return call;
}

static void make(problem *p)
{
    gal_kernel_call call = p->at.call;
    call.dims = p->dims;
    p->f = gal_flash_of_call(p->op, &call);
    p->f.lengths = p->lengths;
    const gal_flash *f = &p->f;
    const size_t rows = (size_t)f->samples * f->positions, keys = (size_t)f->samples * f->keys;
    const size_t entries = (size_t)f->bias_entries * f->bias_stride;
    make_tensor(p, &p->q, rows * f->q_row, 1.5, 1);
    make_tensor(p, &p->kv, is_cross(p) ? keys * f->kv_row : 0, 1.5, 2);
    make_tensor(p, &p->table, entries, 2.0, 3);
    make_tensor(p, &p->ctx, rows * f->heads * f->dim, 0.0, 0);
    make_tensor(p, &p->lse, rows * f->heads, 0.0, 0);
    make_tensor(p, &p->dctx, p->ctx.count, 1.0, 4);
    make_tensor(p, &p->dq, p->q.count, 0.0, 0);
    make_tensor(p, &p->dkv, p->kv.count, 0.0, 0);
    make_tensor(p, &p->dbias, entries, p->add ? 3.0 : 0.0, 5);
    for (size_t i = 0; i < entries; i++) { /* what is added to is below 3, and rounded with every slot */
        p->dbias.exact[i] = p->add ? p->dbias.exact[i] : 0.0;
        p->dbias.bound[i] = p->add ? GAL_FLASH_SLOTS_MAX * 0x1p-24 * 3.0 : 0.0;
    }
    const size_t pairs = (size_t)f->queries * f->keys;
    p->p = calloc(pairs, sizeof *p->p);
    p->slope = calloc(pairs, sizeof *p->slope);
    p->mask = calloc(pairs, sizeof *p->mask);
    p->dots = calloc(f->queries, sizeof *p->dots);
    assert_true(p->p != NULL && p->slope != NULL && p->mask != NULL && p->dots != NULL);
}

static void release(problem *p)
{
    tensor *all[] = {&p->q, &p->kv, &p->table, &p->ctx, &p->lse, &p->dctx, &p->dq, &p->dkv, &p->dbias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free_tensor(all[i]);
    }
    gal_machine_free(p->lengths);
    free(p->p);
    free(p->slope);
    free(p->mask);
    free(p->dots);
}

/* ---- by definition ---- */

typedef struct head {
    uint32_t sample, head, window;
} head;

static uint32_t kv_head(const problem *p, head h)
{
    return h.head / (p->f.heads / p->f.kv_heads);
}

static size_t q_at(const problem *p, head h, uint32_t i)
{
    return gal_flash_q_at(&p->f, gal_flash_position(&p->f, h.window, i), h.sample, h.head);
}

static size_t k_at(const problem *p, head h, uint32_t j)
{
    return p->f.k_offset + gal_flash_kv_at(&p->f, gal_flash_position(&p->f, h.window, j), h.sample, kv_head(p, h));
}

static size_t ctx_at(const problem *p, head h, uint32_t i)
{
    return gal_flash_ctx_at(&p->f, gal_flash_position(&p->f, h.window, i), h.sample, h.head);
}

static size_t lse_at(const problem *p, head h, uint32_t i)
{
    return gal_flash_lse_at(&p->f, gal_flash_position(&p->f, h.window, i), h.sample, h.head);
}

static const double *kv_values(const problem *p)
{
    return is_cross(p) ? p->kv.exact : p->q.exact;
}

static size_t entry_of(const problem *p, head h, uint32_t i, uint32_t j)
{
    const gal_flash *f = &p->f;
    const uint32_t entry = f->bias == GAL_FLASH_BUCKETS ? gal_flash_bucket(f, (int64_t)j - (int64_t)i)
                                                        : gal_flash_entry(f, gal_flash_place_of(f, h.window, i),
                                                                          gal_flash_place_of(f, h.window, j));
    return (size_t)entry * f->bias_stride + f->bias_column + h.head;
}

static double score_of(const problem *p, head h, uint32_t i, uint32_t j)
{
    const gal_flash *f = &p->f;
    const double scale = f->scale == 1.0F ? 1.0 : 1.0 / sqrt((double)f->dim);
    const double *q = p->q.exact + q_at(p, h, i), *k = kv_values(p) + k_at(p, h, j);
    double sum = 0.0;
    for (uint32_t d = 0; d < f->dim; d++) {
        sum += q[d] * k[d];
    }
    sum *= scale;
    if (f->bias != GAL_FLASH_NO_BIAS) {
        sum += p->table.exact[entry_of(p, h, i, j)];
    }
    if (f->bias == GAL_FLASH_WINDOW &&
        gal_flash_place_of(f, h.window, i).region != gal_flash_place_of(f, h.window, j).region) {
        sum -= 100.0;
    }
    return sum;
}

static double mask_of(const problem *p, head h, uint32_t i, uint32_t j)
{
    const gal_flash *f = &p->f;
    uint32_t lanes[4];
    if (!f->dropout) {
        return 1.0;
    }
    const uint64_t number = gal_flash_dropout_at(f, gal_flash_position(f, h.window, i), h.sample, h.head) + j;
    gal_philox(p->at.step.seed, number / 4, f->dropout_site, (uint32_t)p->at.step.step, lanes);
    return lanes[number % 4] > f->drop_max ? 1.0 / (1.0 - p->at.model.attention_dropout) : 0.0;
}

/* Probabilities and masks of a head, its ctx and lse. */
static void define_forward(problem *p, head h)
{
    const gal_flash *f = &p->f;
    for (uint32_t i = 0; i < f->queries; i++) {
        double *row = p->p + (size_t)i * f->keys, sum = 0.0;
        const uint32_t end = gal_flash_key_end(f, h.sample, i);
        for (uint32_t j = 0; j < f->keys; j++) {
            p->mask[(size_t)i * f->keys + j] = mask_of(p, h, i, j);
            row[j] = j < end ? exp(score_of(p, h, i, j)) : 0.0;
            sum += row[j];
        }
        p->lse.exact[lse_at(p, h, i)] = sum > 0.0 ? log(sum) : -INFINITY;
        for (uint32_t j = 0; j < f->keys; j++) {
            row[j] /= sum;
        }
    }
}

/* sum[target] += factor values[from], with the bound: of a factor that is off by `relative` of `size` */
static void add_row(const problem *p, tensor *target, size_t to, const double *from, double factor, double size,
                    double relative)
{
    for (uint32_t d = 0; d < p->f.dim; d++) {
        target->exact[to + d] += factor * from[d];
        target->bound[to + d] += relative * size * fabs(from[d]);
    }
}

static double unit_of(const problem *p)
{
    return p->dtype == GAL_BF16 ? 0x1p-8 : p->dtype == GAL_FP16 ? 0x1p-11 : 0x1p-24;
}

/* Relative error of a probability: of a score (products of numbers below 1.5, a bias, 100 less) and of its log-sum-exp,
 * which ends as fp32 of a size up to 110. */
static double probability_error(const problem *p)
{
    const double terms = (double)p->f.dim * 2.25 * (double)p->f.scale;
    return 2.0 * (((double)p->f.dim + 8.0) * terms + 110.0 * 8.0) * 0x1p-24;
}

static double sum_error(const problem *p)
{
    return ((double)p->f.keys + (double)p->f.queries + 8.0) * 0x1p-24;
}

static void define_ctx(problem *p, head h)
{
    const gal_flash *f = &p->f;
    const double relative = unit_of(p) + probability_error(p) + sum_error(p);
    for (uint32_t i = 0; i < f->queries; i++) {
        const size_t to = ctx_at(p, h, i);
        memset(p->ctx.exact + to, 0, f->dim * sizeof(double));
        for (uint32_t j = 0; j < f->keys; j++) {
            const double factor = p->p[(size_t)i * f->keys + j] * p->mask[(size_t)i * f->keys + j];
            add_row(p, &p->ctx, to, kv_values(p) + k_at(p, h, j) + (f->v_offset - f->k_offset), factor, factor,
                    relative);
        }
        p->lse.bound[lse_at(p, h, i)] = probability_error(p);
    }
}

/* D is of the ctx that the kernels are given: the exact one, rounded to the type. */
static void define_slopes(problem *p, head h)
{
    const gal_flash *f = &p->f;
    for (uint32_t i = 0; i < f->queries; i++) {
        const double *dctx = p->dctx.exact + ctx_at(p, h, i), *ctx = p->ctx.host + ctx_at(p, h, i);
        double dot = 0.0;
        for (uint32_t d = 0; d < f->dim; d++) {
            dot += dctx[d] * ctx[d];
        }
        p->dots[i] = dot;
        for (uint32_t j = 0; j < f->keys; j++) {
            const double *value = kv_values(p) + k_at(p, h, j) + (f->v_offset - f->k_offset);
            const size_t pair = (size_t)i * f->keys + j;
            double dp = 0.0;
            for (uint32_t d = 0; d < f->dim; d++) {
                dp += dctx[d] * value[d];
            }
            p->slope[pair] = p->p[pair] * (p->mask[pair] * dp - dot);
        }
    }
}

/* A slope is P (M dO V - D): off by the error of P, and by those of two sums of `dim` terms below 1.5. */
static double slope_error(const problem *p, size_t pair)
{
    const double sums = 1.5 * (double)p->f.dim * ((double)p->f.dim + 8.0) * 0x1p-24;
    return probability_error(p) * fabs(p->slope[pair]) + p->p[pair] * (1.0 + p->mask[pair]) * sums;
}

static void define_backward(problem *p, head h)
{
    const gal_flash *f = &p->f;
    const double scale = f->scale == 1.0F ? 1.0 : 1.0 / sqrt((double)f->dim);
    const double relative = unit_of(p) + probability_error(p) + sum_error(p);
    const double in_an_entry = (double)f->samples * (double)f->windows * (double)f->queries + 8.0;
    tensor *dkv = is_cross(p) ? &p->dkv : &p->dq;
    for (uint32_t i = 0; i < f->queries; i++) {
        for (uint32_t j = 0; j < gal_flash_key_end(f, h.sample, i); j++) {
            const size_t pair = (size_t)i * f->keys + j, k = k_at(p, h, j), v = k + (f->v_offset - f->k_offset);
            const double factor = p->p[pair] * p->mask[pair], slope = scale * p->slope[pair],
                         error = slope_error(p, pair);
            const double off = scale * error + (unit_of(p) + sum_error(p)) * fabs(slope);
            add_row(p, &p->dq, q_at(p, h, i), kv_values(p) + k, slope, off, 1.0);
            add_row(p, dkv, k, p->q.exact + q_at(p, h, i), slope, off, 1.0);
            add_row(p, dkv, v, p->dctx.exact + ctx_at(p, h, i), factor, factor, relative);
            if (p->dbias.count > 0) {
                const size_t to = entry_of(p, h, i, j);
                p->dbias.exact[to] += p->slope[pair];
                p->dbias.bound[to] += error + in_an_entry * 0x1p-24 * fabs(p->slope[pair]);
            }
        }
    }
}

static void over_heads(problem *p, void (*work)(problem *p, head h))
{
    for (uint32_t sample = 0; sample < p->f.samples; sample++) {
        for (uint32_t one = 0; one < p->f.heads; one++) {
            for (uint32_t window = 0; window < p->f.windows; window++) {
                define_forward(p, (head){sample, one, window});
                work(p, (head){sample, one, window});
            }
        }
    }
}

static void slopes_and_backward(problem *p, head h)
{
    define_slopes(p, h);
    define_backward(p, h);
}

/* ---- comparing ---- */

static void run_host(problem *p, bool backward)
{
    gal_kernel_call call = call_of(p, backward, false);
    gal_error err = {.code = GAL_OK};
    const gal_op op = backward ? backward_of(p->op) : p->op;
    assert_int_equal(gal_ops_host_fp64.kernel[op](&call, &err), GAL_OK);
}

static void run_device(problem *p, bool backward, bool reverse)
{
    gal_kernel_call call = call_of(p, backward, true);
    gal_error err = {.code = GAL_OK};
    const gal_op op = backward ? backward_of(p->op) : p->op;
    gal_cuda_step *step = gal_machine_allocate(sizeof *step);
    uint32_t *samples = gal_machine_allocate(sizeof p->at.sample_map);
    const uint64_t workspace_bytes = gal_machine_attention_workspace_bytes(op, p->dtype, &call);
    char *workspace = gal_machine_allocate(workspace_bytes);
    assert_true(step != NULL && samples != NULL && workspace != NULL);
    *step = gal_cuda_step_of(&p->at.step, 1.0);
    memcpy(samples, p->at.sample_map, sizeof p->at.sample_map);
    memset(workspace, 0xFF, workspace_bytes);
    call.device_step = gal_machine_at(step);
    call.sample_map = gal_machine_at(samples);
    call.workspace = gal_machine_at(workspace);
    call.workspace_bytes = workspace_bytes;
    gal_machine_begin(reverse);
    const gal_code code = gal_machine_attention(op, p->dtype, &call, &err);
    if (code != GAL_OK) {
        fail_msg("%s", err.text);
    }
    gal_machine_end();
    gal_machine_free(workspace);
    gal_machine_free(samples);
    gal_machine_free(step);
}

static void expect_host(const tensor *t, const char *name)
{
    for (size_t i = 0; i < t->count; i++) {
        if (!(fabs(t->host[i] - t->exact[i]) <= 1e-10 * (1.0 + fabs(t->exact[i])))) {
            fail_msg("%s[%zu]: the host's is %.17g, by definition %.17g", name, i, t->host[i], t->exact[i]);
        }
    }
}

static void expect_device(const problem *p, const tensor *t, const char *name)
{
    const double unit = type_of(p, t) == GAL_FP32 ? 0x1p-24 : unit_of(p);
    for (size_t i = 0; i < t->count; i++) {
        const double got = get(type_of(p, t), t->device, i);
        const double bound = t->bound[i] + unit * (fabs(t->exact[i]) + t->bound[i]) + 0x1p-25;
        if (!(fabs(got - t->exact[i]) <= bound)) {
            fail_msg("%s[%zu]: %.9g, by definition %.9g, may be off by %.3g", name, i, got, t->exact[i], bound);
        }
    }
}

/* A copy of what the device wrote, to compare bits. */
static char *copy_of(const problem *p, const tensor *t)
{
    const size_t bytes = t->count * (type_of(p, t) == GAL_FP32 ? 4 : 2);
    char *copy = malloc(bytes + 1);
    assert_non_null(copy);
    memcpy(copy, t->device, bytes);
    return copy;
}

static void expect_same_bits(const problem *p, const tensor *t, char *copy)
{
    assert_memory_equal(copy, t->device, t->count * (type_of(p, t) == GAL_FP32 ? 4 : 2));
    free(copy);
}

/* What the backward reads: the exact results, rounded, on both sides. */
static void give_forward_results(problem *p)
{
    for (size_t i = 0; i < p->ctx.count; i++) {
        p->ctx.host[i] = round_to(p->dtype, p->ctx.exact[i]);
        put(p->dtype, p->ctx.device, i, p->ctx.host[i]);
    }
    for (size_t i = 0; i < p->lse.count; i++) {
        const float value = (float)p->lse.exact[i];
        p->lse.host[i] = p->lse.exact[i];
        memcpy((float *)p->lse.device + i, &value, sizeof value);
    }
}

static void forward_case(problem *p)
{
    over_heads(p, define_ctx);
    run_host(p, false);
    expect_host(&p->ctx, "ctx");
    expect_host(&p->lse, "lse");
    run_device(p, false, true);
    char *ctx = copy_of(p, &p->ctx), *lse = copy_of(p, &p->lse);
    run_device(p, false, false);
    expect_same_bits(p, &p->ctx, ctx);
    expect_same_bits(p, &p->lse, lse);
    expect_device(p, &p->ctx, "ctx");
    expect_device(p, &p->lse, "lse");
}

static void set_zero(tensor *t)
{
    memset(t->exact, 0, t->count * sizeof *t->exact);
}

static void backward_case(problem *p)
{
    give_forward_results(p);
    set_zero(&p->dq);
    set_zero(&p->dkv);
    char *begun = copy_of(p, &p->dbias);
    over_heads(p, slopes_and_backward);
    run_host(p, true);
    expect_host(&p->dq, "dq");
    expect_host(&p->dkv, "dkv");
    expect_host(&p->dbias, "dbias");
    run_device(p, true, true);
    char *dq = copy_of(p, &p->dq), *dkv = copy_of(p, &p->dkv), *dbias = copy_of(p, &p->dbias);
    memcpy(p->dbias.device, begun, p->dbias.count * 4);
    free(begun);
    run_device(p, true, false);
    expect_same_bits(p, &p->dq, dq);
    expect_same_bits(p, &p->dkv, dkv);
    expect_same_bits(p, &p->dbias, dbias);
    expect_device(p, &p->dq, "dq");
    expect_device(p, &p->dkv, "dkv");
    expect_device(p, &p->dbias, "dbias");
}

typedef struct variant {
    gal_dtype dtype;
    double dropout;
    uint32_t group_index, group_count;
    bool add, odd;
} variant;

static int32_t *copy_lengths(const int32_t *lengths, uint32_t samples)
{
    int32_t *copy = lengths == NULL ? NULL : gal_machine_allocate(samples * sizeof *copy);
    for (uint32_t s = 0; copy != NULL && s < samples; s++) {
        copy[s] = lengths[s];
    }
    return copy;
}

/* lengths: [samples], or NULL. */
static void check_padded(gal_op op, const uint32_t *dims, const int32_t *lengths, variant v)
{
    problem p = {.op = op, .dims = dims, .dtype = v.dtype, .add = v.add, .odd = v.odd && gal_machine_attention_odd()};
    ops_case_init(&p.at);
    p.at.model.sequence_length = dims[1] > dims[4] && op == GAL_OP_CROSS_ATTENTION ? dims[1] : dims[1] + 3;
    if (op == GAL_OP_CROSS_ATTENTION) {
        p.at.model.sequence_length = dims[4];
        p.at.model.decoder_sequence_length = dims[1];
    }
    p.at.model.attention_dropout = v.dropout;
    p.at.model.head_count = dims[2] * v.group_count;
    p.at.call.group_index = v.group_index;
    p.at.call.group_count = v.group_count;
    p.at.call.block = 5;
    p.at.step.step = 9;
    for (uint32_t i = 0; i < 8; i++) {
        p.at.sample_map[i] = 11 + 3 * i;
    }
    p.lengths = copy_lengths(lengths, dims[0]);
    make(&p);
    forward_case(&p);
    backward_case(&p);
    release(&p);
}

static void check(gal_op op, const uint32_t *dims, variant v)
{
    check_padded(op, dims, NULL, v);
}

static const gal_dtype types[] = {GAL_FP32, GAL_BF16, GAL_FP16};

/* samples, sequence, heads, head_dim, kv heads, flags */
static void self_attention(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < 3; t++) {
        check(GAL_OP_ATTENTION, DIMS(2, 75, 2, 40, 1, GAL_ATTENTION_CAUSAL),
              (variant){types[t], 0.0, 0, 1, false, false});
        check(GAL_OP_ATTENTION, DIMS(1, 70, 2, 64, 2, 0), (variant){types[t], 0.0, 0, 1, false, false});
    }
}

static void widths_of_heads(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < 3; t++) {
        check(GAL_OP_ATTENTION, DIMS(1, 67, 1, 24, 1, GAL_ATTENTION_CAUSAL),
              (variant){types[t], 0.0, 0, 1, false, false});
        check(GAL_OP_ATTENTION, DIMS(1, 67, 1, 33, 1, 0), (variant){types[t], 0.0, 0, 1, false, false});
        check(GAL_OP_ATTENTION, DIMS(1, 35, 1, 104, 1, GAL_ATTENTION_CAUSAL),
              (variant){types[t], 0.0, 0, 1, false, true});
        check(GAL_OP_ATTENTION, DIMS(1, 70, 1, 200, 1, GAL_ATTENTION_CAUSAL),
              (variant){types[t], 0.0, 0, 1, false, false});
        check(GAL_OP_ATTENTION, DIMS(2, 1, 1, 8, 1, GAL_ATTENTION_CAUSAL),
              (variant){types[t], 0.0, 0, 1, false, false});
    }
}

static void shared_keys_and_dropout(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < 3; t++) {
        check(GAL_OP_ATTENTION, DIMS(2, 70, 3, 32, 1, GAL_ATTENTION_CAUSAL),
              (variant){types[t], 0.3, 1, 2, false, false});
    }
}

/* samples, sequence, heads, head_dim, causal, buckets, max_distance */
static void relative_attention(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < 3; t++) {
        check(GAL_OP_RELATIVE_ATTENTION, DIMS(2, 90, 2, 16, 0, 32, 60), (variant){types[t], 0.0, 1, 3, false, false});
        check(GAL_OP_RELATIVE_ATTENTION, DIMS(1, 131, 1, 16, 1, 10, 50), (variant){types[t], 0.2, 0, 1, true, false});
    }
}

/* samples, sequence, heads, head_dim, side, window, shift */
static void window_attention(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < 3; t++) {
        check(GAL_OP_WINDOW_ATTENTION, DIMS(2, 196, 1, 32, 14, 7, 3), (variant){types[t], 0.0, 0, 1, false, false});
        check(GAL_OP_WINDOW_ATTENTION, DIMS(1, 81, 2, 16, 9, 9, 0), (variant){types[t], 0.1, 1, 2, true, false});
    }
}

/* samples, queries, heads, head_dim, keys */
static void cross_attention(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < 3; t++) {
        check(GAL_OP_CROSS_ATTENTION, DIMS(2, 21, 2, 16, 90), (variant){types[t], 0.0, 0, 1, false, false});
        check(GAL_OP_CROSS_ATTENTION, DIMS(1, 90, 1, 16, 21), (variant){types[t], 0.2, 0, 1, false, false});
    }
}

/* Of one key, of all, around tiles of 64, and heads that share keys; dropout, a bias that is added to. */
static void padded_attention(void **state)
{
    (void)state;
    static const int32_t few[] = {1, 75}, tiles[] = {64, 65}, keys[] = {90, 33};
    for (uint32_t t = 0; t < 3; t++) {
        const gal_dtype type = types[t];
        check_padded(GAL_OP_ATTENTION, DIMS(2, 75, 2, 40, 1, 0), few, (variant){type, 0.0, 0, 1, false, false});
        check_padded(GAL_OP_ATTENTION, DIMS(2, 131, 1, 72, 1, 0), tiles, (variant){type, 0.2, 0, 1, false, false});
        check_padded(GAL_OP_RELATIVE_ATTENTION, DIMS(2, 90, 2, 16, 0, 32, 60), tiles,
                     (variant){type, 0.0, 1, 3, true, false});
        check_padded(GAL_OP_CROSS_ATTENTION, DIMS(2, 21, 2, 16, 90), keys, (variant){type, 0.0, 0, 1, false, false});
    }
}

/* ---- a ring ---- */

enum { HALF = 40, RING_HEADS = 2, RING_DIM = 16, RING_ROW = 3 * RING_HEADS * RING_DIM };
enum { RING_COUNT = HALF * RING_HEADS * RING_DIM }; /* of the ctx of half the queries */

/* What the device has beside the whole problem's tensors. */
typedef struct ring {
    problem p;
    gal_flash_type type;
    size_t each; /* bytes of a number of the type */
    gal_cuda_step *step;
    uint32_t *samples;
    float *ctx, *lse, *part_lse; /* merged, of half the queries, and of a part */
    char *part, *dq, *dkv, *workspace;
} ring;

static void *ring_memory(size_t bytes)
{
    void *memory = gal_machine_allocate(bytes);
    assert_non_null(memory);
    return memory;
}

static void make_ring(gal_dtype dtype, double dropout, const uint32_t *dims, ring *r)
{
    problem *p = &r->p;
    *p = (problem){.op = GAL_OP_ATTENTION, .dims = dims, .dtype = dtype};
    ops_case_init(&p->at);
    p->at.model.sequence_length = 2 * HALF;
    p->at.model.head_count = RING_HEADS;
    p->at.model.attention_dropout = dropout;
    p->at.sample_map[0] = 11;
    make(p);
    r->type = dtype == GAL_FP32 ? GAL_FLASH_FP32 : dtype == GAL_BF16 ? GAL_FLASH_BF16 : GAL_FLASH_FP16;
    r->each = dtype == GAL_FP32 ? 4 : 2;
    r->step = ring_memory(sizeof *r->step);
    r->samples = ring_memory(sizeof p->at.sample_map);
    r->ctx = ring_memory(RING_COUNT * sizeof *r->ctx);
    r->lse = ring_memory(RING_HEADS * HALF * sizeof *r->lse);
    r->part_lse = ring_memory(RING_HEADS * HALF * sizeof *r->part_lse);
    r->part = ring_memory(RING_COUNT * r->each);
    r->dq = ring_memory(HALF * RING_ROW * r->each);
    r->dkv = ring_memory(HALF * RING_ROW * r->each);
    r->workspace = ring_memory(RING_HEADS * HALF * sizeof(float) + 256);
    *r->step = gal_cuda_step_of(&p->at.step, 1.0);
    memcpy(r->samples, p->at.sample_map, sizeof p->at.sample_map);
}

static void free_ring(ring *r)
{
    void *all[] = {r->workspace, r->dkv, r->dq, r->part, r->part_lse, r->lse, r->ctx, r->samples, r->step};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        gal_machine_free(all[i]);
    }
    release(&r->p);
}

/* Half the queries and half the keys. */
static gal_flash part_of(const ring *r, uint32_t query_half, uint32_t key_half)
{
    gal_flash f = r->p.f;
    f.queries = f.keys = f.positions = HALF;
    f.query_begin = query_half * HALF;
    f.key_begin = key_half * HALF;
    f.q = gal_machine_at((char *)r->p.q.device + query_half * (size_t)HALF * RING_ROW * r->each);
    f.kv = gal_machine_at((char *)r->p.q.device + key_half * (size_t)HALF * RING_ROW * r->each);
    f.step = gal_machine_at(r->step);
    f.sample_map = gal_machine_at(r->samples);
    f.workspace = gal_machine_at(r->workspace);
    f.workspace_bytes = gal_flash_layout_of(&f, true).bytes;
    return f;
}

static void merge_part(ring *r, uint32_t query_half, uint32_t key_half)
{
    gal_flash f = part_of(r, query_half, key_half);
    f.ctx = gal_machine_at(r->part);
    f.lse = gal_machine_at(r->part_lse);
    gal_machine_begin(false);
    assert_int_equal(gal_flash_forward(&f, r->type, NULL), 0);
    assert_int_equal(gal_flash_merge(1, HALF, RING_HEADS, RING_DIM, r->type, gal_machine_at(r->ctx),
                                     gal_machine_at(r->lse), gal_machine_at(r->part), gal_machine_at(r->part_lse),
                                     NULL),
                     0);
    gal_machine_end();
}

/* Queries of the second half see keys in two parts: those of the first half, all, and their own, causal. Merged, it is
 * as if they had seen them at once. Keys behind all queries change nothing. */
static void ring_forward(ring *r)
{
    const problem *p = &r->p;
    over_heads(&r->p, define_ctx);
    for (size_t i = 0; i < RING_COUNT; i++) {
        r->ctx[i] = 0.0F;
    }
    for (size_t i = 0; i < RING_HEADS * HALF; i++) {
        r->lse[i] = -INFINITY;
    }
    merge_part(r, 1, 0);
    merge_part(r, 1, 1);
    merge_part(r, 0, 1);
    for (uint32_t i = 0; i < RING_COUNT; i++) {
        const size_t whole = RING_COUNT + i;
        assert_true(fabs((double)r->ctx[i] - p->ctx.exact[whole]) <=
                    2.0 * p->ctx.bound[whole] + 2.0 * unit_of(p) * 1.5 / (1.0 - p->at.model.attention_dropout));
    }
    for (uint32_t h = 0; h < RING_HEADS; h++) {
        for (uint32_t i = 0; i < HALF; i++) {
            const double exact = p->lse.exact[h * 2 * HALF + HALF + i];
            assert_true(fabs((double)r->lse[h * HALF + i] - exact) <= 2.0 * probability_error(p));
        }
    }
}

/* Of a part, with the log-sum-exp of all keys and the whole ctx: added to sum and, in size, to size[2 HALF][RING_ROW].
 */
static void add_part(ring *r, uint32_t query_half, uint32_t key_half, double *sum, double *size)
{
    const problem *p = &r->p;
    const gal_dtype dtype = p->dtype;
    gal_flash f = part_of(r, query_half, key_half);
    for (uint32_t h = 0; h < RING_HEADS; h++) {
        for (uint32_t i = 0; i < HALF; i++) {
            r->part_lse[h * HALF + i] = (float)p->lse.exact[h * 2 * HALF + query_half * HALF + i];
        }
    }
    memset(r->dq, 0, HALF * RING_ROW * r->each);
    memset(r->dkv, 0, HALF * RING_ROW * r->each);
    f.ctx = gal_machine_at((char *)p->ctx.device + query_half * RING_COUNT * r->each);
    f.dctx = gal_machine_at((char *)p->dctx.device + query_half * RING_COUNT * r->each);
    f.lse = gal_machine_at(r->part_lse);
    f.dq = gal_machine_at(r->dq);
    f.dkv = gal_machine_at(r->dkv);
    gal_machine_begin(false);
    assert_int_equal(gal_flash_backward(&f, r->type, NULL), 0);
    gal_machine_end();
    for (size_t i = 0; i < HALF * RING_ROW; i++) {
        const double of_queries = get(dtype, r->dq, i), of_keys = get(dtype, r->dkv, i);
        sum[query_half * HALF * RING_ROW + i] += of_queries;
        size[query_half * HALF * RING_ROW + i] += fabs(of_queries);
        sum[key_half * HALF * RING_ROW + i] += of_keys;
        size[key_half * HALF * RING_ROW + i] += fabs(of_keys);
    }
}

/* The gradients of the three parts that see anything add up to those of the whole: each is off as the whole may be, and
 * rounded to the type. */
static void ring_backward(ring *r)
{
    const problem *p = &r->p;
    double *sum = calloc(2 * p->dq.count, sizeof *sum);
    assert_non_null(sum);
    give_forward_results(&r->p);
    set_zero(&r->p.dq);
    over_heads(&r->p, slopes_and_backward);
    add_part(r, 0, 0, sum, sum + p->dq.count);
    add_part(r, 1, 0, sum, sum + p->dq.count);
    add_part(r, 1, 1, sum, sum + p->dq.count);
    for (size_t i = 0; i < p->dq.count; i++) {
        const double bound = 2.0 * p->dq.bound[i] + unit_of(p) * sum[p->dq.count + i] + 0x1p-25;
        if (!(fabs(sum[i] - p->dq.exact[i]) <= bound)) {
            fail_msg("gradient %zu: %.9g, by definition %.9g, may be off by %.3g", i, sum[i], p->dq.exact[i], bound);
        }
    }
    free(sum);
}

static void parts_of_a_ring(void **state)
{
    (void)state;
    const uint32_t dims[] = {1, 2 * HALF, RING_HEADS, RING_DIM, RING_HEADS, GAL_ATTENTION_CAUSAL};
    for (uint32_t t = 0; t < 6; t++) {
        ring r;
        make_ring(types[t % 3], t < 3 ? 0.0 : 0.3, dims, &r);
        assert_true(r.p.f.dropout == (t >= 3));
        ring_forward(&r);
        ring_backward(&r);
        free_ring(&r);
    }
}

/* Dropout goes by quads of keys. */
static void parts_that_cut_a_quad_are_refused(void **state)
{
    (void)state;
    const uint32_t dims[] = {1, 2 * HALF, RING_HEADS, RING_DIM, RING_HEADS, GAL_ATTENTION_CAUSAL};
    ring r;
    make_ring(GAL_BF16, 0.3, dims, &r);
    gal_flash f = part_of(&r, 1, 1);
    f.key_begin--;
    assert_int_not_equal(gal_flash_forward(&f, r.type, NULL), 0);
    assert_int_not_equal(gal_flash_backward(&f, r.type, NULL), 0);
    free_ring(&r);
}

/* ---- the gradient of a bias ---- */

/* Rows in one part and in many, columns that fill no block; dy below 1, so the sum is off by (rows + 8) v rows. */
static void check_bias(gal_dtype dtype, uint32_t rows, uint32_t features, bool add)
{
    const gal_kernel kernel = dtype == GAL_FP32   ? gal_cuda_bias_gradient_fp32
                              : dtype == GAL_BF16 ? gal_cuda_bias_gradient_bf16
                                                  : gal_cuda_bias_gradient_fp16;
    const uint32_t dims[] = {rows, features};
    const size_t count = (size_t)rows * features;
    ops_case at;
    gal_error err = {.code = GAL_OK};
    double *dy = calloc(count, sizeof *dy), *sums = calloc(features, sizeof *sums);
    float *device = gal_machine_allocate(count * sizeof *device), *got = gal_machine_allocate(features * sizeof *got);
    uint64_t state = 8;
    assert_true(dy != NULL && sums != NULL && device != NULL && got != NULL);
    for (size_t i = 0; i < count; i++) {
        dy[i] = round_to(dtype, ops_random(&state));
        put(dtype, device, i, dy[i]);
    }
    for (uint32_t i = 0; i < features; i++) {
        sums[i] = round_to(GAL_FP32, ops_random(&state));
        got[i] = (float)sums[i];
    }
    ops_case_init(&at);
    at.call.add = add;
    OPS(&at, &gal_ops_host_fp64, GAL_OP_BIAS_GRADIENT, dims, dy, sums);
    gal_kernel_call call = at.call;
    call.operand[0] = gal_machine_at(device);
    call.operand[1] = gal_machine_at(got);
    call.workspace_bytes = gal_bias_gradient_workspace_bytes(rows, features);
    void *workspace = gal_machine_allocate(call.workspace_bytes);
    call.workspace = gal_machine_at(workspace);
    gal_machine_begin(false);
    assert_int_equal(kernel(&call, &err), GAL_OK);
    gal_machine_end();
    for (uint32_t i = 0; i < features; i++) {
        assert_true(fabs((double)got[i] - sums[i]) <= ((double)rows + 8.0) * 0x1p-24 * ((double)rows + 1.0));
    }
    call.workspace_bytes--;
    assert_int_equal(kernel(&call, &err), GAL_ERR_DEVICE);
    gal_machine_free(workspace);
    free(dy);
    free(sums);
    gal_machine_free(device);
    gal_machine_free(got);
}

static void bias_gradient(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < 3; t++) {
        check_bias(types[t], 1, 1, false);
        check_bias(types[t], 31, 65, true);
        check_bias(types[t], 200, 130, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(self_attention),
        cmocka_unit_test(widths_of_heads),
        cmocka_unit_test(shared_keys_and_dropout),
        cmocka_unit_test(relative_attention),
        cmocka_unit_test(window_attention),
        cmocka_unit_test(cross_attention),
        cmocka_unit_test(padded_attention),
        cmocka_unit_test(parts_of_a_ring),
        cmocka_unit_test(parts_that_cut_a_quad_are_refused),
        cmocka_unit_test(bias_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
