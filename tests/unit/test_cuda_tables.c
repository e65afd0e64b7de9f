/* The CUDA tables have every kernel that a program can ask of them but what the host does beside a device, and the
 * copies for it, which are the queues' own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/ops/cuda/kernels.h"

static bool is_offload(uint32_t op)
{
    return op == GAL_OP_HOST_ADAM || op == GAL_OP_HOST_ADAM_PART || op == GAL_OP_COPY_OUT || op == GAL_OP_COPY_IN ||
           op == GAL_OP_STORAGE_READ || op == GAL_OP_STORAGE_WRITE;
}

static void every_kernel_of_the_host(void **state)
{
    (void)state;
    static const gal_ops *const tables[] = {&gal_ops_cuda_fp32, &gal_ops_cuda_bf16, &gal_ops_cuda_fp16};
    uint32_t count = 0;
    for (uint32_t op = 0; op < GAL_OP_COUNT; op++) {
        for (uint32_t t = 0; gal_ops_host_fp32.kernel[op] != NULL && t < 3; t++, count++) {
            if ((tables[t]->kernel[op] == NULL) != is_offload(op)) {
                fail_msg("%s and %s", gal_dtype_names[tables[t]->dtype], gal_op_names[op]);
            }
        }
    }
    assert_true(count > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_kernel_of_the_host)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
