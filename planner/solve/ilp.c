/* `ilp`: the whole problem as one integer program in GLPK, a check on `exact` that shares the instance and its tables
 * of choices with it, and no search, bound or answer.
 *
 * Lagrange's bound and an assignment to begin with (ilp_start.h) leave columns out; the program (ilp_program.h) is
 * solved, what its answer breaks is added, and it is solved again: each time the optimum of a relaxation, so a bound,
 * and in the end an answer that fits. A problem of more than 200,000 columns is not tried. GLPK computes in doubles, to
 * tolerances: bounds are lowered by 1e-6 of their value. */
#include <math.h>
#include <stdlib.h>

#include "planner/solve/ilp_program.h"
#include "planner/solve/ilp_start.h"
#include "planner/solve/solver.h"
#include "schemas/base/clock.h"

enum { ISLAND_ROUNDS_MAX = 60 };
#define TOLERANCE 1e-6
#define START_SHARE 0.25 /* of the time, for bound and start at most */
#define EDGES_MAX 5e7    /* of (layer, stage, from, to): bytes of the table of what is used */

static bool is_too_large(const gal_instance *g)
{
    return (double)g->layer_count * g->stage_count * g->class_count * g->class_count > EDGES_MAX;
}

/* Of the program's objective, or of a value known: nothing is below, to the tolerance. */
static int64_t proven_ps(double value_ps)
{
    const double proven = value_ps * (1.0 - TOLERANCE) - 1.0;
    return proven > 0.0 ? (int64_t)proven : 0;
}

static void raise(int64_t *bound_ps, int64_t proven)
{
    *bound_ps = proven > *bound_ps ? proven : *bound_ps;
}

/* Rows and columns, with the islands that the program breaks while nothing has to be whole. */
static gal_code build(gal_ilp *p, double deadline, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_lp_end end = GAL_LP_OPTIMUM;
    uint32_t found = 1;
    double *price = NULL;
    GAL_TRY(gal_ilp_build(p, err));
    for (uint32_t round = 0; round < ISLAND_ROUNDS_MAX && found > 0 && !p->is_too_large; round++) {
        double objective;
        free(price);
        price = calloc((size_t)p->lp.row_count + 1, sizeof *price);
        if (price == NULL) {
            GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
        }
        GAL_TRY(gal_lp_relax(&p->lp, deadline - gal_now_seconds(), &end, &objective, p->value, price, err));
        if (end != GAL_LP_OPTIMUM) {
            break;
        }
        GAL_TRY(gal_ilp_find_islands(p, &found, err));
        if (found > 0) {
            GAL_TRY(gal_ilp_build(p, err));
        }
    }
cleanup:
    free(price);
    return code;
}

/* One program. *done: its answer fits, there is none, or the time is up. */
static gal_code solve_once(gal_ilp *p, double deadline, bool *is_relaxed, bool *done, gal_solution *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_lp_found found;
    gal_ilp_verdict verdict = GAL_ILP_FITS;
    const bool is_known = out->best.value_ps != GAL_NEVER && gal_ilp_express(p, &out->best);
    const gal_lp_search how = {deadline - gal_now_seconds(), is_known ? p->value : NULL};
    *done = true;
    GAL_TRY(gal_lp_solve(&p->lp, &how, p->value, &found, err));
    out->effort_count += found.branch_count;
    if (found.end == GAL_LP_NOTHING) {
        /* With columns left out: nothing is faster than what they were left out for. */
        if (*is_relaxed) {
            out->bound_ps = out->best.value_ps == GAL_NEVER ? GAL_NEVER : proven_ps((double)out->best.value_ps);
        }
        goto cleanup;
    }
    if (*is_relaxed) {
        const double bound_ps = found.bound * p->second_scale_ps;
        raise(&out->bound_ps, proven_ps(fmin(bound_ps, (double)out->best.value_ps)));
    }
    if (found.has_values) {
        GAL_TRY(gal_ilp_read(p, &verdict, err));
        if (p->answer.value_ps < out->best.value_ps) {
            gal_assignment_copy(p->g, &out->best, &p->answer);
        }
    }
    *is_relaxed = *is_relaxed && verdict != GAL_ILP_TIGHTENED;
    *done = verdict == GAL_ILP_FITS || found.end == GAL_LP_LIMIT;
cleanup:
    return code;
}

gal_code gal_solve_ilp(const gal_instance *g, const gal_solver_limits *limits, gal_solution *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const double deadline = gal_now_seconds() + limits->time_limit_seconds;
    gal_relaxed relaxed = {0};
    gal_ilp p = {0};
    bool is_relaxed = true;
    bool done = false;
    if (is_too_large(g)) {
        return GAL_OK;
    }
    GAL_TRY(gal_relaxed_create(g, &relaxed, err));
    GAL_TRY(gal_ilp_start(&relaxed, START_SHARE * limits->time_limit_seconds, &out->best, &out->bound_ps, err));
    GAL_TRY(gal_ilp_create(&relaxed, &p, err));
    while (!done && gal_now_seconds() < deadline) {
        GAL_TRY(build(&p, deadline, err));
        if (p.is_too_large) {
            break;
        }
        GAL_TRY(solve_once(&p, deadline, &is_relaxed, &done, out, err));
    }
cleanup:
    gal_ilp_free(&p);
    gal_relaxed_free(&relaxed);
    return code;
}
