#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/base/json_internal.h"

enum { PATH_BYTES = 320, SHOWN_VALUE_BYTES = 64 };

static gal_json_span span_of(const gal_json_doc *doc, const cJSON *node)
{
    gal_json_walk walk = {.at = doc->root};
    uint64_t index = 0;
    while (walk.at != NULL && walk.at != node) {
        gal_json_walk_next(&walk);
        index++;
    }
    return gal_json_find(doc->text, doc->byte_count, index);
}

static size_t append(char *buffer, size_t capacity, size_t used, const char *text)
{
    int added = snprintf(buffer + used, capacity - used, "%s", text);
    return used + (size_t)added < capacity ? used + (size_t)added : capacity - 1;
}

/* A key as a part of a JSON pointer, in one line. */
static size_t append_key(char *path, size_t capacity, size_t used, const char *key)
{
    for (const char *c = key; *c != '\0'; c++) {
        char escaped[8] = {*c, '\0'};
        if (*c == '~' || *c == '/') {
            (void)snprintf(escaped, sizeof escaped, "~%c", *c == '~' ? '0' : '1');
        } else if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            (void)snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)(unsigned char)*c);
        }
        used = append(path, capacity, used, escaped);
    }
    return used;
}

static size_t append_path(const gal_json_cursor *at, char *path, size_t capacity)
{
    if (at->parent == NULL) {
        path[0] = '\0';
        return 0;
    }
    size_t used = append(path, capacity, append_path(at->parent, path, capacity), "/");
    if (at->key != NULL) {
        return append_key(path, capacity, used, at->key);
    }
    char index[16];
    (void)snprintf(index, sizeof index, "%u", at->index);
    return append(path, capacity, used, index);
}

static void path_of(const gal_json_cursor *at, char *path, size_t capacity)
{
    if (append_path(at, path, capacity) == 0) {
        (void)append(path, capacity, 0, "/");
    }
}

static void shown_value(const gal_json_doc *doc, const cJSON *node, gal_json_span span, char *text, size_t capacity)
{
    if (cJSON_IsObject(node) || cJSON_IsArray(node)) {
        (void)append(text, capacity, 0, cJSON_IsObject(node) ? "an object" : "an array");
        return;
    }
    size_t length = span.end - span.offset;
    bool is_cut = length > SHOWN_VALUE_BYTES;
    if (is_cut) {
        length = SHOWN_VALUE_BYTES;
        while (((unsigned char)doc->text[span.offset + length] & 0xc0) == 0x80) {
            length--;
        }
    }
    (void)snprintf(text, capacity, "%.*s%s", (int)length, doc->text + span.offset, is_cut ? "..." : "");
}

static void record_text(const gal_json_cursor *at, gal_json_place where, gal_json_got what, const char *rule)
{
    gal_json_doc *doc = at->doc;
    char path[PATH_BYTES];
    char value[SHOWN_VALUE_BYTES + 8];
    uint32_t line;
    uint32_t column;
    gal_json_span span = span_of(doc, at->node);
    path_of(at, path, sizeof path);
    shown_value(doc, at->node, span, value, sizeof value);
    gal_json_line_column(doc->text, where == GAL_JSON_AT_KEY ? span.key_offset : span.offset, &line, &column);
    (void)gal_fail(&doc->error, GAL_ERR_DOCUMENT, "%s:%u:%u: %s: %s%s%s", doc->name, line, column, path, rule,
                   what == GAL_JSON_GOT_VALUE ? ", got " : "", what == GAL_JSON_GOT_VALUE ? value : "");
}

static void record_list(const gal_json_cursor *at, gal_json_place where, gal_json_got what, const char *rule_format,
                        va_list arguments)
{
    char rule[GAL_ERROR_TEXT_BYTES];
    if (at->node == NULL || at->doc->error.code != GAL_OK) {
        return;
    }
    (void)vsnprintf(rule, sizeof rule, rule_format, arguments);
    record_text(at, where, what, rule);
}

void gal_json_record(const gal_json_cursor *at, gal_json_place where, gal_json_got what, const char *rule_format, ...)
{
    va_list arguments;
    va_start(arguments, rule_format);
    record_list(at, where, what, rule_format, arguments);
    va_end(arguments);
}

/* What a rule of a reader shows beside itself: scalars, not whole objects. */
static gal_json_got got_of(const cJSON *node)
{
    return cJSON_IsObject(node) || cJSON_IsArray(node) ? GAL_JSON_GOT_NOTHING : GAL_JSON_GOT_VALUE;
}

void gal_json_error(const gal_json_cursor *at, const char *rule_format, ...)
{
    va_list arguments;
    va_start(arguments, rule_format);
    record_list(at, GAL_JSON_AT_VALUE, got_of(at->node), rule_format, arguments);
    va_end(arguments);
}

void gal_json_member_error(const gal_json_cursor *at, const char *key, const char *rule_format, ...)
{
    gal_json_cursor child = {.doc = at->doc, .parent = at, .key = key};
    child.node = at->node == NULL ? NULL : cJSON_GetObjectItemCaseSensitive(at->node, key);
    char rule[GAL_ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, rule_format);
    (void)vsnprintf(rule, sizeof rule, rule_format, arguments);
    va_end(arguments);
    if (child.node != NULL) {
        gal_json_record(&child, GAL_JSON_AT_VALUE, got_of(child.node), "%s", rule);
    } else { /* left out, and its default breaks the rule */
        gal_json_record(at, GAL_JSON_AT_VALUE, GAL_JSON_GOT_NOTHING, "\"%s\", left out, %s", key, rule);
    }
}

/* The child that a part of a path names, or NULL. */
static const cJSON *child_named(const cJSON *node, const char *name, size_t length)
{
    uint32_t index = 0;
    for (const cJSON *child = node->child; child != NULL; child = child->next, index++) {
        char number[16];
        (void)snprintf(number, sizeof number, "%u", index);
        const char *key = child->string == NULL ? number : child->string;
        if (strlen(key) == length && memcmp(key, name, length) == 0) {
            return child;
        }
    }
    return NULL;
}

void gal_json_error_at_path(gal_json_doc *doc, const char *path, const char *text)
{
    gal_json_cursor chain[GAL_JSON_DEPTH_MAX + 1];
    uint32_t last = 0;
    chain[0] = gal_json_root(doc);
    while (*path == '/' && last < GAL_JSON_DEPTH_MAX) {
        size_t length = strcspn(path + 1, "/");
        const cJSON *child = child_named(chain[last].node, path + 1, length);
        if (child == NULL) {
            break;
        }
        chain[last + 1] = (gal_json_cursor){doc, child, &chain[last], child->string, 0};
        if (child->string == NULL) {
            chain[last + 1].index = (uint32_t)strtoul(path + 1, NULL, 10);
        }
        path += 1 + length;
        last++;
    }
    gal_json_record(&chain[last], GAL_JSON_AT_VALUE, GAL_JSON_GOT_NOTHING, "%s", text);
}

gal_code gal_json_status(gal_json_doc *doc, gal_error *err)
{
    if (doc->error.code == GAL_OK) {
        return GAL_OK;
    }
    return gal_fail(err, doc->error.code, "%s", doc->error.text);
}
