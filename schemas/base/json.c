#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "schemas/base/json_internal.h"
#include "schemas/base/json_number.h"
#include "schemas/base/nearest.h"

/* Suggestions are looked for among so many keys of an object, for so many: beyond that it is no misspelt document. */
enum { KNOWN_KEYS_MAX = 128, UNKNOWN_KEYS_TRIED = 1000 };

/* Text behind what is in the buffer, cut to its capacity; the new length. */
static size_t append(char *buffer, size_t capacity, size_t used, const char *text)
{
    int added = snprintf(buffer + used, capacity - used, "%s", text);
    return used + (size_t)added < capacity ? used + (size_t)added : capacity - 1;
}

/* ---- members ---- */

static const cJSON *find_member(const gal_json_cursor *at, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(at->node, key);
}

static void note_absent(const gal_json_cursor *at, const char *key)
{
    gal_json_doc *doc = at->doc;
    doc->absent[doc->absent_count % GAL_JSON_ABSENT_MAX] = (gal_json_absent_key){at->node, key};
    doc->absent_count++;
}

/* The member as a cursor, marked as known; node NULL if there is none (an error then) or after an error. */
static gal_json_cursor member(const gal_json_cursor *at, const char *key)
{
    gal_json_doc *doc = at->doc;
    gal_json_cursor child = {.doc = doc, .parent = at, .key = key};
    if (at->node == NULL) {
        return child;
    }
    if (!cJSON_IsObject((const cJSON *)at->node)) {
        gal_json_record(at, GAL_JSON_AT_VALUE, GAL_JSON_GOT_VALUE, "must be an object");
        return child;
    }
    const cJSON *node = find_member(at, key);
    if (node == NULL) {
        note_absent(at, key);
        if (doc->error.code == GAL_OK) {
            gal_json_record(at, GAL_JSON_AT_VALUE, GAL_JSON_GOT_NOTHING, "key \"%s\" is missing", key);
            doc->missing_in = at->node;
            doc->missing_key = key;
        }
        return child;
    }
    ((cJSON *)(uintptr_t)node)->type |= GAL_JSON_KNOWN;
    child.node = doc->error.code == GAL_OK ? node : NULL;
    return child;
}

static uint32_t depth_of(const gal_json_cursor *at)
{
    uint32_t depth = 0;
    for (const gal_json_cursor *above = at->parent; above != NULL; above = above->parent) {
        depth++;
    }
    return depth;
}

static gal_json_cursor element(const gal_json_cursor *array, uint32_t index)
{
    gal_json_doc *doc = array->doc;
    gal_json_cursor child = {.doc = doc, .parent = array, .index = index};
    if (array->node == NULL || doc->error.code != GAL_OK) {
        return child;
    }
    gal_json_array_place *place = &doc->reached[depth_of(array)];
    if (place->array != array->node || place->index > index || place->element == NULL) {
        *place = (gal_json_array_place){array->node, ((const cJSON *)array->node)->child, 0};
    }
    while (place->element != NULL && place->index < index) {
        place->element = place->element->next;
        place->index++;
    }
    child.node = place->element;
    return child;
}

static gal_json_cursor nowhere(gal_json_cursor at)
{
    at.node = NULL;
    return at;
}

bool gal_json_has(const gal_json_cursor *at, const char *key)
{
    if (at->node == NULL || !cJSON_IsObject((const cJSON *)at->node)) {
        return false;
    }
    if (find_member(at, key) != NULL) {
        return true;
    }
    note_absent(at, key);
    return false;
}

uint32_t gal_json_member_count(const gal_json_cursor *at)
{
    return at->node == NULL ? 0 : (uint32_t)cJSON_GetArraySize((const cJSON *)at->node);
}

bool gal_json_is_null(const gal_json_cursor *at, const char *key)
{
    return at->node != NULL && cJSON_IsNull(find_member(at, key));
}

bool gal_json_next_member(const gal_json_cursor *at, gal_json_cursor *child)
{
    if (at->node == NULL || at->doc->error.code != GAL_OK) {
        return false;
    }
    if (!cJSON_IsObject((const cJSON *)at->node)) {
        gal_json_record(at, GAL_JSON_AT_VALUE, GAL_JSON_GOT_VALUE, "must be an object");
        return false;
    }
    const cJSON *node = child->node == NULL ? ((const cJSON *)at->node)->child : ((const cJSON *)child->node)->next;
    if (node == NULL) {
        return false;
    }
    ((cJSON *)(uintptr_t)node)->type |= GAL_JSON_KNOWN;
    *child = (gal_json_cursor){.doc = at->doc, .node = node, .parent = at, .key = node->string};
    return true;
}

