/* Whole steps: what one costs beside its program, how kernels and messages slow each other, whole blocks; and what the
 * host does for a device. */
#include <stdlib.h>

#include "profiler/profile_internal.h"

enum { SESSION_SAMPLES_MAX = 3, BLOCK_LAYERS = 3 };

/* Of the budget; slowdowns: when they end and blocks begin. */
static const double fixed_share = 0.1, session_share = 0.1, slowdowns_share = 0.75;

static int ascending_u32(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The sizes of microbatches of the first model: the least, one between and the largest that `replicas` divides. */
static uint32_t choose_samples(const gal_profile_settings *s, uint32_t replicas, uint32_t out[SESSION_SAMPLES_MAX])
{
    uint32_t size[GAL_BATCHES_MAX * GAL_BATCHES_MAX], count = 0, kept = 0;
    const uint32_t batch_count = s->batch_count > 0 ? s->batch_count : 1;
    for (uint32_t b = 0; b < batch_count; b++) {
        const uint32_t batch = s->batch_count > 0 ? s->batch[b] : s->model[0].global_batch_samples;
        for (uint32_t i = 0; i < s->microbatches_count; i++) {
            if (batch % s->microbatches[i] == 0 && batch / s->microbatches[i] % replicas == 0) {
                size[count++] = batch / s->microbatches[i];
            }
        }
    }
    qsort(size, count, sizeof *size, ascending_u32);
    for (uint32_t i = 0; i < SESSION_SAMPLES_MAX && count > 0; i++) {
        const uint32_t at = size[i * (count - 1) / (SESSION_SAMPLES_MAX - 1)];
        if (kept == 0 || out[kept - 1] != at) {
            out[kept++] = at;
        }
    }
    return kept;
}

static gal_overlap_settings overlap_settings(gal_profiling *p)
{
    uint32_t samples[SESSION_SAMPLES_MAX];
    const uint32_t count = choose_samples(p->settings, p->profile.rank_count, samples);
    return (gal_overlap_settings){.model = &p->settings->model[0],
                                  .until_seconds = slowdowns_share * p->settings->budget_seconds,
                                  .rank_count = p->profile.rank_count,
                                  .microbatch_samples = count > 0 ? samples[count / 2] : p->profile.rank_count,
                                  .message_bytes_max = p->settings->message_bytes_max,
                                  .candidates = &p->candidates,
                                  .links = &p->links,
                                  .pools = &p->pools};
}

gal_code gal_profiling_slowdowns(gal_profiling *p, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_overlap_settings settings = overlap_settings(p);
    for (uint32_t i = 0; i < GAL_ACTIVITY_COUNT; i++) { /* of storage, unless it is measured */
        p->profile.slowdown[i][GAL_ACTIVITY_STORAGE] = p->profile.slowdown[GAL_ACTIVITY_STORAGE][i] = 1.0;
    }
    GAL_TRY(gal_measure_overlap(&p->bench, &settings, p->profile.slowdown, err));
    GAL_TRY(gal_measure_copy_slowdowns(&p->bench, &settings, p->profile.slowdown, err));
    if (p->profile.has_gpu) {
        gal_profiling_say(p, "slowdowns by multiprocessors", 0, 0);
        GAL_TRY(gal_measure_ctas(&p->bench, &settings, &p->profile.gpu, err));
    }
cleanup:
    return code;
}

/* Beside a GPU it slows nobody but itself. */
gal_code gal_profiling_storage(gal_profiling *p, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_overlap_settings settings = overlap_settings(p);
    const char *directory = p->settings->storage_directory;
    gal_profiling_say(p, "storage", 0, 0);
    GAL_TRY(gal_measure_storage(&p->bench, directory, &p->profile.cluster.device,
                                &p->profile.slowdown[GAL_ACTIVITY_STORAGE][GAL_ACTIVITY_STORAGE], err));
    if (p->bench.backend->device->queue == NULL) {
        GAL_TRY(gal_measure_storage_slowdowns(&p->bench, &settings, directory, p->profile.slowdown, err));
    }
cleanup:
    return code;
}

gal_code gal_profiling_host(gal_profiling *p, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_profile_host *host = &p->profile.host;
    gal_profiling_say(p, "copies to the host, Adam there", 0, 0);
    p->profile.has_host = true;
    host->threads_per_rank = p->settings->thread_count;
    GAL_TRY(gal_measure_copies(&p->bench, &p->pools, p->topology.numa_node, host, err));
    GAL_TRY(gal_measure_host_adam(&p->bench, p->threads_most, host, err));
cleanup:
    return code;
}

gal_code gal_profiling_fixed(gal_profiling *p, gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t samples[SESSION_SAMPLES_MAX] = {0};
    gal_session_report report = {.fixed_bytes = 0};
    gal_session_settings settings = {.model = &p->settings->model[0],
                                     .layer_count = 1,
                                     .memory_bytes = p->session_bytes,
                                     .budget_seconds = fixed_share * p->settings->budget_seconds,
                                     .profile = &p->profile};
    bool done = false;
    for (uint32_t tp = 1; tp <= p->profile.rank_count && !done; tp++) {
        const uint32_t replicas = p->profile.rank_count / tp;
        if (p->profile.rank_count % tp == 0 && choose_samples(p->settings, replicas, samples) > 0) {
            settings.tp_degree = tp;
            settings.microbatch_samples = samples[0];
            GAL_TRY(gal_measure_session(&p->bench, &settings, &done, &report, err));
        }
    }
    p->profile.fixed_bytes = report.fixed_bytes;
    p->profile.fixed_step_seconds = report.fixed_step_seconds;
    p->session_communicators = report.communicator_count;
    GAL_TRY(gal_measure_instruction(&p->bench, &p->settings->model[0], &p->profile.instruction_seconds, err));
    GAL_TRY(gal_bench_tick(&p->bench, err));
cleanup:
    return code;
}

static void sort_operators(gal_profile *profile)
{
    if (profile->operator_count > 0) {
        qsort(profile->operators, profile->operator_count, sizeof *profile->operators, gal_operator_compare);
    }
}

/* The embedding's few microseconds say nothing about the kernels that matter, and readers take a median over blocks;
 * the head has no forward kernels. */
static void keep_blocks(gal_profile *profile, const gal_session_report *report)
{
    for (uint32_t kind = 0; kind < GAL_BLOCK_KIND_COUNT; kind++) {
        const gal_profile_block *block = &report->block[kind];
        if (kind != GAL_BLOCK_EMBEDDING && block->forward_seconds > 0.0 && block->backward_seconds > 0.0 &&
            block->forward_operator_seconds > 0.0 && block->backward_operator_seconds > 0.0 &&
            profile->block_count < GAL_PROFILING_BLOCKS_MAX * GAL_BLOCK_KIND_COUNT) {
            profile->blocks[profile->block_count++] = *block;
        }
    }
}

/* Backward with recompute, beside the same block's without. Of a block that runs nothing again there is nothing to say.
 */
static void keep_again(gal_profile *profile, const gal_session_report *report, gal_recompute recompute)
{
    for (uint32_t i = 0; i < profile->block_count; i++) {
        gal_profile_block *block = &profile->blocks[i];
        const gal_profile_block *again = &report->block[block->kind];
        if (block->tp_degree == again->tp_degree && block->samples == again->samples &&
            again->backward_operator_seconds > block->backward_operator_seconds) {
            *(recompute == GAL_RECOMPUTE_FULL ? &block->backward_full : &block->backward_selective) =
                (gal_profile_again){again->backward_seconds, again->backward_operator_seconds};
        }
    }
}

static gal_code measure_blocks_with(gal_profiling *p, gal_recompute recompute, uint32_t *done, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t rank_count = p->profile.rank_count;
    for (uint32_t tp = 1; tp <= rank_count; tp++) {
        uint32_t samples[SESSION_SAMPLES_MAX];
        const uint32_t count = rank_count % tp == 0 ? choose_samples(p->settings, rank_count / tp, samples) : 0;
        for (uint32_t i = 0; i < count && p->bench.elapsed_seconds < p->settings->budget_seconds; i++) {
            bool fits = false;
            gal_session_report report;
            const gal_session_settings settings = {.model = &p->settings->model[0],
                                                   .layer_count = BLOCK_LAYERS,
                                                   .tp_degree = tp,
                                                   .recompute = recompute,
                                                   .microbatch_samples = samples[i],
                                                   .memory_bytes = p->session_bytes,
                                                   .budget_seconds = session_share * p->settings->budget_seconds,
                                                   .profile = &p->profile};
            GAL_TRY(gal_measure_session(&p->bench, &settings, &fits, &report, err));
            if (fits && recompute == GAL_RECOMPUTE_NONE) {
                keep_blocks(&p->profile, &report);
            } else if (fits) {
                keep_again(&p->profile, &report, recompute);
            }
            GAL_TRY(gal_bench_tick(&p->bench, err));
            gal_profiling_say(p, "blocks", ++*done, 0);
        }
    }
cleanup:
    return code;
}

/* Those without recompute first: readers need them, and set the others against them. */
gal_code gal_profiling_blocks(gal_profiling *p, gal_error *err)
{
    static const gal_recompute order[] = {GAL_RECOMPUTE_NONE, GAL_RECOMPUTE_FULL, GAL_RECOMPUTE_SELECTIVE};
    gal_code code = GAL_OK;
    uint32_t done = 0;
    sort_operators(&p->profile);
    for (uint32_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        GAL_TRY(measure_blocks_with(p, order[i], &done, err));
    }
cleanup:
    return code;
}
