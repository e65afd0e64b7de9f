#include "costmodel/framework.h"

#include <math.h>

#include "costmodel/analytic_collective.h"
#include "costmodel/framework_block.h"
#include "schemas/limits.h"

static double said_or(double said, double otherwise)
{
    return said > 0.0 ? said : otherwise;
}

static double between(double value, gal_constant which)
{
    return fmin(fmax(value, gal_constant_least[which]), gal_constant_most[which]);
}

/* The way out of a node: what its devices share. */
static bool is_outer(const gal_cluster *cluster, uint32_t level)
{
    return cluster->level[level].shared;
}

/* What documents leave out: as in analytic_kernel.c. */
void gal_constants_default(const gal_cluster *cluster, const gal_framework *framework, gal_constants *out)
{
    const gal_link_level *inner = &cluster->level[0], *outer = inner;
    for (uint32_t i = 1; i < cluster->level_count; i++) {
        outer = is_outer(cluster, i) ? &cluster->level[i] : outer;
    }
    const double values[GAL_CONSTANT_COUNT] = {
        [GAL_CONSTANT_GEMM_FRACTION] = said_or(cluster->device.gemm_fraction, 0.7),
        [GAL_CONSTANT_GEMM_HALF] = 64.0,
        [GAL_CONSTANT_MEMORY_FRACTION] = said_or(cluster->device.memory_fraction, 0.8),
        [GAL_CONSTANT_KERNEL_SECONDS] = said_or(cluster->device.launch_seconds, 2e-6),
        [GAL_CONSTANT_HOST_SECONDS] = framework->host_seconds,
        [GAL_CONSTANT_INNER_FRACTION] = said_or(inner->achievable_fraction, 1.0),
        [GAL_CONSTANT_INNER_SECONDS] = inner->latency_seconds,
        [GAL_CONSTANT_OUTER_FRACTION] = said_or(outer->achievable_fraction, 1.0),
        [GAL_CONSTANT_OUTER_SECONDS] = outer->latency_seconds,
        [GAL_CONSTANT_TRANSFER_SECONDS] = framework->transfer_seconds,
        [GAL_CONSTANT_STEP_SECONDS] = framework->step_seconds,
        [GAL_CONSTANT_OVERLAP_SLOWDOWN] = 1.3}; /* Galvatron-BMW, section V */
    *out = (gal_constants){.seconds_low_factor = exp(-framework->seconds_spread),
                           .seconds_high_factor = exp(framework->seconds_spread)};
    for (uint32_t i = 0; i < GAL_CONSTANT_COUNT; i++) {
        out->value[i] = between(values[i], (gal_constant)i);
    }
}

void gal_constants_apply(const gal_constants *fitted, gal_constants *constants)
{
    for (uint32_t i = 0; i < GAL_CONSTANT_COUNT; i++) {
        constants->fitted[i] = fitted->fitted[i];
        if (fitted->fitted[i]) {
            constants->value[i] = fitted->value[i];
            constants->log_deviation[i] = fitted->log_deviation[i];
        }
    }
    constants->seconds_low_factor = fitted->seconds_low_factor;
    constants->seconds_high_factor = fitted->seconds_high_factor;
}

gal_code gal_uniform_layout_check(const gal_uniform_layout *layout, const gal_model *model, gal_error *err)
{
    const uint64_t pass = (uint64_t)layout->dp_degree * layout->microbatch_samples;
    const uint64_t pieces = (uint64_t)layout->pp_degree * layout->chunk_count;
    const uint64_t layers = (uint64_t)model->layer_count + model->decoder_layer_count;
    if ((uint64_t)layout->global_batch_samples * gal_model_longest_sequence(model) > GAL_BATCH_TOKENS_MAX) {
        return gal_fail(err, GAL_NO, "global_batch x tokens of a sample must be at most %d", (int)GAL_BATCH_TOKENS_MAX);
    }
    if (layout->global_batch_samples % pass != 0) {
        return gal_fail(err, GAL_NO, "global_batch %u is no multiple of dp x microbatch = %llu",
                        layout->global_batch_samples, (unsigned long long)pass);
    }
    if (pieces > layers) {
        return gal_fail(err, GAL_NO, "pp x chunks = %llu is more than the %llu layers", (unsigned long long)pieces,
                        (unsigned long long)layers);
    }
    return GAL_OK;
}

