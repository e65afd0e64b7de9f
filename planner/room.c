#include "planner/room.h"

#include <math.h>
#include <stdlib.h>

static size_t place(const gal_cell *cell, uint32_t block, uint32_t stage)
{
    return (size_t)block * cell->spec.pp_degree + stage;
}

/* Least weighted seconds up to and with a node: the dual's to_go from the other end. */
static void fill_so_far(const gal_dual *dual, double *so_far)
{
    const gal_cell *cell = dual->cell;
    const uint32_t strategies = cell->strategy_count;
    for (uint32_t s = 0; s < strategies; s++) {
        so_far[gal_dual_node(cell, 0, 0, s)] = dual->start[s];
    }
    for (uint32_t block = 1; block < cell->block_count; block++) {
        for (uint32_t stage = 0; stage < cell->spec.pp_degree; stage++) {
            for (uint32_t from = 0; from < strategies; from++) {
                const size_t edge = gal_cell_pair_index(cell, block, stage, from, 0);
                const double stays = so_far[gal_dual_node(cell, block - 1, stage, from)];
                const double crosses = stage == 0 ? HUGE_VAL : so_far[gal_dual_node(cell, block - 1, stage - 1, from)];
                double *to = &so_far[gal_dual_node(cell, block, stage, 0)];
                for (uint32_t s = 0; s < strategies; s++) {
                    to[s] = fmin(to[s], fmin(stays + dual->follow[edge + s], crosses + dual->cross[edge + s]));
                }
            }
        }
    }
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void share(gal_shared_bytes *a, const gal_shared_bytes *b)
{
    a->gathered = larger(a->gathered, b->gathered);
    a->bucket = larger(a->bucket, b->bucket);
    a->boundary = larger(a->boundary, b->boundary);
    a->scratch = larger(a->scratch, b->scratch);
    a->relayout = larger(a->relayout, b->relayout);
    a->work = larger(a->work, b->work);
}

/* What a live node adds at most behind whatever comes before it in its stage. */
static void take_node(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy, int64_t *bytes,
                      gal_shared_bytes *shared)
{
    const size_t at = gal_cell_price_index(cell, block, stage, strategy);
    const gal_block_bytes *own = &cell->price[at]->memory.bytes;
    const int64_t added = (int64_t)(own->state + own->gradient + cell->in_flight[stage] * own->saved);
    const gal_shared_bytes boundary = {.boundary = 2 * own->boundary};
    *bytes = added > *bytes ? added : *bytes;
    share(shared, &cell->shared[at]);
    share(shared, &boundary);
}

static uint64_t most_relayout(const gal_cell *cell)
{
    const gal_conversions *c = &cell->conversions;
    uint64_t most = 0;
    for (size_t i = 0; i < (size_t)c->class_count * c->class_count; i++) {
        most = larger(most, larger(c->inside_bytes[i], c->entry_bytes[i]));
    }
    for (size_t i = 0; i < gal_cell_pair_count(cell); i++) {
        const gal_pair_price *pair = cell->pair[i];
        most = pair == NULL ? most : larger(most, larger(pair->relayout_bytes, pair->relayout_entry_bytes));
    }
    return most;
}

static void fill_room(const gal_dual *dual, double best_seconds, const double *so_far, gal_room *room)
{
    const gal_cell *cell = dual->cell;
    const uint64_t relayout = most_relayout(cell);
    const uint32_t stages = cell->spec.pp_degree;
    uint64_t ports = 0;
    for (size_t i = 0; i < (size_t)stages * GAL_BLOCK_KIND_COUNT * cell->strategy_count; i++) {
        ports = cell->price[i] == NULL ? ports : larger(ports, 4 * cell->price[i]->memory.bytes.boundary);
    }
    for (uint32_t block = cell->block_count; block-- > 0;) {
        for (uint32_t stage = 0; stage < stages; stage++) {
            const size_t at = place(cell, block, stage);
            room->bytes[at] = (int64_t)ports + 2 * GAL_ALIGNMENT_BYTES;
            room->shared[at] = (gal_shared_bytes){.relayout = relayout};
            int64_t added = -1;
            for (uint32_t s = 0; block + 1 < cell->block_count && s < cell->strategy_count; s++) {
                const size_t node = gal_dual_node(cell, block + 1, stage, s);
                if (so_far[node] + dual->to_go[node] + dual->constant < best_seconds) {
                    take_node(cell, block + 1, stage, s, &added, &room->shared[at]);
                }
            }
            if (added >= 0) {
                room->bytes[at] = added + room->bytes[place(cell, block + 1, stage)];
                share(&room->shared[at], &room->shared[place(cell, block + 1, stage)]);
            }
        }
    }
}

gal_code gal_room_create(const gal_dual *dual, double best_seconds, gal_room *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_cell *cell = dual->cell;
    const size_t places = place(cell, cell->block_count, 0);
    const size_t nodes = places * cell->strategy_count;
    gal_room room = {.cell = cell};
    double *so_far = malloc((nodes + 1) * sizeof *so_far);
    room.bytes = calloc(places, sizeof *room.bytes);
    room.shared = calloc(places, sizeof *room.shared);
    if (so_far == NULL || room.bytes == NULL || room.shared == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    for (size_t i = 0; i < nodes; i++) {
        so_far[i] = HUGE_VAL;
    }
    fill_so_far(dual, so_far);
    fill_room(dual, best_seconds * (1.0 + 1e-9), so_far, &room);
    *out = room;
    room = (gal_room){0};
cleanup:
    gal_room_free(&room);
    free(so_far);
    return code;
}

void gal_room_free(gal_room *room)
{
    free(room->shared);
    free(room->bytes);
    *room = (gal_room){0};
}

bool gal_room_is_ample(const gal_room *room, uint32_t block, uint32_t stage, const gal_path *path)
{
    const size_t at = place(room->cell, block, stage);
    gal_path most = *path;
    most.bytes += room->bytes[at];
    share(&most.shared, &room->shared[at]);
    return gal_path_bytes(&most) <= (int64_t)room->cell->spec.arena_limit_bytes;
}
