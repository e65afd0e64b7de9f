/* Messages for people, on stderr only: "[rank 3] warn: ...". Results never come this way. */
#ifndef GAL_SCHEMAS_BASE_LOG_H
#define GAL_SCHEMAS_BASE_LOG_H

#include <stdint.h>

/* X(enumerator, name), from the gravest. The level of a log is the last one it prints: -q warn, none info, -v detail,
 * -vv debug. */
#define GAL_LOG_LEVELS(X)                                                                                              \
    X(GAL_LOG_ERROR, "error")                                                                                          \
    X(GAL_LOG_WARN, "warn")                                                                                            \
    X(GAL_LOG_INFO, "info")                                                                                            \
    X(GAL_LOG_DETAIL, "detail")                                                                                        \
    X(GAL_LOG_DEBUG, "debug")

typedef enum gal_log_level {
#define X(enumerator, name) enumerator,
    GAL_LOG_LEVELS(X)
#undef X
        GAL_LOG_LEVEL_COUNT
} gal_log_level;

enum { GAL_LOG_NO_RANK = -1 };

typedef struct gal_log {
    gal_log_level level;
    int32_t rank; /* GAL_LOG_NO_RANK: a program without ranks, no prefix */
} gal_log;

/* The level that -q, or so many -v, ask for. */
gal_log_level gal_log_level_of(int quiet, uint32_t verbose_count);

/* One line, written at once so that lines of several ranks do not mix. Info and detail come from rank 0 alone;
 * errors, warnings and debug from every rank. log NULL: nothing. */
void gal_log_line(const gal_log *log, gal_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
