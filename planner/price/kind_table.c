#include "planner/price/kind_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/plan_check.h"

/* A table in the making. */
typedef struct maker {
    gal_kind_table *table;
    gal_block_load *load; /* [type of block][strategy] */
    uint32_t room;        /* kinds */
} maker;

static size_t place(const gal_kind_table *table, uint32_t block_type, uint32_t strategy)
{
    return (size_t)block_type * table->query.meshes->strategy_count + strategy;
}

const gal_strategy *gal_kind_strategy(const gal_kind_table *table, const gal_kind *kind, uint32_t block)
{
    const gal_layer_type *type = &table->query.layers->type[kind->type];
    return &table->query.meshes->strategy[kind->strategy[type->half[block]]];
}

const gal_block_memory *gal_kind_memory(const gal_kind_table *table, const gal_kind *kind, uint32_t block)
{
    const gal_layer_type *type = &table->query.layers->type[kind->type];
    return table->memory[place(table, type->shape[block].type, kind->strategy[type->half[block]])];
}

/* ---- which strategies a block may take ---- */

static bool attends(const gal_block_shape *shape)
{
    return shape->kind == GAL_BLOCK_ATTENTION || shape->kind == GAL_BLOCK_CROSS_ATTENTION;
}

/* Whether the block has something that the strategy's recompute runs again, and so for its other parts. */
static bool has_use(const gal_block_shape *shape, const gal_strategy *strategy)
{
    const bool layer = attends(shape) || shape->kind == GAL_BLOCK_FFN;
    return (strategy->recompute == GAL_RECOMPUTE_NONE || layer) &&
           (strategy->recompute != GAL_RECOMPUTE_SELECTIVE || attends(shape)) &&
           (strategy->offload_activations_percent == 0 || layer) &&
           (strategy->overlap == GAL_OVERLAP_NONE || gal_strategy_halves(strategy, shape->kind));
}

/* With one microbatch ZeRO-2 sums gradients once, as ZeRO-1 does. */
static bool is_repeated(const gal_kind_query *q, const gal_strategy *strategy)
{
    return q->microbatch_count == 1 && strategy->zero_stage == 2 && !strategy->keep_weights;
}

static bool may_take(const gal_kind_query *q, const gal_block_shape *shape, const gal_strategy *strategy)
{
    return has_use(shape, strategy) && !is_repeated(q, strategy) &&
           gal_strategy_gathers_rule_broken(strategy, q->prefetch_depth) == NULL &&
           gal_strategy_block_rule_broken(q->model, shape, strategy, q->device_count, q->microbatch_samples) == NULL;
}

static gal_code load_block(maker *m, const gal_block_shape *shape, uint32_t strategy, gal_error *err)
{
    gal_kind_table *table = m->table;
    const gal_kind_query *q = &table->query;
    const size_t at = place(table, shape->type, strategy);
    if (table->memory[at] != NULL || !may_take(q, shape, &q->meshes->strategy[strategy])) {
        return GAL_OK;
    }
    const gal_price_query query = {.type = shape->type,
                                   .strategy = &q->meshes->strategy[strategy],
                                   .device_count = q->device_count,
                                   .stage = q->stage,
                                   .stage_count = q->stage_count,
                                   .microbatch_samples = q->microbatch_samples,
                                   .prefetch_depth = q->prefetch_depth};
    gal_error reason = {0};
    const gal_code code = gal_block_load_of(q->cache, &query, &m->load[at], &reason);
    if (code == GAL_ERR_DOCUMENT) { /* a tensor that no program may have: the strategy is left out */
        return GAL_OK;
    }
    table->memory[at] = code == GAL_OK ? m->load[at].memory : NULL;
    return code == GAL_OK ? GAL_OK : gal_fail(err, code, "%s", reason.text);
}

static gal_code load_blocks(maker *m, gal_error *err)
{
    const gal_kind_query *q = &m->table->query;
    gal_code code = GAL_OK;
    for (uint32_t t = 0; t < q->layers->type_count && code == GAL_OK; t++) {
        const gal_layer_type *type = &q->layers->type[t];
        for (uint32_t b = 0; b < type->block_count && code == GAL_OK; b++) {
            for (uint32_t s = 0; s < q->meshes->strategy_count && code == GAL_OK; s++) {
                code = load_block(m, &type->shape[b], s, err);
            }
        }
    }
    return code;
}

