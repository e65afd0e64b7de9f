#include "planner/solve/stage_halves.h"

#include <stdlib.h>

static const gal_multiplier *best_of(const gal_halves *h)
{
    return &h->bound->multiplier[0];
}

static int64_t budget_of(const gal_halves *h)
{
    return h->stage->choices->instance->budget_bytes;
}

/* On the relaxed row. */
static int64_t row_bytes(const gal_choice *choice, bool is_last)
{
    return choice->kept_bytes + (is_last ? choice->backward_bytes : 0);
}

static bool is_last(const gal_halves *h, size_t i)
{
    return h->stage->first + i + 1 == h->stage->end;
}

/* What the shortest path over a cell loses: half of it counts for heads that end there, half for tails behind. */
static double cell_lost(const gal_halves *h, size_t cell)
{
    const gal_multiplier *m = best_of(h);
    return h->bound->prefix[cell] + m->suffix[cell] - m->lambda * (double)budget_of(h) - m->bound;
}

/* ---- tails ---- */

/* Of a tail kept_bytes are the most that its rows need and peak_bytes what it holds all the time: the bytes of a whole
 * are the larger of kept + kept and peak + peak. */
static gal_head extend_tail(const gal_head *tail, const gal_choice *choice, int64_t change_ps, bool last)
{
    const int64_t here = tail->peak_bytes + choice->kept_bytes + choice->backward_bytes;
    const int64_t behind = tail->kept_bytes + choice->kept_bytes;
    return (gal_head){.seconds_ps = tail->seconds_ps + choice->seconds_ps + change_ps,
                      .kept_bytes = here > behind ? here : behind,
                      .peak_bytes = tail->peak_bytes + choice->held_bytes,
                      .row_bytes = tail->row_bytes + row_bytes(choice, last),
                      .strategy = choice->strategy};
}

/* The longest tail behind a cell that loses no more than its half. */
static double longest_tail(const gal_halves *h, size_t cell)
{
    return best_of(h)->suffix[cell] + h->half - 0.5 * cell_lost(h, cell) + h->slack;
}

/* Tails that begin with one choice of the layer behind the cell. */
static bool extend_tails(gal_halves *h, size_t from, size_t from_end, int64_t change_ps, const gal_choice *choice,
                         size_t cell, bool last)
{
    const double lambda = best_of(h)->lambda;
    const double longest = longest_tail(h, cell);
    if (!gal_head_rows_begin(&h->rows)) {
        return false;
    }
    for (size_t t = from; t < from_end; t++) {
        gal_head next = extend_tail(&h->tails.head[t], choice, change_ps, last);
        next.parent = (uint32_t)t;
        if ((double)next.seconds_ps + lambda * (double)next.row_bytes <= longest && next.kept_bytes <= budget_of(h) &&
            !gal_head_rows_add(&h->rows, next)) {
            return false;
        }
    }
    return true;
}

static bool reach_back(gal_halves *h, size_t i, uint32_t class)
{
    const gal_menu *o = h->stage->choices;
    const gal_multiplier *m = best_of(h);
    const uint32_t classes = o->instance->class_count;
    const uint32_t layer = h->stage->first + (uint32_t)i + 1;
    const uint32_t *start = gal_stage_start(h->stage, layer);
    const int64_t *change = gal_stage_change(h->stage, layer) + (size_t) class * classes;
    const size_t cell = i * classes + class;
    const double longest = longest_tail(h, cell);
    const bool last = is_last(h, i + 1);
    gal_head_rows_clear(&h->rows);
    for (uint32_t to = 0; cell_lost(h, cell) <= 2.0 * h->half + h->slack && to < classes; to++) {
        const size_t behind = cell - class + classes + to;
        const size_t from = h->tail_begin[behind], from_end = from + h->tail_count[behind];
        for (uint32_t c = start[to]; from < from_end && c < start[to + 1]; c++) {
            const double length = (double)(change[to] + o->choice[c].seconds_ps) +
                                  m->lambda * (double)row_bytes(&o->choice[c], last) + m->suffix[behind];
            if (length <= longest && !extend_tails(h, from, from_end, change[to], &o->choice[c], cell, last)) {
                return false;
            }
        }
    }
    const size_t begin = h->tails.count;
    if (!gal_head_rows_keep_best(&h->rows, &h->tails)) {
        return false;
    }
    for (size_t t = begin; t < h->tails.count; t++) {
        gal_head *tail = &h->tails.head[t];
        tail->least_ps = t > begin && tail[-1].least_ps < tail->seconds_ps ? tail[-1].least_ps : tail->seconds_ps;
    }
    return true;
}

