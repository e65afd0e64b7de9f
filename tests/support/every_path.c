#include "tests/support/every_path.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STAGES_MAX = 4 };

static const gal_block_price *price_at(const gal_every_path *b, uint32_t i)
{
    return gal_cell_price(b->cell, i, b->stage[i], b->strategy[i]);
}

static const gal_pair_price *pair_at(const gal_every_path *b, uint32_t i)
{
    return b->cell->pair[gal_cell_pair_index(b->cell, i, b->stage[i], b->strategy[i - 1], b->strategy[i])];
}

static const gal_block_shape *shape_at(const gal_every_path *b, uint32_t i)
{
    return &b->cell->types.shape[b->cell->types.type_of[i]];
}

/* The block that made or converted the carried tensor last before block i. */
static uint32_t carrier_before(const gal_every_path *b, uint32_t i)
{
    do {
        i--;
    } while (shape_at(b, i)->kind != GAL_BLOCK_BRIDGE && shape_at(b, i)->kind != GAL_BLOCK_CROSS_ATTENTION);
    return i;
}

static uint64_t carried_bytes(const gal_every_path *b, uint32_t carrier)
{
    const gal_cell *cell = b->cell;
    return gal_price_rows_bytes(cell->spec.model, &cell->strategy[b->strategy[carrier]], cell->samples,
                                (gal_flow){cell->spec.model->sequence_length, cell->spec.model->hidden});
}

static const gal_pair_price *carried_price(const gal_every_path *b, uint32_t i)
{
    const gal_cell *cell = b->cell;
    const gal_price_query query = {.type = shape_at(b, i)->type,
                                   .strategy = &cell->strategy[b->strategy[i]],
                                   .device_count = cell->stage_devices,
                                   .stage = b->stage[i],
                                   .stage_count = cell->spec.pp_degree,
                                   .microbatch_samples = cell->samples,
                                   .prefetch_depth = cell->spec.prefetch_depth};
    const gal_pair_price *price = NULL;
    gal_error err = {0};
    assert_int_equal(
        gal_price_carried(cell->spec.cache, &query, &cell->strategy[b->strategy[carrier_before(b, i)]], &price, &err),
        GAL_OK);
    return price;
}

static double transfer_seconds(const gal_every_path *b, uint32_t i, uint64_t bytes)
{
    const gal_durations *durations = b->cell->spec.durations;
    const gal_price_transfer transfer =
        gal_price_transfer_of(durations, b->cell->stage_devices, b->stage[i], b->cell->spec.pp_degree, bytes);
    return gal_price_transfer_behind(durations, &transfer,
                                     gal_cell_price(b->cell, i, b->stage[i], b->strategy[i])->link_share);
}

static bool holds_table(const gal_every_path *b, uint32_t i)
{
    return (shape_at(b, i)->shared >> GAL_SHARED_TABLE & 1U) != 0;
}

/* Whether it holds the token table with others of its stage, one of which brings it: the embedding, else the last. */
static bool table_is_there(const gal_every_path *b, uint32_t i)
{
    uint32_t bringer = i;
    for (uint32_t j = i; j < b->cell->block_count; j++) {
        bringer = b->stage[j] == b->stage[i] && holds_table(b, j) ? j : bringer;
    }
    return holds_table(b, i) && i != (b->stage[i] == 0 ? 0 : bringer);
}

static double brute_table_seconds(const gal_every_path *b)
{
    const gal_cell *cell = b->cell;
    for (uint32_t i = 0; i < cell->block_count; i++) {
        if (b->stage[i] > 0 && holds_table(b, i)) {
            return gal_price_table_update(cell->spec.model, cell->spec.durations, &cell->strategy[b->strategy[0]],
                                          cell->stage_devices, cell->spec.pp_degree);
        }
    }
    return 0.0;
}

static void add_conversion(const gal_pair_price *pair, gal_stage_sum *s)
{
    s->forward_seconds += pair->forward_seconds;
    s->backward_seconds += pair->backward_seconds;
    s->lag_seconds += pair->sync_seconds;
}

