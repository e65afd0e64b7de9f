/* The settings that all ranks of a run must have in common, compared item by item before the first step: the plan, the
 * options that decide what is computed or when ranks meet, the data, the checkpoint. Ranks that differ would train
 * together without a word, or wait for each other for ever. */
#ifndef GAL_RUNTIME_TRAIN_AGREEMENT_H
#define GAL_RUNTIME_TRAIN_AGREEMENT_H

#include <stdint.h>

#include "runtime/train/world.h"

enum { GAL_AGREEMENT_ITEMS_MAX = 32, GAL_AGREEMENT_NAME_BYTES = 48, GAL_AGREEMENT_VALUE_BYTES = 48 };

typedef struct gal_agreement_item {
    char name[GAL_AGREEMENT_NAME_BYTES];   /* for people: "--seed", "the plan" */
    char value[GAL_AGREEMENT_VALUE_BYTES]; /* NUL-terminated text; longer texts are given as a hash */
} gal_agreement_item;

typedef struct gal_agreement {
    uint32_t item_count;
    gal_agreement_item item[GAL_AGREEMENT_ITEMS_MAX];
} gal_agreement;

/* Adds an item. All ranks add the same names in the same order. */
void gal_agreement_add(gal_agreement *agreement, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Compares every item with rank 0's. Collective. GAL_ERR_USAGE on all ranks where one differs; the message names the
 * lowest rank that differs, the first item in which it does, and both values. */
gal_code gal_agreement_check(const gal_agreement *agreement, const gal_world *world, gal_error *err);

#endif