static bool run_back(gal_halves *h)
{
    const uint32_t classes = h->stage->choices->instance->class_count;
    const size_t count = h->stage->end - h->stage->first;
    h->tails.count = 0;
    for (uint32_t k = 0; k < classes; k++) { /* nothing is behind the last layer */
        h->tail_begin[(count - 1) * classes + k] = 0;
        h->tail_count[(count - 1) * classes + k] = 1;
    }
    if (!gal_heads_push(&h->tails, (gal_head){0})) {
        return false;
    }
    for (size_t i = count - 1; i-- > 0 && h->tails.count <= h->limit;) {
        for (uint32_t k = 0; k < classes; k++) {
            const size_t cell = i * classes + k;
            h->tail_begin[cell] = h->tails.count;
            if (!reach_back(h, i, k)) {
                return false;
            }
            h->tail_count[cell] = h->tails.count - h->tail_begin[cell];
        }
    }
    h->label_count += h->tails.count;
    return true;
}

/* ---- heads ---- */

/* A tail cannot bring it below goal and budget together, by any multiplier. */
static bool is_hopeless(const gal_halves *h, const gal_head *head, size_t cell, int64_t bytes)
{
    const int64_t over = bytes - budget_of(h);
    for (uint32_t i = 0; i < h->bound->multiplier_count; i++) {
        const gal_multiplier *m = &h->bound->multiplier[i];
        const double least = (double)head->seconds_ps + m->suffix[cell] + m->lambda * (double)over;
        if (least > (double)h->goal_ps + gal_multiplier_slack(m, budget_of(h), (double)h->goal_ps)) {
            return true;
        }
    }
    return false;
}

/* All heads of one class before, with one choice behind them. change_ps: between the two. */
static bool extend_heads(gal_halves *h, const gal_head *from, size_t count, size_t first_parent, int64_t change_ps,
                         const gal_choice *choice, size_t i, size_t cell)
{
    const int64_t room = budget_of(h) - h->floors.held_bytes[i];
    const int64_t last_bytes = is_last(h, i) ? choice->backward_bytes : 0;
    if (!gal_head_rows_begin(&h->rows)) {
        return false;
    }
    for (size_t n = 0; n < count; n++) {
        gal_head next = gal_head_extend(&from[n], choice, &h->floors, i);
        next.seconds_ps += change_ps;
        next.row_bytes = next.kept_bytes + last_bytes;
        next.parent = (uint32_t)(first_parent + n);
        if (next.seconds_ps <= h->goal_ps && next.peak_bytes <= room && !is_hopeless(h, &next, cell, next.row_bytes) &&
            !gal_heads_push(&h->rows.heads, next)) {
            return false;
        }
    }
    return true;
}

/* Least length of a path over this choice and the edge before it, against the goal. */
static bool is_fixed_out(const gal_halves *h, double before, const gal_choice *choice, size_t cell, bool last)
{
    const gal_multiplier *m = best_of(h);
    const int64_t bytes = row_bytes(choice, last) - budget_of(h);
    const double least = before + (double)choice->seconds_ps + m->lambda * (double)bytes + m->suffix[cell];
    return least > (double)h->goal_ps + h->slack;
}

static bool reach(gal_halves *h, size_t i, uint32_t class)
{
    static const gal_head none = {0};
    const gal_menu *o = h->stage->choices;
    const uint32_t classes = o->instance->class_count;
    const uint32_t layer = h->stage->first + (uint32_t)i;
    const uint32_t *start = gal_stage_start(h->stage, layer);
    const size_t cell = i * classes + class;
    gal_head_rows_clear(&h->rows);
    for (uint32_t from = 0; from < (i == 0 ? 1 : classes); from++) {
        const size_t row = (i == 0 ? 0 : (i - 1) * classes) + from;
        const size_t parent = i == 0 ? 0 : h->head_begin[row];
        const size_t count = i == 0 ? 1 : h->head_begin[row + 1] - parent;
        const int64_t change = i == 0 ? 0 : gal_stage_change(h->stage, layer)[(size_t)from * classes + class];
        const double before = i == 0 ? 0.0 : h->bound->prefix[row] + (double)change;
        for (uint32_t c = start[class]; count > 0 && c < start[class + 1]; c++) {
            if (!is_fixed_out(h, before, &o->choice[c], cell, is_last(h, i)) &&
                !extend_heads(h, i == 0 ? &none : h->heads.head + parent, count, parent, change, &o->choice[c], i,
                              cell)) {
                return false;
            }
        }
    }
    return gal_head_rows_keep_best(&h->rows, &h->heads);
}

/* ---- both ---- */

/* Of the tails behind a cell that fit the head, the fastest, if it makes a path below the goal. They are in order of
 * kept bytes, which alone decide unless a backward before the last layer needs the most: then peaks do too. */
