/* 2D tensor parallelism, gathered or in steps (Q. Xu et al., "An efficient 2D method for training super-large deep
 * learning models", arXiv 2104.05343, Algorithms 1 to 3; Colossal-AI section III-A2). Device (i, j) of q x q has
 * samples i of q and features j of q of every activation, and block (i, j) of every weight [in][out].
 *
 * Y = X W: the row gathers X to a panel of q parts, the column gathers W to one, and Y = sum_t X_t W_t. Backward the
 * row sums the parts dX_t = dY W_t^T, each to the device that has it, and the column the parts dW_t = X_t^T dY. So X
 * and W move three times in all, Y and dY never: 3 (q - 1) (T in + in out) elements received, over all devices. SUMMA
 * sends the same part by part (emit_stepped.c); gathered, too, a part is a product of its own, so the panels are never
 * put together to one matrix. Look-ups in a token table are gathered in either form.
 *
 * Panels of X can be kept for backward, panels of W not. Of W a panel is in out / q elements, the same for all
 * microbatches, so it would be kept once: then a row is tensor parallelism of weights that are whole in it, the column
 * data parallelism that shards gradients and optimizer. That is Megatron's chunks of q beside ZeRO-2 over q, with the
 * same bytes of weights, gradients, optimizer and rows, which moves 5 T h per half of a layer and (q - 1) / q^2 forward
 * and backward (a gather and a scatter each way, one gather again), 10 a layer; a grid with both panels kept gathers
 * and scatters the inputs of four products, 14. It is in the space wherever q divides the positions.
 *
 * The token table lies [vocabulary i][features j], for look-ups. A head that shares it has to take it so: logits are
 * computed from the features that a device has, Y_t = X E_t^T, as a panel, and the row sums it part by part. Backward
 * the row gathers dY. It moves logits where the other form moves rows of the stream.
 *
 * A carried tensor is split as the stream is; what is a table of all heads (T5's relative bias) stays whole.
 *
 * Norms tell each other the moments of the rows along the row (emit_norm.c); bias gradients and those of norms are
 * summed over the column with those of other samples, so such a bias leaves the unit of its weight for one that is. */
#include "runtime/program/graph/graph.h"

#include <string.h>

typedef struct rewriter {
    gal_graph *out;
    const gal_graph *whole;
    uint8_t now[GAL_GRAPH_MAX]; /* old value -> the value that stands for it now */
    uint32_t side;
    gal_group row, column;
    bool stepped;
} rewriter;

static uint8_t add_value(rewriter *r, gal_value v)
{
    GAL_ASSERT(r->out->value_count < GAL_GRAPH_MAX);
    r->out->value[r->out->value_count] = v;
    return (uint8_t)r->out->value_count++;
}

static void add_node(rewriter *r, const gal_node *n)
{
    GAL_ASSERT(r->out->node_count < GAL_GRAPH_MAX);
    r->out->node[r->out->node_count++] = *n;
}

/* A node between two values that say the same. */
static uint8_t insert(rewriter *r, gal_node_kind kind, const char *name, const char *backward_name, uint8_t in,
                      uint64_t features)
{
    gal_value v = r->out->value[in];
    v.features = (uint32_t)features;
    const gal_node n = {.kind = kind,
                        .name = name,
                        .backward_name = backward_name,
                        .in = {in, GAL_NO_VALUE},
                        .out = {add_value(r, v), GAL_NO_VALUE},
                        .weight = GAL_NO_VALUE,
                        .bias = GAL_NO_VALUE};
    add_node(r, &n);
    return n.out[0];
}

/* Tokens and data are whole on the devices of a row, and so is what a row of an activation has one or two of. */
static bool is_whole(const gal_node *producer, uint32_t output)
{
    return producer != NULL && (producer->kind == GAL_NODE_LOAD || producer->kind == GAL_NODE_LOAD_PATCHES ||
                                producer->kind == GAL_NODE_LOAD_LENGTHS || producer->kind == GAL_NODE_CROSS_ENTROPY ||
                                (producer->kind == GAL_NODE_NORM && output == 1));
}

static uint8_t map_value(rewriter *r, const gal_node *producer, uint32_t output, uint8_t v)
{
    if (v == GAL_NO_VALUE) {
        return GAL_NO_VALUE;
    }
    gal_value mapped = r->whole->value[v];
    mapped.features /= is_whole(producer, output) ? 1 : r->side;
    r->now[v] = add_value(r, mapped);
    return r->now[v];
}

/* The dimensions of a tensor that its matrix has as rows and as columns, in memory. */
static void cut_matrix(gal_tensor *t, gal_group rows, gal_group columns)
{
    t->split_group = t->outer == 1 ? rows : columns;
    *(t->outer == 1 ? &t->inner_group : &t->outer_group) = t->outer == 1 ? columns : rows;
}

static bool holds_table(const rewriter *r, uint8_t tensor)
{
    return r->out->unit[r->out->tensor[tensor].unit].shared == GAL_SHARED_TABLE;
}

/* A unit for vectors that are not gathered. */
static uint8_t vectors_unit(gal_graph *g)
{
    for (uint8_t u = 0; u < g->unit_count; u++) {
        if (g->unit[u].persistent && g->unit[u].shared == GAL_SHARED_COUNT) {
            return u;
        }
    }
    return gal_graph_unit(g, "vectors", true, false);
}

