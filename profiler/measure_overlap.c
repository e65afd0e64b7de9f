/* Who slows whom. On the host a collective moves on only when the rank's one thread tests it, so beside kernels it
 * takes part of the thread's time and waits for kernels to end: both sides are slowed, and this is what is measured,
 * with a loop that does what the engine does between two kernels. */
#include <sched.h>
#include <string.h>

#include "profiler/measure.h"

enum { LARGEST_BYTES_HOST = 2 << 20 };

typedef struct together {
    gal_sequence kernels;
    gal_collective_run collective;
    uint64_t kernel_count, collective_count;
} together;

static gal_code run_kernels(gal_sequence *s, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t i = 0; i < count; i++, s->next++) {
        GAL_TRY(gal_operator_repeat(&s->run[s->next % s->count], 1, err));
    }
cleanup:
    return code;
}

gal_code gal_sequence_repeat(void *sequence, uint32_t count, gal_error *err)
{
    gal_sequence *s = sequence;
    return run_kernels(s, count * s->count, err);
}

/* Every kernel on two streams of one rank: the thread runs one after the other. */
static gal_code run_rounds_twice(void *context, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_sequence *s = context;
    for (uint32_t i = 0; i < count * s->count; i++, s->next++) {
        GAL_TRY(gal_operator_repeat(&s->run[s->next % s->count], 2, err));
    }
cleanup:
    return code;
}

/* A collective in flight, kernels one after the other until it is complete; `count` times. */
static gal_code run_beside(void *context, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    together *t = context;
    gal_collective_run *c = &t->collective;
    for (uint32_t i = 0; i < count && c->takes_part; i++) {
        uint32_t handle = 0;
        bool done = false;
        GAL_TRY(gal_collective_start(c, &handle, err));
        while (!done) {
            GAL_TRY(run_kernels(&t->kernels, 1, err));
            t->kernel_count++;
            GAL_TRY(gal_collective_test(c, handle, &done, err));
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
            GAL_TRY(gal_collective_start(&pair[c], &handle[c], err));
        }
        while (!done[0] || !done[1]) {
            for (int c = 0; c < 2; c++) {
                if (!done[c]) {
                    GAL_TRY(gal_collective_test(&pair[c], handle[c], &done[c], err));
                }
            }
            sched_yield();
        }
    }
cleanup:
    return code;
}

/* ---- what runs together ---- */

static const gal_candidate_operator *find(const gal_candidates *candidates, const gal_shape *shape)
{
    for (uint32_t i = 0; i < candidates->operator_count; i++) {
        if (memcmp(&candidates->operators[i].shape, shape, sizeof *shape) == 0) {
            return &candidates->operators[i];
        }
    }
    return NULL;
}

/* The whole batch's rows on every rank's share: replicas over all ranks. */
gal_code gal_sequence_choose(const gal_overlap_settings *o, gal_sequence *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_strategy strategy;
    gal_program *program = NULL;
    const uint64_t cold_bytes = o->pools->settings.cold_bytes;
    memset(&strategy, 0, sizeof strategy);
    if (o->rank_count > 1) {
        strategy.axis[strategy.axis_count++] = (gal_axis){GAL_AXIS_DP, o->rank_count};
    }
    const gal_block_spec block[] = {gal_block_spec_of(o->model, 0, &strategy),
                                    gal_block_spec_of(o->model, 1, &strategy),
                                    gal_block_spec_of(o->model, 2, &strategy),
                                    gal_block_spec_of(o->model, gal_model_block_count(o->model) - 1, &strategy)};
    gal_stage_spec spec = {.model = o->model,
                           .device_count = o->rank_count,
                           .stage_count = 1,
                           .microbatch_samples = o->microbatch_samples,
                           .microbatch_count = 2,
                           .schedule = GAL_SCHEDULE_1F1B,
                           .prefetch_depth = 2,
                           .block_count = sizeof block / sizeof block[0],
                           .block = block};
    gal_layout_whole(o->microbatch_samples, &spec.entry_layout);
    GAL_TRY(gal_lower_spec(&spec, &program, err));
    const gal_fragment *backward = &program->fragment[GAL_FRAGMENT_BACKWARD];
    out->count = out->next = 0;
    for (uint32_t i = backward->first; i < backward->first + backward->count && out->count < GAL_SEQUENCE_MAX; i++) {
        const gal_instruction *in = &program->instruction[i];
        const gal_candidate_operator *at =
            in->block == 1 || in->block == 2 ? find(o->candidates, &program->shape[in->shape]) : NULL;
        if (at != NULL && gal_operator_bytes(at, cold_bytes) <= o->pools->settings.bytes) {
            GAL_TRY(gal_operator_prepare(at, o->pools, &out->run[out->count], err));
            out->count++;
        }
    }
cleanup:
    gal_program_free(program);
    return code;
}

