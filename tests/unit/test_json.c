#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schemas/base/file.h"
#include "schemas/base/json.h"

static gal_json_doc *open_good(const char *text)
{
    gal_json_doc *doc = NULL;
    gal_error err = {0};
    gal_code code = gal_json_open_text("t", text, strlen(text), &doc, &err);
    if (code != GAL_OK) {
        fail_msg("%s", err.text);
    }
    return doc;
}

static void expect_error(gal_json_doc *doc, const char *expected)
{
    gal_error err = {0};
    assert_int_equal(gal_json_status(doc, &err), GAL_ERR_DOCUMENT);
    assert_string_equal(err.text, expected);
}

static void test_values(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b"};
    uint32_t count = 0;
    char text[8];
    gal_error err = {0};
    gal_json_doc *doc = open_good(" {\"u\": 9007199254740992, \"f\": -0.5e1, \"t\": true, \"s\": \"h\\u00e9\\n\","
                                  " \"e\": \"b\", \"l\": [1, [2.5]], \"o\": {\"n\": null}} ");
    gal_json_cursor root = gal_json_root(doc);
    assert_true(gal_json_u64(&root, "u", 0, UINT64_MAX) == UINT64_C(9007199254740992));
    assert_true(gal_json_f64(&root, "f", -10, 10) == -5.0);
    assert_true(gal_json_bool(&root, "t"));
    gal_json_string(&root, "s", text, sizeof text);
    assert_string_equal(text, "h\xc3\xa9\n");
    assert_int_equal(gal_json_enum(&root, "e", names, 2), 1);
    gal_json_cursor list = gal_json_array(&root, "l", 1, 2, &count);
    assert_int_equal(count, 2);
    assert_int_equal(gal_json_element_u64(&list, 0, 0, 1), 1);
    gal_json_cursor inner = gal_json_element_array(&list, 1, 1, 1, &count);
    assert_true(gal_json_element_f64(&inner, 0, 0, 3) == 2.5);
    gal_json_cursor object = gal_json_object(&root, "o");
    assert_true(gal_json_has(&object, "n"));
    assert_true(gal_json_is_null(&object, "n"));
    assert_false(gal_json_has(&object, "m"));
    gal_json_reject_unknown(&root);
    assert_int_equal(gal_json_status(doc, &err), GAL_OK);
    gal_json_close(doc);
}

/* The first error sticks, later reads give zeros, the place counts characters: two of the bytes before "x" are one. */
static void test_first_error(void **state)
{
    (void)state;
    gal_json_doc *doc = open_good("{\"a\": \"\xc3\xa9\", \"b/~\": [0, \"x\"], \"c\": 7}");
    gal_json_cursor root = gal_json_root(doc);
    uint32_t count = 0;
    gal_json_cursor list = gal_json_array(&root, "b/~", 0, 9, &count);
    assert_int_equal(gal_json_element_u64(&list, 1, 0, 9), 0);
    assert_int_equal(gal_json_u64(&root, "c", 0, 9), 0);
    gal_json_string(&root, "missing", (char[4]){0}, 4);
    expect_error(doc, "t:1:23: /b~1~0/1: must be a whole number, got \"x\"");
    gal_json_close(doc);
}

static void test_unknown_keys(void **state)
{
    (void)state;
    gal_json_doc *doc = open_good("{\n \"beta1\": 1,\n \"bta2\": 2}");
    gal_json_cursor root = gal_json_root(doc);
    (void)gal_json_u64(&root, "beta1", 0, 9);
    (void)gal_json_u64(&root, "beta2", 0, 9); /* missing: but there is a misspelt form of it */
    gal_json_reject_unknown(&root);
    expect_error(doc, "t:3:2: /bta2: unknown key, did you mean \"beta2\"?");
    gal_json_close(doc);

    doc = open_good("{\"beta1\": 1, \"zzz\": 2}");
    root = gal_json_root(doc);
    (void)gal_json_u64(&root, "beta1", 0, 9);
    (void)gal_json_u64(&root, "beta2", 0, 9);
    gal_json_reject_unknown(&root);
    expect_error(doc, "t:1:1: /: key \"beta2\" is missing");
    gal_json_close(doc);

    doc = open_good("{\"a\": 1, \"b\\nc\": 2}");
    root = gal_json_root(doc);
    gal_json_accept_unknown(&root);
    gal_json_reject_unknown(&root);
    assert_int_equal(gal_json_status(doc, NULL), GAL_OK);
    gal_json_close(doc);
}

