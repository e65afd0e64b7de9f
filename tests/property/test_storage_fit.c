/* Which moments go to storage: the knapsack against all choices, and what it chooses for plans against all percentages
 * of their blocks, lowered and priced one by one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/objective.h"
#include "planner/search/least_cover.h"
#include "planner/search/storage_fit.h"
#include "runtime/program/program.h"
#include "schemas/profile.h"
#include "tests/support/random_plan.h"

enum { COVERS = 2000, ITEMS_MAX = 5, WAYS_MAX = 4, BLOCKS = 4, HEAD = 3, LEVELS_MAX = 8, LIMITS = 6 };

/* ---- the knapsack ---- */

typedef struct problem {
    gal_cover_way way[ITEMS_MAX][WAYS_MAX];
    gal_cover_item item[ITEMS_MAX];
    uint32_t count;
    uint64_t need;
} problem;

static void draw(uint64_t *random, problem *p)
{
    uint64_t most = 0;
    p->count = 1 + gal_random_below(random, ITEMS_MAX);
    for (uint32_t i = 0; i < p->count; i++) {
        p->item[i] = (gal_cover_item){p->way[i], 1 + gal_random_below(random, WAYS_MAX)};
        for (uint32_t w = 0; w < p->item[i].way_count; w++) {
            p->way[i][w] = (gal_cover_way){.gain = gal_random_below(random, 20),
                                           .cost = {gal_random_below(random, 5), gal_random_below(random, 20)}};
        }
        most += 20;
    }
    p->need = gal_random_below(random, (uint32_t)most);
}

static bool is_less(const gal_cover_way *a, const gal_cover_way *b)
{
    return a->cost[0] != b->cost[0] ? a->cost[0] < b->cost[0] : a->cost[1] < b->cost[1];
}

/* Of all choices the best, or whether there is none. */
static bool try_all(const problem *p, gal_cover_way *best)
{
    bool found = false;
    uint32_t total = 1;
    for (uint32_t i = 0; i < p->count; i++) {
        total *= p->item[i].way_count;
    }
    for (uint32_t number = 0; number < total; number++) {
        gal_cover_way sum = {0};
        uint32_t left = number;
        for (uint32_t i = 0; i < p->count; left /= p->item[i++].way_count) {
            const gal_cover_way *way = &p->way[i][left % p->item[i].way_count];
            sum.gain += way->gain;
            sum.cost[0] += way->cost[0];
            sum.cost[1] += way->cost[1];
        }
        if (sum.gain >= p->need && (!found || is_less(&sum, best))) {
            found = true;
            *best = sum;
        }
    }
    return found;
}

static void test_cover(void **state)
{
    (void)state;
    uint64_t random = 11;
    uint32_t covered = 0;
    for (uint32_t i = 0; i < COVERS; i++) {
        problem p;
        gal_error err = {0};
        gal_cover_way sum = {0}, best = {0}, again = {0};
        uint32_t chosen[ITEMS_MAX];
        bool covers = false;
        draw(&random, &p);
        assert_int_equal(gal_least_cover(p.item, p.count, p.need, chosen, &sum, &covers, &err), GAL_OK);
        assert_int_equal(covers, try_all(&p, &best));
        if (covers) {
            covered++;
            assert_true(!is_less(&sum, &best) && !is_less(&best, &sum));
            for (uint32_t k = 0; k < p.count; k++) {
                again.gain += p.way[k][chosen[k]].gain;
                again.cost[0] += p.way[k][chosen[k]].cost[0];
                again.cost[1] += p.way[k][chosen[k]].cost[1];
            }
            assert_true(again.gain >= p.need && !is_less(&again, &best) && !is_less(&best, &again));
        }
    }
    printf("%u of %u covered\n", covered, COVERS);
    assert_true(covered > COVERS / 4 && covered < COVERS);
}

/* More sums than are kept: what is lost is less than the share that the header says, of the gains of all but one item.
 */
static void test_many_sums(void **state)
{
    (void)state;
    enum { MANY = 24 };
    gal_cover_way way[MANY][2];
    gal_cover_item item[MANY];
    uint32_t chosen[MANY];
    gal_cover_way sum = {0};
    gal_error err = {0};
    bool covers = false;
    uint64_t total = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        const uint64_t gain = (UINT64_C(1) << 20) + (UINT64_C(1) << i % 20); /* sums differ by little things */
        way[i][0] = (gal_cover_way){0};
        way[i][1] = (gal_cover_way){.gain = gain, .cost = {gain, gain}};
        item[i] = (gal_cover_item){way[i], 2};
        total += gain;
    }
    const uint64_t need = total * 3 / 5;
    assert_int_equal(gal_least_cover(item, MANY, need, chosen, &sum, &covers, &err), GAL_OK);
    assert_true(covers && sum.gain == need && sum.cost[0] == sum.cost[1]);
    assert_true(sum.cost[0] >= need && sum.cost[0] - need <= (UINT64_C(1) << 20) + need / GAL_COVER_SUMS_MAX * MANY);
}

