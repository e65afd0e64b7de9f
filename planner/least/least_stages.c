#include "planner/least/least_stages.h"

#include <stdlib.h>

#include "planner/cell/path.h"

/* ---- bytes ---- */

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool holds_table(const gal_least_stages *l, uint32_t block)
{
    return l->types->table_shared && (l->types->shape[l->types->type_of[block]].shared >> GAL_SHARED_TABLE & 1U) != 0;
}

/* Whether another block of the stage brings the token table. */
static bool borrows_table(const gal_least_stages *l, uint32_t block, uint32_t stage)
{
    const uint32_t last = l->types->block_count - 1;
    const bool beside_head = stage + 1 == l->spec->pp_degree && holds_table(l, last);
    return holds_table(l, block) && (stage == 0 ? block > 0 : block != last && beside_head);
}

static int64_t at_most_two(const gal_least_stages *l)
{
    return l->spec->microbatch_count < 2 ? (int64_t)l->spec->microbatch_count : 2;
}

int64_t gal_least_node_bytes(const gal_least_stages *l, uint32_t block, uint32_t stage, const gal_least_item *item)
{
    const bool makes = l->types->shape[l->types->type_of[block]].kind == GAL_BLOCK_BRIDGE;
    return item->state - (borrows_table(l, block, stage) ? item->table : 0) + l->in_flight[stage] * item->saved +
           (makes ? (l->in_flight[stage] + 1) * item->carried_out : 0);
}

int64_t gal_least_close_bytes(const gal_least_stages *l, uint32_t stage, const gal_least_item *item)
{
    const bool last = stage + 1 == l->spec->pp_degree;
    const int64_t own = (last ? 2 : 1) * GAL_ALIGNMENT_BYTES + l->items->bias_bytes;
    return last ? own : own + 2 * at_most_two(l) * item->boundary + (at_most_two(l) - 1) * item->carried_out;
}

int64_t gal_least_version_bytes(const gal_least_stages *l, uint32_t block, uint32_t stage, const gal_least_item *from,
                                const gal_least_item *to, const gal_least_conversion *c)
{
    const bool reads = l->types->shape[l->types->type_of[block]].kind == GAL_BLOCK_CROSS_ATTENTION;
    const int64_t more = at_most_two(l) - (int64_t)l->in_flight[stage]; /* items of one that no block reads as it is */
    const int64_t unread = from != NULL && more > 0 ? more * from->carried_out : 0;
    return c != NULL && reads ? (l->in_flight[stage] + 1) * to->carried_in + c->carried + unread : 0;
}

int64_t gal_least_entry_bytes(const gal_least_stages *l, uint32_t stage, const gal_least_item *from,
                              const gal_least_item *to, const gal_least_conversion *c)
{
    const int64_t k = l->in_flight[stage];
    const int64_t m = l->spec->microbatch_count;
    const int64_t two = at_most_two(l);
    const int64_t ahead = k < m ? k + 1 : m;
    const bool passes = c != NULL || to->shared.of[GAL_SHARED_STAGED_INPUT] > 0; /* as in cell_steps.c */
    const int64_t rows = passes ? 2 * two * from->boundary : (ahead + two) * from->boundary - k * to->input;
    return rows + (ahead + two) * from->carried_out;
}

/* ---- the view ---- */

const gal_least_item *gal_least_items_of(const gal_least_stages *l, uint32_t block, uint32_t *count)
{
    const uint32_t type = l->types->type_of[block];
    *count = l->items->first[type + 1] - l->items->first[type];
    return l->items->item + l->items->first[type];
}

bool gal_least_is_seen(const gal_least_stages *l, uint32_t block, const gal_least_item *item)
{
    return (l->view.layout == GAL_LEAST_ANY_LAYOUT || item->layout == l->view.layout) &&
           (!holds_table(l, block) || item->shards == l->view.shards);
}

/* Of a block on a stage, by itself and in turn with others; < 0: it has nothing to choose. */
static void find_least(const gal_least_stages *l, uint32_t block, uint32_t stage, int64_t *node, int64_t *shared)
{
    uint32_t count = 0;
    const gal_least_item *item = gal_least_items_of(l, block, &count);
    *node = *shared = -1;
    for (uint32_t i = 0; i < count; i++) {
        if (gal_least_is_seen(l, block, &item[i])) {
            const int64_t own = gal_least_node_bytes(l, block, stage, &item[i]);
            const int64_t in_turn = gal_shared_sum(&item[i].shared);
            *node = *node < 0 || own < *node ? own : *node;
            *shared = *shared < 0 || in_turn < *shared ? in_turn : *shared;
        }
    }
}

/* False: some block has nothing to choose. */
bool gal_least_look(gal_least_stages *l, gal_least_view view)
{
    const uint32_t blocks = l->types->block_count;
    bool everywhere = true;
    l->view = view;
    for (uint32_t p = 0; p < l->spec->pp_degree && everywhere; p++) {
        int64_t *node = l->least_node + (size_t)p * blocks;
        for (uint32_t i = 0; i < blocks && everywhere; i++) {
            const uint32_t like = l->types->type_first[l->types->type_of[i]];
            if (like == i) {
                find_least(l, i, p, &node[i], &l->least_shared[i]);
            } else {
                node[i] = node[like];
                l->least_shared[i] = l->least_shared[like];
            }
            everywhere = node[i] >= 0;
        }
    }
    return everywhere;
}

