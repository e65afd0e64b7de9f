#include "tests/support/random_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/plan_check.h"

enum { AXES_MAX = 1024, BLOCKS_MAX = 16 };

uint64_t gal_random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

uint32_t gal_random_below(uint64_t *state, uint32_t count)
{
    return (uint32_t)((gal_random_next(state) >> 32) * count >> 32);
}

double gal_random_between(uint64_t *state, double from, double to)
{
    return from * pow(to / from, (double)(gal_random_next(state) >> 11) / 9007199254740992.0);
}

static bool coin(uint64_t *random)
{
    return gal_random_below(random, 2) == 1;
}

/* ---- strategies: ordered axes first, then what they allow ---- */

typedef struct axes_list {
    uint32_t count;
    gal_strategy strategy[AXES_MAX];
} axes_list;

/* The switches that axes need to be legal at all. */
static gal_strategy with_least_switches(gal_strategy strategy)
{
    strategy.zero_stage = gal_strategy_degree(&strategy, GAL_AXIS_SDP) > 1 ? 1 : 0;
    return strategy;
}

/* The axes, and with every grid that those of TP make. */
static void add_modes(axes_list *list, const gal_strategy *axes)
{
    const uint32_t degree = gal_strategy_degree(axes, GAL_AXIS_TP);
    gal_strategy strategy = with_least_switches(*axes);
    for (uint32_t mode = 0; mode < GAL_TP_MODE_COUNT; mode++) {
        strategy.tp_mode = (gal_tp_mode)mode;
        for (uint32_t depth = mode == GAL_TP_2P5D ? 2 : 0; depth <= (mode == GAL_TP_2P5D ? degree : 0); depth++) {
            strategy.tp_depth = depth;
            if (mode == GAL_TP_1D || (degree > 1 && gal_strategy_grid_side(&strategy) > 0)) {
                GAL_ASSERT(list->count < AXES_MAX);
                list->strategy[list->count++] = strategy;
            }
        }
    }
}

/* Every order of axes whose degrees multiply to what is left. */
static void add_axes(axes_list *list, gal_strategy *strategy, uint32_t left, uint32_t used)
{
    if (left == 1) {
        add_modes(list, strategy);
        return;
    }
    for (uint32_t kind = 0; kind < GAL_AXIS_KIND_COUNT; kind++) {
        for (uint32_t degree = 2; (used >> kind & 1) == 0 && degree <= left; degree++) {
            if (left % degree == 0) {
                strategy->axis[strategy->axis_count++] = (gal_axis){(gal_axis_kind)kind, degree};
                add_axes(list, strategy, left / degree, used | 1u << kind);
                strategy->axis_count--;
            }
        }
    }
}

/* Of the legal ones; a quarter of the draws among grids, if there are any, and half of these among cubes: of both there
 * are few. */
static gal_strategy pick(uint64_t *random, const axes_list *list, uint32_t legal)
{
    uint32_t grid[AXES_MAX], cube[AXES_MAX], grids = 0, cubes = 0;
    for (uint32_t i = 0; i < legal; i++) {
        if (list->strategy[i].tp_mode != GAL_TP_1D) {
            grid[grids++] = i;
        }
        if (list->strategy[i].tp_mode == GAL_TP_3D) {
            cube[cubes++] = i;
        }
    }
    if (gal_random_below(random, 4) == 0 && grids > 0) {
        const uint32_t drawn = gal_random_below(random, grids);
        uint64_t apart = *random;
        const bool takes_cube = cubes > 0 && coin(&apart);
        return list->strategy[takes_cube ? cube[drawn % cubes] : grid[drawn]];
    }
    return list->strategy[gal_random_below(random, legal)];
}

