#include "runtime/train/world.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 64 };

uint32_t gal_world_rank(const gal_world *world)
{
    return world->comm != NULL ? world->comm->rank : 0;
}

uint32_t gal_world_size(const gal_world *world)
{
    return world->comm != NULL ? world->comm->world_size : 1;
}

gal_code gal_world_agree(const gal_world *world, gal_code mine, gal_error *err)
{
    return world->comm != NULL ? gal_comm_agree(world->comm, mine, world->deadline_seconds, err) : mine;
}

gal_code gal_world_maximum(const gal_world *world, double *values, uint32_t count, gal_error *err)
{
    if (world->comm == NULL) {
        return GAL_OK;
    }
    return gal_comm_reduce_f64(world->comm, values, count, GAL_REDUCE_MAX, world->deadline_seconds, err);
}

gal_code gal_world_same(const gal_world *world, const char *mine, gal_error *err)
{
    gal_code code = GAL_OK;
    char text[TEXT_BYTES] = "", first[TEXT_BYTES] = "";
    if (world->comm == NULL) {
        return GAL_OK;
    }
    snprintf(text, sizeof text, "%s", mine);
    memcpy(first, text, sizeof first);
    GAL_TRY(gal_world_share(world, first, sizeof first, err));
    if (strcmp(text, first) != 0) {
        code = gal_fail(err, GAL_ERR_USAGE, "this rank runs %s, rank 0 runs %s", text, first);
    }
    GAL_TRY(gal_world_agree(world, code, err));
cleanup:
    return code;
}

gal_code gal_world_share(const gal_world *world, void *bytes, uint64_t byte_count, gal_error *err)
{
    if (world->comm == NULL) {
        return GAL_OK;
    }
    return gal_comm_broadcast(world->comm, 0, bytes, byte_count, world->deadline_seconds, err);
}

gal_code gal_world_gather(const gal_world *world, const void *mine, uint64_t byte_count, void *all, gal_error *err)
{
    if (world->comm == NULL) {
        memcpy(all, mine, byte_count);
        return GAL_OK;
    }
    return gal_comm_gather(world->comm, 0, mine, byte_count, all, world->deadline_seconds, err);
}
