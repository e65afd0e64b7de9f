/* Stages that mix strategies (planner/bound/mixture.h, mixture_exact.h, whole_stages.h) against all choices. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "planner/bound/mixture_exact.h"
#include "planner/bound/whole_stages.h"
#include "tests/support/pruned_menu.h"
#include "tests/support/random_plan.h"

enum { TRIALS = 2000, TYPES = 3, BLOCKS_MOST = 5, ITEMS_MOST = 4, CLASSES = 2, STAGES_MOST = 3, PAIRS = TYPES * TYPES };

/* A chain of blocks of random types; pairs are numbered by their types. */
typedef struct trial {
    uint32_t type_of[BLOCKS_MOST], pair_of[BLOCKS_MOST], pair_first[PAIRS];
    gal_block_types types;
    gal_mix_item item[TYPES][ITEMS_MOST];
    gal_mix_menu menu[TYPES];
    double first_bytes[CLASSES], last_bytes[CLASSES], pair_counts[PAIRS];
    double conversion[PAIRS][CLASSES][CLASSES];
    gal_mix_conversion known[PAIRS][CLASSES][CLASSES], *row[PAIRS][CLASSES]; /* NULL: not opened */
    gal_mix_stage stage;
} trial;

/* The stage counts one second of forward once, one of backward twice. */
static gal_mix_conversion price_conversion(void *context, uint32_t pair, uint32_t from_class, uint32_t to_class)
{
    trial *t = context;
    const double seconds = t->conversion[pair][from_class][to_class];
    t->row[pair][from_class] = t->known[pair][from_class];
    return (gal_mix_conversion){0.5 * seconds, 0.25 * seconds, 0.0};
}

static void forget_conversions(trial *t)
{
    for (uint32_t i = 0; i < PAIRS * CLASSES * CLASSES; i++) {
        t->known[i / (CLASSES * CLASSES)][i / CLASSES % CLASSES][i % CLASSES].forward_seconds = NAN;
    }
    memset(t->row, 0, sizeof t->row);
    t->stage.conversion = t->row[0];
    t->stage.context = t;
}

static void create_chain(uint64_t *state, trial *t)
{
    uint32_t numbers[TYPES][TYPES];
    memset(numbers, 0xFF, sizeof numbers);
    t->types = (gal_block_types){.block_count = 2 + gal_random_below(state, BLOCKS_MOST - 1),
                                 .type_count = TYPES,
                                 .type_of = t->type_of,
                                 .pair_of = t->pair_of,
                                 .pair_first = t->pair_first};
    for (uint32_t b = 0; b < t->types.block_count; b++) {
        t->type_of[b] = gal_random_below(state, TYPES);
        if (b > 0) {
            uint32_t *number = &numbers[t->type_of[b - 1]][t->type_of[b]];
            if (*number == UINT32_MAX) {
                *number = t->types.pair_count++;
                t->pair_first[*number] = b;
            }
            t->pair_of[b] = *number;
            t->pair_counts[*number] += 1.0;
        }
    }
}

static void create(uint64_t seed, trial *t)
{
    uint64_t state = seed;
    const bool gathers = seed % 2 == 0;
    memset(t, 0, sizeof *t);
    create_chain(&state, t);
    for (uint32_t i = 0; i < TYPES; i++) {
        const uint32_t count = 1 + gal_random_below(&state, ITEMS_MOST);
        for (uint32_t j = 0; j < count; j++) {
            t->item[i][j] = (gal_mix_item){.seconds = 1.0 + gal_random_below(&state, 20),
                                           .bytes = gal_random_below(&state, 40),
                                           .turn_bytes = 10.0 * gal_random_below(&state, 4),
                                           .first_seconds = 1.0 - gal_random_below(&state, 3),
                                           .last_seconds = 1.0 - gal_random_below(&state, 3),
                                           .class = j * CLASSES / count,
                                           .strategy = j};
            if (gathers && gal_random_below(&state, 2) == 0) {
                t->item[i][j].gathers = true;
                t->item[i][j].before_seconds = gal_random_below(&state, 6);
                t->item[i][j].behind_seconds = gal_random_below(&state, 6);
            }
        }
        t->menu[i] = (gal_mix_menu){gal_prune_menu(t->item[i], count), t->item[i]};
    }
    for (uint32_t c = 0; c < CLASSES; c++) {
        t->first_bytes[c] = gal_random_below(&state, 5);
        t->last_bytes[c] = gal_random_below(&state, 5);
        for (uint32_t pair = 0; pair < PAIRS; pair++) {
            t->conversion[pair][c][1 - c] = gal_random_below(&state, 4);
        }
    }
    t->stage = (gal_mix_stage){.types = &t->types,
                               .class_count = CLASSES,
                               .menu = t->menu,
                               .first_bytes = t->first_bytes,
                               .last_bytes = t->last_bytes,
                               .pair_counts = t->pair_counts,
                               .limit_bytes = 20.0 + gal_random_below(&state, 40 * BLOCKS_MOST),
                               .rates = {1.0, 2.0, 1.0},
                               .price = price_conversion};
    forget_conversions(t);
}

