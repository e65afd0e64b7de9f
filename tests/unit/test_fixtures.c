/* Every document in tests/fixtures/valid is read; every one in tests/fixtures/invalid is refused with exactly the
 * line in the .error file beside it; so is every valid one after each change of edits.tsv. Run from the repository
 * root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/base/file.h"
#include "schemas/document.h"

#define FOLDER "tests/fixtures/"

static int is_document(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0;
}

static gal_code check(const char *path, gal_error *err)
{
    gal_json_doc *doc = NULL;
    gal_document_kind kind;
    gal_code code = gal_json_open(path, &doc, err);
    if (code == GAL_OK) {
        code = gal_document_check(doc, &kind, err);
    }
    gal_json_close(doc);
    return code;
}

static void test_valid(void **state)
{
    (void)state;
    struct dirent **entries = NULL;
    int count = scandir(FOLDER "valid", &entries, is_document, alphasort);
    assert_true(count >= 10);
    int refused = 0;
    for (int i = 0; i < count; i++) {
        char path[512];
        gal_error err = {0};
        (void)snprintf(path, sizeof path, FOLDER "valid/%s", entries[i]->d_name);
        if (check(path, &err) != GAL_OK) {
            print_error("%s\n", err.text);
            refused++;
        }
        free(entries[i]);
    }
    free(entries);
    assert_int_equal(refused, 0);
}

/* The text of NAME.error without its newline; the caller frees it. */
static char *expected_error(const char *name)
{
    char path[512];
    char *text = NULL;
    size_t byte_count = 0;
    gal_error err = {0};
    (void)snprintf(path, sizeof path, FOLDER "invalid/%.*s.error", (int)(strlen(name) - 5), name);
    assert_int_equal(gal_file_read(path, 4096, &text, &byte_count, &err), GAL_OK);
    text[strcspn(text, "\n")] = '\0';
    return text;
}

static void test_invalid(void **state)
{
    (void)state;
    struct dirent **entries = NULL;
    int count = scandir(FOLDER "invalid", &entries, is_document, alphasort);
    assert_true(count >= 40);
    int wrong = 0;
    for (int i = 0; i < count; i++) {
        char path[512];
        gal_error err = {0};
        (void)snprintf(path, sizeof path, FOLDER "invalid/%s", entries[i]->d_name);
        char *expected = expected_error(entries[i]->d_name);
        gal_code code = check(path, &err);
        /* the file is shown by the path it was opened with; the fixture holds its base name */
        const char *got = err.text + strlen(FOLDER "invalid/");
        if (code != GAL_ERR_DOCUMENT || strcmp(got, expected) != 0) {
            print_error("expected %s\n     got %s\n", expected, code == GAL_OK ? "no error" : got);
            wrong++;
        }
        free(expected);
        free(entries[i]);
    }
    free(entries);
    assert_int_equal(wrong, 0);
}

enum { COLUMNS = 5, PATH_BYTES = 256 };

/* Cuts the next row in COLUMNS cells, past comments; false at the end. */
static bool next_row(char **rest, char **cell)
{
    char *row = strsep(rest, "\n");
    while (row != NULL && row[0] == '#') {
        row = strsep(rest, "\n");
    }
    if (row == NULL || row[0] == '\0') {
        return false;
    }
    for (uint32_t c = 0; c < COLUMNS; c++) {
        cell[c] = strsep(&row, "\t");
        assert_non_null(cell[c]);
    }
    return true;
}

/* The text of a valid document with one change on one line; the caller frees it. */
static char *edited(char *const *cell)
{
    char path[PATH_BYTES];
    char *text = NULL;
    char *changed = NULL;
    size_t byte_count = 0;
    (void)snprintf(path, sizeof path, FOLDER "valid/%s", cell[0]);
    assert_int_equal(gal_file_read(path, 1 << 20, &text, &byte_count, NULL), GAL_OK);
    char *line = text;
    for (long skipped = strtol(cell[1], NULL, 10) - 1; skipped > 0; skipped--) {
        line = strchr(line, '\n') + 1;
    }
    char *old = strstr(line, cell[2]);
    if (old == NULL || old > strchr(line, '\n')) {
        fail_msg("%s:%s: does not hold %s", cell[0], cell[1], cell[2]);
        return text;
    }
    assert_true(asprintf(&changed, "%.*s%s%s", (int)(old - text), text, cell[3], old + strlen(cell[2])) > 0);
    free(text);
    return changed;
}

static void test_edits(void **state)
{
    (void)state;
    char *cell[COLUMNS];
    char *table = NULL;
    size_t byte_count = 0;
    int wrong = 0;
    int count = 0;
    assert_int_equal(gal_file_read(FOLDER "edits.tsv", 1 << 20, &table, &byte_count, NULL), GAL_OK);
    for (char *rest = table; next_row(&rest, cell);) {
        gal_json_doc *doc = NULL;
        gal_document_kind kind;
        gal_error err = {0};
        char *text = edited(cell);
        gal_code code = gal_json_open_text(cell[0], text, strlen(text), &doc, &err);
        code = code == GAL_OK ? gal_document_check(doc, &kind, &err) : code;
        const char *got = code == GAL_OK ? "no error" : err.text + strlen(cell[0]) + 1;
        if (code != GAL_ERR_DOCUMENT || strcmp(got, cell[4]) != 0) {
            print_error("%s:%s: %s\nexpected %s\n     got %s\n", cell[0], cell[1], cell[3], cell[4], got);
            wrong++;
        }
        gal_json_close(doc);
        free(text);
        count++;
    }
    free(table);
    assert_true(count > 300);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_valid), cmocka_unit_test(test_invalid),
                                       cmocka_unit_test(test_edits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
