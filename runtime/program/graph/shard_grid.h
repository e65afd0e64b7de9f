/* What the grids, square and cube, have in common: which parts of a block's tensors and values a device has. For
 * shard_2d.c and shard_3d.c alone. */
#ifndef GAL_RUNTIME_PROGRAM_GRAPH_SHARD_GRID_H
#define GAL_RUNTIME_PROGRAM_GRAPH_SHARD_GRID_H

#include "runtime/program/graph/graph.h"

/* Tokens and data are whole on all devices, and so is what a row of an activation has one or two of. producer NULL:
 * the value is the block's input. */
bool gal_grid_is_whole(const gal_node *producer, uint32_t output);

/* Whether a linear of the whole graph reads patches, whose features no device has a part of. */
bool gal_grid_reads_data(const gal_graph *whole, const gal_node *linear);

/* A vector of the features, or a table of rows of them. */
void gal_grid_cut_vector(gal_tensor *t, gal_group features);

/* The weights of a linear.
 * in, out  of its matrix [in][out], whichever of them are rows in memory
 * rows     cut by these besides, in memory */
void gal_grid_cut_weight(gal_graph *g, const gal_node *linear, gal_group in, gal_group out, gal_group rows);

/* What nodes that are no linears read: vectors of the features, tables of rows of them, and tables by heads, which stay
 * whole.
 * table     rows of a token table that is looked up in; it is gathered over these
 * columns   of such a table
 * features  of the vectors */
void gal_grid_cut_other(gal_graph *g, const gal_node *n, gal_group table, gal_group columns, gal_group features);

#endif
