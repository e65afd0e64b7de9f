/* Text is UTF-8 without NUL; a file of a known format is named. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/train/text_check.h"
#include "tests/support/scratch_folder.h"

enum { MIB = 1 << 20 };

static gal_code check(const void *bytes, size_t byte_count, gal_error *err)
{
    char path[256];
    snprintf(path, sizeof path, "%s/file", gal_scratch_folder);
    const int descriptor = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, bytes, byte_count), (ssize_t)byte_count);
    const gal_opened file = {path, descriptor, byte_count};
    *err = (gal_error){0};
    const gal_code code = gal_text_check(&file, err);
    close(descriptor);
    return code;
}

static void expect(const void *bytes, size_t byte_count, const char *text)
{
    gal_error err;
    const gal_code code = check(bytes, byte_count, &err);
    assert_int_equal(code, text == NULL ? GAL_OK : GAL_ERR_DOCUMENT);
    if (text != NULL && strstr(err.text, text) == NULL) {
        fail_msg("got: %s", err.text);
    }
}

static void test_formats(void **state)
{
    (void)state;
    expect("\x1f\x8b\x08 rest", 8, "this is a gzip file: tokens are read from");
    expect("\x28\xb5\x2f\xfd rest", 9, "a zstd file");
    expect("\x93NUMPY\x01", 7, "an array of NumPy");
    expect("PAR1 rest", 9, "a Parquet file");
    expect("\xff\xfeh\0", 4, "text in UTF-16");
    expect("\xff\xfe\0\0", 4, "text in UTF-32");
    expect("\x02\0\0\0\0\0\0\0{}", 10, "a safetensors file");
    expect("\x02\0\0\0\0\0\0\0{", 9, "byte 1 is NUL"); /* the object would end behind the file */
    assert_null(gal_known_format((const uint8_t *)"\x1f", 1));
}

static void test_characters(void **state)
{
    (void)state;
    expect("plain\n\ttext", 11, NULL);
    expect("\xef\xbb\xbfmark", 7, NULL); /* a byte order mark of UTF-8 is a character */
    expect("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9, NULL);
    expect("ab\xc3", 3, "byte 2 begins no character of UTF-8");
    expect("ab\xe4 c", 5, "byte 2 begins no character of UTF-8"); /* Latin-1 */
    expect("ab\xc0\x80", 4, "byte 2 begins no character");        /* NUL in two bytes */
    expect("a\0b", 3, "byte 1 is NUL");
}

/* Characters of four bytes, shifted so that one lies across the border of two pieces of a file; a fault behind it. */
static void test_borders(void **state)
{
    (void)state;
    const size_t bytes = MIB + 64;
    char *text = malloc(bytes);
    assert_non_null(text);
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'x', bytes);
        for (size_t at = shift; at + 4 <= bytes; at += 4) {
            memcpy(text + at, "\xf0\x9f\x98\x80", 4);
        }
        expect(text, bytes, NULL);
        text[bytes - 1] = '\xff';
        expect(text, bytes, "begins no character of UTF-8");
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_characters),
        cmocka_unit_test(test_borders),
    };
    return cmocka_run_group_tests(tests, gal_scratch_folder_make, gal_scratch_folder_remove);
}
