#include "tests/support/nccl_trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/channels.h"
#include "runtime/comm/nccl.h"
#include "tests/support/nccl_double.h"
#include "tests/support/thread_world.h"

char *gal_nccl_trial_arena(uint32_t rank)
{
    return (char *)((uintptr_t)(rank + 1) << 40); /* never read or written: the double moves nothing */
}

/* As the engine makes it of an instruction. */
static gal_comm_request request_of(const gal_program *program, const gal_channels *channels, uint32_t device,
                                   uint32_t index, uint32_t microbatch, char *queues)
{
    const gal_instruction *instruction = &program->instruction[index];
    const gal_shape *shape = &program->shape[instruction->shape];
    const uint32_t rank = program->stage * program->device_count + device;
    void *address[2] = {NULL, NULL};
    for (uint32_t o = 0; o < instruction->operand_count; o++) {
        const gal_operand *operand = &program->operand[instruction->first_operand + o];
        address[o] = gal_nccl_trial_arena(rank) + gal_operand_offset(program, operand, device, microbatch);
    }
    const bool may = instruction->op == GAL_OP_ALL_GATHER || instruction->op == GAL_OP_REDUCE_SCATTER;
    const bool first_is_source = instruction->op == GAL_OP_SEND || instruction->operand_count == 2;
    return (gal_comm_request){
        .op = (gal_op)instruction->op,
        .channel = channels->of_instruction[index],
        .peer = instruction->op == GAL_OP_BROADCAST || instruction->op == GAL_OP_REDUCE ? shape->dims[1]
                : instruction->group == GAL_GROUP_NEXT                                  ? 1
                                                                                        : 0,
        .dtype = shape->dtype,
        .reduce = instruction->op == GAL_OP_ALL_REDUCE ? shape->dims[1] : GAL_REDUCE_SUM,
        .elements = shape->dims[0],
        .in_place = may && shape->dims[1] != 0,
        .source = first_is_source ? address[0] : NULL,
        .target = instruction->operand_count == 2 ? address[1]
                  : first_is_source               ? NULL
                                                  : address[0],
        .queue = queues + instruction->stream,
    };
}

static gal_code issue_step(const gal_program *program, const gal_channels *channels, uint32_t device, gal_comm *comm,
                           gal_error *err)
{
    char queues[GAL_STREAM_COUNT];
    for (uint32_t c = 0; c < program->call_count; c++) {
        const gal_fragment *fragment = &program->fragment[program->call[c].fragment];
        for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
            uint32_t handle = 0;
            if (channels->of_instruction[i] == GAL_NO_CHANNEL) {
                continue;
            }
            const gal_comm_request request =
                request_of(program, channels, device, i, program->call[c].microbatch, queues);
            const gal_code code = comm->ops->start(comm, &request, &handle, err);
            if (code != GAL_OK) {
                return code;
            }
        }
    }
    return GAL_OK;
}

static void tell(const char *text)
{
    print_error("%s\n", text);
}

/* Channels of the same members and stream are one. */
static uint32_t distinct(const gal_channels *channels)
{
    uint32_t count = 0;
    for (uint32_t c = 0; c < channels->count; c++) {
        const gal_channel_spec *spec = &channels->spec[c];
        uint32_t before = 0;
        while (before < c && (channels->spec[before].stream != spec->stream ||
                              channels->spec[before].rank_count != spec->rank_count ||
                              memcmp(channels->spec[before].ranks, spec->ranks, spec->rank_count * sizeof(uint32_t)))) {
            before++;
        }
        count += before == c;
    }
    return count;
}

static void run_rank(uint32_t rank, void *context)
{
    gal_nccl_trial *t = context;
    gal_code code = GAL_OK;
    gal_error *err = &t->err[rank];
    gal_comm *comm = NULL;
    gal_channels channels = {0};
    const uint32_t devices = gal_plan_stage_devices(t->plan), device = rank % devices;
    const gal_program *program = t->program[rank / devices];
    const gal_nccl_options options = {.ctas = GAL_TRIAL_CTAS, .deadline_seconds = 30.0, .tell = tell};
    gal_double_enter(rank);
    GAL_TRY(gal_channels_of(program, device, &channels, err));
    GAL_TRY(gal_comm_nccl_create(gal_thread_world_comm(t->world, rank), &options, channels.spec, channels.count, &comm,
                                 err));
    t->communicators[rank] = comm->communicator_count;
    t->channels[rank] = distinct(&channels);
    GAL_TRY(gal_nccl_register(comm, gal_nccl_trial_arena(rank), program->arena_bytes, err));
    (void)gal_double_calls(rank, &t->begin[rank]);
    GAL_TRY(issue_step(program, &channels, device, comm, err));
    (void)gal_double_calls(rank, &t->end[rank]);
    t->open_groups[rank] = gal_double_open_groups();
    gal_nccl_unregister(comm);
cleanup:
    t->code[rank] = code;
    gal_comm_free(comm);
    gal_channels_free(&channels);
}

void gal_nccl_trial_run(const gal_plan *plan, bool windows, gal_nccl_trial *t)
{
    gal_error err = {0};
    memset(t, 0, sizeof *t);
    t->plan = plan;
    t->ranks = plan->stage_count * gal_plan_stage_devices(plan);
    t->world = gal_thread_world_create(t->ranks);
    gal_double_reset();
    if (!windows) {
        gal_double_refuse_windows();
    }
    if (gal_lower_plan(plan, t->program, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    gal_thread_world_run(t->ranks, run_rank, t);
    for (uint32_t r = 0; r < t->ranks; r++) {
        if (t->code[r] != GAL_OK) {
            fail_msg("rank %u: %s", r, t->err[r].text);
        }
    }
}

void gal_nccl_trial_end(gal_nccl_trial *t)
{
    for (uint32_t s = 0; s < t->plan->stage_count; s++) {
        gal_program_free(t->program[s]);
    }
    gal_thread_world_free(t->world);
}
