#include "planner/stage_filling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 8, TIES_TRIED = 4 };

/* Blocks [begin, middle) take items of one class, [middle, end) of another. */
typedef struct segments {
    uint32_t begin, middle, end;
    uint32_t class[2];
} segments;

/* How a stage is filled. */
typedef struct filled {
    double seconds; /* as GAL_TABLE_STEP counts; infinity: it does not fit */
    double rate;
    segments at;
    uint32_t *taken; /* [segment][type][item] */
} filled;

typedef struct filler {
    gal_stage_tables *t;
    const gal_cut *cut;
    uint32_t stage, begin, end;
    uint32_t class_before; /* of the last block of the stage before; class_count: there is none */
    gal_mix_stage menus;
    size_t taken_count;
    filled best, now;
    gal_mix_group *group; /* [segment][type] */
} filler;

static uint32_t *taken_of(const filler *f, const filled *fill, uint32_t segment, uint32_t type)
{
    const gal_screened *s = f->t->s;
    return fill->taken + ((size_t)segment * s->types->type_count + type) * s->strategy_count;
}

/* Items of the class in the type's menu; returns the first. */
static uint32_t range_of(const gal_mix_menu *menu, uint32_t class, uint32_t *count)
{
    uint32_t first = 0;
    while (first < menu->count && menu->item[first].class != class) {
        first++;
    }
    *count = 0;
    while (first + *count < menu->count && menu->item[first + *count].class == class) {
        ++*count;
    }
    return first;
}

/* Groups of the segment's types that occur. */
static uint32_t add_groups(filler *f, uint32_t segment, uint32_t begin, uint32_t end, uint32_t class, uint32_t count)
{
    const gal_block_types *types = f->t->s->types;
    uint32_t blocks[GAL_TYPES_MAX] = {0};
    for (uint32_t block = begin; block < end; block++) {
        blocks[types->type_of[block]]++;
    }
    for (uint32_t type = 0; type < types->type_count; type++) {
        if (blocks[type] > 0) {
            uint32_t items = 0;
            const uint32_t first = range_of(&f->menus.menu[type], class, &items);
            f->group[count++] = (gal_mix_group){f->menus.menu[type].item + first, items, blocks[type],
                                                taken_of(f, &f->now, segment, type) + first};
        }
    }
    return count;
}

/* Of the groups with one item each at its quickest. */
static double quickest(const filler *f, uint32_t group_count)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < group_count; i++) {
        double least = HUGE_VAL;
        for (uint32_t j = 0; j < f->group[i].item_count; j++) {
            least = fmin(least, f->group[i].item[j].seconds);
        }
        sum += f->group[i].block_count * least;
    }
    return sum;
}

static double conversion_into(const filler *f, uint32_t block, uint32_t from_class, uint32_t to_class)
{
    return block == 0 || from_class == to_class || from_class == f->t->class_count
               ? 0.0
               : f->t->s->spec.microbatch_count *
                     gal_stage_tables_conversion(f->t, f->t->s->types->pair_of[block], from_class, to_class);
}

static double limit_bytes(const filler *f, const segments *at)
{
    const uint32_t last = at->middle < at->end ? at->class[1] : at->class[0];
    return f->menus.limit_bytes - f->t->first_bytes[at->class[0]] - f->t->last_bytes[last] -
           f->cut->spare_bytes[f->stage];
}

/* Keeps the segments' choice if it is the best so far. */
static void try_segments(filler *f, const segments *at)
{
    gal_mix_sum sum;
    const bool two = at->middle < at->end;
    uint32_t count = add_groups(f, 0, at->begin, at->middle, at->class[0], 0);
    count = two ? add_groups(f, 1, at->middle, at->end, at->class[1], count) : count;
    double least = quickest(f, count);
    if (least >= f->best.seconds) {
        return;
    }
    const double conversions = conversion_into(f, at->begin, f->class_before, at->class[0]) +
                               (two ? conversion_into(f, at->middle, at->class[0], at -> class[1]) : 0.0);
    if (least + conversions < f->best.seconds && gal_mix_choose(f->group, count, limit_bytes(f, at), &sum) &&
        sum.seconds + conversions < f->best.seconds) {
        const filled swap = f->best;
        f->best = f->now;
        f->now = swap;
        f->best.seconds = sum.seconds + conversions;
        f->best.rate = sum.rate;
        f->best.at = *at;
    }
}

