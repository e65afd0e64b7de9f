/* The event simulation on programs small enough to be played by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/simulate.h"
#include "tests/support/random_plan.h"

enum { MAX = 16 };

/* A stage written out: instruction, operands and waits in arrays that grow as they are listed. */
typedef struct sketch {
    gal_program program;
    gal_instruction instruction[MAX];
    gal_operand operand[MAX];
    gal_wait wait[MAX];
    gal_buffer buffer[1];
    gal_shape shape[1];
    gal_cost cost[MAX];
} sketch;

static void begin(sketch *s, uint32_t stage, uint32_t stage_count, gal_call *call, uint32_t call_count)
{
    memset(s, 0, sizeof *s);
    s->program = (gal_program){.stage = stage,
                               .stage_count = stage_count,
                               .device_count = 1,
                               .chunk_count = 1,
                               .instruction = s->instruction,
                               .operand = s->operand,
                               .wait = s->wait,
                               .buffer = s->buffer,
                               .buffer_count = 1,
                               .shape = s->shape,
                               .shape_count = 1,
                               .call = call,
                               .call_count = call_count};
    s->buffer[0] = (gal_buffer){.class = GAL_CLASS_X_IN, .arena = GAL_CLASS_X_IN, .name = "x_in"};
    for (uint32_t c = 0; c < GAL_CLASS_COUNT; c++) {
        s->program.arena[c].count = 2;
    }
}

/* Appends to a fragment; fragments are listed one after the other. */
static void add(sketch *s, gal_fragment_kind fragment, gal_op op, gal_stream stream, gal_group group, double seconds,
                bool touches_x_in)
{
    gal_program *p = &s->program;
    gal_fragment *f = &p->fragment[fragment];
    if (f->count == 0) {
        f->first = p->instruction_count;
    }
    f->count++;
    s->cost[p->instruction_count] = (gal_cost){
        .seconds = seconds, .activity = op == GAL_OP_GEMM ? GAL_ACTIVITY_COMPUTE : GAL_ACTIVITY_COMMUNICATION};
    p->instruction[p->instruction_count++] = (gal_instruction){.op = (uint8_t)op,
                                                               .stream = (uint8_t)stream,
                                                               .group = group,
                                                               .first_operand = p->operand_count,
                                                               .operand_count = touches_x_in ? 1 : 0,
                                                               .first_wait = p->wait_count,
                                                               .name = "step"};
    if (touches_x_in) {
        p->operand[p->operand_count++] = (gal_operand){.buffer = 0, .access = GAL_READ};
    }
}

static void wait_for(sketch *s, gal_wait_kind kind, gal_stream stream, uint32_t target)
{
    gal_program *p = &s->program;
    p->wait[p->wait_count++] = (gal_wait){(uint8_t)kind, (uint8_t)stream, target};
    p->instruction[p->instruction_count - 1].wait_count++;
}

/* Forward 1 s, backward 2 s, transfer 0.5 s, norm over the world 0.25 s, update 1 s. */
static void first_stage(sketch *s)
{
    static gal_call call[] = {{GAL_FRAGMENT_FORWARD, 0},
                              {GAL_FRAGMENT_FORWARD, 1},
                              {GAL_FRAGMENT_BACKWARD, 0},
                              {GAL_FRAGMENT_BACKWARD, 1},
                              {GAL_FRAGMENT_UPDATE, 0}};
    begin(s, 0, 2, call, 5);
    add(s, GAL_FRAGMENT_FORWARD, GAL_OP_GEMM, GAL_STREAM_COMPUTE, GAL_GROUP_NONE, 1.0, false);
    add(s, GAL_FRAGMENT_FORWARD, GAL_OP_SEND, GAL_STREAM_SEND_FORWARD, GAL_GROUP_NEXT, 0.5, false);
    wait_for(s, GAL_WAIT_INSTRUCTION, GAL_STREAM_COMPUTE, 0);
    add(s, GAL_FRAGMENT_BACKWARD, GAL_OP_RECEIVE, GAL_STREAM_RECEIVE_BACKWARD, GAL_GROUP_NEXT, 0.5, false);
    add(s, GAL_FRAGMENT_BACKWARD, GAL_OP_GEMM, GAL_STREAM_COMPUTE, GAL_GROUP_NONE, 2.0, false);
    wait_for(s, GAL_WAIT_INSTRUCTION, GAL_STREAM_RECEIVE_BACKWARD, 0);
}

