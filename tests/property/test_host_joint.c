/* Strategies and what of each block is on storage together, within limits of device, host and storage: against every
 * choice of both for every block of small models. What is claimed as optimal is; what is not lies between the bound and
 * the plan. */
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
    LISTED_MAX = 256,
    TYPES = 4,
    CELLS_MAX = 4,
    MACHINES_ALL = 50,
    PLANS_ALL = 1000,
    ALIKE = 2
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

/* What may be on storage beside moments: activations; masters, of 16 bits; weights. */
typedef enum variant { ACTIVATIONS_TOO, MASTERS_TOO, WEIGHTS_TOO } variant;

typedef struct machine {
    gal_model model;
    gal_cluster cluster;
    gal_durations *durations;
    gal_price_cache *cache;
    gal_search_request request;
    gal_every_path paths[CELLS_MAX];
    gal_cell *cell[CELLS_MAX];
    uint32_t cell_count;
    gal_every_path
        alike[ALIKE]; /* of the first cell: no weights and activations on storage; all that are on the host */
    gal_cell *alike_cell[ALIKE];
} machine;

typedef struct counts {
    uint32_t instances, feasible, stored, closed, exact, refused, refused_rows, charged_masters;
    uint32_t masters, weights, activations, mixed; /* plans with them on storage; of some blocks alone */
    uint32_t
        faster_mixed; /* than what has weights and activations of all blocks or of none there, or these cannot be */
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
    const bool saves = of == ACTIVATIONS_TOO; /* enough microbatches in flight for the device to be spared something */
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
                                        .microbatch_counts = {1, {saves ? 8 : 2}},
                                        .pp_degrees = {1, {devices}},
                                        .schedule = saves ? GAL_SCHEDULE_GPIPE : GAL_SCHEDULE_1F1B,
                                        .prefetch_depth = 2,
                                        .storage_masters = narrow,
                                        .storage_parameters = of == WEIGHTS_TOO,
                                        .label_limit = narrow ? 200000 : 20000}; /* more shares, more labels */
    must(gal_space_parse("dp,offload", &out->request.space, &err), &err);
    /* half and all of the optimizer, with weights, with these and activations where it is about them */
    out->request.space.offload_left_out = GAL_SPACE_OFFLOADS - (saves ? 4 : 3);
}

static bool stores_the_same(const gal_block_price *a, const gal_block_price *b)
{
    return a->memory->host.stored == b->memory->host.stored && a->memory->host.state == b->memory->host.state;
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

/* A strategy with every percentage, from its own on, that stores something else for the type than the one before, which
 * stores as `before` says. Holders of a token table of several have each where any of them changes. */
static void add_percents(const gal_cell *cell, uint32_t type, const gal_strategy *of, bool masters,
                         const gal_block_price *before, menu *out)
{
    gal_error err = {0};
    gal_strategy strategy = *of;
    const uint32_t least = masters && of->offload_storage_percent == 0 ? 1 : of->offload_storage_percent;
    strategy.offload_storage_masters = masters;
    for (uint32_t percent = least; percent <= strategy.offload_optimizer_percent; percent++) {
        const gal_block_price *price = NULL;
        strategy.offload_storage_percent = percent;
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
            if ((before == NULL || !stores_the_same(before, price)) && (other == type || both)) {
                add_listed(out, &strategy, other);
            }
        }
        before = price;
    }
}

/* Every percentage is priced, with masters and without. */
static void make_menu(const gal_cell *cell, variant stores, menu *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t type = 0; type < cell->types.type_count; type++) {
        for (uint32_t i = 0; i < cell->strategy_count; i++) {
            const uint32_t last = cell->spec.pp_degree - 1;
            const uint32_t stage = type == cell->types.type_of[0] ? 0 : last;
            const gal_block_price *own =
                cell->price[gal_cell_price_index(cell, cell->types.type_first[type], stage, i)];
            if (own != NULL) {
                add_percents(cell, type, &cell->strategy[i], false, NULL, out);
                if (stores == MASTERS_TOO) {
                    add_percents(cell, type, &cell->strategy[i], true, own, out);
                }
            }
        }
    }
}

/* Whether what of weights and activations is on the host is on storage, or nothing of it. */
static bool stores_alike(const gal_strategy *strategy, bool all)
{
    const bool weights = strategy->offload_storage_parameters_percent > 0;
    const bool activations = strategy->offload_storage_activations_percent > 0;
    return (weights == all || strategy->offload_parameters_percent == 0) &&
           (activations == all || strategy->offload_activations_percent == 0);
}

