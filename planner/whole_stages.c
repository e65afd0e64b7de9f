#include "planner/whole_stages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { INTERVALS_MAX = 40, GROWTH = 4 /* while no cut is found */ };

static const double growth_max = 1e3; /* as slow as that, a stage is only kept from by its bytes */
static const double fine = 1e-5;      /* of the bound: intervals of the slowest stage need not be narrower */

typedef struct cutter {
    const gal_whole_stages *w;
    uint32_t *pairs;             /* [block][pair]: how many of the pair end at this block or before */
    double *least;               /* [stage][block] least sum of the stages before this one, which begins there */
    uint32_t *from;              /* [stage][block] where the stage before begins on that way */
    uint32_t *earliest, *latest; /* [stage] where it may begin */
} cutter;

static size_t place(const cutter *c, uint32_t stage, uint32_t block)
{
    return (size_t)stage * (c->w->types->block_count + 1) + block;
}

static void count_pairs(const cutter *c)
{
    const gal_block_types *types = c->w->types;
    const size_t count = types->pair_count;
    for (uint32_t b = 1; b < types->block_count; b++) {
        memcpy(&c->pairs[b * count], &c->pairs[(b - 1) * count], count * sizeof *c->pairs);
        c->pairs[b * count + types->pair_of[b]]++;
    }
}

static gal_mix_chain chain_of(const cutter *c, uint32_t begin, uint32_t end)
{
    const gal_block_types *types = c->w->types;
    const size_t count = types->pair_count;
    return (gal_mix_chain){.behind = &c->pairs[(end - 1) * count],
                           .before = &c->pairs[begin * count],
                           .first_type = types->type_of[begin],
                           .first_pair = end - begin > 1 ? types->pair_of[begin + 1] : 0,
                           .last_pair = end - begin > 1 ? types->pair_of[end - 1] : 0};
}

/* Block by block: the order counts where rows are converted. */
static bool is_like(const cutter *c, const gal_tight_stage *tight, uint32_t begin, uint32_t end)
{
    const gal_block_types *types = c->w->types;
    bool like = tight->end - tight->begin == end - begin && types->type_of[tight->begin] == types->type_of[begin];
    for (uint32_t i = 1; i < end - begin && like; i++) {
        like = types->pair_of[tight->begin + i] == types->pair_of[begin + i];
    }
    return like;
}

/* NULL: nothing is known better. */
static const gal_tight_stage *tight_of(const cutter *c, uint32_t stage, uint32_t begin, uint32_t end)
{
    for (uint32_t i = 0; i < c->w->tight_count; i++) {
        if (c->w->tight[i].stage == stage && is_like(c, &c->w->tight[i], begin, end)) {
            return &c->w->tight[i];
        }
    }
    return NULL;
}

static double round_of(const cutter *c, uint32_t stage, uint32_t begin, uint32_t end)
{
    const gal_mix_chain chain = chain_of(c, begin, end);
    const gal_tight_stage *tight = tight_of(c, stage, begin, end);
    const double own = gal_mix_least(&c->w->round[stage], &chain);
    return tight != NULL && tight->round_seconds > own ? tight->round_seconds : own;
}

/* No less for more blocks. */
static double floor_of(const cutter *c, uint32_t stage, uint32_t begin, uint32_t end)
{
    const gal_mix_chain chain = chain_of(c, begin, end);
    return gal_mix_floor(&c->w->round[stage], &chain);
}

static double added_of(const cutter *c, uint32_t stage, uint32_t begin, uint32_t end)
{
    const gal_mix_chain chain = chain_of(c, begin, end);
    const gal_tight_stage *tight = tight_of(c, stage, begin, end);
    const double own = gal_mix_least(&c->w->added[stage], &chain);
    return tight != NULL && tight->added_seconds > own ? tight->added_seconds : own;
}

/* ---- where stages may begin ---- */

/* The least block in [low, high] at which a stage that ends there may begin; high does. */
static uint32_t reach_back(const cutter *c, uint32_t stage, uint32_t low, uint32_t high, uint32_t end, double most)
{
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (floor_of(c, stage, middle, end) <= most) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return high;
}

