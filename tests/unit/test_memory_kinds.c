/* Bytes of a device by kind: worked by hand for a tiny model, and summed for random plans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/memory_kinds.h"
#include "tests/support/random_plan.h"

/* One layer, hidden 8, sequence 4, vocabulary 16 in 16 bits, batch 8 in 4 microbatches on two devices of one stage, all
 * blocks under ZeRO of that stage. */
static gal_program *lower_tiny(uint32_t zero_stage)
{
    gal_error err = {0};
    gal_plan plan = {.cluster.device_count = 2,
                     .global_batch_samples = 8,
                     .microbatch_count = 4,
                     .pp_degree = 1,
                     .prefetch_depth = 2,
                     .stage_count = 1,
                     .run_count = 1};
    gal_plan_stage stage = {.first_run = 0, .run_count = 1};
    gal_plan_run run = {4, {.axis_count = 1, .axis = {{GAL_AXIS_SDP, 2}}, .zero_stage = (uint8_t)zero_stage}};
    gal_program *program = NULL;
    gal_model_defaults(&plan.model);
    plan.model.layer_count = 1;
    plan.model.hidden = 8;
    plan.model.head_count = 2;
    plan.model.ffn_hidden = 16;
    plan.model.sequence_length = 4;
    plan.model.vocabulary = 16;
    plan.model.vocabulary_multiple = 16;
    plan.model.tied_embeddings = false;
    plan.model.compute_dtype = GAL_BF16;
    plan.stage = &stage;
    plan.run = &run;
    assert_int_equal(gal_lower(&plan, 0, &program, &err), GAL_OK);
    return program;
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Units wte, wpe; vectors, qkv, proj; vectors, fc, proj; vectors, head. ZeRO shards all but vectors over two devices:
 * under stage 1 moments and masters, under stage 3 weights and gradients too. */
static void test_tiny(void **state)
{
    (void)state;
    static const struct {
        uint64_t elements;
        bool is_vector;
    } unit[] = {{16 * 8, false}, {4 * 8, false},       {3 * 8, true}, {8 * 24 + 24, false}, {64, false},
                {3 * 8, true},   {8 * 16 + 16, false}, {128, false},  {2 * 8, true},        {16 * 8, false}};
    for (uint32_t zero_stage = 1; zero_stage <= 3; zero_stage += 2) {
        gal_program *program = lower_tiny(zero_stage);
        gal_memory_kinds kinds;
        uint64_t weights = 0, gradients = 0, optimizer = 0;
        for (uint32_t u = 0; u < sizeof unit / sizeof unit[0]; u++) {
            const uint64_t shard = unit[u].is_vector ? unit[u].elements : unit[u].elements / 2;
            const uint64_t whole = zero_stage == 3 ? shard : unit[u].elements;
            weights += aligned(2 * whole);
            gradients += aligned(4 * whole);
            optimizer += 3 * aligned(4 * shard); /* two moments and the master */
        }
        gal_memory_kinds_of(program, 1000, &kinds);
        assert_int_equal(kinds.bytes[GAL_MEMORY_WEIGHTS], weights);
        assert_int_equal(kinds.bytes[GAL_MEMORY_GRADIENTS], gradients);
        assert_int_equal(kinds.bytes[GAL_MEMORY_OPTIMIZER], optimizer);
        assert_int_equal(kinds.bytes[GAL_MEMORY_FIXED], 1000);
        assert_true(kinds.bytes[GAL_MEMORY_ACTIVATIONS] >= program->arena[GAL_CLASS_SAVED].item_bytes);
        assert_int_equal(gal_memory_kinds_sum(&kinds), program->arena_bytes + 1000);
        gal_program_free(program);
    }
}

/* The sum is exact whatever leaves the device, and the fullest stage is the one reported. */
static void test_random_plans(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        gal_plan plan;
        gal_error err = {0};
        gal_program *programs[8] = {0};
        gal_memory_kinds kinds;
        uint64_t largest = 0;
        gal_random_plan(seed, 8, &plan);
        gal_random_offload(seed, &plan);
        assert_true(plan.stage_count <= 8);
        assert_int_equal(gal_lower_plan(&plan, programs, &err), GAL_OK);
        for (uint32_t s = 0; s < plan.stage_count; s++) {
            largest = programs[s]->arena_bytes > largest ? programs[s]->arena_bytes : largest;
        }
        const uint32_t fullest = gal_memory_kinds_fullest(programs, plan.stage_count, 7, &kinds);
        assert_int_equal(programs[fullest]->arena_bytes, largest);
        assert_int_equal(gal_memory_kinds_sum(&kinds), largest + 7);
        assert_true(kinds.bytes[GAL_MEMORY_ACTIVATIONS] > 0);
        assert_true(kinds.bytes[GAL_MEMORY_WORKSPACE] > 0);
        for (uint32_t s = 0; s < plan.stage_count; s++) {
            gal_program_free(programs[s]);
        }
        gal_plan_free(&plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tiny), cmocka_unit_test(test_random_plans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