/* The least seconds of the blocks [begin, end) on one stage. */
typedef struct brute {
    const trial *t;
    uint32_t begin, end;
    bool converts; /* conversions, and what two that gather do not hide of each other, take time */
    const gal_mix_item *taken[BLOCKS_MOST];
    double best;
} brute;

static void finish(brute *b)
{
    const trial *t = b->t;
    const gal_mix_item *first = b->taken[b->begin];
    const gal_mix_item *last = b->taken[b->end - 1];
    const bool one = b->end - b->begin == 1;
    double seconds = first->first_seconds + last->last_seconds;
    double bytes = one ? 0.0 : t->first_bytes[first->class] + t->last_bytes[last->class];
    double turn = 0.0;
    for (uint32_t i = b->begin; i < b->end; i++) {
        seconds += b->taken[i]->seconds;
        bytes += b->taken[i]->bytes;
        turn = fmax(turn, b->taken[i]->turn_bytes);
        if (i > b->begin && b->converts) {
            const gal_mix_item *before = b->taken[i - 1], *own = b->taken[i];
            seconds += t->conversion[t->pair_of[i]][before->class][own->class];
            seconds += before->gathers && own->gathers ? before->behind_seconds + own->before_seconds : 0.0;
        }
    }
    b->best = bytes + turn <= t->stage.limit_bytes ? fmin(b->best, seconds) : b->best;
}

static void try_all(brute *b, uint32_t block)
{
    if (block >= b->end || block >= BLOCKS_MOST) {
        finish(b);
        return;
    }
    const gal_mix_menu *menu = &b->t->menu[b->t->type_of[block]];
    for (uint32_t i = 0; i < menu->count; i++) {
        b->taken[block] = &menu->item[i];
        try_all(b, block + 1);
    }
}

static double brute_force(const trial *t, uint32_t begin, uint32_t end, bool converts)
{
    brute b = {.t = t, .begin = begin, .end = end, .converts = converts, .best = HUGE_VAL};
    try_all(&b, begin);
    return b.best;
}

static double value_of(const trial *t, const gal_mix_bound *bound, uint32_t begin, uint32_t end,
                       double (*of)(const gal_mix_bound *bound, const gal_mix_chain *chain))
{
    uint32_t before[PAIRS] = {0};
    uint32_t behind[PAIRS] = {0};
    for (uint32_t b = begin + 1; b < end; b++) {
        behind[t->pair_of[b]]++;
    }
    const bool one = end - begin == 1;
    const gal_mix_chain chain = {.behind = behind,
                                 .before = before,
                                 .first_type = t->type_of[begin],
                                 .first_pair = one ? 0 : t->pair_of[begin + 1],
                                 .last_pair = one ? 0 : t->pair_of[end - 1]};
    return of(bound, &chain);
}

static void at_most(uint64_t seed, const char *what, double bound, double best)
{
    if (!(bound <= best + 1e-9 * fabs(best))) {
        fail_msg("seed %llu: %s %.17g, best %.17g", (unsigned long long)seed, what, bound, best);
    }
}

static void test_no_stage_beats_its_bounds(void **unused)
{
    (void)unused;
    uint32_t tight = 0;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        gal_error err = {0};
        gal_mix_bound bound;
        trial t;
        double exact = 0.0;
        create(seed, &t);
        const uint32_t end = t.types.block_count;
        assert_int_equal(gal_mix_bound_create(&t.stage, &bound, &err), GAL_OK);
        for (uint32_t begin = 0; begin < end; begin++) {
            const double best = brute_force(&t, begin, end, true);
            const double least = value_of(&t, &bound, begin, end, gal_mix_least);
            const double floor = value_of(&t, &bound, begin, end, gal_mix_floor);
            at_most(seed, "bound", least, best);
            at_most(seed, "floor", floor, least);
            tight += least >= best * (1.0 - 1e-9);
            if (begin + 1 < end) { /* no more with fewer blocks */
                at_most(seed, "floor behind", value_of(&t, &bound, begin + 1, end, gal_mix_floor), floor);
                at_most(seed, "floor before", value_of(&t, &bound, begin, end - 1, gal_mix_floor), floor);
            }
        }
        const double best = brute_force(&t, 0, end, false);
        assert_int_equal(gal_mix_exact(&t.stage, 0, end, 1e6, &exact, &err), GAL_OK);
        at_most(seed, "exact", exact, best);
        at_most(seed, "best", fmin(best, 1e6), exact);
        gal_mix_bound_free(&bound);
    }
    assert_true(tight > TRIALS / 4);
}

