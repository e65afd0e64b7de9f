/* What a profile in the making consists of. For profile.c and its parts alone. */
#ifndef GAL_PROFILER_PROFILE_INTERNAL_H
#define GAL_PROFILER_PROFILE_INTERNAL_H

#include "profiler/measure.h"
#include "profiler/nic.h"
#include "profiler/profile.h"
#include "profiler/topology.h"

/* Sizes of transfers over a link level; sessions whose blocks are kept. */
enum { GAL_PROFILING_SWEEP = 7, GAL_PROFILING_BLOCKS_MAX = 64 };

typedef struct gal_profiling {
    const gal_profile_settings *settings;
    gal_bench bench;
    gal_topology topology;
    gal_nic nic; /* of a GPU */
    gal_profile profile;
    gal_candidates candidates;
    gal_links links;
    gal_pools pools;
    uint32_t threads_most; /* cores that there are for a rank */
    uint64_t cold_bytes;
    uint64_t session_bytes; /* of memory that a session may take */
    uint32_t session_communicators;
    gal_profile_report report;
} gal_profiling;

/* Collective: what the machine and its devices are, and how ranks lie on them. Before anything is measured. */
gal_code gal_profiling_look(gal_profiling *p, gal_error *err);
/* What is known of a GPU once all has been measured; a host: nothing. */
void gal_profiling_settle_gpu(gal_profiling *p);

/* Tells the caller, from rank 0; count 0: nobody knows. */
void gal_profiling_say(const gal_profiling *p, const char *what, uint32_t done, uint32_t count);

/* profile_entries.c; collective. All communicators, and latency and bandwidth of every link level. */
gal_code gal_profiling_links(gal_profiling *p, gal_error *err);
/* Kernels and collectives, until their part of the budget is spent. */
gal_code gal_profiling_entries(gal_profiling *p, gal_error *err);

/* profile_steps.c; collective. What a step costs beside its program. */
gal_code gal_profiling_fixed(gal_profiling *p, gal_error *err);
gal_code gal_profiling_slowdowns(gal_profiling *p, gal_error *err);
/* Copies to the host, Adam there. */
gal_code gal_profiling_host(gal_profiling *p, gal_error *err);
/* What a file is read and written at, and how that and other work slow each other. */
gal_code gal_profiling_storage(gal_profiling *p, gal_error *err);
gal_code gal_profiling_blocks(gal_profiling *p, gal_error *err);

#endif
