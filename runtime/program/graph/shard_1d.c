/* 1D tensor parallelism (Megatron; Colossal-AI section III): column-parallel linears keep their outputs' features
 * split, row-parallel ones yield partial sums. Without sequence parallelism activations between the pairs are whole on
 * every device: identity in front of a column-parallel linear (its gradient is all-reduced), all-reduce behind a
 * row-parallel one. With it they are chunks of the positions: all-gather in front, reduce-scatter behind. */
#include "runtime/program/graph/graph.h"

#include <string.h>

typedef struct rewriter {
    gal_graph *out;
    uint8_t now[GAL_GRAPH_MAX]; /* old value -> the value that stands for it now */
    uint32_t tp_degree;
    bool sequence_parallel;
} rewriter;

static uint8_t add_value(rewriter *r, gal_value v)
{
    GAL_ASSERT(r->out->value_count < GAL_GRAPH_MAX);
    r->out->value[r->out->value_count] = v;
    return (uint8_t)r->out->value_count++;
}

static uint8_t insert(rewriter *r, gal_node_kind kind, const char *name, const char *backward_name, uint8_t in,
                      bool chunk)
{
    gal_value v = r->out->value[in];
    v.chunk = chunk;
    uint8_t out = add_value(r, v);
    GAL_ASSERT(r->out->node_count < GAL_GRAPH_MAX);
    r->out->node[r->out->node_count++] = (gal_node){.kind = kind,
                                                    .name = name,
                                                    .backward_name = backward_name,
                                                    .in = {in, GAL_NO_VALUE, GAL_NO_VALUE},
                                                    .out = {out, GAL_NO_VALUE},
                                                    .weight = GAL_NO_VALUE,
                                                    .bias = GAL_NO_VALUE};
    return out;
}

/* Whole rows in front of a column-parallel linear. One row per sample is on every device. */
static uint8_t enter(rewriter *r, uint8_t x)
{
    if (r->sequence_parallel && !r->out->value[x].single) {
        return insert(r, GAL_NODE_GATHER_SEQUENCE, "gather a", "scatter da", x, false);
    }
    return insert(r, GAL_NODE_SPLIT, "split a", "reduce da", x, false);
}

static uint8_t leave(rewriter *r, uint8_t y)
{
    if (r->sequence_parallel) {
        return insert(r, GAL_NODE_SCATTER_SEQUENCE, "scatter o", "gather do", y, true);
    }
    return insert(r, GAL_NODE_REDUCE, "reduce o", "", y, false);
}

static const gal_node *producer_of(const gal_graph *g, uint8_t v)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (g->node[i].out[0] == v || g->node[i].out[1] == v) {
            return &g->node[i];
        }
    }
    return NULL;
}

/* What a node makes of each feature by itself is split as its input is. */
static bool keeps_features(const gal_node *n)
{
    return n->kind == GAL_NODE_ROTARY || n->kind == GAL_NODE_ATTENTION || n->kind == GAL_NODE_CROSS_ATTENTION ||
           n->kind == GAL_NODE_ACTIVATION || n->kind == GAL_NODE_GATED_ACTIVATION;
}

/* Features: split behind column-parallel linears and what follows them up to the row-parallel one. */
static bool is_split(const gal_graph *g, uint8_t v)
{
    const gal_node *n = producer_of(g, v);
    while (n != NULL && keeps_features(n)) {
        n = producer_of(g, n->in[0]);
    }
    return n != NULL && n->kind == GAL_NODE_LINEAR && n->role == GAL_ROLE_COLUMN;
}

