/* Islands: classes of a part in which a stage makes changes that nothing enters.
 *
 * For all sets W of classes: layers in W <= layers of the part x changes into W from outside. As a flow: whatever comes
 * into the part carries its count on, a change carries at most its own number, each class takes its layers / those of
 * the part. By max-flow and min-cut the rows of all W hold if and only if the flow fills all classes; if not, the
 * classes that are still cut off from the source are the W whose row is broken most. */
#include <stdlib.h>
#include <string.h>

#include "planner/solve/ilp_program.h"

#define BROKEN 1e-5 /* of a row; GLPK's tolerance is 1e-7 of its terms */

/* ---- known ones ---- */

gal_code gal_ilp_keep_island(gal_ilp *p, uint32_t part, uint32_t stage, gal_error *err)
{
    const size_t bytes = p->g->class_count * sizeof *p->is_in;
    bool *is_in = malloc(bytes);
    if (is_in != NULL && p->island_count == p->island_capacity) {
        const uint32_t capacity = p->island_capacity == 0 ? 16 : p->island_capacity * 2;
        gal_ilp_island *larger = realloc(p->island, capacity * sizeof *larger);
        if (larger == NULL) {
            free(is_in);
            return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
        }
        p->island = larger;
        p->island_capacity = capacity;
    }
    if (is_in == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    memcpy(is_in, p->is_in, bytes);
    p->island[p->island_count++] = (gal_ilp_island){p->part_first[part], p->part_first[part + 1], stage, is_in};
    return GAL_OK;
}

/* ---- broken ones ---- */

/* Nodes: classes, then source and sink. room (from, to). */
typedef struct network {
    uint32_t node_count;
    double *room;
    uint32_t *before, *queue;
} network;

static bool create_network(uint32_t class_count, network *n)
{
    const size_t nodes = (size_t)class_count + 2;
    *n = (network){.node_count = class_count + 2,
                   .room = calloc(nodes * nodes, sizeof *n->room),
                   .before = calloc(nodes, sizeof *n->before),
                   .queue = calloc(nodes, sizeof *n->queue)};
    return n->room != NULL && n->before != NULL && n->queue != NULL;
}

static void free_network(network *n)
{
    free(n->room);
    free(n->before);
    free(n->queue);
}

static double *room(network *n, uint32_t from, uint32_t to)
{
    return &n->room[(size_t)from * n->node_count + to];
}

/* Breadth first from the source; before[node]: where it was come from, UINT32_MAX: not reached. */
static bool reach_sink(network *n)
{
    const uint32_t source = n->node_count - 2;
    const uint32_t sink = n->node_count - 1;
    uint32_t begin = 0;
    uint32_t end = 0;
    memset(n->before, 0xff, n->node_count * sizeof *n->before);
    n->before[source] = source;
    n->queue[end++] = source;
    while (begin < end) {
        const uint32_t at = n->queue[begin++];
        for (uint32_t to = 0; to < n->node_count; to++) {
            if (n->before[to] == UINT32_MAX && *room(n, at, to) > BROKEN * 1e-3) {
                n->before[to] = at;
                n->queue[end++] = to;
            }
        }
    }
    return n->before[sink] != UINT32_MAX;
}

static double fill(network *n)
{
    const uint32_t source = n->node_count - 2;
    const uint32_t sink = n->node_count - 1;
    double sum = 0.0;
    while (reach_sink(n)) {
        double least = *room(n, n->before[sink], sink);
        for (uint32_t at = sink; at != source; at = n->before[at]) {
            const double here = *room(n, n->before[at], at);
            least = here < least ? here : least;
        }
        for (uint32_t at = sink; at != source; at = n->before[at]) {
            *room(n, n->before[at], at) -= least;
            *room(n, at, n->before[at]) += least;
        }
        sum += least;
    }
    return sum;
}

/* Returns what all classes together take. */
static double read_network(const gal_ilp *p, uint32_t part, uint32_t stage, network *n)
{
    const uint32_t source = n->node_count - 2;
    const double length = (double)(p->part_first[part + 1] - p->part_first[part]);
    double sum = 0.0;
    memset(n->room, 0, (size_t)n->node_count * n->node_count * sizeof *n->room);
    for (int c = 1; c <= p->lp.column_count; c++) {
        const gal_ilp_column *at = &p->column[c];
        const bool comes = at->kind == GAL_ILP_CROSS || at->kind == GAL_ILP_ENTRY;
        if (at->part != part || at->stage != stage || !(comes || at->kind == GAL_ILP_INNER) || p->value[c] <= 0.0) {
            continue;
        }
        *room(n, comes ? source : at->from, at->class) += p->value[c];
        *room(n, at->class, source + 1) += p->value[c] / length;
        sum += p->value[c] / length;
    }
    return sum;
}

gal_code gal_ilp_find_islands(gal_ilp *p, uint32_t *found, gal_error *err)
{
    gal_code code = GAL_OK;
    network n = {0};
    *found = 0;
    if (!create_network(p->g->class_count, &n)) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    for (uint32_t part = 0; part < p->part_count; part++) {
        for (uint32_t i = 0; p->part_first[part + 1] - p->part_first[part] > 1 && i < p->g->stage_count; i++) {
            const double wanted = read_network(p, part, i, &n);
            if (wanted - fill(&n) > BROKEN) {
                for (uint32_t k = 0; k < p->g->class_count; k++) {
                    p->is_in[k] = n.before[k] == UINT32_MAX;
                }
                GAL_TRY(gal_ilp_keep_island(p, part, i, err));
                ++*found;
            }
        }
    }
cleanup:
    free_network(&n);
    return code;
}
