/* Runs of a tape that a device can carry out as one: consecutive kernels, copies and collectives of the compute and
 * tensor streams within one call. A run begins where something of another stream is waited for and ends where another
 * stream waits, so that nothing starts later for being in a run: a graph is a barrier for whoever waits for it. */
#ifndef GAL_RUNTIME_ENGINE_ENGINE_RUNS_H
#define GAL_RUNTIME_ENGINE_ENGINE_RUNS_H

#include "runtime/channels.h"
#include "runtime/engine/engine_tape.h"

typedef struct gal_run {
    uint32_t first, end; /* issues */
    bool forks;          /* some are of the tensor stream */
} gal_run;

typedef struct gal_runs {
    uint32_t count;
    gal_run *run;
    /* [issue] of a run: its event is waited for after the run, so it is recorded behind that too. */
    bool *leaves;
    /* [wait] of the tape: it is for an issue of the same run. */
    bool *inside;
} gal_runs;

/* The tape is in list order and the communicator, if any, is queued. GAL_ERR_SYSTEM without memory. */
gal_code gal_runs_of(const gal_program *program, const gal_tape *tape, gal_runs *out, gal_error *err);
void gal_runs_free(gal_runs *runs); /* the arrays; accepts a zeroed one */

#endif
