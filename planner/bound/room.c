#include "planner/bound/room.h"

#include <math.h>
#include <stdlib.h>

static size_t place(const gal_cell *cell, uint32_t block, uint32_t stage)
{
    return (size_t)block * cell->spec.pp_degree + stage;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t most_relayout(const gal_cell *cell)
{
    int64_t most = 0;
    for (size_t i = 0; i < gal_cell_pair_count(cell); i++) {
        most = larger(most, larger(cell->edge[i].relayout_bytes, cell->edge[i].entry_relayout_bytes));
    }
    return most;
}

static int64_t most_close(const gal_cell *cell)
{
    int64_t most = 0;
    for (size_t i = 0; i < gal_cell_price_count(cell); i++) {
        most = larger(most, cell->node[i].close.bytes);
    }
    return most;
}

/* Of the edges into a block from the same stage. */
static int64_t most_carried(const gal_cell *cell, uint32_t block, uint32_t stage)
{
    int64_t most = 0;
    if (cell->types.shape[cell->types.type_of[block]].kind != GAL_BLOCK_CROSS_ATTENTION) {
        return 0; /* no other converts it */
    }
    for (uint32_t from = 0; from < cell->strategy_count; from++) {
        const gal_cell_edge *edge = &cell->edge[gal_cell_pair_index(cell, block, stage, from, 0)];
        for (uint32_t to = 0; to < cell->strategy_count; to++) {
            most = larger(most, edge[to].carried_bytes);
        }
    }
    return most;
}

/* Behind a block of a stage: what the stage's next blocks add, if any may follow. */
static void fill_place(const gal_dual *dual, double best_seconds, uint32_t block, uint32_t stage, gal_room *room)
{
    const gal_cell *cell = dual->cell;
    const bool last = block + 1 == cell->block_count;
    const size_t at = place(cell, block, stage);
    const uint32_t *strategy = NULL;
    uint32_t count = gal_dual_choices(dual, block, stage, &strategy);
    for (uint32_t i = 0; i < count; i++) {
        const size_t own = gal_cell_price_index(cell, block, stage, strategy[i]);
        const gal_shared_bytes boundary = {.of = {[GAL_SHARED_BOUNDARY] = 2 * cell->node[own].boundary_bytes}};
        gal_shared_join(&room->shared[at], &boundary);
    }
    int64_t added = -1;
    count = last ? 0 : gal_dual_choices(dual, block + 1, stage, &strategy);
    for (uint32_t i = 0; i < count; i++) {
        const size_t node = gal_dual_node(cell, block + 1, stage, strategy[i]);
        if (dual->so_far[node] + dual->to_go[node] + dual->constant < best_seconds) {
            const gal_cell_step *own = &cell->node[gal_cell_price_index(cell, block + 1, stage, strategy[i])].block;
            added = larger(added, own->bytes);
            gal_shared_join(&room->shared[at], &own->shared);
        }
    }
    if (added >= 0) {
        room->bytes[at] = added + most_carried(cell, block + 1, stage) + room->bytes[place(cell, block + 1, stage)];
        gal_shared_join(&room->shared[at], &room->shared[place(cell, block + 1, stage)]);
    }
    for (uint32_t kind = 0; kind < GAL_SHARED_KIND_COUNT; kind++) {
        const int64_t allowed = dual->most[stage].of[kind];
        room->shared[at].of[kind] = room->shared[at].of[kind] < allowed ? room->shared[at].of[kind] : allowed;
    }
}

static void fill_most(const gal_dual *dual, double best_seconds, gal_room *room)
{
    const gal_cell *cell = dual->cell;
    const int64_t relayout = most_relayout(cell);
    const int64_t close = most_close(cell);
    for (uint32_t block = cell->block_count; block-- > 0;) {
        for (uint32_t stage = 0; stage < cell->spec.pp_degree; stage++) {
            const size_t at = place(cell, block, stage);
            room->bytes[at] = close;
            room->shared[at] = (gal_shared_bytes){.of = {[GAL_SHARED_RELAYOUT] = relayout}};
            fill_place(dual, best_seconds, block, stage, room);
        }
    }
}

/* ---- the least ---- */

static void lower(gal_least_rest *least, const gal_cell_step *step, const gal_least_rest *rest)
{
    least->round = fmin(least->round, step->forward_seconds + step->backward_seconds + rest->round);
    const double rest_tail = step->awaits ? 0.0 : step->lags ? fmax(rest->tail, 0.0) : rest->tail;
    least->tail = fmin(least->tail, step->tail_seconds + rest_tail);
    least->update = fmin(least->update, step->update_seconds + rest->update);
}

static void fill_least_of(const gal_dual *dual, uint32_t block, uint32_t stage, uint32_t strategy, gal_room *room)
{
    static const gal_least_rest nothing = {0};
    const gal_cell *cell = dual->cell;
    const bool last = block + 1 == cell->block_count;
    gal_least_rest *least = &room->least[gal_dual_node(cell, block, stage, strategy)];
    gal_cell_step step;
    *least = (gal_least_rest){HUGE_VAL, HUGE_VAL, HUGE_VAL};
    if (last || (stage + 1 < cell->spec.pp_degree && gal_dual_crosses(dual, block + 1, stage + 1))) { /* may close */
        gal_cell_close(cell, block, stage, strategy, &step);
        lower(least, &step, &nothing);
    }
    const uint32_t *next = NULL;
    const uint32_t count = last ? 0 : gal_dual_choices(dual, block + 1, stage, &next);
    for (uint32_t i = 0; i < count; i++) {
        if (dual->follow[gal_cell_pair_index(cell, block + 1, stage, strategy, next[i])] < HUGE_VAL) {
            gal_cell_follow(cell, block + 1, stage, strategy, next[i], &step);
            lower(least, &step, &room->least[gal_dual_node(cell, block + 1, stage, next[i])]);
        }
    }
}

static void fill_least(const gal_dual *dual, gal_room *room)
{
    for (uint32_t block = dual->cell->block_count; block-- > 0;) {
        for (uint32_t stage = 0; stage < dual->cell->spec.pp_degree; stage++) {
            const uint32_t *strategy;
            const uint32_t count = gal_dual_choices(dual, block, stage, &strategy);
            for (uint32_t i = 0; i < count; i++) {
                fill_least_of(dual, block, stage, strategy[i], room);
            }
        }
    }
}

gal_code gal_room_create(gal_dual *dual, double best_seconds, gal_room *out, gal_error *err)
{
    const gal_cell *cell = dual->cell;
    const size_t places = place(cell, cell->block_count, 0);
    gal_room room = {.cell = cell};
    room.bytes = calloc(places, sizeof *room.bytes);
    room.shared = calloc(places, sizeof *room.shared);
    room.least = calloc(places * cell->strategy_count + 1, sizeof *room.least);
    if (room.bytes == NULL || room.shared == NULL || room.least == NULL) {
        gal_room_free(&room);
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    gal_dual_look_back(dual);
    fill_most(dual, best_seconds * (1.0 + 1e-9), &room);
    fill_least(dual, &room);
    *out = room;
    return GAL_OK;
}

void gal_room_free(gal_room *room)
{
    free(room->least);
    free(room->shared);
    free(room->bytes);
    *room = (gal_room){0};
}

bool gal_room_is_ample(const gal_room *room, uint32_t block, uint32_t stage, const gal_path *path)
{
    const size_t at = place(room->cell, block, stage);
    gal_path most = *path;
    most.bytes += room->bytes[at];
    gal_shared_join(&most.shared, &room->shared[at]);
    return gal_path_bytes(&most) <= (int64_t)room->cell->spec.arena_limit_bytes;
}

/* ---- differences ---- */

/* The most of max(a, ra + x) - max(b, rb + x) for x >= least: it is monotone in x. */
static double apart(double a, double ra, double b, double rb, double least)
{
    return gal_larger(gal_larger(a, ra + least) - gal_larger(b, rb + least), ra - rb);
}

double gal_room_slower_by(const gal_room *room, size_t node, uint32_t stage, const gal_path *a, const gal_path *b)
{
    const gal_least_rest *least = &room->least[node];
    const gal_round_counts rounds = room->cell->rounds;
    const double additive =
        (a->additive - b->additive) + gal_rounds_of_stage(&rounds, stage) * (a->stage_round - b->stage_round);
    double slowest = apart(a->slowest, a->stage_round, b->slowest, b->stage_round, least->round);
    double exposed = apart(a->exposed, a->stage_tail - a->drained, b->exposed, b->stage_tail - b->drained, least->tail);
    double update = apart(a->update, a->stage_update, b->update, b->stage_update, least->update);
    if (stage + 1 < room->cell->spec.pp_degree) { /* a later stage may decide */
        slowest = gal_larger(slowest, 0.0);
        exposed = gal_larger(exposed, (b->drained + b->stage_backward) - (a->drained + a->stage_backward));
        update = gal_larger(update, 0.0);
    }
    return additive + rounds.slowest * slowest + exposed + update;
}

int64_t gal_room_larger_by(const gal_room *room, uint32_t block, uint32_t stage, const gal_path *a, const gal_path *b)
{
    const gal_shared_bytes *most_use = &room->shared[place(room->cell, block, stage)];
    int64_t bytes = a->bytes - b->bytes;
    for (uint32_t kind = 0; kind < GAL_SHARED_KIND_COUNT; kind++) {
        const int64_t x = a->shared.of[kind];
        const int64_t y = b->shared.of[kind];
        const int64_t use = most_use->of[kind];
        const int64_t if_used = (x > use ? x : use) - (y > use ? y : use);
        bytes += x - y > if_used ? x - y : if_used;
    }
    return bytes;
}
