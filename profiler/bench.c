#include "profiler/bench.h"

#include <math.h>
#include <stdlib.h>

#include "schemas/base/clock.h"

enum { COVER_MAX = 512, COVER_TRIES = 4 };
enum { REPEATS_MAX = 15, REPEATS_MEDIUM = 9, REPEATS_MIN = 5, REPEATS_LONG = 3, BATCH_MAX = 4096 };

static const double sample_seconds_min = 3e-4;
static const double short_seconds = 2e-3, medium_seconds = 2e-2,
                    long_seconds = 0.5; /* of a sample: more repeats below */

static const double beside_seconds_min = 2e-3; /* of a sample with company, which needs time to set in */
static const double cover_factor = 2.0;        /* how much longer the cover is to last, at first */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double gal_quartile(double *value, uint32_t count, uint32_t quartile)
{
    qsort(value, count, sizeof *value, ascending);
    const double at = 0.25 * quartile * (double)(count - 1);
    const uint32_t below = (uint32_t)at;
    const uint32_t above = below + 1 < count ? below + 1 : below;
    return value[below] + (at - (double)below) * (value[above] - value[below]);
}

gal_code gal_bench_barrier(const gal_bench *bench, gal_error *err)
{
    return bench->world.comm != NULL ? gal_comm_barrier(bench->world.comm, bench->world.deadline_seconds, err) : GAL_OK;
}

/* Values become the largest of all ranks; the last two are the bench's own. */
static gal_code agree(gal_bench *bench, double *values, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    values[count] = gal_now_seconds() - bench->begin_seconds;
    values[count + 1] = bench->stop != NULL && *bench->stop != 0 ? 1.0 : 0.0;
    GAL_TRY(gal_world_maximum(&bench->world, values, count + 2, err));
    bench->elapsed_seconds = values[count];
    if (values[count + 1] > 0.0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "interrupted: nothing is written");
    }
cleanup:
    return code;
}

gal_code gal_bench_tick(gal_bench *bench, gal_error *err)
{
    double values[2];
    return agree(bench, values, 0, err);
}

/* ---- devices ---- */

gal_code gal_bench_open(gal_bench *bench, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_device_queue_ops *queue = bench->backend->device->queue;
    if (queue == NULL) {
        return GAL_OK;
    }
    for (uint32_t lane = 0; lane < GAL_LANE_COUNT; lane++) {
        GAL_TRY(queue->create(lane == GAL_LANE_BESIDE, &bench->queue[lane], err));
        GAL_TRY(queue->event_create(true, &bench->begin[lane], err));
        GAL_TRY(queue->event_create(true, &bench->end[lane], err));
    }
    GAL_TRY(queue->event_create(false, &bench->first_done, err));
cleanup:
    return code; /* what was made is for gal_bench_close */
}

static void close_event(const gal_bench *bench, void **event)
{
    if (*event != NULL) {
        bench->backend->device->queue->event_destroy(*event);
        *event = NULL;
    }
}

void gal_bench_close(gal_bench *bench)
{
    for (uint32_t lane = 0; lane < GAL_LANE_COUNT; lane++) {
        if (bench->queue[lane] != NULL) {
            bench->backend->device->queue->destroy(bench->queue[lane]);
            bench->queue[lane] = NULL;
        }
        close_event(bench, &bench->begin[lane]);
        close_event(bench, &bench->end[lane]);
    }
    close_event(bench, &bench->first_done);
}

/* Until the event is reached. Who waits in vain calls the roll, or fails by the deadline. */
static gal_code wait_for(const gal_bench *bench, void *event, gal_error *err)
{
    gal_code code = GAL_OK;
    bool reached = false;
    const gal_comm_wait wait = {.text = "a measurement on the device"};
    gal_comm_patience patience = gal_comm_patience_begin(bench->world.deadline_seconds);
    for (;;) {
        GAL_TRY(bench->backend->device->queue->reached(event, &reached, err));
        if (reached) {
            break;
        }
        if (bench->world.comm != NULL) {
            GAL_TRY(gal_comm_idle(bench->world.comm, &patience, &wait, err));
        } else if (gal_now_seconds() > patience.begin_seconds + patience.deadline_seconds) {
            return gal_fail(err, GAL_ERR_DEVICE, "the device has not ended a measurement in %g s",
                            patience.deadline_seconds);
        }
    }
cleanup:
    return code;
}

gal_code gal_bench_settle(const gal_bench *bench, gal_lane lane, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(bench->backend->device->queue->record(bench->queue[lane], bench->end[lane], err));
    GAL_TRY(wait_for(bench, bench->end[lane], err));
cleanup:
    return code;
}

static gal_code sample_on_device(const gal_bench *bench, gal_timed run, void *context, uint32_t batch, double *seconds,
                                 gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_device_queue_ops *queue = bench->backend->device->queue;
    void *begin = bench->begin[GAL_LANE_COMPUTE], *end = bench->end[GAL_LANE_COMPUTE];
    GAL_TRY(run(context, 1, err));
    GAL_TRY(queue->record(bench->queue[GAL_LANE_COMPUTE], begin, err));
    GAL_TRY(run(context, batch, err));
    GAL_TRY(queue->record(bench->queue[GAL_LANE_COMPUTE], end, err));
    GAL_TRY(wait_for(bench, end, err));
    *seconds = queue->seconds_between(begin, end);
cleanup:
    return code;
}

/* ---- samples ---- */

