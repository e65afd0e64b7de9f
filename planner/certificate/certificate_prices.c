#include "planner/certificate/certificate_prices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/space/strategy_space.h"
#include "schemas/plan_check.h"

/* ---- prices ---- */

/* The ends of the chain have their stages. */
static bool is_here(const gal_cert_prices *v, uint32_t type, uint32_t stage)
{
    return (type != v->types.type_of[0] || stage == 0) &&
           (type != v->types.type_of[v->blocks - 1] || stage + 1 == v->stages);
}

static gal_price_query query_of(const gal_cert_prices *v, uint32_t type, uint32_t stage, uint32_t strategy)
{
    return (gal_price_query){.type = v->types.shape[type].type,
                             .strategy = &v->strategy[strategy],
                             .device_count = v->devices,
                             .stage = stage,
                             .stage_count = v->stages,
                             .microbatch_samples = v->samples,
                             .prefetch_depth = v->cell->prefetch_depth};
}

bool gal_cert_may_take(const gal_cert_prices *v, const gal_strategy *strategy, uint32_t devices, uint32_t samples)
{
    const bool plain = strategy->tp_mode == GAL_TP_1D; /* what its rules say of samples is soonest asked */
    return (!plain || samples % gal_strategy_sample_parts(strategy) == 0) &&
           gal_strategy_gathers_rule_broken(strategy, v->cell->prefetch_depth) == NULL &&
           gal_strategy_all_blocks_rule_broken(v->cell->model, strategy, devices, samples) == NULL;
}

/* Recompute of what has nothing to run again is the same as none; and where nothing attends, a ring or a zigzag is the
 * same as Ulysses, a zigzag as a ring: what splits positions matters to attention alone. */
bool gal_cert_may_take_for(const gal_cert_prices *v, uint32_t type, const gal_strategy *strategy, uint32_t samples)
{
    const gal_block_shape *shape = &v->types.shape[type];
    const bool attends = shape->kind == GAL_BLOCK_ATTENTION || shape->kind == GAL_BLOCK_CROSS_ATTENTION;
    const bool *spaced = v->cell->space->axis;
    const bool useless =
        (strategy->recompute == GAL_RECOMPUTE_FULL && !attends && shape->kind != GAL_BLOCK_FFN) ||
        (strategy->recompute == GAL_RECOMPUTE_SELECTIVE && !attends) ||
        (strategy->offload_activations_percent > 0 &&
         (shape->kind == GAL_BLOCK_EMBEDDING || shape->kind == GAL_BLOCK_HEAD)) ||
        (!attends && gal_strategy_ring_degree(strategy) > 1 && spaced[GAL_AXIS_ULYSSES]) ||
        (!attends && gal_strategy_degree(strategy, GAL_AXIS_ZIGZAG) > 1 && spaced[GAL_AXIS_RING]) ||
        (strategy->overlap != GAL_OVERLAP_NONE && shape->kind != GAL_BLOCK_ATTENTION && shape->kind != GAL_BLOCK_FFN);
    return !useless && gal_strategy_one_block_rule_broken(v->cell->model, shape, strategy, samples) == NULL;
}

/* Leaves of the space what some block may take. */
static void keep_legal(gal_cert_prices *v)
{
    uint32_t kept = 0;
    for (uint32_t s = 0; s < v->strategy_count; s++) {
        v->strategy[kept] = v->strategy[s];
        kept += gal_cert_may_take(v, &v->strategy[s], v->devices, v->samples);
    }
    v->strategy_count = kept;
}

static const gal_block_price **price_at(const gal_cert_prices *v, uint32_t place, uint32_t type, uint32_t strategy)
{
    return &v->price[((size_t)place * v->types.type_count + type) * v->strategy_count + strategy];
}

/* A type on a stage. */
typedef struct pricing {
    gal_cert_prices *v;
    uint32_t stage, type;
} pricing;

gal_code gal_cert_price_strategy(gal_cert_prices *v, uint32_t stage, uint32_t type, uint32_t s, bool floor,
                                 gal_error *err)
{
    const gal_price_query query = query_of(v, type, stage, s);
    const gal_block_price **price = price_at(v, v->place[stage], type, s);
    gal_error reason = {0};
    const gal_code code = floor ? gal_price_block_floor(v->from->cache, &query, price, &reason)
                                : gal_price_block(v->from->cache, &query, price, &reason);
    if (gal_is_too_large(code)) {
        *price = NULL;
        return GAL_OK;
    }
    return code == GAL_OK ? GAL_OK : gal_fail(err, code, "%s", reason.text);
}

