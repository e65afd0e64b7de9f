/* Seeded random documents: write -> read gives the same bits in every field, and write -> read -> write the same
 * bytes. A failure prints its seed; GAL_SEED=n in the environment starts there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "schemas/base/file.h"
#include "schemas/document.h"
#include "schemas/limits.h"
#include "schemas/plan_check.h"
#include "tests/support/random_problem.h"

enum { CASES = 500 };

/* splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014) */
static uint64_t next(uint64_t *seed)
{
    uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint32_t below(uint64_t *seed, uint64_t count)
{
    return (uint32_t)(next(seed) % count);
}

/* Any double of [min, max] whose bits are all random, or a whole one now and then; min > 0. */
static double real(uint64_t *seed, double min, double max)
{
    if (below(seed, 8) == 0) {
        return max >= 1.0 && min <= 1.0 ? 1.0 : max;
    }
    double unit = (double)(next(seed) >> 11) * 0x1p-53;
    double value = exp(log(min) + unit * (log(max) - log(min)));
    return value < min ? min : value > max ? max : value;
}

static double real_or_zero(uint64_t *seed, double max)
{
    return below(seed, 3) == 0 ? 0.0 : real(seed, DBL_MIN, max);
}

static uint64_t bytes(uint64_t *seed)
{
    return 1 + (next(seed) >> (11 + below(seed, 52)));
}

/* Any characters that JSON must escape or pass on, and some of several bytes. */
static void text(uint64_t *seed, char *buffer, size_t capacity)
{
    static const char *const letters[] = {"a",  "Z",  "0",    " ",    "\"",       "\\",           "/",
                                          "\n", "\t", "\x01", "\x7f", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    size_t used = 0;
    uint32_t count = 1 + below(seed, capacity - 1);
    for (uint32_t i = 0; i < count; i++) {
        const char *letter = letters[below(seed, sizeof letters / sizeof letters[0])];
        if (used + strlen(letter) >= capacity) {
            break;
        }
        memcpy(buffer + used, letter, strlen(letter));
        used += strlen(letter);
    }
    if (used == 0) {
        buffer[used++] = 'x';
    }
    buffer[used] = '\0';
}

static void turn_to_llama(uint64_t *seed, gal_model *m)
{
    m->family = GAL_FAMILY_LLAMA;
    m->kv_head_count = 1 + below(seed, 16);
    m->head_count = m->kv_head_count * (1 + below(seed, 8));
    m->head_dim = 2 + 2 * below(seed, 512);
    m->rotary_base = real(seed, 1.0, 1e12);
    if (below(seed, 2) == 1) {
        m->rotary_scaling = (gal_rotary_scaling){.kind = GAL_ROTARY_SCALING_LINEAR, .factor = real(seed, 1.0, 1e6)};
    } else if (below(seed, 2) == 1) {
        m->rotary_scaling = (gal_rotary_scaling){.kind = GAL_ROTARY_SCALING_LLAMA3,
                                                 .factor = real(seed, 1.0, 1e6),
                                                 .low_frequency_factor = real(seed, 1e-3, 10.0),
                                                 .high_frequency_factor = real(seed, 11.0, 1e6),
                                                 .original_positions = 1 + below(seed, 32768)};
    }
    m->qkv_bias = below(seed, 2) == 1;
    m->embedding_dropout = 0.0;
    m->residual_dropout = 0.0;
}

static void turn_to_t5(uint64_t *seed, gal_model *m)
{
    m->family = GAL_FAMILY_T5;
    m->decoder_layer_count = 1 + below(seed, GAL_LAYERS_MAX);
    m->decoder_sequence_length = 1 + below(seed, 32768);
    m->head_dim = 1 + below(seed, 256);
    m->relative_bucket_count = 4 + 2 * below(seed, 64);
    m->relative_max_distance = m->relative_bucket_count / 2 + 1 + below(seed, 32768);
    m->gated = below(seed, 2) == 1;
    m->embedding_dropout = 0.0;
}

/* Windows of any number of positions, an even number of them across each level. */
static void turn_to_swin(uint64_t *seed, gal_model *m)
{
    m->family = GAL_FAMILY_SWIN;
    m->tied_embeddings = m->padding = false;
    m->window_size = 1 + below(seed, 12);
    m->level_count = 1 + below(seed, GAL_LEVELS_MAX);
    m->patch_size = 1 + below(seed, 4);
    m->image_size = m->patch_size * (m->window_size << m->level_count);
    m->channel_count = 1 + below(seed, GAL_CHANNELS_MAX);
    m->pixel_mean = real(seed, DBL_MIN, 1.0);
    m->pixel_standard_deviation = real(seed, 1e-6, 1e6);
    m->sequence_length = (m->window_size << m->level_count) * (m->window_size << m->level_count);
    m->hidden = m->head_count * (1 + below(seed, 64));
    m->ffn_hidden = 1 + below(seed, GAL_FFN_HIDDEN_MAX >> GAL_LEVELS_MAX);
    m->global_batch_samples = 1 + below(seed, 1024);
    m->layer_count = 0;
    for (uint32_t level = 0; level < m->level_count; level++) {
        m->level_head_count[level] = m->head_count;
        m->level_layer_count[level] = 1 + below(seed, GAL_LAYERS_MAX / GAL_LEVELS_MAX);
        m->layer_count += m->level_layer_count[level];
    }
    m->embedding_dropout = 0.0;
}

static gal_model random_model(uint64_t *seed)
{
    gal_model m = {0};
    text(seed, m.name, sizeof m.name);
    m.layer_count = 1 + below(seed, GAL_LAYERS_MAX);
    m.head_count = 1 + below(seed, 64);
    m.hidden = m.head_count * (1 + below(seed, 256));
    m.ffn_hidden = 1 + below(seed, GAL_FFN_HIDDEN_MAX);
    m.sequence_length = 1 + below(seed, 32768);
    m.vocabulary = 1 + below(seed, GAL_VOCABULARY_MAX);
    m.vocabulary_multiple = 1 + below(seed, GAL_VOCABULARY_MULTIPLE_MAX);
    m.activation = (gal_activation)below(seed, GAL_ACTIVATION_COUNT);
    m.tied_embeddings = below(seed, 2) == 1;
    m.padding = below(seed, 2) == 1;
    m.norm_epsilon = real(seed, DBL_MIN, 1.0);
    m.embedding_dropout = real_or_zero(seed, GAL_JSON_BELOW_ONE);
    m.attention_dropout = real_or_zero(seed, GAL_JSON_BELOW_ONE);
    m.residual_dropout = real_or_zero(seed, GAL_JSON_BELOW_ONE);
    m.initial_standard_deviation = real(seed, DBL_MIN, 10.0);
    m.compute_dtype = below(seed, 2) == 0 ? GAL_FP32 : GAL_FP64;
    m.global_batch_samples = 1 + below(seed, 32768);
    m.optimizer.kind = (gal_optimizer_kind)below(seed, GAL_OPTIMIZER_COUNT);
    m.optimizer.learning_rate = real(seed, 1e-30, 1000.0);
    m.optimizer.minimum_learning_rate = real_or_zero(seed, 1.0) * m.optimizer.learning_rate;
    m.optimizer.warmup_steps = below(seed, GAL_STEPS_MAX);
    m.optimizer.decay_steps = below(seed, GAL_STEPS_MAX);
    m.optimizer.beta1 = real_or_zero(seed, GAL_JSON_BELOW_ONE);
    m.optimizer.beta2 = real_or_zero(seed, GAL_JSON_BELOW_ONE);
    m.optimizer.epsilon = real(seed, DBL_MIN, 1.0);
    m.optimizer.weight_decay = real_or_zero(seed, 1000.0);
    m.optimizer.gradient_clip_norm = real_or_zero(seed, 1e9);
    switch (below(seed, 3)) {
    case 0:
        turn_to_llama(seed, &m);
        break;
    case 1:
        turn_to_t5(seed, &m);
        break;
    default: /* as it is */
        break;
    }
    return m;
}

static gal_cluster random_cluster(uint64_t *seed)
{
    gal_cluster c = {0};
    text(seed, c.name, sizeof c.name);
    text(seed, c.device.kind, sizeof c.device.kind);
    c.device.memory_bytes = bytes(seed);
    c.device.fp32_flops_per_second = real(seed, DBL_MIN, GAL_RATE_MAX);
    c.device.fp64_flops_per_second = real(seed, 1.0, 1e15);
    c.device.memory_bytes_per_second = real(seed, 1.0, GAL_RATE_MAX);
    c.device.tf32_flops_per_second = below(seed, 2) == 0 ? 0.0 : real(seed, DBL_MIN, GAL_RATE_MAX);
    c.device.fp16_flops_per_second = below(seed, 2) == 0 ? 0.0 : real(seed, DBL_MIN, GAL_RATE_MAX);
    c.device.bf16_flops_per_second = below(seed, 2) == 0 ? 0.0 : real(seed, DBL_MIN, GAL_RATE_MAX);
    c.device.multiprocessor_count = below(seed, 2) == 0 ? 0 : 1 + below(seed, 65536);
    c.device.launch_seconds = below(seed, 2) == 0 ? 0.0 : real(seed, DBL_MIN, GAL_SECONDS_MAX);
    c.device.gemm_fraction = below(seed, 2) == 0 ? 0.0 : real(seed, DBL_MIN, 1.0);
    c.device.memory_fraction = below(seed, 2) == 0 ? 0.0 : real(seed, DBL_MIN, 1.0);
    c.device.host_memory_bytes = below(seed, 2) == 0 ? 0 : 1 + bytes(seed);
    c.device.host_memory_bytes_per_second = below(seed, 2) == 0 ? 0.0 : real(seed, DBL_MIN, GAL_RATE_MAX);
    c.device.host_copy_bytes_per_second = below(seed, 2) == 0 ? 0.0 : real(seed, DBL_MIN, GAL_RATE_MAX);
    c.device.storage_bytes = below(seed, 2) == 0 ? 0 : 1 + bytes(seed);
    c.device.storage_read_bytes_per_second = below(seed, 2) == 0 ? 0.0 : real(seed, DBL_MIN, GAL_RATE_MAX);
    c.device.storage_write_bytes_per_second = below(seed, 2) == 0 ? 0.0 : real(seed, DBL_MIN, GAL_RATE_MAX);
    c.device.storage_read_latency_seconds = below(seed, 2) == 0 ? 0.0 : real(seed, DBL_MIN, GAL_SECONDS_MAX);
    c.device.storage_write_latency_seconds = below(seed, 2) == 0 ? 0.0 : real(seed, DBL_MIN, GAL_SECONDS_MAX);
    c.level_count = 1 + below(seed, GAL_LINK_LEVELS_MAX);
    c.device_count = 1;
    for (uint32_t i = 0; i < c.level_count; i++) {
        c.device_count *= 2 + below(seed, 3);
        text(seed, c.level[i].name, sizeof c.level[i].name);
        c.level[i].span_devices = c.device_count;
        c.level[i].latency_seconds = real_or_zero(seed, GAL_SECONDS_MAX);
        c.level[i].bytes_per_second = real(seed, DBL_MIN, GAL_RATE_MAX);
        c.level[i].achievable_fraction = below(seed, 2) == 0 ? 0.0 : real(seed, DBL_MIN, 1.0);
        c.level[i].shared = below(seed, 2) == 0;
    }
    return c;
}

static gal_op random_op(uint64_t *seed, bool is_collective)
{
    gal_op op;
    do {
        op = (gal_op)below(seed, GAL_OP_COUNT);
    } while ((gal_op_is_collective[op] != 0) != is_collective || op == GAL_OP_RECEIVE || op == GAL_OP_SEND);
    return op;
}

/* Entries get distinct keys: their number is in the first dimension, or in the bytes. */
static void random_tables(uint64_t *seed, gal_profile *p)
{
    p->operator_count = below(seed, 20);
    p->collective_count = below(seed, 20);
    p->block_count = below(seed, 5);
    p->operators = calloc(20, sizeof *p->operators);
    p->collectives = calloc(20, sizeof *p->collectives);
    p->blocks = calloc(5, sizeof *p->blocks);
    assert_true(p->operators != NULL && p->collectives != NULL && p->blocks != NULL);
    for (uint32_t i = 0; i < p->operator_count; i++) {
        gal_profile_operator *entry = &p->operators[i];
        entry->shape.op = random_op(seed, false);
        entry->shape.dtype = (gal_dtype)below(seed, GAL_DTYPE_COUNT);
        for (uint32_t d = 0; d < gal_op_dim_count[entry->shape.op]; d++) {
            entry->shape.dims[d] = d == 0 ? i : (uint32_t)next(seed);
        }
        entry->seconds = real_or_zero(seed, GAL_SECONDS_MAX);
        entry->spread_seconds = real_or_zero(seed, 1.0);
        entry->source = (gal_source)below(seed, GAL_SOURCE_COUNT);
    }
    for (uint32_t i = 0; i < p->collective_count; i++) {
        gal_profile_collective *entry = &p->collectives[i];
        entry->op = random_op(seed, true);
        for (uint32_t l = 0; l < GAL_LINK_LEVELS_MAX; l++) {
            entry->level_counts[l] = l == 0 ? 2 : l < p->cluster.level_count ? 1 + below(seed, 2) : 1;
        }
        entry->bytes = bytes(seed) / 32 * 32 + i + 1;
        entry->bytes = entry->bytes > GAL_BYTES_MAX ? GAL_BYTES_MAX - i : entry->bytes;
        entry->seconds = real_or_zero(seed, GAL_SECONDS_MAX);
        entry->source = (gal_source)below(seed, GAL_SOURCE_COUNT);
    }
    for (uint32_t i = 0; i < p->block_count; i++) {
        p->blocks[i] = (gal_profile_block){.kind = (gal_block_kind)below(seed, GAL_BLOCK_KIND_COUNT),
                                           .tp_degree = 1 + below(seed, 64),
                                           .samples = 1 + below(seed, 64),
                                           .forward_seconds = real(seed, DBL_MIN, 10.0),
                                           .backward_seconds = real(seed, 1e-9, 10.0),
                                           .forward_operator_seconds = real(seed, 1e-9, 10.0),
                                           .backward_operator_seconds = real(seed, 1e-9, 10.0)};
        gal_profile_again *again = below(seed, 2) == 0 ? &p->blocks[i].backward_full : &p->blocks[i].backward_selective;
        *again = (gal_profile_again){real(seed, 1e-9, 10.0), real(seed, 1e-9, 10.0)};
    }
}

static gal_profile_copies random_copies(uint64_t *seed)
{
    return (gal_profile_copies){real_or_zero(seed, 1.0), real(seed, 1.0, 1e12)};
}

static gal_profile_gpu random_gpu(uint64_t *seed)
{
    gal_profile_gpu gpu = {.context_bytes = bytes(seed),
                           .library_bytes = bytes(seed),
                           .communicator_bytes = bytes(seed),
                           .clock_hertz = real_or_zero(seed, 3e9),
                           .clock_hertz_max = real_or_zero(seed, 3e9),
                           .tf32 = below(seed, 2) == 0,
                           .by_ctas_count = below(seed, GAL_PROFILE_CTAS_MAX + 1)};
    for (uint32_t i = 0; i < gpu.by_ctas_count; i++) {
        gpu.by_ctas[i] = (gal_profile_ctas){4 * i + 1 + below(seed, 4), real(seed, 1.0, 3.0), real(seed, 1.0, 3.0),
                                            real_or_zero(seed, 900.0)};
    }
    return gpu;
}

static gal_profile_host random_host(uint64_t *seed)
{
    gal_profile_host host = {.threads_per_rank = 1 + below(seed, GAL_PROFILE_THREADS_MAX),
                             .adam_count = 1 + below(seed, GAL_PROFILE_ADAMS_MAX),
                             .node_count = 1 + below(seed, GAL_PROFILE_NODES_MAX)};
    for (uint32_t i = 0; i < host.adam_count; i++) {
        host.adam[i] = (gal_profile_adam){4 * i + 1 + below(seed, 4), real(seed, 1.0, 1e10)};
    }
    for (uint32_t i = 0; i < host.node_count; i++) {
        host.node[i] = (gal_profile_node){4 * i + below(seed, 4), random_copies(seed), random_copies(seed)};
    }
    return host;
}

static gal_profile random_profile(uint64_t *seed)
{
    gal_profile p = {0};
    p.cluster = random_cluster(seed);
    text(seed, p.date, sizeof p.date);
    text(seed, p.processor, sizeof p.processor);
    text(seed, p.libraries, sizeof p.libraries);
    text(seed, p.command, sizeof p.command);
    p.rank_count = 1 + below(seed, GAL_DEVICES_MAX);
    p.fixed_bytes = bytes(seed);
    p.fixed_step_seconds = real_or_zero(seed, 1.0);
    p.instruction_seconds = real_or_zero(seed, 1.0);
    for (uint32_t i = 0; i < GAL_ACTIVITY_COUNT * GAL_ACTIVITY_COUNT; i++) {
        p.slowdown[i / GAL_ACTIVITY_COUNT][i % GAL_ACTIVITY_COUNT] = real(seed, 1.0, 3.0);
    }
    p.has_host = below(seed, 2) == 0;
    if (p.has_host) {
        p.host = random_host(seed);
    }
    p.has_gpu = below(seed, 2) == 0;
    if (p.has_gpu) {
        p.gpu = random_gpu(seed);
    }
    random_tables(seed, &p);
    return p;
}

/* A legal strategy on a power of two of devices: their order and the switches are random. */
static gal_strategy random_strategy(uint64_t *seed, uint32_t devices)
{
    gal_strategy s = {0};
    uint32_t kind = below(seed, GAL_AXIS_KIND_COUNT);
    while (devices > 1) {
        uint32_t degree = s.axis_count == GAL_AXIS_KIND_COUNT - 3 ? devices : 2u << below(seed, 3);
        degree = degree > devices ? devices : degree;
        s.axis[s.axis_count++] = (gal_axis){(gal_axis_kind)kind, degree};
        do {
            kind = (kind + 1) % GAL_AXIS_KIND_COUNT;
        } while (gal_axis_splits_positions((gal_axis_kind)kind) && gal_strategy_sequence_degree(&s) > 1);
        devices /= degree;
    }
    const bool splits_positions = gal_strategy_sequence_degree(&s) > 1;
    s.zero_stage = gal_strategy_degree(&s, GAL_AXIS_SDP) > 1 ? 1 + below(seed, 3)
                   : splits_positions                        ? below(seed, 4)
                                                             : 0;
    const uint32_t tp = gal_strategy_degree(&s, GAL_AXIS_TP);
    if (!splits_positions && (tp == 4 || tp == 8)) { /* 2 x 2, twice or not */
        s.tp_mode = below(seed, 2) == 0   ? GAL_TP_1D
                    : tp == 4             ? GAL_TP_2D
                    : below(seed, 2) == 0 ? GAL_TP_3D
                                          : GAL_TP_2P5D;
        s.tp_depth = s.tp_mode == GAL_TP_2P5D ? 2 : 0;
    }
    s.sequence_parallel = tp > 1 && s.tp_mode == GAL_TP_1D && !splits_positions && below(seed, 2) == 0;
    s.recompute = (gal_recompute)below(seed, GAL_RECOMPUTE_COUNT);
    s.stepped = (s.tp_mode == GAL_TP_2D || s.tp_mode == GAL_TP_2P5D) && below(seed, 2) == 0;
    s.keep_panels = !s.stepped && s.tp_mode != GAL_TP_1D && s.recompute < GAL_RECOMPUTE_FULL && below(seed, 2) == 0;
    s.keep_weights = s.tp_mode == GAL_TP_3D && s.zero_stage < 3 && below(seed, 2) == 0;
    s.zero_stage += s.keep_weights && s.zero_stage == 0 ? 1 + below(seed, 2) : 0;
    s.offload_optimizer_percent = below(seed, 2) * (1 + below(seed, 100));
    const bool fetches = s.zero_stage == 0 || (s.zero_stage == 3 && (s.tp_mode == GAL_TP_1D || s.stepped));
    s.offload_parameters_percent = fetches && below(seed, 2) == 0 ? below(seed, s.offload_optimizer_percent + 1) : 0;
    s.offload_storage_percent = below(seed, s.offload_optimizer_percent + 1);
    s.offload_storage_masters = s.offload_storage_percent > 0 && below(seed, 2) == 0;
    s.offload_storage_parameters_percent =
        below(seed, 1 + (s.offload_storage_percent < s.offload_parameters_percent ? s.offload_storage_percent
                                                                                  : s.offload_parameters_percent));
    s.offload_activations_percent = s.overlap == GAL_OVERLAP_NONE ? below(seed, 2) * (1 + below(seed, 100)) : 0;
    s.offload_storage_activations_percent = below(seed, s.offload_activations_percent + 1);
    s.shard_unit = s.tp_mode == GAL_TP_1D ? (gal_shard_unit)below(seed, GAL_SHARD_UNIT_COUNT) : GAL_SHARD_MATRIX;
    s.chunk_elements = s.shard_unit == GAL_SHARD_CHUNK ? 1 + below(seed, UINT32_MAX) : 0;
    return s;
}

static gal_u32_list random_list(uint64_t *seed, uint32_t most)
{
    gal_u32_list list = {.count = 1 + below(seed, 4)};
    for (uint32_t i = 0; i < list.count; i++) {
        list.value[i] = 1 + below(seed, most);
    }
    return list;
}

static gal_certificate random_certificate(uint64_t *seed)
{
    gal_certificate c = {.present = true,
                         .memory_bytes = 1 + bytes(seed),
                         .microbatch_counts = random_list(seed, 1u << 24),
                         .pp_degrees = random_list(seed, 1u << 20),
                         .searched_bound_seconds = real_or_zero(seed, 1e9)};
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
        *part[i] = below(seed, 2) == 0;
    }
    if (below(seed, 2) == 0) {
        c.host = (gal_host_charge){.host_memory_bytes = 1 + bytes(seed),
                                   .seconds_per_byte = real(seed, GAL_SECONDS_PER_BYTE_MIN, GAL_SECONDS_MAX)};
        c.host.storage = below(seed, 2) == 0;
        c.host.masters = c.host.storage && below(seed, 2) == 0;
        c.host.weights = c.host.storage && below(seed, 2) == 0;
    }
    return c;
}

/* A risk, and a pricing by a framework that ships with or without constants; both or none. */
static void random_prices(uint64_t *seed, gal_plan *plan)
{
    gal_error err = {0};
    if (below(seed, 3) == 0) {
        plan->risk =
            (gal_risk){.present = true, .quantile = 0.5 + 0.004 * below(seed, 100), .memory_bytes = 1 + bytes(seed)};
        plan->risk.quantile_seconds = real_or_zero(seed, 1e9);
        plan->risk.memory_chance = (1.0 - plan->risk.quantile) / (1.0 + below(seed, 9));
    }
    if (below(seed, 3) == 0) {
        gal_pricing *pricing = &plan->pricing;
        *pricing = (gal_pricing){.present = true, .bytes = 1 + bytes(seed)};
        assert_int_equal(gal_framework_read("megatron-2021", &pricing->framework, &err), GAL_OK);
        pricing->framework.step_seconds = real_or_zero(seed, 1.0);
        plan->certificate.objective = plan->certificate.present ? GAL_OBJECTIVE_FRAMEWORK : GAL_OBJECTIVE_PIPELINE_SUM;
        if (below(seed, 2) == 0) {
            pricing->constants = (gal_constants){.name = "c", .cluster = "d", .framework = "e", .row_count = 3};
            pricing->constants.seconds_low_factor = 0.5;
            pricing->constants.seconds_high_factor = 1.0 + real_or_zero(seed, 1.0);
            pricing->constants.fitted[GAL_CONSTANT_STEP_SECONDS] = true;
            pricing->constants.value[GAL_CONSTANT_STEP_SECONDS] = 0.25;
        }
    }
}

/* Sizes are multiples of 64 = the most devices, so that every strategy is legal. The holders of a token table are to be
 * alike: an encoder-decoder has one strategy. */
static gal_plan random_plan(uint64_t *seed)
{
    gal_plan p = {0};
    p.model = random_model(seed);
    p.model.layer_count = 1 + below(seed, 12);
    p.model.head_count = p.model.hidden = 64;
    p.model.kv_head_count = p.model.family == GAL_FAMILY_LLAMA ? 64 : 0;
    p.model.ffn_hidden = p.model.vocabulary_multiple = 128;
    p.model.sequence_length = 64;
    const bool encodes = p.model.family == GAL_FAMILY_T5;
    p.model.decoder_layer_count = encodes ? 1 + below(seed, 12) : 0;
    p.model.decoder_sequence_length = encodes ? 128 : 0;
    p.cluster = random_cluster(seed);
    p.cluster.level_count = 1;
    p.cluster.device_count = p.cluster.level[0].span_devices = 1u << below(seed, 7);
    memset(&p.cluster.level[1], 0, sizeof p.cluster.level - sizeof p.cluster.level[0]);
    p.microbatch_count = 1 + below(seed, 16);
    p.global_batch_samples = 64 * (1 + below(seed, 4)) * p.microbatch_count;
    p.pp_degree = 1u << below(seed, 3);
    p.pp_degree = p.pp_degree > p.cluster.device_count ? p.cluster.device_count : p.pp_degree;
    p.schedule = (gal_schedule)below(seed, GAL_SCHEDULE_COUNT);
    p.prefetch_depth = 1 + below(seed, 2);
    p.communication_ctas = below(seed, 1 + GAL_COMMUNICATION_CTAS_MAX);
    p.fixed_bytes = bytes(seed);
    p.objective_seconds = real_or_zero(seed, 1e9);
    p.simulated_seconds = real_or_zero(seed, 1e9);
    p.simulated_low_seconds = p.simulated_seconds * 0.75;
    p.simulated_high_seconds = p.simulated_seconds;
    p.lower_bound_seconds = real_or_zero(seed, 1e9);
    if (below(seed, 2) == 0) {
        (void)snprintf(p.profile_hash, sizeof p.profile_hash, "%016llx", (unsigned long long)next(seed));
    }
    uint32_t blocks = gal_model_block_count(&p.model);
    p.stage_count = p.pp_degree;
    if (p.schedule == GAL_SCHEDULE_INTERLEAVED && p.pp_degree > 1 && blocks >= 2 * p.pp_degree) {
        p.chunk_count = 2 + below(seed, blocks / p.pp_degree - 1);
    } else if (p.schedule == GAL_SCHEDULE_INTERLEAVED) {
        p.schedule = GAL_SCHEDULE_GPIPE;
    }
    const uint32_t pieces = gal_plan_piece_count(&p);
    p.stage = calloc(pieces, sizeof *p.stage);
    p.run = calloc(blocks, sizeof *p.run);
    assert_true(p.stage != NULL && p.run != NULL);
    uint32_t left = blocks;
    for (uint32_t s = 0; s < pieces; s++) {
        uint32_t after = pieces - s - 1;
        uint32_t here = after == 0 ? left : 1 + below(seed, left - after);
        p.stage[s] = (gal_plan_stage){.first_run = p.run_count, .predicted_bytes = bytes(seed)};
        p.stage[s].predicted_host_bytes = below(seed, 2) == 0 ? 0 : 1 + bytes(seed);
        p.stage[s].predicted_storage_bytes = below(seed, 2) == 0 ? 0 : 1 + bytes(seed);
        left -= here;
        while (here > 0) {
            uint32_t count = 1 + below(seed, here);
            gal_strategy own = random_strategy(seed, p.cluster.device_count / p.pp_degree);
            const bool biased = p.model.family == GAL_FAMILY_T5 || p.model.family == GAL_FAMILY_SWIN;
            const bool causal = p.model.family == GAL_FAMILY_DECODER || p.model.family == GAL_FAMILY_LLAMA;
            for (uint32_t a = 0; a < own.axis_count; a++) { /* their attention has no ring, or no zigzag */
                gal_axis_kind *kind = &own.axis[a].kind;
                *kind = *kind == GAL_AXIS_ZIGZAG && !causal ? GAL_AXIS_RING : *kind;
                *kind = biased && *kind == GAL_AXIS_RING ? GAL_AXIS_ULYSSES : *kind;
            }
            own.offload_activations_percent =
                p.schedule != GAL_SCHEDULE_ZERO_BUBBLE ? own.offload_activations_percent : 0;
            own.offload_storage_activations_percent =
                own.offload_activations_percent > 0 ? own.offload_storage_activations_percent : 0;
            if (biased || own.zero_stage == 3) {
                const bool shards = gal_strategy_degree(&own, GAL_AXIS_SDP) * gal_strategy_sequence_degree(&own) > 1;
                own.zero_stage = shards ? own.zero_stage : 0;
                own.keep_panels = own.keep_weights = own.stepped = false;
                own.tp_mode = GAL_TP_1D; /* none of their rules for grids; or a rule of the prefetch depth */
                own.tp_depth = 0;
            }
            p.run[p.run_count] = (gal_plan_run){count, encodes && p.run_count > 0 ? p.run[0].strategy : own};
            p.run_count++;
            here -= count;
        }
        p.stage[s].run_count = p.run_count - p.stage[s].first_run;
    }
    for (uint32_t r = 0; r < p.run_count; r++) {
        p.prefetch_depth = p.run[r].strategy.offload_parameters_percent > 0 ? 2 : p.prefetch_depth;
        p.model.compute_dtype = p.run[r].strategy.offload_storage_masters ? GAL_BF16 : p.model.compute_dtype;
    }
    p.model.tied_embeddings = false;
    if (below(seed, 2) == 0) {
        p.certificate = random_certificate(seed);
    }
    random_prices(seed, &p);
    return p;
}

/* Any numbers in the tables of a small one. */
static gal_problem random_problem(uint64_t *seed)
{
    gal_problem p;
    gal_random_problem(next(seed), 4, 12, 8, 1 + below(seed, 4), &p);
    text(seed, p.name, sizeof p.name);
    for (uint32_t s = 0; s < p.strategy_count; s++) {
        text(seed, p.strategy[s].name, sizeof p.strategy[s].name);
        p.strategy[s].tied_seconds = real_or_zero(seed, 1.0);
    }
    for (uint32_t i = 0; i < p.transition_count * p.strategy_count * p.strategy_count; i++) {
        p.transition_seconds[i] = real_or_zero(seed, 1.0);
    }
    for (uint32_t k = 0; k < p.kind_count; k++) {
        text(seed, p.kind[k].name, sizeof p.kind[k].name);
    }
    for (uint32_t i = 0; i < p.kind_count * p.strategy_count; i++) {
        p.cost[i] = (gal_problem_cost){real_or_zero(seed, 1.0), real_or_zero(seed, 1.0), bytes(seed), bytes(seed) - 1,
                                       bytes(seed)};
    }
    p.budget_bytes = bytes(seed);
    return p;
}

/* ---- comparing: write(read(write(x))) has the bytes of write(x), and the structs have equal bits ---- */

static char path_a[64], path_b[64];

static void expect_equal_files(uint64_t seed)
{
    char *a = NULL;
    char *b = NULL;
    size_t a_bytes = 0;
    size_t b_bytes = 0;
    assert_int_equal(gal_file_read(path_a, SIZE_MAX, &a, &a_bytes, NULL), GAL_OK);
    assert_int_equal(gal_file_read(path_b, SIZE_MAX, &b, &b_bytes, NULL), GAL_OK);
    if (a_bytes != b_bytes || memcmp(a, b, a_bytes) != 0) {
        fail_msg("seed %llu: second writing differs", (unsigned long long)seed);
    }
    free(a);
    free(b);
}

static void expect_ok(gal_code code, const gal_error *err, uint64_t seed)
{
    if (code != GAL_OK) {
        fail_msg("seed %llu: %s", (unsigned long long)seed, err->text);
    }
}

static bool equal_optimizers(const gal_optimizer *a, const gal_optimizer *b)
{
    return a->kind == b->kind && a->warmup_steps == b->warmup_steps && a->decay_steps == b->decay_steps &&
           memcmp(&a->learning_rate, &b->learning_rate, 2 * sizeof(double)) == 0 &&
           memcmp(&a->beta1, &b->beta1, 5 * sizeof(double)) == 0;
}

static bool equal_scalings(const gal_rotary_scaling *a, const gal_rotary_scaling *b)
{
    return a->kind == b->kind && memcmp(&a->factor, &b->factor, 3 * sizeof(double)) == 0 &&
           a->original_positions == b->original_positions;
}

static bool equal_models(const gal_model *a, const gal_model *b)
{
    return strcmp(a->name, b->name) == 0 && a->family == b->family &&
           memcmp(&a->layer_count, &b->layer_count, 9 * sizeof(uint32_t)) == 0 &&
           memcmp(&a->rotary_base, &b->rotary_base, sizeof a->rotary_base) == 0 && a->qkv_bias == b->qkv_bias &&
           equal_scalings(&a->rotary_scaling, &b->rotary_scaling) && a->activation == b->activation &&
           memcmp(&a->decoder_layer_count, &b->decoder_layer_count, 4 * sizeof(uint32_t)) == 0 &&
           memcmp(&a->image_size, &b->image_size, 3 * sizeof(uint32_t)) == 0 &&
           memcmp(&a->pixel_mean, &b->pixel_mean, 2 * sizeof(double)) == 0 &&
           memcmp(&a->window_size, &b->window_size, (2 + 2 * GAL_LEVELS_MAX) * sizeof(uint32_t)) == 0 &&
           a->gated == b->gated && a->tied_embeddings == b->tied_embeddings && a->padding == b->padding &&
           memcmp(&a->norm_epsilon, &b->norm_epsilon, 5 * sizeof(double)) == 0 &&
           a->compute_dtype == b->compute_dtype && a->global_batch_samples == b->global_batch_samples &&
           equal_optimizers(&a->optimizer, &b->optimizer);
}

/* Of the device all that may be left out. */
static bool equal_options(const gal_device *a, const gal_device *b)
{
    return a->tf32_flops_per_second == b->tf32_flops_per_second &&
           a->fp16_flops_per_second == b->fp16_flops_per_second &&
           a->bf16_flops_per_second == b->bf16_flops_per_second && a->multiprocessor_count == b->multiprocessor_count &&
           a->launch_seconds == b->launch_seconds && a->gemm_fraction == b->gemm_fraction &&
           a->memory_fraction == b->memory_fraction && a->host_memory_bytes == b->host_memory_bytes &&
           a->host_memory_bytes_per_second == b->host_memory_bytes_per_second &&
           a->host_copy_bytes_per_second == b->host_copy_bytes_per_second && a->storage_bytes == b->storage_bytes &&
           a->storage_read_bytes_per_second == b->storage_read_bytes_per_second &&
           a->storage_write_bytes_per_second == b->storage_write_bytes_per_second &&
           a->storage_read_latency_seconds == b->storage_read_latency_seconds &&
           a->storage_write_latency_seconds == b->storage_write_latency_seconds;
}

static bool equal_clusters(const gal_cluster *a, const gal_cluster *b)
{
    bool are_equal =
        strcmp(a->name, b->name) == 0 && a->device_count == b->device_count && a->level_count == b->level_count &&
        strcmp(a->device.kind, b->device.kind) == 0 && a->device.memory_bytes == b->device.memory_bytes &&
        memcmp(&a->device.fp32_flops_per_second, &b->device.fp32_flops_per_second, 3 * sizeof(double)) == 0 &&
        equal_options(&a->device, &b->device);
    for (uint32_t i = 0; are_equal && i < a->level_count; i++) {
        are_equal = strcmp(a->level[i].name, b->level[i].name) == 0 &&
                    a->level[i].span_devices == b->level[i].span_devices &&
                    memcmp(&a->level[i].latency_seconds, &b->level[i].latency_seconds, 2 * sizeof(double)) == 0 &&
                    a->level[i].achievable_fraction == b->level[i].achievable_fraction &&
                    a->level[i].shared == b->level[i].shared;
    }
    return are_equal;
}

static bool equal_gpus(const gal_profile_gpu *a, const gal_profile_gpu *b)
{
    bool are_equal = a->context_bytes == b->context_bytes && a->library_bytes == b->library_bytes &&
                     a->communicator_bytes == b->communicator_bytes &&
                     memcmp(&a->clock_hertz, &b->clock_hertz, 7 * sizeof(double)) == 0 &&
                     a->by_ctas_count == b->by_ctas_count;
    for (uint32_t i = 0; are_equal && i < a->by_ctas_count; i++) {
        are_equal = a->by_ctas[i].ctas == b->by_ctas[i].ctas &&
                    memcmp(&a->by_ctas[i].compute, &b->by_ctas[i].compute, 3 * sizeof(double)) == 0;
    }
    return are_equal;
}

static bool equal_profiles(const gal_profile *a, const gal_profile *b)
{
    bool are_equal = equal_clusters(&a->cluster, &b->cluster) && strcmp(a->date, b->date) == 0 &&
                     strcmp(a->processor, b->processor) == 0 && strcmp(a->libraries, b->libraries) == 0 &&
                     strcmp(a->command, b->command) == 0 && a->rank_count == b->rank_count &&
                     a->fixed_bytes == b->fixed_bytes &&
                     memcmp(&a->fixed_step_seconds, &b->fixed_step_seconds, 2 * sizeof(double)) == 0 &&
                     memcmp(a->slowdown, b->slowdown, sizeof a->slowdown) == 0 &&
                     a->operator_count == b->operator_count && a->collective_count == b->collective_count &&
                     a->block_count == b->block_count && a->has_gpu == b->has_gpu && equal_gpus(&a->gpu, &b->gpu);
    for (uint32_t i = 0; are_equal && i < a->operator_count; i++) {
        are_equal = gal_shape_compare(&a->operators[i].shape, &b->operators[i].shape) == 0 &&
                    memcmp(&a->operators[i].seconds, &b->operators[i].seconds, 2 * sizeof(double)) == 0 &&
                    a->operators[i].source == b->operators[i].source;
    }
    for (uint32_t i = 0; are_equal && i < a->collective_count; i++) {
        const gal_profile_collective *x = &a->collectives[i];
        const gal_profile_collective *y = &b->collectives[i];
        are_equal = x->op == y->op && memcmp(x->level_counts, y->level_counts, sizeof x->level_counts) == 0 &&
                    x->bytes == y->bytes && memcmp(&x->seconds, &y->seconds, 2 * sizeof(double)) == 0 &&
                    x->source == y->source;
    }
    for (uint32_t i = 0; are_equal && i < a->block_count; i++) {
        are_equal = a->blocks[i].kind == b->blocks[i].kind && a->blocks[i].tp_degree == b->blocks[i].tp_degree &&
                    a->blocks[i].samples == b->blocks[i].samples &&
                    memcmp(&a->blocks[i].forward_seconds, &b->blocks[i].forward_seconds, 4 * sizeof(double)) == 0;
    }
    return are_equal;
}

static bool equal_lists(const gal_u32_list *a, const gal_u32_list *b)
{
    return a->count == b->count && memcmp(a->value, b->value, a->count * sizeof *a->value) == 0;
}

static bool equal_charges(const gal_host_charge *a, const gal_host_charge *b)
{
    return a->host_memory_bytes == b->host_memory_bytes && a->seconds_per_byte == b->seconds_per_byte &&
           a->storage == b->storage && a->masters == b->masters && a->weights == b->weights;
}

static bool equal_certificates(const gal_certificate *a, const gal_certificate *b)
{
    return a->present == b->present && a->objective == b->objective && a->memory_bytes == b->memory_bytes &&
           memcmp(&a->space, &b->space, sizeof a->space) == 0 && equal_charges(&a->host, &b->host) &&
           equal_lists(&a->microbatch_counts, &b->microbatch_counts) && equal_lists(&a->pp_degrees, &b->pp_degrees) &&
           memcmp(&a->searched_bound_seconds, &b->searched_bound_seconds, sizeof(double)) == 0;
}

static bool equal_prices(const gal_plan *a, const gal_plan *b)
{
    const gal_risk *r = &a->risk, *q = &b->risk;
    return r->present == q->present && r->quantile == q->quantile && r->quantile_seconds == q->quantile_seconds &&
           r->memory_bytes == q->memory_bytes && r->memory_chance == q->memory_chance &&
           a->pricing.present == b->pricing.present && a->pricing.bytes == b->pricing.bytes &&
           memcmp(&a->pricing.framework, &b->pricing.framework, sizeof a->pricing.framework) == 0 &&
           memcmp(&a->pricing.constants, &b->pricing.constants, sizeof a->pricing.constants) == 0;
}

static bool equal_plans(const gal_plan *a, const gal_plan *b)
{
    bool are_equal = equal_models(&a->model, &b->model) && equal_clusters(&a->cluster, &b->cluster) &&
                     strcmp(a->profile_hash, b->profile_hash) == 0 &&
                     a->global_batch_samples == b->global_batch_samples && a->microbatch_count == b->microbatch_count &&
                     a->pp_degree == b->pp_degree && a->schedule == b->schedule &&
                     a->prefetch_depth == b->prefetch_depth && a->communication_ctas == b->communication_ctas &&
                     a->stage_count == b->stage_count && a->chunk_count == b->chunk_count &&
                     a->run_count == b->run_count && a->fixed_bytes == b->fixed_bytes &&
                     memcmp(&a->objective_seconds, &b->objective_seconds, 3 * sizeof(double)) == 0 &&
                     equal_certificates(&a->certificate, &b->certificate) && equal_prices(a, b);
    for (uint32_t i = 0; are_equal && i < gal_plan_piece_count(a); i++) {
        are_equal = a->stage[i].first_run == b->stage[i].first_run && a->stage[i].run_count == b->stage[i].run_count &&
                    a->stage[i].predicted_bytes == b->stage[i].predicted_bytes &&
                    a->stage[i].predicted_host_bytes == b->stage[i].predicted_host_bytes &&
                    a->stage[i].predicted_storage_bytes == b->stage[i].predicted_storage_bytes;
    }
    for (uint32_t i = 0; are_equal && i < a->run_count; i++) {
        are_equal = a->run[i].block_count == b->run[i].block_count &&
                    gal_strategy_equal(&a->run[i].strategy, &b->run[i].strategy);
    }
    return are_equal;
}

static bool equal_problems(const gal_problem *a, const gal_problem *b)
{
    const size_t changes = (size_t)a->transition_count * a->strategy_count * a->strategy_count;
    bool are_equal = strcmp(a->name, b->name) == 0 && a->schedule == b->schedule && a->stage_count == b->stage_count &&
                     a->microbatch_count == b->microbatch_count && a->budget_bytes == b->budget_bytes &&
                     a->strategy_count == b->strategy_count && a->transition_count == b->transition_count &&
                     a->kind_count == b->kind_count && a->run_count == b->run_count &&
                     memcmp(a->transition_seconds, b->transition_seconds, changes * sizeof(double)) == 0 &&
                     memcmp(a->cost, b->cost, a->kind_count * a->strategy_count * sizeof *a->cost) == 0 &&
                     memcmp(a->run, b->run, a->run_count * sizeof *a->run) == 0;
    for (uint32_t s = 0; are_equal && s < a->strategy_count; s++) {
        are_equal = strcmp(a->strategy[s].name, b->strategy[s].name) == 0 &&
                    memcmp(&a->strategy[s].tied_seconds, &b->strategy[s].tied_seconds, sizeof(double)) == 0;
    }
    for (uint32_t k = 0; are_equal && k < a->kind_count; k++) {
        are_equal =
            strcmp(a->kind[k].name, b->kind[k].name) == 0 && a->kind[k].transition_index == b->kind[k].transition_index;
    }
    return are_equal;
}

static uint64_t first_seed(void)
{
    const char *text_of_seed = getenv("GAL_SEED");
    return text_of_seed == NULL ? 1 : strtoull(text_of_seed, NULL, 10);
}

static void test_models(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed(), end = seed + CASES; seed < end; seed++) {
        uint64_t stream = seed;
        gal_error err = {0};
        gal_model back;
        gal_model model = random_model(&stream);
        if (model.family == GAL_FAMILY_DECODER && below(&stream, 2) == 1) {
            turn_to_swin(&stream, &model);
        }
        expect_ok(gal_model_write(path_a, &model, &err), &err, seed);
        expect_ok(gal_model_read(path_a, &back, &err), &err, seed);
        expect_ok(gal_model_write(path_b, &back, &err), &err, seed);
        expect_equal_files(seed);
        assert_true(equal_models(&model, &back));
    }
}

