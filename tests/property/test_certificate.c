/* Certificates of searches over random small models: every plan that a search writes is verified, no bound that is
 * proved is above a plan that exists, and of 10,000 changed plans each is refused, or what it claims is still true.
 * timeout_seconds: 300 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "planner/certificate/certificate.h"
#include "planner/certificate/claims.h"
#include "planner/search/joint_search.h"
#include "planner/space/strategy_space.h"
#include "schemas/plan_check.h"
#include "tests/support/random_plan.h"

enum { MODELS = 200, TAMPERED = 40, CHANGES = 250 };

typedef struct trial {
    gal_model model;
    gal_cluster cluster;
    gal_durations *durations;
    gal_search_request request;
} trial;

static bool coin(uint64_t *state)
{
    return gal_random_below(state, 2) == 0;
}

static void turn_to_t5(gal_model *model)
{
    model->family = GAL_FAMILY_T5;
    model->layer_count = model->decoder_layer_count = 1;
    model->decoder_sequence_length = 48;
    model->head_dim = 16;
    model->relative_bucket_count = 8;
    model->relative_max_distance = 16;
    model->activation = GAL_ACTIVATION_RELU;
}

static void create_model(uint64_t *state, bool encodes, gal_model *model)
{
    gal_model_defaults(model);
    (void)snprintf(model->name, sizeof model->name, "small");
    model->layer_count = 1 + gal_random_below(state, 3);
    model->hidden = 96;
    model->head_count = 6;
    model->ffn_hidden = 384;
    model->sequence_length = 96;
    model->vocabulary = 250;
    model->vocabulary_multiple = 24;
    model->tied_embeddings = coin(state);
    model->global_batch_samples = 8;
    if (encodes) {
        turn_to_t5(model);
    }
}

static void create_cluster(uint64_t *state, uint32_t devices, gal_cluster *cluster)
{
    (void)snprintf(cluster->name, sizeof cluster->name, "random");
    cluster->device_count = devices;
    cluster->device = (gal_device){.kind = "device",
                                   .memory_bytes = UINT64_C(1) << 34,
                                   .fp32_flops_per_second = gal_random_between(state, 1e9, 1e12),
                                   .fp64_flops_per_second = 1e9,
                                   .memory_bytes_per_second = gal_random_between(state, 1e8, 1e11)};
    cluster->level_count = devices > 2 ? 2 : 1;
    cluster->level[0] = (gal_link_level){.name = "inner",
                                         .span_devices = devices > 2 ? 2 : devices,
                                         .latency_seconds = 1e-6,
                                         .bytes_per_second = gal_random_between(state, 1e8, 1e11)};
    if (devices > 2) {
        cluster->level[1] = (gal_link_level){.name = "outer",
                                             .span_devices = devices,
                                             .latency_seconds = 1e-5,
                                             .bytes_per_second = gal_random_between(state, 1e7, 1e10)};
    }
}

static void create(uint64_t seed, trial *t)
{
    static const uint32_t worlds[] = {1, 2, 4, 4, 8};
    static const char *const spaces[] = {"dp,zero3,tp", "dp,tp,recompute", "dp,zero2,zero3,selective", "tp,sp,zero1"};
    uint64_t state = seed;
    gal_error err = {0};
    memset(t, 0, sizeof *t);
    create_model(&state, seed % 5 == 4, &t->model);
    create_cluster(&state, worlds[gal_random_below(&state, 5)], &t->cluster);
    assert_int_equal(gal_durations_create_analytic(&t->cluster, &t->durations, &err), GAL_OK);
    t->request = (gal_search_request){.model = &t->model,
                                      .durations = t->durations,
                                      .profile_hash = "",
                                      .microbatch_counts = {.count = 3, .value = {1, 2, 4}},
                                      .schedule = coin(&state) ? GAL_SCHEDULE_GPIPE : GAL_SCHEDULE_1F1B,
                                      .prefetch_depth = 1 + gal_random_below(&state, 2),
                                      .gap = coin(&state) ? 0.005 : 0.0,
                                      .label_limit = 20000};
    assert_int_equal(gal_space_parse(spaces[gal_random_below(&state, 4)], &t->request.space, &err), GAL_OK);
    if (seed % 10 == 0 && t->cluster.device_count > 1) {
        t->request.schedule = coin(&state) ? GAL_SCHEDULE_INTERLEAVED : GAL_SCHEDULE_ZERO_BUBBLE;
        t->request.chunk_count = t->request.schedule == GAL_SCHEDULE_INTERLEAVED ? 2 : 0;
    }
}

static void search(const gal_search_request *request, gal_search_result *out)
{
    gal_error err = {0};
    if (gal_search(request, out, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
}

/* Now and then with less memory than the first plan takes. */
static void search_short(uint64_t seed, trial *t, gal_search_result *out)
{
    search(&t->request, out);
    assert_true(out->feasible);
    if (seed % 3 != 0) {
        gal_search_result less = {0};
        t->request.memory_bytes = out->finalist[0].peak_bytes - out->finalist[0].peak_bytes / (2 + seed % 7);
        search(&t->request, &less);
        if (less.feasible) {
            gal_search_result_free(out);
            *out = less;
        } else {
            gal_search_result_free(&less);
            t->request.memory_bytes = 0;
        }
    }
}

