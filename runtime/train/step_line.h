/* The line about a step that a run prints for people:
 *     step 120/1000  loss 2.3456  0.64 s  51234 tokens/s, per device 12809, 408 TFLOP/s, MFU 41.2 %  74.2 of 80.0 GB
 *     lr 0.0003  gradient 1.23  12:34 left
 * (one line; TFLOP/s are a device's too, of the model's FLOPs). The part of the devices is left out of one device.
 * Memory is left out where it is not known. */
#ifndef GAL_RUNTIME_TRAIN_STEP_LINE_H
#define GAL_RUNTIME_TRAIN_STEP_LINE_H

#include <stddef.h>

#include "runtime/train/run_log.h"
#include "schemas/figures.h"

/* event          figures of the step; rates may be means over the steps since the line before
 * work           the model, which says what a token is, and the device, which has so much memory
 * step_count     where the run ends
 * seconds_left   until then */
void gal_step_line(char *line, size_t capacity, const gal_run_event *event, const gal_step *work, uint64_t step_count,
                   double seconds_left);

enum { GAL_DURATION_BYTES = 32, GAL_MEMORY_BYTES = 48 };
/* "74.2 of 80.0 GB"; "45.1 MB of 1.6 GB" below a GB. */
const char *gal_step_memory_text(double used_bytes, uint64_t limit_bytes, char text[GAL_MEMORY_BYTES]);
/* "2:05", "1:02:05": minutes and seconds, with hours from one hour on. */
const char *gal_duration_text(double seconds, char text[GAL_DURATION_BYTES]);

#endif