static void last_stage(sketch *s, uint32_t x_in_count)
{
    static gal_call call[] = {{GAL_FRAGMENT_FORWARD, 0},
                              {GAL_FRAGMENT_BACKWARD, 0},
                              {GAL_FRAGMENT_FORWARD, 1},
                              {GAL_FRAGMENT_BACKWARD, 1},
                              {GAL_FRAGMENT_UPDATE, 0}};
    begin(s, 1, 2, call, 5);
    s->program.arena[GAL_CLASS_X_IN].count = x_in_count;
    add(s, GAL_FRAGMENT_FORWARD, GAL_OP_RECEIVE, GAL_STREAM_RECEIVE_FORWARD, GAL_GROUP_PREVIOUS, 0.5, true);
    wait_for(s, GAL_WAIT_BUFFER, GAL_STREAM_COMPUTE, 0);
    add(s, GAL_FRAGMENT_FORWARD, GAL_OP_GEMM, GAL_STREAM_COMPUTE, GAL_GROUP_NONE, 1.0, true);
    wait_for(s, GAL_WAIT_INSTRUCTION, GAL_STREAM_RECEIVE_FORWARD, 0);
    add(s, GAL_FRAGMENT_BACKWARD, GAL_OP_GEMM, GAL_STREAM_COMPUTE, GAL_GROUP_NONE, 2.0, true);
    add(s, GAL_FRAGMENT_BACKWARD, GAL_OP_SEND, GAL_STREAM_SEND_BACKWARD, GAL_GROUP_PREVIOUS, 0.5, false);
    wait_for(s, GAL_WAIT_INSTRUCTION, GAL_STREAM_COMPUTE, 0);
}

static void add_update(sketch *s)
{
    add(s, GAL_FRAGMENT_UPDATE, GAL_OP_ALL_REDUCE, GAL_STREAM_REDUCE, GAL_GROUP_WORLD, 0.25, false);
    wait_for(s, GAL_WAIT_CALL, GAL_STREAM_COMPUTE, 0);
    add(s, GAL_FRAGMENT_UPDATE, GAL_OP_GEMM, GAL_STREAM_COMPUTE, GAL_GROUP_NONE, 1.0, false);
    wait_for(s, GAL_WAIT_INSTRUCTION, GAL_STREAM_REDUCE, 0);
}

static gal_code run(sketch *a, sketch *b, gal_simulation *out, gal_error *err)
{
    gal_program *const programs[] = {&a->program, &b->program};
    const gal_cost *const cost[] = {a->cost, b->cost};
    const gal_simulation_input input = {.program = programs,
                                        .stage_count = 2,
                                        .cost = cost,
                                        .slowdowns.of = {{1.0, 1.0}, {1.0, 1.0}},
                                        .fixed_step_seconds = 0.125,
                                        .timeline = true};
    return gal_simulate_costs(&input, out, err);
}

/* stage 0: F0 0-1, F1 1-2;            B0 5-7 (dy0 sent 4.5-5), B1 8-10 (dy1 7.5-8)
 * stage 1: F0 1.5-2.5, B0 2.5-4.5, F1 4.5-5.5, B1 5.5-7.5
 * norm: the first stage comes last, 10-10.25; update to 11.25; 0.125 beside the program */
