/* The cells of a search: batches, microbatch counts and pipeline degrees. */
#ifndef GAL_PLANNER_CELL_CELL_LIST_H
#define GAL_PLANNER_CELL_CELL_LIST_H

#include "planner/cell/search_request.h"

/* Every cell in the order of the search: batches, then microbatch counts, then pipeline degrees; not all of their
 * numbers divide. A list that the request leaves empty: joint_search.h. *out is freed by the caller. GAL_ERR_SYSTEM
 * without memory. */
gal_code gal_search_cells(const gal_search_request *request, gal_cell_numbers **out, uint32_t *count, gal_error *err);

/* The cell's spec, with the space and the arena that the request has. */
gal_cell_spec gal_search_cell_spec(const gal_search_request *request, const gal_cell_numbers *numbers,
                                   gal_price_cache *cache);

/* Cells that take a step, or are proved, at the same time: GAL_CELLS_AT_ONCE where strategies are most, else one. As
 * many whatever threads there are: what one finds does not spare the others, so the answer depends on it. */
enum { GAL_CELLS_AT_ONCE = 4 };
uint32_t gal_search_cells_at_once(const gal_search_request *request);

/* Prices for searches of the request, by its threads where its strategies are many. GAL_ERR_SYSTEM without memory. */
gal_code gal_search_cache_create(const gal_search_request *request, gal_price_cache **out, gal_error *err);

#endif