static gal_code claims(const gal_plan *plan, const gal_durations *durations, gal_price_cache *cache, gal_error *err)
{
    const gal_code code = gal_claims_check_plan(cache, durations, plan, err);
    return code == GAL_OK ? gal_claims_check_bound(cache, durations, plan, err) : code;
}

/* ---- plans of searches ---- */

/* No more is proved of the plan's own numbers than it takes itself. */
static void check_soundness(const gal_plan *plan, const gal_durations *durations, gal_price_cache *cache)
{
    const double above = plan->objective_seconds * (1.0 + 1e-6);
    const gal_certificate_cell cell = {.model = &plan->model,
                                       .space = &plan->certificate.space,
                                       .schedule = plan->schedule,
                                       .prefetch_depth = plan->prefetch_depth,
                                       .device_count = plan->cluster.device_count,
                                       .global_batch_samples = plan->global_batch_samples,
                                       .microbatch_count = plan->microbatch_count,
                                       .pp_degree = plan->pp_degree,
                                       .work_limit = UINT64_MAX,
                                       .arena_limit_bytes = plan->certificate.memory_bytes};
    gal_certificate_proof proof = {0};
    gal_error err = {0};
    gal_certificate_sources from = {.durations = durations, .cache = cache};
    assert_int_equal(gal_floors_create(&plan->model, durations, &from.floors, &err), GAL_OK);
    assert_int_equal(gal_certificate_bound(&from, &cell, above, above, &proof, &err), GAL_OK);
    gal_floors_free(from.floors);
    if (!(proof.seconds < above)) {
        fail_msg("a plan takes %.12g s, %.12g s is proved", plan->objective_seconds, proof.seconds);
    }
}

static void test_plans_of_searches_are_verified(void **state)
{
    (void)state;
    uint32_t bounded = 0, equal = 0, closed = 0, binding = 0;
    for (uint64_t seed = 1; seed <= MODELS; seed++) {
        trial t;
        gal_error err = {0};
        gal_search_result result = {0};
        gal_price_cache *cache = NULL;
        create(seed, &t);
        search_short(seed, &t, &result);
        const gal_plan *plan = &result.finalist[0].plan;
        assert_int_equal(gal_price_cache_create(&t.model, t.durations, &cache, &err), GAL_OK);
        assert_true(plan->certificate.present);
        if (claims(plan, t.durations, cache, &err) != GAL_OK) {
            fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
        }
        if (plan->lower_bound_seconds > 0.0) {
            check_soundness(plan, t.durations, cache);
            bounded++;
            closed += plan->certificate.searched_bound_seconds > 0.0;
            equal += plan->lower_bound_seconds == plan->objective_seconds;
            binding += t.request.memory_bytes > 0;
        }
        gal_price_cache_free(cache);
        gal_search_result_free(&result);
        gal_durations_free(t.durations);
    }
    print_message("%u plans: %u with a bound, of %u it is the objective, in %u the search closed more; %u short of "
                  "memory\n",
                  MODELS, bounded, equal, closed, binding);
    assert_true(bounded > MODELS / 2 && binding > MODELS / 8);
}

/* ---- changed plans ---- */

/* One of the numbers near its own. */
static double nudge(uint64_t *state, double value)
{
    static const double by[] = {1e-7, 1e-5, 1e-3, 1e-2, 0.1, 0.5};
    const double share = by[gal_random_below(state, 6)];
    return coin(state) ? value * (1.0 + share) : value * (1.0 - share);
}

