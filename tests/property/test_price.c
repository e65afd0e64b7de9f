/* Sum of prices against the event simulation, and bytes in closed form against placement, over random plans.
 * timeout_seconds: 600 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/alone.h"
#include "costmodel/objective.h"
#include "costmodel/simulate.h"
#include "planner/cell/path.h"
#include "planner/space/strategy_space.h"
#include "schemas/plan_check.h"
#include "tests/support/price_equal.h"
#include "tests/support/priced_plan.h"
#include "tests/support/random_plan.h"

enum { PLANS = 300, SEED = 20240607, SMALL_PLANS = 400, SEEDS = 4, PLANS_FOR_ALL = 1000 };

/* Beyond the first only where there is time for PLANS_FOR_ALL plans. SEED=n in the environment: other plans, of which a
 * few may be farther off; how many is printed. */
static const uint64_t seeds[SEEDS] = {SEED, 1000003, 2000003, 3000017};

static const double median_bound = 0.03, worst_bound = 0.10;
static uint32_t beyond_count, all_count, turns_beyond_count, turns_count;

static uint64_t seed_of(uint32_t i)
{
    const char *own = getenv("SEED");
    return own != NULL ? strtoull(own, NULL, 10) + i * seeds[1] : seeds[i];
}

static uint32_t seed_count(void)
{
    const char *plans = getenv("PLANS");
    return plans != NULL && strtol(plans, NULL, 10) >= PLANS_FOR_ALL ? SEEDS : 1;
}

static const gal_family families[] = {GAL_FAMILY_DECODER, GAL_FAMILY_BERT, GAL_FAMILY_VIT, GAL_FAMILY_T5,
                                      GAL_FAMILY_SWIN};
enum { FAMILIES = sizeof families / sizeof families[0] };

static double additive_error(const gal_plan *plan)
{
    gal_profile profile;
    gal_profile_analytic(&plan->cluster, &profile);
    return gal_priced_error(plan, &profile, NULL);
}

static void give_units(gal_plan *plan, gal_shard_unit unit)
{
    enum { CHUNK_ELEMENTS = 1 << 25 };
    for (uint32_t r = 0; r < plan->run_count; r++) {
        plan->run[r].strategy.shard_unit = unit;
        plan->run[r].strategy.chunk_elements = unit == GAL_SHARD_CHUNK ? CHUNK_ELEMENTS : 0;
    }
}

/* One stage of many blocks, one or two microbatches, slow links: reductions last longer than backward. */
static void make_lagging(uint64_t *state, gal_plan *plan)
{
    static const double inner[] = {50e9, 25e9, 12.5e9};
    gal_cluster *cluster = &plan->cluster;
    const uint32_t devices = cluster->device_count / plan->pp_degree;
    plan->pp_degree = plan->stage_count = 1;
    plan->microbatch_count = 1 + gal_random_below(state, 2);
    plan->model.layer_count = 12 + gal_random_below(state, 13);
    plan->global_batch_samples = plan->microbatch_count * devices * (1 + gal_random_below(state, 2));
    plan->model.global_batch_samples = plan->global_batch_samples;
    cluster->device_count = devices;
    cluster->level_count = devices > 8 ? 2 : 1;
    cluster->level[0].span_devices = devices > 8 ? 8 : devices;
    cluster->level[0].bytes_per_second = inner[gal_random_below(state, 3)];
    cluster->level[1].span_devices = devices;
    cluster->level[1].bytes_per_second = 10e9;
}

static gal_strategy draw(uint64_t *state, const gal_plan *plan, bool sharded, bool gathers)
{
    gal_strategy s;
    do {
        s = gal_priced_draw(state, plan, sharded);
    } while ((s.zero_stage == 3) != gathers);
    return s;
}

/* ZeRO-3 and something that gathers nothing by turns, one block or two at a time, as a search would that is paid for
 * every border between them. */
