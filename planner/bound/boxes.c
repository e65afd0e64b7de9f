#include "planner/bound/boxes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/bound/bottleneck.h"

typedef struct stage_box {
    double slowest, exposed, update, per_byte;
    gal_shared_bytes least, most;
    uint32_t first_least, first_most;
} stage_box;

struct gal_box {
    gal_box_state state;
    uint64_t order;
    stage_box stage[];
};

static bool before(const gal_box *a, const gal_box *b)
{
    return a->state.bound != b->state.bound ? a->state.bound < b->state.bound : a->order < b->order;
}

static void swap(gal_boxes *boxes, uint32_t i, uint32_t j)
{
    gal_box *box = boxes->box[i];
    boxes->box[i] = boxes->box[j];
    boxes->box[j] = box;
}

static gal_code push(gal_boxes *boxes, gal_box *box, gal_error *err)
{
    if (boxes->count == boxes->capacity) {
        const uint32_t wanted = boxes->capacity == 0 ? 64 : 2 * boxes->capacity;
        gal_box **grown = realloc(boxes->box, wanted * sizeof *grown);
        if (grown == NULL) {
            return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
        }
        boxes->box = grown;
        boxes->capacity = wanted;
    }
    uint32_t at = boxes->count++;
    boxes->box[at] = box;
    for (; at > 0 && before(box, boxes->box[(at - 1) / 2]); at = (at - 1) / 2) {
        swap(boxes, at, (at - 1) / 2);
    }
    return GAL_OK;
}

static void halve(stage_box *box, const gal_split *split)
{
    if (split->kind == GAL_SHARED_KIND_COUNT && split->upper) {
        box->first_least = (uint32_t)split->at;
    } else if (split->kind == GAL_SHARED_KIND_COUNT) {
        box->first_most = (uint32_t)split->at - 1;
    } else if (split->upper) {
        box->least.of[split->kind] = split->at;
    } else {
        box->most.of[split->kind] = split->at - 1;
    }
}

gal_code gal_boxes_add(gal_boxes *boxes, const gal_dual *dual, const gal_box_state *state, const gal_split *split,
                       gal_error *err)
{
    const uint32_t stages = dual->cell->spec.pp_degree;
    const gal_weights *w = &dual->weights;
    gal_box *box = malloc(sizeof *box + stages * sizeof box->stage[0]);
    if (box == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    box->state = *state;
    box->order = boxes->added++;
    for (uint32_t p = 0; p < stages; p++) {
        box->stage[p] = (stage_box){w->slowest[p],  w->exposed[p], w->update[p],         w->per_byte[p],
                                    dual->least[p], dual->most[p], dual->first_least[p], dual->first_most[p]};
    }
    if (split != NULL) {
        halve(&box->stage[split->stage], split);
    }
    const gal_code code = push(boxes, box, err);
    if (code != GAL_OK) {
        free(box);
    }
    return code;
}

double gal_boxes_least_bound(const gal_boxes *boxes)
{
    return boxes->box[0]->state.bound;
}

gal_box *gal_boxes_take(gal_boxes *boxes)
{
    gal_box *least = boxes->box[0];
    boxes->box[0] = boxes->box[--boxes->count];
    for (uint32_t at = 0;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < boxes->count && before(boxes->box[child + 1], boxes->box[child])) {
            child++;
        }
        if (child >= boxes->count || !before(boxes->box[child], boxes->box[at])) {
            return least;
        }
        swap(boxes, at, child);
        at = child;
    }
}

void gal_boxes_free(gal_boxes *boxes)
{
    for (uint32_t i = 0; i < boxes->count; i++) {
        free(boxes->box[i]);
    }
    free(boxes->box);
    *boxes = (gal_boxes){0};
}

gal_box_state gal_box_state_of(const gal_box *box)
{
    return box->state;
}

/* What the stage pays whatever strategy its blocks of the type take. */
static void raise_least(gal_dual *dual, uint32_t block, uint32_t stage)
{
    const uint32_t *strategy;
    const uint32_t count = gal_dual_choices(dual, block, stage, &strategy);
    gal_shared_bytes forced = {{0}};
    for (uint32_t i = 0; i < count; i++) {
        const gal_shared_bytes *own =
            &dual->cell->node[gal_cell_price_index(dual->cell, block, stage, strategy[i])].block.shared;
        for (uint32_t kind = 0; kind < GAL_SHARED_KIND_COUNT; kind++) {
            forced.of[kind] = i == 0 || own->of[kind] < forced.of[kind] ? own->of[kind] : forced.of[kind];
        }
    }
    gal_shared_join(&dual->least[stage], &forced);
}

