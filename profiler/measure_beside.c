/* Who slows whom on a device with queues: what is measured runs while the other runs all the time. */
#include <math.h>
#include <string.h>

#include "profiler/gpu.h"
#include "profiler/measure.h"

enum { STANDIN_CTAS = 16 }; /* of a link within a node, NCCL takes about so many by itself */
static const uint32_t swept_ctas[] = {1, 2, 4, 8, 16, 32};
enum { SWEPT = sizeof swept_ctas / sizeof swept_ctas[0] };
static const uint64_t company_bytes = UINT64_C(64) << 20;

/* The stand-in, on the pools' memory. */
typedef struct standin {
    const gal_pools *pools;
    gal_lane lane;
    uint32_t ctas;
} standin;

/* What runs beside kernels: one of three. */
typedef struct company {
    gal_beside beside;
    gal_lane *lane; /* where it goes: of the one that it is */
    gal_collective_run collective;
    standin standin;
    gal_copy_run copy;
} company;

static uint64_t part_bytes(const gal_pools *pools)
{
    const uint64_t bytes = pools->settings.bytes < company_bytes ? pools->settings.bytes : company_bytes;
    return bytes / GAL_ALIGNMENT_BYTES * GAL_ALIGNMENT_BYTES;
}

static gal_code repeat_standin(void *context, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    const standin *s = context;
    const gal_pools *pools = s->pools;
    for (uint32_t i = 0; i < count; i++) {
        GAL_TRY(gal_standin_queue(pools->bench->queue[s->lane], s->ctas, pools->written.base, pools->normal.base,
                                  pools->positive.base, part_bytes(pools) / sizeof(float), err));
    }
cleanup:
    return code;
}

static void be_standin(const gal_pools *pools, uint32_t ctas, company *out)
{
    out->standin = (standin){.pools = pools, .ctas = ctas};
    out->lane = &out->standin.lane;
    out->beside = (gal_beside){.run = repeat_standin, .context = &out->standin};
}

static void be_collective(const gal_candidate_collective *candidate, const gal_links *links, const gal_pools *pools,
                          bool second, company *out)
{
    gal_collective_prepare(candidate, links, pools, second, &out->collective);
    out->lane = &out->collective.lane;
    out->beside = (gal_beside){.run = gal_collective_repeat, .context = &out->collective};
}

static void be_copy(const gal_pools *pools, void *target, const void *source, company *out)
{
    out->copy = (gal_copy_run){.bench = pools->bench, .target = target, .source = source, .bytes = part_bytes(pools)};
    out->lane = &out->copy.lane;
    out->beside = (gal_beside){.run = gal_copy_repeat, .context = &out->copy};
}

static void go_on(company *c, gal_lane lane)
{
    *c->lane = lane;
    c->beside.lane = lane;
}

/* Alone, on the compute lane, where it then is. */
static gal_code time_alone(gal_bench *bench, company *c, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_timing timing;
    go_on(c, GAL_LANE_COMPUTE);
    GAL_TRY(gal_bench_time(bench, c->beside.run, c->beside.context, &timing, err));
    c->beside.alone_seconds = timing.seconds;
cleanup:
    return code;
}

/* What `cover` makes of `measured`, at least 1. */
static gal_code slow_down(gal_bench *bench, const gal_beside *measured, const gal_beside *cover, double *factor,
                          gal_error *err)
{
    gal_code code = GAL_OK;
    gal_timing timing;
    GAL_TRY(gal_bench_time_beside(bench, measured, cover, &timing, err));
    *factor = fmax(timing.seconds / measured->alone_seconds, 1.0);
cleanup:
    return code;
}

static void move_kernels(gal_sequence *kernels, gal_lane lane)
{
    for (uint32_t i = 0; i < kernels->count; i++) {
        kernels->run[i].lane = lane;
    }
}

static gal_code time_kernels(gal_bench *bench, gal_sequence *kernels, gal_beside *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_timing timing;
    GAL_TRY(gal_bench_time(bench, gal_sequence_repeat, kernels, &timing, err));
    *out = (gal_beside){
        .run = gal_sequence_repeat, .context = kernels, .lane = GAL_LANE_COMPUTE, .alone_seconds = timing.seconds};
cleanup:
    return code;
}

/* Factors on the kernels and on the company, which ends on the lane beside them. */
static gal_code both_ways(gal_bench *bench, const gal_beside *kernels, company *c, double *compute,
                          double *communication, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(time_alone(bench, c, err));
    go_on(c, GAL_LANE_BESIDE);
    GAL_TRY(slow_down(bench, kernels, &c->beside, compute, err));
    GAL_TRY(slow_down(bench, &c->beside, kernels, communication, err));
cleanup:
    return code;
}

