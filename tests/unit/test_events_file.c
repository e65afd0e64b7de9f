/* TensorBoard's events: the bytes of tests/fixtures/events, whose values TensorBoard's own reader gave (read.py there).
 * With an argument the program writes these files into that folder instead. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/train/events_file.h"
#include "tests/support/scratch_folder.h"

enum { PATH_BYTES = 512, FILE_BYTES = 4096, STRIDE = 128 }; /* steps take two bytes from the second on */

static double first_wall_seconds(void)
{
    return 1700000000.25;
}

static double resumed_wall_seconds(void)
{
    return 1700000100.5;
}

static gal_code put_steps(const char *folder, uint64_t first_step, uint64_t last_step, double (*wall_seconds)(void))
{
    gal_events_file events = {.file = NULL};
    if (gal_events_open(&events, folder, first_step, wall_seconds, NULL) != GAL_OK) {
        return GAL_ERR_SYSTEM;
    }
    for (uint64_t step = first_step; step <= last_step; step += STRIDE) {
        const gal_events_scalar scalar[] = {{"train/loss", 4.0 / (double)step + (double)first_step},
                                            {"train/tokens_per_second", 123456.5},
                                            {"train/mfu", 0.375}};
        gal_events_put(&events, step, scalar, 3);
    }
    const gal_events_scalar validation = {"validation/loss", 2.5};
    gal_events_put(&events, last_step, &validation, 1);
    return gal_events_close(&events, NULL);
}

/* A run that was ended after step 257, and resumed from its checkpoint of step 128. */
static gal_code put_files(const char *folder)
{
    const gal_code code = put_steps(folder, 1, 257, first_wall_seconds);
    return code == GAL_OK ? put_steps(folder, 129, 513, resumed_wall_seconds) : code;
}

/* The file of a folder whose name holds the seconds. */
static size_t read_file(const char *folder, const char *seconds, char *bytes, size_t capacity)
{
    char path[PATH_BYTES] = "";
    struct dirent *entry;
    DIR *opened = opendir(folder);
    assert_non_null(opened);
    while ((entry = readdir(opened)) != NULL) {
        if (strncmp(entry->d_name, "events.out.tfevents.", 20) == 0 && strstr(entry->d_name, seconds) != NULL) {
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        }
    }
    closedir(opened);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t byte_count = fread(bytes, 1, capacity, file);
    fclose(file);
    return byte_count;
}

static void test_same_bytes(void **state)
{
    static const char *const seconds[] = {"1700000000", "1700000100"};
    char expected[FILE_BYTES], got[FILE_BYTES];
    (void)state;
    assert_int_equal(put_files(gal_scratch_folder), GAL_OK);
    for (uint32_t i = 0; i < 2; i++) {
        const size_t byte_count = read_file("tests/fixtures/events", seconds[i], expected, sizeof expected);
        assert_true(byte_count > 0 && byte_count < sizeof expected);
        assert_int_equal(read_file(gal_scratch_folder, seconds[i], got, sizeof got), byte_count);
        assert_memory_equal(got, expected, byte_count);
    }
}

static void test_no_folder(void **state)
{
    gal_events_file events = {.file = NULL};
    gal_error err = {0};
    (void)state;
    assert_int_equal(gal_events_open(&events, "/dev/null/runs", 1, NULL, &err), GAL_ERR_SYSTEM);
    assert_string_equal(err.text, "/dev/null/runs: Not a directory");
    assert_int_equal(gal_events_close(&events, NULL), GAL_OK);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bytes), cmocka_unit_test(test_no_folder)};
    if (argc > 1) {
        return (int)put_files(argv[1]);
    }
    return cmocka_run_group_tests(tests, gal_scratch_folder_make, gal_scratch_folder_remove);
}