/* One sample of this rank, so that the maximum over the ranks says what the sample took: end and - begin. */
static gal_code sample(const gal_bench *bench, gal_timed run, void *context, uint32_t batch, double value[2],
                       gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(gal_bench_barrier(bench, err));
    value[1] = 0.0;
    if (bench->backend->device->queue != NULL) {
        return sample_on_device(bench, run, context, batch, &value[0], err);
    }
    const double begin_seconds = gal_now_seconds();
    GAL_TRY(run(context, batch, err));
    const double end_seconds = gal_now_seconds();
    value[0] = bench->shared_cores ? end_seconds : end_seconds - begin_seconds;
    value[1] = bench->shared_cores ? -begin_seconds : 0.0;
cleanup:
    return code;
}

static uint32_t repeats_of(double sample_seconds)
{
    return sample_seconds < short_seconds    ? REPEATS_MAX
           : sample_seconds < medium_seconds ? REPEATS_MEDIUM
           : sample_seconds < long_seconds   ? REPEATS_MIN
                                             : REPEATS_LONG;
}

static gal_timing timing_of(double *seconds, uint32_t count)
{
    return (gal_timing){.seconds = gal_quartile(seconds, count, 2),
                        .spread_seconds = 0.5 * (gal_quartile(seconds, count, 3) - gal_quartile(seconds, count, 1))};
}

gal_code gal_bench_time(gal_bench *bench, gal_timed run, void *context, gal_timing *out, gal_error *err)
{
    gal_code code = GAL_OK;
    double value[2 * REPEATS_MAX + 2], seconds[REPEATS_MAX];
    GAL_TRY(run(context, 1, err)); /* touches pages and warms what stays warm */
    GAL_TRY(sample(bench, run, context, 1, value, err));
    GAL_TRY(agree(bench, value, 2, err));
    const double guess = fmax(value[0] + value[1], 1e-7);
    const double wanted = ceil(sample_seconds_min / guess);
    const uint32_t batch = wanted > BATCH_MAX ? BATCH_MAX : (uint32_t)wanted;
    const uint32_t repeats = repeats_of(guess * batch);
    for (uint32_t i = 0; i < repeats; i++) {
        GAL_TRY(sample(bench, run, context, batch, &value[2 * i], err));
    }
    GAL_TRY(agree(bench, value, 2 * repeats, err));
    for (uint32_t i = 0; i < repeats; i++) {
        seconds[i] = (value[2 * i] + value[2 * i + 1]) / batch;
    }
    *out = timing_of(seconds, repeats);
cleanup:
    return code;
}

/* ---- company ---- */

/* *uncovered: the cover ended before what was measured did. */
static gal_code sample_beside(const gal_bench *bench, const gal_beside *measured, uint32_t batch,
                              const gal_beside *cover, uint32_t cover_batch, double *seconds, double *uncovered,
                              gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_device_queue_ops *queue = bench->backend->device->queue;
    GAL_TRY(gal_bench_barrier(bench, err));
    GAL_TRY(cover->run(cover->context, 1, err));
    GAL_TRY(queue->record(bench->queue[cover->lane], bench->first_done, err));
    GAL_TRY(cover->run(cover->context, cover_batch, err));
    GAL_TRY(queue->record(bench->queue[cover->lane], bench->end[cover->lane], err));
    GAL_TRY(queue->wait(bench->queue[measured->lane], bench->first_done, err));
    GAL_TRY(queue->record(bench->queue[measured->lane], bench->begin[measured->lane], err));
    GAL_TRY(measured->run(measured->context, batch, err));
    GAL_TRY(queue->record(bench->queue[measured->lane], bench->end[measured->lane], err));
    GAL_TRY(wait_for(bench, bench->end[measured->lane], err));
    GAL_TRY(wait_for(bench, bench->end[cover->lane], err));
    *seconds = queue->seconds_between(bench->begin[measured->lane], bench->end[measured->lane]);
    *uncovered = queue->seconds_between(bench->end[measured->lane], bench->end[cover->lane]) < 0.0 ? 1.0 : 0.0;
cleanup:
    return code;
}

static uint32_t count_for(double seconds, double alone_seconds)
{
    const double count = ceil(seconds / fmax(alone_seconds, 1e-7));
    return count > COVER_MAX ? COVER_MAX : count < 1.0 ? 1 : (uint32_t)count;
}

gal_code gal_bench_time_beside(gal_bench *bench, const gal_beside *measured, const gal_beside *cover, gal_timing *out,
                               gal_error *err)
{
    gal_code code = GAL_OK;
    double value[REPEATS_MIN + 3], seconds[REPEATS_MIN];
    const uint32_t batch = count_for(beside_seconds_min, measured->alone_seconds);
    double cover_seconds = cover_factor * batch * measured->alone_seconds;
    bool covered = false;
    GAL_ASSERT(bench->backend->device->queue != NULL && measured->lane != cover->lane);
    for (uint32_t i = 0; i < COVER_TRIES && !covered; i++, cover_seconds *= cover_factor) {
        const uint32_t cover_batch = count_for(cover_seconds, cover->alone_seconds);
        value[REPEATS_MIN] = 0.0;
        for (uint32_t r = 0; r < REPEATS_MIN; r++) {
            double uncovered = 0.0;
            GAL_TRY(sample_beside(bench, measured, batch, cover, cover_batch, &value[r], &uncovered, err));
            value[REPEATS_MIN] += uncovered;
        }
        GAL_TRY(agree(bench, value, REPEATS_MIN + 1, err));
        covered = !(value[REPEATS_MIN] > 0.0);
    }
    for (uint32_t r = 0; r < REPEATS_MIN; r++) {
        seconds[r] = value[r] / batch;
    }
    *out = timing_of(seconds, REPEATS_MIN);
cleanup:
    return code;
}