/* The last block in [low, high] at which a stage that begins there may end; low does. */
static uint32_t reach_on(const cutter *c, uint32_t stage, uint32_t begin, uint32_t low, uint32_t high, double most)
{
    while (low < high) {
        const uint32_t middle = high - (high - low) / 2;
        if (floor_of(c, stage, begin, middle) <= most) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

/* Of stages none of which is above `most`: more blocks take longer, so each reaches back, and on, as far as it can.
 * False: there is no such cut. */
static bool open_windows(cutter *c, double most)
{
    const uint32_t stages = c->w->stage_count;
    const uint32_t blocks = c->w->types->block_count;
    uint32_t end = blocks;
    for (uint32_t p = stages; p-- > 0;) {
        if (floor_of(c, p, end - 1, end) > most) {
            return false;
        }
        c->earliest[p] = end - 1 > p ? reach_back(c, p, p, end - 1, end, most) : end - 1;
        end = c->earliest[p] > 0 ? c->earliest[p] : 1; /* the stage before has a block at least */
    }
    if (c->earliest[0] > 0) {
        return false;
    }
    c->latest[0] = 0;
    for (uint32_t p = 0; p + 1 < stages; p++) {
        const uint32_t next = c->latest[p] + 1;
        const uint32_t last = blocks - (stages - 1 - p);
        c->latest[p + 1] = next < last ? reach_on(c, p, c->latest[p], next, last, most) : next;
        if (c->earliest[p + 1] < p + 1) {
            c->earliest[p + 1] = p + 1;
        }
    }
    return true;
}

/* ---- cuts below a slowest stage ---- */

/* The least sum of a cut whose stages are at most so slow; infinity: there is none. */
static double least_sum(cutter *c, double most)
{
    const uint32_t stages = c->w->stage_count;
    const uint32_t blocks = c->w->types->block_count;
    if (!open_windows(c, most)) {
        return HUGE_VAL;
    }
    for (uint32_t p = 1; p <= stages; p++) {
        for (uint32_t b = p < stages ? c->earliest[p] : blocks; b <= (p < stages ? c->latest[p] : blocks); b++) {
            c->least[place(c, p, b)] = HUGE_VAL;
        }
    }
    c->least[place(c, 0, 0)] = 0.0;
    for (uint32_t p = 0; p < stages; p++) {
        const uint32_t first = p + 1 < stages ? c->earliest[p + 1] : blocks;
        const uint32_t last = p + 1 < stages ? c->latest[p + 1] : blocks;
        for (uint32_t begin = c->earliest[p]; begin <= c->latest[p]; begin++) {
            const double so_far = c->least[place(c, p, begin)];
            for (uint32_t end = begin + 1 > first ? begin + 1 : first; end <= last && so_far < HUGE_VAL; end++) {
                if (floor_of(c, p, begin, end) > most) {
                    break;
                }
                if (round_of(c, p, begin, end) > most) {
                    continue;
                }
                const double sum = so_far + added_of(c, p, begin, end);
                if (sum < c->least[place(c, p + 1, end)]) {
                    c->least[place(c, p + 1, end)] = sum;
                    c->from[place(c, p + 1, end)] = begin;
                }
            }
        }
    }
    return c->least[place(c, stages, blocks)];
}

static void read_cut(const cutter *c, uint32_t *first)
{
    uint32_t end = c->w->types->block_count;
    for (uint32_t p = c->w->stage_count; p-- > 0;) {
        first[p] = c->from[place(c, p + 1, end)];
        end = first[p];
    }
}

/* ---- the slowest stage ---- */

typedef struct interval {
    double low, high; /* of the slowest stage */
    double sum;       /* least of a cut at most `high` slow */
} interval;

static double bound_of(const cutter *c, const interval *i)
{
    return c->w->slowest_rounds * i->low + i->sum;
}

/* The least sum of any cut: each block, with nothing beside it, where it adds least, whatever its bytes. */
static double any_sum(const cutter *c)
{
    const gal_whole_stages *w = c->w;
    double sum = 0.0;
    for (uint32_t b = 0; b < w->types->block_count; b++) {
        double least = HUGE_VAL;
        for (uint32_t p = 0; p < w->stage_count; p++) {
            for (uint32_t i = 0; i < w->added[p].level_count; i++) {
                least = fmin(least, w->added[p].seconds[i][0].one[w->types->type_of[b]]);
            }
        }
        sum += least;
    }
    return sum;
}

/* The least slowest stage of all cuts, from below and from above; false: no cut fits. */
static bool find_slowest(cutter *c, double *low, double *high)
{
    *low = 0.0;
    *high = 1e-6;
    while (!open_windows(c, *high)) {
        *low = *high;
        *high *= 4.0;
        if (*high > 1e12) {
            return false;
        }
    }
    while (*high - *low > fine * *high) {
        const double middle = 0.5 * (*low + *high);
        *(open_windows(c, middle) ? high : low) = middle;
    }
    return true;
}

static interval *least_interval(const cutter *c, interval *list, uint32_t count)
{
    interval *least = list;
    for (uint32_t i = 1; i < count; i++) {
        least = bound_of(c, &list[i]) < bound_of(c, least) ? &list[i] : least;
    }
    return least;
}

static double find_bound(cutter *c, double enough_seconds, uint32_t *first)
{
    interval list[INTERVALS_MAX];
    uint32_t count = 1;
    double low, high;
    double growth = 1.0 / 64.0; /* of an interval that is open above */
    bool cut = false;
    first[0] = GAL_NO_CUT;
    if (!find_slowest(c, &low, &high)) {
        return HUGE_VAL;
    }
    list[0] = (interval){low, HUGE_VAL, any_sum(c)};
    interval *least = list;
    if (c->w->stage_count == 1) {
        first[0] = 0;
        list[0].sum = least_sum(c, HUGE_VAL);
        list[0].high = low; /* done */
        cut = true;
    }
    while (bound_of(c, least) < HUGE_VAL && count < INTERVALS_MAX) {
        const double bound = bound_of(c, least);
        const double width = least->high < HUGE_VAL ? least->high - least->low : growth * least->low;
        if ((bound >= enough_seconds && cut) ||
            (least->high < HUGE_VAL && c->w->slowest_rounds * width <= fine * bound)) {
            break;
        }
        interval *upper = &list[count++];
        *upper = (interval){least->low + (least->high < HUGE_VAL ? 0.5 : 1.0) * width, least->high, least->sum};
        least->high = upper->low;
        least->sum = least_sum(c, least->high);
        if (least->sum < HUGE_VAL) {
            read_cut(c, first);
            cut = true;
        }
        growth *= cut ? 1.0 : GROWTH;
        if (!cut && growth > growth_max && least_sum(c, HUGE_VAL) == HUGE_VAL) {
            return HUGE_VAL;
        }
        least = least_interval(c, list, count);
    }
    return bound_of(c, least) * (1.0 - 1e-12);
}

gal_code gal_whole_stages_bound(const gal_whole_stages *stages, double enough_seconds, double *bound, uint32_t *first,
                                gal_error *err)
{
    const gal_block_types *types = stages->types;
    const size_t places = ((size_t)stages->stage_count + 1) * (types->block_count + 1);
    cutter c = {.w = stages,
                .pairs = calloc((size_t)types->block_count * types->pair_count + 1, sizeof *c.pairs),
                .least = malloc(places * sizeof *c.least),
                .from = malloc(places * sizeof *c.from),
                .earliest = calloc(2 * (size_t)stages->stage_count, sizeof *c.earliest)};
    const bool have = c.pairs != NULL && c.least != NULL && c.from != NULL && c.earliest != NULL;
    if (have) {
        c.latest = c.earliest + stages->stage_count;
        count_pairs(&c);
        *bound = find_bound(&c, enough_seconds, first);
    }
    free(c.earliest);
    free(c.from);
    free(c.least);
    free(c.pairs);
    return have ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}
