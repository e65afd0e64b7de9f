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
#include "runtime/program/graph/rewrite.h"
#include "runtime/program/graph/shard_grid.h"

typedef struct square {
    gal_rewriter base;
    uint32_t side;
    gal_group row, column;
    bool stepped;
} square;

/* A node between two values that say the same. */
static uint8_t insert(gal_graph *g, gal_node_kind kind, const char *name, const char *backward_name, uint8_t in,
                      uint64_t features)
{
    gal_value v = g->value[in];
    v.features = (uint32_t)features;
    const gal_node n = gal_graph_plain_node(kind, name, backward_name, in, gal_graph_add_value(g, v));
    return gal_graph_add_node(g, &n)->out[0];
}

static gal_value value_on_device(const gal_rewriter *r, const gal_node *producer, uint32_t output, uint8_t v)
{
    const square *s = (const square *)r;
    gal_value value = r->whole->value[v];
    value.features /= gal_grid_is_whole(producer, output) ? 1 : s->side;
    return value;
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
static void cut_bias(const square *s, const gal_node *n, bool gathered)
{
    gal_graph *g = s->base.out;
    const uint8_t weight_unit = g->tensor[n->weight].unit;
    for (uint32_t t = n->bias; n->bias != GAL_NO_VALUE && t <= (uint32_t)n->bias + g->tensor[n->bias].joined; t++) {
        g->tensor[t].split_group = s->row;
        if (gathered && g->tensor[t].unit == weight_unit) {
            g->tensor[t].unit = vectors_unit(g);
        }
    }
}

static void rewrite_linear(square *s, const gal_node *old, gal_node n)
{
    gal_rewriter *r = &s->base;
    gal_graph *g = r->out;
    const bool data = gal_grid_reads_data(r->whole, old);
    const bool table = g->unit[g->tensor[n.weight].unit].shared == GAL_SHARED_TABLE;
    n.out_features /= s->side;
    n.in_features /= data ? 1 : s->side;
    const gal_group in = table ? s->row : s->column, out = table ? s->column : s->row;
    gal_grid_cut_weight(g, &n, data ? GAL_GROUP_NONE : in, out, GAL_GROUP_NONE);
    g->tensor[n.weight].gather_group = data ? GAL_GROUP_NONE : s->column;
    cut_bias(s, &n, !data);
    if (s->stepped && !data) {
        n.steps = s->side;
        n.steps_outputs = table;
    } else if (!data && !table) {
        n.in_panel = s->side;
        n.in[0] = insert(g, GAL_NODE_GATHER_SEQUENCE, "gather a", "scatter da", n.in[0], old->in_features);
    }
    n.out[0] = gal_rewrite_value(r, old, 0, old->out[0]);
    if (!table) {
        gal_graph_add_node(g, &n);
        return;
    }
    const uint8_t bias = n.bias;
    uint8_t y = n.out[0];
    n.bias = GAL_NO_VALUE;
    if (s->stepped) {
        gal_graph_add_node(g, &n);
    } else {
        n.out_panel = s->side;
        g->value[y].features = old->out_features;
        gal_graph_add_node(g, &n);
        y = insert(g, GAL_NODE_SCATTER_SEQUENCE, "scatter y", "gather dy", y, n.out_features);
    }
    if (bias != GAL_NO_VALUE) {
        y = insert(g, GAL_NODE_ADD_BIAS, "add bias", "", y, n.out_features);
        g->node[g->node_count - 1].bias = bias;
        g->node[g->node_count - 1].weight_gradient_name = "db";
    }
    r->now[old->out[0]] = y;
}

static void rewrite_node(gal_rewriter *r, const gal_node *old, gal_node n)
{
    square *s = (square *)r;
    if (old->kind == GAL_NODE_LINEAR) {
        rewrite_linear(s, old, n);
        return;
    }
    gal_grid_cut_other(r->out, old, s->column, s->row, s->row);
    gal_rewrite_plain(r, old, n);
}

void gal_shard_2d(gal_graph *graph, const gal_atoms *atoms, gal_group row, gal_group column, bool stepped)
{
    square s = {.base = {.value = value_on_device, .node = rewrite_node},
                .side = gal_group_size(atoms, row),
                .row = row,
                .column = column,
                .stepped = stepped};
    GAL_ASSERT(s.side == gal_group_size(atoms, column));
    graph->tp_degree = graph->head_degree = graph->feature_parts = s.side;
    gal_rewrite(&s.base, graph);
}
