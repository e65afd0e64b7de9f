/* Waits of a program, resolved into what each stream must have completed: small programs by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/engine/queues.h"

/* forward: c0 (compute) writes a; t1 (tensor) updates a after c0; c2 (compute) reads a after t1.
 * backward: c3 (compute) updates b, after tensor's latest access to a and after all earlier calls of gather;
 *           g4 (gather) writes b.
 * a is of a class with two items, b of a class with one. */
typedef struct fixture {
    gal_program program;
    gal_instruction instruction[5];
    gal_operand operand[5];
    gal_wait wait[4];
    gal_buffer buffer[2];
} fixture;

static void set(fixture *f, uint32_t index, gal_stream stream, uint32_t buffer, uint32_t first_wait, uint16_t waits)
{
    f->operand[index].buffer = buffer;
    f->instruction[index] = (gal_instruction){.op = GAL_OP_ADD,
                                              .stream = (uint8_t)stream,
                                              .operand_count = 1,
                                              .first_operand = index,
                                              .first_wait = first_wait,
                                              .wait_count = waits};
}

static void make(fixture *f)
{
    memset(f, 0, sizeof *f);
    f->program.chunk_count = 1;
    f->buffer[0] = (gal_buffer){.class = GAL_CLASS_SAVED, .arena = GAL_CLASS_SAVED};
    f->buffer[1] = (gal_buffer){.class = GAL_CLASS_BUCKET, .arena = GAL_CLASS_BUCKET};
    f->wait[0] = (gal_wait){GAL_WAIT_INSTRUCTION, GAL_STREAM_COMPUTE, 0};
    f->wait[1] = (gal_wait){GAL_WAIT_INSTRUCTION, GAL_STREAM_TENSOR, 1};
    f->wait[2] = (gal_wait){GAL_WAIT_BUFFER, GAL_STREAM_TENSOR, 0};
    f->wait[3] = (gal_wait){GAL_WAIT_CALL, GAL_STREAM_GATHER, 0};
    set(f, 0, GAL_STREAM_COMPUTE, 0, 0, 0);
    set(f, 1, GAL_STREAM_TENSOR, 0, 0, 1);
    set(f, 2, GAL_STREAM_COMPUTE, 0, 1, 1);
    set(f, 3, GAL_STREAM_COMPUTE, 1, 2, 2);
    set(f, 4, GAL_STREAM_GATHER, 1, 0, 0);
    f->program.instruction = f->instruction;
    f->program.instruction_count = 5;
    f->program.operand = f->operand;
    f->program.operand_count = 5;
    f->program.wait = f->wait;
    f->program.wait_count = 4;
    f->program.buffer = f->buffer;
    f->program.buffer_count = 2;
    f->program.arena[GAL_CLASS_SAVED].count = 2;
    f->program.arena[GAL_CLASS_BUCKET].count = 1;
    f->program.fragment[GAL_FRAGMENT_FORWARD] = (gal_fragment){0, 3};
    f->program.fragment[GAL_FRAGMENT_BACKWARD] = (gal_fragment){3, 2};
}

static uint32_t need_of(const gal_queues *queues, uint32_t stream, uint32_t position, uint32_t on)
{
    const gal_queue_entry *entry = &queues->entry[stream][position];
    for (uint32_t i = 0; i < entry->need_count; i++) {
        if (queues->need[entry->first_need + i].stream == on) {
            return queues->need[entry->first_need + i].completed;
        }
    }
    return 0;
}

