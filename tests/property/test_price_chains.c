/* Prices against chains of blocks that are lowered whole for every one: bit for bit, for every kind of block of every
 * family of the catalogue. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/chain_queues.h"
#include "costmodel/lag.h"
#include "costmodel/price_cache.h"
#include "planner/space/strategy_space.h"
#include "schemas/plan_check.h"
#include "tests/support/chain_run.h"
#include "tests/support/random_plan.h"

/* Of the chains that were run last. */
typedef struct run_memory {
    uint32_t count;
    gal_block_memory of[64];
} run_memory;

typedef struct bed {
    gal_model model;
    gal_cluster cluster;
    gal_durations *durations;
    gal_price_cache *cache;
    run_memory *memory;
    uint32_t compared, refused;
    uint32_t hidden;  /* of those compared: neighbours hide something of them */
    double overdrawn; /* share of its backward by which a turn may hide more than the block takes; 0 but where named */
} bed;

static void make_bed(const char *model, gal_dtype dtype, const char *cluster, bed *b)
{
    gal_error err = {0};
    *b = (bed){.memory = calloc(1, sizeof *b->memory)};
    assert_non_null(b->memory);
    assert_int_equal(gal_model_read(model, &b->model, &err), GAL_OK);
    b->model.compute_dtype = dtype;
    assert_int_equal(gal_cluster_read(cluster, &b->cluster, &err), GAL_OK);
    assert_int_equal(gal_durations_create_analytic(&b->cluster, &b->durations, &err), GAL_OK);
    assert_int_equal(gal_price_cache_create(&b->model, b->durations, &b->cache, &err), GAL_OK);
}

static void free_bed(bed *b)
{
    gal_price_cache_free(b->cache);
    gal_durations_free(b->durations);
    free(b->memory);
}

/* ---- as costmodel/price.h has it ---- */

static gal_code run(const bed *b, const gal_price_query *query, const uint32_t *type, uint32_t count, uint32_t place,
                    gal_chain_times *t, gal_block_price *out)
{
    gal_error err = {0};
    gal_chain_spec chain = {.model = &b->model, .durations = b->durations, .query = query, .block_count = count};
    for (uint32_t i = 0; i < count; i++) {
        chain.type[i] = type[i];
        chain.strategy[i] = query->strategy;
    }
    memset(out, 0, sizeof *out);
    gal_block_memory *memory = &b->memory->of[b->memory->count++ % (sizeof b->memory->of / sizeof *b->memory->of)];
    out->memory = memory;
    const gal_code code = gal_chain_run(&chain, t, place, memory, &err);
    if (code == GAL_OK) {
        out->update_seconds = t->update_seconds;
        memcpy(out->shared_update_seconds, t->shared_update_seconds, sizeof t->shared_update_seconds);
    }
    return code;
}

static gal_code run_sync(const bed *b, const gal_price_query *query, const uint32_t *type, uint32_t count,
                         double *seconds)
{
    gal_error err = {0};
    gal_chain_spec chain = {.model = &b->model, .durations = b->durations, .query = query, .block_count = count};
    for (uint32_t i = 0; i < count; i++) {
        chain.type[i] = type[i];
        chain.strategy[i] = query->strategy;
    }
    return gal_chain_run_sync(&chain, seconds, &err);
}

/* Less than so much of backward is rounding (costmodel/price_times.c). */
static double added_by_sync(const gal_chain_times *t)
{
    const double added = t->sync_seconds - t->late_seconds;
    return fabs(added) > 1e-11 * t->backward_seconds ? added : 0.0;
}

static double added_by_first(const gal_chain_times *t)
{
    const double added = t->first_forward_seconds - t->forward_seconds;
    return fabs(added) > 1e-11 * t->first_forward_seconds ? added : 0.0;
}

/* Blocks of an even stage. */
static double stage_blocks(const bed *b, const gal_price_query *query)
{
    return 1.0 * gal_model_block_count(&b->model) * query->device_count / b->cluster.device_count;
}

/* As costmodel/lag.h has it: in parts on the only stage. */
static void part_sync(const bed *b, const gal_price_query *query, const gal_block_shape *shape,
                      const gal_chain_times *t, gal_block_price *out)
{
    const bool first = shape->in.positions == 0, last = shape->out.positions == 0;
    out->lag_seconds = out->sync_seconds;
    if (query->device_count == b->cluster.device_count) {
        out->lag_seconds = gal_lag_seconds(b->durations, query->device_count, t, out->backward_seconds);
        gal_lag_part(first || last || gal_lag_is_awaited(query->strategy), first ? 0.0 : out->table_sync_seconds, out);
        out->once_seconds = fmax(out->once_seconds + out->first_seconds, 0.0);
    }
}