/* Embedding and head have their stages; a single stage has all. */
static void raise_all_least(gal_dual *dual)
{
    const gal_block_types *types = &dual->cell->types;
    raise_least(dual, 0, 0);
    raise_least(dual, dual->cell->block_count - 1, dual->cell->spec.pp_degree - 1);
    for (uint32_t type = 0; type < types->type_count && dual->cell->spec.pp_degree == 1; type++) {
        raise_least(dual, types->type_first[type], 0);
    }
}

void gal_box_load(const gal_box *box, gal_dual *dual)
{
    for (uint32_t p = 0; p < dual->cell->spec.pp_degree; p++) {
        const stage_box *s = &box->stage[p];
        dual->weights.slowest[p] = s->slowest;
        dual->weights.exposed[p] = s->exposed;
        dual->weights.update[p] = s->update;
        dual->weights.per_byte[p] = s->per_byte;
        dual->least[p] = s->least;
        dual->most[p] = s->most;
        dual->first_least[p] = s->first_least;
        dual->first_most[p] = s->first_most;
    }
    if (box->state.embedding != GAL_BOX_UNTIED) {
        gal_dual_tie(dual, box->state.embedding);
    }
    raise_all_least(dual);
    if (dual->bottleneck != NULL) {
        gal_bottleneck_look(dual->bottleneck, dual);
        dual->slowest_least = fmax(fmin(dual->bottleneck->at_all, dual->most_seconds), 0.0);
    }
    gal_dual_weigh(dual);
}

void gal_box_free(gal_box *box)
{
    free(box);
}

/* ---- splits ---- */

/* The shared bytes of stage `stage` of the shortest path, and all its bytes. */
static void stage_use(const gal_dual *dual, uint32_t stage, gal_path *path)
{
    const gal_cell *cell = dual->cell;
    memset(path, 0, sizeof *path);
    for (uint32_t i = 0; i < cell->block_count; i++) {
        gal_cell_step step;
        if (dual->stage[i] != stage) {
            continue;
        }
        gal_cell_reach(cell, i, dual->stage, dual->strategy, &step);
        gal_path_add(path, &step);
    }
}

/* The later border of the slowest stage, or the earlier one, whichever has room to move: the half that shortens it has
 * lost the path. */
static bool split_border(const gal_dual *dual, uint32_t slowest, gal_split *out)
{
    const gal_cell *cell = dual->cell;
    uint32_t first = 0;
    while (dual->stage[first] != slowest) {
        first++;
    }
    uint32_t end = first;
    while (end < cell->block_count && dual->stage[end] == slowest) {
        end++;
    }
    if (end < cell->block_count && dual->first_least[slowest + 1] < end) {
        *out = (gal_split){.stage = slowest + 1, .kind = GAL_SHARED_KIND_COUNT, .at = end};
        return true;
    }
    if (slowest > 0 && first < dual->first_most[slowest]) {
        *out = (gal_split){.stage = slowest, .kind = GAL_SHARED_KIND_COUNT, .at = (int64_t)first + 1};
        return true;
    }
    return false;
}

bool gal_box_choose_split(const gal_dual *dual, gal_split *out)
{
    const gal_cell *cell = dual->cell;
    double dearest = 0.0;
    double slowest = 0.0;
    double mean = 0.0;
    double left = 1.0;
    uint32_t slowest_stage = 0;
    bool found = false;
    gal_split border;
    for (uint32_t p = 0; p < cell->spec.pp_degree; p++) {
        gal_path path;
        stage_use(dual, p, &path);
        for (uint32_t kind = 0; kind < GAL_SHARED_KIND_COUNT; kind++) {
            const int64_t used = path.shared.of[kind];
            const double price = dual->weights.per_byte[p] * (double)(used - dual->least[p].of[kind]);
            if (used > dual->least[p].of[kind] && price > dearest) {
                *out = (gal_split){.stage = p, .kind = (gal_shared_kind)kind, .at = used};
                dearest = price;
                found = true;
            }
        }
        mean += dual->weights.slowest[p] * path.stage_round;
        left -= dual->weights.slowest[p];
        slowest_stage = path.stage_round > slowest ? p : slowest_stage;
        slowest = fmax(slowest, path.stage_round);
    }
    mean += fmax(left, 0.0) * dual->slowest_least;
    if (cell->rounds.slowest * (slowest - mean) > fmax(dearest, 1e-9 * dual->bound) &&
        split_border(dual, slowest_stage, &border)) {
        *out = border;
        found = true;
    }
    return found;
}
