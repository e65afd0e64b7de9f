#include "profiler/bench.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/clock.h"

enum { REPEATS_MAX = 15, REPEATS_MEDIUM = 9, REPEATS_MIN = 5, REPEATS_LONG = 3, BATCH_MAX = 4096 };

static const double sample_seconds_min = 3e-4;
static const double short_seconds = 2e-3, medium_seconds = 2e-2,
                    long_seconds = 0.5; /* of a sample: more repeats below */

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

/* One sample of this rank, so that the maximum over the ranks says what the sample took: end and - begin. */
static gal_code sample(const gal_bench *bench, gal_timed run, void *context, uint32_t batch, double value[2],
                       gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(gal_bench_barrier(bench, err));
    const double begin_seconds = gal_now_seconds();
    GAL_TRY(run(context, batch, err));
    const double end_seconds = gal_now_seconds();
    value[0] = bench->shared_cores ? end_seconds : end_seconds - begin_seconds;
    value[1] = bench->shared_cores ? -begin_seconds : 0.0;
cleanup:
    return code;
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
    const double lasts = guess * batch;
    const uint32_t repeats = lasts < short_seconds    ? REPEATS_MAX
                             : lasts < medium_seconds ? REPEATS_MEDIUM
                             : lasts < long_seconds   ? REPEATS_MIN
                                                      : REPEATS_LONG;
    for (uint32_t i = 0; i < repeats; i++) {
        GAL_TRY(sample(bench, run, context, batch, &value[2 * i], err));
    }
    GAL_TRY(agree(bench, value, 2 * repeats, err));
    for (uint32_t i = 0; i < repeats; i++) {
        seconds[i] = (value[2 * i] + value[2 * i + 1]) / batch;
    }
    out->seconds = gal_quartile(seconds, repeats, 2);
    out->spread_seconds = 0.5 * (gal_quartile(seconds, repeats, 3) - gal_quartile(seconds, repeats, 1));
cleanup:
    return code;
}