/* No less than its collectives of one stream, nor than kernels and what they wait for. */
static void take_least(const gal_price_query *query, const gal_block_shape *shape, const gal_chain_times *t,
                       gal_block_price *out)
{
    const double below = 1.0 - 1e-9;
    const bool waits = query->strategy->tp_mode == GAL_TP_1D && query->strategy->overlap == GAL_OVERLAP_NONE &&
                       gal_strategy_ring_degree(query->strategy) == 1 && shape->kind != GAL_BLOCK_CROSS_ATTENTION;
    const double alone = t->own_forward_seconds + (waits ? t->tensor_forward_seconds : 0.0);
    const double with_sync = below * fmax(t->own_backward_seconds, t->stream_sync_seconds);
    out->forward_seconds = fmax(out->forward_seconds, below * fmax(alone, t->stream_forward_seconds));
    out->sync_seconds = fmax(out->sync_seconds, with_sync - out->backward_seconds);
}

/* Two of them, three under ZeRO-2 and 3; one more where the first holds a tensor for all. What sync adds is by one less
 * as well. */
static gal_code inner_price(const bed *b, const gal_price_query *query, const gal_block_shape *shape,
                            gal_block_price *out)
{
    gal_chain_times t;
    double shorter_sync_seconds = 0.0;
    const uint32_t type[GAL_CHAIN_MAX] = {query->type, query->type, query->type, query->type};
    const uint32_t steady = shape->shared != 0 ? 1 : 0;
    const uint32_t count = (query->strategy->zero_stage >= 2 ? 3 : 2) + steady;
    gal_code code = run(b, query, type, count, 0, &t, out);
    code = code == GAL_OK ? run_sync(b, query, type, count - 1, &shorter_sync_seconds) : code;
    if (code == GAL_OK) {
        out->forward_seconds = t.forward_end[count - 1] - t.forward_end[count - 2];
        out->backward_seconds = t.backward_end[steady] - t.backward_end[steady + 1];
        const double added = added_by_sync(&t);
        const double with_sync = fmax(t.backward_seconds + added - shorter_sync_seconds, t.own_backward_seconds);
        out->sync_seconds = added == 0.0 ? 0.0 : with_sync - out->backward_seconds;
        out->enter_seconds = t.forward_seconds - count * out->forward_seconds;
        out->leave_seconds = t.backward_seconds - count * out->backward_seconds;
        out->tail_seconds = added - count * out->sync_seconds;
        out->wait_seconds = fmax(t.left_seconds - out->forward_seconds * stage_blocks(b, query), 0.0);
        out->wait_seconds = fmin(out->wait_seconds, fmax(-out->leave_seconds, 0.0));
        out->leave_seconds += out->wait_seconds;
        for (uint32_t level = 0; level < GAL_LINK_LEVELS_MAX; level++) {
            const double round = out->forward_seconds + out->backward_seconds;
            out->link_share[level] = t.link_seconds[level] < round ? t.link_seconds[level] / round : 1.0;
        }
        take_least(query, shape, &t, out);
        part_sync(b, query, shape, &t, out);
    }
    return code;
}

/* Never two in a row. */
static bool is_single(const gal_block_shape *shape)
{
    return shape->kind == GAL_BLOCK_BRIDGE || shape->kind == GAL_BLOCK_MERGE;
}

/* The type of the block in front of the first one of this type. */
static uint32_t type_before(const gal_model *model, uint32_t type)
{
    uint32_t block = 1;
    while (gal_model_block_type(model, block) != type) {
        block++;
    }
    return gal_model_block_type(model, block - 1);
}

/* Of the blocks that an end or a single one is priced beside. */
static uint32_t type_beside(const gal_model *model, uint32_t type, const gal_block_shape *shape)
{
    const bool head = shape->out.positions == 0;
    return shape->kind == GAL_BLOCK_MERGE ? type_before(model, type)
                                          : gal_model_block_type(model, head ? gal_model_block_count(model) - 2 : 1);
}

