#include "runtime/program/graph/shard_grid.h"

#include "runtime/program/graph/rewrite.h"

bool gal_grid_is_whole(const gal_node *producer, uint32_t output)
{
    return producer != NULL && (producer->in[0] == GAL_NO_VALUE || producer->kind == GAL_NODE_CROSS_ENTROPY ||
                                (producer->kind == GAL_NODE_NORM && output == 1));
}

bool gal_grid_reads_data(const gal_graph *whole, const gal_node *linear)
{
    const gal_node *producer = gal_graph_producer_node(whole, linear->in[0]);
    return producer != NULL && producer->kind == GAL_NODE_LOAD_PATCHES;
}

/* The dimensions of a tensor that its matrix has as rows and as columns, in memory. */
static void cut_matrix(gal_tensor *t, gal_group rows, gal_group columns)
{
    t->split_group = t->outer == 1 ? rows : columns;
    *(t->outer == 1 ? &t->inner_group : &t->outer_group) = t->outer == 1 ? columns : rows;
}

void gal_grid_cut_vector(gal_tensor *t, gal_group features)
{
    *(t->inner > 1 ? &t->inner_group : &t->split_group) = features;
}

void gal_grid_cut_weight(gal_graph *g, const gal_node *linear, gal_group in, gal_group out, gal_group rows)
{
    const bool transposed = linear->weight_transposed;
    for (uint32_t t = linear->weight; t <= (uint32_t)linear->weight + g->tensor[linear->weight].joined; t++) {
        cut_matrix(&g->tensor[t], rows | (transposed ? out : in), transposed ? in : out);
    }
}

void gal_grid_cut_other(gal_graph *g, const gal_node *n, gal_group table, gal_group columns, gal_group features)
{
    const uint8_t read[2] = {n->weight, n->bias};
    for (uint32_t i = 0; i < 2; i++) {
        gal_tensor *t = read[i] == GAL_NO_VALUE ? NULL : &g->tensor[read[i]];
        if (t == NULL || g->unit[t->unit].by_heads) {
            continue;
        }
        if (n->kind == GAL_NODE_EMBED) {
            cut_matrix(t, table, columns);
            t->gather_group = table;
        } else {
            gal_grid_cut_vector(t, features);
        }
    }
}
