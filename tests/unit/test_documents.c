#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/catalogue/catalogue.h"
#include "schemas/catalogue/devices.h"
#include "schemas/document.h"

#define VALID "tests/fixtures/valid/"

/* Of the models that ship: counts of public checkpoints, to the unit. */
static void test_catalogue_counts(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t parameter_count;
    } published[] = {{"gpt2-small", 124439808},
                     {"gpt2-medium", 354823168},
                     {"gpt2-large", 774030080},
                     {"gpt2-xl", UINT64_C(1557611200)},
                     {"llama2-7b", UINT64_C(6738415616)},
                     {"llama2-13b", UINT64_C(13015864320)},
                     {"llama2-70b", UINT64_C(68976648192)},
                     {"llama3-8b", UINT64_C(8030261248)},
                     {"llama3-70b", UINT64_C(70553706496)},
                     {"llama3-405b", UINT64_C(405853388800)},
                     {"llama3.1-8b", UINT64_C(8030261248)},
                     {"llama3.1-70b", UINT64_C(70553706496)},
                     {"llama3.1-405b", UINT64_C(405853388800)},
                     {"llama3.2-1b", UINT64_C(1235814400)},
                     {"llama3.2-3b", UINT64_C(3212749824)},
                     {"mistral-7b", UINT64_C(7241732096)},
                     {"mistral-nemo-12b", UINT64_C(12247782400)},
                     {"mistral-small-24b", UINT64_C(23572403200)},
                     {"phi-4", UINT64_C(14659507200)},
                     {"smollm2-135m", UINT64_C(134515008)},
                     {"smollm2-360m", UINT64_C(361821120)},
                     {"smollm2-1.7b", UINT64_C(1711376384)},
                     {"qwen2.5-0.5b", UINT64_C(494032768)},
                     {"qwen2.5-1.5b", UINT64_C(1543714304)},
                     {"qwen2.5-3b", UINT64_C(3085938688)},
                     {"qwen2.5-7b", UINT64_C(7615616512)},
                     {"qwen2.5-14b", UINT64_C(14770033664)},
                     {"qwen2.5-32b", UINT64_C(32763876352)},
                     {"qwen2.5-72b", UINT64_C(72706203648)},
                     {"qwen2-0.5b", UINT64_C(494032768)},
                     {"qwen2-7b", UINT64_C(7615616512)},
                     {"tinyllama-1.1b", UINT64_C(1100048384)}};
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        gal_model model;
        gal_error err = {0};
        if (gal_model_read(published[i].name, &model, &err) != GAL_OK) {
            fail_msg("%s", err.text);
        }
        assert_int_equal(gal_model_parameter_count(&model), published[i].parameter_count);
    }
}

/* What papers print, in billions: Galvatron-BMW Table I; Megatron-LM's Table 1 (SC21) as Oases takes them; GPT-3 Table
 * 2.1. Within 0.4 %. */
static void test_catalogue_papers(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double billions;
    } printed[] = {{"gpt3-15b", 15.4},  {"gpt3-39b", 39.1},  {"gpt3-65b", 64.9},
                   {"gpt-18.4b", 18.4}, {"gpt-39.1b", 39.1}, {"gpt3-175b", 175.0}};
    for (size_t i = 0; i < sizeof printed / sizeof printed[0]; i++) {
        gal_model model;
        assert_int_equal(gal_model_read(printed[i].name, &model, NULL), GAL_OK);
        assert_true(fabs((double)gal_model_parameter_count(&model) * 1e-9 / printed[i].billions - 1.0) < 0.004);
    }
}

/* Every model that ships is read under its name. */
static void test_catalogue_models(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < gal_catalogue_entry_count; i++) {
        gal_model model;
        gal_error err = {0};
        if (strcmp(gal_catalogue_entries[i].kind, "model") == 0) {
            if (gal_model_read(gal_catalogue_entries[i].name, &model, &err) != GAL_OK) {
                fail_msg("%s", err.text);
            }
            assert_string_equal(model.name, gal_catalogue_entries[i].name);
        }
    }
    gal_model model;
    assert_int_equal(gal_model_read("gpt2-xl", &model, NULL), GAL_OK);
    assert_int_equal(gal_model_padded_vocabulary(&model), 50304); /* 393 * 128 */
}

