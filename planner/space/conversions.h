/* The most that the layout conversions of a chain can take.
 *
 * A conversion starts from the order of samples that the conversions before it left behind (runtime/program/atoms.h),
 * so its steps and bytes depend on the whole chain. The orders that a chain can reach are few: they are listed by
 * closure from whole rows, and between two classes of strategies (equal groups over samples and positions) the most
 * over all of them is kept, for each size of rows; where they are thousands, no less than in any order at all: what is
 * moved atom by atom, and beside its place, takes most. Where a block works on two sub-batches rows are cut behind the
 * conversion, and joined in front of the next one: classes differ in that too, and in the kind of overlap and
 * recompute, which prices of such changes depend on. */
#ifndef GAL_PLANNER_SPACE_CONVERSIONS_H
#define GAL_PLANNER_SPACE_CONVERSIONS_H

#include "planner/space/block_types.h"
#include "schemas/plan.h"

typedef struct gal_conversions {
    uint32_t class_count;
    uint32_t *class_of;     /* [strategy] */
    uint32_t *rows_of;      /* [strategy]: the first class whose rows lie alike, sub-batches or not */
    uint64_t *inside_bytes; /* [flow][from class][to class] of class relayout, inside a stage */
    uint64_t *entry_bytes;  /* in front of a stage */
} gal_conversions;

/* Of the rows of a flow (planner/space/block_types.h), from one strategy to another. */
static inline size_t gal_conversion_index(const gal_conversions *conversions, uint32_t flow, uint32_t from, uint32_t to)
{
    const size_t classes = conversions->class_count;
    return (flow * classes + conversions->class_of[from]) * classes + conversions->class_of[to];
}

enum { GAL_CONVERSIONS_LAYOUTS = 1024 /* of a search: some ms */ };

/* The strategies are each legal for some type of block of the model on device_count devices. layout_limit: where more
 * orders than that are reached, rows are taken to lie in any. GAL_ERR_SYSTEM without memory. */
gal_code gal_conversions_create(const gal_model *model, const gal_block_types *types, uint32_t device_count,
                                uint32_t microbatch_samples, const gal_strategy *strategy, uint32_t strategy_count,
                                uint32_t layout_limit, gal_conversions *out, gal_error *err);
void gal_conversions_free(gal_conversions *conversions);

#endif
