#include "planner/answers/training.h"

#include <stdlib.h>
#include <string.h>

static const double tokens_most = 1e18;

/* The factor that a letter stands for; 0: none. */
static double factor_of(char letter)
{
    switch (letter) {
    case '\0':
        return 1.0;
    case 'k':
    case 'K':
        return 1e3;
    case 'm':
    case 'M':
        return 1e6;
    case 'b':
    case 'B':
        return 1e9;
    case 't':
    case 'T':
        return 1e12;
    default:
        return 0.0;
    }
}

gal_code gal_training_read_tokens(const char *text, double *out, gal_error *err)
{
    char *end = NULL;
    const bool plain = strspn(text, "0123456789.") > 0 && strpbrk(text, "xX") == NULL;
    const double value = plain ? strtod(text, &end) : 0.0;
    const double factor = plain && (end[0] == '\0' || end[1] == '\0') ? factor_of(end[0]) : 0.0;
    const double tokens = value * factor;
    if (!(tokens >= 1.0 && tokens <= tokens_most)) {
        return gal_fail(err, GAL_ERR_USAGE, "--tokens: expected a count such as 300B, 15T or 1e12, got \"%s\"", text);
    }
    *out = tokens;
    return GAL_OK;
}

void gal_training_of(double tokens, const gal_figures *figures, uint32_t device_count, gal_training *out)
{
    const double hours = tokens / figures->tokens_per_second / 3600.0;
    *out = (gal_training){.tokens = tokens, .days = hours / 24.0, .device_hours = hours * device_count};
}

void gal_training_put(gal_json_writer *out, const gal_training *training)
{
    if (training->tokens > 0.0) {
        gal_json_put_f64(out, "training_tokens", training->tokens);
        gal_json_put_f64(out, "training_days", training->days);
        gal_json_put_f64(out, "training_device_hours", training->device_hours);
    }
}