/* Two of a kind on both lanes. */
static gal_code of_its_kind(gal_bench *bench, company *first, company *second, double *factor, gal_error *err)
{
    gal_code code = GAL_OK;
    go_on(first, GAL_LANE_COMPUTE);
    go_on(second, GAL_LANE_BESIDE);
    second->beside.alone_seconds = first->beside.alone_seconds;
    GAL_TRY(slow_down(bench, &first->beside, &second->beside, factor, err));
cleanup:
    return code;
}

typedef struct factors {
    double compute[GAL_OVERLAP_COLLECTIVES], communication[GAL_OVERLAP_COLLECTIVES], shared[GAL_OVERLAP_COLLECTIVES];
    uint32_t count;
} factors;

static gal_code measure_pair(gal_bench *bench, const gal_beside *kernels, company pair[2], factors *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t at = out->count;
    GAL_TRY(both_ways(bench, kernels, &pair[0], &out->compute[at], &out->communication[at], err));
    GAL_TRY(of_its_kind(bench, &pair[0], &pair[1], &out->shared[at], err));
    out->count++;
cleanup:
    return code;
}

static gal_code measure_collectives(gal_bench *bench, const gal_overlap_settings *o, const gal_beside *kernels,
                                    factors *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_candidate_collective *chosen[GAL_OVERLAP_COLLECTIVES];
    const uint32_t count = gal_overlap_collectives(o, chosen);
    company pair[2];
    for (uint32_t c = 0; c < count && (c == 0 || bench->elapsed_seconds < o->until_seconds); c++) {
        be_collective(chosen[c], o->links, o->pools, false, &pair[0]);
        be_collective(chosen[c], o->links, o->pools, true, &pair[1]);
        GAL_TRY(measure_pair(bench, kernels, pair, out, err));
    }
cleanup:
    return code;
}

static gal_code measure_others(gal_bench *bench, const gal_overlap_settings *o, const gal_beside *kernels, factors *out,
                               gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_device_queue_ops *queue = bench->backend->device->queue;
    company pair[2];
    void *pinned[2] = {NULL, NULL};
    for (int i = 0; i < 2 && o->links->comm == NULL; i++) {
        be_standin(o->pools, STANDIN_CTAS, &pair[i]);
    }
    for (int i = 0; i < 2 && o->links->comm != NULL && code == GAL_OK; i++) {
        code = queue->host_allocate(part_bytes(o->pools), &pinned[i], err);
        be_copy(o->pools, pinned[i], o->pools->normal.base, &pair[i]);
    }
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    GAL_TRY(measure_pair(bench, kernels, pair, out, err));
cleanup:
    for (int i = 0; i < 2; i++) {
        if (pinned[i] != NULL) {
            queue->host_release(pinned[i]);
        }
    }
    return code;
}

static double median(double *factor, uint32_t count)
{
    return count > 0 ? gal_quartile(factor, count, 2) : 1.0;
}

gal_code gal_measure_beside(gal_bench *bench, const gal_overlap_settings *o, gal_sequence *kernels,
                            double slowdown[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT], gal_error *err)
{
    gal_code code = GAL_OK;
    const bool queued = o->links->comm != NULL && o->links->comm->ops->queued;
    gal_sequence others = *kernels;
    gal_beside alone;
    factors f = {.count = 0};
    double shared = 1.0;
    gal_links_watch(o->links, o->links->deadline_seconds);
    if (kernels->count > 0) {
        GAL_TRY(time_kernels(bench, kernels, &alone, err));
        const gal_beside beside = {gal_sequence_repeat, &others, GAL_LANE_BESIDE, alone.alone_seconds};
        move_kernels(&others, GAL_LANE_BESIDE);
        GAL_TRY(slow_down(bench, &alone, &beside, &shared, err));
        GAL_TRY((queued ? measure_collectives : measure_others)(bench, o, &alone, &f, err));
    }
    slowdown[GAL_ACTIVITY_COMPUTE][GAL_ACTIVITY_COMPUTE] = shared;
    slowdown[GAL_ACTIVITY_COMPUTE][GAL_ACTIVITY_COMMUNICATION] = median(f.compute, f.count);
    slowdown[GAL_ACTIVITY_COMMUNICATION][GAL_ACTIVITY_COMPUTE] = median(f.communication, f.count);
    slowdown[GAL_ACTIVITY_COMMUNICATION][GAL_ACTIVITY_COMMUNICATION] = median(f.shared, f.count);
cleanup:
    gal_links_watch(o->links, 0.0);
    return code;
}

