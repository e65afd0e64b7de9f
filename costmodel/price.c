/* Prices of blocks. */
#include <math.h>
#include <string.h>

#include "costmodel/hidden.h"
#include "costmodel/lag.h"
#include "costmodel/price_cache.h"
#include "costmodel/price_times.h"
#include "schemas/plan_check.h"

static bool begins_chain(const gal_price_cache *cache, uint32_t type)
{
    return cache->shape[type].in.positions == 0;
}

static bool ends_chain(const gal_price_cache *cache, uint32_t type)
{
    return cache->shape[type].out.positions == 0;
}

static bool is_bridge(const gal_price_cache *cache, uint32_t type)
{
    return cache->shape[type].kind == GAL_BLOCK_BRIDGE;
}

/* Whether it holds the token table, which the embedding brings to the first stage. */
static bool shares_table(const gal_price_cache *cache, uint32_t type)
{
    return !begins_chain(cache, type) && (cache->shape[type].shared >> GAL_SHARED_TABLE & 1U) != 0;
}

static bool is_merge(const gal_price_cache *cache, uint32_t type)
{
    return cache->shape[type].kind == GAL_BLOCK_MERGE;
}

/* Whether it is priced as what two blocks of another type gain by it. */
static bool is_gained(const gal_price_cache *cache, uint32_t type)
{
    return begins_chain(cache, type) || ends_chain(cache, type) || is_bridge(cache, type) || is_merge(cache, type);
}

/* ---- what a price is made of ---- */

/* A chain's blocks alone: the one that is priced and, behind an embedding, before a head or a bridge, two of another
 * type. */
typedef struct parts {
    gal_price_query beside; /* as the query, of the other type or of the same */
    gal_price_query first;  /* likewise, of the embedding */
    gal_kept_lone *own, *other;
    uint32_t axis_sets; /* of all that the price comes from */
} parts;

static gal_code find_parts(gal_price_cache *cache, const gal_price_query *query, parts *out, gal_error *err)
{
    const bool gained = is_gained(cache, query->type), shares = shares_table(cache, query->type);
    gal_kept_lone *first = NULL;
    out->beside = out->first = *query;
    out->beside.type = !gained                          ? query->type
                       : ends_chain(cache, query->type) ? cache->type_before_last
                       : is_merge(cache, query->type)   ? cache->type_before_merge[query->type]
                                                        : cache->type_behind_first;
    out->first.type = cache->type_first;
    gal_code code = gal_price_kept_lone(cache, query, &out->own, err);
    out->other = out->own;
    code = code == GAL_OK && gained ? gal_price_kept_lone(cache, &out->beside, &out->other, err) : code;
    code = code == GAL_OK && shares ? gal_price_kept_lone(cache, &out->first, &first, err) : code;
    if (code == GAL_OK) {
        out->axis_sets = out->own->lone.axis_sets | out->other->lone.axis_sets | (shares ? first->lone.axis_sets : 0);
    }
    return code;
}

/* ---- from the times of a chain ---- */

static uint32_t stages_of(const gal_price_cache *cache, const gal_price_query *query)
{
    return gal_durations_cluster(cache->durations)->device_count / query->device_count;
}

/* Of an even stage. */
static double blocks_of_stage(const gal_price_cache *cache, const gal_price_query *query)
{
    return 1.0 * gal_model_block_count(cache->model) / stages_of(cache, query);
}

static bool is_legal(const gal_price_cache *cache, const gal_price_query *query)
{
    return gal_strategy_block_rule_broken(cache->model, &cache->shape[query->type], query->strategy,
                                          query->device_count, query->microbatch_samples) == NULL;
}

/* Kernels of the head, which begins the backward of the only stage; none where the strategy is not the head's. */
static gal_code head_seconds(gal_price_cache *cache, const gal_price_query *query, double *seconds, gal_error *err)
{
    const gal_model *model = cache->model;
    gal_price_query head = *query;
    gal_kept_lone *kept = NULL;
    const gal_lone *lone = NULL;
    gal_lone temporary = {0};
    head.type = gal_model_block_type(model, gal_model_block_count(model) - 1);
    *seconds = 0.0;
    if (stages_of(cache, query) > 1 || !is_legal(cache, &head)) {
        return GAL_OK;
    }
    gal_code code = gal_price_kept_lone(cache, &head, &kept, err);
    code = code == GAL_OK ? gal_price_fit_samples(cache, &head, kept, &lone, &temporary, err) : code;
    if (code == GAL_OK) {
        *seconds = gal_lone_own_seconds(lone, cache->durations, head.microbatch_samples, GAL_FRAGMENT_BACKWARD_SYNC);
    }
    gal_lone_free(&temporary);
    return code;
}