/* The turn to backward, of a single one, too, and so that both take no less than nothing. */
static void take_turn(const gal_chain_times *t, const gal_block_price *beside, gal_block_price *out)
{
    const double both = fmax(t->backward_seconds - 2 * beside->backward_seconds, 0.0);
    out->backward_seconds = fmax(t->own_backward_seconds, both - (beside->leave_seconds - beside->wait_seconds));
    out->leave_seconds = both - out->backward_seconds + beside->wait_seconds;
    out->enter_seconds = beside->enter_seconds;
}

/* What the table of an embedding leaves beyond what its neighbours wait for; a head begins the only stage's backward.
 */
static gal_code table_wait(const bed *b, const gal_price_query *query, const gal_chain_times *t,
                           const gal_block_price *beside, const gal_block_price *embedding, double *seconds)
{
    gal_code code = GAL_OK;
    gal_chain_times with_head = {0};
    gal_block_price unused;
    const uint32_t last = gal_model_block_count(&b->model) - 1;
    const uint32_t type[] = {gal_model_block_type(&b->model, last - 1), gal_model_block_type(&b->model, last - 1),
                             gal_model_block_type(&b->model, last)};
    const double left = t->left_seconds - embedding->forward_seconds - beside->forward_seconds * stage_blocks(b, query);
    gal_block_shape shape;
    gal_model_type(&b->model, type[2], &shape);
    const bool only = query->device_count == b->cluster.device_count &&
                      gal_strategy_block_rule_broken(&b->model, &shape, query->strategy, query->device_count,
                                                     query->microbatch_samples) == NULL;
    if (only && left > beside->wait_seconds) {
        code = run(b, query, type, 3, 2, &with_head, &unused);
    }
    *seconds = fmax(left - with_head.own_backward_seconds - beside->wait_seconds, 0.0);
    return code;
}

/* What two blocks gain by it, and no less than its kernels take. */
static gal_code end_price(const bed *b, const gal_price_query *query, const gal_block_shape *shape,
                          gal_block_price *out)
{
    gal_chain_times t;
    gal_block_price beside;
    gal_block_shape inner;
    const bool head = shape->out.positions == 0;
    const bool behind = head || is_single(shape);
    gal_price_query near = *query, first = *query;
    near.type = type_beside(&b->model, query->type, shape);
    first.type = gal_model_block_type(&b->model, 0);
    gal_model_type(&b->model, near.type, &inner);
    const uint32_t type[] = {behind ? near.type : query->type, near.type, behind ? query->type : near.type};
    gal_code code = inner_price(b, &near, &inner, &beside);
    code = code == GAL_OK ? run(b, query, type, 3, behind ? 2 : 0, &t, out) : code;
    if (code == GAL_OK) {
        out->forward_seconds = fmax(t.own_forward_seconds, t.forward_seconds - 2 * beside.forward_seconds -
                                                               (behind ? beside.enter_seconds : 0.0));
        out->backward_seconds =
            fmax(t.own_backward_seconds, t.backward_seconds - 2 * beside.backward_seconds -
                                             (head ? 0.0 : beside.leave_seconds - beside.wait_seconds));
        out->sync_seconds = added_by_sync(&t) - 2 * beside.sync_seconds - (behind ? beside.tail_seconds : 0.0);
    }
    if (code == GAL_OK && is_single(shape)) {
        take_turn(&t, &beside, out);
    }
    if (code == GAL_OK) {
        out->sync_seconds = fmax(out->sync_seconds, t.own_backward_seconds - out->backward_seconds);
    }
    if (code == GAL_OK && !behind) {
        double wait = 0.0;
        code = table_wait(b, query, &t, &beside, out, &wait);
        out->backward_seconds += wait;
        out->first_seconds = query->device_count == b->cluster.device_count ? added_by_first(&t) : 0.0;
    }
    memcpy(out->link_share, beside.link_share, sizeof out->link_share);
    if (code == GAL_OK && behind && (shape->shared >> GAL_SHARED_TABLE & 1U) != 0) {
        gal_block_price embedding;
        gal_block_shape first_shape;
        gal_model_type(&b->model, first.type, &first_shape);
        code = end_price(b, &first, &first_shape, &embedding);
        out->sync_seconds = fmax(out->sync_seconds, 0.0);
        out->table_sync_seconds = fmin(out->sync_seconds, fmax(embedding.sync_seconds, 0.0));
        out->tail_seconds = head ? 0.0 : embedding.sync_seconds - out->table_sync_seconds;
    }
    if (code == GAL_OK) {
        part_sync(b, query, shape, &t, out);
    }
    return code;
}

