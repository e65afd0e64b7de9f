/* gemm on cuBLASLt, against a double of the library: what the kernels ask of it must give what the host's kernels give.
 * Inputs are small whole numbers, so that every sum is exact and the check is equality; through GELU both sides round
 * alike but for the last digits. */
#include "tests/support/ops_case.h"

#include <math.h>

#include "runtime/ops/cuda/gemm.h"
#include "runtime/ops/cuda/gemm_plan.h"
#include "runtime/ops/cuda/kernels.h"
#include "tests/unit/cublaslt_double.h"

/* ---- products ---- */

enum { M = 5, N = 16, K = 7 };

typedef struct problem {
    ops_case at;
    gal_cuda_library library;
    float a[K * N + M * K], b[K * N + M * K], bias[N], c[M * N], expected[M * N];
} problem;

static void small_numbers(float *x, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        x[i] = (float)floor(8.0 * ops_random(&seed));
    }
}

static void begin(problem *p, uint32_t candidates)
{
    memset(&lt, 0, sizeof lt);
    memset(p, 0, sizeof *p);
    lt.candidates = 3;
    lt.fastest = 2;
    ops_case_init(&p->at);
    p->library.options.candidate_count = candidates;
    p->library.stop = (cudaEvent_t)(void *)p; /* any other than start's NULL */
    p->at.call.context = &p->library;
    small_numbers(p->a, sizeof p->a / sizeof *p->a, 1);
    small_numbers(p->b, sizeof p->b / sizeof *p->b, 2);
    small_numbers(p->bias, N, 3);
    small_numbers(p->c, M * N, 4);
    memcpy(p->expected, p->c, sizeof p->c);
}

static void end(problem *p)
{
    gal_gemm_plans_free(&p->library);
    gal_gemm_cache_free(&p->library.cache);
}

static gal_kernel_call gemm_call(problem *p, const uint32_t *dims, float *c)
{
    gal_kernel_call call = p->at.call;
    call.dims = dims;
    call.operand[0] = p->a;
    call.operand[1] = p->b;
    call.operand[2] = c;
    call.operand[3] = p->bias;
    call.operand_count = 4;
    return call;
}

static void assert_equal(const float *x, const float *y, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (x[i] != y[i]) {
            fail_msg("[%zu]: %.9g, not %.9g", i, (double)x[i], (double)y[i]);
        }
    }
}

static void products_as_on_the_host(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags < 8; flags++) {
        for (int add = 0; add < 2; add++) {
            problem p;
            begin(&p, 1);
            const uint32_t dims[] = {M, N, K, flags};
            gal_kernel_call call = gemm_call(&p, dims, p.c);
            gal_error err = {.code = GAL_OK};
            call.add = add != 0;
            assert_int_equal(gal_cuda_gemm_fp32(&call, &err), GAL_OK);
            call.operand[2] = p.expected;
            assert_int_equal(gal_ops_host_fp32.kernel[GAL_OP_GEMM](&call, &err), GAL_OK);
            assert_equal(p.c, p.expected, M * N);
            end(&p);
        }
    }
}

static void weight_gradients_add_in_fp32(void **state)
{
    (void)state;
    problem p;
    begin(&p, 1);
    const uint32_t narrow[] = {M, N, K, GAL_GEMM_TRANSPOSE_A},
                   wide[] = {M, N, K, GAL_GEMM_TRANSPOSE_A | GAL_GEMM_FP32_C};
    gal_kernel_call call = gemm_call(&p, narrow, p.c);
    gal_error err = {.code = GAL_OK};
    assert_int_equal(gal_cuda_gemm_bf16(&call, &err), GAL_OK);
    assert_int_equal(lt.last_d.type, CUDA_R_16BF);
    call.dims = wide;
    assert_int_equal(gal_cuda_gemm_bf16(&call, &err), GAL_OK);
    assert_int_equal(lt.last_d.type, CUDA_R_32F);
    assert_int_equal(p.library.gemm[1].key.input_type, CUDA_R_16BF);
    assert_int_equal(p.library.gemm[1].key.compute_type, CUBLAS_COMPUTE_32F);
    end(&p);
}

