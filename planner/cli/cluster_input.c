#include "planner/cli/cluster_input.h"

#include <stdio.h>
#include <unistd.h>

#include "schemas/cluster_words.h"

void gal_cli_cluster_note(const char *words, const gal_cluster *cluster)
{
    char said[GAL_CLUSTER_SAID_BYTES];
    gal_cluster_say(cluster, said);
    (void)fprintf(stderr, "galplan: note: '%s' is %s\n", words, said);
}

gal_code gal_cli_cluster_read(const char *path, gal_cluster *out, gal_error *err)
{
    const bool is_words = gal_cluster_is_words(path) && access(path, F_OK) != 0;
    const gal_code code = gal_cluster_read(path, out, err);
    if (code == GAL_OK && is_words) {
        gal_cli_cluster_note(path, out);
    }
    return code;
}
