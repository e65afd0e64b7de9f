/* Searches with offload, with and without a limit of the host's memory, there with and without storage: what comes back
 * is legal, within all limits, by its programs too, never faster than what is proved of the space without the limit,
 * and with storage no slower than without. timeout_seconds: 600 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/fit.h"
#include "planner/certificate/claims.h"
#include "planner/search/host_limit.h"
#include "tests/support/random_search.h"

typedef struct choice {
    uint64_t seed;
    bool stores; /* with storage too */
} choice;

/* Of the first 42 searches 17 that take less than 3 s each, and one whose blocks do not all store alike. */
static const choice choices[] = {{4, true},   {5, false},  {7, true},   {8, false}, {9, false},  {10, false},
                                 {11, false}, {12, true},  {16, true},  {18, true}, {20, false}, {21, true},
                                 {22, false}, {26, false}, {31, false}, {39, true}, {42, true},  {55, true}};
/* Of make check-all alone (PLANS): 19 others, up to 12 s each. */
static const choice long_choices[] = {{6, true},   {13, true},  {14, false}, {15, true},  {17, false},
                                      {19, true},  {23, false}, {24, false}, {25, true},  {28, true},
                                      {29, false}, {30, false}, {33, false}, {35, false}, {36, false},
                                      {37, true},  {38, false}, {40, true},  {41, false}};
enum {
    SEARCHES = sizeof choices / sizeof choices[0],
    LONG_SEARCHES = sizeof long_choices / sizeof long_choices[0],
    LONG_PLANS = 500
};
static const double rounding = 1e-9;

/* What the programs take is what the plan says. */
static void check_bytes(const gal_plan *plan, uint64_t host_limit, uint64_t storage_limit)
{
    gal_error err = {0};
    gal_program *programs[GAL_STAGES_MAX];
    assert_int_equal(gal_lower_plan(plan, programs, &err), GAL_OK);
    for (uint32_t p = 0; p < plan->stage_count; p++) {
        assert_int_equal(plan->stage[p].predicted_host_bytes, programs[p]->host_bytes);
        assert_int_equal(plan->stage[p].predicted_storage_bytes, programs[p]->storage_bytes);
        assert_true(programs[p]->host_bytes <= host_limit && programs[p]->storage_bytes <= storage_limit);
        gal_program_free(programs[p]);
    }
}

