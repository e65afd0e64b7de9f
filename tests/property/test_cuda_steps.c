/* Steps of the engine on queues, against a double of the CUDA runtime: which kernels become one, what a trace is told,
 * the scale of the loss, and what is said when something fails. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/device/cuda/cuda.h"
#include "runtime/train/weights.h"
#include "tests/support/cuda_double.h"
#include "tests/support/cuda_kernels.h"
#include "tests/support/cuda_rank.h"
#include "tests/support/random_plan.h"

enum { PAIR_PLANS = 120 };

/* ---- pairs ---- */

/* FFNs whose activation is not gated, of each sub-batch: their products and the two directions of their activation are
 * pairs. 0: the plan has a grid, where a product comes in parts, or gradients take their weights' place behind dX. */
static uint32_t pairs_of_plan(const gal_plan *plan)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        if (plan->run[r].strategy.tp_mode != GAL_TP_1D || plan->gradient_reuses_parameter) {
            return 0;
        }
    }
    for (uint32_t b = 0; b < gal_model_block_count(&plan->model); b++) {
        gal_block_shape shape;
        gal_model_block(&plan->model, b, &shape);
        const bool plain = shape.kind == GAL_BLOCK_FFN && plan->model.family != GAL_FAMILY_LLAMA && !plan->model.gated;
        count += !plain ? 0 : gal_strategy_halves(gal_plan_block_strategy(plan, b), shape.kind) ? 2 : 1;
    }
    return count;
}

static bool is_plain(const gal_plan *plan, uint32_t block)
{
    const gal_strategy *s = gal_plan_block_strategy(plan, block);
    gal_block_shape shape;
    gal_model_block(&plan->model, block, &shape);
    return (shape.kind == GAL_BLOCK_ATTENTION || shape.kind == GAL_BLOCK_FFN) && s->tp_mode == GAL_TP_1D &&
           s->recompute == GAL_RECOMPUTE_NONE && !gal_strategy_halves(s, shape.kind);
}

/* Residuals of decoders before the norm of the next block, where both blocks lie alike in one piece of the chain: pairs
 * of a microbatch's forward. */
static uint32_t norms_of_plan(const gal_plan *plan)
{
    uint32_t count = 0;
    const bool has = plan->model.family == GAL_FAMILY_DECODER || plan->model.family == GAL_FAMILY_LLAMA;
    for (uint32_t piece = 0; has && piece < gal_plan_piece_count(plan); piece++) {
        const uint32_t begin = gal_plan_stage_first_block(plan, piece);
        for (uint32_t b = begin; b + 1 < begin + gal_plan_stage_block_count(plan, piece); b++) {
            const bool alike = gal_plan_block_strategy(plan, b) == gal_plan_block_strategy(plan, b + 1);
            count += alike && is_plain(plan, b) && is_plain(plan, b + 1);
        }
    }
    return count;
}

/* A step of the first rank of every stage. */
static void step_all_stages(uint64_t seed, uint32_t world)
{
    gal_comm comm = {.ops = &gal_nobody_queued};
    uint32_t stages = 1;
    for (uint32_t stage = 0; stage < stages; stage++) {
        gal_cuda_rank r = {0};
        gal_cuda_double_reset(seed, false);
        gal_random_plan(seed, world, &r.plan);
        stages = r.plan.stage_count;
        gal_cuda_rank_lower(stage * gal_plan_stage_devices(&r.plan), GAL_FP64, &r);
        gal_cuda_rank_run_on(&r, &gal_device_cuda, &gal_ops_queued_fp64, &comm, false);
        (void)gal_cuda_rank_step(&r, 0);
        gal_cuda_rank_close(&r);
    }
}

/* Of every FFN and microbatch one pair backward under every schedule: nothing comes between them. Forward at least one:
 * what is computed again is another. */
static void test_pairs_of_schedules(void **state)
{
    (void)state;
    uint64_t met[GAL_SCHEDULE_COUNT] = {0};
    for (uint64_t seed = 0; seed < PAIR_PLANS; seed++) {
        gal_plan plan;
        gal_random_plan(seed, 4, &plan);
        const uint64_t expected = (uint64_t)pairs_of_plan(&plan) * plan.microbatch_count;
        if (expected > 0 && plan.stage_count > 1) {
            memset(gal_fused_pairs, 0, sizeof gal_fused_pairs);
            step_all_stages(seed, 4);
            assert_true(gal_fused_pairs[GAL_PAIR_ACTIVATION] >= expected);
            assert_int_equal(gal_fused_pairs[GAL_PAIR_DERIVATIVE], expected);
            met[plan.schedule] += expected;
        }
        gal_plan_free(&plan);
    }
    for (uint32_t s = 0; s < GAL_SCHEDULE_COUNT; s++) {
        print_message("%s: %llu pairs backward\n", gal_schedule_names[s], (unsigned long long)met[s]);
        assert_true(met[s] > 0);
    }
    gal_cuda_double_reset(0, false);
}

