#include "runtime/train/record.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/base/clock.h"

gal_code gal_step_record_create(const gal_program *program, const gal_queues *queues, gal_step_record *out,
                                gal_error *err)
{
    gal_step_record record = {.program = program, .queues = queues};
    for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
        record.span[stream] = calloc((size_t)queues->count[stream] + 1, sizeof *record.span[stream]);
        if (record.span[stream] == NULL) {
            gal_step_record_free(&record);
            return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: times of a step");
        }
    }
    *out = record;
    return GAL_OK;
}

void gal_step_record_free(gal_step_record *record)
{
    for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
        free(record->span[stream]);
    }
    memset(record, 0, sizeof *record);
}

void gal_step_record_begin(gal_step_record *record)
{
    memset(record->count, 0, sizeof record->count);
    record->open = true;
    record->begin_seconds = gal_now_seconds();
}

void gal_step_record_end(gal_step_record *record)
{
    record->open = false;
}

void gal_step_record_note(void *context, uint32_t instruction, uint32_t microbatch, double start_seconds,
                          double end_seconds)
{
    gal_step_record *record = context;
    (void)microbatch;
    if (record->open) {
        const uint32_t stream = record->program->instruction[instruction].stream;
        record->span[stream][record->count[stream]++] = (gal_span){start_seconds, end_seconds};
    }
}

bool gal_step_record_is_whole(const gal_step_record *record)
{
    return record->queues != NULL && memcmp(record->count, record->queues->count, sizeof record->count) == 0;
}
