#include "schemas/base/nearest.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

enum { WORD_LETTERS = GAL_WORD_BYTES - 1 };

static bool is_point_between_digits(const char *word, const char *at)
{
    return *at == '.' && at > word && isdigit((unsigned char)at[-1]) && isdigit((unsigned char)at[1]);
}

bool gal_word_fold(const char *word, char out[GAL_WORD_BYTES])
{
    size_t length = 0;
    for (const char *at = word; *at != '\0'; at++) {
        if (!isalnum((unsigned char)*at) && !is_point_between_digits(word, at)) {
            continue;
        }
        if (length == WORD_LETTERS) {
            length = 0;
            break;
        }
        out[length++] = (char)tolower((unsigned char)*at);
    }
    out[length] = '\0';
    return length > 0;
}

bool gal_word_same(const char *a, const char *b)
{
    char folded_a[GAL_WORD_BYTES], folded_b[GAL_WORD_BYTES];
    return gal_word_fold(a, folded_a) && gal_word_fold(b, folded_b) && strcmp(folded_a, folded_b) == 0;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Optimal string alignment, three rows: the swap looks two rows back. */
static uint32_t count_edits(const char *a, uint32_t a_length, const char *b, uint32_t b_length)
{
    uint32_t row[3][WORD_LETTERS + 1];
    for (uint32_t j = 0; j <= b_length; j++) {
        row[0][j] = j;
    }
    for (uint32_t i = 1; i <= a_length; i++) {
        uint32_t *here = row[i % 3];
        const uint32_t *above = row[(i + 2) % 3];
        const uint32_t *second = row[(i + 1) % 3];
        here[0] = i;
        for (uint32_t j = 1; j <= b_length; j++) {
            uint32_t edits = least(above[j], here[j - 1]) + 1;
            edits = least(edits, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                edits = least(edits, second[j - 2] + 1);
            }
            here[j] = edits;
        }
    }
    return row[a_length % 3][b_length];
}

uint32_t gal_edits_between(const char *a, const char *b)
{
    size_t a_length = strlen(a);
    size_t b_length = strlen(b);
    if (a_length > WORD_LETTERS || b_length > WORD_LETTERS) {
        return GAL_EDITS_FAR;
    }
    uint32_t longer = (uint32_t)(a_length > b_length ? a_length : b_length);
    uint32_t allowed = longer < 4 ? 1 : longer < 9 ? 2 : longer / 3;
    uint32_t edits = count_edits(a, (uint32_t)a_length, b, (uint32_t)b_length);
    return edits <= allowed && edits < longer ? edits : GAL_EDITS_FAR;
}

const char *gal_nearest_name(const char *word, const char *const *names, uint32_t name_count)
{
    const char *nearest = NULL;
    uint32_t fewest = GAL_EDITS_FAR;
    for (uint32_t i = 0; i < name_count; i++) {
        uint32_t edits = names[i] == NULL ? GAL_EDITS_FAR : gal_edits_between(word, names[i]);
        if (edits < fewest) {
            fewest = edits;
            nearest = names[i];
        }
    }
    return nearest;
}