/* Parameters of public checkpoints (their safetensors headers), from their config.json's sizes. */
static void test_public_counts(void **state)
{
    (void)state;
    static const struct {
        const char *type, *tie;
        uint32_t layers, hidden, heads, kv_heads, ffn, vocabulary;
        uint64_t parameter_count;
    } published[] = {
        {"llama", "false", 32, 4096, 32, 32, 11008, 32000, UINT64_C(6738415616)},  /* Llama-2-7b-hf */
        {"llama", "false", 40, 5120, 40, 40, 13824, 32000, UINT64_C(13015864320)}, /* Llama-2-13b-hf */
        {"llama", "false", 80, 8192, 64, 8, 28672, 32000, UINT64_C(68976648192)},  /* Llama-2-70b-hf */
        {"llama", "false", 32, 4096, 32, 8, 14336, 128256, UINT64_C(8030261248)},  /* Meta-Llama-3-8B */
        {"llama", "false", 80, 8192, 64, 8, 28672, 128256, UINT64_C(70553706496)}, /* Meta-Llama-3-70B */
        {"llama", "false", 22, 2048, 32, 4, 5632, 32000, UINT64_C(1100048384)},    /* TinyLlama-1.1B */
        {"mistral", "false", 32, 4096, 32, 8, 14336, 32000, UINT64_C(7241732096)}, /* Mistral-7B-v0.1 */
        {"qwen2", "true", 24, 896, 14, 2, 4864, 151936, UINT64_C(494032768)},      /* Qwen2-0.5B */
        {"qwen2", "true", 28, 1536, 12, 2, 8960, 151936, UINT64_C(1543714304)},    /* Qwen2-1.5B */
        {"qwen2", "false", 28, 3584, 28, 4, 18944, 152064, UINT64_C(7615616512)},  /* Qwen2-7B */
        {"qwen2", "false", 80, 8192, 64, 8, 29568, 152064, UINT64_C(72706203648)}, /* Qwen2-72B */
    };
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        char text[512];
        gal_json_doc *doc = NULL;
        gal_model model;
        gal_error err = {0};
        const int bytes =
            snprintf(text, sizeof text,
                     "{\"model_type\": \"%s\", \"tie_word_embeddings\": %s, \"num_hidden_layers\": %u, "
                     "\"hidden_size\": %u, \"num_attention_heads\": %u, \"num_key_value_heads\": %u, "
                     "\"intermediate_size\": %u, \"vocab_size\": %u, \"max_position_embeddings\": 4096}",
                     published[i].type, published[i].tie, published[i].layers, published[i].hidden, published[i].heads,
                     published[i].kv_heads, published[i].ffn, published[i].vocabulary);
        assert_int_equal(gal_json_open_text("config.json", text, (size_t)bytes, &doc, &err), GAL_OK);
        if (gal_document_read_open(GAL_DOCUMENT_MODEL, doc, &model, &err) != GAL_OK) {
            fail_msg("%s", err.text);
        }
        gal_json_close(doc);
        assert_int_equal(model.family, GAL_FAMILY_LLAMA);
        assert_int_equal(gal_model_parameter_count(&model), published[i].parameter_count);
    }
}