/* An embedding's, the last of backward: what its table leaves, beyond what blocks wait for. */
static gal_code add_wait(gal_price_cache *cache, const gal_price_query *query, const gal_block_price *beside,
                         const gal_chain_times *t, gal_block_price *out, gal_error *err)
{
    double head = 0.0;
    const double left =
        t->left_seconds - out->forward_seconds - beside->forward_seconds * blocks_of_stage(cache, query);
    const gal_code code = left > beside->wait_seconds ? head_seconds(cache, query, &head, err) : GAL_OK;
    out->backward_seconds += fmax(left - head - beside->wait_seconds, 0.0);
    return code;
}

static gal_code read_gain(gal_price_cache *cache, const gal_price_query *query, const parts *of,
                          const gal_chain_times *t, gal_block_price *out, gal_error *err)
{
    const gal_block_price *beside = NULL, *embedding = NULL;
    const bool bridge = is_bridge(cache, query->type);
    gal_code code = gal_price_block_here(cache, &of->beside, &beside, err);
    if (code == GAL_OK && shares_table(cache, query->type)) {
        code = gal_price_block_here(cache, &of->first, &embedding, err);
    }
    if (code != GAL_OK) {
        return code;
    }
    if (bridge || is_merge(cache, query->type)) {
        gal_times_read_single(beside, t, out);
    } else {
        gal_times_read_end(beside, ends_chain(cache, query->type), t, out);
    }
    out->sync_seconds = fmax(out->sync_seconds, t->own_backward_seconds - out->backward_seconds); /* as of a block */
    if (begins_chain(cache, query->type)) {
        code = add_wait(cache, query, beside, t, out, err);
        out->first_seconds = stages_of(cache, query) == 1 ? gal_times_added_by_first(t) : 0.0;
    }
    if (embedding != NULL) {
        gal_times_read_table(embedding, bridge, out);
    }
    gal_times_read_links(t, beside, out);
    return code;
}

/* The chain that a block is priced by. Returns the block in it. */
static uint32_t line_up(const gal_price_cache *cache, const gal_price_query *query, const parts *of,
                        const gal_lone *own, const gal_lone *other, gal_lone_chain *chain)
{
    const bool gained = is_gained(cache, query->type);
    const bool holds = cache->shape[query->type].shared != 0; /* the first one brings it */
    *chain =
        (gal_lone_chain){.query = query, .block_count = gained ? 3 : gal_times_steady_count(query->strategy) + holds};
    const uint32_t place = gained && !begins_chain(cache, query->type) ? chain->block_count - 1 : 0;
    for (uint32_t i = 0; i < chain->block_count; i++) {
        chain->type[i] = i == place ? query->type : of->beside.type;
        chain->lone[i] = i == place ? own : other;
    }
    return place;
}

/* Backward with sync of a chain with one block less; none where sync adds nothing. */
static gal_code measure_shorter(gal_price_cache *cache, const gal_lone_chain *chain, const gal_chain_times *t,
                                double *sync_seconds, gal_error *err)
{
    gal_lone_chain shorter = *chain;
    gal_structure *structure = NULL;
    *sync_seconds = 0.0;
    if (!gal_times_add_sync(t)) {
        return GAL_OK;
    }
    shorter.block_count--;
    shorter.sync_alone = true;
    const gal_code code = gal_structures_chain(cache->structures, &shorter, &structure, err);
    if (code == GAL_OK) {
        *sync_seconds = gal_structures_sync_seconds(structure, &shorter, cache->durations);
    }
    return code;
}

static gal_code read_memory(const gal_price_cache *cache, const gal_price_query *query, const gal_lone *own,
                            gal_block_memory *out, gal_error *err)
{
    const gal_code code = gal_lone_memory(own, query->microbatch_samples, out, err);
    if (code != GAL_OK) {
        return code;
    }
    out->bytes.relayout = 0;
    out->relayout_entry = 0;
    out->bytes.boundary =
        gal_price_rows_bytes(cache->model, query->strategy, query->microbatch_samples, cache->shape[query->type].out);
    out->halved = gal_strategy_halves(query->strategy, cache->shape[query->type].kind);
    return GAL_OK;
}

