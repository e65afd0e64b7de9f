/* The newest step of all ranks as a Chrome trace: a process per rank, a thread per stream (runtime/program/timeline.h).
 */
#ifndef GAL_RUNTIME_TRAIN_TRACE_FILE_H
#define GAL_RUNTIME_TRAIN_TRACE_FILE_H

#include "runtime/train/record.h"
#include "runtime/train/world.h"

/* Collective; rank 0 writes path. Times count from when each rank began the step, which ranks do at the same time but
 * for the microseconds in which the step before was agreed upon: so no two clocks are compared. A record that is not
 * whole (no step was done) gives no events.
 * GAL_ERR_SYSTEM on all ranks without memory, or if the file cannot be written. */
gal_code gal_trace_save(const char *path, const gal_plan *plan, const gal_step_record *record, const gal_world *world,
                        gal_error *err);

#endif
