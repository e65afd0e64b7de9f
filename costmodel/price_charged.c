/* Prices with a charge for the host's memory (costmodel/price.h).
 *
 * Under a limit H of the host's bytes of every stage, by weak duality with one price L >= 0 of a byte:
 *     objective of a plan within H  >=  its objective with update_s + L host_s in place of each stage's update - L H
 * for the largest of the stages' updates counts, and none of their host_s is above H. host_s is no less than the sum
 * over the stage's blocks of what each has there, of one microbatch in flight where activations are kept there; so the
 * charge is a part of each block's price, and whatever bounds sums of prices bounds plans within the limit. A block's
 * moments may be on storage in any share, its masters of 16 bits with them or not, which changes its update and its
 * bytes beside the device alone: each strategy is charged with the share of least update + L host, which is no more
 * than that of any choice for all blocks. Weights on storage are read before each use, in forward and backward, by
 * whatever part in each: where they may be there, a block takes of both together what the share that takes least does,
 * and of that as much is backward, which hides what later stages reduce, as of any share. Source: M. L. Fisher, "The
 * Lagrangian Relaxation Method for Solving Integer Programming Problems", 1981. */
#include <math.h>

#include "costmodel/price_cache.h"

enum { PERCENT = 100 };

/* ---- shares ---- */

gal_strategy gal_price_share_strategy(const gal_strategy *strategy, const gal_price_share *share)
{
    gal_strategy out = *strategy;
    out.offload_storage_percent = share->percent;
    out.offload_storage_masters = share->beside.masters && share->percent > 0;
    const uint32_t most = strategy->offload_parameters_percent;
    out.offload_storage_parameters_percent = !share->beside.weights ? 0 : share->percent < most ? share->percent : most;
    return out;
}

static gal_code price_share(gal_price_cache *cache, const gal_price_query *query, gal_price_share *share,
                            gal_error *err)
{
    const gal_strategy strategy = gal_price_share_strategy(query->strategy, share);
    gal_price_query at = *query;
    at.strategy = &strategy;
    return gal_price_block(cache, &at, &share->price, err);
}

static bool stores_the_same(const gal_block_price *a, const gal_block_price *b)
{
    return a->memory.host.stored == b->memory.host.stored && a->memory.host.state == b->memory.host.state;
}

/* What a block stores never falls with the percentage: of two that store the same all between them do. The least
 * percentage that stores more than `low` does, with masters or without as `high`, and its price. */
static gal_code next_share(gal_price_cache *cache, const gal_price_query *query, const gal_price_share *low,
                           gal_price_share *high, gal_error *err)
{
    uint32_t below = low->percent;
    while (high->percent - below > 1) {
        gal_price_share middle = {below + (high->percent - below) / 2, high->beside, NULL};
        const gal_code code = price_share(cache, query, &middle, err);
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

/* Behind out[*count - 1] those that store more than out[0], nothing. */
static gal_code add_shares(gal_price_cache *cache, const gal_price_query *query, gal_stored_kinds beside,
                           gal_price_share *out, uint32_t *count, gal_error *err)
{
    gal_price_share last = {query->strategy->offload_optimizer_percent, beside, NULL};
    const gal_price_share *low = &out[0];
    gal_code code = price_share(cache, query, &last, err);
    while (code == GAL_OK && !stores_the_same(low->price, last.price)) {
        gal_price_share next = last;
        code = next_share(cache, query, low, &next, err);
        GAL_ASSERT(*count < GAL_PRICE_SHARES_MAX);
        low = &out[*count];
        out[(*count)++] = next;
    }
    return code;
}

gal_code gal_price_shares(gal_price_cache *cache, const gal_price_query *query, gal_stored_kinds kinds,
                          gal_price_share *out, uint32_t *count, gal_error *err)
{
    gal_code code = GAL_OK;
    const bool has_masters = kinds.masters && gal_dtype_is_narrow(cache->model->compute_dtype);
    const bool has_weights = kinds.weights && query->strategy->offload_parameters_percent > 0;
    *count = 0;
    out[0] = (gal_price_share){0};
    GAL_TRY(price_share(cache, query, &out[0], err));
    *count = 1;
    for (uint32_t w = 0; query->strategy->offload_optimizer_percent > 0 && w <= has_weights; w++) {
        for (uint32_t m = 0; m <= has_masters; m++) {
            GAL_TRY(add_shares(cache, query, (gal_stored_kinds){.masters = m > 0, .weights = w > 0}, out, count, err));
        }
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
    const gal_block_memory *memory = &price->memory;
    const uint64_t kept = memory->host.kept + memory->host.state;
    double update = price->update_seconds;
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
        update -= shared != GAL_SHARED_TABLE ? price->shared_update_seconds[shared] : 0.0;
    }
    return (charged){update + seconds_per_byte * (double)kept,
                     update - price->shared_update_seconds[GAL_SHARED_TABLE] +
                         seconds_per_byte * (double)(kept - memory->host.table_state)};
}

/* What both take at least, seconds of the update apart. */
static void take_least(const gal_block_price *share, gal_block_price *out)
{
    const double round =
        fmin(out->forward_seconds + out->backward_seconds, share->forward_seconds + share->backward_seconds);
    out->backward_seconds = fmin(round, fmax(out->backward_seconds, share->backward_seconds));
    out->forward_seconds = round - out->backward_seconds;
    out->sync_seconds = fmin(out->sync_seconds, share->sync_seconds);
    out->table_sync_seconds = fmax(out->table_sync_seconds, share->table_sync_seconds); /* is taken off that */
    out->enter_seconds = fmin(out->enter_seconds, share->enter_seconds);
    out->leave_seconds = fmin(out->leave_seconds, share->leave_seconds);
    out->tail_seconds = fmin(out->tail_seconds, share->tail_seconds);
}

gal_code gal_price_block_charged(const gal_price_cache *cache, const gal_price_query *query, gal_block_price *out,
                                 gal_error *err)
{
    gal_price_share share[GAL_PRICE_SHARES_MAX];
    uint32_t count = 1;
    const gal_code code =
        cache->charge.storage
            ? gal_price_shares(cache->of, query, (gal_stored_kinds){cache->charge.masters, cache->charge.weights},
                               share, &count, err)
            : gal_price_block(cache->of, query, &share[0].price, err);
    if (code != GAL_OK) {
        return code;
    }
    charged least = charged_of(share[0].price, cache->charge.host_seconds_per_byte);
    *out = *share[0].price;
    for (uint32_t i = 1; i < count; i++) {
        const charged own = charged_of(share[i].price, cache->charge.host_seconds_per_byte);
        least = (charged){fmin(least.all, own.all), fmin(least.without_table, own.without_table)};
        if (share[i].beside.weights) {
            take_least(share[i].price, out);
        }
    }
    out->update_seconds = least.all;
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
        out->shared_update_seconds[shared] = shared == GAL_SHARED_TABLE ? least.all - least.without_table : 0.0;
    }
    return GAL_OK;
}