static void take_turns(uint64_t *state, gal_plan *plan, bool sharded)
{
    if (gal_plan_stage_devices(plan) == 1) {
        return;
    }
    const gal_strategy other = draw(state, plan, sharded, false), gathers = draw(state, plan, true, true);
    const uint32_t length = 1 + gal_random_below(state, 2), first = gal_random_below(state, 2);
    const bool ends = gal_random_below(state, 2) == 0;
    for (uint32_t i = 0; i < plan->run_count; i++) {
        const bool end = i == 0 || i + 1 == plan->run_count || gal_priced_holds_table(&plan->model, i);
        plan->run[i].strategy = (end ? ends : (i / length + first) % 2 == 0) ? gathers : other;
    }
}

typedef struct group {
    const char *name;
    gal_family family;
    bool mixed, sharded, lagging;
    gal_shard_unit unit;
    bool turns; /* of sharded strategies or of others with ZeRO-3 */
} group;

/* ZeRO-2 and 3 apart, too, where a plan has but one of them. */
static void check_within(const group *g, double worst)
{
    const bool mixed = g->mixed, sharded = g->sharded;
    uint64_t state = 0;
    static gal_priced_errors all, apart[4];
    all = (gal_priced_errors){.count = 0};
    memset(apart, 0, sizeof apart);
    for (uint32_t i = 0; i < PLANS * seed_count(); i++) {
        state = i % PLANS == 0 ? seed_of(i / PLANS) + (mixed ? 1u : 0u) + (sharded ? 2u : 0u) : state;
        gal_plan plan;
        gal_error err = {0};
        gal_priced_describe(&state, &plan);
        if (g->lagging) {
            make_lagging(&state, &plan);
        }
        gal_priced_turn_to(g->family, &plan.model);
        gal_priced_fill(&state, &plan, mixed, sharded);
        give_units(&plan, g->unit);
        if (g->turns) {
            take_turns(&state, &plan, sharded);
        }
        if (gal_plan_check(&plan, "", &err) != GAL_OK) {
            fail_msg("%s", err.text);
        }
        const double signed_error = additive_error(&plan);
        if (getenv("GAL_VERBOSE") != NULL) {
            char text[GAL_STRATEGY_NAME_BYTES];
            printf("  %+6.2f %% P %u D %u m %u layers %u hidden %u samples %u tied %d %s\n", 100 * signed_error,
                   plan.stage_count, gal_plan_stage_devices(&plan), plan.microbatch_count, plan.model.layer_count,
                   plan.model.hidden, gal_plan_microbatch_samples(&plan), plan.model.tied_embeddings,
                   mixed ? "mixed" : gal_strategy_name(&plan.run[0].strategy, text));
        }
        beyond_count += !g->turns && fabs(signed_error) > worst_bound;
        turns_beyond_count += g->turns && fabs(signed_error) > worst_bound;
        all_count += !g->turns;
        turns_count += g->turns;
        gal_priced_add(&all, fabs(signed_error));
        gal_priced_add(&apart[plan.run[0].strategy.zero_stage], fabs(signed_error));
        gal_plan_free(&plan);
    }
    gal_priced_check(g->name, &all, median_bound, worst);
    for (uint32_t stage = 2; stage <= 3 && sharded && !mixed; stage++) {
        char of_stage[96];
        (void)snprintf(of_stage, sizeof of_stage, "%s, those of ZeRO-%u", g->name, stage);
        gal_priced_check(of_stage, &apart[stage], median_bound, worst);
    }
}

static void check(const group *g)
{
    check_within(g, getenv("SEED") != NULL ? HUGE_VAL : worst_bound);
}

static void check_group(const char *name, gal_family family, bool mixed, bool sharded)
{
    const group g = {.name = name, .family = family, .mixed = mixed, .sharded = sharded, .unit = GAL_SHARD_MATRIX};
    check(&g);
}

static void homogeneous_plans(void **unused)
{
    (void)unused;
    check_group("homogeneous", GAL_FAMILY_DECODER, false, false);
}

static void mixed_plans(void **unused)
{
    (void)unused;
    check_group("mixed", GAL_FAMILY_DECODER, true, false);
}

static void sharded_plans(void **unused)
{
    (void)unused;
    check_group("ZeRO-2 and 3, homogeneous", GAL_FAMILY_DECODER, false, true);
}