/* The two classes that are worth mixing, in both orders: borders far apart first, then around the best. */
static void try_mixed(filler *f)
{
    const uint32_t *mixed = f->cut->mixed[f->stage];
    const uint32_t blocks = f->end - f->begin;
    for (uint32_t order = 0; order < 2 && mixed[0] != mixed[1] && blocks > 1; order++) {
        segments at = {f->begin, 0, f->end, {mixed[order], mixed[1 - order]}};
        uint32_t step = blocks / PARTS < 1 ? 1 : blocks / PARTS;
        for (at.middle = f->begin + step; at.middle < f->end; at.middle += step) {
            try_segments(f, &at);
        }
        while (step > 1) {
            const bool own = f->best.at.middle < f->end && f->best.at.class[0] == at.class[0];
            const uint32_t center = f->best.at.middle;
            step /= 2;
            at.middle = center - step;
            if (own && center - f->begin > step) {
                try_segments(f, &at);
            }
            at.middle = center + step;
            if (own && at.middle < f->end) {
                try_segments(f, &at);
            }
        }
    }
}

/* Items that take longer first, which are those that run again: later blocks may then turn to backward at once. */
static void write_stage(const filler *f, uint32_t *strategy)
{
    for (uint32_t block = f->begin; block < f->end; block++) {
        const uint32_t type = f->t->s->types->type_of[block];
        const uint32_t segment = block < f->best.at.middle ? 0 : 1;
        uint32_t items = 0;
        const uint32_t first = range_of(&f->menus.menu[type], f->best.at.class[segment], &items);
        uint32_t *taken = taken_of(f, &f->best, segment, type);
        uint32_t item = first + items;
        while (taken[item - 1] == 0) {
            item--;
        }
        taken[item - 1]--;
        strategy[block] = f->menus.menu[type].item[item - 1].strategy;
    }
}

/* Under a tie (embedding not NULL) with the class that its first block has already, else with any. False: it
 * cannot be filled. */
static bool fill_stage(filler *f, uint32_t stage, const gal_strategy *embedding, uint32_t class_before,
                       uint32_t *strategy)
{
    const gal_screened *s = f->t->s;
    f->stage = stage;
    f->begin = f->cut->first[stage];
    f->end = stage + 1 < s->spec.pp_degree ? f->cut->first[stage + 1] : s->types->block_count;
    f->class_before = class_before;
    f->menus = gal_stage_tables_fill(f->t, stage, GAL_TABLE_STEP, embedding);
    f->best.seconds = HUGE_VAL;
    f->best.at.middle = f->end; /* none of this stage */
    const uint32_t first = embedding != NULL ? f->t->class[strategy[f->begin]] : 0;
    const uint32_t last = embedding != NULL ? first : f->t->class_count - 1;
    for (uint32_t class = first; class <= last; class ++) {
        const segments at = {f->begin, f->end, f->end, {class, class}};
        try_segments(f, &at);
    }
    try_mixed(f);
    if (f->best.seconds < HUGE_VAL) {
        write_stage(f, strategy);
    }
    return f->best.seconds < HUGE_VAL;
}

static uint32_t last_class(const filler *f)
{
    return f->best.at.class[f->best.at.middle < f->best.at.end ? 1 : 0];
}

/* ---- the token table ---- */

typedef struct tie {
    uint32_t strategy; /* of the embedding */
    double cost;
} tie;

static int cheaper_first(const void *x, const void *y)
{
    const tie *a = x;
    const tie *b = y;
    if (a->cost != b->cost) {
        return a->cost < b->cost ? -1 : 1;
    }
    return a->strategy < b->strategy ? -1 : a->strategy > b->strategy;
}

/* Embeddings of the class that shard differently. */
static uint32_t list_ties(const gal_stage_tables *t, uint32_t class, tie *out)
{
    const gal_screened *s = t->s;
    const gal_screened_item *item = &s->item[(size_t)s->types->type_of[0] * s->strategy_count];
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->strategy_count; i++) {
        bool seen = !item[i].legal || t->class[i] != class;
        for (uint32_t j = 0; j < count && !seen; j++) {
            seen = gal_strategy_same_shards(&s->strategy[out[j].strategy], &s->strategy[i]);
        }
        if (!seen) {
            out[count++] = (tie){i, 0.0};
        }
    }
    return count;
}

