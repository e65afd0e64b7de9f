/* Activations, and activations that gate a second half of the row (GLU variants).
 * Source: N. Shazeer, "GLU variants improve Transformer", arXiv 2002.05202, section 2. */
#include "runtime/ops/host/kernels.h"

/* gelu_tanh(u) = u/2 (1 + tanh(a)) = u sigmoid(2 a), a = sqrt(2/pi) (u + 0.044715 u^3). The sigmoid of a negative
 * number is e / (1 + e), e = exp(2 a): no cancellation where 1 + tanh(a) has nothing left.
 * Source: D. Hendrycks, K. Gimpel, "Gaussian error linear units", arXiv 1606.08415, section 2. */
static const gal_real gelu_slope = (gal_real)0.7978845608028653559; /* sqrt(2/pi) */
static const gal_real gelu_cubic = (gal_real)0.044715;
static const gal_real sqrt_half = (gal_real)0.7071067811865475244;
static const gal_real normal_density = (gal_real)0.3989422804014326779; /* 1 / sqrt(2 pi) */

GAL_VECTOR
static void gelu_tanh(const gal_real *u, gal_real *g, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const gal_real x = u[i];
        const gal_real a = gelu_slope * (x + gelu_cubic * x * x * x);
        const gal_real e = gal_exp_nonpositive((gal_real)-2 * gal_real_fabs(a));
        g[i] = x * ((a < 0 ? e : (gal_real)1) / (1 + e));
    }
}

/* d/du (u s(2a)) = s + u 2 s (1 - s) da/du, s (1 - s) = e / (1 + e)^2 on either side. */
GAL_VECTOR
static void gelu_tanh_backward(const gal_real *dg, const gal_real *u, gal_real *du, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const gal_real x = u[i];
        const gal_real a = gelu_slope * (x + gelu_cubic * x * x * x);
        const gal_real slope = gelu_slope * (1 + 3 * gelu_cubic * x * x);
        const gal_real e = gal_exp_nonpositive((gal_real)-2 * gal_real_fabs(a));
        const gal_real reciprocal = 1 / (1 + e);
        const gal_real s = (a < 0 ? e : (gal_real)1) * reciprocal;
        du[i] = dg[i] * (s + 2 * x * (e * reciprocal * reciprocal) * slope);
    }
}

/* gelu_erf(u) = u Phi(u), Phi(u) = erfc(-u / sqrt 2) / 2; derivative Phi(u) + u phi(u). */
static void gelu_erf(const gal_real *u, gal_real *g, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        g[i] = u[i] * ((gal_real)0.5 * gal_real_erfc(-u[i] * sqrt_half));
    }
}

static void gelu_erf_backward(const gal_real *dg, const gal_real *u, gal_real *du, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const gal_real x = u[i];
        const gal_real phi = normal_density * gal_exp_nonpositive((gal_real)-0.5 * x * x);
        du[i] = dg[i] * ((gal_real)0.5 * gal_real_erfc(-x * sqrt_half) + x * phi);
    }
}

GAL_VECTOR
static void relu(const gal_real *u, gal_real *g, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        g[i] = u[i] <= 0 ? (gal_real)0 : u[i]; /* NaN stays */
    }
}

GAL_VECTOR
static void relu_backward(const gal_real *dg, const gal_real *u, gal_real *du, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        du[i] = u[i] > 0 ? dg[i] : (gal_real)0;
    }
}

/* silu(u) = u sigmoid(u); derivative s + u s (1 - s). */
GAL_VECTOR
static void silu(const gal_real *u, gal_real *g, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const gal_real e = gal_exp_nonpositive(-gal_real_fabs(u[i]));
        g[i] = u[i] * ((u[i] < 0 ? e : (gal_real)1) / (1 + e));
    }
}

GAL_VECTOR
static void silu_backward(const gal_real *dg, const gal_real *u, gal_real *du, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const gal_real e = gal_exp_nonpositive(-gal_real_fabs(u[i]));
        const gal_real reciprocal = 1 / (1 + e);
        const gal_real s = (u[i] < 0 ? e : (gal_real)1) * reciprocal;
        du[i] = dg[i] * (s + u[i] * (e * reciprocal * reciprocal));
    }
}

