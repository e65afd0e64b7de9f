/* 3D tensor parallelism (Z. Bian et al., "Maximizing parallelism in distributed training for huge neural networks",
 * arXiv 2105.14450, Algorithms 1 and 2; Colossal-AI section III-A4). Of device (i, j, k) of l x l x l between blocks
 * the rows are those of (i, j), the features part k; of a weight of Y = X W rows (k, i) and columns j.
 *
 * j gathers the rows of X, i those of W, a product X_i,k W_k,j is one term of k's sum, and k sums and scatters its
 * rows: those of Y are of (i, k), its features part j. So the next product has the parts of j and k changed (a value is
 * turned), and behind two of them all is as before. Backward k gathers dY, j sums and scatters dX, i does dW. X and W
 * are gathered again there (X unless the strategy keeps panels), so of a product move in all (l - 1) (3 T in + 3 in out
 * + 2 T out) elements, counted as received by all devices: 2 (l - 1) of each where panels are kept, as the paper has
 * it. Where a block has one product more (the head of BERT), that one is turned back (emit_turn.c): 2 (l - 1) T out.
 *
 * Panels of X can be kept for backward, panels of W too. Of W a panel is in out / l^2 elements, alike for all
 * microbatches, so it is kept from one update to the next: then i is data parallelism that shards gradients and
 * optimizer by ZeRO's stage 1 or 2 (gal_mesh_of), and j and k are a square whose weights stay; `weights` is no group
 * here. With both panels kept a product moves 2 (l - 1) (T in + T out) elements per microbatch, a layer of four
 * 32 (l - 1) T h. Megatron's chunks over l^2 beside ZeRO-2 over l have the same bytes of weights, gradients, optimizer
 * and rows and move 10 (l^2 - 1) T h (a gather and a scatter each way and one gather again, of two halves, by l times
 * T / l rows): 30 for 32 T h on 8 devices, but 80 for 64 on 27 and 150 for 96 on 64.
 *
 * Rows that are gathered lie one device's behind another's, in the order in which the other group takes them off again:
 * nothing is copied. A weight of [out][in] in memory is cut in rows (j, i) and columns k, which gathers to the same
 * matrix. The token table is [vocabulary (j, i)][features k], as a head takes it; a look-up gathers it whole.
 *
 * Norms tell each other the moments of rows along the features of the rows they read. Vectors have the parts of the
 * features they belong to and are sums over the other two directions, so biases of turned rows are a unit. */
#include "runtime/program/graph/graph.h"

#include <string.h>

typedef struct rewriter {
    gal_graph *out;
    const gal_graph *whole;
    uint8_t now[GAL_GRAPH_MAX]; /* old value -> the value that stands for it now */
    uint32_t side;
    gal_group weights, inputs, outputs;
    uint8_t turned_unit; /* of vectors of turned features; GAL_NO_VALUE: none yet */
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

static const gal_node *producer_of(const gal_graph *g, uint8_t v)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (g->node[i].out[0] == v || g->node[i].out[1] == v) {
            return &g->node[i];
        }
    }
    return NULL;
}

static const gal_node *reader_of(const gal_graph *g, uint8_t v)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        for (uint32_t k = 0; k < GAL_NODE_INPUTS; k++) {
            if (g->node[i].in[k] == v) {
                return &g->node[i];
            }
        }
    }
    return NULL;
}

static bool reads_data(const gal_graph *g, const gal_node *n)
{
    const gal_node *producer = producer_of(g, n->in[0]);
    return producer != NULL && producer->kind == GAL_NODE_LOAD_PATCHES;
}

/* Behind an odd number of products, but for those that are turned back. What is loaded is read beside other rows. */
static bool is_turned(const gal_graph *g, uint8_t v)
{
    const gal_node *n = producer_of(g, v);
    if (n != NULL && n->in[0] == GAL_NO_VALUE) {
        const gal_node *reader = reader_of(g, v);
        return reader->in[0] != v && is_turned(g, reader->in[0]);
    }
    return n != NULL && is_turned(g, n->in[0]) != (n->kind == GAL_NODE_LINEAR && n->role != GAL_ROLE_WHOLE);
}

/* Tokens and data are whole, and so is what a row of an activation has one or two of. */
static bool is_whole(const gal_node *producer, uint32_t output)
{
    return producer != NULL && (producer->in[0] == GAL_NO_VALUE || producer->kind == GAL_NODE_CROSS_ENTROPY ||
                                (producer->kind == GAL_NODE_NORM && output == 1));
}

static uint8_t map_value(rewriter *r, const gal_node *producer, uint32_t output, uint8_t v)
{
    if (v == GAL_NO_VALUE) {
        return GAL_NO_VALUE;
    }
    gal_value mapped = r->whole->value[v];
    mapped.features /= is_whole(producer, output) ? 1 : r->side;
    mapped.turned = is_turned(r->whole, v);
    r->now[v] = add_value(r, mapped);
    return r->now[v];
}

/* The dimensions of a tensor that its matrix has as rows and as columns, in memory. */
static void cut_matrix(gal_tensor *t, gal_group rows, gal_group columns)
{
    t->split_group = t->outer == 1 ? rows : columns;
    *(t->outer == 1 ? &t->inner_group : &t->outer_group) = t->outer == 1 ? columns : rows;
}

static void cut_vector(gal_tensor *t, gal_group features)
{
    *(t->inner > 1 ? &t->inner_group : &t->split_group) = features;
}

static uint8_t turned_unit(rewriter *r)
{
    if (r->turned_unit == GAL_NO_VALUE) {
        r->turned_unit = gal_graph_unit(r->out, "turned vectors", true, false);
    }
    return r->turned_unit;
}

