/* Who slows whom. On the host a collective moves on when a thread of the rank tests it, beside kernels the second one,
 * which takes part of the core's time: both sides are slowed, and this is what is measured, with a loop that does what
 * the engine does. */
#include <math.h>
#include <string.h>

#include "profiler/measure.h"
#include "runtime/clock.h"
#include "runtime/engine/courier.h"

enum { LARGEST_BYTES_HOST = 2 << 20, ROUNDS = 9, ROUND_COLLECTIVES_MAX = 100 };
static const double round_seconds = 0.02; /* of collectives, were they alone */

/* Kernels of the first thread, collectives one behind the other of both (runtime/engine/courier.h). */
typedef struct together {
    gal_sequence kernels;
    double alone_seconds[GAL_SEQUENCE_MAX]; /* of each kernel */
    gal_collective_run collective;
    uint64_t collective_count;
    double kernel_seconds, kernel_alone_seconds, collective_seconds; /* of all of a round */
    uint32_t handle, left; /* of the one in flight; that are still to complete */
    bool met;              /* the ranks have, by a collective that does not count */
    double start_seconds;
    gal_code code;
    gal_error err;
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

static gal_code start_next(together *t, gal_error *err)
{
    t->start_seconds = gal_now_seconds();
    return gal_collective_start(&t->collective, &t->handle, err);
}

/* If it is complete the next one is started. */
static gal_code test_one(together *t, bool *moved, gal_error *err)
{
    gal_code code = GAL_OK;
    bool done = false;
    GAL_TRY(gal_collective_test(&t->collective, t->handle, &done, err));
    if (done) {
        *moved = true;
        t->collective_count += t->met;
        t->collective_seconds += t->met ? gal_now_seconds() - t->start_seconds : 0.0;
        t->left -= t->met;
        t->met = true;
        GAL_TRY(t->left > 0 ? start_next(t, err) : GAL_OK);
    }
cleanup:
    return code;
}

static gal_courier_found look(void *context, double *due_seconds)
{
    together *t = context;
    const gal_comm *comm = t->collective.comm;
    bool moved = false;
    if (t->left > 0 && t->code == GAL_OK) {
        t->code = test_one(t, &moved, &t->err);
    }
    if (t->left == 0 || t->code != GAL_OK) {
        return GAL_COURIER_NOTHING;
    }
    *due_seconds = comm->ops->due != NULL ? comm->ops->due(t->collective.comm) : 0.0;
    return moved ? GAL_COURIER_MOVED : GAL_COURIER_WAITS;
}

/* `count` collectives, kernels one after the other until all are complete. One more in front: ranks come from different
 * kernels, and what one waits for the other is not what its kernels cost the collective. */
static gal_code run_beside(void *context, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    together *t = context;
    gal_courier *courier = NULL;
    bool moved = false;
    if (!t->collective.takes_part) {
        return GAL_OK;
    }
    t->left = count;
    t->met = false;
    t->code = GAL_OK;
    GAL_TRY(gal_courier_create(look, t, &courier, err));
    GAL_TRY(start_next(t, err));
    while (t->left > 0) {
        const double alone_seconds = t->alone_seconds[t->kernels.next % t->kernels.count];
        const double begin_seconds = gal_now_seconds();
        gal_courier_leave(courier, true);
        code = run_kernels(&t->kernels, 1, err);
        gal_courier_return(courier);
        GAL_TRY(code);
        t->kernel_seconds += gal_now_seconds() - begin_seconds;
        t->kernel_alone_seconds += alone_seconds;
        if (t->code != GAL_OK) {
            *err = t->err;
            code = t->code;
            goto cleanup;
        }
        GAL_TRY(t->left > 0 ? test_one(t, &moved, err) : GAL_OK);
    }
cleanup:
    gal_courier_free(courier);
    return code;
}

/* Each kernel of the sequence by itself: few are run beside a collective, and they differ. */
static gal_code time_each(gal_bench *bench, together *t, gal_error *err)
{
    gal_code code = GAL_OK;
    double seconds[GAL_SEQUENCE_MAX][ROUNDS];
    t->kernels.next = 0;
    GAL_TRY(gal_bench_barrier(bench, err));
    GAL_TRY(run_kernels(&t->kernels, t->kernels.count, err));
    for (uint32_t r = 0; r < ROUNDS; r++) {
        for (uint32_t i = 0; i < t->kernels.count; i++) {
            const double begin_seconds = gal_now_seconds();
            GAL_TRY(run_kernels(&t->kernels, 1, err));
            seconds[i][r] = gal_now_seconds() - begin_seconds;
        }
    }
    for (uint32_t i = 0; i < t->kernels.count; i++) {
        t->alone_seconds[i] = gal_quartile(seconds[i], ROUNDS, 2);
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

/* Factors on the kernels and on the collective, medians over the rounds. */
static gal_code measure_beside(gal_bench *bench, together *t, double collective_seconds, double factors[2],
                               gal_error *err)
{
    gal_code code = GAL_OK;
    double kernel[ROUNDS], collective[ROUNDS];
    const uint32_t count = (uint32_t)ceil(fmin(round_seconds / collective_seconds, ROUND_COLLECTIVES_MAX));
    for (uint32_t r = 0; r < ROUNDS; r++) {
        t->collective_count = 0;
        t->kernel_seconds = t->kernel_alone_seconds = t->collective_seconds = 0.0;
        GAL_TRY(gal_bench_barrier(bench, err));
        GAL_TRY(run_beside(t, count, err));
        kernel[r] = t->kernel_alone_seconds > 0.0 ? t->kernel_seconds / t->kernel_alone_seconds : 1.0;
        collective[r] =
            t->collective_count > 0 ? t->collective_seconds / ((double)t->collective_count * collective_seconds) : 1.0;
    }
    factors[0] = gal_quartile(kernel, ROUNDS, 2);
    factors[1] = gal_quartile(collective, ROUNDS, 2);
    GAL_TRY(gal_world_maximum(&bench->world, factors, 2, err));
    GAL_TRY(gal_bench_tick(bench, err));
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
    together t = {.collective_count = 0};
    code = gal_sequence_choose(o, &t.kernels, err);
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    if (bench->backend->device->queue != NULL) {
        return gal_measure_beside(bench, o, &t.kernels, slowdown, err);
    }
    if (t.kernels.count > 0) {
        GAL_TRY(gal_bench_time(bench, gal_sequence_repeat, &t.kernels, &kernels, err));
        GAL_TRY(gal_bench_time(bench, run_rounds_twice, &t.kernels, &both, err));
        kernels_shared = both.seconds / kernels.seconds;
        GAL_TRY(time_each(bench, &t, err));
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
            GAL_TRY(measure_beside(bench, &t, alone.seconds, factors, err));
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