/* Prices of all orders of the axes share it: it is more than the rest of them. */
static gal_code find_memory(gal_price_cache *cache, const gal_price_query *query, const gal_lone *own,
                            const gal_block_memory **out, gal_error *err)
{
    gal_price_key key;
    gal_price_key_of(cache, GAL_PRICE_MEMORY, query, &key);
    void *found = gal_price_find(cache, &key);
    if (found == NULL) {
        gal_block_memory memory;
        gal_code code = read_memory(cache, query, own, &memory, err);
        code = code == GAL_OK ? gal_price_keep(cache, &key, &memory, sizeof memory, &found, err) : code;
        if (code != GAL_OK) {
            return code;
        }
    }
    *out = found;
    return GAL_OK;
}

/* ---- what a block among its like takes at least ---- */

static gal_code price_anew(gal_price_cache *cache, const gal_price_query *query, const parts *of,
                           const gal_axis_levels *levels, gal_block_price *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_chain_times t;
    gal_lone_chain chain;
    gal_lone temporary = {0}, temporary_other = {0};
    const gal_lone *own = NULL, *other = NULL;
    const bool gained = is_gained(cache, query->type);
    GAL_TRY(gal_price_fit_samples(cache, query, of->own, &own, &temporary, err));
    other = own;
    if (gained) {
        GAL_TRY(gal_price_fit_samples(cache, &of->beside, of->other, &other, &temporary_other, err));
    }
    const uint32_t place = line_up(cache, query, of, own, other, &chain);
    if (of->own->structure == NULL) {
        GAL_TRY(gal_structures_chain(cache->structures, &chain, &of->own->structure, err));
    }
    gal_structures_cost(&chain, cache->durations, levels);
    gal_structures_measure(of->own->structure, &chain, cache->durations, place, &t);
    if (gained) {
        GAL_TRY(read_gain(cache, query, of, &t, out, err));
    } else {
        double shorter_sync_seconds = 0.0;
        GAL_TRY(measure_shorter(cache, &chain, &t, &shorter_sync_seconds, err));
        gal_times_read_steady(&t, shorter_sync_seconds, chain.block_count, query->strategy,
                              blocks_of_stage(cache, query), out);
        out->forward_seconds =
            fmax(out->forward_seconds, gal_times_least_forward(&t, gal_price_waits_for_tensor(cache, query)));
        out->sync_seconds = fmax(out->sync_seconds, gal_times_least_with_sync(&t) - out->backward_seconds);
        gal_times_read_links(&t, NULL, out);
    }
    /* Values on their way to a file wait in a ring and in front of it for some blocks, which is longer than the chain:
     * of many blocks each takes as long as its own transfers. */
    out->forward_seconds = fmax(out->forward_seconds, t.stored_forward_seconds);
    out->backward_seconds = fmax(out->backward_seconds, t.stored_backward_seconds);
    out->on_device = (gal_pass_seconds){out->forward_seconds, out->backward_seconds};
    out->lag_seconds = gal_lag_seconds(cache->durations, query->device_count, &t, out->backward_seconds);
    out->update_seconds = t.update_seconds;
    memcpy(out->shared_update_seconds, t.shared_update_seconds, sizeof t.shared_update_seconds);
    GAL_TRY(find_memory(cache, query, own, &out->memory, err));
cleanup:
    gal_lone_free(&temporary_other);
    gal_lone_free(&temporary);
    return code;
}

/* Of sync what on the only stage another block brings: the embedding. */
static double borrowed_sync(const gal_price_cache *cache, const gal_price_query *query, const gal_block_price *price)
{
    return begins_chain(cache, query->type) ? 0.0 : price->table_sync_seconds;
}

/* On the only stage, of other blocks' reductions (costmodel/lag.h). */
static bool hides_nothing(const gal_price_cache *cache, const gal_price_query *query)
{
    return begins_chain(cache, query->type) || ends_chain(cache, query->type) || gal_lag_is_awaited(query->strategy) ||
           query->strategy->overlap >= GAL_OVERLAP_IN_PASS;
}

