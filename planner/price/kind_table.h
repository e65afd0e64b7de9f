/* The kinds of a model's layers on the D devices of a stage, and what a layer of each takes.
 *
 * A kind is how one whole layer runs: the strategy of its attention and that of its FFN, whose rows lie alike. Its
 * seconds are at first a floor, from the work that its blocks bring (costmodel/block_load.h); a search that wants a
 * kind asks for its price: the slope of the simulated seconds of short chains of such layers (costmodel/layer_chain.h),
 * lengthened until the slope repeats. So a price is that of a layer in its own company, attention and FFN by turns.
 * What stands alone (embedding, head) is priced as what it adds beside a layer. Bytes are those of the closed form
 * (costmodel/memory.h). */
#ifndef GAL_PLANNER_PRICE_KIND_TABLE_H
#define GAL_PLANNER_PRICE_KIND_TABLE_H

#include "costmodel/block_load.h"
#include "costmodel/layer_chain.h"
#include "planner/kinds/layers.h"
#include "planner/kinds/meshes.h"
#include "planner/partition/partition.h"

typedef struct gal_kind {
    uint32_t strategy[GAL_HALF_COUNT]; /* into the meshes; of what stands alone both are equal */
    uint32_t type;                     /* of layers */
    bool priced;
    double attention_share; /* of its seconds, by floors; of what stands alone 1 */
    uint32_t steady_layers; /* priced, of layers: a chain of so many runs steadily */
    gal_layer_times times;  /* of a layer: floors, with all of a round in forward_seconds; priced: slopes */
    gal_layer_times turn;   /* priced, of layers: what a stage of them takes beyond the sum of its layers */
    int64_t static_bytes;   /* parameters, optimizer and gradients */
    int64_t saved_bytes;    /* of every microbatch in flight */
    int64_t peak_bytes;     /* what it uses by turns with the other layers: rings, scratch and work */
    int64_t table_bytes;    /* of static_bytes, what is of a token table that several layers hold */
    double table_seconds;   /* of a step: reductions of such a table, in no floor as another layer may bring it */
} gal_kind;

/* Kinds whose rows lie alike, type by type. Of what stands alone, behind those, a few whose rows lie otherwise: they
 * are converted in front of the block or behind it, which its price has. */
typedef struct gal_kind_group {
    uint32_t first[GAL_LAYER_TYPES_MAX + 1]; /* [type], into gal_kind_table.kind; behind the last type the end */
    bool complete;                           /* every type has a kind */
} gal_kind_group;

typedef struct gal_kind_query {
    const gal_model *model;
    const gal_durations *durations;
    gal_price_cache *cache; /* without parts */
    const gal_layers *layers;
    const gal_meshes *meshes;    /* of device_count */
    uint32_t device_count;       /* D */
    uint32_t stage, stage_count; /* which devices */
    uint32_t microbatch_samples, microbatch_count, prefetch_depth;
} gal_kind_query;

typedef struct gal_kind_table {
    gal_kind_query query;
    uint32_t kind_count, group_count;
    gal_kind *kind;                  /* owned */
    gal_kind_group *group;           /* owned; [rows of the meshes] */
    const gal_block_memory **memory; /* owned; [type of block][strategy]: NULL: not legal */
} gal_kind_table;

/* All kinds with their floors and bytes. The query's pointers are to outlive the table. Errors as gal_price_block. */
gal_code gal_kind_table_create(const gal_kind_query *query, gal_kind_table *out, gal_error *err);
void gal_kind_table_free(gal_kind_table *table); /* accepts a zeroed one */

/* What a layer that stands alone is priced beside: kinds of the layers in front of it and behind it, of its group and
 * priced before, and what stands alone in front of those and is on the same stage (of a stage that is the only one).
 * GAL_NO_KIND: there is none. */
enum { GAL_NO_KIND = -1 };
typedef struct gal_kind_company {
    int64_t first, before, behind;
} gal_kind_company;

/* kind_price.c: prices a kind; company is read of what stands alone. Errors as gal_layer_chain_times. */
gal_code gal_kind_price(gal_kind_table *table, uint32_t kind, const gal_kind_company *company, gal_error *err);

/* Seconds of a stage, summed over its layers. */
typedef struct gal_kind_seconds {
    double step;         /* of all microbatches and the update, of the only stage */
    double round;        /* forward and backward of a microbatch */
    double last;         /* what the last backward takes longer */
    double sync, update; /* behind it */
    double tied_update;  /* of that, of ends that share a table over stages: it is no balance of theirs */
    double transfer;     /* to the next stage, one way */
} gal_kind_seconds;
void gal_kind_seconds_add(const gal_kind_table *table, const gal_kind *kind, double layers, gal_kind_seconds *sum);

/* Which stage is taken to be the last to finish: any, so that what comes once is shared out over stages; or the
 * bottleneck itself, which then has it. The first is nearer where links are fast, the second where reductions and
 * updates are long and stages differ in parameters. */
typedef enum gal_finish { GAL_FINISH_SHARED, GAL_FINISH_BOTTLENECK, GAL_FINISH_COUNT } gal_finish;

/* What a stage is to a step of its pipeline. A microbatch goes to the next stage and back while the stage does two.
 * Reductions hide behind the backward of earlier stages, backward_seconds each. Updates run side by side: stages with
 * equal rounds have about equal ones, but for an end's, which comes on top; where no round repeats they are the
 * bottleneck. Of one stage all is in once, and exact; of several it is what choices are made by, and
 * gal_pipeline_seconds says what a plan takes. */
gal_stage_seconds gal_kind_seconds_of_stage(const gal_kind_table *table, const gal_kind_seconds *sum, uint32_t stage,
                                            double backward_seconds, gal_finish finish);
/* Of one layer as one number, by which kinds are chosen: as if all stages were of this kind. */
double gal_kind_share_seconds(const gal_kind_table *table, const gal_kind *kind, uint32_t stage, gal_finish finish);

/* The strategy of block i of the layer. */
const gal_strategy *gal_kind_strategy(const gal_kind_table *table, const gal_kind *kind, uint32_t block);
const gal_block_memory *gal_kind_memory(const gal_kind_table *table, const gal_kind *kind, uint32_t block);

#endif
