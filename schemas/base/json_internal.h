/* What the files of the JSON reader share: schemas/base/json*.c alone. */
#ifndef GAL_SCHEMAS_BASE_JSON_INTERNAL_H
#define GAL_SCHEMAS_BASE_JSON_INTERNAL_H

#include <cJSON.h>

#include "schemas/base/json.h"
#include "schemas/base/json_scan.h"

enum {
    GAL_JSON_ABSENT_MAX = 16,
    /* Own marks beside cJSON's, which uses the low ten bits of `type` and compares the low eight. */
    GAL_JSON_KNOWN = 1 << 16, /* asked for */
    GAL_JSON_WHOLE = 1 << 17  /* a number without point and exponent */
};

/* A key that was asked for and is not there: a candidate for suggestions. */
typedef struct gal_json_absent_key {
    const cJSON *object;
    const char *key;
} gal_json_absent_key;

/* The element of an array that was read last: going through the array costs one step per element. */
typedef struct gal_json_array_place {
    const cJSON *array, *element;
    uint32_t index;
} gal_json_array_place;

struct gal_json_doc {
    char *name;
    char *text;
    size_t byte_count;
    cJSON *root;
    gal_error error;
    const cJSON *missing_in; /* the error is a missing key of this object: reject_unknown may know better */
    const char *missing_key;
    uint32_t absent_count;
    gal_json_absent_key absent[GAL_JSON_ABSENT_MAX];
    gal_json_array_place reached[GAL_JSON_DEPTH_MAX + 1]; /* by depth: arrays of arrays keep their places */
};

/* The tree in document order. Start: {.at = root}. */
typedef struct gal_json_walk {
    const cJSON *at; /* NULL at the end */
    const cJSON *above[GAL_JSON_DEPTH_MAX + 1];
    uint32_t depth;
} gal_json_walk;

void gal_json_walk_next(gal_json_walk *walk);

typedef enum gal_json_place { GAL_JSON_AT_VALUE, GAL_JSON_AT_KEY } gal_json_place;
typedef enum gal_json_got { GAL_JSON_GOT_NOTHING, GAL_JSON_GOT_VALUE } gal_json_got;

/* The first error of the document: "FILE:LINE:COLUMN: PATH: rule[, got VALUE]". Nothing where there is no node. */
void gal_json_record(const gal_json_cursor *at, gal_json_place where, gal_json_got what, const char *rule_format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