/* Of one class: never less than the best, and what is taken adds up. */
static void test_choices_fit(void **unused)
{
    (void)unused;
    uint32_t best_ones = 0;
    uint32_t found = 0;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        trial t;
        create(seed, &t);
        uint32_t taken[TYPES][ITEMS_MOST];
        gal_mix_group group[TYPES];
        uint32_t count[TYPES] = {0};
        uint32_t groups = 0;
        for (uint32_t b = 0; b < t.types.block_count; b++) {
            count[t.type_of[b]]++;
        }
        for (uint32_t type = 0; type < TYPES; type++) {
            if (count[type] > 0) {
                group[groups++] = (gal_mix_group){t.menu[type].item, t.menu[type].count, count[type], taken[type]};
            }
        }
        memset(t.first_bytes, 0, sizeof t.first_bytes);
        memset(t.last_bytes, 0, sizeof t.last_bytes);
        gal_mix_sum sum;
        const bool fits = gal_mix_choose(group, groups, t.stage.limit_bytes, 0.0, HUGE_VAL, &sum);
        double seconds = 0.0;
        double bytes = 0.0;
        double turn = 0.0;
        for (uint32_t g = 0; g < groups && fits; g++) {
            uint32_t blocks = 0;
            for (uint32_t i = 0; i < group[g].item_count; i++) {
                blocks += group[g].taken[i];
                seconds += group[g].taken[i] * group[g].item[i].seconds;
                bytes += group[g].taken[i] * group[g].item[i].bytes;
                turn = group[g].taken[i] > 0 ? fmax(turn, group[g].item[i].turn_bytes) : turn;
            }
            assert_int_equal(blocks, group[g].block_count);
        }
        for (uint32_t type = 0; type < TYPES; type++) { /* ends add nothing here */
            for (uint32_t i = 0; i < t.menu[type].count; i++) {
                t.item[type][i].first_seconds = t.item[type][i].last_seconds = 0.0;
            }
        }
        const double best = brute_force(&t, 0, t.types.block_count, false);
        assert_true(fits == (best < HUGE_VAL));
        if (fits) {
            assert_true(bytes + turn <= t.stage.limit_bytes);
            assert_true(fabs(seconds - sum.seconds) < 1e-9 && fabs(bytes - sum.bytes) < 1e-9);
            at_most(seed, "best", best, seconds);
            found++;
            best_ones += seconds <= best * (1.0 + 1e-9);
        }
    }
    assert_true(best_ones > found / 2);
}

/* ---- cuts ---- */

/* Chains whose stages add something else to the sum than their rounds take: by share 0 of the round, and more. */
static void create_added(uint64_t seed, const trial *rounds, double share, trial *out)
{
    uint64_t state = seed ^ 0xADDED;
    *out = *rounds;
    for (uint32_t i = 0; i < TYPES; i++) {
        for (uint32_t j = 0; j < rounds->menu[i].count; j++) {
            gal_mix_item *item = &out->item[i][j];
            item->seconds = 1.0 + gal_random_below(&state, 20) + share * item->seconds;
            item->first_seconds *= 1.0 + share;
            item->last_seconds *= 1.0 + share;
        }
        out->menu[i].item = out->item[i];
    }
    for (uint32_t i = 0; i < PAIRS * CLASSES; i++) {
        out->conversion[i / CLASSES][i % CLASSES][1 - i % CLASSES] *= 1.0 + share;
    }
    out->types.type_of = out->type_of;
    out->types.pair_of = out->pair_of;
    out->types.pair_first = out->pair_first;
    out->stage.types = &out->types;
    out->stage.menu = out->menu;
    out->stage.first_bytes = out->first_bytes;
    out->stage.last_bytes = out->last_bytes;
    out->stage.pair_counts = out->pair_counts;
    forget_conversions(out);
}

/* All cuts, and all choices for their stages. */
typedef struct brute_cut {
    const trial *round, *added;
    uint32_t stages;
    double rounds;
    uint32_t taken[BLOCKS_MOST]; /* number in its menu */
    double best;
} brute_cut;