static void change_claim(uint64_t *state, gal_plan *p)
{
    double *const claim[] = {&p->lower_bound_seconds, &p->objective_seconds, &p->certificate.searched_bound_seconds};
    double *const one = claim[gal_random_below(state, 3)];
    *one = *one == 0.0 ? gal_random_between(state, 0.01, 100.0) * p->objective_seconds : nudge(state, *one);
}

static void change_bytes(uint64_t *state, gal_plan *p)
{
    uint64_t *const bytes[] = {&p->stage[gal_random_below(state, gal_plan_piece_count(p))].predicted_bytes,
                               &p->certificate.memory_bytes, &p->fixed_bytes};
    uint64_t *const one = bytes[gal_random_below(state, 3)];
    *one = (uint64_t)nudge(state, (double)(*one + 1000));
}

static void change_strategy(uint64_t *state, gal_plan *p)
{
    static gal_strategy strategy[GAL_SPACE_MAX];
    gal_space space;
    gal_space_all(&space);
    const uint32_t count =
        gal_space_strategies(coin(state) ? &space : &p->certificate.space, gal_plan_stage_devices(p), strategy);
    p->run[gal_random_below(state, p->run_count)].strategy = strategy[gal_random_below(state, count)];
}

/* A block from a run to its neighbour, over a border of stages or not. */
static void move_block(uint64_t *state, gal_plan *p)
{
    const uint32_t r = gal_random_below(state, p->run_count);
    const uint32_t to = r > 0 && coin(state) ? r - 1 : r + 1;
    if (to < p->run_count) {
        p->run[r].block_count--;
        p->run[to].block_count++;
    } else {
        p->run[r].block_count++;
    }
}

static void change_space(uint64_t *state, gal_space *s)
{
    bool *const part[] = {&s->axis[GAL_AXIS_DP],
                          &s->axis[GAL_AXIS_SDP],
                          &s->axis[GAL_AXIS_TP],
                          &s->zero_stage[1],
                          &s->zero_stage[2],
                          &s->zero_stage[3],
                          &s->sequence_parallel,
                          &s->recompute,
                          &s->selective,
                          &s->takeaway[2],
                          &s->takeaway[3],
                          &s->tp_grid[GAL_TP_2D],
                          &s->tp_grid[GAL_TP_2P5D],
                          &s->tp_grid[GAL_TP_3D],
                          &s->keep_panels,
                          &s->stepped,
                          &s->overlap,
                          &s->bucket};
    bool *const one = part[gal_random_below(state, sizeof part / sizeof part[0])];
    *one = !*one;
}

/* A number more or less. */
static void change_list(uint64_t *state, gal_u32_list *list)
{
    if (list->count > 1 && coin(state)) {
        const uint32_t at = gal_random_below(state, list->count);
        list->value[at] = list->value[--list->count];
    } else {
        list->value[list->count++] = UINT32_C(1) << gal_random_below(state, 4);
    }
}

static void change_lists(uint64_t *state, gal_plan *p)
{
    change_list(state, coin(state) ? &p->certificate.microbatch_counts : &p->certificate.pp_degrees);
}

/* What prices are made of. */
static void change_prices(uint64_t *state, gal_plan *p)
{
    gal_link_level *const level = &p->cluster.level[gal_random_below(state, p->cluster.level_count)];
    double *const rate[] = {&p->cluster.device.fp32_flops_per_second, &p->cluster.device.memory_bytes_per_second,
                            &level->bytes_per_second, &level->latency_seconds};
    double *const one = rate[gal_random_below(state, 4)];
    *one = nudge(state, *one);
}

static void change_numbers(uint64_t *state, gal_plan *p)
{
    switch (gal_random_below(state, 6)) {
    case 0:
        p->microbatch_count = UINT32_C(1) << gal_random_below(state, 4);
        break;
    case 1:
        p->global_batch_samples = 4 + 4 * gal_random_below(state, 4);
        break;
    case 2:
        p->prefetch_depth = 3 - p->prefetch_depth;
        break;
    case 3:
        p->schedule = (gal_schedule)gal_random_below(state, GAL_SCHEDULE_COUNT);
        break;
    case 4:
        p->model.sequence_length += 24;
        break;
    default:
        p->model.tied_embeddings = !p->model.tied_embeddings;
    }
}

typedef enum change_kind { CLAIM, BYTES, STRATEGY, BLOCKS, SPACE, LISTS, PRICES, NUMBERS, CHANGE_KINDS } change_kind;
static const char *const kind_names[CHANGE_KINDS] = {"claim", "bytes", "strategy", "blocks",
                                                     "space", "lists", "prices",   "numbers"};

