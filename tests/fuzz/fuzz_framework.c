/* Framework documents. */
#include "schemas/document.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    gal_framework framework = {0};
    gal_framework again = {0};
    (void)gal_fuzz_round_trip(GAL_DOCUMENT_FRAMEWORK, bytes, byte_count, &framework, &again);
    return 0;
}
