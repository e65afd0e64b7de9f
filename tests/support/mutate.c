#include "tests/support/mutate_internal.h"

static const gal_mutation_set *const sets[] = {
    &gal_mutations_of_order, &gal_mutations_of_communication, &gal_mutations_of_sequence, &gal_mutations_of_storage,
    &gal_mutations_of_units, &gal_mutations_of_masters,       &gal_mutations_of_kept,     &gal_mutations_of_weights};

const gal_mutation *gal_mutation_at(uint32_t index)
{
    for (size_t s = 0; s < sizeof sets / sizeof sets[0]; s++) {
        if (index < sets[s]->count) {
            return &sets[s]->mutation[index];
        }
        index -= sets[s]->count;
    }
    return NULL;
}
