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

const gal_memory_unit *gal_memory_unit_of(uint64_t bytes)
{
    static const gal_memory_unit units[] = {{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}};
    return bytes >= 1000000000 ? &units[0] : bytes >= 1000000 ? &units[1] : &units[2];
}

const char *gal_memory_text(uint64_t bytes, char *buffer)
{
    const gal_memory_unit *unit = gal_memory_unit_of(bytes);
    (void)snprintf(buffer, GAL_FIGURE_TEXT_BYTES, "%.1f %s", (double)bytes / unit->bytes, unit->name);
    return buffer;
}

const char *gal_memory_of_text(uint64_t bytes, uint64_t limit_bytes, char *buffer)
{
    const gal_memory_unit *own = gal_memory_unit_of(bytes), *whole = gal_memory_unit_of(limit_bytes);
    (void)snprintf(buffer, GAL_FIGURE_TEXT_BYTES, "%.1f%s%s of %.1f %s", (double)bytes / own->bytes,
                   own == whole ? "" : " ", own == whole ? "" : own->name, (double)limit_bytes / whole->bytes,
                   whole->name);
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
