/* Moments and masters on storage beside a device with queues: the double of the CUDA runtime, whose queues are late and
 * in random orders, and a file whose transfers are late too.
 *
 * In fp64 whole steps have the host's bits. In 16 bits gradients are drawn and the rest of the optimizer is real
 * (copies each way, the host's Adam, the file): wherever moments and masters lie, weights, states and checkpoints have
 * the same bits. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/device/cuda/cuda.h"
#include "runtime/program/verify/verify.h"
#include "runtime/train/shard_file.h"
#include "tests/support/cuda_double.h"
#include "tests/support/cuda_kernels.h"
#include "tests/support/numerics_bytes.h"
#include "tests/support/numerics_trial.h"
#include "tests/support/random_plan.h"
#include "tests/support/scratch_folder.h"

enum { SAME_PLANS = 16, NARROW_PLANS = 24, STEPS = 4, SLOW_NANOSECONDS = 200000 };

/* ---- a slow disk, that may be full ---- */

static uint64_t writes_left = UINT64_MAX; /* before it is full */
static bool is_slow;

/* Stands before libc's, for storage's threads. */
ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset)
{
    const struct timespec a_while = {0, SLOW_NANOSECONDS};
    if (is_slow) {
        (void)nanosleep(&a_while, NULL);
    }
    if (writes_left == 0) {
        errno = ENOSPC;
        return -1;
    }
    writes_left -= writes_left < UINT64_MAX;
    return syscall(SYS_pwrite64, file, bytes, count, offset);
}

/* ---- one rank ---- */

static const gal_trial_on queued = {
    .name = "queued", .device = &gal_device_cuda, .ops = &gal_ops_queued_fp64, .host_ops = &gal_ops_host_fp64};
static const gal_trial_on queued_graphs = {.name = "queued",
                                           .device = &gal_device_cuda,
                                           .ops = &gal_ops_queued_fp64,
                                           .host_ops = &gal_ops_host_fp64,
                                           .graphs = true};
static const gal_trial_on queued_bf16 = {.name = "queued",
                                         .device = &gal_device_cuda,
                                         .ops = &gal_ops_queued_idle_bf16,
                                         .wide_ops = &gal_ops_queued_idle_fp32,
                                         .host_ops = &gal_ops_beside_bf16};
static const gal_trial_on queued_fp16 = {.name = "queued",
                                         .device = &gal_device_cuda,
                                         .ops = &gal_ops_queued_idle_fp16,
                                         .wide_ops = &gal_ops_queued_idle_fp32,
                                         .host_ops = &gal_ops_beside_fp16};

