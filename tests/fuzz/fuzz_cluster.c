/* Cluster documents. */
#include "schemas/document.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    gal_cluster cluster = {0};
    gal_cluster again = {0};
    if (gal_fuzz_round_trip(GAL_DOCUMENT_CLUSTER, bytes, byte_count, &cluster, &again)) {
        const uint32_t last = cluster.device_count - 1;
        GAL_FUZZ_REQUIRE(gal_cluster_level_between(&cluster, 0, last) < cluster.level_count);
        GAL_FUZZ_REQUIRE(gal_cluster_level_between(&cluster, last, last) == 0);
    }
    return 0;
}
