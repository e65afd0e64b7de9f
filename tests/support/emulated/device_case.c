#include "tests/support/emulated/device_case.h"

#include <math.h>

#include "tests/support/emulated/machine.h"

#define FP32(enumerator, name) [enumerator] = gal_cuda_##name##_fp32,
#define BF16(enumerator, name) [enumerator] = gal_cuda_##name##_bf16,
#define FP16(enumerator, name) [enumerator] = gal_cuda_##name##_fp16,

static const gal_kernel kernels_fp32[GAL_OP_COUNT] = {GAL_CUDA_KERNELS(FP32)};
static const gal_kernel kernels_bf16[GAL_OP_COUNT] = {GAL_CUDA_KERNELS(BF16)};
static const gal_kernel kernels_fp16[GAL_OP_COUNT] = {GAL_CUDA_KERNELS(FP16)};

void device_case_init(device_case *at, gal_dtype dtype, bool odd_addresses)
{
    memset(at, 0, sizeof *at);
    ops_case_init(&at->ops);
    at->dtype = dtype;
    at->unit = dtype == GAL_FP32 ? 0x1p-24 : dtype == GAL_BF16 ? 0x1p-8 : 0x1p-11;
    at->odd_addresses = odd_addresses;
    at->gradient_scale = 1.0;
}

void device_case_free(device_case *at)
{
    for (uint32_t o = 0; o < at->operand_count; o++) {
        free(at->operand[o].exact);
        free(at->operand[o].got);
        gal_machine_free(at->operand[o].mapping);
    }
    at->operand_count = 0;
}

/* ---- numbers of few bits: a significand of `digits` binary digits, exponents from `least` on ---- */

static double round_to(double value, int digits, int least)
{
    if (value == 0.0 || !isfinite(value)) {
        return value;
    }
    const int exponent = ilogb(value) < least ? least : ilogb(value);
    return ldexp(nearbyint(ldexp(value, digits - 1 - exponent)), exponent - digits + 1);
}

double device_case_round(const device_case *at, operand_kind kind, double value)
{
    if (kind == WHOLE) {
        return value;
    }
    if (kind == FLOAT || at->dtype == GAL_FP32) {
        return (double)(float)value;
    }
    return at->dtype == GAL_BF16 ? round_to(value, 8, -126) : round_to(value, 11, -14);
}

static size_t element_bytes(const device_case *at, operand_kind kind)
{
    switch (kind) {
    case ELEMENT:
        return gal_dtype_bytes(at->dtype);
    case WHOLE:
        return sizeof(double);
    default:
        return sizeof(float);
    }
}

/* fp16 from a number that it holds. */
static uint16_t half_bits(double value)
{
    if (isnan(value)) {
        return 0x7E00;
    }
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const double size = fabs(value);
    if (size >= 65536.0) {
        return (uint16_t)(sign | 0x7C00);
    }
    const int exponent = size < 0x1p-14 ? -14 : ilogb(size);
    return (uint16_t)(sign + (exponent + 14) * 1024 + (int)ldexp(size, 10 - exponent));
}

static double half_value(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
    if (exponent == 31) {
        return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    }
    return sign * (exponent == 0 ? ldexp(fraction, -24) : ldexp(fraction + 1024, exponent - 25));
}

static void put(const device_case *at, operand *o, size_t i, double value)
{
    const float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    if (o->kind == WHOLE) {
        memcpy((double *)o->device + i, &value, sizeof value);
    } else if (o->kind == FLOAT || at->dtype == GAL_FP32) {
        memcpy((float *)o->device + i, &single, sizeof single);
    } else {
        const uint16_t low = at->dtype == GAL_BF16 ? (uint16_t)(bits >> 16) : half_bits(value);
        memcpy((uint16_t *)o->device + i, &low, sizeof low);
    }
}

static double get(const device_case *at, const operand *o, size_t i)
{
    double value;
    float single;
    uint16_t low;
    if (o->kind == WHOLE) {
        memcpy(&value, (const double *)o->device + i, sizeof value);
        return value;
    }
    if (o->kind == FLOAT || at->dtype == GAL_FP32) {
        memcpy(&single, (const float *)o->device + i, sizeof single);
        return (double)single;
    }
    memcpy(&low, (const uint16_t *)o->device + i, sizeof low);
    if (at->dtype == GAL_FP16) {
        return half_value(low);
    }
    const uint32_t bits = (uint32_t)low << 16;
    memcpy(&single, &bits, sizeof single);
    return (double)single;
}

static operand *begin_operand(device_case *at, operand_kind kind, size_t count)
{
    assert_true(at->operand_count < GAL_KERNEL_OPERANDS_MAX);
    operand *o = &at->operand[at->operand_count++];
    const size_t each = element_bytes(at, kind), shift = at->odd_addresses ? each : 0;
    o->kind = kind;
    o->count = count;
    o->exact = malloc((count + 1) * sizeof *o->exact);
    o->got = malloc((count + 1) * sizeof *o->got);
    o->mapping = gal_machine_allocate(count * each + shift);
    assert_true(o->exact != NULL && o->got != NULL && o->mapping != NULL);
    o->device = o->mapping + shift;
    return o;
}

