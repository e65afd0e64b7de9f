#include "costmodel/steady.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double same_share = 1e-11; /* of what lay between two states */

struct gal_steady {
    uint32_t call;                    /* of the first stage's compute when it was looked at last */
    uint32_t look_count, kept_at;     /* the state is kept of looks 1, 2, 4 ..: one of them is within what repeats */
    gal_sim_stage *stage;             /* the state that is kept */
    gal_stage_simulation *simulation; /* what had been counted */
    uint32_t at_set[GAL_SHARED_COUNT + 1];
    uint64_t event_count;
    double seconds;
    uint32_t *shift, *from; /* [stage]: calls further; from the first that a queue stood at */
};

gal_code gal_steady_create(const gal_simulator *sim, gal_steady **out, gal_error *err)
{
    gal_steady *steady = calloc(1, sizeof *steady);
    if (steady != NULL) {
        steady->stage = calloc(sim->stage_count, sizeof *steady->stage);
        steady->simulation = calloc(sim->stage_count, sizeof *steady->simulation);
        steady->shift = calloc(2 * (size_t)sim->stage_count, sizeof *steady->shift);
    }
    if (steady == NULL || steady->stage == NULL || steady->simulation == NULL || steady->shift == NULL) {
        gal_steady_free(steady);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: simulation");
    }
    steady->from = steady->shift + sim->stage_count;
    *out = steady;
    return GAL_OK;
}

void gal_steady_free(gal_steady *steady)
{
    if (steady != NULL) {
        free(steady->shift);
        free(steady->simulation);
        free(steady->stage);
        free(steady);
    }
}

static void keep(gal_steady *steady, const gal_simulator *sim)
{
    memcpy(steady->stage, sim->stage, sim->stage_count * sizeof *steady->stage);
    memcpy(steady->simulation, sim->out->stage, sim->stage_count * sizeof *steady->simulation);
    memcpy(steady->at_set, sim->at_set, sizeof steady->at_set);
    steady->event_count = sim->out->event_count;
    steady->seconds = sim->now_seconds;
    steady->kept_at = steady->look_count;
}

/* ---- whether a state is as another was ---- */

/* A queue that stands where it stood: nobody has come to serve it. */
static bool is_parked(const gal_sim_lane *then, const gal_sim_lane *now)
{
    return then->call == now->call && now->state != GAL_LANE_RUNS;
}

/* As far as `lay_between` seconds ago. */
static bool is_same_time(double then, double now, double lay_between)
{
    return (isinf(then) && isinf(now)) || fabs(now - then - lay_between) <= same_share * lay_between;
}

static bool is_same_lane(const gal_sim_lane *then, const gal_sim_lane *now, double lay_between)
{
    const bool waits = now->state == GAL_LANE_WAITS;
    if (then->state != now->state || then->step != now->step || then->end != now->end ||
        (waits && (then->next_wait != now->next_wait || then->wait_stream != now->wait_stream))) {
        return false;
    }
    return now->state != GAL_LANE_RUNS || (then->other == now->other && then->factor == now->factor &&
                                           is_same_time(then->end_seconds, now->end_seconds, lay_between) &&
                                           is_same_time(then->start_seconds, now->start_seconds, lay_between));
}

/* All queues that are not parked have moved on by as many calls. */
static bool is_same_stage(const gal_sim_stage *then, const gal_sim_stage *now, double lay_between, uint32_t *shift)
{
    *shift = 0;
    if (then->running != now->running || then->fresh != now->fresh ||
        memcmp(then->waiting, now->waiting, sizeof now->waiting) != 0) {
        return false;
    }
    for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
        const gal_sim_lane *a = &then->lane[stream];
        const gal_sim_lane *b = &now->lane[stream];
        if (!is_same_lane(a, b, lay_between)) {
            return false;
        }
        if (a->state == GAL_LANE_ENDED || is_parked(a, b)) {
            continue;
        }
        if (a->call == b->call || (*shift != 0 && b->call - a->call != *shift)) {
            return false;
        }
        *shift = b->call - a->call;
    }
    return true;
}

static bool is_same(gal_steady *steady, const gal_simulator *sim)
{
    const double lay_between = sim->now_seconds - steady->seconds;
    bool same = memcmp(steady->at_set, sim->at_set, sizeof steady->at_set) == 0;
    for (uint32_t s = 0; s < sim->stage_count && same; s++) {
        same = is_same_stage(&steady->stage[s], &sim->stage[s], lay_between, &steady->shift[s]);
    }
    return same;
}

/* ---- how often what lay between comes again ---- */

/* Steps that a stream completes in `shift` calls from `call` on. */
static uint32_t steps_of(const gal_expansion *e, uint32_t call, uint32_t shift, uint32_t stream)
{
    return e->before[call + shift][stream] - e->before[call][stream];
}

/* Whether a call and the one `shift` further are the same, and wait for the same, so much further; or for what had
 * been completed then. */
