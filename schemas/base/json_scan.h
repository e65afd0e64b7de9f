/* One linear pass over JSON text, stricter than cJSON's: it decides whether the text may be parsed at all, and it
 * finds where a value stands. For schemas/base/json*.c alone. */
#ifndef GAL_SCHEMAS_BASE_JSON_SCAN_H
#define GAL_SCHEMAS_BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GAL_JSON_DEPTH_MAX = 64, GAL_JSON_NUMBER_CHARACTERS_MAX = 63, GAL_JSON_VALUES_MAX = 1 << 22 };
#define GAL_JSON_WHOLE_MAX (UINT64_C(1) << 53)

/* Where a value stands: byte offsets in the text. */
typedef struct gal_json_span {
    size_t key_offset; /* of the opening quote of its key; = offset without a key */
    size_t offset;     /* first byte */
    size_t end;        /* one past the last byte; containers: one past the opening bracket */
} gal_json_span;

typedef struct gal_json_fault {
    size_t offset;
    char rule[96]; /* "" : the text is good */
} gal_json_fault;

/* Refuses: anything that is not RFC 8259 JSON, invalid UTF-8, U+0000 and lone surrogates, nesting deeper than
 * GAL_JSON_DEPTH_MAX, more than GAL_JSON_VALUES_MAX values (cJSON takes some 100 bytes for each), whole numbers past
 * 2^53, numbers beyond double or of more than GAL_JSON_NUMBER_CHARACTERS_MAX characters (cJSON would cut them), text
 * after the value. */
bool gal_json_scan(const char *text, size_t byte_count, gal_json_fault *fault);

/* The span of value number `index` in document order (a container before its contents; the root is 0). The text must
 * have passed gal_json_scan and have that many values. */
gal_json_span gal_json_find(const char *text, size_t byte_count, uint64_t index);

/* Calls `number` for each number of the text in document order, with whether it is written as a whole number. The text
 * must have passed gal_json_scan. */
void gal_json_each_number(const char *text, size_t byte_count, void (*number)(void *context, bool is_whole),
                          void *context);

/* Line and column (characters, not bytes) of an offset, both from 1. */
void gal_json_line_column(const char *text, size_t offset, uint32_t *line, uint32_t *column);

#endif