static void sharded_mixed_plans(void **unused)
{
    (void)unused;
    check_group("ZeRO-2 and 3, mixed", GAL_FAMILY_DECODER, true, true);
}

static void other_units(void **unused)
{
    (void)unused;
    const group buckets = {"ZeRO-2 and 3, buckets", GAL_FAMILY_DECODER, false, true, false, GAL_SHARD_BUCKET, false};
    const group chunks = {"ZeRO-2 and 3, chunks", GAL_FAMILY_DECODER, false, true, false, GAL_SHARD_CHUNK, false};
    check(&buckets);
    check(&chunks);
}

static void lagging_reductions(void **unused)
{
    (void)unused;
    const group groups[] = {
        {"one stage, slow links", GAL_FAMILY_DECODER, false, false, true, GAL_SHARD_MATRIX, false},
        {"one stage, slow links, mixed", GAL_FAMILY_DECODER, true, false, true, GAL_SHARD_MATRIX, false},
        {"one stage, slow links, ZeRO-2 and 3", GAL_FAMILY_DECODER, false, true, true, GAL_SHARD_MATRIX, false},
        {"one stage, slow links, ZeRO-2 and 3, mixed", GAL_FAMILY_DECODER, true, true, true, GAL_SHARD_MATRIX, false},
        {"one stage, slow links, BERT, ZeRO-2 and 3", GAL_FAMILY_BERT, false, true, true, GAL_SHARD_MATRIX, false},
        {"one stage, slow links, encoder-decoders, ZeRO-2 and 3", GAL_FAMILY_T5, false, true, true, GAL_SHARD_MATRIX,
         false},
        {"one stage, slow links, Swin", GAL_FAMILY_SWIN, false, false, true, GAL_SHARD_MATRIX, false},
    };
    for (uint32_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        check(&groups[i]);
    }
}

static void encoder_decoders(void **unused)
{
    (void)unused;
    check_group("encoder-decoders, homogeneous", GAL_FAMILY_T5, false, false);
    check_group("encoder-decoders, mixed", GAL_FAMILY_T5, true, false);
    check_group("encoder-decoders, ZeRO-2 and 3", GAL_FAMILY_T5, false, true);
    check_group("encoder-decoders, ZeRO-2 and 3, mixed", GAL_FAMILY_T5, true, true);
}

/* Pieces are unequal, each half as wide as the one before: stages too. */
static void swins(void **unused)
{
    (void)unused;
    check_group("Swin, homogeneous", GAL_FAMILY_SWIN, false, false);
    check_group("Swin, mixed", GAL_FAMILY_SWIN, true, false);
    check_group("Swin, ZeRO-2 and 3", GAL_FAMILY_SWIN, false, true);
    check_group("Swin, ZeRO-2 and 3, mixed", GAL_FAMILY_SWIN, true, true);
}

/* How often blocks' inputs and the rest of what leaves the device are most in different blocks; how often work of even
 * and of odd blocks lies behind each other, and is charged as it is. */
typedef struct in_turn {
    uint32_t apart, behind;
} in_turn;

/* Of what blocks of one chunk use in turn: a search charges no less than its program has (planner/cell/cell.h). */
static void check_in_turn(gal_price_cache *cache, const gal_block_types *types, const gal_plan *plan, uint32_t stage,
                          const gal_program *program, in_turn *seen)
{
    gal_shared_bytes charged = {0};
    int64_t staged_of_one = 0, work_of_one = 0;
    const uint32_t first = gal_plan_stage_first_block(plan, stage);
    for (uint32_t block = first; block < first + gal_plan_stage_block_count(plan, stage); block++) {
        gal_error err = {0};
        const gal_block_price *price = NULL;
        const gal_price_query query = gal_price_query_of(plan, stage, block);
        assert_int_equal(gal_price_block(cache, &query, &price, &err), GAL_OK);
        const gal_shared_bytes own =
            gal_cell_shared_of(price->memory, plan->prefetch_depth, types->type_sides[types->type_of[block]]);
        const int64_t staged = own.of[GAL_SHARED_STAGED_INPUT] + own.of[GAL_SHARED_STAGED_SAVED];
        const int64_t work = own.of[GAL_SHARED_WORK_EVEN] + own.of[GAL_SHARED_WORK_ODD];
        staged_of_one = staged > staged_of_one ? staged : staged_of_one;
        work_of_one = work > work_of_one ? work : work_of_one;
        gal_shared_join(&charged, &own);
    }
    const gal_class_arena *staged = &program->arena[GAL_CLASS_STAGED];
    const int64_t staged_bytes = (int64_t)(staged->item_bytes * staged->count);
    const int64_t work_bytes = (int64_t)program->arena[GAL_CLASS_WORK].item_bytes;
    const int64_t work = charged.of[GAL_SHARED_WORK_EVEN] + charged.of[GAL_SHARED_WORK_ODD];
    assert_true(charged.of[GAL_SHARED_STAGED_INPUT] + charged.of[GAL_SHARED_STAGED_SAVED] >= staged_bytes);
    assert_true(work >= work_bytes);
    seen->apart += staged_bytes > staged_of_one;
    seen->behind += work_bytes > work_of_one && work == work_bytes;
}

