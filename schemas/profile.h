/* The profile document: the cluster as found and what was measured on it. Every entry says how it was had. */
#ifndef GAL_SCHEMAS_PROFILE_H
#define GAL_SCHEMAS_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/json.h"
#include "schemas/base/status.h"
#include "schemas/cluster.h"
#include "schemas/operator.h"

enum {
    GAL_PROFILE_VERSION = 1,
    GAL_TEXT_BYTES = 256,
    GAL_PROFILE_ENTRIES_MAX = 100000,
    GAL_PROFILE_CTAS_MAX = 8,
    GAL_PROFILE_THREADS_MAX = 1024, /* of a rank, as galrun --threads */
    GAL_PROFILE_ADAMS_MAX = 32,
    GAL_PROFILE_NODES_MAX = 64
};

#define GAL_SOURCES(X)                                                                                                 \
    X(GAL_SOURCE_MEASURED, "measured")                                                                                 \
    X(GAL_SOURCE_FITTED, "fitted")                                                                                     \
    X(GAL_SOURCE_ANALYTIC, "analytic")

/* Who is slowed by whom: computation, communication, copies between the device and the host's memory, transfers of
 * storage. */
#define GAL_ACTIVITIES(X)                                                                                              \
    X(GAL_ACTIVITY_COMPUTE, "compute")                                                                                 \
    X(GAL_ACTIVITY_COMMUNICATION, "communication")                                                                     \
    X(GAL_ACTIVITY_COPY, "copy")                                                                                       \
    X(GAL_ACTIVITY_STORAGE, "storage")

#define X(enumerator, name) enumerator,
typedef enum gal_source { GAL_SOURCES(X) GAL_SOURCE_COUNT } gal_source;
typedef enum gal_activity { GAL_ACTIVITIES(X) GAL_ACTIVITY_COUNT } gal_activity;
#undef X

extern const char *const gal_source_names[GAL_SOURCE_COUNT];
extern const char *const gal_activity_names[GAL_ACTIVITY_COUNT];

/* One kernel by shape: median over repeats of the slowest rank, all ranks busy alike. */
typedef struct gal_profile_operator {
    gal_shape shape;
    double seconds;
    double spread_seconds; /* half the distance between the quartiles */
    gal_source source;
} gal_profile_operator;

/* One collective, or p2p (op send): by the members at each link level, innermost first (a group of 4 consecutive
 * ranks in nodes of 2 is {2, 2}); bytes as gal_instruction.bytes counts them. */
typedef struct gal_profile_collective {
    gal_op op;
    uint32_t level_counts[GAL_LINK_LEVELS_MAX]; /* 1 where the group does not extend; p2p: 2 at the level crossed */
    uint64_t bytes;
    double seconds;
    double spread_seconds;
    gal_source source;
} gal_profile_collective;

/* Backward that runs kernels of forward again; seconds 0: not measured, or none run again. */
typedef struct gal_profile_again {
    double seconds, operator_seconds; /* of all of backward, as below */
} gal_profile_again;

/* A whole block run in its program, against the sum of its operators' entries: what company costs or saves. */
typedef struct gal_profile_block {
    gal_block_kind kind;
    uint32_t tp_degree;
    uint32_t samples;
    double forward_seconds, backward_seconds;
    double forward_operator_seconds, backward_operator_seconds;
    gal_profile_again backward_full, backward_selective; /* with that recompute */
} gal_profile_block;

/* Factors on kernels and on communication that takes so many blocks (CTAs) of a GPU, while both run. */
typedef struct gal_profile_ctas {
    uint32_t ctas;
    double compute, communication; /* >= 1 */
    double communication_alone;    /* its seconds when nothing runs beside it, over those with as many blocks as the
                                    * library takes by itself; 0: not known */
} gal_profile_ctas;

/* Seconds ~ latency + bytes / bandwidth. */
typedef struct gal_profile_copies {
    double latency_seconds, bytes_per_second;
} gal_profile_copies;