static void two_stages_two_microbatches(void **unused)
{
    (void)unused;
    sketch a;
    sketch b;
    gal_error err = {0};
    gal_simulation s = {0};
    first_stage(&a);
    add_update(&a);
    last_stage(&b, 2);
    add_update(&b);
    assert_int_equal(run(&a, &b, &s, &err), GAL_OK);
    assert_true(s.iteration_seconds == 11.375);
    assert_true(s.stage[0].busy_seconds[GAL_STREAM_COMPUTE] == 7.0); /* 2 x 1 + 2 x 2 + 1 */
    assert_true(s.stage[1].busy_seconds[GAL_STREAM_COMPUTE] == 7.0);
    assert_true(s.stage[0].busy_seconds[GAL_STREAM_SEND_FORWARD] == 1.0);
    assert_true(s.stage[1].busy_seconds[GAL_STREAM_REDUCE] == 0.25);
    assert_int_equal(s.event_count, 20); /* 2 stages, 4 fragments and an update of 2 steps each */
    gal_simulation_free(&s);
}

/* One slot for x_in: the second receive waits until B0 has read it, 4.5. Then y1 4.5-5, F1 5-6, B1 6-8, dy1 8-8.5,
 * stage 0's B1 8.5-10.5; no update. */
static void waits_for_the_slot(void **unused)
{
    (void)unused;
    sketch a;
    sketch b;
    gal_error err = {0};
    gal_simulation s = {0};
    first_stage(&a);
    last_stage(&b, 1);
    assert_int_equal(run(&a, &b, &s, &err), GAL_OK);
    assert_true(s.iteration_seconds == 10.625);
    gal_simulation_free(&s);
}

/* The last stage sends one gradient only: the first waits for ever. */
static void deadlock_is_named(void **unused)
{
    (void)unused;
    sketch a;
    sketch b;
    gal_error err = {0};
    gal_simulation s = {0};
    first_stage(&a);
    last_stage(&b, 2);
    b.program.call_count = 3;
    assert_int_equal(run(&a, &b, &s, &err), GAL_NO);
    assert_non_null(strstr(err.text, "deadlock: stage 0"));
}

/* One call of a kernel of 3 s and a message of 1 s. */
static void begin_pair(sketch *a)
{
    static gal_call call[] = {{GAL_FRAGMENT_FORWARD, 0}};
    begin(a, 0, 1, call, 1);
    add(a, GAL_FRAGMENT_FORWARD, GAL_OP_GEMM, GAL_STREAM_COMPUTE, GAL_GROUP_NONE, 3.0, false);
    add(a, GAL_FRAGMENT_FORWARD, GAL_OP_ALL_REDUCE, GAL_STREAM_TENSOR, 1, 1.0, false);
}

static void slow(sketch *a, gal_slowdowns slowdowns, gal_simulation *out)
{
    gal_error err = {0};
    gal_program *const programs[] = {&a->program};
    const gal_cost *const cost[] = {a->cost};
    const gal_simulation_input input = {
        .program = programs, .stage_count = 1, .cost = cost, .slowdowns = slowdowns, .timeline = true};
    assert_int_equal(gal_simulate_costs(&input, out, &err), GAL_OK);
}

/* A kernel of 3 s and a message of 1 s start together; beside each other the kernel takes twice and the message four
 * times as long. The message ends at 4 s; the kernel has then done 2 s and ends at 5 s. */
static void slowed_by_company(void **unused)
{
    (void)unused;
    sketch a;
    gal_simulation s = {0};
    begin_pair(&a);
    slow(&a, (gal_slowdowns){{{1.0, 2.0}, {4.0, 1.0}}}, &s);
    assert_true(s.iteration_seconds == 5.0);
    assert_true(s.timeline[0].end_seconds == 4.0 && s.timeline[0].instruction == 1);
    gal_simulation_free(&s);
}

