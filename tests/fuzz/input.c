#include "tests/fuzz/input.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "schemas/base/json_scan.h"

enum { PATH_BYTES = 128, PATHS = 8 };

_Noreturn void gal_fuzz_failed(const char *condition, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: required: %s\n", file, line, condition);
    abort();
}

/* In place of gal_assert_failed (the Makefile links with --wrap): libFuzzer takes an exit for the end of a run, an
 * abort for a finding. */
_Noreturn void __wrap_gal_assert_failed(const char *condition, const char *file, int line);
_Noreturn void __wrap_gal_assert_failed(const char *condition, const char *file, int line)
{
    gal_fuzz_failed(condition, file, line);
}

/* The scanner of JSON strings knows what valid UTF-8 is. */
static bool is_utf8(const char *text)
{
    char quoted[GAL_ERROR_TEXT_BYTES + 2] = "\"";
    size_t used = 1;
    gal_json_fault fault;
    for (const char *c = text; *c != '\0'; c++) {
        quoted[used++] = (char)(*c == '"' || *c == '\\' ? '.' : *c);
    }
    quoted[used++] = '"';
    return gal_json_scan(quoted, used, &fault);
}

void gal_fuzz_require_refusal(gal_code code, const gal_error *err)
{
    GAL_FUZZ_REQUIRE(code > GAL_OK && code < GAL_BUG);
    GAL_FUZZ_REQUIRE(err->code == code);
    GAL_FUZZ_REQUIRE(memchr(err->text, '\0', sizeof err->text) != NULL);
    GAL_FUZZ_REQUIRE(strlen(err->text) > 0);
    GAL_FUZZ_REQUIRE(is_utf8(err->text));
}

gal_json_doc *gal_fuzz_open(const uint8_t *bytes, size_t byte_count)
{
    gal_json_doc *doc = NULL;
    gal_error err = {0};
    gal_code code = gal_json_open_text("input", (const char *)bytes, byte_count, &doc, &err);
    if (code != GAL_OK) {
        GAL_FUZZ_REQUIRE(code == GAL_ERR_DOCUMENT && strncmp(err.text, "input:", 6) == 0);
        gal_fuzz_require_refusal(code, &err);
        return NULL;
    }
    return doc;
}

static bool read_bytes(gal_document_kind kind, const uint8_t *bytes, size_t byte_count, void *document)
{
    gal_error err = {0};
    gal_json_doc *doc = gal_fuzz_open(bytes, byte_count);
    if (doc == NULL) {
        return false;
    }
    gal_code code = gal_document_read_open(kind, doc, document, &err);
    if (code != GAL_OK) {
        GAL_FUZZ_REQUIRE(code == GAL_ERR_DOCUMENT && strncmp(err.text, "input:", 6) == 0);
        gal_fuzz_require_refusal(code, &err);
    }
    gal_json_close(doc);
    return code == GAL_OK;
}

static gal_json_writer *written(gal_document_kind kind, const void *document, const char **text, size_t *count)
{
    gal_json_writer *out = gal_json_writer_create();
    gal_json_begin_object(out, NULL);
    gal_document_form_of(kind)->write(out, document);
    gal_json_end_object(out);
    GAL_FUZZ_REQUIRE(gal_json_writer_text(out, text, count, NULL) == GAL_OK);
    return out;
}

bool gal_fuzz_round_trip(gal_document_kind kind, const uint8_t *bytes, size_t byte_count, void *document, void *again)
{
    const char *first = NULL;
    const char *second = NULL;
    size_t first_count = 0;
    size_t second_count = 0;
    if (!read_bytes(kind, bytes, byte_count, document)) {
        return false;
    }
    gal_json_writer *out = written(kind, document, &first, &first_count);
    GAL_FUZZ_REQUIRE(read_bytes(kind, (const uint8_t *)first, first_count, again));
    gal_json_writer *out_again = written(kind, again, &second, &second_count);
    GAL_FUZZ_REQUIRE(first_count == second_count && memcmp(first, second, first_count) == 0);
    gal_json_writer_free(out_again);
    gal_json_writer_free(out);
    return true;
}

/* ---- files ---- */

static char folder[PATH_BYTES / 2];

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

static void remove_folder(void)
{
    (void)nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

const char *gal_fuzz_path(const char *name)
{
    static char paths[PATHS][PATH_BYTES];
    static uint32_t used;
    if (folder[0] == '\0') {
        (void)snprintf(folder, sizeof folder, "%s/gal_fuzz.XXXXXX",
                       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        GAL_FUZZ_REQUIRE(mkdtemp(folder) != NULL && atexit(remove_folder) == 0);
    }
    GAL_FUZZ_REQUIRE(used < PATHS);
    char *path = paths[used++];
    (void)snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    return path;
}

void gal_fuzz_write(const char *path, const void *bytes, size_t byte_count)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    GAL_FUZZ_REQUIRE(file >= 0);
    GAL_FUZZ_REQUIRE(byte_count == 0 || write(file, bytes, byte_count) == (ssize_t)byte_count);
    GAL_FUZZ_REQUIRE(close(file) == 0);
}
