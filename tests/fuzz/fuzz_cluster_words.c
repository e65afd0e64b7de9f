/* Clusters in words: refused with a clear line, or a cluster whose document is read again. Its name, which is words too
 * unless it is cut, says the same cluster. */
#include <stdlib.h>
#include <string.h>

#include "schemas/cluster_words.h"
#include "tests/fuzz/input.h"

static void try(const char *text)
{
    gal_error err = {0};
    gal_cluster cluster, again;
    char said[GAL_CLUSTER_SAID_BYTES];
    (void)gal_cluster_is_words(text);
    const gal_code code = gal_cluster_from_words(text, NULL, &cluster, &err);
    if (code != GAL_OK) {
        GAL_FUZZ_REQUIRE(code == GAL_ERR_USAGE);
        gal_fuzz_require_refusal(code, &err);
        return;
    }
    static const char *path;
    path = path != NULL ? path : gal_fuzz_path("cluster.json");
    GAL_FUZZ_REQUIRE(gal_cluster_write(path, &cluster, &err) == GAL_OK);
    GAL_FUZZ_REQUIRE(gal_cluster_read(path, &again, &err) == GAL_OK);
    GAL_FUZZ_REQUIRE(memcmp(&cluster, &again, sizeof cluster) == 0);
    GAL_FUZZ_REQUIRE(gal_cluster_is_words(cluster.name));
    gal_cluster_say(&cluster, said);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    char *text = malloc(byte_count + 1);
    GAL_FUZZ_REQUIRE(text != NULL);
    memcpy(text, bytes, byte_count);
    text[byte_count] = '\0';
    try(text);
    free(text);
    return 0;
}