operand *device_case_add(device_case *at, operand_kind kind, size_t count, double size, uint64_t seed)
{
    operand *o = begin_operand(at, kind, count);
    for (size_t i = 0; i < count; i++) {
        o->exact[i] = size == 0.0 ? (double)NAN : device_case_round(at, kind, size * ops_random(&seed));
    }
    return o;
}

operand *device_case_add_tokens(device_case *at, const int32_t *tokens, size_t count)
{
    operand *o = begin_operand(at, TOKEN, count);
    memcpy(o->exact, tokens, count * sizeof *tokens);
    memcpy(o->device, tokens, count * sizeof *tokens);
    return o;
}

/* ---- runs ---- */

static void run_device(device_case *at, gal_op op, const uint32_t *dims, bool reverse)
{
    const gal_kernel *kernels = at->dtype == GAL_FP32   ? kernels_fp32
                                : at->dtype == GAL_BF16 ? kernels_bf16
                                                        : kernels_fp16;
    gal_error err = {.code = GAL_OK};
    gal_kernel_call call = at->ops.call;
    gal_cuda_step *step = gal_machine_allocate(sizeof *step);
    uint32_t *samples = gal_machine_allocate(sizeof at->ops.sample_map);
    call.dims = dims;
    const size_t workspace_bytes =
        at->library != NULL ? at->library->workspace_bytes(at, op, &call) : gal_cuda_workspace_bytes(op, dims);
    char *workspace = gal_machine_allocate(workspace_bytes);
    assert_true(step != NULL && samples != NULL && workspace != NULL);
    *step = gal_cuda_step_of(&at->ops.step, at->gradient_scale);
    memcpy(samples, at->ops.sample_map, sizeof at->ops.sample_map);
    memset(workspace, 0xFF, workspace_bytes);
    call.operand_count = at->operand_count;
    for (uint32_t o = 0; o < at->operand_count; o++) {
        call.operand[o] = gal_machine_at(at->operand[o].device);
        for (size_t i = 0; i < at->operand[o].count && at->operand[o].kind != TOKEN; i++) {
            put(at, &at->operand[o], i, at->operand[o].exact[i]);
        }
    }
    call.sample_map = gal_machine_at(samples);
    call.workspace = gal_machine_at(workspace);
    call.workspace_bytes = workspace_bytes;
    call.device_step = gal_machine_at(step);
    gal_machine_begin(reverse);
    const gal_code code = at->library != NULL ? at->library->run(at, op, &call, &err) : kernels[op](&call, &err);
    if (code != GAL_OK) {
        print_error("%s\n", err.text);
    }
    assert_int_equal(code, GAL_OK);
    gal_machine_end();
    gal_machine_free(workspace);
    gal_machine_free(samples);
    gal_machine_free(step);
}

/* NaN has many bit patterns. */
static bool are_same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

static void compare_orders(const device_case *at, const operand *o)
{
    for (size_t i = 0; i < o->count && o->kind != TOKEN; i++) {
        if (!are_same(o->got[i], get(at, o, i))) {
            print_error("operand %td, entry %zu: %.17g or %.17g by the order of threads\n", o - at->operand, i,
                        o->got[i], get(at, o, i));
            fail();
        }
    }
}

void device_case_run(device_case *at, gal_op op, const uint32_t *dims)
{
    void *exact[GAL_KERNEL_OPERANDS_MAX];
    run_device(at, op, dims, false);
    for (uint32_t o = 0; o < at->operand_count; o++) {
        for (size_t i = 0; i < at->operand[o].count && at->operand[o].kind != TOKEN; i++) {
            at->operand[o].got[i] = get(at, &at->operand[o], i);
        }
        exact[o] = at->operand[o].exact;
    }
    run_device(at, op, dims, true);
    for (uint32_t o = 0; o < at->operand_count; o++) {
        compare_orders(at, &at->operand[o]);
    }
    ops_run(&at->ops, &gal_ops_host_fp64, op, dims, at->operand_count, exact);
}

void device_case_expect(const device_case *at, const operand *o, size_t index, double bound)
{
    const double expected = o->exact[index], got = o->got[index];
    const double unit = o->kind == ELEMENT ? at->unit : single_unit;
    const double least = o->kind == ELEMENT && at->dtype == GAL_FP16 ? 0x1p-25 : 0x1p-149;
    const double allowed = bound == 0.0 ? 0.0 : bound + unit * (fabs(expected) + bound) + least;
    if (!(fabs(got - expected) <= allowed) && !are_same(got, expected)) {
        print_error("operand %td, entry %zu of %zu: %.9g, expected %.17g: off by %.3g, bound %.3g (%s%s)\n",
                    o - at->operand, index, o->count, got, expected, fabs(got - expected), allowed,
                    gal_dtype_names[at->dtype], at->odd_addresses ? ", odd addresses" : "");
        fail();
    }
}

void device_case_expect_all(const device_case *at, const operand *o, double bound)
{
    for (size_t i = 0; i < o->count; i++) {
        device_case_expect(at, o, i, bound);
    }
}
