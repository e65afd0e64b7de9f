#include "planner/certificate/certificate_cuts.h"

#include <math.h>

enum { LANES = 4 }; /* of sums that do not wait for each other */

static size_t place_of(const gal_cert_cuts *c, uint32_t stage, uint32_t block)
{
    return (size_t)stage * (c->prices->blocks + 1) + block;
}

void gal_cert_cuts_create(gal_heap *heap, gal_cert_cuts *c)
{
    const size_t stages = c->prices->stages;
    c->far = gal_heap_take_room(heap, (size_t)c->prices->kind_count * c->prices->blocks, sizeof *c->far);
    c->earliest = gal_heap_take(heap, stages + 1, sizeof *c->earliest);
    c->longest = gal_heap_take(heap, stages, sizeof *c->longest);
    c->begins = gal_heap_take(heap, stages + 1, sizeof *c->begins);
    c->sum = gal_heap_take_room(heap, place_of(c, c->prices->stages + 1, 0), sizeof *c->sum);
}

/* Most blocks of a chain on the kind of stage that is less than `most` slow. */
static uint32_t longest_of(const gal_cert_cuts *c, uint32_t stage, double most)
{
    const gal_cert_prices *t = c->prices;
    const uint32_t kind = t->kind_of[stage], first = t->kind[kind].stage;
    const uint32_t *far = &c->far[(size_t)kind * t->blocks];
    uint32_t longest = 0, begin = t->blocks;
    for (uint32_t end = t->blocks; end > first; end--) {
        begin = begin < end ? begin : end;
        while (begin > first && far[begin - 1] >= end) {
            begin--;
        }
        gal_cert_chain chain = {begin, end};
        for (; end - chain.begin > longest && t->like[end].common < end - begin; chain.begin++) { /* else another's */
            longest = *c->known(c->context, stage, GAL_CERT_ROUND, &chain) < most ? end - chain.begin : longest;
        }
    }
    return longest;
}

/* How long stages may be that are less than `most` slow, and so where they begin. */
static void limit_stages(gal_cert_cuts *c, double most)
{
    const gal_cert_prices *t = c->prices;
    c->longest[0] = c->earliest[t->stages] = t->blocks;
    for (uint32_t p = t->stages; p-- > 1;) {
        const bool known = p + 1 < t->stages && t->kind_of[p] == t->kind_of[p + 1];
        c->longest[p] = known ? c->longest[p + 1] : longest_of(c, p, most);
        c->earliest[p] = c->earliest[p + 1] > c->longest[p] ? c->earliest[p + 1] - c->longest[p] : 0;
    }
}

/* Of chains that are a block longer each, the first of them from before[0]: none that is `most` slow or slower. */
static double least_of_row(const double *before, const double *round, const double *added, uint32_t count,
                           double rounds, double most)
{
    double least[LANES] = {HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL};
    for (uint32_t i = 0; i < count; i++, before--) {
        const double sum = *before + rounds * added[i], counted = round[i] < most ? sum : HUGE_VAL;
        least[i % LANES] = gal_cert_lesser(least[i % LANES], counted);
    }
    return gal_cert_lesser(gal_cert_lesser(least[0], least[1]), gal_cert_lesser(least[2], least[3]));
}

/* The first block at which a stage may begin that ends there. */
static uint32_t first_begin(const gal_cert_cuts *c, uint32_t stage, uint32_t end)
{
    const uint32_t reached = end > c->longest[stage] ? end - c->longest[stage] : 0;
    return reached > c->begins[stage].begin ? reached : c->begins[stage].begin;
}

/* The least sum up to a stage's end. */
static double sum_to(gal_cert_cuts *c, uint32_t stage, uint32_t end, double most)
{
    const uint32_t common = c->prices->kind_of[stage] == 0 ? 0 : c->prices->like[end].common;
    const uint32_t lowest = first_begin(c, stage, end), highest = c->begins[stage].end;
    const double *before = &c->sum[place_of(c, stage, 0)];
    const double rounds = gal_rounds_of_stage(&c->added, stage);
    double least = HUGE_VAL;
    for (uint32_t begin = highest < end ? highest : end; begin > lowest;) {
        const bool shared = end - begin < common; /* chains of so many blocks and less are in another end's row */
        const uint32_t row_end = shared && end - common > lowest ? end - common : lowest;
        const gal_cert_chain chain = {begin - 1, end};
        const double *round = c->known(c->context, stage, GAL_CERT_ROUND, &chain);
        const double *added = c->known(c->context, stage, GAL_CERT_ADDED, &chain);
        const double own = least_of_row(&before[begin - 1], round, added, begin - row_end, rounds, most);
        least = gal_cert_lesser(least, own);
        begin = row_end;
    }
    return c->sum[place_of(c, stage + 1, end)] = least;
}

double gal_cert_cuts_least(gal_cert_cuts *c, double most)
{
    const uint32_t stages = c->prices->stages, blocks = c->prices->blocks;
    limit_stages(c, most);
    c->sum[0] = 0.0;
    c->begins[0] = (gal_cert_chain){0, 1};
    for (uint32_t p = 0; p < stages; p++) {
        const uint32_t next = c->begins[p].begin + 1, last = c->begins[p].end > 0 ? blocks - (stages - 1 - p) : 0;
        c->begins[p + 1] = (gal_cert_chain){0, 0};
        for (uint32_t end = c->earliest[p + 1] > next ? c->earliest[p + 1] : next; end <= last; end++) {
            if (sum_to(c, p, end, most) < HUGE_VAL) {
                c->begins[p + 1] = (gal_cert_chain){c->begins[p + 1].end > 0 ? c->begins[p + 1].begin : end, end + 1};
            }
        }
    }
    return c->begins[stages].end > 0 ? c->sum[place_of(c, stages, blocks)] : HUGE_VAL;
}

/* Where the stage begins on the way of the sum up to its end. */
static uint32_t begin_of(const gal_cert_cuts *c, uint32_t stage, uint32_t end, double most)
{
    const double least = c->sum[place_of(c, stage + 1, end)], rounds = gal_rounds_of_stage(&c->added, stage);
    const double *before = &c->sum[place_of(c, stage, 0)];
    gal_cert_chain chain = {first_begin(c, stage, end), end};
    while (chain.begin + 1 < end &&
           !(*c->known(c->context, stage, GAL_CERT_ROUND, &chain) < most &&
             before[chain.begin] + rounds * *c->known(c->context, stage, GAL_CERT_ADDED, &chain) == least)) {
        chain.begin++;
    }
    return chain.begin;
}

void gal_cert_cuts_read(const gal_cert_cuts *c, double most, gal_cert_chain *cut)
{
    uint32_t end = c->prices->blocks;
    for (uint32_t p = c->prices->stages; p-- > 0; end = cut[p].begin) {
        cut[p] = (gal_cert_chain){begin_of(c, p, end, most), end};
    }
}
