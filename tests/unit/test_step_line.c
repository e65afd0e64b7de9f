/* The line about a step, and when it is due. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/pace.h"
#include "runtime/train/step_line.h"

enum { LINE_BYTES = 256 };

static gal_run_event step_of_four_devices(void)
{
    gal_run_event event = gal_run_event_of("step", 120);
    event.figure[GAL_RUN_LOSS] = 2.34561;
    event.figure[GAL_RUN_GRADIENT_NORM] = 1.234;
    event.figure[GAL_RUN_LEARNING_RATE] = 0.0003;
    event.figure[GAL_RUN_SECONDS] = 0.6396;
    event.figure[GAL_RUN_MODEL_FLOPS_PER_SECOND_PER_DEVICE] = 407.8e12;
    event.figure[GAL_RUN_TOKENS_PER_SECOND] = 51234.2;
    event.figure[GAL_RUN_TOKENS_PER_SECOND_PER_DEVICE] = 12808.55;
    event.figure[GAL_RUN_MFU] = 0.4123;
    event.figure[GAL_RUN_MEMORY_BYTES] = 74.24e9;
    return event;
}

static void check(const gal_run_event *event, gal_step *work, double seconds_left, const char *expected)
{
    char line[LINE_BYTES];
    gal_step_line(line, sizeof line, event, work, 1000, seconds_left);
    assert_string_equal(line, expected);
}

static void test_line(void **state)
{
    (void)state;
    gal_run_event event = step_of_four_devices();
    const gal_model model = {.family = GAL_FAMILY_DECODER}, images = {.family = GAL_FAMILY_VIT, .image_size = 8};
    const gal_device device = {.memory_bytes = UINT64_C(80000000000)};
    gal_step work = {.model = &model, .device = &device, .device_count = 4};
    check(&event, &work, 754.0,
          "step 120/1000  loss 2.3456  0.64 s  51234 tokens/s, per device 12809, 408 TFLOP/s, MFU 41.2 %  74.2 of 80.0 "
          "GB  lr 0.0003  "
          "gradient 1.23  12:34 left");
    work.device_count = 1;
    event.figure[GAL_RUN_MFU] = 0.000377;
    event.figure[GAL_RUN_MODEL_FLOPS_PER_SECOND_PER_DEVICE] = 12.34e9;
    event.figure[GAL_RUN_TOKENS_PER_SECOND] = 3.14159;
    event.figure[GAL_RUN_MEMORY_BYTES] = 53.21e6;
    check(&event, &work, 3725.0,
          "step 120/1000  loss 2.3456  0.64 s  3.14 tokens/s, 12.3 GFLOP/s, MFU 0.038 %  53.2 MB of 80.0 GB  lr 0.0003 "
          " gradient 1.23  "
          "1:02:05 left");
    event.figure[GAL_RUN_MEMORY_BYTES] = NAN;
    event.step = 1000;
    work.model = &images;
    check(&event, &work, 0.0,
          "step 1000/1000  loss 2.3456  0.64 s  3.14 images/s, 12.3 GFLOP/s, MFU 0.038 %  lr 0.0003  gradient 1.23");
}

static void test_short_line(void **state)
{
    (void)state;
    char line[16];
    const gal_run_event event = step_of_four_devices();
    const gal_model model = {.family = GAL_FAMILY_DECODER};
    const gal_device device = {.memory_bytes = UINT64_C(80000000000)};
    const gal_step work = {.model = &model, .device = &device, .device_count = 4};
    gal_step_line(line, sizeof line, &event, &work, 1000, 1.0);
    assert_string_equal(line, "step 120/1000  ");
}

static gal_pace pace_of(const char *text)
{
    gal_pace pace = {.seconds = -1.0};
    (void)gal_pace_read("--every", text, &pace, NULL);
    return pace;
}

static void test_pace(void **state)
{
    (void)state;
    assert_true(pace_of("30s").seconds == 30.0 && pace_of("0.5s").seconds == 0.5);
    assert_true(pace_of("5m").seconds == 300.0 && pace_of("2h").seconds == 7200.0);
    assert_true(pace_of("100").steps == 100 && pace_of("100").seconds == 0.0);
    const char *const wrong[] = {"", "0", "0s", "-1", "1.5", "5x", "s", "nan", "infs", "1e99s", "100000000"};
    for (uint32_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        gal_error err = {0};
        gal_pace pace;
        assert_int_equal(gal_pace_read("--every", wrong[i], &pace, &err), GAL_ERR_USAGE);
    }
    const gal_pace time = pace_of("30s"), steps = pace_of("100");
    assert_true(gal_pace_is_due(&time, 7, 30.0) && !gal_pace_is_due(&time, 7, 29.9));
    assert_true(gal_pace_is_due(&steps, 200, 0.0) && !gal_pace_is_due(&steps, 250, 1e6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_line), cmocka_unit_test(test_short_line),
                                       cmocka_unit_test(test_pace)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
