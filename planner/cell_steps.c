/* The tables of a cell's steps, and the steps (planner/cell.h). */
#include <math.h>
#include <string.h>

#include "planner/cell.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t largest_turn(const gal_ring_turns *turns)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < turns->count; i++) {
        most = larger(most, turns->bytes[i]);
    }
    return most;
}

static gal_shared_bytes shared_of(const gal_cell *cell, const gal_block_memory *memory)
{
    const uint64_t gathers =
        larger(largest_turn(&memory->gathers_forward),
               larger(largest_turn(&memory->gathers_backward), largest_turn(&memory->gathers_evaluate)));
    return (gal_shared_bytes){.of = {[GAL_SHARED_GATHERED] = (int64_t)(cell->spec.prefetch_depth * gathers),
                                     [GAL_SHARED_BUCKET] = (int64_t)(2 * largest_turn(&memory->buckets)),
                                     [GAL_SHARED_SCRATCH] = (int64_t)memory->bytes.scratch,
                                     [GAL_SHARED_WORK] = (int64_t)memory->bytes.work}};
}

/* ---- rounding ---- */

static double largest_of_price(const gal_block_price *p)
{
    return fabs(p->forward_seconds) + fabs(p->backward_seconds) + fabs(p->sync_seconds) + fabs(p->enter_seconds) +
           fabs(p->leave_seconds) + fabs(p->tail_seconds) + fabs(p->update_seconds);
}

static double largest_of_pair(const gal_pair_price *p)
{
    return fabs(p->forward_seconds) + fabs(p->backward_seconds) + fabs(p->sync_seconds);
}

/* A power of two, 2^-52 of what no path exceeds. */
static double fine_unit(const gal_cell *cell)
{
    const size_t prices = gal_cell_price_count(cell);
    double price = 0.0;
    double pair = 0.0;
    double once = 0.0;
    for (size_t i = 0; i < prices; i++) {
        price = cell->price[i] == NULL ? price : fmax(price, largest_of_price(cell->price[i]));
    }
    for (size_t i = 0; i < gal_cell_pair_count(cell); i++) {
        pair = cell->pair[i] == NULL ? pair : fmax(pair, largest_of_pair(cell->pair[i]));
    }
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        once = fmax(once, cell->tied_seconds[s]);
        for (uint32_t stage = 0; stage < cell->spec.pp_degree; stage++) {
            once = fmax(once, 2.0 * cell->transfer[stage * cell->strategy_count + s]);
        }
    }
    int exponent = 0;
    (void)frexp((cell->spec.microbatch_count + 1.0) * (cell->block_count + 1.0) * (price + pair + once) +
                    cell->common_seconds,
                &exponent);
    return ldexp(1.0, exponent - 52);
}

static double rounded(const gal_cell *cell, double seconds)
{
    return rint(seconds / cell->unit_seconds) * cell->unit_seconds;
}

/* ---- tables ---- */

static int64_t at_most_two(const gal_cell *cell)
{
    return cell->spec.microbatch_count < 2 ? (int64_t)cell->spec.microbatch_count : 2;
}

static gal_cell_node node_of(const gal_cell *cell, const gal_block_price *price, uint32_t stage, uint32_t strategy)
{
    const gal_block_bytes *bytes = &price->memory.bytes;
    const bool last = stage + 1 == cell->spec.pp_degree;
    gal_cell_node node = {
        .block = {.forward_seconds = rounded(cell, price->forward_seconds),
                  .backward_seconds = rounded(cell, price->backward_seconds),
                  .tail_seconds = rounded(cell, price->sync_seconds),
                  .update_seconds = rounded(cell, price->update_seconds),
                  .bytes = (int64_t)(bytes->state + bytes->gradient + cell->in_flight[stage] * bytes->saved),
                  .shared = shared_of(cell, &price->memory)},
        .enter_seconds = rounded(cell, price->enter_seconds),
        .enter_tail_seconds = rounded(cell, price->tail_seconds),
        .close = {.backward_seconds = rounded(cell, price->leave_seconds),
                  .bytes = (last ? 2 : 1) * GAL_ALIGNMENT_BYTES}, /* norm, loss */
        .boundary_bytes = (int64_t)bytes->boundary,
        .input_bytes = (int64_t)bytes->input};
    if (!last) {
        node.close.bytes += 2 * at_most_two(cell) * node.boundary_bytes;
        node.close.once_seconds = 2.0 * cell->transfer[stage * cell->strategy_count + strategy];
    }
    return node;
}

/* x_in, c of them, and dx_out in place of the saved input. */
static int64_t entry_port_bytes(const gal_cell *cell, uint32_t stage, const gal_cell_node *from,
                                const gal_cell_node *to, bool converts)
{
    const int64_t k = cell->in_flight[stage];
    const int64_t m = cell->spec.microbatch_count;
    const int64_t two = at_most_two(cell);
    const int64_t received = from->boundary_bytes;
    return converts ? 2 * two * received : ((k < m ? k + 1 : m) + two) * received - k * to->input_bytes;
}