static void read_config(const char *text, gal_model *out)
{
    gal_json_doc *doc = NULL;
    gal_error err = {0};
    assert_int_equal(gal_json_open_text("config.json", text, strlen(text), &doc, &err), GAL_OK);
    if (gal_document_read_open(GAL_DOCUMENT_MODEL, doc, out, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    gal_json_close(doc);
}

/* BertForMaskedLM and ViTForImageClassification with 1,000 labels (those of torchvision are equal in parameters). */
static void test_public_counts_of_encoders(void **state)
{
    (void)state;
    static const struct {
        uint32_t layers, hidden, heads;
        const char *others;
        gal_family family;
        uint64_t parameter_count;
    } published[] = {
        {12, 768, 12, "\"model_type\": \"bert\", \"vocab_size\": 30522", GAL_FAMILY_BERT, 109514298}, /* base-uncased */
        {24, 1024, 16, "\"model_type\": \"bert\", \"vocab_size\": 30522", GAL_FAMILY_BERT,
         335174458}, /* large-uncased */
        {12, 768, 12, "\"model_type\": \"bert\", \"vocab_size\": 28996", GAL_FAMILY_BERT, 108340804}, /* base-cased */
        {12, 768, 12, "\"model_type\": \"bert\", \"vocab_size\": 119547", GAL_FAMILY_BERT,
         177974523}, /* multilingual */
        {12, 768, 12, "\"model_type\": \"vit\", \"patch_size\": 16", GAL_FAMILY_VIT, 86567656},
        {12, 768, 12, "\"model_type\": \"vit\", \"patch_size\": 32", GAL_FAMILY_VIT, 88224232},
        {24, 1024, 16, "\"model_type\": \"vit\", \"patch_size\": 16", GAL_FAMILY_VIT, 304326632},
        {24, 1024, 16, "\"model_type\": \"vit\", \"patch_size\": 32", GAL_FAMILY_VIT, 306535400},
        {32, 1280, 16, "\"model_type\": \"vit\", \"patch_size\": 14", GAL_FAMILY_VIT, 632045800},
    };
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        char text[512];
        gal_model model;
        (void)snprintf(text, sizeof text,
                       "{%s, \"num_hidden_layers\": %u, \"hidden_size\": %u, \"num_attention_heads\": %u, "
                       "\"intermediate_size\": %u}",
                       published[i].others, published[i].layers, published[i].hidden, published[i].heads,
                       4 * published[i].hidden);
        read_config(text, &model);
        assert_int_equal(model.family, published[i].family);
        assert_int_equal(gal_model_parameter_count(&model), published[i].parameter_count);
    }
}

/* Parameters of public T5 checkpoints, from their config.json's sizes; and Table I of Galvatron-BMW, in millions, to
 * 0.4 %. */
static void test_t5_counts(void **state)
{
    (void)state;
    static const struct {
        uint32_t layers, hidden, heads, ffn;
        const char *rest;
        uint64_t parameter_count;
    } published[] = {
        {6, 512, 8, 2048, "", UINT64_C(60506624)},     /* t5-small */
        {12, 768, 12, 3072, "", UINT64_C(222903552)},  /* t5-base */
        {24, 1024, 16, 4096, "", UINT64_C(737668096)}, /* t5-large */
        {12, 768, 12, 2048, ", \"feed_forward_proj\": \"gated-gelu\", \"tie_word_embeddings\": false",
         UINT64_C(247577856)}, /* google/t5-v1_1-base */
    };
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        char text[512];
        gal_json_doc *doc = NULL;
        gal_model model;
        gal_error err = {0};
        const int bytes =
            snprintf(text, sizeof text,
                     "{\"model_type\": \"t5\", \"num_layers\": %u, \"d_model\": %u, \"num_heads\": %u, "
                     "\"d_kv\": 64, \"d_ff\": %u, \"vocab_size\": 32128%s}",
                     published[i].layers, published[i].hidden, published[i].heads, published[i].ffn, published[i].rest);
        assert_int_equal(gal_json_open_text("config.json", text, (size_t)bytes, &doc, &err), GAL_OK);
        if (gal_document_read_open(GAL_DOCUMENT_MODEL, doc, &model, &err) != GAL_OK) {
            fail_msg("%s", err.text);
        }
        gal_json_close(doc);
        assert_int_equal(gal_model_parameter_count(&model), published[i].parameter_count);
        assert_int_equal(model.sequence_length, 512);
        assert_int_equal(model.decoder_layer_count, published[i].layers);
    }
    static const struct {
        const char *name;
        double millions;
    } table[] = {{"t5-large-32", 502}, {"t5-large-48", 737}, {"t5-512-4-32", 502}, {"t5-512-4-48", 737}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        gal_model model;
        gal_error err = {0};
        assert_int_equal(gal_model_read(table[i].name, &model, &err), GAL_OK);
        const double millions = (double)gal_model_parameter_count(&model) / 1e6;
        assert_true(millions > table[i].millions * 0.996 && millions < table[i].millions * 1.004);
    }
}

/* Parameters of microsoft/swin-{tiny,small,base}-patch4-window7-224 and -large, from their config.json's sizes. */
static void test_swin_counts(void **state)
{
    (void)state;
    static const struct {
        uint32_t embed, depth, heads; /* of the first level, layers of the third, heads of the first */
        uint64_t parameter_count;
    } published[] = {
        {96, 6, 3, UINT64_C(28288354)},
        {96, 18, 3, UINT64_C(49606258)},
        {128, 18, 4, UINT64_C(87768224)},
        {192, 18, 6, UINT64_C(196532476)},
    };
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        char text[512];
        gal_model model;
        const uint32_t heads = published[i].heads;
        (void)snprintf(text, sizeof text,
                       "{\"model_type\": \"swin\", \"embed_dim\": %u, \"depths\": [2, 2, %u, 2], "
                       "\"num_heads\": [%u, %u, %u, %u], \"drop_path_rate\": 0.3}",
                       published[i].embed, published[i].depth, heads, 2 * heads, 4 * heads, 8 * heads);
        read_config(text, &model);
        assert_int_equal(model.family, GAL_FAMILY_SWIN);
        assert_int_equal(model.layer_count, 6 + published[i].depth);
        assert_int_equal(model.ffn_hidden, 4 * published[i].embed);
        assert_int_equal(model.sequence_length, 56 * 56);
        assert_int_equal(gal_model_parameter_count(&model), published[i].parameter_count);
    }
}