/* ---- plans ---- */

/* What one choice of percentages comes to: seconds of a step and, rounded, of its blocks' updates; bytes on storage; of
 * the host's memory as it is, and with three parts counted as large as the largest. */
typedef struct choice {
    double seconds;
    uint64_t picoseconds, stored, host, counted;
} choice;

typedef struct trial {
    gal_durations *durations;
    gal_price_cache *cache;
    gal_plan plan; /* one stage, a run per block */
    uint32_t level[ITEMS_MAX][LEVELS_MAX], level_count[ITEMS_MAX];
    uint64_t plain_host; /* nothing stored */
    bool masters;        /* are to be where the moments are */
    choice *choice;      /* all of them, with masters there and not */
    uint32_t choice_count;
} trial;

static choice look_at(const trial *t, const gal_plan *plan)
{
    gal_error err = {0};
    gal_program *program = NULL;
    choice c = {.counted = t->plain_host};
    uint64_t part = 0;
    assert_int_equal(gal_lower(plan, 0, &program, &err), GAL_OK);
    for (uint32_t i = 0; i < program->buffer_count; i++) {
        const gal_buffer *buffer = &program->buffer[i];
        if (buffer->class == GAL_CLASS_STORAGE) {
            const uint64_t here = buffer->bytes < plan->storage_part_bytes ? buffer->bytes : plan->storage_part_bytes;
            part = here > part ? here : part;
            c.counted -= (buffer->bytes + GAL_ALIGNMENT_BYTES - 1) / GAL_ALIGNMENT_BYTES * GAL_ALIGNMENT_BYTES;
        }
    }
    uint64_t kinds = 2;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        kinds = plan->run[r].strategy.offload_storage_masters ? 3 : kinds;
    }
    c.counted += part > 0 ? kinds * 3 * ((part + 4095) / 4096 * 4096) + 2 * 4096 : 0;
    c.stored = program->storage_bytes;
    c.host = program->host_bytes;
    gal_program_free(program);
    assert_int_equal(gal_plan_objective(t->cache, t->durations, plan, &c.seconds, &err), GAL_OK);
    for (uint32_t block = 0; block < gal_model_block_count(&plan->model); block++) {
        double seconds = 0.0;
        assert_int_equal(gal_plan_block_update(t->cache, plan, 0, block, &seconds, &err), GAL_OK);
        c.picoseconds += (uint64_t)llrint(seconds * 1e12);
    }
    return c;
}

static void set_block(trial *t, uint32_t block, uint32_t percent)
{
    t->plan.run[block].strategy.offload_storage_percent = percent;
    t->plan.run[block].strategy.offload_storage_masters = t->masters && percent > 0;
}

/* Of a tied model the head has what the embedding has. */
static void set_percent(trial *t, uint32_t block, uint32_t percent)
{
    set_block(t, block, percent);
    if (t->plan.model.tied_embeddings && block == 0) {
        set_block(t, HEAD, percent);
    }
}

/* Those at which the block alone changes what is stored. */
static void find_levels(trial *t, uint32_t block)
{
    uint64_t before = UINT64_MAX;
    const bool follows = t->plan.model.tied_embeddings && block == HEAD;
    const uint32_t most = follows ? 0 : t->plan.run[block].strategy.offload_optimizer_percent;
    for (uint32_t percent = 0; percent <= most; percent++) {
        set_percent(t, block, percent);
        const uint64_t stored = look_at(t, &t->plan).stored;
        if (stored != before) {
            assert_true(t->level_count[block] < LEVELS_MAX);
            before = stored;
            t->level[block][t->level_count[block]++] = percent;
        }
    }
    set_percent(t, block, 0);
}

