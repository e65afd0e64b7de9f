/* Analytic figures beside what others measured: printed, not asserted. Nothing was fitted to these values, and no
 * figure of the catalogue comes from them.
 *
 * Measured values: Hetu-Galvatron (https://github.com/PKU-DAIR/Hetu-Galvatron, commit cea12ff, Apache-2.0, the
 * Hetu-Galvatron authors), the profiles that it ships: nodes of 8 GPUs with NVLink of a kind that is not named. They
 * are compared with A100s of 80 GB, which their memory suggests; an error of the links may be one of that guess. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "costmodel/analytic_collective.h"
#include "costmodel/price.h"

enum { MIB = 1 << 20, SIZES = 11 };

typedef struct errors {
    double sum, worst;
    uint32_t count;
} errors;

static void report(errors *e, const char *what, double predicted_seconds, double measured_seconds)
{
    const double error = predicted_seconds / measured_seconds - 1.0;
    e->sum += fabs(error);
    e->worst = fabs(error) > fabs(e->worst) ? error : e->worst;
    e->count++;
    printf("  %-28s %10.4f ms  measured %10.4f ms  error %+6.1f %%\n", what, predicted_seconds * 1e3,
           measured_seconds * 1e3, 100.0 * error);
}

static void summary(const errors *e)
{
    printf("  %u values: mean of the errors' size %.1f %%, worst %+.1f %%\n\n", e->count,
           100.0 * e->sum / (double)e->count, 100.0 * e->worst);
}

static int read_cluster(gal_cluster *cluster)
{
    gal_error err = {0};
    const gal_code code = gal_cluster_read("a100-80g-8", cluster, &err);
    if (code != GAL_OK) {
        (void)fprintf(stderr, "accuracy-analytic: %s\n", err.text);
    }
    return (int)code;
}

/* ---- one node: sp_time_1nodes_8gpus_per_node.json, milliseconds of 1, 2, 4 ... 1024 MiB ---- */

static const struct {
    const char *name;
    gal_op op;
    uint32_t members;
    double milliseconds[SIZES];
} sweeps[] = {
    {"all_reduce over 8",
     GAL_OP_ALL_REDUCE,
     8,
     {0.07895, 0.1094, 0.1333, 0.1827, 0.2941, 0.4157, 0.6519, 1.2826, 2.3584, 4.6768, 8.1409}},
    {"all_reduce over 4",
     GAL_OP_ALL_REDUCE,
     4,
     {0.07981, 0.09109, 0.1091, 0.1581, 0.2183, 0.3205, 0.5848, 1.0725, 2.0709, 3.7352, 7.1874}},
};

static void compare_sweeps(const gal_cluster *cluster)
{
    for (size_t s = 0; s < sizeof sweeps / sizeof sweeps[0]; s++) {
        errors e = {0};
        printf("%s, a100-80g-8 (300 GB/s NVLink)\n", sweeps[s].name);
        for (uint32_t i = 0; i < SIZES; i++) {
            const uint32_t group[GAL_LINK_LEVELS_MAX] = {sweeps[s].members, 1, 1, 1, 1, 1, 1, 1};
            char what[32];
            (void)snprintf(what, sizeof what, "%u MiB", 1u << i);
            report(&e, what, gal_collective_analytic_seconds(cluster, sweeps[s].op, group, (uint64_t)MIB << i),
                   sweeps[s].milliseconds[i] * 1e-3);
        }
        summary(&e);
    }
}

/* ---- two nodes: allreduce_bandwidth_2nodes_8gpus_per_node.json, bus bandwidths in MB/ms ----
 *
 * The network is not named: the link's rate is what groups of one device in each node got, 8.13 MB/ms; what larger
 * groups get of a node's way out follows from the formula. */

static const struct {
    uint32_t level_counts[GAL_LINK_LEVELS_MAX];
    double bus_bytes_per_second;
} groups[] = {
    {{1, 2, 1, 1, 1, 1, 1, 1}, 8.13007e9},
    {{2, 2, 1, 1, 1, 1, 1, 1}, 16.22e9},
    {{4, 2, 1, 1, 1, 1, 1, 1}, 20.7724e9},
    {{8, 2, 1, 1, 1, 1, 1, 1}, 44.682e9},
};

