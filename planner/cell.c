#include "planner/cell.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/plan_check.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static size_t price_index(const gal_cell *cell, uint32_t stage, gal_block_kind kind, uint32_t strategy)
{
    return ((size_t)stage * GAL_BLOCK_KIND_COUNT + (size_t)kind) * cell->strategy_count + strategy;
}

/* The kind that follows is fixed but for FFN's: attention, or the head, which takes the place that is free. */
static size_t pair_index(const gal_cell *cell, uint32_t stage, gal_block_kind from_kind, bool to_head, uint32_t from,
                         uint32_t to)
{
    size_t kind = to_head ? (size_t)GAL_BLOCK_HEAD : (size_t)from_kind;
    return (((size_t)stage * GAL_BLOCK_KIND_COUNT + kind) * cell->strategy_count + from) * cell->strategy_count + to;
}

size_t gal_cell_price_index(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy)
{
    return price_index(cell, stage, gal_model_block_kind(cell->spec.model, block), strategy);
}

size_t gal_cell_pair_index(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t from, uint32_t to)
{
    return pair_index(cell, stage, gal_model_block_kind(cell->spec.model, block - 1), block + 1 == cell->block_count,
                      from, to);
}

size_t gal_cell_pair_count(const gal_cell *cell)
{
    return (size_t)cell->spec.pp_degree * GAL_BLOCK_KIND_COUNT * cell->strategy_count * cell->strategy_count;
}

static gal_price_query query_of(const gal_cell *cell, uint32_t stage, gal_block_kind kind, uint32_t strategy)
{
    return (gal_price_query){.kind = kind,
                             .strategy = &cell->strategy[strategy],
                             .device_count = cell->stage_devices,
                             .stage = stage,
                             .stage_count = cell->spec.pp_degree,
                             .microbatch_samples = cell->samples,
                             .prefetch_depth = cell->spec.prefetch_depth};
}

static bool is_legal(const gal_cell *cell, gal_block_kind kind, const gal_strategy *strategy)
{
    const bool end = kind == GAL_BLOCK_EMBEDDING || kind == GAL_BLOCK_HEAD;
    return (!end || strategy->recompute == GAL_RECOMPUTE_NONE) && /* nothing there to run again */
           gal_strategy_rule_broken(cell->spec.model, kind, strategy, cell->stage_devices, cell->samples) == NULL;
}

static void keep_legal(gal_cell *cell)
{
    uint32_t kept = 0;
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        bool legal = false;
        for (uint32_t kind = 0; kind < GAL_BLOCK_KIND_COUNT && !legal; kind++) {
            legal = is_legal(cell, (gal_block_kind)kind, &cell->strategy[s]);
        }
        if (legal) {
            cell->strategy[kept++] = cell->strategy[s];
        }
    }
    cell->strategy_count = kept;
}

static uint64_t largest_turn(const gal_ring_turns *turns)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < turns->count; i++) {
        most = larger(most, turns->bytes[i]);
    }
    return most;
}

static gal_shared_bytes shared_of(const gal_cell *cell, const gal_block_memory *memory)
{
    const uint64_t gathers =
        larger(largest_turn(&memory->gathers_forward),
               larger(largest_turn(&memory->gathers_backward), largest_turn(&memory->gathers_evaluate)));
    return (gal_shared_bytes){.of = {[GAL_SHARED_GATHERED] = (int64_t)(cell->spec.prefetch_depth * gathers),
                                     [GAL_SHARED_BUCKET] = (int64_t)(2 * largest_turn(&memory->buckets)),
                                     [GAL_SHARED_SCRATCH] = (int64_t)memory->bytes.scratch,
                                     [GAL_SHARED_WORK] = (int64_t)memory->bytes.work}};
}

static gal_code fill_prices_of(gal_cell *cell, uint32_t stage, gal_block_kind kind, gal_error *err)
{
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        if (is_legal(cell, kind, &cell->strategy[s])) {
            const size_t at = price_index(cell, stage, kind, s);
            const gal_price_query query = query_of(cell, stage, kind, s);
            gal_error reason = {0};
            const gal_code code = gal_price_block(cell->spec.cache, &query, &cell->price[at], &reason);
            if (code == GAL_ERR_DOCUMENT) { /* a tensor is too large for a program: not to be had */
                cell->price[at] = NULL;
                continue;
            }
            if (code != GAL_OK) {
                return gal_fail(err, code, "%s", reason.text);
            }
            cell->shared[at] = shared_of(cell, &cell->price[at]->memory);
        }
    }
    return GAL_OK;
}

