#include "planner/certificate_tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/strategy_space.h"
#include "schemas/plan_check.h"

static gal_code no_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to verify");
}

/* Zeroed; freed with the tables. NULL without memory. */
static void *take(gal_cert_tables *v, size_t count, size_t bytes)
{
    void *memory = calloc(count + 1, bytes);
    v->owned[v->owned_count++] = memory;
    return memory;
}

/* ---- blocks ---- */

static void number_sorts(gal_cert_tables *v)
{
    for (uint32_t b = 0; b < v->blocks; b++) {
        gal_cert_sort own = {.first = b == 0, .last = b + 1 == v->blocks};
        gal_model_block(v->cell->model, b, &own.shape);
        uint32_t i = 0;
        while (i < v->sort_count && (v->sort[i].shape.type != own.shape.type || v->sort[i].first != own.first ||
                                     v->sort[i].last != own.last ||
                                     v->sort[i].shape.carried_in.positions != own.shape.carried_in.positions ||
                                     v->sort[i].shape.carried_out.positions != own.shape.carried_out.positions)) {
            i++;
        }
        if (i == v->sort_count) {
            GAL_ASSERT(i < GAL_CERT_SORTS_MAX);
            v->sort[v->sort_count++] = own;
        }
        v->sort_of[b] = i;
    }
    for (uint32_t b = 1; b < v->blocks; b++) {
        uint32_t i = 0;
        while (i < v->pair_count && (v->sort_of[v->pair_first[i] - 1] != v->sort_of[b - 1] ||
                                     v->sort_of[v->pair_first[i]] != v->sort_of[b])) {
            i++;
        }
        if (i == v->pair_count) {
            v->pair_first[v->pair_count++] = b;
        }
        v->pair_of[b] = i;
    }
}

static bool alike(const gal_cert_tables *v, const gal_cert_chain *a, uint32_t begin, uint32_t end)
{
    bool like = a->end - a->begin == end - begin && v->sort_of[a->begin] == v->sort_of[begin] &&
                v->sort_of[a->end - 1] == v->sort_of[end - 1];
    for (uint32_t pair = 0; pair < v->pair_count && like; pair++) {
        like = gal_cert_pairs(v, a->begin, a->end, pair) == gal_cert_pairs(v, begin, end, pair);
    }
    return like;
}

/* Chains of equal length are compared with each other alone. */
static gal_code number_chains(gal_cert_tables *v)
{
    const size_t blocks = v->blocks;
    size_t room = 64;
    v->chain = malloc(room * sizeof *v->chain);
    for (uint32_t length = 1; v->chain != NULL && length <= blocks; length++) {
        const uint32_t first = v->chain_count;
        for (uint32_t begin = 0; v->chain != NULL && begin + length <= blocks; begin++) {
            uint32_t i = first;
            while (i < v->chain_count && !alike(v, &v->chain[i], begin, begin + length)) {
                i++;
            }
            if (i == room) {
                room *= 2;
                gal_cert_chain *grown = realloc(v->chain, room * sizeof *grown);
                if (grown == NULL) {
                    return no_memory(v->err);
                }
                v->chain = grown;
            }
            if (i == v->chain_count) {
                v->chain[v->chain_count++] = (gal_cert_chain){begin, begin + length};
            }
            v->chain_of[begin * (blocks + 1) + begin + length] = i;
        }
    }
    return v->chain == NULL ? no_memory(v->err) : GAL_OK;
}

/* ---- prices ---- */

static gal_price_query query_of(const gal_cert_tables *v, const gal_cert_sort *of, uint32_t stage, uint32_t strategy)
{
    return (gal_price_query){.type = of->shape.type,
                             .strategy = &v->strategy[strategy],
                             .device_count = v->devices,
                             .stage = stage,
                             .stage_count = v->stages,
                             .microbatch_samples = v->samples,
                             .prefetch_depth = v->cell->prefetch_depth};
}

/* Recompute of what has nothing to run again is the same as none. */
static bool is_legal(const gal_cert_tables *v, const gal_cert_sort *of, const gal_strategy *strategy)
{
    const gal_block_kind kind = of->shape.kind;
    const bool attends = kind == GAL_BLOCK_ATTENTION || kind == GAL_BLOCK_CROSS_ATTENTION;
    const bool useless = (strategy->recompute == GAL_RECOMPUTE_FULL && !attends && kind != GAL_BLOCK_FFN) ||
                         (strategy->recompute == GAL_RECOMPUTE_SELECTIVE && !attends);
    return !useless &&
           gal_strategy_block_rule_broken(v->cell->model, &of->shape, strategy, v->devices, v->samples) == NULL;
}

