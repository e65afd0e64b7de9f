/* Linear and integer programs, minimised by GLPK. The only door to it.
 *
 * A program is built column by column: a row or a column is added, entries go to the column that was added last. All
 * columns are >= 0. Rows and columns are numbered from 1. */
#ifndef GAL_PLANNER_SOLVE_ILP_GLPK_H
#define GAL_PLANNER_SOLVE_ILP_GLPK_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/status.h"

/* What a column may be, and the order in which those that are not whole are branched on: a later one first. */
typedef enum gal_lp_kind { GAL_LP_ANY, GAL_LP_WHOLE, GAL_LP_NODE, GAL_LP_TOTAL, GAL_LP_STAGE } gal_lp_kind;

typedef struct gal_lp_row {
    double lower, upper; /* -INFINITY, INFINITY: none */
} gal_lp_row;

typedef struct gal_lp_column {
    gal_lp_kind kind;
    double cost, upper; /* INFINITY: none */
} gal_lp_column;

typedef struct gal_lp {
    gal_lp_row *row;
    gal_lp_column *column;
    int *entry_row, *entry_column;
    double *entry;
    int row_count, column_count, entry_count;
    int row_capacity, column_capacity, entry_capacity;
    bool no_memory; /* something was not added */
} gal_lp;

void gal_lp_free(gal_lp *lp);
/* Forgets all rows and columns. */
void gal_lp_clear(gal_lp *lp);
/* Both return the new number, and 0 without memory (which lp remembers). */
int gal_lp_add_row(gal_lp *lp, double lower, double upper);
int gal_lp_add_column(gal_lp *lp, gal_lp_kind kind, double cost, double upper);
/* In the column added last; a row stands in it at most once. */
void gal_lp_put(gal_lp *lp, int row, double entry);

typedef enum gal_lp_end {
    GAL_LP_OPTIMUM,
    GAL_LP_NOTHING, /* no values fit the rows */
    GAL_LP_LIMIT    /* the time was up, or the simplex method gave up */
} gal_lp_end;

/* As if no column had to be whole. value (column_count + 1), unless NULL, and price (row_count + 1), written at an
 * optimum: what it rises by for one more on a row's bound, so <= 0 on an upper one. GAL_ERR_SYSTEM without memory or
 * where GLPK fails. */
gal_code gal_lp_relax(const gal_lp *lp, double time_limit_seconds, gal_lp_end *end, double *objective, double *value,
                      double *price, gal_error *err);

typedef struct gal_lp_search {
    double time_limit_seconds;
    const double *known; /* (column_count + 1): values that fit, to begin with; NULL: none */
} gal_lp_search;

typedef struct gal_lp_found {
    gal_lp_end end;
    bool has_values;
    double objective; /* of the values */
    double bound;     /* proven; GLPK takes what is less than 1e-7 of it better for equal */
    uint64_t branch_count;
} gal_lp_found;

/* Whole columns whole. value (column_count + 1) is written where found->has_values. */
gal_code gal_lp_solve(const gal_lp *lp, const gal_lp_search *how, double *value, gal_lp_found *found, gal_error *err);

#endif