static void the_fastest_candidate_is_kept(void **state)
{
    (void)state;
    problem p;
    begin(&p, 8);
    const uint32_t dims[] = {M, N, K, 0};
    const gal_kernel_call call = gemm_call(&p, dims, p.c);
    gal_error err = {.code = GAL_OK};
    assert_int_equal(gal_cuda_gemm_prepare(GAL_FP32, &call, &err), GAL_OK);
    assert_int_equal(gal_cuda_gemm_fp32(&call, &err), GAL_OK);
    assert_int_equal(lt.last_algorithm, 2);
    assert_int_equal(lt.asked, 1);
    assert_int_equal(p.library.cache.count, 1);
    end(&p);
}

static void a_deterministic_library_times_nothing(void **state)
{
    (void)state;
    problem p;
    begin(&p, 8);
    p.library.options.deterministic = true;
    const uint32_t dims[] = {M, N, K, 0};
    const gal_kernel_call call = gemm_call(&p, dims, p.c);
    gal_error err = {.code = GAL_OK};
    assert_int_equal(gal_cuda_gemm_prepare(GAL_FP32, &call, &err), GAL_OK);
    assert_int_equal(lt.multiplied, 0);
    assert_int_equal(gal_cuda_gemm_fp32(&call, &err), GAL_OK);
    assert_int_equal(lt.last_algorithm, 1);
    assert_int_equal(lt.reductions & (CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE), 0);
    assert_int_equal(p.library.cache.count, 0);
    end(&p);
}

/* Of 132 multiprocessors 16 are left to communication; factors are rounded where that is asked for, in fp32 alone. */
static void products_are_planned_as_asked(void **state)
{
    (void)state;
    problem p;
    begin(&p, 1);
    const uint32_t dims[] = {M, N, K, 0};
    const gal_kernel_call call = gemm_call(&p, dims, p.c);
    gal_error err = {.code = GAL_OK};
    assert_int_equal(gal_cuda_gemm_fp32(&call, &err), GAL_OK);
    assert_int_equal(lt.last_operation.compute, CUBLAS_COMPUTE_32F);
    assert_int_equal(lt.last_operation.sm_count, 0);
    p.library.options.tf32 = true;
    p.library.product_multiprocessors = gal_cuda_product_multiprocessors(132, 16);
    assert_int_equal(gal_cuda_gemm_fp32(&call, &err), GAL_OK);
    assert_int_equal(lt.last_operation.compute, CUBLAS_COMPUTE_32F_FAST_TF32);
    assert_int_equal(lt.last_operation.sm_count, 116);
    assert_int_equal(gal_cuda_gemm_bf16(&call, &err), GAL_OK);
    assert_int_equal(lt.last_operation.compute, CUBLAS_COMPUTE_32F);
    end(&p);
}

static void products_keep_half_of_the_device(void **state)
{
    (void)state;
    assert_int_equal(gal_cuda_product_multiprocessors(132, 0), 0); /* all of them */
    assert_int_equal(gal_cuda_product_multiprocessors(132, 64), 68);
    assert_int_equal(gal_cuda_product_multiprocessors(58, 64), 29);
    assert_int_equal(gal_cuda_product_multiprocessors(1, 4), 1);
}

/* What a sum is made of would be changed by timing: it is not timed. */
static void sums_are_not_timed(void **state)
{
    (void)state;
    problem p;
    begin(&p, 8);
    const uint32_t dims[] = {M, N, K, 0};
    gal_kernel_call call = gemm_call(&p, dims, p.c);
    gal_error err = {.code = GAL_OK};
    call.add = true;
    assert_int_equal(gal_cuda_gemm_prepare(GAL_FP32, &call, &err), GAL_OK);
    assert_int_equal(lt.multiplied, 0);
    call.add = false;
    assert_int_equal(gal_cuda_gemm_prepare(GAL_FP32, &call, &err), GAL_OK);
    assert_true(lt.multiplied > 0);
    call.add = true;
    assert_int_equal(gal_cuda_gemm_fp32(&call, &err), GAL_OK);
    assert_int_equal(lt.last_algorithm, 2);
    end(&p);
}

