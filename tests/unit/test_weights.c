/* The state of all devices of a plan together: every element of every tensor is where it should be. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/narrow.h"
#include "runtime/ops/ops.h"
#include "runtime/train/weights.h"

enum { SEED = 11, ELEMENTS_MAX = 1 << 16 };

static const char *const plans[] = {"tests/numerics/plans/serial.json", "tests/numerics/plans/tp2-dp2.json",
                                    "tests/numerics/plans/zero3-pp2.json", "tests/numerics/plans/mixed.json",
                                    "tests/numerics/plans/mixed-host.json"};

static double expected(const gal_model *model, const gal_parameter *parameter, uint64_t index)
{
    const double normal = model->initial_standard_deviation * gal_initial_normal(SEED, parameter->tensor, index);
    switch (parameter->initial) {
    case GAL_INITIAL_ZERO:
        return 0.0;
    case GAL_INITIAL_ONE:
        return 1.0;
    case GAL_INITIAL_NORMAL:
        return normal;
    default:
        return normal / sqrt(2.0 * model->layer_count);
    }
}

/* What elements of a type have of a number. */
static double held(gal_dtype dtype, double number)
{
    double room;
    gal_put_real(dtype, &room, 0, number);
    return gal_get_real(dtype, &room, 0);
}

static void count_run(void *context, const gal_tensor_run *run)
{
    uint32_t *holders = context;
    for (uint64_t i = 0; i < run->count; i++) {
        holders[run->global_index + i]++;
    }
}

/* Reads a tensor from all devices into one place: complete, equal to its definition, with equally many holders. */
static void check_parameter(const gal_plan *plan, const gal_program *program, const gal_parameter *parameter,
                            gal_state_part part, const gal_memory *memories)
{
    static double global[ELEMENTS_MAX];
    static uint32_t holders[ELEMENTS_MAX];
    const uint64_t elements = gal_tensor_elements(parameter);
    assert_true(elements <= ELEMENTS_MAX);
    for (uint64_t i = 0; i < elements; i++) {
        global[i] = NAN;
        holders[i] = 0;
    }
    for (uint32_t d = 0; d < program->device_count; d++) {
        gal_tensor_runs(program, parameter, d, part, count_run, holders);
        gal_tensor_read(program, parameter, d, part, &gal_device_host, &memories[d], global);
    }
    for (uint64_t i = 0; i < elements; i++) {
        assert_true(holders[i] == holders[0] && holders[i] > 0);
        const double want = held(gal_state_dtype(program, part), expected(&plan->model, parameter, i));
        assert_true(global[i] == want);
    }
}

static void check_padding_is_zero(const gal_program *program, const gal_memory *memories)
{
    for (uint32_t u = 0; u < program->unit_count; u++) {
        for (uint32_t d = 0; d < program->device_count; d++) {
            const gal_state_range weight = gal_state_range_of(program, &program->unit[u], d, GAL_STATE_WEIGHT);
            const gal_state_range moment = gal_state_range_of(program, &program->unit[u], d, GAL_STATE_SECOND_MOMENT);
            const gal_dtype dtype = gal_state_dtype(program, GAL_STATE_WEIGHT);
            const void *values = (const char *)memories[d].base + weight.offset_bytes;
            for (uint64_t i = 0; i < weight.count; i++) {
                const double value = gal_get_real(dtype, values, i);
                assert_true(isfinite(value));
                if (weight.first + i >= program->unit[u].used_elements) {
                    assert_true(value == 0.0);
                }
            }
            values = (const char *)memories[d].base + moment.offset_bytes;
            for (uint64_t i = 0; i < moment.count; i++) {
                assert_true(gal_get_real(dtype, values, i) == 0.0);
            }
        }
    }
}

static void check_stage(const gal_plan *plan, uint32_t stage)
{
    gal_error err = {0};
    gal_program *program = NULL;
    gal_memory memories[8] = {{0}};
    assert_int_equal(gal_lower(plan, stage, &program, &err), GAL_OK);
    assert_true(program->device_count <= 8);
    for (uint32_t d = 0; d < program->device_count; d++) {
        /* what would be in another memory lies behind */
        const uint64_t bytes = program->arena_bytes + program->host_bytes;
        assert_int_equal(gal_device_host.allocate(bytes, true, &memories[d], &err), GAL_OK);
        gal_weights_initialize(program, &plan->model, d, SEED, &gal_device_host, &memories[d]);
    }
    for (uint32_t p = 0; p < program->parameter_count; p++) {
        check_parameter(plan, program, &program->parameter[p], GAL_STATE_WEIGHT, memories);
        gal_state_part copies[GAL_STATE_COPIES_MAX];
        const uint32_t count = gal_state_copies(&program->unit[program->parameter[p].unit], copies);
        for (uint32_t i = 0; i < count; i++) {
            check_parameter(plan, program, &program->parameter[p], copies[i], memories);
        }
    }
    check_padding_is_zero(program, memories);
    for (uint32_t d = 0; d < program->device_count; d++) {
        gal_device_host.release(&memories[d]);
    }
    gal_program_free(program);
}

static void test_every_element_is_its_definition(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        gal_error err = {0};
        gal_plan plan = {0};
        if (gal_plan_read(plans[i], &plan, &err) != GAL_OK) {
            fail_msg("%s", err.text);
        }
        for (uint32_t s = 0; s < 3 * plan.stage_count; s++) {
            static const gal_dtype dtypes[] = {GAL_FP64, GAL_BF16, GAL_FP16};
            plan.model.compute_dtype = dtypes[s / plan.stage_count];
            check_stage(&plan, s % plan.stage_count);
        }
        gal_plan_free(&plan);
    }
}

/* What one plan's devices hold, written by gal_tensor_write from global numbers, is read back. */
static void test_write_then_read(void **state)
{
    (void)state;
    static double source[ELEMENTS_MAX], target[ELEMENTS_MAX];
    gal_error err = {0};
    gal_plan plan = {0};
    gal_program *program = NULL;
    gal_memory memory = {0};
    assert_int_equal(gal_plan_read("tests/numerics/plans/mixed.json", &plan, &err), GAL_OK);
    assert_int_equal(gal_lower(&plan, 0, &program, &err), GAL_OK);
    assert_int_equal(gal_device_host.allocate(program->arena_bytes, false, &memory, &err), GAL_OK);
    for (uint32_t p = 0; p < program->parameter_count; p++) {
        const gal_parameter *parameter = &program->parameter[p];
        for (uint64_t i = 0; i < gal_tensor_elements(parameter); i++) {
            source[i] = (double)(i + 1);
            target[i] = 0.0;
        }
        gal_tensor_write(program, parameter, 2, GAL_STATE_FIRST_MOMENT, &gal_device_host, &memory, source);
        gal_tensor_read(program, parameter, 2, GAL_STATE_FIRST_MOMENT, &gal_device_host, &memory, target);
        for (uint64_t i = 0; i < gal_tensor_elements(parameter); i++) {
            assert_true(target[i] == 0.0 || target[i] == source[i]);
        }
    }
    gal_device_host.release(&memory);
    gal_program_free(program);
    gal_plan_free(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_element_is_its_definition),
        cmocka_unit_test(test_write_then_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