/* Of floors: what its split takes stands for it yet. */
static bool is_held_back(const gal_cert_prices *v, uint32_t type, uint32_t strategy)
{
    return v->source == GAL_CERT_FLOORS && v->split_of[strategy] < v->split_count &&
           gal_cert_is_closed(v, type, v->split_of[strategy]);
}

/* Its strategies that are of a part of the prices. */
static gal_code price_part(void *context, uint32_t part, gal_error *err)
{
    const pricing *p = context;
    gal_cert_prices *v = p->v;
    const bool floor = v->source == GAL_CERT_FLOORS;
    gal_code code = GAL_OK;
    for (uint32_t s = 0; s < v->strategy_count && code == GAL_OK; s++) {
        if (v->part[s] == part && !is_held_back(v, p->type, s) &&
            gal_cert_may_take_for(v, p->type, &v->strategy[s], v->samples)) {
            code = gal_cert_price_strategy(v, p->stage, p->type, s, floor, err);
        }
    }
    return code;
}

/* Once for all stages of a place. */
static gal_code price_type(gal_cert_prices *v, uint32_t stage, uint32_t type)
{
    pricing p = {v, stage, type};
    gal_cert_rows *rows = &v->rows[(size_t)v->place[stage] * v->types.type_count + type];
    if (rows->priced || !is_here(v, type, stage)) {
        return GAL_OK;
    }
    rows->priced = true;
    return gal_price_in_parts(v->from->cache, price_part, &p, v->heap.err);
}

static gal_code price_stage(gal_cert_prices *v, uint32_t stage)
{
    gal_code code = GAL_OK;
    for (uint32_t type = 0; type < v->types.type_count && code == GAL_OK; type++) {
        code = price_type(v, stage, type);
    }
    return code;
}

/* Of stages of one place the first, and those of the ends of the chain. */
static gal_code price_all(gal_cert_prices *v)
{
    gal_code code = GAL_OK;
    uint32_t known = 0;
    for (uint32_t p = 0; p < v->stages && code == GAL_OK; p++) {
        if (v->place[p] == known || p + 1 == v->stages) {
            code = price_stage(v, p);
        }
        known += v->place[p] == known;
    }
    return code;
}

static bool is_priced(const gal_cert_prices *v, uint32_t strategy)
{
    bool priced = false;
    for (uint32_t i = 0; i < v->place_count * v->types.type_count && !priced; i++) {
        priced = v->price[(size_t)i * v->strategy_count + strategy] != NULL;
    }
    return priced;
}

static gal_code number_classes(gal_cert_prices *v)
{
    gal_price_rows *rows = gal_heap_take_room(&v->heap, v->strategy_count, sizeof *rows); /* [class] */
    gal_atoms atoms;
    gal_atoms_of(v->devices, &atoms);
    for (uint32_t s = 0; rows != NULL && s < v->strategy_count; s++) {
        uint32_t class = 0;
        if (is_priced(v, s)) {
            const gal_price_rows own = gal_price_rows_of(&v->strategy[s], &atoms);
            while (class < v->class_count && !gal_price_rows_equal(&rows[class], &own)) {
                class ++;
            }
            if (class == v->class_count) {
                rows[class] = own;
                v->stands[v->class_count++] = s;
            }
        }
        v->class[s] = class;
    }
    return v->heap.code;
}

static void measure_received(gal_cert_prices *v)
{
    for (uint32_t type = 0; type < v->types.type_count; type++) {
        v->received_bytes[type] = HUGE_VAL;
        for (uint32_t class = 0; class < v->class_count; class ++) {
            const uint64_t bytes = gal_price_rows_bytes(v->cell->model, &v->strategy[v->stands[class]], v->samples,
                                                        v->types.shape[type].in);
            v->received_bytes[type] = gal_cert_lesser(v->received_bytes[type], (double)bytes);
        }
    }
}

