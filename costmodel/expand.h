/* A stage's program laid out for the event simulation: per fragment and stream the steps in order, with waits turned
 * into "that stream must have completed so many steps". For costmodel alone.
 *
 * Kernels that follow each other on the compute stream become one step where nobody could tell: no other stream waits
 * for the first, the second waits for none, and both are of one block. Sums are as slowed as their parts.
 * Steps are stored once per fragment, not per call. Per call there remain one number per stream (steps completed by
 * earlier calls) and one per wait on a buffer (the latest access to its item, in steps of the awaited stream); none for
 * accesses of fragments that are not called. */
#ifndef GAL_COSTMODEL_EXPAND_H
#define GAL_COSTMODEL_EXPAND_H

#include "costmodel/duration.h"

/* What a step waits for beside its own stage: nobody, another stage, or all stages of a set. */
typedef enum gal_relation { GAL_RELATION_NONE, GAL_RELATION_PAIR, GAL_RELATION_SET } gal_relation;

typedef struct gal_step_wait {
    uint8_t kind; /* gal_wait_kind */
    uint8_t stream;
    uint32_t target; /* instruction: steps of the stream in this fragment up to it; buffer: number in the call's row */
} gal_step_wait;

typedef struct gal_step {
    double seconds;
    uint32_t instruction; /* the first */
    uint32_t first_wait;
    uint16_t wait_count;
    uint8_t activity, level;
    uint8_t relation;       /* gal_relation */
    uint8_t partner_stream; /* of a pair */
    uint32_t
        partner_stage; /* of a pair; of a set the shared tensor that its stages hold, GAL_SHARED_COUNT: the world */
    uint32_t block;    /* within the stage */
} gal_step;

typedef struct gal_step_list {
    uint32_t first, count; /* into step */
} gal_step_list;

typedef struct gal_expansion {
    const gal_call *call;
    uint32_t call_count;
    gal_step *step;                          /* owns the memory of the next three */
    gal_step_list (*list)[GAL_STREAM_COUNT]; /* [fragment] */
    uint32_t *step_of;                       /* [instruction of a fragment that is called] */
    gal_step_wait *wait;
    uint32_t (*before)[GAL_STREAM_COUNT]; /* [call]: steps of earlier calls; owns the memory of the next two */
    uint32_t *first_row;                  /* [call]: into row */
    uint32_t *row;                        /* resolved waits on buffers */
    uint32_t step_count;                  /* of the fragments that are called */
    uint64_t event_count;                 /* steps of all calls */
} gal_expansion;

typedef struct gal_expand_options {
    bool alone, each;
} gal_expand_options;

/* cost[instruction_count], or NULL: to be filled in step by step. each: no two kernels in one step. alone: transfers
 * between stages are left out, reductions between stages are steps like any other, of this stage's own cost. The
 * program, the calls and nothing else are referred to afterwards. GAL_ERR_SYSTEM without memory. */
gal_code gal_expand(const gal_program *program, const gal_call *call, uint32_t call_count, const gal_cost *cost,
                    gal_expand_options options, gal_expansion *out, gal_error *err);
void gal_expansion_free(gal_expansion *expansion); /* the arrays; accepts a zeroed one */

#endif
