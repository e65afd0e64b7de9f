#include "schemas/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = 2048 };

#define X(enumerator, name) [enumerator] = name,
static const char *const level_names[GAL_LOG_LEVEL_COUNT] = {GAL_LOG_LEVELS(X)};
#undef X

gal_log_level gal_log_level_of(int quiet, uint32_t verbose_count)
{
    if (quiet) {
        return GAL_LOG_WARN;
    }
    return verbose_count == 0 ? GAL_LOG_INFO : verbose_count == 1 ? GAL_LOG_DETAIL : GAL_LOG_DEBUG;
}

static int is_silent(const gal_log *log, gal_log_level level)
{
    int rank_zero_only = level == GAL_LOG_INFO || level == GAL_LOG_DETAIL;
    return log == NULL || level > log->level || (rank_zero_only && log->rank > 0);
}

void gal_log_line(const gal_log *log, gal_log_level level, const char *format, ...)
{
    char line[LINE_BYTES];
    if (is_silent(log, level)) {
        return;
    }
    int used = 0;
    if (log->rank >= 0) {
        used = snprintf(line, sizeof line, "[rank %d] ", (int)log->rank);
    }
    used += snprintf(line + used, sizeof line - (size_t)used, "%s: ", level_names[level]);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line + used, sizeof line - (size_t)used - 1, format, arguments);
    va_end(arguments);
    size_t length = strlen(line);
    line[length] = '\n';
    (void)fwrite(line, 1, length + 1, stderr);
}
