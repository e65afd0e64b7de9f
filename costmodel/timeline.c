/* The timeline of a simulation as a Chrome trace. */
#include "costmodel/simulate.h"

static void put_name(gal_json_writer *out, const char *what, uint32_t stage, uint32_t stream, const char *name)
{
    gal_json_begin_object(out, NULL);
    gal_json_put_string(out, "name", what);
    gal_json_put_string(out, "ph", "M");
    gal_json_put_u64(out, "pid", stage);
    gal_json_put_u64(out, "tid", stream);
    gal_json_begin_object(out, "args");
    gal_json_put_string(out, "name", name);
    gal_json_end_object(out);
    gal_json_end_object(out);
}

static void put_names(const gal_simulation *simulation, gal_json_writer *out)
{
    for (uint32_t stage = 0; stage < simulation->stage_count; stage++) {
        char name[32];
        (void)snprintf(name, sizeof name, "stage %u", stage);
        put_name(out, "process_name", stage, 0, name);
        for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
            put_name(out, "thread_name", stage, stream, gal_stream_names[stream]);
        }
    }
}

static void put_event(const gal_timeline_event *event, const gal_program *program, gal_json_writer *out)
{
    const gal_instruction *in = &program->instruction[event->instruction];
    const gal_call *call = &program->call[event->call];
    gal_json_begin_object(out, NULL);
    gal_json_put_string(out, "name", in->name);
    gal_json_put_string(out, "cat", gal_op_names[in->op]);
    gal_json_put_string(out, "ph", "X");
    gal_json_put_f64(out, "ts", event->start_seconds * 1e6);
    gal_json_put_f64(out, "dur", (event->end_seconds - event->start_seconds) * 1e6);
    gal_json_put_u64(out, "pid", event->stage);
    gal_json_put_u64(out, "tid", in->stream);
    gal_json_begin_object(out, "args");
    gal_json_put_string(out, "fragment", gal_fragment_names[call->fragment]);
    gal_json_put_u64(out, "microbatch", call->microbatch);
    gal_json_put_u64(out, "block", in->block);
    gal_json_put_u64(out, "bytes", in->bytes);
    gal_json_end_object(out);
    gal_json_end_object(out);
}

void gal_simulation_write_trace(const gal_simulation *simulation, gal_program *const *program, gal_json_writer *out)
{
    gal_json_begin_object(out, NULL);
    gal_json_put_string(out, "displayTimeUnit", "ms");
    gal_json_begin_array(out, "traceEvents");
    put_names(simulation, out);
    for (uint64_t i = 0; simulation->timeline != NULL && i < simulation->event_count; i++) {
        put_event(&simulation->timeline[i], program[simulation->timeline[i].stage], out);
    }
    gal_json_end_array(out);
    gal_json_end_object(out);
}