/* Of a round; where the carried tensor passes, the rows keep their layout but in front of a block that reads it. */
static double price_conversion(gal_cert_prices *v, const gal_cert_kind *k, uint32_t pair, uint32_t from, uint32_t to)
{
    const uint32_t block = v->types.pair_first[pair];
    const gal_block_shape *behind = &v->types.shape[v->types.type_of[block]];
    const gal_price_query query = query_of(v, v->types.type_of[block - 1], k->stage, v->stands[from]);
    const gal_pair_price *price = NULL;
    gal_error reason = {0};
    if (behind->carried_in.positions > 0 && behind->kind != GAL_BLOCK_CROSS_ATTENTION) {
        return HUGE_VAL;
    }
    const gal_code code =
        gal_price_pair(v->from->cache, &query, behind->type, &v->strategy[v->stands[to]], &price, &reason);
    v->heap.code = code == GAL_ERR_SYSTEM ? gal_fail(v->heap.err, code, "%s", reason.text) : v->heap.code;
    return code == GAL_OK ? fmax(price->forward_seconds + price->backward_seconds, 0.0) : HUGE_VAL;
}

/* How often a stage's round counts in a table. */
static double rounds_in(const gal_cert_prices *v, const gal_cert_kind *kind, gal_cert_table table)
{
    return table == GAL_CERT_ROUND ? 1.0
           : v->stages == 1        ? v->cell->microbatch_count
                                   : gal_rounds_of_stage(&v->rounds, kind->stage);
}

static double *conversion_at(const gal_cert_prices *v, uint32_t pair, uint32_t from, uint32_t to)
{
    const size_t place = (size_t)v->menus.kind->place * v->types.pair_count + pair;
    return &v->conversion[(place * v->class_count + from) * v->class_count + to];
}

bool gal_cert_conversion_is_known(const gal_cert_prices *v, uint32_t pair, uint32_t from, uint32_t to)
{
    return from == to || !isnan(*conversion_at(v, pair, from, to));
}

double gal_cert_conversion(gal_cert_prices *v, uint32_t pair, uint32_t from, uint32_t to)
{
    if (from == to) {
        return 0.0;
    }
    const gal_cert_kind *k = v->menus.kind;
    double *known = conversion_at(v, pair, from, to);
    if (isnan(*known)) {
        *known = price_conversion(v, k, pair, from, to);
        v->asked_count++;
    }
    return rounds_in(v, k, v->menus.table) * *known;
}

/* ---- items of kernels ---- */

gal_cert_item gal_cert_kernel_item(const gal_cert_prices *v, const gal_cert_kind *k, uint32_t type, uint32_t split,
                                   gal_cert_table table)
{
    const gal_block_floor *floor = &v->kernels[(size_t)type * v->split_count + split].floor;
    const double rounds = rounds_in(v, k, table);
    const double bytes = (double)floor->state_bytes + (double)k->in_flight * (double)floor->saved_bytes;
    /* of two sub-batches, one of which may be done before the other begins, at least half */
    gal_cert_item own = {.turn_bytes = (double)floor->work_bytes / (v->cell->space->overlap ? 2.0 : 1.0)};
    for (uint32_t at = 0; at < GAL_CERT_POSITIONS; at++) {
        own.seconds[at] = rounds * floor->seconds;
        own.bytes[at] = bytes;
    }
    return own;
}

/* ---- menus ---- */

/* The token table on a stage of several holders is the first stage's embedding's, the last one's head's. */
static bool pays_for_table(const gal_cert_prices *v, uint32_t type, uint32_t stage)
{
    const uint32_t head = v->types.type_of[v->blocks - 1];
    const bool head_holds = (v->types.shape[head].shared >> GAL_SHARED_TABLE & 1U) != 0;
    return !(stage == 0 ? type != v->types.type_of[0] : stage + 1 == v->stages && type != head && head_holds);
}

/* Of rows that come from the stage before: as the block has them, or smaller and then converted; two items where they
 * go on to the host. */
static double entry_bytes(const gal_cert_prices *v, const gal_cert_kind *k, uint32_t type, const gal_cert_row *row)
{
    const double m = v->cell->microbatch_count;
    const double two = fmin(m, 2.0);
    const double passing = 2.0 * two * v->received_bytes[type];
    const double kept = (fmin(m, k->in_flight + 1.0) + two - k->in_flight) * row->input_bytes;
    return row->stages_input ? passing : fmin(kept, passing);
}

/* To the next stage, the carried tensor left out. */
static double sent_seconds(const gal_cert_prices *v, const gal_cert_kind *k, const gal_cert_row *row)
{
    const gal_durations *durations = v->from->durations;
    const gal_price_transfer transfer =
        gal_price_transfer_of(durations, v->devices, k->stage, v->stages, row->boundary_bytes);
    return gal_price_transfer_behind(durations, &transfer, row->link_share);
}

