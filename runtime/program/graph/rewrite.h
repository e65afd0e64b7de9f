/* What shard passes have in common: a graph written anew from the whole one, node by node. For shard_<mode>.c alone. */
#ifndef GAL_RUNTIME_PROGRAM_GRAPH_REWRITE_H
#define GAL_RUNTIME_PROGRAM_GRAPH_REWRITE_H

#include "runtime/program/graph/graph.h"

/* The first member of a mode's own. */
typedef struct gal_rewriter gal_rewriter;
struct gal_rewriter {
    gal_graph *out;
    const gal_graph *whole;
    uint8_t now[GAL_GRAPH_MAX]; /* old value -> the value that stands for it now */
    /* What becomes of value v of the whole graph, output number `output` of producer (NULL: the block's input). */
    gal_value (*value)(const gal_rewriter *r, const gal_node *producer, uint32_t output, uint8_t v);
    /* Adds what becomes of a node: n is the old one with its inputs as they are now. */
    void (*node)(gal_rewriter *r, const gal_node *old, gal_node n);
};

/* r has its two functions; the graph's numbers of parts, which `value` may read, are the caller's to set. */
void gal_rewrite(gal_rewriter *r, gal_graph *graph);
/* Maps a value, and says so in `now`; GAL_NO_VALUE gives itself. */
uint8_t gal_rewrite_value(gal_rewriter *r, const gal_node *producer, uint32_t output, uint8_t v);
/* Adds the node with its outputs mapped. */
void gal_rewrite_plain(gal_rewriter *r, const gal_node *old, gal_node n);

uint8_t gal_graph_add_value(gal_graph *g, gal_value v);
gal_node *gal_graph_add_node(gal_graph *g, const gal_node *n);
/* A node of one input and one output that reads no tensor. */
gal_node gal_graph_plain_node(gal_node_kind kind, const char *name, const char *backward_name, uint8_t in, uint8_t out);
/* gal_graph_producer's; NULL: none. */
const gal_node *gal_graph_producer_node(const gal_graph *g, uint8_t v);

#endif
