#include "planner/bound/first_path.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BISECTIONS = 30, TIGHTENINGS = 4 };

/* A type of block under the layout: without recompute, and by how much each kind of it is smaller and slower. */
typedef struct variant {
    uint32_t strategy;
    double seconds; /* of a microbatch, forward and backward */
    double bytes;
} variant;

typedef struct layout {
    const gal_cell *cell;
    uint32_t plain;       /* the strategy without recompute */
    variant *of;          /* [stage][type][recompute]; seconds infinite: not to be had */
    double *shared_bytes; /* [stage]: at most, used in turn */
    double limit_bytes;
    uint32_t *stage, *strategy; /* [block]: the path */
} layout;

static variant *variant_at(const layout *l, uint32_t stage, uint32_t type, gal_recompute recompute)
{
    return &l->of[((size_t)stage * l->cell->types.type_count + type) * GAL_RECOMPUTE_COUNT + recompute];
}

/* ---- what a stage of some blocks takes ---- */

/* So many blocks of a type take a kind of recompute instead of the one before. */
typedef struct stage_plan {
    double seconds, bytes;
    uint32_t count[GAL_TYPES_MAX][GAL_RECOMPUTE_COUNT];
} stage_plan;

typedef struct saving {
    uint32_t type;
    gal_recompute from, to;
    double bytes, seconds; /* of one block: how many fewer, how many more */
} saving;

/* The kind of recompute that saves most per second lost, of those that some block can still take; false: none. */
static bool best_saving(const layout *l, uint32_t stage, const stage_plan *plan, saving *out)
{
    double best = 0.0;
    for (uint32_t type = 0; type < l->cell->types.type_count; type++) {
        for (uint32_t from = 0; from < GAL_RECOMPUTE_COUNT; from++) {
            for (uint32_t to = 0; to < GAL_RECOMPUTE_COUNT && plan->count[type][from] > 0; to++) {
                const variant *a = variant_at(l, stage, type, (gal_recompute)from);
                const variant *b = variant_at(l, stage, type, (gal_recompute)to);
                const double bytes = a->bytes - b->bytes;
                const double rate =
                    b->seconds < HUGE_VAL && bytes > 0.0 ? bytes / fmax(b->seconds - a->seconds, 1e-12) : 0.0;
                if (rate > best) {
                    best = rate;
                    *out = (saving){type, (gal_recompute)from, (gal_recompute)to, bytes, b->seconds - a->seconds};
                }
            }
        }
    }
    return best > 0.0;
}

/* Blocks [first, end) on the stage; false: they do not fit whatever runs again. */
static bool plan_stage(const layout *l, uint32_t stage, uint32_t first, uint32_t end, stage_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->bytes = l->shared_bytes[stage];
    for (uint32_t i = first; i < end; i++) {
        const uint32_t type = l->cell->types.type_of[i];
        const variant *v = variant_at(l, stage, type, GAL_RECOMPUTE_NONE);
        plan->count[type][GAL_RECOMPUTE_NONE]++;
        plan->seconds += v->seconds;
        plan->bytes += v->bytes;
    }
    saving s = {0};
    while (plan->bytes > l->limit_bytes && best_saving(l, stage, plan, &s)) {
        uint32_t *from = &plan->count[s.type][s.from];
        const double wanted = ceil((plan->bytes - l->limit_bytes) / s.bytes);
        const uint32_t moved = wanted < *from ? (uint32_t)wanted : *from;
        *from -= moved;
        plan->count[s.type][s.to] += moved;
        plan->bytes -= moved * s.bytes;
        plan->seconds += moved * s.seconds;
    }
    return plan->bytes <= l->limit_bytes;
}

/* ---- the cut ---- */

