/* Bytes of layout conversions in closed form against lowered blocks, over random histories of the rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/relayout.h"
#include "planner/space/conversions.h"
#include "planner/space/strategy_space.h"
#include "schemas/plan_check.h"
#include "tests/support/chain_run.h"
#include "tests/support/random_plan.h"

enum { SAMPLES = 64, WALKS = 40, STEPS = 12 };

typedef struct bed {
    gal_model model;
    gal_cluster cluster;
    gal_durations *durations;
    gal_atoms atoms;
    gal_strategy strategy[GAL_SPACE_MAX];
    uint32_t strategy_count;
} bed;

static void make_bed(const char *model, gal_dtype dtype, const char *cluster, uint32_t kind, const char *axes, bed *b)
{
    gal_error err = {0};
    gal_space space = {0};
    assert_int_equal(gal_model_read(model, &b->model, &err), GAL_OK);
    b->model.compute_dtype = dtype;
    assert_int_equal(gal_cluster_read(cluster, &b->cluster, &err), GAL_OK);
    assert_int_equal(gal_durations_create_analytic(&b->cluster, &b->durations, &err), GAL_OK);
    gal_atoms_of(b->cluster.device_count, &b->atoms);
    assert_int_equal(gal_space_parse(axes, &space, &err), GAL_OK);
    const uint32_t count = gal_space_strategies(&space, b->cluster.device_count, b->strategy);
    b->strategy_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (gal_strategy_rule_broken(&b->model, (gal_block_kind)kind, &b->strategy[i], b->cluster.device_count,
                                     SAMPLES) == NULL) {
            b->strategy[b->strategy_count++] = b->strategy[i];
        }
    }
    assert_true(b->strategy_count > 10);
}

static void follow(const bed *b, const gal_layout *from, const gal_strategy *to, gal_layout *out)
{
    gal_layout_step steps[GAL_LAYOUT_STEPS_MAX];
    (void)gal_layout_enter(from, &b->atoms, to, steps, out);
}

/* Two blocks of a type, of which the second converts the rows, or the one that converts the carried tensor. */
static void lower(const bed *b, uint32_t type, const gal_layout *entry, const gal_layout *carried, uint32_t count,
                  const gal_strategy *const *strategy, gal_block_memory *memory)
{
    gal_error err = {0};
    gal_chain_times unused;
    const gal_price_query query = {
        .device_count = b->cluster.device_count, .stage_count = 1, .microbatch_samples = SAMPLES, .prefetch_depth = 2};
    gal_chain_spec chain = {.model = &b->model,
                            .durations = b->durations,
                            .query = &query,
                            .entry = entry,
                            .carried = carried,
                            .block_count = count,
                            .type = {type, type}};
    for (uint32_t i = 0; i < count; i++) {
        chain.strategy[i] = strategy[i];
    }
    assert_int_equal(gal_chain_run(&chain, &unused, count - 1, memory, &err), GAL_OK);
}

static uint32_t type_of(const gal_model *model, gal_block_kind kind)
{
    gal_block_shape shape;
    for (uint32_t type = 0; type < gal_model_type_count(model); type++) {
        gal_model_type(model, type, &shape);
        if (shape.kind == kind) {
            return type;
        }
    }
    fail_msg("%s has no such block", model->name);
    return 0;
}

/* With its works listed a conversion takes the same bytes; a step is one work or two. */
static void check_works(const bed *b, const gal_layout *now, const gal_strategy *to, gal_flow rows,
                        const gal_relayout_bytes *bytes)
{
    static gal_relayout relayout;
    gal_layout next;
    gal_layout_step steps[GAL_LAYOUT_STEPS_MAX];
    const uint32_t count = gal_layout_enter(now, &b->atoms, to, steps, &next);
    gal_relayout_of(&b->atoms, steps, count, rows, b->model.compute_dtype, &relayout);
    assert_memory_equal(&relayout.bytes, bytes, sizeof *bytes);
    assert_in_range(relayout.forward_count, count, 2 * count);
    assert_in_range(relayout.backward_count, count, 2 * count);
    for (uint32_t i = 0, begun = 0; i < relayout.forward_count; i++) {
        begun += relayout.forward[i].begins;
        assert_int_equal(relayout.forward[i].kind, steps[begun - 1].kind);
    }
}