/* F0 F1 B0 F2 B1: compute is c0 c2 | c0 c2 | c3 | c0 c2 | c3, tensor t1 | t1 | t1, gather g4 | g4. */
static void test_needs(void **state)
{
    (void)state;
    static const gal_call calls[] = {{GAL_FRAGMENT_FORWARD, 0},
                                     {GAL_FRAGMENT_FORWARD, 1},
                                     {GAL_FRAGMENT_BACKWARD, 0},
                                     {GAL_FRAGMENT_FORWARD, 2},
                                     {GAL_FRAGMENT_BACKWARD, 1}};
    static const uint32_t compute[] = {0, 2, 0, 2, 3, 0, 2, 3};
    fixture f;
    gal_error err = {0};
    gal_queues queues;
    make(&f);
    assert_int_equal(gal_queues_of(&f.program, calls, 5, GAL_ORDER_STREAMS, &queues, &err), GAL_OK);
    assert_int_equal(queues.count[GAL_STREAM_COMPUTE], 8);
    assert_int_equal(queues.count[GAL_STREAM_TENSOR], 3);
    assert_int_equal(queues.count[GAL_STREAM_GATHER], 2);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(queues.entry[GAL_STREAM_COMPUTE][i].instruction, compute[i]);
    }
    /* Within a call: the n-th t1 after the n-th c0, the n-th c2 after the n-th t1. */
    assert_int_equal(need_of(&queues, GAL_STREAM_TENSOR, 0, GAL_STREAM_COMPUTE), 1);
    assert_int_equal(need_of(&queues, GAL_STREAM_TENSOR, 1, GAL_STREAM_COMPUTE), 3);
    assert_int_equal(need_of(&queues, GAL_STREAM_TENSOR, 2, GAL_STREAM_COMPUTE), 6);
    assert_int_equal(need_of(&queues, GAL_STREAM_COMPUTE, 3, GAL_STREAM_TENSOR), 2);
    /* Earlier calls, item 0 of a: tensor touched it for microbatch 0, the first t1. */
    assert_int_equal(need_of(&queues, GAL_STREAM_COMPUTE, 4, GAL_STREAM_TENSOR), 1);
    /* Item 1 of a: the second t1, though the third came later, for item 0. */
    assert_int_equal(need_of(&queues, GAL_STREAM_COMPUTE, 7, GAL_STREAM_TENSOR), 2);
    /* Earlier calls of gather: none before B0, whose own g4 does not count; one before B1. */
    assert_int_equal(need_of(&queues, GAL_STREAM_COMPUTE, 4, GAL_STREAM_GATHER), 0);
    assert_int_equal(need_of(&queues, GAL_STREAM_COMPUTE, 7, GAL_STREAM_GATHER), 1);
    gal_queues_free(&queues);
}

/* An access of the call at hand is not one of an earlier call: t1 itself accesses a before c3 would look. */
static void test_buffer_waits_mean_earlier_calls(void **state)
{
    (void)state;
    static const gal_call calls[] = {{GAL_FRAGMENT_FORWARD, 0}, {GAL_FRAGMENT_FORWARD, 2}};
    fixture f;
    gal_error err = {0};
    gal_queues queues;
    make(&f);
    f.instruction[2].first_wait = 2; /* c2 waits for the buffer instead of the instruction */
    assert_int_equal(gal_queues_of(&f.program, calls, 2, GAL_ORDER_STREAMS, &queues, &err), GAL_OK);
    assert_int_equal(need_of(&queues, GAL_STREAM_COMPUTE, 1, GAL_STREAM_TENSOR), 0);
    assert_int_equal(need_of(&queues, GAL_STREAM_COMPUTE, 3, GAL_STREAM_TENSOR), 1);
    gal_queues_free(&queues);
}

/* F0 B0 in the order of the list: c0 t1 c2 | c3 g4, each after all before it; a transfer would wait for nothing. */
static void test_order_of_the_list(void **state)
{
    (void)state;
    static const gal_call calls[] = {{GAL_FRAGMENT_FORWARD, 0}, {GAL_FRAGMENT_BACKWARD, 0}};
    fixture f;
    gal_error err = {0};
    gal_queues queues;
    make(&f);
    assert_int_equal(gal_queues_of(&f.program, calls, 2, GAL_ORDER_LIST, &queues, &err), GAL_OK);
    assert_int_equal(need_of(&queues, GAL_STREAM_TENSOR, 0, GAL_STREAM_COMPUTE), 1);
    assert_int_equal(need_of(&queues, GAL_STREAM_COMPUTE, 2, GAL_STREAM_TENSOR), 1);
    assert_int_equal(need_of(&queues, GAL_STREAM_GATHER, 0, GAL_STREAM_COMPUTE), 3);
    assert_int_equal(need_of(&queues, GAL_STREAM_GATHER, 0, GAL_STREAM_TENSOR), 1);
    gal_queues_free(&queues);
    f.instruction[4].stream = GAL_STREAM_SEND_FORWARD;
    assert_int_equal(gal_queues_of(&f.program, calls, 2, GAL_ORDER_LIST, &queues, &err), GAL_OK);
    assert_int_equal(queues.entry[GAL_STREAM_SEND_FORWARD][0].need_count, 0);
    gal_queues_free(&queues);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_needs),
        cmocka_unit_test(test_buffer_waits_mean_earlier_calls),
        cmocka_unit_test(test_order_of_the_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
