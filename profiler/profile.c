/* The order of measuring: what a step costs beside its program (first, while the process is as small as a trainer's),
 * peak rates, links, then kernels and collectives by falling share of a step's time, the same again, slowdowns,
 * whole blocks. */
#include <stdlib.h>
#include <string.h>

#include "profiler/fit.h"
#include "profiler/profile_internal.h"
#include "runtime/clock.h"

enum { SWEEP = 7, PASSES = 4, SESSION_SAMPLES_MAX = 3, BLOCKS_MAX = 64, BLOCK_LAYERS = 3 };

static const uint64_t sweep_first_bytes = 4096; /* then times 4, to 16 MiB */
static const double pool_bytes_per_second_host = 16e6, pool_bytes_per_second_device = 4e9;
static const uint64_t pool_bytes_min = UINT64_C(48) << 20;
static const double fixed_share = 0.1, session_share = 0.1;
static const double first_pass_share = 0.65; /* of the time for entries; later ones begin with the largest */
static const double entry_share = 0.002;     /* an entry is run some ten times */
static const double entries_share_least =
    0.5; /* when what comes before took longer than it should, as large models do */
static const double entries_share = 0.7,
                    slowdowns_share = 0.75; /* of the budget, when entries end and slowdowns and blocks begin */

static void say(const gal_profiling *p, const char *what, uint32_t done, uint32_t count)
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
    p->profile.collectives = calloc((size_t)p->candidates.collective_count + SWEEP * GAL_LINK_LEVELS_MAX + 1,
                                    sizeof *p->profile.collectives);
    p->profile.blocks = calloc(BLOCKS_MAX * GAL_BLOCK_KIND_COUNT, sizeof *p->profile.blocks);
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

/* ---- links ---- */

static void put_collective(gal_profiling *p, const gal_candidate_collective *at, const gal_timing *timing)
{
    gal_profile_collective *entry = &p->profile.collectives[p->profile.collective_count++];
    *entry = (gal_profile_collective){.op = at->shape.op,
                                      .bytes = at->bytes,
                                      .seconds = timing->seconds,
                                      .spread_seconds = timing->spread_seconds,
                                      .source = GAL_SOURCE_MEASURED};
    memcpy(entry->level_counts, at->level_counts, sizeof entry->level_counts);
}

static gal_profile_collective *find_collective(const gal_profiling *p, const gal_candidate_collective *at)
{
    for (uint32_t i = 0; i < p->profile.collective_count; i++) {
        gal_profile_collective *entry = &p->profile.collectives[i];
        if (entry->op == at->shape.op && entry->bytes == at->bytes &&
            memcmp(entry->level_counts, at->level_counts, sizeof entry->level_counts) == 0) {
            return entry;
        }
    }
    return NULL;
}

/* A place whose pairs cross exactly this level: halves of the level's units, device by device. */
static gal_code add_pair_places(gal_profiling *p, uint32_t *first, gal_error *err)
{
    gal_candidates *c = &p->candidates;
    const gal_cluster *cluster = &p->profile.cluster;
    gal_candidate_place *place = realloc(c->place, (c->place_count + cluster->level_count) * sizeof *place);
    if (place == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: links");
    }
    c->place = place;
    *first = c->place_count;
    for (uint32_t level = 0; level < cluster->level_count; level++) {
        const uint32_t below = level == 0 ? 1 : cluster->level[level - 1].span_devices;
        place[c->place_count++] = (gal_candidate_place){below, GAL_GROUP_NEXT};
    }
    return GAL_OK;
}

