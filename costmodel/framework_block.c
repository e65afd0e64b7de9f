#include "costmodel/framework_block.h"

#include "costmodel/analytic_collective.h"

/* In kernels: a collective of TP is launched, and a stream of its own made to wait for the kernels before it and those
 * behind for it (PyTorch, ProcessGroupNCCL). Of a gather and a scatter that stand for one reduction too. */
static const double collective_launches = 2.0;

/* The block as it grows: forward's products and passes apart, as recompute may repeat a share of each. */
typedef struct tally {
    const gal_framework_rates *rates;
    double rows;                                    /* positions of all samples */
    double tp, rows_tp;                             /* what divides inner widths, what divides rows */
    double products_seconds, passes_bytes, kernels; /* of forward */
    double core_forward_seconds, core_backward_seconds, core_bytes, core_kernels; /* attention's core */
    double parameters, kept_bytes, kept_core_bytes;
    double last_product_seconds; /* of products_seconds: what ends the layer; 0 in other blocks */
    uint32_t reductions;         /* of TP, in forward */
    double reduced_bytes;
} tally;

static double longer(double a, double b)
{
    return a > b ? a : b;
}

static double product_seconds(const gal_framework_rates *r, double batch, double m, double n, double k)
{
    if (!(batch * m * n * k > 0.0)) {
        return 0.0;
    }
    const double flops = 2.0 * batch * m * n * k;
    const double sides = (1.0 + r->gemm_half / m) * (1.0 + r->gemm_half / n) * (1.0 + r->gemm_half / k);
    const double bytes = r->element_bytes * batch * (m * n + m * k + n * k);
    return longer(flops / r->flops_per_second * sides, bytes / r->bytes_per_second);
}

/* y = x W, (rows x in) (in x out), W part of the device's parameters. Returns its seconds. */
static double add_product(tally *t, double rows, double out, double in)
{
    const double seconds = product_seconds(t->rates, 1.0, rows, out, in);
    t->products_seconds += seconds;
    t->parameters += out * in;
    return seconds;
}

static void add_rows(tally *t, const gal_block_shape *shape)
{
    const gal_framework *f = t->rates->framework;
    const double elements = t->rows * (double)shape->in.features / t->rows_tp, bytes = t->rates->element_bytes;
    const bool rms = t->rates->model->family == GAL_FAMILY_LLAMA || t->rates->model->family == GAL_FAMILY_T5;
    /* Windows keep as much as masks do: Swin's activations in Table I of Galvatron-BMW. */
    const bool masks = t->rates->model->residual_dropout > 0.0 || t->rates->model->family == GAL_FAMILY_SWIN;
    t->passes_bytes += elements * bytes * f->row_passes;
    t->kept_bytes += elements * (bytes * (f->kept_row_elements + (rms ? f->kept_rms_row_elements : 0.0)) +
                                 (masks ? f->kept_row_masks : 0.0));
}

/* Attention's core: `queries` rows meet `keys` rows in `heads` heads of a device. */
static void add_core(tally *t, double queries, double keys, double heads, double head_dim, double samples, bool causal)
{
    const gal_framework_rates *r = t->rates;
    const gal_framework *f = r->framework;
    const double batch = samples * heads;
    if (f->flash_attention) {
        const double flops = 4.0 * batch * queries * keys * head_dim * (causal ? 0.5 : 1.0);
        t->core_forward_seconds += flops / (r->flops_per_second * f->flash_forward_share);
        t->core_backward_seconds += 2.5 * flops / (r->flops_per_second * f->flash_backward_share);
        t->core_kernels += f->core_kernels;
        return;
    }
    const bool fused =
        f->softmax_fused_multiple > 0.0 && (uint64_t)batch % (uint64_t)longer(1.0, f->softmax_fused_multiple) == 0;
    const double products =
        product_seconds(r, batch, queries, keys, head_dim) + product_seconds(r, batch, queries, head_dim, keys);
    const double scores = batch * queries * keys;
    t->core_forward_seconds += products;
    t->core_backward_seconds += 2.0 * products;
    t->core_bytes += scores * r->element_bytes * (f->score_passes + (fused ? 0.0 : f->unfused_score_passes));
    t->core_kernels += f->core_kernels + (fused ? 0.0 : f->unfused_core_kernels);
    const bool dropout = r->model->attention_dropout > 0.0;
    t->kept_core_bytes +=
        scores * (r->element_bytes * (f->kept_score_elements + (dropout ? f->kept_score_dropout_elements : 0.0)) +
                  (dropout ? f->kept_score_masks : 0.0));
}

