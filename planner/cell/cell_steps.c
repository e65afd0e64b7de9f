/* The tables of a cell's steps, and the steps (planner/cell/cell.h). */
#include <math.h>
#include <string.h>

#include "costmodel/lag.h"
#include "planner/cell/cell.h"

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

uint32_t gal_cell_work_sides(const gal_space *space, const gal_block_types *types, uint32_t type)
{
    return space->overlap ? types->type_sides[type] : 0;
}

gal_shared_bytes gal_cell_shared_of(const gal_block_memory *memory, uint32_t prefetch_depth, uint32_t work_sides)
{
    const bool across = !memory->halved && work_sides != 0;
    const int64_t work = (int64_t)memory->bytes.work / (across ? 2 : 1);
    const bool is_even = memory->halved ? work_sides != GAL_SIDE_ODD : true;
    const bool is_odd = memory->halved ? work_sides != GAL_SIDE_EVEN : across;
    const uint64_t gathers =
        larger(largest_turn(&memory->gathers_forward),
               larger(largest_turn(&memory->gathers_backward), largest_turn(&memory->gathers_evaluate)));
    return (gal_shared_bytes){.of = {[GAL_SHARED_GATHERED] = (int64_t)(prefetch_depth * gathers),
                                     [GAL_SHARED_BUCKET] = (int64_t)(2 * largest_turn(&memory->buckets)),
                                     [GAL_SHARED_SCRATCH] = (int64_t)memory->bytes.scratch,
                                     [GAL_SHARED_WORK_EVEN] = is_even ? work : 0,
                                     [GAL_SHARED_WORK_ODD] = is_odd ? work : 0,
                                     [GAL_SHARED_STAGED_INPUT] = (int64_t)(2 * memory->bytes.staged_input),
                                     [GAL_SHARED_STAGED_SAVED] = (int64_t)(2 * memory->bytes.staged_saved),
                                     [GAL_SHARED_BESIDE] = (int64_t)(memory->halved ? memory->bytes.boundary : 0)}};
}

/* ---- rounding ---- */

static double largest_of_price(const gal_block_price *p)
{
    return fabs(p->forward_seconds) + fabs(p->backward_seconds) + fabs(p->lag_seconds) + fabs(p->once_seconds) +
           fabs(p->enter_seconds) + fabs(p->leave_seconds) + fabs(p->tail_seconds) + fabs(p->update_seconds);
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
    double carried = 0.0;
    double once = 0.0;
    for (size_t i = 0; i < prices; i++) {
        price = cell->price[i] == NULL ? price : fmax(price, largest_of_price(cell->price[i]));
    }
    for (size_t i = 0; i < gal_cell_pair_count(cell); i++) {
        pair = cell->pair[i] == NULL ? pair : fmax(pair, largest_of_pair(cell->pair[i]));
        carried = cell->carried[i] == NULL ? carried : fmax(carried, largest_of_pair(cell->carried[i]));
    }
    for (size_t i = 0; i < prices; i++) {
        once = fmax(once, 2.0 * cell->transfer[i]);
    }
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        once = fmax(once, cell->table_seconds[s]);
    }
    int exponent = 0;
    (void)frexp((cell->spec.microbatch_count + 1.0) * (cell->block_count + 1.0) * (price + pair + carried + once) +
                    cell->common_seconds,
                &exponent);
    return ldexp(1.0, exponent - 50); /* eighths of them are exact, too */
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

static bool head_holds_table(const gal_cell *cell)
{
    return gal_cell_holds_table(cell, cell->block_count - 1);
}

/* Whether another block of the stage brings the token table: on the first stage the embedding, on the last one the head
 * if it holds it. */
bool gal_cell_borrows_table(const gal_cell *cell, uint32_t block, uint32_t stage)
{
    const bool head = block + 1 == cell->block_count;
    const bool beside_head = stage + 1 == cell->spec.pp_degree && head_holds_table(cell);
    return gal_cell_holds_table(cell, block) && (stage == 0 ? block > 0 : !head && beside_head);
}

