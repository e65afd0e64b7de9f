/* What stays of a menu, plainly: what planner/stages/stage_items.h lists must be that. */
#ifndef GAL_TESTS_SUPPORT_PRUNED_MENU_H
#define GAL_TESTS_SUPPORT_PRUNED_MENU_H

#include "planner/bound/mixture.h"

/* Leaves in a menu, in place, what no other item of its class beats in all its numbers at once; of equals the first
 * strategy. Items of a class follow each other, the quickest first. Returns how many. */
uint32_t gal_prune_menu(gal_mix_item *item, uint32_t count);

#endif
