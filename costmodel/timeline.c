/* The timeline of a simulation as a Chrome trace. */
#include "runtime/program/timeline.h"

#include <stdio.h>

#include "costmodel/simulate.h"

void gal_simulation_write_trace(const gal_simulation *simulation, gal_program *const *program, gal_json_writer *out)
{
    gal_timeline_begin(out);
    for (uint32_t stage = 0; stage < simulation->stage_count; stage++) {
        char name[32];
        (void)snprintf(name, sizeof name, "stage %u", stage);
        gal_timeline_put_process(out, stage, name);
    }
    for (uint64_t i = 0; simulation->timeline != NULL && i < simulation->event_count; i++) {
        const gal_timeline_event *event = &simulation->timeline[i];
        const gal_timeline_span span = {.process = event->stage,
                                        .instruction = event->instruction,
                                        .microbatch = program[event->stage]->call[event->call].microbatch,
                                        .start_seconds = event->start_seconds,
                                        .end_seconds = event->end_seconds};
        gal_timeline_put_span(out, program[event->stage], &span);
    }
    gal_timeline_end(out);
}
