/* Weights of tails and updates by cutting planes (planner/stages/tail_weights.h). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planner/stages/tail_weights.h"

/* Fictitious play nears the best by 1 over the root of its steps, of which there are 2,000. */
static const double near_enough = 0.022;

static void assert_near(double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance)) {
        fail_msg("%.9g instead of %.9g", found, expected);
    }
}

static gal_tail_weights create(uint32_t stage_count)
{
    gal_tail_weights weights;
    assert_int_equal(gal_tail_weights_create(stage_count, &weights, NULL), GAL_OK);
    return weights;
}

/* Without weights the bound is 10 and the path exposes 3 on stage 0; with all weight there it is 11, and that path
 * exposes 2 on stage 1, whose backward hides 1 of stage 0's. Planes: 10 + 3 w0, and 12 - w0 + 2 w1. With w1 = 1 - w0
 * they meet where 10 + 3 w0 = 14 - 3 w0: at 2/3, where both are 12. */
static void planes_meet_in_between(void **state)
{
    (void)state;
    const gal_tails none = {{0.0}, {0.0}}, first = {{1.0, 0.0}, {0.0}};
    const gal_tails of_none = {{3.0, 0.0}, {0.0}}, of_first = {{-1.0, 2.0}, {0.0}};
    gal_tails found;
    gal_tail_weights weights = create(2);
    gal_tail_weights_note(&weights, &none, 10.0, &of_none);
    assert_near(gal_tail_weights_find(&weights, &found), 13.0, near_enough);
    assert_near(found.exposed[0], 1.0, near_enough);
    gal_tail_weights_note(&weights, &first, 11.0, &of_first);
    assert_near(gal_tail_weights_find(&weights, &found), 12.0, near_enough);
    assert_near(found.exposed[0], 2.0 / 3.0, near_enough);
    assert_near(found.exposed[1], 1.0 / 3.0, near_enough);
    gal_tail_weights_free(&weights);
}

/* Of two paths with all updates on one stage each, under even weights both at 5 + 4/2: no weights are better than even
 * ones. Nothing is exposed, more is hidden: no tail is weighed. */
static void updates_are_weighed_evenly(void **state)
{
    (void)state;
    const gal_tails even = {{0.0}, {0.5, 0.5}};
    const gal_tails on_first = {{-1.0, -2.0}, {4.0, 0.0}}, on_second = {{-1.0, -2.0}, {0.0, 4.0}};
    gal_tails found;
    gal_tail_weights weights = create(2);
    gal_tail_weights_note(&weights, &even, 7.0, &on_first);
    gal_tail_weights_note(&weights, &even, 7.0, &on_second);
    assert_near(gal_tail_weights_find(&weights, &found), 7.0, near_enough);
    assert_near(found.update[0], 0.5, near_enough);
    assert_near(found.update[1], 0.5, near_enough);
    assert_true(found.exposed[0] == 0.0 && found.exposed[1] == 0.0);
    gal_tail_weights_free(&weights);
}

/* More planes than there is room for are forgotten; a sum of weights is never above 1. */
static void sums_stay_within_one(void **state)
{
    (void)state;
    enum { STAGES = 5 };
    gal_tails at = {{0.0}, {0.0}}, path, found;
    gal_tail_weights weights = create(STAGES);
    for (uint32_t k = 0; k < GAL_TAIL_PLANES + 3; k++) {
        path = (gal_tails){{0.0}, {0.0}};
        for (uint32_t p = 0; p < STAGES; p++) {
            path.exposed[p] = (double)((k * 7 + p * 3) % 11) - 4.0;
            path.update[p] = (double)((k * 5 + p * 2) % 7);
        }
        gal_tail_weights_note(&weights, &at, 20.0 - k % 3, &path);
        (void)gal_tail_weights_find(&weights, &found);
        double exposed = 0.0, update = 0.0;
        for (uint32_t p = 0; p < STAGES; p++) {
            assert_true(found.exposed[p] >= 0.0 && found.update[p] >= 0.0);
            exposed += found.exposed[p];
            update += found.update[p];
        }
        assert_true(exposed <= 1.0 + 1e-12 && update <= 1.0 + 1e-12);
        at = found;
    }
    assert_int_equal(weights.plane_count, GAL_TAIL_PLANES);
    gal_tail_weights_free(&weights);
}

/* By a third towards the stage that is exposed most; towards none where all is hidden. */
static void a_step_goes_to_the_most_exposed(void **state)
{
    (void)state;
    const gal_tails path = {{1.0, 5.0, 2.0}, {0.0}}, hidden = {{-1.0, 0.0, -2.0}, {0.0}};
    gal_tails weights = {{0.6, 0.0, 0.3}, {0.0}};
    assert_true(gal_tails_move(&weights, 3, &path, 1.0 / 3.0));
    assert_near(weights.exposed[0], 0.4, 1e-15);
    assert_near(weights.exposed[1], 1.0 / 3.0, 1e-15);
    assert_near(weights.exposed[2], 0.2, 1e-15);
    assert_true(gal_tails_move(&weights, 3, &hidden, 1.0));
    assert_true(weights.exposed[0] == 0.0 && weights.exposed[1] == 0.0 && weights.exposed[2] == 0.0);
    assert_false(gal_tails_move(&weights, 3, &hidden, 1.0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planes_meet_in_between),
        cmocka_unit_test(updates_are_weighed_evenly),
        cmocka_unit_test(sums_stay_within_one),
        cmocka_unit_test(a_step_goes_to_the_most_exposed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
