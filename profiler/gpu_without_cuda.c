/* In place of cuda/ in a build that has no CUDA: nobody comes here, for no GPU can be opened. */
#include "profiler/gpu.h"

gal_code gal_gpu_read(gal_gpu *out, gal_error *err)
{
    (void)out;
    return gal_fail(err, GAL_ERR_DEVICE, "this program was built without CUDA");
}

gal_code gal_standin_queue(void *queue, uint32_t ctas, float *target, const float *a, const float *b, uint64_t elements,
                           gal_error *err)
{
    (void)queue;
    (void)ctas;
    (void)target;
    (void)a;
    (void)b;
    (void)elements;
    return gal_fail(err, GAL_ERR_DEVICE, "this program was built without CUDA");
}