/* Transfers of several sizes over each level: its latency and bandwidth, and entries of their own. */
static gal_code measure_level(gal_profiling *p, uint32_t level, uint32_t place, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_transfer transfer[SWEEP];
    const gal_dtype dtype = p->pools.settings.dtype;
    gal_candidate_collective at = {.shape = {.op = GAL_OP_SEND, .dtype = dtype}, .place = place};
    for (uint32_t i = 0; i < GAL_LINK_LEVELS_MAX; i++) {
        at.level_counts[i] = i == level ? 2 : 1;
    }
    for (uint32_t i = 0; i < SWEEP; i++) {
        gal_collective_run run;
        gal_timing timing;
        at.bytes = sweep_first_bytes << (2 * i);
        at.shape.dims[0] = (uint32_t)(at.bytes / gal_dtype_bytes(dtype));
        gal_collective_prepare(&at, &p->links, &p->pools, false, &run);
        GAL_TRY(gal_collective_time(&p->bench, &p->links, &run, &timing, err));
        transfer[i] = (gal_transfer){(double)at.bytes, timing.seconds};
        put_collective(p, &at, &timing);
        say(p, "links", level * SWEEP + i + 1, SWEEP * p->profile.cluster.level_count);
    }
    gal_link_level *link = &p->profile.cluster.level[level];
    gal_fit_link(transfer, SWEEP, &link->latency_seconds, &link->bytes_per_second);
cleanup:
    return code;
}

static bool is_measured(const gal_profiling *p, const gal_candidate_collective *at)
{
    const uint64_t most = p->settings->message_bytes_max;
    return gal_collective_bytes(at, p->cold_bytes) <= p->pools.settings.bytes && (most == 0 || at->bytes <= most);
}

/* Of all that is measured, the sweep included. */
static uint64_t largest_message(const gal_profiling *p)
{
    uint64_t bytes = sweep_first_bytes << (2 * (SWEEP - 1));
    for (uint32_t i = 0; i < p->candidates.collective_count; i++) {
        const gal_candidate_collective *at = &p->candidates.collectives[i];
        bytes = is_measured(p, at) && at->bytes > bytes ? at->bytes : bytes;
    }
    return bytes;
}

/* All communicators, and what one of them takes of a device. */
static gal_code create_links(gal_profiling *p, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_device_ops *device = p->settings->backend->device;
    const gal_links_settings settings = {.place = p->candidates.place,
                                         .place_count = p->candidates.place_count,
                                         .dtype = p->pools.settings.dtype,
                                         .bytes_max = largest_message(p),
                                         .slow_bytes_per_second = p->settings->slow_bytes_per_second};
    const uint64_t before = device->used_bytes != NULL ? device->used_bytes() : 0;
    GAL_TRY(gal_links_create(&p->bench, &settings, &p->links, err));
    const uint64_t after = device->used_bytes != NULL ? device->used_bytes() : 0;
    const uint32_t count = p->links.comm->communicator_count;
    if (p->links.comm->ops->queued && after > before && count > 0) {
        p->profile.gpu.communicator_bytes = (after - before) / count / p->bench.sharing_count;
    }
cleanup:
    return code;
}

static gal_code measure_links(gal_profiling *p, gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t first = 0;
    gal_cluster *cluster = &p->profile.cluster;
    if (p->bench.world.comm == NULL) { /* nothing is sent: what copies within the rank take */
        cluster->level[0].latency_seconds = 0.0;
        cluster->level[0].bytes_per_second = cluster->device.memory_bytes_per_second / 2.0;
        return GAL_OK;
    }
    code = add_pair_places(p, &first, err);
    GAL_TRY(gal_world_agree(&p->bench.world, code, err));
    GAL_TRY(create_links(p, err));
    for (uint32_t level = 0; level < cluster->level_count; level++) {
        GAL_TRY(measure_level(p, level, first + level, err));
    }
cleanup:
    return code;
}

/* ---- kernels and collectives ---- */

/* The least of measurements some time apart: what else ran on the machine meanwhile only ever adds. */
static void keep_lesser(const gal_timing *timing, double *seconds, double *spread_seconds)
{
    if (timing->seconds < *seconds) {
        *seconds = timing->seconds;
        *spread_seconds = timing->spread_seconds;
    }
}

static gal_profile_operator *find_operator(const gal_profiling *p, const gal_shape *shape)
{
    for (uint32_t i = 0; i < p->profile.operator_count; i++) {
        if (gal_shape_compare(&p->profile.operators[i].shape, shape) == 0) {
            return &p->profile.operators[i];
        }
    }
    return NULL;
}

