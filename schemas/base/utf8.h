/* UTF-8 as in RFC 3629: no overlong forms, no surrogates, at most U+10FFFF. */
#ifndef GAL_SCHEMAS_BASE_UTF8_H
#define GAL_SCHEMAS_BASE_UTF8_H

#include <stddef.h>

/* Bytes of the character that begins at text[0], of byte_count bytes that are there: 1 to 4; 0 if it is none. */
size_t gal_utf8_length(const char *text, size_t byte_count);

#endif
