/* Recompute as a set of nodes that run again in backward. A value that backward reads is kept if its producer does not
 * run again; else whatever its producer reads is needed in its place. What nobody needs is neither kept nor run again:
 * so the last linear and the last collective of a fully recomputed block vanish (the redundant communication that
 * Oases section 3.3 removes), and gathers of sequence chunks and merges of a grid's neighbours are simply nodes that
 * always run again, the former unless the strategy keeps panels. Selective: attention alone runs again, from the
 * queries, keys and values that are kept (V. Korthikanti et al., "Reducing activation recomputation", arXiv 2205.05198,
 * section 5). */
#include "runtime/program/lower/emit.h"

static bool works_in_place(gal_node_kind kind)
{
    return kind == GAL_NODE_SPLIT || kind == GAL_NODE_REDUCE || kind == GAL_NODE_ROTARY || kind == GAL_NODE_SCALE ||
           kind == GAL_NODE_ADD_BIAS;
}

uint8_t gal_graph_storage(const gal_graph *graph, uint8_t value)
{
    uint8_t producer = gal_graph_producer(graph, value);
    while (producer != GAL_NO_VALUE && works_in_place(graph->node[producer].kind)) {
        value = graph->node[producer].in[0];
        producer = gal_graph_producer(graph, value);
    }
    return value;
}

static void need(gal_block_emit *e, uint8_t value)
{
    if (value == GAL_NO_VALUE || value == e->graph.x || value == e->graph.carried_in) {
        return;
    }
    uint8_t producer = gal_graph_producer(&e->graph, value);
    GAL_ASSERT(producer != GAL_NO_VALUE);
    if (!e->redo[producer]) {
        e->saved[gal_graph_storage(&e->graph, value)] = true;
        return;
    }
    for (uint32_t i = 0; i < GAL_NODE_INPUTS; i++) {
        need(e, e->graph.node[producer].in[i]);
    }
}

void gal_recompute_policy(gal_block_emit *e)
{
    const bool full = e->strategy->recompute >= GAL_RECOMPUTE_FULL || e->graph.head;
    const bool selective = e->strategy->recompute == GAL_RECOMPUTE_SELECTIVE;
    for (uint32_t i = 0; i < e->graph.node_count; i++) {
        gal_node_kind kind = e->graph.node[i].kind;
        /* What enters the block is kept as it is, whatever is gathered from it. */
        const uint8_t from = e->graph.node[i].in[0];
        const bool enters = from == e->graph.x || from == e->graph.carried_in;
        const bool kept = kind == GAL_NODE_GATHER_SEQUENCE && e->strategy->keep_panels && !enters;
        bool cheap = (kind == GAL_NODE_GATHER_SEQUENCE && !kept) || kind == GAL_NODE_SPLIT || kind == GAL_NODE_MERGE;
        const bool loads = kind == GAL_NODE_LOAD_LENGTHS || (kind == GAL_NODE_LOAD && !e->graph.head);
        const bool attends =
            kind == GAL_NODE_ATTENTION || kind == GAL_NODE_CROSS_ATTENTION || kind == GAL_NODE_RING_ATTENTION;
        e->redo[i] = cheap || (full && !loads) || (selective && attends);
    }
    for (uint32_t i = 0; i < e->graph.node_count; i++) {
        const gal_node *node = &e->graph.node[i];
        uint8_t needs = gal_node_backward_needs[node->kind];
        need(e, (needs & GAL_NEEDS_IN0) != 0 ? node->in[0] : GAL_NO_VALUE);
        need(e, (needs & GAL_NEEDS_IN1) != 0 ? node->in[1] : GAL_NO_VALUE);
        need(e, (needs & GAL_NEEDS_IN2) != 0 ? node->in[2] : GAL_NO_VALUE);
        need(e, (needs & GAL_NEEDS_OUT0) != 0 ? node->out[0] : GAL_NO_VALUE);
        need(e, (needs & GAL_NEEDS_OUT1) != 0 ? node->out[1] : GAL_NO_VALUE);
    }
}