/* The table is reduced between its stages once: charged to the embedding where the head holds it on another one, else
 * to the other holder unless it is on the first stage too. */
static double table_seconds(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy)
{
    const bool pays = gal_cell_holds_table(cell, block) && (block == 0) == head_holds_table(cell);
    return pays && (block == 0 || stage > 0) ? cell->table_seconds[strategy] : 0.0;
}

/* Of states and gradient, and of the update, what the block pays by itself. */
static int64_t state_bytes(const gal_block_memory *memory, bool borrows)
{
    uint64_t bytes = memory->bytes.state + memory->bytes.gradient;
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
        bytes -= shared != GAL_SHARED_TABLE || borrows ? memory->shared_bytes[shared] : 0;
    }
    return (int64_t)bytes;
}

static double update_seconds(const gal_block_price *price, bool borrows)
{
    double seconds = price->update_seconds;
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
        seconds -= shared != GAL_SHARED_TABLE || borrows ? price->shared_update_seconds[shared] : 0.0;
    }
    return seconds;
}

static int64_t carried_bytes(const gal_cell *cell, gal_flow carried, uint32_t strategy)
{
    return (int64_t)gal_price_rows_bytes(cell->spec.model, &cell->strategy[strategy], cell->samples, carried);
}

/* k items of a version that is made here, and its gradient. */
static int64_t version_bytes(const gal_cell *cell, gal_flow carried, uint32_t stage, uint32_t strategy)
{
    return (cell->in_flight[stage] + INT64_C(1)) * carried_bytes(cell, carried, strategy);
}

/* What a version that no block reads as it is takes more than its k items: it waits as what is sent does. One that is
 * converted may be such. */
static int64_t unread_bytes(const gal_cell *cell, gal_flow carried, uint32_t stage, uint32_t strategy)
{
    const int64_t more = at_most_two(cell) - (int64_t)cell->in_flight[stage];
    return more > 0 ? more * carried_bytes(cell, carried, strategy) : 0;
}

static double hidden_share(const gal_cell *cell)
{
    return gal_price_hidden_share(cell->spec.microbatch_count);
}

/* Of which neighbours hide all that they may. */
static double least_backward(const gal_cell *cell, const gal_block_price *price)
{
    const double hidden = price->hidden_before.backward_seconds + price->hidden_behind.backward_seconds;
    return price->backward_seconds - hidden_share(cell) * hidden;
}

static gal_cell_node node_of(const gal_cell *cell, uint32_t type, uint32_t stage, uint32_t strategy)
{
    const uint32_t block = cell->types.type_first[type];
    const size_t at = gal_cell_price_index(cell, block, stage, strategy);
    const gal_block_price *price = cell->price[at];
    const gal_block_shape *shape = &cell->types.shape[type];
    const gal_block_bytes *bytes = &price->memory->bytes;
    const bool last = stage + 1 == cell->spec.pp_degree;
    const bool borrows = gal_cell_borrows_table(cell, block, stage);
    gal_cell_node node = {
        .block = {.forward_seconds = rounded(cell, gal_price_least_forward(price)),
                  .backward_seconds = rounded(cell, least_backward(cell, price)),
                  .tail_seconds = rounded(cell, price->lag_seconds - (borrows ? price->table_sync_seconds : 0.0)),
                  .update_seconds = rounded(cell, update_seconds(price, borrows)),
                  .lags = cell->spec.pp_degree == 1,
                  .awaits = cell->spec.pp_degree == 1 && gal_lag_is_awaited(&cell->strategy[strategy]),
                  .once_seconds = rounded(cell, price->once_seconds) + table_seconds(cell, block, stage, strategy),
                  .bytes = state_bytes(price->memory, borrows) + (int64_t)(cell->in_flight[stage] * bytes->saved),
                  .shared = gal_cell_shared_of(price->memory, cell->spec.prefetch_depth,
                                               gal_cell_work_sides(cell->spec.space, &cell->types, type))},
        .enter_seconds = rounded(cell, price->enter_seconds + price->hidden_before.forward_seconds),
        .enter_backward_seconds = rounded(cell, hidden_share(cell) * price->hidden_before.backward_seconds),
        .enter_tail_seconds = rounded(cell, price->tail_seconds),
        .close = {.forward_seconds = rounded(cell, price->hidden_behind.forward_seconds),
                  .backward_seconds =
                      rounded(cell, price->leave_seconds + hidden_share(cell) * price->hidden_behind.backward_seconds),
                  .bytes = (last ? 2 : 1) * GAL_ALIGNMENT_BYTES + cell->bias_bytes}, /* norm, loss */
        .boundary_bytes = (int64_t)bytes->boundary,
        .input_bytes = (int64_t)bytes->input};
    if (!last) {
        node.close.bytes += 2 * at_most_two(cell) * node.boundary_bytes +
                            (at_most_two(cell) - 1) * carried_bytes(cell, shape->carried_out, strategy);
        node.close.forward_seconds += cell->transfer[at]; /* of every round, and on the way back of the step */
        node.close.once_seconds = cell->transfer[at];
    }
    if (!last && cell->strategy[strategy].overlap != GAL_OVERLAP_NONE) { /* its sub-batches are joined for the ports */
        node.close.bytes += 2 * node.boundary_bytes;
    }
    if (shape->kind == GAL_BLOCK_BRIDGE) {
        node.block.bytes += version_bytes(cell, shape->carried_out, stage, strategy);
    }
    return node;
}

