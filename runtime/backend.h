/* What a rank computes on and how it communicates: the tables that belong together. */
#ifndef GAL_RUNTIME_BACKEND_H
#define GAL_RUNTIME_BACKEND_H

#include <stddef.h>

#include "runtime/channels.h"
#include "runtime/device/device.h"
#include "runtime/ops/ops.h"

/* For the communicator of one program. */
typedef struct gal_connection {
    gal_comm *control; /* of the world; borrowed, outlives what is made */
    const gal_program *program;
    const gal_channels *channels;   /* borrowed */
    uint32_t communication_ctas;    /* of the plan */
    double deadline_seconds;        /* that a rank waits for others */
    double slow_bytes_per_second;   /* of a host's ranks: as over such a link (comm/slow_link.h); 0: as fast as it is */
    void (*tell)(const char *text); /* the one line before a rank ends because of the others; NULL: none */
} gal_connection;

typedef struct gal_backend {
    const gal_device_ops *device;
    const gal_ops *(*ops)(gal_dtype dtype); /* NULL: the device does not compute in this type */
    /* What the host does beside the device in programs of this type. NULL: the device is the host. */
    const gal_ops *(*host_ops)(gal_dtype dtype);
    /* Collective over control's world; all ranks get the same code. */
    gal_code (*connect)(const gal_connection *connection, gal_comm **out, gal_error *err);
    /* After the arena is there and before it goes: what communicators want to know of it. NULL: nothing. */
    gal_code (*share)(gal_comm *comm, const gal_memory *arena, gal_error *err);
    void (*unshare)(gal_comm *comm);
} gal_backend;

extern const gal_backend gal_backend_host; /* MPI */

typedef enum gal_cuda_comm {
    GAL_CUDA_NCCL,
    GAL_CUDA_NCCL_REGISTERED, /* the arena is registered with NCCL, which then needs no buffers of its own; as a
                               * symmetric window where it can be */
    GAL_CUDA_MPI              /* through the host's memory; several ranks may share a GPU */
} gal_cuda_comm;

/* Whether this machine has a GPU and its driver, and this program is built for them: GAL_ERR_DEVICE with what is
 * missing. Takes nothing of the GPU. */
gal_code gal_backend_cuda_probe(gal_error *err);
/* Takes the GPU of this number among those of the machine (modulo their number) for this process. Then text says which
 * it is. */
gal_code gal_backend_cuda_open(gal_cuda_comm comm, uint32_t local_rank, const gal_backend **out, char *text,
                               size_t capacity, gal_error *err);

#endif