/* What block i waits for, as much as a neighbour hides (costmodel/hidden.h). */
static void take_hidden(const gal_every_path *b, uint32_t i, uint32_t beside, const gal_pass_seconds *most,
                        gal_stage_sum *s)
{
    const gal_block_shape *shape = shape_at(b, i);
    const gal_block_price *price = price_at(b, i), *by = price_at(b, beside);
    const double f = by->on_device.forward_seconds, g = by->on_device.backward_seconds;
    const bool single = shape->kind == GAL_BLOCK_BRIDGE || shape->kind == GAL_BLOCK_MERGE;
    double left = 1.0 - by->link_share[0], forward = 1.2 * f, backward = 0.6 * g;
    for (uint32_t level = 1; level < GAL_LINK_LEVELS_MAX; level++) {
        left = price->link_share[level] > 0.0 ? 1.0 - by->link_share[level] : left;
    }
    if (i == 0) {
        forward = backward = 3.0 * g;
    } else if (i + 1 == b->cell->block_count) {
        forward = 3.0 * f;
        backward = 3.0 * (f + g);
    } else if (single) {
        forward = 3.0 * f;
        backward = 3.0 * g;
    }
    if (b->cell->strategy[b->strategy[beside]].zero_stage < 3) {
        s->forward_seconds -= fmin(most->forward_seconds, left * forward);
        const double rounds = b->cell->spec.microbatch_count; /* but for the one with sync */
        s->backward_seconds -= fmin(most->backward_seconds, left * backward) * (rounds - 1.0) / rounds;
    }
}

static double brute_seconds(const gal_every_path *b, double *slowest)
{
    const gal_cell *cell = b->cell;
    const uint32_t last = cell->block_count - 1;
    double largest = 0.0; /* sum of first blocks' sync, on the only stage */
    gal_stage_sum sum[STAGES_MAX];
    memset(sum, 0, sizeof sum);
    for (uint32_t i = 0; i <= last; i++) {
        gal_stage_sum *s = &sum[b->stage[i]];
        const gal_block_price *price = price_at(b, i);
        const bool first_of_stage = i == 0 || b->stage[i] != b->stage[i - 1];
        const bool last_of_stage = i == last || b->stage[i] != b->stage[i + 1];
        s->forward_seconds += price->forward_seconds + (first_of_stage ? price->enter_seconds : 0.0);
        s->backward_seconds += price->backward_seconds + (last_of_stage ? price->leave_seconds : 0.0);
        if (!first_of_stage) {
            take_hidden(b, i, i - 1, &price->hidden_before, s);
        }
        if (!last_of_stage) {
            take_hidden(b, i, i + 1, &price->hidden_behind, s);
        }
        s->once_seconds += price->once_seconds;
        s->lag_seconds += price->lag_seconds + (first_of_stage ? price->tail_seconds : 0.0);
        s->update_seconds += price->update_seconds - price->shared_update_seconds[GAL_SHARED_ENCODER_BIAS] -
                             price->shared_update_seconds[GAL_SHARED_DECODER_BIAS];
        s->lag_seconds -= table_is_there(b, i) ? price->table_sync_seconds : 0.0;
        s->update_seconds -= table_is_there(b, i) ? price->shared_update_seconds[GAL_SHARED_TABLE] : 0.0;
        if (i > 0) {
            add_conversion(pair_at(b, i), s);
        }
        if (shape_at(b, i)->kind == GAL_BLOCK_CROSS_ATTENTION) {
            add_conversion(carried_price(b, i), s);
        }
        s->tail_seconds = s->lag_seconds;
        if (cell->spec.pp_degree == 1) {
            s->tail_seconds = largest = fmax(largest, s->lag_seconds);
            s->lag_seconds = cell->strategy[b->strategy[i]].zero_stage >= 2 ? largest : s->lag_seconds;
        }
        if (last_of_stage && i < last) {
            s->transfer_seconds = transfer_seconds(b, i, price->memory->bytes.boundary);
            if (shape_at(b, i)->carried_out.positions > 0) {
                s->transfer_seconds += transfer_seconds(b, i, carried_bytes(b, carrier_before(b, i + 1)));
            }
        }
    }
    *slowest = -HUGE_VAL;
    for (uint32_t p = 0; p < cell->spec.pp_degree; p++) {
        *slowest = fmax(*slowest, sum[p].forward_seconds + sum[p].backward_seconds + sum[p].transfer_seconds);
    }
    return gal_objective_seconds(sum, cell->spec.pp_degree, cell->spec.schedule, 1, cell->spec.microbatch_count,
                                 cell->common_seconds + brute_table_seconds(b));
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t largest_turn(const gal_ring_turns *turns)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < turns->count; i++) {
        most = larger(most, turns->bytes[i]);
    }
    return most;
}

