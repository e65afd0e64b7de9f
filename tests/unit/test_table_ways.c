/* Groups of ways to keep the token table: the least bound of any way, found by few groups. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planner/stages/table_ways.h"
#include "tests/support/random_plan.h"

enum { MANY = 2000, WAYS_MAX = 120 };

/* What a way costs embedding and others, and more where both have the very same. */
typedef struct bed {
    uint32_t count, asked;
    double cost[WAYS_MAX][2], tied[WAYS_MAX];
} bed;

static gal_code bound_of(void *context, const bool *allowed, double *bound)
{
    bed *b = context;
    double least[3] = {HUGE_VAL, HUGE_VAL, HUGE_VAL};
    uint32_t ways = 0;
    for (uint32_t way = 0; way < b->count; way++) {
        ways += allowed[way];
        for (uint32_t i = 0; i < 2 && allowed[way]; i++) {
            least[i] = fmin(least[i], b->cost[way][i]);
        }
        least[2] = allowed[way] ? b->cost[way][0] + b->cost[way][1] + b->tied[way] : least[2];
    }
    *bound = ways == 1 ? least[2] : least[0] + least[1];
    b->asked++;
    return GAL_OK;
}

static void make_bed(uint64_t *state, bed *b)
{
    b->count = 2 + gal_random_below(state, WAYS_MAX - 2);
    b->asked = 0;
    for (uint32_t way = 0; way < b->count; way++) {
        const double degree = gal_random_below(state, 6); /* what is cheap for one is dear for the other, mostly */
        b->cost[way][0] = degree + 0.01 * gal_random_below(state, 100);
        b->cost[way][1] = 5.0 - degree + 0.01 * gal_random_below(state, 100);
        b->tied[way] = gal_random_below(state, 4) == 0 ? 0.1 : 0.0;
    }
}

/* On 1,000 random tables, against every way by itself. */
static void least_of_all(void **unused)
{
    (void)unused;
    uint64_t state = 5;
    uint32_t asked = 0, ways = 0;
    for (uint32_t n = 0; n < 1000; n++) {
        bed b;
        gal_priced_way way[WAYS_MAX];
        gal_error err = {0};
        double least = 0.0;
        double expected = HUGE_VAL;
        make_bed(&state, &b);
        for (uint32_t i = 0; i < b.count; i++) {
            way[i] = (gal_priced_way){i, {b.cost[i][0], b.cost[i][1]}};
            expected = fmin(expected, b.cost[i][0] + b.cost[i][1] + b.tied[i]);
        }
        const double enough = n % 2 == 0 ? HUGE_VAL : 5.4;
        assert_int_equal(gal_table_ways_bound(way, b.count, WAYS_MAX, enough, bound_of, &b, &least, &err), GAL_OK);
        assert_true(least == fmin(expected, enough));
        asked += b.asked;
        ways += b.count;
    }
    assert_true(asked < ways);
}

/* No less than any group of its: a way costs what it is alone; a group nothing at all. */
static gal_code bound_of_singles(void *context, const bool *allowed, double *bound)
{
    const uint32_t *count = context;
    uint32_t ways = 0;
    for (uint32_t way = 0; way < MANY; way++) { /* those too that are not offered */
        ways += allowed[way];
    }
    assert_true(ways <= *count);
    *bound = ways == 1 ? 3.0 : 1.0;
    return GAL_OK;
}

/* Where more groups would have to be looked at than are, the least of those left is what is proved: no more than 3. */
static void gives_up(void **unused)
{
    (void)unused;
    static gal_priced_way way[MANY];
    gal_error err = {0};
    for (uint32_t count = 16; count <= MANY; count += MANY - 16) {
        double least = 0.0;
        for (uint32_t i = 0; i < count; i++) {
            way[i] = (gal_priced_way){i, {i, count - i}};
        }
        assert_int_equal(gal_table_ways_bound(way, count, MANY, HUGE_VAL, bound_of_singles, &count, &least, &err),
                         GAL_OK);
        assert_true(least == (count == 16 ? 3.0 : 1.0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(least_of_all),
        cmocka_unit_test(gives_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