static void test_error_is_one_short_line(void **state)
{
    (void)state;
    char text[2000];
    gal_error err = {0};
    memset(text, 'k', sizeof text);
    memcpy(text, "{\"a\\nb", 6);
    memcpy(text + sizeof text - 8, "\": \"v\"}", 8);
    gal_json_doc *doc = open_good(text);
    gal_json_cursor root = gal_json_root(doc);
    gal_json_reject_unknown(&root);
    assert_int_equal(gal_json_status(doc, &err), GAL_ERR_DOCUMENT);
    assert_null(strchr(err.text, '\n'));
    assert_non_null(strstr(err.text, "/a\\u000ab"));
    assert_true(strlen(err.text) < 600);
    gal_json_close(doc);
}

static void test_error_at_path(void **state)
{
    (void)state;
    gal_json_doc *doc = open_good("{\"a\": [1,\n {\"b\": 2}]}");
    gal_json_error_at_path(doc, "/a/1/b", "too bad");
    expect_error(doc, "t:2:8: /a/1/b: too bad");
    gal_json_close(doc);
    doc = open_good("{\"a\": [1,\n {\"b\": 2}]}");
    gal_json_error_at_path(doc, "/a/7/b", "too bad");
    expect_error(doc, "t:1:7: /a: too bad");
    gal_json_close(doc);
}

/* More than 16 keys take the sorted search for duplicates. */
static void test_duplicate_among_many(void **state)
{
    (void)state;
    char text[1024] = "{";
    gal_json_doc *doc = NULL;
    gal_error err = {0};
    for (int i = 0; i < 40; i++) {
        char member[32];
        (void)snprintf(member, sizeof member, "%s\"k%d\": 0", i == 0 ? "" : ",\n", i == 33 ? 5 : i);
        strcat(text, member);
    }
    strcat(text, "}");
    assert_int_equal(gal_json_open_text("t", text, strlen(text), &doc, &err), GAL_ERR_DOCUMENT);
    assert_null(doc);
    assert_non_null(strstr(err.text, "/k5: duplicate key"));
}

static void test_depth(void **state)
{
    (void)state;
    char text[200];
    gal_json_doc *doc = NULL;
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    assert_int_equal(gal_json_open_text("t", text, 128, &doc, NULL), GAL_OK);
    gal_json_close(doc);
}

static void test_large_array_is_linear(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    char *text = malloc(2 * COUNT + 16);
    uint32_t count = 0;
    assert_non_null(text);
    size_t used = (size_t)sprintf(text, "{\"l\":[");
    for (int i = 0; i < COUNT; i++) {
        text[used++] = (char)('0' + i % 10);
        text[used++] = ',';
    }
    (void)strcpy(text + used - 1, "]}");
    gal_json_doc *doc = open_good(text);
    gal_json_cursor root = gal_json_root(doc);
    gal_json_cursor list = gal_json_array(&root, "l", 0, COUNT, &count);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) { /* quadratic, these would be 2e10 steps */
        sum += gal_json_element_u64(&list, i, 0, 9);
    }
    assert_int_equal(sum, COUNT / 10 * 45);
    gal_json_close(doc);
    free(text);
}

/* FNV-1a 64 of the one byte '1' = 0x31: (0xcbf29ce484222325 ^ 0x31) * 0x100000001b3 mod 2^64. */
static void test_hash(void **state)
{
    (void)state;
    char text[17];
    gal_json_doc *doc = open_good("1");
    gal_json_hash(doc, text);
    assert_string_equal(text, "af63ac4c86019afc");
    gal_json_close(doc);
}

static void expect_number(double value, const char *expected)
{
    const char *text = NULL;
    size_t byte_count = 0;
    gal_json_writer *out = gal_json_writer_create();
    gal_json_begin_array(out, NULL);
    gal_json_put_f64(out, NULL, value);
    gal_json_end_array(out);
    assert_int_equal(gal_json_writer_text(out, &text, &byte_count, NULL), GAL_OK);
    char whole[64];
    (void)snprintf(whole, sizeof whole, "[\n  %s\n]\n", expected);
    assert_string_equal(text, whole);
    gal_json_writer_free(out);
}

