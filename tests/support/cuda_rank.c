#include "tests/support/cuda_rank.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/device/cuda/cuda.h"
#include "tests/support/cuda_double.h"
#include "tests/support/cuda_kernels.h"
#include "tests/support/numerics_trial.h"
#include "tests/support/random_plan.h"

void gal_cuda_rank_lower(uint32_t number, gal_dtype dtype, gal_cuda_rank *r)
{
    gal_error err = {0};
    r->plan.model.compute_dtype = dtype;
    r->device = number % gal_plan_stage_devices(&r->plan);
    assert_int_equal(gal_lower(&r->plan, number / gal_plan_stage_devices(&r->plan), &r->program, &err), GAL_OK);
    assert_int_equal(gal_channels_of(r->program, r->device, &r->channels, &err), GAL_OK);
}

void gal_cuda_rank_open(uint64_t seed, uint32_t world, gal_dtype dtype, gal_cuda_rank *r)
{
    memset(r, 0, sizeof *r);
    gal_random_plan(seed, world, &r->plan);
    gal_random_offload(seed, &r->plan);
    gal_random_storage(seed, &r->plan);
    gal_cuda_rank_lower((uint32_t)(seed % world), dtype, r);
}

/* ---- the host beside the device ---- */

uint64_t gal_cuda_rank_updates;

static gal_code update_nothing(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    assert_true(call->stream == NULL && call->operand_count >= 5);
    gal_cuda_rank_updates++;
    return GAL_OK;
}

static const gal_ops idle_host = {
    .name = "idle", .kernel = {[GAL_OP_HOST_ADAM] = update_nothing, [GAL_OP_HOST_ADAM_PART] = update_nothing}};

gal_engine_options gal_cuda_rank_options(const gal_cuda_rank *r, const gal_device_ops *device, const gal_ops *ops,
                                         gal_comm *comm)
{
    return (gal_engine_options){.device = device,
                                .ops = ops,
                                .wide_ops = gal_dtype_is_narrow(ops->dtype) ? &gal_ops_queued_idle_fp32 : NULL,
                                .host_ops = ops == &gal_ops_queued_fp64 ? &gal_ops_host_fp64 : &idle_host,
                                .storage_directory = gal_trial_storage(),
                                .comm = comm,
                                .tokens = gal_trial_tokens(&r->plan),
                                .deadline_seconds = 20.0};
}

void gal_cuda_rank_start(gal_cuda_rank *r, const gal_engine_options *options)
{
    gal_error err = {0};
    if (gal_engine_create(r->program, &r->plan.model, r->device, &r->channels, options, &r->engine, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
}

void gal_cuda_rank_run_on(gal_cuda_rank *r, const gal_device_ops *device, const gal_ops *ops, gal_comm *comm,
                          bool graphs)
{
    gal_engine_options options = gal_cuda_rank_options(r, device, ops, comm);
    options.graphs = graphs;
    gal_cuda_rank_start(r, &options);
}

void gal_cuda_rank_close(gal_cuda_rank *r)
{
    gal_engine_free(r->engine);
    gal_channels_free(&r->channels);
    gal_program_free(r->program);
    gal_plan_free(&r->plan);
}

gal_step_result gal_cuda_rank_step(gal_cuda_rank *r, uint64_t number)
{
    gal_error err = {0};
    gal_step_result result = {0};
    const gal_step_settings settings = {.step = number, .seed = 5, .learning_rate = 0.01};
    if (gal_engine_step(r->engine, &settings, &result, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    return result;
}

/* ---- communication of nobody ---- */

static void do_nothing(void *payload)
{
    (void)payload;
}

static gal_code start_queued(gal_comm *comm, const gal_comm_request *request, uint32_t *handle, gal_error *err)
{
    (void)comm;
    (void)handle;
    (void)err;
    assert_non_null(request->queue);
    gal_cuda_double_launch(request->queue, do_nothing, request, 0);
    return GAL_OK;
}

static gal_code start_slow(gal_comm *comm, const gal_comm_request *request, uint32_t *handle, gal_error *err)
{
    gal_slow_requests *state = comm->state;
    (void)err;
    for (*handle = 0; state->queue[*handle] != NULL; ++*handle) {
    }
    state->queue[*handle] = request->queue;
    return GAL_OK;
}

static gal_code test_slow(gal_comm *comm, uint32_t handle, bool *done, gal_error *err)
{
    gal_slow_requests *state = comm->state;
    (void)err;
    *done = !state->never && gal_random_below(&state->random, 3) == 0;
    if (*done) {
        gal_cuda_double_launch(state->queue[handle], do_nothing, state, 0);
        state->queue[handle] = NULL;
    }
    return GAL_OK;
}

const gal_comm_ops gal_nobody_queued = {.name = "nobody", .queued = true, .start = start_queued};
const gal_comm_ops gal_nobody_slow = {.name = "nobody", .start = start_slow, .test = test_slow};