gal_cert_item gal_cert_item_of(const gal_cert_prices *v, const gal_cert_kind *k, uint32_t type, const gal_cert_row *row,
                               gal_cert_table table, double tail_weight)
{
    const uint32_t m = v->cell->microbatch_count, pays = pays_for_table(v, type, k->stage);
    const bool added = table == GAL_CERT_ADDED;
    const double rounds = rounds_in(v, k, table);
    const double weight = added && k->stage == 0 ? tail_weight : 0.0;
    const bool last = k->stage + 1 == v->stages;
    const double held = row->held_bytes[pays] + (double)k->in_flight * row->saved_bytes;
    const double boundary = (double)row->boundary_bytes;
    double seconds = rounds * row->pass_seconds + weight * row->sync_seconds[pays];
    double leave = rounds * row->leave_seconds;
    if (added) {
        seconds += row->update_seconds[pays] / v->stages;
        leave += last ? 0.0 : (1.0 + rounds) * sent_seconds(v, k, row);
    }
    const double enter = rounds * row->enter_seconds + weight * row->tail_seconds;
    const double in = 2.0 * boundary + (k->stage > 0 ? entry_bytes(v, k, type, row) : 0.0);
    const double out = last ? 0.0 : 2.0 * (m < 2 ? m : 2.0) * boundary;
    return (gal_cert_item){.seconds = {seconds, seconds + enter, seconds + leave, seconds + enter + leave},
                           .bytes = {held, held + in, held + out, held}, /* of one block the ports are left out */
                           .turn_bytes = row->turn_bytes,
                           .class = row->class};
}

static int by_class_and_seconds(const void *x, const void *y)
{
    const gal_cert_item *a = x;
    const gal_cert_item *b = y;
    if (a->class != b->class) {
        return a->class < b->class ? -1 : 1;
    }
    return a->seconds[0] < b->seconds[0] ? -1 : a->seconds[0] > b->seconds[0];
}

static bool beats(const gal_cert_item *a, const gal_cert_item *b)
{
    bool no_more = a->class == b->class && a->turn_bytes <= b->turn_bytes;
    for (uint32_t at = 0; at < GAL_CERT_POSITIONS && no_more; at++) {
        no_more = a->seconds[at] <= b->seconds[at] && a->bytes[at] <= b->bytes[at];
    }
    return no_more;
}

/* Leaves what no other beats: what beat the one before often beats the next. */
static void prune(gal_cert_menu *menu)
{
    const uint32_t count = menu->count;
    uint32_t by = 0;
    menu->count = 0;
    qsort(menu->item, count, sizeof *menu->item, by_class_and_seconds);
    for (uint32_t i = 0; i < count; i++) {
        bool beaten = by < menu->count && beats(&menu->item[by], &menu->item[i]);
        for (uint32_t j = menu->count; j-- > 0 && !beaten && menu->item[j].class == menu->item[i].class;) {
            beaten = beats(&menu->item[j], &menu->item[i]);
            by = j;
        }
        if (!beaten) {
            menu->item[menu->count++] = menu->item[i];
        }
    }
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* What all menus have in common. */
static void sum_up(const gal_cert_prices *v, gal_cert_menus *out)
{
    uint32_t count = 0;
    double first = 0.0;
    double last = 0.0;
    for (uint32_t type = 0; type < v->types.type_count; type++) {
        out->least[type] = HUGE_VAL;
        for (uint32_t i = 0; i < out->of[type].count; i++) {
            const gal_cert_item *own = &out->of[type].item[i];
            out->turn[count++] = own->turn_bytes;
            out->least[type] = gal_cert_lesser(out->least[type], own->seconds[GAL_CERT_INSIDE]);
            first = gal_cert_lesser(first, own->seconds[GAL_CERT_FIRST] - own->seconds[GAL_CERT_INSIDE]);
            last = gal_cert_lesser(last, own->seconds[GAL_CERT_LAST] - own->seconds[GAL_CERT_INSIDE]);
        }
    }
    out->ends_seconds = first + last;
    out->turn_count = 0;
    qsort(out->turn, count, sizeof *out->turn, ascending);
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || out->turn[i] != out->turn[out->turn_count - 1]) {
            out->turn[out->turn_count++] = out->turn[i];
        }
    }
}

