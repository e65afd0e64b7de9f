/* What the engine asks of a device's kernels: as its options say, but for the multiprocessors that are left to
 * communication, which are only where that goes on beside products, on the device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/device/cuda/cuda.h"
#include "runtime/engine/engine.h"
#include "tests/support/cuda_double.h"
#include "tests/support/cuda_kernels.h"

static gal_code start(gal_comm *comm, const gal_comm_request *request, uint32_t *handle, gal_error *err)
{
    (void)comm, (void)request, (void)handle, (void)err;
    return GAL_OK;
}

static const gal_comm_ops on_the_device = {.name = "device", .queued = true, .start = start};
static const gal_comm_ops on_the_host = {.name = "host", .start = start};

/* What is opened for the first rank of the plan. */
static gal_kernel_choice opened(const gal_plan *plan, const gal_comm_ops *ops, const gal_kernel_choice *choice)
{
    gal_error err = {0};
    gal_program *program = NULL;
    gal_channels channels;
    gal_engine *engine = NULL;
    gal_comm comm = {.ops = ops};
    gal_cuda_double_reset(1, false);
    assert_int_equal(gal_lower(plan, 0, &program, &err), GAL_OK);
    assert_int_equal(gal_channels_of(program, 0, &channels, &err), GAL_OK);
    const gal_engine_options options = {.device = &gal_device_cuda,
                                        .ops = &gal_ops_queued_idle,
                                        .comm = ops != NULL ? &comm : NULL,
                                        .deadline_seconds = 5.0,
                                        .choice = *choice};
    memset(&gal_queued_choice, 0xFF, sizeof gal_queued_choice);
    if (gal_engine_create(program, &plan->model, 0, &channels, &options, &engine, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    gal_engine_free(engine);
    gal_channels_free(&channels);
    gal_program_free(program);
    return gal_queued_choice;
}

static void read_plan(const char *path, gal_plan *plan)
{
    gal_error err = {0};
    if (gal_plan_read(path, plan, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
}

static uint32_t left(const gal_plan *plan, const gal_comm_ops *ops)
{
    const gal_kernel_choice choice = {.communication_ctas = 16};
    return opened(plan, ops, &choice).communication_ctas;
}

static void gradients_and_transfers_are_left_room(void **state)
{
    (void)state;
    gal_plan plan;
    read_plan("tests/numerics/plans/tp2-dp2.json", &plan);
    assert_int_equal(left(&plan, &on_the_device), 16);
    assert_int_equal(left(&plan, &on_the_host), 0); /* which takes no multiprocessors */
    gal_plan_free(&plan);
    read_plan("tests/numerics/plans/serial-tied-pp2.json", &plan);
    assert_int_equal(left(&plan, &on_the_device), 16);
    gal_plan_free(&plan);
}

static void nothing_is_left_to_what_kernels_wait_for(void **state)
{
    (void)state;
    gal_plan plan;
    read_plan("tests/numerics/plans/tp2-dp2.json", &plan);
    plan.run[0].strategy = (gal_strategy){.axis_count = 1, .axis = {{GAL_AXIS_TP, 4}}};
    assert_int_equal(left(&plan, &on_the_device), 0);
    gal_plan_free(&plan);
    read_plan("tests/numerics/plans/serial.json", &plan);
    assert_int_equal(left(&plan, NULL), 0);
    gal_plan_free(&plan);
}

static void the_rest_is_as_asked(void **state)
{
    (void)state;
    gal_plan plan;
    read_plan("tests/numerics/plans/serial.json", &plan);
    for (uint32_t i = 0; i < 4; i++) {
        const gal_kernel_choice choice = {.deterministic = (i & 1) != 0, .tf32 = (i & 2) != 0};
        const gal_kernel_choice found = opened(&plan, NULL, &choice);
        assert_true(found.deterministic == choice.deterministic && found.tf32 == choice.tf32);
    }
    gal_plan_free(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_and_transfers_are_left_room),
        cmocka_unit_test(nothing_is_left_to_what_kernels_wait_for),
        cmocka_unit_test(the_rest_is_as_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