static gal_cell_edge edge_of(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t from, uint32_t to)
{
    const gal_conversions *c = &cell->conversions;
    const size_t conversion = (size_t)c->class_of[from] * c->class_count + c->class_of[to];
    const gal_pair_price *pair = cell->pair[gal_cell_pair_index(cell, block, stage, from, to)];
    const gal_cell_node *before = &cell->node[gal_cell_price_index(cell, block - 1, stage, from)];
    const gal_cell_node *behind = &cell->node[gal_cell_price_index(cell, block, stage, to)];
    return (gal_cell_edge){.legal = true,
                           .forward_seconds = rounded(cell, pair->forward_seconds),
                           .backward_seconds = rounded(cell, pair->backward_seconds),
                           .tail_seconds = rounded(cell, pair->sync_seconds),
                           .relayout_bytes = (int64_t)larger(pair->relayout_bytes, c->inside_bytes[conversion]),
                           .entry_relayout_bytes =
                               (int64_t)larger(pair->relayout_entry_bytes, c->entry_bytes[conversion]),
                           .entry_port_bytes = entry_port_bytes(cell, stage, before, behind, pair->converts)};
}

static void tabulate_edges(gal_cell *cell, uint32_t block, uint32_t stage)
{
    for (uint32_t from = 0; from < cell->strategy_count; from++) {
        for (uint32_t to = 0; to < cell->strategy_count; to++) {
            const size_t at = gal_cell_pair_index(cell, block, stage, from, to);
            if (cell->pair[at] != NULL) {
                cell->edge[at] = edge_of(cell, block, stage, from, to);
            }
        }
    }
}

void gal_cell_tabulate(gal_cell *cell)
{
    cell->unit_seconds = fine_unit(cell);
    for (uint32_t i = 0; i < cell->spec.pp_degree * cell->strategy_count; i++) {
        cell->transfer[i] = rounded(cell, cell->transfer[i]);
    }
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        cell->tied_seconds[s] = rounded(cell, cell->tied_seconds[s]);
    }
    cell->common_seconds = rounded(cell, cell->common_seconds);
    for (uint32_t stage = 0; stage < cell->spec.pp_degree; stage++) {
        for (uint32_t type = 0; type < cell->types.type_count; type++) {
            for (uint32_t s = 0; s < cell->strategy_count; s++) {
                const size_t at = gal_cell_price_index(cell, cell->types.type_first[type], stage, s);
                if (cell->price[at] != NULL) {
                    cell->node[at] = node_of(cell, cell->price[at], stage, s);
                }
            }
        }
        for (uint32_t pair = 0; pair < cell->types.pair_count; pair++) {
            tabulate_edges(cell, cell->types.pair_first[pair], stage);
        }
    }
}

/* ---- steps ---- */

static const gal_cell_node *node_at(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy)
{
    return &cell->node[gal_cell_price_index(cell, block, stage, strategy)];
}

static void add_edge(const gal_cell_edge *edge, gal_cell_step *out)
{
    out->forward_seconds += edge->forward_seconds;
    out->backward_seconds += edge->backward_seconds;
    out->tail_seconds += edge->tail_seconds;
}

/* The turn from backward to forward. */
static void add_turn(const gal_cell_node *node, gal_cell_step *out)
{
    out->forward_seconds += node->enter_seconds;
    out->tail_seconds += node->enter_tail_seconds;
}

void gal_cell_start(const gal_cell *cell, uint32_t strategy, gal_cell_step *out)
{
    const gal_cell_node *node = node_at(cell, 0, 0, strategy);
    *out = node->block;
    add_turn(node, out);
    out->once_seconds = cell->tied_seconds[strategy];
}

void gal_cell_follow(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t from, uint32_t strategy,
                     gal_cell_step *out)
{
    const gal_cell_edge *edge = &cell->edge[gal_cell_pair_index(cell, block, stage, from, strategy)];
    *out = node_at(cell, block, stage, strategy)->block;
    add_edge(edge, out);
    out->shared.of[GAL_SHARED_BOUNDARY] = 2 * node_at(cell, block - 1, stage, from)->boundary_bytes; /* dx lies as x */
    out->shared.of[GAL_SHARED_RELAYOUT] = edge->relayout_bytes;
}

void gal_cell_cross(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t from, uint32_t strategy,
                    gal_cell_step *out)
{
    const gal_cell_edge *edge = &cell->edge[gal_cell_pair_index(cell, block, stage, from, strategy)];
    const gal_cell_node *node = node_at(cell, block, stage, strategy);
    *out = node->block;
    add_edge(edge, out);
    add_turn(node, out);
    out->bytes += edge->entry_port_bytes;
    out->shared.of[GAL_SHARED_RELAYOUT] = edge->entry_relayout_bytes;
}

void gal_cell_reach(const gal_cell *cell, uint32_t block, const uint32_t *stage, const uint32_t *strategy,
                    gal_cell_step *out)
{
    if (block == 0) {
        gal_cell_start(cell, strategy[0], out);
    } else if (stage[block] == stage[block - 1]) {
        gal_cell_follow(cell, block, stage[block], strategy[block - 1], strategy[block], out);
    } else {
        gal_cell_cross(cell, block, stage[block], strategy[block - 1], strategy[block], out);
    }
}

void gal_cell_close(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy, gal_cell_step *out)
{
    *out = node_at(cell, block, stage, strategy)->close;
}

bool gal_cell_tied_alike(const gal_cell *cell, uint32_t embedding, uint32_t head)
{
    return !cell->spec.model->tied_embeddings ||
           gal_strategy_same_shards(&cell->strategy[embedding], &cell->strategy[head]);
}
