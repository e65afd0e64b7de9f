/* Strategies and shares on storage together, within limits of device, host and storage: against every choice of both
 * for every block of small models. What is claimed as optimal is; what is not lies between the bound and the plan. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "planner/certificate/claims.h"
#include "planner/search/host_limit.h"
#include "schemas/profile.h"
#include "tests/support/every_path.h"
#include "tests/support/random_plan.h"

enum {
    MACHINES = 6,
    NARROW = 4,
    WEIGHTS = 2,
    LIMITS = 10,
    LISTED_MAX = 128,
    TYPES = 4,
    CELLS_MAX = 4,
    MACHINES_ALL = 50,
    PLANS_ALL = 1000
};
static const double rounding = 1e-9;
static const uint64_t some_storage = UINT64_C(1) << 40;

/* Strategies that stages of so many devices may have, with every share that stores another number of bytes for some
 * type of block; the ways to offload but for the last ones. */
typedef struct menu {
    gal_strategy listed[LISTED_MAX];
    bool allowed[TYPES * LISTED_MAX]; /* [type][listed] */
    uint32_t count;
} menu;

/* What may be on storage beside moments: nothing; masters, of 16 bits; weights. */
typedef enum variant { MOMENTS, MASTERS_TOO, WEIGHTS_TOO } variant;

typedef struct machine {
    gal_model model;
    gal_cluster cluster;
    gal_durations *durations;
    gal_price_cache *cache;
    gal_search_request request;
    gal_every_path paths[CELLS_MAX];
    gal_cell *cell[CELLS_MAX];
    uint32_t cell_count;
} machine;

typedef struct counts {
    uint32_t instances, feasible, stored, masters, weights, closed, exact, refused, refused_masters, charged_more;
    double worst_gap;
} counts;

static void must(gal_code code, const gal_error *err)
{
    if (code != GAL_OK) {
        fail_msg("%s", err->text);
    }
}

/* ---- machines ---- */

/* One layer of a decoder, some of whose matrices are several parts of storage; of 16 bits, with masters, which may be
 * on storage too, it has fewer strategies. */
static void draw_machine(uint64_t *random, uint32_t devices, bool tied, variant of, machine *out)
{
    const bool narrow = of == MASTERS_TOO;
    gal_error err = {0};
    gal_plan plan;
    gal_profile profile;
    memset(out, 0, sizeof *out);
    must(gal_plan_read("tests/fixtures/valid/plan_serial.json", &plan, &err), &err);
    out->model = plan.model;
    out->cluster = plan.cluster;
    gal_plan_free(&plan);
    out->model.layer_count = 1;
    out->model.tied_embeddings = tied;
    out->model.hidden = 2048;
    out->model.ffn_hidden = 8192;
    out->model.head_count = 16;
    out->model.vocabulary = 8192;
    out->model.compute_dtype = narrow ? GAL_BF16 : GAL_FP32;
    gal_device *device = &out->cluster.device;
    device->multiprocessor_count = 10; /* a GPU, whose host works beside it */
    device->memory_bytes = UINT64_C(1) << 40;
    device->fp32_flops_per_second = gal_random_between(random, 1e12, 1e14);
    device->bf16_flops_per_second = 8.0 * device->fp32_flops_per_second;
    device->memory_bytes_per_second = gal_random_between(random, 1e11, 1e12);
    device->host_memory_bytes_per_second = gal_random_between(random, 1e10, 2e11);
    device->host_copy_bytes_per_second = gal_random_between(random, 5e9, 1e11);
    device->storage_read_bytes_per_second = gal_random_between(random, 1e9, 1e11);
    device->storage_write_bytes_per_second = gal_random_between(random, 1e9, 1e11);
    out->cluster.device_count = devices;
    out->cluster.level_count = 1;
    out->cluster.level[0] =
        (gal_link_level){.name = "inner", .span_devices = devices, .latency_seconds = 1e-6, .bytes_per_second = 1e10};
    gal_profile_analytic(&out->cluster, &profile);
    must(gal_durations_create(&profile, &out->durations, &err), &err);
    must(gal_price_cache_create(&out->model, out->durations, &out->cache, &err), &err);
    out->request = (gal_search_request){.model = &out->model,
                                        .durations = out->durations,
                                        .cache = out->cache,
                                        .profile_hash = "",
                                        .microbatch_counts = {1, {2}},
                                        .pp_degrees = {1, {devices}},
                                        .schedule = GAL_SCHEDULE_1F1B,
                                        .prefetch_depth = 2,
                                        .storage_masters = narrow,
                                        .storage_parameters = of == WEIGHTS_TOO,
                                        .label_limit = narrow ? 200000 : 20000}; /* more shares, more labels */
    must(gal_space_parse("dp,offload", &out->request.space, &err), &err);
    /* half and all of the optimizer, with weights, half of the activations and all of them; with more on storage
     * without these */
    out->request.space.offload_left_out = of == MOMENTS ? 4 : 6;
}

