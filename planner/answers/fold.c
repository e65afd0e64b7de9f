#include "planner/answers/fold.h"

#include <stdlib.h>

/* The cheapest cut of what begins at a place. */
typedef struct best {
    uint32_t rows;
    uint32_t period, turns; /* of its first fold */
} best;

/* How many times the `period` kinds at `at` follow one another, at least 1. */
static uint32_t turns_at(const uint32_t *kind, uint32_t count, uint32_t at, uint32_t period)
{
    uint32_t same = 0;
    while (at + period + same < count && kind[at + same] == kind[at + period + same]) {
        same++;
    }
    return 1 + same / period;
}

static uint32_t runs_in(const uint32_t *kind, uint32_t count)
{
    uint32_t runs = 1;
    for (uint32_t i = 1; i < count; i++) {
        runs += kind[i] != kind[i - 1];
    }
    return runs;
}

static best cheapest_at(const uint32_t *kind, uint32_t count, uint32_t at, const best *from)
{
    best found = {UINT32_MAX, 0, 0};
    for (uint32_t period = 1; period <= GAL_FOLD_PERIOD_MAX && period <= count - at; period++) {
        const uint32_t rows = runs_in(kind + at, period), most = turns_at(kind, count, at, period);
        for (uint32_t turns = most; turns >= (period == 1 ? 1 : 2); turns--) {
            const uint32_t all = rows + from[at + period * turns].rows;
            if (all < found.rows) {
                found = (best){all, period, turns};
            }
        }
    }
    return found;
}

uint32_t gal_fold_kinds(const uint32_t *kind, uint32_t count, gal_fold *folds)
{
    uint32_t fold_count = 0;
    best *from = calloc(count + 1, sizeof *from);
    if (from == NULL) {
        return 0;
    }
    for (uint32_t at = count; at-- > 0;) {
        from[at] = cheapest_at(kind, count, at, from);
    }
    for (uint32_t at = 0; at < count; at += from[at].period * from[at].turns) {
        folds[fold_count++] = (gal_fold){at, from[at].period, from[at].turns};
    }
    free(from);
    return fold_count;
}