typedef struct turn_bytes { /* what the blocks of a stage use in turn */
    uint64_t gathered, bucket, boundary, scratch, relayout, work[2], beside, staged;
} turn_bytes;

/* The versions of the carried tensor, each as if a block of the stage read it. */
static uint64_t brute_carried_bytes(const gal_every_path *b, uint32_t first, uint32_t end, uint64_t k, uint64_t ahead,
                                    uint64_t two)
{
    const gal_cell *cell = b->cell;
    uint64_t bytes = 0;
    if (shape_at(b, first)->carried_in.positions > 0) {
        bytes += (ahead + two) * carried_bytes(b, carrier_before(b, first));
    }
    for (uint32_t i = first; i < end; i++) {
        const bool reads = shape_at(b, i)->kind == GAL_BLOCK_CROSS_ATTENTION;
        if (reads && carried_price(b, i)->converts) {
            const uint32_t from = b->strategy[carrier_before(b, i)], to = b->strategy[i];
            bytes +=
                larger(carried_price(b, i)->relayout_bytes,
                       cell->conversions
                           .entry_bytes[gal_conversion_index(&cell->conversions, cell->types.carried_flow, from, to)]);
        }
        if (reads && carried_price(b, i)->converts && i > first && two > k) { /* one that no block reads waits */
            bytes += (two - k) * carried_bytes(b, carrier_before(b, i));
        }
        if (shape_at(b, i)->kind == GAL_BLOCK_BRIDGE || (reads && carried_price(b, i)->converts)) {
            bytes += (k + 1) * carried_bytes(b, i);
        }
    }
    if (end < cell->block_count && shape_at(b, end - 1)->carried_out.positions > 0) {
        bytes += (two - 1) * carried_bytes(b, carrier_before(b, end));
    }
    return bytes;
}

/* Weight, moments, gradient of both; they are whole on every device. */
static uint64_t brute_bias_bytes(const gal_every_path *b)
{
    const gal_model *model = b->cell->spec.model;
    return UINT64_C(8) * gal_align((uint64_t)model->relative_bucket_count * model->head_count *
                                   gal_dtype_bytes(model->compute_dtype));
}

/* Whether it works on two sub-batches, which are cut and joined at the ends of a stage. */
static bool halves(const gal_every_path *b, uint32_t i)
{
    return gal_strategy_halves(&b->cell->strategy[b->strategy[i]], shape_at(b, i)->kind);
}

static uint64_t work_on_side(const gal_every_path *b, uint32_t i, const gal_block_memory *memory, uint32_t side)
{
    bool is_there = false;
    for (uint32_t at = side; halves(b, i) && at < b->cell->block_count; at += 2) { /* prices are by type */
        is_there = is_there || b->cell->types.type_of[at] == b->cell->types.type_of[i];
    }
    return halves(b, i) ? (is_there ? memory->bytes.work : 0) : memory->bytes.work / 2;
}