/* c items of what is received and dx_out; of the rows in place of the saved input, unless backward does not read them:
 * they are converted, or come back from the host. */
static int64_t entry_port_bytes(const gal_cell *cell, uint32_t stage, const gal_cell_node *from,
                                const gal_cell_node *to, bool converts, int64_t carried)
{
    const int64_t k = cell->in_flight[stage];
    const int64_t m = cell->spec.microbatch_count;
    const int64_t two = at_most_two(cell);
    const int64_t ahead = k < m ? k + 1 : m;
    const int64_t received = from->boundary_bytes;
    const bool passes = converts || to->block.shared.of[GAL_SHARED_STAGED_INPUT] > 0;
    return (passes ? 2 * two * received : (ahead + two) * received - k * to->input_bytes) + (ahead + two) * carried;
}

static gal_priced_block priced(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy)
{
    return (gal_priced_block){&cell->types.shape[cell->types.type_of[block]], &cell->strategy[strategy],
                              cell->price[gal_cell_price_index(cell, block, stage, strategy)]};
}

static gal_cell_edge edge_of(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t from, uint32_t to)
{
    const gal_conversions *c = &cell->conversions;
    const gal_block_shape *shape = &cell->types.shape[cell->types.type_of[block]];
    const size_t conversion = gal_conversion_index(c, cell->types.pair_flow[cell->types.pair_of[block]], from, to);
    const size_t at = gal_cell_pair_index(cell, block, stage, from, to);
    const gal_pair_price *pair = cell->pair[at];
    const gal_pair_price *carried = cell->carried[at];
    const gal_cell_node *before = &cell->node[gal_cell_price_index(cell, block - 1, stage, from)];
    const gal_cell_node *behind = &cell->node[gal_cell_price_index(cell, block, stage, to)];
    const gal_priced_block first = priced(cell, block - 1, stage, from), second = priced(cell, block, stage, to);
    const gal_pass_seconds crowded = gal_price_crowded(&first, &second);
    gal_cell_edge edge = {.legal = true,
                          .forward_seconds = rounded(cell, pair->forward_seconds),
                          .backward_seconds = rounded(cell, pair->backward_seconds),
                          .crowded_forward_seconds = rounded(cell, crowded.forward_seconds),
                          .crowded_backward_seconds = rounded(cell, hidden_share(cell) * crowded.backward_seconds),
                          .tail_seconds = rounded(cell, pair->sync_seconds),
                          .relayout_bytes = (int64_t)larger(pair->relayout_bytes, c->inside_bytes[conversion]),
                          .entry_relayout_bytes =
                              (int64_t)larger(pair->relayout_entry_bytes, c->entry_bytes[conversion])};
    if (carried != NULL) {
        const size_t like = gal_conversion_index(c, cell->types.carried_flow, from, to);
        edge.forward_seconds += rounded(cell, carried->forward_seconds);
        edge.backward_seconds += rounded(cell, carried->backward_seconds);
        edge.tail_seconds += rounded(cell, carried->sync_seconds);
        edge.carried_bytes = version_bytes(cell, shape->carried_in, stage, to) +
                             (int64_t)larger(carried->relayout_bytes, c->entry_bytes[like]);
    }
    const bool halves = cell->strategy[to].overlap != GAL_OVERLAP_NONE; /* what comes is of whole microbatches */
    edge.entry_bytes = edge.carried_bytes + entry_port_bytes(cell, stage, before, behind, pair->converts || halves,
                                                             carried_bytes(cell, shape->carried_in, from));
    edge.carried_bytes += carried != NULL ? unread_bytes(cell, shape->carried_in, stage, from) : 0;
    return edge;
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

/* One of each; they are whole on every device. */
static int64_t bias_bytes(const gal_cell *cell)
{
    uint64_t bytes = 0;
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
        uint64_t most = 0;
        for (size_t i = 0; shared != GAL_SHARED_TABLE && i < gal_cell_price_count(cell); i++) {
            most = cell->price[i] == NULL ? most : larger(most, cell->price[i]->memory->shared_bytes[shared]);
        }
        bytes += most;
    }
    return (int64_t)bytes;
}