/* ---- what neighbours hide ---- */

static bool is_end(const gal_block_shape *shape)
{
    return shape->in.positions == 0 || shape->out.positions == 0 || is_single(shape);
}

static gal_code price_of(const bed *b, const gal_price_query *query, const gal_block_shape *shape, gal_block_price *out)
{
    return is_end(shape) ? end_price(b, query, shape, out) : inner_price(b, query, shape, out);
}

/* Four fifths of what is waited for. */
static double most_of(double seconds, double without_seconds, double share, double most_seconds)
{
    const double waits = share * (seconds - 1.2 * without_seconds);
    return waits > 0.0 ? fmin(0.8 * waits, most_seconds) : 0.0;
}

/* Of ZeRO-3, by what the same takes under ZeRO-1. */
static void take_hidden(const bed *b, const gal_price_query *query, const gal_block_shape *shape, gal_block_price *out)
{
    gal_strategy without = *query->strategy;
    gal_price_query alike = *query, near = *query;
    gal_block_shape near_shape = *shape;
    gal_block_price own, beside;
    without.zero_stage = 1;
    alike.strategy = near.strategy = &without;
    if (is_end(shape)) {
        near.type = type_beside(&b->model, query->type, shape);
        gal_model_type(&b->model, near.type, &near_shape);
    }
    assert_int_equal(price_of(b, &alike, shape, &own), GAL_OK);
    assert_int_equal(price_of(b, &near, &near_shape, &beside), GAL_OK);
    const double f = out->forward_seconds, g = out->backward_seconds + fmin(out->sync_seconds, 0.0);
    const double times = is_end(shape) ? 6.0 : 2.5;
    const double most_f = times * beside.forward_seconds, most_g = times * beside.backward_seconds;
    const double half = most_of(g, own.backward_seconds, 0.5, most_g);
    if (shape->in.positions == 0) {
        out->hidden_behind = (gal_pass_seconds){most_of(f, own.forward_seconds, 1.0, most_g), half};
    } else if (shape->out.positions == 0) {
        out->hidden_before = (gal_pass_seconds){most_of(f, own.forward_seconds, 1.0, most_f),
                                                most_of(g, own.backward_seconds, 1.0, most_f + most_g)};
    } else {
        out->hidden_before = (gal_pass_seconds){most_of(f, own.forward_seconds, 1.0, most_f), half};
        out->hidden_behind = (gal_pass_seconds){0.0, half};
    }
}

/* ---- the comparison ---- */

static void compare(bed *b, const gal_price_query *query, const gal_block_shape *shape)
{
    gal_error err = {0};
    gal_block_price expected;
    const gal_block_price *price = NULL;
    const gal_code code = price_of(b, query, shape, &expected);
    assert_int_equal(gal_price_block(b->cache, query, &price, &err), code);
    if (code != GAL_OK) {
        assert_int_equal(code, GAL_ERR_DOCUMENT);
        b->refused++;
        return;
    }
    if (query->strategy->zero_stage == 3) {
        take_hidden(b, query, shape, &expected);
        b->hidden += price->hidden_before.forward_seconds + price->hidden_behind.backward_seconds > 0.0;
    }
    expected.on_device = (gal_pass_seconds){expected.forward_seconds, expected.backward_seconds};
    gal_block_memory memory = *expected.memory;
    memory.bytes.boundary = price->memory->bytes.boundary; /* of the next block: price_common.c */
    expected.memory = memcmp(&memory, price->memory, sizeof memory) == 0 ? price->memory : NULL;
    if (memcmp(&expected, price, sizeof expected) != 0) {
        char name[GAL_STRATEGY_NAME_BYTES];
        fail_msg("%s, type %u, %s, %u samples, stage %u of %u: forward %.17g for %.17g", b->model.name, query->type,
                 gal_strategy_name(query->strategy, name), query->microbatch_samples, query->stage, query->stage_count,
                 price->forward_seconds, expected.forward_seconds);
    }
    /* a turn gains no more than its block takes, nor than is left of it where neighbours hide what they can */
    assert_true(price->forward_seconds + price->enter_seconds >= 0.0);
    assert_true(price->backward_seconds + price->leave_seconds >= -b->overdrawn * price->backward_seconds);
    assert_true(gal_price_least_forward(price) >= 0.0 && gal_price_least_backward(price) >= 0.0);
    assert_true(price->sync_seconds >= price->table_sync_seconds || price->table_sync_seconds == 0.0);
    b->compared++;
}

