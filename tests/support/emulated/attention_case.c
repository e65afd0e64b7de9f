#include "tests/support/emulated/attention_case.h"

#include <math.h>

#include "runtime/ops/cuda/flash_call.h"
#include "tests/support/emulated/machine.h"

/* ---- numbers of 16 bits ---- */

double attention_case_round(gal_dtype dtype, double value)
{
    const int digits = dtype == GAL_BF16 ? 8 : dtype == GAL_FP16 ? 11 : 24;
    const int least = dtype == GAL_FP16 ? -14 : -126;
    if (value == 0.0 || !isfinite(value)) {
        return value;
    }
    const int exponent = ilogb(value) < least ? least : ilogb(value);
    return ldexp(nearbyint(ldexp(value, digits - 1 - exponent)), exponent - digits + 1);
}

void attention_case_put(gal_dtype dtype, void *to, size_t i, double value)
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

double attention_case_get(gal_dtype dtype, const void *from, size_t i)
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

/* ---- the case ---- */

static bool is_cross(const attention_case *p)
{
    return p->op == GAL_OP_CROSS_ATTENTION;
}

gal_dtype attention_case_type_of(const attention_case *p, const attention_tensor *t)
{
    return t == &p->lse || t == &p->dbias ? GAL_FP32 : p->dtype;
}

static void make_tensor(attention_case *p, attention_tensor *t, size_t count, double size, uint64_t seed)
{
    const size_t each = attention_case_type_of(p, t) == GAL_FP32 ? 4 : 2;
    t->count = count;
    t->host = calloc(count + 1, sizeof *t->host);
    t->exact = calloc(count + 1, sizeof *t->exact);
    t->bound = calloc(count + 1, sizeof *t->bound);
    t->memory = gal_machine_allocate((count + 1) * each);
    assert_true(t->host != NULL && t->exact != NULL && t->bound != NULL && t->memory != NULL);
    t->device = t->memory + (p->odd ? each : 0);
    for (size_t i = 0; i < count; i++) {
        t->host[i] = t->exact[i] =
            size == 0.0 ? (double)NAN : attention_case_round(attention_case_type_of(p, t), size * ops_random(&seed));
        if (attention_case_type_of(p, t) == GAL_FP32) {
            const float value = (float)t->host[i];
            memcpy((float *)t->device + i, &value, sizeof value);
        } else if (size == 0.0) {
            memset((uint16_t *)t->device + i, 0xFF, 2);
        } else {
            attention_case_put(p->dtype, t->device, i, t->host[i]);
        }
    }
}

static void free_tensor(attention_tensor *t)
{
    free(t->host);
    free(t->exact);
    free(t->bound);
    gal_machine_free(t->memory);
}

