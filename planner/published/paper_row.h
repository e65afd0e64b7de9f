/* The strategies of a table's row: one model under one budget.
 *
 * Each is answered once, and never worse than those that it contains (gal_paper_strategy.contains) and the table
 * lists: whatever they may choose, it may. An algorithm alone does not give that: it weighs plans by its own tables,
 * and a batch that it prefers can be the slower one as simulated, or the one that does not fit. */
#ifndef GAL_PLANNER_PUBLISHED_PAPER_ROW_H
#define GAL_PLANNER_PUBLISHED_PAPER_ROW_H

#include "planner/published/paper.h"

typedef struct gal_paper_row {
    const gal_paper *paper;
    const gal_paper_table *table;
    gal_search_request request;
    bool known[GAL_PAPER_STRATEGIES_MAX];
    uint32_t of[GAL_PAPER_STRATEGIES_MAX];          /* strategy -> the one whose plan is its answer */
    gal_paper_answer own[GAL_PAPER_STRATEGIES_MAX]; /* owned */
} gal_paper_row;

/* What a strategy answers: *of says whose plan it is, strategy itself or one that it contains. Lent until
 * gal_paper_row_free. Errors as gal_paper_answer_of. */
gal_code gal_paper_row_answer(gal_paper_row *row, uint32_t strategy, const gal_paper_answer **out, uint32_t *of,
                              gal_error *err);
void gal_paper_row_free(gal_paper_row *row);

#endif
