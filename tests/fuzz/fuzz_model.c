/* Model documents and Hugging Face's config.json. */
#include "schemas/document.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    gal_model model = {0};
    gal_model again = {0};
    if (gal_fuzz_round_trip(GAL_DOCUMENT_MODEL, bytes, byte_count, &model, &again)) {
        const uint32_t blocks = gal_model_block_count(&model);
        GAL_FUZZ_REQUIRE(gal_model_block_kind(&model, 0) == GAL_BLOCK_EMBEDDING);
        GAL_FUZZ_REQUIRE(gal_model_block_kind(&model, blocks - 1) == GAL_BLOCK_HEAD);
        GAL_FUZZ_REQUIRE(gal_model_padded_vocabulary(&model) % model.vocabulary_multiple == 0);
        GAL_FUZZ_REQUIRE(gal_model_padded_vocabulary(&model) >= model.vocabulary);
        GAL_FUZZ_REQUIRE(gal_model_parameter_count(&model) < UINT64_C(1) << 53);
    }
    return 0;
}
