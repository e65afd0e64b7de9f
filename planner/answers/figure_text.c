#include "planner/answers/figure_text.h"

#include <stdio.h>

const char *gal_figure_text(double value, char *buffer)
{
    char digits[GAL_FIGURE_TEXT_BYTES];
    if (value < 999.95 || value >= 1e15) {
        (void)snprintf(buffer, GAL_FIGURE_TEXT_BYTES, "%.4g", value);
        return buffer;
    }
    const size_t length = (size_t)snprintf(digits, sizeof digits, "%.0f", value);
    size_t at = 0;
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            buffer[at++] = ',';
        }
        buffer[at++] = digits[i];
    }
    buffer[at] = '\0';
    return buffer;
}

static bool in_megabytes(uint64_t bytes)
{
    return bytes < 95000000;
}

static const char *unit_of(uint64_t bytes)
{
    return in_megabytes(bytes) ? "MB" : "GB";
}

static double in_unit(uint64_t bytes)
{
    return (double)bytes / (in_megabytes(bytes) ? 1e6 : 1e9);
}

const char *gal_memory_text(uint64_t bytes, char *buffer)
{
    (void)snprintf(buffer, GAL_FIGURE_TEXT_BYTES, "%.1f %s", in_unit(bytes), unit_of(bytes));
    return buffer;
}

const char *gal_memory_of_text(uint64_t bytes, uint64_t limit_bytes, char *buffer)
{
    const bool same = in_megabytes(bytes) == in_megabytes(limit_bytes);
    (void)snprintf(buffer, GAL_FIGURE_TEXT_BYTES, "%.1f%s%s of %.1f %s", in_unit(bytes), same ? "" : " ",
                   same ? "" : unit_of(bytes), in_unit(limit_bytes), unit_of(limit_bytes));
    return buffer;
}

const char *gal_tokens_text(double tokens, char *buffer)
{
    static const struct {
        double factor;
        const char *letter;
    } scales[] = {{1e12, " T"}, {1e9, " B"}, {1e6, " M"}, {1e3, " K"}, {1.0, ""}};
    size_t i = 0;
    while (tokens < scales[i].factor && i + 1 < sizeof scales / sizeof scales[0]) {
        i++;
    }
    (void)snprintf(buffer, GAL_FIGURE_TEXT_BYTES, "%.4g%s", tokens / scales[i].factor, scales[i].letter);
    return buffer;
}

const char *gal_device_noun(const gal_device *device)
{
    return device->multiprocessor_count > 0 ? "GPU" : "device";
}
