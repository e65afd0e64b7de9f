/* The calls of a step, spread over the streams: what every stream runs, in order, and what each entry waits for.
 *
 * A program's waits are relative (an instruction of the same call, a buffer's latest access in an earlier call). The
 * schedule of a step is fixed, so they are resolved once: entry i of a stream may start when each stream in its needs
 * has completed that many entries. A step starts with nothing in flight, so waits on earlier steps are met. */
#ifndef GAL_RUNTIME_ENGINE_QUEUES_H
#define GAL_RUNTIME_ENGINE_QUEUES_H

#include "runtime/program/program.h"

typedef struct gal_queue_entry {
    uint32_t instruction;
    uint32_t microbatch;
    uint32_t first_need, need_count; /* into gal_queues.need */
} gal_queue_entry;

typedef struct gal_need {
    uint32_t stream;
    uint32_t completed; /* entries of that stream, > 0 */
} gal_need;

typedef struct gal_queues {
    gal_queue_entry *entry[GAL_STREAM_COUNT];
    uint32_t count[GAL_STREAM_COUNT];
    gal_need *need;
    uint32_t need_count;
} gal_queues;

typedef enum gal_queue_order {
    GAL_ORDER_STREAMS, /* each stream by itself: what the waits allow may overlap */
    GAL_ORDER_LIST     /* kernels and collectives one at a time, as the calls list them; only transfers between stages
                        * overlap. All ranks of a stage have the same list and transfers wait for nothing more than
                        * before, so a step still ends. */
} gal_queue_order;

/* True if all that the entry waits for is complete. completed[GAL_STREAM_COUNT]: entries, by stream. */
bool gal_queue_ready(const gal_queues *queues, const gal_queue_entry *entry, const uint32_t *completed);

/* GAL_ERR_SYSTEM without memory. */
gal_code gal_queues_of(const gal_program *program, const gal_call *calls, uint32_t call_count, gal_queue_order order,
                       gal_queues *out, gal_error *err);
void gal_queues_free(gal_queues *queues); /* the arrays; accepts a zeroed one */

#endif
