#include "planner/published/colossal_release.h"

#include <stdlib.h>
#include <string.h>

/* Bytes that are read and written once each. */
static double copy_seconds(const gal_durations *durations, double bytes)
{
    const gal_device *device = &gal_durations_cluster(durations)->device;
    return device->launch_seconds + 2.0 * bytes / (device->memory_bytes_per_second * device->memory_fraction);
}

/* Of a collective: its copies. */
static double copies_of(const gal_program *program, const gal_durations *durations, const gal_instruction *in)
{
    const double bytes = (double)in->bytes;
    switch ((gal_op)in->op) {
    case GAL_OP_ALL_GATHER:
        return copy_seconds(durations, bytes / gal_group_size(&program->atoms, in->group)) +
               2.0 * copy_seconds(durations, bytes);
    case GAL_OP_REDUCE_SCATTER:
    case GAL_OP_BROADCAST:
        return copy_seconds(durations, bytes);
    default:
        return 0.0;
    }
}

/* The gather of dY, which the product for dW has for itself. */
static bool is_repeated(const gal_instruction *in)
{
    return in->op == GAL_OP_ALL_GATHER && strcmp(in->name, "gather dy") == 0;
}

gal_code gal_colossal_release_seconds(const gal_program *program, const gal_durations *durations, double *seconds,
                                      gal_error *err)
{
    static const gal_fragment_kind step[] = {GAL_FRAGMENT_FORWARD, GAL_FRAGMENT_BACKWARD_SYNC, GAL_FRAGMENT_UPDATE};
    gal_cost *cost = calloc(program->instruction_count, sizeof *cost);
    if (cost == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: a step of Colossal-AI");
    }
    GAL_ASSERT(program->stage_count == 1 && program->microbatch_count == 1 && !program->split);
    gal_instruction_costs(durations, program, 0, program->instruction_count, cost);
    double sum = gal_durations_fixed_step_seconds(durations);
    for (size_t f = 0; f < sizeof step / sizeof step[0]; f++) {
        const gal_fragment *fragment = &program->fragment[step[f]];
        for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
            const gal_instruction *in = &program->instruction[i];
            sum += (cost[i].seconds + copies_of(program, durations, in)) * (is_repeated(in) ? 2.0 : 1.0);
        }
    }
    *seconds = sum;
    free(cost);
    return GAL_OK;
}
