#include "schemas/base/progress.h"

#include <stdio.h>
#include <string.h>

static const double interval_seconds = 0.2;

void gal_progress_line(char *line, size_t capacity, const char *what, uint32_t done, uint32_t count,
                       double work_seconds, double elapsed_seconds)
{
    char left[32] = "";
    if (count == 0) {
        (void)snprintf(line, capacity, "%s, %.0f s", what, elapsed_seconds);
        return;
    }
    if (done > 0 && done <= count) {
        (void)snprintf(left, sizeof left, ", %.0f s left", work_seconds / done * (count - done));
    }
    (void)snprintf(line, capacity, "%s: %u of %u, %.0f s%s", what, done, count, elapsed_seconds, left);
}

void gal_progress_show(gal_progress *progress, const char *what, uint32_t done, uint32_t count, double elapsed_seconds)
{
    char line[GAL_PROGRESS_COLUMNS + 1];
    const bool is_new = !progress->shown || strncmp(progress->what, what, sizeof progress->what - 1) != 0;
    if (!progress->terminal || (!is_new && elapsed_seconds - progress->shown_seconds < interval_seconds)) {
        return;
    }
    if (is_new) {
        (void)snprintf(progress->what, sizeof progress->what, "%s", what);
        progress->begin_seconds = elapsed_seconds;
    }
    progress->shown_seconds = elapsed_seconds;
    gal_progress_line(line, sizeof line, what, done, count, elapsed_seconds - progress->begin_seconds, elapsed_seconds);
    gal_progress_write(progress, line);
}

void gal_progress_write(gal_progress *progress, const char *line)
{
    if (progress->terminal) {
        (void)fprintf(stderr, "\r%-*.*s", GAL_PROGRESS_COLUMNS, GAL_PROGRESS_COLUMNS, line);
        (void)fflush(stderr);
        progress->shown = true;
    }
}

void gal_progress_end(gal_progress *progress)
{
    if (progress->shown) {
        (void)fprintf(stderr, "\r%-*s\r", GAL_PROGRESS_COLUMNS, "");
        (void)fflush(stderr);
        progress->shown = false;
    }
}
