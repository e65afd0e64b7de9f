/* The verifier against content execution: random plans verify and compute the same under every interleaving; wrong
 * programs are refused, with a line that says where, or compute the same all the same.
 *   test_verify [plans [tries per mutation [first seed]]]      (or PLANS=plans in the environment)
 * Tries are half as many again as plans; below 500 plans, so in make check, at most 50. timeout_seconds: 600 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/program/verify/verify.h"
#include "tests/support/content.h"
#include "tests/support/mutate.h"
#include "tests/support/random_plan.h"

enum { STAGES_MAX = 8, INTERLEAVINGS = 16, MANY_PLANS = 500, FEW_TRIES = 50 };

static uint32_t plan_count = 100;
static uint32_t try_count = 150;
static uint64_t first_seed = 1;

typedef struct lowered {
    gal_plan plan;
    gal_program *program[STAGES_MAX];
} lowered;

static void lower_random(uint64_t seed, lowered *out)
{
    static const uint32_t worlds[] = {1, 2, 4, 8, 3, 6};
    gal_error err = {GAL_OK, ""};
    gal_random_plan(seed, worlds[seed % 6], &out->plan);
    gal_random_reuse(seed, &out->plan);
    gal_random_offload(seed, &out->plan);
    gal_random_storage(seed, &out->plan);
    gal_random_shard_units(seed, &out->plan);
    out->plan.model.compute_dtype = seed / 6 % 2 == 0 ? GAL_FP64 : GAL_BF16;
    gal_random_masters(seed, &out->plan);
    if (gal_lower_plan(&out->plan, out->program, &err) != GAL_OK) {
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    }
}

static void release(lowered *l)
{
    for (uint32_t s = 0; s < l->plan.stage_count; s++) {
        gal_program_free(l->program[s]);
    }
    gal_plan_free(&l->plan);
}

static uint64_t reference_of(const lowered *l)
{
    uint64_t state = 0;
    gal_content *content = gal_content_create(l->program, l->plan.stage_count);
    assert_non_null(content);
    assert_true(gal_content_reference(content, &state));
    gal_content_free(content);
    return state;
}

/* Interleavings of the programs that end in another state, or not at all. */
static uint32_t differing(gal_program *const *programs, uint32_t stage_count, uint64_t state, uint64_t seed,
                          uint32_t interleavings)
{
    uint32_t different = 0;
    gal_content *content = gal_content_create(programs, stage_count);
    assert_non_null(content);
    for (uint32_t i = 0; i < interleavings; i++) {
        uint64_t reached = 0;
        bool finished = gal_content_interleave(content, seed * 1000 + i, &reached);
        different += !finished || reached != state;
    }
    gal_content_free(content);
    return different;
}

static void test_random_plans_verify(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < plan_count; i++) {
        lowered l;
        gal_error err = {GAL_OK, ""};
        uint64_t seed = first_seed + i;
        lower_random(seed, &l);
        if (gal_verify(l.program, l.plan.stage_count, &err) != GAL_OK) {
            fail_msg("seed %llu is refused: %s", (unsigned long long)seed, err.text);
        }
        if (differing(l.program, l.plan.stage_count, reference_of(&l), seed, 6) != 0) {
            fail_msg("seed %llu: the state depends on the interleaving", (unsigned long long)seed);
        }
        release(&l);
    }
}

static void test_same_seed_same_plan(void **unused)
{
    (void)unused;
    lowered a;
    lowered b;
    lower_random(first_seed, &a);
    lower_random(first_seed, &b);
    assert_int_equal(a.plan.run_count, b.plan.run_count);
    assert_int_equal(reference_of(&a), reference_of(&b));
    release(&a);
    release(&b);
}

typedef struct tally {
    uint32_t tried, refused, harmless, unnamed, wrong;
} tally;

/* A gather that is missing altogether is named by its unit, a wrong schedule by its call. */
static bool names_the_place(const char *text)
{
    return strstr(text, "instruction ") != NULL || strstr(text, ", call ") != NULL || strstr(text, ", unit ") != NULL;
}