static void test_number_text(void **state)
{
    (void)state;
    expect_number(0.1, "0.1");
    expect_number(0.1 + 0.2, "0.30000000000000004");
    expect_number(-0.0, "-0");
    expect_number(1.0, "1");
    expect_number(5e-324, "5e-324");
    expect_number(9007199254740992.0, "9007199254740992");
    expect_number(9007199254740994.0, "9.007199254740994e+15"); /* plainly it would be a whole number past 2^53 */
    expect_number(1.7976931348623157e308, "1.7976931348623157e+308");
}

static void test_writer_layout(void **state)
{
    (void)state;
    const char *text = NULL;
    size_t byte_count = 0;
    gal_json_writer *out = gal_json_writer_create();
    gal_json_begin_object(out, NULL);
    gal_json_put_string(out, "s", "a\"\\\n\x7f");
    gal_json_begin_array(out, "empty");
    gal_json_end_array(out);
    gal_json_begin_array(out, "l");
    gal_json_put_u64(out, NULL, 3);
    gal_json_put_bool(out, NULL, false);
    gal_json_end_array(out);
    gal_json_end_object(out);
    assert_int_equal(gal_json_writer_text(out, &text, &byte_count, NULL), GAL_OK);
    assert_string_equal(
        text, "{\n  \"s\": \"a\\\"\\\\\\u000a\x7f\",\n  \"empty\": [],\n  \"l\": [\n    3,\n    false\n  ]\n}\n");
    assert_int_equal(byte_count, strlen(text));
    gal_json_writer_free(out);
}