static bool stores_the_same(const gal_block_price *a, const gal_block_price *b)
{
    return a->memory.host.stored == b->memory.host.stored && a->memory.host.state == b->memory.host.state;
}

static void add_listed(menu *m, const gal_strategy *own, uint32_t type)
{
    uint32_t at = 0;
    while (at < m->count && !gal_strategy_equal(&m->listed[at], own)) {
        at++;
    }
    assert_true(at < LISTED_MAX);
    m->listed[at] = *own;
    m->count = at == m->count ? at + 1 : m->count;
    m->allowed[type * LISTED_MAX + at] = true;
}

/* A strategy with every percentage, from `first` on, that stores something else for the type than the one before, which
 * stores as `before` says. Holders of a token table of several have each where any of them changes. */
static void add_percents(const gal_cell *cell, uint32_t type, const gal_strategy *of, variant stores,
                         const gal_block_price **before, menu *out)
{
    gal_error err = {0};
    gal_strategy strategy = *of;
    strategy.offload_storage_masters = stores == MASTERS_TOO;
    for (uint32_t percent = stores != MOMENTS; percent <= strategy.offload_optimizer_percent; percent++) {
        const gal_block_price *price = NULL;
        strategy.offload_storage_percent = percent;
        strategy.offload_storage_parameters_percent = stores == WEIGHTS_TOO ? percent : 0;
        const gal_price_query query = {.type = cell->types.shape[type].type,
                                       .strategy = &strategy,
                                       .device_count = cell->stage_devices,
                                       .stage_count = cell->spec.pp_degree,
                                       .microbatch_samples = cell->samples,
                                       .prefetch_depth = cell->spec.prefetch_depth};
        must(gal_price_block(cell->spec.cache, &query, &price, &err), &err);
        for (uint32_t other = 0; other < cell->types.type_count; other++) {
            const bool both = gal_cell_holds_table(cell, cell->types.type_first[type]) &&
                              gal_cell_holds_table(cell, cell->types.type_first[other]);
            if ((*before == NULL || !stores_the_same(*before, price)) && (other == type || both)) {
                add_listed(out, &strategy, other);
            }
        }
        *before = price;
    }
}

/* Every percentage is priced, with what else may be on storage and without. */
static void make_menu(const gal_cell *cell, variant stores, menu *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t type = 0; type < cell->types.type_count; type++) {
        for (uint32_t i = 0; i < cell->strategy_count; i++) {
            const uint32_t last = cell->spec.pp_degree - 1;
            const uint32_t stage = type == cell->types.type_of[0] ? 0 : last;
            const gal_block_price *before = NULL, *nothing = NULL;
            if (cell->price[gal_cell_price_index(cell, cell->types.type_first[type], stage, i)] == NULL) {
                continue;
            }
            const gal_price_query query = {.type = cell->types.shape[type].type,
                                           .strategy = &cell->strategy[i],
                                           .device_count = cell->stage_devices,
                                           .stage_count = cell->spec.pp_degree,
                                           .microbatch_samples = cell->samples,
                                           .prefetch_depth = cell->spec.prefetch_depth};
            gal_error err = {0};
            must(gal_price_block(cell->spec.cache, &query, &nothing, &err), &err);
            add_percents(cell, type, &cell->strategy[i], MOMENTS, &before, out);
            if (stores == MASTERS_TOO ||
                (stores == WEIGHTS_TOO && cell->strategy[i].offload_parameters_percent == 100)) {
                add_percents(cell, type, &cell->strategy[i], stores, &nothing, out);
            }
        }
    }
}

