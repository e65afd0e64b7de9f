#include "costmodel/host_work.h"

#include "costmodel/work.h"

/* 31.5 GB/s each way, of which large copies reach some 80 %; 25.6 GB/s of a channel; queueing a copy. */
static const double default_copy_bytes_per_second = 25e9;
static const double default_memory_bytes_per_second = 25.6e9;
static const double default_latency_seconds = 10e-6;
/* Some 80 % of 3.9 GB/s; flash is written at half of that; a command's way through the device. */
static const double default_read_bytes_per_second = 3e9, default_write_bytes_per_second = 1.5e9;
static const double storage_latency_seconds = 100e-6;

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
                           .read = {storage_latency_seconds,
                                    said_or(device->storage_read_bytes_per_second, default_read_bytes_per_second)},
                           .write = {storage_latency_seconds,
                                     said_or(device->storage_write_bytes_per_second, default_write_bytes_per_second)},
                           .adam_elements_per_second = gpu->host_adam_elements_per_second,
                           .memory_bytes_per_second =
                               said_or(device->host_memory_bytes_per_second, default_memory_bytes_per_second)};
}

bool gal_is_host_work(gal_op op)
{
    return op == GAL_OP_COPY_OUT || op == GAL_OP_COPY_IN || op == GAL_OP_HOST_ADAM || op == GAL_OP_HOST_ADAM_PART;
}

bool gal_is_storage_work(gal_op op)
{
    return op == GAL_OP_STORAGE_READ || op == GAL_OP_STORAGE_WRITE;
}

static const gal_profile_copies *way_of(const gal_host_work *work, gal_op op)
{
    switch (op) {
    case GAL_OP_STORAGE_READ:
        return &work->read;
    case GAL_OP_STORAGE_WRITE:
        return &work->write;
    case GAL_OP_COPY_OUT:
        return &work->out;
    default:
        return &work->in;
    }
}

double gal_host_work_seconds(const gal_host_work *work, const gal_shape *shape)
{
    if (shape->op == GAL_OP_HOST_ADAM || shape->op == GAL_OP_HOST_ADAM_PART) {
        return work->adam_elements_per_second > 0.0 ? (double)shape->dims[0] / work->adam_elements_per_second
                                                    : gal_shape_bytes(shape) / work->memory_bytes_per_second;
    }
    const gal_profile_copies *way = way_of(work, shape->op);
    const double bytes = (double)shape->dims[0] * (double)shape->dims[1];
    return way->latency_seconds + bytes / way->bytes_per_second;
}
