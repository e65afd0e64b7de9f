/* What named algorithms share (planner/search/named.h): they look at every cell as a problem in plain tables and leave
 * that to a solver of these. For their files alone. */
#ifndef GAL_PLANNER_SEARCH_NAMED_SEARCH_H
#define GAL_PLANNER_SEARCH_NAMED_SEARCH_H

#include "planner/search/named.h"

#define GAL_ANY_EMBEDDING UINT32_MAX

/* A cell, and which of its strategies stand for the embedding's where the tables are tied: both ends then take what is
 * alike. One solve for each kind of shards keeps that rule out of the tables. */
typedef struct gal_named_cell {
    const gal_cell *cell;
    uint32_t embedding; /* GAL_ANY_EMBEDDING: not tied */
} gal_named_cell;

bool gal_named_allows(const gal_named_cell *cell, uint32_t block, uint32_t strategy);

/* The cell as tables. */
typedef struct gal_named_view {
    gal_problem problem; /* owned */
    uint32_t *strategy;  /* owned: (block, strategy of the problem): that of the cell */
    double repeats;      /* what the problem's seconds are multiplied with to be those of an iteration */
} gal_named_view;

typedef struct gal_named_rule {
    gal_space space;
    uint32_t pp_most;
    const gal_solver *solver;
    /* GAL_NO: nothing to choose for some block. */
    gal_code (*view)(const gal_named_cell *cell, gal_named_view *out, gal_error *err);
    void (*finish)(gal_plan *plan); /* what the algorithm adds to a path's plan: overlap, as the space with it has it
                                     * (gal_space_overlap_of); NULL: nothing */
} gal_named_rule;

gal_code gal_named_search(const gal_search_request *request, const gal_named_rule *rule,
                          const gal_solver_limits *limits, gal_algorithm_answer *out, gal_error *err);

#endif
