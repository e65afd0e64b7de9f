/* A profile of ranks that share a device and communicate through the host: mpirun -np RANKS cuda_profile FILE.
 *
 * Against a double of the CUDA runtime, with kernels that do nothing: what is tested is that all ranks come through in
 * the same order, and the document. */
#include <mpi.h>
#include <stdio.h>

#include "profiler/profile.h"
#include "runtime/backend.h"
#include "tests/support/cuda_double.h"
#include "tests/support/cuda_kernels.h"

static void must(gal_code code, const gal_error *err)
{
    if (code != GAL_OK) {
        (void)fprintf(stderr, "# rank %u: %s\n", gal_mpi_rank(), err->text);
        MPI_Abort(MPI_COMM_WORLD, 99);
    }
}

/* In place of the kernel, which nobody asks for where ranks communicate. */
gal_code gal_standin_queue(void *queue, uint32_t ctas, float *target, const float *a, const float *b, uint64_t elements,
                           gal_error *err)
{
    (void)queue;
    (void)ctas;
    (void)target;
    (void)a;
    (void)b;
    (void)elements;
    return gal_fail(err, GAL_ERR_DEVICE, "nothing stands in for collectives that are there");
}

static const gal_ops *idle_ops(gal_dtype dtype)
{
    static gal_ops narrow, wide;
    gal_ops *ops = dtype == GAL_BF16 ? &narrow : &wide;
    *ops = gal_ops_queued_idle;
    ops->dtype = dtype;
    return dtype == GAL_FP64 ? NULL : ops;
}

int main(int argc, char **argv)
{
    gal_error err = {0};
    gal_profile profile = {0};
    gal_profile_report report;
    gal_world world = {.deadline_seconds = 60.0};
    gal_model model;
    gal_fabric fabric;
    const gal_backend *real = NULL;
    char text[256];
    static const uint32_t microbatches[] = {2, 4};
    must(gal_mpi_init(&argc, &argv, &err), &err);
    must(gal_comm_mpi_create(0, NULL, 0, &world.comm, &err), &err);
    gal_cuda_double_reset(1 + gal_mpi_rank(), false);
    must(gal_backend_cuda_open(GAL_CUDA_MPI, 0, &real, text, sizeof text, &err), &err);
    gal_backend backend = *real;
    backend.ops = idle_ops;
    gal_model_defaults(&model);
    model.layer_count = 1;
    model.hidden = 32;
    model.head_count = 4;
    model.ffn_hidden = 64;
    model.sequence_length = 8;
    model.vocabulary = 100;
    model.vocabulary_multiple = 4;
    model.compute_dtype = GAL_BF16;
    model.global_batch_samples = 8;
    const gal_gpu gpu = {.name = "GPU of tests",
                         .bus_id = "0000:1b:00.0",
                         .memory_bytes = UINT64_C(256) << 20,
                         .cache_bytes = UINT64_C(1) << 20,
                         .multiprocessor_count = 132,
                         .fp64_ratio = 0.5};
    gal_fabric_read(NULL, gpu.bus_id, "no NVML", &fabric);
    const gal_profile_settings settings = {.model = &model,
                                           .model_count = 1,
                                           .microbatches = microbatches,
                                           .microbatches_count = 2,
                                           .backend = &backend,
                                           .gpu = &gpu,
                                           .fabric = &fabric,
                                           .thread_count = 1,
                                           .budget_seconds = 20.0,
                                           .blas = "BLAS",
                                           .command = "galplan profile --device cuda --comm mpi"};
    must(gal_profile_measure(&settings, &world, &profile, &report, &err), &err);
    if (gal_mpi_rank() == 0 && argc > 1) {
        must(gal_profile_write(argv[1], &profile, &err), &err);
    }
    gal_profile_free(&profile);
    gal_comm_free(world.comm);
    const gal_double_counts left = gal_cuda_double_counts();
    const bool clean = left.streams == 0 && left.events == 0 && left.allocations == 0 && left.pinned == 0;
    gal_cuda_double_reset(0, false);
    gal_mpi_finalize();
    return clean ? 0 : 1;
}
