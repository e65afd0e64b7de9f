#include "planner/stages/stage_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/program/atoms.h"

/* ---- classes ---- */

/* Others may not even divide the devices. */
static bool is_legal(const gal_screened *s, uint32_t strategy)
{
    bool legal = false;
    for (uint32_t type = 0; type < s->types->type_count && !legal; type++) {
        legal = s->legal[(size_t)type * s->strategy_count + strategy];
    }
    return legal;
}

static gal_code number_classes(gal_stage_tables *t)
{
    const gal_screened *s = t->s;
    gal_atoms atoms;
    gal_price_rows *rows = malloc(((size_t)s->strategy_count + 1) * sizeof *rows); /* [class] */
    if (rows == NULL) {
        return gal_fail(t->err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    gal_atoms_of(s->spec.device_count / s->spec.pp_degree, &atoms);
    for (uint32_t i = 0; i < s->strategy_count; i++) {
        if (!is_legal(s, i)) {
            continue;
        }
        const gal_price_rows own = gal_price_rows_of(&s->strategy[i], &atoms);
        uint32_t class = 0;
        while (class < t->class_count && !gal_price_rows_equal(&rows[class], &own)) {
            class ++;
        }
        if (class == t->class_count) {
            rows[class] = own;
            t->stands[class] = i;
            t->class_count++;
        }
        t->class[i] = class;
    }
    free(rows);
    return GAL_OK;
}

/* Legal strategies, those of a class one after the other. */
static void list_by_class(gal_stage_tables *t)
{
    for (uint32_t class = 0; class < t->class_count; class ++) {
        for (uint32_t i = t->stands[class]; i < t->s->strategy_count; i++) {
            if (t->class[i] == class && is_legal(t->s, i)) {
                t->listed[t->listed_count++] = i;
            }
        }
    }
}

gal_code gal_stage_rows_number(gal_stage_tables *t)
{
    const gal_code code = number_classes(t);
    if (code == GAL_OK) {
        list_by_class(t);
    }
    return code;
}

void gal_stage_rows_measure(gal_stage_tables *t)
{
    const gal_cell_spec *spec = &t->s->spec;
    const gal_block_types *types = t->s->types;
    for (uint32_t class = 0; class < t->class_count; class ++) {
        t->rows_bytes[class] = HUGE_VAL;
        for (uint32_t flow = 0; flow < types->flow_count; flow++) {
            const uint64_t bytes =
                gal_price_rows_bytes(spec->model, &t->s->strategy[t->stands[class]],
                                     spec->global_batch_samples / spec->microbatch_count, types->flow[flow]);
            t->rows_bytes[class] = fmin(t->rows_bytes[class], (double)bytes);
        }
    }
}

void gal_stage_rows_join(gal_stage_tables *t)
{
    for (uint32_t class = 1; class < t->class_count; class ++) {
        t->rows_bytes[0] = fmin(t->rows_bytes[0], t->rows_bytes[class]);
    }
    memset(t->class, 0, t->s->strategy_count * sizeof *t->class);
    t->class_count = t->class_count > 0 ? 1 : 0;
}

/* ---- what no other beats ---- */

static bool leaves_links(const gal_screened_item *a, const gal_screened_item *b)
{
    bool leaves = true;
    for (uint32_t level = 0; level < GAL_LINK_LEVELS_MAX; level++) {
        leaves = leaves && a->link_share[level] <= b->link_share[level];
    }
    return leaves;
}

static bool is_no_more(const gal_pass_seconds *a, const gal_pass_seconds *b)
{
    return a->forward_seconds <= b->forward_seconds && a->backward_seconds <= b->backward_seconds;
}

/* What it takes more beside others that gather, and they beside it. */
static bool is_no_more_crowded(const gal_screened_item *a, const gal_screened_item *b)
{
    return a->gathers <= b->gathers && is_no_more(&a->hidden_before, &b->hidden_before) &&
           is_no_more(&a->hidden_behind, &b->hidden_behind);
}

/* On every stage and under all weights: none of these numbers counts less than nothing in an item (item_of). */
static bool beats(const gal_screened_item *a, const gal_screened_item *b)
{
    return a->forward_seconds <= b->forward_seconds && a->backward_seconds <= b->backward_seconds &&
           a->tail_seconds <= b->tail_seconds && a->update_seconds <= b->update_seconds && a->bytes <= b->bytes &&
           a->saved_bytes <= b->saved_bytes && a->turn_bytes <= b->turn_bytes &&
           a->boundary_bytes == b->boundary_bytes && a->enter_seconds <= b->enter_seconds &&
           a->leave_seconds <= b->leave_seconds && a->enter_tail_seconds <= b->enter_tail_seconds &&
           leaves_links(a, b) && is_no_more_crowded(a, b);
}

/* Whether one may stand for the other: rows lie alike, and of a holder the token table does. */
static bool may_stand_for(const gal_stage_tables *t, bool holds, uint32_t a, uint32_t b)
{
    return t->class[a] == t->class[b] && (!holds || t->ways.of[a] == t->ways.of[b]);
}

/* Adds a strategy to those kept of its type, less what it beats; of equals the first stays. Those of its class are the
 * last ones. */
static void keep(const gal_stage_tables *t, uint32_t type, uint32_t strategy)
{
    const gal_screened_item *item = &t->s->item[(size_t)type * t->s->strategy_count];
    const bool holds = gal_holds_table(t->s->types, type);
    uint32_t *kept = t->kept + (size_t)type * t->listed_count;
    uint32_t begin = t->kept_count[type];
    for (; begin > 0 && t->class[kept[begin - 1]] == t->class[strategy]; begin--) {
        const uint32_t other = kept[begin - 1];
        if (may_stand_for(t, holds, other, strategy) && beats(&item[other], &item[strategy])) {
            return;
        }
    }
    uint32_t count = begin;
    for (uint32_t k = begin; k < t->kept_count[type]; k++) {
        const bool beaten = may_stand_for(t, holds, strategy, kept[k]) && beats(&item[strategy], &item[kept[k]]);
        kept[count] = kept[k];
        count += !beaten;
    }
    kept[count] = strategy;
    t->kept_count[type] = count + 1;
}

void gal_stage_rows_keep_best(gal_stage_tables *t)
{
    for (uint32_t type = 0; type < t->s->types->type_count; type++) {
        for (uint32_t k = 0; k < t->listed_count; k++) {
            if (t->s->legal[(size_t)type * t->s->strategy_count + t->listed[k]]) {
                keep(t, type, t->listed[k]);
            }
        }
    }
}