static void random_strategy(uint64_t *random, const gal_model *model, uint32_t block, uint32_t devices,
                            uint32_t samples, gal_strategy *out)
{
    static axes_list all; /* tests run on one thread */
    axes_list *list = &all;
    gal_strategy empty;
    gal_block_shape shape;
    gal_model_block(model, block, &shape);
    memset(&empty, 0, sizeof empty);
    list->count = 0;
    add_axes(list, &empty, devices, 0);
    uint32_t legal = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        if (gal_strategy_block_rule_broken(model, &shape, &list->strategy[i], devices, samples) == NULL) {
            list->strategy[legal++] = list->strategy[i];
        }
    }
    GAL_ASSERT(legal > 0);
    *out = pick(random, list, legal);
    out->zero_stage = out->zero_stage > 0                     ? 1 + gal_random_below(random, 3)
                      : gal_strategy_sequence_degree(out) > 1 ? gal_random_below(random, 4)
                                                              : 0;
    out->sequence_parallel = coin(random);
    if (gal_strategy_block_rule_broken(model, &shape, out, devices, samples) != NULL) {
        out->sequence_parallel = false;
    }
    out->recompute = (gal_recompute)gal_random_below(random, GAL_RECOMPUTE_REPEAT);
    uint64_t apart = *random;
    out->keep_panels = out->tp_mode != GAL_TP_1D && out->recompute != GAL_RECOMPUTE_FULL && coin(&apart);
    if (out->tp_mode == GAL_TP_3D && out->zero_stage < 3 && coin(&apart)) {
        out->keep_weights = true;
        out->zero_stage = out->zero_stage > 0 ? out->zero_stage : 1 + gal_random_below(&apart, 2);
    }
    out->stepped = !out->keep_panels && (out->tp_mode == GAL_TP_2D || out->tp_mode == GAL_TP_2P5D) && coin(&apart);
}

/* Whether every block that holds the token table may have the axes of the first one's strategy. */
static bool fits_holders(const gal_model *model, const gal_strategy *strategy, uint32_t devices, uint32_t samples)
{
    gal_strategy axes = *strategy;
    axes.sequence_parallel = false;
    for (uint32_t b = 0; b < gal_model_block_count(model); b++) {
        gal_block_shape shape;
        gal_model_block(model, b, &shape);
        if ((shape.shared >> GAL_SHARED_TABLE & 1U) != 0 &&
            gal_strategy_block_rule_broken(model, &shape, &axes, devices, samples) != NULL) {
            return false;
        }
    }
    return true;
}

/* A kind of overlap, where one is legal, with the recompute that it needs; or of two sub-batches the one of the block
 * before, so that blocks run together. */
static void random_overlap(uint64_t *random, const gal_model *model, uint32_t block, uint32_t devices, uint32_t samples,
                           gal_overlap before, gal_strategy *strategy)
{
    gal_strategy with = *strategy;
    gal_block_shape shape;
    gal_model_block(model, block, &shape);
    with.overlap = (gal_overlap)gal_random_below(random, GAL_OVERLAP_COUNT);
    with.overlap = coin(random) && before != GAL_OVERLAP_NONE ? before : with.overlap;
    with.recompute = with.overlap > GAL_OVERLAP_IN_PASS ? GAL_RECOMPUTE_FULL : with.recompute;
    if (gal_strategy_block_rule_broken(model, &shape, &with, devices, samples) == NULL) {
        *strategy = with;
    }
}

/* All of forward again where what backward needs would be: of a draw of its own. */
static void random_repeat(uint64_t *random, gal_strategy *strategy)
{
    const bool draws = gal_random_below(random, 3) == 0;
    const bool may = strategy->recompute == GAL_RECOMPUTE_FULL && strategy->overlap == GAL_OVERLAP_NONE;
    strategy->recompute = draws && may ? GAL_RECOMPUTE_REPEAT : strategy->recompute;
}

/* ---- the plan ---- */

/* Keys and values of each head, or of two. */
static void turn_to_llama(uint64_t *random, gal_model *model)
{
    model->family = GAL_FAMILY_LLAMA;
    model->activation = GAL_ACTIVATION_SILU;
    model->kv_head_count = model->head_count; /* what every world divides */
    model->head_count *= coin(random) ? 1 : 2;
    model->head_dim = 2 + 2 * gal_random_below(random, 3);
    model->rotary_base = 100.0;
    model->qkv_bias = coin(random);
    model->embedding_dropout = 0.0;
    model->residual_dropout = 0.0;
}

static void turn_to_bert(uint64_t *random, gal_model *model)
{
    model->family = GAL_FAMILY_BERT;
    model->activation = GAL_ACTIVATION_GELU_ERF;
    model->type_count = 1 + gal_random_below(random, 3);
    model->mask_token = gal_random_below(random, model->vocabulary);
    model->embedding_dropout = 0.0; /* the residual's is that of the embedding too */
}

