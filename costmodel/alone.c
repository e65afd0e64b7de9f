#include "costmodel/alone.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = GAL_ALONE_STREAMS, COMPANIES = 1 << GAL_ACTIVITY_COUNT };

/* ---- scripts ---- */

typedef struct writer {
    const gal_expansion *expansion;
    gal_script *script;
    uint32_t event_count, wait_count;
} writer;

/* Step i of a call, behind the stream's events so far: what it waits for and does not know complete. */
static void add_event(writer *w, uint32_t call, uint32_t i, uint32_t known[LANES])
{
    const gal_expansion *e = w->expansion;
    const gal_step *step = &e->step[i];
    gal_script_event *event = &w->script->event[w->event_count++];
    *event = (gal_script_event){.step = i, .call = (uint8_t)call};
    for (uint32_t k = 0; k < step->wait_count; k++) {
        const gal_step_wait *wait = &e->wait[step->first_wait + k];
        const uint32_t completed = wait->kind == GAL_WAIT_BUFFER ? e->row[e->first_row[call] + wait->target]
                                                                 : e->before[call][wait->stream] + wait->target;
        if (completed > known[wait->stream]) {
            known[wait->stream] = completed;
            w->script->wait[w->wait_count++] = (gal_script_wait){wait->stream, completed};
            event->wait_count++;
        }
    }
}

static void add_stream(writer *w, uint32_t stream)
{
    const gal_expansion *e = w->expansion;
    uint32_t known[LANES] = {0};
    w->script->first[stream] = w->event_count;
    w->script->first_wait[stream] = w->wait_count;
    for (uint32_t call = 0; call < e->call_count; call++) {
        const gal_step_list *list = &e->list[e->call[call].fragment][stream];
        for (uint32_t i = list->first; i < list->first + list->count; i++) {
            add_event(w, call, i, known);
        }
    }
    for (uint32_t i = w->script->first[stream]; i < w->event_count; i++) {
        gal_script_event *event = &w->script->event[i];
        event->closes = i + 1 == w->event_count || event[1].call != event->call ||
                        e->step[event[1].step].block != e->step[event->step].block;
    }
}

gal_code gal_script_create(const gal_expansion *expansion, gal_script *out, gal_error *err)
{
    const gal_expansion *e = expansion;
    size_t waits = 1;
    for (uint32_t call = 0; call < e->call_count; call++) {
        for (uint32_t stream = 0; stream < LANES; stream++) {
            const gal_step_list *list = &e->list[e->call[call].fragment][stream];
            for (uint32_t i = 0; i < list->count; i++) {
                waits += e->step[list->first + i].wait_count;
            }
        }
    }
    *out = (gal_script){0};
    out->event = malloc((e->event_count + 1) * sizeof *out->event + waits * sizeof *out->wait);
    if (out->event == NULL) {
        gal_script_free(out);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: price");
    }
    out->wait = (gal_script_wait *)(out->event + e->event_count + 1);
    writer w = {.expansion = e, .script = out};
    for (uint32_t stream = 0; stream < LANES; stream++) {
        add_stream(&w, stream);
    }
    out->first[LANES] = w.event_count;
    return GAL_OK;
}

void gal_script_free(gal_script *script)
{
    free(script->event);
    *script = (gal_script){0};
}

/* ---- playing ---- */

typedef struct lane {
    const gal_script_event *event, *end;    /* the head; behind the last */
    const gal_step *step;                   /* of the head */
    const gal_script_wait *wait, *wait_end; /* of the head: those before are met */
    uint32_t completed;
    uint32_t waiting;         /* streams that wait for this one, as bits */
    double since_seconds;     /* remaining_seconds and factor hold from here on */
    double remaining_seconds; /* at full speed */
    double factor;
    double end_seconds;
} lane;

typedef struct player {
    const gal_step *step;
    gal_alone_ends *ends;
    uint32_t last_call;
    uint32_t running; /* bits of streams */
    lane lane[LANES];
    double now_seconds;
    double factor[GAL_ACTIVITY_COUNT][COMPANIES]; /* of an activity, beside those whose bits are set */
} player;

static uint32_t lowest(uint32_t bits)
{
    return (uint32_t)__builtin_ctz(bits);
}

/* The head starts, or its stream is noted where it waits. */
static inline void start(player *p, uint32_t stream)
{
    lane *l = &p->lane[stream];
    for (; l->wait < l->wait_end; l->wait++) {
        lane *other = &p->lane[l->wait->stream];
        if (other->completed < l->wait->completed) {
            other->waiting |= 1u << stream;
            return;
        }
    }
    const double seconds = l->step->seconds;
    l->since_seconds = p->now_seconds;
    l->remaining_seconds = seconds;
    l->factor = 1.0;
    l->end_seconds = p->now_seconds + seconds;
    p->running |= 1u << stream;
}

/* The waits of a stream's events follow each other. */
static inline void come_to(player *p, uint32_t stream)
{
    lane *l = &p->lane[stream];
    if (l->event < l->end) {
        l->step = &p->step[l->event->step];
        l->wait_end = l->wait + l->event->wait_count;
        start(p, stream);
    }
}

