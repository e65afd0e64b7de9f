/* How far long work is, in one line of a terminal that is written over; nothing in a pipe. */
#ifndef GAL_SCHEMAS_BASE_PROGRESS_H
#define GAL_SCHEMAS_BASE_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GAL_PROGRESS_COLUMNS = 70 };

/* Zeroed, with terminal set: what is written on stderr is read by a person. */
typedef struct gal_progress {
    bool terminal;
    bool shown;
    double shown_seconds; /* when the line was last written */
    double begin_seconds; /* of what is shown */
    char what[GAL_PROGRESS_COLUMNS];
} gal_progress;

/* "kernels: 30 of 120, 6 s, 18 s left". done of count parts of `what` took work_seconds; the rest is thought to take as
 * long each. count 0: unknown, nothing is said of what is left. elapsed_seconds is since the command began. */
void gal_progress_line(char *line, size_t capacity, const char *what, uint32_t done, uint32_t count,
                       double work_seconds, double elapsed_seconds);

/* Writes the line on stderr, at most five times a second. Another `what` begins its own count. */
void gal_progress_show(gal_progress *progress, const char *what, uint32_t done, uint32_t count, double elapsed_seconds);
/* Writes a line of the caller's own over the one before. */
void gal_progress_write(gal_progress *progress, const char *line);
/* Takes the line away. */
void gal_progress_end(gal_progress *progress);

#endif
