/* What a plan claims of itself, held against prices: its seconds, its bytes, and that no other is faster. */
#ifndef GAL_PLANNER_CERTIFICATE_CLAIMS_H
#define GAL_PLANNER_CERTIFICATE_CLAIMS_H

#include "costmodel/objective.h"

/* The objective is that of the plan's strategies, its bytes are theirs and fit the certificate's memory, and the plan
 * is one of those that the bound is of. durations: by which it was planned. GAL_NO with what, claimed and derived. */
gal_code gal_claims_check_plan(gal_price_cache *cache, const gal_durations *durations, const gal_plan *plan,
                               gal_error *err);

/* Proves lower_bound_seconds of a plan with a certificate again (planner/certificate/certificate.h), for all numbers on
 * its lists. GAL_NO with what was claimed and what could be proved. */
gal_code gal_claims_check_bound(gal_price_cache *cache, const gal_durations *durations, const gal_plan *plan,
                                gal_error *err);

#endif
