/* Offload saves bytes of a device and no time. So no plan has a lower objective than the same with all of it on its
 * devices, and a search that looks without offload first, on devices of any size, finds what one finds that does not
 * (under a charge of nothing for the host's memory, where it may not: gal_price_cache_is_charged). Inputs: PLANS random
 * plans (200), and searches under three limits of memory for every 50 of them. timeout_seconds: 600 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "costmodel/objective.h"
#include "schemas/plan_check.h"
#include "tests/support/random_plan.h"
#include "tests/support/random_search.h"

enum { PLANS = 200, PLANS_PER_SEARCH = 50, SEED = 20261124 };
static const double rounding = 1e-9;

static uint32_t plan_count(void)
{
    const char *plans = getenv("PLANS");
    return plans != NULL ? (uint32_t)strtoul(plans, NULL, 10) : PLANS;
}

/* ---- plans ---- */

/* A GPU whose host is beside it, or a processor; all rates and slowdowns over decades. */
static void draw_profile(uint64_t *random, gal_plan *plan, gal_profile *out)
{
    gal_device *device = &plan->cluster.device;
    device->fp64_flops_per_second = gal_random_between(random, 1e9, 1e13);
    device->fp32_flops_per_second = device->fp64_flops_per_second * gal_random_between(random, 1.0, 16.0);
    device->memory_bytes_per_second = gal_random_between(random, 1e9, 1e12);
    device->multiprocessor_count = gal_random_below(random, 2) * 100;
    if (device->multiprocessor_count > 0) {
        device->host_memory_bytes_per_second = gal_random_between(random, 1e9, 1e12);
        device->host_copy_bytes_per_second = gal_random_between(random, 1e9, 1e11);
    }
    device->storage_read_bytes_per_second = gal_random_between(random, 1e9, 1e11);
    device->storage_write_bytes_per_second = gal_random_between(random, 1e9, 1e11);
    gal_profile_analytic(&plan->cluster, out);
    for (uint32_t i = 0; i < GAL_ACTIVITY_COUNT * GAL_ACTIVITY_COUNT; i++) {
        out->slowdown[i / GAL_ACTIVITY_COUNT][i % GAL_ACTIVITY_COUNT] = gal_random_between(random, 1.0, 2.0);
    }
}

