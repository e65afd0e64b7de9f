/* Prices of conversions between neighbours. */
#include "costmodel/price_cache.h"

#include <math.h>
#include <string.h>

#include "costmodel/relayout.h"

static gal_chain_spec chain_of(const gal_price_cache *cache, const gal_price_query *query)
{
    return (gal_chain_spec){.model = cache->model, .durations = cache->durations, .query = query};
}

static void append(gal_chain_spec *chain, uint32_t type, const gal_strategy *strategy)
{
    chain->type[chain->block_count] = type;
    chain->strategy[chain->block_count++] = strategy;
}

static bool splits_samples(gal_axis_kind kind)
{
    return kind == GAL_AXIS_DP || kind == GAL_AXIS_SDP;
}

/* Adds the axis, to the one before it where both split samples. */
static void add_axis(gal_strategy *strategy, gal_axis_kind kind, uint32_t degree)
{
    gal_axis *last = strategy->axis_count > 0 ? &strategy->axis[strategy->axis_count - 1] : NULL;
    if (last != NULL && splits_samples(last->kind) && splits_samples(kind)) {
        last->degree *= degree;
        return;
    }
    strategy->axis[strategy->axis_count++] = (gal_axis){kind, degree};
}

/* The plainest strategy of the same layout: nothing gathered, scattered or run again, but what two sub-batches need to
 * be. Samples split on both sides of another axis take DP and SDP, whose states alone are sharded. */
static gal_strategy plain(const gal_strategy *strategy, gal_block_kind kind)
{
    gal_strategy out = {
        .sequence_parallel = strategy->sequence_parallel, .tp_mode = strategy->tp_mode, .tp_depth = strategy->tp_depth};
    if (gal_strategy_halves(strategy, kind)) {
        out.overlap = strategy->overlap;
        out.recompute = strategy->recompute;
    }
    bool split = false;
    for (uint32_t i = 0; i < strategy->axis_count; i++) {
        const gal_axis *axis = &strategy->axis[i];
        const bool samples = splits_samples(axis->kind);
        const uint32_t count = out.axis_count;
        add_axis(&out, !samples ? axis->kind : split ? GAL_AXIS_SDP : GAL_AXIS_DP, axis->degree);
        split = split || (samples && out.axis_count > count);
    }
    for (uint32_t i = 0; i < out.axis_count; i++) {
        out.zero_stage = out.axis[i].kind == GAL_AXIS_SDP ? 1 : out.zero_stage;
    }
    return out;
}

/* Whether nothing is done to the rows between two blocks, and both work on sub-batches or neither does. */
static bool goes_on(const gal_strategy *from, const gal_strategy *to, uint32_t device_count)
{
    return (from->overlap != GAL_OVERLAP_NONE) == (to->overlap != GAL_OVERLAP_NONE) &&
           gal_price_rows_alike(from, to, device_count);
}

/* Where the rows lie that a block of strategy `from` reaches from whole ones, and after their conversion for `to`: by
 * steps. Returns how many. */
static uint32_t lay_out(const gal_atoms *atoms, const gal_price_query *from, const gal_price_query *to,
                        gal_layout *before, gal_layout *behind, gal_layout_step *steps)
{
    gal_layout_of_strategy(from->microbatch_samples, atoms, from->strategy, before);
    return gal_layout_enter(before, atoms, to->strategy, steps, behind);
}

/* Whether one more of them may stand behind it: not where other rows leave than enter, nor where the carried tensor is
 * made. */
static bool follows_itself(const gal_price_cache *cache, uint32_t type)
{
    const gal_block_shape *shape = &cache->shape[type];
    return shape->in.positions == shape->out.positions && shape->in.features == shape->out.features &&
           (shape->carried_in.positions > 0 || shape->carried_out.positions == 0);
}

static bool is_cross(const gal_price_cache *cache, uint32_t type)
{
    return cache->shape[type].kind == GAL_BLOCK_CROSS_ATTENTION;
}

/* What a chain of these blocks takes beyond their steady prices; gains are not counted (costmodel/price.h). */
static void read_conversion(const gal_chain_times *t, const gal_block_price *a, uint32_t a_count,
                            const gal_block_price *b, uint32_t b_count, gal_pair_price *out)
{
    const double forward =
        t->forward_seconds - a_count * a->forward_seconds - b_count * b->forward_seconds - a->enter_seconds;
    const double backward =
        t->backward_seconds - a_count * a->backward_seconds - b_count * b->backward_seconds - b->leave_seconds;
    const double sync = t->sync_seconds - a_count * a->sync_seconds - b_count * b->sync_seconds - a->tail_seconds;
    out->forward_seconds = fmax(forward, 0.0);
    out->backward_seconds = fmax(backward, 0.0);
    out->sync_seconds = fmax(sync, 0.0);
    out->converts = true;
}

