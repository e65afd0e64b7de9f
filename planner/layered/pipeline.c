#include "planner/layered/pipeline.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/program/schedule.h"

/* One stage on its way through its calls. */
typedef struct lane {
    gal_schedule_walk walk;
    gal_call call; /* the next */
    bool ended;
    double now_seconds; /* it is free */
} lane;

typedef struct line {
    const gal_pipeline_stage *stage;
    uint32_t stage_count, microbatch_count;
    lane *lane;
    double *forward_end, *backward_end; /* [stage][microbatch]: negative: not yet */
} line;

static double *ends_of(double *ends, const line *l, uint32_t stage)
{
    return ends + (size_t)stage * l->microbatch_count;
}

/* When what the call waits for has come; negative: not yet. */
static double ready_at(const line *l, uint32_t stage)
{
    const gal_call *call = &l->lane[stage].call;
    const bool forward = call->fragment == GAL_FRAGMENT_FORWARD;
    if (forward ? stage == 0 : stage + 1 == l->stage_count) {
        return 0.0;
    }
    const uint32_t from = forward ? stage - 1 : stage + 1;
    const double end = ends_of(forward ? l->forward_end : l->backward_end, l, from)[call->microbatch];
    return end < 0.0 ? end : end + l->stage[forward ? from : stage].transfer_seconds;
}

/* Carries out the stage's calls as far as they are ready; true if there was one. */
static bool advance(line *l, uint32_t stage)
{
    lane *at = &l->lane[stage];
    bool advanced = false;
    while (!at->ended) {
        const double ready = ready_at(l, stage);
        if (ready < 0.0) {
            break;
        }
        const bool forward = at->call.fragment == GAL_FRAGMENT_FORWARD;
        const gal_pipeline_stage *of = &l->stage[stage];
        const bool last = at->call.fragment == GAL_FRAGMENT_BACKWARD_SYNC;
        const double seconds = forward ? of->forward_seconds : last ? of->last_seconds : of->backward_seconds;
        at->now_seconds = fmax(at->now_seconds, ready) + seconds;
        ends_of(forward ? l->forward_end : l->backward_end, l, stage)[at->call.microbatch] = at->now_seconds;
        at->ended = !gal_schedule_next(&at->walk, &at->call);
        advanced = true;
    }
    return advanced;
}

static double play(line *l)
{
    bool advanced = true;
    double seconds = 0.0;
    while (advanced) {
        advanced = false;
        for (uint32_t stage = 0; stage < l->stage_count; stage++) {
            advanced = advance(l, stage) || advanced;
        }
        for (uint32_t stage = l->stage_count; stage-- > 0;) {
            advanced = advance(l, stage) || advanced;
        }
    }
    double update = 0.0;
    for (uint32_t stage = 0; stage < l->stage_count; stage++) {
        seconds = fmax(seconds, l->lane[stage].now_seconds + fmax(l->stage[stage].sync_seconds, 0.0));
        update = fmax(update, l->stage[stage].update_seconds);
    }
    return seconds + update;
}

/* All calls of so many microbatches. */
static gal_code play_all(const gal_pipeline_stage *stage, uint32_t stage_count, uint32_t microbatch_count,
                         gal_schedule schedule, double *seconds, gal_error *err)
{
    gal_code code = GAL_OK;
    const size_t calls = (size_t)stage_count * microbatch_count;
    line l = {.stage = stage, .stage_count = stage_count, .microbatch_count = microbatch_count};
    l.lane = calloc(stage_count, sizeof *l.lane);
    l.forward_end = malloc(2 * calls * sizeof *l.forward_end);
    if (l.lane == NULL || l.forward_end == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    l.backward_end = l.forward_end + calls;
    for (size_t i = 0; i < 2 * calls; i++) {
        l.forward_end[i] = -1.0;
    }
    for (uint32_t i = 0; i < stage_count; i++) {
        l.lane[i].walk.at = (gal_schedule_place){schedule, i, stage_count, 1, microbatch_count};
        l.lane[i].ended = !gal_schedule_next(&l.lane[i].walk, &l.lane[i].call);
    }
    *seconds = play(&l);
cleanup:
    free(l.lane);
    free(l.forward_end);
    return code;
}

/* Behind the warm-up each microbatch adds as much as the one before; stages wait for each other by turns of two. */
enum { STEADY_MICROBATCHES = 4, TURN = 2 };

gal_code gal_pipeline_seconds(const gal_pipeline_stage *stage, uint32_t stage_count, uint32_t microbatch_count,
                              gal_schedule schedule, double *seconds, gal_error *err)
{
    const uint32_t few = 2 * stage_count + STEADY_MICROBATCHES;
    if (microbatch_count <= few + TURN) {
        return play_all(stage, stage_count, microbatch_count, schedule, seconds, err);
    }
    double fewer = 0.0, more = 0.0;
    gal_code code = play_all(stage, stage_count, few, schedule, &fewer, err);
    code = code == GAL_OK ? play_all(stage, stage_count, few + TURN, schedule, &more, err) : code;
    *seconds = more + (microbatch_count - few - TURN) * (more - fewer) / TURN;
    return code;
}
