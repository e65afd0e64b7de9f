#include "tests/support/numerics_draw.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/random_plan.h"

enum { DRAWS = 200 };

static uint32_t world_of(uint32_t slot, uint32_t launched, gal_draw_kind kind)
{
    static const uint8_t worlds[] = {8, 4, 8, 2, 8, 4, 8, 3, 4, 8, 2, 8, 4, 8, 6, 4, 8, 2, 4, 1};
    static const uint8_t large[] = {9, 16, 12};
    if (kind == GAL_DRAW_GRIDS) {
        return large[slot % sizeof large];
    }
    const uint32_t world = worlds[slot % sizeof worlds];
    const uint32_t least = kind == GAL_DRAW_OVERLAPS ? 2 : 1;
    return world < least ? least : world > launched ? launched : world;
}

static int by_world(const void *a, const void *b)
{
    const gal_drawn *x = a;
    const gal_drawn *y = b;
    return x->world != y->world ? (x->world > y->world ? 1 : -1) : (x->seed > y->seed) - (x->seed < y->seed);
}

void gal_drawn_plan(const gal_drawn *drawn, gal_plan *out)
{
    gal_random_plan(drawn->seed, drawn->world, out);
    gal_random_reuse(drawn->seed, out);
    gal_random_offload(drawn->seed, out);
    if (drawn->stores) {
        gal_random_storage(drawn->seed, out);
    }
    gal_random_shard_units(drawn->seed, out);
}

bool gal_drawn_turn_overlap(gal_plan *plan, uint32_t steps)
{
    const uint32_t kinds = GAL_OVERLAP_COUNT - GAL_OVERLAP_IN_PASS;
    bool has = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        gal_strategy *s = &plan->run[r].strategy;
        if (s->overlap >= GAL_OVERLAP_IN_PASS && s->recompute == GAL_RECOMPUTE_FULL) {
            s->overlap = (gal_overlap)(GAL_OVERLAP_IN_PASS + (s->overlap - GAL_OVERLAP_IN_PASS + steps) % kinds);
            has = true;
        }
    }
    return has;
}

static gal_drawn draw_for_cells(uint64_t *seed, uint32_t world, bool stores, const gal_coverage *coverage)
{
    gal_drawn best = {0, world, stores};
    uint32_t best_gain = 0;
    for (uint32_t d = 0; d < DRAWS && (d == 0 || gal_coverage_short(coverage) > 0); d++) {
        bool hit[GAL_COVERAGE_CELLS_MAX];
        gal_plan plan;
        gal_drawn_plan(&(gal_drawn){++*seed, world, stores}, &plan);
        gal_coverage_of(&plan, hit);
        gal_plan_free(&plan);
        const uint32_t gain = gal_coverage_gain(coverage, hit);
        if (d == 0 || gain > best_gain) {
            best.seed = *seed;
            best_gain = gain;
        }
    }
    return best;
}

static bool has_large_grid(const gal_plan *plan)
{
    bool has = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const gal_strategy *s = &plan->run[r].strategy;
        has = has || (s->tp_mode != GAL_TP_1D && gal_strategy_degree(s, GAL_AXIS_TP) > 8);
    }
    return has;
}

/* Until it has what its kind asks for: some 3 in 10 have overlap, some 1 in 10 over so many ranks a large grid. */
static gal_drawn draw_with(gal_draw_kind kind, uint64_t *seed, uint32_t world, bool stores)
{
    for (;;) {
        gal_plan plan;
        gal_drawn_plan(&(gal_drawn){++*seed, world, stores}, &plan);
        const bool has = kind == GAL_DRAW_GRIDS ? has_large_grid(&plan) : gal_drawn_turn_overlap(&plan, 1);
        gal_plan_free(&plan);
        if (has) {
            return (gal_drawn){*seed, world, stores};
        }
    }
}

static gal_drawn draw_one(uint64_t *seed, uint32_t world, gal_draw_kind kind, bool stores, gal_coverage *coverage)
{
    bool hit[GAL_COVERAGE_CELLS_MAX];
    gal_plan plan;
    const gal_drawn drawn = kind == GAL_DRAW_CELLS ? draw_for_cells(seed, world, stores, coverage)
                            : kind == GAL_DRAW_ANY ? (gal_drawn){++*seed, world, stores}
                                                   : draw_with(kind, seed, world, stores);
    gal_drawn_plan(&drawn, &plan);
    gal_coverage_of(&plan, hit);
    gal_plan_free(&plan);
    gal_coverage_add(coverage, hit);
    return drawn;
}

gal_drawn *gal_draw_plans(uint32_t count, uint64_t seed, uint32_t launched, gal_draw_kind kind, bool stores,
                          gal_coverage *coverage)
{
    gal_drawn *out = calloc(count, sizeof *out);
    GAL_ASSERT(out != NULL && (kind != GAL_DRAW_OVERLAPS || launched > 1) &&
               (kind != GAL_DRAW_GRIDS || launched >= 16));
    for (uint32_t i = 0; i < count; i++) {
        out[i] = draw_one(&seed, world_of(i, launched, kind), kind, stores, coverage);
    }
    qsort(out, count, sizeof *out, by_world);
    return out;
}