/* ---- between two layouts ---- */

/* A conversion that is asked for. */
typedef struct change {
    gal_price_cache *cache;
    const gal_price_query *from, *to;
    gal_price_end before_end, behind_end;
    gal_layout before, behind; /* where rows lie */
    gal_relayout relayout;
    gal_chain_spec spec;
    uint32_t from_count, to_count;
} change;

/* A block alone that stands for the query's samples: the one that its price comes from, or else one of its own. */
static gal_code find_lone(gal_price_cache *cache, const gal_price_query *query, const gal_lone **out, gal_error *err)
{
    gal_price_key key;
    gal_price_key_of(cache, GAL_PRICE_LONE, query, &key);
    void *found = gal_price_find(cache, &key);
    if (found != NULL && !gal_lone_stands_for(&((const gal_kept_lone *)found)->lone, query->microbatch_samples)) {
        key.word[2] |= (uint64_t)query->microbatch_samples << 32;
        found = gal_price_find(cache, &key);
    }
    if (found == NULL) {
        gal_kept_lone kept = {.structure = NULL};
        gal_code code = gal_structures_lone(cache->structures, query, &kept.lone, err);
        code = code == GAL_OK ? gal_price_keep(cache, &key, &kept, sizeof kept, &found, err) : code;
        if (code != GAL_OK) {
            gal_lone_free(&kept.lone);
            return code;
        }
    }
    *out = &((const gal_kept_lone *)found)->lone;
    return GAL_OK;
}

/* A block's price and what it was made of. */
static gal_code find_end(gal_price_cache *cache, const gal_price_query *query, gal_price_end *out, gal_error *err)
{
    gal_price_key key;
    gal_price_key_of(cache, GAL_PRICE_END, query, &key);
    void *found = gal_price_find(cache, &key);
    if (found == NULL) {
        gal_price_end end;
        gal_price_key axes;
        gal_price_key_of(cache, GAL_PRICE_AXES, query, &axes);
        gal_code code = gal_price_block(cache, query, &end.price, err);
        code = code == GAL_OK ? find_lone(cache, query, &end.lone, err) : code;
        end.axes = gal_price_find_at_home(cache, query->strategy, &axes);
        code = code == GAL_OK ? gal_price_keep(cache, &key, &end, sizeof end, &found, err) : code;
        if (code != GAL_OK) {
            return code;
        }
    }
    *out = *(const gal_price_end *)found;
    return GAL_OK;
}

/* The sequence s s s' s'; what cannot follow itself stands once. The carried tensor lies as the second ones want it. */
static void line_up(change *p)
{
    const gal_price_cache *cache = p->cache;
    p->from_count = follows_itself(cache, p->from->type) ? 2 : 1;
    p->to_count = follows_itself(cache, p->to->type) ? 2 : 1;
    p->spec = chain_of(cache, p->from);
    for (uint32_t i = 0; i < p->from_count + p->to_count; i++) {
        const gal_price_query *of = i < p->from_count ? p->from : p->to;
        append(&p->spec, of->type, of->strategy);
    }
    if (is_cross(cache, p->to->type)) {
        p->spec.entry = &p->before;
        p->spec.carried = &p->behind;
    }
}

static gal_code open_pair(gal_price_cache *cache, const gal_price_query *from, const gal_price_query *to, change *out,
                          gal_error *err)
{
    gal_code code = GAL_OK;
    gal_atoms atoms;
    gal_layout_step steps[GAL_LAYOUT_STEPS_MAX];
    out->cache = cache;
    out->from = from;
    out->to = to;
    GAL_TRY(find_end(cache, from, &out->before_end, err));
    GAL_TRY(find_end(cache, to, &out->behind_end, err));
    gal_atoms_of(from->device_count, &atoms);
    const uint32_t count = lay_out(&atoms, from, to, &out->before, &out->behind, steps);
    gal_relayout_of(&atoms, steps, count, cache->shape[to->type].in, cache->model->compute_dtype, &out->relayout);
    line_up(out);
cleanup:
    return code;
}

/* Less the steady prices. */
static void read_pair(const change *p, const gal_chain_times *t, gal_pair_price *out)
{
    read_conversion(t, p->before_end.price, p->from_count, p->behind_end.price, p->to_count, out);
}

