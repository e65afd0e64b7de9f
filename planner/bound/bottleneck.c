#include "planner/bound/bottleneck.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BEHIND, WHOLE };

static double least(double a, double b) /* fmin, fmax, inlined: no NaN comes here */
{
    return a < b ? a : b;
}

static bool is_last(const gal_cell *cell, uint32_t stage)
{
    return stage + 1 == cell->spec.pp_degree;
}

static size_t inner_index(const gal_cell *cell, uint32_t stage, uint32_t end, uint32_t block)
{
    return ((size_t)stage * 2 + end % 2) * (cell->block_count + 1) + (end - block);
}

static double *entry_of(const gal_cell *cell, const gal_sweep *sweep, int which, uint32_t stage, uint32_t end,
                        uint32_t block)
{
    return is_last(cell, stage) ? &sweep->last[which][block]
           : block == 0         ? &sweep->first[which][end]
                                : &sweep->inner[which][inner_index(cell, stage, end, block)];
}

/* ---- sweeps ---- */

typedef struct sweeper {
    const gal_dual *dual;
    const gal_cell *cell;
    uint32_t stage;
    double per_byte;
    double *behind, *next; /* [strategy] from behind the block at hand to the end of its stage; a block further */
} sweeper;

static double round_of(const sweeper *w, const gal_cell_step *step)
{
    return step->forward_seconds + step->backward_seconds + w->per_byte * (double)step->bytes;
}

static void begin_at_close(sweeper *w, uint32_t block)
{
    const uint32_t *strategy;
    const uint32_t count = gal_dual_choices(w->dual, block, w->stage, &strategy);
    for (uint32_t i = 0; i < count; i++) {
        gal_cell_step step;
        gal_cell_close(w->cell, block, w->stage, strategy[i], &step);
        w->behind[strategy[i]] = round_of(w, &step);
    }
}

/* From behind `block` + 1, in w->behind, to behind `block`, into `out`. */
static void step_back(const sweeper *w, uint32_t block, double *out)
{
    const uint32_t *from, *to;
    const uint32_t from_count = gal_dual_choices(w->dual, block, w->stage, &from);
    const uint32_t to_count = gal_dual_choices(w->dual, block + 1, w->stage, &to);
    for (uint32_t i = 0; i < from_count; i++) {
        const gal_cell_edge *edge = &w->cell->edge[gal_cell_pair_index(w->cell, block + 1, w->stage, from[i], 0)];
        double way = HUGE_VAL;
        for (uint32_t j = 0; j < to_count; j++) {
            const gal_cell_step *node = &w->cell->node[gal_cell_price_index(w->cell, block + 1, w->stage, to[j])].block;
            const gal_cell_edge *e = &edge[to[j]];
            const double beside =
                e->forward_seconds + e->backward_seconds + e->crowded_forward_seconds + e->crowded_backward_seconds;
            const double cost = round_of(w, node) + beside + w->behind[to[j]];
            way = e->legal ? least(way, cost) : way;
        }
        out[from[i]] = way;
    }
}

/* The least that a stage pays to begin with the node. */
static double entry(const sweeper *w, uint32_t block, uint32_t strategy)
{
    gal_cell_step step;
    if (block == 0) {
        gal_cell_start(w->cell, strategy, &step);
        return round_of(w, &step);
    }
    const uint32_t *from;
    const uint32_t count = gal_dual_choices(w->dual, block - 1, w->stage - 1, &from);
    double way = HUGE_VAL;
    for (uint32_t i = 0; i < count; i++) {
        if (w->cell->edge[gal_cell_pair_index(w->cell, block, w->stage, from[i], strategy)].legal) {
            gal_cell_cross(w->cell, block, w->stage, from[i], strategy, &step);
            way = least(way, round_of(w, &step));
        }
    }
    return way;
}