/* Samples per device, by turns: the first is lowered, others are had from it. The last has tensors of more than 2^32
 * elements. */
static const uint32_t per_device[] = {1, 3, 8, 5, 1 << 14};
enum { BATCHES = sizeof per_device / sizeof per_device[0] };

/* Every `stride`-th strategy of a stage, all types of block, the first batches. */
static void compare_stage(bed *b, uint32_t stage, uint32_t stage_count, uint32_t stride, uint32_t batches)
{
    static gal_strategy strategy[GAL_SPACE_MAX];
    gal_space space;
    gal_space_all(&space);
    const uint32_t devices = b->cluster.device_count / stage_count;
    const uint32_t count = gal_space_strategies(&space, devices, strategy);
    for (uint32_t i = 0; i < count; i += stride) {
        for (uint32_t type = 0; type < gal_model_type_count(&b->model); type++) {
            gal_block_shape shape;
            gal_model_type(&b->model, type, &shape);
            for (uint32_t n = 0; n < batches; n++) {
                const gal_price_query query = {.type = type,
                                               .strategy = &strategy[i],
                                               .device_count = devices,
                                               .stage = stage,
                                               .stage_count = stage_count,
                                               .microbatch_samples = devices * per_device[n],
                                               .prefetch_depth = 1 + i % 2};
                if (gal_strategy_block_rule_broken(&b->model, &shape, query.strategy, devices,
                                                   query.microbatch_samples) == NULL) {
                    compare(b, &query, &shape);
                }
            }
        }
    }
}

static void every_family(void **unused)
{
    static const char *const models[] = {"gpt2-xl",   "gpt3-175b",  "bert-large", "llama3-8b",  "llama2-7b",
                                         "vit-large", "swin-large", "t5-base",    "t5-large-48"};
    (void)unused;
    for (uint32_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        bed b;
        make_bed(models[i], GAL_FP32, "h100-8", &b);
        compare_stage(&b, 1, 4, 1, BATCHES);
        compare_stage(&b, 0, 1, 3, BATCHES);
        assert_true(b.compared > 500 && b.refused > 100);
        free_bed(&b);
        make_bed(models[i], GAL_BF16, "h100-8", &b);
        compare_stage(&b, 1, 4, 2, BATCHES);
        compare_stage(&b, 0, 1, 7, BATCHES);
        assert_true(b.compared > 200 && b.refused > 40);
        free_bed(&b);
    }
}

/* Strategies whose groups lie alike are priced once. */
static void every_order(void **unused)
{
    static const struct {
        const char *model;
        gal_dtype dtype;
        const char *cluster;
        uint32_t stage_count, stride;
    } cases[] = {{"gpt2-medium", GAL_FP32, "h100-8", 1, 1},  {"gpt2-medium", GAL_FP32, "h100-64", 1, 1},
                 {"gpt3-175b", GAL_FP32, "h100-64", 4, 1},   {"t5-base", GAL_FP32, "a100-64", 2, 1},
                 {"t5-large-48", GAL_FP32, "a100-64", 1, 2}, {"bert-large", GAL_FP32, "h100-1024", 4, 23},
                 {"llama3-8b", GAL_BF16, "h100-64", 1, 3},   {"gpt3-175b", GAL_BF16, "h100-64", 4, 3},
                 {"qwen2-7b", GAL_BF16, "rtx3090-32", 1, 5}, {"t5-base", GAL_BF16, "a100-64", 2, 3}};
    (void)unused;
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bed b;
        make_bed(cases[i].model, cases[i].dtype, cases[i].cluster, &b);
        /* The bridge of T5 in 16 bits under tp4.sp-sdp8.z3 is overdrawn by 0.93 %: the slope of its short chain. */
        b.overdrawn = strcmp(cases[i].model, "t5-base") == 0 && cases[i].dtype == GAL_BF16 ? 0.01 : 0.0;
        compare_stage(&b, cases[i].stage_count - 1, cases[i].stage_count, cases[i].stride, 1);
        assert_true(b.compared > 100 && b.hidden > 20);
        free_bed(&b);
    }
}

