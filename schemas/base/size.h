/* Sizes in bytes, as people write them: 80GB, 80 GiB, 0.5TiB, 1e9, 1048576.
 *
 * A size is a decimal number, perhaps with a fraction and an exponent, then perhaps spaces and a unit. Letter case does
 * not matter. KB, MB, GB, TB and PB, or K, M, G, T and P alone, are powers of 1000, as on the labels of devices (an
 * "80 GB" GPU). KiB, MiB, GiB, TiB and PiB are powers of 1024. B, or no unit, is bytes. */
#ifndef GAL_SCHEMAS_BASE_SIZE_H
#define GAL_SCHEMAS_BASE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* For error messages: "expected " GAL_SIZE_FORMS. */
#define GAL_SIZE_FORMS "a size such as 80GB (10^9), 80GiB (2^30), 0.5TiB, 1e9 or 1048576"
/* For help: one sentence. */
#define GAL_SIZE_HELP                                                                                                  \
    "Sizes: 80GB and 80G are 80 x 10^9 bytes, 80GiB is 80 x 2^30; so with K, M, T and P; also 0.5TiB, 1e9 and "        \
    "bytes.\n"

/* The arithmetic is exact. A size that is not a whole number of bytes (0.3KiB) is rounded down: a size is a limit here,
 * and less is the safe side. False, and *bytes left alone, if the text is no size, has more than 19 digits, or is 2^64
 * bytes or more. */
bool gal_size_parse(const char *text, uint64_t *bytes);

#endif
