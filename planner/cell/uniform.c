#include "planner/cell/uniform.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/program/program.h"
#include "schemas/plan_check.h"

/* Blocks of layers in chunk c of v of a stage that has count of them. Where there is one piece too many, the one of the
 * embedding (chunk 0 of the first stage) or of the head (the last chunk of the last stage) has none. */
static uint32_t share(uint32_t count, uint32_t chunks, uint32_t c, bool has_head)
{
    const uint64_t at = has_head ? chunks - 1 - c : c;
    return (uint32_t)(count * (at + 1) / chunks - count * at / chunks);
}

/* Layer blocks that a stage needs for none of its pieces to be empty. */
static uint32_t least_of(const gal_plan *plan, uint32_t stage)
{
    const uint32_t ends = (uint32_t)(stage == 0) + (uint32_t)(stage + 1 == plan->stage_count);
    const uint32_t pieces = gal_plan_chunk_count(plan);
    return pieces > ends ? pieces - ends : 0;
}

/* Block by block to the stage that has the least to do: each layer block takes layer_seconds, the ends theirs. False if
 * there are too few. */
static bool deal(const gal_plan *plan, double layer_seconds, const double end_seconds[2], uint32_t *count)
{
    const uint32_t stages = plan->stage_count;
    uint32_t left = gal_model_block_count(&plan->model) - 2;
    for (uint32_t s = 0; s < stages; s++) {
        count[s] = least_of(plan, s);
        if (count[s] > left) {
            return false;
        }
        left -= count[s];
    }
    for (; left > 0; left--) {
        uint32_t to = 0;
        double least = HUGE_VAL;
        for (uint32_t s = 0; s < stages; s++) {
            const double seconds =
                count[s] * layer_seconds + (s == 0 ? end_seconds[0] : 0.0) + (s + 1 == stages ? end_seconds[1] : 0.0);
            to = seconds < least ? s : to;
            least = fmin(least, seconds);
        }
        count[to]++;
    }
    return true;
}

static void cut(gal_plan *plan, const uint32_t *count)
{
    const uint32_t pieces = gal_plan_piece_count(plan);
    plan->run_count = pieces;
    for (uint32_t i = 0; i < pieces; i++) {
        const uint32_t s = i % plan->stage_count;
        const bool has_head = s + 1 == plan->stage_count;
        plan->stage[i] = (gal_plan_stage){.first_run = i, .run_count = 1};
        plan->run[i].block_count =
            share(count[s], gal_plan_chunk_count(plan), i / plan->stage_count, has_head) + (i == 0) + (i + 1 == pieces);
    }
}

gal_code gal_uniform_refused(const gal_cell_spec *spec, gal_error *err)
{
    if (spec->schedule == GAL_SCHEDULE_INTERLEAVED && spec->pp_degree < 2) {
        return gal_fail(err, GAL_NO, "interleaved needs pp_degree of at least 2");
    }
    if (spec->device_count % spec->pp_degree != 0) {
        return gal_fail(err, GAL_NO, "pp_degree %u does not divide %u devices", spec->pp_degree, spec->device_count);
    }
    if (spec->global_batch_samples % spec->microbatch_count != 0) {
        return gal_fail(err, GAL_NO, "%u microbatches do not divide a batch of %u samples", spec->microbatch_count,
                        spec->global_batch_samples);
    }
    return GAL_OK;
}

static void set_strategy(gal_plan *plan, const gal_strategy *strategy)
{
    for (uint32_t r = 0; r < plan->run_count; r++) {
        plan->run[r].strategy = *strategy;
    }
}

static gal_code largest_stage(const gal_cell_spec *spec, const gal_plan *plan, uint64_t *most, gal_error *err)
{
    gal_code code = GAL_OK;
    *most = 0;
    for (uint32_t stage = 0; code == GAL_OK && stage < plan->stage_count; stage++) {
        uint64_t bytes = 0;
        code = gal_plan_stage_bytes(spec->cache, plan, stage, &bytes, err);
        *most = bytes > *most ? bytes : *most;
    }
    return code;
}

/* Seconds of a microbatch in a block of the layers, their mean, and in the first and the last block. */
static gal_code price_blocks(const gal_cell_spec *spec, const gal_plan *plan, const gal_strategy *strategy,
                             double *layer_seconds, double end_seconds[2], gal_error *err)
{
    const uint32_t last = gal_model_block_count(&plan->model) - 1;
    double inner = 0.0;
    gal_code code = GAL_OK;
    for (uint32_t block = 0; block <= last && code == GAL_OK; block++) {
        const gal_price_query query = {.type = gal_model_block_type(&plan->model, block),
                                       .strategy = strategy,
                                       .device_count = gal_plan_stage_devices(plan),
                                       .stage_count = plan->stage_count,
                                       .microbatch_samples = gal_plan_microbatch_samples(plan),
                                       .prefetch_depth = plan->prefetch_depth};
        const gal_block_price *price = NULL;
        code = gal_price_block(spec->cache, &query, &price, err);
        const double seconds = code == GAL_OK ? price->forward_seconds + price->backward_seconds : 0.0;
        if (block == 0 || block == last) {
            end_seconds[block == last] = seconds;
        } else {
            inner += seconds;
        }
    }
    *layer_seconds = last > 1 ? inner / (last - 1) : 0.0;
    return code;
}

