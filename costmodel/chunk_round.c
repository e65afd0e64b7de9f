#include "costmodel/chunk_round.h"

#include <stdlib.h>

#include "costmodel/chain.h"
#include "runtime/program/program.h"
#include "runtime/program/schedule.h"

enum { BACKWARD_0 = 1, SYNC = 3 }; /* of gal_chain_calls */

static bool has_chunks(const gal_plan *plan, uint32_t stage)
{
    bool has = false;
    for (uint32_t i = 0; i < plan->stage[stage].run_count; i++) {
        has = has || plan->run[plan->stage[stage].first_run + i].strategy.shard_unit == GAL_SHARD_CHUNK;
    }
    return has;
}

bool gal_chunk_round_counts(const gal_plan *plan, uint32_t stage)
{
    return plan->schedule == GAL_SCHEDULE_1F1B && plan->microbatch_count > 1 && has_chunks(plan, stage);
}

gal_code gal_chunk_round(const gal_durations *durations, const gal_plan *plan, uint32_t stage, double *seconds,
                         gal_error *err)
{
    gal_code code = GAL_OK;
    gal_program *program = NULL;
    gal_cost *cost = NULL;
    gal_expansion expansion = {0};
    gal_script script = {0};
    gal_alone_ends ends;
    GAL_TRY(gal_lower(plan, stage, &program, err));
    cost = calloc((size_t)program->instruction_count + 1, sizeof *cost);
    if (cost == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: price of chunks"));
    }
    gal_instruction_costs(durations, program, 0, program->instruction_count, cost);
    GAL_TRY(gal_expand(program, gal_chain_calls, GAL_CHAIN_CALLS, cost, (gal_expand_options){.alone = true}, &expansion,
                       err));
    GAL_TRY(gal_script_create(&expansion, &script, err));
    gal_play_alone(&script, gal_durations_company(durations), &ends);
    *seconds = ends.compute_seconds[SYNC] - ends.call_seconds[BACKWARD_0];
cleanup:
    gal_script_free(&script);
    gal_expansion_free(&expansion);
    free(cost);
    gal_program_free(program);
    return code;
}
