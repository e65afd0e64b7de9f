/* Who slows whom: kernels and collectives. What runs beside each other on the host is in measure_together.c, on a
 * device with queues in measure_beside.c. */
#include <math.h>
#include <string.h>

#include "profiler/measure.h"

enum { LARGEST_BYTES_HOST = 2 << 20 };

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
            gal_comm_give_way(pair[0].comm, pair[0].patience.begin_seconds);
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

static bool is_known(const gal_candidate_collective *const *known, uint32_t count, const gal_candidate_collective *at)
{
    bool found = false;
    for (uint32_t i = 0; i < count; i++) {
        found = found || (known[i]->shape.op == at->shape.op && known[i]->stream == at->stream);
    }
    return found;
}

/* Not the largest ones: beside a host's kernels they would take the whole budget. There those of the tensor stream as
 * well, which sub-batches hide. */
uint32_t gal_overlap_collectives(const gal_overlap_settings *o,
                                 const gal_candidate_collective *out[GAL_OVERLAP_COLLECTIVES])
{
    uint32_t count = 0;
    const bool host = o->pools->bench->backend->device->queue == NULL;
    const uint64_t largest_bytes = host                        ? LARGEST_BYTES_HOST
                                   : o->message_bytes_max != 0 ? o->message_bytes_max
                                                               : o->pools->settings.bytes;
    for (uint32_t i = 0; i < o->candidates->collective_count && count < GAL_OVERLAP_COLLECTIVES; i++) {
        const gal_candidate_collective *at = &o->candidates->collectives[i];
        const bool beside = at->stream == GAL_STREAM_GATHER || at->stream == GAL_STREAM_REDUCE;
        if ((beside || (host && at->stream == GAL_STREAM_TENSOR)) && at->bytes <= largest_bytes &&
            !is_known(out, count, at) &&
            gal_collective_bytes(at, o->pools->settings.cold_bytes) <= o->pools->settings.bytes) {
            out[count++] = at;
        }
    }
    return count;
}

/* ---- the matrix ---- */

/* What makes the time of all right: a message of few bytes waits for a look of the second thread many times as long as
 * it takes alone, and takes little of a step. */
static double mean_by_share(const double *factor, const gal_candidate_collective *const *chosen, uint32_t count)
{
    double sum = 0.0, shares = 0.0;
    for (uint32_t c = 0; c < count; c++) {
        sum += chosen[c]->share * factor[c];
        shares += chosen[c]->share;
    }
    return sum > shares ? sum / shares : 1.0;
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
    gal_sequence sequence = {.count = 0};
    code = gal_sequence_choose(o, &sequence, err);
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    if (bench->backend->device->queue != NULL) {
        return gal_measure_beside(bench, o, &sequence, slowdown, err);
    }
    if (sequence.count > 0) {
        GAL_TRY(gal_bench_time(bench, gal_sequence_repeat, &sequence, &kernels, err));
        GAL_TRY(gal_bench_time(bench, run_rounds_twice, &sequence, &both, err));
        kernels_shared = both.seconds / kernels.seconds;
    }
    gal_front front = gal_front_of_kernels(&sequence);
    if (sequence.count > 0) {
        GAL_TRY(gal_front_time(bench, &front, err));
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
        const gal_back back = gal_back_of_collective(&pair[0]);
        if (sequence.count > 0) {
            GAL_TRY(gal_measure_together(bench, &front, &back, alone.seconds, factors, err));
        }
        compute[c] = factors[0];
        communication[c] = factors[1];
        count = bench->elapsed_seconds > o->until_seconds ? c + 1 : count;
    }
    slowdown[GAL_ACTIVITY_COMPUTE][GAL_ACTIVITY_COMPUTE] = fmax(kernels_shared, 1.0);
    slowdown[GAL_ACTIVITY_COMPUTE][GAL_ACTIVITY_COMMUNICATION] = mean_by_share(compute, chosen, count);
    slowdown[GAL_ACTIVITY_COMMUNICATION][GAL_ACTIVITY_COMPUTE] = mean_by_share(communication, chosen, count);
    slowdown[GAL_ACTIVITY_COMMUNICATION][GAL_ACTIVITY_COMMUNICATION] = mean_by_share(shared, chosen, count);
cleanup:
    return code;
}
