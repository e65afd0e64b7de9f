/* Which programs: those that a search over these ranks may choose. */
#include "profiler/candidates_internal.h"

#include <stdlib.h>

#include "profiler/strategies.h"
#include "schemas/plan_check.h"

enum { REPRESENTATIVES_MAX = 64 };

/* Few plans change strategy at a given place. */
static const double conversion_weight = 0.1;
/* Those with something in the host's memory. */
static const double offload_weight = 0.1;

/* Where a chain stands: devices, stage, microbatch. */
typedef struct position {
    const gal_model *model;
    uint32_t device_count, stage, stage_count;
    uint32_t microbatch_samples, microbatch_count;
} position;

static bool is_inner(const gal_block_shape *shape)
{
    return shape->in.positions > 0 && shape->out.positions > 0;
}

/* Embedding and head stand for themselves, the chain's other blocks for all others of the model: each for those of its
 * type, and for its share of the types that the chain has not. */
static void count_repeats(const position *at, const gal_block_spec *block, uint32_t block_count,
                          double repeats[GAL_TYPES_MAX])
{
    double of_type[GAL_TYPES_MAX] = {0.0}, inner = 0.0, met = 0.0;
    for (uint32_t i = 0; i < gal_model_block_count(at->model); i++) {
        gal_block_shape shape;
        gal_model_block(at->model, i, &shape);
        of_type[shape.type] += 1.0;
        inner += is_inner(&shape);
    }
    for (uint32_t i = 0; i < block_count; i++) {
        met += is_inner(&block[i].shape) ? of_type[block[i].shape.type] : 0.0;
    }
    for (uint32_t i = 0; i < block_count; i++) {
        const uint32_t type = block[i].shape.type;
        repeats[type] = is_inner(&block[i].shape) ? of_type[type] * inner / met / at->stage_count : 1.0;
    }
}

static gal_code add_chain(gal_candidate_collector *c, const position *at, const gal_block_spec *block,
                          uint32_t block_count, const gal_strategy *upstream, double weight, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_program *program = NULL;
    gal_stage_spec spec = {.model = at->model,
                           .device_count = at->device_count,
                           .stage = at->stage,
                           .stage_count = at->stage_count,
                           .microbatch_samples = at->microbatch_samples,
                           .microbatch_count = at->microbatch_count,
                           .schedule = GAL_SCHEDULE_1F1B,
                           .prefetch_depth = 2};
    gal_layout_whole(at->microbatch_samples, &spec.entry_layout);
    if (upstream != NULL) {
        const gal_block_spec before = gal_block_spec_of(at->model, 1, upstream);
        gal_stage_spec above = spec;
        above.block_count = 1;
        above.block = &before;
        gal_flow_layouts behind;
        gal_layouts_after(&above, &behind);
        spec.entry_layout = behind.rows;
    }
    spec.block_count = block_count;
    spec.block = block;
    GAL_TRY(gal_lower_spec(&spec, &program, err));
    double repeats[GAL_TYPES_MAX];
    count_repeats(at, block, block_count, repeats);
    const gal_candidate_occurrence from = {.program = program,
                                           .model = at->model,
                                           .microbatch_count = at->microbatch_count,
                                           .repeats = repeats,
                                           .weight = weight};
    GAL_TRY(gal_candidate_add_program(c, &from, err));
cleanup:
    gal_program_free(program);
    return code;
}

/* The first block of each type. */
static uint32_t list_types(const gal_model *model, const gal_strategy *strategy, gal_block_spec *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < gal_model_block_count(model); i++) {
        if (gal_model_block_type(model, i) == count) {
            out[count++] = gal_block_spec_of(model, i, strategy);
        }
    }
    return count;
}

/* The stages of a plan with one strategy: the only one, or the first, one between if there is one, and the last. */
static gal_code add_uniform(gal_candidate_collector *c, position at, const gal_strategy *strategy, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_block_spec chain[GAL_TYPES_MAX];
    const uint32_t count = list_types(at.model, strategy, chain);
    if (at.stage_count == 1) {
        return add_chain(c, &at, chain, count, NULL, 1.0, err);
    }
    GAL_TRY(add_chain(c, &at, chain, count - 1, NULL, 1.0 / at.stage_count, err));
    if (at.stage_count > 2) {
        at.stage = 1;
        GAL_TRY(add_chain(c, &at, chain + 1, count - 2, strategy, (at.stage_count - 2.0) / at.stage_count, err));
    }
    at.stage = at.stage_count - 1;
    GAL_TRY(add_chain(c, &at, chain + 1, count - 1, strategy, 1.0 / at.stage_count, err));
cleanup:
    return code;
}

/* One strategy for every layout of rows. */
static uint32_t represent(const position *at, const gal_strategy *legal, uint32_t count, gal_strategy *out)
{
    gal_atoms atoms;
    gal_group seen[REPRESENTATIVES_MAX][2];
    uint32_t found = 0;
    gal_atoms_of(at->device_count, &atoms);
    for (uint32_t i = 0; i < count && found < REPRESENTATIVES_MAX; i++) {
        const gal_mesh mesh = gal_mesh_of(&atoms, &legal[i]);
        const gal_group samples = gal_mesh_samples(&mesh), sequence = gal_mesh_positions(&mesh, &legal[i]);
        uint32_t known = 0;
        while (known < found && (seen[known][0] != samples || seen[known][1] != sequence)) {
            known++;
        }
        if (known == found) {
            seen[found][0] = samples;
            seen[found][1] = sequence;
            out[found++] = legal[i];
        }
    }
    return found;
}

