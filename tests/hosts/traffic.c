/* traffic PLAN SPAN: bytes that the devices of a plan send in a step to devices outside their island of SPAN, and
 * inside, by the collectives of its programs: an all-reduce counts its buffer twice, the others once. */
#include <stdio.h>
#include <stdlib.h>

#include "costmodel/duration.h"
#include "schemas/plan.h"

typedef struct traffic {
    double inside_bytes, outside_bytes;
} traffic;

static void add_call(const gal_program *program, const gal_cluster *cluster, const gal_call *call, traffic *sum)
{
    const gal_place_in_cluster place = {&program->atoms, program->device_count, program->stage, program->stage_count};
    const gal_fragment *fragment = &program->fragment[call->fragment];
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        const gal_instruction *in = &program->instruction[i];
        uint32_t level_counts[GAL_LINK_LEVELS_MAX];
        if (gal_op_is_collective[in->op] == 0) {
            continue;
        }
        gal_group_level_counts(cluster, &place, in->group, level_counts);
        const double bytes = (double)in->bytes * (in->op == GAL_OP_ALL_REDUCE ? 2.0 : 1.0);
        *(level_counts[1] > 1 ? &sum->outside_bytes : &sum->inside_bytes) += bytes * program->device_count;
    }
}

int main(int argc, char **argv)
{
    gal_error err = {0};
    gal_plan plan;
    traffic sum = {0};
    if (argc != 3 || gal_plan_read(argv[1], &plan, &err) != GAL_OK) {
        (void)fprintf(stderr, "traffic PLAN SPAN: %s\n", err.text);
        return GAL_ERR_USAGE;
    }
    const gal_cluster cluster = {.device_count = plan.cluster.device_count,
                                 .level_count = 2,
                                 .level = {{.name = "inside",
                                            .span_devices = (uint32_t)strtoul(argv[2], NULL, 10),
                                            .latency_seconds = 0.0,
                                            .bytes_per_second = 1.0},
                                           {.name = "outside",
                                            .span_devices = plan.cluster.device_count,
                                            .latency_seconds = 0.0,
                                            .bytes_per_second = 1.0}}};
    for (uint32_t s = 0; s < plan.stage_count; s++) {
        gal_program *program = NULL;
        if (gal_lower(&plan, s, &program, &err) != GAL_OK) {
            (void)fprintf(stderr, "%s\n", err.text);
            return GAL_ERR_SYSTEM;
        }
        for (uint32_t c = 0; c < program->call_count; c++) {
            add_call(program, &cluster, &program->call[c], &sum);
        }
        gal_program_free(program);
    }
    printf("%.0f %.0f\n", sum.inside_bytes, sum.outside_bytes);
    gal_plan_free(&plan);
    return GAL_OK;
}
