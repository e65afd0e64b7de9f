/* Constants documents: what is fitted lies within the bounds of its constant. */
#include "schemas/document.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    gal_constants constants = {0};
    gal_constants again = {0};
    if (gal_fuzz_round_trip(GAL_DOCUMENT_CONSTANTS, bytes, byte_count, &constants, &again)) {
        for (uint32_t i = 0; i < GAL_CONSTANT_COUNT; i++) {
            GAL_FUZZ_REQUIRE(!constants.fitted[i] || (constants.value[i] >= gal_constant_least[i] &&
                                                      constants.value[i] <= gal_constant_most[i]));
        }
    }
    return 0;
}