/* ---- copies ---- */

/* The larger factor of the two ways on each side. */
static gal_code beside_copies(gal_bench *bench, const gal_beside *measured, company copies[2], double *factor,
                              double *of_copies, gal_error *err)
{
    gal_code code = GAL_OK;
    for (int way = 0; way < 2; way++) {
        double on_measured = 1.0, on_copy = 1.0;
        GAL_TRY(both_ways(bench, measured, &copies[way], &on_measured, &on_copy, err));
        *factor = fmax(*factor, on_measured);
        *of_copies = fmax(*of_copies, on_copy);
    }
cleanup:
    return code;
}

static gal_code ways_beside_each_other(gal_bench *bench, company copies[2], double *factor, gal_error *err)
{
    gal_code code = GAL_OK;
    for (int way = 0; way < 2; way++) {
        double one = 1.0, other = 1.0;
        GAL_TRY(time_alone(bench, &copies[way], err));
        GAL_TRY(both_ways(bench, &copies[way].beside, &copies[1 - way], &one, &other, err));
        *factor = fmax(*factor, fmax(one, other));
    }
cleanup:
    return code;
}

/* What communicates without the host; false: nothing does. */
static bool be_message(const gal_overlap_settings *o, company *out)
{
    const gal_candidate_collective *chosen[GAL_OVERLAP_COLLECTIVES];
    if (o->links->comm == NULL) {
        be_standin(o->pools, STANDIN_CTAS, out);
    } else if (o->links->comm->ops->queued && gal_overlap_collectives(o, chosen) > 0) {
        be_collective(chosen[0], o->links, o->pools, false, out);
    } else {
        return false;
    }
    return true;
}

static gal_code measure_copies(gal_bench *bench, const gal_overlap_settings *o, void *const pinned[2],
                               double slowdown[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT], gal_error *err)
{
    gal_code code = GAL_OK;
    gal_sequence kernels = {.count = 0};
    gal_beside alone;
    company copies[2], message;
    double *const of_copies = slowdown[GAL_ACTIVITY_COPY];
    be_copy(o->pools, pinned[0], o->pools->normal.base, &copies[0]);
    be_copy(o->pools, o->pools->written.base, pinned[1], &copies[1]);
    code = gal_sequence_choose(o, &kernels, err);
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    if (kernels.count > 0) {
        GAL_TRY(time_kernels(bench, &kernels, &alone, err));
        GAL_TRY(beside_copies(bench, &alone, copies, &slowdown[GAL_ACTIVITY_COMPUTE][GAL_ACTIVITY_COPY],
                              &of_copies[GAL_ACTIVITY_COMPUTE], err));
    }
    GAL_TRY(ways_beside_each_other(bench, copies, &of_copies[GAL_ACTIVITY_COPY], err));
    if (be_message(o, &message)) {
        GAL_TRY(time_alone(bench, &message, err));
        GAL_TRY(beside_copies(bench, &message.beside, copies, &slowdown[GAL_ACTIVITY_COMMUNICATION][GAL_ACTIVITY_COPY],
                              &of_copies[GAL_ACTIVITY_COMMUNICATION], err));
    } else if (o->links->comm != NULL) {
        slowdown[GAL_ACTIVITY_COMMUNICATION][GAL_ACTIVITY_COPY] = of_copies[GAL_ACTIVITY_COMMUNICATION] =
            of_copies[GAL_ACTIVITY_COPY];
    }
cleanup:
    return code;
}

static gal_code measure_on_host(gal_bench *bench, const gal_overlap_settings *o,
                                double slowdown[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT], gal_error *err)
{
    gal_sequence kernels = {.count = 0};
    gal_code code = gal_sequence_choose(o, &kernels, err);
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    GAL_TRY(gal_measure_host_copies(bench, o, &kernels, slowdown, err));
cleanup:
    return code;
}

gal_code gal_measure_copy_slowdowns(gal_bench *bench, const gal_overlap_settings *o,
                                    double slowdown[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT], gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_device_queue_ops *queue = bench->backend->device->queue;
    void *pinned[2] = {NULL, NULL};
    for (uint32_t i = 0; i < GAL_ACTIVITY_COUNT; i++) {
        slowdown[i][GAL_ACTIVITY_COPY] = slowdown[GAL_ACTIVITY_COPY][i] = 1.0;
    }
    if (queue == NULL) {
        return measure_on_host(bench, o, slowdown, err);
    }
    for (int i = 0; i < 2 && code == GAL_OK; i++) {
        code = queue->host_allocate(part_bytes(o->pools), &pinned[i], err);
    }
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    gal_links_watch(o->links, o->links->deadline_seconds);
    GAL_TRY(measure_copies(bench, o, pinned, slowdown, err));
cleanup:
    gal_links_watch(o->links, 0.0);
    for (int i = 0; i < 2; i++) {
        if (pinned[i] != NULL) {
            queue->host_release(pinned[i]);
        }
    }
    return code;
}

