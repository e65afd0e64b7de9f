/* What is kept under keys of any number of words. For costmodel alone. */
#ifndef GAL_COSTMODEL_WORD_KEYS_H
#define GAL_COSTMODEL_WORD_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/base/status.h"

typedef struct gal_word_slot {
    uint32_t hash;
    struct gal_word_entry *entry; /* NULL: free */
} gal_word_slot;

/* Zeroed it is empty. */
typedef struct gal_word_keys {
    uint32_t slot_count, entry_count;
    gal_word_slot *slot;         /* open addressing; owned */
    struct gal_word_page *pages; /* that entries lie in; owned */
} gal_word_keys;

void gal_word_keys_free(gal_word_keys *keys);

/* What is kept under the words, or NULL. */
void *gal_word_keys_find(const gal_word_keys *keys, const uint64_t *word, uint32_t count);
/* Keeps a copy under words that are not there yet. GAL_ERR_SYSTEM without memory. */
gal_code gal_word_keys_keep(gal_word_keys *keys, const uint64_t *word, uint32_t count, const void *result, size_t bytes,
                            gal_error *err);

#endif
