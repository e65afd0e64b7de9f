/* The line about a step that a run prints for people:
 *     step 120/1000  loss 2.3456  51234 tokens/s  12808 per device  MFU 41.2 %  1.2 of 4.0 GB  lr 0.0003  gradient 1.23
 *     12:34 left
 * (one line). Figures that are not known are left out. */
#ifndef GAL_RUNTIME_TRAIN_STEP_LINE_H
#define GAL_RUNTIME_TRAIN_STEP_LINE_H

#include <stddef.h>

#include "runtime/train/run_log.h"

/* event                figures of the step; rates may be means over the steps since the line before
 * step_count           where the run ends
 * memory_limit_bytes   of a device; 0: not known
 * seconds_left         until the run ends */
void gal_step_line(char *line, size_t capacity, const gal_run_event *event, uint64_t step_count,
                   uint64_t memory_limit_bytes, double seconds_left);

enum { GAL_DURATION_BYTES = 32 };
/* "2:05", "1:02:05": minutes and seconds, with hours from one hour on. */
const char *gal_duration_text(double seconds, char text[GAL_DURATION_BYTES]);

#endif
