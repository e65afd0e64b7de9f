/* Random plans as documents: the strategies of each run, and what a search writes beside them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/limits.h"
#include "tests/support/random_documents.h"
#include "tests/support/random_plan.h"

/* A legal strategy on a power of two of devices: their order and the switches are random. */
static gal_strategy random_strategy(uint64_t *seed, uint32_t devices)
{
    gal_strategy s = {0};
    uint32_t kind = gal_random_below(seed, GAL_AXIS_KIND_COUNT);
    while (devices > 1) {
        uint32_t degree = s.axis_count == GAL_AXIS_KIND_COUNT - 3 ? devices : 2u << gal_random_below(seed, 3);
        degree = degree > devices ? devices : degree;
        s.axis[s.axis_count++] = (gal_axis){(gal_axis_kind)kind, degree};
        do {
            kind = (kind + 1) % GAL_AXIS_KIND_COUNT;
        } while (gal_axis_splits_positions((gal_axis_kind)kind) && gal_strategy_sequence_degree(&s) > 1);
        devices /= degree;
    }
    const bool splits_positions = gal_strategy_sequence_degree(&s) > 1;
    s.zero_stage = gal_strategy_degree(&s, GAL_AXIS_SDP) > 1 ? 1 + gal_random_below(seed, 3)
                   : splits_positions                        ? gal_random_below(seed, 4)
                                                             : 0;
    const uint32_t tp = gal_strategy_degree(&s, GAL_AXIS_TP);
    if (!splits_positions && (tp == 4 || tp == 8)) { /* 2 x 2, twice or not */
        s.tp_mode = gal_random_below(seed, 2) == 0   ? GAL_TP_1D
                    : tp == 4                        ? GAL_TP_2D
                    : gal_random_below(seed, 2) == 0 ? GAL_TP_3D
                                                     : GAL_TP_2P5D;
        s.tp_depth = s.tp_mode == GAL_TP_2P5D ? 2 : 0;
    }
    s.sequence_parallel = tp > 1 && s.tp_mode == GAL_TP_1D && !splits_positions && gal_random_below(seed, 2) == 0;
    s.recompute = (gal_recompute)gal_random_below(seed, GAL_RECOMPUTE_COUNT);
    s.stepped = (s.tp_mode == GAL_TP_2D || s.tp_mode == GAL_TP_2P5D) && gal_random_below(seed, 2) == 0;
    s.keep_panels =
        !s.stepped && s.tp_mode != GAL_TP_1D && s.recompute < GAL_RECOMPUTE_FULL && gal_random_below(seed, 2) == 0;
    s.keep_weights = s.tp_mode == GAL_TP_3D && s.zero_stage < 3 && gal_random_below(seed, 2) == 0;
    s.zero_stage += s.keep_weights && s.zero_stage == 0 ? 1 + gal_random_below(seed, 2) : 0;
    s.offload_optimizer_percent = gal_random_below(seed, 2) * (1 + gal_random_below(seed, 100));
    const bool fetches = s.zero_stage == 0 || (s.zero_stage == 3 && (s.tp_mode == GAL_TP_1D || s.stepped));
    s.offload_parameters_percent =
        fetches && gal_random_below(seed, 2) == 0 ? gal_random_below(seed, s.offload_optimizer_percent + 1) : 0;
    s.offload_storage_percent = gal_random_below(seed, s.offload_optimizer_percent + 1);
    s.offload_storage_masters = s.offload_storage_percent > 0 && gal_random_below(seed, 2) == 0;
    s.offload_storage_parameters_percent = gal_random_below(
        seed, 1 + (s.offload_storage_percent < s.offload_parameters_percent ? s.offload_storage_percent
                                                                            : s.offload_parameters_percent));
    s.offload_activations_percent =
        s.overlap == GAL_OVERLAP_NONE ? gal_random_below(seed, 2) * (1 + gal_random_below(seed, 100)) : 0;
    s.offload_storage_activations_percent = gal_random_below(seed, s.offload_activations_percent + 1);
    s.shard_unit =
        s.tp_mode == GAL_TP_1D ? (gal_shard_unit)gal_random_below(seed, GAL_SHARD_UNIT_COUNT) : GAL_SHARD_MATRIX;
    s.chunk_elements = s.shard_unit == GAL_SHARD_CHUNK ? 1 + gal_random_below(seed, UINT32_MAX) : 0;
    return s;
}

