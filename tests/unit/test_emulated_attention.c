/* Our own attention on emulated threads: every kind, forward and backward, in fp32 by single threads and in bf16 and
 * fp16 by tiles; the steps of a ring are in test_emulated_ring.c.
 *
 * Three sides. By definition in fp64 (attention_case.h), on the index functions that the kernels use too. The host's
 * kernels in fp64 must agree with it to 1e-10 (sums of some hundred numbers below 10 that were rounded at 1e-16): so
 * the index functions are right. The device's must agree within what rounding explains. */
#include <math.h>

#include "runtime/ops/cuda/kernels.h"
#include "tests/support/emulated/attention_case.h"
#include "tests/support/emulated/machine.h"

/* ---- comparing ---- */

static gal_op backward_of(gal_op op)
{
    return (gal_op)(op + 1);
}

static void run_host(attention_case *p, bool backward)
{
    gal_kernel_call call = attention_case_call(p, backward, false);
    gal_error err = {.code = GAL_OK};
    const gal_op op = backward ? backward_of(p->op) : p->op;
    assert_int_equal(gal_ops_host_fp64.kernel[op](&call, &err), GAL_OK);
}

static void run_device(attention_case *p, bool backward, bool reverse)
{
    gal_kernel_call call = attention_case_call(p, backward, true);
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

static void expect_host(const attention_tensor *t, const char *name)
{
    for (size_t i = 0; i < t->count; i++) {
        if (!(fabs(t->host[i] - t->exact[i]) <= 1e-10 * (1.0 + fabs(t->exact[i])))) {
            fail_msg("%s[%zu]: the host's is %.17g, by definition %.17g", name, i, t->host[i], t->exact[i]);
        }
    }
}

static void expect_device(const attention_case *p, const attention_tensor *t, const char *name)
{
    const double unit = attention_case_type_of(p, t) == GAL_FP32 ? 0x1p-24 : attention_case_unit(p);
    for (size_t i = 0; i < t->count; i++) {
        const double got = attention_case_get(attention_case_type_of(p, t), t->device, i);
        const double bound = t->bound[i] + unit * (fabs(t->exact[i]) + t->bound[i]) + 0x1p-25;
        if (!(fabs(got - t->exact[i]) <= bound)) {
            fail_msg("%s[%zu]: %.9g, by definition %.9g, may be off by %.3g", name, i, got, t->exact[i], bound);
        }
    }
}

/* A copy of what the device wrote, to compare bits. */
static char *copy_of(const attention_case *p, const attention_tensor *t)
{
    const size_t bytes = t->count * (attention_case_type_of(p, t) == GAL_FP32 ? 4 : 2);
    char *copy = malloc(bytes + 1);
    assert_non_null(copy);
    memcpy(copy, t->device, bytes);
    return copy;
}

static void expect_same_bits(const attention_case *p, const attention_tensor *t, char *copy)
{
    assert_memory_equal(copy, t->device, t->count * (attention_case_type_of(p, t) == GAL_FP32 ? 4 : 2));
    free(copy);
}

/* What the backward reads: the exact results, rounded, on both sides. */
static void give_forward_results(attention_case *p)
{
    for (size_t i = 0; i < p->ctx.count; i++) {
        p->ctx.host[i] = attention_case_round(p->dtype, p->ctx.exact[i]);
        attention_case_put(p->dtype, p->ctx.device, i, p->ctx.host[i]);
    }
    for (size_t i = 0; i < p->lse.count; i++) {
        const float value = (float)p->lse.exact[i];
        p->lse.host[i] = p->lse.exact[i];
        memcpy((float *)p->lse.device + i, &value, sizeof value);
    }
}

static void forward_case(attention_case *p)
{
    attention_case_define_ctx(p);
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

static void backward_case(attention_case *p)
{
    give_forward_results(p);
    char *begun = copy_of(p, &p->dbias);
    attention_case_define_gradients(p);
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
    attention_case p = {
        .op = op, .dims = dims, .dtype = v.dtype, .add = v.add, .odd = v.odd && gal_machine_attention_odd()};
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
    attention_case_make(&p);
    forward_case(&p);
    backward_case(&p);
    attention_case_release(&p);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(self_attention),          cmocka_unit_test(widths_of_heads),
        cmocka_unit_test(shared_keys_and_dropout), cmocka_unit_test(relative_attention),
        cmocka_unit_test(window_attention),        cmocka_unit_test(cross_attention),
        cmocka_unit_test(padded_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
