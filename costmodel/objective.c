#include "costmodel/objective.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/chunk_round.h"
#include "costmodel/lag.h"
#include "costmodel/relayout.h"
#include "runtime/program/schedule.h"

gal_round_counts gal_round_counts_of(gal_schedule schedule, uint32_t stage_count, uint32_t microbatch_count)
{
    const uint32_t before = schedule == GAL_SCHEDULE_1F1B ? stage_count - 1 : 0;
    const uint32_t waits = before < microbatch_count - 1 ? before : microbatch_count - 1;
    gal_round_counts rounds = {.slowest = microbatch_count - 1.0};
    rounds.later_eighths = before > 0 ? 8.0 * waits / (stage_count * before) : 0.0;
    for (uint32_t i = 0; i < stage_count; i++) {
        rounds.slowest -= gal_rounds_of_stage(&rounds, i) - 1.0;
    }
    return rounds;
}

double gal_objective_seconds(const gal_stage_sum *stage, uint32_t stage_count, gal_schedule schedule,
                             uint32_t chunk_count, uint32_t microbatch_count, double common_update_seconds)
{
    const gal_round_counts rounds = gal_round_counts_of(schedule, stage_count, microbatch_count);
    double pace = 0.0;
    double slowest = 0.0;
    double slowest_weight = 0.0;
    double sum = 0.0;
    double counted = 0.0; /* as often as the stage's place has it */
    double weight = 0.0;
    double drained = 0.0; /* backward of the stages before */
    double exposed = 0.0;
    double transfers = 0.0;
    double update = 0.0;
    double once = 0.0;
    for (uint32_t i = 0; i < stage_count; i++) {
        const double round = stage[i].forward_seconds + stage[i].backward_seconds;
        const bool waits = chunk_count == 1 && !(stage[i].weight_seconds > 0.0);
        pace = fmax(pace, round + (waits ? stage[i].transfer_seconds : 0.0));
        slowest_weight = round > slowest ? stage[i].weight_seconds : slowest_weight;
        slowest = fmax(slowest, round);
        weight += stage[i].weight_seconds;
        sum += round;
        counted += gal_rounds_of_stage(&rounds, i) * (round + stage[i].transfer_seconds);
        exposed = fmax(exposed, stage[i].tail_seconds - drained);
        drained += stage[i].weight_seconds > 0.0 ? 0.0 : stage[i].backward_seconds / chunk_count;
        transfers += stage[i].transfer_seconds;
        update = fmax(update, stage[i].update_seconds);
        once += stage[i].once_seconds;
    }
    /* of the bubble, by other chunks or by weight parts */
    const double filled = (1.0 - 1.0 / chunk_count) * (sum - slowest) + 2.0 * (weight - slowest_weight);
    return rounds.slowest * pace + counted - filled + exposed + transfers + update + once + common_update_seconds;
}

static uint32_t stage_of(const gal_plan *plan, uint32_t piece)
{
    return piece % plan->stage_count;
}

/* The strategy whose rows the carried tensor has in front of a block that it enters: of the last one that made or
 * converted it. */
static const gal_strategy *carried_strategy(const gal_plan *plan, uint32_t block)
{
    gal_block_shape shape;
    do {
        gal_model_block(&plan->model, --block, &shape);
    } while (shape.kind != GAL_BLOCK_BRIDGE && shape.kind != GAL_BLOCK_CROSS_ATTENTION);
    return gal_plan_block_strategy(plan, block);
}

static void add_conversion(const gal_pair_price *pair, gal_stage_sum *sum)
{
    sum->forward_seconds += pair->forward_seconds;
    sum->backward_seconds += pair->backward_seconds;
    sum->lag_seconds += pair->sync_seconds;
}

