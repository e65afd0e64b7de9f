#include "costmodel/price_times.h"

#include <math.h>

/* Share of a chain's forward or backward: where two calls differ by less it is by rounding alone. Their seconds are
 * differences of sums of up to some thousand steps, each rounded to 2^-53; what is real has at least a link's latency.
 */
static const double rounding = 1e-11;

uint32_t gal_times_steady_count(const gal_strategy *strategy)
{
    const bool by_matrix = strategy->shard_unit == GAL_SHARD_MATRIX;
    const bool late = strategy->zero_stage == 2 || (strategy->zero_stage == 3 && by_matrix) ||
                      strategy->overlap >= GAL_OVERLAP_IN_PASS || strategy->offload_activations_percent > 0;
    return strategy->zero_stage == 2 && !by_matrix ? 4 /* both buckets full */ : late ? 3 : 2;
}

double gal_times_added_by_sync(const gal_chain_times *t)
{
    const double added = t->sync_seconds - t->late_seconds;
    return fabs(added) > rounding * t->backward_seconds ? added : 0.0;
}

double gal_times_added_by_first(const gal_chain_times *t)
{
    const double added = t->first_forward_seconds - t->forward_seconds;
    return fabs(added) > rounding * t->first_forward_seconds ? added : 0.0;
}

bool gal_times_add_sync(const gal_chain_times *t)
{
    return fabs(gal_times_added_by_sync(t)) > 0.0;
}

void gal_times_read_steady(const gal_chain_times *t, double shorter_sync_seconds, uint32_t count,
                           const gal_strategy *strategy, double stage_blocks, gal_block_price *out)
{
    const uint32_t next = strategy->overlap >= GAL_OVERLAP_IN_PASS ? 1 : 0;
    const uint32_t last = count - 1 - next, steady = count - gal_times_steady_count(strategy) + next;
    out->forward_seconds = t->forward_end[last] - t->forward_end[last - 1];
    out->backward_seconds = t->backward_end[steady] - t->backward_end[steady + 1];
    const double with_sync = t->backward_seconds + gal_times_added_by_sync(t) - shorter_sync_seconds;
    out->sync_seconds = gal_times_add_sync(t) ? fmax(with_sync, t->own_backward_seconds) - out->backward_seconds : 0.0;
    out->enter_seconds = t->forward_seconds - count * out->forward_seconds;
    out->leave_seconds = t->backward_seconds - count * out->backward_seconds;
    out->tail_seconds = gal_times_added_by_sync(t) - count * out->sync_seconds;
    out->wait_seconds =
        fmin(fmax(-out->leave_seconds, 0.0), fmax(t->left_seconds - out->forward_seconds * stage_blocks, 0.0));
    out->leave_seconds += out->wait_seconds;
}

void gal_times_read_links(const gal_chain_times *t, const gal_block_price *beside, gal_block_price *out)
{
    const double round = out->forward_seconds + out->backward_seconds;
    for (uint32_t level = 0; level < GAL_LINK_LEVELS_MAX; level++) {
        const double seconds = t->link_seconds[level];
        out->link_share[level] = beside != NULL ? beside->link_share[level] : seconds < round ? seconds / round : 1.0;
    }
}

void gal_times_read_end(const gal_block_price *beside, bool head, const gal_chain_times *t, gal_block_price *out)
{
    out->forward_seconds = fmax(t->own_forward_seconds, t->forward_seconds - 2 * beside->forward_seconds -
                                                            (head ? beside->enter_seconds : 0.0));
    out->backward_seconds =
        fmax(t->own_backward_seconds, t->backward_seconds - 2 * beside->backward_seconds -
                                          (head ? 0.0 : beside->leave_seconds - beside->wait_seconds));
    out->sync_seconds = gal_times_added_by_sync(t) - 2 * beside->sync_seconds - (head ? beside->tail_seconds : 0.0);
}

void gal_times_read_single(const gal_block_price *beside, const gal_chain_times *t, gal_block_price *out)
{
    const double backward = fmax(t->backward_seconds - 2 * beside->backward_seconds, 0.0); /* with the turn */
    gal_times_read_end(beside, true, t, out);
    out->backward_seconds = fmax(t->own_backward_seconds, backward - (beside->leave_seconds - beside->wait_seconds));
    out->enter_seconds = beside->enter_seconds;
    out->leave_seconds = backward - out->backward_seconds + beside->wait_seconds;
}

void gal_times_read_table(const gal_block_price *embedding, bool bridge, gal_block_price *out)
{
    out->sync_seconds = fmax(out->sync_seconds, 0.0);
    out->table_sync_seconds = fmin(out->sync_seconds, fmax(embedding->sync_seconds, 0.0));
    out->tail_seconds = bridge ? embedding->sync_seconds - out->table_sync_seconds : 0.0;
}

const double gal_times_below = 1.0 - 1e-9;

double gal_times_least_forward(const gal_chain_times *t, bool waits_for_tensor)
{
    const double waits = waits_for_tensor ? t->tensor_forward_seconds : 0.0;
    return gal_times_below * fmax(t->own_forward_seconds + waits, t->stream_forward_seconds);
}

double gal_times_least_with_sync(const gal_chain_times *t)
{
    return gal_times_below * fmax(t->own_backward_seconds, t->stream_sync_seconds);
}
