/* What the queues of a device are given in a step, in which order.
 *
 * The order is the list's, which all ranks of a stage share, so that every rank puts the collectives of all streams on
 * its device in the same order. What an entry of one stream waits for in another (queues.h) becomes an event, recorded
 * behind the last entry that it waits for; a wait that an earlier one of its stream implies is left out. In list order
 * an event is recorded anew as soon as the last wait for it has been issued: a step needs few. */
#ifndef GAL_RUNTIME_ENGINE_ENGINE_TAPE_H
#define GAL_RUNTIME_ENGINE_ENGINE_TAPE_H

#include "runtime/engine/queues.h"

#define GAL_NO_EVENT UINT32_MAX

typedef struct gal_issue {
    uint32_t stream;
    uint32_t entry; /* of that stream's queue */
    uint32_t first_wait, wait_count;
    uint32_t event;          /* recorded behind it, or GAL_NO_EVENT */
    uint32_t mark;           /* likewise; the last entry of its stream in a call of the schedule has one */
    uint32_t call;           /* of the step it belongs to */
    uint64_t staging_offset; /* of a load: where the host puts what it brings */
} gal_issue;

/* An event that is not recorded anew: how far the device is. */
typedef struct gal_mark {
    uint32_t completed; /* entries of its stream up to it */
    uint32_t next;      /* of the same stream, or GAL_NO_EVENT */
} gal_mark;

typedef struct gal_tape {
    const gal_queues *queues; /* borrowed */
    uint32_t issue_count, wait_count, event_count, mark_count;
    gal_issue *issue;
    uint32_t *wait;                        /* events, by number */
    gal_mark *mark;                        /* [mark_count] */
    uint32_t first_mark[GAL_STREAM_COUNT]; /* GAL_NO_EVENT: nothing on this stream */
    uint32_t *of_entry[GAL_STREAM_COUNT];  /* [entry]: its issue */
    uint64_t staging_bytes;                /* of all loads of the step together */
} gal_tape;

/* calls are those that queues were made of. in_list_order: whoever uses it issues in that order; else streams may be
 * ahead of others as far as their waits allow, and every event is recorded once. GAL_ERR_SYSTEM without memory. */
gal_code gal_tape_of(const gal_program *program, const gal_call *calls, uint32_t call_count, const gal_queues *queues,
                     bool in_list_order, gal_tape *out, gal_error *err);
void gal_tape_free(gal_tape *tape); /* the arrays; accepts a zeroed one */

#endif