/* Of the rows, and of the carried tensor where the block reads it. */
static gal_code add_conversions(gal_price_cache *cache, const gal_plan *plan, uint32_t stage, uint32_t block,
                                gal_stage_sum *sum, gal_error *err)
{
    const gal_price_query query = gal_price_query_of(plan, stage, block);
    const gal_price_query before = gal_price_query_of(plan, stage, block - 1);
    const gal_pair_price *pair = NULL;
    gal_code code = gal_price_pair(cache, &before, query.type, query.strategy, &pair, err);
    if (code == GAL_OK) {
        add_conversion(pair, sum);
    }
    if (code == GAL_OK && gal_model_block_kind(&plan->model, block) == GAL_BLOCK_CROSS_ATTENTION) {
        code = gal_price_carried(cache, &query, carried_strategy(plan, block), &pair, err);
        if (code == GAL_OK) {
            add_conversion(pair, sum);
        }
    }
    return code;
}

static bool holds_table(const gal_plan *plan, uint32_t block)
{
    gal_block_shape shape;
    gal_model_block(&plan->model, block, &shape);
    return (shape.shared >> GAL_SHARED_TABLE & 1U) != 0;
}

/* Whether another block of the stage brings the token table: on the first stage the embedding, on the last one the head
 * if it holds it. */
static bool borrows_table(const gal_plan *plan, uint32_t stage, uint32_t block)
{
    const uint32_t head = gal_model_block_count(&plan->model) - 1;
    return holds_table(plan, block) &&
           (stage == 0 ? block > 0 : stage + 1 == plan->stage_count && block != head && holds_table(plan, head));
}

/* Seconds of updates, less what of the block's is of a tensor that another block of the stage brings. */
static double less_borrowed(const gal_plan *plan, uint32_t stage, uint32_t block, const gal_block_price *price,
                            double seconds)
{
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
        const bool pays = shared == GAL_SHARED_TABLE && !borrows_table(plan, stage, block);
        seconds -= pays ? 0.0 : price->shared_update_seconds[shared];
    }
    return seconds;
}

gal_code gal_plan_block_update(gal_price_cache *cache, const gal_plan *plan, uint32_t stage, uint32_t block,
                               double *seconds, gal_error *err)
{
    const gal_price_query query = gal_price_query_of(plan, stage, block);
    const gal_block_price *price = NULL;
    const gal_code code = gal_price_block(cache, &query, &price, err);
    if (code == GAL_OK) {
        *seconds = less_borrowed(plan, stage, block, price, price->update_seconds);
    }
    return code;
}

/* What of a block's forward and backward a neighbour on the piece, the one behind or before, hides. */
static gal_code take_hidden(gal_price_cache *cache, const gal_plan *plan, uint32_t piece, uint32_t block, bool behind,
                            const gal_block_price *price, gal_stage_sum *sum, gal_error *err)
{
    const uint32_t stage = stage_of(plan, piece);
    const uint32_t first = gal_plan_stage_first_block(plan, piece);
    const uint32_t beside = behind ? block + 1 : block - 1;
    if (behind ? beside == first + gal_plan_stage_block_count(plan, piece) : block == first) {
        return GAL_OK;
    }
    gal_block_shape shape, beside_shape;
    gal_model_block(&plan->model, block, &shape);
    gal_model_block(&plan->model, beside, &beside_shape);
    const gal_price_query query = gal_price_query_of(plan, stage, beside);
    const gal_priced_block own = {&shape, gal_plan_block_strategy(plan, block), price};
    gal_priced_block neighbour = {&beside_shape, query.strategy, NULL};
    const gal_code code = gal_price_block(cache, &query, &neighbour.price, err);
    if (code == GAL_OK) {
        const gal_pass_seconds hidden = gal_price_hidden(&own, &neighbour, behind);
        sum->forward_seconds -= hidden.forward_seconds;
        sum->backward_seconds -= gal_price_hidden_share(plan->microbatch_count) * hidden.backward_seconds;
    }
    return code;
}