uint32_t gal_uniform_layout_layers_before(const gal_uniform_layout *layout, const gal_model *model, uint32_t stage)
{
    const uint64_t layers = (uint64_t)model->layer_count + model->decoder_layer_count;
    if (layout->stage_layers == NULL) {
        return (uint32_t)(layers * stage / layout->pp_degree);
    }
    uint32_t sum = 0;
    for (uint32_t i = 0; i < stage; i++) {
        sum += layout->stage_layers[i];
    }
    return sum;
}

void gal_framework_level_counts(const gal_cluster *cluster, uint32_t stride, uint32_t count,
                                uint32_t level_counts[GAL_LINK_LEVELS_MAX])
{
    uint32_t below = 1;
    for (uint32_t i = 0; i < GAL_LINK_LEVELS_MAX; i++) {
        level_counts[i] = 1;
        if (i < cluster->level_count) {
            const uint32_t within = cluster->level[i].span_devices / stride;
            const bool last = i + 1 == cluster->level_count;
            const uint32_t members = last || within > count ? count : within > 1 ? within : 1;
            level_counts[i] = (members + below - 1) / below;
            below *= level_counts[i];
        }
    }
}

static void set_links(const gal_cluster *cluster, const gal_constants *constants, gal_cluster *out)
{
    *out = *cluster;
    out->device.launch_seconds = constants->value[GAL_CONSTANT_KERNEL_SECONDS];
    for (uint32_t i = 0; i < out->level_count; i++) {
        const bool inner = !is_outer(cluster, i);
        out->level[i].achievable_fraction =
            constants->value[inner ? GAL_CONSTANT_INNER_FRACTION : GAL_CONSTANT_OUTER_FRACTION];
        out->level[i].latency_seconds =
            constants->value[inner ? GAL_CONSTANT_INNER_SECONDS : GAL_CONSTANT_OUTER_SECONDS];
    }
}

/* What the steps below share. */
typedef struct step {
    const gal_framework *framework;
    const gal_constants *constants;
    const gal_uniform_layout *layout;
    gal_cluster links;
    gal_framework_rates rates;
    uint32_t microbatches;
    uint32_t data_counts[GAL_LINK_LEVELS_MAX];
} step;

typedef struct stage {
    double forward, backward;                   /* seconds of one microbatch */
    double parameters, kept_bytes, again_bytes; /* the most that one block makes again */
    double logits, largest_block;
} stage;

static double together(const step *s, double x, double y)
{
    return fmax(x, y) + (s->constants->value[GAL_CONSTANT_OVERLAP_SLOWDOWN] - 1.0) * fmin(x, y);
}

static double data_seconds(const step *s, gal_op op, double bytes)
{
    return gal_collective_analytic_seconds(&s->links, op, s->data_counts, (uint64_t)bytes);
}

/* Device, or host where it is slower. */
static double kernels_seconds(const step *s, double seconds, double kernels)
{
    return fmax(seconds + kernels * s->constants->value[GAL_CONSTANT_KERNEL_SECONDS],
                kernels * s->constants->value[GAL_CONSTANT_HOST_SECONDS]);
}

static void close_stage(const step *s, const gal_framework_block *sum, stage *out)
{
    const gal_framework *f = s->framework;
    /* Communication of TP stands on the device's side: the host runs ahead of it. */
    const double all = kernels_seconds(s, sum->forward_seconds + sum->backward_seconds + sum->tensor_seconds,
                                       sum->forward_kernels + sum->backward_kernels);
    const double share = sum->forward_seconds / (sum->forward_seconds + sum->backward_seconds);
    out->forward = all * share;
    out->backward = all - out->forward;
    out->parameters = sum->parameters;
    out->kept_bytes = sum->kept_bytes;
    out->logits = sum->logits;
    if (s->layout->zero_stage == 3 && s->layout->dp_degree > 1) {
        const double gather = data_seconds(s, GAL_OP_ALL_GATHER, sum->parameters * s->rates.element_bytes);
        const double scatter =
            f->reduces_every_microbatch ? data_seconds(s, GAL_OP_REDUCE_SCATTER, sum->parameters * f->sync_bytes) : 0.0;
        out->forward = f->gather_overlaps ? together(s, out->forward, gather) : out->forward + gather;
        out->backward =
            f->gather_overlaps ? together(s, out->backward, gather + scatter) : out->backward + gather + scatter;
    }
}

