/* Names of tensors that a model has no place for, by family. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/tensor_names.h"

static void check_kind(gal_family family, const char *name, gal_tensor_name_kind wanted, const char *wanted_twin)
{
    const char *twin_of = "";
    assert_int_equal(gal_tensor_name_kind_of(family, name, &twin_of), wanted);
    if (wanted_twin != NULL) {
        assert_string_equal(twin_of, wanted_twin);
    } else {
        assert_null(twin_of);
    }
}

static void names_of_the_family_are_its_own(void **state)
{
    (void)state;
    check_kind(GAL_FAMILY_LLAMA, "model.layers.2.mlp.up_proj.weight", GAL_TENSOR_NAME_OWN, NULL);
    check_kind(GAL_FAMILY_LLAMA, "model.layers.0.self_attn.q_proj.bias", GAL_TENSOR_NAME_OWN, NULL);
    check_kind(GAL_FAMILY_DECODER, "h.12.ln_1.weight", GAL_TENSOR_NAME_OWN, NULL);
    check_kind(GAL_FAMILY_BERT, "bert.encoder.layer.7.output.dense.bias", GAL_TENSOR_NAME_OWN, NULL);
    check_kind(GAL_FAMILY_T5, "decoder.block.9.layer.0.layer_norm.weight", GAL_TENSOR_NAME_OWN, NULL);
    check_kind(GAL_FAMILY_SWIN, "swin.encoder.layers.3.downsample.norm.weight", GAL_TENSOR_NAME_OWN, NULL);
    check_kind(GAL_FAMILY_VIT, "vit.embeddings.mask_token", GAL_TENSOR_NAME_OWN, NULL);
}

static void buffers_and_poolers_are_idle(void **state)
{
    (void)state;
    check_kind(GAL_FAMILY_LLAMA, "model.layers.0.self_attn.rotary_emb.inv_freq", GAL_TENSOR_NAME_IDLE, NULL);
    check_kind(GAL_FAMILY_DECODER, "h.0.attn.masked_bias", GAL_TENSOR_NAME_IDLE, NULL);
    check_kind(GAL_FAMILY_DECODER, "h.0.attn.c_attn.bias", GAL_TENSOR_NAME_OWN, NULL);
    check_kind(GAL_FAMILY_BERT, "bert.embeddings.position_ids", GAL_TENSOR_NAME_IDLE, NULL);
    check_kind(GAL_FAMILY_BERT, "other.weight", GAL_TENSOR_NAME_FOREIGN, NULL);
}

static void second_names_repeat_a_tensor(void **state)
{
    (void)state;
    check_kind(GAL_FAMILY_LLAMA, "lm_head.weight", GAL_TENSOR_NAME_TWIN, "model.embed_tokens.weight");
    check_kind(GAL_FAMILY_T5, "encoder.embed_tokens.weight", GAL_TENSOR_NAME_TWIN, "shared.weight");
    assert_string_equal(gal_tensor_name_bare("transformer.h.0.ln_1.weight"), "h.0.ln_1.weight");
    assert_string_equal(gal_tensor_name_bare("h.0.ln_1.weight"), "h.0.ln_1.weight");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_the_family_are_its_own),
        cmocka_unit_test(buffers_and_poolers_are_idle),
        cmocka_unit_test(second_names_repeat_a_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
