#include "planner/published/paper_row.h"

#include <string.h>

static uint32_t index_of(const gal_paper *paper, const char *name)
{
    const gal_paper_strategy *found = gal_paper_find(paper, name);
    return found == NULL ? GAL_PAPER_STRATEGIES_MAX : (uint32_t)(found - paper->strategy);
}

static bool better(const gal_paper_answer *a, const gal_paper_answer *b)
{
    return a->feasible && (!b->feasible || a->samples_per_second > b->samples_per_second);
}

/* What a strategy contains stands before it in the document (gal_paper_read), so this ends. */
static gal_code fill(gal_paper_row *row, uint32_t strategy, gal_error *err)
{
    const gal_paper_strategy *asked = &row->paper->strategy[strategy];
    const char *at = asked->contains;
    char name[GAL_NAME_BYTES];
    gal_code code = gal_paper_answer_of(&row->request, asked, &row->own[strategy], err);
    row->known[strategy] = true;
    row->of[strategy] = strategy;
    while (code == GAL_OK && gal_paper_next_name(&at, name)) {
        const uint32_t inner = index_of(row->paper, name);
        if (!gal_paper_lists(row->table->strategies, name)) {
            continue;
        }
        code = row->known[inner] ? GAL_OK : fill(row, inner, err);
        if (code == GAL_OK && better(&row->own[row->of[inner]], &row->own[row->of[strategy]])) {
            row->of[strategy] = row->of[inner];
        }
    }
    return code;
}

gal_code gal_paper_row_answer(gal_paper_row *row, uint32_t strategy, const gal_paper_answer **out, uint32_t *of,
                              gal_error *err)
{
    const gal_code code = row->known[strategy] ? GAL_OK : fill(row, strategy, err);
    if (code == GAL_OK) {
        *of = row->of[strategy];
        *out = &row->own[*of];
    }
    return code;
}

void gal_paper_row_free(gal_paper_row *row)
{
    for (uint32_t i = 0; i < GAL_PAPER_STRATEGIES_MAX; i++) {
        gal_plan_free(&row->own[i].plan);
    }
}
