/* The text of a double: the fewest of up to 17 digits that read back to the same bits. For schemas/base alone. */
#ifndef GAL_SCHEMAS_BASE_JSON_NUMBER_H
#define GAL_SCHEMAS_BASE_JSON_NUMBER_H

#include <stddef.h>

enum { GAL_NUMBER_TEXT_BYTES = 32 };

/* value is finite. Whole numbers past 2^53 get an exponent: written plainly the strict reader refuses them. */
void gal_json_number_text(double value, char *text, size_t capacity);

#endif