static void change(uint64_t *state, change_kind kind, gal_plan *p)
{
    switch (kind) {
    case CLAIM:
        change_claim(state, p);
        break;
    case BYTES:
        change_bytes(state, p);
        break;
    case STRATEGY:
        change_strategy(state, p);
        break;
    case BLOCKS:
        move_block(state, p);
        break;
    case SPACE:
        change_space(state, &p->certificate.space);
        break;
    case LISTS:
        change_lists(state, p);
        break;
    case PRICES:
        change_prices(state, p);
        break;
    default:
        change_numbers(state, p);
    }
}

/* What a search finds that looks for better than the claim; infinity: nothing. */
static double solve_again(const gal_plan *p, const gal_durations *durations)
{
    const gal_search_request request = {.model = &p->model,
                                        .durations = durations,
                                        .profile_hash = "",
                                        .memory_bytes = p->certificate.memory_bytes,
                                        .batches = {.count = 1, .value = {p->global_batch_samples}},
                                        .microbatch_counts = p->certificate.microbatch_counts,
                                        .pp_degrees = p->certificate.pp_degrees,
                                        .space = p->certificate.space,
                                        .schedule = p->schedule,
                                        .chunk_count = p->chunk_count,
                                        .prefetch_depth = p->prefetch_depth,
                                        .label_limit = 20000};
    gal_search_result result = {0};
    search(&request, &result);
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < result.finalist_count; i++) {
        least = fmin(least, result.finalist[i].objective_seconds);
    }
    gal_search_result_free(&result);
    return least;
}

/* True where it is refused; else the claim is true. */
static bool is_refused(const trial *t, const gal_plan *p, change_kind kind, gal_price_cache *cache, double known)
{
    gal_error err = {0};
    gal_durations *durations = t->durations;
    if (gal_plan_check(p, NULL, &err) != GAL_OK) {
        return true;
    }
    const bool fresh = kind == PRICES || kind == NUMBERS;
    if (fresh) {
        assert_int_equal(gal_durations_create_analytic(&p->cluster, &durations, &err), GAL_OK);
        assert_int_equal(gal_price_cache_create(&p->model, durations, &cache, &err), GAL_OK);
    }
    const gal_code code = claims(p, durations, cache, &err);
    if (code == GAL_OK && p->lower_bound_seconds > 0.0) {
        const double least = kind == CLAIM ? known : solve_again(p, durations);
        if (!(p->lower_bound_seconds <= least * (1.0 + 1e-9))) {
            fail_msg("%s: no plan is said to take less than %.12g s, one takes %.12g s", kind_names[kind],
                     p->lower_bound_seconds, least);
        }
    }
    if (fresh) {
        gal_price_cache_free(cache);
        gal_durations_free(durations);
    }
    return code != GAL_OK;
}

static void test_changed_plans_are_refused_or_true(void **state)
{
    (void)state;
    uint32_t refused[CHANGE_KINDS] = {0};
    uint32_t kept[CHANGE_KINDS] = {0};
    for (uint64_t seed = 1; seed <= TAMPERED; seed++) {
        trial t;
        gal_error err = {0};
        gal_search_result result = {0};
        gal_price_cache *cache = NULL;
        uint64_t stream = seed * 1000003;
        create(seed, &t);
        search_short(seed, &t, &result);
        const gal_plan *plan = &result.finalist[0].plan;
        const double known = solve_again(plan, t.durations);
        assert_int_equal(gal_price_cache_create(&plan->model, t.durations, &cache, &err), GAL_OK);
        for (uint32_t i = 0; i < CHANGES; i++) {
            gal_plan changed = {0};
            const change_kind kind = (change_kind)gal_random_below(&stream, CHANGE_KINDS);
            assert_int_equal(gal_plan_copy(plan, &changed, &err), GAL_OK);
            change(&stream, kind, &changed);
            const bool no = is_refused(&t, &changed, kind, cache, known);
            refused[kind] += no;
            kept[kind] += !no;
            gal_plan_free(&changed);
        }
        gal_price_cache_free(cache);
        gal_search_result_free(&result);
        gal_durations_free(t.durations);
    }
    for (uint32_t kind = 0; kind < CHANGE_KINDS; kind++) {
        print_message("%-8s %5u refused, %5u still true\n", kind_names[kind], refused[kind], kept[kind]);
        assert_true(refused[kind] > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans_of_searches_are_verified),
                                       cmocka_unit_test(test_changed_plans_are_refused_or_true)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
