/* What a bound says of a chain. */
#include "planner/bound/mixture.h"

#include <math.h>

/* Of the pairs; *count: how many there are. */
static double value_of_pairs(const gal_mix_line *line, const gal_mix_chain *chain, uint32_t pair_count, uint32_t *count)
{
    double sum = line->constant;
    *count = 0;
    for (uint32_t pair = 0; pair < pair_count; pair++) {
        const uint32_t own = chain->behind[pair] - chain->before[pair];
        if (own > 0) {
            sum += own * line->pair[pair];
            *count += own;
        }
    }
    return sum;
}

static double value(const gal_mix_line *line, const gal_mix_chain *chain, uint32_t pair_count)
{
    uint32_t count;
    const double pairs = value_of_pairs(line, chain, pair_count, &count);
    return count == 0   ? line->constant + line->one[chain->first_type]
           : count == 1 ? line->constant + line->two[chain->first_pair]
                        : pairs + line->first[chain->first_pair] + line->last[chain->last_pair];
}

static double floor_of(const gal_mix_line *line, const gal_mix_chain *chain, uint32_t pair_count)
{
    uint32_t count;
    const double pairs = value_of_pairs(line, chain, pair_count, &count);
    return count == 0   ? line->constant + line->one_floor[chain->first_type]
           : count == 1 ? line->constant + line->two_floor[chain->first_pair]
                        : pairs + line->first_floor[chain->first_pair] + line->last_floor[chain->last_pair];
}

typedef double line_value(const gal_mix_line *line, const gal_mix_chain *chain, uint32_t pair_count);

/* On the level, if something fits there and it takes less than `least`; else that. */
static double lesser_level(const gal_mix_bound *bound, uint32_t at, const gal_mix_chain *chain, line_value *of,
                           double least)
{
    const double own = of(&bound->seconds[at][0], chain, bound->pair_count);
    if (own >= least) {
        return least;
    }
    const double priced = bound->price[at] > 0.0 ? of(&bound->seconds[at][1], chain, bound->pair_count) : own;
    if (priced >= least || of(&bound->bytes[at], chain, bound->pair_count) > 1e-9 * fabs(bound->bytes[at].constant)) {
        return least;
    }
    return own > priced ? own : priced;
}

/* Over all levels, the one first that is least for the counts that prices are made for. */
static double least_of_levels(const gal_mix_bound *bound, const gal_mix_chain *chain, line_value *of)
{
    double least = HUGE_VAL;
    if (bound->level_count > 0) {
        least = lesser_level(bound, bound->least_level, chain, of, least);
    }
    for (uint32_t i = 0; i < bound->level_count; i++) {
        least = i == bound->least_level ? least : lesser_level(bound, i, chain, of, least);
    }
    return least;
}

double gal_mix_least(const gal_mix_bound *bound, const gal_mix_chain *chain)
{
    return least_of_levels(bound, chain, value);
}

double gal_mix_floor(const gal_mix_bound *bound, const gal_mix_chain *chain)
{
    return least_of_levels(bound, chain, floor_of);
}