static gal_code measure_operator(gal_profiling *p, const gal_candidate_operator *at, gal_profile_operator *known,
                                 gal_error *err)
{
    gal_code code = GAL_OK;
    gal_operator_run run;
    gal_timing timing;
    code = gal_operator_prepare(at, &p->pools, &run, err);
    GAL_TRY(gal_world_agree(&p->bench.world, code, err));
    GAL_TRY(gal_bench_time(&p->bench, gal_operator_repeat, &run, &timing, err));
    if (known != NULL) {
        keep_lesser(&timing, &known->seconds, &known->spread_seconds);
        return GAL_OK;
    }
    p->profile.operators[p->profile.operator_count++] = (gal_profile_operator){.shape = at->shape,
                                                                               .seconds = timing.seconds,
                                                                               .spread_seconds = timing.spread_seconds,
                                                                               .source = GAL_SOURCE_MEASURED};
    p->report.operators_measured++;
    p->report.measured_share += at->share;
cleanup:
    return code;
}

static gal_code measure_collective(gal_profiling *p, const gal_candidate_collective *at, gal_profile_collective *known,
                                   gal_error *err)
{
    gal_code code = GAL_OK;
    gal_collective_run run;
    gal_timing timing;
    gal_collective_prepare(at, &p->links, &p->pools, false, &run);
    GAL_TRY(gal_collective_time(&p->bench, &p->links, &run, &timing, err));
    if (known != NULL) {
        keep_lesser(&timing, &known->seconds, &known->spread_seconds);
    } else {
        put_collective(p, at, &timing);
    }
cleanup:
    return code;
}

/* A first pass measures what is not known yet, later ones what is. */
static gal_code measure_entry(gal_profiling *p, const gal_candidate_operator *at,
                              const gal_candidate_collective *message, bool again, gal_error *err)
{
    gal_code code = GAL_OK;
    if (at != NULL && gal_operator_bytes(at, p->cold_bytes) <= p->pools.settings.bytes) {
        gal_profile_operator *known = find_operator(p, &at->shape);
        if ((known != NULL) == again) {
            GAL_TRY(measure_operator(p, at, known, err));
        }
    } else if (message != NULL && is_measured(p, message)) {
        gal_profile_collective *known = find_collective(p, message);
        if ((known != NULL) == again) {
            GAL_TRY(measure_collective(p, message, known, err));
        }
        p->report.collectives_measured += !again;
        p->report.measured_share += again ? 0.0 : message->share;
    }
cleanup:
    return code;
}

/* Both lists merged by falling share, those whose expected seconds are at most (expensive: above) what the budget
 * allows for one entry. */
static gal_code measure_part(gal_profiling *p, bool expensive, bool again, double until_seconds, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_candidates *c = &p->candidates;
    const double entry_seconds = entry_share * p->settings->budget_seconds;
    uint32_t o = 0, m = 0;
    while ((o < c->operator_count || m < c->collective_count) && p->bench.elapsed_seconds < until_seconds) {
        const bool kernel =
            o < c->operator_count && (m == c->collective_count || c->operators[o].share >= c->collectives[m].share);
        const gal_candidate_operator *at = kernel ? &c->operators[o++] : NULL;
        const gal_candidate_collective *message = kernel ? NULL : &c->collectives[m++];
        const double seconds = kernel ? at->expected_seconds : message->expected_seconds;
        if ((seconds > entry_seconds) == expensive) {
            GAL_TRY(measure_entry(p, at, message, again, err));
            say(p, again ? "kernels and collectives again" : "kernels and collectives", o + m,
                c->operator_count + c->collective_count);
        }
    }
cleanup:
    return code;
}

static void take_clock(gal_profiling *p)
{
    const gal_profile_settings *s = p->settings;
    if (p->profile.has_gpu) {
        p->profile.gpu.clock_hertz = s->clock_hertz != NULL ? s->clock_hertz(s->clock_context) : 0.0;
        p->profile.gpu.clock_hertz_max = s->fabric != NULL ? s->fabric->clock_hertz_max : 0.0;
    }
}

/* PASSES times, until their part of the budget is spent. A few entries of a large model could take all of it: they come
 * last, and the fits over cheaper ones of their kind stand in. */