/* Forward and backward operands, on the host (0) or the device. */
static uint32_t list_operands(attention_case *p, bool backward, bool device, void **out)
{
    attention_tensor *all[GAL_KERNEL_OPERANDS_MAX];
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

gal_kernel_call attention_case_call(attention_case *p, bool backward, bool device)
{
    gal_kernel_call call = p->at.call;
    call.dims = p->dims;
    call.add = backward && p->add;
    call.operand_count = list_operands(p, backward, device, call.operand);
    return call;
}

void attention_case_make(attention_case *p)
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

void attention_case_release(attention_case *p)
{
    attention_tensor *all[] = {&p->q, &p->kv, &p->table, &p->ctx, &p->lse, &p->dctx, &p->dq, &p->dkv, &p->dbias};
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

static uint32_t kv_head(const attention_case *p, head h)
{
    return h.head / (p->f.heads / p->f.kv_heads);
}

static size_t q_at(const attention_case *p, head h, uint32_t i)
{
    return gal_flash_q_at(&p->f, gal_flash_position(&p->f, h.window, i), h.sample, h.head);
}

static size_t k_at(const attention_case *p, head h, uint32_t j)
{
    return p->f.k_offset + gal_flash_kv_at(&p->f, gal_flash_position(&p->f, h.window, j), h.sample, kv_head(p, h));
}

static size_t ctx_at(const attention_case *p, head h, uint32_t i)
{
    return gal_flash_ctx_at(&p->f, gal_flash_position(&p->f, h.window, i), h.sample, h.head);
}

static size_t lse_at(const attention_case *p, head h, uint32_t i)
{
    return gal_flash_lse_at(&p->f, gal_flash_position(&p->f, h.window, i), h.sample, h.head);
}

static const double *kv_values(const attention_case *p)
{
    return is_cross(p) ? p->kv.exact : p->q.exact;
}

static size_t entry_of(const attention_case *p, head h, uint32_t i, uint32_t j)
{
    const gal_flash *f = &p->f;
    const uint32_t entry = f->bias == GAL_FLASH_BUCKETS ? gal_flash_bucket(f, (int64_t)j - (int64_t)i)
                                                        : gal_flash_entry(f, gal_flash_place_of(f, h.window, i),
                                                                          gal_flash_place_of(f, h.window, j));
    return (size_t)entry * f->bias_stride + f->bias_column + h.head;
}

static double score_of(const attention_case *p, head h, uint32_t i, uint32_t j)
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

static double mask_of(const attention_case *p, head h, uint32_t i, uint32_t j)
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
static void define_forward(attention_case *p, head h)
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
static void add_row(const attention_case *p, attention_tensor *target, size_t to, const double *from, double factor,
                    double size, double relative)
{
    for (uint32_t d = 0; d < p->f.dim; d++) {
        target->exact[to + d] += factor * from[d];
        target->bound[to + d] += relative * size * fabs(from[d]);
    }
}

double attention_case_unit(const attention_case *p)
{
    return p->dtype == GAL_BF16 ? 0x1p-8 : p->dtype == GAL_FP16 ? 0x1p-11 : 0x1p-24;
}

/* Relative error of a probability: of a score (products of numbers below 1.5, a bias, 100 less) and of its log-sum-exp,
 * which ends as fp32 of a size up to 110. */
static double probability_error(const attention_case *p)
{
    const double terms = (double)p->f.dim * 2.25 * (double)p->f.scale;
    return 2.0 * (((double)p->f.dim + 8.0) * terms + 110.0 * 8.0) * 0x1p-24;
}

static double sum_error(const attention_case *p)
{
    return ((double)p->f.keys + (double)p->f.queries + 8.0) * 0x1p-24;
}

static void define_ctx(attention_case *p, head h)
{
    const gal_flash *f = &p->f;
    const double relative = attention_case_unit(p) + probability_error(p) + sum_error(p);
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
static void define_slopes(attention_case *p, head h)
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
static double slope_error(const attention_case *p, size_t pair)
{
    const double sums = 1.5 * (double)p->f.dim * ((double)p->f.dim + 8.0) * 0x1p-24;
    return probability_error(p) * fabs(p->slope[pair]) + p->p[pair] * (1.0 + p->mask[pair]) * sums;
}

static void define_backward(attention_case *p, head h)
{
    const gal_flash *f = &p->f;
    const double scale = f->scale == 1.0F ? 1.0 : 1.0 / sqrt((double)f->dim);
    const double relative = attention_case_unit(p) + probability_error(p) + sum_error(p);
    const double in_an_entry = (double)f->samples * (double)f->windows * (double)f->queries + 8.0;
    attention_tensor *dkv = is_cross(p) ? &p->dkv : &p->dq;
    for (uint32_t i = 0; i < f->queries; i++) {
        for (uint32_t j = 0; j < gal_flash_key_end(f, h.sample, i); j++) {
            const size_t pair = (size_t)i * f->keys + j, k = k_at(p, h, j), v = k + (f->v_offset - f->k_offset);
            const double factor = p->p[pair] * p->mask[pair], slope = scale * p->slope[pair],
                         error = slope_error(p, pair);
            const double off = scale * error + (attention_case_unit(p) + sum_error(p)) * fabs(slope);
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

static void over_heads(attention_case *p, void (*work)(attention_case *p, head h))
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

static void slopes_and_backward(attention_case *p, head h)
{
    define_slopes(p, h);
    define_backward(p, h);
}

void attention_case_define_ctx(attention_case *p)
{
    over_heads(p, define_ctx);
}

void attention_case_define_gradients(attention_case *p)
{
    memset(p->dq.exact, 0, p->dq.count * sizeof *p->dq.exact);
    memset(p->dkv.exact, 0, p->dkv.count * sizeof *p->dkv.exact);
    over_heads(p, slopes_and_backward);
}
