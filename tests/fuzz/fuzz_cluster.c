/* Cluster documents. */
#include "schemas/document.h"
#include "tests/fuzz/input.h"

static gal_code read(gal_json_doc *doc, void *cluster, gal_error *err)
{
    return gal_cluster_read_document(doc, cluster, err);
}

static void write_members(gal_json_writer *out, const void *cluster)
{
    gal_cluster_write_at(out, cluster);
}

static const gal_fuzz_document kind = {read, write_members};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    gal_cluster cluster = {0};
    gal_cluster again = {0};
    if (gal_fuzz_round_trip(&kind, bytes, byte_count, &cluster, &again)) {
        const uint32_t last = cluster.device_count - 1;
        GAL_FUZZ_REQUIRE(gal_cluster_level_between(&cluster, 0, last) < cluster.level_count);
        GAL_FUZZ_REQUIRE(gal_cluster_level_between(&cluster, last, last) == 0);
    }
    return 0;
}
