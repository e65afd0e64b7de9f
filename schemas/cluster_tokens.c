#include "schemas/cluster_tokens.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/base/size.h"

/* ---- words ---- */

static const char *skip_blanks(const char *p)
{
    while (isspace((unsigned char)*p)) {
        p++;
    }
    return p;
}

const char *gal_skip_times(const char *p)
{
    p = skip_blanks(p);
    if (*p == 'x' || *p == 'X' || *p == '*') {
        return skip_blanks(p + 1);
    }
    return strncmp(p, "\xc3\x97", 2) == 0 ? skip_blanks(p + 2) : NULL;
}

/* The family of a word, and what stands behind its name: "pcie-4" is pcie and "4". NULL: no family. */
static const char *family_of(const char *word, const char **rest)
{
    const char *family = NULL;
    size_t longest = 0;
    for (uint32_t i = 0; i < gal_link_word_count; i++) {
        const char *name = gal_link_words[i].word, *p = word;
        for (; *name != '\0' && (tolower((unsigned char)*p) == *name || *p == '-'); p++) {
            name += *p != '-';
        }
        const size_t length = strlen(gal_link_words[i].word);
        if (*name == '\0' && !isalpha((unsigned char)*p) && length > longest) {
            longest = length;
            family = gal_link_words[i].family;
            *rest = *p == '-' ? p + 1 : p;
        }
    }
    return family;
}

static bool is_separator(char letter)
{
    return isspace((unsigned char)letter) || strchr(",;=:", letter) != NULL;
}

static gal_code add_token(gal_cluster_tokens *tokens, const char *word, size_t length, bool behind_comma,
                          gal_error *err)
{
    gal_cluster_token *t = &tokens->token[tokens->count];
    const char *rest = "";
    if (tokens->count == GAL_CLUSTER_TOKENS_MAX || length >= sizeof t->text) {
        return gal_fail(err, GAL_ERR_USAGE, "a cluster in words has at most %d words of %d letters",
                        GAL_CLUSTER_TOKENS_MAX, GAL_CLUSTER_TOKEN_BYTES - 1);
    }
    memcpy(t->text, word, length);
    t->behind_comma = behind_comma;
    t->family = family_of(t->text, &rest);
    tokens->count++;
    const size_t rest_length = strlen(rest);
    return rest_length == 0 ? GAL_OK : add_token(tokens, word + length - rest_length, rest_length, false, err);
}

gal_code gal_cluster_split(const char *text, gal_cluster_tokens *out, gal_error *err)
{
    gal_code code = GAL_OK;
    bool comma = false;
    while (*text != '\0' && code == GAL_OK) {
        size_t length = 0;
        while (text[length] != '\0' && !is_separator(text[length])) {
            length++;
        }
        if (length == 0) {
            comma = comma || *text == ',' || *text == ';';
            text++;
        } else {
            code = add_token(out, text, length, comma, err);
            text += length;
            comma = false;
        }
    }
    return code;
}

/* ---- numbers with units ---- */

/* strtod would take "0x8" and "inf". */
static const char *read_decimal(const char *p, double *out)
{
    char digits[GAL_CLUSTER_TOKEN_BYTES] = "";
    size_t length = strspn(p, "0123456789.");
    char *end = digits;
    if (length == 0 || length >= sizeof digits) {
        return NULL;
    }
    memcpy(digits, p, length);
    *out = strtod(digits, &end);
    return end == digits + length ? p + length : NULL;
}

bool gal_quantity_read(const gal_cluster_tokens *tokens, gal_quantity *out)
{
    *out = (gal_quantity){.count = 1.0, .token_count = 1};
    const char *p = read_decimal(tokens->token[tokens->at].text, &out->number);
    const char *behind = p == NULL ? NULL : gal_skip_times(p);
    if (behind != NULL && *behind != '\0') {
        out->count = out->number;
        p = read_decimal(behind, &out->number);
    }
    if (p == NULL || out->number <= 0.0 || out->count < 1.0) {
        return false;
    }
    if (*p == '\0') {
        p = tokens->token[tokens->at + 1].text;
        out->token_count = 2;
    }
    out->unit = p;
    return *p != '\0';
}

static double factor_of(char prefix)
{
    switch (tolower((unsigned char)prefix)) {
    case 'm':
        return 1e6;
    case 'g':
        return 1e9;
    case 't':
        return 1e12;
    default:
        return 0.0;
    }
}

static bool is_any_of(const char *word, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(word, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* One unit of a rate: 'b' is a bit and 'B' a byte; a prefix alone are bits. */
static gal_said_rate rate_of_unit(const char *unit)
{
    static const char *const bits[] = {"", "b", "bit", "bits", "b/s", "bps", "bit/s", "bits/s"};
    static const char *const bytes[] = {"B/s", "Bps"};
    static const char *const devices[] = {"/gpu", "/GPU", "/device"};
    const double factor = factor_of(unit[0]);
    char rest[GAL_CLUSTER_TOKEN_BYTES] = "";
    gal_said_rate out = {.in_bits = true};
    (void)snprintf(rest, sizeof rest, "%s", factor == 0.0 ? unit : unit + 1);
    for (size_t i = 0; i < sizeof devices / sizeof devices[0] && !out.per_device; i++) {
        const size_t length = strlen(rest), tail = strlen(devices[i]);
        if (length >= tail && strcmp(rest + length - tail, devices[i]) == 0) {
            rest[length - tail] = '\0';
            out.per_device = true;
        }
    }
    if (is_any_of(rest, bytes, sizeof bytes / sizeof bytes[0])) {
        out.bytes_per_second = factor;
        out.in_bits = false;
    } else if (is_any_of(rest, bits, sizeof bits / sizeof bits[0])) {
        out.bytes_per_second = factor / 8.0;
    }
    return out;
}

uint64_t gal_quantity_bytes(const gal_cluster_tokens *tokens, const gal_quantity *q)
{
    char text[2 * GAL_CLUSTER_TOKEN_BYTES];
    uint64_t bytes = 0;
    const size_t length = strlen(q->unit);
    (void)snprintf(text, sizeof text, "%s%s", tokens->token[tokens->at].text, q->token_count == 2 ? q->unit : "");
    return length > 1 && tolower((unsigned char)q->unit[length - 1]) == 'b' && gal_size_parse(text, &bytes) ? bytes : 0;
}

gal_said_rate gal_cluster_take_rate(gal_cluster_tokens *tokens)
{
    static const char *const devices[] = {"gpu", "GPU", "device"};
    gal_quantity q;
    gal_said_rate out = {0};
    if (gal_quantity_read(tokens, &q)) {
        out = rate_of_unit(q.unit);
        out.bytes_per_second *= q.count * q.number;
    }
    if (out.bytes_per_second > 0.0) {
        tokens->at += q.token_count;
        if (strcmp(tokens->token[tokens->at].text, "per") == 0) {
            out.per_device = is_any_of(tokens->token[tokens->at + 1].text, devices, sizeof devices / sizeof devices[0]);
            tokens->at += out.per_device || strcmp(tokens->token[tokens->at + 1].text, "node") == 0 ? 2 : 0;
        }
    }
    return out;
}