static void test_clusters(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed(), end = seed + CASES; seed < end; seed++) {
        uint64_t stream = seed;
        gal_error err = {0};
        gal_cluster back;
        gal_cluster cluster = random_cluster(&stream);
        expect_ok(gal_cluster_write(path_a, &cluster, &err), &err, seed);
        expect_ok(gal_cluster_read(path_a, &back, &err), &err, seed);
        expect_ok(gal_cluster_write(path_b, &back, &err), &err, seed);
        expect_equal_files(seed);
        assert_true(equal_clusters(&cluster, &back));
    }
}

static void test_profiles(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed(), end = seed + CASES; seed < end; seed++) {
        uint64_t stream = seed;
        gal_error err = {0};
        gal_profile back = {0};
        gal_profile profile = random_profile(&stream);
        expect_ok(gal_profile_write(path_a, &profile, &err), &err, seed); /* sorts, so the structs compare below */
        expect_ok(gal_profile_read(path_a, &back, &err), &err, seed);
        expect_ok(gal_profile_write(path_b, &back, &err), &err, seed);
        expect_equal_files(seed);
        assert_true(equal_profiles(&profile, &back));
        gal_profile_free(&profile);
        gal_profile_free(&back);
    }
}

static void test_plans(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed(), end = seed + CASES; seed < end; seed++) {
        uint64_t stream = seed;
        gal_error err = {0};
        gal_plan back = {0};
        gal_plan plan = random_plan(&stream);
        expect_ok(gal_plan_check(&plan, NULL, &err), &err, seed);
        expect_ok(gal_plan_write(path_a, &plan, &err), &err, seed);
        expect_ok(gal_plan_read(path_a, &back, &err), &err, seed);
        expect_ok(gal_plan_write(path_b, &back, &err), &err, seed);
        expect_equal_files(seed);
        assert_true(equal_plans(&plan, &back));
        gal_plan_free(&plan);
        gal_plan_free(&back);
    }
}