/* The formula of costmodel/memory.h with each ring at its depth times its largest use. */
static uint64_t brute_stage_bytes(const gal_every_path *b, uint32_t first, uint32_t end)
{
    const gal_cell *cell = b->cell;
    const uint64_t m = cell->spec.microbatch_count;
    const uint64_t k = gal_in_flight(cell->spec.schedule, b->stage[first], cell->spec.pp_degree, (uint32_t)m);
    const uint64_t two = m < 2 ? m : 2;
    const bool last = end == cell->block_count;
    const gal_conversions *c = &cell->conversions;
    turn_bytes most = {0};
    uint64_t bytes = (last ? 512 : 256) + brute_bias_bytes(b);
    for (uint32_t i = first; i < end; i++) {
        const gal_block_memory *memory = price_at(b, i)->memory;
        bytes += memory->bytes.state + memory->bytes.gradient + k * memory->bytes.saved;
        bytes -= memory->shared_bytes[GAL_SHARED_ENCODER_BIAS] + memory->shared_bytes[GAL_SHARED_DECODER_BIAS];
        bytes -= table_is_there(b, i) ? memory->shared_bytes[GAL_SHARED_TABLE] : 0;
        most.gathered = larger(most.gathered, largest_turn(&memory->gathers_forward));
        most.gathered = larger(most.gathered, largest_turn(&memory->gathers_backward));
        most.gathered = larger(most.gathered, largest_turn(&memory->gathers_evaluate));
        most.bucket = larger(most.bucket, largest_turn(&memory->buckets));
        most.scratch = larger(most.scratch, memory->bytes.scratch);
        for (uint32_t side = 0; side < 2; side++) {
            most.work[side] = larger(most.work[side], work_on_side(b, i, memory, side));
        }
        most.beside = larger(most.beside, halves(b, i) ? memory->bytes.boundary : 0);
        most.staged = larger(most.staged, memory->bytes.staged_input + memory->bytes.staged_saved);
        most.boundary = larger(most.boundary, i + 1 < end ? memory->bytes.boundary : 0);
        if (i > 0) {
            const size_t at = gal_conversion_index(c, cell->types.pair_flow[cell->types.pair_of[i]], b->strategy[i - 1],
                                                   b->strategy[i]);
            most.relayout = larger(most.relayout, i > first ? c->inside_bytes[at] : c->entry_bytes[at]);
            most.relayout =
                larger(most.relayout, i > first ? pair_at(b, i)->relayout_bytes : pair_at(b, i)->relayout_entry_bytes);
        }
    }
    const uint64_t ahead = k + 1 < m ? k + 1 : m;
    if (first > 0) {
        const uint64_t received = price_at(b, first - 1)->memory->bytes.boundary;
        const gal_block_bytes *own = &price_at(b, first)->memory->bytes;
        const bool converts = pair_at(b, first)->converts || halves(b, first);
        bytes += ((converts || own->staged_input > 0 ? two : ahead) + two) * received;
        bytes -= converts ? 0 : k * own->input;
    }
    bytes += last ? 0 : (2 * two + (halves(b, end - 1) ? 2 : 0)) * price_at(b, end - 1)->memory->bytes.boundary;
    bytes += brute_carried_bytes(b, first, end, k, ahead, two);
    return bytes + cell->spec.prefetch_depth * most.gathered + 2 * most.bucket + 2 * most.boundary + most.scratch +
           most.relayout + most.work[0] + most.work[1] + most.beside + 2 * most.staged;
}

/* What a stage has beside the device: 16 bytes of a norm, three parts of two moments on their way, and of masters,
 * weights and activations that are on storage too, in whole blocks. */
static void brute_host_bytes(const gal_every_path *b, uint32_t first, uint32_t end, uint64_t *host, uint64_t *stored)
{
    const gal_cell *cell = b->cell;
    const uint64_t k =
        gal_in_flight(cell->spec.schedule, b->stage[first], cell->spec.pp_degree, cell->spec.microbatch_count);
    uint64_t bytes = 0, part = 0, master = 0, weight = 0, kept = 0;
    bool updates = false;
    *stored = 0;
    for (uint32_t i = first; i < end; i++) {
        const gal_block_memory *memory = price_at(b, i)->memory;
        const gal_block_host *own = &memory->host;
        const bool there = table_is_there(b, i);
        bytes += k * own->kept;
        bytes += own->state - (there ? own->table_state : 0);
        *stored += own->stored - (there ? own->table_stored : 0) + k * own->kept_stored;
        kept = larger(kept, own->parts.kept);
        part = larger(part, own->parts.moment);
        master = larger(master, cell->strategy[b->strategy[i]].offload_storage_masters ? own->parts.moment : 0);
        weight = larger(weight,
                        cell->strategy[b->strategy[i]].offload_storage_parameters_percent > 0 ? own->parts.weight : 0);
        updates = updates || own->state > 0;
    }
    const uint64_t ring = 6 * part + 3 * master + 3 * weight + 3 * kept;
    *host = bytes + (updates ? 256 : 0) + ring + (ring > 0 ? 8192 : 0);
}

