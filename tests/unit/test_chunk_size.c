/* Sizes of chunks: by hand, and against every number there is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "planner/space/chunk_size.h"

enum { UNITS_MAX = 14, TRIALS = 3000 };

static uint64_t size_of(const gal_chunk_unit *unit, uint32_t count, uint64_t least, uint64_t most, uint32_t shards)
{
    uint64_t out = 1;
    gal_error err = {0};
    const gal_chunk_rule rule = {least, most, shards};
    assert_int_equal(gal_chunk_size(unit, count, &rule, &out, &err), GAL_OK);
    return out;
}

/* 3 + 1 | 4 | 4: up to 4 elements nothing is lost. Up to 7: 3 1 | 4 | 4 as well, as 3 + 1 + 4 is 8. Of 3 shards chunks
 * of 4 are 6: 3 x 6 - 12 = 6. */
static void packings_by_hand(void **state)
{
    (void)state;
    const gal_chunk_unit unit[] = {{3, true}, {1, false}, {4, false}, {4, false}};
    const gal_chunk_packing four = gal_chunk_pack(unit, 4, 4, 1), three = gal_chunk_pack(unit, 4, 7, 3);
    assert_true(four.chunk_count == 3 && four.largest_elements == 4 && four.waste_elements == 0);
    assert_true(three.chunk_count == 3 && three.largest_elements == 6 && three.waste_elements == 6);
    const gal_chunk_packing small = gal_chunk_pack(unit, 4, 2, 1); /* those that are larger stand alone */
    assert_true(small.chunk_count == 4 && small.largest_elements == 4 && small.waste_elements == 4);
}

/* Six layers of 3 + 1 + 4 + 4. At least 10, at most 20 elements: 12 are whole layers. At least 13: 24 are two of them,
 * at least 25 and at most 50: 36. With more than all asked for, all of it. */
static void sizes_by_hand(void **state)
{
    (void)state;
    gal_chunk_unit unit[24];
    for (uint32_t i = 0; i < 24; i++) {
        unit[i] = (gal_chunk_unit){i % 4 == 0 ? 3 : i % 4 == 1 ? 1 : 4, i == 0};
    }
    assert_int_equal(size_of(unit, 24, 10, 1000, 1), 12);
    assert_int_equal(size_of(unit, 24, 13, 1000, 1), 24);
    assert_int_equal(size_of(unit, 24, 25, 1000, 1), 36);
    assert_int_equal(size_of(unit, 24, 500, 1000, 1), 72);
    assert_int_equal(size_of(unit, 24, 0, 1000, 1), 4); /* 3 1 | 4 | 4: a unit is not cut */
    assert_int_equal(size_of(unit, 24, 13, 12, 1), 0);  /* no room */
    assert_int_equal(size_of(unit, 24, 0, 3, 1), 0);
}

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33) % below;
}

/* Chunks one after the other, by the definition; returns what the fullest has. */
static uint64_t pack_plainly(const gal_chunk_unit *unit, uint32_t count, uint64_t size, uint32_t shards,
                             uint64_t *largest, uint64_t *waste)
{
    uint64_t fullest = 0;
    uint64_t chunk[UNITS_MAX] = {0}, all = 0;
    uint32_t chunks = 0;
    for (uint32_t i = 0; i < count; i++) {
        const bool joins = i > 0 && !unit[i].begins && chunk[chunks - 1] + unit[i].elements <= size;
        chunks += !joins;
        chunk[chunks - 1] += unit[i].elements;
        all += unit[i].elements;
    }
    *largest = 0;
    for (uint32_t i = 0; i < chunks; i++) {
        fullest = chunk[i] > fullest ? chunk[i] : fullest;
        while (chunk[i] % shards != 0) {
            chunk[i]++;
        }
        *largest = chunk[i] > *largest ? chunk[i] : *largest;
    }
    *waste = *largest * chunks - all;
    return fullest;
}

static uint64_t longest_of(const gal_chunk_unit *unit, uint32_t count, uint64_t *largest_unit)
{
    uint64_t longest = 0, run = 0;
    *largest_unit = 0;
    for (uint32_t i = 0; i < count; i++) {
        run = (unit[i].begins ? 0 : run) + unit[i].elements;
        longest = run > longest ? run : longest;
        *largest_unit = unit[i].elements > *largest_unit ? unit[i].elements : *largest_unit;
    }
    return longest;
}

/* Every whole number in the range is tried: no waste is less, and no smaller size wastes as little. */
static void no_other_size_is_better(void **state)
{
    (void)state;
    uint64_t seed = 7;
    uint32_t none = 0, tighter = 0;
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        gal_chunk_unit unit[UNITS_MAX];
        const uint32_t count = 1 + draw(&seed, UNITS_MAX), shards = 1 + draw(&seed, 4);
        for (uint32_t i = 0; i < count; i++) {
            unit[i] = (gal_chunk_unit){1 + draw(&seed, 12), i == 0 || draw(&seed, 8) == 0};
        }
        const uint64_t asked = draw(&seed, 60), most = 1 + draw(&seed, 90);
        uint64_t largest_unit, best_waste = UINT64_MAX, best = 0, largest, waste;
        const uint64_t longest = longest_of(unit, count, &largest_unit);
        uint64_t least = asked > largest_unit ? asked : largest_unit;
        least = least < longest ? least : longest;
        const uint64_t end = most < 2 * least ? most : 2 * least;
        for (uint64_t size = least; size <= end; size++) {
            const uint64_t fullest = pack_plainly(unit, count, size, shards, &largest, &waste);
            if (fullest >= least && waste < best_waste) {
                best_waste = waste;
                best = size;
            }
        }
        const uint64_t chosen = size_of(unit, count, asked, most, shards);
        assert_int_equal(chosen, best);
        if (best > 0) {
            const gal_chunk_packing packing = gal_chunk_pack(unit, count, chosen, shards);
            assert_true(pack_plainly(unit, count, chosen, shards, &largest, &waste) == packing.fullest_elements);
            assert_true(packing.largest_elements == largest && packing.waste_elements == waste);
            tighter += chosen > least;
        }
        none += best == 0;
    }
    assert_true(none > TRIALS / 20 && tighter > TRIALS / 4); /* else nothing was tried */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(packings_by_hand), cmocka_unit_test(sizes_by_hand),
                                       cmocka_unit_test(no_other_size_is_better)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
