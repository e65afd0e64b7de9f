#include "planner/stages/table_ways.h"

#include <math.h>
#include <stdlib.h>

enum { GROUPS_LOOKED_AT = 256 }; /* then the least bound of those that are left must do */

static gal_code no_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

/* ---- numbers ---- */

/* Equal for strategies of one way. */
static uint64_t hash_of(const gal_strategy *s)
{
    const uint64_t multiplier = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t hash = ((uint64_t)s->zero_stage << 8 ^ (uint64_t)s->tp_mode) * multiplier;
    hash = (hash ^ (uint64_t)s->tp_depth << 16 ^ s->axis_count) * multiplier;
    for (uint32_t i = 0; i < s->axis_count; i++) {
        hash = (hash ^ hash >> 32 ^ (uint64_t)s->axis[i].kind << 32 ^ s->axis[i].degree) * multiplier;
    }
    return hash ^ hash >> 32;
}

typedef struct numbering {
    const gal_strategy *strategy;
    uint32_t *slot; /* open addressing: number of a strategy, the first of its way, and 1; 0: free */
    uint64_t mask;
} numbering;

static uint32_t *slot_of(const numbering *n, uint32_t strategy)
{
    uint64_t at = hash_of(&n->strategy[strategy]) & n->mask;
    while (n->slot[at] != 0 && !gal_strategy_same_shards(&n->strategy[n->slot[at] - 1], &n->strategy[strategy])) {
        at = (at + 1) & n->mask;
    }
    return &n->slot[at];
}

gal_code gal_table_ways_create(const gal_screened *s, gal_table_ways *out, gal_error *err)
{
    const bool *legal = &s->legal[(size_t)s->types->type_of[0] * s->strategy_count];
    numbering n = {.strategy = s->strategy, .mask = 63};
    while (n.mask < 2 * (uint64_t)s->strategy_count) {
        n.mask = 2 * n.mask + 1;
    }
    n.slot = calloc(n.mask + 1, sizeof *n.slot);
    *out = (gal_table_ways){0, malloc(((size_t)s->strategy_count + 1) * sizeof *out->of)};
    if (n.slot == NULL || out->of == NULL) {
        free(n.slot);
        gal_table_ways_free(out);
        return no_memory(err);
    }
    for (uint32_t i = 0; i < s->strategy_count; i++) {
        uint32_t *slot = legal[i] ? slot_of(&n, i) : NULL;
        if (slot != NULL && *slot == 0) {
            *slot = i + 1;
            out->of[i] = out->count++;
        }
    }
    for (uint32_t i = 0; i < s->strategy_count; i++) {
        const uint32_t first = *slot_of(&n, i);
        out->of[i] = first == 0 ? GAL_NO_WAY : out->of[first - 1];
    }
    free(n.slot);
    return GAL_OK;
}

void gal_table_ways_free(gal_table_ways *ways)
{
    free(ways->of);
    *ways = (gal_table_ways){0};
}

/* ---- groups ---- */

/* Of neighbours in the list of ways. */
typedef struct group {
    uint32_t begin, end;
    double bound;
} group;

typedef struct search {
    gal_priced_way *way;
    gal_ways_bound *bound_of;
    void *context;
    bool *allowed; /* [way] */
    group open[GROUPS_LOOKED_AT + 1];
    uint32_t open_count, looked_at_count;
} search;

static int cheaper(const gal_priced_way *a, const gal_priced_way *b, uint32_t by)
{
    return a->cost[by] != b->cost[by] ? (a->cost[by] < b->cost[by] ? -1 : 1) : a->way < b->way ? -1 : a->way > b->way;
}

static int cheaper_embedding(const void *x, const void *y)
{
    return cheaper(x, y, 0);
}

static int cheaper_others(const void *x, const void *y)
{
    return cheaper(x, y, 1);
}

static double spread(const gal_priced_way *way, uint32_t count, uint32_t by)
{
    double least = HUGE_VAL;
    double most = -HUGE_VAL;
    for (uint32_t i = 0; i < count; i++) {
        least = fmin(least, way[i].cost[by]);
        most = fmax(most, way[i].cost[by]);
    }
    return most - least;
}

/* Puts a group's ways in order by what they differ most in, and returns where its second half begins. */
static uint32_t halve(gal_priced_way *way, uint32_t begin, uint32_t end)
{
    const bool others = spread(&way[begin], end - begin, 1) > spread(&way[begin], end - begin, 0);
    qsort(&way[begin], end - begin, sizeof *way, others ? cheaper_others : cheaper_embedding);
    return begin + (end - begin) / 2;
}

/* No group is less than one that it is part of. */
static gal_code open_group(search *s, uint32_t begin, uint32_t end, double least)
{
    double bound = 0.0;
    for (uint32_t i = begin; i < end; i++) {
        s->allowed[s->way[i].way] = true;
    }
    const gal_code code = s->bound_of(s->context, s->allowed, &bound);
    for (uint32_t i = begin; i < end; i++) {
        s->allowed[s->way[i].way] = false;
    }
    s->open[s->open_count++] = (group){begin, end, fmax(bound, least)};
    s->looked_at_count++;
    return code;
}

/* Takes out the one of the least bound; of equals the smallest. */
static group take_least(search *s)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < s->open_count; i++) {
        const group *a = &s->open[i];
        const group *b = &s->open[best];
        best = a->bound < b->bound || (a->bound == b->bound && a->end - a->begin < b->end - b->begin) ? i : best;
    }
    const group least = s->open[best];
    s->open[best] = s->open[--s->open_count];
    return least;
}

gal_code gal_table_ways_bound(gal_priced_way *way, uint32_t count, uint32_t way_limit, double enough_seconds,
                              gal_ways_bound *bound_of, void *context, double *least, gal_error *err)
{
    gal_code code = GAL_OK;
    search s = {.way = way, .bound_of = bound_of, .context = context};
    s.allowed = calloc((size_t)way_limit + 1, sizeof *s.allowed);
    if (s.allowed == NULL) {
        GAL_TRY(no_memory(err));
    }
    s.open[s.open_count++] = (group){0, count, count > 0 ? 0.0 : HUGE_VAL};
    for (;;) {
        const group g = take_least(&s);
        *least = fmin(g.bound, enough_seconds);
        if (g.bound >= enough_seconds || g.end - g.begin < 2 || s.looked_at_count + 2 > GROUPS_LOOKED_AT) {
            break;
        }
        const uint32_t middle = halve(way, g.begin, g.end);
        GAL_TRY(open_group(&s, g.begin, middle, g.bound));
        GAL_TRY(open_group(&s, middle, g.end, g.bound));
    }
cleanup:
    free(s.allowed);
    return code;
}
