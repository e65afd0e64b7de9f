#include "planner/stages/cell_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of a type: for each stage at first; that join then, twice as many each time. EDGES_PER_LABEL: how large a cell
 * may grow, per label of the limit. */
enum { FIRST_OF_STAGE = 2, FIRST_JOINING = 8, EDGES_PER_LABEL = 5, DEVICES_PER_STAGE = 8 };

/* ---- which strategies ---- */

typedef struct chosen {
    const gal_screened *screened;
    bool *allowed; /* [type][strategy] */
    double bound;  /* no faster plan has a block of what was left out */
} chosen;

static gal_code chosen_create(const gal_screened *screened, chosen *out, gal_error *err)
{
    *out = (chosen){screened, calloc((size_t)screened->types->type_count * screened->strategy_count + 1, sizeof(bool)),
                    -HUGE_VAL};
    return out->allowed != NULL ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

/* The `most` of least reduced seconds below the cutoff join, the first of equals. Returns how many. */
static uint32_t join(chosen *c, uint32_t type, uint32_t most, double cutoff_seconds)
{
    const uint32_t count = c->screened->strategy_count;
    const double *reduced = c->screened->reduced_seconds + (size_t)type * count;
    bool *allowed = c->allowed + (size_t)type * count;
    uint32_t joined = 0;
    for (; joined < most; joined++) {
        uint32_t best = count;
        for (uint32_t s = 0; s < count; s++) {
            if (!allowed[s] && reduced[s] < cutoff_seconds && (best == count || reduced[s] < reduced[best])) {
                best = s;
            }
        }
        if (best == count) {
            break;
        }
        allowed[best] = true;
    }
    return joined;
}

/* All types may have the layouts that one may, with any recompute: so nothing need be converted. */
static void share_layouts(chosen *c)
{
    const gal_screened *s = c->screened;
    uint32_t end = 0;
    for (uint32_t plain = 0; plain < s->strategy_count; plain = end) {
        bool any = false;
        for (end = plain; end < s->strategy_count && (end == plain || s->strategy[end].recompute != GAL_RECOMPUTE_NONE);
             end++) { /* those that differ in recompute alone follow each other (gal_space_strategies) */
            for (uint32_t type = 0; type < s->types->type_count; type++) {
                any = any || c->allowed[(size_t)type * s->strategy_count + end];
            }
        }
        for (size_t at = 0; any && at < (size_t)s->types->type_count * s->strategy_count; at += s->strategy_count) {
            for (uint32_t i = plain; i < end; i++) {
                c->allowed[at + i] = s->legal[at + i];
            }
        }
    }
}

static uint32_t join_all(chosen *c, uint32_t most, double cutoff_seconds)
{
    uint32_t joined = 0;
    for (uint32_t type = 0; type < c->screened->types->type_count; type++) {
        joined += join(c, type, most, cutoff_seconds);
    }
    return joined;
}

/* Of a cell among what is allowed: the edges at one block, which every round of its dual looks at on every stage; the
 * more devices a stage has, the longer takes the price of one. */
static uint64_t edges_of(const chosen *c)
{
    uint64_t strategies = 0;
    for (uint32_t i = 0; i < c->screened->strategy_count; i++) {
        bool any = false;
        for (uint32_t type = 0; type < c->screened->types->type_count; type++) {
            any = any || c->allowed[(size_t)type * c->screened->strategy_count + i];
        }
        strategies += any;
    }
    const gal_cell_spec *spec = &c->screened->spec;
    const uint32_t wide = spec->device_count / spec->pp_degree / DEVICES_PER_STAGE;
    return strategies * strategies * (wide > spec->pp_degree ? wide : spec->pp_degree);
}

static void bound_rest(chosen *c)
{
    c->bound = HUGE_VAL;
    for (size_t i = 0; i < (size_t)c->screened->types->type_count * c->screened->strategy_count; i++) {
        c->bound = c->allowed[i] ? c->bound : fmin(c->bound, c->screened->reduced_seconds[i]);
    }
}

/* ---- the search ---- */

/* Numbers of strategies: the cell's, and those of the list. */
static void number_as_listed(const gal_cell *cell, gal_cell_answer *answer)
{
    for (uint32_t i = 0; i < cell->block_count && answer->seconds < HUGE_VAL; i++) {
        answer->strategy[i] = cell->listed[answer->strategy[i]];
    }
}

static void number_as_cell(const gal_cell *cell, gal_cell_answer *answer)
{
    for (uint32_t i = 0; i < cell->block_count && answer->seconds < HUGE_VAL; i++) {
        uint32_t own = 0;
        while (cell->listed[own] != answer->strategy[i]) {
            own++;
        }
        answer->strategy[i] = own;
    }
}

/* Improves the answer among what is allowed. */
static gal_code solve(const chosen *c, const gal_solve_settings *settings, gal_cell_answer *answer, gal_error *err)
{
    gal_cell_spec spec = c->screened->spec;
    gal_cell *cell = NULL;
    const uint64_t least_bytes = answer->least_bytes;
    const uint64_t label_count = answer->label_count;
    const uint64_t work = answer->work;
    spec.listed = c->screened->strategy;
    spec.listed_count = c->screened->strategy_count;
    spec.allowed = c->allowed;
    gal_code code = gal_cell_create(&spec, &cell, err);
    if (code != GAL_OK) {
        return code;
    }
    gal_solve_settings own = *settings;
    own.starts = answer->seconds < HUGE_VAL;
    own.work_limit = settings->work_limit == 0 ? 0 : settings->work_limit - work;
    number_as_cell(cell, answer);
    code = gal_cell_solve(cell, &own, answer, err);
    number_as_listed(cell, answer);
    answer->label_count += label_count;
    answer->work += work;
    if (least_bytes > 0 && (answer->least_bytes == 0 || least_bytes < answer->least_bytes)) {
        answer->least_bytes = least_bytes;
    }
    gal_cell_free(cell);
    return code;
}

gal_code gal_cell_search(gal_screened *screened, const gal_solve_settings *settings, gal_cell_answer *answer,
                         gal_error *err)
{
    gal_code code = GAL_OK;
    chosen c = {0};
    GAL_TRY(chosen_create(screened, &c, err));
    *answer = (gal_cell_answer){
        .seconds = settings->starts ? answer->seconds : HUGE_VAL, .stage = answer->stage, .strategy = answer->strategy};
    GAL_TRY(gal_screened_pick(screened, FIRST_OF_STAGE, c.allowed, err));
    for (uint32_t i = 0; settings->starts && i < screened->types->block_count; i++) {
        c.allowed[(size_t)screened->types->type_of[i] * screened->strategy_count + answer->strategy[i]] = true;
    }
    share_layouts(&c);
    uint32_t unfinished = 0;
    for (uint32_t most = FIRST_JOINING; unfinished < 2; most *= 2) {
        GAL_TRY(solve(&c, settings, answer, err));
        const double cutoff_seconds = fmin(answer->seconds, settings->give_up_seconds);
        gal_screened_price_out(screened, &answer->weights);
        bound_rest(&c);
        unfinished += answer->bound < cutoff_seconds;
        if ((unfinished > 0 && answer->bound <= c.bound) || join_all(&c, most, cutoff_seconds) == 0 ||
            edges_of(&c) > (uint64_t)settings->label_limit * EDGES_PER_LABEL ||
            (settings->work_limit > 0 && answer->work >= settings->work_limit)) {
            break;
        }
    }
    answer->bound = fmax(screened->bound, fmin(answer->bound, fmin(c.bound, answer->seconds)));
cleanup:
    free(c.allowed);
    return code;
}
