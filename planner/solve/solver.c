#include "planner/solve/solver.h"

#include <stdlib.h>
#include <string.h>

#include "planner/solve/intervals.h"

#define X(enumerator, name, function, proves) [enumerator] = name,
const char *const gal_solver_names[GAL_SOLVER_COUNT] = {GAL_SOLVERS(X)};
#undef X
#define X(enumerator, name, function, proves) [enumerator] = {name, proves, function},
const gal_solver gal_solvers[GAL_SOLVER_COUNT] = {GAL_SOLVERS(X)};
#undef X

gal_code gal_solve(const gal_solver *solver, const gal_instance *g, const gal_solver_limits *limits, gal_solution *out,
                   gal_error *err)
{
    gal_code code = GAL_OK;
    *out = (gal_solution){0};
    GAL_TRY(gal_assignment_create(g, &out->best, err));
    GAL_TRY(solver->solve(g, limits, out, err));
    if (!solver->proves) {
        GAL_TRY(gal_solve_bound(g, &out->bound_ps, err));
    }
cleanup:
    if (code != GAL_OK) {
        gal_solution_free(out);
    }
    return code;
}

void gal_solution_free(gal_solution *solution)
{
    gal_assignment_free(&solution->best);
}

/* ---- the least bytes ---- */

typedef struct least {
    const gal_instance *instance;
    gal_intervals *intervals; /* for its groups and choices */
    int64_t *need;            /* as gal_intervals.interval: 1 + least bytes of a row of layers; 0: not known yet */
    int64_t *rest;            /* (stage, first): of the stages from this one on */
    uint32_t *cut;            /* (stage, first): where the stage ends for that */
    uint32_t *strategy;
    uint64_t label_limit;
    bool is_exact;
} least;

static gal_code need_of(least *s, uint32_t stage, uint32_t first, uint32_t end, int64_t *bytes, gal_error *err)
{
    gal_intervals *t = s->intervals;
    int64_t *known = &s->need[gal_interval_at(t, stage, first, end) - t->interval];
    if (*known == 0) {
        const uint32_t home = gal_interval_home(t, first, end);
        const gal_stage row = {t->choices[t->group[stage]], home, home + (end - first)};
        bool is_exact = false;
        const gal_code code = gal_stage_least_bytes(&row, s->label_limit, 0, s->strategy, known, &is_exact, err);
        if (code != GAL_OK) {
            return code;
        }
        s->is_exact = s->is_exact && is_exact;
        *known += 1;
    }
    *bytes = *known - 1;
    return GAL_OK;
}

/* A stage needs no less with more layers. (Those behind it may need more with fewer: a layer that moves to an earlier
 * stage is held for more microbatches.) */
static gal_code best_cut(least *s, uint32_t stage, uint32_t first, gal_error *err)
{
    const gal_instance *g = s->instance;
    const size_t width = (size_t)g->layer_count + 1;
    const uint32_t last = g->layer_count - (g->stage_count - 1 - stage);
    int64_t here = 0;
    int64_t *rest = &s->rest[stage * width + first];
    *rest = GAL_NEVER;
    for (uint32_t end = stage + 1 == g->stage_count ? last : first + 1; end <= last; end++) {
        const gal_code code = need_of(s, stage, first, end, &here, err);
        if (code != GAL_OK || here >= *rest) {
            return code;
        }
        const int64_t behind = stage + 1 == g->stage_count ? 0 : s->rest[(stage + 1) * width + end];
        const int64_t worst = here > behind ? here : behind;
        if (worst < *rest) {
            *rest = worst;
            s->cut[stage * width + first] = end;
        }
    }
    return GAL_OK;
}

gal_code gal_solve_least_bytes(const gal_instance *g, uint64_t label_limit, gal_assignment *out, int64_t *bytes,
                               bool *is_exact, gal_error *err)
{
    gal_code code = GAL_OK;
    const size_t width = (size_t)g->layer_count + 1;
    least s = {.instance = g, .label_limit = label_limit, .is_exact = true};
    GAL_TRY(gal_intervals_create(g, &s.intervals, err));
    s.need = calloc(s.intervals->group_count * width * width, sizeof *s.need);
    s.rest = calloc(g->stage_count * width, sizeof *s.rest);
    s.cut = calloc(g->stage_count * width, sizeof *s.cut);
    s.strategy = calloc(g->layer_count, sizeof *s.strategy);
    if (s.need == NULL || s.rest == NULL || s.cut == NULL || s.strategy == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    for (uint32_t i = g->stage_count; i-- > 0;) {
        for (uint32_t first = i; first <= (i == 0 ? 0 : g->layer_count - (g->stage_count - i)); first++) {
            GAL_TRY(best_cut(&s, i, first, err));
        }
    }
    *bytes = s.rest[0];
    for (uint32_t i = 0; i < g->stage_count; i++) {
        const uint32_t first = out->stage_first[i];
        const uint32_t end = s.cut[i * width + first];
        const gal_stage row = {s.intervals->choices[s.intervals->group[i]], first, end};
        int64_t unused;
        bool proven;
        out->stage_first[i + 1] = end;
        GAL_TRY(gal_stage_least_bytes(&row, label_limit, 0, out->strategy, &unused, &proven, err));
    }
    gal_assignment_price(g, out);
    *is_exact = s.is_exact;
cleanup:
    gal_intervals_free(s.intervals);
    free(s.need);
    free(s.rest);
    free(s.cut);
    free(s.strategy);
    return code;
}
