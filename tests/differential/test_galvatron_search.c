/* The search under Hetu-Galvatron's rules: as good as each of its own answers, equal to brute force on small random
 * profiles, and honest where nothing fits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/galvatron/galvatron_search.h"
#include "tests/support/galvatron_files.h"

#define GIBIBYTE (UINT64_C(1) << 30)
#define MEBIBYTE (UINT64_C(1) << 20)

static gal_galvatron_found search(const gal_galvatron_request *request)
{
    gal_error err = {0};
    gal_galvatron_found found;
    const gal_code code = gal_galvatron_search_plans(request, &found, &err);
    if (code != GAL_OK) {
        print_error("%s\n", err.text);
    }
    assert_int_equal(code, GAL_OK);
    return found;
}

static double price_of(const gal_galvatron_tables *tables, const gal_galvatron_plan *plan)
{
    gal_error err = {0};
    gal_galvatron_price price = {0};
    assert_int_equal(gal_galvatron_price_plan(tables, plan, &price, &err), GAL_OK);
    const double seconds = price.iteration_seconds;
    gal_galvatron_price_free(&price);
    return seconds;
}

/* What a plan says of itself holds: its price, its document, the bytes of its stages. */
static void is_honest(const gal_galvatron_request *request, const gal_galvatron_found *found)
{
    gal_error err = {0};
    const double seconds = price_of(request->tables, &found->plan);
    assert_int_equal(gal_galvatron_plan_check(&found->plan, &err), GAL_OK);
    assert_true(fabs(seconds - found->iteration_seconds) <= 1e-12 * seconds);
    assert_true(found->samples_per_second_bound >= found->samples_per_second * (1.0 - 1e-12));
    for (uint32_t i = 0; i < found->plan.pp_degree; i++) {
        assert_true(found->stage_bytes[i] <= found->used_limit_bytes);
    }
}

static gal_galvatron_request request_of(const gal_galvatron_tables *tables, unsigned limit_gb, uint32_t batch)
{
    return (gal_galvatron_request){.tables = tables,
                                   .device_count = 8,
                                   .limit_bytes = limit_gb * GIBIBYTE,
                                   .batches = {1, {batch}},
                                   .degree_max = 8,
                                   .schedule = GAL_SCHEDULE_1F1B,
                                   .data_parallel = GAL_GALVATRON_ZERO2};
}

static void test_as_good_as_its_own(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_galvatron_profile profile;
    gal_galvatron_tables *tables = NULL;
    gal_peer_row rows[GAL_PEER_ROWS];
    assert_int_equal(gal_peer_llama(&profile, &err), GAL_OK);
    assert_int_equal(gal_galvatron_tables_create(&profile, &tables, &err), GAL_OK);
    assert_true(gal_peer_rows(rows));
    for (uint32_t i = 0; i < GAL_PEER_ROWS; i++) {
        gal_galvatron_request request = request_of(tables, rows[i].limit_gb, rows[i].batch);
        if (rows[i].chunks != 0) {
            request.microbatch_counts = (gal_u32_list){1, {rows[i].chunks}};
        }
        gal_galvatron_found found = search(&request);
        assert_true(found.feasible);
        is_honest(&request, &found);
        assert_true(found.samples_per_second >= rows[i].samples_per_second * (1.0 - 1e-9));
        gal_galvatron_found_free(&found);
    }
    gal_galvatron_tables_free(tables);
    gal_galvatron_profile_free(&profile);
}

static void test_as_good_as_its_golden_test(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_galvatron_profile profile;
    gal_galvatron_tables *tables = NULL;
    assert_int_equal(gal_peer_seq8192(&profile, &err), GAL_OK);
    assert_int_equal(gal_galvatron_tables_create(&profile, &tables, &err), GAL_OK);
    gal_galvatron_request request = request_of(tables, 36, 64);
    request.microbatch_counts = (gal_u32_list){1, {32}};
    gal_galvatron_found found = search(&request);
    is_honest(&request, &found);
    assert_true(found.samples_per_second >= 2.6485091403918064);
    gal_galvatron_found_free(&found);
    gal_galvatron_tables_free(tables);
    gal_galvatron_profile_free(&profile);
}

