/* Numbers as people read them. */
#ifndef GAL_PLANNER_ANSWERS_FIGURE_TEXT_H
#define GAL_PLANNER_ANSWERS_FIGURE_TEXT_H

#include "schemas/cluster.h"

enum { GAL_FIGURE_TEXT_BYTES = 48 };

/* From a thousand on a whole number with commas, else four digits: "13,629", "701.8", "0.0004107". value >= 0, finite;
 * buffer holds GAL_FIGURE_TEXT_BYTES. */
const char *gal_figure_text(double value, char *buffer);

/* The unit in which so many bytes are told, a power of ten: GB, below 1 GB MB, below 1 MB kB. */
typedef struct gal_memory_unit {
    const char *name;
    double bytes;
} gal_memory_unit;
const gal_memory_unit *gal_memory_unit_of(uint64_t bytes);

/* Bytes in their unit with one decimal: "74.2 GB". buffer as above. */
const char *gal_memory_text(uint64_t bytes, char *buffer);

/* The same, of a limit: "74.2 of 80.0 GB", "4.0 MB of 80.0 GB". */
const char *gal_memory_of_text(uint64_t bytes, uint64_t limit_bytes, char *buffer);

/* A count of tokens with the letter that --tokens takes: "15 T", "1.5 B", "300". */
const char *gal_tokens_text(double tokens, char *buffer);

/* "GPU", or "device" where the cluster says nothing of multiprocessors: a processor. */
const char *gal_device_noun(const gal_device *device);

#endif
