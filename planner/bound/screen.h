/* What a cell can be worth at best, before it is priced. */
#ifndef GAL_PLANNER_BOUND_SCREEN_H
#define GAL_PLANNER_BOUND_SCREEN_H

#include "costmodel/floor.h"
#include "planner/bound/relaxed.h"
#include "planner/cell/cell.h"

/* The menus of cells that were looked at: equal for cells of equal devices per stage and samples per microbatch. */
typedef struct gal_screens gal_screens;

/* model, durations, types, of the model, and space are referred to. GAL_ERR_SYSTEM without memory. */
gal_code gal_screens_create(const gal_model *model, const gal_durations *durations, const gal_block_types *types,
                            const gal_space *space, gal_screens **out, gal_error *err);
void gal_screens_free(gal_screens *screens); /* accepts NULL */
/* Those that it takes from, for others of the same model and durations. */
gal_floors *gal_screens_floors(const gal_screens *screens);

/* No plan of the cell is faster, by compute and what it waits for in any case (costmodel/floor.h), under its limit of
 * bytes: no simulation is, and no objective, as blocks and ends of the chain are priced at their kernels or more
 * (property/test_prunings.c). Infinity: none fits, or none is legal. *least_bytes: no plan's largest stage is smaller;
 * infinity if none is legal. The cell's numbers divide, its space is that of the screens. Errors: as gal_floors_of. */
gal_code gal_screen_floor(gal_screens *screens, const gal_cell_spec *spec, double *bound_seconds, double *least_bytes,
                          gal_error *err);

/* What that is from: of each type of block its splits by their kernels. Seconds and bytes of a split are those of any
 * strategy that splits so at least. */
typedef struct gal_screen_menus {
    gal_relaxed_type *type; /* [type]; what is inside its items is anybody's, until the next call */
    uint32_t split_count;
    gal_relaxed_item **item_of; /* [type][split]; NULL: not to be had */
} gal_screen_menus;

/* Of the cell; the screens'. Errors: as gal_floors_of. */
gal_code gal_screen_menus_of(gal_screens *screens, const gal_cell_spec *spec, gal_screen_menus *out, gal_error *err);
/* *split: the number of a strategy's split among those of stage_devices; split_count: it is of none, and of another
 * space. GAL_ERR_SYSTEM without memory. */
gal_code gal_screen_number(gal_screens *screens, uint32_t stage_devices, const gal_strategy *strategy, uint32_t *split,
                           gal_error *err);

/* What bounds of cells share. How often a block's round counts at least: the mean stage's m, and of the others' one in
 * the bubble what the schedule leaves of it (costmodel/objective.h: gal_round_counts). */
double gal_screen_rounds(const gal_cell_spec *spec);
/* Microbatches in flight on a stage; of stages of several pieces, and of those whose backward is split, one at least.
 */
uint32_t gal_screen_in_flight(const gal_cell_spec *spec, uint32_t stage);
uint32_t gal_screen_block_count(const gal_block_types *types, uint32_t type);
/* limit_bytes[stage]: the arena without the least work memory of the first and the last block, whose stages are known
 * and whose blocks use it in turn. */
void gal_screen_limits(const gal_cell_spec *spec, double first_work_bytes, double last_work_bytes, double *limit_bytes);

#endif
