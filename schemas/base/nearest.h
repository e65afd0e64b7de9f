/* Names as people write them: without regard to case and punctuation, and suggestions for misspelt ones. */
#ifndef GAL_SCHEMAS_BASE_NEAREST_H
#define GAL_SCHEMAS_BASE_NEAREST_H

#include <stdbool.h>
#include <stdint.h>

enum { GAL_EDITS_FAR = 1000, GAL_WORD_BYTES = 64 };

/* The form in which words are compared where case and punctuation do not matter: small letters and digits, and points
 * between digits ("Meta_Llama-3.1 8B" gives "metallama3.18b", "ZeRO-3" gives "zero3"). False, and "", if that is empty
 * or longer than 63 bytes. */
bool gal_word_fold(const char *word, char out[GAL_WORD_BYTES]);
/* Whether two words have the same such form. */
bool gal_word_same(const char *a, const char *b);

/* Letters to insert, delete, replace or swap with their neighbour to make b of a; GAL_EDITS_FAR if a word is longer
 * than 63 bytes or the edits are more than a third of the longer word (at least 1 and, from 4 letters on, 2 are
 * allowed): too far for a suggestion. */
uint32_t gal_edits_between(const char *a, const char *b);

/* The name with the fewest edits, the first of equals; NULL if all are too far. NULL names are skipped. */
const char *gal_nearest_name(const char *word, const char *const *names, uint32_t name_count);

#endif