static const gal_block_price **price_at(const gal_cert_tables *v, uint32_t place, uint32_t of, uint32_t strategy)
{
    return &v->price[((size_t)place * v->sort_count + of) * v->strategy_count + strategy];
}

static gal_code price_sort(gal_cert_tables *v, uint32_t of, uint32_t stage)
{
    for (uint32_t s = 0; s < v->strategy_count; s++) {
        gal_error reason = {0};
        const gal_price_query query = query_of(v, &v->sort[of], stage, s);
        const gal_block_price **price = price_at(v, v->place[stage], of, s);
        const gal_code code =
            is_legal(v, &v->sort[of], &v->strategy[s]) ? gal_price_block(v->cache, &query, price, &reason) : GAL_OK;
        if (code == GAL_ERR_DOCUMENT) { /* a tensor is too large for a program: not to be had */
            *price = NULL;
        } else if (code != GAL_OK) {
            return gal_fail(v->err, code, "%s", reason.text);
        }
    }
    return GAL_OK;
}

static gal_code price_all(gal_cert_tables *v)
{
    gal_code code = GAL_OK;
    uint32_t known = 0;
    for (uint32_t p = 0; p < v->stages; p++) {
        for (uint32_t i = 0; i < v->sort_count && code == GAL_OK; i++) {
            const bool here = (!v->sort[i].first || p == 0) && (!v->sort[i].last || p + 1 == v->stages);
            const bool own = v->sort[i].first || v->sort[i].last;
            code = here && (own || v->place[p] == known) ? price_sort(v, i, p) : code;
        }
        known += v->place[p] == known;
    }
    return code;
}

static bool is_priced(const gal_cert_tables *v, uint32_t strategy)
{
    bool priced = false;
    for (uint32_t i = 0; i < v->place_count * v->sort_count && !priced; i++) {
        priced = v->price[(size_t)i * v->strategy_count + strategy] != NULL;
    }
    return priced;
}

static void number_classes(gal_cert_tables *v)
{
    for (uint32_t s = 0; s < v->strategy_count; s++) {
        if (is_priced(v, s)) {
            uint32_t i = 0;
            while (i < v->class_count &&
                   !gal_price_rows_alike(&v->strategy[v->stands[i]], &v->strategy[s], v->devices)) {
                i++;
            }
            if (i == v->class_count) {
                v->stands[v->class_count++] = s;
            }
            v->class[s] = i;
        }
    }
}

static void measure_received(gal_cert_tables *v)
{
    for (uint32_t of = 0; of < v->sort_count; of++) {
        v->received_bytes[of] = HUGE_VAL;
        for (uint32_t class = 0; class < v->class_count; class ++) {
            const uint64_t bytes =
                gal_price_rows_bytes(v->cell->model, &v->strategy[v->stands[class]], v->samples, v->sort[of].shape.in);
            v->received_bytes[of] = fmin(v->received_bytes[of], (double)bytes);
        }
    }
}

/* Of a round; where the carried tensor passes, the rows keep their layout but in front of a block that reads it. */
double gal_cert_conversion(gal_cert_tables *v, uint32_t place, uint32_t pair, uint32_t from, uint32_t to,
                           gal_code *failed)
{
    double *known =
        &v->conversion[(((size_t)place * v->pair_count + pair) * v->class_count + from) * v->class_count + to];
    if (isnan(*known)) {
        const gal_cert_sort *before = &v->sort[v->sort_of[v->pair_first[pair] - 1]];
        const gal_cert_sort *behind = &v->sort[v->sort_of[v->pair_first[pair]]];
        const gal_pair_price *price = NULL;
        gal_error reason = {0};
        uint32_t stage = 0;
        *known = HUGE_VAL;
        while (v->place[stage] != place) {
            stage++;
        }
        if (behind->shape.carried_in.positions == 0 || behind->shape.kind == GAL_BLOCK_CROSS_ATTENTION) {
            const gal_price_query query = query_of(v, before, stage, v->stands[from]);
            const gal_code code =
                gal_price_pair(v->cache, &query, behind->shape.type, &v->strategy[v->stands[to]], &price, &reason);
            *failed = code == GAL_ERR_SYSTEM ? gal_fail(v->err, code, "%s", reason.text) : *failed;
            *known = code == GAL_OK ? fmax(price->forward_seconds + price->backward_seconds, 0.0) : HUGE_VAL;
        }
    }
    return *known;
}

