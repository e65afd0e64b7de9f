#include "costmodel/word_keys.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 64, PAGE_BYTES = 1 << 14 };

typedef struct gal_word_entry {
    uint32_t word_count, result_words;
    uint64_t word[]; /* of the result, then of the key */
} entry;

typedef struct gal_word_page {
    struct gal_word_page *next;
    size_t used_bytes, bytes;
    uint64_t entries[];
} page;

static gal_code out_of_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: price");
}

static uint32_t hash_of(const uint64_t *word, uint32_t count)
{
    uint64_t hash = count;
    for (uint32_t i = 0; i < count; i++) {
        hash = (hash ^ word[i]) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    return (uint32_t)hash;
}

static gal_word_slot *slot_of(const gal_word_keys *keys, const uint64_t *word, uint32_t count, uint32_t hash)
{
    uint32_t at = hash & (keys->slot_count - 1);
    for (;; at = (at + 1) & (keys->slot_count - 1)) {
        const gal_word_slot *slot = &keys->slot[at];
        const entry *kept = slot->entry;
        if (kept == NULL || (slot->hash == hash && kept->word_count == count &&
                             memcmp(kept->word + kept->result_words, word, count * sizeof *word) == 0)) {
            return &keys->slot[at];
        }
    }
}

void *gal_word_keys_find(const gal_word_keys *keys, const uint64_t *word, uint32_t count)
{
    entry *kept = keys->slot_count == 0 ? NULL : slot_of(keys, word, count, hash_of(word, count))->entry;
    return kept == NULL ? NULL : kept->word;
}

static gal_code widen(gal_word_keys *keys, gal_error *err)
{
    const uint32_t wanted = keys->slot_count == 0 ? FIRST_SLOTS : 2 * keys->slot_count;
    gal_word_slot *slot = calloc(wanted, sizeof *slot);
    if (slot == NULL) {
        return out_of_memory(err);
    }
    for (uint32_t i = 0; i < keys->slot_count; i++) { /* all differ */
        uint32_t at = keys->slot[i].hash & (wanted - 1);
        while (keys->slot[i].entry != NULL && slot[at].entry != NULL) {
            at = (at + 1) & (wanted - 1);
        }
        if (keys->slot[i].entry != NULL) {
            slot[at] = keys->slot[i];
        }
    }
    free(keys->slot);
    keys->slot = slot;
    keys->slot_count = wanted;
    return GAL_OK;
}

static entry *new_entry(gal_word_keys *keys, size_t bytes)
{
    page *first = keys->pages;
    if (first == NULL || first->bytes - first->used_bytes < bytes) {
        const size_t wanted = bytes > PAGE_BYTES ? bytes : PAGE_BYTES;
        first = malloc(sizeof *first + wanted);
        if (first == NULL) {
            return NULL;
        }
        *first = (page){.next = keys->pages, .bytes = wanted};
        keys->pages = first;
    }
    entry *out = (entry *)((char *)first->entries + first->used_bytes);
    first->used_bytes += bytes;
    return out;
}

gal_code gal_word_keys_keep(gal_word_keys *keys, const uint64_t *word, uint32_t count, const void *result, size_t bytes,
                            gal_error *err)
{
    if (2 * (keys->entry_count + 1) > keys->slot_count && widen(keys, err) != GAL_OK) {
        return GAL_ERR_SYSTEM;
    }
    const uint32_t hash = hash_of(word, count);
    const uint32_t result_words = (uint32_t)((bytes + sizeof *word - 1) / sizeof *word);
    entry *kept = new_entry(keys, sizeof *kept + ((size_t)result_words + count) * sizeof *word);
    if (kept == NULL) {
        return out_of_memory(err);
    }
    kept->word_count = count;
    kept->result_words = result_words;
    memcpy(kept->word, result, bytes);
    memcpy(kept->word + result_words, word, count * sizeof *word);
    *slot_of(keys, word, count, hash) = (gal_word_slot){hash, kept};
    keys->entry_count++;
    return GAL_OK;
}

void gal_word_keys_free(gal_word_keys *keys)
{
    while (keys->pages != NULL) {
        page *next = keys->pages->next;
        free(keys->pages);
        keys->pages = next;
    }
    free(keys->slot);
    *keys = (gal_word_keys){0};
}