static gal_code add_block(gal_price_cache *cache, const gal_plan *plan, uint32_t piece, uint32_t block,
                          gal_stage_sum *sum, const gal_block_price **price, gal_error *err)
{
    const uint32_t stage = stage_of(plan, piece);
    const gal_price_query query = gal_price_query_of(plan, stage, block);
    gal_code code = gal_price_block(cache, &query, price, err);
    if (code != GAL_OK) {
        return code;
    }
    sum->forward_seconds += (*price)->forward_seconds;
    sum->backward_seconds += (*price)->backward_seconds;
    sum->once_seconds += (*price)->once_seconds;
    sum->lag_seconds +=
        (*price)->lag_seconds - (borrows_table(plan, stage, block) ? (*price)->table_sync_seconds : 0.0);
    sum->update_seconds = less_borrowed(plan, stage, block, *price, sum->update_seconds + (*price)->update_seconds);
    code = take_hidden(cache, plan, piece, block, false, *price, sum, err);
    code = code == GAL_OK ? take_hidden(cache, plan, piece, block, true, *price, sum, err) : code;
    code = code == GAL_OK && block > 0 ? add_conversions(cache, plan, stage, block, sum, err) : code;
    if (plan->stage_count == 1) {
        sum->tail_seconds = fmax(sum->tail_seconds, sum->lag_seconds);
        sum->lag_seconds = gal_lag_is_awaited(query.strategy) ? sum->tail_seconds : sum->lag_seconds;
    } else {
        sum->tail_seconds = sum->lag_seconds;
    }
    return code;
}

/* The turns of the schedule, at the ends of a piece. */
static gal_code add_ends(gal_price_cache *cache, const gal_plan *plan, uint32_t piece, gal_stage_sum *sum,
                         gal_error *err)
{
    const uint32_t first = gal_plan_stage_first_block(plan, piece);
    const uint32_t last = first + gal_plan_stage_block_count(plan, piece) - 1;
    const gal_price_query bottom = gal_price_query_of(plan, stage_of(plan, piece), first);
    const gal_price_query top = gal_price_query_of(plan, stage_of(plan, piece), last);
    const gal_block_price *enter = NULL;
    const gal_block_price *leave = NULL;
    gal_code code = gal_price_block(cache, &bottom, &enter, err);
    code = code == GAL_OK ? gal_price_block(cache, &top, &leave, err) : code;
    if (code == GAL_OK) {
        sum->forward_seconds += enter->enter_seconds;
        sum->backward_seconds += leave->leave_seconds;
        sum->lag_seconds += enter->tail_seconds;
    }
    return code;
}

/* Kernels of the weight part for one microbatch. */
static gal_code weight_seconds(const gal_durations *durations, const gal_plan *plan, uint32_t stage, double *seconds,
                               gal_error *err)
{
    gal_program *program = NULL;
    gal_cost *cost = NULL;
    gal_code code = GAL_OK;
    GAL_TRY(gal_lower(plan, stage, &program, err));
    const gal_fragment *fragment = &program->fragment[GAL_FRAGMENT_WEIGHT];
    cost = calloc((size_t)fragment->count + 1, sizeof *cost);
    if (cost == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: prices"));
    }
    gal_instruction_costs(durations, program, fragment->first, fragment->count, cost);
    *seconds = 0.0;
    for (uint32_t i = 0; i < fragment->count; i++) {
        const bool compute = program->instruction[fragment->first + i].stream == GAL_STREAM_COMPUTE;
        *seconds += compute ? cost[i].seconds : 0.0;
    }
cleanup:
    free(cost);
    gal_program_free(program);
    return code;
}

/* To the next piece behind its last block: the rows, and the carried tensor beside them. */
static double transfer_seconds(const gal_durations *durations, const gal_plan *plan, uint32_t stage, uint32_t last,
                               const gal_block_price *price)
{
    gal_block_shape shape;
    const uint32_t devices = gal_plan_stage_devices(plan);
    gal_price_transfer transfer =
        gal_price_transfer_of(durations, devices, stage, plan->stage_count, price->memory->bytes.boundary);
    double seconds = gal_price_transfer_behind(durations, &transfer, price->link_share);
    gal_model_block(&plan->model, last, &shape);
    if (shape.carried_out.positions > 0) {
        const uint64_t bytes = gal_price_rows_bytes(&plan->model, carried_strategy(plan, last + 1),
                                                    gal_plan_microbatch_samples(plan), shape.carried_out);
        transfer = gal_price_transfer_of(durations, devices, stage, plan->stage_count, bytes);
        seconds += gal_price_transfer_behind(durations, &transfer, price->link_share);
    }
    return seconds;
}

