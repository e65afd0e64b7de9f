#include "planner/cell/cell.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/plan_check.h"

static size_t price_index(const gal_cell *cell, uint32_t stage, uint32_t type, uint32_t strategy)
{
    return ((size_t)stage * cell->types.type_count + type) * cell->strategy_count + strategy;
}

static size_t pair_index(const gal_cell *cell, uint32_t stage, uint32_t pair, uint32_t from, uint32_t to)
{
    return (((size_t)stage * cell->types.pair_count + pair) * cell->strategy_count + from) * cell->strategy_count + to;
}

size_t gal_cell_price_index(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy)
{
    return price_index(cell, stage, cell->types.type_of[block], strategy);
}

size_t gal_cell_pair_index(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t from, uint32_t to)
{
    return pair_index(cell, stage, cell->types.pair_of[block], from, to);
}

size_t gal_cell_price_count(const gal_cell *cell)
{
    return (size_t)cell->spec.pp_degree * cell->types.type_count * cell->strategy_count;
}

size_t gal_cell_pair_count(const gal_cell *cell)
{
    return (size_t)cell->spec.pp_degree * cell->types.pair_count * cell->strategy_count * cell->strategy_count;
}

static gal_price_query query_of(const gal_cell *cell, uint32_t stage, uint32_t type, uint32_t strategy)
{
    return (gal_price_query){.type = cell->types.shape[type].type,
                             .strategy = &cell->strategy[strategy],
                             .device_count = cell->stage_devices,
                             .stage = stage,
                             .stage_count = cell->spec.pp_degree,
                             .microbatch_samples = cell->samples,
                             .prefetch_depth = cell->spec.prefetch_depth};
}

/* Where nothing attends, positions are split alike by Ulysses, a ring and a zigzag, and the first may do what the
 * others may (gal_strategy_block_rule_broken): of equal programs one is enough. */
static bool is_split_before(const gal_space *space, const gal_strategy *strategy)
{
    const bool *axis = space->axis;
    return (gal_strategy_degree(strategy, GAL_AXIS_RING) > 1 && axis[GAL_AXIS_ULYSSES]) ||
           (gal_strategy_degree(strategy, GAL_AXIS_ZIGZAG) > 1 && (axis[GAL_AXIS_ULYSSES] || axis[GAL_AXIS_RING]));
}

static uint32_t samples_of(const gal_cell_spec *spec)
{
    return spec->global_batch_samples / spec->microbatch_count;
}

bool gal_cell_may_take(const gal_cell_spec *spec, const gal_strategy *strategy)
{
    const bool plain = strategy->tp_mode == GAL_TP_1D; /* its rules are the first to say no, and soonest looked up */
    return (!plain || samples_of(spec) % gal_strategy_sample_parts(strategy) == 0) &&
           gal_strategy_gathers_rule_broken(strategy, spec->prefetch_depth) == NULL &&
           gal_strategy_all_blocks_rule_broken(spec->model, strategy, spec->device_count / spec->pp_degree,
                                               samples_of(spec)) == NULL;
}

bool gal_cell_may_take_for(const gal_cell_spec *spec, const gal_block_types *types, uint32_t type,
                           const gal_strategy *strategy)
{
    const gal_block_shape *shape = &types->shape[type];
    const bool attends = shape->kind == GAL_BLOCK_ATTENTION || shape->kind == GAL_BLOCK_CROSS_ATTENTION;
    const bool useless =
        (strategy->recompute != GAL_RECOMPUTE_NONE && !attends && shape->kind != GAL_BLOCK_FFN) ||
        (strategy->recompute == GAL_RECOMPUTE_SELECTIVE && !attends) ||
        (strategy->offload_activations_percent > 0 &&
         (shape->kind == GAL_BLOCK_EMBEDDING || shape->kind == GAL_BLOCK_HEAD)) || /* nothing to run again */
        (!attends && is_split_before(spec->space, strategy)) ||
        (strategy->overlap != GAL_OVERLAP_NONE && !gal_strategy_halves(strategy, shape->kind));
    return !useless && gal_strategy_one_block_rule_broken(spec->model, shape, strategy, samples_of(spec)) == NULL;
}

