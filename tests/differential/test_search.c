/* The cell search against brute force over every path, with sums and bytes written out once more here. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "planner/bound/bottleneck.h"
#include "planner/search/joint_search.h"
#include "planner/stages/cell_solve.h"
#include "planner/stages/staged.h"
#include "tests/support/random_plan.h"

enum { BLOCKS_MAX = 8, STAGES_MAX = 4, SEEDS = 400, LABELS = 1000000, PATHS_MAX = 400000, LONG_PATHS_MAX = 100000 };

/* ---- random cells ---- */

typedef struct trial {
    gal_model model;
    gal_cluster cluster;
    gal_space space;
    gal_durations *durations;
    gal_price_cache *cache;
    gal_cell *cell;
    gal_block_price *price; /* random ones, in place of the cache's */
    gal_pair_price *pair;
} trial;

static double uniform(uint64_t *state)
{
    return (double)(gal_random_next(state) >> 11) / 9007199254740992.0;
}

static double between(uint64_t *state, double from, double to)
{
    return from * pow(to / from, uniform(state));
}

static void draw_documents(uint64_t *state, trial *t, uint32_t devices)
{
    gal_model_defaults(&t->model);
    (void)snprintf(t->model.name, sizeof t->model.name, "small");
    t->model.layer_count = 1 + gal_random_below(state, 2);
    t->model.hidden = 64;
    t->model.head_count = 4;
    t->model.ffn_hidden = UINT32_C(128) << gal_random_below(state, 3);
    t->model.sequence_length = 32;
    t->model.vocabulary = UINT32_C(64) << gal_random_below(state, 4);
    t->model.vocabulary_multiple = 8;
    t->model.tied_embeddings = gal_random_below(state, 2) == 0;
    (void)snprintf(t->cluster.name, sizeof t->cluster.name, "random");
    t->cluster.device_count = devices;
    t->cluster.device = (gal_device){.kind = "device",
                                     .memory_bytes = UINT64_C(1) << 40,
                                     .fp32_flops_per_second = between(state, 1e9, 1e12),
                                     .fp64_flops_per_second = 1e9,
                                     .memory_bytes_per_second = between(state, 1e8, 1e11)};
    t->cluster.level_count = devices > 2 ? 2 : 1;
    t->cluster.level[0] = (gal_link_level){.name = "inner",
                                           .span_devices = devices > 2 ? 2 : devices,
                                           .latency_seconds = between(state, 1e-7, 1e-4),
                                           .bytes_per_second = between(state, 1e7, 1e11)};
    t->cluster.level[1] = (gal_link_level){.name = "outer",
                                           .span_devices = devices,
                                           .latency_seconds = between(state, 1e-7, 1e-4),
                                           .bytes_per_second = between(state, 1e7, 1e10)};
}

/* One layer in each stack; targets shorter than the source, as long, or longer. */
static void turn_to_t5(uint64_t *state, gal_model *model)
{
    model->family = GAL_FAMILY_T5;
    model->layer_count = model->decoder_layer_count = 1;
    model->decoder_sequence_length = UINT32_C(16) << gal_random_below(state, 3);
    model->head_dim = 8;
    model->relative_bucket_count = 8;
    model->relative_max_distance = 16;
    model->activation = GAL_ACTIVATION_RELU;
}

/* Few enough strategies that all paths can be tried. */
static void draw_space(uint64_t *state, trial *t)
{
    gal_space *space = &t->space;
    memset(space, 0, sizeof *space);
    space->axis[GAL_AXIS_DP] = true;
    space->axis[GAL_AXIS_TP] = gal_random_below(state, 2) == 0;
    space->axis[GAL_AXIS_SDP] = gal_random_below(state, 2) == 0;
    space->zero_stage[1 + gal_random_below(state, 3)] = space->axis[GAL_AXIS_SDP];
    space->sequence_parallel = space->axis[GAL_AXIS_TP] && gal_random_below(state, 2) == 0;
    space->recompute = gal_random_below(state, 2) == 0;
    /* These seeds have a trial whose slowest stage follows an embedding that is a stage. */
    space->tp_grid[GAL_TP_2D] = gal_random_below(state, 2) == 0;
    space->tp_grid[GAL_TP_2P5D] = gal_random_below(state, 4) == 0;
    uint64_t apart = *state;
    space->tp_grid[GAL_TP_3D] = gal_random_below(&apart, 3) == 0;
    space->keep_panels = gal_random_below(&apart, 3) == 0;
    const uint32_t one = gal_random_below(&apart, 5); /* and not the others: the paths stay few */
    space->offload = one == 1 && !space->axis[GAL_AXIS_TP];
    space->overlap = one == 2;
    space->stepped = one == 3;
    space->bucket = one == 4;
}

