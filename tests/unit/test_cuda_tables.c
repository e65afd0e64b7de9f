/* The CUDA tables have every kernel that a program can ask of them: whatever the host has, a plan may be carried out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/ops/cuda/kernels.h"

static void every_kernel_of_the_host(void **state)
{
    (void)state;
    static const gal_ops *const tables[] = {&gal_ops_cuda_fp32, &gal_ops_cuda_bf16, &gal_ops_cuda_fp16};
    uint32_t count = 0;
    for (uint32_t op = 0; op < GAL_OP_COUNT; op++) {
        for (uint32_t t = 0; gal_ops_host_fp32.kernel[op] != NULL && t < 3; t++, count++) {
            if (tables[t]->kernel[op] == NULL) {
                fail_msg("%s has no %s", gal_dtype_names[tables[t]->dtype], gal_op_names[op]);
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