static void part_sync(const gal_price_cache *cache, const gal_price_query *query, gal_block_price *out)
{
    if (stages_of(cache, query) == 1) {
        gal_lag_part(hides_nothing(cache, query), borrowed_sync(cache, query, out), out);
        out->once_seconds = fmax(out->once_seconds + out->first_seconds, 0.0); /* floors have none of it */
    } else {
        out->once_seconds = 0.0;
        out->lag_seconds = out->sync_seconds;
    }
}

/* What offload is held against: the same with what is on storage in the host's memory or, of moments alone there and of
 * what is in the host's memory, all of it on the device. false: nothing is anywhere else. */
static bool moved_back(const gal_strategy *strategy, gal_strategy *out)
{
    *out = *strategy;
    if (strategy->offload_storage_activations_percent > 0 || strategy->offload_storage_parameters_percent > 0) {
        out->offload_storage_activations_percent = out->offload_storage_parameters_percent = 0;
        return true;
    }
    *out = gal_strategy_on_device(strategy);
    return gal_strategy_offloads(strategy);
}

/* Of the update what is the block's own, and each of what it shares. */
static void take_no_less_update(const gal_block_price *than, gal_block_price *out)
{
    double own = out->update_seconds, least = than->update_seconds, more = 0.0;
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
        own -= out->shared_update_seconds[shared];
        least -= than->shared_update_seconds[shared];
        more += fmax(than->shared_update_seconds[shared] - out->shared_update_seconds[shared], 0.0);
        out->shared_update_seconds[shared] =
            fmax(out->shared_update_seconds[shared], than->shared_update_seconds[shared]);
    }
    out->update_seconds += more + fmax(least - own, 0.0);
}

/* What is offloaded saves bytes of the device, and takes a block no less time: what no plan without it reaches, no plan
 * reaches (planner/search/joint_search.h), and bounds of what is in the host's memory are of what is on storage too
 * (planner/certificate/claims.c). A price of a short chain may say otherwise, where blocks that wait for copies hide
 * what else they wait for, or where beside such blocks one gains less; so may an update of which the host has a share
 * that it is done with before the device is. */
static gal_code take_no_less(gal_price_cache *cache, const gal_price_query *query, gal_block_price *out, gal_error *err)
{
    gal_strategy back;
    gal_price_query alike = *query;
    const gal_block_price *than = NULL;
    if (!moved_back(query->strategy, &back)) {
        return GAL_OK;
    }
    alike.strategy = &back;
    const gal_code code = gal_price_block_here(cache, &alike, &than, err);
    if (code != GAL_OK) {
        return code;
    }
    const double sync = fmax(out->sync_seconds, than->sync_seconds);
    out->table_sync_seconds = fmin(out->table_sync_seconds, than->table_sync_seconds + sync - than->sync_seconds);
    out->sync_seconds = sync;
    const double more =
        sync - borrowed_sync(cache, query, out) - than->sync_seconds + borrowed_sync(cache, query, than);
    const double lag = gal_lag_of(borrowed_sync(cache, query, than), than);
    out->lag_seconds = fmin(fmax(out->lag_seconds, lag), lag + more);
    out->forward_seconds = fmax(out->forward_seconds, than->forward_seconds);
    out->backward_seconds = fmax(out->backward_seconds, than->backward_seconds);
    out->on_device = than->on_device;
    out->enter_seconds = fmax(out->enter_seconds, than->enter_seconds);
    out->leave_seconds = fmax(out->leave_seconds, than->leave_seconds);
    out->tail_seconds = fmax(out->tail_seconds, than->tail_seconds);
    out->first_seconds = fmax(out->first_seconds, than->first_seconds);
    for (uint32_t level = 0; level < GAL_LINK_LEVELS_MAX; level++) {
        out->link_share[level] = fmax(out->link_share[level], than->link_share[level]);
    }
    take_no_less_update(than, out);
    return GAL_OK;
}