static void fill_priced(gal_cert_prices *v, const gal_cert_kind *k, uint32_t type, gal_cert_table table,
                        double tail_weight, bool any_class, gal_cert_menu *out)
{
    const gal_cert_rows *rows = gal_cert_rows_of(v, k->place, type);
    for (uint32_t i = 0; i < rows->count; i++) {
        if (!any_class || !rows->row[i].repeats) {
            gal_cert_item *item = &out->item[out->count++];
            *item = gal_cert_item_of(v, k, type, &rows->row[i], table, tail_weight);
            item->class = any_class ? 0 : item->class;
        }
    }
}

static void fill_kernels(const gal_cert_prices *v, const gal_cert_kind *k, uint32_t type, gal_cert_table table,
                         gal_cert_menu *out)
{
    for (uint32_t split = 0; split < v->split_count; split++) {
        if (gal_cert_is_closed(v, type, split)) {
            out->item[out->count++] = gal_cert_kernel_item(v, k, type, split, table);
        }
    }
}

void gal_cert_menus_fill(gal_cert_prices *v, const gal_cert_kind *k, gal_cert_table table, double tail_weight,
                         bool any_class, gal_cert_menus *out)
{
    for (uint32_t type = 0; type < v->types.type_count; type++) {
        gal_cert_menu *own = &out->of[type];
        own->count = 0;
        if (is_here(v, type, k->stage) && v->source != GAL_CERT_KERNELS) {
            fill_priced(v, k, type, table, tail_weight, any_class, own);
        }
        if (is_here(v, type, k->stage)) {
            fill_kernels(v, k, type, table, own);
        }
        prune(own);
    }
    sum_up(v, out);
}

void gal_cert_menus_price(const gal_cert_prices *v, double rate, double price, double top, uint32_t class_count,
                          gal_cert_choice *best)
{
    const size_t stride = (size_t)v->types.type_count * class_count;
    for (size_t i = 0; i < GAL_CERT_POSITIONS * stride; i++) {
        best[i] = (gal_cert_choice){HUGE_VAL, HUGE_VAL, 0.0};
    }
    for (uint32_t type = 0; type < v->types.type_count; type++) {
        for (uint32_t j = 0; j < v->menus.of[type].count; j++) {
            const gal_cert_item *i = &v->menus.of[type].item[j];
            gal_cert_choice *to = &best[(size_t)type * class_count + i->class % class_count];
            for (uint32_t at = 0; at < GAL_CERT_POSITIONS && i->turn_bytes <= top; at++, to += stride) {
                *to = gal_cert_cheaper(*to, gal_cert_choice_of(i, at, rate, price));
            }
        }
    }
}

/* ---- create ---- */

static void number_stages(gal_cert_prices *v)
{
    const gal_durations *durations = v->from->durations;
    for (uint32_t p = 0; p < v->stages; p++) {
        const uint32_t place = gal_price_place(durations, v->devices, p);
        uint32_t like = 0;
        while (gal_price_place(durations, v->devices, like) != place) {
            like++;
        }
        v->place[p] = like < p ? v->place[like] : v->place_count++;
    }
    for (uint32_t p = 0; p < v->stages; p++) {
        const bool last = p + 1 == v->stages;
        const gal_cert_kind own = {
            .stage = p,
            .place = v->place[p],
            .in_flight = gal_in_flight(v->cell->schedule, p, v->stages, v->cell->microbatch_count),
            .probe_seconds = last ? 0.0 : gal_price_transfer_of(durations, v->devices, p, v->stages, 1 << 20).seconds};
        const gal_cert_kind *before = p > 1 && !last ? &v->kind[v->kind_count - 1] : NULL;
        if (before == NULL || before->place != own.place || before->in_flight != own.in_flight ||
            before->probe_seconds != own.probe_seconds ||
            gal_rounds_of_stage(&v->rounds, before->stage) != gal_rounds_of_stage(&v->rounds, p)) {
            v->kind[v->kind_count++] = own;
        }
        v->kind_of[p] = v->kind_count - 1;
    }
}

