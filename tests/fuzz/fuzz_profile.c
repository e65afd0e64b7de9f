/* Profile documents: tables sorted, no entry twice. */
#include "schemas/document.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    gal_profile profile = {0};
    gal_profile again = {0};
    if (gal_fuzz_round_trip(GAL_DOCUMENT_PROFILE, bytes, byte_count, &profile, &again)) {
        for (uint32_t i = 1; i < profile.operator_count; i++) {
            const gal_profile_operator *entry = &profile.operators[i];
            GAL_FUZZ_REQUIRE(gal_shape_compare(&entry[-1].shape, &entry->shape) < 0);
        }
    }
    gal_profile_free(&again);
    gal_profile_free(&profile);
    return 0;
}