bool gal_json_is_object(const gal_json_cursor *at)
{
    return at->node != NULL && cJSON_IsObject((const cJSON *)at->node);
}

gal_json_cursor gal_json_object(const gal_json_cursor *at, const char *key)
{
    gal_json_cursor child = member(at, key);
    if (child.node != NULL && !cJSON_IsObject((const cJSON *)child.node)) {
        gal_json_record(&child, GAL_JSON_AT_VALUE, GAL_JSON_GOT_VALUE, "must be an object");
        return nowhere(child);
    }
    return child;
}

static void check_array(const gal_json_cursor *at, uint32_t min_count, uint32_t max_count, uint32_t *count)
{
    uint64_t found = 0;
    for (const cJSON *node = ((const cJSON *)at->node)->child; node != NULL; node = node->next) {
        found++;
    }
    if (found >= min_count && found <= max_count) {
        *count = (uint32_t)found;
    } else if (min_count == max_count) {
        gal_json_record(at, GAL_JSON_AT_VALUE, GAL_JSON_GOT_NOTHING, "must have %u elements, got %llu", min_count,
                        (unsigned long long)found);
    } else {
        gal_json_record(at, GAL_JSON_AT_VALUE, GAL_JSON_GOT_NOTHING, "must have %u to %u elements, got %llu", min_count,
                        max_count, (unsigned long long)found);
    }
}

static gal_json_cursor as_array(gal_json_cursor child, uint32_t min_count, uint32_t max_count, uint32_t *count)
{
    *count = 0;
    if (child.node == NULL) {
        return child;
    }
    if (!cJSON_IsArray((const cJSON *)child.node)) {
        gal_json_record(&child, GAL_JSON_AT_VALUE, GAL_JSON_GOT_VALUE, "must be an array");
        return nowhere(child);
    }
    check_array(&child, min_count, max_count, count);
    return child.doc->error.code == GAL_OK ? child : nowhere(child);
}

gal_json_cursor gal_json_array(const gal_json_cursor *at, const char *key, uint32_t min_count, uint32_t max_count,
                               uint32_t *count)
{
    return as_array(member(at, key), min_count, max_count, count);
}

gal_json_cursor gal_json_element_array(const gal_json_cursor *array, uint32_t index, uint32_t min_count,
                                       uint32_t max_count, uint32_t *count)
{
    return as_array(element(array, index), min_count, max_count, count);
}

gal_json_cursor gal_json_element(const gal_json_cursor *array, uint32_t index)
{
    return element(array, index);
}

/* ---- values ---- */

static void record_bound(const gal_json_cursor *at, double value, double min, double max)
{
    char bound[GAL_NUMBER_TEXT_BYTES];
    bool is_below = value < min;
    if (is_below && (min == DBL_MIN || min == DBL_TRUE_MIN)) {
        gal_json_record(at, GAL_JSON_AT_VALUE, GAL_JSON_GOT_VALUE, "must be > 0");
    } else if (!is_below && max == GAL_JSON_BELOW_ONE) {
        gal_json_record(at, GAL_JSON_AT_VALUE, GAL_JSON_GOT_VALUE, "must be < 1");
    } else {
        gal_json_number_text(is_below ? min : max, bound, sizeof bound);
        gal_json_record(at, GAL_JSON_AT_VALUE, GAL_JSON_GOT_VALUE, "must be %s %s", is_below ? ">=" : "<=", bound);
    }
}

static double f64_at(const gal_json_cursor *at, double min, double max)
{
    const cJSON *node = at->node;
    if (node == NULL) {
        return 0.0;
    }
    if (!cJSON_IsNumber(node)) {
        gal_json_record(at, GAL_JSON_AT_VALUE, GAL_JSON_GOT_VALUE, "must be a number");
        return 0.0;
    }
    if (node->valuedouble < min || node->valuedouble > max) {
        record_bound(at, node->valuedouble, min, max);
        return 0.0;
    }
    return node->valuedouble;
}

