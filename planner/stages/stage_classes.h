/* A stage's blocks by class: the cheapest way through it at a price per byte.
 *
 * Every block takes the cheapest item of its class, and between classes rows are converted (planner/bound/mixture.h): a
 * shortest path. Among all classes it bounds what the stage takes, conversions at both sides of a block included, which
 * pairs of neighbours miss; among those that suit the stage's types best it is found sooner. */
#ifndef GAL_PLANNER_STAGES_STAGE_CLASSES_H
#define GAL_PLANNER_STAGES_STAGE_CLASSES_H

#include "planner/bound/mixture.h"
#include "planner/bound/slope.h"

typedef struct gal_class_query {
    const gal_mix_stage *stage;
    uint32_t begin, end;   /* blocks */
    uint32_t class_before; /* of the block before them; class_count: there is none */
    double top_bytes;      /* items of more turn_bytes are not taken */
    bool all;              /* classes are looked at; else those that suit best */
} gal_class_query;

typedef struct gal_stage_classes gal_stage_classes;

/* Room for stages of so many blocks, types and classes at most. GAL_ERR_SYSTEM without memory. */
gal_code gal_stage_classes_create(uint32_t block_count, uint32_t type_count, uint32_t class_count,
                                  gal_stage_classes **out, gal_error *err);
void gal_stage_classes_free(gal_stage_classes *room); /* accepts NULL */

/* class[block - begin]. What the ends of a stage add counts. Infinite seconds: there is no way. */
gal_priced_choice gal_stage_classes_find(gal_stage_classes *room, const gal_class_query *query, double price,
                                         uint32_t *class);

/* No choice for the blocks [begin, end) takes less, in the levels of turn_bytes of a bound of such stages; infinity:
 * none fits. loose_seconds: what pairs of neighbours say; where that is all but true, prices are not searched for. Once
 * the bound is enough_seconds it need not be the best. */
double gal_stage_classes_bound(gal_stage_classes *room, const gal_mix_stage *stage, const gal_mix_bound *levels,
                               uint32_t begin, uint32_t end, double loose_seconds, double enough_seconds);

#endif
