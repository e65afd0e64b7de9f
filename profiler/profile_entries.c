/* Links, then kernels and collectives in passes over all of them. */
#include <stdlib.h>
#include <string.h>

#include "profiler/fit.h"
#include "profiler/profile_internal.h"

enum { PASSES = 4 };

static const uint64_t sweep_first_bytes = 4096; /* then times 4, to 16 MiB */
static const double entries_share = 0.7;        /* of the budget, when entries end */
/* when what comes before took longer than it should, as large models do */
static const double entries_share_least = 0.5;
static const double first_pass_share = 0.65; /* of the time for entries; later ones begin with the largest */
static const double entry_share = 0.002;     /* an entry is run some ten times */

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
    gal_transfer transfer[GAL_PROFILING_SWEEP];
    const gal_dtype dtype = p->pools.settings.dtype;
    gal_candidate_collective at = {.shape = {.op = GAL_OP_SEND, .dtype = dtype}, .place = place};
    for (uint32_t i = 0; i < GAL_LINK_LEVELS_MAX; i++) {
        at.level_counts[i] = i == level ? 2 : 1;
    }
    for (uint32_t i = 0; i < GAL_PROFILING_SWEEP; i++) {
        gal_collective_run run;
        gal_timing timing;
        at.bytes = sweep_first_bytes << (2 * i);
        at.shape.dims[0] = (uint32_t)(at.bytes / gal_dtype_bytes(dtype));
        gal_collective_prepare(&at, &p->links, &p->pools, false, &run);
        GAL_TRY(gal_collective_time(&p->bench, &p->links, &run, &timing, err));
        transfer[i] = (gal_transfer){(double)at.bytes, timing.seconds};
        put_collective(p, &at, &timing);
        gal_profiling_say(p, "links", level * GAL_PROFILING_SWEEP + i + 1,
                          GAL_PROFILING_SWEEP * p->profile.cluster.level_count);
    }
    gal_link_level *link = &p->profile.cluster.level[level];
    gal_fit_link(transfer, GAL_PROFILING_SWEEP, &link->latency_seconds, &link->bytes_per_second);
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
    uint64_t bytes = sweep_first_bytes << (2 * (GAL_PROFILING_SWEEP - 1));
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

gal_code gal_profiling_links(gal_profiling *p, gal_error *err)
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
            gal_profiling_say(p, again ? "kernels and collectives again" : "kernels and collectives", o + m,
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
gal_code gal_profiling_entries(gal_profiling *p, gal_error *err)
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
