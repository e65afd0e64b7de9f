/* The algorithms of `galplan search`: one table, one function each.
 *
 * `exact` is gal_search. The others are published planners, or a published model solved otherwise. Such an algorithm
 * sees a cell (batch, microbatches, P) as its paper models it: its part of the space, tables of its own made of the
 * cell's prices, its equations for seconds and bytes. It proposes one plan a cell. What that plan is worth is then said
 * as for any plan: by the objective and the byte rule of planner/cell/cell.h, by lowering and simulation. Of the
 * proposals that fit by that rule the one is returned of which the algorithm itself expects most samples per second (a
 * cell from which its own model expects fewer, by a bound, is not solved); in a space that has the same bytes
 * (planner/space/conversions.h: those of a larger space may be more) no plan that fits is faster than what gal_search
 * proves. The plans of oases have its schedule of sub-batches, whatever the space says: they are in spaces with
 * overlap. */
#ifndef GAL_PLANNER_SEARCH_NAMED_H
#define GAL_PLANNER_SEARCH_NAMED_H

#include "planner/cell/cell_list.h"
#include "planner/solve/solver.h"

/* What an algorithm's own model says of its plan. */
typedef struct gal_opinion {
    double seconds;       /* of an iteration */
    double bound_seconds; /* of its batch: by its own model no plan of its space takes less per sample; 0: not said */
    double seconds_balance_degree, bytes_balance_degree; /* Galvatron-BMW, Eq. 6 */
} gal_opinion;

/* A proposal that does not fit. */
typedef struct gal_misfit {
    gal_cell_numbers numbers;
    double own_seconds, objective_seconds;
    uint64_t bytes; /* of its largest stage by the rule of cells, fixed bytes included */
} gal_misfit;

/* search: as gal_search gives it; of a named algorithm the finalists are best first by its own measure, their bounds 0,
 * and its unproven cells are those whose tables the solver, which proves, did not finish. */
typedef struct gal_algorithm_answer {
    gal_search_result search;
    gal_opinion opinion;        /* of the winner; exact: the objective alone */
    uint32_t misfit_cell_count; /* of the cells */
    gal_misfit misfit;          /* the best of these by the algorithm's own measure */
} gal_algorithm_answer;

typedef struct gal_algorithm {
    const char *name;
    /* GAL_OK also where nothing is found, search.feasible then false. GAL_ERR_USAGE if the request asks for what the
     * algorithm does not know; else as gal_search. */
    gal_code (*search)(const gal_search_request *request, const gal_solver_limits *limits, gal_algorithm_answer *out,
                       gal_error *err);
} gal_algorithm;

/* X(enumerator, name, function); the first is the default */
#define GAL_ALGORITHMS(X)                                                                                              \
    X(GAL_ALGORITHM_EXACT, "exact", gal_algorithm_exact)                                                               \
    X(GAL_ALGORITHM_ILP, "ilp", gal_algorithm_ilp)                                                                     \
    X(GAL_ALGORITHM_GALVATRON_BASE, "galvatron-base", gal_algorithm_galvatron_base)                                    \
    X(GAL_ALGORITHM_GALVATRON_BMW, "galvatron-bmw", gal_algorithm_galvatron_bmw)                                       \
    X(GAL_ALGORITHM_OASES, "oases", gal_algorithm_oases)

typedef enum gal_algorithm_kind {
#define X(enumerator, name, function) enumerator,
    GAL_ALGORITHMS(X)
#undef X
        GAL_ALGORITHM_COUNT
} gal_algorithm_kind;

extern const char *const gal_algorithm_names[GAL_ALGORITHM_COUNT];
extern const gal_algorithm gal_algorithms[GAL_ALGORITHM_COUNT];

#define X(enumerator, name, function)                                                                                  \
    gal_code function(const gal_search_request *request, const gal_solver_limits *limits, gal_algorithm_answer *out,   \
                      gal_error *err);
GAL_ALGORITHMS(X)
#undef X

/* Oases' prices (Eq. 3 and 4) in its space, by GLPK in place of the exact solver: the same tables. */
gal_code gal_algorithm_oases_ilp(const gal_search_request *request, const gal_solver_limits *limits,
                                 gal_algorithm_answer *out, gal_error *err);

/* The ablation of Galvatron-BMW's Table V: its strategies on the partition balanced in memory (1F1B+Mem), in time
 * (1F1B+Time). */
gal_code gal_algorithm_galvatron_memory(const gal_search_request *request, const gal_solver_limits *limits,
                                        gal_algorithm_answer *out, gal_error *err);
gal_code gal_algorithm_galvatron_time(const gal_search_request *request, const gal_solver_limits *limits,
                                      gal_algorithm_answer *out, gal_error *err);

/* Of what gal_algorithm.search gave. */
void gal_algorithm_answer_free(gal_algorithm_answer *answer);

#endif