/* Batch 15: by its rules 8 replicas get a sample each and 15 are counted. By even rules 15 is for 1 replica, or for as
 * many as divide it: none of 2, 4, 8. */
static void test_batch_15(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_galvatron_profile profile;
    gal_galvatron_tables *tables = NULL;
    assert_int_equal(gal_peer_llama(&profile, &err), GAL_OK);
    assert_int_equal(gal_galvatron_tables_create(&profile, &tables, &err), GAL_OK);
    gal_galvatron_request request = request_of(tables, 40, 15);
    gal_galvatron_found theirs = search(&request);
    is_honest(&request, &theirs);
    assert_true(theirs.samples_per_second >= 29.2);
    assert_int_equal(theirs.plan.run[0].strategy.degree, 1);
    request.rules = GAL_GALVATRON_RULES_EVEN;
    gal_galvatron_found even = search(&request);
    is_honest(&request, &even);
    assert_int_equal(even.used_limit_bytes, 40 * GIBIBYTE);
    for (uint32_t r = 0; r < even.plan.run_count; r++) {
        assert_int_equal(even.plan.run[r].strategy.degree * even.plan.pp_degree, 8);
    }
    assert_int_equal(even.plan.outside.degree * even.plan.pp_degree, 8);
    gal_galvatron_found_free(&even);
    gal_galvatron_found_free(&theirs);
    gal_galvatron_tables_free(tables);
    gal_galvatron_profile_free(&profile);
}

/* By its rules 24 GiB give less than 20 (predicted.tsv); by even rules more memory is never worse. */
static void test_more_memory(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_galvatron_profile profile;
    gal_galvatron_tables *tables = NULL;
    double before = 0.0;
    assert_int_equal(gal_peer_llama(&profile, &err), GAL_OK);
    assert_int_equal(gal_galvatron_tables_create(&profile, &tables, &err), GAL_OK);
    for (unsigned gb = 12; gb <= 28; gb += 4) {
        gal_galvatron_request request = request_of(tables, gb, 16);
        request.microbatch_counts = (gal_u32_list){1, {4}};
        request.rules = GAL_GALVATRON_RULES_EVEN;
        gal_galvatron_found found = search(&request);
        const double now = found.feasible ? found.samples_per_second : 0.0;
        assert_true(now >= before);
        before = now;
        gal_galvatron_found_free(&found);
    }
    assert_true(before > 0.0);
    gal_galvatron_tables_free(tables);
    gal_galvatron_profile_free(&profile);
}

static void test_least_limit(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_galvatron_profile profile;
    gal_galvatron_tables *tables = NULL;
    assert_int_equal(gal_peer_llama(&profile, &err), GAL_OK);
    assert_int_equal(gal_galvatron_tables_create(&profile, &tables, &err), GAL_OK);
    /* 64 samples in one microbatch need more than 20 GiB: there the reserve counts. */
    const struct {
        uint32_t batch, microbatches;
    } cases[] = {{16, 16}, {64, 1}, {256, 1}};
    for (uint32_t i = 0; i < 3; i++) {
        gal_galvatron_request request = request_of(tables, 1, cases[i].batch);
        request.microbatch_counts = (gal_u32_list){1, {cases[i].microbatches}};
        gal_galvatron_found found = search(&request);
        assert_false(found.feasible);
        request.limit_bytes = found.least_limit_bytes;
        gal_galvatron_found_free(&found);
        found = search(&request);
        assert_true(found.feasible);
        is_honest(&request, &found);
        assert_int_equal(found.least_limit_bytes, request.limit_bytes);
        gal_galvatron_found_free(&found);
        request.limit_bytes -= MEBIBYTE;
        found = search(&request);
        assert_false(found.feasible);
        gal_galvatron_found_free(&found);
    }
    gal_galvatron_tables_free(tables);
    gal_galvatron_profile_free(&profile);
}

/* ---- brute force ---- */

