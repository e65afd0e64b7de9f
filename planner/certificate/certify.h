/* What a search claims: the bound of its plan, as galplan verify proves it again. */
#ifndef GAL_PLANNER_CERTIFICATE_CERTIFY_H
#define GAL_PLANNER_CERTIFICATE_CERTIFY_H

#include "planner/cell/search_request.h"
#include "planner/certificate/certificate.h"

/* A cell and what is known of it. */
typedef struct gal_certify_cell {
    gal_cell_numbers numbers;
    double bound_seconds; /* by the search: no plan of its takes less */
    double plain_seconds; /* proved plainly (planner/certificate/certificate.h); 0: nothing yet */
    double stood_seconds; /* proved as galplan verify will ask for it; likewise */
} gal_certify_cell;

/* Fills the plan's certificate and lower bound.
 * from               of the request's model and durations: those of the search will do, for what they keep depends on
 *                    nothing else
 * way                by which the cells' bounds may be proved
 * cell               all of the plan's batch, in the order of the search; `count` >= 1; sorted
 * *searched_seconds  what the search found no plan of the batch to take less than; becomes what is claimed, where that
 *                    is as good
 * GAL_ERR_SYSTEM without memory; else as gal_price_block. */
gal_code gal_certify(const gal_search_request *request, const gal_certificate_sources *from, gal_certificate_way way,
                     gal_certify_cell *cell, uint32_t count, double *searched_seconds, gal_plan *plan, gal_error *err);

#endif