/* Block 1, which the embedding is before, may begin the second stage as well as any of its type. */
static double entry_of_like(const sweeper *w, uint32_t block, uint32_t strategy)
{
    const double own = entry(w, block, strategy);
    return w->stage == 1 && block > 1 && block % 2 == 1 ? least(own, entry(w, 1, strategy)) : own;
}

static void note(const sweeper *w, const gal_sweep *sweep, uint32_t end, uint32_t block, const double *behind)
{
    const uint32_t *strategy;
    const uint32_t count = gal_dual_choices(w->dual, block, w->stage, &strategy);
    double rest = HUGE_VAL;
    double whole = HUGE_VAL;
    for (uint32_t i = 0; i < count; i++) {
        rest = least(rest, behind[strategy[i]]);
        if (w->stage > 0 || block == 0) {
            whole = least(whole, entry_of_like(w, block, strategy[i]) + behind[strategy[i]]);
        }
    }
    *entry_of(w->cell, sweep, BEHIND, w->stage, end, block) = rest;
    *entry_of(w->cell, sweep, WHOLE, w->stage, end, block) = whole;
}

/* All blocks of a stage that ends before `end`. What is behind an attention block here is what would be behind block 1
 * if the stage ended as far from there: a step back to the embedding. */
static void run_sweep(sweeper *w, const gal_sweep *sweep, uint32_t end)
{
    const uint32_t stop = w->stage == 0 ? 1 : w->stage;
    begin_at_close(w, end - 1);
    for (uint32_t block = end - 1; block >= stop; block--) {
        note(w, sweep, end, block, w->behind);
        if (w->stage == 0 && block % 2 == 1) {
            step_back(w, 0, w->next);
            note(w, sweep, end - block + 1, 0, w->next);
        }
        if (block > stop) {
            step_back(w, block - 1, w->next);
            double *swap = w->behind;
            w->behind = w->next;
            w->next = swap;
        }
    }
}

static void run_sweeps(sweeper *w, const gal_sweep *sweep)
{
    const uint32_t blocks = w->cell->block_count;
    if (is_last(w->cell, w->stage)) {
        run_sweep(w, sweep, blocks);
        return;
    }
    for (uint32_t end = blocks - 2; end < blocks; end++) {
        if (end > w->stage) {
            run_sweep(w, sweep, end);
        }
    }
    if (w->stage == 0) {
        begin_at_close(w, 0);
        note(w, sweep, 1, 0, w->behind);
    }
}

/* ---- create ---- */

