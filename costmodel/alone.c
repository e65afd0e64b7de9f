#include "costmodel/alone.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = GAL_ALONE_STREAMS };

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
    *out = (gal_script){.call_count = e->call_count};
    out->step = malloc((e->step_count + (size_t)1) * sizeof *out->step + (e->event_count + 1) * sizeof *out->event +
                       waits * sizeof *out->wait);
    if (out->step == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: price");
    }
    out->event = (gal_script_event *)(out->step + e->step_count + 1);
    out->wait = (gal_script_wait *)(out->event + e->event_count + 1);
    for (uint32_t i = 0; i < e->step_count; i++) {
        const gal_step *step = &e->step[i];
        out->step[i] = (gal_script_step){step->seconds, step->block, step->activity, step->level};
    }
    writer w = {.expansion = e, .script = out};
    for (uint32_t stream = 0; stream < LANES; stream++) {
        add_stream(&w, stream);
    }
    out->first[LANES] = w.event_count;
    return GAL_OK;
}

void gal_script_free(gal_script *script)
{
    free(script->step);
    *script = (gal_script){0};
}

/* ---- playing ---- */

typedef struct lane {
    const gal_script_event *event, *end;    /* the head; behind the last */
    const gal_script_step *step;            /* of the head */
    const gal_script_wait *wait, *wait_end; /* of the head: those before are met */
    uint32_t completed;
    uint32_t awaited;         /* completed: the next that streams wait for; none is: the largest number */
    uint32_t waiting;         /* those streams, as bits */
    double since_seconds;     /* remaining_seconds and factor hold from here on */
    double remaining_seconds; /* at full speed */
    double factor;
    double end_seconds;
} lane;

typedef struct player {
    const gal_script_step *step;
    const gal_company_factors *factors;
    gal_alone_ends *ends;
    uint32_t last_call;
    uint32_t running; /* bits of streams */
    double now_seconds;
    lane lane[LANES];
} player;

static uint32_t lowest(uint32_t bits)
{
    return (uint32_t)__builtin_ctz(bits);
}

/* The stream comes to its head, whose waits follow those of the one before. False: there is none. */
static inline bool comes_to_head(player *p, uint32_t stream)
{
    lane *l = &p->lane[stream];
    if (l->event == l->end) {
        return false;
    }
    l->step = &p->step[l->event->step];
    l->wait_end = l->wait + l->event->wait_count;
    return true;
}

/* The head starts. False: it has to wait, which is noted there. */
static inline bool starts(player *p, uint32_t stream)
{
    lane *l = &p->lane[stream];
    for (; l->wait < l->wait_end; l->wait++) {
        lane *other = &p->lane[l->wait->stream];
        if (other->completed < l->wait->completed) {
            other->waiting |= 1u << stream;
            other->awaited = l->wait->completed < other->awaited ? l->wait->completed : other->awaited;
            return false;
        }
    }
    l->since_seconds = p->now_seconds;
    l->remaining_seconds = l->step->seconds;
    l->factor = 1.0;
    l->end_seconds = p->now_seconds + l->remaining_seconds;
    return true;
}

/* Those that wait for no more than the stream has completed start. */
static void wake(player *p, lane *l)
{
    const uint32_t waiting = l->waiting;
    l->waiting = 0;
    l->awaited = UINT32_MAX;
    for (uint32_t left = waiting; left != 0; left &= left - 1) { /* the others come to wait again */
        const uint32_t waiter = lowest(left);
        p->running |= starts(p, waiter) ? 1u << waiter : 0;
    }
}

