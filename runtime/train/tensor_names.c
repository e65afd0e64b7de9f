#include "runtime/train/tensor_names.h"

#include <string.h>

enum { ROWS_MAX = 8 };

typedef struct twin {
    const char *name, *of;
} twin;

/* own: names that begin so belong to the family. idle: names that end so (whole names too) are buffers, or parts that
 * the planned class does not have. Sources: transformers, models/<type>/modeling_<type>.py: registered buffers,
 * _tied_weights_keys, _keys_to_ignore_on_load_unexpected. */
typedef struct family_names {
    const char *own[ROWS_MAX];
    const char *idle[ROWS_MAX];
    twin twins[ROWS_MAX];
} family_names;

static const family_names names_of[GAL_FAMILY_COUNT] = {
    [GAL_FAMILY_DECODER] = {{"h.", "wte.", "wpe.", "ln_f.", "lm_head."},
                            {".attn.bias", ".attn.masked_bias"},
                            {{"lm_head.weight", "wte.weight"}}},
    [GAL_FAMILY_LLAMA] = {{"model.", "lm_head.", "layers.", "embed_tokens.", "norm."},
                          {".rotary_emb.inv_freq"},
                          {{"lm_head.weight", "model.embed_tokens.weight"}}},
    [GAL_FAMILY_BERT] = {{"bert.", "cls.predictions.", "encoder.layer.", "embeddings."},
                         {"bert.embeddings.position_ids", "bert.embeddings.token_type_ids", "bert.pooler.dense.weight",
                          "bert.pooler.dense.bias", "cls.seq_relationship.weight", "cls.seq_relationship.bias"},
                         {{"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
                          {"cls.predictions.decoder.bias", "cls.predictions.bias"}}},
    [GAL_FAMILY_VIT] = {{"vit.", "classifier.", "encoder.layer.", "embeddings."},
                        {"vit.pooler.dense.weight", "vit.pooler.dense.bias"},
                        {{0}}},
    [GAL_FAMILY_T5] = {{"shared.", "encoder.", "decoder.", "lm_head."},
                       {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"},
                       {{"lm_head.weight", "shared.weight"},
                        {"encoder.embed_tokens.weight", "shared.weight"},
                        {"decoder.embed_tokens.weight", "shared.weight"}}},
    [GAL_FAMILY_SWIN] = {{"swin.", "classifier.", "encoder.layers.", "embeddings."},
                         {".attention.self.relative_position_index"},
                         {{0}}},
};

static bool ends_so(const char *name, const char *end)
{
    const size_t length = strlen(name), end_length = strlen(end);
    return length >= end_length && strcmp(name + length - end_length, end) == 0;
}

const char *gal_tensor_name_bare(const char *name)
{
    static const char prefix[] = "transformer.";
    return strncmp(name, prefix, sizeof prefix - 1) == 0 ? name + sizeof prefix - 1 : name;
}

gal_tensor_name_kind gal_tensor_name_kind_of(gal_family family, const char *name, const char **twin_of)
{
    const family_names *names = &names_of[family];
    *twin_of = NULL;
    for (uint32_t i = 0; i < ROWS_MAX && names->twins[i].name != NULL; i++) {
        if (strcmp(name, names->twins[i].name) == 0) {
            *twin_of = names->twins[i].of;
            return GAL_TENSOR_NAME_TWIN;
        }
    }
    for (uint32_t i = 0; i < ROWS_MAX && names->idle[i] != NULL; i++) {
        if (ends_so(name, names->idle[i])) {
            return GAL_TENSOR_NAME_IDLE;
        }
    }
    for (uint32_t i = 0; i < ROWS_MAX && names->own[i] != NULL; i++) {
        if (strncmp(name, names->own[i], strlen(names->own[i])) == 0) {
            return GAL_TENSOR_NAME_OWN;
        }
    }
    return GAL_TENSOR_NAME_FOREIGN;
}
