/* The order of measuring: what a step costs beside its program (first, while the process is as small as a trainer's),
 * peak rates, links, then kernels and collectives by falling share of a step's time, the same again, slowdowns,
 * whole blocks. */
#include <stdlib.h>

#include "profiler/profile_internal.h"
#include "schemas/base/clock.h"

static const double pool_bytes_per_second_host = 16e6, pool_bytes_per_second_device = 4e9;
static const uint64_t pool_bytes_min = UINT64_C(48) << 20;

void gal_profiling_say(const gal_profiling *p, const char *what, uint32_t done, uint32_t count)
{
    if (p->settings->progress != NULL && gal_world_rank(&p->bench.world) == 0) {
        p->settings->progress(p->settings->progress_context, what, done, count, p->bench.elapsed_seconds);
    }
}

/* ---- what there is to measure ---- */

static gal_code list_candidates(gal_profiling *p, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_profile_settings *s = p->settings;
    const gal_candidate_settings settings = {.model = s->model,
                                             .model_count = s->model_count,
                                             .rank_count = p->profile.rank_count,
                                             .cluster = &p->profile.cluster,
                                             .batch = s->batch,
                                             .batch_count = s->batch_count,
                                             .microbatches = s->microbatches,
                                             .microbatches_count = s->microbatches_count};
    GAL_TRY(gal_candidates_list(&settings, &p->candidates, err));
    p->profile.operators = calloc((size_t)p->candidates.operator_count + 1, sizeof *p->profile.operators);
    p->profile.collectives =
        calloc((size_t)p->candidates.collective_count + GAL_PROFILING_SWEEP * GAL_LINK_LEVELS_MAX + 1,
               sizeof *p->profile.collectives);
    p->profile.blocks = calloc(GAL_PROFILING_BLOCKS_MAX * GAL_BLOCK_KIND_COUNT, sizeof *p->profile.blocks);
    if (p->profile.operators == NULL || p->profile.collectives == NULL || p->profile.blocks == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: entries");
    }
    p->report.operator_count = p->candidates.operator_count;
    p->report.collective_count = p->candidates.collective_count;
cleanup:
    return code;
}

/* Three pools, each a quarter of the rank's memory at most, and no more than is filled in a few hundredths of the
 * budget. What needs more is left to the fits. */
static gal_code make_pools(gal_profiling *p, gal_error *err)
{
    uint64_t bytes = pool_bytes_min;
    const uint64_t quarter = p->profile.cluster.device.memory_bytes / 4;
    const bool queued = p->settings->backend->device->queue != NULL;
    const double affordable =
        p->settings->budget_seconds * (queued ? pool_bytes_per_second_device : pool_bytes_per_second_host);
    const uint64_t most = affordable < (double)quarter ? (uint64_t)affordable : quarter;
    uint32_t vocabulary = p->settings->model[0].vocabulary;
    uint64_t tokens = 0, staging = 0;
    for (uint32_t i = 0; i < p->settings->model_count; i++) {
        const gal_model *model = &p->settings->model[i];
        const uint64_t needed =
            (uint64_t)p->candidates.samples_max * gal_model_longest_sequence(model) * sizeof(int32_t);
        vocabulary = model->vocabulary < vocabulary ? model->vocabulary : vocabulary;
        tokens = needed > tokens ? needed : tokens;
    }
    for (uint32_t i = 0; i < p->candidates.operator_count; i++) {
        const gal_candidate_operator *at = &p->candidates.operators[i];
        const uint64_t needed = gal_operator_bytes(at, p->cold_bytes);
        staging = gal_op_loads(at->shape.op) && at->operand_bytes[0] > staging ? at->operand_bytes[0] : staging;
        bytes = needed > bytes && needed <= most ? needed : bytes;
    }
    for (uint32_t i = 0; i < p->candidates.collective_count; i++) {
        const uint64_t needed = gal_collective_bytes(&p->candidates.collectives[i], p->cold_bytes);
        bytes = needed > bytes && needed <= most ? needed : bytes;
    }
    bytes += GAL_ALIGNMENT_BYTES - bytes % GAL_ALIGNMENT_BYTES;
    tokens += GAL_ALIGNMENT_BYTES - tokens % GAL_ALIGNMENT_BYTES;
    const gal_pool_settings settings = {.dtype = p->settings->model[0].compute_dtype,
                                        .bytes = bytes,
                                        .token_bytes = tokens,
                                        .staging_bytes = staging,
                                        .vocabulary = vocabulary,
                                        .samples_max = p->candidates.samples_max,
                                        .cold_bytes = p->cold_bytes};
    return gal_pools_create(&p->bench, &settings, &p->pools, err);
}

/* ---- the whole ---- */

static gal_code prepare(gal_profiling *p, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(gal_profiling_look(p, err));
    code = list_candidates(p, err);
    if (code == GAL_OK) {
        code = gal_bench_open(&p->bench, err);
    }
    GAL_TRY(gal_world_agree(&p->bench.world, code, err));
cleanup:
    return code;
}

static gal_code measure(gal_profiling *p, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_profiling_say(p, "what a step costs beside its program", 0, 0);
    GAL_TRY(gal_profiling_fixed(p, err));
    gal_profiling_say(p, "peak rates", 0, 0);
    GAL_TRY(gal_measure_peaks(&p->bench, p->settings->model[0].compute_dtype, &p->profile.cluster.device, err));
    code = make_pools(p, err);
    GAL_TRY(gal_world_agree(&p->bench.world, code, err));
    GAL_TRY(gal_profiling_links(p, err));
    GAL_TRY(gal_profiling_entries(p, err));
    gal_profiling_say(p, "slowdowns", 0, 0);
    GAL_TRY(gal_profiling_slowdowns(p, err));
    GAL_TRY(gal_profiling_host(p, err));
    if (p->settings->storage_directory != NULL) {
        GAL_TRY(gal_profiling_storage(p, err));
    }
    gal_profiling_settle_gpu(p);
    gal_pools_free(&p->pools);
    GAL_TRY(gal_profiling_blocks(p, err));
    p->report.elapsed_seconds = p->bench.elapsed_seconds;
cleanup:
    return code;
}

gal_code gal_profile_measure(const gal_profile_settings *settings, const gal_world *world, gal_profile *out,
                             gal_profile_report *report, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_profiling p = {.settings = settings,
                       .bench = {.world = *world,
                                 .backend = settings->backend,
                                 .tell = settings->tell,
                                 .tf32 = settings->tf32,
                                 .stop = settings->stop,
                                 .begin_seconds = gal_now_seconds()}};
    GAL_TRY(prepare(&p, err));
    GAL_TRY(measure(&p, err));
    *out = p.profile;
    *report = p.report;
    p.profile = (gal_profile){0};
cleanup:
    gal_links_free(&p.links);
    gal_pools_free(&p.pools);
    gal_candidates_free(&p.candidates);
    gal_profile_free(&p.profile);
    gal_bench_close(&p.bench);
    return code;
}