static gal_code add_piece_sum(gal_price_cache *cache, const gal_durations *durations, const gal_plan *plan,
                              uint32_t piece, gal_stage_sum *sum, gal_error *err)
{
    const uint32_t first = gal_plan_stage_first_block(plan, piece);
    const uint32_t count = gal_plan_stage_block_count(plan, piece);
    const gal_block_price *price = NULL;
    gal_code code = GAL_OK;
    code = add_ends(cache, plan, piece, sum, err);
    for (uint32_t i = 0; i < count && code == GAL_OK; i++) {
        code = add_block(cache, plan, piece, first + i, sum, &price, err);
    }
    if (code == GAL_OK && piece + 1 < gal_plan_piece_count(plan)) {
        sum->transfer_seconds += transfer_seconds(durations, plan, stage_of(plan, piece), first + count - 1, price);
    }
    return code;
}

gal_code gal_plan_stage_sum(gal_price_cache *cache, const gal_durations *durations, const gal_plan *plan,
                            uint32_t stage, gal_stage_sum *out, gal_error *err)
{
    gal_stage_sum sum = {0};
    gal_code code = GAL_OK;
    for (uint32_t piece = stage; code == GAL_OK && piece < gal_plan_piece_count(plan); piece += plan->stage_count) {
        code = add_piece_sum(cache, durations, plan, piece, &sum, err);
    }
    if (code == GAL_OK && gal_chunk_round_counts(plan, stage)) {
        double round = 0.0;
        code = gal_chunk_round(durations, plan, stage, &round, err);
        sum.backward_seconds += fmax(round - sum.forward_seconds - sum.backward_seconds, 0.0);
    }
    if (code == GAL_OK && gal_schedule_splits(plan->schedule)) {
        code = weight_seconds(durations, plan, stage, &sum.weight_seconds, err);
    }
    if (code == GAL_OK) {
        *out = sum;
    }
    return code;
}

/* What of the update no block owns. */
static double common_update_seconds(const gal_durations *durations, const gal_plan *plan)
{
    const uint32_t devices = gal_plan_stage_devices(plan);
    double seconds = gal_price_common_update(&plan->model, durations, devices, plan->stage_count);
    bool copies = false;
    for (uint32_t block = gal_plan_stage_block_count(plan, 0); block < gal_model_block_count(&plan->model); block++) {
        copies = copies || holds_table(plan, block);
    }
    if (copies && plan->stage_count > 1) { /* the first block is a holder wherever there are others */
        seconds += gal_price_table_update(&plan->model, durations, gal_plan_block_strategy(plan, 0), devices,
                                          plan->stage_count);
    }
    return seconds;
}

gal_code gal_plan_objective(gal_price_cache *cache, const gal_durations *durations, const gal_plan *plan,
                            double *seconds, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_stage_sum *sum = calloc(plan->stage_count, sizeof *sum);
    if (sum == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: prices");
    }
    for (uint32_t stage = 0; stage < plan->stage_count; stage++) {
        GAL_TRY(gal_plan_stage_sum(cache, durations, plan, stage, &sum[stage], err));
    }
    *seconds = gal_objective_seconds(sum, plan->stage_count, plan->schedule, gal_plan_chunk_count(plan),
                                     plan->microbatch_count, common_update_seconds(durations, plan)) +
               gal_durations_fixed_step_seconds(durations);
cleanup:
    free(sum);
    return code;
}

/* ---- bytes ---- */

/* Where the rows lie, and the carried tensor from where it is made. */
/* Follows the rows into block `block`: from the layout before it to its own. */
static void enter_block(const gal_plan *plan, uint32_t block, gal_flow_layouts *now)
{
    const gal_block_spec only = gal_block_spec_of(&plan->model, block, gal_plan_block_strategy(plan, block));
    const gal_stage_spec spec = {.model = &plan->model,
                                 .device_count = gal_plan_stage_devices(plan),
                                 .microbatch_samples = gal_plan_microbatch_samples(plan),
                                 .block_count = 1,
                                 .block = &only,
                                 .entry_layout = now->rows,
                                 .carried_layout = now->carried};
    gal_layouts_after(&spec, now);
}

