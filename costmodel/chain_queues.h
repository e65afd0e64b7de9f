/* Chains that are lowered for themselves (gal_chain_spec), with queues that are laid out once for all chains of equal
 * lists. For costmodel alone. */
#ifndef GAL_COSTMODEL_CHAIN_QUEUES_H
#define GAL_COSTMODEL_CHAIN_QUEUES_H

#include "costmodel/chain.h"

typedef struct gal_chain_queues gal_chain_queues;

/* known is referred to, and added to. GAL_ERR_SYSTEM without memory. */
gal_code gal_chain_queues_create(gal_known_kernels *known, gal_chain_queues **out, gal_error *err);
void gal_chain_queues_free(gal_chain_queues *queues); /* accepts NULL */

/* The chain's times, but for its update's, which stay as they are. GAL_ERR_SYSTEM without memory; GAL_ERR_DOCUMENT if a
 * tensor is too large. */
gal_code gal_chain_queues_run(gal_chain_queues *queues, const gal_chain_spec *spec, gal_chain_times *out,
                              gal_error *err);

#endif