static void a_product_that_the_library_lacks_is_named(void **state)
{
    (void)state;
    problem p;
    begin(&p, 1);
    lt.refused_epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    const uint32_t dims[] = {M, N, K, 0};
    const gal_kernel_call call = gemm_call(&p, dims, p.c);
    gal_error err = {.code = GAL_OK};
    assert_int_equal(gal_cuda_gemm_fp32(&call, &err), GAL_ERR_DEVICE);
    assert_non_null(strstr(err.text, "5 x 16 x 7"));
    end(&p);
}

/* ---- fusing ---- */

/* 4 units in the last place of each side's GELU of numbers up to 512. */
static void assert_near(const float *x, const float *y, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const double bound = 8.0 * 0x1p-24 * (1.0 + fabs((double)y[i])) * 8.0;
        if (!(fabs((double)x[i] - (double)y[i]) <= bound)) {
            fail_msg("[%zu]: %.9g, not %.9g", i, (double)x[i], (double)y[i]);
        }
    }
}

static void run_host(gal_op op, gal_kernel_call call)
{
    gal_error err = {.code = GAL_OK};
    assert_int_equal(gal_ops_host_fp32.kernel[op](&call, &err), GAL_OK);
}

static void fused_activation_as_two_kernels(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags <= GAL_GEMM_BIAS; flags += GAL_GEMM_BIAS) {
        problem p;
        begin(&p, 1);
        float g[M * N], expected_g[M * N];
        const uint32_t dims[] = {M, N, K, flags}, activation_dims[] = {M * N, GAL_ACTIVATION_GELU_TANH};
        gal_kernel_call product = gemm_call(&p, dims, p.c), next = p.at.call;
        gal_error err = {.code = GAL_OK};
        next.dims = activation_dims;
        next.operand[0] = p.c;
        next.operand[1] = g;
        const gal_kernel_pair pair = {GAL_OP_GEMM, GAL_OP_ACTIVATION, &product, &next, true};
        uint32_t fusion = 0;
        assert_int_equal(gal_cuda_fuse(GAL_FP32, &pair, &fusion, &err), GAL_OK);
        assert_int_equal(fusion, GAL_CUDA_FUSE_ACTIVATION);
        assert_int_equal(gal_cuda_fused(GAL_FP32, &pair, fusion, &err), GAL_OK);
        assert_int_equal(lt.multiplied, 1);
        product.operand[2] = next.operand[0] = p.expected;
        next.operand[1] = expected_g;
        run_host(GAL_OP_GEMM, product);
        run_host(GAL_OP_ACTIVATION, next);
        assert_equal(p.c, p.expected, M * N);
        assert_near(g, expected_g, M * N);
        end(&p);
    }
}

static void fused_derivative_as_two_kernels(void **state)
{
    (void)state;
    problem p;
    begin(&p, 1);
    float u[M * N], du[M * N], expected[M * N];
    small_numbers(u, M * N, 9);
    const uint32_t dims[] = {M, N, K, GAL_GEMM_TRANSPOSE_B}, activation_dims[] = {M * N, GAL_ACTIVATION_GELU_TANH};
    gal_kernel_call product = gemm_call(&p, dims, p.c), next = p.at.call;
    gal_error err = {.code = GAL_OK};
    for (size_t i = 0; i < M * N; i++) {
        u[i] /= 8.0F;
    }
    next.dims = activation_dims;
    next.operand[0] = p.c;
    next.operand[1] = u;
    next.operand[2] = du;
    const gal_kernel_pair pair = {GAL_OP_GEMM, GAL_OP_ACTIVATION_BACKWARD, &product, &next, true};
    uint32_t fusion = 0;
    assert_int_equal(gal_cuda_fuse(GAL_FP32, &pair, &fusion, &err), GAL_OK);
    assert_int_equal(fusion, GAL_CUDA_FUSE_DERIVATIVE);
    assert_int_equal(gal_cuda_fused(GAL_FP32, &pair, fusion, &err), GAL_OK);
    next.operand[2] = expected;
    run_host(GAL_OP_GEMM, product);
    run_host(GAL_OP_ACTIVATION_BACKWARD, next);
    assert_near(du, expected, M * N);
    end(&p);
}

/* The kernel that adds what the library has written: linked in the place of the device's. */
gal_code gal_cuda_add_fp32(const gal_kernel_call *call, gal_error *err)
{
    assert_true(call->add);
    return gal_ops_host_fp32.kernel[GAL_OP_ADD](call, err);
}