/* A grid of 8 x 8, 4 x 4, 2 x 2 with windows of 4 and 2 + 2 + 1 layers: only the first level has more than a window. */
static void test_swin_chain(void **state)
{
    (void)state;
    gal_model model;
    gal_error err = {0};
    gal_block_shape at;
    static const struct {
        uint32_t block;
        gal_block_kind kind;
        uint32_t level, layer, side, window, shift, features, heads;
    } expected[] = {
        {1, GAL_BLOCK_ATTENTION, 0, 0, 8, 4, 0, 16, 2},  {3, GAL_BLOCK_ATTENTION, 0, 1, 8, 4, 2, 16, 2},
        {4, GAL_BLOCK_FFN, 0, 1, 8, 0, 0, 16, 2},        {5, GAL_BLOCK_MERGE, 0, 0, 8, 0, 0, 16, 2},
        {8, GAL_BLOCK_ATTENTION, 1, 1, 4, 4, 0, 32, 4},  {10, GAL_BLOCK_MERGE, 1, 1, 4, 0, 0, 32, 4},
        {11, GAL_BLOCK_ATTENTION, 2, 0, 2, 2, 0, 64, 8}, {13, GAL_BLOCK_HEAD, 2, 0, 2, 0, 0, 64, 8},
    };
    assert_int_equal(gal_model_read(VALID "model_swin.json", &model, &err), GAL_OK);
    assert_int_equal(gal_model_block_count(&model), 1 + 2 * 5 + 2 + 1);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        gal_model_block(&model, expected[i].block, &at);
        assert_true(at.kind == expected[i].kind && at.level == expected[i].level && at.layer == expected[i].layer);
        assert_true(at.side == expected[i].side && at.window == expected[i].window && at.shift == expected[i].shift);
        assert_true(at.in.positions == at.side * at.side && at.in.features == expected[i].features);
        assert_true(at.head_count == expected[i].heads && at.head_dim == 8 && at.positions == at.in.positions);
    }
    gal_model_block(&model, 5, &at);
    assert_true(at.out.positions == 16 && at.out.features == 32);
    /* embedding; attention, FFN, shifted attention, merge; attention, FFN, merge; attention, FFN; head */
    assert_int_equal(gal_model_type_count(&model), 1 + 4 + 3 + 2 + 1);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < gal_model_block_count(&model); i++) {
        gal_model_block(&model, i, &at);
        if (at.type == seen) { /* the next type, first met here */
            gal_block_shape first;
            gal_model_type(&model, seen++, &first);
            assert_memory_equal(&first, &at, sizeof at);
        }
        assert_true(at.type < seen);
    }
    assert_int_equal(seen, gal_model_type_count(&model));
}

/* Blocks of a chain of 2 + 3 layers: kinds, layers, what enters and leaves, what flows beside. */
static void test_t5_chain(void **state)
{
    (void)state;
    gal_model model;
    gal_error err = {0};
    gal_block_shape at;
    assert_int_equal(gal_model_read(VALID "model_t5.json", &model, &err), GAL_OK);
    assert_int_equal(gal_model_block_count(&model), 1 + 2 * 2 + 1 + 3 * 3 + 1);
    gal_model_block(&model, 5, &at);
    assert_true(at.kind == GAL_BLOCK_BRIDGE && at.in.positions == 32 && at.out.positions == 16);
    assert_true(at.carried_in.positions == 0 && at.carried_out.positions == 32 && at.positions == 16);
    gal_model_block(&model, 13, &at); /* the last cross-attention */
    assert_true(at.kind == GAL_BLOCK_CROSS_ATTENTION && at.layer == 2 && at.decodes);
    assert_true(at.carried_in.positions == 32 && at.carried_out.positions == 0);
    gal_model_block(&model, 14, &at);
    assert_true(at.kind == GAL_BLOCK_FFN && at.carried_in.positions == 0);
    gal_model_block(&model, 9, &at); /* the second self-attention behind the bridge */
    assert_true(at.kind == GAL_BLOCK_ATTENTION && at.layer == 1 && at.carried_out.positions == 32);
    assert_int_equal(at.shared, 1 << GAL_SHARED_DECODER_BIAS);
    for (uint32_t type = 0; type < gal_model_type_count(&model); type++) {
        gal_model_type(&model, type, &at);
        assert_int_equal(at.type, type);
    }
}