static gal_code create_sweep(const gal_cell *cell, gal_sweep *out, gal_error *err)
{
    const size_t inner = inner_index(cell, cell->spec.pp_degree, 0, 0);
    bool have = true;
    for (int which = BEHIND; which <= WHOLE; which++) {
        out->inner[which] = malloc((inner + 1) * sizeof(double));
        out->first[which] = malloc(((size_t)cell->block_count + 1) * sizeof(double));
        out->last[which] = malloc(((size_t)cell->block_count + 1) * sizeof(double));
        have = have && out->inner[which] != NULL && out->first[which] != NULL && out->last[which] != NULL;
        for (size_t i = 0; have && i < inner; i++) {
            out->inner[which][i] = HUGE_VAL;
        }
        for (uint32_t i = 0; have && i <= cell->block_count; i++) {
            out->first[which][i] = out->last[which][i] = HUGE_VAL;
        }
    }
    return have ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

static void free_sweep(gal_sweep *sweep)
{
    for (int which = BEHIND; which <= WHOLE; which++) {
        free(sweep->last[which]);
        free(sweep->first[which]);
        free(sweep->inner[which]);
    }
}

gal_code gal_bottleneck_create(const gal_dual *dual, gal_bottleneck **out, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_cell *cell = dual->cell;
    const size_t places = (size_t)cell->spec.pp_degree * (cell->block_count + 1);
    sweeper w = {.dual = dual, .cell = cell};
    gal_bottleneck *b = calloc(1, sizeof *b);
    if (b == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    b->cell = cell;
    b->rest = calloc(places, sizeof *b->rest);
    w.behind = calloc(cell->strategy_count + 1, sizeof *w.behind);
    w.next = calloc(cell->strategy_count + 1, sizeof *w.next);
    if (b->rest == NULL || w.behind == NULL || w.next == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    GAL_TRY(create_sweep(cell, &b->plain, err));
    GAL_TRY(create_sweep(cell, &b->priced, err));
    for (w.stage = 0; w.stage < cell->spec.pp_degree; w.stage++) {
        w.per_byte = 0.0;
        run_sweeps(&w, &b->plain);
        w.per_byte = dual->weights.per_byte[w.stage] / (gal_rounds_of_stage(&cell->rounds, w.stage) +
                                                        cell->rounds.slowest * dual->weights.slowest[w.stage]);
        b->per_byte[w.stage] = w.per_byte;
        run_sweeps(&w, &b->priced);
    }
    gal_bottleneck_look(b, dual);
    *out = b;
    b = NULL;
cleanup:
    free(w.next);
    free(w.behind);
    gal_bottleneck_free(b);
    return code;
}

void gal_bottleneck_free(gal_bottleneck *bottleneck)
{
    if (bottleneck != NULL) {
        free_sweep(&bottleneck->priced);
        free_sweep(&bottleneck->plain);
        free(bottleneck->rest);
        free(bottleneck);
    }
}

/* ---- bounds ---- */

/* Least round of a stage, of which `so_far` and `bytes` are spent and the rest lies behind (or from) a block. */
static double round_to(const gal_bottleneck *b, int which, uint32_t stage, uint32_t end, uint32_t block, double so_far,
                       int64_t bytes)
{
    const double over = b->per_byte[stage] * (double)(bytes - (int64_t)b->cell->spec.arena_limit_bytes);
    return so_far + gal_larger(*entry_of(b->cell, &b->plain, which, stage, end, block),
                               *entry_of(b->cell, &b->priced, which, stage, end, block) + over);
}

/* The least of the slower of this stage and the rest, over the borders behind the block; `ended`: the first of them. */
static double over_borders(const gal_bottleneck *b, const gal_dual *dual, int which, uint32_t stage, uint32_t block,
                           double so_far, int64_t bytes)
{
    const gal_cell *cell = b->cell;
    double slowest = HUGE_VAL;
    if (is_last(cell, stage)) {
        return round_to(b, which, stage, cell->block_count, block, so_far, bytes);
    }
    const uint32_t first = dual->first_least[stage + 1] > block + 1 ? dual->first_least[stage + 1] : block + 1;
    for (uint32_t end = first; end <= dual->first_most[stage + 1]; end++) {
        const double rest = b->rest[(size_t)(stage + 1) * (cell->block_count + 1) + end];
        if (rest < slowest) {
            slowest = least(slowest, gal_larger(rest, round_to(b, which, stage, end, block, so_far, bytes)));
        }
    }
    return slowest;
}

void gal_bottleneck_look(gal_bottleneck *b, const gal_dual *dual)
{
    const gal_cell *cell = b->cell;
    for (uint32_t stage = cell->spec.pp_degree; stage-- > 0;) {
        const int64_t least_bytes = gal_shared_sum(&dual->least[stage]);
        double *rest = &b->rest[(size_t)stage * (cell->block_count + 1)];
        for (uint32_t block = 0; block <= cell->block_count; block++) {
            const bool begins = dual->first_least[stage] <= block && block <= dual->first_most[stage];
            rest[block] = begins ? over_borders(b, dual, WHOLE, stage, block, 0.0, least_bytes) : HUGE_VAL;
        }
    }
    b->at_all = b->rest[0];
}

double gal_bottleneck_of(const gal_bottleneck *b, const gal_dual *dual, uint32_t block, uint32_t stage,
                         const gal_path *path)
{
    return gal_larger(path->slowest,
                      over_borders(b, dual, BEHIND, stage, block, path->stage_round, gal_path_bytes(path)));
}
