#include "runtime/backend.h"
#include "runtime/comm/slow_link.h"

static const gal_ops *host_ops(gal_dtype dtype)
{
    return dtype == GAL_FP64 ? &gal_ops_host_fp64 : dtype == GAL_FP32 ? &gal_ops_host_fp32 : NULL;
}

static gal_code connect_mpi(const gal_connection *connection, gal_comm **out, gal_error *err)
{
    const gal_channel_spec *spec = connection->channels->spec;
    const uint32_t count = connection->channels->count;
    gal_comm *mpi = NULL;
    gal_code code = gal_comm_mpi_create(0, spec, count, &mpi, err);
    if (code == GAL_OK && connection->slow_bytes_per_second > 0.0) {
        code = gal_comm_slow_create(mpi, connection->slow_bytes_per_second, spec, count, &mpi, err);
    }
    if (code == GAL_OK) {
        *out = mpi;
    }
    return code;
}

const gal_backend gal_backend_host = {.device = &gal_device_host, .ops = host_ops, .connect = connect_mpi};
