/* Algorithms on raw problems: one table, one function each. */
#ifndef GAL_PLANNER_SOLVE_SOLVER_H
#define GAL_PLANNER_SOLVE_SOLVER_H

#include "planner/solve/instance.h"

typedef struct gal_solver_limits {
    uint64_t label_limit;       /* exact: labels kept in one round of one stage */
    uint64_t memory_unit_bytes; /* galvatron-*: step of the memory table; 0: at most 1,024 of them */
    double time_limit_seconds;  /* ilp */
} gal_solver_limits;

typedef struct gal_solution {
    gal_assignment best;   /* value_ps GAL_NEVER: none found */
    int64_t bound_ps;      /* no assignment takes less; GAL_NEVER: none fits */
    uint64_t effort_count; /* labels, table cells or branches, by algorithm */
} gal_solution;

typedef struct gal_solver {
    const char *name;
    bool proves; /* it computes bound_ps; else that of gal_solve_bound stands there */
    /* GAL_OK also where it finds nothing. */
    gal_code (*solve)(const gal_instance *instance, const gal_solver_limits *limits, gal_solution *out, gal_error *err);
} gal_solver;

/* X(enumerator, name, function, whether it proves its own bound); the first is the default */
#define GAL_SOLVERS(X)                                                                                                 \
    X(GAL_SOLVER_EXACT, "exact", gal_solve_exact, true)                                                                \
    X(GAL_SOLVER_GALVATRON_BASE, "galvatron-base", gal_solve_galvatron_base, false)                                    \
    X(GAL_SOLVER_GALVATRON_BMW, "galvatron-bmw", gal_solve_galvatron_bmw, false)                                       \
    X(GAL_SOLVER_ILP, "ilp", gal_solve_ilp, true)

typedef enum gal_solver_kind {
#define X(enumerator, name, function, proves) enumerator,
    GAL_SOLVERS(X)
#undef X
        GAL_SOLVER_COUNT
} gal_solver_kind;

extern const char *const gal_solver_names[GAL_SOLVER_COUNT];
extern const gal_solver gal_solvers[GAL_SOLVER_COUNT];

/* Runs one; the caller frees with gal_solution_free. */
gal_code gal_solve(const gal_solver *solver, const gal_instance *instance, const gal_solver_limits *limits,
                   gal_solution *out, gal_error *err);
void gal_solution_free(gal_solution *solution);

/* The bound of `exact` before it searches: Lagrangian bounds of all rows of layers, the best partition under these. */
gal_code gal_solve_bound(const gal_instance *instance, int64_t *bound_ps, gal_error *err);

/* The least budget under which any assignment fits, and such an assignment (its value_ps under the instance's own
 * budget). *is_exact: else label_limit was hit, and the budget is only enough. */
gal_code gal_solve_least_bytes(const gal_instance *instance, uint64_t label_limit, gal_assignment *out, int64_t *bytes,
                               bool *is_exact, gal_error *err);

gal_code gal_solve_exact(const gal_instance *instance, const gal_solver_limits *limits, gal_solution *out,
                         gal_error *err);
gal_code gal_solve_galvatron_base(const gal_instance *instance, const gal_solver_limits *limits, gal_solution *out,
                                  gal_error *err);
gal_code gal_solve_galvatron_bmw(const gal_instance *instance, const gal_solver_limits *limits, gal_solution *out,
                                 gal_error *err);
/* Its ablation: no adjustment; the partition stays balanced in memory, or in seconds, under the strategies found. */
gal_code gal_solve_galvatron_memory(const gal_instance *instance, const gal_solver_limits *limits, gal_solution *out,
                                    gal_error *err);
gal_code gal_solve_galvatron_time(const gal_instance *instance, const gal_solver_limits *limits, gal_solution *out,
                                  gal_error *err);
gal_code gal_solve_ilp(const gal_instance *instance, const gal_solver_limits *limits, gal_solution *out,
                       gal_error *err);

/* Eq. 6: 1 - max / sum over the stages, of seconds and of bytes; 1 - 1 / stage_count is perfect balance. */
void gal_balance_degrees(const gal_instance *instance, const gal_assignment *assignment, double *of_seconds,
                         double *of_bytes);

#endif