/* Of the blocks [begin, end) as they are taken; infinity: they do not fit. */
static double stage_seconds(const brute_cut *b, const trial *t, uint32_t begin, uint32_t end)
{
    brute own = {.t = t, .begin = begin, .end = end, .converts = true, .best = HUGE_VAL};
    for (uint32_t i = begin; i < end; i++) {
        own.taken[i] = &t->menu[t->type_of[i]].item[b->taken[i]];
    }
    finish(&own);
    return own.best;
}

static void try_cuts(brute_cut *b, uint32_t stage, uint32_t begin, uint32_t block, double slowest, double sum)
{
    const uint32_t blocks = b->round->types.block_count;
    if (begin == blocks || stage == b->stages) {
        b->best = begin == blocks && stage == b->stages ? fmin(b->best, b->rounds * slowest + sum) : b->best;
        return;
    }
    for (uint32_t i = 0; block < blocks && i < b->round->menu[b->round->type_of[block]].count; i++) {
        b->taken[block] = i;
        const double round = stage_seconds(b, b->round, begin, block + 1);
        const double added = stage_seconds(b, b->added, begin, block + 1);
        if (round < HUGE_VAL) {
            try_cuts(b, stage + 1, block + 1, block + 1, fmax(slowest, round), sum + added);
        }
        try_cuts(b, stage, begin, block + 1, slowest, sum);
    }
}

/* What was said of chains before is said again. */
static void check_kept(const gal_whole_stages *whole, double least)
{
    gal_error err = {0};
    uint32_t first[STAGES_MOST];
    double again = 0.0;
    gal_whole_stages keeps = *whole;
    keeps.known = calloc((size_t)GAL_WHOLE_ROWS * whole->stage_count * whole->chains->count, sizeof *keeps.known);
    assert_non_null(keeps.known);
    for (uint32_t time = 0; time < 2; time++) {
        assert_int_equal(gal_whole_stages_bound(&keeps, HUGE_VAL, &again, first, &err), GAL_OK);
        assert_memory_equal(&again, &least, sizeof least);
    }
    free(keeps.known);
}

static void test_no_cut_beats_the_bound(void **unused)
{
    (void)unused;
    uint32_t cuts = 0;
    uint32_t tight = 0;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        gal_error err = {0};
        gal_mix_bound bound[3][STAGES_MOST];
        gal_chain_kinds chains;
        uint32_t first[STAGES_MOST];
        uint64_t state = seed;
        double least = 0.0;
        trial t[3]; /* of rounds, of what is added, of both */
        create(seed, &t[0]);
        const uint32_t most = t[0].types.block_count < STAGES_MOST ? t[0].types.block_count : STAGES_MOST;
        const uint32_t stages = 1 + gal_random_below(&state, most);
        const double rounds = stages == 1 ? 0.0 : gal_random_below(&state, 9);
        create_added(seed, &t[0], 0.0, &t[1]);
        create_added(seed, &t[0], rounds / stages, &t[2]);
        for (uint32_t i = 0; i < 3 * stages; i++) {
            assert_int_equal(gal_mix_bound_create(&t[i / stages].stage, &bound[i / stages][i % stages], &err), GAL_OK);
        }
        assert_int_equal(gal_chain_kinds_create(&t[0].types, &chains, &err), GAL_OK);
        const gal_whole_stages whole = {.types = &t[0].types,
                                        .chains = &chains,
                                        .stage_count = stages,
                                        .slowest_rounds = rounds,
                                        .round = bound[0],
                                        .added = bound[1],
                                        .both = bound[2]};
        brute_cut all = {.round = &t[0], .added = &t[1], .stages = stages, .rounds = rounds, .best = HUGE_VAL};
        assert_int_equal(gal_whole_stages_bound(&whole, HUGE_VAL, &least, first, &err), GAL_OK);
        check_kept(&whole, least);
        try_cuts(&all, 0, 0, 0, 0.0, 0.0);
        at_most(seed, "cut", least, all.best);
        tight += least >= all.best * 0.99;
        if (least < HUGE_VAL && first[0] != GAL_NO_CUT) {
            for (uint32_t p = 1; p < stages; p++) {
                assert_true(first[p] > first[p - 1] && first[p] < t[0].types.block_count);
            }
            cuts++;
        }
        for (uint32_t i = 0; i < 3 * stages; i++) {
            gal_mix_bound_free(&bound[i / stages][i % stages]);
        }
        gal_chain_kinds_free(&chains);
    }
    assert_true(cuts > TRIALS / 2);
    assert_true(tight > TRIALS / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_stage_beats_its_bounds),
        cmocka_unit_test(test_choices_fit),
        cmocka_unit_test(test_no_cut_beats_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