double gal_json_number(const gal_json_cursor *at, double min, double max)
{
    return f64_at(at, min, max);
}

static uint64_t u64_at(const gal_json_cursor *at, uint64_t min, uint64_t max)
{
    const cJSON *node = at->node;
    if (node == NULL) {
        return 0;
    }
    if (!cJSON_IsNumber(node) || (node->type & GAL_JSON_WHOLE) == 0) {
        gal_json_record(at, GAL_JSON_AT_VALUE, GAL_JSON_GOT_VALUE, "must be a whole number");
        return 0;
    }
    if (node->valuedouble < 0.0 || (uint64_t)node->valuedouble < min) {
        gal_json_record(at, GAL_JSON_AT_VALUE, GAL_JSON_GOT_VALUE, "must be >= %llu", (unsigned long long)min);
        return 0;
    }
    if ((uint64_t)node->valuedouble > max) {
        gal_json_record(at, GAL_JSON_AT_VALUE, GAL_JSON_GOT_VALUE, "must be <= %llu", (unsigned long long)max);
        return 0;
    }
    return (uint64_t)node->valuedouble;
}

double gal_json_f64(const gal_json_cursor *at, const char *key, double min, double max)
{
    gal_json_cursor child = member(at, key);
    return f64_at(&child, min, max);
}

uint64_t gal_json_u64(const gal_json_cursor *at, const char *key, uint64_t min, uint64_t max)
{
    gal_json_cursor child = member(at, key);
    return u64_at(&child, min, max);
}

uint32_t gal_json_u32(const gal_json_cursor *at, const char *key, uint32_t min, uint32_t max)
{
    return (uint32_t)gal_json_u64(at, key, min, max);
}

double gal_json_element_f64(const gal_json_cursor *array, uint32_t index, double min, double max)
{
    gal_json_cursor child = element(array, index);
    return f64_at(&child, min, max);
}

uint64_t gal_json_element_u64(const gal_json_cursor *array, uint32_t index, uint64_t min, uint64_t max)
{
    gal_json_cursor child = element(array, index);
    return u64_at(&child, min, max);
}

bool gal_json_bool(const gal_json_cursor *at, const char *key)
{
    gal_json_cursor child = member(at, key);
    if (child.node == NULL) {
        return false;
    }
    if (!cJSON_IsBool((const cJSON *)child.node)) {
        gal_json_record(&child, GAL_JSON_AT_VALUE, GAL_JSON_GOT_VALUE, "must be true or false");
        return false;
    }
    return cJSON_IsTrue((const cJSON *)child.node);
}

static const char *text_at(const gal_json_cursor *at)
{
    if (at->node == NULL) {
        return NULL;
    }
    if (!cJSON_IsString((const cJSON *)at->node)) {
        gal_json_record(at, GAL_JSON_AT_VALUE, GAL_JSON_GOT_VALUE, "must be a string");
        return NULL;
    }
    return ((const cJSON *)at->node)->valuestring;
}

void gal_json_text(const gal_json_cursor *at, char *buffer, size_t capacity)
{
    const char *text = text_at(at);
    buffer[0] = '\0';
    if (text == NULL) {
        return;
    }
    if (strlen(text) >= capacity) {
        gal_json_record(at, GAL_JSON_AT_VALUE, GAL_JSON_GOT_VALUE, "must have at most %zu bytes", capacity - 1);
        return;
    }
    memcpy(buffer, text, strlen(text) + 1);
}

void gal_json_string(const gal_json_cursor *at, const char *key, char *buffer, size_t capacity)
{
    const gal_json_cursor child = member(at, key);
    gal_json_text(&child, buffer, capacity);
}

uint32_t gal_json_enum(const gal_json_cursor *at, const char *key, const char *const *names, uint32_t name_count)
{
    gal_json_cursor child = member(at, key);
    const char *text = text_at(&child);
    if (text == NULL) {
        return 0;
    }
    for (uint32_t i = 0; i < name_count; i++) {
        if (strcmp(text, names[i]) == 0) {
            return i;
        }
    }
    char list[3 * GAL_ERROR_TEXT_BYTES / 4];
    size_t used = 0;
    list[0] = '\0';
    for (uint32_t i = 0; i < name_count; i++) {
        used = append(list, sizeof list, used, i == 0 ? "" : ", ");
        used = append(list, sizeof list, used, names[i]);
    }
    gal_json_record(&child, GAL_JSON_AT_VALUE, GAL_JSON_GOT_VALUE, "must be %s%s", name_count == 1 ? "" : "one of ",
                    list);
    return 0;
}