/* ---- menus ---- */

/* The token table on a stage of several holders is the first stage's embedding's, the last one's head's. */
static bool pays(const gal_cert_tables *v, const gal_cert_sort *of, uint32_t stage, uint32_t shared)
{
    const bool head_holds = (v->sort[v->sort_of[v->blocks - 1]].shape.shared >> GAL_SHARED_TABLE & 1U) != 0;
    const bool beside = stage == 0 ? !of->first : stage + 1 == v->stages && !of->last && head_holds;
    return shared == GAL_SHARED_TABLE && !beside;
}

static double largest(const gal_ring_turns *turns)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < turns->count; i++) {
        most = turns->bytes[i] > most ? turns->bytes[i] : most;
    }
    return (double)most;
}

static double turn_bytes(const gal_cert_tables *v, const gal_block_memory *m)
{
    const double gathers =
        fmax(largest(&m->gathers_forward), fmax(largest(&m->gathers_backward), largest(&m->gathers_evaluate)));
    return v->cell->prefetch_depth * gathers + 2.0 * largest(&m->buckets) + (double)m->bytes.scratch +
           (double)m->bytes.work;
}

/* Of rows that come from the stage before: as the block has them, or smaller and then converted. */
static double entry_bytes(const gal_cert_tables *v, const gal_cert_kind *k, const gal_cert_sort *of,
                          const gal_block_bytes *own)
{
    const double m = v->cell->microbatch_count;
    const double two = fmin(m, 2.0);
    return fmin((fmin(m, k->in_flight + 1.0) + two - k->in_flight) * (double)own->input,
                2.0 * two * v->received_bytes[of - v->sort]);
}

static gal_cert_item item_of(const gal_cert_tables *v, const gal_cert_kind *k, const gal_cert_sort *of,
                             uint32_t strategy, bool added, double tail_weight)
{
    const gal_block_price *price = *price_at(v, k->place, (uint32_t)(of - v->sort), strategy);
    const gal_block_bytes *bytes = &price->memory.bytes;
    const uint32_t m = v->cell->microbatch_count;
    const double rounds = added && v->stages == 1 ? m : 1.0;
    const double weight = added && k->stage == 0 ? tail_weight : 0.0;
    const bool last = k->stage + 1 == v->stages;
    double update = price->update_seconds;
    gal_cert_item own = {
        .seconds = rounds * (price->forward_seconds + price->backward_seconds) + weight * price->sync_seconds,
        .first_seconds = rounds * price->enter_seconds + weight * price->tail_seconds,
        .last_seconds = rounds * price->leave_seconds,
        .bytes = (double)(bytes->state + bytes->gradient) + (double)k->in_flight * (double)bytes->saved,
        .first_bytes = 2.0 * (double)bytes->boundary,
        .last_bytes = last ? 0.0 : 2.0 * (m < 2 ? m : 2.0) * (double)bytes->boundary,
        .turn_bytes = turn_bytes(v, &price->memory),
        .class = v->class[strategy]};
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
        if (!pays(v, of, k->stage, shared)) {
            update -= price->shared_update_seconds[shared];
            own.bytes -= (double)price->memory.shared_bytes[shared];
        }
    }
    own.first_bytes += k->stage > 0 ? entry_bytes(v, k, of, bytes) : 0.0;
    own.seconds += added ? update / v->stages : 0.0;
    own.last_seconds += added && !last ? 2.0 * gal_price_transfer(v->durations, v->devices, k->stage, v->stages,
                                                                  price->memory.bytes.boundary)
                                       : 0.0;
    return own;
}

static int by_class_and_seconds(const void *x, const void *y)
{
    const gal_cert_item *a = x;
    const gal_cert_item *b = y;
    if (a->class != b->class) {
        return a->class < b->class ? -1 : 1;
    }
    return a->seconds < b->seconds ? -1 : a->seconds > b->seconds;
}

static bool beats(const gal_cert_item *a, const gal_cert_item *b)
{
    return a->class == b->class && a->seconds <= b->seconds && a->bytes <= b->bytes && a->turn_bytes <= b->turn_bytes &&
           a->first_seconds <= b->first_seconds && a->last_seconds <= b->last_seconds &&
           a->first_bytes <= b->first_bytes && a->last_bytes <= b->last_bytes;
}

