/* How often a run prints a line: after so many seconds, or so many steps. */
#ifndef GAL_RUNTIME_TRAIN_PACE_H
#define GAL_RUNTIME_TRAIN_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/status.h"

/* One of the two is 0. */
typedef struct gal_pace {
    double seconds;
    uint64_t steps;
} gal_pace;

/* "30s", "0.5s", "5m", "2h": a time; "100": steps. GAL_ERR_USAGE, with option as the name of what was given. */
gal_code gal_pace_read(const char *option, const char *text, gal_pace *out, gal_error *err);
/* Whether a line is due at a step, so many seconds after the line before. */
bool gal_pace_is_due(const gal_pace *pace, uint64_t step, double seconds_since);

#endif
