/* Products by cuBLASLt on the GPU, alone and fused with what follows, against the host's in fp64: every type, every
 * transposition, random shapes of 1 to 300 that fill no tile, and some that do.
 *
 * A sum of k products in fp32, in whatever order, is off by at most (k + 8) 2^-24 times the sum of their sizes (Higham,
 * section 3.1; 8 for scaling, bias and what is added to); device_case_expect adds the rounding of the result. */
#include <math.h>

#include "runtime/ops/cuda/gemm.h"
#include "runtime/ops/cuda/kernels.h"
#include "tests/support/emulated/device_case.h"
#include "tests/support/emulated/machine.h"

enum { RANDOM_SHAPES = 24, SIZE_MAX_RANDOM = 300 };

static const gal_dtype types[] = {GAL_FP32, GAL_BF16, GAL_FP16};

static const gal_ops *table_of(gal_dtype dtype)
{
    return dtype == GAL_FP32 ? &gal_ops_cuda_fp32 : dtype == GAL_BF16 ? &gal_ops_cuda_bf16 : &gal_ops_cuda_fp16;
}

static void *context_of(const gal_ops *table)
{
    static void *context;
    gal_error err = {.code = GAL_OK};
    const gal_kernel_choice choice = {.deterministic = false};
    if (context == NULL && table->queued->open(&choice, &context, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    return context;
}

static uint64_t workspace_bytes(const device_case *at, gal_op op, const gal_kernel_call *call)
{
    const gal_ops *table = table_of(at->dtype);
    return table->queued->workspace_bytes(context_of(table), op, call);
}

/* Candidates are timed first, which overwrites what the product writes: everything is given anew. */
static gal_code run(device_case *at, gal_op op, gal_kernel_call *call, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_ops *table = table_of(at->dtype);
    const bool wide = at->dtype != GAL_FP32 && at->operand[2].kind == FLOAT;
    const uint32_t dims[] = {call->dims[0], call->dims[1], call->dims[2],
                             call->dims[3] | (wide ? (uint32_t)GAL_GEMM_FP32_C : 0)};
    call->dims = dims;
    call->context = context_of(table);
    GAL_TRY(table->queued->prepare(op, call, err));
    gal_machine_begin(false);
    GAL_TRY(table->kernel[op](call, err));
cleanup:
    return code;
}

static const device_case_library library = {workspace_bytes, run};

/* The sum of the sizes of the terms of c[i][j], without bias and what is added to. */
static double terms(const device_case *at, const uint32_t *dims, uint32_t i, uint32_t j)
{
    const double *a = at->operand[0].exact, *b = at->operand[1].exact;
    const size_t m = dims[0], n = dims[1], k = dims[2];
    double sum = 0.0;
    for (size_t l = 0; l < k; l++) {
        const double left = (dims[3] & GAL_GEMM_TRANSPOSE_A) != 0 ? a[l * m + i] : a[i * k + l];
        const double right = (dims[3] & GAL_GEMM_TRANSPOSE_B) != 0 ? b[j * k + l] : b[l * n + j];
        sum += fabs(left * right);
    }
    return sum;
}

/* add: to c of 2 at most, which in 16 bits is a gradient of fp32. */
static void check_product(gal_dtype dtype, const uint32_t *dims, bool add)
{
    device_case at;
    device_case_init(&at, dtype, false);
    at.library = &library;
    at.ops.call.add = add;
    device_case_add(&at, ELEMENT, (size_t)dims[0] * dims[2], 1.0, 1);
    device_case_add(&at, ELEMENT, (size_t)dims[2] * dims[1], 1.0, 2);
    const operand *c = device_case_add(&at, add ? FLOAT : ELEMENT, (size_t)dims[0] * dims[1], add ? 2.0 : 0.0, 3);
    if ((dims[3] & GAL_GEMM_BIAS) != 0) {
        device_case_add(&at, ELEMENT, dims[1], 1.0, 4);
    }
    device_case_run(&at, GAL_OP_GEMM, dims);
    for (uint32_t i = 0; i < dims[0]; i++) {
        for (uint32_t j = 0; j < dims[1]; j++) {
            device_case_expect(&at, c, (size_t)i * dims[1] + j,
                               (dims[2] + 8.0) * 0x1p-24 * (terms(&at, dims, i, j) + 3.0));
        }
    }
    device_case_free(&at);
}

static uint32_t drawn(uint64_t *state)
{
    return 1 + (uint32_t)((ops_random(state) + 1.0) / 2.0 * SIZE_MAX_RANDOM);
}

static void random_shapes(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (uint32_t s = 0; s < RANDOM_SHAPES; s++) {
        const uint32_t m = drawn(&seed), n = drawn(&seed), k = drawn(&seed);
        for (uint32_t t = 0; t < 3; t++) {
            const uint32_t transposed = s % 4;
            check_product(types[t], DIMS(m, n, k, transposed), false);
            check_product(types[t], DIMS(m, n, k, transposed | GAL_GEMM_BIAS), false);
            check_product(types[t], DIMS(m, n, k, transposed), true);
        }
    }
}

static void whole_tiles(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < 3; t++) {
        for (uint32_t transposed = 0; transposed < 4; transposed++) {
            check_product(types[t], DIMS(256, 384, 512, transposed), false);
            check_product(types[t], DIMS(256, 384, 512, transposed), true);
        }
        check_product(types[t], DIMS(128, 1024, 256, GAL_GEMM_TRANSPOSE_B | GAL_GEMM_BIAS), false);
    }
}

/* ---- products with what follows them ---- */

/* Operands a, b, u, bias and g of a product and its activation; the second reads what the first writes. */
static gal_code run_activation(device_case *at, gal_op op, gal_kernel_call *call, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_ops *table = table_of(at->dtype);
    const uint32_t dims[] = {call->dims[0] * call->dims[1], GAL_ACTIVATION_GELU_TANH};
    uint32_t fusion = 0;
    call->context = context_of(table);
    gal_kernel_call first = *call, second = *call;
    first.operand_count = 4;
    second.dims = dims;
    second.operand_count = 2;
    second.operand[0] = call->operand[2];
    second.operand[1] = call->operand[4];
    const gal_kernel_pair pair = {op, GAL_OP_ACTIVATION, &first, &second, false};
    GAL_TRY(table->queued->fuse(&pair, &fusion, err));
    assert_int_equal(fusion, GAL_CUDA_FUSE_ACTIVATION);
    gal_machine_begin(false);
    GAL_TRY(table->queued->fused(&pair, fusion, err));
cleanup:
    return code;
}

/* Operands a, b, dg, u and du of a product and the derivative of an activation; dg is not written. */
static gal_code run_derivative(device_case *at, gal_op op, gal_kernel_call *call, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_ops *table = table_of(at->dtype);
    const uint32_t dims[] = {call->dims[0] * call->dims[1], GAL_ACTIVATION_GELU_TANH};
    uint32_t fusion = 0;
    call->context = context_of(table);
    gal_kernel_call first = *call, second = *call;
    first.operand_count = 3;
    second.dims = dims;
    second.operand_count = 3;
    memcpy(second.operand, call->operand + 2, 3 * sizeof *second.operand);
    const gal_kernel_pair pair = {op, GAL_OP_ACTIVATION_BACKWARD, &first, &second, true};
    GAL_TRY(table->queued->fuse(&pair, &fusion, err));
    assert_int_equal(fusion, GAL_CUDA_FUSE_DERIVATIVE);
    gal_machine_begin(false);
    GAL_TRY(table->queued->fused(&pair, fusion, err));
cleanup:
    return code;
}

static const device_case_library with_activation = {workspace_bytes, run_activation};
static const device_case_library with_derivative = {workspace_bytes, run_derivative};

/* What is known of the library's GELU: by the hardware's tanh at worst, whose relative error is 2^-11 (PTX ISA,
 * "tanh"). GELU's derivative is within 1.13, and changes by at most 2 times what tanh does. */
static const double tanh_error = 0x1p-11;

/* In the types of 16 bits, where programs have these pairs. */
static void fused_activation(void **state)
{
    (void)state;
    for (uint32_t t = 1; t < 3; t++) {
        const uint32_t *dims = DIMS(93, 264, 171, GAL_GEMM_BIAS);
        const size_t count = (size_t)dims[0] * dims[1];
        device_case at;
        device_case_init(&at, types[t], false);
        at.library = &with_activation;
        device_case_add(&at, ELEMENT, (size_t)dims[0] * dims[2], 0.5, 1);
        device_case_add(&at, ELEMENT, (size_t)dims[2] * dims[1], 0.5, 2);
        const operand *u = device_case_add(&at, ELEMENT, count, 0.0, 0);
        device_case_add(&at, ELEMENT, dims[1], 1.0, 4);
        const operand *g = device_case_add(&at, ELEMENT, count, 0.0, 0);
        device_case_run(&at, GAL_OP_GEMM, dims);
        OPS(&at.ops, &gal_ops_host_fp64, GAL_OP_ACTIVATION, DIMS((uint32_t)count, GAL_ACTIVATION_GELU_TANH), u->exact,
            g->exact);
        for (uint32_t i = 0; i < count; i++) {
            const double bound = (dims[2] + 8.0) * 0x1p-24 * (terms(&at, dims, i / dims[1], i % dims[1]) + 1.0);
            device_case_expect(&at, u, i, bound);
            device_case_expect(&at, g, i, 1.13 * bound + tanh_error * fabs(u->exact[i]));
        }
        device_case_free(&at);
    }
}

static void fused_derivative(void **state)
{
    (void)state;
    for (uint32_t t = 1; t < 3; t++) {
        const uint32_t *dims = DIMS(93, 264, 171, GAL_GEMM_TRANSPOSE_B);
        const size_t count = (size_t)dims[0] * dims[1];
        device_case at;
        device_case_init(&at, types[t], false);
        at.library = &with_derivative;
        device_case_add(&at, ELEMENT, (size_t)dims[0] * dims[2], 0.5, 1);
        device_case_add(&at, ELEMENT, (size_t)dims[2] * dims[1], 0.5, 2);
        const operand *dg = device_case_add(&at, ELEMENT, count, 0.0, 0);
        const operand *u = device_case_add(&at, ELEMENT, count, 4.0, 3);
        const operand *du = device_case_add(&at, ELEMENT, count, 0.0, 0);
        device_case_run(&at, GAL_OP_GEMM, dims);
        OPS(&at.ops, &gal_ops_host_fp64, GAL_OP_ACTIVATION_BACKWARD, DIMS((uint32_t)count, GAL_ACTIVATION_GELU_TANH),
            dg->exact, u->exact, du->exact);
        for (uint32_t i = 0; i < count; i++) {
            const double bound = (dims[2] + 8.0) * 0x1p-24 * terms(&at, dims, i / dims[1], i % dims[1]);
            const double slope = tanh_error * (1.0 + 2.0 * fabs(u->exact[i]));
            device_case_expect(&at, du, i, 1.13 * bound + slope * fabs(dg->exact[i]));
        }
        device_case_free(&at);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_shapes),
        cmocka_unit_test(whole_tiles),
        cmocka_unit_test(fused_activation),
        cmocka_unit_test(fused_derivative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