static void check_claims(const gal_random_search *search, const gal_plan *plan)
{
    gal_error err = {0};
    gal_price_cache *cache = NULL;
    assert_int_equal(gal_price_cache_create(&search->model, search->durations, &cache, &err), GAL_OK);
    if (gal_claims_check_plan(cache, search->durations, plan, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    gal_price_cache_free(cache);
}

static void run(const gal_random_search *search, uint64_t memory, uint64_t host_memory, gal_search_result *out)
{
    gal_error err = {0};
    gal_search_request request = search->request;
    request.model = &search->model;
    request.memory_bytes = memory;
    request.host_memory_bytes = host_memory;
    assert_int_equal(gal_host_limited_search(&request, out, &err), GAL_OK);
}

/* Of a GPU, whose host works beside it. */
static void create(uint64_t seed, gal_random_search *search)
{
    gal_random_search_create(seed, true, search);
    gal_device *device = &search->profile.cluster.device;
    device->multiprocessor_count = 10;
    device->host_memory_bytes_per_second = device->memory_bytes_per_second / 8;
    device->host_copy_bytes_per_second = device->memory_bytes_per_second / 16;
    device->storage_read_bytes_per_second = device->memory_bytes_per_second / 32;
    device->storage_write_bytes_per_second = device->memory_bytes_per_second / 64;
    search->request.space.offload = true;
    gal_random_search_renew(search);
}

typedef struct counts {
    uint32_t offloaded, limited, asked, stored, mixed, saved;
    double stray[SEARCHES + LONG_SEARCHES]; /* of the plans that offload: |objective / simulation - 1| */
} counts;

/* Chosen jointly, offload and recompute are no slower than either alone. */
static void check_jointly(const gal_random_search *search, uint64_t memory, const gal_search_result *both)
{
    for (uint32_t without = 0; without < 2; without++) {
        gal_search_result alone = {0};
        gal_random_search less = *search;
        if (without == 0) {
            less.request.space.offload = false;
        } else {
            less.request.space.recompute = less.request.space.selective = false;
        }
        run(&less, memory, 0, &alone);
        assert_true(gal_random_search_objective(both) <=
                    gal_random_search_objective(&alone) * (1.0 + search->request.gap + rounding));
        gal_search_result_free(&alone);
    }
}

static bool stores_unlike(const gal_plan *plan)
{
    bool unlike = false;
    for (uint32_t r = 1; r < plan->run_count; r++) {
        unlike =
            unlike || plan->run[r].strategy.offload_storage_percent != plan->run[0].strategy.offload_storage_percent;
    }
    return unlike;
}

/* The same limits, and moments may be on storage: as many bytes as the limited plan lacks would be enough for some. */
static void check_storage(const gal_random_search *search, uint64_t memory, uint64_t host_memory,
                          const gal_search_result *limited, counts *found)
{
    gal_search_result stored = {0};
    gal_random_search with = *search;
    with.request.storage_bytes = UINT64_C(1) << 40;
    run(&with, memory, host_memory, &stored);
    assert_true(stored.feasible || !limited->feasible);
    if (stored.feasible) {
        const gal_finalist *winner = &stored.finalist[0];
        check_bytes(&winner->plan, host_memory, with.request.storage_bytes);
        check_claims(&with, &winner->plan);
        assert_true(stored.lower_bound_seconds <= winner->objective_seconds * (1.0 + rounding));
        assert_true(gal_random_search_objective(&stored) <=
                    gal_random_search_objective(limited) * (1.0 + search->request.gap + rounding));
        found->stored += gal_plan_stores(&winner->plan);
        found->mixed += stores_unlike(&winner->plan);
        found->saved += !limited->feasible;
    }
    gal_search_result_free(&stored);
}

/* Under less memory than the fastest plan takes; then with half of what that plan takes of the host's. */
static void check_search(const choice *which, counts *found)
{
    gal_random_search search;
    gal_search_result free = {0}, tight = {0}, limited = {0};
    create(which->seed, &search);
    run(&search, 0, 0, &free);
    if (free.feasible) {
        run(&search, free.finalist[0].peak_bytes * 2 / 3, 0, &tight);
    }
    if (tight.feasible) {
        check_jointly(&search, free.finalist[0].peak_bytes * 2 / 3, &tight);
    }
    const uint64_t taken = tight.feasible ? gal_plan_host_bytes(&tight.finalist[0].plan) : 0;
    if (taken > 1) {
        found->stray[found->offloaded++] =
            fabs(tight.finalist[0].objective_seconds / tight.finalist[0].simulated_seconds - 1.0);
        check_bytes(&tight.finalist[0].plan, UINT64_MAX, 0);
        check_claims(&search, &tight.finalist[0].plan);
        run(&search, free.finalist[0].peak_bytes * 2 / 3, taken / 2, &limited);
    }
    if (taken > 1 && which->stores) {
        found->asked++;
        check_storage(&search, free.finalist[0].peak_bytes * 2 / 3, taken / 2, &limited, found);
    }
    if (limited.feasible) {
        const gal_finalist *winner = &limited.finalist[0];
        found->limited++;
        check_bytes(&winner->plan, taken / 2, 0);
        check_claims(&search, &winner->plan);
        assert_true(limited.lower_bound_seconds <= winner->objective_seconds * (1.0 + rounding));
        assert_true(gal_random_search_objective(&limited) >=
                    gal_random_search_objective(&tight) * (1.0 - search.request.gap - rounding));
    }
    gal_search_result_free(&limited);
    gal_search_result_free(&tight);
    gal_search_result_free(&free);
    gal_random_search_free(&search);
}

static void test_limits_hold(void **state)
{
    (void)state;
    counts found = {0};
    const char *plans = getenv("PLANS"); /* how many random plans this run of the tests can afford */
    const bool is_long = plans != NULL && strtoul(plans, NULL, 10) >= LONG_PLANS;
    for (uint32_t i = 0; i < SEARCHES; i++) {
        check_search(&choices[i], &found);
    }
    for (uint32_t i = 0; is_long && i < LONG_SEARCHES; i++) {
        check_search(&long_choices[i], &found);
    }
    printf("%u of %d searches offload under two thirds of the memory; %u have a plan with half as much of the host's\n",
           found.offloaded, SEARCHES + is_long * LONG_SEARCHES, found.limited);
    printf("with storage %u of %u plans store, %u of them not all blocks alike, %u where there was no plan without\n",
           found.stored, found.asked, found.mixed, found.saved);
    double worst = 0.0;
    for (uint32_t i = 0; i < found.offloaded; i++) {
        worst = fmax(worst, found.stray[i]);
    }
    printf("objective against simulation: median %.1f %%, worst %.1f %%\n",
           100.0 * gal_median(found.stray, found.offloaded), 100.0 * worst);
    assert_true(found.offloaded >= SEARCHES / 2 && found.limited >= SEARCHES / 4);
    assert_true(found.stored >= 1 && found.mixed >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_limits_hold)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
