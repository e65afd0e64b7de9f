#include "tests/support/random_documents.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/limits.h"
#include "tests/support/random_plan.h"
#include "tests/support/random_problem.h"

double gal_random_real(uint64_t *seed, double min, double max)
{
    if (gal_random_below(seed, 8) == 0) {
        return max >= 1.0 && min <= 1.0 ? 1.0 : max;
    }
    double unit = (double)(gal_random_next(seed) >> 11) * 0x1p-53;
    double value = exp(log(min) + unit * (log(max) - log(min)));
    return value < min ? min : value > max ? max : value;
}

double gal_random_real_or_zero(uint64_t *seed, double max)
{
    return gal_random_below(seed, 3) == 0 ? 0.0 : gal_random_real(seed, DBL_MIN, max);
}

uint64_t gal_random_bytes(uint64_t *seed)
{
    return 1 + (gal_random_next(seed) >> (11 + gal_random_below(seed, 52)));
}

/* Any characters that JSON must escape or pass on, and some of several bytes. */
static void text(uint64_t *seed, char *buffer, size_t capacity)
{
    static const char *const letters[] = {"a",  "Z",  "0",    " ",    "\"",       "\\",           "/",
                                          "\n", "\t", "\x01", "\x7f", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    size_t used = 0;
    uint32_t count = 1 + gal_random_below(seed, (uint32_t)capacity - 1);
    for (uint32_t i = 0; i < count; i++) {
        const char *letter = letters[gal_random_below(seed, sizeof letters / sizeof letters[0])];
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
    m->kv_head_count = 1 + gal_random_below(seed, 16);
    m->head_count = m->kv_head_count * (1 + gal_random_below(seed, 8));
    m->head_dim = 2 + 2 * gal_random_below(seed, 512);
    m->rotary_base = gal_random_real(seed, 1.0, 1e12);
    if (gal_random_below(seed, 2) == 1) {
        m->rotary_scaling =
            (gal_rotary_scaling){.kind = GAL_ROTARY_SCALING_LINEAR, .factor = gal_random_real(seed, 1.0, 1e6)};
    } else if (gal_random_below(seed, 2) == 1) {
        m->rotary_scaling = (gal_rotary_scaling){.kind = GAL_ROTARY_SCALING_LLAMA3,
                                                 .factor = gal_random_real(seed, 1.0, 1e6),
                                                 .low_frequency_factor = gal_random_real(seed, 1e-3, 10.0),
                                                 .high_frequency_factor = gal_random_real(seed, 11.0, 1e6),
                                                 .original_positions = 1 + gal_random_below(seed, 32768)};
    }
    m->qkv_bias = gal_random_below(seed, 2) == 1;
    m->embedding_dropout = 0.0;
    m->residual_dropout = 0.0;
}

static void turn_to_t5(uint64_t *seed, gal_model *m)
{
    m->family = GAL_FAMILY_T5;
    m->decoder_layer_count = 1 + gal_random_below(seed, GAL_LAYERS_MAX);
    m->decoder_sequence_length = 1 + gal_random_below(seed, 32768);
    m->head_dim = 1 + gal_random_below(seed, 256);
    m->relative_bucket_count = 4 + 2 * gal_random_below(seed, 64);
    m->relative_max_distance = m->relative_bucket_count / 2 + 1 + gal_random_below(seed, 32768);
    m->gated = gal_random_below(seed, 2) == 1;
    m->embedding_dropout = 0.0;
}

static void turn_to_bert(uint64_t *seed, gal_model *m)
{
    m->family = GAL_FAMILY_BERT;
    m->type_count = 1 + gal_random_below(seed, GAL_TOKEN_TYPES_MAX);
    m->mask_token = gal_random_below(seed, m->vocabulary);
    m->embedding_dropout = 0.0;
}

static void draw_images(uint64_t *seed, gal_model *m)
{
    m->tied_embeddings = m->padding = false;
    m->patch_size = 1 + gal_random_below(seed, 4);
    m->channel_count = 1 + gal_random_below(seed, GAL_CHANNELS_MAX);
    m->pixel_mean = gal_random_real(seed, DBL_MIN, 1.0);
    m->pixel_standard_deviation = gal_random_real(seed, 1e-6, 1e6);
}

void gal_random_turn_to_vit(uint64_t *seed, gal_model *m)
{
    const uint32_t side = 1 + gal_random_below(seed, 64);
    m->family = GAL_FAMILY_VIT;
    draw_images(seed, m);
    m->image_size = side * m->patch_size;
    m->sequence_length = side * side + 1;
}

/* Windows of any number of positions, an even number of them across each level. */
void gal_random_turn_to_swin(uint64_t *seed, gal_model *m)
{
    m->family = GAL_FAMILY_SWIN;
    draw_images(seed, m);
    m->window_size = 1 + gal_random_below(seed, 12);
    m->level_count = 1 + gal_random_below(seed, GAL_LEVELS_MAX);
    m->image_size = m->patch_size * (m->window_size << m->level_count);
    m->sequence_length = (m->window_size << m->level_count) * (m->window_size << m->level_count);
    m->hidden = m->head_count * (1 + gal_random_below(seed, 64));
    m->ffn_hidden = 1 + gal_random_below(seed, GAL_FFN_HIDDEN_MAX >> GAL_LEVELS_MAX);
    m->global_batch_samples = 1 + gal_random_below(seed, 1024);
    m->layer_count = 0;
    for (uint32_t level = 0; level < m->level_count; level++) {
        m->level_head_count[level] = m->head_count;
        m->level_layer_count[level] = 1 + gal_random_below(seed, GAL_LAYERS_MAX / GAL_LEVELS_MAX);
        m->layer_count += m->level_layer_count[level];
    }
    m->embedding_dropout = 0.0;
}

gal_model gal_random_model(uint64_t *seed)
{
    gal_model m = {0};
    text(seed, m.name, sizeof m.name);
    m.layer_count = 1 + gal_random_below(seed, GAL_LAYERS_MAX);
    m.head_count = 1 + gal_random_below(seed, 64);
    m.hidden = m.head_count * (1 + gal_random_below(seed, 256));
    m.ffn_hidden = 1 + gal_random_below(seed, GAL_FFN_HIDDEN_MAX);
    m.sequence_length = 1 + gal_random_below(seed, 32768);
    m.vocabulary = 1 + gal_random_below(seed, GAL_VOCABULARY_MAX);
    m.vocabulary_multiple = 1 + gal_random_below(seed, GAL_VOCABULARY_MULTIPLE_MAX);
    m.activation = (gal_activation)gal_random_below(seed, GAL_ACTIVATION_COUNT);
    m.tied_embeddings = gal_random_below(seed, 2) == 1;
    m.padding = gal_random_below(seed, 2) == 1;
    m.norm_epsilon = gal_random_real(seed, DBL_MIN, 1.0);
    m.embedding_dropout = gal_random_real_or_zero(seed, GAL_JSON_BELOW_ONE);
    m.attention_dropout = gal_random_real_or_zero(seed, GAL_JSON_BELOW_ONE);
    m.residual_dropout = gal_random_real_or_zero(seed, GAL_JSON_BELOW_ONE);
    m.initial_standard_deviation = gal_random_real(seed, DBL_MIN, 10.0);
    m.compute_dtype = gal_random_below(seed, 2) == 0 ? GAL_FP32 : GAL_FP64;
    m.global_batch_samples = 1 + gal_random_below(seed, 32768);
    m.optimizer.kind = (gal_optimizer_kind)gal_random_below(seed, GAL_OPTIMIZER_COUNT);
    m.optimizer.learning_rate = gal_random_real(seed, 1e-30, 1000.0);
    m.optimizer.minimum_learning_rate = gal_random_real_or_zero(seed, 1.0) * m.optimizer.learning_rate;
    m.optimizer.warmup_steps = gal_random_below(seed, GAL_STEPS_MAX);
    m.optimizer.decay_steps = gal_random_below(seed, GAL_STEPS_MAX);
    m.optimizer.beta1 = gal_random_real_or_zero(seed, GAL_JSON_BELOW_ONE);
    m.optimizer.beta2 = gal_random_real_or_zero(seed, GAL_JSON_BELOW_ONE);
    m.optimizer.epsilon = gal_random_real(seed, DBL_MIN, 1.0);
    m.optimizer.weight_decay = gal_random_real_or_zero(seed, 1000.0);
    m.optimizer.gradient_clip_norm = gal_random_real_or_zero(seed, 1e9);
    switch (gal_random_below(seed, 4)) {
    case 0:
        turn_to_llama(seed, &m);
        break;
    case 1:
        turn_to_t5(seed, &m);
        break;
    case 2:
        turn_to_bert(seed, &m);
        break;
    default: /* as it is */
        break;
    }
    return m;
}

gal_cluster gal_random_cluster(uint64_t *seed)
{
    gal_cluster c = {0};
    text(seed, c.name, sizeof c.name);
    text(seed, c.device.kind, sizeof c.device.kind);
    c.device.memory_bytes = gal_random_bytes(seed);
    c.device.fp32_flops_per_second = gal_random_real(seed, DBL_MIN, GAL_RATE_MAX);
    c.device.fp64_flops_per_second = gal_random_real(seed, 1.0, 1e15);
    c.device.memory_bytes_per_second = gal_random_real(seed, 1.0, GAL_RATE_MAX);
    c.device.tf32_flops_per_second =
        gal_random_below(seed, 2) == 0 ? 0.0 : gal_random_real(seed, DBL_MIN, GAL_RATE_MAX);
    c.device.fp16_flops_per_second =
        gal_random_below(seed, 2) == 0 ? 0.0 : gal_random_real(seed, DBL_MIN, GAL_RATE_MAX);
    c.device.bf16_flops_per_second =
        gal_random_below(seed, 2) == 0 ? 0.0 : gal_random_real(seed, DBL_MIN, GAL_RATE_MAX);
    c.device.multiprocessor_count = gal_random_below(seed, 2) == 0 ? 0 : 1 + gal_random_below(seed, 65536);
    c.device.launch_seconds = gal_random_below(seed, 2) == 0 ? 0.0 : gal_random_real(seed, DBL_MIN, GAL_SECONDS_MAX);
    c.device.gemm_fraction = gal_random_below(seed, 2) == 0 ? 0.0 : gal_random_real(seed, DBL_MIN, 1.0);
    c.device.memory_fraction = gal_random_below(seed, 2) == 0 ? 0.0 : gal_random_real(seed, DBL_MIN, 1.0);
    c.device.host_memory_bytes = gal_random_below(seed, 2) == 0 ? 0 : 1 + gal_random_bytes(seed);
    c.device.host_memory_bytes_per_second =
        gal_random_below(seed, 2) == 0 ? 0.0 : gal_random_real(seed, DBL_MIN, GAL_RATE_MAX);
    c.device.host_copy_bytes_per_second =
        gal_random_below(seed, 2) == 0 ? 0.0 : gal_random_real(seed, DBL_MIN, GAL_RATE_MAX);
    c.device.storage_bytes = gal_random_below(seed, 2) == 0 ? 0 : 1 + gal_random_bytes(seed);
    c.device.storage_read_bytes_per_second =
        gal_random_below(seed, 2) == 0 ? 0.0 : gal_random_real(seed, DBL_MIN, GAL_RATE_MAX);
    c.device.storage_write_bytes_per_second =
        gal_random_below(seed, 2) == 0 ? 0.0 : gal_random_real(seed, DBL_MIN, GAL_RATE_MAX);
    c.device.storage_read_latency_seconds =
        gal_random_below(seed, 2) == 0 ? 0.0 : gal_random_real(seed, DBL_MIN, GAL_SECONDS_MAX);
    c.device.storage_write_latency_seconds =
        gal_random_below(seed, 2) == 0 ? 0.0 : gal_random_real(seed, DBL_MIN, GAL_SECONDS_MAX);
    c.level_count = 1 + gal_random_below(seed, GAL_LINK_LEVELS_MAX);
    c.device_count = 1;
    for (uint32_t i = 0; i < c.level_count; i++) {
        c.device_count *= 2 + gal_random_below(seed, 3);
        text(seed, c.level[i].name, sizeof c.level[i].name);
        c.level[i].span_devices = c.device_count;
        c.level[i].latency_seconds = gal_random_real_or_zero(seed, GAL_SECONDS_MAX);
        c.level[i].bytes_per_second = gal_random_real(seed, DBL_MIN, GAL_RATE_MAX);
        c.level[i].achievable_fraction = gal_random_below(seed, 2) == 0 ? 0.0 : gal_random_real(seed, DBL_MIN, 1.0);
        c.level[i].shared = gal_random_below(seed, 2) == 0;
    }
    return c;
}

static gal_op random_op(uint64_t *seed, bool is_collective)
{
    gal_op op;
    do {
        op = (gal_op)gal_random_below(seed, GAL_OP_COUNT);
    } while ((gal_op_is_collective[op] != 0) != is_collective || op == GAL_OP_RECEIVE || op == GAL_OP_SEND);
    return op;
}

/* Entries get distinct keys: their number is in the first dimension, or in the bytes. */
static void random_tables(uint64_t *seed, gal_profile *p)
{
    p->operator_count = gal_random_below(seed, 20);
    p->collective_count = gal_random_below(seed, 20);
    p->block_count = gal_random_below(seed, 5);
    p->operators = calloc(20, sizeof *p->operators);
    p->collectives = calloc(20, sizeof *p->collectives);
    p->blocks = calloc(5, sizeof *p->blocks);
    GAL_ASSERT(p->operators != NULL && p->collectives != NULL && p->blocks != NULL);
    for (uint32_t i = 0; i < p->operator_count; i++) {
        gal_profile_operator *entry = &p->operators[i];
        entry->shape.op = random_op(seed, false);
        entry->shape.dtype = (gal_dtype)gal_random_below(seed, GAL_DTYPE_COUNT);
        for (uint32_t d = 0; d < gal_op_dim_count[entry->shape.op]; d++) {
            entry->shape.dims[d] = d == 0 ? i : (uint32_t)gal_random_next(seed);
        }
        entry->seconds = gal_random_real_or_zero(seed, GAL_SECONDS_MAX);
        entry->spread_seconds = gal_random_real_or_zero(seed, 1.0);
        entry->source = (gal_source)gal_random_below(seed, GAL_SOURCE_COUNT);
    }
    for (uint32_t i = 0; i < p->collective_count; i++) {
        gal_profile_collective *entry = &p->collectives[i];
        entry->op = random_op(seed, true);
        for (uint32_t l = 0; l < GAL_LINK_LEVELS_MAX; l++) {
            entry->level_counts[l] = l == 0 ? 2 : l < p->cluster.level_count ? 1 + gal_random_below(seed, 2) : 1;
        }
        entry->bytes = gal_random_bytes(seed) / 32 * 32 + i + 1;
        entry->bytes = entry->bytes > GAL_BYTES_MAX ? GAL_BYTES_MAX - i : entry->bytes;
        entry->seconds = gal_random_real_or_zero(seed, GAL_SECONDS_MAX);
        entry->source = (gal_source)gal_random_below(seed, GAL_SOURCE_COUNT);
    }
    for (uint32_t i = 0; i < p->block_count; i++) {
        p->blocks[i] = (gal_profile_block){.kind = (gal_block_kind)gal_random_below(seed, GAL_BLOCK_KIND_COUNT),
                                           .tp_degree = 1 + gal_random_below(seed, 64),
                                           .samples = 1 + gal_random_below(seed, 64),
                                           .forward_seconds = gal_random_real(seed, DBL_MIN, 10.0),
                                           .backward_seconds = gal_random_real(seed, 1e-9, 10.0),
                                           .forward_operator_seconds = gal_random_real(seed, 1e-9, 10.0),
                                           .backward_operator_seconds = gal_random_real(seed, 1e-9, 10.0)};
        gal_profile_again *again =
            gal_random_below(seed, 2) == 0 ? &p->blocks[i].backward_full : &p->blocks[i].backward_selective;
        *again = (gal_profile_again){gal_random_real(seed, 1e-9, 10.0), gal_random_real(seed, 1e-9, 10.0)};
    }
}

static gal_profile_copies random_copies(uint64_t *seed)
{
    return (gal_profile_copies){gal_random_real_or_zero(seed, 1.0), gal_random_real(seed, 1.0, 1e12)};
}

static gal_profile_gpu random_gpu(uint64_t *seed)
{
    gal_profile_gpu gpu = {.context_bytes = gal_random_bytes(seed),
                           .library_bytes = gal_random_bytes(seed),
                           .communicator_bytes = gal_random_bytes(seed),
                           .clock_hertz = gal_random_real_or_zero(seed, 3e9),
                           .clock_hertz_max = gal_random_real_or_zero(seed, 3e9),
                           .tf32 = gal_random_below(seed, 2) == 0,
                           .by_ctas_count = gal_random_below(seed, GAL_PROFILE_CTAS_MAX + 1)};
    for (uint32_t i = 0; i < gpu.by_ctas_count; i++) {
        gpu.by_ctas[i] = (gal_profile_ctas){4 * i + 1 + gal_random_below(seed, 4), gal_random_real(seed, 1.0, 3.0),
                                            gal_random_real(seed, 1.0, 3.0), gal_random_real_or_zero(seed, 900.0)};
    }
    return gpu;
}

static gal_profile_host random_host(uint64_t *seed)
{
    gal_profile_host host = {.threads_per_rank = 1 + gal_random_below(seed, GAL_PROFILE_THREADS_MAX),
                             .adam_count = 1 + gal_random_below(seed, GAL_PROFILE_ADAMS_MAX),
                             .node_count = 1 + gal_random_below(seed, GAL_PROFILE_NODES_MAX)};
    for (uint32_t i = 0; i < host.adam_count; i++) {
        host.adam[i] = (gal_profile_adam){4 * i + 1 + gal_random_below(seed, 4), gal_random_real(seed, 1.0, 1e10)};
    }
    for (uint32_t i = 0; i < host.node_count; i++) {
        host.node[i] = (gal_profile_node){4 * i + gal_random_below(seed, 4), random_copies(seed), random_copies(seed)};
    }
    return host;
}

gal_profile gal_random_profile(uint64_t *seed)
{
    gal_profile p = {0};
    p.cluster = gal_random_cluster(seed);
    text(seed, p.date, sizeof p.date);
    text(seed, p.processor, sizeof p.processor);
    text(seed, p.libraries, sizeof p.libraries);
    text(seed, p.command, sizeof p.command);
    p.rank_count = 1 + gal_random_below(seed, GAL_DEVICES_MAX);
    p.fixed_bytes = gal_random_bytes(seed);
    p.fixed_step_seconds = gal_random_real_or_zero(seed, 1.0);
    p.instruction_seconds = gal_random_real_or_zero(seed, 1.0);
    for (uint32_t i = 0; i < GAL_ACTIVITY_COUNT * GAL_ACTIVITY_COUNT; i++) {
        p.slowdown[i / GAL_ACTIVITY_COUNT][i % GAL_ACTIVITY_COUNT] = gal_random_real(seed, 1.0, 3.0);
    }
    p.has_host = gal_random_below(seed, 2) == 0;
    if (p.has_host) {
        p.host = random_host(seed);
    }
    p.has_gpu = gal_random_below(seed, 2) == 0;
    if (p.has_gpu) {
        p.gpu = random_gpu(seed);
    }
    random_tables(seed, &p);
    return p;
}

/* Any numbers in the tables of a small one. */
gal_problem gal_random_problem_document(uint64_t *seed)
{
    gal_problem p;
    gal_random_problem(gal_random_next(seed), 4, 12, 8, 1 + gal_random_below(seed, 4), &p);
    text(seed, p.name, sizeof p.name);
    for (uint32_t s = 0; s < p.strategy_count; s++) {
        text(seed, p.strategy[s].name, sizeof p.strategy[s].name);
        p.strategy[s].tied_seconds = gal_random_real_or_zero(seed, 1.0);
    }
    for (uint32_t i = 0; i < p.transition_count * p.strategy_count * p.strategy_count; i++) {
        p.transition_seconds[i] = gal_random_real_or_zero(seed, 1.0);
    }
    for (uint32_t k = 0; k < p.kind_count; k++) {
        text(seed, p.kind[k].name, sizeof p.kind[k].name);
    }
    for (uint32_t i = 0; i < p.kind_count * p.strategy_count; i++) {
        p.cost[i] = (gal_problem_cost){gal_random_real_or_zero(seed, 1.0), gal_random_real_or_zero(seed, 1.0),
                                       gal_random_bytes(seed), gal_random_bytes(seed) - 1, gal_random_bytes(seed)};
    }
    p.budget_bytes = gal_random_bytes(seed);
    return p;
}
