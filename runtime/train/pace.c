#include "runtime/train/pace.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double seconds_max = 1e9, steps_max = 99999999.0;

/* 0: no unit of time. */
static double seconds_of_unit(const char *unit)
{
    return strcmp(unit, "s") == 0 ? 1.0 : strcmp(unit, "m") == 0 ? 60.0 : strcmp(unit, "h") == 0 ? 3600.0 : 0.0;
}

static bool is_whole(double value)
{
    return value >= 1.0 && value <= steps_max && value == floor(value);
}

gal_code gal_pace_read(const char *option, const char *text, gal_pace *out, gal_error *err)
{
    char *unit = NULL;
    const bool digit = (text[0] >= '0' && text[0] <= '9') || text[0] == '.';
    const double value = digit ? strtod(text, &unit) : 0.0;
    const double seconds = digit ? value * seconds_of_unit(unit) : 0.0;
    if (seconds > 0.0 && seconds <= seconds_max) {
        *out = (gal_pace){.seconds = seconds};
        return GAL_OK;
    }
    if (digit && unit[0] == '\0' && is_whole(value)) {
        *out = (gal_pace){.steps = (uint64_t)value};
        return GAL_OK;
    }
    return gal_fail(err, GAL_ERR_USAGE,
                    "%s: expected a time such as 30s, 5m or 1h, or a number of steps such as 100, got \"%s\"", option,
                    text);
}

bool gal_pace_is_due(const gal_pace *pace, uint64_t step, double seconds_since)
{
    return pace->steps > 0 ? step % pace->steps == 0 : seconds_since >= pace->seconds;
}