/* Adam on the host by so many threads of each rank, in fp32, all ranks at once. */
typedef struct gal_profile_adam {
    uint32_t threads;
    double elements_per_second; /* of a rank */
} gal_profile_adam;

/* Copies between the device and memory of the host (of GPUs: pinned), by the ranks on one NUMA node, all of them at
 * once, each way alone. A rank that is bound to no node counts to the first one that it may run on. */
typedef struct gal_profile_node {
    uint32_t node; /* hwloc's logical index; of several machines the slowest one's rates */
    gal_profile_copies to_device, from_device;
} gal_profile_node;

/* What the host does for a device, and where the device is the host. */
typedef struct gal_profile_host {
    uint32_t threads_per_rank; /* of the kernels on the host while it was measured, as galrun --threads */
    uint32_t adam_count;       /* at least 1 */
    gal_profile_adam adam[GAL_PROFILE_ADAMS_MAX]; /* by rising threads */
    uint32_t node_count;                          /* at least 1: nodes that ranks were on */
    gal_profile_node node[GAL_PROFILE_NODES_MAX]; /* by rising node */
} gal_profile_host;

/* What is known of GPUs alone. */
typedef struct gal_profile_gpu {
    uint64_t context_bytes, library_bytes, communicator_bytes; /* what fixed_bytes consists of */
    double clock_hertz, clock_hertz_max; /* of the multiprocessors, while it was measured; 0: not known */
    bool tf32;                           /* products of fp32 rounded their factors to 10 bits, as galrun --tf32 */
    uint32_t by_ctas_count;
    gal_profile_ctas by_ctas[GAL_PROFILE_CTAS_MAX]; /* by rising ctas */
} gal_profile_gpu;

typedef struct gal_profile {
    gal_cluster cluster;
    char date[GAL_NAME_BYTES];      /* ISO 8601, when it was measured */
    char processor[GAL_TEXT_BYTES]; /* hwloc's view: packages, cores, caches */
    char libraries[GAL_TEXT_BYTES]; /* "OpenBLAS 0.3.21; Open MPI 4.1.4; hwloc 2.9.0" */
    char command[GAL_TEXT_BYTES];
    uint32_t rank_count;        /* ranks that measured together */
    uint64_t fixed_bytes;       /* per rank beside the arena: process, communicators, library workspaces */
    double fixed_step_seconds;  /* per step beside the program: data, progress, barrier */
    double instruction_seconds; /* host cost of issuing one instruction */
    /* slowdown[i][j]: factor on activity i while j runs beside it on another stream; >= 1 */
    double slowdown[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT];
    bool has_host;
    gal_profile_host host; /* may be left out */
    bool has_gpu;
    gal_profile_gpu gpu; /* may be left out */
    uint32_t operator_count;
    gal_profile_operator *operators; /* owned; sorted by shape */
    uint32_t collective_count;
    gal_profile_collective *collectives; /* owned; sorted by op, level_counts, bytes */
    uint32_t block_count;
    gal_profile_block *blocks; /* owned */
    char hash[GAL_HASH_BYTES]; /* of the document read; not written */
} gal_profile;

/* On ranks that are processors where it was not measured: a copy slows and is slowed as a kernel. */
void gal_profile_copies_are_kernels(gal_profile *profile);

/* As gal_document_read and gal_document_write (schemas/document.h). gal_profile_free releases what read gave. */
gal_code gal_profile_read(const char *path, gal_profile *out, gal_error *err);
gal_code gal_profile_write(const char *path, gal_profile *profile, gal_error *err); /* sorts the tables */
void gal_profile_free(gal_profile *profile); /* the arrays and the fields; accepts NULL and a zeroed one */

int gal_shape_compare(const gal_shape *a, const gal_shape *b); /* total order: op, dtype, dims */

/* Of entries, for qsort: operators by shape; collectives by op, level_counts and bytes, or as far as level_counts. */
int gal_operator_compare(const void *left, const void *right);
int gal_collective_compare(const void *left, const void *right);
int gal_collective_key_compare(const gal_profile_collective *a, const gal_profile_collective *b);

#endif