/* As many blocks as are not slower than `most`; at least one, and one is left for every later stage. */
static uint32_t longest(const layout *l, uint32_t stage, uint32_t first, double most, bool *fits)
{
    const uint32_t later = l->cell->spec.pp_degree - 1 - stage;
    uint32_t low = first + 1;
    uint32_t high = l->cell->block_count - later;
    stage_plan plan;
    *fits = plan_stage(l, stage, first, low, &plan) && plan.seconds <= most;
    while (low < high) { /* more blocks are slower and larger */
        const uint32_t middle = low + (high - low + 1) / 2;
        if (plan_stage(l, stage, first, middle, &plan) && plan.seconds <= most) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

/* The ends of stages none of which is slower than `most`; false: there are none. */
static bool cut(const layout *l, double most, uint32_t *end)
{
    uint32_t first = 0;
    bool all = true;
    for (uint32_t p = 0; p < l->cell->spec.pp_degree && all; p++) {
        end[p] = longest(l, p, first, most, &all);
        first = end[p];
    }
    return all && first == l->cell->block_count;
}

static bool cut_evenly(const layout *l, uint32_t *end)
{
    double high = 0.0;
    double low = 0.0;
    for (uint32_t i = 0; i < l->cell->block_count; i++) { /* all of them on one stage, all run again */
        double slowest = 0.0;
        for (uint32_t r = 0; r < GAL_RECOMPUTE_COUNT; r++) {
            const variant *v = variant_at(l, 0, l->cell->types.type_of[i], (gal_recompute)r);
            slowest = v->seconds < HUGE_VAL ? fmax(slowest, v->seconds) : slowest;
        }
        high += slowest;
    }
    if (!cut(l, high, end)) {
        return false;
    }
    for (uint32_t i = 0; i < BISECTIONS; i++) {
        const double middle = 0.5 * (low + high);
        *(cut(l, middle, end) ? &high : &low) = middle;
    }
    return cut(l, high, end);
}

/* ---- the path ---- */

/* Blocks that run again come first: later ones may then turn to backward at once. */
static void write_stage(const layout *l, uint32_t stage, uint32_t first, uint32_t end)
{
    stage_plan plan;
    (void)plan_stage(l, stage, first, end, &plan);
    for (uint32_t i = first; i < end; i++) {
        const uint32_t type = l->cell->types.type_of[i];
        gal_recompute recompute = GAL_RECOMPUTE_COUNT;
        do {
            recompute--;
        } while (recompute > 0 && plan.count[type][recompute] == 0);
        plan.count[type][recompute]--;
        l->stage[i] = stage;
        l->strategy[i] = variant_at(l, stage, type, recompute)->strategy;
    }
}

static bool layout_fill(layout *l)
{
    const gal_cell *cell = l->cell;
    for (uint32_t p = 0; p < cell->spec.pp_degree; p++) {
        gal_shared_bytes shared = {0};
        for (uint32_t type = 0; type < cell->types.type_count; type++) {
            const uint32_t block = cell->types.type_first[type];
            for (uint32_t r = 0; r < GAL_RECOMPUTE_COUNT; r++) {
                *variant_at(l, p, type, (gal_recompute)r) = (variant){0, HUGE_VAL, 0.0};
            }
            for (uint32_t s = l->plain;
                 s < cell->strategy_count && (s == l->plain || cell->strategy[s].recompute != GAL_RECOMPUTE_NONE);
                 s++) {
                const gal_cell_node *node = &cell->node[gal_cell_price_index(cell, block, p, s)];
                if (gal_cell_price(cell, block, p, s) != NULL) {
                    *variant_at(l, p, type, cell->strategy[s].recompute) = (variant){
                        s, node->block.forward_seconds + node->block.backward_seconds, (double)node->block.bytes};
                    gal_shared_join(&shared, &node->block.shared);
                }
            }
            if (variant_at(l, p, type, GAL_RECOMPUTE_NONE)->seconds == HUGE_VAL) {
                return false;
            }
        }
        l->shared_bytes[p] = (double)gal_shared_sum(&shared);
    }
    return true;
}

static bool is_legal(const layout *l)
{
    for (uint32_t i = 1; i < l->cell->block_count; i++) {
        if (l->cell->pair[gal_cell_pair_index(l->cell, i, l->stage[i], l->strategy[i - 1], l->strategy[i])] == NULL) {
            return false;
        }
    }
    return true;
}

static void keep(const layout *l, double seconds, gal_best_path *best)
{
    if (seconds < best->seconds) {
        best->seconds = seconds;
        memcpy(best->stage, l->stage, l->cell->block_count * sizeof *l->stage);
        memcpy(best->strategy, l->strategy, l->cell->block_count * sizeof *l->strategy);
    }
}

/* What closes a stage and what its blocks share is not known to the byte: where a path does not fit, less is filled. */
static void try_layout(layout *l, uint32_t *end, gal_best_path *best, uint64_t *least_bytes)
{
    const gal_cell *cell = l->cell;
    l->limit_bytes = (double)cell->spec.arena_limit_bytes;
    for (uint32_t i = 0; i < TIGHTENINGS && cut_evenly(l, end); i++) {
        uint64_t most_bytes = 0;
        for (uint32_t p = 0; p < cell->spec.pp_degree; p++) {
            write_stage(l, p, p == 0 ? 0 : end[p - 1], end[p]);
        }
        if (!is_legal(l)) {
            return;
        }
        const double seconds = gal_cell_evaluate(cell, l->stage, l->strategy, &most_bytes);
        *least_bytes = *least_bytes == 0 || most_bytes < *least_bytes ? most_bytes : *least_bytes;
        if (seconds < HUGE_VAL) {
            keep(l, seconds, best);
            return;
        }
        l->limit_bytes -= 1.1 * ((double)most_bytes - (double)cell->spec.arena_limit_bytes);
    }
}

gal_code gal_first_path(const gal_cell *cell, gal_best_path *best, uint64_t *least_bytes, gal_error *err)
{
    const size_t stages = cell->spec.pp_degree;
    layout l = {.cell = cell,
                .of = calloc(stages * cell->types.type_count * GAL_RECOMPUTE_COUNT, sizeof *l.of),
                .shared_bytes = calloc(stages, sizeof *l.shared_bytes),
                .stage = calloc(2 * (size_t)cell->block_count + stages, sizeof *l.stage)};
    const bool have = l.of != NULL && l.shared_bytes != NULL && l.stage != NULL;
    if (have) {
        l.strategy = l.stage + cell->block_count;
        for (l.plain = 0; l.plain < cell->strategy_count; l.plain++) {
            if (cell->strategy[l.plain].recompute == GAL_RECOMPUTE_NONE && layout_fill(&l)) {
                try_layout(&l, l.strategy + cell->block_count, best, least_bytes);
            }
        }
    }
    free(l.stage);
    free(l.shared_bytes);
    free(l.of);
    return have ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}