/* ---- kinds ---- */

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

/* The largest of each thing that layers use by turns, each ring at its most. */
static int64_t peak_of(const gal_kind_table *table, const gal_kind *kind)
{
    uint64_t gathered = 0, bucket = 0, scratch = 0, work = 0, boundary = 0, staged = 0;
    for (uint32_t b = 0; b < table->query.layers->type[kind->type].block_count; b++) {
        const gal_block_memory *memory = gal_kind_memory(table, kind, b);
        gathered = larger(
            gathered, larger(largest_turn(&memory->gathers_forward),
                             larger(largest_turn(&memory->gathers_backward), largest_turn(&memory->gathers_evaluate))));
        bucket = larger(bucket, largest_turn(&memory->buckets));
        scratch = larger(scratch, memory->bytes.scratch);
        work = larger(work, memory->bytes.work);
        boundary = larger(boundary, memory->bytes.boundary);
        staged = larger(staged, memory->bytes.staged_input + memory->bytes.staged_saved);
    }
    return (int64_t)(table->query.prefetch_depth * gathered + 2 * bucket + scratch + work + 2 * boundary + 2 * staged);
}

static void measure_bytes(const gal_kind_table *table, gal_kind *kind)
{
    for (uint32_t b = 0; b < table->query.layers->type[kind->type].block_count; b++) {
        const gal_block_memory *memory = gal_kind_memory(table, kind, b);
        kind->static_bytes += (int64_t)(memory->bytes.state + memory->bytes.gradient);
        kind->saved_bytes += (int64_t)memory->bytes.saved;
        kind->table_bytes += (int64_t)memory->shared_bytes[GAL_SHARED_TABLE];
    }
    kind->peak_bytes = peak_of(table, kind);
}

static gal_layer_times floors_of(const maker *m, const gal_kind *kind)
{
    const gal_kind_query *q = &m->table->query;
    const gal_layer_type *type = &q->layers->type[kind->type];
    const uint32_t count = q->microbatch_count;
    gal_block_load sum = {0};
    for (uint32_t b = 0; b < type->block_count; b++) {
        gal_block_load_add(&m->load[place(m->table, type->shape[b].type, kind->strategy[type->half[b]])], &sum);
    }
    const double update = gal_load_least_update(&sum);
    const double all = gal_load_least_seconds(&sum, q->durations, count, true);
    const double round = gal_load_least_seconds(&sum, q->durations, 1, false);
    return (gal_layer_times){.forward_seconds = round,
                             .sync_seconds = fmax(all - count * round, 0.0),
                             .update_seconds = update,
                             .step_seconds = all + update};
}

void gal_kind_seconds_add(const gal_kind_table *table, const gal_kind *kind, double layers, gal_kind_seconds *sum)
{
    const gal_layer_times *t = &kind->times;
    const gal_layers *of = table->query.layers;
    const bool tied = of->type[kind->type].alone && of->table_shared;
    const double update = fmax(t->update_seconds, 0.0);
    sum->step += layers * fmax(t->step_seconds, 0.0);
    sum->round += layers * fmax(t->forward_seconds + t->backward_seconds, 0.0);
    sum->last += layers * fmax(t->last_seconds - t->backward_seconds, 0.0);
    sum->sync += layers * t->sync_seconds;
    sum->update += tied ? 0.0 : layers * update;
    sum->tied_update += tied ? layers * update : 0.0;
}

/* The slowest stage's reductions show, and the slower end's update: of two that may be it each counts for half. */
static const double one_of_two = 0.5;

gal_stage_seconds gal_kind_seconds_of_stage(const gal_kind_table *table, const gal_kind_seconds *sum, uint32_t stage,
                                            double backward_seconds, gal_finish finish)
{
    if (table->query.stage_count == 1) {
        return (gal_stage_seconds){.once = sum->step};
    }
    const double m = table->query.microbatch_count, stages = table->query.stage_count;
    const double shown = fmax(sum->sync - stage * backward_seconds, 0.0);
    gal_stage_seconds seconds = {.once = sum->round + 2.0 * sum->transfer + sum->last + one_of_two * sum->tied_update,
                                 .bottleneck = (m - 1.0) * (sum->round + sum->transfer)};
    if (finish == GAL_FINISH_BOTTLENECK) {
        seconds.bottleneck += shown + sum->update;
        return seconds;
    }
    seconds.once += stage == 0 ? shown : one_of_two * shown;
    seconds.once += m > 1.0 ? sum->update / stages : 0.0;
    seconds.bottleneck += m > 1.0 ? 0.0 : sum->update;
    return seconds;
}