static gal_u32_list random_list(uint64_t *seed, uint32_t most)
{
    gal_u32_list list = {.count = 1 + gal_random_below(seed, 4)};
    for (uint32_t i = 0; i < list.count; i++) {
        list.value[i] = 1 + gal_random_below(seed, most);
    }
    return list;
}

static gal_certificate random_certificate(uint64_t *seed)
{
    gal_certificate c = {.present = true,
                         .memory_bytes = 1 + gal_random_bytes(seed),
                         .microbatch_counts = random_list(seed, 1u << 24),
                         .pp_degrees = random_list(seed, 1u << 20),
                         .searched_bound_seconds = gal_random_real_or_zero(seed, 1e9)};
    bool *const part[] = {&c.space.axis[GAL_AXIS_DP],
                          &c.space.axis[GAL_AXIS_SDP],
                          &c.space.axis[GAL_AXIS_TP],
                          &c.space.zero_stage[1],
                          &c.space.zero_stage[2],
                          &c.space.zero_stage[3],
                          &c.space.sequence_parallel,
                          &c.space.recompute,
                          &c.space.selective,
                          &c.space.takeaway[1],
                          &c.space.takeaway[2],
                          &c.space.takeaway[3],
                          &c.space.axis[GAL_AXIS_ULYSSES],
                          &c.space.axis[GAL_AXIS_RING],
                          &c.space.axis[GAL_AXIS_ZIGZAG],
                          &c.space.tp_grid[GAL_TP_2D],
                          &c.space.tp_grid[GAL_TP_2P5D],
                          &c.space.tp_grid[GAL_TP_3D],
                          &c.space.keep_panels,
                          &c.space.stepped,
                          &c.space.overlap,
                          &c.space.offload,
                          &c.space.bucket,
                          &c.space.chunk};
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
        *part[i] = gal_random_below(seed, 2) == 0;
    }
    if (gal_random_below(seed, 2) == 0) {
        c.host =
            (gal_host_charge){.host_memory_bytes = 1 + gal_random_bytes(seed),
                              .seconds_per_byte = gal_random_real(seed, GAL_SECONDS_PER_BYTE_MIN, GAL_SECONDS_MAX)};
        c.host.storage = gal_random_below(seed, 2) == 0;
        c.host.masters = c.host.storage && gal_random_below(seed, 2) == 0;
        c.host.weights = c.host.storage && gal_random_below(seed, 2) == 0;
        c.host.activations = c.host.storage && gal_random_below(seed, 2) == 0;
    }
    return c;
}

/* A risk, and a pricing by a framework that ships with or without constants; both or none. */
static void random_prices(uint64_t *seed, gal_plan *plan)
{
    gal_error err = {0};
    if (gal_random_below(seed, 3) == 0) {
        plan->risk = (gal_risk){.present = true,
                                .quantile = 0.5 + 0.004 * gal_random_below(seed, 100),
                                .memory_bytes = 1 + gal_random_bytes(seed)};
        plan->risk.quantile_seconds = gal_random_real_or_zero(seed, 1e9);
        plan->risk.memory_chance = (1.0 - plan->risk.quantile) / (1.0 + gal_random_below(seed, 9));
    }
    if (gal_random_below(seed, 3) == 0) {
        gal_pricing *pricing = &plan->pricing;
        *pricing = (gal_pricing){.present = true, .bytes = 1 + gal_random_bytes(seed)};
        GAL_ASSERT(gal_framework_read("megatron-2021", &pricing->framework, &err) == GAL_OK);
        pricing->framework.step_seconds = gal_random_real_or_zero(seed, 1.0);
        plan->certificate.objective = plan->certificate.present ? GAL_OBJECTIVE_FRAMEWORK : GAL_OBJECTIVE_PIPELINE_SUM;
        if (gal_random_below(seed, 2) == 0) {
            pricing->constants = (gal_constants){.name = "c", .cluster = "d", .framework = "e", .row_count = 3};
            pricing->constants.seconds_low_factor = 0.5;
            pricing->constants.seconds_high_factor = 1.0 + gal_random_real_or_zero(seed, 1.0);
            pricing->constants.fitted[GAL_CONSTANT_STEP_SECONDS] = true;
            pricing->constants.value[GAL_CONSTANT_STEP_SECONDS] = 0.25;
        }
    }
}

