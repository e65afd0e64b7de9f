/* Numbers of chains of blocks (planner/space/chain_kinds.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "planner/space/chain_kinds.h"
#include "tests/support/random_plan.h"

enum { BLOCKS_MOST = 24, TYPES = 4, TRIALS = 500 };

/* Two chains have one number if they are of equal types in equal order, and only then; there are no other numbers. */
static size_t check(const uint32_t *type, uint32_t blocks)
{
    uint32_t first[BLOCKS_MOST * BLOCKS_MOST][2]; /* [kind] begin and end of its first chain */
    const gal_block_types types = {.block_count = blocks, .type_count = TYPES, .type_of = (uint32_t *)type};
    gal_chain_kinds kinds = {0};
    gal_error err = {0};
    size_t count = 0;
    memset(first, 0, sizeof first);
    assert_int_equal(gal_chain_kinds_create(&types, &kinds, &err), GAL_OK);
    for (uint32_t begin = 0; begin < blocks; begin++) {
        for (uint32_t end = begin + 1; end <= blocks; end++) {
            const size_t bytes = (end - begin) * sizeof *type;
            const size_t kind = gal_chain_kind(&kinds, begin, end);
            bool known = false;
            for (uint32_t earlier = 0; earlier < begin; earlier++) {
                known = known || memcmp(&type[earlier], &type[begin], bytes) == 0;
            }
            assert_true(kind < kinds.count);
            assert_int_equal(first[kind][1] > 0, known);
            if (known) {
                assert_int_equal(first[kind][1] - first[kind][0], end - begin);
                assert_memory_equal(&type[first[kind][0]], &type[begin], bytes);
            } else {
                first[kind][0] = begin;
                first[kind][1] = end;
                count++;
            }
        }
    }
    assert_int_equal(kinds.count, count);
    gal_chain_kinds_free(&kinds);
    return count;
}

/* e ab ab ab h: from e 8 chains, from the first a 7, from the first b 6; from a later one only what reaches h: 5 more.
 */
static void test_layers_alike(void **unused)
{
    (void)unused;
    static const uint32_t type[8] = {0, 1, 2, 1, 2, 1, 2, 3};
    assert_int_equal(check(type, 8), 8 + 7 + 6 + 5);
}

static void test_random_chains(void **unused)
{
    (void)unused;
    uint64_t state = 1;
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        uint32_t type[BLOCKS_MOST];
        const uint32_t blocks = 1 + gal_random_below(&state, BLOCKS_MOST);
        const uint32_t types = 1 + gal_random_below(&state, TYPES);
        const uint32_t period = 1 + gal_random_below(&state, 6);
        for (uint32_t i = 0; i < blocks; i++) { /* periods with a fault here and there */
            const bool fault = i < period || gal_random_below(&state, 8) == 0;
            type[i] = fault ? gal_random_below(&state, types) : type[i - period];
        }
        (void)check(type, blocks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers_alike),
        cmocka_unit_test(test_random_chains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