/* ---- by multiprocessors ---- */

/* A communicator of its own takes so many. own_seconds: of the collective with as many as the library takes by itself.
 */
static gal_code sweep_collective(gal_bench *bench, const gal_overlap_settings *o,
                                 const gal_candidate_collective *candidate, double own_seconds,
                                 const gal_beside *kernels, gal_profile_ctas *entry, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_links links = {.place_count = 0};
    gal_candidate_collective at = *candidate;
    company c;
    const gal_links_settings settings = {.place = &o->candidates->place[candidate->place],
                                         .place_count = 1,
                                         .dtype = o->pools->settings.dtype,
                                         .bytes_max = candidate->bytes,
                                         .ctas = entry->ctas};
    at.place = 0;
    GAL_TRY(gal_links_create(bench, &settings, &links, err));
    gal_links_watch(&links, links.deadline_seconds);
    be_collective(&at, &links, o->pools, false, &c);
    GAL_TRY(both_ways(bench, kernels, &c, &entry->compute, &entry->communication, err));
    entry->communication_alone = c.beside.alone_seconds / own_seconds;
cleanup:
    gal_links_watch(&links, 0.0);
    gal_links_free(&links);
    return code;
}

/* The kernels are those that galrun runs beside so many: products planned for the multiprocessors that are left.
 * alone_seconds: of the kernels with all of them. */
static gal_code sweep(gal_bench *bench, const gal_overlap_settings *o, double alone_seconds,
                      const gal_candidate_collective *candidate, double own_seconds, gal_profile_ctas *entry,
                      gal_error *err)
{
    gal_code code = GAL_OK;
    gal_pools *pools = o->pools;
    void *const all = pools->context;
    void *fewer = NULL;
    gal_sequence kernels = {.count = 0};
    const gal_kernel_choice choice = {.tf32 = bench->tf32, .communication_ctas = entry->ctas};
    code = pools->ops->queued->open(&choice, &fewer, err);
    if (code == GAL_OK) {
        pools->context = fewer;
        code = gal_sequence_choose(o, &kernels, err);
    }
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    const gal_beside beside = {gal_sequence_repeat, &kernels, GAL_LANE_COMPUTE, alone_seconds};
    if (candidate == NULL) {
        company c;
        be_standin(pools, entry->ctas, &c);
        GAL_TRY(both_ways(bench, &beside, &c, &entry->compute, &entry->communication, err));
    } else {
        GAL_TRY(sweep_collective(bench, o, candidate, own_seconds, &beside, entry, err));
    }
    GAL_TRY(gal_bench_settle(bench, GAL_LANE_COMPUTE, err));
    GAL_TRY(gal_bench_settle(bench, GAL_LANE_BESIDE, err));
cleanup:
    pools->context = all;
    pools->ops->queued->close(fewer);
    return code;
}

gal_code gal_measure_ctas(gal_bench *bench, const gal_overlap_settings *o, gal_profile_gpu *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_sequence kernels = {.count = 0};
    const gal_candidate_collective *chosen[GAL_OVERLAP_COLLECTIVES] = {NULL};
    const bool alone = o->links->comm == NULL;
    const uint32_t count = alone ? 0 : gal_overlap_collectives(o, chosen);
    gal_beside beside;
    company own = {.beside.alone_seconds = 0.0};
    code = gal_sequence_choose(o, &kernels, err);
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    out->by_ctas_count = 0;
    if (kernels.count == 0 || (!alone && (!o->links->comm->ops->queued || count == 0))) {
        return GAL_OK;
    }
    GAL_TRY(time_kernels(bench, &kernels, &beside, err));
    if (!alone) {
        be_collective(chosen[0], o->links, o->pools, false, &own);
        GAL_TRY(time_alone(bench, &own, err));
    }
    for (uint32_t i = 0; i < SWEPT && (i == 0 || bench->elapsed_seconds < o->until_seconds); i++) {
        gal_profile_ctas entry = {.ctas = swept_ctas[i]};
        GAL_TRY(sweep(bench, o, beside.alone_seconds, chosen[0], own.beside.alone_seconds, &entry, err));
        out->by_ctas[out->by_ctas_count++] = entry;
    }
cleanup:
    return code;
}