static void compare_groups(const gal_cluster *node)
{
    errors e = {0};
    gal_cluster cluster = *node;
    cluster.device_count = 16;
    cluster.level_count = 2;
    cluster.level[1] = (gal_link_level){.name = "network",
                                        .span_devices = 16,
                                        .latency_seconds = 1.4e-5,
                                        .bytes_per_second = groups[0].bus_bytes_per_second,
                                        .shared = true};
    printf("all_reduce over two nodes, 256 MiB\n");
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        const uint64_t bytes = (uint64_t)256 * MIB;
        const double members = 2.0 * groups[i].level_counts[0];
        char what[32];
        (void)snprintf(what, sizeof what, "%u in each node", groups[i].level_counts[0]);
        report(&e, what, gal_collective_analytic_seconds(&cluster, GAL_OP_ALL_REDUCE, groups[i].level_counts, bytes),
               2.0 * (members - 1.0) / members * (double)bytes / groups[i].bus_bytes_per_second);
    }
    summary(&e);
}

/* ---- a layer: computation_profiling_bf16_llama2-7b_all.json, milliseconds of forward per layer and sample ----
 *
 * Our kernels are fp32: bf16 is played by a device whose fp32 rate is the A100's of bf16 and whose memory is twice as
 * fast, so that two bytes take the time of four. */

static const struct {
    uint32_t samples;
    double milliseconds;
} layers[] = {{1, 4.396252679824831},
              {2, 4.295437526702879},
              {4, 4.124338817596435},
              {8, 3.9369729995727534},
              {12, 3.9181755065917976}};

static int compare_layers(const gal_cluster *node)
{
    gal_error err = {0};
    gal_code code = GAL_OK;
    gal_model model;
    gal_durations *durations = NULL;
    gal_price_cache *cache = NULL;
    errors e = {0};
    gal_cluster cluster = *node;
    const gal_strategy serial = {.axis_count = 0};
    cluster.device_count = 1;
    cluster.level[0].span_devices = 1;
    cluster.device.fp32_flops_per_second = cluster.device.bf16_flops_per_second;
    cluster.device.memory_bytes_per_second *= 2.0;
    GAL_TRY(gal_model_read("llama2-7b", &model, &err));
    model.sequence_length = 2048;
    GAL_TRY(gal_durations_create_analytic(&cluster, &durations, &err));
    GAL_TRY(gal_price_cache_create(&model, durations, &cache, &err));
    printf("forward of a layer of llama2-7b, bf16, 2048 tokens, per sample\n");
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        double seconds = 0.0;
        char what[32];
        for (uint32_t block = 1; block <= 2; block++) { /* attention and FFN */
            const gal_block_price *price = NULL;
            gal_block_shape shape;
            gal_model_block(&model, block, &shape);
            const gal_price_query query = {.type = shape.type,
                                           .strategy = &serial,
                                           .device_count = 1,
                                           .stage_count = 1,
                                           .microbatch_samples = layers[i].samples,
                                           .prefetch_depth = 2};
            GAL_TRY(gal_price_block(cache, &query, &price, &err));
            seconds += price->forward_seconds;
        }
        (void)snprintf(what, sizeof what, "batch %u", layers[i].samples);
        report(&e, what, seconds / layers[i].samples, layers[i].milliseconds * 1e-3);
    }
    summary(&e);
cleanup:
    if (code != GAL_OK) {
        (void)fprintf(stderr, "accuracy-analytic: %s\n", err.text);
    }
    gal_price_cache_free(cache);
    gal_durations_free(durations);
    return (int)code;
}

int main(void)
{
    gal_cluster cluster;
    const int code = read_cluster(&cluster);
    if (code != 0) {
        return code;
    }
    compare_sweeps(&cluster);
    compare_groups(&cluster);
    return compare_layers(&cluster);
}
