/* In place of backend_cuda.c in a build that has no CUDA. */
#include "runtime/backend.h"

gal_code gal_backend_cuda_probe(gal_error *err)
{
    return gal_fail(err, GAL_ERR_DEVICE, "this program was built without CUDA: 'make' says what it lacked");
}

gal_code gal_backend_cuda_open(gal_cuda_comm comm, uint32_t local_rank, const gal_backend **out, char *text,
                               size_t capacity, gal_error *err)
{
    (void)comm;
    (void)local_rank;
    (void)out;
    (void)text;
    (void)capacity;
    return gal_backend_cuda_probe(err);
}