/* Of each cell all paths, the shares among their strategies. */
static void list_paths(machine *m, uint32_t pp_degree, variant stores, menu *of, bool *known)
{
    gal_error err = {0};
    gal_cell *cell = NULL;
    static bool allowed[TYPES * LISTED_MAX];
    gal_cell_spec spec = {.model = &m->model,
                          .durations = m->durations,
                          .cache = m->cache,
                          .space = &m->request.space,
                          .device_count = m->cluster.device_count,
                          .pp_degree = pp_degree,
                          .microbatch_count = 2,
                          .global_batch_samples = m->model.global_batch_samples,
                          .schedule = m->request.schedule,
                          .prefetch_depth = m->request.prefetch_depth,
                          .arena_limit_bytes = UINT64_C(1) << 40};
    if (!*known) {
        must(gal_cell_create(&spec, &cell, &err), &err);
        assert_true(cell->types.type_count <= TYPES);
        make_menu(cell, stores, of);
        gal_cell_free(cell);
        *known = true;
    }
    for (uint32_t type = 0; type < TYPES; type++) {
        memcpy(&allowed[type * of->count], &of->allowed[type * LISTED_MAX], of->count * sizeof *allowed);
    }
    spec.listed = of->listed;
    spec.listed_count = of->count;
    spec.allowed = allowed;
    must(gal_cell_create(&spec, &m->cell[m->cell_count], &err), &err);
    gal_every_path_list(m->cell[m->cell_count], &m->paths[m->cell_count]);
    m->cell_count++;
}

static void close_machine(machine *m)
{
    for (uint32_t i = 0; i < m->cell_count; i++) {
        gal_every_path_free(&m->paths[i]);
        gal_cell_free(m->cell[i]);
    }
    gal_price_cache_free(m->cache);
    gal_durations_free(m->durations);
}

/* ---- charges ---- */

static bool is_share_of(const gal_strategy *strategy, const gal_strategy *plain)
{
    gal_strategy own = *strategy;
    own.offload_storage_percent = 0;
    own.offload_storage_masters = false;
    own.offload_storage_parameters_percent = 0;
    return gal_strategy_equal(&own, plain);
}

/* The least of all shares of a strategy, and whether it has masters or weights on storage. */
static double least_charged(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t plain, double charge,
                            bool *more)
{
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < cell->strategy_count; i++) {
        const gal_block_price *price = gal_cell_price(cell, block, stage, i);
        if (price != NULL && is_share_of(&cell->strategy[i], &cell->strategy[plain])) {
            const gal_block_memory *memory = &price->memory;
            const uint64_t kept = memory->host.state + memory->bytes.staged_input + memory->bytes.staged_saved;
            const double seconds = price->update_seconds + charge * (double)kept;
            const gal_strategy *strategy = &cell->strategy[i];
            *more = seconds < least
                        ? strategy->offload_storage_masters || strategy->offload_storage_parameters_percent > 0
                        : *more;
            least = fmin(least, seconds);
        }
    }
    return least;
}

