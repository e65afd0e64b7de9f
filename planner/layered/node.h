/* A node of the search: one cell (batch, microbatch count, pipeline degree), one way in which the rows lie on the
 * devices of a stage, and one way in which they keep the token table if several blocks hold it.
 *
 * Within a node every layer takes a kind of one group, so nothing is converted, and what a stage takes is a sum over
 * its layers. Its least seconds within memory come from hulls: one for each type of layer and each threshold of the
 * bytes that layers use by turns (kinds above the threshold are out, and the threshold is charged). */
#ifndef GAL_PLANNER_LAYERED_NODE_H
#define GAL_PLANNER_LAYERED_NODE_H

#include "planner/cell/search_request.h"
#include "planner/hull/hull.h"
#include "planner/partition/partition.h"
#include "planner/price/kind_table.h"

typedef struct gal_node {
    gal_cell_numbers numbers;
    gal_kind_table *table; /* of the stage's devices and the samples of a microbatch; not owned */
    uint32_t rows;         /* group of the table */
    uint32_t shards;       /* with a shared token table: the strategy that its holders shard it like; else unused */
    gal_finish finish;     /* by which its kinds and cuts are chosen */
    double bound_seconds;  /* of a step: what is known so far */
} gal_node;

/* What is the same for all nodes of a search. */
typedef struct gal_node_limits {
    uint64_t arena_bytes; /* of a device, without the profile's fixed bytes */
    gal_schedule schedule;
} gal_node_limits;

/* Which kinds a type of layer may take, of the node's group. */
bool gal_node_allows(const gal_node *node, const gal_kind *kind);

/* The hulls of a node's stages at the seconds that its kinds have now, and what stages of layers take by them. */
typedef struct gal_node_stages gal_node_stages;

/* spare_bytes[stage]: what is kept free of each; NULL: nothing. backward_seconds: of a stage, about: reductions of a
 * stage hide behind the backward of each stage before it. GAL_ERR_SYSTEM without memory. */
gal_code gal_node_stages_create(const gal_node *node, const gal_node_limits *limits, const int64_t *spare_bytes,
                                double backward_seconds, gal_node_stages **out, gal_error *err);
void gal_node_stages_free(gal_node_stages *stages); /* accepts NULL */

/* What stage `stage` takes at least for the layers [begin, end), as gal_partition_problem asks; infinite: they do not
 * fit. context: the gal_node_stages. */
gal_stage_seconds gal_node_stage_seconds(void *context, uint32_t stage, uint32_t begin, uint32_t end);

/* By how much a stage's bottleneck falls at most with a layer more: its rows may be fewer. */
double gal_node_transfer_falls(const gal_node_stages *stages);

/* The kinds by which that is reached, layers divisible. */
typedef struct gal_node_mix {
    uint32_t low, high;   /* kinds; equal: of one kind alone */
    uint32_t layer_count; /* of the type on the stage; 0: none */
    double high_layers;
} gal_node_mix;
/* mix[GAL_LAYER_TYPES_MAX]; what fits. */
void gal_node_stage_mix(gal_node_stages *stages, uint32_t stage, uint32_t begin, uint32_t end, gal_node_mix *mix);

/* Exact arena bytes of a stage whose layers [begin, end) have the kinds kind[begin ..]. */
gal_code gal_node_stage_bytes(const gal_node *node, const gal_node_limits *limits, uint32_t stage, uint32_t begin,
                              uint32_t end, const uint32_t *kind, uint64_t *bytes, gal_error *err);

#endif