static void add_block(const gal_framework_block *block, gal_framework_block *sum, stage *out)
{
    sum->forward_seconds += block->forward_seconds;
    sum->backward_seconds += block->backward_seconds;
    sum->forward_kernels += block->forward_kernels;
    sum->backward_kernels += block->backward_kernels;
    sum->tensor_seconds += block->tensor_seconds;
    sum->parameters += block->parameters;
    sum->kept_bytes += block->kept_bytes;
    sum->logits += block->logits;
    out->again_bytes = fmax(out->again_bytes, block->again_bytes);
    out->largest_block = fmax(out->largest_block, block->parameters);
}

typedef struct walk {
    uint32_t block, layers_done;
} walk;

static bool starts_layer(const gal_block_shape *shape)
{
    return shape->kind == GAL_BLOCK_ATTENTION;
}

static void walk_stage(const step *s, const gal_model *model, const gal_framework_block *of_type, uint32_t index,
                       walk *at, stage *out)
{
    const uint32_t blocks = gal_model_block_count(model), stages = s->layout->pp_degree;
    const uint32_t until = gal_uniform_layout_layers_before(s->layout, model, index + 1);
    gal_framework_block sum = {0};
    *out = (stage){0};
    for (; at->block < blocks; at->block++) {
        gal_block_shape shape;
        gal_model_block(model, at->block, &shape);
        if (starts_layer(&shape)) {
            if (at->layers_done == until && index + 1 < stages) {
                break;
            }
            at->layers_done++;
        }
        add_block(&of_type[shape.type], &sum, out);
    }
    close_stage(s, &sum, out);
}

/* Of a stage: sums of gradients (what backward does not hide) and the update. */
static double end_seconds(const step *s, const stage *one)
{
    const gal_framework *f = s->framework;
    const gal_uniform_layout *layout = s->layout;
    const double shards = layout->zero_stage > 0 ? layout->dp_degree : 1.0;
    double seconds = one->parameters * f->update_bytes / shards / s->rates.bytes_per_second;
    if (layout->dp_degree == 1 || (layout->zero_stage == 3 && f->reduces_every_microbatch)) {
        return seconds;
    }
    const double bytes = one->parameters * f->sync_bytes;
    double sync = layout->zero_stage == 0 ? data_seconds(s, GAL_OP_ALL_REDUCE, bytes)
                                          : data_seconds(s, GAL_OP_REDUCE_SCATTER, bytes);
    if (f->sync_overlaps && (layout->pp_degree == 1 || f->sync_overlaps_in_pipelines)) {
        sync = together(s, sync, one->backward) - one->backward;
    }
    if (layout->zero_stage == 1 || layout->zero_stage == 2) {
        sync += data_seconds(s, GAL_OP_ALL_GATHER, one->parameters * f->weight_bytes);
    }
    return seconds + sync;
}

static double transfer_seconds(const step *s)
{
    const gal_uniform_layout *layout = s->layout;
    if (layout->pp_degree == 1) {
        return 0.0;
    }
    gal_block_shape shape;
    gal_model_block(s->rates.model, 1, &shape);
    const bool split = layout->sequence_parallel || s->framework->splits_transfers;
    const double bytes = (double)layout->microbatch_samples * shape.in.positions * shape.in.features *
                         s->rates.element_bytes / (split ? layout->tp_degree : 1.0);
    uint32_t counts[GAL_LINK_LEVELS_MAX];
    gal_framework_level_counts(&s->links, layout->dp_degree * layout->tp_degree, layout->pp_degree, counts);
    for (uint32_t i = GAL_LINK_LEVELS_MAX; i-- > 0;) { /* the slowest pair crosses the outermost level */
        const bool outermost = counts[i] > 1;
        counts[i] = outermost ? 2 : 1;
        if (outermost) {
            while (i-- > 0) {
                counts[i] = 1;
            }
            break;
        }
    }
    const double each = s->constants->value[GAL_CONSTANT_TRANSFER_SECONDS] +
                        gal_collective_analytic_seconds(&s->links, GAL_OP_SEND, counts, (uint64_t)bytes);
    return 2.0 * layout->chunk_count * (s->microbatches + layout->pp_degree - 2.0) * each;
}