static void check_bytes(gal_dtype dtype)
{
    static const uint32_t worlds[] = {1, 2, 3, 4, 6, 8};
    in_turn seen = {0};
    for (uint64_t seed = 1; seed <= SMALL_PLANS; seed++) {
        gal_error err = {0};
        gal_plan plan;
        gal_durations *durations = NULL;
        gal_price_cache *cache = NULL;
        gal_block_types types;
        gal_random_plan(seed, worlds[seed % 6], &plan);
        gal_random_offload(seed, &plan);
        gal_random_shard_units(seed, &plan);
        plan.model.compute_dtype = dtype;
        gal_program **programs = gal_priced_lower(&plan);
        assert_int_equal(gal_durations_create_analytic(&plan.cluster, &durations, &err), GAL_OK);
        assert_int_equal(gal_price_cache_create(&plan.model, durations, &cache, &err), GAL_OK);
        assert_int_equal(gal_block_types_create(&plan.model, durations, &types, &err), GAL_OK);
        for (uint32_t s = 0; s < plan.stage_count; s++) {
            uint64_t bytes = 0;
            assert_int_equal(gal_plan_stage_bytes(cache, &plan, s, &bytes, &err), GAL_OK);
            if (bytes != programs[s]->arena_bytes) {
                fail_msg("seed %u, stage %u of %u: closed form %lu, placed %lu", (unsigned)seed, s, plan.stage_count,
                         (unsigned long)bytes, (unsigned long)programs[s]->arena_bytes);
            }
            if (gal_plan_chunk_count(&plan) == 1) {
                check_in_turn(cache, &types, &plan, s, programs[s], &seen);
            }
        }
        gal_block_types_free(&types);
        gal_price_cache_free(cache);
        gal_durations_free(durations);
        gal_priced_free(programs, plan.stage_count);
        gal_plan_free(&plan);
    }
    print_message("work behind work: %u stages\n", seen.behind);
    assert_true(seen.apart > 0 && seen.behind >= SMALL_PLANS / 50);
}

static void bytes_are_exact(void **unused)
{
    (void)unused;
    check_bytes(GAL_FP64);
}

/* Masters, and buffers of two types side by side. */
static void bytes_of_16_bits_are_exact(void **unused)
{
    (void)unused;
    check_bytes(GAL_BF16);
}

