#include <string.h>

#include "runtime/engine/engine_internal.h"
#include "schemas/base/clock.h"

enum { WAITS_MAX = 4, WAIT_BYTES = 256, STATE_BYTES = 96 };

/* "waits for ranks 1, 2, 5": all of the channel but this one. A list that is too long is cut. */
static void put_peers(const gal_engine *engine, uint32_t channel, char *text, size_t capacity)
{
    const gal_channel_spec *spec = &engine->channels->spec[channel];
    size_t used = (size_t)snprintf(text, capacity, "waits for rank%s", spec->rank_count > 2 ? "s" : "");
    for (uint32_t i = 0, put = 0; i < spec->rank_count && used + 16 < capacity; i++) {
        if (spec->ranks[i] != engine->options.comm->rank) {
            used += (size_t)snprintf(text + used, capacity - used, "%s %u", put++ > 0 ? "," : "", spec->ranks[i]);
        }
    }
}

static void put_state(const gal_engine *engine, uint32_t stream, uint32_t instruction, char *text, size_t capacity)
{
    const uint32_t channel = engine->channels->of_instruction[instruction];
    if (engine->in_flight[stream] && channel != GAL_NO_CHANNEL) {
        put_peers(engine, channel, text, capacity);
    } else {
        (void)snprintf(text, capacity, "%s", engine->in_flight[stream] ? "not done" : "not started");
    }
}

/* "; forward of microbatch 1, waits for ranks 0, 2: tensor all_reduce ..." behind text; columns become one blank. */
static void put_head(const gal_engine *engine, uint32_t stream, char *text, size_t capacity)
{
    const gal_queue_entry *entry = &engine->running->entry[stream][engine->completed[stream]];
    char line[256], name[64], state[STATE_BYTES];
    gal_instruction_print(engine->program, entry->instruction, line, sizeof line);
    put_state(engine, stream, entry->instruction, state, sizeof state);
    size_t used = strlen(text);
    const int written =
        snprintf(text + used, capacity - used, "; %s of microbatch %u, %s: ",
                 gal_fragment_name(engine->program, gal_program_fragment_of(engine->program, entry->instruction), name),
                 entry->microbatch, state);
    used += written > 0 ? (size_t)written : 0;
    for (const char *at = line; *at != '\0' && used + 1 < capacity; at++) {
        if (*at != ' ' || (at > line && at[-1] != ' ')) {
            text[used++] = *at;
        }
    }
    text[used < capacity ? used : capacity - 1] = '\0';
}

/* What is in flight on this rank, for the roll call, which ends all ranks if it is enabled: what waits for others, and
 * what is its own (a disk, a device). */
static void call_roll(const gal_engine *engine)
{
    char text[WAITS_MAX][WAIT_BYTES];
    gal_comm_wait wait[WAITS_MAX];
    uint32_t count = 0;
    gal_comm *comm = engine->options.comm;
    for (uint32_t stream = 0; stream < GAL_STREAM_COUNT && count < WAITS_MAX; stream++) {
        if (!engine->in_flight[stream]) {
            continue;
        }
        const gal_queue_entry *entry = &engine->running->entry[stream][engine->completed[stream]];
        const uint32_t channel = engine->channels->of_instruction[entry->instruction];
        snprintf(text[count], WAIT_BYTES, "%s %llu", engine->evaluating ? "evaluated batch" : "step",
                 (unsigned long long)engine->step.step + 1);
        put_head(engine, stream, text[count], WAIT_BYTES);
        wait[count] = (gal_comm_wait){.text = text[count], .own = channel == GAL_NO_CHANNEL};
        if (channel != GAL_NO_CHANNEL) {
            wait[count].ranks = engine->channels->spec[channel].ranks;
            wait[count].rank_count = engine->channels->spec[channel].rank_count;
        }
        count++;
    }
    if (count == 0) {
        wait[count++] = (gal_comm_wait){.text = "a step, with nothing in flight"};
    }
    comm->ops->roll_call(comm, wait, count, engine->options.deadline_seconds);
}

/* Names the heads of the streams: first those that wait for other ranks, which are the cause. */
static gal_code stuck(const gal_engine *engine, gal_error *err)
{
    char heads[GAL_ERROR_TEXT_BYTES] = "";
    for (int in_flight = 1; in_flight >= 0; in_flight--) {
        for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
            if (engine->completed[stream] < engine->running->count[stream] &&
                engine->in_flight[stream] == (in_flight != 0)) {
                put_head(engine, stream, heads, sizeof heads);
            }
        }
    }
    return gal_fail(err, GAL_ERR_DEVICE, "no progress for %.0f s in %s %llu (stage %u, device %u)%s",
                    engine->options.deadline_seconds, engine->evaluating ? "evaluated batch" : "step",
                    (unsigned long long)engine->step.step, engine->program->stage, engine->device, heads);
}

/* Nothing has moved since idle_since_seconds: an error, or the end of all ranks, if that is too long ago or another
 * rank says so. */
static gal_code wait_on(const gal_engine *engine, double idle_since_seconds, double now_seconds, double *listen_seconds,
                        gal_error *err)
{
    const double idle_seconds = now_seconds - idle_since_seconds;
    const double deadline_seconds = engine->options.deadline_seconds;
    const gal_comm *comm = engine->options.comm;
    if (comm != NULL && comm->ops->roll_call != NULL) {
        bool called = idle_seconds > deadline_seconds - gal_roll_call_seconds(deadline_seconds);
        if (!called && now_seconds > *listen_seconds) {
            called = comm->ops->called(engine->options.comm);
            *listen_seconds = now_seconds + GAL_ROLL_LISTEN_SECONDS;
        }
        if (called) {
            call_roll(engine);
        }
    }
    return idle_seconds > deadline_seconds ? stuck(engine, err) : GAL_OK;
}

gal_code gal_engine_pause(const gal_engine *engine, bool moved, gal_engine_idle *idle, gal_error *err)
{
    gal_code code = GAL_OK;
    if (moved) {
        idle->since_seconds = 0.0;
        return GAL_OK;
    }
    const double now_seconds = gal_now_seconds();
    if (idle->since_seconds <= 0.0) {
        idle->since_seconds = now_seconds;
        idle->listen_seconds = now_seconds + GAL_ROLL_LISTEN_SECONDS;
    }
    GAL_TRY(wait_on(engine, idle->since_seconds, now_seconds, &idle->listen_seconds, err));
    gal_comm_give_way(engine->options.comm, idle->since_seconds);
cleanup:
    return code;
}

bool gal_engine_finished(const gal_engine *engine)
{
    return memcmp(engine->completed, engine->running->count, sizeof engine->completed) == 0;
}

void gal_engine_begin(gal_engine *engine, const gal_queues *queues)
{
    engine->running = queues;
    memset(engine->completed, 0, sizeof engine->completed);
    memset(engine->in_flight, 0, sizeof engine->in_flight);
}
