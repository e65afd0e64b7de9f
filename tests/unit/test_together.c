/* Work that begins together on several streams, by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "costmodel/together.h"
#include "tests/support/random_plan.h"

static void assert_near(double a, double b)
{
    assert_true(fabs(a - b) <= 1e-12 * fabs(b));
}

static gal_slowdowns nobody_slows(void)
{
    gal_slowdowns out;
    for (uint32_t i = 0; i < GAL_ACTIVITY_COUNT; i++) {
        for (uint32_t k = 0; k < GAL_ACTIVITY_COUNT; k++) {
            out.of[i][k] = 1.0;
        }
    }
    return out;
}

static double seconds_of(const gal_stream_work *work, const gal_slowdowns *slowdowns)
{
    const gal_company_factors factors = gal_company_factors_of(slowdowns->of);
    return gal_together_seconds(work, &factors);
}

static void the_longest_stream_counts(void **unused)
{
    (void)unused;
    const gal_slowdowns slowdowns = nobody_slows();
    const gal_stream_work none = {.unstored_seconds = 0.0};
    gal_stream_work work = none;
    work.seconds[GAL_STREAM_HOST] = 2.0;
    work.activity[GAL_STREAM_HOST] = GAL_ACTIVITY_BESIDE;
    work.seconds[GAL_STREAM_STORAGE_IN] = 5.0;
    work.activity[GAL_STREAM_STORAGE_IN] = GAL_ACTIVITY_STORAGE;
    assert_near(seconds_of(&none, &slowdowns), 0.0);
    assert_near(seconds_of(&work, &slowdowns), 5.0);
}

/* Read 3 and written 4 s alone, twice as long while both are: read until 6, when 3 s are written; the last one alone.
 */
static void both_ways_share_a_device(void **unused)
{
    (void)unused;
    gal_slowdowns slowdowns = nobody_slows();
    gal_stream_work work = {.unstored_seconds = 0.0};
    slowdowns.of[GAL_ACTIVITY_STORAGE][GAL_ACTIVITY_STORAGE] = 2.0;
    work.seconds[GAL_STREAM_STORAGE_IN] = 3.0;
    work.seconds[GAL_STREAM_STORAGE_OUT] = 4.0;
    work.activity[GAL_STREAM_STORAGE_IN] = work.activity[GAL_STREAM_STORAGE_OUT] = GAL_ACTIVITY_STORAGE;
    assert_near(seconds_of(&work, &slowdowns), 7.0);
}

/* A kernel of 2 s beside a transfer of 3: 1.5 and 2 times as long. It ends at 3, when 1.5 s are transferred: 4.5. Of
 * the host, which nobody slows, 1 s that is stored, and 2 behind the transfer: 6.5. */
static void what_is_not_stored_comes_behind(void **unused)
{
    (void)unused;
    gal_slowdowns slowdowns = nobody_slows();
    gal_stream_work work = {.unstored_seconds = 0.0};
    slowdowns.of[GAL_ACTIVITY_COMPUTE][GAL_ACTIVITY_STORAGE] = 1.5;
    slowdowns.of[GAL_ACTIVITY_STORAGE][GAL_ACTIVITY_COMPUTE] = 2.0;
    work.seconds[GAL_STREAM_COMPUTE] = 2.0;
    work.activity[GAL_STREAM_COMPUTE] = GAL_ACTIVITY_COMPUTE;
    work.seconds[GAL_STREAM_STORAGE_OUT] = 3.0;
    work.activity[GAL_STREAM_STORAGE_OUT] = GAL_ACTIVITY_STORAGE;
    assert_near(seconds_of(&work, &slowdowns), 4.5);
    work.seconds[GAL_STREAM_HOST] = 1.0;
    work.activity[GAL_STREAM_HOST] = GAL_ACTIVITY_BESIDE;
    work.unstored_seconds = 2.0;
    assert_near(seconds_of(&work, &slowdowns), 6.5);
}

/* No less with more work, nor than any stream's. */
static void more_work_takes_no_less(void **unused)
{
    (void)unused;
    enum { DRAWS = 2000 };
    static const gal_stream streams[] = {GAL_STREAM_COMPUTE, GAL_STREAM_GATHER,     GAL_STREAM_HOST,
                                         GAL_STREAM_HOST_IN, GAL_STREAM_STORAGE_IN, GAL_STREAM_STORAGE_OUT};
    static const uint8_t activities[] = {GAL_ACTIVITY_COMPUTE, GAL_ACTIVITY_COMMUNICATION, GAL_ACTIVITY_BESIDE,
                                         GAL_ACTIVITY_COPY,    GAL_ACTIVITY_STORAGE,       GAL_ACTIVITY_STORAGE};
    enum { STREAMS = sizeof streams / sizeof streams[0] };
    uint64_t state = 1;
    for (uint32_t draw = 0; draw < DRAWS; draw++) {
        gal_slowdowns slowdowns;
        gal_stream_work work = {.unstored_seconds = gal_random_between(&state, 1e-3, 1.0)};
        for (uint32_t i = 0; i < GAL_ACTIVITY_COUNT * GAL_ACTIVITY_COUNT; i++) {
            slowdowns.of[i / GAL_ACTIVITY_COUNT][i % GAL_ACTIVITY_COUNT] = gal_random_between(&state, 1.0, 3.0);
        }
        for (uint32_t i = 0; i < STREAMS; i++) {
            work.seconds[streams[i]] = gal_random_between(&state, 1e-3, 1.0);
            work.activity[streams[i]] = activities[i];
        }
        const double before = seconds_of(&work, &slowdowns);
        const gal_stream more = streams[gal_random_below(&state, STREAMS)];
        work.seconds[more] += gal_random_between(&state, 1e-3, 1.0);
        const double behind = seconds_of(&work, &slowdowns);
        assert_true(behind >= before * (1.0 - 1e-12));
        assert_true(behind >= work.seconds[more]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_stream_counts),
        cmocka_unit_test(both_ways_share_a_device),
        cmocka_unit_test(what_is_not_stored_comes_behind),
        cmocka_unit_test(more_work_takes_no_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
