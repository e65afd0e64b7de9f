#include "planner/cell/path.h"

#include <math.h>
#include <string.h>

void gal_shared_join(gal_shared_bytes *a, const gal_shared_bytes *b)
{
    for (uint32_t kind = 0; kind < GAL_SHARED_KIND_COUNT; kind++) {
        a->of[kind] = a->of[kind] > b->of[kind] ? a->of[kind] : b->of[kind];
    }
}

int64_t gal_shared_sum(const gal_shared_bytes *shared)
{
    int64_t sum = 0;
    for (uint32_t kind = 0; kind < GAL_SHARED_KIND_COUNT; kind++) {
        sum += shared->of[kind];
    }
    return sum;
}

void gal_path_add(gal_path *path, const gal_cell_step *step)
{
    path->stage_round += step->forward_seconds + step->backward_seconds;
    path->stage_backward += step->backward_seconds;
    path->stage_tail += step->tail_seconds;
    if (step->lags) { /* nothing is drained before */
        path->exposed = fmax(path->exposed, path->stage_tail);
        path->stage_tail = step->awaits ? path->exposed : path->stage_tail;
    }
    path->stage_update += step->update_seconds;
    path->additive += step->once_seconds;
    path->bytes += step->bytes;
    gal_shared_join(&path->shared, &step->shared);
}

int64_t gal_path_bytes(const gal_path *path)
{
    return path->bytes + gal_shared_sum(&path->shared);
}

bool gal_path_close(gal_path *path, const gal_cell *cell, const gal_cell_step *step)
{
    gal_path_add(path, step);
    *path =
        (gal_path){.additive = path->additive + gal_rounds_of_stage(&cell->rounds, path->closed) * path->stage_round,
                   .closed = path->closed + 1,
                   .slowest = fmax(path->slowest, path->stage_round),
                   .exposed = fmax(path->exposed, path->stage_tail - path->drained),
                   .drained = path->drained + path->stage_backward,
                   .update = fmax(path->update, path->stage_update),
                   .bytes = gal_path_bytes(path)};
    return path->bytes <= (int64_t)cell->spec.arena_limit_bytes;
}

double gal_path_seconds(const gal_path *path, const gal_cell *cell)
{
    return path->additive + cell->rounds.slowest * path->slowest + path->exposed + path->update + cell->common_seconds;
}

double gal_cell_evaluate(const gal_cell *cell, const uint32_t *stage, const uint32_t *strategy, uint64_t *most_bytes)
{
    gal_path path = {0};
    bool fits = true;
    int64_t most = 0;
    for (uint32_t i = 0; i < cell->block_count; i++) {
        gal_cell_step step;
        if (i > 0 && stage[i] != stage[i - 1]) {
            path.bytes = 0;
        }
        gal_cell_reach(cell, i, stage, strategy, &step);
        gal_path_add(&path, &step);
        if (i + 1 == cell->block_count || stage[i + 1] != stage[i]) {
            gal_cell_close(cell, i, stage[i], strategy[i], &step);
            fits = gal_path_close(&path, cell, &step) && fits;
            most = path.bytes > most ? path.bytes : most;
        }
    }
    if (most_bytes != NULL) {
        *most_bytes = (uint64_t)most;
    }
    return fits ? gal_path_seconds(&path, cell) : HUGE_VAL;
}

void gal_cell_stage_bytes(const gal_cell *cell, const uint32_t *stage, const uint32_t *strategy, int64_t *bytes)
{
    gal_path path = {0};
    for (uint32_t i = 0; i < cell->block_count; i++) {
        gal_cell_step step;
        if (i > 0 && stage[i] != stage[i - 1]) {
            path = (gal_path){0};
        }
        gal_cell_reach(cell, i, stage, strategy, &step);
        gal_path_add(&path, &step);
        if (i + 1 == cell->block_count || stage[i + 1] != stage[i]) {
            gal_cell_close(cell, i, stage[i], strategy[i], &step);
            gal_path_add(&path, &step);
            bytes[stage[i]] = gal_path_bytes(&path);
        }
    }
}