static gal_code conversion_bytes(gal_price_cache *cache, const gal_plan *plan, uint32_t piece, uint32_t block,
                                 const gal_layout *from, bool *converts, uint64_t *bytes, gal_error *err)
{
    const gal_price_query before = gal_price_query_of(plan, stage_of(plan, piece), block - 1);
    const gal_price_query here = gal_price_query_of(plan, stage_of(plan, piece), block);
    const gal_pair_price *pair = NULL;
    gal_code code = gal_price_pair(cache, &before, here.type, here.strategy, &pair, err);
    *bytes = 0;
    if (code != GAL_OK) {
        return code;
    }
    *converts = pair->converts;
    if (pair->converts) {
        gal_block_shape shape;
        gal_model_block(&plan->model, block, &shape);
        const gal_relayout_bytes of =
            gal_relayout_bytes_to(here.device_count, from, here.strategy, shape.in, plan->model.compute_dtype);
        *bytes = block == gal_plan_stage_first_block(plan, piece) ? of.entry : of.inside;
    }
    return GAL_OK;
}

static gal_code entry_bytes(gal_price_cache *cache, const gal_plan *plan, uint32_t piece, uint64_t *bytes,
                            gal_error *err)
{
    const uint32_t block = gal_plan_stage_first_block(plan, piece) - 1;
    const gal_price_query upstream = gal_price_query_of(plan, stage_of(plan, piece - 1), block);
    const gal_block_price *price = NULL;
    const gal_code code = gal_price_block(cache, &upstream, &price, err);
    if (code == GAL_OK) {
        *bytes = price->memory->bytes.boundary;
    }
    return code;
}

/* The numbers of a stage, as they are collected; owns the arrays. */
typedef struct collection {
    gal_stage_memory stage;
    gal_chunk_memory chunk[GAL_CHUNKS_MAX];
    gal_stage_block *block;
    gal_carried_memory *carried;
    uint32_t block_count;
    uint32_t chunk_index; /* at hand */
} collection;

static void add_version(collection *c, const gal_plan *plan, const gal_strategy *strategy, gal_flow carried)
{
    c->carried[c->stage.carried_count++] = (gal_carried_memory){
        .chunk = c->chunk_index,
        .bytes = gal_price_rows_bytes(&plan->model, strategy, gal_plan_microbatch_samples(plan), carried)};
}

/* What a block does to the carried tensor: receive it, make it, convert it, read it. before: where it lies then;
 * now: the rows behind the conversion in front of the block. */
static void add_carried(const gal_plan *plan, uint32_t piece, uint32_t block, const gal_layout *before,
                        const gal_layout *now, collection *c)
{
    const gal_price_query query = gal_price_query_of(plan, stage_of(plan, piece), block);
    gal_block_shape shape;
    uint64_t bytes = 0;
    gal_model_block(&plan->model, block, &shape);
    if (block == gal_plan_stage_first_block(plan, piece) && shape.carried_in.positions > 0) {
        add_version(c, plan, carried_strategy(plan, block), shape.carried_in);
        c->carried[c->stage.carried_count - 1].received = true;
    }
    if (shape.kind == GAL_BLOCK_BRIDGE) {
        add_version(c, plan, query.strategy, shape.carried_out);
    } else if (shape.kind == GAL_BLOCK_CROSS_ATTENTION) {
        if (!gal_layout_equal(before, now)) {
            bytes =
                gal_relayout_bytes_between(query.device_count, before, now, shape.carried_in, plan->model.compute_dtype)
                    .carried;
            add_version(c, plan, query.strategy, shape.carried_in);
        }
        c->stage.carried_relayout_bytes =
            bytes > c->stage.carried_relayout_bytes ? bytes : c->stage.carried_relayout_bytes;
        c->carried[c->stage.carried_count - 1].read = true;
    }
}

