/* The NCCL that is installed: what it says where there is no driver, and that one rank of it works where there is a
 * GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <nccl.h>

#include "runtime/comm/nccl.h"
#include "runtime/device/cuda/cuda.h"
#include "tests/support/thread_world.h"

/* Asked of the program: a call of CUDA in this file would be linked to its double. */
static bool has_device(void)
{
    return gal_cuda_probe(NULL) == GAL_OK;
}

static void tell(const char *text)
{
    print_error("%s\n", text);
}

/* The headers that this was compiled with are the library's that runs. */
static void test_version(void **state)
{
    (void)state;
    char text[64], expected[64];
    gal_nccl_version(text, sizeof text);
    (void)snprintf(expected, sizeof expected, "NCCL %d.%d.%d", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
    assert_string_equal(text, expected);
}

static void test_without_driver(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_comm *comm = NULL;
    const gal_nccl_options options = {.deadline_seconds = 20.0, .tell = tell};
    if (has_device()) {
        print_message("a device is there\n");
        skip();
    }
    gal_thread_world *world = gal_thread_world_create(1);
    assert_int_equal(gal_comm_nccl_create(gal_thread_world_comm(world, 0), &options, NULL, 0, &comm, &err),
                     GAL_ERR_DEVICE);
    assert_null(comm);
    assert_non_null(strstr(err.text, "ncclCommInitRankConfig on the world: NCCL: unhandled cuda error"));
    assert_null(strchr(err.text, '\n'));
    gal_thread_world_free(world);
}

static void test_one_rank(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_comm *comm = NULL;
    const gal_nccl_options options = {.ctas = 8, .deadline_seconds = 60.0, .tell = tell};
    if (!has_device()) {
        print_message("no device\n");
        skip();
    }
    gal_thread_world *world = gal_thread_world_create(1);
    if (gal_comm_nccl_create(gal_thread_world_comm(world, 0), &options, NULL, 0, &comm, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(comm->communicator_count, 1);
    gal_comm_free(comm);
    gal_thread_world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_version), cmocka_unit_test(test_without_driver),
                                       cmocka_unit_test(test_one_rank)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
