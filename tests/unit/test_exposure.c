/* Where the seconds of a step go: steps of a few instructions, at whole seconds, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/train/exposure.h"

enum { ENTRIES = 2, NEEDS = 4 };

/* A step under construction: entries with at most one need each. */
typedef struct fixture {
    gal_queue_entry entry[GAL_STREAM_COUNT][ENTRIES];
    gal_span span[GAL_STREAM_COUNT][ENTRIES];
    gal_need need[NEEDS];
    gal_queues queues;
    gal_step_record record;
} fixture;

static void start(fixture *f)
{
    memset(f, 0, sizeof *f);
    for (uint32_t s = 0; s < GAL_STREAM_COUNT; s++) {
        f->queues.entry[s] = f->entry[s];
        f->record.span[s] = f->span[s];
    }
    f->queues.need = f->need;
    f->record.queues = &f->queues;
}

/* The next entry of a stream ran from start to end, after the first entry of `waits_for` (GAL_STREAM_COUNT: nothing).
 */
static void add(fixture *f, gal_stream stream, double start_seconds, double end_seconds, gal_stream waits_for)
{
    const uint32_t at = f->queues.count[stream]++;
    f->record.count[stream]++;
    f->span[stream][at] = (gal_span){start_seconds, end_seconds};
    f->entry[stream][at].first_need = f->queues.need_count;
    if (waits_for != GAL_STREAM_COUNT) {
        f->entry[stream][at].need_count = 1;
        f->need[f->queues.need_count++] = (gal_need){waits_for, 1};
    }
}

static void expect(const gal_exposure *got, double compute_seconds, double waiting_seconds, double serving_seconds)
{
    assert_true(got->compute_seconds == compute_seconds);
    assert_true(got->waiting_seconds == waiting_seconds);
    assert_true(got->serving_seconds == serving_seconds);
    assert_true(got->seconds == compute_seconds + waiting_seconds + serving_seconds);
}

static void expect_stream(const gal_exposure *got, gal_stream stream, double in_flight_seconds, double exposed_seconds)
{
    assert_true(got->in_flight_seconds[stream] == in_flight_seconds);
    assert_true(got->exposed_seconds[stream] == exposed_seconds);
}

/* second   0  1  2  3  4  5  6  7  8
 * compute     [----]        [-----]     the second waits for reduce's; from 0 to 1 nothing keeps the first
 * reduce         [----------]           hidden from 2 to 3, exposed from 3 to 6 */
static void test_half_hidden(void **state)
{
    (void)state;
    fixture f;
    gal_exposure got = {0};
    start(&f);
    add(&f, GAL_STREAM_COMPUTE, 1.0, 3.0, GAL_STREAM_COUNT);
    add(&f, GAL_STREAM_COMPUTE, 6.0, 8.0, GAL_STREAM_REDUCE);
    add(&f, GAL_STREAM_REDUCE, 2.0, 6.0, GAL_STREAM_COMPUTE);
    assert_true(gal_step_record_is_whole(&f.record));
    gal_exposure_add_step(&f.record, &got);
    expect(&got, 4.0, 3.0, 1.0);
    expect_stream(&got, GAL_STREAM_REDUCE, 4.0, 3.0);
    assert_true(gal_exposure_share(&got, GAL_STREAM_REDUCE) == 0.75);
    assert_true(gal_exposure_share(&got, GAL_STREAM_TENSOR) == 0.0);
}

/* second   0  1  2  3  4  5  6  7
 * receive  [-----]                     what tensor waits for is exposed though compute names tensor alone
 * tensor            [--]               compute waits for it; from 2 to 3 it could start: waiting, but for nothing
 *                                      in flight
 * compute                 [--]         from 4 to 5 it could start: serving
 * gather   [--------------------]      nobody's wait: exposed only when compute is finished, from 6 to 7 */
static void test_chain(void **state)
{
    (void)state;
    fixture f;
    gal_exposure got = {0};
    start(&f);
    add(&f, GAL_STREAM_RECEIVE_FORWARD, 0.0, 2.0, GAL_STREAM_COUNT);
    add(&f, GAL_STREAM_TENSOR, 3.0, 4.0, GAL_STREAM_RECEIVE_FORWARD);
    add(&f, GAL_STREAM_COMPUTE, 5.0, 6.0, GAL_STREAM_TENSOR);
    add(&f, GAL_STREAM_GATHER, 0.0, 7.0, GAL_STREAM_COUNT);
    gal_exposure_add_step(&f.record, &got);
    expect(&got, 1.0, 5.0, 1.0);
    expect_stream(&got, GAL_STREAM_RECEIVE_FORWARD, 2.0, 2.0);
    expect_stream(&got, GAL_STREAM_TENSOR, 1.0, 1.0);
    expect_stream(&got, GAL_STREAM_GATHER, 7.0, 1.0);
}

/* Sums of two ranks' steps: the mean is of a step. */
static void test_mean(void **state)
{
    (void)state;
    const gal_exposure one = {.step_count = 1.0, .seconds = 4.0, .compute_seconds = 4.0};
    const gal_exposure three = {
        .step_count = 3.0, .seconds = 24.0, .waiting_seconds = 24.0, .in_flight_seconds = {[GAL_STREAM_TENSOR] = 8.0}};
    gal_exposure sum = {0};
    assert_true(gal_exposure_mean(&sum).seconds == 0.0);
    gal_exposure_add(&one, &sum);
    gal_exposure_add(&three, &sum);
    const gal_exposure mean = gal_exposure_mean(&sum);
    expect(&mean, 1.0, 6.0, 0.0);
    expect_stream(&mean, GAL_STREAM_TENSOR, 2.0, 0.0);
}

/* Only what completes between begin and end is noted. */
static void test_record(void **state)
{
    (void)state;
    gal_error err = {0};
    fixture f;
    gal_instruction instruction = {.stream = GAL_STREAM_GATHER};
    const gal_program program = {.instruction = &instruction, .instruction_count = 1};
    gal_step_record record;
    start(&f);
    add(&f, GAL_STREAM_GATHER, 0.0, 0.0, GAL_STREAM_COUNT);
    assert_int_equal(gal_step_record_create(&program, &f.queues, &record, &err), GAL_OK);
    gal_step_record_note(&record, 0, 0, 1.0, 2.0);
    assert_false(gal_step_record_is_whole(&record));
    gal_step_record_begin(&record);
    gal_step_record_note(&record, 0, 0, 3.0, 4.0);
    gal_step_record_end(&record);
    gal_step_record_note(&record, 0, 0, 5.0, 6.0);
    assert_true(gal_step_record_is_whole(&record));
    assert_true(record.span[GAL_STREAM_GATHER][0].start_seconds == 3.0);
    gal_step_record_begin(&record);
    assert_false(gal_step_record_is_whole(&record));
    gal_step_record_free(&record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half_hidden),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_mean),
        cmocka_unit_test(test_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