static void try_choices(trial *t)
{
    const uint32_t blocks = gal_model_block_count(&t->plan.model);
    uint32_t total = 1;
    for (uint32_t i = 0; i < blocks; i++) {
        t->level_count[i] = 0;
        find_levels(t, i);
        total *= t->level_count[i];
    }
    t->choice = realloc(t->choice, (t->choice_count + total) * sizeof *t->choice);
    assert_non_null(t->choice);
    for (uint32_t number = 0; number < total; number++) {
        uint32_t left = number;
        for (uint32_t i = blocks; i-- > 0; left /= t->level_count[i]) {
            set_percent(t, i, t->level[i][left % t->level_count[i]]);
        }
        t->choice[t->choice_count++] = look_at(t, &t->plan);
    }
    for (uint32_t i = 0; i < blocks; i++) {
        set_percent(t, i, 0);
    }
}

/* A layer of a plan for one device: a GPU, whose host and storage are so fast that either may be the slower one. */
static void open_trial(bool tied, bool narrow, double storage_bytes_per_second, trial *t)
{
    static const uint32_t optimizer_percent[] = {100, 100, 60, 100};
    gal_error err = {0};
    gal_profile profile;
    memset(t, 0, sizeof *t);
    assert_int_equal(gal_plan_read("tests/fixtures/valid/plan_serial.json", &t->plan, &err), GAL_OK);
    gal_plan *plan = &t->plan;
    plan->model.layer_count = 1;
    plan->model.tied_embeddings = tied;
    plan->model.compute_dtype = narrow ? GAL_BF16 : plan->model.compute_dtype;
    plan->storage_part_bytes = 8192;
    const gal_strategy strategy = plan->run[0].strategy;
    free(plan->run);
    plan->run = calloc(BLOCKS, sizeof *plan->run);
    plan->run_count = plan->stage[0].run_count = gal_model_block_count(&plan->model);
    assert_int_equal(plan->run_count, BLOCKS);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        plan->run[i] = (gal_plan_run){1, strategy};
        plan->run[i].strategy.offload_optimizer_percent = optimizer_percent[i];
    }
    gal_device *device = &plan->cluster.device;
    device->multiprocessor_count = 10;
    device->host_memory_bytes_per_second = 2e9;
    device->storage_read_bytes_per_second = storage_bytes_per_second;
    device->storage_write_bytes_per_second = storage_bytes_per_second / 2;
    gal_profile_analytic(&plan->cluster, &profile);
    assert_int_equal(gal_durations_create(&profile, &t->durations, &err), GAL_OK);
    assert_int_equal(gal_price_cache_create(&plan->model, t->durations, &t->cache, &err), GAL_OK);
    t->plain_host = look_at(t, plan).host;
    try_choices(t);
    if (narrow) {
        t->masters = true;
        try_choices(t);
    }
}

static void close_trial(trial *t)
{
    free(t->choice);
    gal_plan_free(&t->plan);
    gal_price_cache_free(t->cache);
    gal_durations_free(t->durations);
}

static bool is_within(const choice *c, const gal_host_limits *most)
{
    return c->counted <= most->host_bytes && c->stored <= most->storage_bytes;
}

/* Prices of many percentages in one cache are those of one percentage alone. */
static void check_objective(const trial *t, const gal_plan *plan, double seconds)
{
    gal_error err = {0};
    gal_price_cache *fresh = NULL;
    double again = 0.0;
    assert_int_equal(gal_price_cache_create(&t->plan.model, t->durations, &fresh, &err), GAL_OK);
    assert_int_equal(gal_plan_objective(fresh, t->durations, plan, &again, &err), GAL_OK);
    assert_true(again == seconds);
    gal_price_cache_free(fresh);
}

/* Of all choices within the limits none is faster, and none as fast stores less. Returns whether there are any.
 * *masters counts those taken that have masters on storage. */
static bool check_limit(const trial *t, const gal_host_limits *most, uint32_t *masters)
{
    static const double rounded = 0.5e-12; /* of a block's update to whole picoseconds */
    gal_error err = {0};
    gal_plan plan = {0};
    bool fits = false, any = false;
    assert_int_equal(gal_plan_copy(&t->plan, &plan, &err), GAL_OK);
    assert_int_equal(gal_storage_fit(t->cache, most, &plan, &fits, &err), GAL_OK);
    const choice found = look_at(t, &plan);
    for (uint32_t i = 0; i < t->choice_count; i++) {
        const choice *c = &t->choice[i];
        if (is_within(c, most)) {
            any = true;
            assert_true(fits && found.seconds <= c->seconds + 2 * BLOCKS * rounded);
            assert_true(found.picoseconds < c->picoseconds ||
                        (found.picoseconds == c->picoseconds && found.stored <= c->stored));
        }
    }
    assert_int_equal(fits, any);
    if (fits) {
        assert_true(is_within(&found, most) && found.host <= found.counted);
        check_objective(t, &plan, found.seconds);
    }
    bool stores_masters = false;
    for (uint32_t r = 0; r < plan.run_count; r++) {
        stores_masters = stores_masters || plan.run[r].strategy.offload_storage_masters;
    }
    assert_true(!stores_masters || most->masters);
    *masters += stores_masters;
    gal_plan_free(&plan);
    return any;
}

