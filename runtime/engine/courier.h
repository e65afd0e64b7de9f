/* The courier: a second thread of a rank, which keeps communication going while the first one is in a kernel.
 *
 * The two take turns: the first thread has the turn but between gal_courier_leave and gal_courier_return, where it
 * runs a kernel, and there the second one looks after communication from time to time. So calls of MPI never meet
 * (MPI_THREAD_SERIALIZED will do), all that the two share is seen by one at a time, and a rank that waits for others
 * itself gives them no thread to change to. The second thread sleeps between looks, and for good while nothing is in
 * flight: it takes of a core what the looks take. */
#ifndef GAL_RUNTIME_ENGINE_COURIER_H
#define GAL_RUNTIME_ENGINE_COURIER_H

#include <stdbool.h>

#include "schemas/base/status.h"

typedef enum gal_courier_found {
    GAL_COURIER_NOTHING, /* nothing is in flight, and nothing can start before the first thread returns */
    GAL_COURIER_WAITS,   /* something is in flight */
    GAL_COURIER_MOVED    /* something has started or is complete */
} gal_courier_found;

/* What the second thread does when it has the turn. Never blocks.
 * due_seconds  of gal_now_seconds: to be set to when the next thing will be complete, if that is known */
typedef gal_courier_found gal_courier_look(void *context, double *due_seconds);

typedef struct gal_courier gal_courier;

/* The caller has the turn. context is borrowed. GAL_ERR_SYSTEM: no memory, or no thread. */
gal_code gal_courier_create(gal_courier_look *look, void *context, gal_courier **out, gal_error *err);
/* Ends the thread; the caller has the turn. Accepts NULL, as the next three do, and do nothing. */
void gal_courier_free(gal_courier *courier);

/* Before a kernel, and behind it. in_flight: there is something to look after. */
void gal_courier_leave(gal_courier *courier, bool in_flight);
void gal_courier_return(gal_courier *courier);
/* No kernel will come for a while. */
void gal_courier_rest(gal_courier *courier);

#endif