static inline void end(player *p, uint32_t stream)
{
    lane *l = &p->lane[stream];
    const gal_script_event *event = l->event;
    p->running &= ~(1u << stream);
    if (event->closes && stream == GAL_STREAM_COMPUTE) {
        p->ends->compute_seconds[event->call] = p->now_seconds;
    } else if (event->closes && stream == GAL_STREAM_REDUCE) {
        p->ends->reduce_seconds[event->call] = p->now_seconds;
    }
    if (event->closes && (stream == GAL_STREAM_COMPUTE || event->call == p->last_call)) {
        if (l->step->block < GAL_ALONE_BLOCKS_MAX) {
            p->ends->block_seconds[event->call][l->step->block] = p->now_seconds;
        }
        p->ends->call_seconds[event->call] = p->now_seconds;
    }
    l->completed++;
    l->event++;
    come_to(p, stream);
    for (uint32_t left = l->waiting; left != 0; left &= left - 1) {
        const uint32_t waiter = lowest(left);
        if (p->lane[waiter].wait->completed <= l->completed) {
            l->waiting &= ~(1u << waiter);
            start(p, waiter);
        }
    }
}

static inline void set_factor(const player *p, lane *l, double factor)
{
    if (factor != l->factor) {
        const double done = (p->now_seconds - l->since_seconds) / l->factor;
        l->remaining_seconds = l->remaining_seconds > done ? l->remaining_seconds - done : 0.0;
        l->since_seconds = p->now_seconds;
        l->factor = factor;
        l->end_seconds = l->since_seconds + l->remaining_seconds * factor;
    }
}

/* What runs at the same time: bits of activities that one, and that several do. */
typedef struct company {
    uint32_t present, several;
    uint8_t messages_on[GAL_LINK_LEVELS_MAX];
} company;

static company company_of(const player *p)
{
    company c = {0};
    for (uint32_t left = p->running; left != 0; left &= left - 1) {
        const gal_step *step = p->lane[lowest(left)].step;
        const uint32_t own = 1u << step->activity;
        c.several |= c.present & own;
        c.present |= own;
        c.messages_on[step->level] =
            (uint8_t)(c.messages_on[step->level] + (step->activity == GAL_ACTIVITY_COMMUNICATION));
    }
    return c;
}

static double factor_of(const player *p, const company *c, const gal_step *step)
{
    if (step->activity == GAL_ACTIVITY_BESIDE) {
        return 1.0;
    }
    const uint32_t own = 1u << step->activity;
    const bool more =
        step->activity == GAL_ACTIVITY_COMMUNICATION ? c->messages_on[step->level] > 1 : (c->several & own) != 0;
    return p->factor[step->activity][(c->present & ~own & (COMPANIES - 1)) | (more ? own : 0)];
}

static uint32_t next_of_several(player *p)
{
    const company c = company_of(p);
    uint32_t next = 0;
    double next_seconds = INFINITY;
    for (uint32_t left = p->running; left != 0; left &= left - 1) {
        const uint32_t stream = lowest(left);
        lane *l = &p->lane[stream];
        set_factor(p, l, factor_of(p, &c, l->step));
        next = l->end_seconds < next_seconds ? stream : next;
        next_seconds = l->end_seconds < next_seconds ? l->end_seconds : next_seconds;
    }
    return next;
}

/* The stream whose head ends next in the company that runs now; most of the time it is the only one. */
static inline uint32_t next_to_end(player *p)
{
    const uint32_t only = lowest(p->running);
    if ((p->running & (p->running - 1)) != 0) {
        return next_of_several(p);
    }
    set_factor(p, &p->lane[only], 1.0);
    return only;
}

/* of[activity]: of one that runs beside. */
static void set_factors(const double of[GAL_ACTIVITY_COUNT], double factor[COMPANIES])
{
    for (uint32_t present = 0; present < COMPANIES; present++) {
        factor[present] = 1.0;
        for (uint32_t i = 0; i < GAL_ACTIVITY_COUNT; i++) {
            factor[present] *= (present >> i & 1u) != 0 ? of[i] : 1.0;
        }
    }
}

void gal_play_alone(const gal_script *script, const gal_expansion *expansion, const gal_slowdowns *slowdowns,
                    gal_alone_ends *ends)
{
    player p = {.step = expansion->step, .ends = ends, .last_call = expansion->call_count - 1};
    for (uint32_t activity = 0; activity < GAL_ACTIVITY_COUNT; activity++) {
        set_factors(slowdowns->of[activity], p.factor[activity]);
    }
    memset(ends, 0, sizeof *ends);
    for (uint32_t stream = 0; stream < LANES; stream++) {
        lane *l = &p.lane[stream];
        l->event = script->event + script->first[stream];
        l->end = script->event + script->first[stream + 1];
        l->wait = script->wait + script->first_wait[stream];
        come_to(&p, stream);
    }
    while (p.running != 0) {
        const uint32_t stream = next_to_end(&p);
        p.now_seconds = p.lane[stream].end_seconds;
        end(&p, stream);
    }
}