/* A price from a kept chain is the price of a chain lowered for those samples, bit for bit. */
static void kept_structure_is_exact(void **unused)
{
    (void)unused;
    uint64_t state = SEED;
    for (uint32_t i = 0; i < 100 * FAMILIES; i++) {
        gal_error err = {0};
        gal_plan plan;
        gal_durations *durations = NULL;
        gal_price_cache *kept = NULL;
        gal_price_cache *fresh = NULL;
        const gal_block_price *a = NULL;
        const gal_block_price *b = NULL;
        gal_priced_describe(&state, &plan);
        gal_priced_turn_to(families[i % FAMILIES], &plan.model);
        const gal_strategy strategy = gal_priced_draw(&state, &plan, gal_random_below(&state, 2) == 0);
        assert_int_equal(gal_durations_create_analytic(&plan.cluster, &durations, &err), GAL_OK);
        assert_int_equal(gal_price_cache_create(&plan.model, durations, &kept, &err), GAL_OK);
        assert_int_equal(gal_price_cache_create(&plan.model, durations, &fresh, &err), GAL_OK);
        gal_price_query query = {.type = (uint32_t)gal_random_below(&state, gal_model_type_count(&plan.model)),
                                 .strategy = &strategy,
                                 .device_count = gal_plan_stage_devices(&plan),
                                 .stage_count = 2,
                                 .microbatch_samples = gal_plan_microbatch_samples(&plan),
                                 .prefetch_depth = 1 + gal_random_below(&state, 2)};
        const uint32_t samples = query.microbatch_samples; /* the first may be more than the second */
        query.microbatch_samples = samples * (1 + gal_random_below(&state, 4));
        assert_int_equal(gal_price_block(kept, &query, &a, &err), GAL_OK);
        query.microbatch_samples = samples * (1 + gal_random_below(&state, 4));
        assert_int_equal(gal_price_block(kept, &query, &a, &err), GAL_OK);
        assert_int_equal(gal_price_block(fresh, &query, &b, &err), GAL_OK);
        assert_true(gal_prices_equal(a, b));
        gal_price_cache_free(fresh);
        gal_price_cache_free(kept);
        gal_durations_free(durations);
    }
}

/* A price whose structure another strategy has left in the cache is the price from nothing, bit for bit. */
static void shared_structure_is_exact(void **unused)
{
    (void)unused;
    static gal_strategy strategy[GAL_SPACE_MAX];
    uint64_t state = SEED;
    uint32_t compared = 0;
    for (uint32_t i = 0; i < 2 * FAMILIES; i++) {
        gal_error err = {0};
        gal_plan plan;
        gal_durations *durations = NULL;
        gal_price_cache *shared = NULL;
        gal_space space;
        gal_priced_describe(&state, &plan);
        gal_priced_turn_to(families[i % FAMILIES], &plan.model);
        gal_space_all(&space);
        const uint32_t devices = 16;
        const uint32_t count = gal_space_strategies(&space, devices, strategy);
        plan.cluster.device_count = 4 * devices;
        assert_int_equal(gal_durations_create_analytic(&plan.cluster, &durations, &err), GAL_OK);
        assert_int_equal(gal_price_cache_create(&plan.model, durations, &shared, &err), GAL_OK);
        for (uint32_t s = 0; s < 2 * count; s++) {
            const gal_price_query query = {.type = s % 2 == 0 ? GAL_BLOCK_ATTENTION : GAL_BLOCK_FFN,
                                           .strategy = &strategy[s / 2],
                                           .device_count = devices,
                                           .stage = 1,
                                           .stage_count = 4,
                                           .microbatch_samples = 16,
                                           .prefetch_depth = 2};
            if (gal_strategy_rule_broken(&plan.model, (gal_block_kind)query.type, query.strategy, devices, 16) !=
                NULL) {
                continue;
            }
            gal_price_cache *fresh = NULL;
            const gal_block_price *a = NULL;
            const gal_block_price *b = NULL;
            assert_int_equal(gal_price_cache_create(&plan.model, durations, &fresh, &err), GAL_OK);
            assert_int_equal(gal_price_block(shared, &query, &a, &err), GAL_OK);
            assert_int_equal(gal_price_block(fresh, &query, &b, &err), GAL_OK);
            assert_true(gal_prices_equal(a, b));
            gal_price_cache_free(fresh);
            compared++;
        }
        gal_price_cache_free(shared);
        gal_durations_free(durations);
    }
    assert_true(compared > 1000);
}

/* A stage alone takes as long as the simulation of all stages says, if there is only one: to the rounding of the order
 * in which work done is counted. */
