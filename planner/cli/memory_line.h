/* The memory of the fullest device as commands print it: of how much, and by kind. */
#ifndef GAL_PLANNER_CLI_MEMORY_LINE_H
#define GAL_PLANNER_CLI_MEMORY_LINE_H

#include "costmodel/memory_kinds.h"
#include "schemas/base/json.h"

enum { GAL_MEMORY_LINE_BYTES = 256, GAL_MEMORY_WORDS_BYTES = 32 };

/* "74.2 GB"; less than 1 GB is in MB, less than 1 MB in kB (powers of ten). */
void gal_memory_words(uint64_t bytes, char words[GAL_MEMORY_WORDS_BYTES]);

/* "74.2 of 80.0 GB: weights 2.0, gradients 4.0, optimizer 12.0, activations 51.2, workspace 5.0". Units as
 * above. A kind that takes nothing is left out. */
void gal_memory_line(const gal_memory_kinds *kinds, uint64_t memory_bytes, char line[GAL_MEMORY_LINE_BYTES]);

/* An object "memory": stage, memory_bytes, peak_bytes and each kind's, "weights_bytes" and so on. */
void gal_memory_put(gal_json_writer *out, const gal_memory_kinds *kinds, uint32_t stage, uint64_t memory_bytes);

#endif