static void add_path(gal_every_path *b)
{
    uint64_t most = 0, most_host = 0, most_stored = 0;
    for (uint32_t first = 0, end = 1; first < b->cell->block_count; end++) {
        if (end == b->cell->block_count || b->stage[end] != b->stage[first]) {
            uint64_t host = 0, stored = 0;
            most = larger(most, brute_stage_bytes(b, first, end));
            brute_host_bytes(b, first, end, &host, &stored);
            most_host = larger(most_host, host);
            most_stored = larger(most_stored, stored);
            first = end;
        }
    }
    if (b->path_count == b->capacity) {
        b->capacity = b->capacity == 0 ? 1024 : 2 * b->capacity;
        b->seconds = realloc(b->seconds, b->capacity * sizeof *b->seconds);
        b->most_bytes = realloc(b->most_bytes, b->capacity * sizeof *b->most_bytes);
        b->slowest = realloc(b->slowest, b->capacity * sizeof *b->slowest);
        b->host_bytes = realloc(b->host_bytes, b->capacity * sizeof *b->host_bytes);
        b->stored_bytes = realloc(b->stored_bytes, b->capacity * sizeof *b->stored_bytes);
        assert_non_null(b->host_bytes);
        assert_non_null(b->stored_bytes);
        assert_non_null(b->seconds);
        assert_non_null(b->slowest);
        assert_non_null(b->most_bytes);
    }
    b->seconds[b->path_count] = brute_seconds(b, &b->slowest[b->path_count]);
    b->host_bytes[b->path_count] = most_host;
    b->stored_bytes[b->path_count] = most_stored;
    b->most_bytes[b->path_count++] = most;
}

/* Rows change their layout beside the carried tensor only in front of a block that reads it. */
static bool keeps_with_carried(const gal_every_path *b, uint32_t block)
{
    const gal_block_shape *shape = shape_at(b, block);
    return block == 0 || shape->carried_in.positions == 0 || shape->kind == GAL_BLOCK_CROSS_ATTENTION ||
           gal_price_rows_alike(&b->cell->strategy[b->strategy[block - 1]], &b->cell->strategy[b->strategy[block]],
                                b->cell->stage_devices);
}

static void try_from(gal_every_path *b, uint32_t block)
{
    const gal_cell *cell = b->cell;
    if (block > 0 && (block == GAL_EVERY_PATH_BLOCKS_MAX || block == cell->block_count)) {
        const uint32_t last = block - 1;
        if (b->stage[last] + 1 == cell->spec.pp_degree && gal_cell_tables_alike(cell, b->strategy)) {
            add_path(b);
        }
        return;
    }
    const uint32_t stage = block == 0 ? 0 : b->stage[block - 1];
    for (uint32_t p = stage; p <= stage + (block == 0 ? 0 : 1) && p < cell->spec.pp_degree; p++) {
        for (uint32_t s = 0; s < cell->strategy_count; s++) {
            b->stage[block] = p;
            b->strategy[block] = s;
            if (gal_cell_price(cell, block, p, s) != NULL && keeps_with_carried(b, block)) {
                try_from(b, block + 1);
            }
        }
    }
}

void gal_every_path_list(const gal_cell *cell, gal_every_path *out)
{
    memset(out, 0, sizeof *out);
    out->cell = cell;
    try_from(out, 0);
}

void gal_every_path_free(gal_every_path *all)
{
    free(all->seconds);
    free(all->slowest);
    free(all->most_bytes);
    free(all->host_bytes);
    free(all->stored_bytes);
}

double gal_every_path_best_within(const gal_every_path *all, uint64_t limit_bytes, uint64_t host_bytes,
                                  uint64_t stored_bytes)
{
    double best = HUGE_VAL;
    for (size_t i = 0; i < all->path_count; i++) {
        if (all->most_bytes[i] <= limit_bytes && all->host_bytes[i] <= host_bytes &&
            all->stored_bytes[i] <= stored_bytes) {
            best = fmin(best, all->seconds[i]);
        }
    }
    return best;
}

double gal_every_path_best(const gal_every_path *all, uint64_t limit_bytes)
{
    return gal_every_path_best_within(all, limit_bytes, UINT64_MAX, UINT64_MAX);
}
