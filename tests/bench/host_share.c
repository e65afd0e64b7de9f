/* Where the seconds of a training step go on the host: by kind of instruction, and within each the share of BLAS.
 * Usage: host_share PLAN TEXT THREADS STEPS; the first step is not counted.
 *
 * BLAS is timed from outside: this program's own cblas_sgemm stands before the library's and calls it. Its seconds are
 * summed over the threads and divided by their number, so a thread that waits for the others counts as not in BLAS. */
#include <cblas.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/ops/host/blas.h"
#include "runtime/train/data.h"
#include "runtime/train/session.h"
#include "runtime/train/train.h"
#include "runtime/train/weights.h"
#include "schemas/base/clock.h"

typedef void (*sgemm)(CBLAS_ORDER, CBLAS_TRANSPOSE, CBLAS_TRANSPOSE, blasint, blasint, blasint, float, const float *,
                      blasint, const float *, blasint, float, float *, blasint);

static sgemm library_sgemm;
static _Atomic uint64_t blas_nanoseconds;

void cblas_sgemm(OPENBLAS_CONST enum CBLAS_ORDER order, OPENBLAS_CONST enum CBLAS_TRANSPOSE transpose_a,
                 OPENBLAS_CONST enum CBLAS_TRANSPOSE transpose_b, OPENBLAS_CONST blasint m, OPENBLAS_CONST blasint n,
                 OPENBLAS_CONST blasint k, OPENBLAS_CONST float alpha, OPENBLAS_CONST float *a,
                 OPENBLAS_CONST blasint lda, OPENBLAS_CONST float *b, OPENBLAS_CONST blasint ldb,
                 OPENBLAS_CONST float beta, float *c, OPENBLAS_CONST blasint ldc)
{
    const double start_seconds = gal_now_seconds();
    library_sgemm(order, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    atomic_fetch_add(&blas_nanoseconds, (uint64_t)((gal_now_seconds() - start_seconds) * 1e9));
}

typedef struct shares {
    const gal_program *program;
    uint32_t thread_count;
    double seconds[GAL_OP_COUNT], blas_seconds[GAL_OP_COUNT];
    uint64_t count[GAL_OP_COUNT], blas_before_nanoseconds;
} shares;

static void record(void *context, uint32_t instruction, uint32_t microbatch, double start_seconds, double end_seconds)
{
    (void)microbatch;
    shares *at = context;
    const gal_op op = at->program->instruction[instruction].op;
    const uint64_t now = atomic_load(&blas_nanoseconds);
    at->seconds[op] += end_seconds - start_seconds;
    at->blas_seconds[op] += (double)(now - at->blas_before_nanoseconds) * 1e-9 / (double)at->thread_count;
    at->count[op]++;
    at->blas_before_nanoseconds = now;
}

static void print_row(const char *name, double count, double seconds, double blas_seconds, double step_seconds)
{
    printf("%-24s %7.0f %9.1f %7.2f %9.1f\n", name, count, seconds * 1e3, 100.0 * seconds / step_seconds,
           blas_seconds * 1e3);
}

/* Most seconds first. */
static void print_shares(const shares *at, double step_count, double step_seconds)
{
    bool printed[GAL_OP_COUNT] = {false};
    double seconds = 0.0, blas_seconds = 0.0;
    printf("%-24s %7s %9s %7s %9s\n", "per step", "count", "ms", "% step", "ms BLAS");
    for (;;) {
        int next = GAL_OP_COUNT;
        for (int op = 0; op < GAL_OP_COUNT; op++) {
            if (!printed[op] && at->count[op] > 0 && (next == GAL_OP_COUNT || at->seconds[op] > at->seconds[next])) {
                next = op;
            }
        }
        if (next == GAL_OP_COUNT) {
            break;
        }
        printed[next] = true;
        seconds += at->seconds[next] / step_count;
        blas_seconds += at->blas_seconds[next] / step_count;
        print_row(gal_op_names[next], (double)at->count[next] / step_count, at->seconds[next] / step_count,
                  at->blas_seconds[next] / step_count, step_seconds);
    }
    print_row("between instructions", 0.0, step_seconds - seconds, 0.0, step_seconds);
    printf("BLAS is %.1f %% of a step of %.3f s; the rest is %.3f s\n", 100.0 * blas_seconds / step_seconds,
           step_seconds, step_seconds - blas_seconds);
}

static gal_code run(const gal_plan *plan, gal_data *data, shares *at, uint64_t step_count, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_world alone = {.deadline_seconds = 600.0};
    const gal_session_options options = {
        .tokens = {.context = data, .fill = gal_data_fill}, .trace = {at, record}, .deadline_seconds = 600.0};
    gal_session *session = NULL;
    gal_step_result result;
    double start_seconds = 0.0;
    GAL_TRY(gal_session_create(plan, &alone, &options, &session, err));
    at->program = session->program;
    gal_weights_initialize(session->program, &plan->model, session->device, 1, &gal_device_host,
                           gal_engine_memory(session->engine));
    for (uint64_t step = 0; step <= step_count; step++) {
        const gal_step_settings settings = {
            .step = step, .seed = 1, .learning_rate = gal_learning_rate(&plan->model.optimizer, step)};
        if (step == 1) {
            *at = (shares){.program = session->program,
                           .thread_count = at->thread_count,
                           .blas_before_nanoseconds = atomic_load(&blas_nanoseconds)};
            start_seconds = gal_now_seconds();
        }
        GAL_TRY(gal_engine_step(session->engine, &settings, &result, err));
    }
    print_shares(at, (double)step_count, (gal_now_seconds() - start_seconds) / (double)step_count);
cleanup:
    gal_session_free(session);
    return code;
}

int main(int argc, char **argv)
{
    gal_code code = GAL_OK;
    gal_error failure = {0}, *err = &failure;
    gal_plan plan = {0};
    gal_data *data = NULL;
    shares at = {.program = NULL};
    if (argc != 5) {
        fprintf(stderr, "usage: host_share PLAN TEXT THREADS STEPS\n");
        return GAL_ERR_USAGE;
    }
    gal_blas_choose_kernels(argv);
    at.thread_count = (uint32_t)strtoul(argv[3], NULL, 10);
    library_sgemm = (sgemm)(uintptr_t)dlsym(RTLD_NEXT, "cblas_sgemm");
    openblas_set_num_threads((int)at.thread_count);
    GAL_TRY(gal_plan_read(argv[1], &plan, err));
    const gal_data_options options = {.path = argv[2],
                                      .vocabulary = plan.model.vocabulary,
                                      .sequence_length = plan.model.sequence_length,
                                      .global_batch_samples = plan.global_batch_samples,
                                      .seed = 1};
    GAL_TRY(gal_data_open(&options, &data, err));
    GAL_TRY(run(&plan, data, &at, strtoull(argv[4], NULL, 10), err));
cleanup:
    if (code != GAL_OK) {
        fprintf(stderr, "host_share: error: %s\n", failure.text);
    }
    gal_data_close(data);
    gal_plan_free(&plan);
    return (int)code;
}
