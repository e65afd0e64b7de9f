/* One cell of the search: batch, microbatches and pipeline degree fixed. All prices in tables, and what a path of
 * blocks under strategies costs.
 *
 * A path visits the nodes (block, stage, strategy); stages never fall, never skip, none is empty. Its time is the
 * objective of costmodel/objective.h, with every price rounded to a multiple of unit_seconds, a power of two so small
 * that no path has 2^53 of them: sums are exact in any order, paths of equal prices have equal times, and a path is
 * rounded by at most 4 (blocks + 1) (microbatches + 1) unit_seconds. Its bytes are the closed form of
 * costmodel/memory.h where what blocks use in turn is charged at its most: each ring at its depth times the largest
 * use, a conversion at the most it can take from any order of samples (planner/space/conversions.h), two sub-batches as
 * joined where a stage ends. So a path that fits here fits when it is placed.
 *
 * Off the chain:
 *   the token table       its holders are alike (gal_cell_tables_alike); on a stage of several one has the bytes and
 *                         the update: the first, but the last block for all on its stage
 *   relative biases       charged to every stage
 *   the carried tensor    lies as the rows do: between the block that makes it and the last one that reads it the rows
 *                         change their layout only in front of a block that reads it, which converts both. So it is
 *                         known at every border; a version of it is charged as one that is read */
#ifndef GAL_PLANNER_CELL_CELL_H
#define GAL_PLANNER_CELL_CELL_H

#include "costmodel/objective.h"
#include "planner/space/block_types.h"
#include "planner/space/conversions.h"
#include "planner/space/strategy_space.h"

enum { GAL_STAGES_MAX = 256 /* of a pipeline that is searched */ };

typedef struct gal_cell_spec {
    const gal_model *model;
    const gal_durations *durations;
    gal_price_cache *cache;
    const gal_space *space;
    uint32_t device_count; /* of the world */
    uint32_t pp_degree, microbatch_count, global_batch_samples;
    gal_schedule schedule;
    uint32_t chunk_count; /* interleaved: planner/cell/uniform.h; else 0 or 1 */
    uint32_t prefetch_depth;
    uint64_t arena_limit_bytes; /* per device, without the profile's fixed bytes */
    uint64_t host_limit_bytes;  /* likewise of its host and of storage, of uniform plans alone; 0: none of both */
    uint64_t storage_limit_bytes;
    const gal_strategy *listed; /* these strategies, listed_count of them; NULL: gal_space_strategies */
    uint32_t listed_count;
    const bool *allowed;    /* [type][listed], each legal for the type; NULL: all legal ones */
    const gal_plan *moving; /* NULL, or strategies of the space alone that are this plan's but for what they have in the
                             * host's memory (planner/bound/screened.h) */
} gal_cell_spec;

typedef enum gal_shared_kind {
    GAL_SHARED_GATHERED,
    GAL_SHARED_BUCKET,
    GAL_SHARED_BOUNDARY,
    GAL_SHARED_SCRATCH,
    GAL_SHARED_RELAYOUT,
    GAL_SHARED_WORK_EVEN, /* of blocks of even and of odd numbers in the chain, which lie behind each other; of one */
    GAL_SHARED_WORK_ODD,  /* that works on whole microbatches half is of each, as it may lie across both */
    GAL_SHARED_STAGED_INPUT, /* what leaves the device: inputs, and the rest, which another block may have most of */
    GAL_SHARED_STAGED_SAVED,
    GAL_SHARED_BESIDE, /* boundary rows of second sub-batches */
    GAL_SHARED_KIND_COUNT
} gal_shared_kind;

/* Bytes that the blocks of a stage use in turn: the stage has the largest of each kind. */
typedef struct gal_shared_bytes {
    int64_t of[GAL_SHARED_KIND_COUNT];
} gal_shared_bytes;

/* Where work of a type's blocks may lie: gal_block_types.type_sides; 0 where no block works on two sub-batches, and one
 * of both kinds has all. */
uint32_t gal_cell_work_sides(const gal_space *space, const gal_block_types *types, uint32_t type);
/* Of a block alone. Of two sub-batches work is charged to each side where blocks of the type lie. */
gal_shared_bytes gal_cell_shared_of(const gal_block_memory *memory, uint32_t prefetch_depth, uint32_t work_sides);

/* What one step of a path adds. */
typedef struct gal_cell_step {
    double forward_seconds, backward_seconds; /* of one microbatch */
    double tail_seconds, update_seconds;
    double once_seconds; /* of an iteration: transfers both ways, the token table's reduction */
    bool lags;           /* of a block on the only stage: the largest sum of first blocks' tails counts, ... */
    bool awaits;         /* ... and it waits for what later ones have left to be reduced (costmodel/lag.h) */
    int64_t bytes;       /* states, gradients, k x saved, ports */
    gal_shared_bytes shared;
} gal_cell_step;