/* A file is replaced as a whole; a link stays a link; a device is not replaced by a file. */
static void test_replace(void **state)
{
    (void)state;
    char folder[] = "/tmp/gal_json_XXXXXX";
    char path[64];
    char link_path[64];
    char *text = NULL;
    size_t byte_count = 0;
    struct stat status;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/file", folder);
    (void)snprintf(link_path, sizeof link_path, "%s/link", folder);
    assert_int_equal(gal_file_replace(path, "one", 3, NULL), GAL_OK);
    assert_int_equal(symlink("file", link_path), 0);
    assert_int_equal(gal_file_replace(link_path, "two", 3, NULL), GAL_OK);
    assert_int_equal(lstat(link_path, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(gal_file_read(path, 3, &text, &byte_count, NULL), GAL_OK);
    assert_string_equal(text, "two");
    free(text);
    assert_int_equal(gal_file_read(path, 2, &text, &byte_count, NULL), GAL_ERR_DOCUMENT);
    assert_int_equal(gal_file_replace("/dev/null", "x", 1, NULL), GAL_OK);
    assert_int_equal(stat("/dev/null", &status), 0);
    assert_true(S_ISCHR(status.st_mode));
    assert_int_equal(gal_file_replace("/dev/full", "x", 1, NULL), GAL_ERR_SYSTEM);
    assert_int_equal(unlink(link_path), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0); /* no temporary file is left */
}

/* Opens what is refused; the caller frees text. */
static void expect_refused(const char *name, char *text, size_t byte_count, const char *expected)
{
    gal_json_doc *doc = NULL;
    gal_error err = {0};
    assert_int_equal(gal_json_open_text(name, text, byte_count, &doc, &err), GAL_ERR_DOCUMENT);
    assert_string_equal(err.text, expected);
    free(text);
}

static char *repeat(const char *begin, const char *piece, size_t count, const char *end, size_t *byte_count)
{
    const size_t piece_bytes = strlen(piece);
    *byte_count = strlen(begin) + count * piece_bytes + strlen(end);
    char *text = malloc(*byte_count + 1);
    assert_non_null(text);
    char *at = text + sprintf(text, "%s", begin);
    for (size_t i = 0; i < count; i++, at += piece_bytes) {
        memcpy(at, piece, piece_bytes);
    }
    memcpy(at, end, strlen(end) + 1);
    return text;
}

static void test_absurd_sizes(void **state)
{
    (void)state;
    size_t byte_count = 0;
    char *text = repeat("{}", " ", 64 << 20, "", &byte_count);
    expect_refused("t", text, byte_count, "t: must be at most 67108864 bytes");
    text = repeat("[", "0,", 1 << 22, "0]", &byte_count); /* value 1 << 22 is at column 2 + 2 * ((1 << 22) - 1) */
    expect_refused("t", text, byte_count, "t:1:8388608: more than 4194304 values");
    text = repeat("", "[", 1 << 20, "", &byte_count);
    expect_refused("t", text, byte_count, "t:1:65: nested deeper than 64");
    text = repeat("", "{\"a\":", 1 << 20, "", &byte_count); /* 64 * 5 characters before the 65th */
    expect_refused("t", text, byte_count, "t:1:321: nested deeper than 64");
    text = repeat("", "9", 1 << 20, "", &byte_count);
    expect_refused("t", text, byte_count, "t:1:1: whole numbers must be at most 2^53 = 9007199254740992");
    text = repeat("0.", "1", 1 << 20, "", &byte_count);
    expect_refused("t", text, byte_count, "t:1:1: number of more than 63 characters");
}

/* Half a minute and more if an inner array made the outer one forget its place. */
static void test_array_of_arrays_is_linear(void **state)
{
    (void)state;
    size_t byte_count = 0;
    uint32_t count = 0;
    uint32_t inner_count = 0;
    uint64_t sum = 0;
    char *text = repeat("{\"a\":[[1,1]", ",[1,1]", 400000, "]}", &byte_count);
    gal_json_doc *doc = open_good(text);
    gal_json_cursor root = gal_json_root(doc);
    gal_json_cursor outer = gal_json_array(&root, "a", 0, UINT32_MAX, &count);
    for (uint32_t i = 0; i < count; i++) {
        gal_json_cursor inner = gal_json_element_array(&outer, i, 2, 2, &inner_count);
        sum += gal_json_element_u64(&inner, 1, 1, 1);
    }
    assert_int_equal(gal_json_status(doc, NULL), GAL_OK);
    assert_int_equal(sum, 400001);
    gal_json_close(doc);
    free(text);
}

/* So many unknown keys beside a missing one: not a misspelt document, and no reason to compare for minutes. */
static void test_many_unknown_keys(void **state)
{
    (void)state;
    enum { KEYS = 400000, KEY_BYTES = 16 };
    char *text = malloc(KEYS * KEY_BYTES + 8);
    assert_non_null(text);
    char *at = text + sprintf(text, "{");
    for (uint32_t i = 0; i < KEYS; i++) {
        at += sprintf(at, "%s\"k%08u\":0", i == 0 ? "" : ",", i);
    }
    memcpy(at, "}", 2);
    gal_json_doc *doc = open_good(text);
    gal_json_cursor root = gal_json_root(doc);
    (void)gal_json_u32(&root, "layer_count", 1, 2);
    gal_json_reject_unknown(&root);
    expect_error(doc, "t:1:1: /: key \"layer_count\" is missing");
    gal_json_close(doc);
    free(text);
}

/* Control characters of any kind and invalid UTF-8 in a name reach neither a terminal nor a document. */
static void test_names_of_any_bytes(void **state)
{
    (void)state;
    const char *text = NULL;
    size_t byte_count = 0;
    expect_refused("a\x1b[1m\x7f\t\xc2\x9b\xff\xe2\x82_\xc3\xa9", strdup("?"), 1,
                   "a [1m    ???_\xc3\xa9:1:1: expected a value, got '?'");
    gal_json_writer *out = gal_json_writer_create();
    gal_json_begin_array(out, NULL);
    gal_json_put_string(out, NULL, "\xff\xe2\x82/\xc3\xa9");
    gal_json_end_array(out);
    assert_int_equal(gal_json_writer_text(out, &text, &byte_count, NULL), GAL_OK);
    assert_string_equal(text, "[\n  \"\\ufffd\\ufffd\\ufffd/\xc3\xa9\"\n]\n");
    gal_json_writer_free(out);
}

static void test_unreadable(void **state)
{
    (void)state;
    gal_json_doc *doc = NULL;
    gal_error err = {0};
    assert_int_equal(gal_json_open("/nonexistent/x.json", &doc, &err), GAL_ERR_USAGE);
    assert_string_equal(err.text, "/nonexistent/x.json: no such file");
    assert_int_equal(gal_json_open("/tmp", &doc, NULL), GAL_ERR_SYSTEM);
    assert_null(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_first_error),
        cmocka_unit_test(test_unknown_keys),
        cmocka_unit_test(test_error_is_one_short_line),
        cmocka_unit_test(test_error_at_path),
        cmocka_unit_test(test_duplicate_among_many),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_large_array_is_linear),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_number_text),
        cmocka_unit_test(test_writer_layout),
        cmocka_unit_test(test_replace),
        cmocka_unit_test(test_absurd_sizes),
        cmocka_unit_test(test_array_of_arrays_is_linear),
        cmocka_unit_test(test_many_unknown_keys),
        cmocka_unit_test(test_names_of_any_bytes),
        cmocka_unit_test(test_unreadable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
