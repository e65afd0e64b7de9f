/* The engine on one rank: poisoned memory changes nothing, the trace is an order the waits allow, errors come out.
 * Several ranks: tests/numerics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/train/session.h"
#include "runtime/train/train.h"
#include "runtime/train/weights.h"

static const char plan_path[] = "tests/numerics/plans/serial.json";
static const gal_world alone = {.deadline_seconds = 10.0};

/* (31 sample + 7 position + 3 batch) modulo 257, and the next position's as target; context: fails if it is true. */
static gal_code fill(void *context, const gal_token_request *request, int32_t *out, gal_error *err)
{
    if (context != NULL && *(const bool *)context) {
        return gal_fail(err, GAL_ERR_SYSTEM, "no tokens today");
    }
    for (uint32_t s = 0; s < request->sample_count; s++) {
        for (uint32_t i = 0; i < request->sequence_length; i++) {
            const uint64_t token =
                request->samples[s] * 31u + (i + (request->targets ? 1u : 0u)) * 7u + request->batch * 3u;
            out[s * request->sequence_length + i] = (int32_t)(token % 257);
        }
    }
    return GAL_OK;
}

static gal_session *open_session(gal_plan *plan, const gal_session_options *options)
{
    gal_error err = {0};
    gal_session *session = NULL;
    if (gal_plan_read(plan_path, plan, &err) != GAL_OK ||
        gal_session_create(plan, &alone, options, &session, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    gal_weights_initialize(session->program, &plan->model, 0, 3, &gal_device_host, gal_engine_memory(session->engine));
    return session;
}

static void run_steps(bool poison, gal_step_result results[3], double evaluated[3], uint64_t *highest_byte)
{
    gal_error err = {0};
    gal_plan plan = {0};
    const gal_session_options options = {.tokens = {.fill = fill}, .deadline_seconds = 10.0, .poison = poison};
    gal_session *session = open_session(&plan, &options);
    for (uint64_t t = 0; t < 3; t++) {
        const gal_step_settings settings = {.step = t, .seed = 3, .learning_rate = 0.01};
        assert_int_equal(gal_engine_step(session->engine, &settings, &results[t], &err), GAL_OK);
        assert_int_equal(gal_engine_evaluate(session->engine, t, &evaluated[t], NULL, &err), GAL_OK);
    }
    const gal_memory *memory = gal_engine_memory(session->engine);
    assert_int_equal(memory->bytes, session->program->arena_bytes);
    *highest_byte = memory->bytes;
    while (poison && *highest_byte > 0 && ((const uint8_t *)memory->base)[*highest_byte - 1] == 0xFF) {
        *highest_byte -= 1;
    }
    gal_session_free(session);
    gal_plan_free(&plan);
}

static void test_poison_changes_nothing(void **state)
{
    (void)state;
    gal_step_result clean[3], poisoned[3];
    double clean_evaluated[3], poisoned_evaluated[3];
    uint64_t arena_bytes = 0, highest_byte = 0;
    run_steps(false, clean, clean_evaluated, &arena_bytes);
    run_steps(true, poisoned, poisoned_evaluated, &highest_byte);
    assert_memory_equal(clean, poisoned, sizeof clean);
    assert_memory_equal(clean_evaluated, poisoned_evaluated, sizeof clean_evaluated);
    assert_true(clean[2].loss < clean[0].loss);
    assert_true(arena_bytes - highest_byte < GAL_ALIGNMENT_BYTES);
}

typedef struct log_of_steps {
    uint32_t count, of_microbatch[2];
    double last_end_seconds;
} log_of_steps;

static void note(void *context, uint32_t instruction, uint32_t microbatch, double start_seconds, double end_seconds)
{
    log_of_steps *log = context;
    (void)instruction;
    assert_true(start_seconds >= log->last_end_seconds && end_seconds >= start_seconds);
    log->last_end_seconds = end_seconds;
    log->count++;
    log->of_microbatch[microbatch]++;
}

/* On one rank nothing overlaps; every instruction of every call is traced once. */
static void test_trace(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_plan plan = {0};
    gal_step_result result;
    log_of_steps log = {0};
    const gal_session_options options = {.tokens = {.fill = fill}, .trace = {&log, note}, .deadline_seconds = 10.0};
    gal_session *session = open_session(&plan, &options);
    const gal_step_settings settings = {.seed = 3, .learning_rate = 0.01};
    assert_int_equal(gal_engine_step(session->engine, &settings, &result, &err), GAL_OK);
    uint32_t expected = 0;
    for (uint32_t c = 0; c < session->program->call_count; c++) {
        expected += session->program->fragment[session->program->call[c].fragment].count;
    }
    assert_int_equal(log.count, expected);
    assert_true(log.of_microbatch[1] > 0);
    gal_session_free(session);
    gal_plan_free(&plan);
}

static void test_error_of_the_data(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_plan plan = {0};
    gal_step_result result;
    bool fails = true;
    const gal_session_options options = {.tokens = {.context = &fails, .fill = fill}, .deadline_seconds = 10.0};
    gal_session *session = open_session(&plan, &options);
    const gal_step_settings settings = {.seed = 3, .learning_rate = 0.01};
    assert_int_equal(gal_engine_step(session->engine, &settings, &result, &err), GAL_ERR_SYSTEM);
    assert_string_equal(err.text, "no tokens today");
    gal_session_free(session);
    gal_plan_free(&plan);
}

/* A communicator whose other side never answers. */
static gal_code start_in_vain(gal_comm *comm, const gal_comm_request *request, uint32_t *handle, gal_error *err)
{
    (void)comm;
    (void)err;
    assert_true(request->source != NULL || request->target != NULL);
    *handle = 0;
    return GAL_OK;
}

static gal_code never_done(gal_comm *comm, uint32_t handle, bool *done, gal_error *err)
{
    (void)comm;
    (void)handle;
    (void)err;
    *done = false;
    return GAL_OK;
}

static void test_deadline(void **state)
{
    (void)state;
    static const gal_comm_ops ops = {.name = "silent", .start = start_in_vain, .test = never_done};
    gal_comm comm = {.ops = &ops, .world_size = 2};
    gal_error err = {0};
    gal_plan plan = {0};
    gal_program *program = NULL;
    gal_engine *engine = NULL;
    gal_channels channels = {0};
    gal_step_result result;
    assert_int_equal(gal_plan_read("tests/numerics/plans/serial-tied-pp2.json", &plan, &err), GAL_OK);
    assert_int_equal(gal_lower(&plan, 0, &program, &err), GAL_OK);
    assert_int_equal(gal_channels_of(program, 0, &channels, &err), GAL_OK);
    const gal_engine_options options = {.device = &gal_device_host,
                                        .ops = &gal_ops_host_fp64,
                                        .comm = &comm,
                                        .tokens = {.fill = fill},
                                        .deadline_seconds = 0.05};
    assert_int_equal(gal_engine_create(program, &plan.model, 0, &channels, &options, &engine, &err), GAL_OK);
    gal_weights_initialize(program, &plan.model, 0, 3, &gal_device_host, gal_engine_memory(engine));
    const gal_step_settings settings = {.seed = 3, .learning_rate = 0.01};
    assert_int_equal(gal_engine_step(engine, &settings, &result, &err), GAL_ERR_DEVICE);
    assert_non_null(
        strstr(err.text, "in step 0 (stage 0, device 0); forward of microbatch 0, waits for rank 1: send_f"));
    assert_non_null(strstr(err.text, "backward of microbatch 0, waits for rank 1: recv_b"));
    gal_engine_free(engine);
    gal_channels_free(&channels);
    gal_program_free(program);
    gal_plan_free(&plan);
}

/* Two stages of two devices: the channels of each rank by hand. World rank = 2 stage + device. */
static void test_channels(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_plan plan = {0};
    uint32_t ranks[4];
    assert_int_equal(gal_plan_read("tests/numerics/plans/zero3-pp2.json", &plan, &err), GAL_OK);
    for (uint32_t stage = 0; stage < 2; stage++) {
        gal_program *program = NULL;
        gal_channels channels = {0};
        uint32_t pairs_over_stages = 0;
        assert_int_equal(gal_lower(&plan, stage, &program, &err), GAL_OK);
        assert_int_equal(gal_channels_of(program, 1, &channels, &err), GAL_OK);
        for (uint32_t c = 0; c < channels.count; c++) {
            const gal_channel_spec *spec = &channels.spec[c];
            if (spec->stream == GAL_STREAM_SEND_FORWARD || spec->stream == GAL_STREAM_SEND_BACKWARD) {
                assert_int_equal(spec->rank_count, 2);
                assert_int_equal(spec->ranks[0], 1);
                assert_int_equal(spec->ranks[1], 3);
                pairs_over_stages++;
            }
            assert_true(spec->stream != GAL_STREAM_RECEIVE_FORWARD && spec->stream != GAL_STREAM_RECEIVE_BACKWARD);
        }
        assert_int_equal(pairs_over_stages, 2);
        assert_int_equal(gal_group_ranks(program, 1, 1, ranks), 2);
        assert_int_equal(ranks[0], 2 * stage);
        assert_int_equal(ranks[1], 2 * stage + 1);
        assert_int_equal(gal_group_ranks(program, GAL_GROUP_TIED, 1, ranks), 2);
        assert_int_equal(ranks[0], 1);
        assert_int_equal(ranks[1], 3);
        assert_int_equal(gal_group_ranks(program, GAL_GROUP_WORLD, 1, ranks), 4);
        gal_channels_free(&channels);
        gal_program_free(program);
    }
    gal_plan_free(&plan);
}

/* Warm-up over 4 steps to 1, then half a cosine over 10 steps to 0.1. */
static void test_learning_rate(void **state)
{
    (void)state;
    gal_optimizer optimizer = {
        .learning_rate = 1.0, .minimum_learning_rate = 0.1, .warmup_steps = 4, .decay_steps = 10};
    assert_float_equal(gal_learning_rate(&optimizer, 0), 0.25, 1e-15);
    assert_float_equal(gal_learning_rate(&optimizer, 3), 1.0, 1e-15);
    assert_float_equal(gal_learning_rate(&optimizer, 4), 1.0, 1e-15);
    assert_float_equal(gal_learning_rate(&optimizer, 9), 0.55, 1e-15);
    assert_float_equal(gal_learning_rate(&optimizer, 14), 0.1, 1e-15);
    assert_float_equal(gal_learning_rate(&optimizer, 1000), 0.1, 1e-15);
    optimizer.decay_steps = 0;
    assert_float_equal(gal_learning_rate(&optimizer, 1000), 1.0, 1e-15);
    optimizer.warmup_steps = 0;
    assert_float_equal(gal_learning_rate(&optimizer, 0), 1.0, 1e-15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_poison_changes_nothing),
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_error_of_the_data),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_channels),
        cmocka_unit_test(test_learning_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