bool gal_cell_is_legal(const gal_cell_spec *spec, const gal_block_types *types, uint32_t type,
                       const gal_strategy *strategy)
{
    return gal_cell_may_take(spec, strategy) && gal_cell_may_take_for(spec, types, type, strategy);
}

/* Where the carried tensor passes, the rows keep their layout (planner/cell/cell.h). */
static bool may_follow(const gal_cell *cell, const gal_block_shape *to, uint32_t from_strategy, uint32_t to_strategy)
{
    return to->carried_in.positions == 0 || to->kind == GAL_BLOCK_CROSS_ATTENTION ||
           cell->conversions.rows_of[from_strategy] == cell->conversions.rows_of[to_strategy];
}

static bool is_allowed(const gal_cell *cell, uint32_t type, uint32_t strategy)
{
    return cell->spec.allowed != NULL ? cell->spec.allowed[(size_t)type * cell->listed_count + cell->listed[strategy]]
                                      : gal_cell_is_legal(&cell->spec, &cell->types, type, &cell->strategy[strategy]);
}

static void keep_allowed(gal_cell *cell)
{
    uint32_t kept = 0;
    for (uint32_t s = 0; s < cell->listed_count; s++) {
        bool allowed = false;
        cell->strategy[kept] = cell->strategy[s];
        cell->listed[kept] = s;
        for (uint32_t type = 0; type < cell->types.type_count && !allowed; type++) {
            allowed = is_allowed(cell, type, kept);
        }
        kept += allowed;
    }
    cell->strategy_count = kept;
}

static gal_code fill_prices_of(gal_cell *cell, uint32_t stage, uint32_t type, gal_error *err)
{
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        if (is_allowed(cell, type, s)) {
            const size_t at = price_index(cell, stage, type, s);
            const gal_price_query query = query_of(cell, stage, type, s);
            gal_error reason = {0};
            const gal_code code = gal_price_block(cell->spec.cache, &query, &cell->price[at], &reason);
            if (gal_is_too_large(code)) {
                cell->price[at] = NULL;
                continue;
            }
            if (code != GAL_OK) {
                return gal_fail(err, code, "%s", reason.text);
            }
        }
    }
    return GAL_OK;
}

/* The first stage whose prices are those of this one. */
static uint32_t stage_like(const gal_cell *cell, uint32_t stage)
{
    const uint32_t place = gal_price_place(cell->spec.durations, cell->stage_devices, stage);
    uint32_t like = 0;
    while (gal_price_place(cell->spec.durations, cell->stage_devices, like) != place) {
        like++;
    }
    return like;
}

static gal_code fill_prices(gal_cell *cell, gal_error *err)
{
    gal_code code = GAL_OK;
    const size_t row = price_index(cell, 1, 0, 0);
    for (uint32_t stage = 0; stage < cell->spec.pp_degree; stage++) {
        const uint32_t like = stage_like(cell, stage);
        for (uint32_t type = 0; code == GAL_OK && like == stage && type < cell->types.type_count; type++) {
            code = fill_prices_of(cell, stage, type, err);
        }
        memmove(&cell->price[stage * row], &cell->price[like * row], row * sizeof(void *));
    }
    return code;
}

/* What the change from one class of strategies to another costs. */
typedef struct change {
    const gal_pair_price *pair, *carried;
    bool known;
} change;

static gal_code price_change(gal_cell *cell, uint32_t stage, uint32_t block, uint32_t from, uint32_t to, change *out,
                             gal_error *err)
{
    const gal_block_shape *before = &cell->types.shape[cell->types.type_of[block - 1]];
    const gal_block_shape *behind = &cell->types.shape[cell->types.type_of[block]];
    const gal_price_query query = query_of(cell, stage, cell->types.type_of[block - 1], from);
    gal_error reason = {0};
    gal_code code = gal_price_pair(cell->spec.cache, &query, behind->type, &cell->strategy[to], &out->pair, &reason);
    if (code == GAL_OK && behind->kind == GAL_BLOCK_CROSS_ATTENTION && before->carried_out.positions > 0 &&
        out->pair->converts) {
        const gal_price_query here = query_of(cell, stage, cell->types.type_of[block], to);
        code = gal_price_carried(cell->spec.cache, &here, &cell->strategy[from], &out->carried, &reason);
    }
    out->known = true;
    if (gal_is_too_large(code)) {
        out->pair = NULL;
        return GAL_OK;
    }
    return code == GAL_OK ? GAL_OK : gal_fail(err, code, "%s", reason.text);
}