static gal_code fill_prices(gal_cell *cell, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t stage = 0; stage < cell->spec.pp_degree; stage++) {
        for (uint32_t kind = 0; code == GAL_OK && kind < GAL_BLOCK_KIND_COUNT; kind++) {
            code = fill_prices_of(cell, stage, (gal_block_kind)kind, err);
        }
    }
    return code;
}

static gal_code fill_pairs_of(gal_cell *cell, uint32_t stage, gal_block_kind from_kind, gal_block_kind to_kind,
                              gal_error *err)
{
    for (uint32_t from = 0; from < cell->strategy_count; from++) {
        for (uint32_t to = 0; to < cell->strategy_count; to++) {
            if (cell->price[price_index(cell, stage, from_kind, from)] == NULL ||
                cell->price[price_index(cell, stage, to_kind, to)] == NULL) {
                continue;
            }
            gal_price_query query = query_of(cell, stage, from_kind, from);
            size_t at = pair_index(cell, stage, from_kind, to_kind == GAL_BLOCK_HEAD, from, to);
            gal_error reason = {0};
            gal_code code =
                gal_price_pair(cell->spec.cache, &query, to_kind, &cell->strategy[to], &cell->pair[at], &reason);
            if (code == GAL_ERR_DOCUMENT) {
                cell->pair[at] = NULL;
            } else if (code != GAL_OK) {
                return gal_fail(err, code, "%s", reason.text);
            }
        }
    }
    return GAL_OK;
}

static gal_code fill_pairs(gal_cell *cell, gal_error *err)
{
    static const gal_block_kind neighbours[][2] = {{GAL_BLOCK_EMBEDDING, GAL_BLOCK_ATTENTION},
                                                   {GAL_BLOCK_ATTENTION, GAL_BLOCK_FFN},
                                                   {GAL_BLOCK_FFN, GAL_BLOCK_ATTENTION},
                                                   {GAL_BLOCK_FFN, GAL_BLOCK_HEAD}};
    gal_code code = GAL_OK;
    for (uint32_t stage = 0; code == GAL_OK && stage < cell->spec.pp_degree; stage++) {
        for (size_t i = 0; code == GAL_OK && i < sizeof neighbours / sizeof neighbours[0]; i++) {
            code = fill_pairs_of(cell, stage, neighbours[i][0], neighbours[i][1], err);
        }
    }
    return code;
}

static void fill_transfers(gal_cell *cell)
{
    for (uint32_t stage = 0; stage + 1 < cell->spec.pp_degree; stage++) {
        for (uint32_t s = 0; s < cell->strategy_count; s++) {
            uint64_t bytes = 0; /* the same behind all kinds; not all may be legal */
            for (uint32_t kind = 0; kind < GAL_BLOCK_HEAD; kind++) {
                const gal_block_price *price = cell->price[price_index(cell, stage, (gal_block_kind)kind, s)];
                bytes = price == NULL ? bytes : price->memory.bytes.boundary;
            }
            cell->transfer[stage * cell->strategy_count + s] =
                gal_price_transfer(cell->spec.durations, cell->stage_devices, stage, cell->spec.pp_degree, bytes);
        }
    }
}

/* As gal_plan_objective has it: what a device reduces with its partner of the tied table. */
static void fill_tied(gal_cell *cell)
{
    const gal_cell_spec *spec = &cell->spec;
    const uint64_t table_bytes = (uint64_t)gal_model_padded_vocabulary(spec->model) * spec->model->hidden *
                                 gal_dtype_bytes(spec->model->compute_dtype);
    const double common = gal_price_common_update(spec->durations, cell->stage_devices, spec->pp_degree, 0);
    cell->common_seconds = common + gal_durations_fixed_step_seconds(spec->durations);
    for (uint32_t s = 0; s < cell->strategy_count && spec->model->tied_embeddings && spec->pp_degree > 1; s++) {
        const uint32_t shards = gal_strategy_degree(&cell->strategy[s], GAL_AXIS_TP) *
                                gal_strategy_degree(&cell->strategy[s], GAL_AXIS_SDP);
        cell->tied_seconds[s] =
            gal_price_common_update(spec->durations, cell->stage_devices, spec->pp_degree, table_bytes / shards) -
            common;
    }
}