/* Whatever the share, a round of it takes no less, and no less of it is left when backward has hidden what it can. */
static void check_rounds(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t plain,
                         const gal_block_price *charged)
{
    const double round = charged->forward_seconds + charged->backward_seconds;
    for (uint32_t i = 0; i < cell->strategy_count; i++) {
        const gal_block_price *price = gal_cell_price(cell, block, stage, i);
        if (price != NULL && is_share_of(&cell->strategy[i], &cell->strategy[plain])) {
            const double own = price->forward_seconds + price->backward_seconds;
            assert_true(round <= own * (1.0 + rounding));
            assert_true(charged->backward_seconds >= fmin(round, price->backward_seconds) * (1.0 - rounding));
        }
    }
}

/* Prices with a charge are those of the share that costs least under it, masters on storage among them. */
static void check_charges(const machine *m, variant stores, counts *n)
{
    static const double charges[] = {1e-11, 1e-9, 1e-7};
    const gal_cell *cell = m->cell[0];
    for (uint32_t c = 0; c < sizeof charges / sizeof charges[0]; c++) {
        gal_error err = {0};
        gal_price_cache *charged = NULL;
        const gal_price_charge charge = {charges[c], true, stores == MASTERS_TOO, stores == WEIGHTS_TOO};
        must(gal_price_cache_create_charged(m->cache, &charge, &charged, &err), &err);
        for (uint32_t at = 0; at < cell->block_count * cell->strategy_count; at++) {
            const uint32_t block = at / cell->strategy_count, plain = at % cell->strategy_count;
            const uint32_t stage = block == 0 ? 0 : cell->spec.pp_degree - 1;
            const gal_block_price *price = NULL;
            const gal_price_query query = {.type = cell->types.shape[cell->types.type_of[block]].type,
                                           .strategy = &cell->strategy[plain],
                                           .device_count = cell->stage_devices,
                                           .stage = stage,
                                           .stage_count = cell->spec.pp_degree,
                                           .microbatch_samples = cell->samples,
                                           .prefetch_depth = cell->spec.prefetch_depth};
            if (gal_cell_price(cell, block, stage, plain) != NULL &&
                cell->strategy[plain].offload_storage_percent == 0) {
                bool more = false;
                const double least = least_charged(cell, block, stage, plain, charges[c], &more);
                must(gal_price_block(charged, &query, &price, &err), &err);
                assert_true(fabs(price->update_seconds - least) <= rounding * fabs(least));
                check_rounds(cell, block, stage, plain, price);
                n->charged_more += more;
            }
        }
        gal_price_cache_free(charged);
    }
}

/* ---- limits ---- */

static double best_of_all(const machine *m, uint64_t memory, uint64_t host, uint64_t storage)
{
    double best = HUGE_VAL;
    for (uint32_t i = 0; i < m->cell_count; i++) {
        best = fmin(best, gal_every_path_best_within(&m->paths[i], memory, host, storage));
    }
    return best;
}

static uint64_t least_memory(const machine *m, double beyond)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < m->cell_count; i++) {
        for (size_t p = 0; p < m->paths[i].path_count; p++) {
            const bool faster = m->paths[i].seconds[p] <= beyond;
            least = faster && m->paths[i].most_bytes[p] < least ? m->paths[i].most_bytes[p] : least;
        }
    }
    return least;
}

/* In the host's memory, within the device's and storage: the least of all paths, or of the fastest ones. */
static uint64_t least_host(const machine *m, uint64_t memory, uint64_t storage, double beyond)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < m->cell_count; i++) {
        const gal_every_path *all = &m->paths[i];
        for (size_t p = 0; p < all->path_count; p++) {
            const bool within =
                all->seconds[p] <= beyond && all->most_bytes[p] <= memory && all->stored_bytes[p] <= storage;
            least = within && all->host_bytes[p] < least ? all->host_bytes[p] : least;
        }
    }
    return least;
}