static void add_attention(tally *t, const gal_block_shape *shape)
{
    const gal_framework *f = t->rates->framework;
    const bool crosses = shape->kind == GAL_BLOCK_CROSS_ATTENTION;
    const double hidden = shape->in.features, bytes = t->rates->element_bytes;
    const double samples = t->rates->layout->microbatch_samples;
    const double heads = (double)shape->head_count / t->tp, head_dim = shape->head_dim;
    const double kv = 2.0 * (double)shape->kv_head_count * head_dim / t->tp, q = heads * head_dim;
    const double key_rows = crosses ? (double)shape->carried_in.positions * samples : t->rows;
    const double window = (double)shape->window * shape->window;
    const double keys = crosses ? (double)shape->carried_in.positions : window > 0.0 ? window : shape->positions;
    if (crosses) {
        add_product(t, t->rows, q, hidden);
        add_product(t, key_rows, kv, hidden);
    } else {
        add_product(t, t->rows, q + kv, hidden);
    }
    add_product(t, t->rows, hidden, q);
    const bool causal = t->rates->model->family == GAL_FAMILY_DECODER || t->rates->model->family == GAL_FAMILY_LLAMA ||
                        (shape->decodes && !crosses);
    add_core(t, shape->positions, keys, heads, head_dim, samples, causal);
    const double inner = 2.0 * t->rows * q + key_rows * kv;
    t->passes_bytes += inner * bytes * f->inner_passes;
    t->kept_bytes += inner * bytes * f->kept_inner_elements;
    t->kernels += f->attention_kernels;
    t->reductions = 1;
}

static void add_ffn(tally *t, const gal_block_shape *shape)
{
    const gal_framework *f = t->rates->framework;
    const bool gated = gal_model_ffn_is_gated(t->rates->model);
    const double ffn = (double)shape->ffn_hidden / t->tp, hidden = shape->in.features;
    const double elements = t->rows * ffn, bytes = t->rates->element_bytes;
    add_product(t, t->rows, gated ? 2.0 * ffn : ffn, hidden);
    t->last_product_seconds = add_product(t, t->rows, hidden, ffn);
    t->passes_bytes += elements * bytes * f->ffn_passes * (gated ? 1.5 : 1.0);
    t->kept_bytes += elements * bytes * (gated ? f->kept_gated_ffn_elements : f->kept_ffn_elements);
    if (t->rates->model->family == GAL_FAMILY_T5 && t->rates->model->residual_dropout > 0.0) {
        t->kept_bytes += elements; /* T5 drops inside its FFN: a mask */
    }
    t->kernels += f->ffn_kernels;
    t->reductions = 1;
}

/* Tables, and the projection on the vocabulary: a sample's logits are not made again. */
static void add_ends(tally *t, const gal_block_shape *shape, gal_framework_block *out)
{
    const gal_model *model = t->rates->model;
    const double bytes = t->rates->element_bytes;
    if (shape->kind == GAL_BLOCK_EMBEDDING && gal_model_sees_images(model)) {
        add_product(t, t->rows, shape->out.features, gal_model_patch_features(model));
    } else if (shape->kind == GAL_BLOCK_EMBEDDING || shape->kind == GAL_BLOCK_BRIDGE) {
        const bool learned = model->family == GAL_FAMILY_DECODER || model->family == GAL_FAMILY_BERT;
        t->parameters += (double)gal_model_padded_vocabulary(model) * shape->out.features / t->tp +
                         (learned ? (double)shape->out.positions * shape->out.features : 0.0);
        t->passes_bytes += 3.0 * t->rows * shape->out.features * bytes;
    } else if (shape->kind == GAL_BLOCK_MERGE) {
        add_product(t, t->rows / 4.0, shape->out.features, 4.0 * (double)shape->in.features);
    } else {
        const double vocabulary = (double)gal_model_padded_vocabulary(model) / t->tp;
        /* a BERT's head is computed for all positions, masked or not */
        const double positions = model->family == GAL_FAMILY_BERT ? shape->positions : gal_model_loss_positions(model);
        const double rows = positions * t->rates->layout->microbatch_samples;
        out->logits = rows * vocabulary;
        add_product(t, rows, vocabulary, shape->in.features);
        if (model->tied_embeddings && t->rates->layout->pp_degree == 1) {
            t->parameters -= vocabulary * shape->in.features;
        }
        t->passes_bytes += out->logits * bytes * t->rates->framework->logit_passes / 3.0;
        t->kept_bytes += out->logits * bytes * t->rates->framework->kept_logit_elements;
    }
    t->kernels += t->rates->framework->ffn_kernels;
}

static double reduction_seconds(const tally *t, gal_op op)
{
    const uint32_t tp = t->rates->layout->tp_degree;
    uint32_t counts[GAL_LINK_LEVELS_MAX];
    gal_framework_level_counts(t->rates->links, 1, tp, counts);
    return gal_collective_analytic_seconds(t->rates->links, op, counts, (uint64_t)t->reduced_bytes);
}