/* The numbers of a piece's blocks. now: as the piece before sends them; as this one does. */
static gal_code add_piece(gal_price_cache *cache, const gal_plan *plan, uint32_t piece, gal_flow_layouts *now,
                          gal_chunk_memory *chunk, collection *c, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t first = gal_plan_stage_first_block(plan, piece);
    chunk->block_count = gal_plan_stage_block_count(plan, piece);
    chunk->receives = piece > 0;
    chunk->sends = piece + 1 < gal_plan_piece_count(plan);
    for (uint32_t block = first; block < first + chunk->block_count; block++) {
        const gal_price_query query = gal_price_query_of(plan, stage_of(plan, piece), block);
        const gal_block_price *price = NULL;
        gal_stage_block *at = &c->block[c->block_count++];
        const gal_flow_layouts before = *now;
        bool converts = false;
        GAL_TRY(gal_price_block(cache, &query, &price, err));
        at->memory = price->memory;
        if (block > 0) {
            GAL_TRY(conversion_bytes(cache, plan, piece, block, &now->rows, &converts, &at->relayout_bytes, err));
        }
        chunk->converts_entry = block == first ? converts : chunk->converts_entry;
        enter_block(plan, block, now);
        add_carried(plan, piece, block, &before.carried, &now->rows, c);
    }
    if (piece > 0) {
        GAL_TRY(entry_bytes(cache, plan, piece, &chunk->entry_bytes, err));
    }
    gal_block_shape last;
    gal_model_block(&plan->model, first + chunk->block_count - 1, &last);
    if (last.carried_out.positions > 0) {
        c->carried[c->stage.carried_count - 1].sent = true;
    }
cleanup:
    return code;
}

static gal_code lowered_bytes(const gal_plan *plan, uint32_t stage, uint64_t *bytes, gal_error *err)
{
    gal_program *program = NULL;
    const gal_code code = gal_lower(plan, stage, &program, err);
    if (code == GAL_OK) {
        *bytes = program->arena_bytes;
    }
    gal_program_free(program);
    return code;
}

/* What neighbours take that run together, as two sub-batches do or have a chunk of weights in common, is no sum or
 * maximum of numbers of theirs. */
static bool joins_neighbours(const gal_plan *plan)
{
    bool joins = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const gal_strategy *strategy = &plan->run[r].strategy;
        joins = joins || strategy->overlap >= GAL_OVERLAP_IN_PASS || strategy->shard_unit == GAL_SHARD_CHUNK;
    }
    return joins;
}

gal_code gal_plan_stage_bytes(gal_price_cache *cache, const gal_plan *plan, uint32_t stage, uint64_t *bytes,
                              gal_error *err)
{
    if (gal_schedule_splits(plan->schedule) || joins_neighbours(plan)) {
        return lowered_bytes(plan, stage, bytes, err);
    }
    gal_code code = GAL_OK;
    const uint32_t blocks = gal_model_block_count(&plan->model);
    const gal_schedule_place place = {plan->schedule, stage, plan->stage_count, gal_plan_chunk_count(plan),
                                      plan->microbatch_count};
    uint32_t in_flight[GAL_CHUNKS_MAX];
    uint32_t block = 0;
    gal_flow_layouts now;
    collection c = {.stage = {.microbatch_count = plan->microbatch_count,
                              .prefetch_depth = plan->prefetch_depth,
                              .chunk_count = place.chunk_count},
                    .block = calloc(blocks, sizeof *c.block),
                    .carried = calloc((size_t)blocks + 1, sizeof *c.carried)};
    c.stage.chunk = c.chunk;
    c.stage.block = c.block;
    c.stage.carried = c.carried;
    if (c.block == NULL || c.carried == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: bytes of a stage"));
    }
    (void)gal_schedule_in_flight(&place, in_flight);
    gal_layout_whole(gal_plan_microbatch_samples(plan), &now.rows);
    now.carried = now.rows;
    for (uint32_t i = 0; i < place.chunk_count; i++) {
        const uint32_t piece = i * plan->stage_count + stage;
        for (; block < gal_plan_stage_first_block(plan, piece); block++) {
            enter_block(plan, block, &now);
        }
        c.chunk[i].in_flight = in_flight[i];
        c.chunk_index = i;
        GAL_TRY(add_piece(cache, plan, piece, &now, &c.chunk[i], &c, err));
        block += c.chunk[i].block_count;
    }
    *bytes = gal_stage_bytes(&c.stage);
cleanup:
    free(c.carried);
    free(c.block);
    return code;
}