/* 9 or 16 patches and the class token: of these only 10 positions divide, and by 2 alone. */
static void turn_to_vit(uint64_t *random, gal_model *model)
{
    const bool small = gal_random_below(random, 3) > 0;
    model->family = GAL_FAMILY_VIT;
    model->activation = GAL_ACTIVATION_GELU_ERF;
    model->patch_size = 2;
    model->image_size = small ? 6 : 8;
    model->channel_count = small ? 3 : 1;
    model->sequence_length = small ? 10 : 17;
    model->pixel_mean = model->pixel_standard_deviation = 0.5;
    model->tied_embeddings = false;
}

/* Both stacks of 1 or 2 layers; targets shorter than the source, as long, or longer. */
static void turn_to_t5(uint64_t *random, gal_model *model)
{
    model->family = GAL_FAMILY_T5;
    model->layer_count = 1 + gal_random_below(random, 2);
    model->decoder_layer_count = 1 + gal_random_below(random, 2);
    model->decoder_sequence_length = model->sequence_length % 3 == 0 ? UINT32_C(6) << gal_random_below(random, 3)
                                                                     : UINT32_C(4) << gal_random_below(random, 3);
    model->head_dim = 2 + gal_random_below(random, 5);
    model->relative_bucket_count = 4 + 2 * gal_random_below(random, 4);
    model->relative_max_distance = model->relative_bucket_count / 2 + 1 + gal_random_below(random, 8);
    model->gated = coin(random);
    model->activation = model->gated ? GAL_ACTIVATION_GELU_TANH : GAL_ACTIVATION_RELU;
    model->embedding_dropout = 0.0;
}

/* Levels of 4 x 4 and 2 x 2 in windows of 2, of 8 x 8 and 4 x 4 in windows of 4, or of 8 x 8, 4 x 4 and 2 x 2 in
 * windows of 2; where 3 divides the world of 6 x 6 and 3 x 3 in windows of 3. No level of one position: there queries
 * and keys have no gradient but rounding, which Adam makes large. */
static void turn_to_swin(uint64_t *random, uint32_t world, gal_model *model)
{
    static const struct {
        uint32_t side, window, levels;
    } grids[] = {{4, 2, 2}, {8, 4, 2}, {8, 2, 3}, {6, 3, 2}};
    const uint32_t grid = world % 3 == 0 ? 3 : gal_random_below(random, 3);
    model->family = GAL_FAMILY_SWIN;
    model->activation = GAL_ACTIVATION_GELU_ERF;
    model->patch_size = 2;
    model->image_size = 2 * grids[grid].side;
    model->channel_count = 1 + gal_random_below(random, 3);
    model->sequence_length = grids[grid].side * grids[grid].side;
    model->window_size = grids[grid].window;
    model->pixel_mean = model->pixel_standard_deviation = 0.5;
    model->tied_embeddings = false;
    model->embedding_dropout = 0.0; /* the residual's is that of the embedding too */
    model->level_count = grids[grid].levels;
    model->layer_count = 0;
    for (uint32_t level = 0; level < model->level_count; level++) {
        model->level_head_count[level] = level > 0 && coin(random) ? 2 * model->head_count : model->head_count;
        model->level_layer_count[level] = 1 + gal_random_below(random, 4 - model->level_count);
        model->layer_count += model->level_layer_count[level];
    }
}

static void random_model(uint64_t *random, uint32_t world, gal_model *model)
{
    bool threes = world % 3 == 0;
    gal_model_defaults(model);
    snprintf(model->name, sizeof model->name, "tiny");
    model->layer_count = 2 + gal_random_below(random, 2);
    model->hidden = threes ? 48 : 32;
    model->head_count = threes ? 6 : (world == 8 ? 8 : 4);
    model->ffn_hidden = threes ? 96 : 64;
    model->sequence_length = threes ? 12 : UINT32_C(8) << gal_random_below(random, 2);
    model->vocabulary = 61;
    model->vocabulary_multiple = threes ? 12 : UINT32_C(8) << gal_random_below(random, 2);
    model->tied_embeddings = coin(random);
    model->compute_dtype = GAL_FP64;
    if (coin(random)) {
        model->embedding_dropout = coin(random) ? 0.1 : 0.0;
        model->attention_dropout = coin(random) ? 0.2 : 0.0;
        model->residual_dropout = coin(random) ? 0.1 : 0.0;
    }
    model->optimizer.kind = coin(random) ? GAL_OPTIMIZER_ADAM : GAL_OPTIMIZER_ADAMW;
    model->optimizer.gradient_clip_norm = coin(random) ? 1.0 : 0.0;
    switch (gal_random_below(random, 7)) {
    case 0:
    case 1:
        turn_to_llama(random, model);
        break;
    case 2:
        turn_to_bert(random, model);
        break;
    case 3:
        turn_to_vit(random, model);
        break;
    case 4:
        turn_to_t5(random, model);
        break;
    case 5:
        turn_to_swin(random, world, model);
        break;
    default: /* as it is */
        break;
    }
}

