/* Numbers as people read them. */
#ifndef GAL_PLANNER_ANSWERS_FIGURE_TEXT_H
#define GAL_PLANNER_ANSWERS_FIGURE_TEXT_H

#include "schemas/cluster.h"

enum { GAL_FIGURE_TEXT_BYTES = 48 };

/* From a thousand on a whole number with commas, else four digits: "13,629", "701.8", "0.0004107". value >= 0, finite;
 * buffer holds GAL_FIGURE_TEXT_BYTES. */
const char *gal_figure_text(double value, char *buffer);

/* Bytes in GB of 10^9 with one decimal, below 0.1 GB in MB: "74.2 GB", "4.0 MB". Likewise. */
const char *gal_memory_text(uint64_t bytes, char *buffer);

/* The same, of a limit: "74.2 of 80.0 GB", "4.0 MB of 80.0 GB". */
const char *gal_memory_of_text(uint64_t bytes, uint64_t limit_bytes, char *buffer);

/* A count of tokens with the letter that --tokens takes: "15 T", "1.5 B", "300". */
const char *gal_tokens_text(double tokens, char *buffer);

/* "GPU", or "device" where the cluster says nothing of multiprocessors: a processor. */
const char *gal_device_noun(const gal_device *device);

#endif