static void test_encoders(void **state)
{
    (void)state;
    gal_model model;
    gal_error err = {0};
    assert_int_equal(gal_model_read(VALID "hugging_face_bert.json", &model, &err), GAL_OK);
    assert_int_equal(model.mask_token, 103);
    assert_int_equal(model.type_count, 2);
    assert_int_equal(gal_model_loss_positions(&model), 77); /* 0.15 * 512 = 76.8 */
    assert_true(model.residual_dropout == 0.1 && model.embedding_dropout == 0.0 && model.tied_embeddings);
    assert_int_equal(gal_model_read(VALID "hugging_face_vit.json", &model, &err), GAL_OK);
    assert_int_equal(model.vocabulary, 3); /* labels that the file names */
    assert_int_equal(model.sequence_length, 14 * 14 + 1);
    assert_int_equal(gal_model_patch_features(&model), 3 * 16 * 16);
    assert_int_equal(gal_model_loss_positions(&model), 1);
    assert_int_equal(gal_model_read(VALID "hugging_face_vit_plain.json", &model, &err), GAL_OK);
    assert_int_equal(model.vocabulary, 1000);
    assert_int_equal(gal_model_read(VALID "model.json", &model, &err), GAL_OK);
    assert_int_equal(gal_model_loss_positions(&model), model.sequence_length);
}

static void test_windows(void **state)
{
    (void)state;
    gal_model model;
    gal_error err = {0};
    assert_int_equal(gal_model_read(VALID "hugging_face_mistral.json", &model, &err), GAL_OK);
    assert_int_equal(model.sequence_length, 4096); /* no more than the window */
    assert_int_equal(model.reading.window_positions, 4096);
    assert_false(model.reading.sequence_assumed);
    assert_int_equal(gal_model_read(VALID "hugging_face_qwen2.json", &model, &err), GAL_OK);
    assert_int_equal(model.sequence_length, 8192); /* its window is not used, but it allows 32768 */
    assert_int_equal(model.reading.window_positions, 0);
    assert_int_equal(model.reading.configured_positions, 32768);
    assert_true(model.qkv_bias && model.tied_embeddings);
    assert_int_equal(model.head_dim, 64);
    assert_int_equal(gal_model_read(VALID "hugging_face_llama.json", &model, &err), GAL_OK);
    assert_true(model.rotary_base == 500000.0 && model.norm_epsilon == 1e-5 && !model.qkv_bias);
    assert_int_equal(model.activation, GAL_ACTIVATION_SILU);
    assert_int_equal(model.rotary_scaling.kind, GAL_ROTARY_SCALING_NONE);
    assert_int_equal(gal_model_read(VALID "hugging_face_llama_rope_parameters.json", &model, &err), GAL_OK);
    assert_true(model.rotary_base == 500000.0 && model.rotary_scaling.kind == GAL_ROTARY_SCALING_NONE);
    assert_int_equal(gal_model_read(VALID "hugging_face_llama_3_1.json", &model, &err), GAL_OK);
    assert_int_equal(model.rotary_scaling.kind, GAL_ROTARY_SCALING_LLAMA3);
    assert_true(model.rotary_scaling.factor == 8.0 && model.rotary_scaling.low_frequency_factor == 1.0 &&
                model.rotary_scaling.high_frequency_factor == 4.0);
    assert_int_equal(model.rotary_scaling.original_positions, 8192);
}

/* Case and punctuation do not matter, points between digits do. */
static void test_catalogue_names(void **state)
{
    (void)state;
    static const char *const names[] = {"llama3-8b", "Llama-3-8B", "LLaMA3-8B",
                                        "llama3_8b", "llama-3-8b", "Llama 3 8B"};
    const char *text = gal_catalogue_find("model", "llama3-8b");
    assert_non_null(text);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_ptr_equal(gal_catalogue_find("model", names[i]), text);
    }
    assert_non_null(gal_catalogue_find("model", "Qwen2_0.5B"));
    assert_null(gal_catalogue_find("model", "qwen2-05b"));
    assert_null(gal_catalogue_find("model", ""));
    assert_null(gal_catalogue_find("cluster", "llama3-8b"));
}

