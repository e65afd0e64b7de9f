/* Suggestions for misspelt names. */
#ifndef GAL_SCHEMAS_BASE_NEAREST_H
#define GAL_SCHEMAS_BASE_NEAREST_H

#include <stdint.h>

enum { GAL_EDITS_FAR = 1000 };

/* Letters to insert, delete, replace or swap with their neighbour to make b of a; GAL_EDITS_FAR if a word is longer
 * than 63 bytes or the edits are more than a third of the longer word (at least 1 and, from 4 letters on, 2 are
 * allowed): too far for a suggestion. */
uint32_t gal_edits_between(const char *a, const char *b);

/* The name with the fewest edits, the first of equals; NULL if all are too far. NULL names are skipped. */
const char *gal_nearest_name(const char *word, const char *const *names, uint32_t name_count);

#endif
