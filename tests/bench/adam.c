/* How fast the host's Adam is, beside the memory that it must move: 28 bytes a parameter in fp32 (weight, gradient and
 * two moments read, three of them written). Usage: adam THREADS PARAMETERS RUNS
 *
 * The limit is measured in the same run: the same four arrays, one addition an element. In-place sums read and write
 * the same cache lines, so there is no traffic that is not counted. Kernels and limit take turns, and the medians
 * count. Prints one line: parameters/s of Adam, of the limit, bytes/s of both, their ratio. */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/ops/host/parallel.h"
#include "runtime/ops/ops.h"
#include "schemas/base/clock.h"

enum { RUNS_MAX = 101, BYTES_PER_PARAMETER = 28, UNIT = 1024, LEAST = 1 << 14, PAGE = 4096 };

typedef struct sums {
    float *array[4]; /* w, g, m, v */
    gal_cut cut;
} sums;

static void sum_part(const void *context, uint32_t part)
{
    const sums *at = context;
    const size_t begin = gal_cut_begin(&at->cut, part), end = gal_cut_begin(&at->cut, part + 1);
    float *restrict w = at->array[0], *restrict m = at->array[2], *restrict v = at->array[3];
    const float *restrict g = at->array[1];
    for (size_t i = begin; i < end; i++) {
        w[i] += g[i];
        m[i] += g[i];
        v[i] += g[i];
    }
}

/* Each has a page more than it needs: arrays a power of two apart collide in what a core tells lines apart by, and the
 * plain sums take three times as long (13 instead of 36 GB/s on an AMD EPYC), which is no limit of the memory. */
static float *array_of(size_t count)
{
    float *memory =
        mmap(NULL, count * sizeof *memory + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("adam: mmap");
        exit(4);
    }
    for (size_t i = 0; i < count; i++) {
        memory[i] = 1e-3f * (float)(i % 1000 + 1);
    }
    return memory;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *seconds, uint32_t count)
{
    qsort(seconds, count, sizeof *seconds, ascending);
    return seconds[count / 2];
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: adam THREADS PARAMETERS RUNS\n");
        return 2;
    }
    const uint32_t count = (uint32_t)strtoul(argv[2], NULL, 10), runs = (uint32_t)strtoul(argv[3], NULL, 10);
    if (count == 0 || runs == 0 || runs > RUNS_MAX) {
        fprintf(stderr, "adam: PARAMETERS > 0, 0 < RUNS <= %d\n", RUNS_MAX);
        return 2;
    }
    openblas_set_num_threads(atoi(argv[1]));
    const gal_model model = {.optimizer = {.kind = GAL_OPTIMIZER_ADAMW,
                                           .beta1 = 0.9,
                                           .beta2 = 0.999,
                                           .epsilon = 1e-8,
                                           .weight_decay = 0.01,
                                           .gradient_clip_norm = 1.0}};
    const gal_kernel_step step = {.model = &model, .step = 3, .learning_rate = 1e-3, .training = true};
    const uint32_t dims[GAL_SHAPE_DIMS] = {count, count};
    double norm[2] = {4.0, 1.0};
    sums at = {.cut = gal_cut_for_threads(count, UNIT, LEAST)};
    for (uint32_t i = 0; i < 4; i++) {
        at.array[i] = array_of(count);
    }
    const gal_kernel_call call = {.dims = dims,
                                  .operand = {at.array[0], at.array[1], at.array[2], at.array[3], norm},
                                  .operand_count = 5,
                                  .group_count = 1,
                                  .step = &step};
    double adam[RUNS_MAX], limit[RUNS_MAX];
    gal_error err = {0};
    for (uint32_t run = 0; run <= runs; run++) { /* the first is not counted */
        const double start = gal_now_seconds();
        if (gal_ops_host_fp32.kernel[GAL_OP_ADAM](&call, &err) != GAL_OK) {
            return 6;
        }
        const double middle = gal_now_seconds();
        at.cut = gal_cut_for_threads(count, UNIT, LEAST);
        gal_parallel(at.cut.part_count, sum_part, &at);
        adam[run == 0 ? 0 : run - 1] = middle - start;
        limit[run == 0 ? 0 : run - 1] = gal_now_seconds() - middle;
    }
    const double adam_seconds = median(adam, runs), limit_seconds = median(limit, runs);
    printf("%.4g %.4g %.2f %.2f %.3f\n", count / adam_seconds, count / limit_seconds,
           BYTES_PER_PARAMETER * count / adam_seconds / 1e9, BYTES_PER_PARAMETER * count / limit_seconds / 1e9,
           limit_seconds / adam_seconds);
    return 0;
}