/* The plan's programs take no more than the limits, and what it says; its claims hold. */
static void check_plan(const machine *m, const gal_plan *plan, uint64_t host, uint64_t storage)
{
    gal_error err = {0};
    gal_program *programs[GAL_STAGES_MAX];
    must(gal_lower_plan(plan, programs, &err), &err);
    for (uint32_t p = 0; p < plan->stage_count; p++) {
        assert_int_equal(plan->stage[p].predicted_host_bytes, programs[p]->host_bytes);
        assert_int_equal(plan->stage[p].predicted_storage_bytes, programs[p]->storage_bytes);
        assert_true(programs[p]->host_bytes <= host && programs[p]->storage_bytes <= storage);
        gal_program_free(programs[p]);
    }
    must(gal_claims_check_plan(m->cache, m->durations, plan, &err), &err);
    must(gal_claims_check_bound(m->cache, m->durations, plan, &err), &err);
}

/* What a plan must not claim: more than can be proved, a bound of plans that do not store, a limit that it breaks. */
static void check_refusals(const machine *m, const gal_plan *plan)
{
    gal_error err = {0};
    gal_plan other = *plan;
    other.lower_bound_seconds = plan->objective_seconds * (1.0 + 0.5 * rounding);
    other.certificate.searched_bound_seconds = 0.0;
    other.certificate.host.seconds_per_byte *= 1.5; /* another charge proves less */
    assert_int_equal(gal_claims_check_bound(m->cache, m->durations, &other, &err), GAL_NO);
    err = (gal_error){0};
    other = *plan;
    other.certificate.host.storage = false;
    assert_int_equal(gal_claims_check_plan(m->cache, m->durations, &other, &err), GAL_NO);
    assert_non_null(strstr(err.text, "its bound is of plans without"));
    err = (gal_error){0};
    other = *plan;
    other.certificate.host.host_memory_bytes = 1;
    assert_int_equal(gal_claims_check_plan(m->cache, m->durations, &other, &err), GAL_NO);
    assert_non_null(strstr(err.text, "host memory"));
}

static bool stores_weights(const gal_plan *plan)
{
    bool stores = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        stores = stores || plan->run[r].strategy.offload_storage_parameters_percent > 0;
    }
    return stores;
}

static bool stores_masters(const gal_plan *plan)
{
    bool stores = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        stores = stores || plan->run[r].strategy.offload_storage_masters;
    }
    return stores;
}

/* A bound of plans whose masters stay in memory is none of a plan with masters on storage. */
static void check_refusal_of_masters(const machine *m, const gal_plan *plan)
{
    gal_error err = {0};
    gal_plan other = *plan;
    assert_true(plan->certificate.host.masters);
    other.certificate.host.masters = false;
    assert_int_equal(gal_claims_check_plan(m->cache, m->durations, &other, &err), GAL_NO);
    assert_non_null(strstr(err.text, "masters on storage, its bound is of plans without"));
}

static void check_instance(const machine *m, uint64_t memory, uint64_t host, uint64_t storage, counts *n)
{
    gal_error err = {0};
    gal_search_result found = {0};
    gal_search_request request = m->request;
    const double best = best_of_all(m, memory, host, storage);
    request.memory_bytes = memory;
    request.host_memory_bytes = host;
    request.storage_bytes = storage;
    must(gal_host_limited_search(&request, &found, &err), &err);
    n->instances++;
    assert_true(found.feasible == (best < HUGE_VAL) || request.storage_parameters);
    assert_true(!found.feasible || best < HUGE_VAL);
    if (found.feasible) {
        const gal_finalist *f = &found.finalist[0];
        const double seconds = f->objective_seconds, bound = found.lower_bound_seconds;
        const bool closed = bound >= seconds * (1.0 - rounding);
        assert_true(seconds >= best * (1.0 - rounding));
        assert_true(bound <= best * (1.0 + rounding));
        assert_true(f->plan.lower_bound_seconds <= best * (1.0 + rounding));
        assert_true(!closed || seconds <= best * (1.0 + rounding));
        n->weights += stores_weights(&f->plan);
        check_plan(m, &f->plan, host, storage);
        if (gal_plan_stores(&f->plan) && f->plan.certificate.host.host_memory_bytes > 0 && n->refused++ == 0) {
            check_refusals(m, &f->plan);
        }
        if (stores_masters(&f->plan) && f->plan.certificate.host.host_memory_bytes > 0 && n->refused_masters++ == 0) {
            check_refusal_of_masters(m, &f->plan);
        }
        n->feasible++;
        n->stored += gal_plan_stores(&f->plan);
        n->masters += stores_masters(&f->plan);
        n->closed += closed;
        n->exact += seconds <= best * (1.0 + rounding);
        n->worst_gap = fmax(n->worst_gap, seconds / bound - 1.0);
    }
    gal_search_result_free(&found);
}

