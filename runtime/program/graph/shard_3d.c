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
#include "runtime/program/graph/rewrite.h"
#include "runtime/program/graph/shard_grid.h"

typedef struct cube {
    gal_rewriter base;
    uint32_t side;
    gal_group weights, inputs, outputs;
    uint8_t turned_unit; /* of vectors of turned features; GAL_NO_VALUE: none yet */
} cube;

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

/* Behind an odd number of products, but for those that are turned back. What is loaded is read beside other rows. */
static bool is_turned(const gal_graph *g, uint8_t v)
{
    const gal_node *n = gal_graph_producer_node(g, v);
    if (n != NULL && n->in[0] == GAL_NO_VALUE) {
        const gal_node *reader = reader_of(g, v);
        return reader->in[0] != v && is_turned(g, reader->in[0]);
    }
    return n != NULL && is_turned(g, n->in[0]) != (n->kind == GAL_NODE_LINEAR && n->role != GAL_ROLE_WHOLE);
}

static gal_value value_on_device(const gal_rewriter *r, const gal_node *producer, uint32_t output, uint8_t v)
{
    const cube *c = (const cube *)r;
    gal_value value = r->whole->value[v];
    value.features /= gal_grid_is_whole(producer, output) ? 1 : c->side;
    value.turned = is_turned(r->whole, v);
    return value;
}

static uint8_t turned_unit(cube *c)
{
    if (c->turned_unit == GAL_NO_VALUE) {
        c->turned_unit = gal_graph_unit(c->base.out, "turned vectors", true, false);
    }
    return c->turned_unit;
}

/* A node that moves rows, `in` its input. */
static uint8_t move(gal_graph *g, gal_node n, uint8_t in, gal_group over, gal_value out)
{
    n = gal_graph_plain_node(n.kind, n.name, n.backward_name, in, gal_graph_add_value(g, out));
    n.over = over;
    return gal_graph_add_node(g, &n)->out[0];
}

/* Of data rows have all features: a product of its own for every device. */
static void rewrite_data(cube *c, const gal_node *old, gal_node n)
{
    gal_graph *g = c->base.out;
    n.out_features /= c->side;
    gal_grid_cut_weight(g, &n, GAL_GROUP_NONE, c->outputs, GAL_GROUP_NONE);
    if (n.bias != GAL_NO_VALUE) {
        gal_grid_cut_vector(&g->tensor[n.bias], c->outputs);
    }
    n.out[0] = gal_rewrite_value(&c->base, old, 0, old->out[0]);
    gal_graph_add_node(g, &n);
}

/* It bears its product's name: a block has several. */
static uint8_t add_bias(cube *c, const char *name, uint8_t y, uint8_t bias, gal_group features)
{
    gal_graph *g = c->base.out;
    for (uint32_t t = bias; t <= (uint32_t)bias + g->tensor[bias].joined; t++) {
        gal_grid_cut_vector(&g->tensor[t], features);
        if (!g->unit[g->tensor[t].unit].persistent) {
            g->tensor[t].unit = turned_unit(c);
        }
    }
    gal_node n = gal_graph_plain_node(GAL_NODE_ADD_BIAS, name, "", y, gal_graph_add_value(g, g->value[y]));
    n.weight_gradient_name = "db";
    n.bias = bias;
    return gal_graph_add_node(g, &n)->out[0];
}

static void rewrite_linear(cube *c, const gal_node *old, gal_node n)
{
    static const gal_node gather = {
        .kind = GAL_NODE_GATHER_SEQUENCE, .name = "gather a", .backward_name = "scatter da"};
    static const gal_node scatter = {
        .kind = GAL_NODE_SCATTER_SEQUENCE, .name = "scatter y", .backward_name = "gather dy"};
    static const gal_node turn = {.kind = GAL_NODE_TURN, .name = "turn", .backward_name = "turn dy"};
    gal_graph *g = c->base.out;
    const bool turned = g->value[n.in[0]].turned;
    const gal_group in = turned ? c->inputs : c->outputs, out = turned ? c->outputs : c->inputs;
    const uint8_t bias = n.bias;
    gal_value rows = g->value[n.in[0]], sums = c->base.whole->value[old->out[0]];
    rows.row_blocks = sums.row_blocks = c->side;
    sums.features /= c->side;
    n.in_features /= c->side;
    n.out_features /= c->side;
    n.bias = GAL_NO_VALUE;
    gal_grid_cut_weight(g, &n, in, out, c->weights);
    g->tensor[n.weight].gather_group = c->weights;
    n.in[0] = move(g, gather, n.in[0], out, rows);
    n.out[0] = gal_graph_add_value(g, sums);
    gal_graph_add_node(g, &n);
    sums.row_blocks = 0;
    sums.turned = !turned;
    uint8_t y = move(g, scatter, n.out[0], in, sums);
    const bool back = old->role == GAL_ROLE_WHOLE;
    GAL_ASSERT(!turned || (bias == GAL_NO_VALUE && !back)); /* the bias of the other product is the residual's */
    if (back) {
        sums.turned = turned;
        y = move(g, turn, y, GAL_GROUP_NONE, sums);
    }
    if (bias != GAL_NO_VALUE) {
        y = add_bias(c, old->name, y, bias, back ? in : out);
    }
    c->base.now[old->out[0]] = y;
}

static void rewrite_node(gal_rewriter *r, const gal_node *old, gal_node n)
{
    cube *c = (cube *)r;
    if (old->kind == GAL_NODE_LINEAR) {
        (gal_grid_reads_data(r->whole, old) ? rewrite_data : rewrite_linear)(c, old, n);
        return;
    }
    const gal_group features = is_turned(r->whole, old->in[0]) ? c->inputs : c->outputs;
    gal_grid_cut_other(r->out, old, c->weights | c->inputs, c->outputs, features);
    gal_rewrite_plain(r, old, n);
}

void gal_shard_3d(gal_graph *graph, const gal_atoms *atoms, gal_group weights, gal_group inputs, gal_group outputs)
{
    cube c = {.base = {.value = value_on_device, .node = rewrite_node},
              .side = gal_group_size(atoms, inputs),
              .weights = weights,
              .inputs = inputs,
              .outputs = outputs,
              .turned_unit = GAL_NO_VALUE};
    graph->tp_degree = graph->head_degree = graph->feature_parts = c.side;
    gal_rewrite(&c.base, graph);
}
