#include "tests/support/galvatron_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/galvatron/galvatron_files.h"

#define HARDWARE GAL_PEER_FOLDER "hardware/"
#define MODEL GAL_PEER_FOLDER "model/"
#define SEQ8192 GAL_PEER_FOLDER "seq8192/"

static gal_code import(const char *const *paths, uint32_t count, gal_galvatron_layer_type type,
                       gal_galvatron_profile *out, gal_error *err)
{
    bool outside_missing;
    out->layer_type = calloc(1, sizeof *out->layer_type);
    if (out->layer_type == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    out->layer_type[out->layer_type_count++] = type;
    out->dtype = GAL_GALVATRON_BF16;
    return gal_galvatron_import_profile(paths, count, out, &outside_missing, err);
}

gal_code gal_peer_llama(gal_galvatron_profile *out, gal_error *err)
{
    static const char *const paths[] = {HARDWARE "allreduce_bandwidth_1nodes_8gpus_per_node.json",
                                        HARDWARE "p2p_bandwidth_1nodes_8gpus_per_node.json",
                                        HARDWARE "overlap_coefficient.json",
                                        HARDWARE "sp_time_1nodes_8gpus_per_node.json",
                                        MODEL "computation_profiling_bf16_llama2-7b_all.json",
                                        MODEL "memory_profiling_bf16_llama2-7b_all.json"};
    *out = (gal_galvatron_profile){.name = "llama2-7b"};
    return import(paths, 6, (gal_galvatron_layer_type){32, 4096, 2048}, out, err);
}

gal_code gal_peer_seq8192(gal_galvatron_profile *out, gal_error *err)
{
    static const char *const paths[] = {SEQ8192 "allreduce_bandwidth_1nodes_8gpus_per_node.json",
                                        SEQ8192 "p2p_bandwidth_1nodes_8gpus_per_node.json",
                                        SEQ8192 "overlap_coefficient.json",
                                        SEQ8192 "sp_time_1nodes_8gpus_per_node.json",
                                        SEQ8192 "computation_profiling_bf16_llama2-7b_all.json",
                                        SEQ8192 "memory_profiling_bf16_llama2-7b_all.json"};
    *out = (gal_galvatron_profile){.name = "seq8192",
                                   .synchronous_reduce = true,
                                   .time_mode = GAL_GALVATRON_TIME_SEQUENCE,
                                   .memory_mode = GAL_GALVATRON_MEMORY_SEQUENCE};
    return import(paths, 6, (gal_galvatron_layer_type){28, 4096, 8192}, out, err);
}

int gal_peer_rows(gal_peer_row rows[GAL_PEER_ROWS])
{
    FILE *in = fopen(GAL_PEER_FOLDER "predicted.tsv", "r");
    int count = 0;
    char line[512];
    while (in != NULL && count < GAL_PEER_ROWS && fgets(line, sizeof line, in) != NULL) {
        gal_peer_row *r = &rows[count++];
        char name[116];
        if (sscanf(line, "%115s %u %u %u %lf", name, &r->limit_gb, &r->batch, &r->chunks, &r->samples_per_second) !=
            5) {
            count = 0;
            break;
        }
        (void)snprintf(r->file, sizeof r->file, "searched/%s", name);
    }
    if (in != NULL) {
        (void)fclose(in);
    }
    return count == GAL_PEER_ROWS;
}

gal_code gal_peer_plan(const char *file, gal_galvatron_plan *out, gal_error *err)
{
    char path[256];
    (void)snprintf(path, sizeof path, GAL_PEER_FOLDER "%s", file);
    return gal_galvatron_import_plan(path, 0, out, err);
}