static void fill_menu(const gal_cert_tables *v, const gal_cert_kind *k, uint32_t of, bool added, double tail_weight,
                      gal_cert_menu *out)
{
    const gal_cert_sort *own = &v->sort[of];
    uint32_t count = 0;
    uint32_t kept = 0;
    const bool here = (!own->first || k->stage == 0) && (!own->last || k->stage + 1 == v->stages);
    for (uint32_t s = 0; s < v->strategy_count && here; s++) {
        if (*price_at(v, k->place, of, s) != NULL) {
            out->item[count++] = item_of(v, k, own, s, added, tail_weight);
        }
    }
    qsort(out->item, count, sizeof *out->item, by_class_and_seconds);
    for (uint32_t i = 0; i < count; i++) {
        bool beaten = false;
        for (uint32_t j = kept; j-- > 0 && !beaten && out->item[j].class == out->item[i].class;) {
            beaten = beats(&out->item[j], &out->item[i]);
        }
        if (!beaten) {
            out->item[kept++] = out->item[i];
        }
    }
    out->count = kept;
}

void gal_cert_tables_fill_added(gal_cert_tables *v, gal_cert_kind *k, double tail_weight)
{
    for (uint32_t of = 0; of < v->sort_count; of++) {
        fill_menu(v, k, of, true, tail_weight, &k->added.menu[of]);
    }
    memset(k->added.proof, 0, v->chain_count);
    k->added.lined = false;
}

/* ---- stages ---- */

static void number_stages(gal_cert_tables *v)
{
    for (uint32_t p = 0; p < v->stages; p++) {
        const uint32_t place = gal_price_place(v->durations, v->devices, p);
        uint32_t like = 0;
        while (gal_price_place(v->durations, v->devices, like) != place) {
            like++;
        }
        v->place[p] = like < p ? v->place[like] : v->place_count++;
    }
    for (uint32_t p = 0; p < v->stages; p++) {
        const gal_cert_kind own = {
            .stage = p,
            .place = v->place[p],
            .in_flight = gal_in_flight(v->cell->schedule, p, v->stages, v->cell->microbatch_count),
            .probe_seconds =
                p + 1 < v->stages ? gal_price_transfer(v->durations, v->devices, p, v->stages, 1 << 20) : 0.0};
        const gal_cert_kind *before = p > 1 && p + 1 < v->stages ? &v->kind[v->kind_count - 1] : NULL;
        const bool same = before != NULL && before->place == own.place && before->in_flight == own.in_flight &&
                          before->probe_seconds == own.probe_seconds;
        if (!same) {
            v->kind[v->kind_count++] = own;
        }
        v->kind_of[p] = v->kind_count - 1;
    }
}

static bool create_table(gal_cert_tables *v, gal_cert_table *out)
{
    const size_t chains = v->chain_count;
    const size_t strategies = v->strategy_count;
    out->menu = calloc(v->sort_count, sizeof *out->menu);
    out->least = calloc(chains, sizeof *out->least);
    out->proof = calloc(chains, sizeof *out->proof);
    out->pair = calloc((size_t)v->pair_count + 4 * (size_t)v->sort_count, sizeof *out->pair);
    if (out->pair != NULL) {
        out->first = out->pair + v->pair_count;
        out->last = out->first + v->sort_count;
        out->one = out->last + v->sort_count;
        out->any = out->one + v->sort_count;
    }
    gal_cert_item *item = malloc((v->sort_count * strategies + 1) * sizeof *item);
    for (uint32_t of = 0; out->menu != NULL && of < v->sort_count; of++) {
        out->menu[of].item = item == NULL ? NULL : item + of * strategies;
    }
    if (out->menu == NULL) {
        free(item);
    }
    return out->menu != NULL && item != NULL && out->least != NULL && out->proof != NULL && out->pair != NULL;
}

static void free_table(gal_cert_table *table)
{
    free(table->menu != NULL ? table->menu[0].item : NULL);
    free(table->menu);
    free(table->pair);
    free(table->least);
    free(table->proof);
}

/* ---- create ---- */

