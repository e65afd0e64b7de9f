/* Work on several streams that begins together and is in no other order but one: what an update comes to once its parts
 * follow each other, each stream busy until its work is done. For costmodel alone. */
#ifndef GAL_COSTMODEL_TOGETHER_H
#define GAL_COSTMODEL_TOGETHER_H

#include "costmodel/company.h"
#include "costmodel/simulate.h"

/* Of each stream: what its work takes alone, 0: none, and the activity that all of it is. */
typedef struct gal_stream_work {
    double seconds[GAL_STREAM_COUNT];
    uint8_t activity[GAL_STREAM_COUNT]; /* gal_activity, or GAL_ACTIVITY_BESIDE */
    double unstored_seconds; /* of the host's stream besides, of what is not on storage: no storage runs beside it, for
                              * the ring lets that be no more than its few parts ahead or behind */
} gal_stream_work;

/* Seconds until all of it is done, with the factors of gal_simulate; messages share a link. No less than any stream's,
 * and never less with more work. */
double gal_together_seconds(const gal_stream_work *work, const gal_company_factors *factors);

#endif
