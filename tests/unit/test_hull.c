/* planner/hull against enumeration on small random numbers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "planner/hull/hull.h"

enum { INSTANCES = 500, POINTS_MAX = 7, PARTS_MAX = 3, LAYERS_MAX = 4 };

static uint64_t seed = 20261128;

static uint32_t below(uint32_t count)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % count;
}

/* Seconds of the best fractional pair of points at so many bytes; infinite: none is so small. */
static double least_at(const gal_hull_point *point, uint32_t count, double bytes)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < count; j++) {
            const double a = (double)point[i].bytes, b = (double)point[j].bytes;
            const double share = a <= bytes && b > bytes ? (bytes - a) / (b - a) : 0.0;
            if (a <= bytes) {
                least = fmin(least, point[i].seconds + share * (point[j].seconds - point[i].seconds));
            }
        }
    }
    return least;
}

static uint32_t draw_points(gal_hull_point *point)
{
    const uint32_t count = 1 + below(POINTS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        point[i] = (gal_hull_point){1.0 + below(40), (int64_t)below(50) - 5, i};
    }
    return count;
}

static void test_hull_is_the_least_of_all_pairs(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < INSTANCES; n++) {
        gal_hull_point all[POINTS_MAX], kept[POINTS_MAX];
        const uint32_t count = draw_points(all);
        memcpy(kept, all, sizeof all);
        const uint32_t kept_count = gal_hull_keep(kept, count);
        assert_in_range(kept_count, 1, count);
        for (uint32_t i = 1; i < kept_count; i++) {
            assert_true(kept[i].bytes > kept[i - 1].bytes && kept[i].seconds < kept[i - 1].seconds);
        }
        for (double bytes = -8.0; bytes < 50.0; bytes += 0.5) {
            const double expected = least_at(all, count, bytes), found = least_at(kept, kept_count, bytes);
            assert_true(expected == found || fabs(expected - found) < 1e-9);
        }
    }
}

/* Whole layers, every choice. */
static double enumerate(const gal_hull_part *part, uint32_t part_count, int64_t limit)
{
    if (part_count == 0) {
        return limit >= 0 ? 0.0 : INFINITY;
    }
    double least = INFINITY;
    if (part->layer_count == 0) {
        return enumerate(part + 1, part_count - 1, limit);
    }
    gal_hull_part rest[PARTS_MAX];
    memcpy(rest, part, part_count * sizeof *part);
    rest[0].layer_count--;
    for (uint32_t i = 0; i < part->point_count; i++) {
        least = fmin(least, part->point[i].seconds + enumerate(rest, part_count, limit - part->point[i].bytes));
    }
    return least;
}

/* The largest step of any hull. */
static double largest_step(const gal_hull_part *part, uint32_t part_count)
{
    double most = 0.0;
    for (uint32_t p = 0; p < part_count; p++) {
        for (uint32_t i = 1; i < part[p].point_count; i++) {
            most = fmax(most, part[p].point[i - 1].seconds - part[p].point[i].seconds);
        }
    }
    return most;
}

static void check_mix(const gal_hull_part *part, uint32_t part_count, const gal_hull_mix *mix, int64_t limit,
                      double seconds)
{
    double sum = 0.0, bytes = 0.0;
    uint32_t divided = 0;
    for (uint32_t p = 0; p < part_count; p++) {
        const gal_hull_point *low = &part[p].point[mix[p].low];
        const gal_hull_point *high = mix[p].high_layers > 0.0 ? low + 1 : low;
        sum += (part[p].layer_count - mix[p].high_layers) * low->seconds + mix[p].high_layers * high->seconds;
        bytes +=
            (part[p].layer_count - mix[p].high_layers) * (double)low->bytes + mix[p].high_layers * (double)high->bytes;
        divided += mix[p].high_layers > 0.0;
    }
    assert_true(fabs(sum - seconds) < 1e-9);
    assert_true(bytes <= (double)limit + 1e-9);
    assert_in_range(divided, 0, 1);
}

static void test_shares_bound_whole_layers_by_one_step(void **state)
{
    (void)state;
    uint32_t fitting = 0;
    for (uint32_t n = 0; n < INSTANCES; n++) {
        gal_hull_point point[PARTS_MAX][POINTS_MAX];
        gal_hull_part part[PARTS_MAX];
        gal_hull_mix mix[PARTS_MAX];
        const uint32_t parts = 1 + below(PARTS_MAX);
        const int64_t limit = below(150);
        for (uint32_t p = 0; p < parts; p++) {
            const uint32_t count = draw_points(point[p]);
            part[p] = (gal_hull_part){1 + below(LAYERS_MAX), gal_hull_keep(point[p], count), point[p]};
        }
        const double whole = enumerate(part, parts, limit);
        const gal_hull_fill fill = gal_hull_share(part, parts, limit, mix);
        assert_int_equal(isinf(whole), isinf(fill.seconds));
        if (!isinf(whole)) {
            fitting++;
            assert_true(fill.seconds <= whole + 1e-9);
            assert_true(whole <= fill.seconds + largest_step(part, parts) + 1e-9);
            check_mix(part, parts, mix, limit, fill.seconds);
        }
    }
    assert_in_range(fitting, INSTANCES / 4, INSTANCES);
}

/* Lagrange: no whole choice is below the value at the multiplier. */
static void test_multiplier_proves_the_value(void **state)
{
    (void)state;
    gal_hull_point point[] = {{10.0, 1, 0}, {6.0, 2, 1}, {4.0, 4, 2}};
    const gal_hull_part part = {4, gal_hull_keep(point, 3), point};
    gal_hull_mix mix;
    const gal_hull_fill fill = gal_hull_share(&part, 1, 10, &mix); /* 8 bytes at 6.0, 2 more are one layer at 4.0 */
    assert_true(fabs(fill.seconds - 22.0) < 1e-12);
    assert_int_equal(mix.low, 1);
    assert_true(fabs(mix.high_layers - 1.0) < 1e-12);
    assert_true(fabs(fill.seconds_per_byte - 1.0) < 1e-12);
    const gal_hull_fill free = gal_hull_share(&part, 1, 16, &mix);
    assert_true(free.seconds == 16.0 && free.seconds_per_byte == 0.0 && mix.low == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hull_is_the_least_of_all_pairs),
        cmocka_unit_test(test_shares_bound_whole_layers_by_one_step),
        cmocka_unit_test(test_multiplier_proves_the_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
