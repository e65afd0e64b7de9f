#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/base/file.h"
#include "schemas/base/json.h"
#include "schemas/base/json_number.h"
#include "schemas/base/json_scan.h"
#include "schemas/base/utf8.h"

enum { FIRST_CAPACITY_BYTES = 4096, INDENT_SPACES = 2 };

struct gal_json_writer {
    char *text; /* NUL-terminated */
    size_t used, capacity;
    uint32_t depth;
    bool is_array[GAL_JSON_DEPTH_MAX];
    bool has_members[GAL_JSON_DEPTH_MAX + 1];
    bool out_of_memory;
};

/* What create gives without memory: every call on it does nothing, the text is refused. */
static gal_json_writer writer_without_memory = {.out_of_memory = true};

gal_json_writer *gal_json_writer_create(void)
{
    gal_json_writer *out = calloc(1, sizeof *out);
    return out == NULL ? &writer_without_memory : out;
}

void gal_json_writer_free(gal_json_writer *out)
{
    if (out == NULL || out == &writer_without_memory) {
        return;
    }
    free(out->text);
    free(out);
}

static void put_bytes(gal_json_writer *out, const char *bytes, size_t count)
{
    if (out->out_of_memory) {
        return;
    }
    if (out->capacity - out->used <= count) {
        size_t capacity = out->capacity == 0 ? FIRST_CAPACITY_BYTES : out->capacity;
        while (capacity - out->used <= count) {
            capacity *= 2;
        }
        char *larger = realloc(out->text, capacity);
        if (larger == NULL) {
            out->out_of_memory = true;
            return;
        }
        out->text = larger;
        out->capacity = capacity;
    }
    memcpy(out->text + out->used, bytes, count);
    out->used += count;
    out->text[out->used] = '\0';
}

static void put_text(gal_json_writer *out, const char *text)
{
    put_bytes(out, text, strlen(text));
}

static void put_new_line(gal_json_writer *out)
{
    put_text(out, "\n");
    for (uint32_t i = 0; i < out->depth * INDENT_SPACES; i++) {
        put_text(out, " ");
    }
}

static void put_quoted(gal_json_writer *out, const char *text)
{
    size_t left = strlen(text);
    put_text(out, "\"");
    while (left > 0) {
        char escaped[8];
        size_t length = gal_utf8_length(text, left);
        if (*text == '"' || *text == '\\') {
            (void)snprintf(escaped, sizeof escaped, "\\%c", *text);
            put_text(out, escaped);
        } else if (length == 0 || (unsigned char)*text < 0x20) {
            (void)snprintf(escaped, sizeof escaped, "\\u%04x", length == 0 ? 0xfffdu : (unsigned)(unsigned char)*text);
            put_text(out, escaped);
        } else {
            put_bytes(out, text, length);
        }
        length = length == 0 ? 1 : length;
        text += length;
        left -= length;
    }
    put_text(out, "\"");
}

/* Comma, line and key before a value. */
static void begin_value(gal_json_writer *out, const char *key)
{
    if (out->out_of_memory) {
        return;
    }
    if (out->depth > 0) {
        GAL_ASSERT((key == NULL) == out->is_array[out->depth - 1]);
        put_text(out, out->has_members[out->depth] ? "," : "");
        put_new_line(out);
        out->has_members[out->depth] = true;
    }
    if (key != NULL) {
        put_quoted(out, key);
        put_text(out, ": ");
    }
}

static void begin_container(gal_json_writer *out, const char *key, bool is_array)
{
    begin_value(out, key);
    if (out->out_of_memory) {
        return;
    }
    GAL_ASSERT(out->depth < GAL_JSON_DEPTH_MAX);
    put_text(out, is_array ? "[" : "{");
    out->is_array[out->depth] = is_array;
    out->depth++;
    out->has_members[out->depth] = false;
}

static void end_container(gal_json_writer *out, bool is_array)
{
    if (out->out_of_memory) {
        return;
    }
    GAL_ASSERT(out->depth > 0 && out->is_array[out->depth - 1] == is_array);
    out->depth--;
    if (out->has_members[out->depth + 1]) {
        put_new_line(out);
    }
    put_text(out, is_array ? "]" : "}");
}

void gal_json_begin_object(gal_json_writer *out, const char *key)
{
    begin_container(out, key, false);
}

void gal_json_end_object(gal_json_writer *out)
{
    end_container(out, false);
}

void gal_json_begin_array(gal_json_writer *out, const char *key)
{
    begin_container(out, key, true);
}

void gal_json_end_array(gal_json_writer *out)
{
    end_container(out, true);
}

void gal_json_put_f64(gal_json_writer *out, const char *key, double value)
{
    char text[GAL_NUMBER_TEXT_BYTES];
    gal_json_number_text(value, text, sizeof text);
    begin_value(out, key);
    put_text(out, text);
}

void gal_json_put_u64(gal_json_writer *out, const char *key, uint64_t value)
{
    char text[GAL_NUMBER_TEXT_BYTES];
    GAL_ASSERT(value <= GAL_JSON_WHOLE_MAX);
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    begin_value(out, key);
    put_text(out, text);
}

void gal_json_put_bool(gal_json_writer *out, const char *key, bool value)
{
    begin_value(out, key);
    put_text(out, value ? "true" : "false");
}

void gal_json_put_string(gal_json_writer *out, const char *key, const char *value)
{
    begin_value(out, key);
    put_quoted(out, value);
}

gal_code gal_json_writer_text(gal_json_writer *out, const char **text, size_t *byte_count, gal_error *err)
{
    GAL_ASSERT(out->out_of_memory || (out->depth == 0 && out->used > 0));
    if (!out->out_of_memory && out->text[out->used - 1] != '\n') {
        put_text(out, "\n");
    }
    if (out->out_of_memory) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    *text = out->text;
    *byte_count = out->used;
    return GAL_OK;
}

gal_code gal_json_writer_save(gal_json_writer *out, const char *path, gal_error *err)
{
    const char *text = NULL;
    size_t byte_count = 0;
    gal_code code = gal_json_writer_text(out, &text, &byte_count, err);
    return code != GAL_OK ? code : gal_file_replace(path, text, byte_count, err);
}