/* adds: the first microbatch has left numbers in both gradients. */
static void check_bias_gradient(bool adds)
{
    problem p;
    begin(&p, 1);
    float dbias[N], expected[N], workspace[256];
    const uint32_t dims[] = {M, N, K, GAL_GEMM_TRANSPOSE_A}, sum_dims[] = {K, N};
    gal_kernel_call product = gemm_call(&p, dims, p.c), next = p.at.call;
    gal_error err = {.code = GAL_OK};
    small_numbers(p.c, M * N, 11);
    small_numbers(dbias, N, 12);
    memcpy(p.expected, p.c, sizeof p.c);
    memcpy(expected, dbias, sizeof dbias);
    product.add = next.add = adds;
    product.workspace = workspace;
    product.workspace_bytes = sizeof workspace;
    next.dims = sum_dims;
    next.operand[0] = p.b;
    next.operand[1] = dbias;
    const gal_kernel_pair pair = {GAL_OP_GEMM, GAL_OP_BIAS_GRADIENT, &product, &next, true};
    uint32_t fusion = 0;
    assert_int_equal(gal_cuda_fuse(GAL_FP32, &pair, &fusion, &err), GAL_OK);
    assert_int_equal(fusion, GAL_CUDA_FUSE_BIAS);
    assert_int_equal(gal_cuda_fused(GAL_FP32, &pair, fusion, &err), GAL_OK);
    assert_int_equal(lt.last_workspace_bytes, sizeof workspace - 256);
    product.operand[2] = p.expected;
    next.operand[1] = expected;
    run_host(GAL_OP_GEMM, product);
    run_host(GAL_OP_BIAS_GRADIENT, next);
    assert_equal(p.c, p.expected, M * N);
    assert_equal(dbias, expected, N);
    end(&p);
}

static void fused_bias_gradient_as_two_kernels(void **state)
{
    (void)state;
    check_bias_gradient(false);
    check_bias_gradient(true);
}

static void what_is_not_the_same_is_not_fused(void **state)
{
    (void)state;
    problem p;
    begin(&p, 1);
    const uint32_t dims[] = {M, N, K, GAL_GEMM_TRANSPOSE_A}, relu[] = {M * N, GAL_ACTIVATION_RELU};
    const uint32_t erf_dims[] = {M * N, GAL_ACTIVATION_GELU_ERF}, tanh_dims[] = {M * N, GAL_ACTIVATION_GELU_TANH};
    const uint32_t odd[] = {M, N - 1, K, 0}, odd_tanh[] = {M * (N - 1), GAL_ACTIVATION_GELU_TANH}, sum_dims[] = {K, N};
    gal_kernel_call product = gemm_call(&p, dims, p.c), next = p.at.call;
    gal_kernel_pair pair = {GAL_OP_GEMM, GAL_OP_ACTIVATION, &product, &next, true};
    next.operand[0] = p.c;
    next.dims = relu;
    assert_int_equal(gal_cuda_fusion_of(&pair), GAL_CUDA_FUSE_NONE);
    next.dims = erf_dims;
    assert_int_equal(gal_cuda_fusion_of(&pair), GAL_CUDA_FUSE_NONE);
    next.dims = tanh_dims;
    next.operand[0] = p.a;
    assert_int_equal(gal_cuda_fusion_of(&pair), GAL_CUDA_FUSE_NONE);
    next.operand[0] = p.c;
    product.add = true;
    assert_int_equal(gal_cuda_fusion_of(&pair), GAL_CUDA_FUSE_NONE);
    product.add = false;
    product.dims = odd;
    next.dims = odd_tanh;
    assert_int_equal(gal_cuda_fusion_of(&pair), GAL_CUDA_FUSE_NONE);
    product.dims = dims;
    next.dims = sum_dims;
    next.operand[0] = p.b;
    pair.second_op = GAL_OP_BIAS_GRADIENT;
    product.workspace_bytes = 255; /* no place for sums that are to be added */
    assert_int_equal(gal_cuda_fusion_of(&pair), GAL_CUDA_FUSE_NONE);
    product.workspace_bytes = 256;
    assert_int_equal(gal_cuda_fusion_of(&pair), GAL_CUDA_FUSE_BIAS);
    end(&p);
}