static void judge(const gal_mutation *mutation, uint64_t seed, const lowered *l, gal_program *const *changed,
                  tally *count)
{
    gal_error err = {GAL_OK, ""};
    count->tried++;
    if (gal_verify(changed, l->plan.stage_count, &err) == GAL_NO) {
        count->refused++;
        if (!names_the_place(err.text)) {
            count->unnamed++;
            print_message("%s, seed %llu: %s\n", gal_mutation_name(mutation), (unsigned long long)seed, err.text);
        }
        return;
    }
    uint32_t different = differing(changed, l->plan.stage_count, reference_of(l), seed, INTERLEAVINGS);
    if (different == 0) {
        count->harmless++;
    } else {
        count->wrong++;
        print_message("%s, seed %llu: accepted, but %u of %u interleavings differ\n", gal_mutation_name(mutation),
                      (unsigned long long)seed, different, (uint32_t)INTERLEAVINGS);
    }
}

static void try_mutation(const gal_mutation *mutation, uint64_t seed, uint64_t random, tally *count)
{
    lowered l;
    gal_program *changed[STAGES_MAX];
    lower_random(seed, &l);
    for (uint32_t s = 0; s < l.plan.stage_count; s++) {
        changed[s] = gal_program_clone(l.program[s]);
        assert_non_null(changed[s]);
    }
    if (gal_mutation_apply(mutation, changed, l.plan.stage_count, &random)) {
        judge(mutation, seed, &l, changed, count);
    }
    for (uint32_t s = 0; s < l.plan.stage_count; s++) {
        gal_program_free(changed[s]);
    }
    release(&l);
}

static void test_mutations(void **unused)
{
    (void)unused;
    uint32_t wrong = 0;
    print_message("%-36s %8s %8s %8s %8s\n", "mutation", "tried", "refused", "harmless", "wrong");
    for (uint32_t m = 0; gal_mutation_at(m) != NULL; m++) {
        tally count = {0, 0, 0, 0, 0};
        for (uint64_t seed = first_seed; count.tried < try_count && seed < first_seed + 20 * (uint64_t)try_count;
             seed++) {
            try_mutation(gal_mutation_at(m), seed, seed * 64 + m, &count);
        }
        print_message("%-36s %8u %8u %8u %8u\n", gal_mutation_name(gal_mutation_at(m)), count.tried, count.refused,
                      count.harmless, count.wrong);
        wrong += count.wrong + count.unnamed + (count.tried == 0);
    }
    assert_int_equal(wrong, 0);
}

static const gal_mutation *mutation_named(const char *name)
{
    uint32_t index = 0;
    while (gal_mutation_at(index) != NULL && strcmp(gal_mutation_name(gal_mutation_at(index)), name) != 0) {
        index++;
    }
    return gal_mutation_at(index);
}

/* Backward of one microbatch alone reads what forward gathered for it: the weights are the same until the update. A
 * unit of two blocks: forward gathers it for its first block, backward for its last. */
static void test_gather_of_forward_serves_backward(void **unused)
{
    (void)unused;
    const uint64_t seed = 38, random = 38 * 64 + 49; /* moves the gather of backward behind its first reader */
    const gal_mutation *mutation = mutation_named("gather behind its first reader");
    tally count = {0, 0, 0, 0, 0};
    assert_non_null(mutation);
    try_mutation(mutation, seed, random, &count);
    assert_int_equal(count.harmless, 1);
}

/* It changes no state, and takes time: what is fetched is read by somebody, of a unit in parts some part of it. */
static void test_fetch_for_nobody_is_refused(void **unused)
{
    enum { TRIES = 10 };
    (void)unused;
    const gal_mutation *mutation = mutation_named("first part of weights fetched twice");
    tally count = {0, 0, 0, 0, 0};
    assert_non_null(mutation);
    for (uint64_t seed = first_seed; count.tried < TRIES; seed++) {
        try_mutation(mutation, seed, seed, &count);
    }
    assert_int_equal(count.refused, count.tried);
}

int main(int argc, char **argv)
{
    const char *plans = getenv("PLANS"); /* how many random plans this run of the tests can afford */
    if (plans != NULL && strtoul(plans, NULL, 10) > 0) {
        plan_count = (uint32_t)strtoul(plans, NULL, 10);
        try_count = plan_count + plan_count / 2;
        try_count = plan_count < MANY_PLANS && try_count > FEW_TRIES ? FEW_TRIES : try_count;
    }
    plan_count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : plan_count;
    try_count = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : try_count;
    first_seed = argc > 3 ? strtoull(argv[3], NULL, 10) : first_seed;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_plans_verify),
                                       cmocka_unit_test(test_same_seed_same_plan), cmocka_unit_test(test_mutations),
                                       cmocka_unit_test(test_gather_of_forward_serves_backward),
                                       cmocka_unit_test(test_fetch_for_nobody_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
