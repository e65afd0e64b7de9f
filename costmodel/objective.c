#include "costmodel/objective.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/program/schedule.h"

double gal_objective_seconds(const gal_stage_sum *stage, uint32_t stage_count, uint32_t chunk_count,
                             uint32_t microbatch_count, double common_update_seconds)
{
    double slowest = 0.0;
    double slowest_weight = 0.0;
    double sum = 0.0;
    double weight = 0.0;
    double drained = 0.0; /* backward of the stages before */
    double exposed = 0.0;
    double transfers = 0.0;
    double update = 0.0;
    for (uint32_t i = 0; i < stage_count; i++) {
        const double round = stage[i].forward_seconds + stage[i].backward_seconds;
        slowest_weight = round > slowest ? stage[i].weight_seconds : slowest_weight;
        slowest = fmax(slowest, round);
        weight += stage[i].weight_seconds;
        sum += round;
        exposed = fmax(exposed, stage[i].tail_seconds - drained);
        drained += stage[i].weight_seconds > 0.0 ? 0.0 : stage[i].backward_seconds / chunk_count;
        transfers += stage[i].transfer_seconds;
        update = fmax(update, stage[i].update_seconds);
    }
    /* of the bubble, by other chunks or by weight parts */
    const double filled = (1.0 - 1.0 / chunk_count) * (sum - slowest) + 2.0 * (weight - slowest_weight);
    return (microbatch_count - 1) * slowest + sum - filled + exposed + 2.0 * transfers + update + common_update_seconds;
}

static uint32_t stage_of(const gal_plan *plan, uint32_t piece)
{
    return piece % plan->stage_count;
}

static gal_price_query query_of(const gal_plan *plan, uint32_t stage, uint32_t block)
{
    return (gal_price_query){.type = gal_model_block_type(&plan->model, block),
                             .strategy = gal_plan_block_strategy(plan, block),
                             .device_count = gal_plan_stage_devices(plan),
                             .stage = stage,
                             .stage_count = plan->stage_count,
                             .microbatch_samples = gal_plan_microbatch_samples(plan),
                             .prefetch_depth = plan->prefetch_depth};
}

static gal_code add_block(gal_price_cache *cache, const gal_plan *plan, uint32_t stage, uint32_t block,
                          gal_stage_sum *sum, const gal_block_price **price, gal_error *err)
{
    const gal_price_query query = query_of(plan, stage, block);
    const gal_pair_price *pair = NULL;
    gal_code code = gal_price_block(cache, &query, price, err);
    if (code == GAL_OK && block > 0) {
        const gal_price_query before = query_of(plan, stage, block - 1);
        code = gal_price_pair(cache, &before, query.type, query.strategy, &pair, err);
    }
    if (code != GAL_OK) {
        return code;
    }
    sum->forward_seconds += (*price)->forward_seconds;
    sum->backward_seconds += (*price)->backward_seconds;
    sum->tail_seconds += (*price)->sync_seconds;
    sum->update_seconds += (*price)->update_seconds;
    if (pair != NULL) {
        sum->forward_seconds += pair->forward_seconds;
        sum->backward_seconds += pair->backward_seconds;
        sum->tail_seconds += pair->sync_seconds;
    }
    return GAL_OK;
}

