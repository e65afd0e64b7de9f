/* What of a step's communication compute had to wait for, from when its instructions ran (record.h).
 *
 * A rank's one thread serves all streams, so at every moment of a step it is in one of three states:
 *   compute   a kernel of the compute stream runs
 *   waiting   compute's next kernel may not start yet, or compute is finished and other streams are not
 *   serving   compute's next kernel could start, but the thread is at other streams: it starts collectives, moves and
 *             adds their bytes inside MPI, or runs kernels of theirs
 * A stream is in flight while an instruction of it is started and not found complete, the time included in which a
 * peer has not begun its part. It is exposed while the thread waits for it: compute's next kernel waits for it, or for
 * a stream whose head waits for it, and so on; when compute is finished, whatever is in flight is exposed. Several
 * streams may be exposed at once. What overlap cannot hide on a host is serving: bytes are moved by the same cores. */
#ifndef GAL_RUNTIME_TRAIN_EXPOSURE_H
#define GAL_RUNTIME_TRAIN_EXPOSURE_H

#include "runtime/engine/queues.h"
#include "runtime/train/record.h"

/* Sums over steps, and over ranks where they were added up. compute + waiting + serving = seconds. Of doubles alone:
 * ranks send it to one another. */
typedef struct gal_exposure {
    double step_count;
    double seconds; /* of steps, from their begin to their last instruction's end */
    double compute_seconds, waiting_seconds, serving_seconds;
    double in_flight_seconds[GAL_STREAM_COUNT]; /* of compute: none */
    double exposed_seconds[GAL_STREAM_COUNT];   /* part of in_flight_seconds */
} gal_exposure;

/* Adds a whole step (gal_step_record_is_whole). */
void gal_exposure_add_step(const gal_step_record *record, gal_exposure *sum);
void gal_exposure_add(const gal_exposure *part, gal_exposure *sum);
/* Of a rank's step, on average over steps and ranks; of nothing: zeros. */
gal_exposure gal_exposure_mean(const gal_exposure *sum);
/* Exposed seconds over seconds in flight; 0 for a stream that was never in flight. */
double gal_exposure_share(const gal_exposure *exposure, gal_stream stream);

#endif
