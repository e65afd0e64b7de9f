#include "runtime/train/session.h"

#include <stdlib.h>

#include "runtime/engine/resident.h"

uint32_t gal_plan_rank_count(const gal_plan *plan)
{
    return plan->stage_count * gal_plan_stage_devices(plan);
}

gal_step gal_plan_step(const gal_plan *plan, bool tf32)
{
    return (gal_step){.model = &plan->model,
                      .device = &plan->cluster.device,
                      .device_count = gal_plan_rank_count(plan),
                      .global_batch_samples = plan->global_batch_samples,
                      .tf32 = tf32};
}

static gal_code create_engine(gal_session *session, const gal_session_options *options, gal_error *err)
{
    const gal_dtype dtype = session->plan->model.compute_dtype;
    const bool narrow = gal_dtype_is_narrow(dtype);
    const gal_engine_options engine = {
        .device = session->backend->device,
        .ops = session->backend->ops(dtype),
        .wide_ops = narrow ? session->backend->ops(gal_dtype_wide(dtype)) : NULL,
        .host_ops = session->backend->host_ops != NULL ? session->backend->host_ops(dtype) : NULL,
        .storage_directory = options->storage_directory,
        .storage_way = options->storage_way,
        .comm = session->comm,
        .tokens = options->tokens,
        .trace = options->trace,
        .deadline_seconds = options->deadline_seconds,
        .poison = options->poison,
        .order = options->order,
        .choice = {.deterministic = options->deterministic,
                   .tf32 = options->tf32,
                   .communication_ctas = session->plan->communication_ctas},
        .graphs = options->graphs,
    };
    if (engine.ops == NULL) {
        return gal_fail(err, GAL_ERR_DEVICE, "the plan's model computes in %s, which this device does not",
                        gal_dtype_names[dtype]);
    }
    return gal_engine_create(session->program, &session->plan->model, session->device, &session->channels, &engine,
                             &session->engine, err);
}

static gal_code check_limits(const gal_session *session, const gal_session_limits *limits, gal_error *err)
{
    const uint64_t device = session->program->arena_bytes + session->plan->fixed_bytes;
    const uint64_t host = session->program->host_bytes;
    if (limits->device_bytes > 0 && device > limits->device_bytes) {
        return gal_fail(err, GAL_ERR_SYSTEM, "the plan takes %llu bytes of a device's memory, the limit is %llu",
                        (unsigned long long)device, (unsigned long long)limits->device_bytes);
    }
    if (limits->host_bytes > 0 && host > limits->host_bytes) {
        return gal_fail(err, GAL_ERR_SYSTEM, "the plan takes %llu bytes of the host's memory, the limit is %llu",
                        (unsigned long long)host, (unsigned long long)limits->host_bytes);
    }
    return GAL_OK;
}

static gal_code share_arena(gal_session *session, gal_error *err)
{
    if (session->comm == NULL || session->backend->share == NULL) {
        return GAL_OK;
    }
    return session->backend->share(session->comm, gal_engine_memory(session->engine), err);
}

gal_code gal_session_create(const gal_plan *plan, const gal_world *world, const gal_session_options *options,
                            gal_session **out, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t rank = gal_world_rank(world);
    const uint32_t stage_devices = gal_plan_stage_devices(plan);
    gal_session *session = calloc(1, sizeof *session);
    GAL_ASSERT(gal_world_size(world) == gal_plan_rank_count(plan));
    code = session != NULL ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: session");
    GAL_TRY(gal_world_agree(world, code, err));
    session->plan = plan;
    session->world = *world;
    session->backend = options->backend != NULL ? options->backend : &gal_backend_host;
    session->device = rank % stage_devices;
    code = gal_lower(plan, rank / stage_devices, &session->program, err);
    if (code == GAL_OK) {
        code = gal_channels_of(session->program, session->device, &session->channels, err);
    }
    code = code == GAL_OK ? check_limits(session, &options->limits, err) : code;
    GAL_TRY(gal_world_agree(world, code, err));
    if (world->comm != NULL) {
        const gal_connection connection = {.control = world->comm,
                                           .program = session->program,
                                           .channels = &session->channels,
                                           .communication_ctas = plan->communication_ctas,
                                           .deadline_seconds = options->deadline_seconds,
                                           .slow_bytes_per_second = options->slow_bytes_per_second,
                                           .tell = options->tell};
        code = session->backend->connect(&connection, &session->comm, err);
        GAL_TRY(gal_world_agree(world, code, err));
    }
    code = create_engine(session, options, err);
    GAL_TRY(gal_world_agree(world, code, err));
    GAL_TRY(gal_world_agree(world, share_arena(session, err), err));
    *out = session;
    session = NULL;
cleanup:
    gal_session_free(session);
    return code;
}

void gal_session_free(gal_session *session)
{
    if (session == NULL) {
        return;
    }
    if (session->comm != NULL && session->backend->unshare != NULL) {
        session->backend->unshare(session->comm);
    }
    gal_engine_free(session->engine);
    gal_comm_free(session->comm);
    gal_channels_free(&session->channels);
    gal_program_free(session->program);
    free(session);
}

gal_checkpoint_state gal_session_state(const gal_session *session)
{
    return (gal_checkpoint_state){
        .plan = session->plan,
        .program = session->program,
        .device = session->device,
        .ops = session->backend->device,
        .memory = gal_engine_memory(session->engine),
    };
}

uint64_t gal_session_memory_bytes(const gal_session *session)
{
    const gal_device_ops *device = session->backend->device;
    return device->used_bytes != NULL ? device->used_bytes() : gal_peak_resident_bytes();
}
