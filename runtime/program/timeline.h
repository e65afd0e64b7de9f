/* A step as a Chrome trace ("chrome://tracing", Perfetto): processes with a thread per stream and an event per
 * instruction. Simulated and measured steps are written alike, so that they can be looked at side by side. */
#ifndef GAL_RUNTIME_PROGRAM_TIMELINE_H
#define GAL_RUNTIME_PROGRAM_TIMELINE_H

#include "runtime/program/program.h"
#include "schemas/base/json.h"

/* begin, every process, every event, end. */
void gal_timeline_begin(gal_json_writer *out);
void gal_timeline_end(gal_json_writer *out);
/* The names of a process (a stage, a rank) and of its threads. */
void gal_timeline_put_process(gal_json_writer *out, uint32_t process, const char *name);

typedef struct gal_timeline_span {
    uint32_t process;
    uint32_t instruction, microbatch; /* of the program */
    double start_seconds, end_seconds;
} gal_timeline_span;
void gal_timeline_put_span(gal_json_writer *out, const gal_program *program, const gal_timeline_span *span);

#endif