/* A node that moves rows, `in` its input. */
static uint8_t move(rewriter *r, gal_node n, uint8_t in, gal_group over, gal_value out)
{
    n.in[0] = in;
    n.in[1] = n.in[2] = n.out[1] = n.weight = n.bias = GAL_NO_VALUE;
    n.out[0] = add_value(r, out);
    n.over = over;
    add_node(r, &n);
    return n.out[0];
}

/* Of data rows have all features: a product of its own for every device. */
static void rewrite_data(rewriter *r, const gal_node *old, gal_node n)
{
    n.out_features /= r->side;
    gal_tensor *weight = &r->out->tensor[n.weight];
    cut_matrix(weight, n.weight_transposed ? r->outputs : GAL_GROUP_NONE,
               n.weight_transposed ? GAL_GROUP_NONE : r->outputs);
    if (n.bias != GAL_NO_VALUE) {
        cut_vector(&r->out->tensor[n.bias], r->outputs);
    }
    n.out[0] = map_value(r, old, 0, old->out[0]);
    add_node(r, &n);
}

static void cut_weight(rewriter *r, const gal_node *n, gal_group in, gal_group out)
{
    gal_graph *g = r->out;
    for (uint32_t t = n->weight; t <= (uint32_t)n->weight + g->tensor[n->weight].joined; t++) {
        cut_matrix(&g->tensor[t], r->weights | (n->weight_transposed ? out : in), n->weight_transposed ? in : out);
    }
    g->tensor[n->weight].gather_group = r->weights;
}

/* It bears its product's name: a block has several. */
static uint8_t add_bias(rewriter *r, const char *name, uint8_t y, uint8_t bias, gal_group features)
{
    gal_graph *g = r->out;
    for (uint32_t t = bias; t <= (uint32_t)bias + g->tensor[bias].joined; t++) {
        cut_vector(&g->tensor[t], features);
        if (!g->unit[g->tensor[t].unit].persistent) {
            g->tensor[t].unit = turned_unit(r);
        }
    }
    const gal_node n = {.kind = GAL_NODE_ADD_BIAS,
                        .name = name,
                        .backward_name = "",
                        .weight_gradient_name = "db",
                        .in = {y, GAL_NO_VALUE, GAL_NO_VALUE},
                        .out = {add_value(r, g->value[y]), GAL_NO_VALUE},
                        .weight = GAL_NO_VALUE,
                        .bias = bias};
    add_node(r, &n);
    return n.out[0];
}

static void rewrite_linear(rewriter *r, const gal_node *old, gal_node n)
{
    static const gal_node gather = {
        .kind = GAL_NODE_GATHER_SEQUENCE, .name = "gather a", .backward_name = "scatter da"};
    static const gal_node scatter = {
        .kind = GAL_NODE_SCATTER_SEQUENCE, .name = "scatter y", .backward_name = "gather dy"};
    static const gal_node turn = {.kind = GAL_NODE_TURN, .name = "turn", .backward_name = "turn dy"};
    const bool turned = r->out->value[n.in[0]].turned;
    const gal_group in = turned ? r->inputs : r->outputs, out = turned ? r->outputs : r->inputs;
    const uint8_t bias = n.bias;
    gal_value rows = r->out->value[n.in[0]], sums = r->whole->value[old->out[0]];
    rows.row_blocks = sums.row_blocks = r->side;
    sums.features /= r->side;
    n.in_features /= r->side;
    n.out_features /= r->side;
    n.bias = GAL_NO_VALUE;
    cut_weight(r, &n, in, out);
    n.in[0] = move(r, gather, n.in[0], out, rows);
    n.out[0] = add_value(r, sums);
    add_node(r, &n);
    sums.row_blocks = 0;
    sums.turned = !turned;
    uint8_t y = move(r, scatter, n.out[0], in, sums);
    const bool back = old->role == GAL_ROLE_WHOLE;
    GAL_ASSERT(!turned || (bias == GAL_NO_VALUE && !back)); /* the bias of the other product is the residual's */
    if (back) {
        sums.turned = turned;
        y = move(r, turn, y, GAL_GROUP_NONE, sums);
    }
    if (bias != GAL_NO_VALUE) {
        y = add_bias(r, old->name, y, bias, back ? in : out);
    }
    r->now[old->out[0]] = y;
}

/* What other nodes read: vectors of the features, tables of rows of them, and tables by heads, which stay whole. */
static void cut_other(rewriter *r, const gal_node *n)
{
    const uint8_t read[2] = {n->weight, n->bias};
    const gal_group features = is_turned(r->whole, n->in[0]) ? r->inputs : r->outputs;
    for (uint32_t i = 0; i < 2; i++) {
        gal_tensor *t = read[i] == GAL_NO_VALUE ? NULL : &r->out->tensor[read[i]];
        if (t == NULL || r->out->unit[t->unit].by_heads) {
            continue;
        }
        if (n->kind == GAL_NODE_EMBED) {
            cut_matrix(t, r->weights | r->inputs, r->outputs);
            t->gather_group = r->weights | r->inputs;
        } else {
            cut_vector(t, features);
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
        (reads_data(r->whole, old) ? rewrite_data : rewrite_linear)(r, old, n);
        return;
    }
    cut_other(r, old);
    for (uint32_t i = 0; i < 2; i++) {
        n.out[i] = map_value(r, old, i, old->out[i]);
    }
    add_node(r, &n);
}

void gal_shard_3d(gal_graph *graph, const gal_atoms *atoms, gal_group weights, gal_group inputs, gal_group outputs)
{
    const gal_graph whole = *graph;
    rewriter r = {.out = graph,
                  .whole = &whole,
                  .side = gal_group_size(atoms, inputs),
                  .weights = weights,
                  .inputs = inputs,
                  .outputs = outputs,
                  .turned_unit = GAL_NO_VALUE};
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