static gal_code lower_pair(const change *p, gal_pair_price *out, gal_error *err)
{
    gal_chain_times t;
    const gal_code code = gal_chain_queues_run(p->cache->queues, &p->spec, &t, err);
    if (code == GAL_OK) {
        read_pair(p, &t, out);
    }
    return code;
}

/* Whether the conversion is all that the chain has beside its blocks alone: no sub-batches, no carried tensor that is
 * converted too. */
static bool is_plain(const change *p)
{
    const bool halves = p->from->strategy->overlap != GAL_OVERLAP_NONE || p->to->strategy->overlap != GAL_OVERLAP_NONE;
    return !halves && !(is_cross(p->cache, p->from->type) && is_cross(p->cache, p->to->type)) && !p->relayout.too_large;
}

enum {
    LEVELS_IN_WORD = 16,
    ALIKE_WORDS = 3 + 2 * (GAL_RELAYOUT_WORKS_MAX + GAL_RELAYOUT_WORKS_MAX / LEVELS_IN_WORD + 1)
};

static uint32_t write_costs(const gal_cost *cost, uint32_t count, uint64_t *word)
{
    uint32_t words = 0;
    for (uint32_t i = 0; i < count; i += LEVELS_IN_WORD) {
        uint64_t levels = 0;
        for (uint32_t k = i; k < count && k < i + LEVELS_IN_WORD; k++) {
            memcpy(&word[words++], &cost[k].seconds, sizeof *word);
            levels = levels << 4 | cost[k].level;
        }
        word[words++] = levels;
    }
    return words;
}

/* Of thousands of pairs of orders of axes many have the same blocks and conversions of the same costs: the crossing
 * says of which lists. */
static uint32_t write_key(const change *p, const gal_crossing *crossing, const gal_relayout_costs *costs, uint64_t *key)
{
    _Static_assert((int)GAL_LINK_LEVELS_MAX <= 16, "bits");
    uint32_t words = 0;
    key[words++] = (uint64_t)(uintptr_t)p->before_end.price;
    key[words++] = (uint64_t)(uintptr_t)p->behind_end.price;
    key[words++] = gal_crossing_number(crossing);
    words += write_costs(costs->forward, p->relayout.forward_count, key + words);
    return words + write_costs(costs->backward, p->relayout.backward_count, key + words);
}

static gal_code cross(change *p, gal_pair_price *out, gal_error *err)
{
    gal_price_cache *cache = p->cache;
    const gal_crossing_chain chain = {.spec = &p->spec,
                                      .from_count = p->from_count,
                                      .from = p->before_end.lone,
                                      .to = p->behind_end.lone,
                                      .from_levels = &p->before_end.axes->levels,
                                      .to_levels = &p->behind_end.axes->levels,
                                      .relayout = &p->relayout};
    const gal_crossing *crossing = NULL;
    gal_relayout_costs costs;
    gal_chain_times t;
    uint64_t key[ALIKE_WORDS];
    const gal_code code = gal_crossings_find(cache->crossings, &chain, &crossing, err);
    if (code != GAL_OK || crossing == NULL) {
        return code == GAL_OK ? lower_pair(p, out, err) : code;
    }
    gal_crossings_costs(cache->crossings, &chain, &costs);
    const uint32_t words = write_key(p, crossing, &costs, key);
    const gal_pair_price *known = gal_word_keys_find(&cache->alike, key, words);
    if (known != NULL) {
        *out = *known;
        return GAL_OK;
    }
    gal_crossings_run(cache->crossings, crossing, &chain, &costs, &t);
    read_pair(p, &t, out);
    return gal_word_keys_keep(&cache->alike, key, words, out, sizeof *out, err);
}

static gal_code price_pair(gal_price_cache *cache, const gal_price_query *from, const gal_price_query *to,
                           gal_pair_price *out, gal_error *err)
{
    change p;
    gal_code code = open_pair(cache, from, to, &p, err);
    if (code == GAL_OK) {
        code = is_plain(&p) ? cross(&p, out, err) : lower_pair(&p, out, err);
    }
    if (code == GAL_OK) {
        out->relayout_bytes = p.relayout.bytes.inside;
        out->relayout_entry_bytes = p.relayout.bytes.entry;
    }
    return code;
}

/* ---- of the carried tensor ---- */

