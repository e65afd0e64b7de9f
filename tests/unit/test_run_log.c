/* The files of a run: the same events as JSON lines and as CSV; a resumed run appends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/train/run_log.h"
#include "tests/support/scratch_folder.h"

enum { PATH_BYTES = 64, FILE_BYTES = 4096 };

static void put_events(const char *path, bool resumed, uint64_t step)
{
    gal_run_log log;
    gal_run_event done = gal_run_event_of("step", step);
    gal_run_event evaluated = gal_run_event_of("evaluation", step);
    done.figure[GAL_RUN_LOSS] = 2.5;
    done.figure[GAL_RUN_SECONDS] = 0.125;
    done.figure[GAL_RUN_TOKENS_PER_SECOND] = 8192.0;
    done.figure[GAL_RUN_MEMORY_BYTES] = 123456789012.0;
    evaluated.figure[GAL_RUN_VALIDATION_LOSS] = 2.25;
    evaluated.figure[GAL_RUN_BATCHES] = 20.0;
    assert_int_equal(gal_run_log_open(&log, path, NULL, resumed, step, NULL), GAL_OK);
    gal_run_log_put(&log, &done);
    gal_run_log_put(&log, &evaluated);
    assert_int_equal(gal_run_log_close(&log, NULL), GAL_OK);
}

static void check(const char *name, const char *expected)
{
    char path[PATH_BYTES], got[FILE_BYTES] = "";
    snprintf(path, sizeof path, "%s/%s", gal_scratch_folder, name);
    put_events(path, true, 7); /* a new run empties the file */
    put_events(path, false, 1);
    put_events(path, true, 2);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(got, 1, sizeof got - 1, file) > 0);
    fclose(file);
    assert_string_equal(got, expected);
}

static void test_json(void **state)
{
    (void)state;
    check("log.jsonl", "{\"event\": \"step\", \"step\": 1, \"loss\": 2.5, \"seconds\": 0.125, "
                       "\"tokens_per_second\": 8192, \"memory_bytes\": 123456789012}\n"
                       "{\"event\": \"evaluation\", \"step\": 1, \"validation_loss\": 2.25, \"batches\": 20}\n"
                       "{\"event\": \"step\", \"step\": 2, \"loss\": 2.5, \"seconds\": 0.125, "
                       "\"tokens_per_second\": 8192, \"memory_bytes\": 123456789012}\n"
                       "{\"event\": \"evaluation\", \"step\": 2, \"validation_loss\": 2.25, \"batches\": 20}\n");
}

static void test_csv(void **state)
{
    (void)state;
    check("log.csv", "event,step,loss,gradient_norm,learning_rate,seconds,tokens_per_second,"
                     "tokens_per_second_per_device,model_flops_per_second_per_device,mfu,memory_bytes,"
                     "validation_loss,accuracy,batches,skipped\n"
                     "step,1,2.5,,,0.125,8192,,,,123456789012,,,,\n"
                     "evaluation,1,,,,,,,,,,2.25,,20,\n"
                     "step,2,2.5,,,0.125,8192,,,,123456789012,,,,\n"
                     "evaluation,2,,,,,,,,,,2.25,,20,\n");
}

static void test_full_disk(void **state)
{
    (void)state;
    gal_run_log log;
    gal_error err = {0};
    const gal_run_event saved = gal_run_event_of("save", 1);
    assert_int_equal(gal_run_log_open(&log, "/dev/full", NULL, false, 1, NULL), GAL_OK);
    gal_run_log_put(&log, &saved);
    assert_int_equal(gal_run_log_close(&log, &err), GAL_ERR_SYSTEM);
    assert_string_equal(err.text, "/dev/full: could not be written whole");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_json), cmocka_unit_test(test_csv),
                                       cmocka_unit_test(test_full_disk)};
    return cmocka_run_group_tests(tests, gal_scratch_folder_make, gal_scratch_folder_remove);
}