/* What the first one writes is read by others too: it must be written. */
static void a_derivative_needs_a_lone_pair(void **state)
{
    (void)state;
    problem p;
    begin(&p, 1);
    const uint32_t dims[] = {M, N, K, 0}, activation_dims[] = {M * N, GAL_ACTIVATION_GELU_TANH};
    gal_kernel_call product = gemm_call(&p, dims, p.c), next = p.at.call;
    next.dims = activation_dims;
    next.operand[0] = p.c;
    gal_kernel_pair pair = {GAL_OP_GEMM, GAL_OP_ACTIVATION_BACKWARD, &product, &next, false};
    assert_int_equal(gal_cuda_fusion_of(&pair), GAL_CUDA_FUSE_NONE);
    pair.lone = true;
    assert_int_equal(gal_cuda_fusion_of(&pair), GAL_CUDA_FUSE_DERIVATIVE);
    end(&p);
}

static void what_the_library_lacks_stays_two_kernels(void **state)
{
    (void)state;
    problem p;
    begin(&p, 1);
    lt.refused_epilogue = CUBLASLT_EPILOGUE_GELU_AUX;
    float g[M * N];
    const uint32_t dims[] = {M, N, K, 0}, activation_dims[] = {M * N, GAL_ACTIVATION_GELU_TANH};
    gal_kernel_call product = gemm_call(&p, dims, p.c), next = p.at.call;
    gal_error err = {.code = GAL_OK};
    next.dims = activation_dims;
    next.operand[0] = p.c;
    next.operand[1] = g;
    const gal_kernel_pair pair = {GAL_OP_GEMM, GAL_OP_ACTIVATION, &product, &next, true};
    for (int i = 0; i < 3; i++) {
        uint32_t fusion = 9;
        assert_int_equal(gal_cuda_fuse(GAL_FP32, &pair, &fusion, &err), GAL_OK);
        assert_int_equal(fusion, GAL_CUDA_FUSE_NONE);
    }
    assert_int_equal(lt.asked, 1);
    assert_int_equal(lt.multiplied, 0);
    end(&p);
}

static void an_algorithm_that_is_refused_is_not_used(void **state)
{
    (void)state;
    problem p;
    begin(&p, 8);
    const uint32_t dims[] = {M, N, K, 0};
    const gal_kernel_call call = gemm_call(&p, dims, p.c);
    gal_error err = {.code = GAL_OK};
    assert_int_equal(gal_cuda_gemm_prepare(GAL_FP32, &call, &err), GAL_OK);
    gal_gemm_plans_free(&p.library);
    lt.asked = 0;
    assert_int_equal(gal_cuda_gemm_prepare(GAL_FP32, &call, &err), GAL_OK);
    assert_int_equal(lt.asked, 0); /* what was kept serves */
    gal_gemm_plans_free(&p.library);
    p.library.cache.entry[0].algorithm[7] = 1;
    assert_int_equal(gal_cuda_gemm_prepare(GAL_FP32, &call, &err), GAL_OK);
    assert_int_equal(lt.asked, 1);
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_as_on_the_host),
        cmocka_unit_test(weight_gradients_add_in_fp32),
        cmocka_unit_test(the_fastest_candidate_is_kept),
        cmocka_unit_test(a_deterministic_library_times_nothing),
        cmocka_unit_test(products_are_planned_as_asked),
        cmocka_unit_test(products_keep_half_of_the_device),
        cmocka_unit_test(sums_are_not_timed),
        cmocka_unit_test(a_product_that_the_library_lacks_is_named),
        cmocka_unit_test(fused_activation_as_two_kernels),
        cmocka_unit_test(fused_derivative_as_two_kernels),
        cmocka_unit_test(fused_bias_gradient_as_two_kernels),
        cmocka_unit_test(what_is_not_the_same_is_not_fused),
        cmocka_unit_test(a_derivative_needs_a_lone_pair),
        cmocka_unit_test(what_the_library_lacks_stays_two_kernels),
        cmocka_unit_test(an_algorithm_that_is_refused_is_not_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