/* Of stages of 6 devices on machines of 8 some are in one, others in two. */
static void every_place(void **unused)
{
    (void)unused;
    bed b;
    make_bed("gpt3-175b", GAL_BF16, "h100-64", &b);
    gal_durations_free(b.durations);
    gal_error err = {0};
    b.cluster.device_count = 48;
    assert_int_equal(gal_durations_create_analytic(&b.cluster, &b.durations, &err), GAL_OK);
    gal_price_cache_free(b.cache);
    assert_int_equal(gal_price_cache_create(&b.model, b.durations, &b.cache, &err), GAL_OK);
    for (uint32_t stage = 0; stage < 4; stage++) {
        compare_stage(&b, stage, 8, 1, 1);
    }
    assert_true(b.compared > 400);
    free_bed(&b);
}

/* ---- conversions ---- */

static bool legal(const bed *b, uint32_t type, const gal_strategy *strategy, const gal_price_query *query)
{
    gal_block_shape shape;
    gal_model_type(&b->model, type, &shape);
    return gal_strategy_block_rule_broken(&b->model, &shape, strategy, query->device_count,
                                          query->microbatch_samples) == NULL;
}

/* Neighbours of the model under random strategies: two of a block where it follows itself (costmodel/price_pair.c). */
static void compare_pair(const bed *b, gal_chain_queues *queues, const gal_strategy *strategy, uint32_t count,
                         uint64_t *state, uint32_t *compared)
{
    gal_error err = {0};
    gal_block_memory memory;
    gal_chain_times expected = {0};
    gal_chain_times times = {0};
    const uint32_t block = 1 + gal_random_below(state, gal_model_block_count(&b->model) - 1);
    const gal_strategy *from = &strategy[gal_random_below(state, count)];
    const gal_strategy *to = &strategy[gal_random_below(state, count)];
    const uint32_t type[] = {gal_model_block_type(&b->model, block - 1), gal_model_block_type(&b->model, block)};
    const gal_price_query query = {.device_count = b->cluster.device_count / 2,
                                   .stage = 1,
                                   .stage_count = 2,
                                   .microbatch_samples = b->cluster.device_count * (1 + gal_random_below(state, 3)),
                                   .prefetch_depth = 2};
    const gal_chain_spec chain = {.model = &b->model,
                                  .durations = b->durations,
                                  .query = &query,
                                  .block_count = 2,
                                  .type = {type[0], type[1]},
                                  .strategy = {from, to}};
    if (!legal(b, type[0], from, &query) || !legal(b, type[1], to, &query)) {
        return;
    }
    const gal_code code = gal_chain_run(&chain, &expected, 1, &memory, &err);
    assert_int_equal(gal_chain_queues_run(queues, &chain, &times, &err), code);
    if (code != GAL_OK) { /* a tensor is too large */
        return;
    }
    times.own_forward_seconds = expected.own_forward_seconds;
    times.own_backward_seconds = expected.own_backward_seconds;
    memcpy(times.link_seconds, expected.link_seconds, sizeof times.link_seconds);
    times.tensor_forward_seconds = expected.tensor_forward_seconds;
    times.stream_forward_seconds = expected.stream_forward_seconds;
    times.stream_sync_seconds = expected.stream_sync_seconds;
    times.reduced_seconds = expected.reduced_seconds;
    memcpy(times.beside_seconds, expected.beside_seconds, sizeof times.beside_seconds);
    times.update_seconds = expected.update_seconds;
    memcpy(times.shared_update_seconds, expected.shared_update_seconds, sizeof times.shared_update_seconds);
    assert_memory_equal(&times, &expected, sizeof times);
    ++*compared;
}

static void conversions(void **unused)
{
    static const char *const models[] = {"gpt2-medium", "bert-large", "llama3-8b",
                                         "vit-large",   "swin-large", "t5-large-48"};
    static gal_strategy strategy[GAL_SPACE_MAX];
    (void)unused;
    uint64_t state = 20261121;
    for (uint32_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        bed b;
        gal_error err = {0};
        gal_space space;
        gal_chain_queues *queues = NULL;
        gal_known_kernels *known = calloc(1, sizeof *known);
        uint32_t compared = 0;
        assert_non_null(known);
        make_bed(models[i], i / 2 % 2 == 0 ? GAL_FP32 : GAL_BF16, i % 2 == 0 ? "h100-64" : "a100-16", &b);
        gal_space_all(&space);
        const uint32_t count = gal_space_strategies(&space, b.cluster.device_count / 2, strategy);
        assert_int_equal(gal_chain_queues_create(known, &queues, &err), GAL_OK);
        for (uint32_t n = 0; n < 1000; n++) {
            compare_pair(&b, queues, strategy, count, &state, &compared);
        }
        assert_true(compared > 150);
        gal_chain_queues_free(queues);
        free(known);
        free_bed(&b);
    }
}

