/* One cell of the search: batch, microbatches and pipeline degree fixed. All prices in tables, and what a path of
 * blocks under strategies costs.
 *
 * A path visits the nodes (block, stage, strategy); stages never fall, never skip, none is empty. Its time is the
 * objective of costmodel/objective.h. Its bytes are the closed form of costmodel/memory.h where what blocks use in turn
 * is charged at its most: each ring at its depth times the largest use, a conversion at the most it can take from any
 * order of samples (planner/conversions.h). So a path that fits here fits when it is placed. */
#ifndef GAL_PLANNER_CELL_H
#define GAL_PLANNER_CELL_H

#include "costmodel/objective.h"
#include "planner/conversions.h"
#include "planner/strategy_space.h"

typedef struct gal_cell_spec {
    const gal_model *model;
    const gal_durations *durations;
    gal_price_cache *cache;
    const gal_space *space;
    uint32_t device_count; /* of the world */
    uint32_t pp_degree, microbatch_count, global_batch_samples;
    gal_schedule schedule;
    uint32_t prefetch_depth;
    uint64_t arena_limit_bytes; /* per device, without the profile's fixed bytes */
} gal_cell_spec;

/* Bytes that the blocks of a stage use in turn: the stage has the largest of each. */
typedef struct gal_shared_bytes {
    uint64_t gathered, bucket, boundary, scratch, relayout, work;
} gal_shared_bytes;

/* What one step of a path adds. */
typedef struct gal_cell_step {
    double forward_seconds, backward_seconds; /* of one microbatch */
    double tail_seconds, update_seconds;
    double once_seconds; /* of an iteration: transfers both ways, the tied table's reduction */
    int64_t bytes;       /* states, gradients, k x saved, ports */
    gal_shared_bytes shared;
} gal_cell_step;

typedef struct gal_cell {
    gal_cell_spec spec;
    uint32_t stage_devices, samples;
    uint32_t block_count, strategy_count;
    gal_strategy *strategy;        /* those that are legal for a kind of block, in the order of gal_space_strategies */
    const gal_block_price **price; /* gal_cell_price_index; NULL: not legal */
    gal_shared_bytes *shared;      /* likewise; boundary and relayout are 0 */
    const gal_pair_price **pair;   /* gal_cell_pair_index; NULL: not legal */
    gal_conversions conversions;
    uint32_t *in_flight;   /* [stage] */
    double *transfer;      /* [stage][strategy] one way to the next stage, */
    double *tied_seconds;  /* [strategy] of the embedding: the tables' reduction between first and last stage */
    double common_seconds; /* norm; fixed time of a step */
} gal_cell;

/* GAL_NO with the reason if the numbers do not divide; GAL_ERR_SYSTEM without memory. */
gal_code gal_cell_create(const gal_cell_spec *spec, gal_cell **out, gal_error *err);
void gal_cell_free(gal_cell *cell);

size_t gal_cell_price_index(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy);
/* Of the edge into block, whose stage is given; blocks of the same kind behind the same kind share it. */
size_t gal_cell_pair_index(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t from, uint32_t to);
size_t gal_cell_pair_count(const gal_cell *cell);
/* NULL: not legal. */
const gal_block_price *gal_cell_price(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy);

/* The first node of all. */
void gal_cell_start(const gal_cell *cell, uint32_t strategy, gal_cell_step *out);
/* The node (block, stage, strategy) behind `from` in the same stage; behind `from` in the stage before. Both legal. */
void gal_cell_follow(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t from, uint32_t strategy,
                     gal_cell_step *out);
void gal_cell_cross(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t from, uint32_t strategy,
                    gal_cell_step *out);
/* What the last block of a stage adds: its turn to backward, its ports and transfers to the next stage, what belongs to
 * no block. */
void gal_cell_close(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy, gal_cell_step *out);

/* Whether the head may take a strategy beside the embedding's: always if they are not tied. */
bool gal_cell_tied_alike(const gal_cell *cell, uint32_t embedding, uint32_t head);

/* Running sums of a path. */
typedef struct gal_path {
    double additive;                          /* sum of g of finished stages, and what is once in an iteration */
    double slowest, exposed, drained, update; /* of finished stages: max g, max (tail - drained before), sum b, max */
    double stage_round, stage_backward, stage_tail, stage_update; /* of the open stage */
    int64_t bytes;           /* of the open stage, without what is shared; of the stage just closed, with all */
    gal_shared_bytes shared; /* of the open stage */
} gal_path;

void gal_path_add(gal_path *path, const gal_cell_step *step);
int64_t gal_path_bytes(const gal_path *path); /* of the open stage so far: never more than when it closes */
/* Closes the open stage with gal_cell_close's step; false if it does not fit. */
bool gal_path_close(gal_path *path, const gal_cell *cell, const gal_cell_step *step);
double gal_path_seconds(const gal_path *path, const gal_cell *cell); /* of a path whose last stage is closed */

/* The whole path: stage[block], strategy[block]. Infinity if it does not fit. most_bytes (may be NULL): of its largest
 * stage, fitting or not. */
double gal_cell_evaluate(const gal_cell *cell, const uint32_t *stage, const uint32_t *strategy, uint64_t *most_bytes);

#endif