/* Two cross-attentions whose rows lie right less their steady prices. */
static gal_code price_carried(gal_price_cache *cache, const gal_price_query *from, const gal_price_query *to,
                              gal_pair_price *out, gal_error *err)
{
    const gal_block_price *b = NULL;
    gal_atoms atoms;
    gal_layout before, behind;
    gal_layout_step unused[GAL_LAYOUT_STEPS_MAX];
    gal_code code = gal_price_block(cache, to, &b, err);
    gal_chain_spec chain = chain_of(cache, to);
    gal_chain_times t;
    gal_atoms_of(to->device_count, &atoms);
    (void)lay_out(&atoms, from, to, &before, &behind, unused);
    chain.entry = &behind;
    chain.carried = &before;
    append(&chain, to->type, to->strategy);
    append(&chain, to->type, to->strategy);
    code = code == GAL_OK ? gal_chain_queues_run(cache->queues, &chain, &t, err) : code;
    if (code == GAL_OK) {
        read_conversion(&t, b, 1, b, 1, out);
        out->relayout_bytes = out->relayout_entry_bytes =
            gal_relayout_bytes_between(to->device_count, &before, &behind, cache->shape[to->type].carried_in,
                                       cache->model->compute_dtype)
                .carried;
    }
    return code;
}

static void take_longer(gal_pair_price *price, const gal_pair_price *other)
{
    price->forward_seconds = fmax(price->forward_seconds, other->forward_seconds);
    price->backward_seconds = fmax(price->backward_seconds, other->backward_seconds);
    price->sync_seconds = fmax(price->sync_seconds, other->sync_seconds);
}

static gal_code price_change(gal_price_cache *cache, const gal_price_query *from, const gal_price_query *to,
                             gal_pair_price *out, gal_error *err);

/* The conversion between the plainest strategies of two layouts, of the rows or of the carried tensor. */
gal_code gal_price_conversion_here(gal_price_cache *cache, gal_price_kind kind, const gal_price_query *query,
                                   uint32_t to_type, const gal_strategy *to_strategy, const gal_pair_price **out,
                                   gal_error *err)
{
    const bool pair = kind == GAL_PRICE_PAIR; /* the carried tensor is of whole microbatches */
    const gal_strategy from_plain = plain(query->strategy, pair ? cache->shape[query->type].kind : GAL_BLOCK_EMBEDDING);
    const gal_strategy to_plain = plain(to_strategy, pair ? cache->shape[to_type].kind : GAL_BLOCK_EMBEDDING);
    gal_price_query from = *query;
    gal_price_query to = *query;
    gal_price_key key;
    from.strategy = &from_plain;
    to.strategy = &to_plain;
    to.type = to_type;
    gal_price_key_of(cache, kind, &from, &key);
    key.word[3] = gal_price_key_axes(&to_plain);
    key.word[4] = gal_price_key_flags(&to_plain, to_type);
    key.word[5] |= (uint64_t)gal_price_key_grid(&to_plain) << 32;
    void *found = gal_price_find(cache, &key);
    if (found == NULL) {
        gal_code code = GAL_OK;
        gal_pair_price price = {0};
        if (!goes_on(&from_plain, &to_plain, query->device_count)) {
            code = pair ? price_change(cache, &from, &to, &price, err) : price_carried(cache, &from, &to, &price, err);
        }
        code = code == GAL_OK ? gal_price_keep(cache, &key, &price, sizeof price, &found, err) : code;
        if (code != GAL_OK) {
            return code;
        }
    }
    *out = found;
    return GAL_OK;
}

/* Of a conversion, where sub-batches begin or end: no less than of the same layouts without them. */
static gal_code price_change(gal_price_cache *cache, const gal_price_query *from, const gal_price_query *to,
                             gal_pair_price *out, gal_error *err)
{
    const gal_strategy whole_from = plain(from->strategy, GAL_BLOCK_EMBEDDING);
    const gal_strategy whole_to = plain(to->strategy, GAL_BLOCK_EMBEDDING);
    const bool sub_batches = from->strategy->overlap != GAL_OVERLAP_NONE || to->strategy->overlap != GAL_OVERLAP_NONE;
    const gal_pair_price *whole = NULL;
    gal_price_query query = *from;
    query.strategy = &whole_from;
    gal_code code = price_pair(cache, from, to, out, err);
    if (code == GAL_OK && sub_batches) {
        code = gal_price_conversion_here(cache, GAL_PRICE_PAIR, &query, to->type, &whole_to, &whole, err);
    }
    if (code == GAL_OK && sub_batches) {
        take_longer(out, whole);
    }
    return code;
}