static void (*const forward[GAL_ACTIVATION_COUNT])(const gal_real *, gal_real *, size_t) = {
    [GAL_ACTIVATION_GELU_TANH] = gelu_tanh,
    [GAL_ACTIVATION_GELU_ERF] = gelu_erf,
    [GAL_ACTIVATION_RELU] = relu,
    [GAL_ACTIVATION_SILU] = silu,
};

static void (*const backward[GAL_ACTIVATION_COUNT])(const gal_real *, const gal_real *, gal_real *, size_t) = {
    [GAL_ACTIVATION_GELU_TANH] = gelu_tanh_backward,
    [GAL_ACTIVATION_GELU_ERF] = gelu_erf_backward,
    [GAL_ACTIVATION_RELU] = relu_backward,
    [GAL_ACTIVATION_SILU] = silu_backward,
};

static void forward_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const size_t begin = gal_cut_begin(&at->cut, part), count = gal_cut_begin(&at->cut, part + 1) - begin;
    const gal_real *u = at->call->operand[0];
    gal_real *g = at->call->operand[1];
    forward[at->call->dims[1]](u + begin, g + begin, count);
}

gal_code GAL_KERNEL(activation)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    GAL_ASSERT(call->dims[1] < GAL_ACTIVATION_COUNT);
    gal_split_run(call, call->dims[0], GAL_COLUMN_UNIT, 1, forward_part);
    return GAL_OK;
}

static void backward_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const size_t begin = gal_cut_begin(&at->cut, part), count = gal_cut_begin(&at->cut, part + 1) - begin;
    const gal_real *dg = at->call->operand[0];
    const gal_real *u = at->call->operand[1];
    gal_real *du = at->call->operand[2];
    backward[at->call->dims[1]](dg + begin, u + begin, du + begin, count);
}

gal_code GAL_KERNEL(activation_backward)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    GAL_ASSERT(call->dims[1] < GAL_ACTIVATION_COUNT);
    gal_split_run(call, call->dims[0], GAL_COLUMN_UNIT, 1, backward_part);
    return GAL_OK;
}

/* ---- gated ---- */

GAL_VECTOR
static void multiply(const gal_real *a, const gal_real *b, gal_real *product, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        product[i] = a[i] * b[i];
    }
}

static void gated_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const size_t features = at->call->dims[1], end = gal_cut_begin(&at->cut, part + 1);
    for (size_t i = gal_cut_begin(&at->cut, part); i < end; i++) {
        const gal_real *gate = (const gal_real *)at->call->operand[0] + 2 * i * features;
        gal_real *g = (gal_real *)at->call->operand[1] + i * features;
        forward[at->call->dims[2]](gate, g, features);
        multiply(g, gate + features, g, features);
    }
}

gal_code GAL_KERNEL(gated_activation)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    GAL_ASSERT(call->dims[2] < GAL_ACTIVATION_COUNT);
    gal_split_run(call, call->dims[0], 1, 2 * (size_t)call->dims[1], gated_part);
    return GAL_OK;
}

/* g = a(gate) up: d gate = a'(gate) (dg up), d up = dg a(gate). */
static void gated_backward_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const size_t features = at->call->dims[1], end = gal_cut_begin(&at->cut, part + 1);
    for (size_t i = gal_cut_begin(&at->cut, part); i < end; i++) {
        const gal_real *dg = (const gal_real *)at->call->operand[0] + i * features;
        const gal_real *gate = (const gal_real *)at->call->operand[1] + 2 * i * features;
        gal_real *dgate = (gal_real *)at->call->operand[2] + 2 * i * features;
        multiply(dg, gate + features, dgate, features);
        backward[at->call->dims[2]](dgate, gate, dgate, features);
        forward[at->call->dims[2]](gate, dgate + features, features);
        multiply(dg, dgate + features, dgate + features, features);
    }
}

gal_code GAL_KERNEL(gated_activation_backward)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    GAL_ASSERT(call->dims[2] < GAL_ACTIVATION_COUNT);
    gal_split_run(call, call->dims[0], 1, 2 * (size_t)call->dims[1], gated_backward_part);
    return GAL_OK;
}