static void suggests(const char *kind, const char *word, const char *expected)
{
    char text[512];
    gal_catalogue_suggest(kind, word, text, sizeof text);
    assert_string_equal(text, expected);
}

static void test_catalogue_suggests(void **state)
{
    (void)state;
    suggests("model", "lama3-8b", "did you mean \"llama3-8b\"?");
    suggests("model", "Meta-Llama-3-8B", "did you mean \"llama3-8b\"?");
    suggests("model", "Llama-3-8B-Instruct-hf", "did you mean \"llama3-8b\"?"); /* by the part that it holds */
    suggests("model", "tinyllama", "did you mean \"tinyllama-1.1b\"?");
    suggests("model", "GPT2", "did you mean one of gpt2-large, gpt2-medium, gpt2-small, gpt2-xl?");
    suggests("framework", "torchtitan_2025", "did you mean \"torchtitan-2024\"?");
    suggests("model", "zzzz", "");
    suggests("model", "", "");
}

static void test_catalogue_misses(void **state)
{
    (void)state;
    gal_model model;
    gal_cluster cluster;
    gal_error err = {0};
    assert_int_equal(gal_model_read("gpt2-smal", &model, &err), GAL_ERR_USAGE);
    assert_string_equal(err.text, "gpt2-smal: no such file, and no model of that name ships with galplan; did you mean "
                                  "\"gpt2-small\"? 'galplan models' lists them");
    assert_int_equal(gal_model_read("./gpt2-small", &model, NULL), GAL_ERR_USAGE); /* a path is never a name */
    assert_int_equal(gal_cluster_read("gpt2-small", &cluster, NULL), GAL_ERR_USAGE);
    assert_null(gal_catalogue_find("model", "gpt2"));
}

static bool same_device(const gal_device *a, const gal_device *b)
{
    return a->memory_bytes == b->memory_bytes && a->fp32_flops_per_second == b->fp32_flops_per_second &&
           a->fp64_flops_per_second == b->fp64_flops_per_second &&
           a->memory_bytes_per_second == b->memory_bytes_per_second &&
           a->tf32_flops_per_second == b->tf32_flops_per_second &&
           a->fp16_flops_per_second == b->fp16_flops_per_second &&
           a->bf16_flops_per_second == b->bf16_flops_per_second && a->multiprocessor_count == b->multiprocessor_count &&
           a->launch_seconds == b->launch_seconds && a->gemm_fraction == b->gemm_fraction &&
           a->memory_fraction == b->memory_fraction;
}

/* Every cluster that ships is read under its name, and a kind of device has the figures of the table wherever it is. */
static void test_catalogue_clusters(void **state)
{
    (void)state;
    uint32_t count = 0;
    gal_cluster cluster[64];
    for (uint32_t i = 0; i < gal_catalogue_entry_count; i++) {
        gal_error err = {0};
        if (strcmp(gal_catalogue_entries[i].kind, "cluster") != 0) {
            continue;
        }
        assert_true(count < sizeof cluster / sizeof cluster[0]);
        if (gal_cluster_read(gal_catalogue_entries[i].name, &cluster[count], &err) != GAL_OK) {
            fail_msg("%s", err.text);
        }
        assert_string_equal(cluster[count].name, gal_catalogue_entries[i].name);
        for (uint32_t j = 0; j < gal_catalogue_device_count; j++) {
            const gal_device a = gal_catalogue_device_figures(&gal_catalogue_devices[j]);
            const gal_device *b = &cluster[count].device;
            assert_true(strcmp(a.kind, b->kind) != 0 || same_device(&a, b));
        }
        for (uint32_t l = 1; l < cluster[count].level_count; l++) { /* further is never faster */
            assert_true(cluster[count].level[l].bytes_per_second < cluster[count].level[l - 1].bytes_per_second);
        }
        count++;
    }
    assert_true(count > 0);
}

