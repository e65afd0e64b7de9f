/* The event simulation of one expanded stage alone, for prices: simulate.h without other stages, in the same
 * arithmetic. For costmodel alone. */
#ifndef GAL_COSTMODEL_ALONE_H
#define GAL_COSTMODEL_ALONE_H

#include "costmodel/company.h"
#include "costmodel/expand.h"
#include "costmodel/simulate.h"

/* The streams of a stage alone: those of transfers are empty. */
enum { GAL_ALONE_STREAMS = GAL_STREAM_COUNT, GAL_ALONE_CALLS_MAX = 7, GAL_ALONE_BLOCKS_MAX = 5 };

typedef struct gal_script_wait {
    uint32_t stream, completed; /* to have completed so many events */
} gal_script_wait;

typedef struct gal_script_step {
    double seconds;
    uint32_t block; /* within the stage */
    uint8_t activity, level;
} gal_script_step;

typedef struct gal_script_event {
    uint32_t step; /* into step */
    uint16_t wait_count;
    uint8_t call;
    bool closes; /* the last of its stream that is of its block in its call */
} gal_script_event;

/* The events of all calls in order, stream by stream, with the waits that earlier ones of the stream do not imply. What
 * steps cost may be filled in for each time that it is played. */
typedef struct gal_script {
    gal_script_step *step; /* as those of the expansion; owns the memory of event and wait */
    gal_script_event *event;
    gal_script_wait *wait;
    uint32_t call_count;
    uint32_t first[GAL_ALONE_STREAMS + 1];  /* of each stream, into event; their end */
    uint32_t first_wait[GAL_ALONE_STREAMS]; /* of each stream, into wait */
} gal_script;

/* Of an expansion with `alone`, of at most so many calls; it is not referred to. GAL_ERR_SYSTEM without memory. */
gal_code gal_script_create(const gal_expansion *expansion, gal_script *out, gal_error *err);
void gal_script_free(gal_script *script); /* the arrays; accepts a zeroed one */

/* Ends on the compute stream; in the last call on all streams. Of blocks the first ones. */
typedef struct gal_alone_ends {
    double call_seconds[GAL_ALONE_CALLS_MAX];
    double block_seconds[GAL_ALONE_CALLS_MAX][GAL_ALONE_BLOCKS_MAX];
    double compute_seconds[GAL_ALONE_CALLS_MAX], reduce_seconds[GAL_ALONE_CALLS_MAX]; /* on one stream; 0: none */
} gal_alone_ends;

/* Programs that verify cannot wait for ever here. Allocates nothing. */
void gal_play_alone(const gal_script *script, const gal_company_factors *factors, gal_alone_ends *ends);

#endif
