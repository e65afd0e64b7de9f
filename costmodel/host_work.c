#include "costmodel/host_work.h"

#include "costmodel/work.h"

/* 31.5 GB/s each way, of which large copies reach some 80 %; 25.6 GB/s of a channel; queueing a copy. */
static const double default_copy_bytes_per_second = 25e9;
static const double default_memory_bytes_per_second = 25.6e9;
static const double default_latency_seconds = 10e-6;

static double said_or(double said, double otherwise)
{
    return said > 0.0 ? said : otherwise;
}

static gal_profile_copies copies_of(const gal_device *device, const gal_profile_copies *measured)
{
    if (measured->bytes_per_second > 0.0) {
        return *measured;
    }
    return (gal_profile_copies){default_latency_seconds,
                                said_or(device->host_copy_bytes_per_second, default_copy_bytes_per_second)};
}

void gal_host_work_of(const gal_profile *profile, gal_host_work *out)
{
    const gal_device *device = &profile->cluster.device;
    const gal_profile_gpu none = {0};
    const gal_profile_gpu *gpu = profile->has_gpu ? &profile->gpu : &none;
    *out = (gal_host_work){.beside = profile->has_gpu || device->multiprocessor_count > 0,
                           .out = copies_of(device, &gpu->from_device),
                           .in = copies_of(device, &gpu->to_device),
                           .adam_elements_per_second = gpu->host_adam_elements_per_second,
                           .memory_bytes_per_second =
                               said_or(device->host_memory_bytes_per_second, default_memory_bytes_per_second)};
}

bool gal_is_host_work(gal_op op)
{
    return op == GAL_OP_COPY_OUT || op == GAL_OP_COPY_IN || op == GAL_OP_HOST_ADAM;
}

double gal_host_work_seconds(const gal_host_work *work, const gal_shape *shape)
{
    if (shape->op == GAL_OP_HOST_ADAM) {
        return work->adam_elements_per_second > 0.0 ? (double)shape->dims[0] / work->adam_elements_per_second
                                                    : gal_shape_bytes(shape) / work->memory_bytes_per_second;
    }
    const gal_profile_copies *way = shape->op == GAL_OP_COPY_OUT ? &work->out : &work->in;
    const double bytes = (double)shape->dims[0] * (double)shape->dims[1];
    return way->latency_seconds + bytes / way->bytes_per_second;
}
