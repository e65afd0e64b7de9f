/* 1D tensor parallelism (Megatron; Colossal-AI section III): column-parallel linears keep their outputs' features
 * split, row-parallel ones yield partial sums. Without sequence parallelism activations between the pairs are whole on
 * every device: identity in front of a column-parallel linear (its gradient is all-reduced), all-reduce behind a
 * row-parallel one. With it they are chunks of the positions: all-gather in front, reduce-scatter behind. */
#include "runtime/program/graph/rewrite.h"

typedef struct line {
    gal_rewriter base;
    uint32_t tp_degree;
    bool sequence_parallel;
} line;

static uint8_t insert(gal_graph *g, gal_node_kind kind, const char *name, const char *backward_name, uint8_t in,
                      bool chunk)
{
    gal_value v = g->value[in];
    v.chunk = chunk;
    const gal_node n = gal_graph_plain_node(kind, name, backward_name, in, gal_graph_add_value(g, v));
    return gal_graph_add_node(g, &n)->out[0];
}

/* Whole rows in front of a column-parallel linear. One row per sample is on every device. */
static uint8_t enter(line *l, uint8_t x)
{
    if (l->sequence_parallel && !l->base.out->value[x].single) {
        return insert(l->base.out, GAL_NODE_GATHER_SEQUENCE, "gather a", "scatter da", x, false);
    }
    return insert(l->base.out, GAL_NODE_SPLIT, "split a", "reduce da", x, false);
}

static uint8_t leave(line *l, uint8_t y)
{
    if (l->sequence_parallel) {
        return insert(l->base.out, GAL_NODE_SCATTER_SEQUENCE, "scatter o", "gather do", y, true);
    }
    return insert(l->base.out, GAL_NODE_REDUCE, "reduce o", "", y, false);
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
    const gal_node *n = gal_graph_producer_node(g, v);
    while (n != NULL && keeps_features(n)) {
        n = gal_graph_producer_node(g, n->in[0]);
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
        return !is_split(g, v) && is_chunk(g, gal_graph_producer_node(g, producer->in[0]), producer->in[0]);
    }
    return producer->kind == GAL_NODE_NORM || producer->kind == GAL_NODE_RESIDUAL ||
           producer->kind == GAL_NODE_POSITION || producer->kind == GAL_NODE_DROPOUT ||
           producer->kind == GAL_NODE_LOAD_PATCHES || producer->kind == GAL_NODE_SCALE ||
           producer->kind == GAL_NODE_MERGE;
}

static gal_value value_on_device(const gal_rewriter *r, const gal_node *producer, uint32_t output, uint8_t v)
{
    const line *l = (const line *)r;
    gal_value value = r->whole->value[v];
    (void)output;
    value.features /= is_split(r->whole, v) ? l->tp_degree : 1;
    value.chunk = l->sequence_parallel && is_chunk(r->whole, producer, v);
    return value;
}

static void rewrite_node(gal_rewriter *r, const gal_node *old, gal_node n)
{
    line *l = (line *)r;
    if (old->kind == GAL_NODE_LINEAR && old->role == GAL_ROLE_COLUMN) {
        n.in[0] = enter(l, n.in[0]);
        n.out_features /= l->tp_degree;
    } else if (old->kind == GAL_NODE_LINEAR && old->role == GAL_ROLE_ROW) {
        n.in_features /= l->tp_degree;
    }
    gal_rewrite_plain(r, old, n);
    uint8_t *y = &r->now[old->out[0]];
    if (old->role == GAL_ROLE_ROW) {
        *y = leave(l, *y);
    } else if ((old->kind == GAL_NODE_FIRST_POSITION || old->kind == GAL_NODE_MEAN_POSITION) && l->sequence_parallel) {
        /* parts of a sum: of the first position zeros on all devices but one */
        *y = insert(r->out, GAL_NODE_REDUCE, "reduce o", "", *y, false);
    }
}

void gal_shard_1d(gal_graph *graph, const gal_atoms *atoms, gal_group tp, bool sequence_parallel)
{
    line l = {.base = {.value = value_on_device, .node = rewrite_node},
              .tp_degree = gal_group_size(atoms, tp),
              .sequence_parallel = sequence_parallel};
    if (l.tp_degree == 1) {
        return;
    }
    for (uint32_t t = 0; t < graph->tensor_count; t++) {
        graph->tensor[t].split_group = graph->tensor[t].is_split ? tp : GAL_GROUP_NONE;
    }
    graph->tp_degree = graph->head_degree = l.tp_degree;
    gal_rewrite(&l.base, graph);
}