static double in_flight(const step *s, uint32_t index)
{
    const gal_uniform_layout *layout = s->layout;
    const double m = s->microbatches, behind = layout->pp_degree - index;
    if (layout->schedule == GAL_SCHEDULE_GPIPE) {
        return m;
    }
    if (layout->chunk_count > 1) { /* Korthikanti et al., "Reducing Activation Recomputation", section 4.2.3 */
        return fmin(m, behind + (layout->pp_degree - 1.0) / layout->chunk_count);
    }
    return fmin(m, behind);
}

static double stage_bytes(const step *s, const stage *one, uint32_t index)
{
    const gal_framework *f = s->framework;
    const gal_uniform_layout *layout = s->layout;
    const double dp = layout->dp_degree, n = one->parameters;
    const bool whole_weights = layout->zero_stage < 3, whole_gradients = layout->zero_stage < 2;
    double bytes = n * f->state_bytes / (layout->zero_stage > 0 ? dp : 1.0);
    bytes += n * f->weight_bytes / (whole_weights ? 1.0 : dp) + n * f->gradient_bytes / (whole_gradients ? 1.0 : dp);
    if (!whole_weights && dp > 1.0) {
        bytes += f->gathered_blocks * one->largest_block * (s->rates.element_bytes + f->sync_bytes);
    }
    const double logits = f->pipeline_keeps_logits && layout->schedule == GAL_SCHEDULE_GPIPE ? s->microbatches : 1.0;
    const double kept_logits = one->logits * s->rates.element_bytes * f->kept_logit_elements;
    bytes += in_flight(s, index) * (one->kept_bytes - kept_logits) + logits * kept_logits + one->again_bytes;
    bytes += logits * one->logits * (f->gathers_logits ? layout->tp_degree : 1.0) * f->peak_logit_bytes;
    return bytes * f->allocator_factor + f->context_bytes;
}

static void set_step(step *s, const gal_cluster *cluster, const gal_model *model)
{
    const double *value = s->constants->value;
    set_links(cluster, s->constants, &s->links);
    s->microbatches = s->layout->global_batch_samples / (s->layout->dp_degree * s->layout->microbatch_samples);
    gal_framework_level_counts(cluster, s->layout->tp_degree, s->layout->dp_degree, s->data_counts);
    s->rates = (gal_framework_rates){
        .framework = s->framework,
        .model = model,
        .layout = s->layout,
        .links = &s->links,
        .flops_per_second =
            gal_device_peak_flops_per_second(&cluster->device, model->compute_dtype, s->framework->tf32) *
            value[GAL_CONSTANT_GEMM_FRACTION],
        .bytes_per_second = cluster->device.memory_bytes_per_second * value[GAL_CONSTANT_MEMORY_FRACTION],
        .gemm_half = value[GAL_CONSTANT_GEMM_HALF],
        .element_bytes = (double)gal_dtype_bytes(model->compute_dtype)};
}

void gal_framework_price(const gal_framework *framework, const gal_cluster *cluster, const gal_constants *constants,
                         const gal_model *model, const gal_uniform_layout *layout, gal_framework_estimate *out)
{
    gal_framework_block of_type[GAL_TYPES_MAX];
    step s = {.framework = framework, .constants = constants, .layout = layout};
    walk at = {0};
    double longest = 0.0, sum = 0.0, end = 0.0, bytes = 0.0;
    set_step(&s, cluster, model);
    for (uint32_t type = 0; type < gal_model_type_count(model); type++) {
        gal_block_shape shape;
        gal_model_type(model, type, &shape);
        gal_framework_block_of(&s.rates, &shape, &of_type[type]);
    }
    for (uint32_t index = 0; index < layout->pp_degree; index++) {
        stage one;
        walk_stage(&s, model, of_type, index, &at, &one);
        longest = fmax(longest, one.forward + one.backward);
        sum += one.forward + one.backward;
        end = fmax(end, end_seconds(&s, &one));
        bytes = fmax(bytes, stage_bytes(&s, &one, index));
    }
    out->seconds = s.microbatches * longest + (sum - longest) / layout->chunk_count + transfer_seconds(&s) + end +
                   constants->value[GAL_CONSTANT_STEP_SECONDS];
    out->bytes = bytes;
}
