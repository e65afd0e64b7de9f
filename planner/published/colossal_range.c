#include "planner/published/colossal_range.h"

#include <stdio.h>

#include "schemas/plan_check.h"

enum { POSITIONS = 512, WIDTH = 1024, BATCH = 32, BATCH_MOST = 512, WIDTH_MOST = 16384, HEADS = 8 };

/* A mode on so many devices, and the figures that it is in. */
typedef struct contender {
    uint32_t devices;
    const char *mode;
    gal_tp_mode tp_mode;
    uint32_t depth; /* of 2.5d, else 1 */
} contender;

static const contender contenders[] = {{4, "1d", GAL_TP_1D, 1}, {4, "2d", GAL_TP_2D, 1},     {4, "2.5d", GAL_TP_2D, 1},
                                       {8, "1d", GAL_TP_1D, 1}, {8, "2.5d", GAL_TP_2P5D, 2}, {8, "3d", GAL_TP_3D, 1}};

static gal_strategy strategy_of(const contender *c)
{
    return (gal_strategy){.axis_count = 1,
                          .axis = {{GAL_AXIS_TP, c->devices}},
                          .tp_mode = c->tp_mode,
                          .tp_depth = c->tp_mode == GAL_TP_2P5D ? c->depth : 0};
}

uint64_t gal_colossal_range_bytes(const gal_program *program)
{
    uint64_t bytes = program->arena_bytes;
    for (uint32_t u = 0; u < program->unit_count; u++) {
        bytes -= gal_align(program->buffer[program->unit[u].first_moment].bytes);
        bytes -= gal_align(program->buffer[program->unit[u].second_moment].bytes);
    }
    return bytes;
}

void gal_colossal_range_stage(const gal_model *model, uint32_t device_count, uint32_t batch,
                              const gal_block_spec *block, gal_stage_spec *spec)
{
    *spec = (gal_stage_spec){.model = model,
                             .device_count = device_count,
                             .stage = 1,
                             .stage_count = 3,
                             .microbatch_samples = batch,
                             .microbatch_count = 1,
                             .schedule = GAL_SCHEDULE_GPIPE,
                             .prefetch_depth = 2,
                             .block_count = 1,
                             .block = block,
                             .own_entry = true};
}

static gal_code measure(const contender *c, uint32_t batch, uint32_t width, uint64_t *bytes, gal_error *err)
{
    const gal_strategy strategy = strategy_of(c);
    gal_model model;
    gal_program *program = NULL;
    gal_block_spec block = {.block = 2, .strategy = &strategy};
    gal_model_defaults(&model);
    model.layer_count = 1;
    model.hidden = model.ffn_hidden = width;
    model.head_count = HEADS;
    model.sequence_length = POSITIONS;
    model.vocabulary = model.vocabulary_multiple = HEADS;
    model.compute_dtype = GAL_FP32;
    gal_model_block(&model, block.block, &block.shape);
    GAL_ASSERT(gal_strategy_block_rule_broken(&model, &block.shape, &strategy, c->devices, batch) == NULL);
    gal_stage_spec spec;
    gal_colossal_range_stage(&model, c->devices, batch, &block, &spec);
    const gal_code code = gal_lower_spec(&spec, &program, err);
    *bytes = code == GAL_OK ? gal_colossal_range_bytes(program) : 0;
    gal_program_free(program);
    return code;
}

gal_code gal_colossal_range(gal_code (*each)(void *context, const gal_colossal_row *row), void *context, gal_error *err)
{
    gal_code code = GAL_OK;
    for (size_t i = 0; i < 2 * (sizeof contenders / sizeof contenders[0]); i++) {
        const contender *c = &contenders[i / 2];
        const bool by_width = i % 2 == 1;
        const uint32_t most = by_width ? WIDTH_MOST : BATCH_MOST;
        for (uint32_t at = by_width ? WIDTH : BATCH; at <= most; at *= 2) {
            char figure[32];
            uint64_t bytes = 0;
            const uint32_t batch = by_width ? BATCH : at, width = by_width ? at : WIDTH;
            (void)snprintf(figure, sizeof figure, by_width ? "fig12%c-h%u" : "fig12%c",
                           (c->devices == 4 ? 'a' : 'b') + (by_width ? 2 : 0), width);
            GAL_TRY(measure(c, batch, width, &bytes, err));
            const gal_colossal_row row = {.figure = figure,
                                          .system = "colossal-1",
                                          .devices = c->devices,
                                          .mode = c->mode,
                                          .depth = c->depth,
                                          .batch = batch,
                                          .value = (double)bytes,
                                          .refused = ""};
            GAL_TRY(each(context, &row));
        }
    }
cleanup:
    return code;
}
