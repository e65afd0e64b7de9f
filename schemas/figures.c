#include "schemas/figures.h"

static double product(double rows, double in, double out)
{
    return 2.0 * rows * in * out;
}

/* Positions that a position attends to, on average. */
static double attended(const gal_model *model, const gal_block_shape *block)
{
    const double positions = block->positions;
    if (block->window > 0) {
        return (double)block->window * block->window;
    }
    const bool causal = model->family == GAL_FAMILY_DECODER || model->family == GAL_FAMILY_LLAMA || block->decodes;
    return causal ? positions / 2.0 : positions;
}

static double attention(const gal_model *model, const gal_block_shape *block)
{
    const double queries = (double)block->head_count * block->head_dim;
    const double keys = (double)block->kv_head_count * block->head_dim;
    const double positions = block->positions;
    return product(positions, block->in.features, 2.0 * queries + 2.0 * keys) +
           2.0 * product(positions, queries, attended(model, block));
}

static double cross_attention(const gal_block_shape *block)
{
    const double width = (double)block->head_count * block->head_dim;
    const double positions = block->positions, source = block->carried_in.positions;
    return product(positions, block->in.features, 2.0 * width) +
           product(source, block->carried_in.features, 2.0 * width) + 2.0 * product(positions, width, source);
}

static double patches(const gal_model *model)
{
    const double side = model->image_size / model->patch_size;
    return side * side;
}

static double head(const gal_model *model, const gal_block_shape *block)
{
    const double rows = gal_model_sees_images(model) ? 1.0 : block->positions;
    const double transform = model->family == GAL_FAMILY_BERT ? block->in.features : 0.0;
    return product(rows, block->in.features, transform + model->vocabulary);
}

/* Forward of one sample. */
static double forward(const gal_model *model, const gal_block_shape *block)
{
    const double positions = block->positions;
    switch (block->kind) {
    case GAL_BLOCK_ATTENTION:
        return attention(model, block);
    case GAL_BLOCK_CROSS_ATTENTION:
        return cross_attention(block);
    case GAL_BLOCK_FFN:
        return product(positions, block->in.features, (gal_model_ffn_is_gated(model) ? 3.0 : 2.0) * block->ffn_hidden);
    case GAL_BLOCK_EMBEDDING:
        return gal_model_sees_images(model)
                   ? product(patches(model), gal_model_patch_features(model), block->out.features)
                   : 0.0;
    case GAL_BLOCK_MERGE:
        return product(block->out.positions, 4.0 * block->in.features, block->out.features);
    case GAL_BLOCK_HEAD:
        return head(model, block);
    default:
        return 0.0;
    }
}

double gal_model_sample_flops(const gal_model *model)
{
    double flops = 0.0;
    for (uint32_t b = 0; b < gal_model_block_count(model); b++) {
        gal_block_shape block;
        gal_model_block(model, b, &block);
        flops += forward(model, &block);
    }
    return 3.0 * flops;
}

uint64_t gal_model_sample_tokens(const gal_model *model)
{
    return gal_model_sees_images(model) ? 1 : (uint64_t)model->sequence_length + model->decoder_sequence_length;
}

const char *gal_model_token_noun(const gal_model *model)
{
    return gal_model_sees_images(model) ? "images" : "tokens";
}

void gal_figures_of(const gal_step *step, gal_figures *out)
{
    const double samples = step->global_batch_samples / step->seconds;
    const double peak = gal_device_peak_flops_per_second(step->device, step->model->compute_dtype, step->tf32);
    *out = (gal_figures){.step_seconds = step->seconds, .samples_per_second = samples};
    out->tokens_per_second = samples * (double)gal_model_sample_tokens(step->model);
    out->tokens_per_second_per_device = out->tokens_per_second / step->device_count;
    out->model_flops_per_second_per_device = samples * gal_model_sample_flops(step->model) / step->device_count;
    out->mfu = out->model_flops_per_second_per_device / peak;
}

void gal_figures_put(gal_json_writer *out, const gal_figures *figures)
{
    gal_json_put_f64(out, "samples_per_second", figures->samples_per_second);
    gal_json_put_f64(out, "tokens_per_second", figures->tokens_per_second);
    gal_json_put_f64(out, "tokens_per_second_per_device", figures->tokens_per_second_per_device);
    gal_json_put_f64(out, "model_flops_per_second_per_device", figures->model_flops_per_second_per_device);
    gal_json_put_f64(out, "mfu", figures->mfu);
}