/* Rows wander from strategy to strategy; every conversion on the way is compared. */
static void walk(const bed *b, uint32_t type, uint64_t *state, uint32_t *converted)
{
    gal_layout now, next;
    gal_block_shape shape;
    gal_block_memory memory;
    gal_model_type(&b->model, type, &shape);
    const gal_strategy *from = &b->strategy[gal_random_below(state, b->strategy_count)];
    gal_layout_whole(SAMPLES, &now);
    follow(b, &now, from, &now);
    for (uint32_t i = 0; i < STEPS; i++) {
        const gal_strategy *to = &b->strategy[gal_random_below(state, b->strategy_count)];
        const gal_strategy *both[] = {from, to};
        const gal_relayout_bytes bytes =
            gal_relayout_bytes_to(b->cluster.device_count, &now, to, shape.in, b->model.compute_dtype);
        check_works(b, &now, to, shape.in, &bytes);
        lower(b, type, &now, NULL, 2, both, &memory);
        assert_int_equal(bytes.inside, memory.bytes.relayout);
        assert_int_equal(bytes.entry, memory.relayout_entry);
        follow(b, &now, to, &next);
        if (shape.kind == GAL_BLOCK_CROSS_ATTENTION) {
            gal_layout_step steps[GAL_LAYOUT_STEPS_MAX];
            const uint32_t count = gal_layout_convert_to(&now, &b->atoms, &next, steps);
            lower(b, type, &next, &now, 1, &both[1], &memory);
            assert_int_equal(
                gal_relayout_bytes_of(&b->atoms, steps, count, shape.carried_in, b->model.compute_dtype).carried,
                memory.carried_relayout);
        }
        *converted += bytes.inside > 0;
        now = next;
        from = to;
    }
}

static void check(const char *model, gal_dtype dtype, const char *cluster, gal_block_kind kind)
{
    static bed b;
    uint64_t state = 20261121;
    uint32_t converted = 0;
    make_bed(model, dtype, cluster, kind, "dp,sdp,tp,sp,recompute,selective,2d,2.5d,3d", &b);
    for (uint32_t i = 0; i < WALKS; i++) {
        walk(&b, type_of(&b.model, kind), &state, &converted);
    }
    assert_true(converted > WALKS * STEPS / 2);
    gal_durations_free(b.durations);
}

static const gal_dtype dtypes[] = {GAL_FP32, GAL_BF16};

static void rows(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < 2; i++) {
        check("gpt2-medium", dtypes[i], "h100-8", GAL_BLOCK_FFN);
        check("gpt2-medium", dtypes[i], "h100-64", GAL_BLOCK_FFN);
    }
}

static void carried(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < 2; i++) {
        check("t5-large-48", dtypes[i], "a100-8", GAL_BLOCK_CROSS_ATTENTION);
        check("t5-large-48", dtypes[i], "a100-64", GAL_BLOCK_CROSS_ATTENTION);
    }
}

/* Strategies of every axis, drawn anew each time. */
enum { DRAWN = 8, DRAWS = 60 };

static void draw_strategies(const bed *b, uint64_t *state, gal_strategy *out)
{
    for (uint32_t i = 0; i < DRAWN; i++) {
        out[i] = b->strategy[gal_random_below(state, b->strategy_count)];
    }
}

/* Whether none of `most` is below its `exact`; counts those that are not 0. */
static void compare_most(const uint64_t *exact, const uint64_t *most, size_t count, uint32_t *converted)
{
    for (size_t i = 0; i < count; i++) {
        assert_true(exact[i] <= most[i]);
        assert_int_equal(exact[i] == 0 && most[i] > 0, 0);
        *converted += exact[i] > 0;
    }
}

/* All orders that chains of some strategies reach against what is charged where they are too many to be listed. */
static void check_any_order(const char *model, gal_dtype dtype, const char *cluster)
{
    static bed b;
    uint64_t state = 20261122;
    uint32_t converted = 0;
    gal_error err = {0};
    gal_block_types types;
    make_bed(model, dtype, cluster, GAL_BLOCK_ATTENTION,
             "dp,sdp,tp,sp,recompute,ulysses,ring,zigzag,2d,2.5d,3d,overlap", &b);
    assert_int_equal(gal_block_types_create(&b.model, b.durations, &types, &err), GAL_OK);
    for (uint32_t i = 0; i < DRAWS; i++) {
        gal_strategy drawn[DRAWN];
        gal_conversions exact, most;
        draw_strategies(&b, &state, drawn);
        assert_int_equal(gal_conversions_create(&b.model, &types, b.cluster.device_count, SAMPLES, drawn, DRAWN,
                                                UINT32_MAX, &exact, &err),
                         GAL_OK);
        assert_int_equal(
            gal_conversions_create(&b.model, &types, b.cluster.device_count, SAMPLES, drawn, DRAWN, 0, &most, &err),
            GAL_OK);
        const size_t count = (size_t)types.flow_count * exact.class_count * exact.class_count;
        assert_int_equal(exact.class_count, most.class_count);
        compare_most(exact.inside_bytes, most.inside_bytes, count, &converted);
        compare_most(exact.entry_bytes, most.entry_bytes, count, &converted);
        gal_conversions_free(&most);
        gal_conversions_free(&exact);
    }
    assert_true(converted > DRAWS * DRAWN);
    gal_block_types_free(&types);
    gal_durations_free(b.durations);
}

static void any_order(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < 2; i++) {
        check_any_order("gpt2-medium", dtypes[i], "h100-8");
        check_any_order("gpt2-medium", dtypes[i], "h100-64");
        check_any_order("t5-large-48", dtypes[i], "a100-8");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),
        cmocka_unit_test(carried),
        cmocka_unit_test(any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