static void test_problems(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed(), end = seed + CASES; seed < end; seed++) {
        uint64_t stream = seed;
        gal_error err = {0};
        gal_problem back = {0};
        gal_problem problem = random_problem(&stream);
        expect_ok(gal_problem_write(path_a, &problem, &err), &err, seed);
        expect_ok(gal_problem_read(path_a, &back, &err), &err, seed);
        expect_ok(gal_problem_write(path_b, &back, &err), &err, seed);
        expect_equal_files(seed);
        assert_true(equal_problems(&problem, &back));
        gal_problem_free(&problem);
        gal_problem_free(&back);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_models), cmocka_unit_test(test_clusters),
                                       cmocka_unit_test(test_profiles), cmocka_unit_test(test_plans),
                                       cmocka_unit_test(test_problems)};
    char in_memory[] = "/dev/shm/gal_roundtrip_XXXXXX", on_disk[] = "/tmp/gal_roundtrip_XXXXXX";
    const char *folder = mkdtemp(in_memory); /* where nobody waits for fsync, if there is such a place */
    folder = folder != NULL ? folder : mkdtemp(on_disk);
    if (folder == NULL) {
        perror("mkdtemp");
        return 1;
    }
    (void)snprintf(path_a, sizeof path_a, "%s/a.json", folder);
    (void)snprintf(path_b, sizeof path_b, "%s/b.json", folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path_a);
    (void)unlink(path_b);
    (void)rmdir(folder);
    return failed;
}