/* Conversions are priced between layouts and kinds of overlap (gal_price_pair): once for all strategies of two classes.
 */
static gal_code fill_pairs_of(gal_cell *cell, uint32_t stage, uint32_t pair, change *changes, gal_error *err)
{
    const uint32_t block = cell->types.pair_first[pair];
    const uint32_t from_type = cell->types.type_of[block - 1], to_type = cell->types.type_of[block];
    const gal_conversions *classes = &cell->conversions;
    memset(changes, 0, (size_t)classes->class_count * classes->class_count * sizeof *changes);
    for (uint32_t from = 0; from < cell->strategy_count; from++) {
        if (cell->price[price_index(cell, stage, from_type, from)] == NULL) {
            continue;
        }
        for (uint32_t to = 0; to < cell->strategy_count; to++) {
            if (cell->price[price_index(cell, stage, to_type, to)] == NULL ||
                !may_follow(cell, &cell->types.shape[to_type], from, to)) {
                continue;
            }
            change *of = &changes[(size_t)classes->class_of[from] * classes->class_count + classes->class_of[to]];
            if (!of->known) {
                const gal_code code = price_change(cell, stage, block, from, to, of, err);
                if (code != GAL_OK) {
                    return code;
                }
            }
            cell->pair[pair_index(cell, stage, pair, from, to)] = of->pair;
            cell->carried[pair_index(cell, stage, pair, from, to)] = of->carried;
        }
    }
    return GAL_OK;
}

