/* Classes of strategies whose rows lie alike, and of each class, by type of block, those that no other beats. For
 * stage_tables.c: these fill its class, stands, listed, rows_bytes and kept. */
#ifndef GAL_PLANNER_STAGES_STAGE_ROWS_H
#define GAL_PLANNER_STAGES_STAGE_ROWS_H

#include "planner/stages/stage_tables.h"

/* class, stands and listed, with their counts. GAL_ERR_SYSTEM without memory. */
gal_code gal_stage_rows_number(gal_stage_tables *t);
/* rows_bytes: of the rows between the blocks, at their smallest. */
void gal_stage_rows_measure(gal_stage_tables *t);
/* kept: of each type what no other of its class beats on any stage; ways are known. */
void gal_stage_rows_keep_best(gal_stage_tables *t);
/* One class of all, with the smallest rows. */
void gal_stage_rows_join(gal_stage_tables *t);

#endif