/* What a holder of the table costs at least on the stage if it keeps it as `embedding` does. */
static double tied_cost(const gal_stage_tables *t, uint32_t type, uint32_t stage, double rate,
                        const gal_strategy *embedding)
{
    const gal_screened *s = t->s;
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < s->strategy_count; i++) {
        const gal_screened_item *item = &s->item[(size_t)type * s->strategy_count + i];
        if (item->legal && gal_strategy_same_shards(&s->strategy[i], embedding)) {
            const double bytes = item->bytes + gal_screen_in_flight(&s->spec, stage) * item->saved_bytes;
            least = fmin(least, gal_stage_tables_seconds(t, item, stage, GAL_TABLE_STEP) + rate * bytes);
        }
    }
    return least;
}

static bool stage_holds_table(const filler *f, uint32_t stage)
{
    const gal_screened *s = f->t->s;
    const uint32_t end = stage + 1 < s->spec.pp_degree ? f->cut->first[stage + 1] : s->types->block_count;
    bool holds = false;
    for (uint32_t block = f->cut->first[stage]; block < end; block++) {
        holds = holds || gal_holds_table(s->types, s->types->type_of[block]);
    }
    return holds;
}

/* Stages that hold the table filled anew; the sum of their seconds, infinity: one cannot be. */
static double fill_holders(filler *f, const gal_strategy *embedding, uint32_t *strategy)
{
    double sum = 0.0;
    for (uint32_t p = 0; p < f->t->s->spec.pp_degree && sum < HUGE_VAL; p++) {
        if (stage_holds_table(f, p)) {
            const uint32_t before = p == 0 ? f->t->class_count : f->t->class[strategy[f->cut->first[p] - 1]];
            (void)fill_stage(f, p, embedding, before, strategy);
            sum += f->best.seconds;
        }
    }
    return sum;
}

/* Under the ties that look best. */
static gal_code fill_tied(filler *f, uint32_t class, const double *rate, uint32_t *strategy, bool *found,
                          gal_error *err)
{
    const gal_screened *s = f->t->s;
    tie *ties = malloc((s->strategy_count + 1) * sizeof *ties);
    if (ties == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    const uint32_t count = list_ties(f->t, class, ties);
    for (uint32_t p = 0, block = 0; block < s->types->block_count; block++) {
        p += p + 1 < s->spec.pp_degree && block == f->cut->first[p + 1];
        for (uint32_t i = 0; i < count && gal_holds_table(s->types, s->types->type_of[block]); i++) {
            ties[i].cost += tied_cost(f->t, s->types->type_of[block], p, rate[p], &s->strategy[ties[i].strategy]);
        }
    }
    qsort(ties, count, sizeof *ties, cheaper_first);
    double least = HUGE_VAL;
    uint32_t best = 0;
    for (uint32_t i = 0; i < count && i < TIES_TRIED; i++) {
        const double seconds = fill_holders(f, &s->strategy[ties[i].strategy], strategy);
        best = seconds < least ? i : best;
        least = fmin(least, seconds);
    }
    *found = least < HUGE_VAL && fill_holders(f, &s->strategy[ties[best].strategy], strategy) < HUGE_VAL;
    free(ties);
    return GAL_OK;
}

gal_code gal_stages_fill(gal_stage_tables *tables, const gal_cut *cut, uint32_t *strategy, bool *found, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_screened *s = tables->s;
    const size_t types = s->types->type_count;
    double rate[GAL_STAGES_MAX];
    uint32_t class = tables->class_count;
    uint32_t first_class = 0;
    filler f = {.t = tables,
                .cut = cut,
                .best.taken = calloc(2 * types * s->strategy_count + 1, sizeof *f.best.taken),
                .now.taken = calloc(2 * types * s->strategy_count + 1, sizeof *f.now.taken),
                .group = calloc(2 * types, sizeof *f.group)};
    if (f.best.taken == NULL || f.now.taken == NULL || f.group == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    *found = true;
    for (uint32_t p = 0; p < s->spec.pp_degree && *found; p++) {
        *found = fill_stage(&f, p, NULL, class, strategy);
        rate[p] = f.best.rate;
        class = *found ? last_class(&f) : class;
        first_class = p == 0 && *found ? f.best.at.class[0] : first_class;
    }
    if (*found && s->types->table_shared) {
        GAL_TRY(fill_tied(&f, first_class, rate, strategy, found, err));
    }
    GAL_TRY(tables->code);
cleanup:
    free(f.group);
    free(f.now.taken);
    free(f.best.taken);
    return code;
}