static gal_code measure_entries(gal_profiling *p, gal_error *err)
{
    gal_code code = GAL_OK;
    const double share_seconds = entries_share * p->settings->budget_seconds;
    const double least_seconds = p->bench.elapsed_seconds + entries_share_least * p->settings->budget_seconds;
    const double until_seconds = share_seconds > least_seconds ? share_seconds : least_seconds;
    const double begin_seconds = p->bench.elapsed_seconds;
    const double first_until_seconds = begin_seconds + first_pass_share * (until_seconds - begin_seconds);
    GAL_TRY(measure_part(p, false, false, first_until_seconds, err));
    GAL_TRY(measure_part(p, true, false, first_until_seconds, err));
    for (uint32_t pass = 1; pass < PASSES; pass++) {
        GAL_TRY(measure_part(p, false, true, until_seconds, err));
        GAL_TRY(measure_part(p, true, true, until_seconds, err));
    }
    take_clock(p); /* right behind the kernels, before it falls */
cleanup:
    return code;
}

/* ---- whole steps ---- */

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

static gal_code measure_slowdowns(gal_profiling *p, gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t samples[SESSION_SAMPLES_MAX];
    const uint32_t count = choose_samples(p->settings, p->profile.rank_count, samples);
    const gal_overlap_settings settings = {.model = &p->settings->model[0],
                                           .until_seconds = slowdowns_share * p->settings->budget_seconds,
                                           .rank_count = p->profile.rank_count,
                                           .microbatch_samples = count > 0 ? samples[count / 2] : p->profile.rank_count,
                                           .message_bytes_max = p->settings->message_bytes_max,
                                           .candidates = &p->candidates,
                                           .links = &p->links,
                                           .pools = &p->pools};
    GAL_TRY(gal_measure_overlap(&p->bench, &settings, p->profile.slowdown, err));
    GAL_TRY(gal_measure_copy_slowdowns(&p->bench, &settings, p->profile.slowdown, err));
    if (p->profile.has_gpu) {
        say(p, "slowdowns by multiprocessors", 0, 0);
        GAL_TRY(gal_measure_ctas(&p->bench, &settings, &p->profile.gpu, err));
    }
cleanup:
    return code;
}

static gal_code measure_host(gal_profiling *p, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_profile_host *host = &p->profile.host;
    say(p, "copies to the host, Adam there", 0, 0);
    p->profile.has_host = true;
    host->threads_per_rank = p->settings->thread_count;
    GAL_TRY(gal_measure_copies(&p->bench, &p->pools, p->topology.numa_node, host, err));
    GAL_TRY(gal_measure_host_adam(&p->bench, p->threads_most, host, err));
cleanup:
    return code;
}

static gal_code measure_fixed(gal_profiling *p, gal_error *err)
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

static int compare_operators(const void *a, const void *b)
{
    return gal_shape_compare(&((const gal_profile_operator *)a)->shape, &((const gal_profile_operator *)b)->shape);
}

static void sort_operators(gal_profile *profile)
{
    if (profile->operator_count > 0) {
        qsort(profile->operators, profile->operator_count, sizeof *profile->operators, compare_operators);
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
            profile->block_count < BLOCKS_MAX * GAL_BLOCK_KIND_COUNT) {
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
            say(p, "blocks", ++*done, 0);
        }
    }
cleanup:
    return code;
}

/* Those without recompute first: readers need them, and set the others against them. */
static gal_code measure_blocks(gal_profiling *p, gal_error *err)
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
    say(p, "what a step costs beside its program", 0, 0);
    GAL_TRY(measure_fixed(p, err));
    say(p, "peak rates", 0, 0);
    GAL_TRY(gal_measure_peaks(&p->bench, p->settings->model[0].compute_dtype, &p->profile.cluster.device, err));
    code = make_pools(p, err);
    GAL_TRY(gal_world_agree(&p->bench.world, code, err));
    GAL_TRY(measure_links(p, err));
    GAL_TRY(measure_entries(p, err));
    say(p, "slowdowns", 0, 0);
    GAL_TRY(measure_slowdowns(p, err));
    GAL_TRY(measure_host(p, err));
    if (p->settings->storage_directory != NULL) {
        say(p, "storage", 0, 0);
        GAL_TRY(gal_measure_storage(&p->bench, p->settings->storage_directory, &p->profile.cluster.device, err));
    }
    gal_profiling_settle_gpu(p);
    gal_pools_free(&p->pools);
    GAL_TRY(measure_blocks(p, err));
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