/* ---- unknown keys ---- */

static bool is_marked(const cJSON *node)
{
    return (node->type & GAL_JSON_KNOWN) != 0;
}

/* The keys of an object that were asked for, those that are not there first: likelier meant. */
static uint32_t known_keys(const gal_json_cursor *at, const char **keys)
{
    const gal_json_doc *doc = at->doc;
    uint32_t count = 0;
    uint32_t absent = doc->absent_count < GAL_JSON_ABSENT_MAX ? doc->absent_count : GAL_JSON_ABSENT_MAX;
    for (uint32_t i = 0; i < absent; i++) {
        if (doc->absent[i].object == at->node) {
            keys[count++] = doc->absent[i].key;
        }
    }
    for (const cJSON *node = ((const cJSON *)at->node)->child; node != NULL && count < KNOWN_KEYS_MAX;
         node = node->next) {
        if (is_marked(node)) {
            keys[count++] = node->string;
        }
    }
    return count;
}

void gal_json_reject_unknown(const gal_json_cursor *at)
{
    gal_json_doc *doc = at->doc;
    bool is_missing_here = doc->error.code != GAL_OK && doc->missing_in != NULL && doc->missing_in == at->node;
    if (at->node == NULL || (doc->error.code != GAL_OK && !is_missing_here)) {
        return;
    }
    const char *known[KNOWN_KEYS_MAX];
    const uint32_t known_count = known_keys(at, known);
    uint32_t tried = 0;
    for (const cJSON *node = ((const cJSON *)at->node)->child; node != NULL && tried < UNKNOWN_KEYS_TRIED;
         node = node->next) {
        if (is_marked(node)) {
            continue;
        }
        tried++;
        const char *nearest = gal_nearest_name(node->string, known, known_count);
        if (is_missing_here) {
            if (nearest == NULL || strcmp(nearest, doc->missing_key) != 0) {
                continue; /* not a misspelt form of what is missing: the first error stands */
            }
            doc->error = (gal_error){0};
        }
        gal_json_cursor child = {doc, node, at, node->string, 0};
        gal_json_record(&child, GAL_JSON_AT_KEY, GAL_JSON_GOT_NOTHING, "unknown key%s%s%s",
                        nearest == NULL ? "" : ", did you mean \"", nearest == NULL ? "" : nearest,
                        nearest == NULL ? "" : "\"?");
        return;
    }
}

void gal_json_accept_unknown(const gal_json_cursor *at)
{
    if (at->node == NULL) {
        return;
    }
    for (cJSON *node = ((const cJSON *)at->node)->child; node != NULL; node = node->next) {
        node->type |= GAL_JSON_KNOWN;
    }
}

uint32_t gal_json_expect_versions(const gal_json_cursor *root, const char *name, uint32_t oldest, uint32_t newest)
{
    gal_json_cursor document = member(root, "document");
    const char *text = text_at(&document);
    if (text != NULL && strcmp(text, name) != 0) {
        gal_json_record(&document, GAL_JSON_AT_VALUE, GAL_JSON_GOT_VALUE, "must be \"%s\"", name);
    }
    gal_json_cursor number = member(root, "version");
    uint64_t found = u64_at(&number, 0, UINT32_MAX);
    if (root->doc->error.code != GAL_OK) {
        return 0;
    }
    if (found < oldest || found > newest) {
        if (oldest == newest) {
            gal_json_record(&number, GAL_JSON_AT_VALUE, GAL_JSON_GOT_VALUE, "must be %u", newest);
        } else {
            gal_json_record(&number, GAL_JSON_AT_VALUE, GAL_JSON_GOT_VALUE, "must be %u to %u", oldest, newest);
        }
        return 0;
    }
    return (uint32_t)found;
}

void gal_json_expect_document(const gal_json_cursor *root, const char *name, uint32_t version)
{
    (void)gal_json_expect_versions(root, name, version, version);
}