static gal_code create_tables(gal_cert_prices *v)
{
    const size_t types = v->types.type_count;
    v->place = gal_heap_take(&v->heap, v->stages, sizeof *v->place);
    v->kind_of = gal_heap_take(&v->heap, v->stages, sizeof *v->kind_of);
    v->kind = gal_heap_take(&v->heap, v->stages, sizeof *v->kind);
    const bool kernels = v->source == GAL_CERT_KERNELS;
    v->strategy =
        gal_heap_take_room(&v->heap, kernels ? 0 : gal_space_room(v->cell->space, v->devices), sizeof *v->strategy);
    if (v->heap.code != GAL_OK) {
        return v->heap.code;
    }
    number_stages(v);
    v->strategy_count = kernels ? 0 : gal_space_strategies(v->cell->space, v->devices, v->strategy);
    keep_legal(v);
    v->split_count = v->source != GAL_CERT_PRICED ? gal_space_splits(v->cell->space, v->devices, NULL) : 0;
    v->part = gal_heap_take(&v->heap, v->strategy_count, sizeof *v->part);
    v->class = gal_heap_take(&v->heap, v->strategy_count, sizeof *v->class);
    v->stands = gal_heap_take(&v->heap, v->strategy_count, sizeof *v->stands);
    v->received_bytes = gal_heap_take(&v->heap, types, sizeof *v->received_bytes);
    v->price = gal_heap_take(&v->heap, v->place_count * types * v->strategy_count, sizeof *v->price);
    v->exact = gal_heap_take(&v->heap, v->source == GAL_CERT_FLOORS ? types * v->strategy_count : 0, sizeof *v->exact);
    v->rows = gal_heap_take(&v->heap, v->place_count * types, sizeof *v->rows);
    v->split = gal_heap_take(&v->heap, v->split_count, sizeof *v->split);
    v->split_of = gal_heap_take(&v->heap, v->strategy_count, sizeof *v->split_of);
    v->kernels = gal_heap_take(&v->heap, types * v->split_count, sizeof *v->kernels);
    gal_cert_menus_create(v);
    for (uint32_t s = 0; s < v->strategy_count && v->heap.code == GAL_OK; s++) {
        v->part[s] = gal_price_part_of(v->from->cache, &v->strategy[s]);
    }
    return v->heap.code;
}

static void number_splits(gal_cert_prices *v)
{
    uint64_t *key = gal_heap_take_room(&v->heap, v->split_count, sizeof *key);
    for (uint32_t i = 0; key != NULL && i < v->split_count; i++) {
        key[i] = gal_split_key(&v->split[i]);
    }
    for (uint32_t s = 0; key != NULL && s < v->strategy_count; s++) {
        const gal_split_kind own = gal_split_of(&v->strategy[s]);
        const uint64_t wanted = gal_split_key(&own);
        while (v->split_of[s] < v->split_count && key[v->split_of[s]] != wanted) {
            v->split_of[s]++;
        }
    }
}

gal_code gal_cert_prices_create(const gal_certificate_cell *cell, const gal_certificate_sources *from,
                                gal_cert_source source, gal_cert_prices *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_cert_prices *v = out;
    *v = (gal_cert_prices){.cell = cell,
                           .from = from,
                           .heap = {.err = err},
                           .source = source,
                           .devices = cell->device_count / cell->pp_degree,
                           .samples = cell->global_batch_samples / cell->microbatch_count,
                           .blocks = gal_model_block_count(cell->model),
                           .rounds = gal_round_counts_of(cell->schedule, cell->pp_degree, cell->microbatch_count),
                           .stages = cell->pp_degree};
    GAL_TRY(gal_block_types_create(cell->model, from->durations, &v->types, err));
    GAL_TRY(create_tables(v));
    v->common_seconds = source == GAL_CERT_KERNELS
                            ? 0.0
                            : gal_price_common_update(cell->model, from->durations, v->devices, v->stages) +
                                  gal_durations_fixed_step_seconds(from->durations);
    if (source != GAL_CERT_PRICED) {
        v->class_count = 1;
        (void)gal_space_splits(cell->space, v->devices, v->split);
        GAL_TRY(gal_cert_price_kernels(v));
        number_splits(v);
        GAL_TRY(v->heap.code);
        code = source == GAL_CERT_FLOORS ? price_all(v) : GAL_OK; /* of strategies that no split stands for */
        goto cleanup;
    }
    GAL_TRY(price_all(v));
    GAL_TRY(number_classes(v));
    measure_received(v);
    const size_t conversions = (size_t)v->place_count * v->types.pair_count * v->class_count * v->class_count;
    v->conversion = gal_heap_take_room(&v->heap, conversions, sizeof *v->conversion);
    GAL_TRY(v->heap.code);
    for (size_t i = 0; i < conversions; i++) {
        v->conversion[i] = NAN;
    }
cleanup:
    return code;
}

void gal_cert_prices_free(gal_cert_prices *v)
{
    gal_heap_free(&v->heap);
    gal_block_types_free(&v->types);
}
