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

static size_t pair_index(const gal_cell *cell, uint32_t stage, gal_block_kind from_kind, bool to_head, uint32_t from,
                         uint32_t to)
{
    size_t kind = to_head ? GAL_BLOCK_KIND_COUNT - 1 : (size_t)from_kind;
    return (((size_t)stage * GAL_BLOCK_KIND_COUNT + kind) * cell->strategy_count + from) * cell->strategy_count + to;
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

static gal_code fill_prices(gal_cell *cell, gal_error *err)
{
    for (uint32_t stage = 0; stage < cell->spec.pp_degree; stage++) {
        for (uint32_t kind = 0; kind < GAL_BLOCK_KIND_COUNT; kind++) {
            for (uint32_t s = 0; s < cell->strategy_count; s++) {
                const gal_strategy *strategy = &cell->strategy[s];
                bool end = kind == GAL_BLOCK_EMBEDDING || kind == GAL_BLOCK_HEAD;
                if ((end && strategy->recompute != GAL_RECOMPUTE_NONE) || /* nothing there to run again */
                    gal_strategy_rule_broken(cell->spec.model, (gal_block_kind)kind, strategy, cell->stage_devices,
                                             cell->samples) != NULL) {
                    continue;
                }
                gal_price_query query = query_of(cell, stage, (gal_block_kind)kind, s);
                gal_code code = gal_price_block(cell->spec.cache, &query,
                                                &cell->price[price_index(cell, stage, (gal_block_kind)kind, s)], err);
                if (code != GAL_OK) {
                    return code;
                }
            }
        }
    }
    return GAL_OK;
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
            gal_code code =
                gal_price_pair(cell->spec.cache, &query, to_kind, &cell->strategy[to], &cell->pair[at], err);
            if (code != GAL_OK) {
                return code;
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
            const gal_block_price *price = cell->price[price_index(cell, stage, GAL_BLOCK_ATTENTION, s)];
            price = price == NULL ? cell->price[price_index(cell, stage, GAL_BLOCK_FFN, s)] : price;
            if (price != NULL) {
                cell->transfer[stage * cell->strategy_count + s] =
                    gal_price_transfer(cell->spec.durations, cell->stage_devices, stage, cell->spec.pp_degree,
                                       price->memory.bytes.boundary);
            }
        }
    }
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
    size_t n = cell->strategy_count;
    cell->price = calloc(stages * GAL_BLOCK_KIND_COUNT * n + 1, sizeof(void *));
    cell->pair = calloc(stages * GAL_BLOCK_KIND_COUNT * n * n + 1, sizeof(void *));
    cell->in_flight = calloc(stages, sizeof *cell->in_flight);
    cell->transfer = calloc(stages * n + 1, sizeof *cell->transfer);
    bool have = cell->price != NULL && cell->pair != NULL && cell->in_flight != NULL && cell->transfer != NULL;
    return have ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

gal_code gal_cell_create(const gal_cell_spec *spec, gal_cell **out, gal_error *err)
{
    gal_cell *cell = NULL;
    gal_code code = refuse(spec, err);
    GAL_TRY(code);
    cell = calloc(1, sizeof *cell);
    if (cell != NULL) {
        cell->strategy = calloc(GAL_SPACE_MAX, sizeof *cell->strategy);
    }
    if (cell == NULL || cell->strategy == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    cell->spec = *spec;
    cell->stage_devices = spec->device_count / spec->pp_degree;
    cell->samples = spec->global_batch_samples / spec->microbatch_count;
    cell->block_count = gal_model_block_count(spec->model);
    cell->strategy_count = gal_space_strategies(spec->space, cell->stage_devices, cell->strategy);
    GAL_TRY(allocate(cell, err));
    for (uint32_t p = 0; p < spec->pp_degree; p++) {
        cell->in_flight[p] = gal_in_flight(spec->schedule, p, spec->pp_degree, spec->microbatch_count);
    }
    GAL_TRY(fill_prices(cell, err));
    GAL_TRY(fill_pairs(cell, err));
    fill_transfers(cell);
    uint64_t table = (uint64_t)gal_model_padded_vocabulary(spec->model) * spec->model->hidden *
                     gal_dtype_bytes(spec->model->compute_dtype) / cell->stage_devices;
    bool tied = spec->model->tied_embeddings && spec->pp_degree > 1;
    cell->common_seconds = gal_price_common_update(spec->durations, cell->stage_devices, spec->pp_degree,
                                                   tied ? table : 0) +
                           gal_durations_fixed_step_seconds(spec->durations);
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
    free(cell->transfer);
    free(cell->in_flight);
    free(cell->pair);
    free(cell->price);
    free(cell->strategy);
    free(cell);
}

const gal_block_price *gal_cell_price(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy)
{
    return cell->price[price_index(cell, stage, gal_model_block_kind(cell->spec.model, block), strategy)];
}

static const gal_pair_price *pair_before(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t from,
                                         uint32_t to)
{
    gal_block_kind kind = gal_model_block_kind(cell->spec.model, block - 1);
    bool to_head = block + 1 == cell->block_count;
    return cell->pair[pair_index(cell, stage, kind, to_head, from, to)];
}

static void add_block(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy, gal_cell_step *out)
{
    const gal_block_price *price = gal_cell_price(cell, block, stage, strategy);
    const gal_block_bytes *bytes = &price->memory.bytes;
    out->forward_seconds += price->forward_seconds;
    out->backward_seconds += price->backward_seconds;
    out->tail_seconds += price->sync_seconds;
    out->update_seconds += price->update_seconds;
    out->bytes += (int64_t)(bytes->state + bytes->gradient + cell->in_flight[stage] * bytes->saved);
}

static void add_pair(const gal_pair_price *pair, gal_cell_step *out)
{
    out->forward_seconds += pair->forward_seconds;
    out->backward_seconds += pair->backward_seconds;
    out->tail_seconds += pair->sync_seconds;
    out->relayout_bytes = pair->relayout_bytes;
}

static void add_entry(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy, gal_cell_step *out)
{
    const gal_block_price *price = gal_cell_price(cell, block, stage, strategy);
    out->forward_seconds += price->enter_seconds;
    out->tail_seconds += price->tail_seconds;
}

void gal_cell_start(const gal_cell *cell, uint32_t strategy, gal_cell_step *out)
{
    memset(out, 0, sizeof *out);
    add_block(cell, 0, 0, strategy, out);
    add_entry(cell, 0, 0, strategy, out);
}

void gal_cell_follow(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t from, uint32_t strategy,
                     gal_cell_step *out)
{
    memset(out, 0, sizeof *out);
    add_block(cell, block, stage, strategy, out);
    add_pair(pair_before(cell, block, stage, from, strategy), out);
}

static int64_t at_most_two(const gal_cell *cell)
{
    return cell->spec.microbatch_count < 2 ? (int64_t)cell->spec.microbatch_count : 2;
}

void gal_cell_cross(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t from, uint32_t strategy,
                    gal_cell_step *out)
{
    gal_cell_follow(cell, block, stage, from, strategy, out);
    add_entry(cell, block, stage, strategy, out);
    bool converts = pair_before(cell, block, stage, from, strategy)->converts;
    uint32_t k = cell->in_flight[stage];
    int64_t ahead = k < cell->spec.microbatch_count ? (int64_t)k + 1 : (int64_t)cell->spec.microbatch_count;
    int64_t two = at_most_two(cell);
    int64_t entry = (int64_t)gal_cell_price(cell, block - 1, stage, from)->memory.bytes.boundary;
    int64_t input = (int64_t)gal_cell_price(cell, block, stage, strategy)->memory.bytes.input;
    out->bytes += ((converts ? two : ahead) + two) * entry - (converts ? 0 : (int64_t)k * input);
}

void gal_cell_close(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy, gal_cell_step *out,
                    double *transfer_seconds)
{
    const gal_block_price *price = gal_cell_price(cell, block, stage, strategy);
    bool last = stage + 1 == cell->spec.pp_degree;
    memset(out, 0, sizeof *out);
    out->backward_seconds = price->leave_seconds;
    out->bytes = last ? 0 : 2 * at_most_two(cell) * (int64_t)price->memory.bytes.boundary;
    *transfer_seconds = last ? 0.0 : cell->transfer[stage * cell->strategy_count + strategy];
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

static uint64_t largest_turn(const gal_ring_turns *turns)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < turns->count; i++) {
        most = larger(most, turns->bytes[i]);
    }
    return most;
}

void gal_chain_add(gal_chain *chain, const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy,
                   const gal_cell_step *step)
{
    const gal_block_memory *memory = &gal_cell_price(cell, block, stage, strategy)->memory;
    uint64_t gathers = larger(largest_turn(&memory->gathers_forward),
                              larger(largest_turn(&memory->gathers_backward), largest_turn(&memory->gathers_evaluate)));
    chain->stage_round += step->forward_seconds + step->backward_seconds;
    chain->stage_backward += step->backward_seconds;
    chain->stage_tail += step->tail_seconds;
    chain->stage_update += step->update_seconds;
    chain->bytes += step->bytes;
    chain->gathered = larger(chain->gathered, cell->spec.prefetch_depth * gathers);
    chain->bucket = larger(chain->bucket, 2 * largest_turn(&memory->buckets));
    if (chain->stage_blocks > 0) { /* dy of the block before; a row buffer is no smaller in its own layout's bytes */
        chain->boundary = larger(chain->boundary, 2 * memory->bytes.boundary);
    }
    chain->boundary = larger(chain->boundary, chain->stage_blocks == 0 ? 0 : 2 * memory->bytes.boundary);
    chain->scratch = larger(chain->scratch, memory->bytes.scratch);
    chain->relayout = larger(chain->relayout, step->relayout_bytes);
    chain->work = larger(chain->work, memory->bytes.work);
    chain->stage_blocks++;
}

int64_t gal_chain_bytes(const gal_chain *chain)
{
    return chain->bytes + (int64_t)(chain->gathered + chain->bucket + chain->boundary + chain->scratch +
                                    chain->relayout + chain->work);
}

bool gal_chain_close(gal_chain *chain, const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy)
{
    gal_cell_step step;
    double transfer = 0.0;
    gal_cell_close(cell, block, stage, strategy, &step, &transfer);
    double round = chain->stage_round + step.backward_seconds;
    bool last = stage + 1 == cell->spec.pp_degree;
    int64_t own = (last ? 2 : 1) * GAL_ALIGNMENT_BYTES; /* norm, loss */
    int64_t bytes = gal_chain_bytes(chain) + step.bytes + own;
    chain->additive += round + 2.0 * transfer;
    chain->slowest = fmax(chain->slowest, round);
    chain->exposed = fmax(chain->exposed, chain->stage_tail - chain->drained);
    chain->drained += chain->stage_backward + step.backward_seconds;
    chain->update = fmax(chain->update, chain->stage_update);
    gal_chain closed = {.additive = chain->additive,
                        .slowest = chain->slowest,
                        .exposed = chain->exposed,
                        .drained = chain->drained,
                        .update = chain->update,
                        .bytes = bytes};
    *chain = closed;
    return bytes <= (int64_t)cell->spec.arena_limit_bytes;
}

double gal_chain_seconds(const gal_chain *chain, const gal_cell *cell)
{
    return chain->additive + (cell->spec.microbatch_count - 1) * chain->slowest + chain->exposed + chain->update +
           cell->common_seconds;
}

double gal_cell_evaluate(const gal_cell *cell, const uint32_t *stage, const uint32_t *strategy, uint64_t *most_bytes)
{
    gal_chain chain = {0};
    bool fits = true;
    int64_t most = 0;
    for (uint32_t i = 0; i < cell->block_count; i++) {
        gal_cell_step step;
        if (i == 0) {
            gal_cell_start(cell, strategy[0], &step);
        } else if (stage[i] == stage[i - 1]) {
            gal_cell_follow(cell, i, stage[i], strategy[i - 1], strategy[i], &step);
        } else {
            fits = gal_chain_close(&chain, cell, i - 1, stage[i - 1], strategy[i - 1]) && fits;
            most = chain.bytes > most ? chain.bytes : most;
            chain.bytes = 0;
            gal_cell_cross(cell, i, stage[i], strategy[i - 1], strategy[i], &step);
        }
        gal_chain_add(&chain, cell, i, stage[i], strategy[i], &step);
    }
    uint32_t last = cell->block_count - 1;
    fits = gal_chain_close(&chain, cell, last, stage[last], strategy[last]) && fits;
    most = chain.bytes > most ? chain.bytes : most;
    if (most_bytes != NULL) {
        *most_bytes = (uint64_t)most;
    }
    return fits ? gal_chain_seconds(&chain, cell) : HUGE_VAL;
}