/* Under ZeRO-3, what neighbours hide; nothing where the same without gathers is not to be had. */
static gal_code find_hidden(gal_price_cache *cache, const gal_price_query *query, const parts *of, gal_block_price *out,
                            gal_error *err)
{
    gal_strategy strategy;
    gal_error reason = {0};
    gal_price_query alike = *query, beside = of->beside;
    const gal_block_price *without = NULL, *neighbour = NULL;
    alike.strategy = beside.strategy = &strategy;
    if (!gal_hidden_without(query->strategy, &strategy) || !is_legal(cache, &alike)) {
        return GAL_OK;
    }
    gal_code code = gal_price_block_here(cache, &alike, &without, &reason);
    code = code == GAL_OK ? gal_price_block_here(cache, &beside, &neighbour, &reason) : code;
    if (code == GAL_OK) {
        gal_hidden_fill(&cache->shape[query->type], without, neighbour, out);
    }
    return code == GAL_OK || gal_is_too_large(code) ? GAL_OK : gal_fail(err, code, "%s", reason.text);
}

/* The key of all queries that differ in the order of axes and in stages, but not in where the groups lie that the
 * blocks use: their prices are equal. */
static void key_of_like(const gal_price_cache *cache, gal_price_kind kind, const gal_price_query *query,
                        const parts *of, const gal_kept_axes *axes, gal_price_key *out)
{
    const uint32_t used = of->axis_sets;
    uint16_t id[3][sizeof out->word[0] / sizeof(uint16_t)] = {0}; /* of the sets that are used: the rest says which */
    uint32_t count = 0;
    for (uint32_t set = 0; set < GAL_AXIS_SETS; set++) {
        if ((used >> set & 1U) != 0) {
            GAL_ASSERT(count < sizeof id / sizeof id[0][0]);
            id[count / 4][count % 4] = axes->id[set];
            count++;
        }
    }
    gal_price_key_of(cache, kind, query, out);
    memcpy(&out->word[3], id[0], sizeof id[0]);
    memcpy(&out->word[4], id[1], sizeof id[1]);
    memcpy(&out->word[6], id[2], sizeof id[2]);
}

static gal_code find_like(gal_price_cache *cache, const gal_price_query *query, void **out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_price_key key;
    gal_block_price price = {0};
    parts of;
    const gal_kept_axes *axes = NULL;
    GAL_TRY(find_parts(cache, query, &of, err));
    GAL_TRY(gal_price_kept_axes(cache, query, &axes, err));
    key_of_like(cache, GAL_PRICE_LIKE, query, &of, axes, &key);
    *out = gal_price_find(cache, &key);
    if (*out == NULL) {
        GAL_TRY(price_anew(cache, query, &of, &axes->levels, &price, err));
        GAL_TRY(take_no_less(cache, query, &price, err));
        part_sync(cache, query, &price);
        GAL_TRY(find_hidden(cache, query, &of, &price, err));
        GAL_TRY(gal_price_keep(cache, &key, &price, sizeof price, out, err));
    }
cleanup:
    return code;
}

static gal_code find_charged(gal_price_cache *cache, const gal_price_query *query, void **out, gal_error *err)
{
    gal_price_key key;
    gal_block_price price = {0};
    gal_price_key_of(cache, GAL_PRICE_CHARGED, query, &key);
    const gal_code code = gal_price_block_charged(cache, query, &price, err);
    return code == GAL_OK ? gal_price_keep(cache, &key, &price, sizeof price, out, err) : code;
}

gal_code gal_price_block_here(gal_price_cache *cache, const gal_price_query *asked, const gal_block_price **out,
                              gal_error *err)
{
    gal_price_key key;
    gal_strategy strategy;
    const gal_price_query query = gal_price_kept_query(cache, asked, &strategy);
    gal_price_key_of(cache, GAL_PRICE_BLOCK, &query, &key);
    void *found = gal_price_find(cache, &key);
    if (found == NULL) {
        void *like = NULL;
        gal_code code =
            cache->of != NULL ? find_charged(cache, &query, &like, err) : find_like(cache, &query, &like, err);
        code = code == GAL_OK ? gal_price_keep(cache, &key, &like, sizeof like, &found, err) : code;
        if (code != GAL_OK) {
            return code;
        }
    }
    *out = *(const gal_block_price *const *)found;
    return GAL_OK;
}

/* ---- what a price is at least ---- */

