/* Chains of blocks lowered whole, each for itself: what prices from kept parts are equal to. */
#ifndef GAL_TESTS_SUPPORT_CHAIN_RUN_H
#define GAL_TESTS_SUPPORT_CHAIN_RUN_H

#include "costmodel/chain.h"

/* Lowered, its times, and the memory of its block `memory_block`. GAL_ERR_SYSTEM without memory; GAL_ERR_DOCUMENT if a
 * tensor is too large. */
gal_code gal_chain_run(const gal_chain_spec *spec, gal_chain_times *times, uint32_t memory_block,
                       gal_block_memory *memory, gal_error *err);
/* gal_chain_sync_seconds of it. */
gal_code gal_chain_run_sync(const gal_chain_spec *spec, double *seconds, gal_error *err);

#endif