static void test_plans(void **state)
{
    (void)state;
    static const double rates[] = {1e8, 2e9, 1e11};
    uint32_t limits = 0, met = 0, choices = 0, masters = 0;
    for (uint32_t n = 0; n < 3 * sizeof rates / sizeof rates[0]; n++) {
        trial t;
        const bool tied = n % 3 == 1, narrow = n % 3 == 2;
        open_trial(tied, narrow, rates[n / 3], &t);
        choices += t.choice_count;
        for (uint32_t i = 0; i <= LIMITS; i++, limits++) {
            const gal_host_limits most = {.host_bytes = t.plain_host * (LIMITS + 2 - i) / (LIMITS + 2),
                                          .storage_bytes = UINT64_MAX,
                                          .masters = narrow};
            met += check_limit(&t, &most, &masters);
        }
        close_trial(&t);
    }
    printf("%u of %u limits can be met, %u by masters on storage; %u choices tried\n", met, limits, masters, choices);
    assert_true(met > limits / 3 && met < limits && masters > 0 && choices > 500);
}

/* Where storage is short it is the fewest bytes, and no more than there are. */
static void test_short_storage(void **state)
{
    (void)state;
    trial t;
    open_trial(false, false, 2e9, &t);
    const uint64_t host = t.plain_host * 3 / 4;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < t.choice_count; i++) {
        least = t.choice[i].counted <= host && t.choice[i].stored < least ? t.choice[i].stored : least;
    }
    assert_true(least < UINT64_MAX);
    for (uint32_t fits = 0; fits < 2; fits++) {
        gal_error err = {0};
        gal_plan plan = {0};
        bool found = false;
        const gal_host_limits most = {.host_bytes = host, .storage_bytes = least - 1 + fits};
        assert_int_equal(gal_plan_copy(&t.plan, &plan, &err), GAL_OK);
        assert_int_equal(gal_storage_fit(t.cache, &most, &plan, &found, &err), GAL_OK);
        assert_int_equal(found, fits == 1);
        assert_int_equal(look_at(&t, &plan).stored, fits == 1 ? least : 0);
        gal_plan_free(&plan);
    }
    close_trial(&t);
}

/* Where the file is what takes longest, a block's update takes longer by just what its masters take on their way. */
static void test_seconds_of_masters(void **state)
{
    (void)state;
    static const double bytes_per_second = 1e7; /* written at half of it */
    static const double latency_seconds = 100e-6;
    trial t;
    gal_error err = {0};
    uint32_t compared = 0;
    open_trial(false, true, bytes_per_second, &t);
    t.plan.storage_part_bytes = 0; /* as prices have it */
    for (uint32_t block = 0; block < BLOCKS; block++) {
        double seconds[2], expected = 0.0;
        gal_program *program = NULL;
        for (uint32_t i = 0; i < 2; i++) {
            t.masters = i == 1;
            set_percent(&t, block, t.plan.run[block].strategy.offload_optimizer_percent);
            assert_int_equal(gal_plan_block_update(t.cache, &t.plan, 0, block, &seconds[i], &err), GAL_OK);
        }
        assert_int_equal(gal_lower(&t.plan, 0, &program, &err), GAL_OK);
        for (uint32_t i = 0; i < program->instruction_count; i++) {
            const gal_instruction *in = &program->instruction[i];
            if (in->op == GAL_OP_STORAGE_WRITE && strcmp(in->name, "store master") == 0) {
                const double bytes = 4.0 * program->shape[in->shape].dims[0];
                expected += latency_seconds + bytes / (bytes_per_second / 2);
                compared++;
            }
        }
        if (!(fabs(seconds[1] - seconds[0] - expected) <= 1e-12 * seconds[1])) {
            fail_msg("block %u: %.17g s with masters, %.17g s without, expected is %.17g s", block, seconds[1],
                     seconds[0], expected);
        }
        gal_program_free(program);
        set_percent(&t, block, 0);
    }
    assert_true(compared > BLOCKS);
    close_trial(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cover),         cmocka_unit_test(test_many_sums),          cmocka_unit_test(test_plans),
        cmocka_unit_test(test_short_storage), cmocka_unit_test(test_seconds_of_masters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
