/* Llama and its kin: RMSNorm, rotary positions, a gated FFN, heads of queries that share keys and values. */
#include "schemas/model_family.h"

static void read_scaling(const gal_json_cursor *at, gal_rotary_scaling *out)
{
    out->kind = (gal_rotary_scaling_kind)gal_json_enum(at, "kind", gal_rotary_scaling_names, GAL_ROTARY_SCALING_COUNT);
    if (out->kind != GAL_ROTARY_SCALING_NONE) {
        out->factor = gal_json_f64(at, "factor", 1.0, GAL_ROTARY_FACTOR_MAX);
    }
    if (out->kind == GAL_ROTARY_SCALING_LLAMA3) {
        out->low_frequency_factor = gal_json_f64(at, "low_frequency_factor", GAL_POSITIVE_MIN, GAL_ROTARY_FACTOR_MAX);
        out->high_frequency_factor = gal_json_f64(at, "high_frequency_factor", GAL_POSITIVE_MIN, GAL_ROTARY_FACTOR_MAX);
        out->original_positions = gal_json_u32(at, "original_positions", 1, GAL_SEQUENCE_LENGTH_MAX);
    }
    gal_json_reject_unknown(at);
}

static void write_scaling(gal_json_writer *out, const gal_rotary_scaling *scaling)
{
    gal_json_begin_object(out, "rotary_scaling");
    gal_json_put_string(out, "kind", gal_rotary_scaling_names[scaling->kind]);
    gal_json_put_f64(out, "factor", scaling->factor);
    if (scaling->kind == GAL_ROTARY_SCALING_LLAMA3) {
        gal_json_put_f64(out, "low_frequency_factor", scaling->low_frequency_factor);
        gal_json_put_f64(out, "high_frequency_factor", scaling->high_frequency_factor);
        gal_json_put_u64(out, "original_positions", scaling->original_positions);
    }
    gal_json_end_object(out);
}

static void read(const gal_json_cursor *at, gal_model *out)
{
    out->kv_head_count = gal_json_u32(at, "kv_head_count", 1, GAL_HIDDEN_MAX);
    out->head_dim = gal_json_u32(at, "head_dim", 2, GAL_HEAD_DIM_MAX);
    out->rotary_base = gal_json_f64(at, "rotary_base", 1.0, 1e12);
    if (gal_json_has(at, "rotary_scaling")) {
        gal_json_cursor scaling = gal_json_object(at, "rotary_scaling");
        read_scaling(&scaling, &out->rotary_scaling);
    }
    out->qkv_bias = gal_json_bool(at, "qkv_bias");
    out->norm_epsilon = gal_json_f64(at, "rms_norm_epsilon", GAL_POSITIVE_MIN, 1.0);
    out->attention_dropout = gal_json_f64(at, "attention_dropout", 0.0, GAL_JSON_BELOW_ONE);
}

static void write(gal_json_writer *out, const gal_model *model)
{
    gal_json_put_u64(out, "kv_head_count", model->kv_head_count);
    gal_json_put_u64(out, "head_dim", model->head_dim);
    gal_json_put_f64(out, "rotary_base", model->rotary_base);
    if (model->rotary_scaling.kind != GAL_ROTARY_SCALING_NONE) {
        write_scaling(out, &model->rotary_scaling);
    }
    gal_json_put_bool(out, "qkv_bias", model->qkv_bias);
    gal_json_put_f64(out, "rms_norm_epsilon", model->norm_epsilon);
    gal_json_put_f64(out, "attention_dropout", model->attention_dropout);
}

static void check(const gal_json_cursor *at, const gal_model *model, const gal_model_keys *keys)
{
    if (model->kv_head_count != 0 && model->head_count % model->kv_head_count != 0) {
        gal_json_member_error(at, keys->kv_head_count, "must divide the number of heads %u", model->head_count);
    }
    if (model->head_dim % 2 != 0) {
        gal_json_error(at, "the features of a head must be even to be turned in pairs, got %u", model->head_dim);
    }
    if ((uint64_t)model->head_count * model->head_dim > GAL_HIDDEN_MAX) {
        gal_json_error(at, "the heads' features together must be at most %d, got %llu", GAL_HIDDEN_MAX,
                       (unsigned long long)model->head_count * model->head_dim);
    }
    const gal_rotary_scaling *scaling = &model->rotary_scaling;
    if (scaling->kind == GAL_ROTARY_SCALING_LLAMA3 && scaling->high_frequency_factor <= scaling->low_frequency_factor) {
        gal_json_error(at, "the high frequency factor %g of the rotary scaling must be above the low one %g",
                       scaling->high_frequency_factor, scaling->low_frequency_factor);
    }
}

static uint64_t parameter_count(const gal_model *model)
{
    const uint64_t hidden = model->hidden, norm = hidden, query = (uint64_t)model->head_count * model->head_dim;
    const uint64_t tables = (model->tied_embeddings ? 1 : 2) * hidden * model->vocabulary;
    const uint64_t qkv = query + 2 * (uint64_t)model->kv_head_count * model->head_dim;
    const uint64_t attention = norm + qkv * hidden + (model->qkv_bias ? qkv : 0) + query * hidden;
    const uint64_t feed_forward = norm + 3 * hidden * model->ffn_hidden;
    return tables + model->layer_count * (attention + feed_forward) + norm;
}

const gal_model_family gal_family_llama = {.read = read,
                                           .write = write,
                                           .check = check,
                                           .parameter_count = parameter_count,
                                           .block_count = gal_family_chain_count,
                                           .block = gal_family_chain_block,
                                           .type_count = gal_family_chain_type_count,
                                           .first_of_type = gal_family_chain_first};
