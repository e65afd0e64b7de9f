#include "runtime/train/trace_file.h"

#include <stdlib.h>

#include "runtime/program/timeline.h"

/* What ranks send to rank 0: the spans of a step, as many as the longest step has; unused ones have no instruction. */
typedef struct sent_span {
    uint32_t instruction, microbatch;
    double start_seconds, end_seconds; /* since the rank began the step */
} sent_span;

#define NO_INSTRUCTION UINT32_MAX

static uint64_t span_count(const gal_step_record *record)
{
    uint64_t count = 0;
    for (uint32_t s = 0; gal_step_record_is_whole(record) && s < GAL_STREAM_COUNT; s++) {
        count += record->count[s];
    }
    return count;
}

static void fill(const gal_step_record *record, sent_span *out, uint64_t capacity)
{
    uint64_t used = 0;
    for (uint32_t s = 0; gal_step_record_is_whole(record) && s < GAL_STREAM_COUNT; s++) {
        for (uint32_t i = 0; i < record->count[s]; i++) {
            const gal_queue_entry *entry = &record->queues->entry[s][i];
            out[used++] = (sent_span){entry->instruction, entry->microbatch,
                                      record->span[s][i].start_seconds - record->begin_seconds,
                                      record->span[s][i].end_seconds - record->begin_seconds};
        }
    }
    while (used < capacity) {
        out[used++] = (sent_span){.instruction = NO_INSTRUCTION};
    }
}

static void put_rank(uint32_t rank, const gal_program *program, const sent_span *spans, uint64_t count,
                     gal_json_writer *out)
{
    for (uint64_t i = 0; i < count && spans[i].instruction != NO_INSTRUCTION; i++) {
        const gal_timeline_span span = {.process = rank,
                                        .instruction = spans[i].instruction,
                                        .microbatch = spans[i].microbatch,
                                        .start_seconds = spans[i].start_seconds,
                                        .end_seconds = spans[i].end_seconds};
        gal_timeline_put_span(out, program, &span);
    }
}

/* spans[world size][count] */
static gal_code write_file(const char *path, const gal_plan *plan, const sent_span *spans, uint64_t count,
                           gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t stage_devices = gal_plan_stage_devices(plan);
    gal_program *program = NULL;
    gal_json_writer *out = gal_json_writer_create();
    gal_timeline_begin(out);
    for (uint32_t rank = 0; rank < plan->stage_count * stage_devices; rank++) {
        char name[48];
        snprintf(name, sizeof name, "rank %u, stage %u", rank, rank / stage_devices);
        gal_timeline_put_process(out, rank, name);
        if (rank % stage_devices == 0) {
            gal_program_free(program);
            program = NULL;
            GAL_TRY(gal_lower(plan, rank / stage_devices, &program, err));
        }
        put_rank(rank, program, spans + rank * count, count, out);
    }
    gal_timeline_end(out);
    GAL_TRY(gal_json_writer_save(out, path, err));
cleanup:
    gal_program_free(program);
    gal_json_writer_free(out);
    return code;
}

gal_code gal_trace_save(const char *path, const gal_plan *plan, const gal_step_record *record, const gal_world *world,
                        gal_error *err)
{
    gal_code code = GAL_OK;
    const bool first = gal_world_rank(world) == 0;
    double longest = (double)span_count(record);
    sent_span *mine = NULL, *all = NULL;
    GAL_TRY(gal_world_maximum(world, &longest, 1, err));
    const uint64_t count = (uint64_t)longest;
    mine = calloc((size_t)count + 1, sizeof *mine);
    all = first ? calloc((size_t)count * gal_world_size(world) + 1, sizeof *all) : NULL;
    code = mine != NULL && (!first || all != NULL) ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: trace");
    GAL_TRY(gal_world_agree(world, code, err));
    fill(record, mine, count);
    GAL_TRY(gal_world_gather(world, mine, count * sizeof *mine, all, err));
    code = first ? write_file(path, plan, all, count, err) : GAL_OK;
    GAL_TRY(gal_world_agree(world, code, err));
cleanup:
    free(all);
    free(mine);
    return code;
}
