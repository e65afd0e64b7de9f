#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/base/file.h"
#include "schemas/base/fnv.h"
#include "schemas/base/json_internal.h"

enum { TEXT_BYTES_MAX = 64 << 20, FEW_MEMBERS = 16 };

void gal_json_walk_next(gal_json_walk *walk)
{
    if (walk->at->child != NULL) {
        walk->above[walk->depth++] = walk->at;
        walk->at = walk->at->child;
        return;
    }
    while (walk->depth > 0 && walk->at->next == NULL) {
        walk->at = walk->above[--walk->depth];
    }
    walk->at = walk->depth == 0 ? NULL : walk->at->next;
}

typedef struct number_marker {
    gal_json_walk walk;
} number_marker;

static void mark_number(void *context, bool is_whole)
{
    number_marker *marker = context;
    while (!cJSON_IsNumber(marker->walk.at)) {
        gal_json_walk_next(&marker->walk);
    }
    if (is_whole) {
        ((cJSON *)(uintptr_t)marker->walk.at)->type |= GAL_JSON_WHOLE;
    }
    gal_json_walk_next(&marker->walk);
}

static gal_code check_text(const char *name, const char *text, size_t byte_count, gal_error *err)
{
    gal_json_fault fault;
    uint32_t line;
    uint32_t column;
    if (byte_count > TEXT_BYTES_MAX) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: must be at most %d bytes", name, TEXT_BYTES_MAX);
    }
    if (gal_json_scan(text, byte_count, &fault)) {
        return GAL_OK;
    }
    gal_json_line_column(text, fault.offset, &line, &column);
    return gal_fail(err, GAL_ERR_DOCUMENT, "%s:%u:%u: %s", name, line, column, fault.rule);
}

static int compare_keys(const void *a, const void *b)
{
    const cJSON *const *left = a;
    const cJSON *const *right = b;
    return strcmp((*left)->string, (*right)->string);
}

static const cJSON *duplicate_of_few(const cJSON *object)
{
    for (const cJSON *later = object->child; later != NULL; later = later->next) {
        for (const cJSON *earlier = object->child; earlier != later; earlier = earlier->next) {
            if (strcmp(later->string, earlier->string) == 0) {
                return later;
            }
        }
    }
    return NULL;
}

/* A member whose key stands in the object before; *code is GAL_ERR_SYSTEM without memory. */
static const cJSON *duplicate_in(const cJSON *object, gal_code *code)
{
    size_t count = 0;
    for (const cJSON *member = object->child; member != NULL; member = member->next) {
        count++;
    }
    if (count <= FEW_MEMBERS) {
        return duplicate_of_few(object);
    }
    const cJSON **sorted = malloc(count * sizeof *sorted);
    if (sorted == NULL) {
        *code = GAL_ERR_SYSTEM;
        return NULL;
    }
    size_t i = 0;
    for (const cJSON *member = object->child; member != NULL; member = member->next) {
        sorted[i++] = member;
    }
    qsort(sorted, count, sizeof *sorted, compare_keys);
    const cJSON *duplicate = NULL;
    for (i = 1; i < count && duplicate == NULL; i++) {
        if (compare_keys(&sorted[i - 1], &sorted[i]) == 0) {
            duplicate = sorted[i];
        }
    }
    free(sorted);
    return duplicate;
}

/* The cursors from the root to the walk's position, so that gal_json_record() can write the path. */
static void record_duplicate(gal_json_doc *doc, const gal_json_walk *walk, const cJSON *duplicate)
{
    gal_json_cursor chain[GAL_JSON_DEPTH_MAX + 2];
    chain[0] = gal_json_root(doc);
    uint32_t last = 0;
    for (uint32_t depth = 1; depth <= walk->depth + 1; depth++) {
        const cJSON *node = depth < walk->depth ? walk->above[depth] : depth == walk->depth ? walk->at : duplicate;
        uint32_t index = 0;
        for (const cJSON *other = ((const cJSON *)chain[last].node)->child; other != node; other = other->next) {
            index++;
        }
        chain[last + 1] = (gal_json_cursor){doc, node, &chain[last], node->string, index};
        last++;
    }
    gal_json_record(&chain[last], GAL_JSON_AT_KEY, GAL_JSON_GOT_NOTHING, "duplicate key");
}

static gal_code refuse_duplicates(gal_json_doc *doc, gal_error *err)
{
    gal_code code = GAL_OK;
    for (gal_json_walk walk = {.at = doc->root}; walk.at != NULL; gal_json_walk_next(&walk)) {
        if (!cJSON_IsObject(walk.at)) {
            continue;
        }
        const cJSON *duplicate = duplicate_in(walk.at, &code);
        if (code != GAL_OK) {
            return gal_fail(err, code, "%s: out of memory", doc->name);
        }
        if (duplicate != NULL) {
            record_duplicate(doc, &walk, duplicate);
            return gal_json_status(doc, err);
        }
    }
    return GAL_OK;
}

/* Takes over text, also when it fails. */
static gal_code open_owned(const char *name, char *text, size_t byte_count, gal_json_doc **out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_json_doc *doc = calloc(1, sizeof *doc);
    if (doc == NULL) {
        free(text);
        return gal_fail(err, GAL_ERR_SYSTEM, "%s: out of memory", name);
    }
    doc->text = text;
    doc->byte_count = byte_count;
    doc->name = strdup(name);
    GAL_TRY(check_text(name, text, byte_count, err));
    doc->root = cJSON_ParseWithLength(text, byte_count);
    if (doc->root == NULL || doc->name == NULL) { /* the text is good: only memory can lack */
        code = gal_fail(err, GAL_ERR_SYSTEM, "%s: out of memory", name);
        goto cleanup;
    }
    GAL_TRY(refuse_duplicates(doc, err));
    number_marker marker = {.walk = {.at = doc->root}};
    gal_json_each_number(text, byte_count, mark_number, &marker);
    *out = doc;
    doc = NULL;
cleanup:
    gal_json_close(doc);
    return code;
}

gal_code gal_json_open(const char *path, gal_json_doc **out, gal_error *err)
{
    char *text = NULL;
    size_t byte_count = 0;
    gal_code code = gal_file_read(path, TEXT_BYTES_MAX, &text, &byte_count, err);
    if (code != GAL_OK) {
        return code;
    }
    return open_owned(strcmp(path, "-") == 0 ? "stdin" : path, text, byte_count, out, err);
}

gal_code gal_json_open_text(const char *name, const char *text, size_t byte_count, gal_json_doc **out, gal_error *err)
{
    char *copy = malloc(byte_count + 1);
    if (copy == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "%s: out of memory", name);
    }
    if (byte_count > 0) {
        memcpy(copy, text, byte_count);
    }
    copy[byte_count] = '\0';
    return open_owned(name, copy, byte_count, out, err);
}

void gal_json_close(gal_json_doc *doc)
{
    if (doc == NULL) {
        return;
    }
    cJSON_Delete(doc->root);
    free(doc->text);
    free(doc->name);
    free(doc);
}

gal_json_cursor gal_json_root(gal_json_doc *doc)
{
    return (gal_json_cursor){.doc = doc, .node = doc->root};
}

void gal_json_hash(const gal_json_doc *doc, char text[GAL_HASH_BYTES])
{
    (void)snprintf(text, GAL_HASH_BYTES, "%016llx",
                   (unsigned long long)gal_fnv(GAL_FNV_START, doc->text, doc->byte_count));
}