/* ---- conversions that are alike ---- */

/* By a cache of all pairs, and by one that has met no other: there the costs that are put into the chain's queues are
 * compared with those of the chain itself (costmodel/crossing.c). */
static void compare_alike(const bed *b, const gal_strategy *from, const gal_strategy *to, uint32_t block,
                          uint32_t *compared)
{
    gal_error err = {0};
    gal_price_cache *own = NULL;
    const gal_pair_price *shared = NULL;
    const gal_pair_price *alone = NULL;
    const uint32_t type[] = {gal_model_block_type(&b->model, block - 1), gal_model_block_type(&b->model, block)};
    const gal_price_query query = {.type = type[0],
                                   .strategy = from,
                                   .device_count = b->cluster.device_count,
                                   .stage_count = 1,
                                   .microbatch_samples = 3 * b->cluster.device_count,
                                   .prefetch_depth = 2};
    if (!legal(b, type[0], from, &query) || !legal(b, type[1], to, &query)) {
        return;
    }
    const gal_code code = gal_price_pair(b->cache, &query, type[1], to, &shared, &err);
    assert_int_equal(gal_price_cache_create(&b->model, b->durations, &own, &err), GAL_OK);
    assert_int_equal(gal_price_pair(own, &query, type[1], to, &alone, &err), code);
    if (code == GAL_OK) {
        assert_int_equal(memcmp(&shared->forward_seconds, &alone->forward_seconds, sizeof shared->forward_seconds), 0);
        assert_int_equal(memcmp(&shared->backward_seconds, &alone->backward_seconds, sizeof shared->backward_seconds),
                         0);
        assert_int_equal(memcmp(&shared->sync_seconds, &alone->sync_seconds, sizeof shared->sync_seconds), 0);
        assert_int_equal(shared->converts, alone->converts);
        assert_int_equal(shared->relayout_bytes, alone->relayout_bytes);
        assert_int_equal(shared->relayout_entry_bytes, alone->relayout_entry_bytes);
        assert_int_equal(own->alike.entry_count, shared->converts); /* it was not lowered for itself */
        *compared += shared->converts;
    }
    gal_price_cache_free(own);
}

/* Orders of few axes: the same conversions by other names of the atoms. */
static void alike(void **unused)
{
    static const char *const models[] = {"gpt2-medium", "bert-large", "llama3-8b",
                                         "t5-large-48", "vit-base",   "swin-large"};
    static const char *const spaces[] = {
        "dp,tp", "dp,tp,sp,ulysses,zigzag", "dp,tp,2d,3d", "zero1,tp,ring,2.5d", "dp,tp,2d", "zero1,tp,2d"};
    static gal_strategy strategy[GAL_SPACE_MAX];
    (void)unused;
    uint64_t state = 20261122;
    for (uint32_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        bed b;
        gal_error err = {0};
        gal_space space = {0};
        uint32_t compared = 0;
        make_bed(models[i], i / 2 % 2 == 0 ? GAL_BF16 : GAL_FP32, i % 2 == 0 ? "rtx3090-nvlink-32" : "colossal-3", &b);
        assert_int_equal(gal_space_parse(spaces[i], &space, &err), GAL_OK);
        const uint32_t count = gal_space_strategies(&space, b.cluster.device_count, strategy);
        for (uint32_t n = 0; n < 6000 && compared < 120; n++) {
            const gal_strategy *from = &strategy[gal_random_below(&state, count)];
            const gal_strategy *to = &strategy[gal_random_below(&state, count)];
            compare_alike(&b, from, to, 1 + gal_random_below(&state, gal_model_block_count(&b.model) - 1), &compared);
        }
        assert_true(compared == 120);
        assert_in_range(b.cache->alike.entry_count, 1, compared - 1); /* some were like others */
        free_bed(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family), cmocka_unit_test(every_order), cmocka_unit_test(every_place),
        cmocka_unit_test(conversions),  cmocka_unit_test(alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
