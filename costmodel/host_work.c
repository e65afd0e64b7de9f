#include "costmodel/host_work.h"

#include <math.h>

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

static void take_slower(gal_profile_copies *of, const gal_profile_copies *other)
{
    of->latency_seconds = fmax(of->latency_seconds, other->latency_seconds);
    of->bytes_per_second = fmin(of->bytes_per_second, other->bytes_per_second);
}

/* Ranks wait for each other, so for those on the slowest node. */
static void take_measured(const gal_profile_host *host, gal_host_work *out)
{
    out->measured = true;
    out->in = host->node[0].to_device;
    out->out = host->node[0].from_device;
    for (uint32_t i = 1; i < host->node_count; i++) {
        take_slower(&out->in, &host->node[i].to_device);
        take_slower(&out->out, &host->node[i].from_device);
    }
    out->adam_elements_per_second = gal_host_adam_rate(host, host->threads_per_rank);
}

double gal_host_adam_rate(const gal_profile_host *host, uint32_t threads)
{
    uint32_t more = 0; /* the first entry of at least so many */
    while (more < host->adam_count && host->adam[more].threads < threads) {
        more++;
    }
    if (more == 0 || more == host->adam_count) {
        return host->adam[more == 0 ? 0 : more - 1].elements_per_second;
    }
    const gal_profile_adam *a = &host->adam[more - 1], *b = &host->adam[more];
    const double share = (double)(threads - a->threads) / (double)(b->threads - a->threads);
    return a->elements_per_second + share * (b->elements_per_second - a->elements_per_second);
}

void gal_host_work_of(const gal_profile *profile, gal_host_work *out)
{
    const gal_device *device = &profile->cluster.device;
    const gal_profile_copies assumed = {default_latency_seconds,
                                        said_or(device->host_copy_bytes_per_second, default_copy_bytes_per_second)};
    *out = (gal_host_work){.beside = profile->has_gpu || device->multiprocessor_count > 0,
                           .out = assumed,
                           .in = assumed,
                           .read = {said_or(device->storage_read_latency_seconds, storage_latency_seconds),
                                    said_or(device->storage_read_bytes_per_second, default_read_bytes_per_second)},
                           .write = {said_or(device->storage_write_latency_seconds, storage_latency_seconds),
                                     said_or(device->storage_write_bytes_per_second, default_write_bytes_per_second)},
                           .memory_bytes_per_second =
                               said_or(device->host_memory_bytes_per_second, default_memory_bytes_per_second)};
    if (profile->has_host) {
        take_measured(&profile->host, out);
    }
}

bool gal_is_host_work(gal_op op)
{
    return op == GAL_OP_COPY_OUT || op == GAL_OP_COPY_IN || op == GAL_OP_HOST_ADAM || op == GAL_OP_HOST_ADAM_PART;
}

bool gal_host_work_knows(const gal_host_work *work, gal_op op)
{
    return work->measured && gal_is_host_work(op);
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