/* A copy of 1 s each way, a kernel of 3 s and a message of 1 s start together. A copy is slowed 2 times by kernels, 1.5
 * by messages, 1.25 by the other copy: 3.75 times; the message 4 times by kernels and 1.25 by copies: 5 times; the
 * kernel 2 times by messages and 1.5 by copies: 3 times. The copies end at 3.75 s, when the kernel has done 1.25 s and
 * the message 0.75 s. That then takes 4 x 0.25 s, until 4.75 s; meanwhile the kernel does 0.5 s. It ends 1.25 s later.
 */
static void slowed_by_copies(void **unused)
{
    (void)unused;
    sketch a;
    gal_simulation s = {0};
    begin_pair(&a);
    add(&a, GAL_FRAGMENT_FORWARD, GAL_OP_COPY_OUT, GAL_STREAM_HOST_OUT, GAL_GROUP_NONE, 1.0, false);
    add(&a, GAL_FRAGMENT_FORWARD, GAL_OP_COPY_IN, GAL_STREAM_HOST_IN, GAL_GROUP_NONE, 1.0, false);
    a.cost[2].activity = a.cost[3].activity = GAL_ACTIVITY_COPY;
    slow(&a, (gal_slowdowns){{{1.0, 2.0, 1.5}, {4.0, 1.0, 1.25}, {2.0, 1.5, 1.25}}}, &s);
    assert_true(s.iteration_seconds == 6.0);
    assert_true(s.timeline[0].end_seconds == 3.75 && s.timeline[1].end_seconds == 3.75);
    assert_true(s.timeline[2].end_seconds == 4.75 && s.timeline[2].instruction == 1);
    gal_simulation_free(&s);
}

/* A transfer of storage of 1 s, one each way, a kernel of 3 s and a message of 1 s start together. A transfer is slowed
 * 1.5 times by kernels, 1.25 by messages and 2 by the other transfer: 3.75 times; kernel and message as beside copies
 * above, but that copies slow nobody here. */
static void slowed_by_storage(void **unused)
{
    (void)unused;
    sketch a;
    gal_simulation s = {0};
    begin_pair(&a);
    add(&a, GAL_FRAGMENT_FORWARD, GAL_OP_STORAGE_READ, GAL_STREAM_STORAGE_IN, GAL_GROUP_NONE, 1.0, false);
    add(&a, GAL_FRAGMENT_FORWARD, GAL_OP_STORAGE_WRITE, GAL_STREAM_STORAGE_OUT, GAL_GROUP_NONE, 1.0, false);
    a.cost[2].activity = a.cost[3].activity = GAL_ACTIVITY_STORAGE;
    slow(&a,
         (gal_slowdowns){{{1.0, 2.0, 1.0, 1.5}, {4.0, 1.0, 1.0, 1.25}, {1.0, 1.0, 1.0, 1.0}, {1.5, 1.25, 1.0, 2.0}}},
         &s);
    assert_true(s.iteration_seconds == 6.0);
    assert_true(s.timeline[0].end_seconds == 3.75 && s.timeline[1].end_seconds == 3.75);
    assert_true(s.timeline[2].end_seconds == 4.75 && s.timeline[2].instruction == 1);
    gal_simulation_free(&s);
}

/* Two messages of 1 s on one link level, each half as fast beside the other: both end at 2 s; on two levels at 1 s. */
static void messages_share_a_link(void **unused)
{
    (void)unused;
    static gal_call call[] = {{GAL_FRAGMENT_FORWARD, 0}};
    for (uint8_t level = 0; level < 2; level++) {
        sketch a;
        gal_error err = {0};
        gal_simulation s = {0};
        begin(&a, 0, 1, call, 1);
        add(&a, GAL_FRAGMENT_FORWARD, GAL_OP_ALL_REDUCE, GAL_STREAM_TENSOR, 1, 1.0, false);
        add(&a, GAL_FRAGMENT_FORWARD, GAL_OP_ALL_GATHER, GAL_STREAM_GATHER, 1, 1.0, false);
        a.cost[1].level = level;
        gal_program *const programs[] = {&a.program};
        const gal_cost *const cost[] = {a.cost};
        const gal_simulation_input input = {
            .program = programs, .stage_count = 1, .cost = cost, .slowdowns.of = {{1.0, 1.0}, {1.0, 2.0}}};
        assert_int_equal(gal_simulate_costs(&input, &s, &err), GAL_OK);
        assert_true(s.iteration_seconds == (level == 0 ? 2.0 : 1.0));
        gal_simulation_free(&s);
    }
}

