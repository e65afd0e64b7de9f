/* Fingerprints of files: any byte of a short file counts, and the length; of a long one, samples from end to end. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/train/fingerprint.h"
#include "schemas/base/fnv.h"
#include "tests/support/scratch_folder.h"

static const char *path_of_file(void)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/file", gal_scratch_folder);
    return path;
}

static uint64_t fingerprint(void)
{
    gal_error err = {0};
    uint64_t hash = GAL_FNV_START;
    if (gal_fingerprint_file(path_of_file(), &hash, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    return hash;
}

static void write_at(uint64_t offset, const char *bytes, size_t count)
{
    const int file = open(path_of_file(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    assert_true(file >= 0);
    assert_int_equal(pwrite(file, bytes, count, (off_t)offset), (ssize_t)count);
    close(file);
}

/* "ab" by hand: the length 2 as 8 bytes, little-endian, then the two bytes. */
static void test_short_file(void **state)
{
    (void)state;
    const uint8_t hashed[10] = {2, 0, 0, 0, 0, 0, 0, 0, 'a', 'b'};
    write_at(0, "ab", 2);
    assert_int_equal(fingerprint(), gal_fnv(GAL_FNV_START, hashed, sizeof hashed));
    const uint64_t before = fingerprint();
    write_at(1, "c", 1);
    assert_int_not_equal(fingerprint(), before);
}

/* A sparse file of 300 MB: a change of its first and of its last byte shows, and so does one more byte. */
static void test_long_file(void **state)
{
    (void)state;
    const uint64_t bytes = 300000000;
    assert_true(bytes > GAL_FINGERPRINT_WHOLE_BYTES);
    write_at(bytes - 1, "x", 1);
    const uint64_t before = fingerprint();
    write_at(bytes - 1, "y", 1);
    const uint64_t last = fingerprint();
    assert_int_not_equal(last, before);
    write_at(0, "z", 1);
    const uint64_t first = fingerprint();
    assert_int_not_equal(first, last);
    write_at(bytes, "y", 1);
    assert_int_not_equal(fingerprint(), first);
}

static void test_missing_file(void **state)
{
    (void)state;
    gal_error err = {0};
    uint64_t hash = 7;
    assert_int_equal(gal_fingerprint_file("nowhere/file", &hash, &err), GAL_ERR_SYSTEM);
    assert_int_equal(hash, 7);
    assert_string_equal(err.text, "nowhere/file: No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_file),
        cmocka_unit_test(test_long_file),
        cmocka_unit_test(test_missing_file),
    };
    return cmocka_run_group_tests(tests, gal_scratch_folder_make, gal_scratch_folder_remove);
}
