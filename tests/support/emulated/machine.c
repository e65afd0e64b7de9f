#include "tests/support/emulated/machine.h"

#include <stdlib.h>

#include "tests/support/emulated/device.h"

void *gal_machine_allocate(size_t bytes)
{
    return malloc(bytes + (bytes == 0));
}

void gal_machine_free(void *memory)
{
    free(memory);
}

void *gal_machine_at(const void *memory)
{
    return (void *)(uintptr_t)memory;
}

void gal_machine_begin(bool reverse)
{
    gal_emulated_reverse = reverse;
}

void gal_machine_end(void)
{
}

uint64_t gal_machine_launches(void)
{
    return gal_emulated_launches;
}