/* Machines, each within several limits. */
static void check_machines(uint32_t machines, variant stores, uint64_t random, counts *n)
{
    static menu menus[2][2];
    bool known[2][2] = {{false}};
    for (uint32_t i = 0; i < machines; i++) {
        machine m;
        const bool tied = i % 2 == 1;
        const uint32_t devices = i % 3 == 2 ? 2 : 1;
        draw_machine(&random, devices, tied, stores, &m);
        list_paths(&m, devices, stores, &menus[tied][devices - 1], &known[tied][devices - 1]);
        check_charges(&m, stores, n);
        const uint64_t least = least_memory(&m, HUGE_VAL);
        const uint64_t most = least_memory(&m, best_of_all(&m, UINT64_MAX, UINT64_MAX, UINT64_MAX));
        for (uint32_t k = 0; k < LIMITS; k++) {
            const uint64_t memory = least + (most - least) * (1 + k % 3) / 4;
            const uint64_t storage = k % 3 == 0 ? 0 : some_storage;
            const uint64_t low = least_host(&m, memory, storage, HUGE_VAL);
            const uint64_t high = least_host(&m, memory, storage, best_of_all(&m, memory, UINT64_MAX, storage));
            const uint64_t drawn = low + (high - low) / 16 * gal_random_below(&random, 16);
            const uint64_t host = drawn > 0 ? drawn : 1; /* 0: no limit */
            check_instance(&m, memory, k == 0 && low > 0 ? low - 1 : host, storage, n);
        }
        close_machine(&m);
    }
    printf("%u instances: %u can be met, %u with moments on storage, %u with masters; %u equal to the best of all "
           "choices, "
           "%u said to be; worst gap %.2f %%\n",
           n->instances, n->feasible, n->stored, n->masters, n->exact, n->closed, 100.0 * n->worst_gap);
    assert_true(n->feasible > n->instances * 3 / 4 && n->feasible < n->instances && n->stored > n->instances / 10);
    assert_true(n->refused > 0);
}

static bool is_long(void)
{
    const char *plans = getenv("PLANS");
    return plans != NULL && strtoul(plans, NULL, 10) >= PLANS_ALL;
}

static void test_every_choice(void **state)
{
    (void)state;
    counts n = {0};
    check_machines(is_long() ? MACHINES_ALL : MACHINES, MOMENTS, 7, &n);
    assert_int_equal(n.exact, n.feasible);
}

static void test_masters(void **state)
{
    (void)state;
    counts n = {0};
    check_machines(is_long() ? MACHINES_ALL : NARROW, MASTERS_TOO, 11, &n);
    assert_int_equal(n.exact, n.feasible);
    assert_true(n.masters > n.instances / 10);
    assert_true(n.refused_masters > 0 && n.charged_more > 0);
}

/* Weights are on storage in all blocks or in none, and bounds take their reads for nothing: plans need not be the best
 * ones, but no bound is above those. */
static void test_weights(void **state)
{
    (void)state;
    counts n = {0};
    check_machines(is_long() ? MACHINES_ALL : WEIGHTS, WEIGHTS_TOO, 13, &n);
    assert_true(n.weights > 0 && n.charged_more > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_choice), cmocka_unit_test(test_masters),
                                       cmocka_unit_test(test_weights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