static gal_code floor_anew(gal_price_cache *cache, const gal_price_query *query, const gal_lone *lone,
                           const gal_axis_levels *levels, gal_block_price *out, gal_error *err)
{
    const uint32_t samples = query->microbatch_samples;
    const bool gained = is_gained(cache, query->type);
    const gal_cost *cost = gal_lone_costs(lone, cache->durations, levels, samples);
    gal_chain_times t = {
        .own_forward_seconds = gal_lone_own_seconds(lone, cache->durations, samples, GAL_FRAGMENT_FORWARD),
        .own_backward_seconds = gal_lone_own_seconds(lone, cache->durations, samples, GAL_FRAGMENT_BACKWARD_SYNC)};
    gal_structures_update(lone, cost, cache->durations, &t);
    gal_lone_collective_seconds(lone, cost, &t);
    const bool waits = !gained && gal_price_waits_for_tensor(cache, query);
    double forward = gained ? gal_times_below * t.own_forward_seconds : gal_times_least_forward(&t, waits);
    double with_sync = gained ? gal_times_below * t.own_backward_seconds : gal_times_least_with_sync(&t);
    if (!hides_nothing(cache, query)) {
        with_sync = fmin(with_sync, gal_times_below * gal_lag_with_backward(cache->durations, query->device_count, &t));
    }
    if (gal_price_gathers(query->strategy)) {
        const double without = t.own_forward_seconds + (waits ? t.tensor_forward_seconds : 0.0);
        forward = gal_hidden_floor(forward, gal_times_below * without); /* in the last backward nothing is hidden */
    }
    *out = (gal_block_price){.forward_seconds = forward,
                             .backward_seconds = gal_times_below * t.own_backward_seconds,
                             .update_seconds = t.update_seconds};
    out->lag_seconds =
        gal_times_below * with_sync - out->backward_seconds; /* below again: of a price it is a difference */
    memcpy(out->shared_update_seconds, t.shared_update_seconds, sizeof t.shared_update_seconds);
    return find_memory(cache, query, lone, &out->memory, err);
}

/* As take_no_less, which takes a lag that is longer than the other's for as much of it as sync grows by alone: so of
 * that here as much as the other's. */
static void floor_no_less(const gal_block_price *than, gal_block_price *out)
{
    const double late = than->backward_seconds + than->once_seconds + than->lag_seconds - than->table_sync_seconds;
    out->forward_seconds = fmax(out->forward_seconds, gal_times_below * than->forward_seconds);
    out->backward_seconds = fmax(out->backward_seconds, gal_times_below * than->backward_seconds);
    out->lag_seconds = gal_times_below * late - out->backward_seconds;
    take_no_less_update(than, out);
}

/* With a charge for bytes in the host's memory, with what is on storage, or of a block that would be lowered anew, the
 * price itself. */
gal_code gal_price_floor_here(gal_price_cache *cache, const gal_price_query *asked, const gal_block_price **out,
                              gal_error *err)
{
    gal_code code = GAL_OK;
    gal_strategy strategy;
    gal_price_key key;
    parts parts_of;
    const gal_price_query query = gal_price_kept_query(cache, asked, &strategy);
    const gal_kept_axes *axes = NULL;
    if (cache->of != NULL || strategy.offload_storage_activations_percent > 0 ||
        strategy.offload_storage_parameters_percent > 0) {
        return gal_price_block_here(cache, asked, out, err);
    }
    GAL_TRY(find_parts(cache, &query, &parts_of, err));
    if (!gal_lone_stands_for(&parts_of.own->lone, query.microbatch_samples)) {
        return gal_price_block_here(cache, asked, out, err);
    }
    GAL_TRY(gal_price_kept_axes(cache, &query, &axes, err));
    key_of_like(cache, GAL_PRICE_FLOOR, &query, &parts_of, axes, &key);
    void *found = gal_price_find(cache, &key);
    if (found == NULL) {
        gal_block_price price;
        gal_strategy back;
        GAL_TRY(floor_anew(cache, &query, &parts_of.own->lone, &axes->levels, &price, err));
        if (moved_back(&strategy, &back)) {
            gal_price_query alike = query;
            const gal_block_price *than = NULL;
            alike.strategy = &back;
            GAL_TRY(gal_price_floor_here(cache, &alike, &than, err));
            floor_no_less(than, &price);
        }
        GAL_TRY(gal_price_keep(cache, &key, &price, sizeof price, &found, err));
    }
    *out = found;
cleanup:
    return code;
}