/* Of each cell all paths, the shares among their strategies. */
static void list_paths(machine *m, uint32_t pp_degree, variant stores, menu *of, bool *known)
{
    gal_error err = {0};
    gal_cell *cell = NULL;
    static bool allowed[TYPES * LISTED_MAX];
    gal_space stored = m->request.space;
    stored.store_activations = true;
    stored.store_weights = stores == WEIGHTS_TOO;
    gal_cell_spec spec = {.model = &m->model,
                          .durations = m->durations,
                          .cache = m->cache,
                          .space = &stored,
                          .device_count = m->cluster.device_count,
                          .pp_degree = pp_degree,
                          .microbatch_count = m->request.microbatch_counts.value[0],
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
    for (uint32_t all = 0; all < ALIKE; all++) {
        for (uint32_t i = 0; i < of->count * TYPES; i++) {
            allowed[i] = of->allowed[i / of->count * LISTED_MAX + i % of->count] &&
                         stores_alike(&of->listed[i % of->count], all > 0);
        }
        must(gal_cell_create(&spec, &m->alike_cell[all], &err), &err);
        gal_every_path_list(m->alike_cell[all], &m->alike[all]);
    }
}

static void close_machine(machine *m)
{
    for (uint32_t i = 0; i < m->cell_count; i++) {
        gal_every_path_free(&m->paths[i]);
        gal_cell_free(m->cell[i]);
    }
    for (uint32_t all = 0; all < ALIKE; all++) {
        gal_every_path_free(&m->alike[all]);
        gal_cell_free(m->alike_cell[all]);
    }
    gal_price_cache_free(m->cache);
    gal_durations_free(m->durations);
}

/* ---- charges ---- */

static bool is_share_of(const gal_strategy *strategy, const gal_strategy *plain)
{
    gal_strategy own = *strategy;
    own.offload_storage_percent = plain->offload_storage_percent;
    own.offload_storage_masters = false;
    return strategy->offload_storage_percent >= plain->offload_storage_percent && gal_strategy_equal(&own, plain);
}

/* The least of all shares of a strategy, and whether it has masters on storage. */
static double least_charged(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t plain, double charge,
                            bool *masters)
{
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < cell->strategy_count; i++) {
        const gal_block_price *price = gal_cell_price(cell, block, stage, i);
        if (price != NULL && is_share_of(&cell->strategy[i], &cell->strategy[plain])) {
            const uint64_t kept = price->memory->host.state + price->memory->host.kept;
            const double seconds = price->update_seconds + charge * (double)kept;
            *masters = seconds < least ? cell->strategy[i].offload_storage_masters : *masters;
            least = fmin(least, seconds);
        }
    }
    return least;
}

