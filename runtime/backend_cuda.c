#include "runtime/backend.h"
#include "runtime/comm/nccl.h"
#include "runtime/device/cuda/cuda.h"
#include "runtime/ops/cuda/kernels.h"
#include "runtime/staged.h"

static const gal_ops *cuda_ops(gal_dtype dtype)
{
    switch (dtype) {
    case GAL_FP32:
        return &gal_ops_cuda_fp32;
    case GAL_BF16:
        return &gal_ops_cuda_bf16;
    case GAL_FP16:
        return &gal_ops_cuda_fp16;
    default:
        return NULL;
    }
}

static const gal_ops *host_ops(gal_dtype dtype)
{
    switch (dtype) {
    case GAL_BF16:
        return &gal_ops_beside_bf16;
    case GAL_FP16:
        return &gal_ops_beside_fp16;
    default:
        return &gal_ops_host_fp32;
    }
}

static gal_code connect_nccl(const gal_connection *connection, gal_comm **out, gal_error *err)
{
    const gal_nccl_options options = {.ctas = connection->communication_ctas,
                                      .deadline_seconds = connection->deadline_seconds,
                                      .tell = connection->tell};
    return gal_comm_nccl_create(connection->control, &options, connection->channels->spec, connection->channels->count,
                                out, err);
}

static gal_code register_arena(gal_comm *comm, const gal_memory *arena, gal_error *err)
{
    return gal_nccl_register(comm, arena->base, arena->bytes, err);
}

static gal_code connect_staged(const gal_connection *connection, gal_comm **out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_comm *mpi = NULL;
    const gal_staged_options options = {.queue = gal_device_cuda.queue,
                                        .channel = connection->channels->spec,
                                        .channel_count = connection->channels->count,
                                        .program = connection->program};
    GAL_TRY(gal_comm_mpi_create(0, connection->channels->spec, connection->channels->count, &mpi, err));
    GAL_TRY(gal_comm_staged_create(mpi, &options, out, err));
cleanup:
    return code;
}

static const gal_backend backends[] = {
    [GAL_CUDA_NCCL] = {.device = &gal_device_cuda, .ops = cuda_ops, .host_ops = host_ops, .connect = connect_nccl},
    [GAL_CUDA_NCCL_REGISTERED] = {.device = &gal_device_cuda_registered,
                                  .ops = cuda_ops,
                                  .host_ops = host_ops,
                                  .connect = connect_nccl,
                                  .share = register_arena,
                                  .unshare = gal_nccl_unregister},
    [GAL_CUDA_MPI] = {.device = &gal_device_cuda, .ops = cuda_ops, .host_ops = host_ops, .connect = connect_staged},
};

gal_code gal_backend_cuda_probe(gal_error *err)
{
    return gal_cuda_probe(err);
}

gal_code gal_backend_cuda_open(gal_cuda_comm comm, uint32_t local_rank, const gal_backend **out, char *text,
                               size_t capacity, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(gal_cuda_open(local_rank, err));
    GAL_TRY(gal_cuda_describe(text, capacity, err));
    *out = &backends[comm];
cleanup:
    return code;
}
