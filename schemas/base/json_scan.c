#include "schemas/base/json_scan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/base/utf8.h"

typedef struct scanner {
    const char *text;
    size_t at, end;
    gal_json_fault *fault;
    uint64_t value_count;
    uint64_t wanted; /* UINT64_MAX: none */
    gal_json_span found;
    void (*number)(void *context, bool is_whole);
    void *context;
} scanner;

static bool refuse(scanner *s, size_t offset, const char *rule)
{
    s->fault->offset = offset;
    (void)snprintf(s->fault->rule, sizeof s->fault->rule, "%s", rule);
    return false;
}

/* The byte at the position, or -1 at the end. */
static int peek(const scanner *s)
{
    return s->at < s->end ? (unsigned char)s->text[s->at] : -1;
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static void skip_space(scanner *s)
{
    int c = peek(s);
    while (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        s->at++;
        c = peek(s);
    }
}

static bool refuse_here(scanner *s, const char *expected)
{
    char rule[96];
    int c = peek(s);
    if (c < 0) {
        (void)snprintf(rule, sizeof rule, "expected %s, got the end of the text", expected);
    } else if (c > 0x20 && c < 0x7f) {
        (void)snprintf(rule, sizeof rule, "expected %s, got '%c'", expected, c);
    } else {
        (void)snprintf(rule, sizeof rule, "expected %s, got byte 0x%02x", expected, (unsigned)c);
    }
    return refuse(s, s->at, rule);
}

/* Four hexadecimal digits after \u; -1 if they are not. */
static int32_t scan_hex(scanner *s)
{
    int32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        int c = peek(s);
        int32_t digit = is_digit(c)              ? c - '0'
                        : (c >= 'a' && c <= 'f') ? c - 'a' + 10
                        : (c >= 'A' && c <= 'F') ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) {
            return -1;
        }
        unit = unit * 16 + digit;
        s->at++;
    }
    return unit;
}

static bool scan_unicode_escape(scanner *s, size_t start)
{
    int32_t unit = scan_hex(s);
    if (unit < 0) {
        return refuse(s, start, "\\u must be followed by 4 hexadecimal digits");
    }
    if (unit == 0) {
        return refuse(s, start, "\\u0000 is not allowed");
    }
    if (unit < 0xd800 || unit > 0xdfff) {
        return true;
    }
    if (unit > 0xdbff || peek(s) != '\\' || s->at + 1 >= s->end || s->text[s->at + 1] != 'u') {
        return refuse(s, start, "surrogate without its partner");
    }
    s->at += 2;
    int32_t low = scan_hex(s);
    if (low < 0xdc00 || low > 0xdfff) {
        return refuse(s, start, "surrogate without its partner");
    }
    return true;
}

static bool scan_escape(scanner *s)
{
    size_t start = s->at;
    s->at++;
    int c = peek(s);
    if (c < 0 || c == 0 || strchr("\"\\/bfnrtu", c) == NULL) {
        return refuse(s, start, "unknown escape");
    }
    s->at++;
    return c != 'u' || scan_unicode_escape(s, start);
}

static bool scan_utf8(scanner *s)
{
    size_t length = gal_utf8_length(s->text + s->at, s->end - s->at);
    s->at += length;
    return length > 0 || refuse(s, s->at, "invalid UTF-8");
}

static bool scan_string(scanner *s)
{
    size_t start = s->at;
    s->at++;
    for (;;) {
        int c = peek(s);
        if (c < 0) {
            return refuse(s, start, "string without its closing quote");
        }
        if (c == '"') {
            s->at++;
            return true;
        }
        if (c == 0) {
            return refuse(s, s->at, "NUL byte");
        }
        if (c < 0x20) {
            return refuse(s, s->at, "control character in a string: write it as \\u escape");
        }
        if (c == '\\') {
            if (!scan_escape(s)) {
                return false;
            }
        } else if (c < 0x80) {
            s->at++;
        } else if (!scan_utf8(s)) {
            return false;
        }
    }
}

static bool check_whole(scanner *s, size_t start)
{
    size_t digits = start + (s->text[start] == '-');
    uint64_t value = 0;
    for (size_t i = digits; i < s->at; i++) {
        value = value * 10 + (uint64_t)(s->text[i] - '0');
        if (value > GAL_JSON_WHOLE_MAX) {
            return refuse(s, start, "whole numbers must be at most 2^53 = 9007199254740992");
        }
    }
    return true;
}

static bool check_real(scanner *s, size_t start)
{
    char number[GAL_JSON_NUMBER_CHARACTERS_MAX + 1];
    memcpy(number, s->text + start, s->at - start);
    number[s->at - start] = '\0';
    if (!isfinite(strtod(number, NULL))) {
        return refuse(s, start, "number too large for a double");
    }
    return true;
}

static bool scan_digits(scanner *s)
{
    if (!is_digit(peek(s))) {
        return refuse_here(s, "a digit");
    }
    while (is_digit(peek(s))) {
        s->at++;
    }
    return true;
}