static gal_code allocate(gal_cert_tables *v)
{
    const size_t blocks = v->blocks;
    v->sort = take(v, blocks, sizeof *v->sort);
    v->sort_of = take(v, 3 * blocks, sizeof *v->sort_of);
    v->chain_of = take(v, (blocks + 1) * (blocks + 1), sizeof *v->chain_of);
    v->strategy = take(v, GAL_SPACE_MAX, sizeof *v->strategy);
    v->class = take(v, 2 * GAL_SPACE_MAX, sizeof *v->class);
    v->place = take(v, 2 * (size_t)v->stages, sizeof *v->place);
    v->kind = take(v, v->stages, sizeof *v->kind);
    if (v->sort == NULL || v->sort_of == NULL || v->chain_of == NULL || v->strategy == NULL || v->class == NULL ||
        v->place == NULL || v->kind == NULL) {
        return no_memory(v->err);
    }
    v->pair_of = v->sort_of + blocks;
    v->pair_first = v->pair_of + blocks;
    v->stands = v->class + GAL_SPACE_MAX;
    v->kind_of = v->place + v->stages;
    return GAL_OK;
}

static gal_code count_pairs(gal_cert_tables *v)
{
    v->pairs = take(v, (size_t)v->blocks * v->pair_count, sizeof *v->pairs);
    if (v->pairs == NULL) {
        return no_memory(v->err);
    }
    for (uint32_t b = 1; b < v->blocks; b++) {
        memcpy(&v->pairs[(size_t)b * v->pair_count], &v->pairs[(size_t)(b - 1) * v->pair_count],
               v->pair_count * sizeof *v->pairs);
        v->pairs[(size_t)b * v->pair_count + v->pair_of[b]]++;
    }
    return GAL_OK;
}

static gal_code fill_prices(gal_cert_tables *v)
{
    gal_code code = GAL_OK;
    v->price = take(v, (size_t)v->place_count * v->sort_count * v->strategy_count, sizeof *v->price);
    if (v->price == NULL) {
        GAL_TRY(no_memory(v->err));
    }
    GAL_TRY(price_all(v));
    number_classes(v);
    v->received_bytes = take(v, v->sort_count, sizeof *v->received_bytes);
    if (v->received_bytes == NULL) {
        GAL_TRY(no_memory(v->err));
    }
    measure_received(v);
    const size_t conversions = (size_t)v->place_count * v->pair_count * v->class_count * v->class_count;
    v->conversion = take(v, conversions, sizeof *v->conversion);
    if (v->conversion == NULL) {
        GAL_TRY(no_memory(v->err));
    }
    for (size_t i = 0; i < conversions; i++) {
        v->conversion[i] = NAN;
    }
cleanup:
    return code;
}

gal_code gal_cert_tables_create(const gal_certificate_cell *cell, const gal_durations *durations,
                                gal_price_cache *cache, gal_cert_tables *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_cert_tables *v = out;
    *v = (gal_cert_tables){.cell = cell,
                           .durations = durations,
                           .cache = cache,
                           .err = err,
                           .devices = cell->device_count / cell->pp_degree,
                           .samples = cell->global_batch_samples / cell->microbatch_count,
                           .blocks = gal_model_block_count(cell->model),
                           .stages = cell->pp_degree,
                           .limit_bytes = (double)cell->arena_limit_bytes};
    v->common_seconds = gal_price_common_update(cell->model, durations, v->devices, v->stages) +
                        gal_durations_fixed_step_seconds(durations);
    GAL_TRY(allocate(v));
    number_sorts(v);
    GAL_TRY(count_pairs(v));
    GAL_TRY(number_chains(v));
    number_stages(v);
    v->strategy_count = gal_space_strategies(cell->space, v->devices, v->strategy);
    GAL_TRY(fill_prices(v));
    for (uint32_t i = 0; i < v->kind_count; i++) {
        if (!create_table(v, &v->kind[i].round) || !create_table(v, &v->kind[i].added)) {
            GAL_TRY(no_memory(err));
        }
        for (uint32_t of = 0; of < v->sort_count; of++) {
            fill_menu(v, &v->kind[i], of, false, 0.0, &v->kind[i].round.menu[of]);
        }
    }
cleanup:
    return code;
}

void gal_cert_tables_free(gal_cert_tables *v)
{
    for (uint32_t i = 0; i < v->kind_count; i++) {
        free_table(&v->kind[i].round);
        free_table(&v->kind[i].added);
    }
    for (uint32_t i = 0; i < v->owned_count; i++) {
        free(v->owned[i]);
    }
    free(v->chain);
    *v = (gal_cert_tables){0};
}