/* A block under a strategy in a stage. Neighbours hide of it all that they may (costmodel/price.h); what they do not is
 * in edges, and at the ends of a stage, where nothing does, in enter and close. */
typedef struct gal_cell_node {
    gal_cell_step block;                                              /* its own; no boundary, no relayout */
    double enter_seconds, enter_backward_seconds, enter_tail_seconds; /* of the first block of a stage */
    gal_cell_step close;                                              /* of the last */
    int64_t boundary_bytes, input_bytes;
} gal_cell_node;

/* Its neighbour before. */
typedef struct gal_cell_edge {
    double forward_seconds, backward_seconds, tail_seconds;
    double crowded_forward_seconds, crowded_backward_seconds; /* more inside a stage (gal_price_crowded) */
    int64_t relayout_bytes, entry_relayout_bytes;             /* inside a stage; at the entry of one */
    int64_t carried_bytes, entry_bytes; /* inside a stage: a version; at the entry: ports and versions */
    bool legal;
} gal_cell_edge;

typedef struct gal_cell {
    gal_cell_spec spec;
    uint32_t stage_devices, samples;
    uint32_t block_count, strategy_count;
    gal_block_types types;
    gal_strategy *strategy; /* those that are legal for a type of block, in the order of those listed */
    uint32_t *listed;       /* [strategy]: its number there */
    uint32_t listed_count;
    double unit_seconds;
    const gal_block_price **price;  /* gal_cell_price_index; NULL: not legal */
    const gal_pair_price **pair;    /* gal_cell_pair_index; NULL: not legal */
    const gal_pair_price **carried; /* likewise, of the carried tensor; NULL: it is not converted there */
    gal_cell_node *node;            /* as price */
    gal_cell_edge *edge;            /* as pair */
    gal_conversions conversions;
    gal_round_counts rounds;
    uint32_t *in_flight;   /* [stage] */
    double *transfer;      /* as price: one way to the next stage */
    double *table_seconds; /* [strategy]: the reduction of the token table between the stages that hold it */
    double common_seconds; /* norm, relative biases; fixed time of a step */
    int64_t bias_bytes;    /* of the relative biases */
} gal_cell;

/* GAL_NO with the reason if the numbers do not divide. */
gal_code gal_cell_refused(const gal_cell_spec *spec, gal_error *err);
/* Whether a block of the type may take the strategy in such a cell: it is legal, not the same program as another
 * (property/test_prunings.c), and of what searches look at: attention and FFN alone run again, as in the papers, and
 * activations of embedding and head stay on the device. */
bool gal_cell_is_legal(const gal_cell_spec *spec, const gal_block_types *types, uint32_t type,
                       const gal_strategy *strategy);
/* Of that what is asked whatever the block, and the rest, of a strategy that the cell may take. */
bool gal_cell_may_take(const gal_cell_spec *spec, const gal_strategy *strategy);
bool gal_cell_may_take_for(const gal_cell_spec *spec, const gal_block_types *types, uint32_t type,
                           const gal_strategy *strategy);
/* GAL_NO as gal_cell_refused; GAL_ERR_SYSTEM without memory. */
gal_code gal_cell_create(const gal_cell_spec *spec, gal_cell **out, gal_error *err);
void gal_cell_free(gal_cell *cell);
/* The rounded tables from the prices: part of create, and again if prices change. */
void gal_cell_tabulate(gal_cell *cell);

size_t gal_cell_price_index(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy);
/* Of the edge into block, whose stage is given; pairs of one number share it. */
size_t gal_cell_pair_index(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t from, uint32_t to);
size_t gal_cell_price_count(const gal_cell *cell);
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
/* The one of these by which the path stage[block], strategy[block] reaches a block. */
void gal_cell_reach(const gal_cell *cell, uint32_t block, const uint32_t *stage, const uint32_t *strategy,
                    gal_cell_step *out);
/* What the last block of a stage adds: its turn to backward, its ports and transfers to the next stage, what belongs to
 * no block. */
void gal_cell_close(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy, gal_cell_step *out);

/* Whether another block of its stage has the token table's bytes and update. */
bool gal_cell_borrows_table(const gal_cell *cell, uint32_t block, uint32_t stage);
/* Whether the block takes part in the token table of several. */
bool gal_cell_holds_table(const gal_cell *cell, uint32_t block);
/* Whether all its holders on the path strategy[block] keep and shard it alike. */
bool gal_cell_tables_alike(const gal_cell *cell, const uint32_t *strategy);

#endif