/* Rows: a chunk of the positions wherever features are whole, but for tokens and what is one row per sample. */
static bool is_chunk(const gal_graph *g, const gal_node *producer, uint8_t v)
{
    if (producer == NULL) {
        return v == g->x || v == g->carried_in;
    }
    if (producer->kind == GAL_NODE_ACTIVATION ||
        (producer->kind == GAL_NODE_LINEAR && producer->role == GAL_ROLE_WHOLE)) {
        return !is_split(g, v) && is_chunk(g, producer_of(g, producer->in[0]), producer->in[0]);
    }
    return producer->kind == GAL_NODE_NORM || producer->kind == GAL_NODE_RESIDUAL ||
           producer->kind == GAL_NODE_POSITION || producer->kind == GAL_NODE_DROPOUT ||
           producer->kind == GAL_NODE_LOAD_PATCHES || producer->kind == GAL_NODE_SCALE ||
           producer->kind == GAL_NODE_MERGE;
}

static uint8_t map_value(rewriter *r, const gal_graph *g, const gal_node *producer, uint8_t v)
{
    if (v == GAL_NO_VALUE) {
        return GAL_NO_VALUE;
    }
    gal_value mapped = g->value[v];
    mapped.features /= is_split(g, v) ? r->tp_degree : 1;
    mapped.chunk = r->sequence_parallel && is_chunk(g, producer, v);
    r->now[v] = add_value(r, mapped);
    return r->now[v];
}

static void rewrite_node(rewriter *r, const gal_graph *g, const gal_node *old)
{
    gal_node n = *old;
    for (uint32_t i = 0; i < GAL_NODE_INPUTS; i++) {
        n.in[i] = old->in[i] == GAL_NO_VALUE ? GAL_NO_VALUE : r->now[old->in[i]];
    }
    if (old->kind == GAL_NODE_LINEAR && old->role == GAL_ROLE_COLUMN) {
        n.in[0] = enter(r, n.in[0]);
        n.out_features /= r->tp_degree;
    } else if (old->kind == GAL_NODE_LINEAR && old->role == GAL_ROLE_ROW) {
        n.in_features /= r->tp_degree;
    }
    for (uint32_t i = 0; i < 2; i++) {
        n.out[i] = map_value(r, g, old, old->out[i]);
    }
    GAL_ASSERT(r->out->node_count < GAL_GRAPH_MAX);
    r->out->node[r->out->node_count++] = n;
    if (old->role == GAL_ROLE_ROW) {
        r->now[old->out[0]] = leave(r, n.out[0]);
    } else if ((old->kind == GAL_NODE_FIRST_POSITION || old->kind == GAL_NODE_MEAN_POSITION) && r->sequence_parallel) {
        /* parts of a sum: of the first position zeros on all devices but one */
        r->now[old->out[0]] = insert(r, GAL_NODE_REDUCE, "reduce o", "", n.out[0], false);
    }
}

void gal_shard_1d(gal_graph *graph, const gal_atoms *atoms, gal_group tp, bool sequence_parallel)
{
    const uint32_t tp_degree = gal_group_size(atoms, tp);
    if (tp_degree == 1) {
        return;
    }
    for (uint32_t t = 0; t < graph->tensor_count; t++) {
        graph->tensor[t].split_group = graph->tensor[t].is_split ? tp : GAL_GROUP_NONE;
    }
    const gal_graph whole = *graph;
    rewriter r = {.out = graph, .tp_degree = tp_degree, .sequence_parallel = sequence_parallel};
    memset(r.now, GAL_NO_VALUE, sizeof r.now);
    graph->value_count = 0;
    graph->node_count = 0;
    graph->tp_degree = graph->head_degree = tp_degree;
    if (whole.x != GAL_NO_VALUE) {
        graph->x = map_value(&r, &whole, NULL, whole.x);
    }
    if (whole.carried_in != GAL_NO_VALUE) {
        graph->carried_in = map_value(&r, &whole, NULL, whole.carried_in);
    }
    for (uint32_t i = 0; i < whole.node_count; i++) {
        rewrite_node(&r, &whole, &whole.node[i]);
    }
    graph->y = whole.y == GAL_NO_VALUE ? GAL_NO_VALUE : r.now[whole.y];
    graph->carried_out = whole.carried_out == GAL_NO_VALUE ? GAL_NO_VALUE : r.now[whole.carried_out];
}