/* What comes before forward's products is gathered `gathers` times and what they leave reduced `reductions` times: 2
 * where a recompute does it again. */
static double tensor_seconds(const tally *t, double gathers, double reductions)
{
    if (t->tp <= 1.0 || t->reductions == 0) {
        return 0.0;
    }
    if (!t->rates->layout->sequence_parallel) {
        return (reductions + 1.0) * reduction_seconds(t, GAL_OP_ALL_REDUCE);
    }
    const double gather = reduction_seconds(t, GAL_OP_ALL_GATHER),
                 scatter = reduction_seconds(t, GAL_OP_REDUCE_SCATTER);
    return gathers * gather + reductions * scatter + 2.0 * gather + scatter;
}

static void finish(const tally *t, gal_framework_block *out)
{
    const gal_framework_rates *r = t->rates;
    const gal_framework *f = r->framework;
    const bool inside = t->reductions > 0; /* layers alone are recomputed */
    const gal_recompute asked = inside ? r->layout->recompute : GAL_RECOMPUTE_NONE;
    const gal_recompute recompute = asked == GAL_RECOMPUTE_REPEAT ? GAL_RECOMPUTE_FULL : asked; /* which repeats too */
    const double products_again = recompute == GAL_RECOMPUTE_FULL        ? 1.0
                                  : recompute == GAL_RECOMPUTE_SELECTIVE ? f->selective_products_again
                                                                         : 0.0;
    const double passes_again = recompute == GAL_RECOMPUTE_FULL        ? 1.0
                                : recompute == GAL_RECOMPUTE_SELECTIVE ? f->selective_passes_again
                                                                       : 0.0;
    const bool full = recompute == GAL_RECOMPUTE_FULL;
    const bool stops_early = full && f->recompute_stops_early && t->last_product_seconds > 0.0;
    const double not_again = stops_early ? t->last_product_seconds : 0.0;
    const bool core_again =
        recompute == GAL_RECOMPUTE_FULL || (recompute == GAL_RECOMPUTE_SELECTIVE && !f->flash_attention);
    const double passes = t->passes_bytes / r->bytes_per_second, core = t->core_bytes / r->bytes_per_second;
    const double core_forward = t->core_forward_seconds + core;
    out->forward_seconds = t->products_seconds + passes + core_forward;
    out->backward_seconds = (2.0 + products_again) * t->products_seconds - not_again +
                            (f->backward_passes_factor + passes_again) * passes + t->core_backward_seconds +
                            f->backward_passes_factor * core + (core_again ? core_forward : 0.0);
    out->forward_kernels = t->kernels + t->core_kernels;
    out->backward_kernels = (f->backward_kernels_factor + passes_again) * t->kernels +
                            (f->backward_kernels_factor + (core_again ? 1.0 : 0.0)) * t->core_kernels;
    if (t->tp > 1.0) {
        out->forward_kernels += collective_launches * t->reductions;
        out->backward_kernels += collective_launches * t->reductions * (full ? 2.0 : 1.0);
    }
    out->tensor_seconds = tensor_seconds(t, full ? 2.0 : 1.0, full && !stops_early ? 2.0 : 1.0);
    out->parameters = t->parameters;
    const double all = t->kept_bytes + t->kept_core_bytes;
    /* the input of a layer stays: a block is half of one */
    const double input = 0.5 * t->reduced_bytes / t->rows_tp;
    out->kept_bytes = recompute == GAL_RECOMPUTE_FULL        ? input
                      : recompute == GAL_RECOMPUTE_SELECTIVE ? t->kept_bytes * f->selective_kept_share
                                                             : all;
    out->again_bytes = recompute == GAL_RECOMPUTE_NONE ? 0.0 : all - out->kept_bytes;
}

void gal_framework_block_of(const gal_framework_rates *rates, const gal_block_shape *shape, gal_framework_block *out)
{
    const gal_uniform_layout *layout = rates->layout;
    const double samples = layout->microbatch_samples, tp = layout->tp_degree;
    tally t = {.rates = rates, .tp = tp, .rows_tp = layout->sequence_parallel ? tp : 1.0};
    *out = (gal_framework_block){0};
    t.rows = samples * (double)(shape->positions > 0 ? shape->positions : shape->out.positions);
    t.reduced_bytes = t.rows * (double)shape->in.features * rates->element_bytes;
    switch (shape->kind) {
    case GAL_BLOCK_ATTENTION:
    case GAL_BLOCK_CROSS_ATTENTION:
        add_rows(&t, shape);
        add_attention(&t, shape);
        break;
    case GAL_BLOCK_FFN:
        add_rows(&t, shape);
        add_ffn(&t, shape);
        break;
    default:
        add_ends(&t, shape, out);
    }
    finish(&t, out);
}
