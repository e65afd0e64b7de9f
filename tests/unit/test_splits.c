/* Rounds of splits: by hand, and what holds of any set of groups. Ranks are threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/comm/splits.h"
#include "tests/support/random_plan.h"
#include "tests/support/thread_world.h"

enum { RANKS = 12, GROUPS_MAX = 24 };

typedef struct scene {
    gal_thread_world *world;
    uint32_t ranks, group_count;
    uint32_t member[GROUPS_MAX][RANKS];
    gal_channel_spec group[GROUPS_MAX];
    uint32_t lacks; /* a rank that leaves its last group out; UINT32_MAX: none */
    uint32_t channel_of[RANKS][GROUPS_MAX];
    gal_splits splits[RANKS];
    gal_code code[RANKS];
    gal_error err[RANKS];
} scene;

static bool has(const gal_channel_spec *group, uint32_t rank, uint32_t *index)
{
    for (*index = 0; *index < group->rank_count; (*index)++) {
        if (group->ranks[*index] == rank) {
            return true;
        }
    }
    return false;
}

/* The rank's channels in an order of its own: from another group on each rank. */
static void run_rank(uint32_t rank, void *context)
{
    scene *s = context;
    gal_channel_spec spec[GROUPS_MAX];
    uint32_t count = 0, index = 0;
    for (uint32_t i = 0; i < s->group_count; i++) {
        const uint32_t g = (i + rank) % s->group_count;
        if (has(&s->group[g], rank, &index)) {
            s->channel_of[rank][g] = count;
            spec[count++] = s->group[g];
        }
    }
    count -= rank == s->lacks ? 1 : 0;
    s->code[rank] =
        gal_splits_create(gal_thread_world_comm(s->world, rank), spec, count, 10.0, &s->splits[rank], &s->err[rank]);
}

static void play(scene *s)
{
    s->world = gal_thread_world_create(s->ranks);
    for (uint32_t g = 0; g < s->group_count; g++) {
        s->group[g].ranks = s->member[g];
    }
    gal_thread_world_run(s->ranks, run_rank, s);
    gal_thread_world_free(s->world);
}

static void end(scene *s)
{
    for (uint32_t r = 0; r < s->ranks; r++) {
        gal_splits_free(&s->splits[r]);
    }
}

static void add(scene *s, uint32_t stream, uint32_t count, const uint32_t *members)
{
    memcpy(s->member[s->group_count], members, count * sizeof *members);
    s->group[s->group_count++] = (gal_channel_spec){.rank_count = count, .stream = stream};
}

/* 0 1 | 2 3, then 0 2 | 1 3 on the same stream, then all and the pairs again on another: 2 + 2 rounds. */
static void test_by_hand(void **state)
{
    (void)state;
    scene s = {.ranks = 4, .lacks = UINT32_MAX};
    add(&s, 1, 2, (uint32_t[]){0, 1});
    add(&s, 1, 2, (uint32_t[]){2, 3});
    add(&s, 1, 2, (uint32_t[]){0, 2});
    add(&s, 1, 2, (uint32_t[]){1, 3});
    add(&s, 2, 4, (uint32_t[]){3, 2, 1, 0});
    add(&s, 2, 2, (uint32_t[]){0, 1});
    add(&s, 2, 2, (uint32_t[]){2, 3});
    play(&s);
    for (uint32_t r = 0; r < 4; r++) {
        assert_int_equal(s.code[r], GAL_OK);
        assert_int_equal(s.splits[r].round_count, 4);
        const uint32_t round = s.splits[r].round_of[s.channel_of[r][4]];
        assert_int_equal(s.splits[r].split[round].key, 3 - r);
    }
    assert_int_equal(s.splits[0].round_of[s.channel_of[0][0]], s.splits[2].round_of[s.channel_of[2][1]]);
    end(&s);
}

static void test_rank_lacks_a_channel(void **state)
{
    (void)state;
    scene s = {.ranks = 3, .lacks = 2};
    add(&s, 1, 2, (uint32_t[]){0, 1});
    add(&s, 1, 2, (uint32_t[]){1, 2});
    play(&s);
    for (uint32_t r = 0; r < 3; r++) {
        assert_int_equal(s.code[r], GAL_ERR_DEVICE);
    }
    assert_non_null(strstr(s.err[2].text, "rank 1 has one with rank 2 that rank 2 lacks"));
}

/* The first member does not send it: the others notice. */
static void test_first_member_lacks_a_channel(void **state)
{
    (void)state;
    scene s = {.ranks = 3, .lacks = 1};
    add(&s, 1, 2, (uint32_t[]){1, 2});
    play(&s);
    for (uint32_t r = 0; r < 3; r++) {
        assert_int_equal(s.code[r], GAL_ERR_DEVICE);
    }
    assert_non_null(strstr(s.err[2].text, "rank 2 has one with rank 1 that rank 1 lacks"));
}

static void test_without_channels(void **state)
{
    (void)state;
    scene s = {.ranks = 3, .lacks = UINT32_MAX};
    play(&s);
    assert_int_equal(s.code[0], GAL_OK);
    assert_int_equal(s.splits[1].round_count, 0);
    end(&s);
}

/* Members in any order, some groups twice. */
static void random_groups(uint64_t *random, scene *s)
{
    s->ranks = 2 + gal_random_below(random, RANKS - 1);
    for (uint32_t wanted = gal_random_below(random, GROUPS_MAX); s->group_count < wanted;) {
        uint32_t order[RANKS];
        for (uint32_t i = 0; i < s->ranks; i++) {
            const uint32_t at = gal_random_below(random, i + 1);
            order[i] = order[at];
            order[at] = i;
        }
        add(s, gal_random_below(random, 3), 2 + gal_random_below(random, s->ranks - 1), order);
        if (s->group_count < wanted && gal_random_below(random, 4) == 0) {
            const uint32_t again = s->group_count - 1;
            add(s, s->group[again].stream, s->group[again].rank_count, s->member[again]);
        }
    }
}

static void test_any_groups(void **state)
{
    (void)state;
    uint64_t random = 7;
    for (uint32_t trial = 0; trial < 100; trial++) {
        scene s = {.lacks = UINT32_MAX};
        random_groups(&random, &s);
        play(&s);
        for (uint32_t g = 0; g < s.group_count; g++) {
            const uint32_t first = s.group[g].ranks[0];
            const uint32_t round = s.splits[first].round_of[s.channel_of[first][g]];
            const uint32_t color = s.splits[first].split[round].color;
            for (uint32_t r = 0; r < s.ranks; r++) {
                uint32_t index = 0;
                assert_int_equal(s.code[r], GAL_OK);
                assert_int_equal(s.splits[r].round_count, s.splits[0].round_count);
                if (has(&s.group[g], r, &index)) { /* the same round and color on all members, in the group's order */
                    assert_int_equal(s.splits[r].round_of[s.channel_of[r][g]], round);
                    assert_int_equal(s.splits[r].split[round].color, color);
                    assert_int_equal(s.splits[r].split[round].key, index);
                } else { /* and of nobody else */
                    assert_true(s.splits[r].split[round].color != color);
                }
            }
        }
        end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_rank_lacks_a_channel),
        cmocka_unit_test(test_first_member_lacks_a_channel),
        cmocka_unit_test(test_without_channels),
        cmocka_unit_test(test_any_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
