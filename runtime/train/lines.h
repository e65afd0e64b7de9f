/* Samples of their own lengths: the lines of a text, or the sequences of a pair of Megatron-LM's. */
#ifndef GAL_RUNTIME_TRAIN_LINES_H
#define GAL_RUNTIME_TRAIN_LINES_H

#include "runtime/train/token_file.h"

typedef struct gal_line {
    uint64_t first;       /* token of the file */
    uint32_t token_count; /* at least 1; the line's end is none of them */
} gal_line;

typedef struct gal_lines {
    gal_line *line; /* owned */
    uint64_t count, capacity;
} gal_lines;

/* All lines or sequences but empty ones; one of more than `longest` tokens becomes several. followed: every token is to
 * say the next, so behind the last one of each there must be one more, which is no token of the sample: that is the
 * line's end, but the last token of a sequence, and of a text whose last line does not end. Afterwards gal_lines_free,
 * also on failure. GAL_ERR_DOCUMENT: tokens without such bounds; GAL_ERR_SYSTEM: out of memory, or the file cannot be
 * read. */
gal_code gal_lines_read(const gal_token_file *file, uint32_t longest, bool followed, gal_lines *out, gal_error *err);
void gal_lines_free(gal_lines *lines);

#endif