static void describe_cluster(uint32_t world, gal_cluster *cluster)
{
    memset(cluster, 0, sizeof *cluster);
    snprintf(cluster->name, sizeof cluster->name, "tiny");
    cluster->device_count = world;
    snprintf(cluster->device.kind, sizeof cluster->device.kind, "core");
    cluster->device.memory_bytes = UINT64_C(1) << 30;
    cluster->device.fp32_flops_per_second = 1e10;
    cluster->device.fp64_flops_per_second = 5e9;
    cluster->device.memory_bytes_per_second = 1e10;
    cluster->level_count = 1;
    snprintf(cluster->level[0].name, sizeof cluster->level[0].name, "memory");
    cluster->level[0].span_devices = world;
    cluster->level[0].latency_seconds = 1e-6;
    cluster->level[0].bytes_per_second = 1e9;
}

static void random_schedule(uint64_t *random, uint32_t blocks, gal_plan *plan)
{
    plan->schedule = (gal_schedule)gal_random_below(random, GAL_SCHEDULE_COUNT);
    const uint32_t chunks_most = blocks / plan->stage_count;
    if (plan->schedule == GAL_SCHEDULE_INTERLEAVED && plan->stage_count > 1 && chunks_most > 1) {
        plan->chunk_count = 2 + gal_random_below(random, chunks_most - 1);
    } else if (plan->schedule == GAL_SCHEDULE_INTERLEAVED) {
        plan->schedule = GAL_SCHEDULE_1F1B;
    }
}

/* A divisor of world that leaves no stage without a block. */
static uint32_t random_stage_count(uint64_t *random, uint32_t world, uint32_t blocks)
{
    uint32_t choice[16];
    uint32_t count = 0;
    for (uint32_t p = 1; p <= world && p <= blocks; p++) {
        if (world % p == 0) {
            choice[count++] = p;
        }
    }
    return choice[gal_random_below(random, count)];
}

/* Samples of a microbatch: half of the time as many as there are devices in a stage, so that any strategy is legal. Of
 * more than 8 ranks always: of the others there may be none. */
static void random_batch(uint64_t *random, uint32_t devices, bool large, gal_plan *plan)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 6, 8, 12, 16};
    uint32_t most = large ? 2 * devices : devices == 6 ? 24 : devices % 3 == 0 ? 18 : 16;
    plan->microbatch_count = 1 + gal_random_below(random, 4);
    uint32_t samples = devices;
    while (!large && coin(random)) {
        samples = sizes[gal_random_below(random, sizeof sizes / sizeof sizes[0])];
        if (samples * plan->microbatch_count <= most) {
            break;
        }
    }
    while (samples * plan->microbatch_count > most && plan->microbatch_count > 1) {
        plan->microbatch_count--;
    }
    plan->global_batch_samples = samples * plan->microbatch_count;
}

/* How many blocks each stage has: even, or wherever the cuts fall. */
static void random_partition(uint64_t *random, uint32_t blocks, uint32_t stages, uint32_t *count)
{
    bool even = coin(random);
    for (uint32_t s = 0; s < stages; s++) {
        count[s] = even ? blocks * (s + 1) / stages - blocks * s / stages : 1;
    }
    for (uint32_t left = even ? 0 : blocks - stages; left > 0; left--) {
        count[gal_random_below(random, stages)]++;
    }
}