void gal_cell_tabulate(gal_cell *cell)
{
    cell->unit_seconds = fine_unit(cell);
    cell->bias_bytes = bias_bytes(cell);
    for (size_t i = 0; i < gal_cell_price_count(cell); i++) {
        cell->transfer[i] = rounded(cell, cell->transfer[i]);
    }
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        cell->table_seconds[s] = rounded(cell, cell->table_seconds[s]);
    }
    cell->common_seconds = rounded(cell, cell->common_seconds);
    for (uint32_t stage = 0; stage < cell->spec.pp_degree; stage++) {
        for (uint32_t type = 0; type < cell->types.type_count; type++) {
            for (uint32_t s = 0; s < cell->strategy_count; s++) {
                const size_t at = gal_cell_price_index(cell, cell->types.type_first[type], stage, s);
                if (cell->price[at] != NULL) {
                    cell->node[at] = node_of(cell, type, stage, s);
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

/* The turn from backward to forward; nothing before it hides anything. */
static void add_turn(const gal_cell_node *node, gal_cell_step *out)
{
    out->forward_seconds += node->enter_seconds;
    out->backward_seconds += node->enter_backward_seconds;
    out->tail_seconds += node->enter_tail_seconds;
}

void gal_cell_start(const gal_cell *cell, uint32_t strategy, gal_cell_step *out)
{
    const gal_cell_node *node = node_at(cell, 0, 0, strategy);
    *out = node->block;
    add_turn(node, out);
}

void gal_cell_follow(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t from, uint32_t strategy,
                     gal_cell_step *out)
{
    const gal_cell_edge *edge = &cell->edge[gal_cell_pair_index(cell, block, stage, from, strategy)];
    *out = node_at(cell, block, stage, strategy)->block;
    add_edge(edge, out);
    out->forward_seconds += edge->crowded_forward_seconds;
    out->backward_seconds += edge->crowded_backward_seconds;
    out->bytes += edge->carried_bytes;
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
    out->bytes += edge->entry_bytes;
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

bool gal_cell_holds_table(const gal_cell *cell, uint32_t block)
{
    return cell->types.table_shared &&
           (cell->types.shape[cell->types.type_of[block]].shared >> GAL_SHARED_TABLE & 1U) != 0;
}

bool gal_cell_tables_alike(const gal_cell *cell, const uint32_t *strategy)
{
    for (uint32_t i = 1; cell->types.table_shared && i < cell->block_count; i++) {
        if (gal_cell_holds_table(cell, i) &&
            !gal_strategy_same_shards(&cell->strategy[strategy[0]], &cell->strategy[strategy[i]])) {
            return false;
        }
    }
    return true;
}