/* The bias of a linear; gathered: its weight is, so that they have no gradient of one kind. */
static void cut_bias(rewriter *r, const gal_node *n, bool gathered)
{
    gal_graph *g = r->out;
    const uint8_t weight_unit = g->tensor[n->weight].unit;
    for (uint32_t t = n->bias; n->bias != GAL_NO_VALUE && t <= (uint32_t)n->bias + g->tensor[n->bias].joined; t++) {
        g->tensor[t].split_group = r->row;
        if (gathered && g->tensor[t].unit == weight_unit) {
            g->tensor[t].unit = vectors_unit(g);
        }
    }
}

static bool reads_data(const rewriter *r, const gal_node *old)
{
    for (uint32_t i = 0; i < r->whole->node_count; i++) {
        if (r->whole->node[i].out[0] == old->in[0]) {
            return r->whole->node[i].kind == GAL_NODE_LOAD_PATCHES;
        }
    }
    return false;
}

/* Groups of the weight of a linear: of rows in memory and of columns. */
static void cut_weight(rewriter *r, const gal_node *n, gal_group in, gal_group out)
{
    gal_graph *g = r->out;
    for (uint32_t t = n->weight; t <= (uint32_t)n->weight + g->tensor[n->weight].joined; t++) {
        cut_matrix(&g->tensor[t], n->weight_transposed ? out : in, n->weight_transposed ? in : out);
    }
    g->tensor[n->weight].gather_group = in == r->column || out == r->column ? r->column : GAL_GROUP_NONE;
}

static void rewrite_linear(rewriter *r, const gal_node *old, gal_node n)
{
    const bool data = reads_data(r, old), table = holds_table(r, n.weight);
    n.out_features /= r->side;
    n.in_features /= data ? 1 : r->side;
    cut_weight(r, &n, data ? GAL_GROUP_NONE : table ? r->row : r->column, table ? r->column : r->row);
    cut_bias(r, &n, !data);
    if (r->stepped && !data) {
        n.steps = r->side;
        n.steps_outputs = table;
    } else if (!data && !table) {
        n.in_panel = r->side;
        n.in[0] = insert(r, GAL_NODE_GATHER_SEQUENCE, "gather a", "scatter da", n.in[0], old->in_features);
    }
    n.out[0] = map_value(r, old, 0, old->out[0]);
    if (!table) {
        add_node(r, &n);
        return;
    }
    const uint8_t bias = n.bias;
    uint8_t y = n.out[0];
    n.bias = GAL_NO_VALUE;
    if (r->stepped) {
        add_node(r, &n);
    } else {
        n.out_panel = r->side;
        r->out->value[y].features = old->out_features;
        add_node(r, &n);
        y = insert(r, GAL_NODE_SCATTER_SEQUENCE, "scatter y", "gather dy", y, n.out_features);
    }
    if (bias != GAL_NO_VALUE) {
        y = insert(r, GAL_NODE_ADD_BIAS, "add bias", "", y, n.out_features);
        r->out->node[r->out->node_count - 1].bias = bias;
        r->out->node[r->out->node_count - 1].weight_gradient_name = "db";
    }
    r->now[old->out[0]] = y;
}

/* What other nodes read: vectors of the features, tables of rows of them, and tables by heads, which stay whole. */
static void cut_other(rewriter *r, const gal_node *n)
{
    const uint8_t read[2] = {n->weight, n->bias};
    for (uint32_t i = 0; i < 2; i++) {
        gal_tensor *t = read[i] == GAL_NO_VALUE ? NULL : &r->out->tensor[read[i]];
        if (t == NULL || r->out->unit[t->unit].by_heads) {
            continue;
        }
        if (n->kind == GAL_NODE_EMBED) {
            cut_matrix(t, r->column, r->row);
            t->gather_group = r->column;
        } else if (t->inner > 1) {
            t->inner_group = r->row;
        } else {
            t->split_group = r->row;
        }
    }
}

static void rewrite_node(rewriter *r, const gal_node *old)
{
    gal_node n = *old;
    for (uint32_t i = 0; i < GAL_NODE_INPUTS; i++) {
        n.in[i] = old->in[i] == GAL_NO_VALUE ? GAL_NO_VALUE : r->now[old->in[i]];
    }
    if (old->kind == GAL_NODE_LINEAR) {
        rewrite_linear(r, old, n);
        return;
    }
    cut_other(r, old);
    for (uint32_t i = 0; i < 2; i++) {
        n.out[i] = map_value(r, old, i, old->out[i]);
    }
    add_node(r, &n);
}

void gal_shard_2d(gal_graph *graph, const gal_atoms *atoms, gal_group row, gal_group column, bool stepped)
{
    const gal_graph whole = *graph;
    rewriter r = {.out = graph,
                  .whole = &whole,
                  .side = gal_group_size(atoms, row),
                  .row = row,
                  .column = column,
                  .stepped = stepped};
    GAL_ASSERT(r.side == gal_group_size(atoms, column));
    memset(r.now, GAL_NO_VALUE, sizeof r.now);
    graph->value_count = 0;
    graph->node_count = 0;
    graph->tp_degree = graph->head_degree = graph->feature_parts = r.side;
    if (whole.x != GAL_NO_VALUE) {
        graph->x = map_value(&r, NULL, 0, whole.x);
    }
    if (whole.carried_in != GAL_NO_VALUE) {
        graph->carried_in = map_value(&r, NULL, 0, whole.carried_in);
    }
    for (uint32_t i = 0; i < whole.node_count; i++) {
        rewrite_node(&r, &whole.node[i]);
    }
    graph->y = whole.y == GAL_NO_VALUE ? GAL_NO_VALUE : r.now[whole.y];
    graph->carried_out = whole.carried_out == GAL_NO_VALUE ? GAL_NO_VALUE : r.now[whole.carried_out];
}