enum { DEVICES = 4, TYPES = 2, LAYERS = 3, RATES = 4, OUTSIDES = 9 };

typedef struct small {
    gal_galvatron_layer_type type[TYPES];
    gal_galvatron_layer_time time[TYPES];
    gal_galvatron_layer_size size[TYPES];
    gal_galvatron_activation activation[TYPES * 3];
    gal_galvatron_outside_time outside_time;
    gal_galvatron_outside_size outside_size[OUTSIDES];
    gal_galvatron_all_reduce_rate rate[RATES];
    gal_galvatron_p2p_rate p2p[2];
    gal_galvatron_message_time message[4];
    gal_galvatron_profile profile;
} small;

/* splitmix64 (Steele, Lea, Flood, 2014) */
static uint64_t next(uint64_t *seed)
{
    uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static double between(uint64_t *seed, double low, double high)
{
    return low + (high - low) * (double)(next(seed) >> 11) * 0x1p-53;
}

/* Times near 1 s, layers of some 100 MiB: nothing dominates. */
static void random_profile(uint64_t *seed, small *x)
{
    *x = (small){0};
    const uint32_t one = 1 + (uint32_t)(next(seed) % (LAYERS - 1));
    const uint32_t count = next(seed) % 2 == 0 ? 1 : TYPES;
    for (uint32_t t = 0; t < count; t++) {
        x->type[t] = (gal_galvatron_layer_type){count == 1 ? LAYERS : t == 0 ? one : LAYERS - one, 1024, 128};
        x->time[t] = (gal_galvatron_layer_time){t, 1, 128, between(seed, 0.5, 1.5)};
        x->size[t] = (gal_galvatron_layer_size){t, 128, between(seed, 20.0, 200.0) * MEBIBYTE,
                                                between(seed, 1.0, 40.0) * MEBIBYTE};
        for (uint32_t d = 0; d < 3; d++) {
            x->activation[t * 3 + d] =
                (gal_galvatron_activation){t, 128, 1u << d, between(seed, 20.0, 200.0) * MEBIBYTE / (double)(1u << d)};
        }
    }
    x->outside_time = (gal_galvatron_outside_time){1, 128, between(seed, 0.1, 1.0)};
    for (uint32_t i = 0; i < OUTSIDES; i++) {
        x->outside_size[i] = (gal_galvatron_outside_size){
            i / 3, 128, 1u << (i % 3), between(seed, 50.0, 400.0) * MEBIBYTE, between(seed, 5.0, 50.0) * MEBIBYTE};
    }
    for (uint32_t i = 0; i < RATES; i++) {
        x->rate[i] = (gal_galvatron_all_reduce_rate){i < 2 ? 2 : 4, i % 2 == 1, between(seed, 50.0, 500.0) * MEBIBYTE};
    }
    for (uint32_t i = 0; i < 2; i++) {
        x->p2p[i] = (gal_galvatron_p2p_rate){2u << i, between(seed, 1.0, 10.0) * MEBIBYTE};
    }
    for (uint32_t i = 0; i < 4; i++) {
        x->message[i] = (gal_galvatron_message_time){i % 2, i < 2 ? 2 : 4, MEBIBYTE, between(seed, 0.01, 0.2)};
    }
    x->profile = (gal_galvatron_profile){.name = "small",
                                         .dtype = GAL_GALVATRON_BF16,
                                         .device_count = DEVICES,
                                         .sequence_parallel = true,
                                         .synchronous_reduce = next(seed) % 2 == 0,
                                         .overlap_slowdown = between(seed, 1.0, 1.5),
                                         .layer_type_count = count,
                                         .layer_time_count = count,
                                         .layer_size_count = count,
                                         .activation_count = count * 3,
                                         .outside_time_count = 1,
                                         .outside_size_count = OUTSIDES,
                                         .all_reduce_rate_count = RATES,
                                         .p2p_rate_count = 2,
                                         .message_time_count = 4,
                                         .layer_type = x->type,
                                         .layer_time = x->time,
                                         .layer_size = x->size,
                                         .activation = x->activation,
                                         .outside_time = &x->outside_time,
                                         .outside_size = x->outside_size,
                                         .all_reduce_rate = x->rate,
                                         .p2p_rate = x->p2p,
                                         .message_time = x->message};
}

/* Number i of all strategies, whether or not a plan may have it. */
enum { STRATEGIES = 3 * 8 };
static gal_galvatron_strategy strategy_number(uint32_t i)
{
    return (gal_galvatron_strategy){
        .degree = 1u << (i / 8), .ulysses = (i & 4) != 0, .zero3 = (i & 2) != 0, .recompute = (i & 1) != 0};
}

static bool may_have(const gal_galvatron_request *request, const gal_galvatron_job *job, gal_galvatron_strategy s)
{
    const uint32_t devices = job->device_count / job->pp_degree;
    const uint32_t samples = job->global_batch_samples / job->microbatch_count;
    return devices % s.degree == 0 && devices / s.degree <= samples && !(s.ulysses && s.degree == 1) &&
           !(s.zero3 && s.degree == devices) &&
           (request->rules == GAL_GALVATRON_RULES_THEIRS || samples % (devices / s.degree) == 0);
}

static uint32_t type_of(const small *x, uint32_t layer)
{
    return layer < x->type[0].layer_count ? 0 : 1;
}

/* Its rules on bytes, from the formulas alone. */
static bool fits(const small *x, const gal_galvatron_request *request, const gal_galvatron_plan *plan, uint64_t limit)
{
    const gal_galvatron_job job = gal_galvatron_job_of(plan);
    uint32_t widest = plan->outside.degree;
    bool by_tensors = plan->outside.degree > 1 && !plan->outside.ulysses;
    uint32_t layer = 0;
    for (uint32_t l = 0; l < LAYERS; l++) {
        const gal_galvatron_strategy *s = gal_galvatron_plan_strategy(plan, l);
        widest = s->degree > widest ? s->degree : widest;
        by_tensors = by_tensors || (s->degree > 1 && !s->ulysses);
    }
    const double buffer = by_tensors ? gal_galvatron_buffer_bytes(request->tables, &job, widest) : 0.0;
    for (uint32_t i = 0; i < plan->pp_degree; i++) {
        double bytes;
        assert_int_equal(gal_galvatron_outside_bytes(request->tables, &job, &plan->outside, i, &bytes, NULL), GAL_OK);
        double sum = ceil(bytes / MEBIBYTE) + floor(buffer / MEBIBYTE);
        for (uint32_t end = layer + plan->stage_layer_count[i]; layer < end; layer++) {
            assert_int_equal(gal_galvatron_layer_bytes(request->tables, &job, type_of(x, layer),
                                                       gal_galvatron_plan_strategy(plan, layer), i, &bytes, NULL),
                             GAL_OK);
            sum += ceil(bytes / MEBIBYTE);
        }
        if (sum > (double)(limit / MEBIBYTE)) {
            return false;
        }
    }
    return true;
}

/* Samples per second of the best plan of one job and one strategy outside; 0: none fits. */
static double best_layers(const small *x, const gal_galvatron_request *request, gal_galvatron_plan *plan,
                          uint64_t limit)
{
    const gal_galvatron_job job = gal_galvatron_job_of(plan);
    double best = 0.0;
    for (uint32_t code = 0; code < STRATEGIES * STRATEGIES * STRATEGIES; code++) {
        bool legal = true;
        for (uint32_t l = 0, rest = code; l < LAYERS && legal; l++, rest /= STRATEGIES) {
            plan->run[l] = (gal_galvatron_run){1, strategy_number(rest % STRATEGIES)};
            legal = may_have(request, &job, plan->run[l].strategy);
        }
        if (legal && fits(x, request, plan, limit)) {
            best = fmax(best, plan->global_batch_samples / price_of(request->tables, plan));
        }
    }
    return best;
}

static double brute_force(const small *x, const gal_galvatron_request *request, uint64_t limit)
{
    double best = 0.0;
    gal_galvatron_run run[LAYERS];
    uint32_t stage_layers[DEVICES];
    const uint32_t batch = request->batches.value[0];
    for (uint32_t m = 1; m <= batch; m++) {
        for (uint32_t pp = 1; batch % m == 0 && pp <= DEVICES && pp <= m && pp <= LAYERS; pp *= 2) {
            gal_galvatron_plan plan = {.device_count = DEVICES,
                                       .pp_degree = pp,
                                       .global_batch_samples = batch,
                                       .microbatch_count = m,
                                       .schedule = request->schedule,
                                       .data_parallel = request->data_parallel,
                                       .stage_layer_count = stage_layers,
                                       .run_count = LAYERS,
                                       .run = run};
            const gal_galvatron_job job = gal_galvatron_job_of(&plan);
            for (uint32_t i = 0; i < pp; i++) {
                stage_layers[i] = i + 1 < pp ? LAYERS / pp : LAYERS - (pp - 1) * (LAYERS / pp);
            }
            for (uint32_t o = 0; o < STRATEGIES; o++) {
                plan.outside = strategy_number(o);
                if (!plan.outside.recompute && may_have(request, &job, plan.outside)) {
                    best = fmax(best, best_layers(x, request, &plan, limit));
                }
            }
        }
    }
    return best;
}

/* Two batches, both rules and schedules, limits from none to plenty. */
static void test_brute_force(void **state)
{
    (void)state;
    const char *text = getenv("GAL_CASES");
    const uint32_t case_count = text == NULL ? 60 : (uint32_t)strtoul(text, NULL, 10);
    uint32_t proven = 0;
    uint32_t feasible = 0;
    for (uint64_t seed = 1; seed <= case_count; seed++) {
        uint64_t stream = seed;
        small x;
        gal_error err = {0};
        gal_galvatron_tables *tables = NULL;
        random_profile(&stream, &x);
        assert_int_equal(gal_galvatron_tables_create(&x.profile, &tables, &err), GAL_OK);
        const gal_galvatron_request request = {
            .tables = tables,
            .device_count = DEVICES,
            .limit_bytes = (uint64_t)between(&stream, 1150.0, 2600.0) * MEBIBYTE,
            .batches = {1, {2 + (uint32_t)(next(&stream) % 3)}},
            .degree_max = DEVICES,
            .schedule = next(&stream) % 2 == 0 ? GAL_SCHEDULE_1F1B : GAL_SCHEDULE_GPIPE,
            .data_parallel = next(&stream) % 2 == 0 ? GAL_GALVATRON_ZERO2 : GAL_GALVATRON_DDP,
            .rules = next(&stream) % 2 == 0 ? GAL_GALVATRON_RULES_THEIRS : GAL_GALVATRON_RULES_EVEN};
        gal_galvatron_found found = search(&request);
        const double best = brute_force(&x, &request, request.limit_bytes);
        if (found.feasible != (best > 0.0) ||
            (found.feasible && (found.samples_per_second > best * (1.0 + 1e-9) ||
                                found.samples_per_second_bound < best * (1.0 - 1e-9)))) {
            print_error("seed %llu: found %.12g, bound %.12g, best %.12g\n", (unsigned long long)seed,
                        found.samples_per_second, found.samples_per_second_bound, best);
            fail();
        }
        if (found.feasible) {
            is_honest(&request, &found);
            feasible++;
            proven += found.samples_per_second >= best * (1.0 - 1e-9);
        }
        gal_galvatron_found_free(&found);
        gal_galvatron_tables_free(tables);
    }
    print_message("%u cases, %u feasible, in %u of these the best plan\n", case_count, feasible, proven);
    assert_true(feasible >= case_count / 3);
    assert_true(proven * 10 >= feasible * 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_good_as_its_own), cmocka_unit_test(test_as_good_as_its_golden_test),
        cmocka_unit_test(test_batch_15),           cmocka_unit_test(test_more_memory),
        cmocka_unit_test(test_least_limit),        cmocka_unit_test(test_brute_force)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
