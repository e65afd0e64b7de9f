#include "schemas/catalogue/catalogue.h"

#include <stdio.h>
#include <string.h>

const char *gal_catalogue_find(const char *kind, const char *name)
{
    for (uint32_t i = 0; i < gal_catalogue_entry_count; i++) {
        const gal_catalogue_entry *entry = &gal_catalogue_entries[i];
        if (strcmp(entry->kind, kind) == 0 && strcmp(entry->name, name) == 0) {
            return entry->text;
        }
    }
    return NULL;
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
