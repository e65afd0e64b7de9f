/* Strict JSON over cJSON: a reader whose errors name file, line, column, path, rule and value, and an exact writer.
 *
 * cJSON is laxer than the contract, so this file alone calls it and refuses what it lets by: duplicate keys, `01`,
 * raw control characters, \u0000, NUL bytes, invalid UTF-8, numbers that overflow to infinity, whole numbers past
 * 2^53, text after the document, nesting deeper than 64, more than 2^22 values, files over 64 MiB. So no document costs
 * more than some 700 MB, and reading takes time in proportion to its bytes.
 * The first error sticks in the document and later reads yield zeros, so a reader is a straight line with one
 * gal_json_status() at its end. A cursor is a value: node, parent and key, so the path is free. */
#ifndef GAL_SCHEMAS_BASE_JSON_H
#define GAL_SCHEMAS_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/base/status.h"

typedef struct gal_json_doc gal_json_doc;

typedef struct gal_json_cursor {
    gal_json_doc *doc;
    const void *node;                     /* cJSON; NULL after an error: every read yields zero */
    const struct gal_json_cursor *parent; /* NULL at the root; the parent outlives the child */
    const char *key;                      /* NULL: element `index` of an array */
    uint32_t index;
} gal_json_cursor;

/* Opens and parses. path "-" is stdin. Errors as gal_file_read; GAL_ERR_DOCUMENT (text). */
gal_code gal_json_open(const char *path, gal_json_doc **out, gal_error *err);
/* The same from memory; name stands for the file in errors. The text is copied. */
gal_code gal_json_open_text(const char *name, const char *text, size_t byte_count, gal_json_doc **out, gal_error *err);
void gal_json_close(gal_json_doc *doc);

gal_json_cursor gal_json_root(gal_json_doc *doc);
/* GAL_OK, or the first error with its place: "FILE:LINE:COLUMN: /path: rule, got VALUE". */
gal_code gal_json_status(gal_json_doc *doc, gal_error *err);

/* A required member of an object; a missing one is an error at the object. Marks it as known. */
gal_json_cursor gal_json_object(const gal_json_cursor *at, const char *key);
gal_json_cursor gal_json_array(const gal_json_cursor *at, const char *key, uint32_t min_count, uint32_t max_count,
                               uint32_t *count);
gal_json_cursor gal_json_element(const gal_json_cursor *array, uint32_t index);
gal_json_cursor gal_json_element_array(const gal_json_cursor *array, uint32_t index, uint32_t min_count,
                                       uint32_t max_count, uint32_t *count);
bool gal_json_has(const gal_json_cursor *at, const char *key);
/* Members of an object; 0 after an error. */
uint32_t gal_json_member_count(const gal_json_cursor *at);
bool gal_json_is_null(const gal_json_cursor *at, const char *key); /* present and null */
/* The members one after the other, for files of others whose keys say what they are: *child starts as {0} and is each
 * in turn, marked as known, with its key. False behind the last one and after an error. */
bool gal_json_next_member(const gal_json_cursor *at, gal_json_cursor *child);
/* The value itself: it must be a number within the bounds, a string (copied as by gal_json_string), or an object. */
double gal_json_number(const gal_json_cursor *at, double min, double max);
void gal_json_text(const gal_json_cursor *at, char *buffer, size_t capacity);
bool gal_json_is_object(const gal_json_cursor *at);

/* Required members, bounds inclusive (errors call a minimum of DBL_MIN "> 0", a maximum of GAL_JSON_BELOW_ONE "< 1").
 * Whole numbers must be written as such and be <= 2^53. */