/* Rounds are those of the strategy, whatever the share. */
static void check_rounds(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t plain,
                         const gal_block_price *charged)
{
    for (uint32_t i = 0; i < cell->strategy_count; i++) {
        const gal_block_price *price = gal_cell_price(cell, block, stage, i);
        if (price != NULL && is_share_of(&cell->strategy[i], &cell->strategy[plain])) {
            assert_true(charged->forward_seconds == price->forward_seconds);
            assert_true(charged->backward_seconds == price->backward_seconds);
            assert_true(charged->sync_seconds == price->sync_seconds);
            assert_true(charged->enter_seconds == price->enter_seconds);
            assert_true(charged->leave_seconds == price->leave_seconds);
            assert_true(charged->tail_seconds == price->tail_seconds);
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
        const gal_price_charge charge = {
            .host_seconds_per_byte = charges[c], .storage = true, .masters = stores == MASTERS_TOO};
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
            const gal_strategy *row = &cell->strategy[plain];
            if (gal_cell_price(cell, block, stage, plain) != NULL && !row->offload_storage_masters &&
                (row->offload_storage_percent == 0 || row->offload_storage_parameters_percent > 0)) {
                bool masters = false;
                const double least = least_charged(cell, block, stage, plain, charges[c], &masters);
                must(gal_price_block(charged, &query, &price, &err), &err);
                assert_true(fabs(price->update_seconds - least) <= rounding * fabs(least));
                check_rounds(cell, block, stage, plain, price);
                n->charged_masters += masters;
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

/* Runs with weights, activations and masters on storage. */
typedef struct stored {
    uint32_t weights, activations, masters;
} stored;

static stored stored_of(const gal_plan *plan)
{
    stored out = {0};
    for (uint32_t r = 0; r < plan->run_count; r++) {
        out.weights += plan->run[r].strategy.offload_storage_parameters_percent > 0;
        out.activations += plan->run[r].strategy.offload_storage_activations_percent > 0;
        out.masters += plan->run[r].strategy.offload_storage_masters;
    }
    return out;
}

/* A bound of plans without one of these on storage is none of a plan with it. */
static void check_refusal_of(const machine *m, const gal_plan *plan, size_t offset, const char *why)
{
    gal_error err = {0};
    gal_plan other = *plan;
    bool *says = (bool *)((char *)&other.certificate.host + offset);
    assert_true(*says);
    *says = false;
    assert_int_equal(gal_claims_check_plan(m->cache, m->durations, &other, &err), GAL_NO);
    if (strstr(err.text, why) == NULL) {
        fail_msg("%s", err.text);
    }
}

static void check_rows(const machine *m, const gal_plan *plan, counts *n)
{
    const stored has = stored_of(plan);
    const struct {
        bool has;
        size_t offset;
        const char *why;
    } rows[] = {{has.weights > 0, offsetof(gal_host_charge, weights), "weights on storage, its bound is"},
                {has.activations > 0, offsetof(gal_host_charge, activations), "activations on storage, its bound is"},
                {has.masters > 0, offsetof(gal_host_charge, masters), "masters on storage, its bound is"}};
    n->weights += has.weights > 0;
    n->activations += has.activations > 0;
    n->masters += has.masters > 0;
    n->mixed += (has.weights > 0 && has.weights < plan->run_count) ||
                (has.activations > 0 && has.activations < plan->run_count);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && plan->certificate.host.host_memory_bytes > 0; i++) {
        if (rows[i].has) {
            check_refusal_of(m, plan, rows[i].offset, rows[i].why);
            n->refused_rows++;
        }
    }
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
    assert_int_equal(found.feasible, best < HUGE_VAL);
    if (found.feasible) {
        const gal_finalist *f = &found.finalist[0];
        const double seconds = f->objective_seconds, bound = found.lower_bound_seconds;
        const bool closed = bound >= seconds * (1.0 - rounding);
        assert_true(seconds >= best * (1.0 - rounding));
        assert_true(bound <= best * (1.0 + rounding));
        assert_true(f->plan.lower_bound_seconds <= best * (1.0 + rounding));
        assert_true(!closed || seconds <= best * (1.0 + rounding));
        check_plan(m, &f->plan, host, storage);
        check_rows(m, &f->plan, n);
        const double alike = fmin(gal_every_path_best_within(&m->alike[0], memory, host, storage),
                                  gal_every_path_best_within(&m->alike[1], memory, host, storage));
        n->faster_mixed += seconds < alike * (1.0 - rounding);
        if (gal_plan_stores(&f->plan) && f->plan.certificate.host.host_memory_bytes > 0 && n->refused++ == 0) {
            check_refusals(m, &f->plan);
        }
        n->feasible++;
        n->stored += gal_plan_stores(&f->plan);
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
            const uint64_t memory = k % 3 == 1 ? least : least + (most - least) * (1 + k % 3) / 4;
            const uint64_t storage = k % 3 == 0 ? 0 : some_storage;
            const uint64_t low = least_host(&m, memory, storage, HUGE_VAL);
            const uint64_t high = least_host(&m, memory, storage, best_of_all(&m, memory, UINT64_MAX, storage));
            const uint64_t part = k == 1 ? 0 : gal_random_below(&random, 16); /* the least of both first */
            const uint64_t drawn = low + (high - low) / 16 * part;
            const uint64_t host = drawn > 0 ? drawn : 1; /* 0: no limit */
            check_instance(&m, memory, k == 0 && low > 0 ? low - 1 : host, storage, n);
        }
        close_machine(&m);
    }
    printf("%u instances: %u can be met, %u with something on storage: %u masters, %u weights, %u activations, %u of "
           "some blocks, %u faster by that; %u equal to the best of all choices, %u said to be; worst gap %.2f %%\n",
           n->instances, n->feasible, n->stored, n->masters, n->weights, n->activations, n->mixed, n->faster_mixed,
           n->exact, n->closed, 100.0 * n->worst_gap);
    assert_int_equal(n->exact, n->feasible);
    assert_true(n->feasible > n->instances * 3 / 4 && n->feasible < n->instances && n->stored > n->instances / 10);
    assert_true(n->refused > 0);
}

static bool is_long(void)
{
    const char *plans = getenv("PLANS");
    return plans != NULL && strtoul(plans, NULL, 10) >= PLANS_ALL;
}

static void test_activations(void **state)
{
    (void)state;
    counts n = {0};
    check_machines(is_long() ? MACHINES_ALL : MACHINES, ACTIVATIONS_TOO, 7, &n);
    assert_true(n.activations > 0 && n.mixed > 0 && n.faster_mixed > 0 && n.refused_rows > 0);
}

static void test_masters(void **state)
{
    (void)state;
    counts n = {0};
    check_machines(is_long() ? MACHINES_ALL : NARROW, MASTERS_TOO, 11, &n);
    assert_true(n.masters > n.instances / 10);
    assert_true(n.refused_rows > 0 && n.charged_masters > 0);
}

static void test_weights(void **state)
{
    (void)state;
    counts n = {0};
    check_machines(is_long() ? MACHINES_ALL : WEIGHTS, WEIGHTS_TOO, 13, &n);
    assert_true(n.weights > 0 && n.mixed > 0 && n.faster_mixed > 0 && n.refused_rows > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_activations), cmocka_unit_test(test_masters),
                                       cmocka_unit_test(test_weights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