static double objective(const gal_plan *plan, const gal_profile *profile)
{
    gal_error err = {0};
    double seconds = 0.0;
    gal_durations *durations = NULL;
    gal_price_cache *cache = NULL;
    if (gal_plan_check(plan, NULL, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(gal_durations_create(profile, &durations, &err), GAL_OK);
    assert_int_equal(gal_price_cache_create(&plan->model, durations, &cache, &err), GAL_OK);
    assert_int_equal(gal_plan_objective(cache, durations, plan, &seconds, &err), GAL_OK);
    gal_price_cache_free(cache);
    gal_durations_free(durations);
    return seconds;
}

/* Returns whether some of the plan is not on its devices. */
static bool check_plan(uint64_t seed, double *closest)
{
    static const uint32_t worlds[] = {1, 2, 4, 4, 6, 8};
    uint64_t random = seed;
    static gal_profile profile;
    gal_plan plan, back;
    gal_error err = {0};
    bool offloads = false;
    gal_random_plan(seed, worlds[gal_random_below(&random, 6)], &plan);
    gal_random_offload(seed, &plan);
    gal_random_storage(seed, &plan);
    gal_random_masters(seed, &plan);
    draw_profile(&random, &plan, &profile);
    assert_int_equal(gal_plan_copy(&plan, &back, &err), GAL_OK);
    for (uint32_t r = 0; r < plan.run_count; r++) {
        offloads = offloads || gal_strategy_offloads(&plan.run[r].strategy);
        back.run[r].strategy = gal_strategy_on_device(&plan.run[r].strategy);
    }
    const double own = objective(&plan, &profile), least = objective(&back, &profile);
    if (!(own >= least * (1.0 - rounding))) {
        fail_msg("seed %llu: objective %.17g, on its devices %.17g", (unsigned long long)seed, own, least);
    }
    *closest = offloads ? fmin(*closest, own / least) : *closest;
    gal_plan_free(&back);
    gal_plan_free(&plan);
    return offloads;
}

static void test_no_plan_gains(void **state)
{
    uint32_t offload = 0;
    double closest = HUGE_VAL;
    (void)state;
    for (uint32_t i = 0; i < plan_count(); i++) {
        offload += check_plan(SEED + i, &closest);
    }
    printf("%u of %u plans offload, and take %.6f of their time on devices or more\n", offload, plan_count(), closest);
    assert_true(offload >= plan_count() / 2);
}

/* ---- searches ---- */

static void search_charged(const gal_random_search *search, uint64_t memory, gal_search_result *out)
{
    gal_error err = {0};
    const gal_price_charge nothing = {0};
    gal_price_cache *cache = NULL, *charged = NULL;
    gal_search_request request = search->request;
    request.memory_bytes = memory;
    assert_int_equal(gal_price_cache_create(&search->model, search->durations, &cache, &err), GAL_OK);
    assert_int_equal(gal_price_cache_create_charged(cache, &nothing, &charged, &err), GAL_OK);
    request.cache = charged;
    assert_int_equal(gal_search(&request, out, &err), GAL_OK);
    gal_price_cache_free(charged);
    gal_price_cache_free(cache);
}

typedef struct counts {
    uint32_t searches, offload, proven, by_bytes;
} counts;

static bool offloads(const gal_plan *plan)
{
    bool found = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        found = found || gal_strategy_offloads(&plan->run[r].strategy);
    }
    return found;
}

/* Within so many bytes no slower than the other, where both looked to the end. Faster by its bytes alone: what is found
 * on devices of any size fits as it is, where a search in their memory charges a ring at its most
 * (planner/cell/cell.h); with half as much memory again the other has it too. */
static void check_memory(const gal_random_search *search, uint64_t memory, uint64_t seed, counts *found)
{
    gal_search_result own = {0}, other = {0}, more = {0};
    gal_random_search_run(search, memory, &own);
    search_charged(search, memory, &other);
    const double seconds = gal_random_search_objective(&own), than = gal_random_search_objective(&other);
    const bool proven = own.unproven_cell_count == 0 && other.unproven_cell_count == 0;
    found->searches++;
    if (proven && seconds > than * (1.0 + rounding)) {
        fail_msg("seed %llu, %llu bytes: %.17g, without looking there first %.17g", (unsigned long long)seed,
                 (unsigned long long)memory, seconds, than);
    }
    if (proven && seconds < than * (1.0 - rounding)) {
        search_charged(search, memory + memory / 2, &more);
        assert_true(gal_random_search_objective(&more) <= seconds * (1.0 + rounding));
        found->by_bytes++;
    }
    if (own.feasible) {
        assert_true(own.finalist[0].peak_bytes <= memory);
        assert_true(own.lower_bound_seconds <= own.finalist[0].objective_seconds);
        found->offload += offloads(&own.finalist[0].plan);
        found->proven += proven;
    }
    if (other.feasible) {
        assert_true(own.lower_bound_seconds <= other.finalist[0].objective_seconds * (1.0 + rounding));
    }
    gal_search_result_free(&more);
    gal_search_result_free(&other);
    gal_search_result_free(&own);
}

/* From all the memory that the fastest plan takes down to little of it. */
static void check_search(uint64_t seed, counts *found)
{
    static const uint64_t eighths[] = {8, 5, 3};
    gal_random_search search;
    gal_search_result ample = {0};
    gal_random_search_create(seed, true, &search);
    gal_device *device = &search.profile.cluster.device;
    device->multiprocessor_count = 10;
    device->host_memory_bytes_per_second = device->memory_bytes_per_second / 8;
    device->host_copy_bytes_per_second = device->memory_bytes_per_second / 16;
    search.request.space.offload = true;
    gal_random_search_renew(&search);
    gal_random_search_run(&search, 0, &ample);
    for (size_t i = 0; ample.feasible && i < sizeof eighths / sizeof eighths[0]; i++) {
        check_memory(&search, ample.finalist[0].peak_bytes * eighths[i] / 8, seed, found);
    }
    gal_search_result_free(&ample);
    gal_random_search_free(&search);
}

static void test_searches_find_as_much(void **state)
{
    counts found = {0};
    (void)state;
    for (uint32_t i = 0; i < plan_count() / PLANS_PER_SEARCH; i++) {
        check_search(SEED + i, &found);
    }
    printf("%u searches: %u plans offload, %u proved by both, %u fit by their bytes alone\n", found.searches,
           found.offload, found.proven, found.by_bytes);
    assert_true(found.offload >= found.searches / 8 && found.proven >= found.searches / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_plan_gains),
                                       cmocka_unit_test(test_searches_find_as_much)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
