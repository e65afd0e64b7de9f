/* The tables of a profile that nobody measured: the kernels and collectives of the plans that a search may choose, each
 * with its analytic seconds.
 *
 * Plans: every number of stages that divides the devices, every strategy that is legal, alike on all blocks, with even
 * stages. What a plan of several strategies has besides (conversions between layouts) gets no entry: readers of the
 * profile price it by the same formulas. */
#ifndef GAL_PLANNER_CLI_PROFILE_TABLES_H
#define GAL_PLANNER_CLI_PROFILE_TABLES_H

#include "planner/space/ranges.h"
#include "schemas/profile.h"

/* Adds the model's entries to the tables of the profile, whose cluster is set; no key is there twice afterwards.
 * batches empty: the model's own; microbatch_counts empty: powers of two that divide the batch. GAL_ERR_SYSTEM without
 * memory; GAL_ERR_USAGE if the tables have no room. The caller frees the profile, also after an error. */
gal_code gal_profile_tables_add(gal_profile *profile, const gal_model *model, const gal_u32_list *batches,
                                const gal_u32_list *microbatch_counts, gal_error *err);

#endif