/* ---- rounding ---- */

static double largest_of_price(const gal_block_price *p)
{
    return fabs(p->forward_seconds) + fabs(p->backward_seconds) + fabs(p->sync_seconds) + fabs(p->enter_seconds) +
           fabs(p->leave_seconds) + fabs(p->tail_seconds) + fabs(p->update_seconds);
}

static double largest_of_pair(const gal_pair_price *p)
{
    return fabs(p->forward_seconds) + fabs(p->backward_seconds) + fabs(p->sync_seconds);
}

/* A power of two, 2^-52 of what no path exceeds. */
static double fine_unit(const gal_cell *cell)
{
    const size_t prices = (size_t)cell->spec.pp_degree * GAL_BLOCK_KIND_COUNT * cell->strategy_count;
    double price = 0.0;
    double pair = 0.0;
    double once = 0.0;
    for (size_t i = 0; i < prices; i++) {
        price = cell->price[i] == NULL ? price : fmax(price, largest_of_price(cell->price[i]));
    }
    for (size_t i = 0; i < gal_cell_pair_count(cell); i++) {
        pair = cell->pair[i] == NULL ? pair : fmax(pair, largest_of_pair(cell->pair[i]));
    }
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        once = fmax(once, cell->tied_seconds[s]);
        for (uint32_t stage = 0; stage < cell->spec.pp_degree; stage++) {
            once = fmax(once, 2.0 * cell->transfer[stage * cell->strategy_count + s]);
        }
    }
    int exponent = 0;
    (void)frexp((cell->spec.microbatch_count + 1.0) * (cell->block_count + 1.0) * (price + pair + once) +
                    cell->common_seconds,
                &exponent);
    return ldexp(1.0, exponent - 52);
}

static void round_to(double unit, double *seconds)
{
    *seconds = rint(*seconds / unit) * unit;
}

static void round_price(double unit, gal_block_price *p)
{
    round_to(unit, &p->forward_seconds);
    round_to(unit, &p->backward_seconds);
    round_to(unit, &p->sync_seconds);
    round_to(unit, &p->enter_seconds);
    round_to(unit, &p->leave_seconds);
    round_to(unit, &p->tail_seconds);
    round_to(unit, &p->update_seconds);
}

static gal_code round_seconds(gal_cell *cell, gal_error *err)
{
    const size_t prices = (size_t)cell->spec.pp_degree * GAL_BLOCK_KIND_COUNT * cell->strategy_count;
    const size_t pairs = gal_cell_pair_count(cell);
    const double unit = cell->unit_seconds = fine_unit(cell);
    cell->rounded_price = calloc(prices + 1, sizeof *cell->rounded_price);
    cell->rounded_pair = calloc(pairs + 1, sizeof *cell->rounded_pair);
    if (cell->rounded_price == NULL || cell->rounded_pair == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    for (size_t i = 0; i < prices; i++) {
        if (cell->price[i] != NULL) {
            cell->rounded_price[i] = *cell->price[i];
            round_price(unit, &cell->rounded_price[i]);
            cell->price[i] = &cell->rounded_price[i];
        }
    }
    for (size_t i = 0; i < pairs; i++) {
        if (cell->pair[i] != NULL) {
            gal_pair_price *pair = &cell->rounded_pair[i];
            *pair = *cell->pair[i];
            round_to(unit, &pair->forward_seconds);
            round_to(unit, &pair->backward_seconds);
            round_to(unit, &pair->sync_seconds);
            cell->pair[i] = pair;
        }
    }
    for (uint32_t i = 0; i < cell->spec.pp_degree * cell->strategy_count; i++) {
        round_to(unit, &cell->transfer[i]);
    }
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        round_to(unit, &cell->tied_seconds[s]);
    }
    round_to(unit, &cell->common_seconds);
    return GAL_OK;
}

static gal_code refuse(const gal_cell_spec *spec, gal_error *err)
{
    uint32_t blocks = gal_model_block_count(spec->model);
    if (spec->pp_degree == 0 || spec->device_count % spec->pp_degree != 0) {
        return gal_fail(err, GAL_NO, "pp_degree %u does not divide %u devices", spec->pp_degree, spec->device_count);
    }
    if (spec->pp_degree > blocks) {
        return gal_fail(err, GAL_NO, "pp_degree %u is more than the %u blocks of the model", spec->pp_degree, blocks);
    }
    if (spec->microbatch_count == 0 || spec->global_batch_samples % spec->microbatch_count != 0) {
        return gal_fail(err, GAL_NO, "%u microbatches do not divide a batch of %u samples", spec->microbatch_count,
                        spec->global_batch_samples);
    }
    return GAL_OK;
}

