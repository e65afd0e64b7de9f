/* The lines of a text, each a sample of its own, shorter than the model's sequence or as long. */
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

/* All lines but empty ones; one of more than `longest` tokens becomes several. followed: behind the last token of each
 * there is one more in the file, as where every token is to say the next: the last token of a file that does not end
 * its last line is then left out. Afterwards gal_lines_free, also on failure. GAL_ERR_DOCUMENT: not a text;
 * GAL_ERR_SYSTEM: out of memory, or the file cannot be read. */
gal_code gal_lines_read(const gal_token_file *file, uint32_t longest, bool followed, gal_lines *out, gal_error *err);
void gal_lines_free(gal_lines *lines);

#endif
