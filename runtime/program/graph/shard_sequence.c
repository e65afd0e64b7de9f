/* Sequence parallelism: every device has a chunk of the positions, with all features. Weights are whole along the axis,
 * so their gradients are partial sums over it. Of a head that reads one row per sample the devices do the same work,
 * behind a sum of the parts that they have. In attention
 *     Ulysses   a device has all positions of its own heads (S. A. Jacobs et al., "DeepSpeed Ulysses", arXiv
 *               2309.14509, section 3.1)
 *     ring      its own queries, and the keys and values of one chunk after the other, as they pass round (H. Liu et
 *               al., "Ring Attention with Blockwise Transformers", arXiv 2310.01889, section 3)
 *     zigzag    a ring under a causal mask, where a device with late positions has all the work: so that everybody has
 *               the same, device r of N attends with halves 2r and 2N - 1 - 2r of the 2N half chunks (the pairs of
 * zhuzilin/ring-flash-attention's zigzag, its devices in another order; why: W. Brandon et al., "Striped Attention",
 * arXiv 2311.09431). Rows between blocks stay contiguous chunks: before attention a device trades the second half of
 * its queries, keys and values for its mirror's, and behind it the context. */
#include <string.h>

#include "runtime/program/graph/rewrite.h"

typedef struct rewriter {
    gal_graph *out;
    gal_axis_kind kind;
    uint32_t degree;
} rewriter;

static uint8_t of_own_heads(rewriter *r, uint8_t value)
{
    gal_value v = r->out->value[value];
    v.features /= r->degree;
    v.dealt = true;
    return gal_graph_add_value(r->out, v);
}

/* Queries, keys and values of a row of so many features, on a device of tp. */
static void set_parts(const gal_graph *g, gal_node_kind kind, uint32_t input, uint32_t part[GAL_FEATURE_PARTS])
{
    const uint32_t queries = g->shape.head_count / g->tp_degree * g->shape.head_dim;
    const uint32_t keys = g->shape.kv_head_count / g->tp_degree * g->shape.head_dim;
    memset(part, 0, GAL_FEATURE_PARTS * sizeof part[0]);
    if (kind == GAL_NODE_ATTENTION) {
        part[0] = queries;
        part[1] = part[2] = keys;
    } else if (input == 0) {
        part[0] = queries;
    } else {
        part[0] = part[1] = keys;
    }
}

static void deal_input(rewriter *r, gal_node *attention, uint32_t input)
{
    const uint8_t dealt = of_own_heads(r, attention->in[input]);
    gal_node deal = gal_graph_plain_node(GAL_NODE_DEAL_HEADS, "heads", "d heads", attention->in[input], dealt);
    set_parts(r->out, attention->kind, input, deal.part);
    gal_graph_add_node(r->out, &deal);
    attention->in[input] = dealt;
}

/* Every device's half chunks: 2r, and that of its mirror. */
static void rewrite_zigzag(rewriter *r, gal_node attention)
{
    const uint8_t qkv = attention.in[0], ctx = attention.out[0];
    attention.in[0] = gal_graph_add_value(r->out, r->out->value[qkv]);
    attention.out[0] = gal_graph_add_value(r->out, r->out->value[ctx]);
    attention.attention_flags |= GAL_ATTENTION_ZIGZAG;
    const gal_node trade = gal_graph_plain_node(GAL_NODE_MIRROR, "trade qkv", "trade dqkv", qkv, attention.in[0]);
    const gal_node back = gal_graph_plain_node(GAL_NODE_MIRROR, "trade ctx", "trade dctx", attention.out[0], ctx);
    gal_graph_add_node(r->out, &trade);
    gal_graph_add_node(r->out, &attention);
    gal_graph_add_node(r->out, &back);
}

static void rewrite_ring(rewriter *r, gal_node attention)
{
    GAL_ASSERT(attention.kind == GAL_NODE_ATTENTION && attention.weight == GAL_NO_VALUE);
    attention.kind = GAL_NODE_RING_ATTENTION;
    if (r->kind == GAL_AXIS_ZIGZAG) {
        rewrite_zigzag(r, attention);
    } else {
        gal_graph_add_node(r->out, &attention);
    }
}

static void rewrite_attention(rewriter *r, gal_node attention)
{
    if (r->kind != GAL_AXIS_ULYSSES) {
        rewrite_ring(r, attention);
        return;
    }
    const uint8_t ctx = attention.out[0], lse = attention.out[1];
    for (uint32_t i = 0; i < 2 && attention.in[i] != GAL_NO_VALUE; i++) {
        deal_input(r, &attention, i);
    }
    attention.out[0] = of_own_heads(r, ctx);
    r->out->value[lse].features /= r->degree;
    r->out->value[lse].dealt = true;
    gal_graph_add_node(r->out, &attention);
    gal_node collect = gal_graph_plain_node(GAL_NODE_COLLECT_HEADS, "positions", "d positions", attention.out[0], ctx);
    collect.part[0] = r->out->value[ctx].features;
    gal_graph_add_node(r->out, &collect);
}

/* One row per sample, a part of a sum: of the first position zeros on all devices but one. */
static void rewrite_single(rewriter *r, gal_node node)
{
    const uint8_t whole = node.out[0];
    node.out[0] = gal_graph_add_value(r->out, r->out->value[whole]);
    gal_graph_add_node(r->out, &node);
    gal_node reduce = gal_graph_plain_node(GAL_NODE_REDUCE, "reduce row", "", node.out[0], whole);
    reduce.over_sequence = true;
    gal_graph_add_node(r->out, &reduce);
}

void gal_shard_sequence(gal_graph *graph, gal_axis_kind kind, uint32_t degree)
{
    if (degree == 1) {
        return;
    }
    const gal_graph whole = *graph;
    rewriter r = {.out = graph, .kind = kind, .degree = degree};
    graph->node_count = 0;
    graph->sequence_degree = degree;
    graph->head_degree *= kind == GAL_AXIS_ULYSSES ? degree : 1;
    for (uint32_t i = 0; i < whole.node_count; i++) {
        const gal_node *node = &whole.node[i];
        switch (node->kind) {
        case GAL_NODE_ATTENTION:
        case GAL_NODE_CROSS_ATTENTION:
            rewrite_attention(&r, *node);
            break;
        case GAL_NODE_FIRST_POSITION:
        case GAL_NODE_MEAN_POSITION:
            rewrite_single(&r, *node);
            break;
        default:
            gal_graph_add_node(graph, node);
        }
    }
}
