/* One cell of the search: batch, microbatches and pipeline degree fixed. All prices in tables, and what a chain of
 * blocks under strategies costs.
 *
 * A chain visits the nodes (block, stage, strategy); stages never fall, never skip, none is empty. Its time is the
 * objective of costmodel/objective.h. Its bytes are the closed form of costmodel/memory.h with each ring charged at its
 * depth times the largest use, so a chain that fits here fits when it is placed. */
#ifndef GAL_PLANNER_CELL_H
#define GAL_PLANNER_CELL_H

#include "costmodel/objective.h"
#include "planner/strategy_space.h"

typedef struct gal_cell_spec {
    const gal_model *model;
    const gal_durations *durations;
    gal_price_cache *cache;
    const gal_space *space;
    uint32_t device_count;     /* of the world */
    uint32_t pp_degree, microbatch_count, global_batch_samples;
    gal_schedule schedule;
    uint32_t prefetch_depth;
    uint64_t arena_limit_bytes; /* per device, without the profile's fixed bytes */
} gal_cell_spec;

/* What one step of a chain adds. Seconds are of one microbatch. */
typedef struct gal_cell_step {
    double forward_seconds, backward_seconds, tail_seconds, update_seconds;
    int64_t bytes;             /* states, gradients, k x saved, ports */
    uint64_t relayout_bytes;
} gal_cell_step;

typedef struct gal_cell {
    gal_cell_spec spec;
    uint32_t stage_devices, samples;
    uint32_t block_count, strategy_count;
    gal_strategy *strategy;
    const gal_block_price **price; /* [stage][kind][strategy]; NULL: not legal */
    const gal_pair_price **pair;   /* [stage][from kind][from][to]; the kind that follows is fixed by the chain */
    uint32_t *in_flight;           /* [stage] */
    double *transfer;              /* [stage][strategy] one way to the next stage, behind an ffn or attention block */
    double common_seconds;         /* norm; the tied reduction; fixed time of a step */
} gal_cell;

/* GAL_NO with the reason if the numbers do not divide or no strategy is legal; GAL_ERR_SYSTEM without memory. */
gal_code gal_cell_create(const gal_cell_spec *spec, gal_cell **out, gal_error *err);
void gal_cell_free(gal_cell *cell);

const gal_block_price *gal_cell_price(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy);
/* The node (block, stage, strategy) behind `from` in the same stage; behind `from` in the stage before; or first of all. */
void gal_cell_follow(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t from, uint32_t strategy,
                     gal_cell_step *out);
void gal_cell_cross(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t from, uint32_t strategy,
                    gal_cell_step *out);
void gal_cell_start(const gal_cell *cell, uint32_t strategy, gal_cell_step *out);
/* What the last block of a stage adds: its turn to backward, its ports to the next stage. */
void gal_cell_close(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy, gal_cell_step *out,
                    double *transfer_seconds);

/* Strategies that the tied head may take beside an embedding strategy; all if not tied. */
bool gal_cell_tied_alike(const gal_cell *cell, uint32_t embedding, uint32_t head);

/* Running sums of a chain. */
typedef struct gal_chain {
    double additive;   /* sum of g of finished stages and 2 x transfers */
    double slowest, exposed, drained, update; /* of finished stages: max g, max (tail - drained before), sum b, max */
    double stage_round, stage_backward, stage_tail, stage_update; /* of the open stage */
    int64_t bytes;     /* of the open stage, without what is a maximum */
    uint64_t gathered, bucket, boundary, scratch, relayout, work; /* of the open stage, as charged */
    uint32_t stage_blocks;
} gal_chain;

void gal_chain_add(gal_chain *chain, const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy,
                   const gal_cell_step *step);
int64_t gal_chain_bytes(const gal_chain *chain); /* of the open stage so far: never more than when it closes */
/* Closes the open stage; false if it does not fit. */
bool gal_chain_close(gal_chain *chain, const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy);
double gal_chain_seconds(const gal_chain *chain, const gal_cell *cell); /* of a chain whose last stage is closed */

/* The whole chain: stage[block], strategy[block]. Infinity if it does not fit. most_bytes (may be NULL): of its largest
 * stage, fitting or not. */
double gal_cell_evaluate(const gal_cell *cell, const uint32_t *stage, const uint32_t *strategy, uint64_t *most_bytes);

#endif
