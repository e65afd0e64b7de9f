/* A residual and the norm of its sum in one kernel, on emulated threads: bit by bit what the two kernels give, which
 * other tests compare with the host's. Every type, rows that can and that cannot be accessed by 16 bytes, rows of a
 * warp, of blocks, and longer ones; with and without dropout and a bias. */
#include "tests/support/emulated/device_case.h"

enum { SAMPLES = 3, POSITIONS = 2, ROWS = SAMPLES * POSITIONS };
enum { X, O, SUM, BIAS, GAIN, SHIFT, NORMED, STATS, OPERANDS };

/* What both runs are of; is_one: as one kernel. */
typedef struct pair {
    gal_op norm;
    uint32_t hidden, bias;
    double dropout;
    bool is_one;
} pair;

static pair now;

static uint64_t no_workspace(const device_case *at, gal_op op, const gal_kernel_call *call)
{
    (void)at;
    (void)op;
    (void)call;
    return 0;
}

#define OF_TYPE(dtype, name)                                                                                           \
    ((dtype) == GAL_FP32   ? gal_cuda_##name##_fp32                                                                    \
     : (dtype) == GAL_BF16 ? gal_cuda_##name##_bf16                                                                    \
                           : gal_cuda_##name##_fp16)

static gal_code run(device_case *at, gal_op op, gal_kernel_call *call, gal_error *err)
{
    const uint32_t dims[] = {ROWS, now.hidden};
    const bool centred = now.norm == GAL_OP_LAYER_NORM;
    gal_kernel_call norm = *call;
    norm.dims = dims;
    norm.operand[0] = call->operand[SUM];
    norm.operand[1] = call->operand[GAIN];
    norm.operand[2] = call->operand[centred ? SHIFT : NORMED];
    norm.operand[3] = call->operand[centred ? NORMED : STATS];
    norm.operand[4] = call->operand[STATS];
    const gal_kernel_pair both = {.first_op = op, .second_op = now.norm, .first = call, .second = &norm};
    if (now.is_one) {
        assert_true(gal_cuda_is_residual_norm(&both));
        return OF_TYPE(at->dtype, residual_norm)(&both, err);
    }
    const gal_code code = OF_TYPE(at->dtype, residual)(call, err);
    return code != GAL_OK ? code
           : centred      ? OF_TYPE(at->dtype, layer_norm)(&norm, err)
                          : OF_TYPE(at->dtype, rms_norm)(&norm, err);
}

static const device_case_library kernels = {no_workspace, run};

static void run_form(device_case *at, gal_dtype dtype, bool odd, bool is_one)
{
    const size_t count = (size_t)ROWS * now.hidden;
    device_case_init(at, dtype, odd);
    now.is_one = is_one;
    at->library = &kernels;
    at->ops.model.residual_dropout = now.dropout;
    at->ops.model.sequence_length = 12;
    at->ops.step.step = 5;
    at->ops.call.block = 3;
    at->ops.call.position_begin = 4;
    at->ops.sample_map[1] = 7;
    device_case_add(at, ELEMENT, count, 1.0, 1);
    device_case_add(at, ELEMENT, count, 1.0, 2);
    device_case_add(at, ELEMENT, count, 0.0, 0);
    device_case_add(at, ELEMENT, now.hidden, 1.0, 3);
    device_case_add(at, ELEMENT, now.hidden, 1.0, 4);
    device_case_add(at, ELEMENT, now.hidden, 1.0, 5);
    device_case_add(at, ELEMENT, count, 0.0, 0);
    device_case_add(at, FLOAT, (size_t)(now.norm == GAL_OP_LAYER_NORM ? 2 : 1) * ROWS, 0.0, 0);
    device_case_run(at, GAL_OP_RESIDUAL, DIMS(SAMPLES, POSITIONS, now.hidden, now.bias));
}

/* Sums of three numbers within 1, of which two are doubled by dropout. */
static void check(gal_dtype dtype, bool odd)
{
    device_case apart, one;
    run_form(&apart, dtype, odd, false);
    run_form(&one, dtype, odd, true);
    device_case_expect_all(&one, &one.operand[SUM], 5 * single_unit * 4);
    for (uint32_t o = SUM; o < OPERANDS; o++) {
        const operand *a = &apart.operand[o], *b = &one.operand[o];
        assert_memory_equal(a->got, b->got, a->count * sizeof *a->got);
    }
    for (size_t i = 0; i < one.operand[NORMED].count; i++) {
        assert_true(one.operand[NORMED].got[i] == one.operand[NORMED].got[i]); /* written */
    }
    device_case_free(&one);
    device_case_free(&apart);
}

static void check_forms(gal_op norm)
{
    static const gal_dtype types[] = {GAL_FP32, GAL_BF16, GAL_FP16};
    static const uint32_t widths[] = {48, 37, 520, 1032, 4104, 16392};
    for (uint32_t t = 0; t < 3; t++) {
        for (uint32_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
            for (uint32_t form = 0; form < 4; form++) {
                now = (pair){norm, widths[w], form % 2, form / 2 == 0 ? 0.0 : 0.5, false};
                check(types[t], false);
            }
            check(types[t], true);
        }
    }
}

static void layer_norm(void **state)
{
    (void)state;
    check_forms(GAL_OP_LAYER_NORM);
}

static void rms_norm(void **state)
{
    (void)state;
    check_forms(GAL_OP_RMS_NORM);
}

/* Not of other rows, another sum or another operator. */
static void other_pairs(void **state)
{
    (void)state;
    char memory[4];
    uint32_t sum[] = {3, 2, 8, 0}, norm[] = {6, 8};
    gal_kernel_call first = {.dims = sum, .operand = {[2] = memory}}, second = {.dims = norm, .operand = {memory}};
    gal_kernel_pair both = {GAL_OP_RESIDUAL, GAL_OP_RMS_NORM, &first, &second, false};
    assert_true(gal_cuda_is_residual_norm(&both));
    norm[0] = 5;
    assert_false(gal_cuda_is_residual_norm(&both));
    norm[0] = 6;
    second.operand[0] = memory + 1;
    assert_false(gal_cuda_is_residual_norm(&both));
    second.operand[0] = memory;
    both.second_op = GAL_OP_NORM_SUMS;
    assert_false(gal_cuda_is_residual_norm(&both));
    both.second_op = GAL_OP_LAYER_NORM;
    both.first_op = GAL_OP_DROPOUT;
    assert_false(gal_cuda_is_residual_norm(&both));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_norm),
        cmocka_unit_test(rms_norm),
        cmocka_unit_test(other_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
