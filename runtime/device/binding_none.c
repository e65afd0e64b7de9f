#include <stdio.h>

#include "runtime/device/binding.h"

void gal_binding_apply(uint32_t local_rank, uint32_t local_count, char *text, size_t capacity)
{
    (void)local_rank;
    (void)local_count;
    (void)snprintf(text, capacity, "not bound: built without hwloc");
}