/* Prices of any sign where the measured ones may have any; of the bytes, working memory is five times larger in every
 * third cell. */
static void randomise_prices(uint64_t *state, trial *t)
{
    gal_cell *cell = t->cell;
    const size_t prices = (size_t)cell->spec.pp_degree * cell->types.type_count * cell->strategy_count;
    t->price = calloc(prices + 1, sizeof *t->price);
    t->pair = calloc(gal_cell_pair_count(cell) + 1, sizeof *t->pair);
    const uint64_t inflation = gal_random_below(state, 3) == 0 ? 5 : 1;
    assert_non_null(t->price);
    assert_non_null(t->pair);
    for (size_t i = 0; i < prices; i++) {
        if (cell->price[i] != NULL) {
            gal_block_price *p = &t->price[i];
            *p = *cell->price[i];
            p->forward_seconds = 0.5 + 4.0 * uniform(state);
            p->backward_seconds = 0.5 + 4.0 * uniform(state);
            p->sync_seconds = 8.0 * uniform(state);
            p->enter_seconds = uniform(state) - 0.5;
            p->leave_seconds = uniform(state) - 0.5;
            p->tail_seconds = 6.0 * uniform(state) - 2.0;
            p->update_seconds = 3.0 * uniform(state);
            p->memory.bytes.work *= inflation;
            cell->price[i] = p;
        }
    }
    for (size_t i = 0; i < gal_cell_pair_count(cell); i++) {
        if (cell->pair[i] != NULL) {
            gal_pair_price *p = &t->pair[i];
            *p = *cell->pair[i];
            p->forward_seconds = uniform(state) - 0.3;
            p->backward_seconds = uniform(state) - 0.3;
            p->sync_seconds = uniform(state) - 0.5;
            cell->pair[i] = p;
        }
    }
    gal_cell_tabulate(cell);
}