static bool scan_number(scanner *s)
{
    size_t start = s->at;
    bool is_whole = true;
    s->at += peek(s) == '-';
    bool leading_zero = peek(s) == '0';
    if (!scan_digits(s)) {
        return false;
    }
    if (leading_zero && s->at - start > 1 + (size_t)(s->text[start] == '-')) {
        return refuse(s, start, "number with a leading zero");
    }
    if (peek(s) == '.') {
        is_whole = false;
        s->at++;
        if (!scan_digits(s)) {
            return false;
        }
    }
    if (peek(s) == 'e' || peek(s) == 'E') {
        is_whole = false;
        s->at++;
        s->at += peek(s) == '+' || peek(s) == '-';
        if (!scan_digits(s)) {
            return false;
        }
    }
    if (s->number != NULL) {
        s->number(s->context, is_whole);
    }
    if (is_whole) {
        return check_whole(s, start);
    }
    if (s->at - start > GAL_JSON_NUMBER_CHARACTERS_MAX) {
        return refuse(s, start, "number of more than 63 characters");
    }
    return check_real(s, start);
}

static bool scan_literal(scanner *s)
{
    static const char *const literals[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof literals / sizeof literals[0]; i++) {
        size_t length = strlen(literals[i]);
        if (s->end - s->at >= length && memcmp(s->text + s->at, literals[i], length) == 0) {
            s->at += length;
            return true;
        }
    }
    return refuse_here(s, "a value");
}

static bool scan_value(scanner *s, size_t key_offset, uint32_t depth);

static bool scan_member(scanner *s, uint32_t depth)
{
    size_t key_offset = s->at;
    if (peek(s) != '"') {
        return refuse_here(s, "a key in quotes");
    }
    if (!scan_string(s)) {
        return false;
    }
    skip_space(s);
    if (peek(s) != ':') {
        return refuse_here(s, "':'");
    }
    s->at++;
    skip_space(s);
    return scan_value(s, key_offset, depth);
}

static bool scan_container(scanner *s, uint32_t depth)
{
    bool is_object = peek(s) == '{';
    int close = is_object ? '}' : ']';
    if (depth == GAL_JSON_DEPTH_MAX) {
        return refuse(s, s->at, "nested deeper than 64");
    }
    s->at++;
    skip_space(s);
    if (peek(s) == close) {
        s->at++;
        return true;
    }
    for (;;) {
        if (is_object ? !scan_member(s, depth + 1) : !scan_value(s, s->at, depth + 1)) {
            return false;
        }
        skip_space(s);
        if (peek(s) == close) {
            s->at++;
            return true;
        }
        if (peek(s) != ',') {
            return refuse_here(s, is_object ? "',' or '}'" : "',' or ']'");
        }
        s->at++;
        skip_space(s);
    }
}

/* depth: containers around the value. Recursion is bounded by GAL_JSON_DEPTH_MAX. */
static bool scan_value(scanner *s, size_t key_offset, uint32_t depth)
{
    size_t start = s->at;
    bool is_wanted = s->value_count++ == s->wanted;
    bool is_good;
    int c = peek(s);
    if (s->value_count > GAL_JSON_VALUES_MAX) {
        return refuse(s, start, "more than 4194304 values");
    }
    if (c == '{' || c == '[') {
        if (is_wanted) {
            s->found = (gal_json_span){key_offset, start, start + 1};
        }
        return scan_container(s, depth);
    }
    if (c == '"') {
        is_good = scan_string(s);
    } else if (c == '-' || is_digit(c)) {
        is_good = scan_number(s);
    } else {
        is_good = scan_literal(s);
    }
    if (is_wanted) {
        s->found = (gal_json_span){key_offset, start, s->at};
    }
    return is_good;
}

static bool scan_text(scanner *s)
{
    skip_space(s);
    if (!scan_value(s, s->at, 0)) {
        return false;
    }
    skip_space(s);
    if (s->at < s->end) {
        return refuse(s, s->at, "text after the document");
    }
    return true;
}

bool gal_json_scan(const char *text, size_t byte_count, gal_json_fault *fault)
{
    scanner s = {.text = text, .end = byte_count, .fault = fault, .wanted = UINT64_MAX};
    *fault = (gal_json_fault){0};
    return scan_text(&s);
}

gal_json_span gal_json_find(const char *text, size_t byte_count, uint64_t index)
{
    gal_json_fault fault = {0};
    scanner s = {.text = text, .end = byte_count, .fault = &fault, .wanted = index};
    (void)scan_text(&s);
    return s.found;
}

void gal_json_each_number(const char *text, size_t byte_count, void (*number)(void *context, bool is_whole),
                          void *context)
{
    gal_json_fault fault = {0};
    scanner s = {
        .text = text, .end = byte_count, .fault = &fault, .wanted = UINT64_MAX, .number = number, .context = context};
    (void)scan_text(&s);
}

void gal_json_line_column(const char *text, size_t offset, uint32_t *line, uint32_t *column)
{
    *line = 1;
    *column = 1;
    for (size_t i = 0; i < offset; i++) {
        if (text[i] == '\n') {
            ++*line;
            *column = 1;
        } else if (((unsigned char)text[i] & 0xc0) != 0x80) {
            ++*column;
        }
    }
}
