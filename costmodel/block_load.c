#include "costmodel/block_load.h"

#include <math.h>
#include <string.h>

#include "costmodel/price_cache.h"
#include "costmodel/together.h"

/* The instructions of a fragment that are collectives of this stage. */
static void add_collectives(const gal_lone *lone, const gal_cost *cost, bool waits, gal_block_load *out)
{
    const gal_fragment *forward = &lone->like->fragment[GAL_FRAGMENT_FORWARD];
    const gal_fragment *backward = &lone->like->fragment[GAL_FRAGMENT_BACKWARD_SYNC];
    const gal_fragment *update = &lone->like->fragment[GAL_FRAGMENT_UPDATE];
    for (uint32_t c = 0; c < lone->collective_count; c++) {
        const uint32_t i = lone->collective[c];
        const gal_instruction *in = &lone->like->instruction[i];
        const bool ahead = i >= forward->first && i < forward->first + forward->count;
        const bool back = i >= backward->first && i < backward->first + backward->count;
        const bool updates = i >= update->first && i < update->first + update->count;
        if (!ahead && !back && !updates) {
            continue;
        }
        double *seconds = gal_lone_is_of_shared(lone->like, in) ? out->table_seconds
                          : updates                             ? out->update_link_seconds
                          : in->only_last                       ? out->sync_seconds
                                                                : out->link_seconds;
        seconds[cost[i].level] += cost[i].seconds;
        out->exposed_seconds += ahead && waits && in->stream == GAL_STREAM_TENSOR ? cost[i].seconds : 0.0;
    }
}

gal_code gal_block_load_of(gal_price_cache *cache, const gal_price_query *asked, gal_block_load *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_strategy strategy;
    gal_kept_lone *kept = NULL;
    const gal_lone *lone = NULL;
    gal_lone temporary = {0};
    const gal_kept_axes *axes = NULL;
    const gal_block_price *floor = NULL;
    const gal_price_query query = gal_price_kept_query(cache, asked, &strategy);
    const uint32_t samples = query.microbatch_samples;
    gal_block_load load = {0};
    GAL_TRY(gal_price_block_floor(cache, asked, &floor, err));
    GAL_TRY(gal_price_kept_lone(cache, &query, &kept, err));
    GAL_TRY(gal_price_kept_axes(cache, &query, &axes, err));
    GAL_TRY(gal_price_fit_samples(cache, &query, kept, &lone, &temporary, err));
    load.compute_seconds = gal_lone_own_seconds(lone, cache->durations, samples, GAL_FRAGMENT_FORWARD) +
                           gal_lone_own_seconds(lone, cache->durations, samples, GAL_FRAGMENT_BACKWARD_SYNC);
    add_collectives(lone, gal_lone_costs(lone, cache->durations, &axes->levels, samples),
                    gal_price_waits_for_tensor(cache, &query), &load);
    load.update_seconds = gal_lone_own_seconds(lone, cache->durations, samples, GAL_FRAGMENT_UPDATE);
    load.memory = floor->memory;
    *out = load;
cleanup:
    gal_lone_free(&temporary);
    return code;
}

void gal_block_load_add(const gal_block_load *more, gal_block_load *sum)
{
    sum->compute_seconds += more->compute_seconds;
    sum->exposed_seconds += more->exposed_seconds;
    sum->update_seconds += more->update_seconds;
    for (uint32_t level = 0; level < GAL_LINK_LEVELS_MAX; level++) {
        sum->link_seconds[level] += more->link_seconds[level];
        sum->sync_seconds[level] += more->sync_seconds[level];
        sum->table_seconds[level] += more->table_seconds[level];
        sum->update_link_seconds[level] += more->update_link_seconds[level];
    }
}

/* Both done at the same time as far as they can be: while they are, each takes its factor longer. The shorter one lies
 * whole beside the other, which loses what it is slowed meanwhile; if that is more than the shorter one takes alone,
 * they follow each other. */
static double least_together(double compute, double link, double compute_factor, double link_factor)
{
    const double beside = fmin(compute * compute_factor, link * link_factor);
    return compute + link + fmin(beside * (1.0 - 1.0 / compute_factor - 1.0 / link_factor), 0.0);
}

double gal_load_least_seconds(const gal_block_load *load, const gal_durations *durations, uint32_t microbatch_count,
                              bool with_sync)
{
    const double compute_factor = gal_durations_slowdown(durations, GAL_ACTIVITY_COMPUTE, GAL_ACTIVITY_COMMUNICATION);
    const double link_factor = gal_durations_slowdown(durations, GAL_ACTIVITY_COMMUNICATION, GAL_ACTIVITY_COMPUTE);
    /* Two messages on one link take no less than their sum, or as much as the profile says that they slow each other.
     */
    const double shared =
        fmin(0.5 * gal_durations_slowdown(durations, GAL_ACTIVITY_COMMUNICATION, GAL_ACTIVITY_COMMUNICATION), 1.0);
    const double m = microbatch_count;
    double most = m * (load->compute_seconds + load->exposed_seconds);
    for (uint32_t level = 0; level < GAL_LINK_LEVELS_MAX; level++) {
        const double sync = with_sync ? load->sync_seconds[level] : 0.0;
        const double link = shared * (m * load->link_seconds[level] + sync);
        const double beside = fmax(link - m * load->exposed_seconds, 0.0);
        const double together =
            least_together(m * load->compute_seconds, beside, compute_factor, link_factor) + m * load->exposed_seconds;
        most = fmax(most, fmax(link, together));
    }
    return most;
}

double gal_load_least_update(const gal_block_load *load)
{
    double most = load->update_seconds;
    for (uint32_t level = 0; level < GAL_LINK_LEVELS_MAX; level++) {
        most = fmax(most, load->update_link_seconds[level]);
    }
    return most;
}
