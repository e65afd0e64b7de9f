/* Whether a file that is to be read as text is text. */
#ifndef GAL_RUNTIME_TRAIN_TEXT_CHECK_H
#define GAL_RUNTIME_TRAIN_TEXT_CHECK_H

#include "runtime/train/opened.h"

enum { GAL_TEXT_CHECKED_BYTES = 1 << 28, GAL_MAGIC_BYTES = 16 };

/* The name of the format that a file of byte_count bytes begins like ("a gzip file"), or NULL: none that is known.
 * bytes: the first GAL_MAGIC_BYTES, or all of a shorter file. */
const char *gal_known_format(const uint8_t *bytes, uint64_t byte_count);

/* GAL_OK if the file begins like no known format and its first GAL_TEXT_CHECKED_BYTES are UTF-8 without NUL. Else
 * GAL_ERR_DOCUMENT, which names the format, or the position of the first byte that is none. GAL_ERR_SYSTEM: the file
 * cannot be read. */
gal_code gal_text_check(const gal_opened *file, gal_error *err);

#endif