static void alone_is_the_simulation(void **unused)
{
    (void)unused;
    uint64_t state = SEED;
    for (uint32_t i = 0; i < 200; i++) {
        gal_error err = {0};
        gal_plan plan;
        gal_durations *durations = NULL;
        gal_simulation simulation = {0};
        gal_expansion expansion = {0};
        gal_script script = {0};
        gal_alone_ends ends;
        gal_priced_describe(&state, &plan);
        plan.cluster.device_count = gal_plan_stage_devices(&plan);
        plan.cluster.level_count = 1;
        plan.cluster.level[0].span_devices = plan.cluster.device_count;
        plan.pp_degree = plan.stage_count = 1;
        plan.model.layer_count = 1;
        plan.microbatch_count = 2;
        plan.global_batch_samples = 2 * plan.cluster.device_count;
        gal_priced_fill(&state, &plan, true, gal_random_below(&state, 2) == 0);
        gal_program **programs = gal_priced_lower(&plan);
        programs[0]->call_count--; /* without the update, which has a reduction over the world */
        gal_cost *cost = malloc(programs[0]->instruction_count * sizeof *cost);
        assert_non_null(cost);
        assert_int_equal(gal_durations_create_analytic(&plan.cluster, &durations, &err), GAL_OK);
        gal_instruction_costs(durations, programs[0], 0, programs[0]->instruction_count, cost);
        assert_int_equal(gal_simulate(programs, 1, durations, false, &simulation, &err), GAL_OK);
        assert_int_equal(gal_expand(programs[0], programs[0]->call, programs[0]->call_count, cost,
                                    (gal_expand_options){.alone = true}, &expansion, &err),
                         GAL_OK);
        assert_int_equal(gal_script_create(&expansion, &script, &err), GAL_OK);
        gal_play_alone(&script, gal_durations_company(durations), &ends);
        const double seconds = simulation.iteration_seconds - gal_durations_fixed_step_seconds(durations);
        assert_true(fabs(ends.call_seconds[3] - seconds) <= 1e-12 * seconds);
        gal_script_free(&script);
        gal_expansion_free(&expansion);
        gal_simulation_free(&simulation);
        gal_durations_free(durations);
        free(cost);
        gal_priced_free(programs, 1);
        gal_plan_free(&plan);
    }
}

/* Apart from the others, which have to be within 10 %: with one or two microbatches some of these are far too dear, as
 * nothing is taken for hidden in the backward with sync (costmodel/hidden.h). At worst 35 %, and 49 % without what
 * neighbours hide. */
static void turns(void **unused)
{
    (void)unused;
    static const double worst = 0.40;
    const group groups[] = {
        {"ZeRO-3 and 2 by turns", GAL_FAMILY_DECODER, true, true, false, GAL_SHARD_MATRIX, true},
        {"ZeRO-3 and others by turns", GAL_FAMILY_DECODER, true, false, false, GAL_SHARD_MATRIX, true},
        {"one stage, slow links, ZeRO-3 and 2 by turns", GAL_FAMILY_DECODER, true, true, true, GAL_SHARD_MATRIX, true},
        {"one stage, slow links, ZeRO-3 and others by turns", GAL_FAMILY_DECODER, true, false, true, GAL_SHARD_MATRIX,
         true},
        {"encoder-decoders, ZeRO-3 and others by turns", GAL_FAMILY_T5, true, false, false, GAL_SHARD_MATRIX, true},
    };
    for (uint32_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        check_within(&groups[i], getenv("SEED") != NULL ? HUGE_VAL : worst);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_exact),
        cmocka_unit_test(bytes_of_16_bits_are_exact),
        cmocka_unit_test(kept_structure_is_exact),
        cmocka_unit_test(shared_structure_is_exact),
        cmocka_unit_test(alone_is_the_simulation),
        cmocka_unit_test(homogeneous_plans),
        cmocka_unit_test(mixed_plans),
        cmocka_unit_test(sharded_plans),
        cmocka_unit_test(sharded_mixed_plans),
        cmocka_unit_test(other_units),
        cmocka_unit_test(lagging_reductions),
        cmocka_unit_test(encoder_decoders),
        cmocka_unit_test(swins),
        cmocka_unit_test(turns),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    printf("prices, all: %u of %u plans more than %.0f %% off; by turns: %u of %u\n", beyond_count, all_count,
           100 * worst_bound, turns_beyond_count, turns_count);
    return failed;
}