static bool create(uint64_t seed, trial *t)
{
    uint64_t state = seed;
    gal_error err = {0};
    memset(t, 0, sizeof *t);
    const uint32_t pp_degree = 1 + gal_random_below(&state, 3);
    const uint32_t stage_devices = UINT32_C(1) << gal_random_below(&state, pp_degree == 3 ? 2 : 3);
    draw_documents(&state, t, pp_degree * stage_devices);
    draw_space(&state, t);
    if (seed % 3 == 0) {
        turn_to_t5(&state, &t->model);
    }
    const uint32_t microbatches = UINT32_C(1) << gal_random_below(&state, 4);
    assert_int_equal(gal_durations_create_analytic(&t->cluster, &t->durations, &err), GAL_OK);
    assert_int_equal(gal_price_cache_create(&t->model, t->durations, &t->cache, &err), GAL_OK);
    const gal_cell_spec spec = {.model = &t->model,
                                .durations = t->durations,
                                .cache = t->cache,
                                .space = &t->space,
                                .device_count = pp_degree * stage_devices,
                                .pp_degree = pp_degree,
                                .microbatch_count = microbatches,
                                .global_batch_samples = microbatches * (UINT32_C(4) << gal_random_below(&state, 2)),
                                .schedule = (gal_schedule)gal_random_below(&state, GAL_SCHEDULE_COUNT),
                                .prefetch_depth = 1 + gal_random_below(&state, 2),
                                .arena_limit_bytes = UINT64_C(1) << 40};
    if (gal_cell_create(&spec, &t->cell, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    if (gal_random_below(&state, 2) == 0) {
        randomise_prices(&state, t);
    }
    return t->cell->strategy_count > 0 &&
           pow(t->cell->strategy_count, t->cell->block_count) * (pp_degree == 1 ? 1 : 5) <
               (t->cell->types.alternates ? PATHS_MAX : LONG_PATHS_MAX);
}

static void destroy(trial *t)
{
    gal_cell_free(t->cell);
    gal_price_cache_free(t->cache);
    gal_durations_free(t->durations);
    free(t->price);
    free(t->pair);
}

/* ---- every path ---- */

typedef struct brute {
    const gal_cell *cell;
    uint32_t stage[BLOCKS_MAX], strategy[BLOCKS_MAX];
    double best;
    uint64_t least_bytes;      /* of the largest stage */
    uint64_t *most_bytes;      /* [path] */
    double *seconds, *slowest; /* [path] of all; of a microbatch in its slowest stage */
    size_t path_count, capacity;
} brute;

static const gal_block_price *price_at(const brute *b, uint32_t i)
{
    return gal_cell_price(b->cell, i, b->stage[i], b->strategy[i]);
}

static const gal_pair_price *pair_at(const brute *b, uint32_t i)
{
    return b->cell->pair[gal_cell_pair_index(b->cell, i, b->stage[i], b->strategy[i - 1], b->strategy[i])];
}

static const gal_block_shape *shape_at(const brute *b, uint32_t i)
{
    return &b->cell->types.shape[b->cell->types.type_of[i]];
}

/* The block that made or converted the carried tensor last before block i. */
static uint32_t carrier_before(const brute *b, uint32_t i)
{
    do {
        i--;
    } while (shape_at(b, i)->kind != GAL_BLOCK_BRIDGE && shape_at(b, i)->kind != GAL_BLOCK_CROSS_ATTENTION);
    return i;
}

static uint64_t carried_bytes(const brute *b, uint32_t carrier)
{
    const gal_cell *cell = b->cell;
    return gal_price_rows_bytes(cell->spec.model, &cell->strategy[b->strategy[carrier]], cell->samples,
                                (gal_flow){cell->spec.model->sequence_length, cell->spec.model->hidden});
}

static const gal_pair_price *carried_price(const brute *b, uint32_t i)
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

static double transfer_seconds(const brute *b, uint32_t i, uint64_t bytes)
{
    return gal_price_transfer(b->cell->spec.durations, b->cell->stage_devices, b->stage[i], b->cell->spec.pp_degree,
                              bytes);
}

static bool holds_table(const brute *b, uint32_t i)
{
    return (shape_at(b, i)->shared >> GAL_SHARED_TABLE & 1U) != 0;
}

/* Whether it holds the token table with others of its stage, one of which brings it: the embedding, else the last. */
static bool table_is_there(const brute *b, uint32_t i)
{
    uint32_t bringer = i;
    for (uint32_t j = i; j < b->cell->block_count; j++) {
        bringer = b->stage[j] == b->stage[i] && holds_table(b, j) ? j : bringer;
    }
    return holds_table(b, i) && i != (b->stage[i] == 0 ? 0 : bringer);
}

static double brute_table_seconds(const brute *b)
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
    s->tail_seconds += pair->sync_seconds;
}

static double brute_seconds(const brute *b, double *slowest)
{
    const gal_cell *cell = b->cell;
    const uint32_t last = cell->block_count - 1;
    gal_stage_sum sum[STAGES_MAX];
    memset(sum, 0, sizeof sum);
    for (uint32_t i = 0; i <= last; i++) {
        gal_stage_sum *s = &sum[b->stage[i]];
        const gal_block_price *price = price_at(b, i);
        const bool first_of_stage = i == 0 || b->stage[i] != b->stage[i - 1];
        const bool last_of_stage = i == last || b->stage[i] != b->stage[i + 1];
        s->forward_seconds += price->forward_seconds + (first_of_stage ? price->enter_seconds : 0.0);
        s->backward_seconds += price->backward_seconds + (last_of_stage ? price->leave_seconds : 0.0);
        s->tail_seconds += price->sync_seconds + (first_of_stage ? price->tail_seconds : 0.0);
        s->update_seconds += price->update_seconds - price->shared_update_seconds[GAL_SHARED_ENCODER_BIAS] -
                             price->shared_update_seconds[GAL_SHARED_DECODER_BIAS];
        s->tail_seconds -= table_is_there(b, i) ? price->table_sync_seconds : 0.0;
        s->update_seconds -= table_is_there(b, i) ? price->shared_update_seconds[GAL_SHARED_TABLE] : 0.0;
        if (i > 0) {
            add_conversion(pair_at(b, i), s);
        }
        if (shape_at(b, i)->kind == GAL_BLOCK_CROSS_ATTENTION) {
            add_conversion(carried_price(b, i), s);
        }
        if (last_of_stage && i < last) {
            s->transfer_seconds = transfer_seconds(b, i, price->memory.bytes.boundary);
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
    uint64_t gathered, bucket, boundary, scratch, relayout, work, beside, staged;
} turn_bytes;

/* The versions of the carried tensor, each as if a block of the stage read it. */
static uint64_t brute_carried_bytes(const brute *b, uint32_t first, uint32_t end, uint64_t k, uint64_t ahead,
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
static uint64_t brute_bias_bytes(const brute *b)
{
    const gal_model *model = b->cell->spec.model;
    return UINT64_C(8) * gal_align((uint64_t)model->relative_bucket_count * model->head_count *
                                   gal_dtype_bytes(model->compute_dtype));
}

/* Whether it works on two sub-batches, which are cut and joined at the ends of a stage. */
static bool halves(const brute *b, uint32_t i)
{
    return gal_strategy_halves(&b->cell->strategy[b->strategy[i]], shape_at(b, i)->kind);
}

/* The formula of costmodel/memory.h with each ring at its depth times its largest use. */
static uint64_t brute_stage_bytes(const brute *b, uint32_t first, uint32_t end)
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
        const gal_block_memory *memory = &price_at(b, i)->memory;
        bytes += memory->bytes.state + memory->bytes.gradient + k * memory->bytes.saved;
        bytes -= memory->shared_bytes[GAL_SHARED_ENCODER_BIAS] + memory->shared_bytes[GAL_SHARED_DECODER_BIAS];
        bytes -= table_is_there(b, i) ? memory->shared_bytes[GAL_SHARED_TABLE] : 0;
        most.gathered = larger(most.gathered, largest_turn(&memory->gathers_forward));
        most.gathered = larger(most.gathered, largest_turn(&memory->gathers_backward));
        most.gathered = larger(most.gathered, largest_turn(&memory->gathers_evaluate));
        most.bucket = larger(most.bucket, largest_turn(&memory->buckets));
        most.scratch = larger(most.scratch, memory->bytes.scratch);
        most.work = larger(most.work, memory->bytes.work);
        most.beside = larger(most.beside, memory->beside);
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
        const uint64_t received = price_at(b, first - 1)->memory.bytes.boundary;
        const bool converts = pair_at(b, first)->converts || halves(b, first);
        bytes += ((converts ? two : ahead) + two) * received;
        bytes -= converts ? 0 : k * price_at(b, first)->memory.bytes.input;
    }
    bytes += last ? 0 : (2 * two + (halves(b, end - 1) ? 2 : 0)) * price_at(b, end - 1)->memory.bytes.boundary;
    bytes += brute_carried_bytes(b, first, end, k, ahead, two);
    return bytes + cell->spec.prefetch_depth * most.gathered + 2 * most.bucket + 2 * most.boundary + most.scratch +
           most.relayout + most.work + most.beside + 2 * most.staged;
}

static void add_path(brute *b)
{
    uint64_t most = 0;
    for (uint32_t first = 0, end = 1; first < b->cell->block_count; end++) {
        if (end == b->cell->block_count || b->stage[end] != b->stage[first]) {
            most = larger(most, brute_stage_bytes(b, first, end));
            first = end;
        }
    }
    if (b->path_count == b->capacity) {
        b->capacity = b->capacity == 0 ? 1024 : 2 * b->capacity;
        b->seconds = realloc(b->seconds, b->capacity * sizeof *b->seconds);
        b->most_bytes = realloc(b->most_bytes, b->capacity * sizeof *b->most_bytes);
        b->slowest = realloc(b->slowest, b->capacity * sizeof *b->slowest);
        assert_non_null(b->seconds);
        assert_non_null(b->slowest);
        assert_non_null(b->most_bytes);
    }
    b->seconds[b->path_count] = brute_seconds(b, &b->slowest[b->path_count]);
    b->most_bytes[b->path_count++] = most;
}

/* Rows change their layout beside the carried tensor only in front of a block that reads it. */
static bool keeps_with_carried(const brute *b, uint32_t block)
{
    const gal_block_shape *shape = shape_at(b, block);
    return block == 0 || shape->carried_in.positions == 0 || shape->kind == GAL_BLOCK_CROSS_ATTENTION ||
           gal_price_rows_alike(&b->cell->strategy[b->strategy[block - 1]], &b->cell->strategy[b->strategy[block]],
                                b->cell->stage_devices);
}

static void try_from(brute *b, uint32_t block)
{
    const gal_cell *cell = b->cell;
    if (block > 0 && (block == BLOCKS_MAX || block == cell->block_count)) {
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

static void measure(const brute *all, uint64_t limit_bytes, double *best)
{
    *best = HUGE_VAL;
    for (size_t i = 0; i < all->path_count; i++) {
        if (all->most_bytes[i] <= limit_bytes) {
            *best = fmin(*best, all->seconds[i]);
        }
    }
}

/* ---- comparisons ---- */

static int ascending(const void *x, const void *y)
{
    const uint64_t a = *(const uint64_t *)x;
    const uint64_t b = *(const uint64_t *)y;
    return a < b ? -1 : a > b;
}

/* Limits from below the smallest path to above the largest, at borders, among the tightest and at random. */
static uint32_t draw_limits(uint64_t *state, const brute *all, uint64_t limits[8])
{
    uint64_t *sorted = malloc(all->path_count * sizeof *sorted);
    assert_non_null(sorted);
    memcpy(sorted, all->most_bytes, all->path_count * sizeof *sorted);
    qsort(sorted, all->path_count, sizeof *sorted, ascending);
    limits[0] = sorted[0] - 1;
    limits[1] = sorted[0];
    limits[2] = sorted[all->path_count - 1];
    for (uint32_t i = 3; i < 8; i++) {
        const uint32_t from = (uint32_t)all->path_count / (i < 6 ? 20 : 1) + 1;
        limits[i] = sorted[gal_random_below(state, from < all->path_count ? from : (uint32_t)all->path_count)] -
                    gal_random_below(state, 2);
    }
    free(sorted);
    return 8;
}

/* Few labels: boxes are split. */
static void compare(const trial *t, const brute *all, uint64_t limit_bytes, uint32_t few_labels)
{
    uint32_t stage[BLOCKS_MAX] = {0}, strategy[BLOCKS_MAX] = {0};
    const gal_solve_settings settings = {.label_limit = LABELS, .few_labels = few_labels, .give_up_seconds = HUGE_VAL};
    gal_cell_answer answer = {.stage = stage, .strategy = strategy};
    gal_error err = {0};
    double best = 0.0;
    uint64_t bytes = 0;
    measure(all, limit_bytes, &best);
    t->cell->spec.arena_limit_bytes = limit_bytes;
    assert_int_equal(gal_cell_solve(t->cell, &settings, &answer, &err), GAL_OK);
    if (best == HUGE_VAL) {
        assert_true(answer.seconds == HUGE_VAL);
        assert_true(answer.bound == HUGE_VAL);
        return;
    }
    if (!(fabs(answer.seconds - best) <= 1e-12 * fabs(best))) {
        fail_msg("search %.17g, brute force %.17g of %zu paths", answer.seconds, best, all->path_count);
    }
    assert_true(answer.bound == answer.seconds); /* proven */
    const double again = gal_cell_evaluate(t->cell, stage, strategy, &bytes);
    assert_true(fabs(again - best) <= 1e-12 * fabs(best));
    assert_true(bytes <= limit_bytes);
}

/* Labels are dropped for good: what is proven stays true. */
static void compare_limited(const trial *t, const brute *all, uint64_t limit_bytes, uint32_t label_limit)
{
    uint32_t stage[BLOCKS_MAX] = {0}, strategy[BLOCKS_MAX] = {0};
    const gal_solve_settings settings = {
        .label_limit = label_limit, .few_labels = label_limit, .give_up_seconds = HUGE_VAL};
    gal_cell_answer answer = {.stage = stage, .strategy = strategy};
    gal_error err = {0};
    double best = 0.0;
    measure(all, limit_bytes, &best);
    t->cell->spec.arena_limit_bytes = limit_bytes;
    assert_int_equal(gal_cell_solve(t->cell, &settings, &answer, &err), GAL_OK);
    assert_true(answer.bound <= best * (1.0 + 1e-12));
    assert_true(answer.seconds >= best * (1.0 - 1e-12));
}

/* The weights of early, rising and late rounds; the strategies that a raise narrows are back in play. */
static gal_dual *create_raised(const trial *t, uint32_t rounds, double best)
{
    uint32_t stage[BLOCKS_MAX] = {0}, strategy[BLOCKS_MAX] = {0};
    gal_best_path known = {HUGE_VAL, stage, strategy};
    gal_error err = {0};
    gal_dual *raised = NULL;
    gal_dual *dual = NULL;
    assert_int_equal(gal_dual_create(t->cell, &raised, &err), GAL_OK);
    assert_int_equal(gal_dual_create(t->cell, &dual, &err), GAL_OK);
    gal_dual_raise(raised, rounds, &known);
    assert_true(known.seconds >= best * (1.0 - 1e-12));
    assert_true(best == HUGE_VAL || fmin(raised->bound, known.seconds) <= best * (1.0 + 1e-12));
    dual->weights = raised->weights;
    gal_dual_weigh(dual);
    gal_dual_solve(dual);
    assert_true(best == HUGE_VAL || dual->bound <= best * (1.0 + 1e-12));
    assert_true(best == HUGE_VAL || best <= dual->most_seconds);
    gal_dual_free(raised);
    return dual;
}

/* Borders of whole blocks: no path that fits has a faster slowest stage. */
static void compare_bottleneck(const gal_dual *dual, const brute *all, uint64_t limit_bytes)
{
    gal_error err = {0};
    gal_bottleneck *bottleneck = NULL;
    double slowest = HUGE_VAL;
    for (size_t i = 0; i < all->path_count; i++) {
        slowest = all->most_bytes[i] <= limit_bytes ? fmin(slowest, all->slowest[i]) : slowest;
    }
    assert_int_equal(gal_bottleneck_create(dual, &bottleneck, &err), GAL_OK);
    assert_true(slowest == HUGE_VAL || bottleneck->at_all <= slowest * (1.0 + 1e-12));
    gal_bottleneck_free(bottleneck);
}

static void compare_dual(const trial *t, const brute *all, uint64_t limit_bytes, bool keep_dominated)
{
    uint32_t stage[BLOCKS_MAX] = {0}, strategy[BLOCKS_MAX] = {0};
    gal_error err = {0};
    gal_label_result result;
    const gal_label_settings settings = {
        .reach_seconds = HUGE_VAL, .label_limit = LABELS, .work_limit = UINT64_MAX, .keep_dominated = keep_dominated};
    double best = 0.0;
    measure(all, limit_bytes, &best);
    t->cell->spec.arena_limit_bytes = limit_bytes;
    for (uint32_t round = 0; round < 3; round++) {
        gal_dual *dual = create_raised(t, 1 + 20 * round, best);
        gal_best_path found = {HUGE_VAL, stage, strategy};
        if (t->cell->spec.pp_degree > 1 && t->cell->types.alternates) {
            compare_bottleneck(dual, all, limit_bytes);
        }
        if (!t->cell->types.table_shared) {
            assert_int_equal(gal_label_search(dual, &settings, &found, &result, &err), GAL_OK);
            assert_true(found.seconds == best || fabs(found.seconds - best) <= 1e-12 * fabs(best));
        }
        gal_dual_free(dual);
    }
}

static void each_trial(void (*check)(const trial *, const brute *, uint64_t limit_bytes, uint64_t *state))
{
    uint32_t tried = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        trial t;
        if (create(seed, &t)) {
            brute all = {.cell = t.cell};
            uint64_t state = seed ^ UINT64_C(0xABCDEF);
            uint64_t limits[8];
            try_from(&all, 0);
            const uint32_t count = all.path_count == 0 ? 0 : draw_limits(&state, &all, limits);
            for (uint32_t i = 0; i < count; i++) {
                check(&t, &all, limits[i], &state);
            }
            tried += count;
            free(all.seconds);
            free(all.slowest);
            free(all.most_bytes);
        }
        destroy(&t);
    }
    print_message("%u searches\n", tried);
    assert_true(tried >= SEEDS);
}

static void check_search(const trial *t, const brute *all, uint64_t limit_bytes, uint64_t *state)
{
    (void)state;
    compare(t, all, limit_bytes, GAL_FEW_LABELS);
}

static void check_boxes(const trial *t, const brute *all, uint64_t limit_bytes, uint64_t *state)
{
    (void)state;
    compare(t, all, limit_bytes, 20);
}

static void check_limited(const trial *t, const brute *all, uint64_t limit_bytes, uint64_t *state)
{
    compare_limited(t, all, limit_bytes, 1 + gal_random_below(state, 3));
}

static void check_bounds(const trial *t, const brute *all, uint64_t limit_bytes, uint64_t *state)
{
    compare_dual(t, all, limit_bytes, all->path_count < 5000 && gal_random_below(state, 2) == 0);
}

/* ---- bounds of whole stages ---- */

static uint32_t tied_one_stage,
    raised_by_ties; /* of the trials: on several nodes; of them where ties raise the bound */

/* again: of a second look, where the first one has found a path. */
static double staged_bound(const gal_screened *screened, gal_staged_effort effort, double *again)
{
    uint32_t stage[BLOCKS_MAX] = {0}, strategy[BLOCKS_MAX] = {0};
    double exposed[BLOCKS_MAX] = {0.0};
    gal_staged staged = {.stage = stage, .strategy = strategy, .exposed = exposed};
    gal_error err = {0};
    assert_int_equal(gal_staged_solve(screened, HUGE_VAL, 0.0, effort, &staged, &err), GAL_OK);
    const double bound = *again = staged.bound;
    if (staged.seconds < HUGE_VAL) {
        assert_int_equal(gal_staged_solve(screened, HUGE_VAL, 0.0, GAL_STAGED_AGAIN, &staged, &err), GAL_OK);
        *again = staged.bound;
    }
    return bound;
}

static void check_bound(double bound, double best, const brute *all)
{
    if (!(bound <= best * (1.0 + 1e-12))) {
        fail_msg("bound %.17g, brute force %.17g of %zu paths", bound, best, all->path_count);
    }
}

/* By the cell's own prices, which are the cache's: no path that fits takes less, the token table tied or not. */
static void check_staged(const trial *t, const brute *all, uint64_t limit_bytes, uint64_t *state)
{
    gal_screened_prices *prices = NULL;
    gal_screened screened = {0};
    gal_error err = {0};
    double best = 0.0;
    (void)state;
    if (t->price != NULL) {
        return;
    }
    measure(all, limit_bytes, &best);
    gal_cell_spec spec = t->cell->spec;
    spec.arena_limit_bytes = limit_bytes;
    assert_int_equal(gal_screened_create(&spec, &t->cell->types, &prices, &screened, &err), GAL_OK);
    if (screened.bound < HUGE_VAL) {
        double again, tied_again;
        const double quick = staged_bound(&screened, GAL_STAGED_QUICK, &again);
        const double tied = staged_bound(&screened, GAL_STAGED_TIED, &tied_again);
        const bool counts = t->cell->types.table_shared && spec.pp_degree == 1 && t->cluster.level_count > 1;
        tied_one_stage += counts;
        raised_by_ties += counts && tied > quick * (1.0 + 1e-9);
        assert_true(quick <= tied && tied <= again * (1.0 + 1e-9));
        check_bound(tied, best, all);
        check_bound(again, best, all);
        check_bound(tied_again, best, all);
    } else {
        assert_true(best == HUGE_VAL);
    }
    gal_screened_free(&screened);
    gal_screened_prices_free(prices);
}

static void test_stages_bound_truly(void **state)
{
    (void)state;
    each_trial(check_staged);
    print_message("tied tables on one stage of several nodes: %u, ties raise the bound of %u\n", tied_one_stage,
                  raised_by_ties);
    assert_true(tied_one_stage >= 20);
    assert_true(raised_by_ties >= 5);
}

static void test_search_equals_brute_force(void **state)
{
    (void)state;
    each_trial(check_search);
}

static void test_split_boxes_equal_brute_force(void **state)
{
    (void)state;
    each_trial(check_boxes);
}

static void test_few_labels_bound_truly(void **state)
{
    (void)state;
    each_trial(check_limited);
}

static void test_bounds_hold_with_and_without_dominance(void **state)
{
    (void)state;
    each_trial(check_bounds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_search_equals_brute_force),
        cmocka_unit_test(test_stages_bound_truly),
        cmocka_unit_test(test_split_boxes_equal_brute_force),
        cmocka_unit_test(test_few_labels_bound_truly),
        cmocka_unit_test(test_bounds_hold_with_and_without_dominance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