#define GAL_JSON_BELOW_ONE 0x1.fffffffffffffp-1
double gal_json_f64(const gal_json_cursor *at, const char *key, double min, double max);
uint64_t gal_json_u64(const gal_json_cursor *at, const char *key, uint64_t min, uint64_t max);
uint32_t gal_json_u32(const gal_json_cursor *at, const char *key, uint32_t min, uint32_t max);
bool gal_json_bool(const gal_json_cursor *at, const char *key);
/* Copies into buffer (capacity includes NUL); too long is an error. */
void gal_json_string(const gal_json_cursor *at, const char *key, char *buffer, size_t capacity);
/* Index into names; the error lists them. */
uint32_t gal_json_enum(const gal_json_cursor *at, const char *key, const char *const *names, uint32_t name_count);
/* Element forms, for arrays of plain values. */
double gal_json_element_f64(const gal_json_cursor *array, uint32_t index, double min, double max);
uint64_t gal_json_element_u64(const gal_json_cursor *array, uint32_t index, uint64_t min, uint64_t max);

/* Every member must have been asked for; an unknown key is an error with a suggestion of the nearest known one. */
void gal_json_reject_unknown(const gal_json_cursor *at);
/* Marks all members as known: only for documents of others (Hugging Face). */
void gal_json_accept_unknown(const gal_json_cursor *at);
/* Records an error at this place: "rule, got VALUE" (objects and arrays: "rule"). */
void gal_json_error(const gal_json_cursor *at, const char *rule_format, ...) __attribute__((format(printf, 2, 3)));
/* The same at a member, for rules between members; at the object where the member is left out. */
void gal_json_member_error(const gal_json_cursor *at, const char *key, const char *rule_format, ...)
    __attribute__((format(printf, 3, 4)));
/* An error without the value at a path such as "/stages/0/runs/1", for rules that are checked on the struct; where the
 * path leaves the document, the last place on it that exists. */
void gal_json_error_at_path(gal_json_doc *doc, const char *path, const char *text);

/* Checks {"document": name, "version": version}; the first two keys of each of our documents. */
void gal_json_expect_document(const gal_json_cursor *root, const char *name, uint32_t version);
/* The same for a reader of several versions, oldest to newest. Returns the one found, 0 after an error. */
uint32_t gal_json_expect_versions(const gal_json_cursor *root, const char *name, uint32_t oldest, uint32_t newest);
enum { GAL_HASH_BYTES = 17 }; /* 16 hexadecimal digits and NUL */
/* FNV-1a 64 of the document's bytes. */
void gal_json_hash(const gal_json_doc *doc, char text[GAL_HASH_BYTES]);

/* The writer: two-space indented, keys in call order, valid UTF-8 (U+FFFD for what is not), numbers exact (integers as
 * such, doubles with the fewest of up to 17 digits that read back to the same bits). The same calls give the same
 * bytes. A writer that runs out of memory remembers it until finish. key NULL inside arrays. */
typedef struct gal_json_writer gal_json_writer;
gal_json_writer *gal_json_writer_create(void); /* never NULL in use: failure is reported by finish */
void gal_json_writer_free(gal_json_writer *out);
void gal_json_begin_object(gal_json_writer *out, const char *key);
void gal_json_end_object(gal_json_writer *out);
void gal_json_begin_array(gal_json_writer *out, const char *key);
void gal_json_end_array(gal_json_writer *out);
void gal_json_put_f64(gal_json_writer *out, const char *key, double value);   /* finite */
void gal_json_put_u64(gal_json_writer *out, const char *key, uint64_t value); /* <= 2^53: the reader's bound */
void gal_json_put_bool(gal_json_writer *out, const char *key, bool value);
void gal_json_put_string(gal_json_writer *out, const char *key, const char *value);
/* The text so far with a final newline; owned by the writer. GAL_ERR_SYSTEM without memory. */
gal_code gal_json_writer_text(gal_json_writer *out, const char **text, size_t *byte_count, gal_error *err);
/* Writes the text to path, "-" is stdout; a file is replaced as a whole (temporary file, fsync, rename). */
gal_code gal_json_writer_save(gal_json_writer *out, const char *path, gal_error *err);

#endif
