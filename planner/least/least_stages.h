/* What stages of a cell take by bytes alone: a block in a stage, its borders; and, for a view of the strategies, by the
 * smallest bytes of each block, where each stage must begin and end. For planner/least/least_cell.c alone. */
#ifndef GAL_PLANNER_LEAST_LEAST_STAGES_H
#define GAL_PLANNER_LEAST_LEAST_STAGES_H

#include "planner/least/least_items.h"

#define GAL_LEAST_ANY_LAYOUT UINT32_MAX

/* The strategies that are looked at. */
typedef struct gal_least_view {
    uint32_t layout; /* GAL_LEAST_ANY_LAYOUT: any */
    uint32_t shards; /* of who holds the token table */
} gal_least_view;

typedef struct gal_least_stages {
    const gal_cell_spec *spec;
    const gal_block_types *types;
    const gal_least_items *items;
    gal_least_view view;
    int64_t *in_flight;    /* [stage] */
    int64_t *least_node;   /* [stage][block]: of the view; < 0: there is none */
    int64_t *least_shared; /* [block]: of what it uses in turn */
    uint32_t *begin;       /* [stage], and the end: stages filled from the back; none begins earlier */
    uint32_t *end;         /* [stage]: filled from the front; none ends later */
    /* [stage][block], and the end: of the blocks from here up to where the next stage must begin; sum and largest: */
    int64_t *rest, *rest_shared;
} gal_least_stages;

/* items is referred to. GAL_ERR_SYSTEM without memory. */
gal_code gal_least_stages_create(const gal_least_items *items, gal_least_stages *out, gal_error *err);
void gal_least_stages_free(gal_least_stages *stages); /* accepts a zeroed one */

/* As planner/cell/cell_steps.c has them. A block's own, in a stage; what its last block adds; a version of the carried
 * tensor in front of a block that reads it or not; what the first block receives. c: NULL where nothing is converted;
 * from: the block before in the stage, NULL: it is in another. */
int64_t gal_least_node_bytes(const gal_least_stages *stages, uint32_t block, uint32_t stage,
                             const gal_least_item *item);
int64_t gal_least_close_bytes(const gal_least_stages *stages, uint32_t stage, const gal_least_item *item);
int64_t gal_least_version_bytes(const gal_least_stages *stages, uint32_t block, uint32_t stage,
                                const gal_least_item *from, const gal_least_item *to, const gal_least_conversion *c);
int64_t gal_least_entry_bytes(const gal_least_stages *stages, uint32_t stage, const gal_least_item *from,
                              const gal_least_item *to, const gal_least_conversion *c);

/* The items of a block, and whether the view has one. */
const gal_least_item *gal_least_items_of(const gal_least_stages *stages, uint32_t block, uint32_t *count);
bool gal_least_is_seen(const gal_least_stages *stages, uint32_t block, const gal_least_item *item);

/* From now on the view. False: some block has nothing to choose. */
bool gal_least_look(gal_least_stages *stages, gal_least_view view);
/* Fills begin and end: whole blocks by their least bytes. False: the stages do not hold all blocks. */
bool gal_least_fill(gal_least_stages *stages, int64_t limit_bytes);
/* Fills rest and rest_shared, behind gal_least_fill. */
void gal_least_sum_rest(gal_least_stages *stages);
/* No chain of the view has a smaller largest stage; one of at most `limit_bytes` fills. */
int64_t gal_least_bound(gal_least_stages *stages, int64_t limit_bytes);
/* Whether the open stage of a block, of so many bytes by itself and in turn, may yet reach the next stage's begin. */
bool gal_least_reaches(const gal_least_stages *stages, uint32_t block, uint32_t stage, int64_t bytes,
                       int64_t shared_bytes, int64_t limit_bytes);

#endif
