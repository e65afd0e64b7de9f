/* Adam on the host by threads: each has a range of its own, as the parts of galrun's kernel are (optimizer.c). */
#define GAL_REAL_FP64 0
#include "runtime/ops/host/adam.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/measure.h"

/* 16 bytes an element: of one thread as much as of many, and of each more than a private cache. */
enum { ALL_ELEMENTS = 1 << 22, LEAST_ELEMENTS = 1 << 20, ARRAYS = 4 };

typedef struct worker {
    pthread_t thread;
    bool started;
    uint32_t repeats;
    float *array; /* [ARRAYS][elements] */
    size_t elements;
} worker;

typedef struct adam_run {
    worker *worker; /* [threads] */
    uint32_t threads;
} adam_run;

static const gal_adam_scalars scalars = {.clip = 1.0f,
                                         .decoupled_rate = 1e-6f,
                                         .beta1 = 0.9f,
                                         .beta2 = 0.95f,
                                         .rest1 = 0.1f,
                                         .rest2 = 0.05f,
                                         .corrected_rate = 1e-4f,
                                         .v_correction = 1.0f,
                                         .epsilon = 1e-8f};

static void *work(void *context)
{
    worker *w = context;
    const gal_adam_range range = {.w = w->array,
                                  .g = w->array + w->elements,
                                  .m = w->array + 2 * w->elements,
                                  .v = w->array + 3 * w->elements,
                                  .end = w->elements};
    for (uint32_t i = 0; i < w->repeats; i++) {
        gal_adam_update(&scalars, &range);
    }
    return NULL;
}

static gal_code repeat(void *context, uint32_t count, gal_error *err)
{
    const adam_run *run = context;
    bool all = true;
    for (uint32_t i = 0; i < run->threads; i++) {
        run->worker[i].repeats = count;
    }
    for (uint32_t i = 1; i < run->threads; i++) {
        worker *w = &run->worker[i];
        w->started = pthread_create(&w->thread, NULL, work, w) == 0;
        all = all && w->started;
    }
    work(&run->worker[0]);
    for (uint32_t i = 1; i < run->threads; i++) {
        if (run->worker[i].started) {
            (void)pthread_join(run->worker[i].thread, NULL);
        }
    }
    return all ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "no threads for Adam on the host");
}

/* Its pages are touched by one thread, as galrun's arenas are. */
static bool make_worker(size_t elements, worker *out)
{
    out->elements = elements;
    out->array = malloc(ARRAYS * elements * sizeof *out->array);
    for (size_t i = 0; out->array != NULL && i < ARRAYS * elements; i++) {
        out->array[i] = 1e-3f * (float)(1 + i % 7);
    }
    return out->array != NULL;
}

static gal_code measure_with(gal_bench *bench, uint32_t threads, double *elements_per_second, gal_error *err)
{
    const size_t share = ALL_ELEMENTS / threads, elements = share > LEAST_ELEMENTS ? share : LEAST_ELEMENTS;
    gal_timing timing = {0};
    adam_run run = {.worker = calloc(threads, sizeof *run.worker), .threads = threads};
    bool made = run.worker != NULL;
    for (uint32_t i = 0; made && i < threads; i++) {
        made = make_worker(elements, &run.worker[i]);
    }
    gal_code code = made ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: Adam on the host");
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    GAL_TRY(gal_bench_time(bench, repeat, &run, &timing, err));
    *elements_per_second = (double)threads * (double)elements / timing.seconds;
cleanup:
    for (uint32_t i = 0; run.worker != NULL && i < threads; i++) {
        free(run.worker[i].array);
    }
    free(run.worker);
    return code;
}

/* 1, 2, 4, ... up to what there is for a rank, and as many as it has. */
static uint32_t next_count(uint32_t threads, uint32_t own, uint32_t most)
{
    const uint32_t doubled = 2 * threads <= most ? 2 * threads : UINT32_MAX;
    return own > threads && own < doubled ? own : doubled;
}

gal_code gal_measure_host_adam(const gal_bench *bench, uint32_t threads_most, gal_profile_host *out, gal_error *err)
{
    gal_code code = GAL_OK;
    double most = threads_most; /* of the rank that has most: all measure alike */
    gal_bench host = {.world = bench->world,
                      .backend = &gal_backend_host,
                      .stop = bench->stop,
                      .shared_cores = bench->shared_cores,
                      .begin_seconds = bench->begin_seconds};
    GAL_TRY(gal_world_maximum(&bench->world, &most, 1, err));
    out->adam_count = 0;
    for (uint32_t threads = 1; threads <= GAL_PROFILE_THREADS_MAX && out->adam_count < GAL_PROFILE_ADAMS_MAX;
         threads = next_count(threads, out->threads_per_rank, (uint32_t)most)) {
        gal_profile_adam *entry = &out->adam[out->adam_count++];
        entry->threads = threads;
        GAL_TRY(measure_with(&host, threads, &entry->elements_per_second, err));
    }
cleanup:
    return code;
}