/* Sizes are multiples of 64 = the most devices, so that every strategy is legal. */
static void draw_model(uint64_t *seed, gal_model *model)
{
    *model = gal_random_model(seed);
    model->layer_count = 1 + gal_random_below(seed, 12);
    model->head_count = model->hidden = 64;
    model->kv_head_count = model->family == GAL_FAMILY_LLAMA ? 64 : 0;
    model->ffn_hidden = model->vocabulary_multiple = 128;
    model->sequence_length = 64;
    const bool encodes = model->family == GAL_FAMILY_T5;
    model->decoder_layer_count = encodes ? 1 + gal_random_below(seed, 12) : 0;
    model->decoder_sequence_length = encodes ? 128 : 0;
}

static void draw_cluster(uint64_t *seed, gal_cluster *cluster)
{
    *cluster = gal_random_cluster(seed);
    cluster->level_count = 1;
    cluster->device_count = cluster->level[0].span_devices = 1u << gal_random_below(seed, 7);
    memset(&cluster->level[1], 0, sizeof cluster->level - sizeof cluster->level[0]);
}

/* All that is neither model, cluster nor blocks. */
static void draw_numbers(uint64_t *seed, gal_plan *p)
{
    p->microbatch_count = 1 + gal_random_below(seed, 16);
    p->global_batch_samples = 64 * (1 + gal_random_below(seed, 4)) * p->microbatch_count;
    p->pp_degree = 1u << gal_random_below(seed, 3);
    p->pp_degree = p->pp_degree > p->cluster.device_count ? p->cluster.device_count : p->pp_degree;
    p->schedule = (gal_schedule)gal_random_below(seed, GAL_SCHEDULE_COUNT);
    p->prefetch_depth = 1 + gal_random_below(seed, 2);
    p->communication_ctas = gal_random_below(seed, 1 + GAL_COMMUNICATION_CTAS_MAX);
    if (gal_random_below(seed, 2) == 0) { /* of weights of 16 bits a part is two blocks at least */
        p->storage_part_bytes = GAL_STORAGE_BLOCK_BYTES *
                                (2 + gal_random_below(seed, GAL_STORAGE_PART_BYTES_MAX / GAL_STORAGE_BLOCK_BYTES - 1));
    }
    p->fixed_bytes = gal_random_bytes(seed);
    p->objective_seconds = gal_random_real_or_zero(seed, 1e9);
    p->simulated_seconds = gal_random_real_or_zero(seed, 1e9);
    p->simulated_low_seconds = p->simulated_seconds * 0.75;
    p->simulated_high_seconds = p->simulated_seconds;
    p->lower_bound_seconds = gal_random_real_or_zero(seed, 1e9);
    if (gal_random_below(seed, 2) == 0) {
        (void)snprintf(p->profile_hash, sizeof p->profile_hash, "%016llx", (unsigned long long)gal_random_next(seed));
    }
    const uint32_t blocks = gal_model_block_count(&p->model);
    p->stage_count = p->pp_degree;
    if (p->schedule == GAL_SCHEDULE_INTERLEAVED && p->pp_degree > 1 && blocks >= 2 * p->pp_degree) {
        p->chunk_count = 2 + gal_random_below(seed, blocks / p->pp_degree - 1);
    } else if (p->schedule == GAL_SCHEDULE_INTERLEAVED) {
        p->schedule = GAL_SCHEDULE_GPIPE;
    }
}

