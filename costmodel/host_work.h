/* Seconds of what the host does: copies to and from the device, and Adam where its data lies there.
 *
 *     copy       latency + bytes / rate, each way
 *     host_adam  elements / rate; of a part likewise
 *     storage    latency + bytes / rate, each way
 * Rates: of the profile where it has measured them (copies: of the NUMA node whose ranks have the slowest; Adam: by as
 * many threads as galrun gives a rank), else of the cluster's device, else of a PCI Express 4.0 x16 link, of a channel
 * of DDR4-3200 and of an NVMe device on PCI Express 3.0 x4 (assumed). Adam moves its operands through the host's memory
 * once: 28 bytes an element of fp32. Storage is read and written at its rates while the other way rests; what both at
 * once take is the profile's factor of storage on itself.
 *
 * Beside a GPU Adam slows nobody; copies, which its own engines do, and transfers of storage slow and are slowed by
 * what the profile says (nothing where it says nothing: the link has both directions at once). On ranks that are
 * processors the "host" is the device's own cores: there Adam and copies are kernels, copies by the profile's factors
 * for them; transfers of storage go on beside them there too. */
#ifndef GAL_COSTMODEL_HOST_WORK_H
#define GAL_COSTMODEL_HOST_WORK_H

#include <stdbool.h>

#include "schemas/operator.h"
#include "schemas/profile.h"

typedef struct gal_host_work {
    bool beside;   /* the host is not the device */
    bool measured; /* copies and Adam */
    gal_profile_copies out, in;
    gal_profile_copies read, write;  /* of storage, beside any device */
    double adam_elements_per_second; /* 0: by memory_bytes_per_second */
    double memory_bytes_per_second;
} gal_host_work;

void gal_host_work_of(const gal_profile *profile, gal_host_work *out);

/* Of Adam by so many threads of a rank: between the entries by a straight line, beyond them as at the nearest one. */
double gal_host_adam_rate(const gal_profile_host *host, uint32_t threads);

/* Of copy_out, copy_in, host_adam. */
bool gal_is_host_work(gal_op op);
/* It was measured, on whichever device. */
bool gal_host_work_knows(const gal_host_work *work, gal_op op);
/* Of storage_read, storage_write. */
bool gal_is_storage_work(gal_op op);
/* > 0; work->beside, what is known, or work of storage. */
double gal_host_work_seconds(const gal_host_work *work, const gal_shape *shape);

#endif