static void test_pairs_of_norms(void **state)
{
    (void)state;
    uint64_t fused = 0, wanted = 0;
    for (uint64_t seed = 0; seed < PAIR_PLANS; seed++) {
        gal_plan plan;
        gal_random_plan(seed, 4, &plan);
        const uint64_t expected = (uint64_t)norms_of_plan(&plan) * plan.microbatch_count;
        if (expected > 0) {
            memset(gal_fused_pairs, 0, sizeof gal_fused_pairs);
            step_all_stages(seed, 4);
            assert_true(gal_fused_pairs[GAL_PAIR_NORM] >= expected);
            fused += gal_fused_pairs[GAL_PAIR_NORM];
            wanted += expected;
        }
        gal_plan_free(&plan);
    }
    print_message("%llu sums and their norms, %llu of them between blocks that lie alike\n", (unsigned long long)fused,
                  (unsigned long long)wanted);
    assert_true(wanted > 20);
    gal_cuda_double_reset(0, false);
}

/* ---- times ---- */

typedef struct times {
    const gal_program *program;
    uint32_t count[GAL_STREAM_COUNT];
} times;

static void note(void *context, uint32_t instruction, uint32_t microbatch, double start_seconds, double end_seconds)
{
    times *seen = context;
    assert_true(microbatch < seen->program->microbatch_count && end_seconds >= start_seconds);
    seen->count[seen->program->instruction[instruction].stream]++;
}

/* Every entry of a training step is told once; nothing of an evaluated batch is. */
static void test_trace(void **state)
{
    (void)state;
    gal_cuda_rank r;
    double loss;
    gal_error err = {0};
    gal_comm comm = {.ops = &gal_nobody_queued};
    gal_cuda_double_reset(1, false);
    gal_cuda_rank_open(9, 4, GAL_FP64, &r);
    times seen = {.program = r.program};
    gal_engine_options options = gal_cuda_rank_options(&r, &gal_device_cuda, &gal_ops_queued_idle, &comm);
    options.trace = (gal_trace){&seen, note};
    gal_cuda_rank_start(&r, &options);
    (void)gal_cuda_rank_step(&r, 0);
    assert_int_equal(gal_engine_evaluate(r.engine, 0, &loss, NULL, &err), GAL_OK);
    assert_memory_equal(seen.count, gal_engine_queues(r.engine)->count, sizeof seen.count);
    gal_cuda_rank_close(&r);
    gal_cuda_double_reset(0, false);
}

/* Kernels that do nothing leave the norm that is written here. */
static void step_with_norm(gal_cuda_rank *r, uint64_t number, double norm, double loss)
{
    const gal_buffer *buffer = &r->program->buffer[r->program->norm_buffer];
    const double values[2] = {norm, loss};
    gal_device_cuda.write(gal_engine_memory(r->engine), r->program->arena[buffer->arena].offset + buffer->offset,
                          values, sizeof values);
    (void)gal_cuda_rank_step(r, number);
}

/* The scale of the loss in fp16: halved where gradients alone overflow, and the same again when the step is looked at
 * once more. In bf16 there is none. */
static void test_scale_of_the_loss(void **state)
{
    (void)state;
    gal_cuda_rank r;
    gal_error err = {0};
    gal_engine_fault fault;
    const gal_step_settings settings = {.seed = 5, .learning_rate = 0.01};
    gal_cuda_double_reset(1, false);
    gal_cuda_rank_open(3, 1, GAL_FP16, &r);
    gal_cuda_rank_run_on(&r, &gal_device_cuda, &gal_ops_queued_idle_fp16, NULL, false);
    step_with_norm(&r, 0, 1.0, 1.0);
    assert_true(gal_queued_step.gradient_scale == 32768.0 && !gal_engine_overflowed(r.engine));
    step_with_norm(&r, 1, INFINITY, 1.0);
    assert_true(gal_queued_step.gradient_scale == 32768.0 && gal_engine_overflowed(r.engine));
    step_with_norm(&r, 2, INFINITY, NAN);
    assert_true(gal_queued_step.gradient_scale == 16384.0 && !gal_engine_overflowed(r.engine));
    assert_int_equal(gal_engine_find_fault(r.engine, &settings, &fault, &err), GAL_OK);
    assert_true(gal_queued_step.gradient_scale == 16384.0);
    step_with_norm(&r, 3, 1.0, 1.0);
    assert_true(gal_queued_step.gradient_scale == 8192.0 && !gal_engine_overflowed(r.engine));
    gal_cuda_rank_close(&r);
    gal_cuda_rank_open(3, 1, GAL_BF16, &r);
    gal_cuda_rank_run_on(&r, &gal_device_cuda, &gal_ops_queued_idle_bf16, NULL, false);
    step_with_norm(&r, 0, INFINITY, 1.0);
    assert_true(gal_queued_step.gradient_scale == 0.0 && !gal_engine_overflowed(r.engine));
    gal_cuda_rank_close(&r);
    gal_cuda_double_reset(0, false);
}