static void fill_stages(gal_plan *plan, const uint32_t *count, const gal_strategy *strategy)
{
    uint32_t block = 0;
    for (uint32_t s = 0; s < gal_plan_piece_count(plan); s++) {
        gal_plan_stage *stage = &plan->stage[s];
        stage->first_run = plan->run_count;
        for (uint32_t i = 0; i < count[s]; i++, block++) {
            gal_plan_run *last = stage->run_count > 0 ? &plan->run[plan->run_count - 1] : NULL;
            if (last != NULL && gal_strategy_equal(&last->strategy, &strategy[block])) {
                last->block_count++;
                continue;
            }
            plan->run[plan->run_count++] = (gal_plan_run){1, strategy[block]};
            stage->run_count++;
        }
    }
}

void gal_random_plan(uint64_t seed, uint32_t world, gal_plan *out)
{
    uint64_t random = seed * UINT64_C(0x2545F4914F6CDD1D) + world;
    gal_strategy strategy[BLOCKS_MAX];
    uint32_t count[BLOCKS_MAX];
    memset(out, 0, sizeof *out);
    random_model(&random, world, &out->model);
    /* Every other model of tokens; by a draw of its own, so that the rest of the plan is that of the seed without it.
     */
    uint64_t draw = random ^ UINT64_C(0xA0761D6478BD642F);
    out->model.padding = !gal_model_sees_images(&out->model) && coin(&draw);
    describe_cluster(world, &out->cluster);
    uint32_t blocks = gal_model_block_count(&out->model);
    out->pp_degree = out->stage_count = random_stage_count(&random, world, blocks);
    uint32_t devices = world / out->pp_degree;
    random_batch(&random, devices, world > 8, out);
    random_schedule(&random, blocks, out);
    out->prefetch_depth = 1 + gal_random_below(&random, 2);
    out->model.global_batch_samples = out->global_batch_samples;
    uint32_t samples = gal_plan_microbatch_samples(out);
    for (uint32_t b = 0; b < blocks; b++) {
        do {
            random_strategy(&random, &out->model, b, devices, samples, &strategy[b]);
        } while (b == 0 && !fits_holders(&out->model, &strategy[0], devices, samples));
        gal_block_shape shape;
        gal_model_block(&out->model, b, &shape);
        if (b > 0 && coin(&random) &&
            gal_strategy_block_rule_broken(&out->model, &shape, &strategy[b - 1], devices, samples) == NULL) {
            strategy[b] = strategy[b - 1];
        }
        if (b > 0 && (shape.shared >> GAL_SHARED_TABLE & 1U) != 0) { /* all copies of the table in the same form */
            strategy[b] = strategy[0];
            strategy[b].recompute = (gal_recompute)gal_random_below(&random, GAL_RECOMPUTE_REPEAT);
            strategy[b].keep_panels = strategy[b].keep_panels && strategy[b].recompute != GAL_RECOMPUTE_FULL;
            strategy[b].sequence_parallel =
                strategy[b].sequence_parallel &&
                gal_strategy_block_rule_broken(&out->model, &shape, &strategy[b], devices, samples) == NULL;
        }
    }
    uint64_t overlaps = random ^ UINT64_C(0xE7037ED1A0B428DB); /* a draw of its own, as that of padding */
    for (uint32_t b = 0; b < blocks && out->schedule != GAL_SCHEDULE_ZERO_BUBBLE; b++) {
        random_overlap(&overlaps, &out->model, b, devices, samples, b > 0 ? strategy[b - 1].overlap : GAL_OVERLAP_NONE,
                       &strategy[b]);
    }
    uint64_t repeats = random ^ UINT64_C(0xA0761D6478BD642F);
    for (uint32_t b = 0; b < blocks; b++) {
        random_repeat(&repeats, &strategy[b]);
    }
    for (uint32_t b = 0; b < blocks; b++) { /* gal_plan_check: two buffers for two gathers of one weight */
        const bool two = strategy[b].tp_mode != GAL_TP_1D && strategy[b].zero_stage == 3;
        out->prefetch_depth = two ? 2 : out->prefetch_depth;
    }
    random_partition(&random, blocks, gal_plan_piece_count(out), count);
    out->stage = calloc(gal_plan_piece_count(out), sizeof *out->stage);
    out->run = calloc(blocks, sizeof *out->run);
    GAL_ASSERT(out->stage != NULL && out->run != NULL);
    fill_stages(out, count, strategy);
    gal_error error = {GAL_OK, ""};
    gal_code code = gal_plan_check(out, NULL, &error);
    if (code != GAL_OK) {
        fprintf(stderr, "random plan of seed %llu over %u ranks: %s\n", (unsigned long long)seed, world, error.text);
    }
    GAL_ASSERT(code == GAL_OK);
}

