/* Who slows whom. On the host a collective moves on only when the rank's one thread tests it, so beside kernels it takes
 * part of the thread's time and waits for kernels to end: both sides are slowed, and this is what is measured, with a
 * loop that does what the engine does between two kernels. */
#include <math.h>
#include <stdlib.h>

#include "profiler/measure.h"

enum { KERNELS = 3, COLLECTIVES = 3, PAIRS = KERNELS * COLLECTIVES };

typedef struct together {
    gal_operator_run kernel;
    gal_collective_run collective;
    uint64_t kernel_count, collective_count;
} together;

/* A collective in flight, kernels one after the other until it is complete; `count` times. */
static gal_code run_beside(void *context, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    together *t = context;
    const gal_collective_run *c = &t->collective;
    for (uint32_t i = 0; i < count && c->takes_part; i++) {
        uint32_t handle = 0;
        bool done = false;
        GAL_TRY(c->comm->ops->start(c->comm, &c->request, &handle, err));
        while (!done) {
            GAL_TRY(gal_operator_repeat(&t->kernel, 1, err));
            t->kernel_count++;
            GAL_TRY(c->comm->ops->test(c->comm, handle, &done, err));
        }
        t->collective_count++;
    }
cleanup:
    return code;
}

/* Two collectives in flight, tested in turn. */
static gal_code run_both(void *context, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_collective_run *pair = context;
    for (uint32_t i = 0; i < count && pair[0].takes_part; i++) {
        uint32_t handle[2] = {0, 0};
        bool done[2] = {false, false};
        for (int c = 0; c < 2; c++) {
            GAL_TRY(pair[c].comm->ops->start(pair[c].comm, &pair[c].request, &handle[c], err));
        }
        while (!done[0] || !done[1]) {
            for (int c = 0; c < 2; c++) {
                if (!done[c]) {
                    GAL_TRY(pair[c].comm->ops->test(pair[c].comm, handle[c], &done[c], err));
                }
            }
        }
    }
cleanup:
    return code;
}

/* Two kernels on two streams of one rank: the thread runs one after the other. */
static gal_code run_two_kernels(void *context, uint32_t count, gal_error *err)
{
    return gal_operator_repeat(context, 2 * count, err);
}

typedef struct choice {
    uint32_t kernel[KERNELS], kernel_count;
    uint32_t collective[COLLECTIVES], collective_count;
} choice;

/* What takes most of the time among what fits the pools; of the collectives those that run beside compute. */
static choice choose(const gal_candidates *candidates, const gal_pools *pools)
{
    choice out = {.kernel_count = 0};
    for (uint32_t i = 0; i < candidates->operator_count && out.kernel_count < KERNELS; i++) {
        if (gal_operator_bytes(&candidates->operators[i]) <= pools->bytes) {
            out.kernel[out.kernel_count++] = i;
        }
    }
    for (uint32_t i = 0; i < candidates->collective_count && out.collective_count < COLLECTIVES; i++) {
        const gal_candidate_collective *at = &candidates->collectives[i];
        if ((at->stream == GAL_STREAM_GATHER || at->stream == GAL_STREAM_REDUCE) &&
            gal_collective_bytes(at) <= pools->bytes) {
            out.collective[out.collective_count++] = i;
        }
    }
    return out;
}

static double at_least_one(double factor)
{
    return factor > 1.0 ? factor : 1.0;
}

static gal_code measure_pair(gal_bench *bench, together *t, double kernel_seconds, double collective_seconds,
                             double factors[2], gal_error *err)
{
    gal_code code = GAL_OK;
    gal_timing both;
    t->kernel_count = t->collective_count = 0;
    GAL_TRY(gal_bench_time(bench, run_beside, t, &both, err));
    const double kernels = t->collective_count > 0 ? (double)t->kernel_count / (double)t->collective_count : 1.0;
    factors[0] = both.seconds / (kernels * kernel_seconds);
    factors[1] = both.seconds / collective_seconds;
    GAL_TRY(gal_world_maximum(&bench->world, factors, 2, err));
cleanup:
    return code;
}

gal_code gal_measure_overlap(gal_bench *bench, const gal_candidates *candidates, const gal_links *links,
                             const gal_pools *pools, const uint32_t *sample_map,
                             double slowdown[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT], gal_error *err)
{
    gal_code code = GAL_OK;
    const choice chosen = choose(candidates, pools);
    double compute[PAIRS], communication[PAIRS], links_shared[COLLECTIVES], kernels_shared[KERNELS];
    double kernel_seconds[KERNELS], factors[2];
    uint32_t pairs = 0;
    together t = {.kernel_count = 0};
    gal_timing alone, both;
    for (uint32_t k = 0; k < chosen.kernel_count; k++) {
        gal_operator_prepare(&candidates->operators[chosen.kernel[k]], pools, sample_map, &t.kernel);
        GAL_TRY(gal_bench_time(bench, gal_operator_repeat, &t.kernel, &alone, err));
        GAL_TRY(gal_bench_time(bench, run_two_kernels, &t.kernel, &both, err));
        kernel_seconds[k] = alone.seconds;
        kernels_shared[k] = both.seconds / alone.seconds;
    }
    for (uint32_t c = 0; c < chosen.collective_count; c++) {
        gal_collective_run pair[2];
        const gal_candidate_collective *candidate = &candidates->collectives[chosen.collective[c]];
        for (int second = 0; second < 2; second++) {
            gal_collective_prepare(candidate, candidates, links, pools, second == 1, &pair[second]);
        }
        GAL_TRY(gal_bench_time(bench, gal_collective_repeat, &pair[0], &alone, err));
        GAL_TRY(gal_bench_time(bench, run_both, pair, &both, err));
        links_shared[c] = both.seconds / alone.seconds;
        for (uint32_t k = 0; k < chosen.kernel_count; k++, pairs++) {
            gal_operator_prepare(&candidates->operators[chosen.kernel[k]], pools, sample_map, &t.kernel);
            t.collective = pair[0];
            GAL_TRY(measure_pair(bench, &t, kernel_seconds[k], alone.seconds, factors, err));
            compute[pairs] = factors[0];
            communication[pairs] = factors[1];
        }
    }
    const int c = GAL_ACTIVITY_COMPUTE, m = GAL_ACTIVITY_COMMUNICATION;
    slowdown[c][c] = at_least_one(gal_quartile(kernels_shared, chosen.kernel_count, 2));
    slowdown[c][m] = pairs > 0 ? at_least_one(gal_quartile(compute, pairs, 2)) : 1.0;
    slowdown[m][c] = pairs > 0 ? at_least_one(gal_quartile(communication, pairs, 2)) : 1.0;
    slowdown[m][m] =
        chosen.collective_count > 0 ? at_least_one(gal_quartile(links_shared, chosen.collective_count, 2)) : 1.0;
cleanup:
    return code;
}