/* A gradient that is not finite: the block is found on the device too, and nothing is updated. */
static void test_fault(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_engine_fault fault[2];
    const gal_step_settings settings = {.seed = 5, .learning_rate = 0.01};
    const gal_device_ops *devices[] = {&gal_device_host, &gal_device_cuda};
    const gal_ops *ops[] = {&gal_ops_host_fp64, &gal_ops_queued_fp64};
    gal_cuda_double_reset(1, true);
    for (uint32_t i = 0; i < 2; i++) {
        gal_cuda_rank r = {0};
        gal_random_plan(3, 1, &r.plan); /* nothing of it in the host's memory, whose copy would heal the weight */
        gal_cuda_rank_lower(0, GAL_FP64, &r);
        gal_cuda_rank_run_on(&r, devices[i], ops[i], NULL, i == 1);
        gal_weights_initialize(r.program, &r.plan.model, 0, 3, devices[i], gal_engine_memory(r.engine));
        const gal_unit *unit = &r.program->unit[r.program->unit_count / 2];
        const gal_buffer *weight = &r.program->buffer[unit->weight];
        const uint64_t offset = r.program->arena[weight->arena].offset + weight->offset;
        const double infinite = INFINITY;
        devices[i]->write(gal_engine_memory(r.engine), offset, &infinite, sizeof infinite);
        assert_true(!isfinite(gal_cuda_rank_step(&r, 0).gradient_norm));
        assert_int_equal(gal_engine_find_fault(r.engine, &settings, &fault[i], &err), GAL_OK);
        assert_true(fault[i].found && fault[i].forward);
        gal_cuda_rank_close(&r);
    }
    assert_int_equal(fault[0].block, fault[1].block);
    gal_cuda_double_reset(0, false);
}

/* ---- failures ---- */

/* Whatever cannot be made, creation fails with a line and leaves nothing. */
static void test_creation_fails(void **state)
{
    (void)state;
    gal_cuda_rank r;
    gal_error err = {0};
    gal_comm comm = {.ops = &gal_nobody_queued};
    uint64_t call = 0;
    gal_code code = GAL_ERR_DEVICE;
    gal_cuda_double_reset(1, false);
    gal_cuda_rank_open(9, 4, GAL_FP64, &r);
    gal_engine_options options = gal_cuda_rank_options(&r, &gal_device_cuda, &gal_ops_queued_idle, &comm);
    options.deadline_seconds = 5.0;
    while (code != GAL_OK) {
        err = (gal_error){0};
        gal_cuda_double_reset(1, false);
        gal_cuda_double_fail_at(++call);
        code = gal_engine_create(r.program, &r.plan.model, r.device, &r.channels, &options, &r.engine, &err);
        if (code != GAL_OK) {
            const gal_double_counts left = gal_cuda_double_counts();
            assert_true(code == GAL_ERR_DEVICE || code == GAL_ERR_SYSTEM);
            assert_true(err.text[0] != '\0');
            assert_int_equal(left.streams + left.events + left.allocations + left.pinned, 0);
        }
    }
    assert_true(call > 10);
    gal_cuda_rank_close(&r);
    gal_cuda_double_reset(0, false);
}

static void test_step_fails(void **state)
{
    (void)state;
    gal_cuda_rank r;
    gal_error err = {0};
    gal_step_result result;
    gal_comm comm = {.ops = &gal_nobody_queued};
    const gal_step_settings settings = {.learning_rate = 0.01};
    gal_cuda_double_reset(1, false);
    gal_cuda_rank_open(9, 4, GAL_FP64, &r);
    gal_cuda_rank_run_on(&r, &gal_device_cuda, &gal_ops_queued_idle, &comm, false);
    gal_cuda_double_fail_at(40);
    assert_int_equal(gal_engine_step(r.engine, &settings, &result, &err), GAL_ERR_DEVICE);
    assert_non_null(strstr(err.text, "unspecified launch failure (runtime/device/cuda/queue.c:"));
    gal_cuda_rank_close(&r);
    gal_cuda_double_reset(0, false);
}

static void test_deadline(void **state)
{
    (void)state;
    gal_cuda_rank r;
    gal_error err = {0};
    gal_step_result result;
    gal_slow_requests never = {.never = true};
    gal_comm comm = {.ops = &gal_nobody_slow, .state = &never};
    gal_cuda_double_reset(1, false);
    gal_cuda_rank_open(9, 4, GAL_FP64, &r);
    gal_engine_options options = gal_cuda_rank_options(&r, &gal_device_cuda, &gal_ops_queued_idle, &comm);
    options.deadline_seconds = 0.05;
    gal_cuda_rank_start(&r, &options);
    const gal_step_settings settings = {.learning_rate = 0.01};
    assert_int_equal(gal_engine_step(r.engine, &settings, &result, &err), GAL_ERR_DEVICE);
    assert_non_null(strstr(err.text, "no progress for 0 s in step 0 (stage "));
    assert_non_null(strstr(err.text, ", waits for rank"));
    gal_cuda_rank_close(&r);
    gal_cuda_double_reset(0, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs_of_schedules),
        cmocka_unit_test(test_pairs_of_norms),
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_scale_of_the_loss),
        cmocka_unit_test(test_fault),
        cmocka_unit_test(test_creation_fails),
        cmocka_unit_test(test_step_fails),
        cmocka_unit_test(test_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