static void test_hugging_face(void **state)
{
    (void)state;
    gal_model model;
    gal_model small;
    assert_int_equal(gal_model_read(VALID "hugging_face_gpt2.json", &model, NULL), GAL_OK);
    assert_int_equal(gal_model_read("gpt2-small", &small, NULL), GAL_OK);
    assert_int_equal(gal_model_parameter_count(&model), gal_model_parameter_count(&small));
    assert_int_equal(model.ffn_hidden, 3072); /* n_inner null: 4 * 768 */
    assert_int_equal(model.activation, GAL_ACTIVATION_GELU_TANH);
    assert_true(model.tied_embeddings);
    assert_true(model.attention_dropout == 0.1);
    assert_true(model.optimizer.beta2 == 0.95);

    assert_int_equal(gal_model_read(VALID "hugging_face_short.json", &model, NULL), GAL_OK);
    assert_int_equal(model.ffn_hidden, 100);
    assert_int_equal(model.sequence_length, 128); /* from n_ctx */
    assert_int_equal(model.compute_dtype, GAL_FP16);
    assert_false(model.reading.dtype_assumed);
    assert_true(model.reading.training_assumed);
    assert_int_equal(model.activation, GAL_ACTIVATION_RELU);
    assert_false(model.tied_embeddings);
    assert_true(model.residual_dropout == 0.0);
}

/* hidden 64, ffn 256, sequence 32, vocabulary 256, 2 layers.
 * embedding 256*64 + 32*64 = 18432; attention 2*64 + 64*192 + 192 + 64*64 + 64 = 16768;
 * ffn 2*64 + 64*256 + 256 + 256*64 + 64 = 33216; head 2*64 = 128, untied 128 + 256*64 = 16512. */
static void test_model_by_hand(void **state)
{
    (void)state;
    gal_model model;
    assert_int_equal(gal_model_read(VALID "model.json", &model, NULL), GAL_OK);
    assert_int_equal(gal_model_parameter_count(&model), 18432 + 2 * (16768 + 33216) + 128);
    model.tied_embeddings = false;
    assert_int_equal(gal_model_parameter_count(&model), 18432 + 2 * (16768 + 33216) + 16512);
    assert_int_equal(gal_model_block_count(&model), 6);
    static const gal_block_kind kinds[] = {GAL_BLOCK_EMBEDDING, GAL_BLOCK_ATTENTION, GAL_BLOCK_FFN,
                                           GAL_BLOCK_ATTENTION, GAL_BLOCK_FFN,       GAL_BLOCK_HEAD};
    for (uint32_t b = 0; b < 6; b++) {
        assert_int_equal(gal_model_block_kind(&model, b), kinds[b]);
    }
    assert_int_equal(gal_model_padded_vocabulary(&model), 256);
    model.vocabulary = 257;
    assert_int_equal(gal_model_padded_vocabulary(&model), 384);
}

/* Two levels: 2 devices each, then 4. */
static void test_level_between(void **state)
{
    (void)state;
    gal_cluster cluster;
    assert_int_equal(gal_cluster_read(VALID "cluster.json", &cluster, NULL), GAL_OK);
    assert_int_equal(gal_cluster_level_between(&cluster, 0, 1), 0);
    assert_int_equal(gal_cluster_level_between(&cluster, 1, 2), 1);
    assert_int_equal(gal_cluster_level_between(&cluster, 3, 3), 0);
}

static void test_profile(void **state)
{
    (void)state;
    gal_profile profile = {0};
    assert_int_equal(gal_profile_read(VALID "profile.json", &profile, NULL), GAL_OK);
    assert_int_equal(profile.operator_count, 3);
    assert_int_equal(profile.operators[0].shape.op, GAL_OP_LAYER_NORM);
    assert_int_equal(profile.operators[1].shape.op, GAL_OP_GEMM);
    assert_int_equal(profile.operators[1].shape.dims[3], 4);
    assert_int_equal(profile.operators[1].shape.dims[4], 0);
    assert_int_equal(profile.collectives[1].op, GAL_OP_SEND);
    assert_int_equal(profile.collectives[1].level_counts[1], 2);
    assert_int_equal(profile.collectives[1].level_counts[7], 1);
    assert_true(profile.slowdown[GAL_ACTIVITY_COMPUTE][GAL_ACTIVITY_COMMUNICATION] == 1.5);
    assert_int_equal(strlen(profile.hash), 16);
    gal_profile_free(&profile);
    gal_profile_free(NULL);
}