static double seconds_of(const gal_plan *plan, double bandwidth_factor)
{
    gal_error err = {0};
    gal_durations *durations = NULL;
    gal_simulation s = {0};
    gal_program *programs[16];
    gal_profile profile = {.cluster = plan->cluster, .slowdown = {{1.0, 1.0}, {1.0, 1.0}}};
    for (uint32_t i = 0; i < profile.cluster.level_count; i++) {
        profile.cluster.level[i].bytes_per_second *= bandwidth_factor;
    }
    assert_int_equal(gal_lower_plan(plan, programs, &err), GAL_OK);
    assert_int_equal(gal_durations_create(&profile, &durations, &err), GAL_OK);
    assert_int_equal(gal_simulate(programs, plan->stage_count, durations, false, &s, &err), GAL_OK);
    for (uint32_t i = 0; i < plan->stage_count; i++) {
        gal_program_free(programs[i]);
    }
    const double seconds = s.iteration_seconds;
    gal_simulation_free(&s);
    gal_durations_free(durations);
    return seconds;
}

/* Queues and waits with nothing slowed are a max-plus system: no step later when no step is longer. */
static void faster_links_are_never_slower(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        gal_plan plan;
        gal_random_plan(seed, 8, &plan);
        double before = seconds_of(&plan, 0.01);
        for (double factor = 0.1; factor < 200.0; factor *= 10.0) {
            const double now = seconds_of(&plan, factor);
            assert_true(now <= before * (1.0 + 1e-12));
            before = now;
        }
        gal_plan_free(&plan);
    }
}

/* Kernels that run as one step without a timeline are steps of their own with one: the same but for rounding. */
static void joined_kernels_change_nothing(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        gal_plan plan;
        gal_error err = {0};
        gal_durations *durations = NULL;
        gal_program *programs[16];
        gal_simulation joined = {0};
        gal_simulation each = {0};
        gal_random_plan(seed, 8, &plan);
        assert_int_equal(gal_lower_plan(&plan, programs, &err), GAL_OK);
        assert_int_equal(gal_durations_create_analytic(&plan.cluster, &durations, &err), GAL_OK);
        assert_int_equal(gal_simulate(programs, plan.stage_count, durations, false, &joined, &err), GAL_OK);
        assert_int_equal(gal_simulate(programs, plan.stage_count, durations, true, &each, &err), GAL_OK);
        assert_true(joined.event_count < each.event_count);
        assert_true(fabs(joined.iteration_seconds / each.iteration_seconds - 1.0) < 1e-12);
        for (uint32_t s = 0; s < plan.stage_count; s++) {
            const double difference =
                joined.stage[s].busy_seconds[GAL_STREAM_COMPUTE] - each.stage[s].busy_seconds[GAL_STREAM_COMPUTE];
            assert_true(fabs(difference) < 1e-12 * each.iteration_seconds);
            gal_program_free(programs[s]);
        }
        gal_simulation_free(&joined);
        gal_simulation_free(&each);
        gal_durations_free(durations);
        gal_plan_free(&plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_stages_two_microbatches),
        cmocka_unit_test(waits_for_the_slot),
        cmocka_unit_test(deadlock_is_named),
        cmocka_unit_test(slowed_by_company),
        cmocka_unit_test(slowed_by_copies),
        cmocka_unit_test(slowed_by_storage),
        cmocka_unit_test(messages_share_a_link),
        cmocka_unit_test(faster_links_are_never_slower),
        cmocka_unit_test(joined_kernels_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