static gal_code add_conversions(gal_candidate_collector *c, const position *at, const gal_strategy *legal,
                                uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_strategy kept[REPRESENTATIVES_MAX];
    const uint32_t layouts = represent(at, legal, count, kept), head = gal_model_block_count(at->model) - 1;
    position alone = *at;
    alone.stage = 0;
    alone.stage_count = 1;
    for (uint32_t a = 0; a < layouts; a++) {
        for (uint32_t b = 0; b < layouts; b++) {
            const gal_block_spec there_and_back[3] = {gal_block_spec_of(at->model, 0, &kept[a]),
                                                      gal_block_spec_of(at->model, 1, &kept[b]),
                                                      gal_block_spec_of(at->model, head, &kept[a])};
            if (a != b) {
                GAL_TRY(add_chain(c, &alone, there_and_back, 3, NULL, conversion_weight / layouts, err));
            }
        }
    }
cleanup:
    return code;
}

/* What a rank that is a processor does for its "host" are kernels like any other; for a GPU's: measure_host.c. */
static gal_code add_offloaded(gal_candidate_collector *c, const position *at, const gal_strategy *legal, uint32_t count,
                              gal_error *err)
{
    gal_code code = GAL_OK;
    gal_strategy kept[REPRESENTATIVES_MAX];
    gal_block_spec chain[GAL_TYPES_MAX];
    const uint32_t layouts = represent(at, legal, count, kept);
    position alone = *at;
    alone.stage = 0;
    alone.stage_count = 1;
    for (uint32_t i = 0; c->settings->cluster->device.multiprocessor_count == 0 && i < layouts; i++) {
        kept[i].offload_optimizer_percent = 100;
        kept[i].offload_activations_percent = 100;
        const uint32_t blocks = list_types(at->model, &kept[i], chain);
        GAL_TRY(add_chain(c, &alone, chain, blocks, NULL, offload_weight / layouts, err));
    }
cleanup:
    return code;
}

static gal_code add_position(gal_candidate_collector *c, const position *at, gal_strategy *strategy, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t count = gal_strategies_list(at->device_count, strategy);
    uint32_t legal = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (gal_strategy_fits_all(at->model, &strategy[i], at->device_count, at->microbatch_samples)) {
            strategy[legal++] = strategy[i];
        }
    }
    for (uint32_t i = 0; i < legal; i++) {
        GAL_TRY(add_uniform(c, *at, &strategy[i], err));
    }
    GAL_TRY(add_conversions(c, at, strategy, legal, err));
    GAL_TRY(add_offloaded(c, at, strategy, legal, err));
cleanup:
    return code;
}

static gal_code add_batch(gal_candidate_collector *c, const gal_model *model, uint32_t batch, gal_strategy *strategy,
                          gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_candidate_settings *s = c->settings;
    for (uint32_t i = 0; i < s->microbatches_count; i++) {
        const uint32_t m = s->microbatches[i];
        for (uint32_t stages = 1; batch % m == 0 && stages <= s->rank_count; stages++) {
            if (s->rank_count % stages == 0 && stages <= gal_model_block_count(model)) {
                const position at = {.model = model,
                                     .device_count = s->rank_count / stages,
                                     .stage_count = stages,
                                     .microbatch_samples = batch / m,
                                     .microbatch_count = m};
                c->out->samples_max = batch / m > c->out->samples_max ? batch / m : c->out->samples_max;
                GAL_TRY(add_position(c, &at, strategy, err));
            }
        }
    }
cleanup:
    return code;
}

gal_code gal_candidates_list(const gal_candidate_settings *settings, gal_candidates *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_candidates found = {0};
    gal_candidate_collector c = {.settings = settings, .out = &found};
    gal_strategy *strategy = calloc(GAL_STRATEGIES_MAX, sizeof *strategy);
    if (strategy == NULL) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "out of memory: what to measure");
        goto cleanup;
    }
    for (uint32_t m = 0; m < settings->model_count; m++) {
        const gal_model *model = &settings->model[m];
        const uint32_t batch_count = settings->batch_count > 0 ? settings->batch_count : 1;
        for (uint32_t b = 0; b < batch_count; b++) {
            const uint32_t batch = settings->batch_count > 0 ? settings->batch[b] : model->global_batch_samples;
            GAL_TRY(add_batch(&c, model, batch, strategy, err));
        }
    }
    if (found.operator_count == 0) {
        code = gal_fail(err, GAL_ERR_USAGE,
                        "no strategy fits: the microbatches cannot be divided over %u ranks; choose --batch and "
                        "--microbatches",
                        settings->rank_count);
        goto cleanup;
    }
    gal_candidate_finish(&c);
    *out = found;
    found = (gal_candidates){0};
cleanup:
    free(c.slot);
    free(strategy);
    gal_candidates_free(&found);
    return code;
}

void gal_candidates_free(gal_candidates *candidates)
{
    free(candidates->operators);
    free(candidates->collectives);
    free(candidates->place);
    *candidates = (gal_candidates){0};
}
