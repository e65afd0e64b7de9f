/* How a plan was priced, as JSON, for schemas/plan.c. */
#ifndef GAL_SCHEMAS_PLAN_PRICES_H
#define GAL_SCHEMAS_PLAN_PRICES_H

#include "schemas/plan.h"

/* The members "risk" and "pricing" of a plan, where it has them, and what the certificate must say beside them. */
void gal_plan_prices_read_at(const gal_json_cursor *root, gal_plan *plan);
void gal_plan_prices_write_at(gal_json_writer *out, const gal_plan *plan);

#endif
