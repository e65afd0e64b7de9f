#include "schemas/base/size.h"

#include <string.h>
#include <strings.h>

/* DIGITS_MAX: a number of so many digits is below 2^64. EXPONENT_MAX: larger ones are refused, or leave less than a
 * byte, whatever the digits and the unit are. */
enum { DIGITS_MAX = 19, EXPONENT_MAX = 99 };

/* Wide enough for 19 digits times the largest unit, 2^50: below 2^64 x 2^50. */
__extension__ typedef unsigned __int128 wide;

/* digits x 10^exponent */
typedef struct decimal {
    uint64_t digits;
    int exponent;
} decimal;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Appends the digits at *text to the number. *count grows by them, zeros in front of the first other digit left out. */
static void append_digits(const char **text, uint64_t *number, uint32_t *count)
{
    for (; is_digit(**text); ++*text) {
        *count += *count > 0 || **text != '0';
        *number = *count <= DIGITS_MAX ? *number * 10 + (uint64_t)(**text - '0') : 0;
    }
}

/* "e9", "E+9", "e-9", or nothing. */
static bool read_exponent(const char **text, int *out)
{
    const char *at = *text;
    uint64_t value = 0;
    uint32_t count = 0;
    *out = 0;
    if (*at != 'e' && *at != 'E') {
        return true;
    }
    at++;
    const bool negative = *at == '-';
    at += *at == '-' || *at == '+';
    if (!is_digit(*at)) {
        return false;
    }
    append_digits(&at, &value, &count);
    if (count > 2) {
        return false;
    }
    *out = negative ? -(int)value : (int)value;
    *text = at;
    return true;
}

/* "80", "0.5", ".5", "1e9"; *text is then behind it. */
static bool read_decimal(const char **text, decimal *out)
{
    uint32_t count = 0;
    int exponent = 0;
    const char *start = *text;
    bool any = is_digit(*start);
    *out = (decimal){0};
    append_digits(text, &out->digits, &count);
    if (**text == '.') {
        const char *fraction = ++*text;
        append_digits(text, &out->digits, &count);
        out->exponent = fraction - *text < -EXPONENT_MAX ? -EXPONENT_MAX : (int)(fraction - *text);
        any = any || *text > fraction;
    }
    if (!any || count > DIGITS_MAX || !read_exponent(text, &exponent)) {
        return false;
    }
    out->exponent += exponent;
    return true;
}

static bool read_unit(const char *text, uint64_t *factor)
{
    static const char prefixes[] = "kmgtp";
    uint64_t decimal_factor = 1, binary_factor = 1;
    if (text[0] == '\0' || strcasecmp(text, "b") == 0) {
        *factor = 1;
        return true;
    }
    for (uint32_t i = 0; i < sizeof prefixes - 1; i++) {
        decimal_factor *= 1000;
        binary_factor *= 1024;
        if (strncasecmp(text, &prefixes[i], 1) == 0) {
            *factor = strcasecmp(text + 1, "ib") == 0 ? binary_factor : decimal_factor;
            return text[1] == '\0' || strcasecmp(text + 1, "b") == 0 || strcasecmp(text + 1, "ib") == 0;
        }
    }
    return false;
}

/* Rounding down after each division by ten gives the same as rounding down once. */
static bool scale(wide value, int exponent, uint64_t *bytes)
{
    for (; exponent < 0 && value > 0; exponent++) {
        value /= 10;
    }
    for (; exponent > 0 && value > 0 && value <= UINT64_MAX; exponent--) {
        value *= 10;
    }
    if (value > UINT64_MAX) {
        return false;
    }
    *bytes = (uint64_t)value;
    return true;
}

bool gal_size_parse(const char *text, uint64_t *bytes)
{
    char unit[4] = "";
    decimal number;
    uint64_t factor = 0;
    text += strspn(text, " \t");
    if (!read_decimal(&text, &number)) {
        return false;
    }
    text += strspn(text, " \t");
    const size_t length = strcspn(text, " \t");
    if (length >= sizeof unit || text[length + strspn(text + length, " \t")] != '\0') {
        return false;
    }
    memcpy(unit, text, length);
    return read_unit(unit, &factor) && scale((wide)number.digits * factor, number.exponent, bytes);
}
