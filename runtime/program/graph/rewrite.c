#include "runtime/program/graph/rewrite.h"

#include <string.h>

uint8_t gal_graph_add_value(gal_graph *g, gal_value v)
{
    GAL_ASSERT(g->value_count < GAL_GRAPH_MAX);
    g->value[g->value_count] = v;
    return (uint8_t)g->value_count++;
}

gal_node *gal_graph_add_node(gal_graph *g, const gal_node *n)
{
    GAL_ASSERT(g->node_count < GAL_GRAPH_MAX);
    g->node[g->node_count] = *n;
    return &g->node[g->node_count++];
}

gal_node gal_graph_plain_node(gal_node_kind kind, const char *name, const char *backward_name, uint8_t in, uint8_t out)
{
    return (gal_node){.kind = kind,
                      .name = name,
                      .backward_name = backward_name,
                      .in = {in, GAL_NO_VALUE, GAL_NO_VALUE},
                      .out = {out, GAL_NO_VALUE},
                      .weight = GAL_NO_VALUE,
                      .bias = GAL_NO_VALUE};
}

const gal_node *gal_graph_producer_node(const gal_graph *g, uint8_t v)
{
    const uint8_t producer = gal_graph_producer(g, v);
    return producer == GAL_NO_VALUE ? NULL : &g->node[producer];
}

uint8_t gal_rewrite_value(gal_rewriter *r, const gal_node *producer, uint32_t output, uint8_t v)
{
    if (v == GAL_NO_VALUE) {
        return GAL_NO_VALUE;
    }
    r->now[v] = gal_graph_add_value(r->out, r->value(r, producer, output, v));
    return r->now[v];
}

void gal_rewrite_plain(gal_rewriter *r, const gal_node *old, gal_node n)
{
    for (uint32_t i = 0; i < 2; i++) {
        n.out[i] = gal_rewrite_value(r, old, i, old->out[i]);
    }
    gal_graph_add_node(r->out, &n);
}

static uint8_t now_of(const gal_rewriter *r, uint8_t v)
{
    return v == GAL_NO_VALUE ? GAL_NO_VALUE : r->now[v];
}

void gal_rewrite(gal_rewriter *r, gal_graph *graph)
{
    const gal_graph whole = *graph;
    r->out = graph;
    r->whole = &whole;
    memset(r->now, GAL_NO_VALUE, sizeof r->now);
    graph->value_count = 0;
    graph->node_count = 0;
    graph->x = gal_rewrite_value(r, NULL, 0, whole.x);
    graph->carried_in = gal_rewrite_value(r, NULL, 0, whole.carried_in);
    for (uint32_t i = 0; i < whole.node_count; i++) {
        gal_node n = whole.node[i];
        for (uint32_t k = 0; k < GAL_NODE_INPUTS; k++) {
            n.in[k] = now_of(r, n.in[k]);
        }
        r->node(r, &whole.node[i], n);
    }
    graph->y = now_of(r, whole.y);
    graph->carried_out = now_of(r, whole.carried_out);
    r->whole = NULL;
}
