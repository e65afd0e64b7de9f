/* Problem documents. One that is accepted and small is solved by every algorithm that is quick: each answer fits, and
 * none is below a bound that another one proved. */
#include "planner/solve/solver.h"
#include "schemas/document.h"
#include "tests/fuzz/input.h"

enum { LAYERS_MAX = 12, STRATEGIES_MAX = 6, STAGES_MAX = 4 };

static void solve(const gal_problem *problem)
{
    const gal_solver_limits limits = {.label_limit = 2000, .time_limit_seconds = 1.0};
    gal_instance *g = NULL;
    GAL_FUZZ_REQUIRE(gal_instance_create(problem, &g, NULL) == GAL_OK);
    int64_t bound_ps = 0;
    int64_t best_ps = GAL_NEVER;
    for (uint32_t i = 0; i < GAL_SOLVER_ILP; i++) { /* the last, and slow */
        gal_solution s;
        GAL_FUZZ_REQUIRE(gal_solve(&gal_solvers[i], g, &limits, &s, NULL) == GAL_OK);
        bound_ps = s.bound_ps > bound_ps ? s.bound_ps : bound_ps;
        best_ps = s.best.value_ps < best_ps ? s.best.value_ps : best_ps;
        gal_solution_free(&s);
    }
    GAL_FUZZ_REQUIRE(bound_ps <= best_ps);
    gal_instance_free(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    gal_problem problem = {0};
    gal_problem again = {0};
    if (gal_fuzz_round_trip(GAL_DOCUMENT_PROBLEM, bytes, byte_count, &problem, &again) &&
        gal_problem_layer_count(&problem) <= LAYERS_MAX && problem.strategy_count <= STRATEGIES_MAX &&
        problem.stage_count <= STAGES_MAX) {
        solve(&problem);
    }
    gal_problem_free(&again);
    gal_problem_free(&problem);
    return 0;
}
