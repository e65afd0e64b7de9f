/* Overlapped schedules: the three kinds mean the same computation, to the order of every sum, whatever interleaving the
 * streams take; programs with one sub-batch's mistakes are refused (test_verify.c).
 *   test_overlap [plans [first seed]] */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "runtime/program/verify.h"
#include "schemas/plan_check.h"
#include "tests/support/content.h"
#include "tests/support/random_plan.h"

enum { STAGES_MAX = 8, INTERLEAVINGS = 4 };

static uint32_t plan_count = 200;
static uint64_t first_seed = 1;

typedef struct lowered {
    uint32_t stage_count;
    gal_program *program[STAGES_MAX];
} lowered;

static void lower(const gal_plan *plan, uint64_t seed, lowered *out)
{
    gal_error err = {GAL_OK, ""};
    out->stage_count = plan->stage_count;
    if (gal_plan_check(plan, NULL, &err) != GAL_OK || gal_lower_plan(plan, out->program, &err) != GAL_OK ||
        gal_verify(out->program, out->stage_count, &err) != GAL_OK) {
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    }
}

static void release(lowered *l)
{
    for (uint32_t s = 0; s < l->stage_count; s++) {
        gal_program_free(l->program[s]);
    }
}

/* Every block that may have it takes full recompute and this overlap; returns how many work on two sub-batches. */
static uint32_t set_overlap(gal_plan *plan, gal_overlap overlap)
{
    uint32_t block = 0, halved = 0;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        gal_strategy *strategy = &plan->run[r].strategy;
        gal_strategy with = *strategy;
        bool fits = true;
        with.overlap = overlap;
        with.recompute = GAL_RECOMPUTE_FULL;
        for (uint32_t i = 0; i < plan->run[r].block_count; i++) {
            gal_block_shape shape;
            gal_model_block(&plan->model, block + i, &shape);
            fits = fits && gal_strategy_block_rule_broken(&plan->model, &shape, &with, gal_plan_stage_devices(plan),
                                                          gal_plan_microbatch_samples(plan)) == NULL;
        }
        for (uint32_t i = 0; i < plan->run[r].block_count; i++, block++) {
            gal_block_shape shape;
            gal_model_block(&plan->model, block, &shape);
            halved += fits && gal_strategy_halves(&with, shape.kind);
        }
        *strategy = fits ? with : *strategy;
    }
    return halved;
}

/* The next seed whose plan has blocks of two sub-batches. */
static uint64_t draw(uint64_t seed, gal_plan *plan)
{
    static const uint32_t worlds[] = {2, 4, 8, 6};
    for (;; seed++) {
        gal_random_plan(seed, worlds[seed % 4], plan);
        if (plan->schedule != GAL_SCHEDULE_ZERO_BUBBLE && set_overlap(plan, GAL_OVERLAP_FINE) > 0) {
            return seed;
        }
        gal_plan_free(plan);
    }
}

static uint64_t meaning_of(const lowered *l, uint64_t seed)
{
    uint64_t state = 0;
    gal_content *content = gal_content_create(l->program, l->stage_count);
    assert_non_null(content);
    assert_true(gal_content_reference(content, &state));
    for (uint32_t i = 0; i < INTERLEAVINGS; i++) {
        uint64_t reached = 0;
        if (!gal_content_interleave(content, seed * 1000 + i, &reached) || reached != state) {
            fail_msg("seed %llu: the state depends on the interleaving", (unsigned long long)seed);
        }
    }
    gal_content_free(content);
    return state;
}

static void test_kinds_mean_the_same(void **unused)
{
    (void)unused;
    uint64_t seed = first_seed;
    for (uint32_t i = 0; i < plan_count; i++, seed++) {
        gal_plan plan;
        uint64_t meaning[GAL_OVERLAP_COUNT];
        seed = draw(seed, &plan);
        for (uint32_t kind = GAL_OVERLAP_IN_PASS; kind < GAL_OVERLAP_COUNT; kind++) {
            lowered l;
            (void)set_overlap(&plan, (gal_overlap)kind);
            lower(&plan, seed, &l);
            meaning[kind] = meaning_of(&l, seed);
            release(&l);
        }
        gal_plan_free(&plan);
        if (meaning[GAL_OVERLAP_IN_PASS] != meaning[GAL_OVERLAP_FINE] ||
            meaning[GAL_OVERLAP_CROSS_PASS] != meaning[GAL_OVERLAP_FINE]) {
            fail_msg("seed %llu: the kinds of overlap compute differently", (unsigned long long)seed);
        }
    }
}

int main(int argc, char **argv)
{
    plan_count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : plan_count;
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : first_seed;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds_mean_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
