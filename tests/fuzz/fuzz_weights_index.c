/* The index of weights in several files: what is accepted names files beside it, and each place one of them. */
#include <string.h>

#include "runtime/train/safetensors_index.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    static const char *path;
    gal_safetensors_index index = {0};
    gal_error err = {0};
    path = path != NULL ? path : gal_fuzz_path("model.safetensors.index.json");
    gal_fuzz_write(path, bytes, byte_count);
    const gal_code code = gal_safetensors_index_read(path, &index, &err);
    if (code != GAL_OK) {
        gal_fuzz_require_refusal(code, &err);
        GAL_FUZZ_REQUIRE(index.doc == NULL);
        return 0;
    }
    GAL_FUZZ_REQUIRE(index.place_count > 0 && index.shard_count > 0);
    for (uint32_t i = 0; i < index.place_count; i++) {
        GAL_FUZZ_REQUIRE(index.place[i].tensor != NULL && index.place[i].shard < index.shard_count);
    }
    for (uint32_t i = 0; i < index.shard_count; i++) {
        GAL_FUZZ_REQUIRE(index.shard[i][0] != '\0' && index.shard[i][0] != '.' && strchr(index.shard[i], '/') == NULL);
    }
    gal_safetensors_index_free(&index);
    return 0;
}
