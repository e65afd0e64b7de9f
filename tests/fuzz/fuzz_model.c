/* Model documents and Hugging Face's config.json. */
#include "schemas/document.h"
#include "tests/fuzz/input.h"

static gal_code read(gal_json_doc *doc, void *model, gal_error *err)
{
    return gal_model_read_document(doc, model, err);
}

static void write_members(gal_json_writer *out, const void *model)
{
    gal_model_write_at(out, model);
}

static const gal_fuzz_document kind = {read, write_members};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    gal_model model = {0};
    gal_model again = {0};
    if (gal_fuzz_round_trip(&kind, bytes, byte_count, &model, &again)) {
        const uint32_t blocks = gal_model_block_count(&model);
        GAL_FUZZ_REQUIRE(gal_model_block_kind(&model, 0) == GAL_BLOCK_EMBEDDING);
        GAL_FUZZ_REQUIRE(gal_model_block_kind(&model, blocks - 1) == GAL_BLOCK_HEAD);
        GAL_FUZZ_REQUIRE(gal_model_padded_vocabulary(&model) % model.vocabulary_multiple == 0);
        GAL_FUZZ_REQUIRE(gal_model_padded_vocabulary(&model) >= model.vocabulary);
        GAL_FUZZ_REQUIRE(gal_model_parameter_count(&model) < UINT64_C(1) << 53);
    }
    return 0;
}
