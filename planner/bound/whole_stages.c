#include "planner/bound/whole_stages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { INTERVALS_MAX = 40, STAGES_LOOKED_AT = 1 << 15 /* by cuts of any slowest stage */ };

static const double first_growth = 1.0 / 64.0, growth_max = 1e3; /* of what stages may take, until a cut is found */
static const double fine = 1e-5; /* of the bound: intervals of the slowest stage need not be narrower */

/* Sums over stages: of what they add, and of that and their share of the slowest. */
enum { ADDED, BOTH, SUM_COUNT };

typedef struct cutter {
    const gal_whole_stages *w;
    uint32_t *pairs;             /* [block][pair]: how many of the pair end at this block or before */
    size_t row;                  /* from one row of what is known to the next */
    double share;                /* of the slowest rounds for each stage */
    double *least[SUM_COUNT];    /* [stage][block] least sum of the stages before this one, which begins there */
    uint32_t *from[SUM_COUNT];   /* [stage][block] where the stage before begins on that way */
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

/* A stage of some blocks. */
typedef struct span {
    uint32_t stage, begin, end;
    size_t kind;   /* gal_chain_kind: the order counts where rows are converted */
    double *known; /* in the first row of what is known; NULL: nothing is kept */
} span;

static span span_of(const cutter *c, uint32_t stage, uint32_t begin, uint32_t end)
{
    const size_t kind = gal_chain_kind(c->w->chains, begin, end);
    double *known = c->w->known == NULL ? NULL : &c->w->known[stage * c->w->chains->count + kind];
    return (span){stage, begin, end, kind, known};
}

/* Of chains that follow each other (gal_chain_reach). */
static span one_longer(span own)
{
    return (span){own.stage, own.begin, own.end + 1, own.kind + 1, own.known == NULL ? NULL : own.known + 1};
}

/* NULL: nothing is known better. */
static const gal_tight_stage *tight_of(const cutter *c, span own)
{
    for (uint32_t i = 0; i < c->w->tight_count; i++) {
        const gal_tight_stage *tight = &c->w->tight[i];
        if (tight->stage == own.stage && gal_chain_kind(c->w->chains, tight->begin, tight->end) == own.kind) {
            return tight;
        }
    }
    return NULL;
}

/* What is known of a chain on a stage. */
static double ask(const cutter *c, gal_whole_stages_row which, span own)
{
    const gal_mix_bound *const bounds[] = {c->w->round, c->w->added, c->w->both, c->w->round};
    const gal_mix_bound *bound = &bounds[which][own.stage];
    const gal_mix_chain chain = chain_of(c, own.begin, own.end);
    const gal_tight_stage *tight = which == GAL_WHOLE_ROUND || which == GAL_WHOLE_ADDED ? tight_of(c, own) : NULL;
    const double loose = which == GAL_WHOLE_FLOOR ? gal_mix_floor(bound, &chain) : gal_mix_least(bound, &chain);
    return tight == NULL ? loose : fmax(loose, which == GAL_WHOLE_ROUND ? tight->round_seconds : tight->added_seconds);
}

static double say(const cutter *c, gal_whole_stages_row which, span own)
{
    if (own.known == NULL) {
        return ask(c, which, own);
    }
    double *known = &own.known[which * c->row];
    if (*known == 0.0) {
        *known = ask(c, which, own);
    }
    return *known;
}

/* What was said of chains before they were known better. */
static void forget_loose(const cutter *c)
{
    for (uint32_t i = 0; i < c->w->tight_count && c->w->known != NULL; i++) {
        const gal_tight_stage *tight = &c->w->tight[i];
        const span own = span_of(c, tight->stage, tight->begin, tight->end);
        own.known[GAL_WHOLE_ROUND * c->row] = own.known[GAL_WHOLE_ADDED * c->row] = 0.0;
    }
}

/* No less for more blocks. */
static double floor_of(const cutter *c, uint32_t stage, uint32_t begin, uint32_t end)
{
    const span own = span_of(c, stage, begin, end);
    return say(c, GAL_WHOLE_FLOOR, own);
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

/* Where a stage that ends at *end or behind it may begin first. Where the block before *end alone is above `most` every
 * stage with it is: *end moves on. False: it would pass `last`. */
static bool reach_first(const cutter *c, uint32_t stage, uint32_t *end, uint32_t last, double most, uint32_t *begin)
{
    uint32_t low = stage;
    while (floor_of(c, stage, *end - 1, *end) > most) {
        low = *end;
        if (++*end > last) {
            return false;
        }
    }
    *begin = *end - 1 > low ? reach_back(c, stage, low, *end - 1, *end, most) : *end - 1;
    return true;
}

/* Of stages none of which is above `most`: more blocks take longer, so each reaches back, and on, as far as it can.
 * False: there is no such cut. */
static bool open_windows(cutter *c, double most)
{
    const uint32_t stages = c->w->stage_count;
    const uint32_t blocks = c->w->types->block_count;
    uint32_t end = blocks;
    for (uint32_t p = stages; p-- > 0;) {
        if (!reach_first(c, p, &end, blocks - (stages - 1 - p), most, &c->earliest[p])) {
            return false;
        }
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
        if (c->earliest[p + 1] <= c->earliest[p]) {
            c->earliest[p + 1] = c->earliest[p] + 1;
        }
        if (c->earliest[p + 1] > c->latest[p + 1]) {
            return false;
        }
    }
    return true;
}

/* ---- cuts below a slowest stage ---- */

/* What a stage adds, or that and its share of the slowest; none of a cut's rounds is above `most`, of which the share
 * is given: infinite, as `most` is. Either bound may know that the stage does not fit: then both are infinite, and have
 * the same cuts. */
static void sums_of(const cutter *c, span own, double share, double *added, double *both)
{
    const double least = say(c, GAL_WHOLE_ADDED, own);
    const double sum = c->share > 0.0 ? say(c, GAL_WHOLE_BOTH, own) : least;
    const double rest = sum - share;
    const bool fits = least < HUGE_VAL && sum < HUGE_VAL;
    *added = !fits ? HUGE_VAL : rest > least ? rest : least;
    *both = fits ? sum : HUGE_VAL;
}

static double share_of(const cutter *c, double most)
{
    return most < HUGE_VAL ? c->share * most : HUGE_VAL;
}

/* Least sums by where the last stage ends, and where it begins. */
typedef struct ends {
    double before, *least;
    uint32_t *from;
} ends;

static ends ends_of(const cutter *c, int sum, uint32_t stage, uint32_t begin)
{
    const size_t behind = place(c, stage + 1, 0);
    return (ends){c->least[sum][place(c, stage, begin)], &c->least[sum][behind], &c->from[sum][behind]};
}

static void keep_least(const ends *of, double adds, uint32_t begin, uint32_t end)
{
    const double seconds = of->before + adds;
    if (seconds < of->least[end]) {
        of->least[end] = seconds;
        of->from[end] = begin;
    }
}

/* Stages that begin there, and end at `end` or behind it. */
static void add_stages(const cutter *c, uint32_t stage, uint32_t begin, uint32_t end, uint32_t last, double most)
{
    const ends added = ends_of(c, ADDED, stage, begin), both = ends_of(c, BOTH, stage, begin);
    const double share = share_of(c, most);
    while (end <= last) {
        const uint32_t reach = gal_chain_reach(c->w->chains, begin, end);
        const uint32_t reached = reach < last ? reach : last;
        for (span own = span_of(c, stage, begin, end); end <= reached; end++, own = one_longer(own)) {
            double adds, adds_both;
            if (say(c, GAL_WHOLE_ROUND, own) > most) {
                if (say(c, GAL_WHOLE_FLOOR, own) > most) {
                    return;
                }
                continue;
            }
            sums_of(c, own, share, &adds, &adds_both);
            keep_least(&added, adds, begin, end);
            keep_least(&both, adds_both, begin, end);
        }
    }
}

/* The least sums of cuts whose stages are at most so slow, at the end of the chain; false: there is none. */
static bool find_sums(cutter *c, double most)
{
    const uint32_t stages = c->w->stage_count;
    const uint32_t blocks = c->w->types->block_count;
    if (!open_windows(c, most)) {
        return false;
    }
    for (uint32_t p = 1; p <= stages; p++) {
        for (uint32_t b = p < stages ? c->earliest[p] : blocks; b <= (p < stages ? c->latest[p] : blocks); b++) {
            c->least[ADDED][place(c, p, b)] = c->least[BOTH][place(c, p, b)] = HUGE_VAL;
        }
    }
    c->least[ADDED][place(c, 0, 0)] = c->least[BOTH][place(c, 0, 0)] = 0.0;
    for (uint32_t p = 0; p < stages; p++) {
        const uint32_t first = p + 1 < stages ? c->earliest[p + 1] : blocks;
        const uint32_t last = p + 1 < stages ? c->latest[p + 1] : blocks;
        for (uint32_t begin = c->earliest[p]; begin <= c->latest[p]; begin++) {
            if (c->least[ADDED][place(c, p, begin)] < HUGE_VAL) {
                add_stages(c, p, begin, begin + 1 > first ? begin + 1 : first, last, most);
            }
        }
    }
    return c->least[ADDED][place(c, stages, blocks)] < HUGE_VAL;
}

static double sum_of(const cutter *c, int sum)
{
    return c->least[sum][place(c, c->w->stage_count, c->w->types->block_count)];
}

static void read_cut(const cutter *c, int sum, uint32_t *first)
{
    uint32_t end = c->w->types->block_count;
    for (uint32_t p = c->w->stage_count; p-- > 0;) {
        first[p] = c->from[sum][place(c, p + 1, end)];
        end = first[p];
    }
}

/* ---- the slowest stage ---- */

/* Cuts whose slowest stage is from low to high. */
typedef struct interval {
    double low, high;
    double sum[SUM_COUNT];
    bool looked_at; /* else of no cut */
} interval;

typedef struct slowest_search {
    cutter *c;
    interval list[INTERVALS_MAX];
    uint32_t count;
    double best;     /* bound of the best cut; infinity: none is known */
    uint32_t *first; /* that cut */
    uint32_t *cut;   /* room for one */
    double growth;   /* of an interval that was not looked at */
} slowest_search;

static double bound_of(const cutter *c, const interval *i)
{
    const double slowest = c->w->slowest_rounds * i->low + i->sum[ADDED];
    return slowest > i->sum[BOTH] ? slowest : i->sum[BOTH];
}

/* The least sum of any cut: each block on the stage where it adds least, whatever is beside it and its bytes. */
static double any_sum(const cutter *c)
{
    const gal_whole_stages *w = c->w;
    double sum = 0.0;
    for (uint32_t b = 0; b < w->types->block_count; b++) {
        double least = HUGE_VAL;
        for (uint32_t p = 0; p < w->stage_count; p++) {
            least = fmin(least, w->added[p].least[w->types->type_of[b]]);
        }
        sum += least;
    }
    for (uint32_t p = 0; p < w->stage_count; p++) {
        sum += w->added[p].gain;
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

/* Whether cuts of stages at most so slow are soon looked at. */
static bool is_quick(cutter *c, double most)
{
    uint64_t stages = 0;
    if (open_windows(c, most)) {
        for (uint32_t p = 0; p + 1 < c->w->stage_count; p++) {
            stages += (c->latest[p] - c->earliest[p] + UINT64_C(1)) * (c->latest[p + 1] - c->earliest[p + 1] + 1);
        }
    }
    return stages <= STAGES_LOOKED_AT;
}

static interval *least_interval(slowest_search *s)
{
    interval *least = s->list;
    for (uint32_t i = 1; i < s->count; i++) {
        least = bound_of(s->c, &s->list[i]) < bound_of(s->c, least) ? &s->list[i] : least;
    }
    return least;
}

/* Above what slowest stage no cut of such a sum is worth more than the best. */
static double worth_below(const slowest_search *s, double sum)
{
    const double rounds = s->c->w->slowest_rounds;
    return rounds > 0.0 && s->best < HUGE_VAL ? fmax((s->best - sum) / rounds, 0.0) : HUGE_VAL;
}

/* Where to split it. */
static double middle_of(slowest_search *s, const interval *i, double least_step)
{
    const double low = fmax(i->low, least_step);
    if (i->looked_at) {
        return i->high < HUGE_VAL ? 0.5 * (i->low + i->high) : 2.0 * low;
    }
    const double most = worth_below(s, i->sum[ADDED]);
    if (is_quick(s->c, most)) {
        return fmax(most, i->low);
    }
    s->growth *= s->best < HUGE_VAL ? 2.0 : 4.0;
    return i->low + s->growth * low;
}

/* The bound of the cut in s->cut. */
static double bound_cut(const slowest_search *s)
{
    const gal_whole_stages *w = s->c->w;
    double slowest = 0.0;
    double sum[SUM_COUNT] = {0.0, 0.0};
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t p = 0; p < w->stage_count; p++) {
            const uint32_t end = p + 1 < w->stage_count ? s->cut[p + 1] : w->types->block_count;
            const span own = span_of(s->c, p, s->cut[p], end);
            double added, both;
            if (pass == 0) {
                slowest = fmax(slowest, say(s->c, GAL_WHOLE_ROUND, own));
                continue;
            }
            sums_of(s->c, own, share_of(s->c, slowest), &added, &both);
            sum[ADDED] += added;
            sum[BOTH] += both;
        }
    }
    return fmax(w->slowest_rounds * slowest + sum[ADDED], sum[BOTH]);
}

/* Notes the cuts of the sums that were found last. */
static void note_cuts(slowest_search *s)
{
    for (int sum = ADDED; sum < SUM_COUNT; sum++) {
        read_cut(s->c, sum, s->cut);
        const double own = bound_cut(s);
        if (own < s->best) {
            s->best = own;
            memcpy(s->first, s->cut, s->c->w->stage_count * sizeof *s->first);
        }
    }
}

static void look(slowest_search *s, interval *i)
{
    i->looked_at = true;
    if (!find_sums(s->c, i->high)) {
        i->sum[ADDED] = i->sum[BOTH] = HUGE_VAL;
        return;
    }
    i->sum[ADDED] = fmax(i->sum[ADDED], sum_of(s->c, ADDED));
    i->sum[BOTH] = fmax(i->sum[BOTH], sum_of(s->c, BOTH));
    note_cuts(s);
}

static bool is_done(const slowest_search *s, const interval *least, double enough_seconds)
{
    const double bound = bound_of(s->c, least);
    const bool narrow = least->looked_at && s->c->w->slowest_rounds * (least->high - least->low) <= fine * bound;
    return bound >= enough_seconds || bound >= s->best * (1.0 - fine) || narrow || s->count == INTERVALS_MAX;
}

/* Splits the interval; false: no cut fits. */
static bool split(slowest_search *s, interval *least, double least_step)
{
    const double middle = middle_of(s, least, least_step);
    if (middle < HUGE_VAL) {
        s->list[s->count] = *least;
        s->list[s->count++].low = middle;
    }
    least->high = middle;
    look(s, least);
    return s->best < HUGE_VAL || s->growth <= growth_max || find_sums(s->c, HUGE_VAL);
}

static double find_bound(cutter *c, double enough_seconds, uint32_t *first)
{
    slowest_search s = {.c = c,
                        .count = 1,
                        .best = HUGE_VAL,
                        .first = first,
                        .cut = c->latest + c->w->stage_count,
                        .growth = first_growth};
    double low, high;
    first[0] = GAL_NO_CUT;
    if (!find_slowest(c, &low, &high)) {
        return HUGE_VAL;
    }
    s.list[0] = (interval){low, HUGE_VAL, {any_sum(c), -HUGE_VAL}, false};
    interval *least = s.list;
    while (!is_done(&s, least, enough_seconds)) {
        if (!split(&s, least, high)) {
            return HUGE_VAL;
        }
        least = least_interval(&s);
    }
    return bound_of(c, least) * (1.0 - 1e-12);
}

gal_code gal_whole_stages_bound(const gal_whole_stages *stages, double enough_seconds, double *bound, uint32_t *first,
                                gal_error *err)
{
    const gal_block_types *types = stages->types;
    const size_t places = ((size_t)stages->stage_count + 1) * (types->block_count + 1);
    cutter c = {.w = stages,
                .row = stages->stage_count * stages->chains->count,
                .share = stages->slowest_rounds / stages->stage_count,
                .pairs = calloc((size_t)types->block_count * types->pair_count + 1, sizeof *c.pairs),
                .least = {malloc(SUM_COUNT * places * sizeof *c.least[0])},
                .from = {malloc(SUM_COUNT * places * sizeof *c.from[0])},
                .earliest = calloc(3 * (size_t)stages->stage_count, sizeof *c.earliest)};
    const bool have = c.pairs != NULL && c.least[0] != NULL && c.from[0] != NULL && c.earliest != NULL;
    if (have) {
        c.least[BOTH] = c.least[ADDED] + places;
        c.from[BOTH] = c.from[ADDED] + places;
        c.latest = c.earliest + stages->stage_count;
        count_pairs(&c);
        forget_loose(&c);
        *bound = find_bound(&c, enough_seconds, first);
    }
    free(c.earliest);
    free(c.from[ADDED]);
    free(c.least[ADDED]);
    free(c.pairs);
    return have ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}
