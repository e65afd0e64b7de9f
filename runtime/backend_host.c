#include "runtime/backend.h"

static const gal_ops *host_ops(gal_dtype dtype)
{
    return dtype == GAL_FP64 ? &gal_ops_host_fp64 : dtype == GAL_FP32 ? &gal_ops_host_fp32 : NULL;
}

static gal_code connect_mpi(const gal_connection *connection, gal_comm **out, gal_error *err)
{
    return gal_comm_mpi_create(0, connection->channels->spec, connection->channels->count, out, err);
}

const gal_backend gal_backend_host = {.device = &gal_device_host, .ops = host_ops, .connect = connect_mpi};
