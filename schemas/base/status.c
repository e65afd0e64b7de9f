#include "schemas/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

gal_code gal_fail(gal_error *err, gal_code code, const char *format, ...)
{
    if (err == NULL || err->code != GAL_OK) {
        return code;
    }
    err->code = code;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(err->text, sizeof err->text, format, arguments);
    va_end(arguments);
    for (char *c = err->text; *c != '\0'; c++) {
        if (*c == '\n' || *c == '\r') {
            *c = ' ';
        }
    }
    return code;
}

void gal_assert_failed(const char *condition, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    (void)fflush(NULL);
    _Exit(GAL_BUG);
}