static gal_code fill_pairs(gal_cell *cell, gal_error *err)
{
    gal_code code = GAL_OK;
    const size_t row = pair_index(cell, 1, 0, 0, 0);
    const size_t classes = cell->conversions.class_count;
    change *changes = calloc(classes * classes + 1, sizeof *changes);
    if (changes == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    for (uint32_t stage = 0; code == GAL_OK && stage < cell->spec.pp_degree; stage++) {
        const uint32_t like = stage_like(cell, stage);
        for (uint32_t pair = 0; code == GAL_OK && like == stage && pair < cell->types.pair_count; pair++) {
            code = fill_pairs_of(cell, stage, pair, changes, err);
        }
        memmove(&cell->pair[stage * row], &cell->pair[like * row], row * sizeof(void *));
        memmove(&cell->carried[stage * row], &cell->carried[like * row], row * sizeof(void *));
    }
    free(changes);
    return code;
}

/* Behind a block. */
static double transfer_seconds(const gal_cell *cell, uint32_t stage, const gal_block_price *price, uint64_t bytes)
{
    const gal_cell_spec *spec = &cell->spec;
    const gal_price_transfer transfer =
        gal_price_transfer_of(spec->durations, cell->stage_devices, stage, spec->pp_degree, bytes);
    return gal_price_transfer_behind(spec->durations, &transfer, price->link_share);
}

/* The rows, and the carried tensor beside them. */
static void fill_transfers(gal_cell *cell)
{
    const gal_cell_spec *spec = &cell->spec;
    for (uint32_t stage = 0; stage + 1 < spec->pp_degree; stage++) {
        for (uint32_t type = 0; type < cell->types.type_count; type++) {
            const gal_flow carried = cell->types.shape[type].carried_out;
            for (uint32_t s = 0; s < cell->strategy_count; s++) {
                const size_t at = price_index(cell, stage, type, s);
                const gal_block_price *price = cell->price[at];
                if (price == NULL) {
                    continue;
                }
                cell->transfer[at] = transfer_seconds(cell, stage, price, price->memory->bytes.boundary);
                if (carried.positions > 0) {
                    cell->transfer[at] +=
                        transfer_seconds(cell, stage, price,
                                         gal_price_rows_bytes(spec->model, &cell->strategy[s], cell->samples, carried));
                }
            }
        }
    }
}

/* As gal_plan_objective has it. */
static void fill_common(gal_cell *cell)
{
    const gal_cell_spec *spec = &cell->spec;
    cell->common_seconds = gal_price_common_update(spec->model, spec->durations, cell->stage_devices, spec->pp_degree) +
                           gal_durations_fixed_step_seconds(spec->durations);
    for (uint32_t s = 0; s < cell->strategy_count && cell->types.table_shared && spec->pp_degree > 1; s++) {
        cell->table_seconds[s] = gal_price_table_update(spec->model, spec->durations, &cell->strategy[s],
                                                        cell->stage_devices, spec->pp_degree);
    }
}

gal_code gal_cell_refused(const gal_cell_spec *spec, gal_error *err)
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
    size_t nodes = gal_cell_price_count(cell);
    cell->price = calloc(nodes + 1, sizeof(void *));
    cell->node = calloc(nodes + 1, sizeof *cell->node);
    cell->edge = calloc(gal_cell_pair_count(cell) + 1, sizeof *cell->edge);
    cell->pair = calloc(gal_cell_pair_count(cell) + 1, sizeof(void *));
    cell->carried = calloc(gal_cell_pair_count(cell) + 1, sizeof(void *));
    cell->in_flight = calloc(stages, sizeof *cell->in_flight);
    cell->transfer = calloc(nodes + 1, sizeof *cell->transfer);
    cell->table_seconds = calloc(cell->strategy_count + 1, sizeof *cell->table_seconds);
    const bool have = cell->price != NULL && cell->node != NULL && cell->edge != NULL && cell->pair != NULL &&
                      cell->carried != NULL && cell->in_flight != NULL && cell->transfer != NULL &&
                      cell->table_seconds != NULL;
    return have ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

/* The types are there already. */
static void measure(gal_cell *cell)
{
    const gal_cell_spec *spec = &cell->spec;
    cell->stage_devices = spec->device_count / spec->pp_degree;
    cell->samples = spec->global_batch_samples / spec->microbatch_count;
    cell->block_count = gal_model_block_count(spec->model);
    cell->listed_count = spec->listed_count;
    if (spec->listed == NULL) {
        cell->listed_count = gal_space_strategies(spec->space, cell->stage_devices, cell->strategy);
    } else {
        memcpy(cell->strategy, spec->listed, spec->listed_count * sizeof *cell->strategy);
    }
    cell->rounds = gal_round_counts_of(spec->schedule, spec->pp_degree, spec->microbatch_count);
    keep_allowed(cell);
}

static gal_code fill(gal_cell *cell, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_cell_spec *spec = &cell->spec;
    GAL_TRY(gal_block_types_create(spec->model, spec->durations, &cell->types, err));
    measure(cell);
    GAL_TRY(allocate(cell, err));
    for (uint32_t p = 0; p < spec->pp_degree; p++) {
        cell->in_flight[p] = gal_in_flight(spec->schedule, p, spec->pp_degree, spec->microbatch_count);
    }
    GAL_TRY(fill_prices(cell, err));
    GAL_TRY(gal_conversions_create(spec->model, &cell->types, cell->stage_devices, cell->samples, cell->strategy,
                                   cell->strategy_count, GAL_CONVERSIONS_LAYOUTS, &cell->conversions, err));
    GAL_TRY(fill_pairs(cell, err));
    fill_transfers(cell);
    fill_common(cell);
    gal_cell_tabulate(cell);
cleanup:
    return code;
}

gal_code gal_cell_create(const gal_cell_spec *spec, gal_cell **out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_cell *cell = NULL;
    GAL_TRY(gal_cell_refused(spec, err));
    cell = calloc(1, sizeof *cell);
    if (cell != NULL) {
        const size_t most = spec->listed == NULL ? gal_space_room(spec->space, spec->device_count / spec->pp_degree)
                                                 : (size_t)spec->listed_count + 1;
        cell->spec = *spec;
        cell->strategy = calloc(most, sizeof *cell->strategy);
        cell->listed = calloc(most, sizeof *cell->listed);
    }
    if (cell == NULL || cell->strategy == NULL || cell->listed == NULL) {
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
    gal_block_types_free(&cell->types);
    free(cell->table_seconds);
    free(cell->transfer);
    free(cell->in_flight);
    free(cell->carried);
    free(cell->pair);
    free(cell->edge);
    free(cell->node);
    free(cell->price);
    free(cell->listed);
    free(cell->strategy);
    free(cell);
}

const gal_block_price *gal_cell_price(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy)
{
    return cell->price[gal_cell_price_index(cell, block, stage, strategy)];
}
