/* The order of a profile's entries. */
#include "schemas/profile.h"

int gal_shape_compare(const gal_shape *a, const gal_shape *b)
{
    if (a->op != b->op) {
        return a->op < b->op ? -1 : 1;
    }
    if (a->dtype != b->dtype) {
        return a->dtype < b->dtype ? -1 : 1;
    }
    for (uint32_t i = 0; i < GAL_SHAPE_DIMS; i++) {
        if (a->dims[i] != b->dims[i]) {
            return a->dims[i] < b->dims[i] ? -1 : 1;
        }
    }
    return 0;
}

int gal_operator_compare(const void *left, const void *right)
{
    const gal_profile_operator *a = left, *b = right;
    return gal_shape_compare(&a->shape, &b->shape);
}

int gal_collective_key_compare(const gal_profile_collective *a, const gal_profile_collective *b)
{
    if (a->op != b->op) {
        return a->op < b->op ? -1 : 1;
    }
    for (uint32_t i = 0; i < GAL_LINK_LEVELS_MAX; i++) {
        if (a->level_counts[i] != b->level_counts[i]) {
            return a->level_counts[i] < b->level_counts[i] ? -1 : 1;
        }
    }
    return 0;
}

int gal_collective_compare(const void *left, const void *right)
{
    const gal_profile_collective *a = left, *b = right;
    const int key = gal_collective_key_compare(a, b);
    return key != 0 ? key : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}