/* One that is legal for the plan's model and schedule. */
static gal_strategy draw_strategy(uint64_t *seed, const gal_plan *p)
{
    gal_strategy own = random_strategy(seed, p->cluster.device_count / p->pp_degree);
    const bool biased = p->model.family == GAL_FAMILY_T5 || p->model.family == GAL_FAMILY_SWIN;
    const bool causal = p->model.family == GAL_FAMILY_DECODER || p->model.family == GAL_FAMILY_LLAMA;
    const bool rings = !biased && (causal || !p->model.padding);
    for (uint32_t a = 0; a < own.axis_count; a++) { /* their attention has no ring, or no zigzag */
        gal_axis_kind *kind = &own.axis[a].kind;
        *kind = *kind == GAL_AXIS_ZIGZAG && !causal ? GAL_AXIS_RING : *kind;
        *kind = !rings && *kind == GAL_AXIS_RING ? GAL_AXIS_ULYSSES : *kind;
    }
    own.offload_activations_percent = p->schedule != GAL_SCHEDULE_ZERO_BUBBLE ? own.offload_activations_percent : 0;
    own.offload_storage_activations_percent =
        own.offload_activations_percent > 0 ? own.offload_storage_activations_percent : 0;
    if (biased || own.zero_stage == 3) {
        const bool shards = gal_strategy_degree(&own, GAL_AXIS_SDP) * gal_strategy_sequence_degree(&own) > 1;
        own.zero_stage = shards ? own.zero_stage : 0;
        own.keep_panels = own.keep_weights = own.stepped = false;
        own.tp_mode = GAL_TP_1D; /* none of their rules for grids; or a rule of the prefetch depth */
        own.tp_depth = 0;
    }
    return own;
}

/* The holders of a token table are to be alike: an encoder-decoder has one strategy. */
static void draw_runs(uint64_t *seed, uint32_t block_count, gal_plan_stage *stage, gal_plan *p)
{
    stage->first_run = p->run_count;
    for (uint32_t left = block_count; left > 0; left -= p->run[p->run_count++].block_count) {
        const uint32_t count = 1 + gal_random_below(seed, left);
        const gal_strategy own = draw_strategy(seed, p);
        const bool repeats = p->model.family == GAL_FAMILY_T5 && p->run_count > 0;
        p->run[p->run_count] = (gal_plan_run){count, repeats ? p->run[0].strategy : own};
    }
    stage->run_count = p->run_count - stage->first_run;
}

gal_plan gal_random_plan_document(uint64_t *seed)
{
    gal_plan p = {0};
    draw_model(seed, &p.model);
    draw_cluster(seed, &p.cluster);
    draw_numbers(seed, &p);
    const uint32_t pieces = gal_plan_piece_count(&p);
    uint32_t left = gal_model_block_count(&p.model);
    p.stage = calloc(pieces, sizeof *p.stage);
    p.run = calloc(left, sizeof *p.run);
    GAL_ASSERT(p.stage != NULL && p.run != NULL);
    for (uint32_t s = 0; s < pieces; s++) {
        const uint32_t after = pieces - s - 1;
        const uint32_t here = after == 0 ? left : 1 + gal_random_below(seed, left - after);
        p.stage[s].predicted_bytes = gal_random_bytes(seed);
        p.stage[s].predicted_host_bytes = gal_random_below(seed, 2) == 0 ? 0 : 1 + gal_random_bytes(seed);
        p.stage[s].predicted_storage_bytes = gal_random_below(seed, 2) == 0 ? 0 : 1 + gal_random_bytes(seed);
        draw_runs(seed, here, &p.stage[s], &p);
        left -= here;
    }
    for (uint32_t r = 0; r < p.run_count; r++) {
        p.prefetch_depth = p.run[r].strategy.offload_parameters_percent > 0 ? 2 : p.prefetch_depth;
        p.model.compute_dtype = p.run[r].strategy.offload_storage_masters ? GAL_BF16 : p.model.compute_dtype;
    }
    p.model.tied_embeddings = false;
    if (gal_random_below(seed, 2) == 0) {
        p.certificate = random_certificate(seed);
    }
    random_prices(seed, &p);
    return p;
}