void gal_random_reuse(uint64_t seed, gal_plan *plan)
{
    uint64_t random = seed ^ UINT64_C(0xE7037ED1A0B428DB);
    plan->gradient_reuses_parameter = coin(&random);
    gal_error error = {GAL_OK, ""};
    if (gal_plan_check(plan, NULL, &error) != GAL_OK) {
        plan->gradient_reuses_parameter = false;
    }
}

static bool may_fetch(const gal_strategy *s)
{
    const bool gathers = s->tp_mode != GAL_TP_1D && !s->stepped;
    return s->zero_stage == 0 || (s->zero_stage == 3 && !gathers);
}

void gal_random_offload(uint64_t seed, gal_plan *plan)
{
    static const uint32_t percents[] = {0, 30, 60, 100, 100}, kept[] = {15, 45, 75, 100, 100, 100};
    static const struct {
        uint32_t optimizer, parameters;
    } shares[] = {{100, 100}, {100, 100}, {100, 60}, {60, 30}};
    uint64_t random = seed ^ UINT64_C(0x8EBC6AF09C88C6E3), of_shares = seed ^ UINT64_C(0x510E527FADE682D1);
    const bool parameters = gal_random_below(&random, 3) == 0;
    for (uint32_t r = 0; seed % 8 != 0 && !plan->gradient_reuses_parameter && r < plan->run_count; r++) {
        gal_strategy *s = &plan->run[r].strategy;
        const uint32_t share = gal_random_below(&of_shares, sizeof shares / sizeof shares[0]);
        s->offload_optimizer_percent = parameters
                                           ? shares[share].optimizer
                                           : percents[gal_random_below(&random, sizeof percents / sizeof percents[0])];
        s->offload_parameters_percent = parameters && may_fetch(s) ? shares[share].parameters : 0;
        const uint32_t part = kept[gal_random_below(&of_shares, sizeof kept / sizeof kept[0])];
        s->offload_activations_percent = gal_random_below(&random, 3) == 0 ? part : 0;
        if (s->overlap != GAL_OVERLAP_NONE || plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE) {
            s->offload_activations_percent = 0;
        }
        plan->prefetch_depth = gal_strategy_gathers_rule_broken(s, 1) != NULL ? 2 : plan->prefetch_depth;
    }
    gal_error err = {0}; /* the holders of a token table are alike */
    for (uint32_t r = plan->run_count; gal_plan_check(plan, NULL, &err) != GAL_OK && --r > 0;) {
        gal_strategy *s = &plan->run[r].strategy;
        const gal_strategy *first = &plan->run[0].strategy;
        s->offload_optimizer_percent = first->offload_optimizer_percent;
        s->offload_parameters_percent = may_fetch(s) ? first->offload_parameters_percent : 0;
        plan->prefetch_depth = gal_strategy_gathers_rule_broken(s, 1) != NULL ? 2 : plan->prefetch_depth;
    }
    GAL_ASSERT(gal_plan_check(plan, NULL, NULL) == GAL_OK);
}

static void store_activations(uint64_t seed, gal_plan *plan)
{
    uint64_t random = seed ^ UINT64_C(0xA54FF53A5F1D36F1);
    const uint32_t kind = gal_random_below(&random, 3);
    for (uint32_t r = 0; kind > 0 && r < plan->run_count; r++) {
        gal_strategy *s = &plan->run[r].strategy;
        const uint32_t most = s->offload_activations_percent;
        s->offload_storage_activations_percent = kind == 1 ? most : gal_random_below(&random, most + 1);
    }
}

static void store_all(bool weights, gal_strategy *s)
{
    s->offload_storage_percent = s->offload_optimizer_percent;
    s->offload_storage_parameters_percent = weights ? s->offload_parameters_percent : 0;
}