double gal_kind_share_seconds(const gal_kind_table *table, const gal_kind *kind, uint32_t stage, gal_finish finish)
{
    gal_kind_seconds sum = {0};
    gal_kind_seconds_add(table, kind, 1.0, &sum);
    const gal_stage_seconds seconds =
        gal_kind_seconds_of_stage(table, &sum, stage, fmax(kind->times.last_seconds, 0.0), finish);
    return seconds.once + seconds.bottleneck / table->query.stage_count;
}

static double table_seconds_of(const gal_block_load *load)
{
    double seconds = 0.0;
    for (uint32_t level = 0; level < GAL_LINK_LEVELS_MAX; level++) {
        seconds += load->table_seconds[level];
    }
    return seconds;
}

static double attention_share_of(const maker *m, const gal_kind *kind)
{
    const gal_kind_query *q = &m->table->query;
    const gal_layer_type *type = &q->layers->type[kind->type];
    gal_block_load half[GAL_HALF_COUNT] = {{0}};
    for (uint32_t b = 0; b < type->block_count; b++) {
        const uint32_t strategy = kind->strategy[type->half[b]];
        gal_block_load_add(&m->load[place(m->table, type->shape[b].type, strategy)], &half[type->half[b]]);
    }
    const double attention = gal_load_least_seconds(&half[GAL_HALF_ATTENTION], q->durations, 1, false);
    const double ffn = gal_load_least_seconds(&half[GAL_HALF_FFN], q->durations, 1, false);
    return attention + ffn > 0.0 ? attention / (attention + ffn) : 1.0;
}

/* Whether every block of the half may take the strategy. */
static bool half_takes(const gal_kind_table *table, const gal_layer_type *type, gal_layer_half half, uint32_t strategy)
{
    bool takes = true;
    for (uint32_t b = 0; b < type->block_count && takes; b++) {
        takes = type->half[b] != half || table->memory[place(table, type->shape[b].type, strategy)] != NULL;
    }
    return takes;
}

static gal_code add_kind(maker *m, uint32_t type, uint32_t attention, uint32_t ffn, gal_error *err)
{
    gal_kind_table *table = m->table;
    if (table->kind_count == m->room) {
        const uint32_t room = 2 * m->room + 256;
        gal_kind *grown = realloc(table->kind, room * sizeof *grown);
        if (grown == NULL) {
            return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
        }
        table->kind = grown;
        m->room = room;
    }
    gal_kind *kind = &table->kind[table->kind_count++];
    *kind = (gal_kind){.strategy = {attention, ffn}, .type = type};
    measure_bytes(table, kind);
    kind->times = floors_of(m, kind);
    kind->attention_share = attention_share_of(m, kind);
    kind->table_seconds =
        table_seconds_of(&m->load[place(table, table->query.layers->type[type].shape[0].type, attention)]);
    return GAL_OK;
}

/* Halves that differ in what concerns the whole layer are not a kind. */
static bool go_together(const gal_strategy *attention, const gal_strategy *ffn)
{
    return attention->tp_mode == ffn->tp_mode && attention->shard_unit == ffn->shard_unit &&
           attention->overlap == ffn->overlap;
}

static gal_code add_kinds(maker *m, uint32_t type, uint32_t rows, gal_error *err)
{
    const gal_kind_table *table = m->table;
    const gal_meshes *meshes = table->query.meshes;
    const gal_layer_type *of = &table->query.layers->type[type];
    gal_code code = GAL_OK;
    for (uint32_t a = 0; a < meshes->strategy_count && code == GAL_OK; a++) {
        if (meshes->rows_of[a] != rows || !half_takes(table, of, GAL_HALF_ATTENTION, a)) {
            continue;
        }
        if (of->alone) {
            code = add_kind(m, type, a, a, err);
            continue;
        }
        for (uint32_t f = 0; f < meshes->strategy_count && code == GAL_OK; f++) {
            if (meshes->rows_of[f] == rows && half_takes(table, of, GAL_HALF_FFN, f) &&
                go_together(&meshes->strategy[a], &meshes->strategy[f])) {
                code = add_kind(m, type, a, f, err);
            }
        }
    }
    return code;
}

