/* Prices with a charge for the host's memory (costmodel/price.h).
 *
 * Under a limit H of the host's bytes of every stage, by weak duality with one price L >= 0 of a byte:
 *     objective of a plan within H  >=  its objective with update_s + L host_s in place of each stage's update - L H
 * for the largest of the stages' updates counts, and none of their host_s is above H. host_s is no less than the sum
 * over the stage's blocks of what each has there, of one microbatch in flight where activations are kept there; so the
 * charge is a part of each block's price, and whatever bounds sums of prices bounds plans within the limit. A block's
 * moments may be on storage in any share, its masters of 16 bits with them or not, which changes its update and its
 * bytes beside the device alone: each strategy is charged with the share of least update + L host, which is no more
 * than that of any choice for all blocks. Weights and activations on storage, which are read in every microbatch, are
 * of the strategy; beside weights all moments are. Source: M. L. Fisher, "The Lagrangian Relaxation Method for Solving
 * Integer Programming Problems", 1981. */
#include <math.h>

#include "costmodel/price_cache.h"

/* ---- shares ---- */

gal_strategy gal_price_share_strategy(const gal_strategy *strategy, const gal_price_share *share)
{
    gal_strategy out = *strategy;
    out.offload_storage_percent = share->percent;
    out.offload_storage_masters = share->masters && share->percent > 0;
    return out;
}

/* What the update and the optimizer's bytes are of: they are the same whatever forward keeps, where, and what runs
 * again or beside the rest. One strategy stands for all of these. */
static gal_strategy updated_as(const gal_strategy *strategy)
{
    gal_strategy out = *strategy;
    out.offload_activations_percent = out.offload_storage_activations_percent = 0;
    out.recompute = GAL_RECOMPUTE_NONE;
    out.overlap = GAL_OVERLAP_NONE;
    return out;
}

gal_code gal_price_share_of(gal_price_cache *cache, const gal_price_query *query, gal_price_share *share,
                            gal_error *err)
{
    const gal_strategy plain = updated_as(query->strategy), strategy = gal_price_share_strategy(&plain, share);
    gal_price_query at = *query;
    at.strategy = &strategy;
    return gal_price_block(cache, &at, &share->price, err);
}

static bool stores_the_same(const gal_block_price *a, const gal_block_price *b)
{
    return a->memory->host.stored == b->memory->host.stored && a->memory->host.state == b->memory->host.state;
}

/* What a block stores of its moments never falls with the percentage: of two that store the same all between
 * them do. The least percentage that stores more than `low` does, no more than `high`, and its price. */
static gal_code next_share(gal_price_cache *cache, const gal_price_query *query, const gal_price_share *low,
                           gal_price_share *high, gal_error *err)
{
    uint32_t below = low->percent;
    while (high->percent - below > 1) {
        gal_price_share middle = {.percent = below + (high->percent - below) / 2};
        const gal_code code = gal_price_share_of(cache, query, &middle, err);
        if (code != GAL_OK) {
            return code;
        }
        if (stores_the_same(middle.price, low->price)) {
            below = middle.percent;
        } else {
            *high = middle;
        }
    }
    return GAL_OK;
}

/* The least percentages that store different moments, from `least` on. */
static gal_code list_percents(gal_price_cache *cache, const gal_price_query *query, uint32_t least,
                              gal_price_share *out, uint32_t *count, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_price_share last = {.percent = query->strategy->offload_optimizer_percent};
    out[0] = (gal_price_share){.percent = least};
    GAL_TRY(gal_price_share_of(cache, query, &out[0], err));
    GAL_TRY(gal_price_share_of(cache, query, &last, err));
    for (*count = 1; !stores_the_same(out[*count - 1].price, last.price); (*count)++) {
        gal_price_share next = last;
        GAL_TRY(next_share(cache, query, &out[*count - 1], &next, err));
        out[*count] = next;
    }
cleanup:
    return code;
}

gal_code gal_price_shares(gal_price_cache *cache, const gal_price_query *query, bool masters, gal_price_share *out,
                          uint32_t *count, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t least = query->strategy->offload_storage_percent;
    const bool has_masters = masters && gal_dtype_is_narrow(cache->model->compute_dtype);
    uint32_t moments = 0;
    GAL_TRY(list_percents(cache, query, least, out, &moments, err));
    *count = moments;
    for (uint32_t i = 0; has_masters && i < moments; i++) {
        if (out[i].percent > 0) {
            GAL_ASSERT(*count < GAL_PRICE_SHARES_MAX);
            out[(*count)++] = (gal_price_share){out[i].percent, true, NULL};
        }
    }
    for (uint32_t i = 0; i < *count; i++) {
        GAL_TRY(gal_price_share_of(cache, query, &out[i], err));
    }
cleanup:
    return code;
}

/* ---- charges ---- */

/* Of a share, relative biases left out, which stay on the device: with the token table, and without. */
typedef struct charged {
    double all, without_table;
} charged;

static charged charged_of(const gal_block_price *price, double seconds_per_byte)
{
    const gal_block_host *host = &price->memory->host;
    double update = price->update_seconds;
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
        update -= shared != GAL_SHARED_TABLE ? price->shared_update_seconds[shared] : 0.0;
    }
    return (charged){update + seconds_per_byte * (double)host->state,
                     update - price->shared_update_seconds[GAL_SHARED_TABLE] +
                         seconds_per_byte * (double)(host->state - host->table_state)};
}

static bool is_below(uint64_t part, uint64_t limit)
{
    return limit == 0 || part < limit;
}

bool gal_price_charge_allows(const gal_price_charge *charge, const gal_block_price *own, const gal_price_share *share)
{
    const gal_stored_parts *below = &charge->below, *parts = &share->price->memory->host.parts;
    return is_below(parts->moment, below->moment) && is_below(parts->master, below->master) &&
           is_below(parts->weight, below->weight) && is_below(own->memory->host.parts.kept, below->kept);
}

gal_code gal_price_block_charged(const gal_price_cache *cache, const gal_price_query *query, gal_block_price *out,
                                 gal_error *err)
{
    gal_code code = GAL_OK;
    gal_price_share share[GAL_PRICE_SHARES_MAX];
    uint32_t count = 1;
    const gal_block_price *own = NULL;
    charged least = {HUGE_VAL, HUGE_VAL};
    GAL_TRY(gal_price_block(cache->of, query, &own, err));
    share[0].price = own;
    if (cache->charge.storage) {
        GAL_TRY(gal_price_shares(cache->of, query, cache->charge.masters, share, &count, err));
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!gal_price_charge_allows(&cache->charge, own, &share[i])) {
            continue;
        }
        const charged of = charged_of(share[i].price, cache->charge.host_seconds_per_byte);
        least = (charged){fmin(least.all, of.all), fmin(least.without_table, of.without_table)};
    }
    if (least.all == HUGE_VAL) {
        GAL_TRY(gal_fail(err, GAL_ERR_DOCUMENT, "parts on their way from storage are larger than is looked for"));
    }
    *out = *own;
    out->update_seconds = least.all + cache->charge.host_seconds_per_byte * (double)own->memory->host.kept;
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
        out->shared_update_seconds[shared] = shared == GAL_SHARED_TABLE ? least.all - least.without_table : 0.0;
    }
cleanup:
    return code;
}
