#include "schemas/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/base/utf8.h"

/* One line for any terminal: file names, arguments and cut texts may hold anything. U+0080 to U+009F are control
 * characters too. */
static void make_plain(char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        unsigned char c = (unsigned char)*text;
        size_t length = gal_utf8_length(text, left);
        if (length == 0) {
            *text = '?';
        } else if (c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)text[1] < 0xa0)) {
            memset(text, ' ', length);
        }
        length = length == 0 ? 1 : length;
        text += length;
        left -= length;
    }
}

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
    make_plain(err->text);
    return code;
}

void gal_assert_failed(const char *condition, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    (void)fflush(NULL);
    _Exit(GAL_BUG);
}
