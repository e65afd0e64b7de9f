#include "runtime/train/lines.h"

#include <stdlib.h>

typedef struct reader {
    gal_lines *lines;
    uint64_t first; /* of what has been read of the present line */
    uint32_t longest;
} reader;

static gal_code add(gal_lines *lines, uint64_t first, uint64_t end, gal_error *err)
{
    if (first == end) {
        return GAL_OK;
    }
    if (lines->count == lines->capacity) {
        const uint64_t capacity = lines->capacity == 0 ? 1024 : 2 * lines->capacity;
        gal_line *grown = realloc(lines->line, capacity * sizeof *grown);
        if (grown == NULL) {
            return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: lines of the data");
        }
        lines->line = grown;
        lines->capacity = capacity;
    }
    lines->line[lines->count++] = (gal_line){first, (uint32_t)(end - first)};
    return GAL_OK;
}

static gal_code read_chunk(void *context, uint64_t first, const int32_t *tokens, size_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    reader *r = context;
    for (size_t i = 0; i < count; i++) {
        const uint64_t at = first + i;
        const bool ends = tokens[i] == '\n';
        if (ends || at - r->first == r->longest) {
            GAL_TRY(add(r->lines, r->first, at, err));
            r->first = at + (ends ? 1 : 0);
        }
    }
cleanup:
    return code;
}

gal_code gal_lines_read(const gal_token_file *file, uint32_t longest, bool followed, gal_lines *out, gal_error *err)
{
    gal_code code = GAL_OK;
    reader r = {.lines = out, .longest = longest};
    *out = (gal_lines){0};
    if (!file->text) {
        return gal_fail(err, GAL_ERR_DOCUMENT,
                        "%s: the model pads: its samples are lines of a text, and token files have none", file->path);
    }
    GAL_TRY(gal_token_file_each(file, 0, file->token_count, read_chunk, &r, err));
    if (r.first < file->token_count) {
        GAL_TRY(add(out, r.first, file->token_count - (followed ? 1 : 0), err));
    }
cleanup:
    return code;
}

void gal_lines_free(gal_lines *lines)
{
    free(lines->line);
    *lines = (gal_lines){0};
}
