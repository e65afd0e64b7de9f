#include "tests/support/chain_run.h"

#include "costmodel/lone.h"

#include <stdlib.h>
#include <string.h>

static void read_update(const gal_program *program, const gal_cost *cost, const gal_company_factors *factors,
                        uint32_t memory_block, gal_chain_times *out)
{
    out->update_seconds = gal_update_seconds(program, cost, factors, memory_block, 0);
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
        const uint32_t units = gal_units_of_shared(program, (gal_shared)shared);
        out->shared_update_seconds[shared] =
            out->update_seconds - gal_update_seconds(program, cost, factors, memory_block, units);
    }
}

/* Of the block's kernels, one after the other. */
static double own_seconds(const gal_program *program, const gal_cost *cost, uint32_t block, gal_fragment_kind kind)
{
    const gal_fragment *fragment = &program->fragment[kind];
    double seconds = 0.0;
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        const gal_instruction *in = &program->instruction[i];
        const bool kernel = in->stream == GAL_STREAM_COMPUTE && !gal_op_is_collective[in->op] && !in->only_last;
        seconds += kernel && in->block - program->first_block == block ? cost[i].seconds : 0.0;
    }
    return seconds;
}

/* Of the block's collectives of every microbatch. */
static void read_links(const gal_program *program, const gal_cost *cost, uint32_t block, gal_fragment_kind kind,
                       double seconds[GAL_LINK_LEVELS_MAX])
{
    const gal_fragment *fragment = &program->fragment[kind];
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        const gal_instruction *in = &program->instruction[i];
        const bool own = in->block - program->first_block == block && (in->group & GAL_GROUP_RELATION) == 0;
        if (own && gal_op_is_collective[in->op] && !in->only_last) {
            seconds[cost[i].level] += cost[i].seconds;
        }
    }
}

/* Of the block's collectives in a fragment by streams, without reductions of what other blocks hold too. */
static double read_streams(const gal_program *program, const gal_cost *cost, uint32_t block, gal_fragment_kind kind,
                           double seconds[GAL_STREAM_COUNT])
{
    const gal_fragment *fragment = &program->fragment[kind];
    double longest = 0.0;
    memset(seconds, 0, GAL_STREAM_COUNT * sizeof *seconds);
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        const gal_instruction *in = &program->instruction[i];
        const bool own = in->block - program->first_block == block && (in->group & GAL_GROUP_RELATION) == 0;
        const bool counts = in->stream != GAL_STREAM_REDUCE || !gal_lone_is_of_shared(program, in);
        seconds[in->stream] += own && counts && gal_op_is_collective[in->op] ? cost[i].seconds : 0.0;
    }
    for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
        longest = seconds[stream] > longest ? seconds[stream] : longest;
    }
    return longest;
}

/* And what its collectives in backward with sync, but for reductions, take the links of each level. */
static void read_sync(const gal_program *program, const gal_cost *cost, uint32_t block, gal_chain_times *out)
{
    double stream[GAL_STREAM_COUNT];
    const gal_fragment *fragment = &program->fragment[GAL_FRAGMENT_BACKWARD_SYNC];
    out->stream_forward_seconds = read_streams(program, cost, block, GAL_FRAGMENT_FORWARD, stream);
    out->tensor_forward_seconds = stream[GAL_STREAM_TENSOR];
    out->stream_sync_seconds = read_streams(program, cost, block, GAL_FRAGMENT_BACKWARD_SYNC, stream);
    out->reduced_seconds = stream[GAL_STREAM_REDUCE];
    memset(out->beside_seconds, 0, sizeof out->beside_seconds);
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        const gal_instruction *in = &program->instruction[i];
        const bool own = in->block - program->first_block == block && (in->group & GAL_GROUP_RELATION) == 0;
        if (own && gal_op_is_collective[in->op] && in->stream != GAL_STREAM_REDUCE) {
            out->beside_seconds[cost[i].level] += cost[i].seconds;
        }
    }
}

static gal_code play(const gal_chain_spec *spec, const gal_program *program, const gal_call *call, uint32_t call_count,
                     const gal_cost *cost, gal_alone_ends *ends, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_expansion expansion = {0};
    gal_script script = {0};
    GAL_TRY(gal_expand(program, call, call_count, cost, (gal_expand_options){.alone = true}, &expansion, err));
    GAL_TRY(gal_script_create(&expansion, &script, err));
    gal_play_alone(&script, gal_durations_company(spec->durations), ends);
cleanup:
    gal_script_free(&script);
    gal_expansion_free(&expansion);
    return code;
}

static gal_code measure(const gal_chain_spec *spec, const gal_program *program, uint32_t memory_block,
                        gal_chain_times *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_alone_ends ends;
    const gal_company_factors *factors = gal_durations_company(spec->durations);
    gal_cost *cost = gal_chain_costs(spec, program, NULL);
    if (cost == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: price"));
    }
    GAL_TRY(play(spec, program, gal_chain_calls, GAL_CHAIN_CALLS, cost, &ends, err));
    gal_chain_read(&ends, spec->block_count, out);
    out->own_forward_seconds = own_seconds(program, cost, memory_block, GAL_FRAGMENT_FORWARD);
    out->own_backward_seconds = own_seconds(program, cost, memory_block, GAL_FRAGMENT_BACKWARD_SYNC);
    memset(out->link_seconds, 0, sizeof out->link_seconds);
    read_links(program, cost, memory_block, GAL_FRAGMENT_FORWARD, out->link_seconds);
    read_links(program, cost, memory_block, GAL_FRAGMENT_BACKWARD_SYNC, out->link_seconds);
    read_sync(program, cost, memory_block, out);
    read_update(program, cost, factors, memory_block, out);
cleanup:
    free(cost);
    return code;
}

gal_code gal_chain_run(const gal_chain_spec *spec, gal_chain_times *times, uint32_t memory_block,
                       gal_block_memory *memory, gal_error *err)
{
    gal_block_spec block[GAL_CHAIN_MAX];
    gal_stage_spec stage;
    gal_program *program = NULL;
    gal_chain_stage(spec, GAL_LOWERED_STEP, block, &stage);
    gal_code code = gal_lower_spec(&stage, &program, err);
    if (code == GAL_OK) {
        gal_block_memory_of(program, memory_block, memory);
        code = measure(spec, program, memory_block, times, err);
    }
    gal_program_free(program);
    return code;
}

gal_code gal_chain_run_sync(const gal_chain_spec *spec, double *seconds, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_block_spec block[GAL_CHAIN_MAX];
    gal_stage_spec stage;
    gal_program *program = NULL;
    gal_cost *cost = NULL;
    gal_alone_ends ends;
    gal_chain_stage(spec, GAL_LOWERED_STEP, block, &stage);
    GAL_TRY(gal_lower_spec(&stage, &program, err));
    cost = gal_chain_costs(spec, program, NULL);
    if (cost == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: price"));
    }
    GAL_TRY(play(spec, program, gal_chain_sync_calls, GAL_CHAIN_SYNC_CALLS, cost, &ends, err));
    *seconds = gal_chain_sync_seconds(&ends);
cleanup:
    free(cost);
    gal_program_free(program);
    return code;
}
