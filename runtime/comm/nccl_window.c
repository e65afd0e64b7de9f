/* Windows, where NCCL has them: in its header, and in the library that runs. */
#include "runtime/comm/nccl_internal.h"

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)

ncclResult_t gal_nccl_window_open(ncclComm_t comm, void *base, size_t byte_count, gal_nccl_window *out)
{
    int version = 0;
    *out = NULL;
    (void)ncclGetVersion(&version);
    return version >= NCCL_VERSION(2, 27, 0)
               ? ncclCommWindowRegister(comm, base, byte_count, out, NCCL_WIN_COLL_SYMMETRIC)
               : ncclSuccess;
}

void gal_nccl_window_close(ncclComm_t comm, gal_nccl_window window)
{
    (void)ncclCommWindowDeregister(comm, window);
}

#else

ncclResult_t gal_nccl_window_open(ncclComm_t comm, void *base, size_t byte_count, gal_nccl_window *out)
{
    (void)comm, (void)base, (void)byte_count;
    *out = NULL;
    return ncclSuccess;
}

void gal_nccl_window_close(ncclComm_t comm, gal_nccl_window window)
{
    (void)comm, (void)window;
}

#endif
