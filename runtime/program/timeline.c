#include "runtime/program/timeline.h"

static void put_name(gal_json_writer *out, const char *what, uint32_t process, uint32_t stream, const char *name)
{
    gal_json_begin_object(out, NULL);
    gal_json_put_string(out, "name", what);
    gal_json_put_string(out, "ph", "M");
    gal_json_put_u64(out, "pid", process);
    gal_json_put_u64(out, "tid", stream);
    gal_json_begin_object(out, "args");
    gal_json_put_string(out, "name", name);
    gal_json_end_object(out);
    gal_json_end_object(out);
}

void gal_timeline_begin(gal_json_writer *out)
{
    gal_json_begin_object(out, NULL);
    gal_json_put_string(out, "displayTimeUnit", "ms");
    gal_json_begin_array(out, "traceEvents");
}

void gal_timeline_end(gal_json_writer *out)
{
    gal_json_end_array(out);
    gal_json_end_object(out);
}

void gal_timeline_put_process(gal_json_writer *out, uint32_t process, const char *name)
{
    put_name(out, "process_name", process, 0, name);
    for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
        put_name(out, "thread_name", process, stream, gal_stream_names[stream]);
    }
}

void gal_timeline_put_span(gal_json_writer *out, const gal_program *program, const gal_timeline_span *span)
{
    const gal_instruction *in = &program->instruction[span->instruction];
    const uint32_t fragment = gal_program_fragment_of(program, span->instruction);
    gal_json_begin_object(out, NULL);
    gal_json_put_string(out, "name", in->name);
    gal_json_put_string(out, "cat", gal_op_names[in->op]);
    gal_json_put_string(out, "ph", "X");
    gal_json_put_f64(out, "ts", span->start_seconds * 1e6);
    gal_json_put_f64(out, "dur", (span->end_seconds - span->start_seconds) * 1e6);
    gal_json_put_u64(out, "pid", span->process);
    gal_json_put_u64(out, "tid", in->stream);
    gal_json_begin_object(out, "args");
    gal_json_put_string(out, "fragment", gal_fragment_names[gal_fragment_kind_of(fragment)]);
    if (program->chunk_count > 1) {
        gal_json_put_u64(out, "chunk", gal_fragment_chunk(fragment));
    }
    gal_json_put_u64(out, "microbatch", span->microbatch);
    gal_json_put_u64(out, "block", in->block);
    gal_json_put_u64(out, "bytes", in->bytes);
    gal_json_end_object(out);
    gal_json_end_object(out);
}
