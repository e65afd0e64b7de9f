/* What a profile in the making consists of. For profile.c and its parts alone. */
#ifndef GAL_PROFILER_PROFILE_INTERNAL_H
#define GAL_PROFILER_PROFILE_INTERNAL_H

#include "profiler/measure.h"
#include "profiler/nic.h"
#include "profiler/profile.h"
#include "profiler/topology.h"

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

#endif
