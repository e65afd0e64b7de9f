#include "planner/cell_solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DUAL_ROUNDS = 120, CLASS_ROUNDS = 30, BEAM_LABELS = 200 };

static void met(gal_cell_answer *best, uint64_t bytes)
{
    best->least_bytes = best->least_bytes == 0 || bytes < best->least_bytes ? bytes : best->least_bytes;
}

/* Every block alike, stages of even length: what a person would write down first, and often a good start. */
static void try_uniform(const gal_cell *cell, uint32_t strategy, gal_cell_answer *best, uint32_t *stage,
                        uint32_t *strategies)
{
    uint32_t blocks = cell->block_count;
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t s = strategy;
        stage[i] = (uint32_t)((uint64_t)i * cell->spec.pp_degree / blocks);
        if (s > 0 && (i == 0 || i + 1 == blocks) && cell->strategy[s].recompute == GAL_RECOMPUTE_FULL) {
            s--; /* the same without recompute comes just before (gal_space_strategies) */
        }
        strategies[i] = s;
        if (gal_cell_price(cell, i, stage[i], s) == NULL ||
            (i > 0 && cell->pair[gal_cell_pair_index(cell, i, stage[i], strategies[i - 1], s)] == NULL)) {
            return;
        }
    }
    uint64_t bytes = 0;
    double seconds = gal_cell_evaluate(cell, stage, strategies, &bytes);
    met(best, bytes);
    if (seconds < best->seconds) {
        best->seconds = seconds;
        memcpy(best->stage, stage, blocks * sizeof *stage);
        memcpy(best->strategy, strategies, blocks * sizeof *strategies);
    }
}

static void note_bytes(const gal_dual *dual, gal_cell_answer *best)
{
    uint64_t bytes = 0;
    gal_cell_evaluate(dual->cell, dual->stage, dual->strategy, &bytes);
    if (gal_cell_tied_alike(dual->cell, dual->strategy[0], dual->strategy[dual->cell->block_count - 1])) {
        met(best, bytes);
    }
}

/* Embeddings that are tied alike: one of each kind, by the bound under the weights that serve all. */
typedef struct embedding_class {
    double bound;
    uint32_t strategy;
} embedding_class;

static int by_class_bound(const void *x, const void *y)
{
    const embedding_class *a = x;
    const embedding_class *b = y;
    if (a->bound != b->bound) {
        return a->bound < b->bound ? -1 : 1;
    }
    return a->strategy < b->strategy ? -1 : 1;
}

static bool first_of_class(const gal_cell *cell, uint32_t strategy)
{
    for (uint32_t s = 0; s < strategy; s++) {
        if (gal_cell_price(cell, 0, 0, s) != NULL && gal_cell_tied_alike(cell, s, strategy)) {
            return false;
        }
    }
    return gal_cell_price(cell, 0, 0, strategy) != NULL;
}

static uint32_t list_classes(gal_dual *dual, embedding_class *class)
{
    const gal_cell *cell = dual->cell;
    uint32_t count = 0;
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        if (first_of_class(cell, s)) {
            dual->embedding = s;
            gal_dual_solve(dual);
            class[count++] = (embedding_class){dual->bound, s};
        }
    }
    qsort(class, count, sizeof *class, by_class_bound);
    return count;
}

/* The paths that the dual allows, under its present weights. */
static gal_code solve_class(gal_dual *dual, uint32_t label_limit, gal_cell_answer *best, gal_error *err)
{
    gal_label_result labels = {0};
    const gal_label_settings beam = {.label_limit = BEAM_LABELS < label_limit ? BEAM_LABELS : label_limit};
    const gal_label_settings all = {.label_limit = label_limit};
    double proven = dual->bound;
    if (!gal_dual_is_infeasible(dual) && dual->bound < best->seconds * (1.0 - 1e-12)) {
        gal_code code = gal_label_search(dual, &beam, &best->seconds, best->stage, best->strategy, &labels, err);
        if (code == GAL_OK && labels.dropped_bound < best->seconds) { /* a better path known, fewer labels live */
            code = gal_label_search(dual, &all, &best->seconds, best->stage, best->strategy, &labels, err);
        }
        if (code != GAL_OK) {
            return code;
        }
        best->label_count += labels.label_count;
        proven = fmax(dual->bound, labels.dropped_bound);
    }
    best->bound = fmin(best->bound, proven);
    return GAL_OK;
}

/* One dual serves all classes; a class whose bound reaches the best path needs no search of its own. */
static gal_code solve_tied(gal_dual *dual, uint32_t label_limit, gal_cell_answer *best, gal_error *err)
{
    const gal_cell *cell = dual->cell;
    gal_code code = GAL_OK;
    gal_weights *weights = malloc(sizeof *weights);
    embedding_class *class = calloc(cell->strategy_count + 1, sizeof *class);
    if (weights == NULL || class == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    *weights = dual->weights;
    const uint32_t count = list_classes(dual, class);
    for (uint32_t i = 0; i < count; i++) {
        if (class[i].bound >= best->seconds * (1.0 - 1e-12)) {
            best->bound = fmin(best->bound, class[i].bound);
        } else {
            dual->embedding = class[i].strategy;
            dual->weights = *weights;
            gal_dual_weigh(dual);
            gal_dual_raise(dual, CLASS_ROUNDS, &best->seconds, best->stage, best->strategy);
            GAL_TRY(solve_class(dual, label_limit, best, err));
            note_bytes(dual, best);
        }
    }
cleanup:
    free(class);
    free(weights);
    return code;
}

gal_code gal_cell_solve(const gal_cell *cell, const gal_solve_settings *settings, gal_cell_answer *best, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_dual *dual = NULL;
    uint32_t *stage = calloc(cell->block_count, sizeof *stage);
    uint32_t *strategy = calloc(cell->block_count, sizeof *strategy);
    best->seconds = HUGE_VAL;
    best->bound = HUGE_VAL;
    best->given_up = false;
    best->least_bytes = 0;
    best->label_count = 0;
    if (stage == NULL || strategy == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        try_uniform(cell, s, best, stage, strategy);
    }
    GAL_TRY(gal_dual_create(cell, &dual, err));
    gal_dual_solve(dual);
    if (dual->bound < HUGE_VAL) {
        gal_dual_raise(dual, DUAL_ROUNDS, &best->seconds, best->stage, best->strategy);
        note_bytes(dual, best);
        best->bound = dual->bound;
        best->given_up = dual->bound > settings->give_up_seconds;
    }
    if (dual->bound < HUGE_VAL && !best->given_up && !gal_dual_is_infeasible(dual)) {
        best->bound = HUGE_VAL;
        GAL_TRY(cell->spec.model->tied_embeddings ? solve_tied(dual, settings->label_limit, best, err)
                                                  : solve_class(dual, settings->label_limit, best, err));
    }
    best->bound = fmin(best->bound, best->seconds);
cleanup:
    gal_dual_free(dual);
    free(strategy);
    free(stage);
    return code;
}
