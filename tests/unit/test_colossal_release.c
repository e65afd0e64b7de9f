/* A step as Colossal-AI's release carried it out (planner/published/colossal_release.h), of three collectives by hand.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planner/published/colossal_release.h"

enum { MESSAGE = 1 << 20 };

/* Over the inner pair of 8 devices, on one NVLink level. */
static const uint32_t pair[GAL_LINK_LEVELS_MAX] = {2};

static void test_three_collectives(void **state)
{
    (void)state;
    gal_error err = {GAL_OK, ""};
    gal_cluster cluster;
    gal_durations *durations = NULL;
    assert_int_equal(gal_cluster_read("colossal-1", &cluster, &err), GAL_OK);
    assert_int_equal(gal_durations_create_analytic(&cluster, &durations, &err), GAL_OK);
    gal_shape shape[] = {{.op = GAL_OP_ALL_GATHER, .dtype = GAL_FP16},
                         {.op = GAL_OP_REDUCE_SCATTER, .dtype = GAL_FP16},
                         {.op = GAL_OP_ALL_REDUCE, .dtype = GAL_FP16}};
    gal_instruction list[] = {
        {.op = GAL_OP_ALL_GATHER, .stream = GAL_STREAM_TENSOR, .group = 1, .bytes = MESSAGE, .name = "gather dy"},
        {.op = GAL_OP_REDUCE_SCATTER, .stream = GAL_STREAM_REDUCE, .group = 1, .bytes = MESSAGE, .name = "scatter dw"},
        {.op = GAL_OP_ALL_REDUCE, .stream = GAL_STREAM_TENSOR, .group = 1, .bytes = MESSAGE, .name = "reduce o"}};
    for (uint32_t i = 0; i < 3; i++) {
        list[i].shape = i;
    }
    gal_program program = {.stage_count = 1,
                           .microbatch_count = 1,
                           .chunk_count = 1,
                           .device_count = 8,
                           .dtype = GAL_FP16,
                           .instruction = list,
                           .instruction_count = 3,
                           .shape = shape,
                           .shape_count = 3};
    gal_atoms_of(8, &program.atoms);
    program.fragment[GAL_FRAGMENT_BACKWARD_SYNC] = (gal_fragment){0, 3};
    double seconds = 0.0;
    assert_int_equal(gal_colossal_release_seconds(&program, durations, &seconds, &err), GAL_OK);
    /* dY twice: its half cloned, then the whole out of the buffer that it came in, and into one tensor; the scatter's
     * list into one buffer; nothing for the all-reduce */
    const double byte = 2.0 / (cluster.device.memory_bytes_per_second * cluster.device.memory_fraction);
    const double launch = cluster.device.launch_seconds;
    const double gather = gal_collective_seconds(durations, GAL_OP_ALL_GATHER, pair, MESSAGE, NULL);
    const double scatter = gal_collective_seconds(durations, GAL_OP_REDUCE_SCATTER, pair, MESSAGE, NULL);
    const double reduce = gal_collective_seconds(durations, GAL_OP_ALL_REDUCE, pair, MESSAGE, NULL);
    const double expected = gal_durations_fixed_step_seconds(durations) +
                            2.0 * (gather + 3.0 * launch + 2.5 * MESSAGE * byte) + scatter + launch + MESSAGE * byte +
                            reduce;
    assert_true(fabs(seconds - expected) < 1e-12 * expected);
    gal_durations_free(durations);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_three_collectives)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
