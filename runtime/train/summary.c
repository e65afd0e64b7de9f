#include "runtime/train/summary.h"

#include <stdlib.h>
#include <string.h>

/* What a rank tells of its bytes. */
enum { ARENA, RESIDENT, HOST, STORAGE, BYTES_COUNT };

static void raise_to(uint64_t *most, uint64_t value)
{
    *most = value > *most ? value : *most;
}

static void collect_stages(const gal_plan *plan, uint64_t (*all)[BYTES_COUNT], gal_stage_bytes *stage)
{
    const uint32_t stage_devices = gal_plan_stage_devices(plan);
    for (uint32_t i = 0; i < gal_plan_rank_count(plan); i++) {
        gal_stage_bytes *at = &stage[i / stage_devices];
        at->predicted_bytes = plan->stage[i / stage_devices].predicted_bytes;
        raise_to(&at->arena_bytes, all[i][ARENA]);
        raise_to(&at->resident_bytes, all[i][RESIDENT]);
        raise_to(&at->host_bytes, all[i][HOST]);
        raise_to(&at->storage_bytes, all[i][STORAGE]);
    }
}

gal_code gal_summary_gather_bytes(const gal_session *session, gal_train_summary *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_world *world = &session->world;
    const bool first = gal_world_rank(world) == 0;
    out->held = gal_engine_bytes_of(session->engine);
    const uint64_t mine[BYTES_COUNT] = {[ARENA] = out->held.arena_bytes,
                                        [RESIDENT] = gal_session_memory_bytes(session),
                                        [HOST] = out->held.host_bytes,
                                        [STORAGE] = out->held.storage_bytes};
    out->device_bytes = session->backend->device->used_bytes != NULL ? mine[RESIDENT] : 0;
    uint64_t(*all)[BYTES_COUNT] = calloc(gal_world_size(world), sizeof *all);
    gal_stage_bytes *stage = calloc(session->plan->stage_count, sizeof *stage);
    code = all != NULL && stage != NULL ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: summary");
    GAL_TRY(gal_world_agree(world, code, err));
    GAL_TRY(gal_world_gather(world, mine, sizeof mine, first ? all : NULL, err));
    if (first) {
        collect_stages(session->plan, all, stage);
        out->stage_count = session->plan->stage_count;
        out->stage = stage;
        stage = NULL;
    }
cleanup:
    free(stage);
    free(all);
    return code;
}

gal_code gal_summary_gather_exposure(const gal_session *session, const gal_exposure *own, gal_train_summary *out,
                                     gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_world *world = &session->world;
    const bool first = gal_world_rank(world) == 0;
    gal_exposure sum = {.step_count = 0.0};
    gal_exposure *all = first ? calloc(gal_world_size(world), sizeof *all) : NULL;
    code = !first || all != NULL ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: summary");
    GAL_TRY(gal_world_agree(world, code, err));
    GAL_TRY(gal_world_gather(world, own, sizeof *own, all, err));
    for (uint32_t i = 0; first && i < gal_world_size(world); i++) {
        gal_exposure_add(&all[i], &sum);
    }
    out->exposure = gal_exposure_mean(&sum);
cleanup:
    free(all);
    return code;
}

gal_code gal_summary_gather_communicators(const gal_session *session, gal_train_summary *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_comm *comm = session->comm;
    if (comm != NULL) {
        double most[2] = {(double)comm->communicator_count, comm->creation_seconds};
        GAL_TRY(gal_world_maximum(&session->world, most, 2, err));
        out->communicator_count = (uint32_t)most[0];
        out->communicator_seconds = most[1];
    }
cleanup:
    return code;
}

void gal_train_summary_free(gal_train_summary *summary)
{
    free(summary->stage);
    memset(summary, 0, sizeof *summary);
}
