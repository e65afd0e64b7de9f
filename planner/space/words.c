#include "planner/space/words.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "schemas/base/nearest.h"

typedef struct row {
    const char *meaning, *words; /* NULL: the end of a vocabulary */
} row;

#define X(meaning, words) {meaning, words},
static const row space_rows[] = {GAL_SPACE_WORDS(X){NULL, NULL}};
static const row schedule_rows[] = {GAL_SCHEDULE_WORDS(X){NULL, NULL}};
static const row recompute_rows[] = {GAL_RECOMPUTE_WORDS(X){NULL, NULL}};
static const row zero_rows[] = {GAL_ZERO_WORDS(X){NULL, NULL}};
static const row column_rows[] = {GAL_COLUMN_WORDS(X){NULL, NULL}};
#undef X

static const row *const vocabularies[GAL_VOCABULARY_COUNT] = {
    [GAL_VOCABULARY_SPACE] = space_rows,         [GAL_VOCABULARY_SCHEDULE] = schedule_rows,
    [GAL_VOCABULARY_RECOMPUTE] = recompute_rows, [GAL_VOCABULARY_ZERO] = zero_rows,
    [GAL_VOCABULARY_COLUMN] = column_rows,
};

/* The next word of a list from *at on; false at its end. */
static bool next_word(const char **at, char word[GAL_WORD_BYTES])
{
    const size_t length = strcspn(*at, ",");
    if (length == 0) {
        return false;
    }
    (void)snprintf(word, GAL_WORD_BYTES, "%.*s", (int)length, *at);
    *at += length;
    *at += strspn(*at, ", ");
    return true;
}

const char *gal_words_meaning(gal_vocabulary vocabulary, const char *word)
{
    char known[GAL_WORD_BYTES];
    for (const row *r = vocabularies[vocabulary]; r->meaning != NULL; r++) {
        for (const char *at = r->words; next_word(&at, known);) {
            if (gal_word_same(known, word)) {
                return r->meaning;
            }
        }
    }
    return NULL;
}

static uint32_t index_of(const char *word, const char *const *names, uint32_t name_count)
{
    uint32_t i = 0;
    while (i < name_count && !gal_word_same(names[i], word)) {
        i++;
    }
    return i;
}

uint32_t gal_words_find(gal_vocabulary vocabulary, const char *word, const char *const *names, uint32_t name_count)
{
    const uint32_t found = index_of(word, names, name_count);
    const char *meaning = found < name_count ? NULL : gal_words_meaning(vocabulary, word);
    return meaning == NULL ? found : index_of(meaning, names, name_count);
}

/* Keeps the candidate if it is nearer to the folded word than the one kept. */
static void consider(const char *folded, const char *candidate, char nearest[GAL_WORD_BYTES], uint32_t *fewest)
{
    char other[GAL_WORD_BYTES];
    const uint32_t edits = gal_word_fold(candidate, other) ? gal_edits_between(folded, other) : GAL_EDITS_FAR;
    if (edits < *fewest) {
        *fewest = edits;
        (void)snprintf(nearest, GAL_WORD_BYTES, "%s", candidate);
    }
}

void gal_words_suggest(gal_vocabulary vocabulary, const char *word, const char *const *names, uint32_t name_count,
                       char *text, size_t capacity)
{
    char folded[GAL_WORD_BYTES], known[GAL_WORD_BYTES], nearest[GAL_WORD_BYTES];
    uint32_t fewest = GAL_EDITS_FAR;
    (void)gal_word_fold(word, folded);
    for (uint32_t i = 0; i < name_count; i++) {
        consider(folded, names[i], nearest, &fewest);
    }
    for (const row *r = vocabularies[vocabulary]; r->meaning != NULL; r++) {
        const bool counts = strchr(r->meaning, ',') != NULL || index_of(r->meaning, names, name_count) < name_count;
        for (const char *at = r->words; counts && next_word(&at, known);) {
            consider(folded, known, nearest, &fewest);
        }
    }
    text[0] = '\0';
    if (fewest < GAL_EDITS_FAR) {
        (void)snprintf(text, capacity, "did you mean \"%s\"? ", nearest);
    }
    for (uint32_t i = 0; i < name_count; i++) {
        const size_t used = strlen(text);
        (void)snprintf(text + used, capacity - used, "%s%s", i == 0 ? "known: " : ", ", names[i]);
    }
}
