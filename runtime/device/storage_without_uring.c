/* A build without liburing. */
#include <stddef.h>

#include "runtime/device/storage_internal.h"

static gal_code open_nothing(int file, void **out, gal_error *err)
{
    (void)file;
    (void)err;
    *out = NULL;
    return GAL_OK;
}

static void close_nothing(void *way)
{
    (void)way;
}

const gal_storage_movers gal_storage_io_uring = {.open = open_nothing, .close = close_nothing};