/* Not the largest ones: beside a host's kernels they would take the whole budget. */
uint32_t gal_overlap_collectives(const gal_overlap_settings *o,
                                 const gal_candidate_collective *out[GAL_OVERLAP_COLLECTIVES])
{
    uint32_t count = 0;
    const uint64_t largest_bytes = o->pools->bench->backend->device->queue == NULL ? LARGEST_BYTES_HOST
                                   : o->message_bytes_max != 0                     ? o->message_bytes_max
                                                                                   : o->pools->settings.bytes;
    for (uint32_t i = 0; i < o->candidates->collective_count && count < GAL_OVERLAP_COLLECTIVES; i++) {
        const gal_candidate_collective *at = &o->candidates->collectives[i];
        if ((at->stream == GAL_STREAM_GATHER || at->stream == GAL_STREAM_REDUCE) && at->bytes <= largest_bytes &&
            gal_collective_bytes(at, o->pools->settings.cold_bytes) <= o->pools->settings.bytes) {
            out[count++] = at;
        }
    }
    return count;
}

/* ---- the matrix ---- */

static double median_at_least_one(double *factor, uint32_t count)
{
    const double median = count > 0 ? gal_quartile(factor, count, 2) : 1.0;
    return median > 1.0 ? median : 1.0;
}

/* Factors on the kernels and on the collective. */
static gal_code measure_beside(gal_bench *bench, together *t, double kernel_seconds, double collective_seconds,
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

gal_code gal_measure_overlap(gal_bench *bench, const gal_overlap_settings *o,
                             double slowdown[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT], gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_candidate_collective *chosen[GAL_OVERLAP_COLLECTIVES];
    uint32_t count = gal_overlap_collectives(o, chosen);
    double compute[GAL_OVERLAP_COLLECTIVES], communication[GAL_OVERLAP_COLLECTIVES], shared[GAL_OVERLAP_COLLECTIVES],
        kernels_shared = 1.0;
    gal_timing kernels = {0.0, 0.0}, alone, both;
    together t = {.kernel_count = 0};
    code = gal_sequence_choose(o, &t.kernels, err);
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    if (bench->backend->device->queue != NULL) {
        return gal_measure_beside(bench, o, &t.kernels, slowdown, err);
    }
    if (t.kernels.count > 0) {
        GAL_TRY(gal_bench_time(bench, gal_sequence_repeat, &t.kernels, &kernels, err));
        GAL_TRY(gal_bench_time(bench, run_rounds_twice, &t.kernels, &both, err));
        kernels_shared = both.seconds / kernels.seconds;
        kernels.seconds /= t.kernels.count;
    }
    for (uint32_t c = 0; c < count; c++) {
        gal_collective_run pair[2];
        double factors[2] = {1.0, 1.0};
        for (int second = 0; second < 2; second++) {
            gal_collective_prepare(chosen[c], o->links, o->pools, second == 1, &pair[second]);
        }
        GAL_TRY(gal_bench_time(bench, gal_collective_repeat, &pair[0], &alone, err));
        GAL_TRY(gal_bench_time(bench, run_both, pair, &both, err));
        shared[c] = both.seconds / alone.seconds;
        t.collective = pair[0];
        if (t.kernels.count > 0) {
            GAL_TRY(measure_beside(bench, &t, kernels.seconds, alone.seconds, factors, err));
        }
        compute[c] = factors[0];
        communication[c] = factors[1];
        count = bench->elapsed_seconds > o->until_seconds ? c + 1 : count;
    }
    slowdown[GAL_ACTIVITY_COMPUTE][GAL_ACTIVITY_COMPUTE] = median_at_least_one(&kernels_shared, 1);
    slowdown[GAL_ACTIVITY_COMPUTE][GAL_ACTIVITY_COMMUNICATION] = median_at_least_one(compute, count);
    slowdown[GAL_ACTIVITY_COMMUNICATION][GAL_ACTIVITY_COMPUTE] = median_at_least_one(communication, count);
    slowdown[GAL_ACTIVITY_COMMUNICATION][GAL_ACTIVITY_COMMUNICATION] = median_at_least_one(shared, count);
cleanup:
    return code;
}