/* What the block of a type that stands alone takes of a step under a strategy, floors and the table's reduction.
 * Infinite: it may not take it. */
static double alone_seconds(const maker *m, uint32_t type, uint32_t strategy)
{
    const gal_kind_table *table = m->table;
    const size_t at = place(table, table->query.layers->type[type].shape[0].type, strategy);
    if (table->memory[at] == NULL) {
        return INFINITY;
    }
    const gal_block_load *load = &m->load[at];
    return gal_load_least_seconds(load, table->query.durations, table->query.microbatch_count, true) +
           gal_load_least_update(load) + table_seconds_of(load);
}

/* The same of all types that are to share one way to keep the table, or of one type. */
static double together_seconds(const maker *m, uint32_t type, uint32_t strategy)
{
    const gal_layers *layers = m->table->query.layers;
    if (!layers->table_shared || !layers->type[type].holds_table) {
        return alone_seconds(m, type, strategy);
    }
    double seconds = 0.0;
    for (uint32_t t = 0; t < layers->type_count; t++) {
        seconds += layers->type[t].holds_table ? alone_seconds(m, t, strategy) : 0.0;
    }
    return seconds;
}

/* For a type that stands alone, the fastest strategies whose rows lie otherwise, if they are faster than all of the
 * group. */
enum { FOREIGN_MAX = 4 };
static gal_code add_foreign(maker *m, uint32_t type, uint32_t rows, gal_error *err)
{
    const gal_meshes *meshes = m->table->query.meshes;
    gal_code code = GAL_OK;
    double own = INFINITY, above = -1.0;
    for (uint32_t s = 0; s < meshes->strategy_count; s++) {
        own = meshes->rows_of[s] == rows ? fmin(own, together_seconds(m, type, s)) : own;
    }
    for (uint32_t i = 0; i < FOREIGN_MAX && code == GAL_OK; i++) {
        uint32_t best = UINT32_MAX;
        double least = own;
        for (uint32_t s = 0; s < meshes->strategy_count; s++) {
            const double seconds = meshes->rows_of[s] == rows ? INFINITY : together_seconds(m, type, s);
            if (seconds < least && seconds > above) {
                least = seconds;
                best = s;
            }
        }
        above = least;
        code = best == UINT32_MAX ? GAL_OK : add_kind(m, type, best, best, err);
    }
    return code;
}

static gal_code add_group(maker *m, uint32_t rows, gal_error *err)
{
    gal_kind_table *table = m->table;
    gal_kind_group *group = &table->group[rows];
    const gal_layers *layers = table->query.layers;
    gal_code code = GAL_OK;
    group->complete = true;
    for (uint32_t type = 0; type < layers->type_count && code == GAL_OK; type++) {
        group->first[type] = table->kind_count;
        code = add_kinds(m, type, rows, err);
        const bool has_own = table->kind_count > group->first[type];
        code = code == GAL_OK && has_own && layers->type[type].alone ? add_foreign(m, type, rows, err) : code;
        group->complete = group->complete && has_own;
        group->first[type + 1] = table->kind_count;
    }
    return code;
}

gal_code gal_kind_table_create(const gal_kind_query *query, gal_kind_table *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_kind_table table = {.query = *query, .group_count = query->meshes->rows_count};
    const size_t entries = (size_t)gal_model_type_count(query->model) * query->meshes->strategy_count + 1;
    maker m = {.table = &table, .load = calloc(entries, sizeof *m.load)};
    table.memory = calloc(entries, sizeof *table.memory);
    table.group = calloc((size_t)table.group_count + 1, sizeof *table.group);
    if (m.load == NULL || table.memory == NULL || table.group == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    GAL_TRY(load_blocks(&m, err));
    for (uint32_t rows = 0; rows < table.group_count; rows++) {
        GAL_TRY(add_group(&m, rows, err));
    }
    *out = table;
    memset(&table, 0, sizeof table);
cleanup:
    free(m.load);
    gal_kind_table_free(&table);
    return code;
}

void gal_kind_table_free(gal_kind_table *table)
{
    free(table->kind);
    free(table->group);
    free(table->memory);
    memset(table, 0, sizeof *table);
}
