/* Which moments of a plan go to storage, so that it is within a limit of the host's memory; and whether masters do.
 *
 * What is given are the strategies, with what they have of weights and activations there; what is chosen is each
 * block's storage_percent, where it has no weights there, and of 16 bits, if that is asked for, for all of them
 * whether masters lie where moments do. Their bytes are freed on the host, and three parts of each on their way are
 * held there instead, counted as large as the largest of them. Of the choices within the limits of the host and of
 * storage the one of least seconds is taken (a block whose Adam takes longer than its transfers pays nothing, so shares
 * of many blocks are better than all of a few), of those the one of the fewest bytes on storage: a knapsack per stage
 * (planner/search/least_cover.h). Holders of the token table have one share, which is tried through. */
#ifndef GAL_PLANNER_SEARCH_STORAGE_FIT_H
#define GAL_PLANNER_SEARCH_STORAGE_FIT_H

#include "costmodel/price.h"
#include "schemas/plan.h"

typedef struct gal_host_limits {
    uint64_t host_bytes, storage_bytes; /* of a device; UINT64_MAX: none */
    bool masters;                       /* of 16 bits may go to storage too, with their moments */
    bool weights;                       /* weights may, with theirs (host_joint.h) */
} gal_host_limits;

/* plan: legal; its storage_percents and storage_masters are replaced, its predictions are
 * void. *fits false: no choice does, or it is interleaved or has weights in chunks (neither is looked into); then plan
 * is as it was. GAL_ERR_SYSTEM without memory, else as gal_lower and gal_price_block. */
gal_code gal_storage_fit(gal_price_cache *cache, const gal_host_limits *most, gal_plan *plan, bool *fits,
                         gal_error *err);

#endif