static gal_code allocate(gal_cell *cell, gal_error *err)
{
    size_t stages = cell->spec.pp_degree;
    size_t nodes = stages * GAL_BLOCK_KIND_COUNT * cell->strategy_count;
    cell->price = calloc(nodes + 1, sizeof(void *));
    cell->shared = calloc(nodes + 1, sizeof *cell->shared);
    cell->pair = calloc(gal_cell_pair_count(cell) + 1, sizeof(void *));
    cell->in_flight = calloc(stages, sizeof *cell->in_flight);
    cell->transfer = calloc(stages * cell->strategy_count + 1, sizeof *cell->transfer);
    cell->tied_seconds = calloc(cell->strategy_count + 1, sizeof *cell->tied_seconds);
    const bool have = cell->price != NULL && cell->shared != NULL && cell->pair != NULL && cell->in_flight != NULL &&
                      cell->transfer != NULL && cell->tied_seconds != NULL;
    return have ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

static gal_code fill(gal_cell *cell, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_cell_spec *spec = &cell->spec;
    cell->stage_devices = spec->device_count / spec->pp_degree;
    cell->samples = spec->global_batch_samples / spec->microbatch_count;
    cell->block_count = gal_model_block_count(spec->model);
    cell->strategy_count = gal_space_strategies(spec->space, cell->stage_devices, cell->strategy);
    keep_legal(cell);
    GAL_TRY(allocate(cell, err));
    for (uint32_t p = 0; p < spec->pp_degree; p++) {
        cell->in_flight[p] = gal_in_flight(spec->schedule, p, spec->pp_degree, spec->microbatch_count);
    }
    GAL_TRY(fill_prices(cell, err));
    GAL_TRY(fill_pairs(cell, err));
    GAL_TRY(gal_conversions_create(spec->cache, spec->model, cell->stage_devices, cell->samples, spec->prefetch_depth,
                                   cell->strategy, cell->strategy_count, &cell->conversions, err));
    fill_transfers(cell);
    fill_tied(cell);
    GAL_TRY(round_seconds(cell, err));
cleanup:
    return code;
}

gal_code gal_cell_create(const gal_cell_spec *spec, gal_cell **out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_cell *cell = NULL;
    GAL_TRY(refuse(spec, err));
    cell = calloc(1, sizeof *cell);
    if (cell != NULL) {
        cell->spec = *spec;
        cell->strategy = calloc(GAL_SPACE_MAX, sizeof *cell->strategy);
    }
    if (cell == NULL || cell->strategy == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    GAL_TRY(fill(cell, err));
    *out = cell;
    cell = NULL;
cleanup:
    gal_cell_free(cell);
    return code;
}

void gal_cell_free(gal_cell *cell)
{
    if (cell == NULL) {
        return;
    }
    gal_conversions_free(&cell->conversions);
    free(cell->tied_seconds);
    free(cell->transfer);
    free(cell->in_flight);
    free(cell->rounded_pair);
    free(cell->rounded_price);
    free(cell->pair);
    free(cell->shared);
    free(cell->price);
    free(cell->strategy);
    free(cell);
}

const gal_block_price *gal_cell_price(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy)
{
    return cell->price[gal_cell_price_index(cell, block, stage, strategy)];
}

/* ---- steps ---- */

static void add_block(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy, gal_cell_step *out)
{
    const size_t at = gal_cell_price_index(cell, block, stage, strategy);
    const gal_block_price *price = cell->price[at];
    const gal_block_bytes *bytes = &price->memory.bytes;
    out->forward_seconds += price->forward_seconds;
    out->backward_seconds += price->backward_seconds;
    out->tail_seconds += price->sync_seconds;
    out->update_seconds += price->update_seconds;
    out->bytes += (int64_t)(bytes->state + bytes->gradient + cell->in_flight[stage] * bytes->saved);
    out->shared = cell->shared[at];
}

static void add_pair(const gal_pair_price *pair, gal_cell_step *out)
{
    out->forward_seconds += pair->forward_seconds;
    out->backward_seconds += pair->backward_seconds;
    out->tail_seconds += pair->sync_seconds;
}

/* The turn from backward to forward. */
static void add_turn(const gal_block_price *price, gal_cell_step *out)
{
    out->forward_seconds += price->enter_seconds;
    out->tail_seconds += price->tail_seconds;
}

static size_t conversion_index(const gal_cell *cell, uint32_t from, uint32_t to)
{
    const gal_conversions *c = &cell->conversions;
    return (size_t)c->class_of[from] * c->class_count + c->class_of[to];
}

void gal_cell_start(const gal_cell *cell, uint32_t strategy, gal_cell_step *out)
{
    memset(out, 0, sizeof *out);
    add_block(cell, 0, 0, strategy, out);
    add_turn(gal_cell_price(cell, 0, 0, strategy), out);
    out->once_seconds = cell->tied_seconds[strategy];
}

void gal_cell_follow(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t from, uint32_t strategy,
                     gal_cell_step *out)
{
    const gal_pair_price *pair = cell->pair[gal_cell_pair_index(cell, block, stage, from, strategy)];
    memset(out, 0, sizeof *out);
    add_block(cell, block, stage, strategy, out);
    add_pair(pair, out);
    out->shared.of[GAL_SHARED_BOUNDARY] =
        (int64_t)(2 * gal_cell_price(cell, block - 1, stage, from)->memory.bytes.boundary); /* dx lies as x did */
    out->shared.of[GAL_SHARED_RELAYOUT] =
        (int64_t)larger(pair->relayout_bytes, cell->conversions.inside_bytes[conversion_index(cell, from, strategy)]);
}

static int64_t at_most_two(const gal_cell *cell)
{
    return cell->spec.microbatch_count < 2 ? (int64_t)cell->spec.microbatch_count : 2;
}

/* x_in, c of them, and dx_out in place of the saved input. */
static int64_t entry_port_bytes(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t from, uint32_t strategy,
                                bool converts)
{
    const int64_t k = cell->in_flight[stage];
    const int64_t m = cell->spec.microbatch_count;
    const int64_t two = at_most_two(cell);
    const int64_t received = (int64_t)gal_cell_price(cell, block - 1, stage, from)->memory.bytes.boundary;
    const int64_t input = (int64_t)gal_cell_price(cell, block, stage, strategy)->memory.bytes.input;
    return converts ? 2 * two * received : ((k < m ? k + 1 : m) + two) * received - k * input;
}

void gal_cell_cross(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t from, uint32_t strategy,
                    gal_cell_step *out)
{
    const gal_pair_price *pair = cell->pair[gal_cell_pair_index(cell, block, stage, from, strategy)];
    memset(out, 0, sizeof *out);
    add_block(cell, block, stage, strategy, out);
    add_pair(pair, out);
    add_turn(gal_cell_price(cell, block, stage, strategy), out);
    out->bytes += entry_port_bytes(cell, block, stage, from, strategy, pair->converts);
    out->shared.of[GAL_SHARED_RELAYOUT] = (int64_t)larger(
        pair->relayout_entry_bytes, cell->conversions.entry_bytes[conversion_index(cell, from, strategy)]);
}

void gal_cell_close(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy, gal_cell_step *out)
{
    const gal_block_price *price = gal_cell_price(cell, block, stage, strategy);
    const bool last = stage + 1 == cell->spec.pp_degree;
    memset(out, 0, sizeof *out);
    out->backward_seconds = price->leave_seconds;
    out->bytes = (last ? 2 : 1) * GAL_ALIGNMENT_BYTES; /* norm, loss */
    if (!last) {
        out->bytes += 2 * at_most_two(cell) * (int64_t)price->memory.bytes.boundary;
        out->once_seconds = 2.0 * cell->transfer[stage * cell->strategy_count + strategy];
    }
}

bool gal_cell_tied_alike(const gal_cell *cell, uint32_t embedding, uint32_t head)
{
    const gal_strategy *a = &cell->strategy[embedding];
    const gal_strategy *b = &cell->strategy[head];
    if (!cell->spec.model->tied_embeddings) {
        return true;
    }
    bool alike = a->zero_stage == b->zero_stage && a->axis_count == b->axis_count;
    for (uint32_t i = 0; alike && i < a->axis_count; i++) {
        alike = a->axis[i].kind == b->axis[i].kind && a->axis[i].degree == b->axis[i].degree;
    }
    return alike;
}