/* The head has ended. */
static inline void note_end(player *p, uint32_t stream, lane *l)
{
    const gal_script_event *event = l->event++;
    l->completed++;
    if (!event->closes) {
        return;
    }
    if (stream == GAL_STREAM_COMPUTE) {
        p->ends->compute_seconds[event->call] = p->now_seconds;
    } else if (stream == GAL_STREAM_REDUCE) {
        p->ends->reduce_seconds[event->call] = p->now_seconds;
    }
    if (stream == GAL_STREAM_COMPUTE || event->call == p->last_call) {
        if (l->step->block < GAL_ALONE_BLOCKS_MAX) {
            p->ends->block_seconds[event->call][l->step->block] = p->now_seconds;
        }
        p->ends->call_seconds[event->call] = p->now_seconds;
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

/* One beside one other. Messages slow each other on one level. */
static inline double factor_beside(const player *p, const gal_script_step *step, const gal_script_step *other)
{
    const bool apart = step->activity == GAL_ACTIVITY_COMMUNICATION && other->activity == GAL_ACTIVITY_COMMUNICATION &&
                       step->level != other->level;
    return p->factors->of[step->activity][apart ? 0 : 1u << other->activity & (GAL_COMPANIES - 1u)];
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
        const gal_script_step *step = p->lane[lowest(left)].step;
        const uint32_t own = 1u << step->activity;
        c.several |= c.present & own;
        c.present |= own;
        c.messages_on[step->level] =
            (uint8_t)(c.messages_on[step->level] + (step->activity == GAL_ACTIVITY_COMMUNICATION));
    }
    return c;
}

static double factor_among(const player *p, const company *c, const gal_script_step *step)
{
    const uint32_t own = 1u << step->activity;
    const bool more =
        step->activity == GAL_ACTIVITY_COMMUNICATION ? c->messages_on[step->level] > 1 : (c->several & own) != 0;
    return p->factors->of[step->activity][((c->present & ~own) | (more ? own : 0)) & (GAL_COMPANIES - 1u)];
}

static uint32_t first_of_two(player *p)
{
    const uint32_t one = lowest(p->running), other = lowest(p->running & (p->running - 1));
    lane *a = &p->lane[one], *b = &p->lane[other];
    set_factor(p, a, factor_beside(p, a->step, b->step));
    set_factor(p, b, factor_beside(p, b->step, a->step));
    return b->end_seconds < a->end_seconds ? other : one;
}

static uint32_t first_of_many(player *p)
{
    const company c = company_of(p);
    uint32_t first = 0;
    double first_seconds = INFINITY;
    for (uint32_t left = p->running; left != 0; left &= left - 1) {
        const uint32_t stream = lowest(left);
        lane *l = &p->lane[stream];
        set_factor(p, l, factor_among(p, &c, l->step));
        first = l->end_seconds < first_seconds ? stream : first;
        first_seconds = l->end_seconds < first_seconds ? l->end_seconds : first_seconds;
    }
    return first;
}

/* The end of the stream's head, which is the first to end in this company. */
static inline void end_first(player *p, uint32_t stream)
{
    lane *l = &p->lane[stream];
    p->now_seconds = l->end_seconds;
    note_end(p, stream, l);
    if (!comes_to_head(p, stream) || !starts(p, stream)) {
        p->running &= ~(1u << stream);
    }
    if (l->completed >= l->awaited) {
        wake(p, l);
    }
}

/* Most of the time one stream runs: until it has to wait or another one starts. */
static void run_alone(player *p, uint32_t stream)
{
    lane *l = &p->lane[stream];
    set_factor(p, l, 1.0);
    do {
        end_first(p, stream);
    } while (p->running == 1u << stream);
}

void gal_play_alone(const gal_script *script, const gal_company_factors *factors, gal_alone_ends *ends)
{
    player p = {.step = script->step, .factors = factors, .ends = ends, .last_call = script->call_count - 1};
    memset(ends, 0, sizeof *ends);
    for (uint32_t stream = 0; stream < LANES; stream++) {
        p.lane[stream].awaited = UINT32_MAX;
    }
    for (uint32_t stream = 0; stream < LANES; stream++) {
        lane *l = &p.lane[stream];
        l->event = script->event + script->first[stream];
        l->end = script->event + script->first[stream + 1];
        l->wait = script->wait + script->first_wait[stream];
        p.running |= comes_to_head(&p, stream) && starts(&p, stream) ? 1u << stream : 0;
    }
    while (p.running != 0) {
        const uint32_t others = p.running & (p.running - 1);
        if (others == 0) {
            run_alone(&p, lowest(p.running));
        } else {
            end_first(&p, (others & (others - 1)) == 0 ? first_of_two(&p) : first_of_many(&p));
        }
    }
}
