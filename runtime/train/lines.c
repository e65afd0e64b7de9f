#include "runtime/train/lines.h"

#include <stdlib.h>

typedef struct reader {
    gal_lines *lines;
    uint64_t first; /* of the present line */
    uint32_t longest;
    bool followed;
} reader;

static gal_code add(gal_lines *lines, uint64_t first, uint32_t token_count, gal_error *err)
{
    if (lines->count == lines->capacity) {
        const uint64_t capacity = lines->capacity == 0 ? 1024 : 2 * lines->capacity;
        gal_line *grown = realloc(lines->line, capacity * sizeof *grown);
        if (grown == NULL) {
            return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: lines of the data");
        }
        lines->line = grown;
        lines->capacity = capacity;
    }
    lines->line[lines->count++] = (gal_line){first, token_count};
    return GAL_OK;
}

/* Tokens [first, end) as samples. */
static gal_code add_pieces(reader *r, uint64_t first, uint64_t end, gal_error *err)
{
    gal_code code = GAL_OK;
    while (first < end) {
        const uint32_t count = end - first < r->longest ? (uint32_t)(end - first) : r->longest;
        GAL_TRY(add(r->lines, first, count, err));
        first += count;
    }
cleanup:
    return code;
}

static gal_code read_text(void *context, uint64_t first, const int32_t *tokens, size_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    reader *r = context;
    for (size_t i = 0; i < count; i++) {
        if (tokens[i] == '\n') {
            GAL_TRY(add_pieces(r, r->first, first + i, err));
            r->first = first + i + 1;
        }
    }
cleanup:
    return code;
}

static gal_code read_sequence(void *context, uint64_t first, uint64_t end, gal_error *err)
{
    reader *r = context;
    return first == end ? GAL_OK : add_pieces(r, first, end - (r->followed ? 1 : 0), err);
}

gal_code gal_lines_read(const gal_token_file *file, uint32_t longest, bool followed, gal_lines *out, gal_error *err)
{
    gal_code code = GAL_OK;
    reader r = {.lines = out, .longest = longest, .followed = followed};
    *out = (gal_lines){0};
    if (file->text) {
        GAL_TRY(gal_token_file_each(file, 0, file->token_count, read_text, &r, err));
        GAL_TRY(read_sequence(&r, r.first, file->token_count, err));
    } else {
        GAL_TRY(gal_token_file_sequences(file, read_sequence, &r, err));
    }
cleanup:
    return code;
}

void gal_lines_free(gal_lines *lines)
{
    free(lines->line);
    *lines = (gal_lines){0};
}