/* The turns of the schedule, at the ends of a piece. */
static gal_code add_ends(gal_price_cache *cache, const gal_plan *plan, uint32_t piece, gal_stage_sum *sum,
                         gal_error *err)
{
    const uint32_t first = gal_plan_stage_first_block(plan, piece);
    const uint32_t last = first + gal_plan_stage_block_count(plan, piece) - 1;
    const gal_price_query bottom = query_of(plan, stage_of(plan, piece), first);
    const gal_price_query top = query_of(plan, stage_of(plan, piece), last);
    const gal_block_price *enter = NULL;
    const gal_block_price *leave = NULL;
    gal_code code = gal_price_block(cache, &bottom, &enter, err);
    code = code == GAL_OK ? gal_price_block(cache, &top, &leave, err) : code;
    if (code == GAL_OK) {
        sum->forward_seconds += enter->enter_seconds;
        sum->backward_seconds += leave->leave_seconds;
        sum->tail_seconds += enter->tail_seconds;
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

static gal_code add_piece_sum(gal_price_cache *cache, const gal_durations *durations, const gal_plan *plan,
                              uint32_t piece, gal_stage_sum *sum, gal_error *err)
{
    const uint32_t stage = stage_of(plan, piece);
    const uint32_t first = gal_plan_stage_first_block(plan, piece);
    const uint32_t count = gal_plan_stage_block_count(plan, piece);
    const gal_block_price *price = NULL;
    gal_code code = GAL_OK;
    for (uint32_t i = 0; i < count && code == GAL_OK; i++) {
        code = add_block(cache, plan, stage, first + i, sum, &price, err);
    }
    code = code == GAL_OK ? add_ends(cache, plan, piece, sum, err) : code;
    if (code == GAL_OK && piece + 1 < gal_plan_piece_count(plan)) {
        sum->transfer_seconds += gal_price_transfer(durations, gal_plan_stage_devices(plan), stage, plan->stage_count,
                                                    price->memory.bytes.boundary);
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
    if (code == GAL_OK && gal_schedule_splits(plan->schedule)) {
        code = weight_seconds(durations, plan, stage, &sum.weight_seconds, err);
    }
    if (code == GAL_OK) {
        *out = sum;
    }
    return code;
}

/* What a device reduces with its partner of the tied table: the gradient as it is held. */
static uint64_t tied_bytes(const gal_plan *plan)
{
    const gal_strategy *strategy = gal_plan_block_strategy(plan, 0);
    const uint64_t elements = (uint64_t)gal_model_padded_vocabulary(&plan->model) * plan->model.hidden;
    const uint32_t shards = gal_strategy_degree(strategy, GAL_AXIS_TP) * gal_strategy_degree(strategy, GAL_AXIS_SDP);
    return plan->model.tied_embeddings && plan->stage_count > 1
               ? elements / shards * gal_dtype_bytes(plan->model.compute_dtype)
               : 0;
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
    const double common =
        gal_price_common_update(durations, gal_plan_stage_devices(plan), plan->stage_count, tied_bytes(plan));
    *seconds =
        gal_objective_seconds(sum, plan->stage_count, gal_plan_chunk_count(plan), plan->microbatch_count, common) +
        gal_durations_fixed_step_seconds(durations);
cleanup:
    free(sum);
    return code;
}

/* ---- bytes ---- */

/* Follows the rows into block `block`: from the layout before it to its own. */
static void enter_block(const gal_plan *plan, uint32_t block, gal_layout *now)
{
    const gal_block_spec only = gal_block_spec_of(&plan->model, block, gal_plan_block_strategy(plan, block));
    const gal_stage_spec spec = {.model = &plan->model,
                                 .device_count = gal_plan_stage_devices(plan),
                                 .microbatch_samples = gal_plan_microbatch_samples(plan),
                                 .block_count = 1,
                                 .block = &only,
                                 .entry_layout = *now};
    gal_layout next;
    gal_layout_after(&spec, &next);
    *now = next;
}

static gal_code conversion_bytes(gal_price_cache *cache, const gal_plan *plan, uint32_t piece, uint32_t block,
                                 const gal_layout *from, bool *converts, uint64_t *bytes, gal_error *err)
{
    const gal_price_query before = query_of(plan, stage_of(plan, piece), block - 1);
    const gal_price_query here = query_of(plan, stage_of(plan, piece), block);
    const gal_pair_price *pair = NULL;
    gal_code code = gal_price_pair(cache, &before, here.type, here.strategy, &pair, err);
    *bytes = 0;
    if (code != GAL_OK) {
        return code;
    }
    *converts = pair->converts;
    if (pair->converts) {
        uint64_t inside = 0;
        uint64_t entry = 0;
        code = gal_price_relayout(cache, &before, from, here.type, here.strategy, &inside, &entry, err);
        *bytes = block == gal_plan_stage_first_block(plan, piece) ? entry : inside;
    }
    return code;
}

static gal_code entry_bytes(gal_price_cache *cache, const gal_plan *plan, uint32_t piece, uint64_t *bytes,
                            gal_error *err)
{
    const uint32_t block = gal_plan_stage_first_block(plan, piece) - 1;
    const gal_price_query upstream = query_of(plan, stage_of(plan, piece - 1), block);
    const gal_block_price *price = NULL;
    const gal_code code = gal_price_block(cache, &upstream, &price, err);
    if (code == GAL_OK) {
        *bytes = price->memory.bytes.boundary;
    }
    return code;
}

/* The numbers of a piece's blocks. now: the rows as they leave the piece before; as they leave this one. */
static gal_code add_piece(gal_price_cache *cache, const gal_plan *plan, uint32_t piece, gal_layout *now,
                          gal_stage_block *blocks, gal_chunk_memory *chunk, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t first = gal_plan_stage_first_block(plan, piece);
    chunk->block_count = gal_plan_stage_block_count(plan, piece);
    chunk->receives = piece > 0;
    chunk->sends = piece + 1 < gal_plan_piece_count(plan);
    for (uint32_t block = first; block < first + chunk->block_count; block++) {
        const gal_price_query query = query_of(plan, stage_of(plan, piece), block);
        const gal_block_price *price = NULL;
        bool converts = false;
        GAL_TRY(gal_price_block(cache, &query, &price, err));
        blocks[block - first].memory = &price->memory;
        if (block > 0) {
            GAL_TRY(conversion_bytes(cache, plan, piece, block, now, &converts, &blocks[block - first].relayout_bytes,
                                     err));
        }
        chunk->converts_entry = block == first ? converts : chunk->converts_entry;
        enter_block(plan, block, now);
    }
    if (piece > 0) {
        GAL_TRY(entry_bytes(cache, plan, piece, &chunk->entry_bytes, err));
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

gal_code gal_plan_stage_bytes(gal_price_cache *cache, const gal_plan *plan, uint32_t stage, uint64_t *bytes,
                              gal_error *err)
{
    if (gal_schedule_splits(plan->schedule)) {
        return lowered_bytes(plan, stage, bytes, err);
    }
    gal_code code = GAL_OK;
    const gal_schedule_place place = {plan->schedule, stage, plan->stage_count, gal_plan_chunk_count(plan),
                                      plan->microbatch_count};
    uint32_t in_flight[GAL_CHUNKS_MAX];
    gal_chunk_memory chunks[GAL_CHUNKS_MAX] = {{0}};
    gal_stage_block *blocks = calloc(gal_model_block_count(&plan->model), sizeof *blocks);
    const gal_stage_memory memory = {.microbatch_count = plan->microbatch_count,
                                     .prefetch_depth = plan->prefetch_depth,
                                     .chunk_count = place.chunk_count,
                                     .chunk = chunks,
                                     .block = blocks};
    uint32_t block_count = 0;
    uint32_t block = 0;
    gal_layout now;
    if (blocks == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: bytes of a stage");
    }
    (void)gal_schedule_in_flight(&place, in_flight);
    gal_layout_whole(gal_plan_microbatch_samples(plan), &now);
    for (uint32_t c = 0; c < place.chunk_count; c++) {
        const uint32_t piece = c * plan->stage_count + stage;
        for (; block < gal_plan_stage_first_block(plan, piece); block++) {
            enter_block(plan, block, &now);
        }
        chunks[c].in_flight = in_flight[c];
        GAL_TRY(add_piece(cache, plan, piece, &now, &blocks[block_count], &chunks[c], err));
        block += chunks[c].block_count;
        block_count += chunks[c].block_count;
    }
    *bytes = gal_stage_bytes(&memory);
cleanup:
    free(blocks);
    return code;
}