static void join(gal_halves *h, const gal_head *head, size_t i, size_t cell)
{
    const int64_t budget = budget_of(h);
    const gal_head *tail = h->tails.head + h->tail_begin[cell];
    size_t low = 0, high = h->tail_count[cell];
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (tail[middle].kept_bytes + head->kept_bytes <= budget) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    while (low-- > 0 && head->seconds_ps + tail[low].least_ps <= h->goal_ps) {
        const int64_t seconds = head->seconds_ps + tail[low].seconds_ps;
        if (seconds <= h->goal_ps && head->peak_bytes + tail[low].peak_bytes <= budget) {
            h->goal_ps = seconds - 1;
            h->found_ps = seconds;
            h->found = *head;
            h->found_layer = i;
            h->found_tail = h->tail_begin[cell] + low;
        }
    }
}

/* Of the heads from `begin` on, those that lost more than their half are joined and leave. */
static void join_all(gal_halves *h, size_t begin, size_t i, size_t cell)
{
    const gal_multiplier *m = best_of(h);
    const double base = m->suffix[cell] - m->lambda * (double)budget_of(h) - m->bound - 0.5 * cell_lost(h, cell);
    size_t kept = begin;
    for (size_t n = begin; n < h->heads.count; n++) {
        const gal_head *head = &h->heads.head[n];
        const double lost = base + (double)head->seconds_ps + m->lambda * (double)head->row_bytes;
        if (lost > h->half || is_last(h, i)) {
            join(h, head, i, cell);
        } else {
            h->heads.head[kept++] = *head;
        }
    }
    h->heads.count = kept;
}

/* The parents of the heads of layer i are in the rows of layer i - 1, those of tails in the rows of layer i + 1. */
static void trace(const gal_halves *h, uint32_t *strategy)
{
    const uint32_t first = h->stage->first;
    gal_head at = h->found;
    for (size_t i = h->found_layer + 1; i-- > 0;) {
        strategy[first + i] = at.strategy;
        at = i > 0 ? h->heads.head[at.parent] : at;
    }
    size_t tail = h->found_tail;
    for (uint32_t l = first + (uint32_t)h->found_layer + 1; l < h->stage->end; l++) {
        strategy[l] = h->tails.head[tail].strategy;
        tail = h->tails.head[tail].parent;
    }
}

gal_halves_outcome gal_halves_run(gal_halves *h, int64_t goal_ps, uint32_t *strategy, int64_t *seconds_ps)
{
    const uint32_t classes = h->stage->choices->instance->class_count;
    const size_t count = h->stage->end - h->stage->first;
    h->goal_ps = goal_ps;
    h->found_ps = GAL_NEVER;
    h->half = 0.5 * ((double)goal_ps - best_of(h)->bound);
    h->slack = gal_multiplier_slack(best_of(h), budget_of(h), (double)goal_ps);
    h->heads.count = 0;
    h->head_begin[0] = 0;
    if (!run_back(h)) {
        return GAL_HALVES_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        const size_t begin = h->heads.count;
        for (uint32_t k = 0; k < classes && h->heads.count + h->tails.count <= h->limit; k++) {
            const size_t cell = i * classes + k, before = h->heads.count;
            if (!reach(h, i, k)) {
                return GAL_HALVES_NO_MEMORY;
            }
            h->label_count += h->heads.count - before;
            join_all(h, before, i, cell);
            h->head_begin[cell + 1] = h->heads.count;
        }
        if (h->heads.count + h->tails.count > h->limit) {
            return GAL_HALVES_LIMIT;
        }
        if (h->heads.count == begin) {
            break;
        }
    }
    if (h->found_ps == GAL_NEVER) {
        return GAL_HALVES_NONE;
    }
    trace(h, strategy);
    *seconds_ps = h->found_ps;
    return GAL_HALVES_FOUND;
}

bool gal_halves_create(const gal_stage *stage, const gal_stage_bound *bound, size_t label_limit, gal_halves *out)
{
    const size_t cells = (size_t)(stage->end - stage->first) * stage->choices->instance->class_count;
    *out = (gal_halves){.stage = stage, .bound = bound, .limit = label_limit};
    out->head_begin = calloc(cells + 1, sizeof *out->head_begin);
    out->tail_begin = calloc(cells, sizeof *out->tail_begin);
    out->tail_count = calloc(cells, sizeof *out->tail_count);
    return gal_stage_floors_create(stage, &out->floors) && out->head_begin != NULL && out->tail_begin != NULL &&
           out->tail_count != NULL;
}

void gal_halves_free(gal_halves *h)
{
    gal_stage_floors_free(&h->floors);
    free(h->heads.head);
    free(h->tails.head);
    gal_head_rows_free(&h->rows);
    free(h->head_begin);
    free(h->tail_begin);
    free(h->tail_count);
}