static void open_trial(const gal_trial_on *on, const gal_plan *plan, uint64_t seed, gal_trial *out)
{
    gal_error err = {0};
    if (gal_trial_create_on(on, plan, seed, NULL, out, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
}

static gal_step_result step(const gal_trial *trial, uint64_t number)
{
    gal_error err = {0};
    gal_step_result result = {0};
    const gal_step_settings settings = {.step = number, .seed = 5, .learning_rate = 0.01};
    if (gal_engine_step(trial->engine, &settings, &result, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    return result;
}

static void read_buffer(const gal_trial *trial, uint32_t buffer, void *out)
{
    const gal_buffer *at = &trial->program->buffer[buffer];
    trial->on->device->read(gal_engine_memory(trial->engine), trial->program->arena[at->arena].offset + at->offset, out,
                            at->bytes);
}

/* Elements [first, + count) of two buffers, wherever these lie. */
static void check_same_elements(const gal_trial *a, uint32_t of_a, uint64_t first_a, const gal_trial *b, uint32_t of_b,
                                uint64_t first_b, uint64_t count, uint64_t item)
{
    assert_true((of_a == GAL_NO_BUFFER) == (of_b == GAL_NO_BUFFER));
    if (of_a == GAL_NO_BUFFER) {
        return;
    }
    const uint64_t bytes_a = a->program->buffer[of_a].bytes, bytes_b = b->program->buffer[of_b].bytes;
    assert_true((first_a + count) * item <= bytes_a && (first_b + count) * item <= bytes_b);
    char *content = malloc(bytes_a + bytes_b);
    assert_non_null(content);
    read_buffer(a, of_a, content);
    read_buffer(b, of_b, content + bytes_a);
    assert_memory_equal(content + first_a * item, content + bytes_a + first_b * item, count * item);
    free(content);
}

static const gal_parameter *parameter_of(const gal_program *p, uint32_t tensor)
{
    uint32_t i = 0;
    while (i < p->parameter_count && p->parameter[i].tensor != tensor) {
        i++;
    }
    assert_true(i < p->parameter_count);
    return &p->parameter[i];
}

/* On one device a tensor is whole. */
static uint64_t elements_of(const gal_parameter *parameter)
{
    return parameter->outer * parameter->split * parameter->inner;
}

/* Tensor by tensor: buckets and chunks end where the next matrix is kept elsewhere. */
static void check_same_states(const gal_trial *a, const gal_trial *b)
{
    const uint64_t item = gal_dtype_bytes(a->program->dtype), wide = gal_dtype_bytes(gal_dtype_wide(a->program->dtype));
    assert_int_equal(a->program->parameter_count, b->program->parameter_count);
    for (uint32_t i = 0; i < a->program->parameter_count; i++) {
        const gal_parameter *p = &a->program->parameter[i], *q = parameter_of(b->program, p->tensor);
        const gal_unit *x = &a->program->unit[p->unit], *y = &b->program->unit[q->unit];
        const uint64_t first_a = p->offset_elements, first_b = q->offset_elements, count = elements_of(p);
        check_same_elements(a, x->weight, first_a, b, y->weight, first_b, count, item);
        check_same_elements(a, x->first_moment, first_a, b, y->first_moment, first_b, count, wide);
        check_same_elements(a, x->second_moment, first_a, b, y->second_moment, first_b, count, wide);
        check_same_elements(a, x->master, first_a, b, y->master, first_b, count, wide);
        if (x->host_weight != GAL_NO_BUFFER && y->host_weight != GAL_NO_BUFFER) {
            check_same_elements(a, x->host_weight, first_a, b, y->host_weight, first_b, count, item);
        }
    }
}

static bool are_cut_alike(const gal_program *a, const gal_program *b)
{
    bool alike = a->parameter_count == b->parameter_count;
    for (uint32_t i = 0; i < a->parameter_count && alike; i++) {
        alike = a->parameter[i].tensor == b->parameter[i].tensor && a->parameter[i].unit == b->parameter[i].unit;
    }
    return alike;
}

/* What the engine holds is what the program says, and the file is written to its end. */
static void check_bytes(const gal_trial *trial)
{
    const gal_program *program = trial->program;
    const gal_engine_bytes held = gal_engine_bytes_of(trial->engine);
    assert_int_equal(held.arena_bytes, program->arena_bytes);
    assert_int_equal(held.host_bytes, program->host_bytes);
    assert_int_equal(held.storage_bytes, program->storage_bytes);
    if (program->storage_bytes > 0) {
        const gal_storage_facts facts = gal_storage_facts_of(gal_engine_memory(trial->engine)->storage);
        assert_int_equal(facts.written_bytes, program->storage_bytes);
    }
}

/* ---- whole steps ---- */

static void check_same_steps(uint64_t seed, uint64_t *stored_bytes)
{
    gal_plan plan;
    gal_trial host, device;
    gal_error err = {0};
    char text[256] = "";
    double loss[2];
    gal_random_plan(seed, 1, &plan);
    gal_random_offload(seed, &plan);
    gal_random_storage(seed, &plan);
    gal_random_shard_units(seed, &plan);
    gal_cuda_double_reset(seed, seed % 2 == 0);
    open_trial(&gal_trial_on_host, &plan, seed, &host);
    open_trial(seed % 3 == 0 ? &queued_graphs : &queued, &plan, seed, &device);
    for (uint64_t t = 0; t < STEPS; t++) {
        const gal_step_result a = step(&host, t), b = step(&device, t);
        assert_memory_equal(&a, &b, sizeof a);
        assert_true(gal_cuda_double_is_drained());
        check_same_states(&host, &device);
    }
    assert_int_equal(gal_engine_evaluate(host.engine, 1, &loss[0], NULL, &err), GAL_OK);
    assert_int_equal(gal_engine_evaluate(device.engine, 1, &loss[1], NULL, &err), GAL_OK);
    assert_true(loss[0] == loss[1]);
    assert_true(gal_arena_as_planned(host.program, gal_engine_memory(host.engine), text, sizeof text));
    check_bytes(&device);
    if (host.program->host_bytes > 0) { /* all of it, the ring too */
        assert_memory_equal(gal_engine_memory(host.engine)->host->base, gal_engine_memory(device.engine)->host->base,
                            host.program->host_bytes);
    }
    *stored_bytes += device.program->storage_bytes;
    gal_trial_free(&device);
    gal_trial_free(&host);
    gal_plan_free(&plan);
}

static void test_same_bits(void **state)
{
    (void)state;
    uint64_t stored_bytes = 0;
    for (uint64_t seed = 0; seed < SAME_PLANS; seed++) {
        is_slow = seed % 4 == 1;
        check_same_steps(seed, &stored_bytes);
    }
    assert_true(stored_bytes > 0);
    is_slow = false;
    gal_cuda_double_reset(0, false);
}

/* ---- 16 bits ---- */

/* Kernels that do nothing leave what is put here: gradients of the step, and their norm. */
static void put_gradients(const gal_trial *trial, uint64_t number, double norm)
{
    const gal_program *p = trial->program;
    const gal_memory *memory = gal_engine_memory(trial->engine);
    const double norm_and_loss[2] = {norm, 1.0};
    const gal_buffer *norm_buffer = &p->buffer[p->norm_buffer];
    trial->on->device->write(memory, p->arena[norm_buffer->arena].offset + norm_buffer->offset, norm_and_loss,
                             sizeof norm_and_loss);
    for (uint32_t i = 0; i < p->parameter_count; i++) {
        const gal_parameter *parameter = &p->parameter[i];
        const gal_buffer *buffer = &p->buffer[p->unit[parameter->unit].gradient];
        const uint64_t count = elements_of(parameter);
        uint64_t random = 1000 * number + parameter->tensor;
        float *values = malloc(count * sizeof *values);
        assert_non_null(values);
        for (uint64_t e = 0; e < count; e++) {
            values[e] = (float)gal_random_below(&random, 2001) / 1000.0f - 1.0f;
        }
        trial->on->device->write(
            memory, p->arena[buffer->arena].offset + buffer->offset + parameter->offset_elements * sizeof *values,
            values, count * sizeof *values);
        free(values);
    }
}

static gal_checkpoint_state checkpoint_of(const gal_trial *trial)
{
    return (gal_checkpoint_state){.plan = trial->plan,
                                  .program = trial->program,
                                  .device = 0,
                                  .ops = trial->on->device,
                                  .memory = gal_engine_memory(trial->engine)};
}

static gal_shard_record save(const gal_trial *trial)
{
    gal_error err = {0};
    gal_shard_record record = {0};
    const gal_checkpoint_state state = checkpoint_of(trial);
    if (gal_shard_write(gal_scratch_folder, &state, &record, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    return record;
}

/* The checkpoint that was written last, to a rank of another plan, whose next step goes on from there. */
static void check_goes_on(const gal_trial_on *on, const gal_plan *plan, const gal_trial *like)
{
    gal_trial resumed;
    gal_error err = {0};
    open_trial(on, plan, 99, &resumed);
    const gal_checkpoint_state state = checkpoint_of(&resumed);
    assert_int_equal(gal_shard_read(gal_scratch_folder, &state, &err), GAL_OK);
    gal_engine_set_loss_scaling(resumed.engine, gal_engine_loss_scaling(like->engine));
    put_gradients(&resumed, STEPS, 4.0);
    put_gradients(like, STEPS, 4.0);
    (void)step(&resumed, STEPS);
    (void)step(like, STEPS);
    check_same_states(like, &resumed);
    gal_trial_free(&resumed);
}

static void check_verifies(const gal_plan *plan)
{
    gal_program *program = NULL;
    gal_error err = {0};
    assert_int_equal(gal_lower(plan, 0, &program, &err), GAL_OK);
    if (gal_verify(&program, 1, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    gal_program_free(program);
}

/* Of one plan: all in memory, moments on storage, masters there too. The last step but one is not finite, and leaves
 * all as it was. */
static void check_narrow(uint64_t seed, uint64_t *stored_masters, uint64_t *same_records)
{
    enum { MEMORY, MOMENTS, MASTERS, WAYS };
    gal_plan plan[WAYS];
    gal_trial trial[WAYS];
    const gal_trial_on *on = seed % 2 == 0 ? &queued_bf16 : &queued_fp16;
    gal_cuda_double_reset(seed, seed % 3 == 0);
    for (uint32_t w = 0; w < WAYS; w++) {
        gal_random_plan(seed, 1, &plan[w]);
        gal_random_offload(seed, &plan[w]);
        plan[w].model.compute_dtype = on->ops->dtype;
        if (w != MEMORY) {
            gal_random_storage(seed, &plan[w]);
        }
        if (w == MASTERS) {
            gal_random_masters(seed, &plan[w]);
        }
        gal_random_shard_units(seed, &plan[w]);
        check_verifies(&plan[w]);
        open_trial(on, &plan[w], seed, &trial[w]);
    }
    for (uint64_t t = 0; t < STEPS; t++) {
        gal_shard_record record[WAYS];
        for (uint32_t w = 0; w < WAYS; w++) {
            put_gradients(&trial[w], t, t == 2 ? INFINITY : 4.0);
            (void)step(&trial[w], t);
            record[w] = save(&trial[w]); /* at once: whatever is still on its way is not in it */
        }
        for (uint32_t w = MOMENTS; w < WAYS; w++) {
            if (are_cut_alike(trial[MEMORY].program, trial[w].program)) {
                assert_memory_equal(&record[MEMORY], &record[w], sizeof record[w]);
                ++*same_records;
            }
            check_same_states(&trial[MEMORY], &trial[w]);
        }
    }
    for (uint32_t w = 0; w < WAYS; w++) {
        check_bytes(&trial[w]);
    }
    for (uint32_t u = 0; u < trial[MASTERS].program->unit_count; u++) {
        uint32_t buffers[GAL_STORED_KINDS];
        gal_unit_in_file(trial[MASTERS].program, &trial[MASTERS].program->unit[u], buffers);
        *stored_masters += buffers[GAL_STORED_MASTER] != GAL_NO_BUFFER;
    }
    check_goes_on(on, &plan[MASTERS], &trial[MEMORY]);
    for (uint32_t w = 0; w < WAYS; w++) {
        gal_trial_free(&trial[w]);
        gal_plan_free(&plan[w]);
    }
}

static void test_masters(void **state)
{
    (void)state;
    uint64_t stored_masters = 0, same_records = 0;
    for (uint64_t seed = 1; seed <= NARROW_PLANS; seed++) {
        is_slow = seed % 8 == 1;
        check_narrow(seed, &stored_masters, &same_records);
    }
    print_message("%d plans, %llu units with masters on storage\n", NARROW_PLANS, (unsigned long long)stored_masters);
    assert_true(stored_masters > NARROW_PLANS);
    assert_true(same_records > NARROW_PLANS);
    is_slow = false;
    gal_cuda_double_reset(0, false);
}

/* ---- a full disk ---- */

static void stored_plan(gal_plan *plan)
{
    gal_random_plan(3, 1, plan);
    for (uint32_t r = 0; r < plan->run_count; r++) {
        plan->run[r].strategy.offload_optimizer_percent = plan->run[r].strategy.offload_storage_percent = 100;
        plan->run[r].strategy.offload_storage_masters = true;
    }
    plan->model.compute_dtype = GAL_BF16;
}

/* One message in the step, and nothing is left of the engine; what was saved before is as it was. */
static void test_full_disk(void **state)
{
    (void)state;
    gal_plan plan;
    gal_trial trial;
    gal_error err = {0};
    gal_step_result result;
    const gal_step_settings settings = {.step = 1, .seed = 5, .learning_rate = 0.01};
    gal_cuda_double_reset(1, true);
    stored_plan(&plan);
    open_trial(&queued_bf16, &plan, 1, &trial); /* parts are the default's: threads */
    put_gradients(&trial, 0, 4.0);
    (void)step(&trial, 0);
    const gal_shard_record record = save(&trial);
    writes_left = 5;
    put_gradients(&trial, 1, 4.0);
    assert_int_equal(gal_engine_step(trial.engine, &settings, &result, &err), GAL_ERR_SYSTEM);
    assert_non_null(strstr(err.text, ": writing "));
    assert_non_null(strstr(err.text, " bytes at "));
    assert_non_null(strstr(err.text, ": No space left on device"));
    writes_left = UINT64_MAX;
    const gal_checkpoint_state at = checkpoint_of(&trial);
    assert_int_equal(gal_shard_check(gal_scratch_folder, &at, &record, &err), GAL_OK);
    gal_trial_free(&trial);
    const gal_double_counts left = gal_cuda_double_counts();
    assert_int_equal(left.streams + left.events + left.graphs + left.allocations + left.pinned, 0);
    gal_plan_free(&plan);
    gal_cuda_double_reset(0, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_masters),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, gal_scratch_folder_make, gal_scratch_folder_remove);
}