/* Weights of 16 bits are whole blocks in parts of two. */
static void fit_parts(gal_plan *plan)
{
    bool weights = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        weights = weights || plan->run[r].strategy.offload_storage_parameters_percent > 0;
    }
    if (weights && gal_dtype_is_narrow(plan->model.compute_dtype) &&
        plan->storage_part_bytes == GAL_STORAGE_BLOCK_BYTES) {
        plan->storage_part_bytes = 2 * GAL_STORAGE_BLOCK_BYTES;
    }
}

void gal_random_storage(uint64_t seed, gal_plan *plan)
{
    static const uint32_t parts[] = {GAL_STORAGE_BLOCK_BYTES, 2 * GAL_STORAGE_BLOCK_BYTES, 0};
    uint64_t random = seed ^ UINT64_C(0x589965CC75374CC3);
    const uint32_t kind = gal_random_below(&random, 3);
    uint64_t of_weights = seed ^ UINT64_C(0x3C6EF372FE94F82B);
    const uint32_t weights = gal_random_below(&of_weights, 3);
    plan->storage_part_bytes = kind > 0 ? parts[gal_random_below(&random, sizeof parts / sizeof parts[0])] : 0;
    for (uint32_t r = 0; kind > 0 && r < plan->run_count; r++) {
        gal_strategy *s = &plan->run[r].strategy;
        s->offload_storage_percent =
            kind == 1 ? s->offload_optimizer_percent : gal_random_below(&random, s->offload_optimizer_percent + 1);
        const uint32_t most = s->offload_storage_percent < s->offload_parameters_percent
                                  ? s->offload_storage_percent
                                  : s->offload_parameters_percent;
        s->offload_storage_parameters_percent = weights < 2 ? weights * most : gal_random_below(&of_weights, most + 1);
    }
    fit_parts(plan);
    store_activations(seed, plan);
    gal_error err = {0}; /* the holders of a token table are alike */
    for (uint32_t r = plan->run_count; gal_plan_check(plan, NULL, &err) != GAL_OK && --r > 0;) {
        store_all(weights > 0, &plan->run[r].strategy);
        err = (gal_error){0};
    }
    if (gal_plan_check(plan, NULL, NULL) != GAL_OK) {
        for (uint32_t r = 0; r < plan->run_count; r++) {
            store_all(weights > 0, &plan->run[r].strategy);
        }
    }
    GAL_ASSERT(gal_plan_check(plan, NULL, NULL) == GAL_OK);
}

void gal_random_masters(uint64_t seed, gal_plan *plan)
{
    uint64_t random = seed ^ UINT64_C(0xA4093822299F31D0);
    const bool all = coin(&random);
    const bool narrow = gal_dtype_is_narrow(plan->model.compute_dtype);
    fit_parts(plan);
    for (uint32_t r = 0; narrow && r < plan->run_count; r++) {
        gal_strategy *s = &plan->run[r].strategy;
        s->offload_storage_masters = s->offload_storage_percent > 0 && (all || coin(&random));
    }
    if (gal_plan_check(plan, NULL, NULL) != GAL_OK) { /* the holders of a token table are alike */
        for (uint32_t r = 0; r < plan->run_count; r++) {
            plan->run[r].strategy.offload_storage_masters = plan->run[r].strategy.offload_storage_percent > 0;
        }
    }
    GAL_ASSERT(gal_plan_check(plan, NULL, NULL) == GAL_OK);
}

void gal_random_shard_units(uint64_t seed, gal_plan *plan)
{
    uint64_t random = seed ^ UINT64_C(0x1F83D9ABFB41BD6B);
    const uint32_t elements = UINT32_C(1000) << gal_random_below(&random, 6);
    for (uint32_t r = 0; seed % 3 != 0 && r < plan->run_count; r++) {
        gal_strategy *s = &plan->run[r].strategy;
        const uint32_t drawn = gal_random_below(&random, 6);
        s->shard_unit = s->tp_mode != GAL_TP_1D || drawn == 0 ? GAL_SHARD_MATRIX
                        : drawn == 1                          ? GAL_SHARD_BUCKET
                                                              : GAL_SHARD_CHUNK;
        s->chunk_elements = s->shard_unit == GAL_SHARD_CHUNK ? elements : 0;
    }
    GAL_ASSERT(gal_plan_check(plan, NULL, NULL) == GAL_OK);
}
