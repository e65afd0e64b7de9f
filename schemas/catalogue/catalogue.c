#include "schemas/catalogue/catalogue.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "schemas/base/nearest.h"

enum { PART_LETTERS_MIN = 4 /* of a name that is part of a word: shorter ones are part of too many */ };

const gal_catalogue_entry *gal_catalogue_find_entry(const char *kind, const char *name)
{
    const gal_catalogue_entry *alike = NULL;
    uint32_t alike_count = 0;
    for (uint32_t i = 0; i < gal_catalogue_entry_count; i++) {
        const gal_catalogue_entry *entry = &gal_catalogue_entries[i];
        if (strcmp(entry->kind, kind) != 0) {
            continue;
        }
        if (strcmp(entry->name, name) == 0) {
            return entry;
        }
        if (gal_word_same(entry->name, name)) {
            alike = entry;
            alike_count++;
        }
    }
    return alike_count == 1 ? alike : NULL;
}

const char *gal_catalogue_find(const char *kind, const char *name)
{
    const gal_catalogue_entry *entry = gal_catalogue_find_entry(kind, name);
    return entry == NULL ? NULL : entry->text;
}

/* ---- suggestions ---- */

typedef struct search {
    const char *kind;
    char word[GAL_WORD_BYTES]; /* folded, as the names that it is compared with */
} search;

/* Letters to change, fewest first; GAL_EDITS_FAR: the name is none to suggest. */
typedef uint32_t (*distance)(const search *s, const char *name);

static uint32_t by_edits(const search *s, const char *name)
{
    return gal_edits_between(s->word, name);
}

static uint32_t by_part(const search *s, const char *name)
{
    const size_t length = strlen(name);
    return length >= PART_LETTERS_MIN && strstr(s->word, name) != NULL ? (uint32_t)(GAL_WORD_BYTES - length)
                                                                       : GAL_EDITS_FAR;
}

static const char *nearest(const search *s, distance between)
{
    const char *found = NULL;
    uint32_t fewest = GAL_EDITS_FAR;
    char name[GAL_WORD_BYTES];
    for (uint32_t i = 0; i < gal_catalogue_entry_count; i++) {
        const gal_catalogue_entry *entry = &gal_catalogue_entries[i];
        if (strcmp(entry->kind, s->kind) != 0 || !gal_word_fold(entry->name, name)) {
            continue;
        }
        const uint32_t edits = between(s, name);
        if (edits < fewest) {
            fewest = edits;
            found = entry->name;
        }
    }
    return found;
}

/* Writes the names that begin with the word, ", " between them; cut to capacity. Returns how many there are. */
static uint32_t list_beginning(const char *kind, const char *word, char *text, size_t capacity)
{
    uint32_t count = 0;
    size_t used = 0;
    for (uint32_t i = 0; i < gal_catalogue_entry_count; i++) {
        const gal_catalogue_entry *entry = &gal_catalogue_entries[i];
        if (strcmp(entry->kind, kind) == 0 && strncasecmp(entry->name, word, strlen(word)) == 0 &&
            used + 1 < capacity) {
            (void)snprintf(text + used, capacity - used, "%s%s", count == 0 ? "" : ", ", entry->name);
            used = strlen(text);
            count++;
        }
    }
    return count;
}

void gal_catalogue_suggest(const char *kind, const char *word, char *text, size_t capacity)
{
    search s = {.kind = kind};
    char list[512];
    text[0] = '\0';
    if (!gal_word_fold(word, s.word)) {
        return;
    }
    const uint32_t count = list_beginning(kind, word, list, sizeof list);
    const char *name = count == 1 ? list : nearest(&s, by_edits);
    name = name == NULL ? nearest(&s, by_part) : name;
    if (count > 1) {
        (void)snprintf(text, capacity, "did you mean one of %s?", list);
    } else if (name != NULL) {
        (void)snprintf(text, capacity, "did you mean \"%s\"?", name);
    }
}

void gal_catalogue_names(const char *kind, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < gal_catalogue_entry_count && used + 1 < capacity; i++) {
        const gal_catalogue_entry *entry = &gal_catalogue_entries[i];
        if (strcmp(entry->kind, kind) == 0) {
            (void)snprintf(text + used, capacity - used, "%s%s", used == 0 ? "" : ", ", entry->name);
            used = strlen(text);
        }
    }
}
