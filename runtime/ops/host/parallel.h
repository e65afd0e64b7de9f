/* Threads of the host kernels: one set per process, started when the first kernel needs it and as many as BLAS was set
 * to use at that moment (openblas_set_num_threads, OPENBLAS_NUM_THREADS). From then on BLAS itself uses one thread:
 * the kernels split their products instead, so that there is one set of threads, not two that wait for each other's
 * cores. Process-wide as BLAS's threads are, and for the same reason: cores are.
 *
 * Who runs a part is left to chance; what a part is, and what it computes, is not: equal input gives equal bits. */
#ifndef GAL_RUNTIME_OPS_HOST_PARALLEL_H
#define GAL_RUNTIME_OPS_HOST_PARALLEL_H

#include <stddef.h>
#include <stdint.h>

/* Parts must not depend on each other, and must not call gal_parallel. */
typedef void (*gal_part)(const void *context, uint32_t part);

/* Calls work(context, part) once for each part below part_count (at most UINT16_MAX), on all threads, and returns when
 * all are done. One caller at a time. Allocates nothing but at the first call, which starts the threads; those that
 * cannot be started are done without. */
void gal_parallel(uint32_t part_count, gal_part work, const void *context);

/* Threads that gal_parallel uses, the caller's among them. */
uint32_t gal_parallel_threads(void);

/* A cut of 0 .. count into part_count parts that differ by one `unit` at most and begin at multiples of it. */
typedef struct gal_cut {
    size_t count, unit;
    uint32_t part_count;
} gal_cut;

/* Parts of at least `least` elements each (less if there are not so many), at most four per thread: enough for a thread
 * that lost its core for a while to leave its share to the others. */
gal_cut gal_cut_for_threads(size_t count, size_t unit, size_t least);

/* Where a part begins; of part_count, where the last one ends. */
static inline size_t gal_cut_begin(const gal_cut *cut, uint32_t part)
{
    const size_t units = (cut->count + cut->unit - 1) / cut->unit;
    const size_t begin = units * part / cut->part_count * cut->unit;
    return begin < cut->count ? begin : cut->count;
}

#endif