/* Whether what the plan has beside the device is within the limits. */
static gal_code is_within(const gal_cell_spec *spec, const gal_plan *plan, bool *within, gal_error *err)
{
    gal_code code = GAL_OK;
    *within = true;
    for (uint32_t stage = 0; spec->host_limit_bytes > 0 && stage < plan->stage_count && *within; stage++) {
        gal_program *program = NULL;
        GAL_TRY(gal_lower(plan, stage, &program, err));
        *within = program->host_bytes <= spec->host_limit_bytes && program->storage_bytes <= spec->storage_limit_bytes;
        gal_program_free(program);
    }
cleanup:
    return code;
}

typedef struct best {
    gal_strategy strategy;
    uint32_t *count; /* [stage]: blocks of layers */
} best;

/* The plan as it is cut now. */
static gal_code try_cut(const gal_cell_spec *spec, gal_plan *plan, const uint32_t *count, best *best_plan,
                        gal_uniform_answer *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_error illegal;
    double seconds = 0.0;
    uint64_t bytes = 0;
    bool within = false;
    cut(plan, count);
    if (gal_plan_check(plan, NULL, &illegal) != GAL_OK) {
        return GAL_OK;
    }
    GAL_TRY(largest_stage(spec, plan, &bytes, err));
    out->least_bytes = out->least_bytes == 0 || bytes < out->least_bytes ? bytes : out->least_bytes;
    if (bytes > spec->arena_limit_bytes) {
        return GAL_OK;
    }
    GAL_TRY(gal_plan_objective(spec->cache, spec->durations, plan, &seconds, err));
    if (seconds < out->seconds) {
        GAL_TRY(is_within(spec, plan, &within, err));
    }
    if (within) {
        out->seconds = seconds;
        best_plan->strategy = plan->run[0].strategy;
        memcpy(best_plan->count, count, plan->stage_count * sizeof *count);
    }
cleanup:
    return code;
}

static bool legal_for_all(const gal_plan *plan, const gal_strategy *strategy)
{
    return gal_strategy_gathers_rule_broken(strategy, plan->prefetch_depth) == NULL &&
           gal_strategy_fits_all(&plan->model, strategy, gal_plan_stage_devices(plan),
                                 gal_plan_microbatch_samples(plan));
}

/* Both ways to deal the layers. */
static gal_code try_strategy(const gal_cell_spec *spec, const gal_strategy *strategy, gal_plan *plan, uint32_t *count,
                             best *best_plan, gal_uniform_answer *out, gal_error *err)
{
    static const double none[2] = {0.0, 0.0};
    double layer_seconds = 0.0, end_seconds[2] = {0.0};
    gal_code code = GAL_OK;
    set_strategy(plan, strategy);
    (void)deal(plan, 1.0, none, count);
    GAL_TRY(try_cut(spec, plan, count, best_plan, out, err));
    GAL_TRY(price_blocks(spec, plan, strategy, &layer_seconds, end_seconds, err));
    (void)deal(plan, layer_seconds, end_seconds, count);
    GAL_TRY(try_cut(spec, plan, count, best_plan, out, err));
cleanup:
    return code;
}

static gal_code try_strategies(const gal_cell_spec *spec, gal_plan *plan, uint32_t *count, best *best_plan,
                               gal_uniform_answer *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_strategy *strategy = calloc(gal_space_room(spec->space, gal_plan_stage_devices(plan)), sizeof *strategy);
    if (strategy == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    const uint32_t strategy_count = gal_space_strategies(spec->space, gal_plan_stage_devices(plan), strategy);
    for (uint32_t s = 0; s < strategy_count && code == GAL_OK; s++) {
        gal_error reason = {0};
        if (!legal_for_all(plan, &strategy[s])) {
            continue;
        }
        code = try_strategy(spec, &strategy[s], plan, count, best_plan, out, &reason);
        out->too_large_count += gal_is_too_large(code);
        code = code == GAL_OK || gal_is_too_large(code) ? GAL_OK : gal_fail(err, code, "%s", reason.text);
    }
    free(strategy);
    return code;
}

gal_code gal_uniform_solve(const gal_cell_spec *spec, gal_plan *plan, gal_uniform_answer *out, gal_error *err)
{
    static const double none[2] = {0.0, 0.0};
    gal_code code = GAL_OK;
    uint32_t *count = NULL;
    best best_plan = {0};
    *out = (gal_uniform_answer){.seconds = HUGE_VAL};
    GAL_TRY(gal_uniform_refused(spec, err));
    plan->stage_count = plan->pp_degree;
    plan->run_count = gal_plan_piece_count(plan);
    plan->stage = calloc(plan->run_count, sizeof *plan->stage);
    plan->run = calloc(plan->run_count, sizeof *plan->run);
    count = calloc(plan->stage_count, sizeof *count);
    best_plan.count = calloc(plan->stage_count, sizeof *best_plan.count);
    if (plan->stage == NULL || plan->run == NULL || count == NULL || best_plan.count == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    if (!deal(plan, 1.0, none, count)) {
        GAL_TRY(gal_fail(err, GAL_NO, "pp_degree %u times %u chunks is more than the %u blocks of the model",
                         plan->pp_degree, gal_plan_chunk_count(plan), gal_model_block_count(&plan->model)));
    }
    GAL_TRY(try_strategies(spec, plan, count, &best_plan, out, err));
    if (out->seconds < HUGE_VAL) {
        set_strategy(plan, &best_plan.strategy);
        cut(plan, best_plan.count);
    }
cleanup:
    free(best_plan.count);
    free(count);
    return code;
}
