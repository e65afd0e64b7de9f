/* Trials: notes, the last of which counts, and limits of time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "schemas/base/clock.h"
#include "schemas/base/trial.h"

/* Longer than a pipe's buffer and no divisor of it, so a note comes in pieces. */
enum { NUMBERS = 20011 };

typedef struct answer {
    uint32_t number[NUMBERS];
} answer;

static void fill(answer *out, uint32_t value)
{
    for (uint32_t i = 0; i < NUMBERS; i++) {
        out->number[i] = value + i;
    }
}

static void note(const gal_trial_notes *notes, uint32_t value)
{
    static answer own;
    fill(&own, value);
    gal_trial_note(notes, &own);
}

static void notes_twice(const void *task, const gal_trial_notes *notes)
{
    note(notes, 1);
    note(notes, *(const uint32_t *)task);
}

static void notes_and_hangs(const void *task, const gal_trial_notes *notes)
{
    note(notes, *(const uint32_t *)task);
    for (;;) {
        (void)pause();
    }
}

static void dies(const void *task, const gal_trial_notes *notes)
{
    (void)task;
    (void)notes;
    _exit(3);
}

static void test_notes(void **state)
{
    (void)state;
    static const uint32_t value[5] = {10, 20, 30, 40, 50};
    static answer got[5];
    gal_trial trials[5];
    for (uint32_t i = 0; i < 5; i++) {
        trials[i] = (gal_trial){
            i == 2 ? notes_and_hangs : i == 3 ? dies : notes_twice, &value[i], &got[i], sizeof got[i], false, false};
    }
    gal_trials_run(trials, 5, 2, 1.0, 100.0);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(trials[i].noted, i != 3);
        assert_int_equal(trials[i].cut, i == 2); /* and what it had noted is there */
        for (uint32_t n = 0; n < NUMBERS && i != 3; n++) {
            assert_int_equal(got[i].number[n], value[i] + n);
        }
    }
}

/* All of them together have half a second: those that have not begun are cut too. */
static void test_time_in_all(void **state)
{
    (void)state;
    static const uint32_t value = 7;
    static answer got[4];
    gal_trial trials[4];
    for (uint32_t i = 0; i < 4; i++) {
        trials[i] = (gal_trial){notes_and_hangs, &value, &got[i], sizeof got[i], false, false};
    }
    const double begin = gal_now_seconds();
    gal_trials_run(trials, 4, 2, 100.0, 0.5);
    const double seconds = gal_now_seconds() - begin;
    assert_true(seconds >= 0.5 && seconds < 50.0); /* killed at once; a loaded machine may take a while to say so */
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(trials[i].cut);
        assert_true(i < 2 || !trials[i].noted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_notes), cmocka_unit_test(test_time_in_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
