#include "runtime/train/step_line.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static const double bytes_per_gb = 1e9, bytes_per_mb = 1e6, seconds_max = 1e15;

const char *gal_duration_text(double seconds, char text[GAL_DURATION_BYTES])
{
    const unsigned long long whole = (unsigned long long)(fmin(fmax(seconds, 0.0), seconds_max) + 0.5);
    if (whole < 3600) {
        snprintf(text, GAL_DURATION_BYTES, "%llu:%02llu", whole / 60, whole % 60);
    } else {
        snprintf(text, GAL_DURATION_BYTES, "%llu:%02llu:%02llu", whole / 3600, whole / 60 % 60, whole % 60);
    }
    return text;
}

typedef struct text_end {
    char *line;
    size_t capacity, used;
} text_end;

static void add(text_end *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(text_end *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(to->line + to->used, to->capacity - to->used, format, arguments);
    va_end(arguments);
    to->used += length > 0 ? (size_t)length : 0;
    to->used = to->used < to->capacity ? to->used : to->capacity - 1;
}

static void add_rate(text_end *to, double tokens_per_second, const char *unit)
{
    if (isfinite(tokens_per_second)) {
        add(to, tokens_per_second < 100.0 ? "  %.3g %s" : "  %.0f %s", tokens_per_second, unit);
    }
}

static void add_memory(text_end *to, double used_bytes, uint64_t limit_bytes)
{
    const double most = fmax(used_bytes, (double)limit_bytes);
    const double unit = most >= bytes_per_gb ? bytes_per_gb : bytes_per_mb;
    if (!isfinite(used_bytes) || used_bytes <= 0.0) {
        return;
    }
    add(to, "  %.1f ", used_bytes / unit);
    if (limit_bytes > 0) {
        add(to, "of %.1f ", (double)limit_bytes / unit);
    }
    add(to, unit == bytes_per_gb ? "GB" : "MB");
}

void gal_step_line(char *line, size_t capacity, const gal_run_event *event, uint64_t step_count,
                   uint64_t memory_limit_bytes, double seconds_left)
{
    char left[GAL_DURATION_BYTES];
    text_end to = {line, capacity, 0};
    const double *figure = event->figure;
    const double per_device = figure[GAL_RUN_TOKENS_PER_SECOND_PER_DEVICE];
    add(&to, "step %llu/%llu", (unsigned long long)event->step, (unsigned long long)step_count);
    add(&to, "  loss %.4f", figure[GAL_RUN_LOSS]);
    add_rate(&to, figure[GAL_RUN_TOKENS_PER_SECOND], "tokens/s");
    if (per_device < figure[GAL_RUN_TOKENS_PER_SECOND]) {
        add_rate(&to, per_device, "per device");
    }
    if (isfinite(figure[GAL_RUN_MFU])) {
        add(&to, "  MFU %.1f %%", 100.0 * figure[GAL_RUN_MFU]);
    }
    add_memory(&to, figure[GAL_RUN_MEMORY_BYTES], memory_limit_bytes);
    add(&to, "  lr %.3g  gradient %.3g", figure[GAL_RUN_LEARNING_RATE], figure[GAL_RUN_GRADIENT_NORM]);
    if (event->step < step_count) {
        add(&to, "  %s left", gal_duration_text(seconds_left, left));
    }
}
