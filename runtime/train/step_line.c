#include "runtime/train/step_line.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static const double bytes_per_gb = 1e9, bytes_per_mb = 1e6, seconds_max = 1e15;
static const double flops_per_tera = 1e12, flops_per_giga = 1e9;

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

const char *gal_step_memory_text(double used_bytes, uint64_t limit_bytes, char text[GAL_MEMORY_BYTES])
{
    const double limit_gb = (double)limit_bytes / bytes_per_gb;
    if (used_bytes >= bytes_per_gb) {
        snprintf(text, GAL_MEMORY_BYTES, "%.1f of %.1f GB", used_bytes / bytes_per_gb, limit_gb);
    } else {
        snprintf(text, GAL_MEMORY_BYTES, "%.1f MB of %.1f GB", used_bytes / bytes_per_mb, limit_gb);
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

static void add_rate(text_end *to, double per_second)
{
    add(to, per_second < 100.0 ? "%.3g" : "%.0f", per_second);
}

static void add_flops(text_end *to, double flops_per_second)
{
    const bool tera = flops_per_second >= flops_per_tera;
    add(to, ", %.3g %s", flops_per_second / (tera ? flops_per_tera : flops_per_giga), tera ? "TFLOP/s" : "GFLOP/s");
}

void gal_step_line(char *line, size_t capacity, const gal_run_event *event, const gal_step *work, uint64_t step_count,
                   double seconds_left)
{
    char left[GAL_DURATION_BYTES], memory[GAL_MEMORY_BYTES];
    text_end to = {line, capacity, 0};
    const double *figure = event->figure;
    add(&to, "step %llu/%llu", (unsigned long long)event->step, (unsigned long long)step_count);
    add(&to, "  loss %.4f  %.3g s  ", figure[GAL_RUN_LOSS], figure[GAL_RUN_SECONDS]);
    add_rate(&to, figure[GAL_RUN_TOKENS_PER_SECOND]);
    add(&to, " %s/s", gal_model_token_noun(work->model));
    if (work->device_count > 1) {
        add(&to, ", per device ");
        add_rate(&to, figure[GAL_RUN_TOKENS_PER_SECOND_PER_DEVICE]);
    }
    add_flops(&to, figure[GAL_RUN_MODEL_FLOPS_PER_SECOND_PER_DEVICE]);
    add(&to, figure[GAL_RUN_MFU] < 0.01 ? ", MFU %.2g %%" : ", MFU %.1f %%", 100.0 * figure[GAL_RUN_MFU]);
    if (isfinite(figure[GAL_RUN_MEMORY_BYTES])) {
        add(&to, "  %s", gal_step_memory_text(figure[GAL_RUN_MEMORY_BYTES], work->device->memory_bytes, memory));
    }
    add(&to, "  lr %.3g  gradient %.3g", figure[GAL_RUN_LEARNING_RATE], figure[GAL_RUN_GRADIENT_NORM]);
    if (event->step < step_count) {
        add(&to, "  %s left", gal_duration_text(seconds_left, left));
    }
}