static bool is_same_call(const gal_sim_stage *then, uint32_t call, uint32_t shift)
{
    const gal_expansion *e = &then->expansion;
    if (e->call[call].fragment != e->call[call + shift].fragment) {
        return false;
    }
    for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
        const gal_step_list *list = &e->list[e->call[call].fragment][stream];
        for (const gal_step *step = e->step + list->first; step < e->step + list->first + list->count; step++) {
            for (uint32_t w = step->first_wait; w < step->first_wait + step->wait_count; w++) {
                const gal_step_wait *wait = &e->wait[w];
                if (wait->kind != GAL_WAIT_BUFFER) {
                    continue;
                }
                const uint32_t own = e->row[e->first_row[call] + wait->target];
                const uint32_t later = e->row[e->first_row[call + shift] + wait->target];
                const uint32_t done = then->lane[wait->stream].completed;
                if (later - own != steps_of(e, call, shift, wait->stream) && (own > done || later > done)) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* Until a parked queue would be served. */
static uint32_t repeats_of_parked(const gal_sim_stage *now, const gal_sim_lane *parked, uint32_t call, uint32_t shift)
{
    const uint32_t steps = steps_of(&now->expansion, call, shift, parked->wait_stream);
    const uint32_t left = parked->wait_completed - now->lane[parked->wait_stream].completed;
    return steps == 0 ? UINT32_MAX : (left - 1) / steps;
}

static uint32_t repeats_of(const gal_sim_stage *then, const gal_sim_stage *now, uint32_t shift, uint32_t *from)
{
    const gal_expansion *e = &now->expansion;
    uint32_t first = UINT32_MAX; /* calls that queues stood at then, and stand at now */
    uint32_t last = 0;
    if (shift == 0) {
        return UINT32_MAX;
    }
    for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
        if (now->lane[stream].state != GAL_LANE_ENDED && !is_parked(&then->lane[stream], &now->lane[stream])) {
            first = then->lane[stream].call < first ? then->lane[stream].call : first;
            last = now->lane[stream].call > last ? now->lane[stream].call : last;
        }
    }
    *from = first;
    uint32_t call = first;
    while (call + shift < e->call_count && is_same_call(then, call, shift)) {
        call++;
    }
    if (call <= last) {
        return 0;
    }
    uint32_t repeats = (call - 1 - last) / shift + 1;
    for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
        const gal_sim_lane *l = &now->lane[stream];
        if (l->state == GAL_LANE_WAITS && is_parked(&then->lane[stream], l)) {
            const uint32_t own = repeats_of_parked(now, l, first, shift);
            repeats = own < repeats ? own : repeats;
        }
    }
    return repeats;
}

/* ---- moving on ---- */

static void move_stage(const gal_steady *steady, uint32_t s, gal_sim_stage *now, uint32_t repeats, double seconds)
{
    const gal_sim_stage *then = &steady->stage[s];
    const gal_expansion *e = &now->expansion;
    const uint32_t shift = steady->shift[s];
    const uint32_t from = steady->from[s];
    now->next_seconds += seconds;
    for (uint32_t stream = 0; shift > 0 && stream < GAL_STREAM_COUNT; stream++) {
        gal_sim_lane *l = &now->lane[stream];
        if (l->state == GAL_LANE_ENDED || is_parked(&then->lane[stream], l)) {
            continue;
        }
        l->call += repeats * shift;
        l->completed += repeats * steps_of(e, from, shift, stream);
        l->wait_completed += repeats * steps_of(e, from, shift, l->wait_stream);
        l->start_seconds += seconds;
        l->since_seconds += seconds;
        l->end_seconds += seconds;
    }
}

static void move_on(const gal_steady *steady, gal_simulator *sim, uint32_t repeats)
{
    gal_simulation *out = sim->out;
    const double seconds = repeats * (sim->now_seconds - steady->seconds);
    for (uint32_t s = 0; s < sim->stage_count; s++) {
        move_stage(steady, s, &sim->stage[s], repeats, seconds);
        for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
            double *busy = &out->stage[s].busy_seconds[stream];
            *busy += repeats * (*busy - steady->simulation[s].busy_seconds[stream]);
        }
    }
    const uint64_t events = repeats * (out->event_count - steady->event_count);
    out->event_count += events;
    out->repeated_count += events;
    sim->now_seconds += seconds;
}

void gal_steady_look(gal_steady *steady, gal_simulator *sim)
{
    const gal_sim_lane *compute = &sim->stage[0].lane[GAL_STREAM_COMPUTE];
    if (compute->call == steady->call || compute->state == GAL_LANE_ENDED) {
        return;
    }
    steady->call = compute->call;
    steady->look_count++;
    if (steady->kept_at > 0 && is_same(steady, sim)) {
        uint32_t repeats = UINT32_MAX;
        for (uint32_t s = 0; s < sim->stage_count && repeats > 0; s++) {
            const uint32_t own = repeats_of(&steady->stage[s], &sim->stage[s], steady->shift[s], &steady->from[s]);
            repeats = own < repeats ? own : repeats;
        }
        if (repeats > 0 && repeats < UINT32_MAX) {
            move_on(steady, sim, repeats);
            steady->call = compute->call;
            steady->look_count = steady->kept_at = 0;
        }
    }
    if ((steady->look_count & (steady->look_count - 1)) == 0) {
        keep(steady, sim);
    }
}