static void test_plan(void **state)
{
    (void)state;
    gal_plan plan = {0};
    gal_plan copy = {0};
    assert_int_equal(gal_plan_read(VALID "plan.json", &plan, NULL), GAL_OK);
    assert_int_equal(gal_plan_copy(&plan, &copy, NULL), GAL_OK);
    gal_plan_free(&plan);
    assert_null(plan.run);
    assert_int_equal(gal_plan_stage_devices(&copy), 2);
    assert_int_equal(gal_plan_microbatch_samples(&copy), 4);
    assert_int_equal(gal_plan_stage_block_count(&copy, 0), 3);
    assert_int_equal(gal_plan_stage_first_block(&copy, 1), 3);
    assert_ptr_equal(gal_plan_block_strategy(&copy, 2), &copy.run[1].strategy);
    assert_ptr_equal(gal_plan_block_strategy(&copy, 5), &copy.run[3].strategy);
    assert_true(gal_strategy_equal(&copy.run[0].strategy, &copy.run[3].strategy));
    assert_false(gal_strategy_equal(&copy.run[0].strategy, &copy.run[1].strategy));
    assert_int_equal(gal_strategy_degree(&copy.run[1].strategy, GAL_AXIS_TP), 2);
    assert_int_equal(gal_strategy_degree(&copy.run[1].strategy, GAL_AXIS_DP), 1);
    gal_plan_free(&copy);
    gal_plan_free(NULL);
}

static void test_strategy_names(void **state)
{
    (void)state;
    char text[GAL_STRATEGY_NAME_BYTES];
    gal_strategy s = {.axis_count = 2, .axis = {{GAL_AXIS_TP, 2}, {GAL_AXIS_DP, 2}}, .sequence_parallel = true};
    assert_string_equal(gal_strategy_name(&s, text), "tp2.sp-dp2");
    s = (gal_strategy){.axis_count = 1, .axis = {{GAL_AXIS_SDP, 4}}, .zero_stage = 3, .recompute = GAL_RECOMPUTE_FULL};
    assert_string_equal(gal_strategy_name(&s, text), "sdp4.z3-ckpt");
    s = (gal_strategy){
        .axis_count = 2, .axis = {{GAL_AXIS_DP, 3}, {GAL_AXIS_TP, 16}}, .tp_mode = GAL_TP_2P5D, .tp_depth = 4};
    assert_string_equal(gal_strategy_name(&s, text), "dp3-tp16.2.5d.d4");
    assert_int_equal(gal_strategy_grid_side(&s), 2);
    assert_int_equal(gal_strategy_sample_parts(&s), 3 * 4 * 2);
    s = (gal_strategy){0};
    assert_string_equal(gal_strategy_name(&s, text), "serial");
    s.recompute = GAL_RECOMPUTE_FULL;
    assert_string_equal(gal_strategy_name(&s, text), "serial-ckpt");
    s = (gal_strategy){.axis_count = 4,
                       .axis = {{GAL_AXIS_TP, 16}, {GAL_AXIS_ULYSSES, 16}, {GAL_AXIS_SDP, 16}, {GAL_AXIS_DP, 256}},
                       .sequence_parallel = true,
                       .zero_stage = 3,
                       .recompute = GAL_RECOMPUTE_REPEAT,
                       .shard_unit = GAL_SHARD_BUCKET,
                       .offload_optimizer_percent = 100,
                       .offload_storage_percent = 100,
                       .offload_storage_masters = true,
                       .offload_parameters_percent = 100,
                       .offload_storage_parameters_percent = 100,
                       .offload_activations_percent = 100,
                       .offload_storage_activations_percent = 100};
    assert_string_equal(gal_strategy_name(&s, text),
                        "tp16.sp-ulysses16-sdp16.z3-dp256-repeat-off100s100mw100s100a100s100-bucket");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_catalogue_counts),
        cmocka_unit_test(test_catalogue_papers),
        cmocka_unit_test(test_catalogue_models),
        cmocka_unit_test(test_public_counts),
        cmocka_unit_test(test_t5_counts),
        cmocka_unit_test(test_t5_chain),
        cmocka_unit_test(test_swin_counts),
        cmocka_unit_test(test_swin_chain),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_public_counts_of_encoders),
        cmocka_unit_test(test_encoders),
        cmocka_unit_test(test_catalogue_names),
        cmocka_unit_test(test_catalogue_suggests),
        cmocka_unit_test(test_catalogue_misses),
        cmocka_unit_test(test_catalogue_clusters),
        cmocka_unit_test(test_hugging_face),
        cmocka_unit_test(test_model_by_hand),
        cmocka_unit_test(test_level_between),
        cmocka_unit_test(test_profile),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_strategy_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
