/* Orders of axes that are one.
 *
 * dp4-tp2 and tp2-dp4 on equal links differ in what devices are called: the groups of each axis have as many members at
 * every level of the links, so a block has the same price and the same bytes under both (costmodel/axes.h). What
 * differs is where rows lie, and so what is converted between neighbours. A bound that counts no conversions is the
 * same of one order, the first, as of all.
 *
 * The first is that of the axes sorted by kind among those that lie at one level, as far as there is such an order. It
 * depends on the axes alone: strategies of one order have first ones of one order, so holders of the token table that
 * are alike stay alike. Only where any order of the axes is legal, on a power of a prime, and where stages and groups
 * of neighbours do not straddle units of the links; else every order is its own first. */
#ifndef GAL_PLANNER_SPACE_ORDERS_H
#define GAL_PLANNER_SPACE_ORDERS_H

#include "schemas/cluster.h"
#include "schemas/plan.h"

/* Fills first[i]: the number of the first order of strategy[i], which differs from it in the order of axes alone.
 * strategy[count]: as gal_space_strategies lists them, on device_count devices of the cluster. GAL_ERR_SYSTEM without
 * memory. */
gal_code gal_orders_number(const gal_cluster *cluster, uint32_t device_count, const gal_strategy *strategy,
                           uint32_t count, uint32_t *first, gal_error *err);

#endif
