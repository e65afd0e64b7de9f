#include "planner/space/ranges.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct scanner {
    const char *option, *text, *at;
    gal_error *err;
} scanner;

static gal_code bad(const scanner *s, const char *what)
{
    return gal_fail(s->err, GAL_ERR_USAGE, "--%s: %s, got '%s'", s->option, what, s->text);
}

static gal_code number(scanner *s, uint32_t *out)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = isdigit((unsigned char)*s->at) ? strtoull(s->at, &end, 10) : 0;
    if (end == NULL || errno != 0 || value == 0 || value > UINT32_MAX) {
        return bad(s, "must be whole numbers from 1 to 4294967295");
    }
    s->at = end;
    *out = (uint32_t)value;
    return GAL_OK;
}

static gal_code append(const scanner *s, uint32_t value, gal_u32_list *out)
{
    if (out->count == GAL_U32_LIST_MAX) {
        return bad(s, "at most 64 values");
    }
    out->value[out->count++] = value;
    return GAL_OK;
}

static gal_code progression(const scanner *s, uint32_t from, uint32_t to, bool multiply, uint32_t by, gal_u32_list *out)
{
    if (to < from || (multiply && by < 2)) {
        return bad(s, "a range A:B needs A <= B, a factor at least 2");
    }
    for (uint64_t value = from; value <= to; value = multiply ? value * by : value + by) {
        gal_code code = append(s, (uint32_t)value, out);
        if (code != GAL_OK) {
            return code;
        }
    }
    return GAL_OK;
}

static gal_code range(scanner *s, uint32_t from, gal_u32_list *out)
{
    uint32_t to = 0;
    uint32_t by = 2;
    bool multiply = true;
    s->at++;
    gal_code code = number(s, &to);
    if (code == GAL_OK && *s->at == ':') {
        s->at++;
        multiply = *s->at == 'x';
        s->at += multiply;
        code = number(s, &by);
    }
    if (code == GAL_OK && *s->at != '\0') {
        code = bad(s, "must end after the range");
    }
    return code == GAL_OK ? progression(s, from, to, multiply, by, out) : code;
}

gal_code gal_parse_batches(const char *option, const char *text, gal_u32_list *out, gal_error *err)
{
    scanner s = {option, text, text, err};
    gal_u32_list list = {0};
    for (;;) {
        uint32_t value = 0;
        gal_code code = number(&s, &value);
        if (code == GAL_OK && *s.at == ':' && list.count == 0) {
            code = range(&s, value, &list);
        } else if (code == GAL_OK) {
            code = append(&s, value, &list);
        }
        if (code != GAL_OK) {
            return code;
        }
        if (*s.at == '\0') {
            *out = list;
            return GAL_OK;
        }
        if (*s.at != ',') {
            return bad(&s, "must be a list 8,16 or a range A:B, A:B:STEP, A:B:xF");
        }
        s.at++;
    }
}

gal_code gal_parse_microbatches(const char *option, const char *text, gal_u32_list *out, gal_error *err)
{
    if (strncmp(text, "max:", 4) != 0) {
        return gal_parse_batches(option, text, out, err);
    }
    scanner s = {option, text, text + 4, err};
    uint32_t most = 0;
    gal_u32_list list = {0};
    gal_code code = number(&s, &most);
    if (code == GAL_OK && *s.at != '\0') {
        code = bad(&s, "must be max:N");
    }
    code = code == GAL_OK ? progression(&s, 1, most, true, 2, &list) : code;
    if (code == GAL_OK) {
        *out = list;
    }
    return code;
}