/* What the blocks of a stage from each one on take up to where the next stage must begin. */
static void sum_rest(gal_least_stages *l, uint32_t stage)
{
    const uint32_t blocks = l->types->block_count;
    const int64_t *node = l->least_node + (size_t)stage * blocks;
    int64_t *rest = l->rest + (size_t)stage * (blocks + 1);
    int64_t *rest_shared = l->rest_shared + (size_t)stage * (blocks + 1);
    rest[blocks] = rest_shared[blocks] = 0;
    for (uint32_t i = blocks; i-- > 0;) {
        const bool must = i < l->begin[stage + 1];
        rest[i] = must ? rest[i + 1] + node[i] : 0;
        rest_shared[i] = must ? larger(rest_shared[i + 1], l->least_shared[i]) : 0;
    }
}

/* Of stages filled with whole blocks by their least bytes: where each begins at the earliest, and ends at the latest.
 * False: they do not hold all blocks. */
bool gal_least_fill(gal_least_stages *l, int64_t limit_bytes)
{
    const uint32_t blocks = l->types->block_count;
    const uint32_t stages = l->spec->pp_degree;
    const int64_t own = GAL_ALIGNMENT_BYTES + l->items->bias_bytes;
    l->begin[stages] = blocks;
    for (uint32_t p = stages; p-- > 0;) {
        const int64_t *node = l->least_node + (size_t)p * blocks;
        int64_t bytes = own;
        int64_t shared = 0;
        uint32_t at = l->begin[p + 1];
        while (at > p && bytes + node[at - 1] + larger(shared, l->least_shared[at - 1]) <= limit_bytes) {
            at--;
            bytes += node[at];
            shared = larger(shared, l->least_shared[at]);
        }
        if (at == l->begin[p + 1]) {
            return false;
        }
        l->begin[p] = at;
    }
    uint32_t at = 0;
    for (uint32_t p = 0; p < stages; p++) {
        const int64_t *node = l->least_node + (size_t)p * blocks;
        int64_t bytes = own;
        int64_t shared = 0;
        while (at + (stages - 1 - p) < blocks &&
               bytes + node[at] + larger(shared, l->least_shared[at]) <= limit_bytes) {
            bytes += node[at];
            shared = larger(shared, l->least_shared[at]);
            at++;
        }
        l->end[p] = at;
    }
    return l->begin[0] == 0;
}

/* No chain of the view has less. */
int64_t gal_least_bound(gal_least_stages *l, int64_t limit_bytes)
{
    int64_t low = 0;
    int64_t high = limit_bytes;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (gal_least_fill(l, middle)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

void gal_least_sum_rest(gal_least_stages *l)
{
    for (uint32_t p = 0; p < l->spec->pp_degree; p++) {
        sum_rest(l, p);
    }
}

bool gal_least_reaches(const gal_least_stages *l, uint32_t block, uint32_t stage, int64_t bytes, int64_t shared_bytes,
                       int64_t limit_bytes)
{
    const size_t next = (size_t)stage * (l->types->block_count + 1) + block + 1;
    return bytes + l->rest[next] + larger(shared_bytes, l->rest_shared[next]) + GAL_ALIGNMENT_BYTES +
               l->items->bias_bytes <=
           limit_bytes;
}

/* ---- create, free ---- */

gal_code gal_least_stages_create(const gal_least_items *items, gal_least_stages *out, gal_error *err)
{
    const uint32_t stages = items->spec->pp_degree;
    const size_t blocks = items->types->block_count;
    gal_least_stages l = {.spec = items->spec, .types = items->types, .items = items};
    l.in_flight = calloc(stages, sizeof *l.in_flight);
    l.least_node = calloc(stages * blocks, sizeof *l.least_node);
    l.least_shared = calloc(blocks, sizeof *l.least_shared);
    l.begin = calloc((size_t)stages + 1, sizeof *l.begin);
    l.end = calloc(stages, sizeof *l.end);
    l.rest = calloc(stages * (blocks + 1), sizeof *l.rest);
    l.rest_shared = calloc(stages * (blocks + 1), sizeof *l.rest_shared);
    if (l.in_flight == NULL || l.least_node == NULL || l.least_shared == NULL || l.begin == NULL || l.end == NULL ||
        l.rest == NULL || l.rest_shared == NULL) {
        gal_least_stages_free(&l);
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    for (uint32_t p = 0; p < stages; p++) {
        l.in_flight[p] = gal_in_flight(l.spec->schedule, p, stages, l.spec->microbatch_count);
    }
    *out = l;
    return GAL_OK;
}

void gal_least_stages_free(gal_least_stages *stages)
{
    free(stages->rest_shared);
    free(stages->rest);
    free(stages->end);
    free(stages->begin);
    free(stages->least_shared);
    free(stages->least_node);
    free(stages->in_flight);
    *stages = (gal_least_stages){0};
}
