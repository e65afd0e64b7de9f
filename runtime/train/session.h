/* One rank of a plan, ready to run: its program, its communicators, its engine. */
#ifndef GAL_RUNTIME_TRAIN_SESSION_H
#define GAL_RUNTIME_TRAIN_SESSION_H

#include "runtime/backend.h"
#include "runtime/engine/engine.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/world.h"
#include "schemas/figures.h"

/* What a rank's program may take; 0: no limit. */
typedef struct gal_session_limits {
    uint64_t device_bytes; /* the arena and what the plan calls fixed */
    uint64_t host_bytes;   /* what it has in the host's memory beside the device's */
} gal_session_limits;

typedef struct gal_session_options {
    const gal_backend *backend; /* NULL: the host */
    gal_token_source tokens;
    gal_trace trace;         /* done NULL: none */
    double deadline_seconds; /* of a step without progress */
    bool poison;             /* the arena starts as NaN */
    gal_queue_order order;
    gal_session_limits limits;
    const char *storage_directory; /* gal_engine_options */
    gal_storage_way storage_way;
    double slow_bytes_per_second;     /* gal_connection.slow_bytes_per_second */
    bool deterministic, tf32, graphs; /* of a device: gal_kernel_choice, gal_engine_options */
    void (*tell)(const char *text);   /* as gal_connection.tell */
} gal_session_options;

typedef struct gal_session {
    const gal_plan *plan; /* borrowed, as is world */
    gal_world world;
    const gal_backend *backend;
    uint32_t device;      /* number in the stage */
    gal_program *program; /* of this rank's stage */
    gal_channels channels;
    gal_comm *comm; /* of the program's collectives; NULL for one rank */
    gal_engine *engine;
} gal_session;

/* Collective over the world, which has as many ranks as the plan has devices; all ranks get the same code. The arena
 * is allocated, its content undefined. */
gal_code gal_session_create(const gal_plan *plan, const gal_world *world, const gal_session_options *options,
                            gal_session **out, gal_error *err);
void gal_session_free(gal_session *session); /* accepts NULL */

/* The rank's state, for checkpoints. Valid as long as the session. */
gal_checkpoint_state gal_session_state(const gal_session *session);

/* What this process has taken of its memory: of a device's, by all who use it, now; of the host's, the most it ever
 * had; 0: not known. */
uint64_t gal_session_memory_bytes(const gal_session *session);

uint32_t gal_plan_rank_count(const gal_plan *plan);
/* A step of the plan, for its figures; the seconds are the caller's to set. The plan's documents are borrowed. */
gal_step gal_plan_step(const gal_plan *plan, bool tf32);

#endif
