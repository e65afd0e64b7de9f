/* Lowering of plans: the pieces of the chain, in which layouts they are entered, and the stages that hold them. */
#include <stdlib.h>
#include <string.h>

#include "runtime/program/program.h"

gal_block_spec gal_block_spec_of(const gal_model *model, uint32_t block, const gal_strategy *strategy)
{
    gal_block_spec spec = {.block = block, .strategy = strategy};
    gal_model_block(model, block, &spec.shape);
    return spec;
}

static void add_piece(const gal_plan *plan, uint32_t piece, gal_block_spec *blocks, uint32_t *count)
{
    const gal_plan_stage *at = &plan->stage[piece];
    uint32_t block = gal_plan_stage_first_block(plan, piece);
    for (uint32_t r = 0; r < at->run_count; r++) {
        const gal_plan_run *run = &plan->run[at->first_run + r];
        for (uint32_t i = 0; i < run->block_count; i++, block++) {
            blocks[(*count)++] = gal_block_spec_of(&plan->model, block, &run->strategy);
        }
    }
}

static gal_stage_spec spec_of_plan(const gal_plan *plan, gal_block_spec *blocks)
{
    return (gal_stage_spec){.model = &plan->model,
                            .device_count = gal_plan_stage_devices(plan),
                            .stage_count = plan->stage_count,
                            .microbatch_samples = gal_plan_microbatch_samples(plan),
                            .microbatch_count = plan->microbatch_count,
                            .schedule = plan->schedule,
                            .prefetch_depth = plan->prefetch_depth,
                            .storage_part_bytes = plan->storage_part_bytes,
                            .gradient_reuses_parameter = plan->gradient_reuses_parameter,
                            .block = blocks};
}

/* The layouts in which the pieces are entered, along the chain. */
static void enter_pieces(const gal_plan *plan, gal_block_spec *blocks, gal_chunk_spec *pieces, uint32_t *first_block)
{
    gal_flow_layouts now;
    gal_layout_whole(gal_plan_microbatch_samples(plan), &now.rows);
    now.carried = now.rows;
    for (uint32_t i = 0; i < gal_plan_piece_count(plan); i++) {
        gal_stage_spec spec = spec_of_plan(plan, blocks);
        add_piece(plan, i, blocks, &spec.block_count);
        pieces[i] = (gal_chunk_spec){spec.block_count, now.rows, now.carried};
        first_block[i + 1] = first_block[i] + spec.block_count;
        spec.entry_layout = now.rows;
        spec.carried_layout = now.carried;
        gal_layouts_after(&spec, &now);
    }
}

/* Lowers the stages [from, to) into programs[0 ..]. */
static gal_code lower_range(const gal_plan *plan, uint32_t from, uint32_t to, gal_program **programs, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t chunks = gal_plan_chunk_count(plan);
    gal_chunk_spec of_stage[GAL_CHUNKS_MAX];
    gal_block_spec *blocks = calloc(gal_model_block_count(&plan->model), sizeof *blocks);
    gal_chunk_spec *pieces = calloc(gal_plan_piece_count(plan), sizeof *pieces);
    uint32_t *first_block = calloc((size_t)gal_plan_piece_count(plan) + 1, sizeof *first_block);
    if (blocks == NULL || pieces == NULL || first_block == NULL) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to lower the plan");
        goto cleanup;
    }
    enter_pieces(plan, blocks, pieces, first_block);
    for (uint32_t i = from; i < to; i++) {
        gal_stage_spec spec = spec_of_plan(plan, blocks);
        spec.stage = i;
        spec.chunk = of_stage;
        spec.first_block = first_block;
        spec.carried_layout = pieces[i].carried_layout;
        for (; spec.chunk_count < chunks; spec.chunk_count++) {
            const uint32_t piece = spec.chunk_count * plan->stage_count + i;
            of_stage[spec.chunk_count] = pieces[piece];
            add_piece(plan, piece, blocks, &spec.block_count);
        }
        GAL_TRY(gal_lower_spec(&spec, &programs[i - from], err));
    }
cleanup:
    free(first_block);
    free(pieces);
    free(blocks);
    return code;
}

gal_code gal_lower(const gal_plan *plan, uint32_t stage_index, gal_program **out, gal_error *err)
{
    gal_program *program = NULL;
    gal_code code = lower_range(plan, stage_index, stage_index + 1, &program, err);
    if (code == GAL_OK) {
        *out = program;
    }
    return code;
}

gal_code gal_lower_plan(const gal_plan *plan, gal_program **programs, gal_error *err)
{
    memset(programs, 0, plan->stage_count * sizeof *programs);
    gal_code code = lower_range(plan, 0, plan->stage_count, programs, err);
    for (uint32_t i = 0; code != GAL_OK && i < plan->stage_count; i++) {
        gal_program_free(programs[i]);
        programs[i] = NULL;
    }
    return code;
}
