#include "costmodel/layer_chain.h"

#include <math.h>
#include <stdlib.h>

#include "costmodel/chain.h"

enum { CALLS_MAX = GAL_ALONE_CALLS_MAX, STEADY_MICROBATCHES = 3 };

/* The calls of so many microbatches, at most STEADY_MICROBATCHES; returns how many. */
static uint32_t list_calls(uint32_t microbatches, gal_call calls[CALLS_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < microbatches; i++) {
        const bool last = i + 1 == microbatches;
        calls[count++] = (gal_call){GAL_FRAGMENT_FORWARD, i};
        calls[count++] = (gal_call){(uint16_t)(last ? GAL_FRAGMENT_BACKWARD_SYNC : GAL_FRAGMENT_BACKWARD), i};
    }
    calls[count++] = (gal_call){GAL_FRAGMENT_UPDATE, 0};
    return count;
}

static gal_code lower(const gal_layer_chain *chain, gal_program **out, gal_error *err)
{
    gal_block_spec block[GAL_LAYER_CHAIN_BLOCKS_MAX];
    GAL_ASSERT(chain->block_count >= 1 && chain->block_count <= GAL_LAYER_CHAIN_BLOCKS_MAX);
    const bool first = chain->block[0].shape.in.positions == 0;
    const bool last = chain->block[chain->block_count - 1].shape.out.positions == 0;
    for (uint32_t i = 0; i < chain->block_count; i++) {
        block[i] = chain->block[i];
        block[i].block = first ? i : i + 1;
    }
    gal_chain_carry_on(block, chain->block_count);
    const gal_stage_spec spec = {.model = chain->model,
                                 .device_count = chain->device_count,
                                 .stage = first ? 0 : 1,
                                 .stage_count = 1 + (first ? 0U : 1U) + (last ? 0U : 1U),
                                 .microbatch_samples = chain->microbatch_samples,
                                 .microbatch_count = chain->microbatch_count,
                                 .schedule = GAL_SCHEDULE_1F1B,
                                 .prefetch_depth = chain->prefetch_depth,
                                 .block_count = chain->block_count,
                                 .block = block,
                                 .own_entry = true,
                                 .lowered = GAL_LOWERED_LISTS};
    const gal_code code = gal_lower_spec(&spec, out, err);
    return code == GAL_OK ? gal_program_derive_waits(*out, GAL_FRAGMENT_UPDATE + 1, err) : code;
}

/* Costs where the chain's stage lies, which is not where it was lowered; NULL without memory. */
static gal_cost *costs_of(const gal_layer_chain *chain, gal_program *program)
{
    gal_cost *cost = malloc(((size_t)program->instruction_count + 1) * sizeof *cost);
    if (cost != NULL) {
        program->stage = chain->stage;
        program->stage_count = chain->stage_count;
        gal_instruction_costs(chain->durations, program, 0, program->instruction_count, cost);
    }
    return cost;
}

static void read_times(const gal_alone_ends *ends, uint32_t calls, uint32_t microbatch_count, gal_layer_times *out)
{
    const double *end = ends->call_seconds;
    const uint32_t update = calls - 1, sync = calls - 2, forward = calls - 3; /* of the last microbatch */
    const double reduced = fmax(end[sync], ends->reduce_seconds[sync]);
    *out = (gal_layer_times){.update_seconds = end[update] - reduced, .step_seconds = end[update]};
    if (forward == 0) {
        out->forward_seconds = end[forward];
        out->backward_seconds = end[sync] - end[forward];
    } else {
        out->forward_seconds = end[forward] - end[forward - 1];
        out->backward_seconds = end[forward - 1] - end[forward - 2];
    }
    out->last_seconds = end[sync] - end[forward];
    out->sync_seconds = reduced - end[sync];
    if (microbatch_count > STEADY_MICROBATCHES) {
        const double round = out->forward_seconds + out->backward_seconds;
        out->step_seconds += (microbatch_count - STEADY_MICROBATCHES) * round;
    }
}

gal_code gal_layer_chain_times(const gal_layer_chain *chain, gal_layer_times *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_call calls[CALLS_MAX];
    gal_program *program = NULL;
    gal_cost *cost = NULL;
    gal_expansion expansion = {0};
    gal_script script = {0};
    gal_alone_ends ends;
    const uint32_t microbatches =
        chain->microbatch_count < STEADY_MICROBATCHES ? chain->microbatch_count : STEADY_MICROBATCHES;
    const uint32_t call_count = list_calls(microbatches, calls);
    GAL_TRY(lower(chain, &program, err));
    cost = costs_of(chain, program);
    if (cost == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: prices of layers"));
    }
    GAL_TRY(gal_expand(program, calls, call_count, cost, (gal_expand_options){.alone = true}, &expansion, err));
    GAL_TRY(gal_script_create(&expansion, &script, err));
    gal_play_alone(&script, gal_durations_company(chain->durations), &ends);
    read_times(&ends, call_count, chain->microbatch_count, out);
cleanup:
    gal_script_free(&script);
    gal_expansion_free(&expansion);
    free(cost);
    gal_program_free(program);
    return code;
}
