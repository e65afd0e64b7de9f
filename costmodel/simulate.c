#include "costmodel/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/steady.h"

static const gal_step *head(const gal_sim_stage *st, const gal_sim_lane *l)
{
    return &st->expansion.step[l->step];
}

/* ---- speed ---- */

/* A transfer takes the link in one direction, a collective in both. */
static bool sends(uint32_t stream)
{
    return stream != GAL_STREAM_RECEIVE_FORWARD && stream != GAL_STREAM_RECEIVE_BACKWARD;
}

static bool receives(uint32_t stream)
{
    return stream != GAL_STREAM_SEND_FORWARD && stream != GAL_STREAM_SEND_BACKWARD;
}

static void count_message(gal_sim_stage *st, uint32_t stream, int more)
{
    uint8_t *count = st->messages_on[head(st, &st->lane[stream])->level];
    count[GAL_OUTWARD] = (uint8_t)(count[GAL_OUTWARD] + (sends(stream) ? more : 0));
    count[GAL_INWARD] = (uint8_t)(count[GAL_INWARD] + (receives(stream) ? more : 0));
}

/* What a step that starts (more: 1) or ends (-1) is to the others of its stage. */
static void count_step(gal_sim_stage *st, uint32_t stream, int more)
{
    const uint8_t activity = head(st, &st->lane[stream])->activity;
    if (activity == GAL_ACTIVITY_COMMUNICATION) {
        count_message(st, stream, more);
    }
    if (activity != GAL_ACTIVITY_BESIDE) {
        st->active[activity] += (uint32_t)more;
    }
}

static void touch(gal_simulator *sim, uint32_t s)
{
    if (!sim->stage[s].touched) {
        sim->stage[s].touched = true;
        sim->touched[sim->touched_count++] = s;
    }
}

/* Whether another message takes the link in a direction of this one's. */
static bool shares_link(const gal_sim_stage *st, uint32_t stream)
{
    const uint8_t *count = st->messages_on[head(st, &st->lane[stream])->level];
    return (sends(stream) && count[GAL_OUTWARD] > 1) || (receives(stream) && count[GAL_INWARD] > 1);
}

static double factor_of(const gal_simulator *sim, const gal_sim_stage *st, uint32_t stream)
{
    const gal_step *step = head(st, &st->lane[stream]);
    if (step->activity == GAL_ACTIVITY_BESIDE) {
        return 1.0;
    }
    const double *slowdown = sim->input->slowdowns.of[step->activity];
    double factor = 1.0;
    for (uint32_t i = 0; i < GAL_ACTIVITY_COUNT; i++) {
        const bool beside = i != step->activity               ? st->active[i] > 0
                            : i == GAL_ACTIVITY_COMMUNICATION ? shares_link(st, stream)
                                                              : st->active[i] > 1;
        factor *= beside ? slowdown[i] : 1.0;
    }
    return factor;
}

/* The side of a transfer that keeps its clock. */
static gal_sim_lane *keeper(gal_sim_lane *l)
{
    return l->other != NULL && l->other->stage < l->stage ? l->other : l;
}

static double speed_factor(const gal_sim_lane *l)
{
    return l->other != NULL && l->other->factor > l->factor ? l->other->factor : l->factor;
}

/* Counts the work done so far at the old speed; the caller then sets the new one and calls renew_end. */
static void settle(const gal_simulator *sim, gal_sim_lane *clock)
{
    clock->remaining_seconds -= (sim->now_seconds - clock->since_seconds) / speed_factor(clock);
    clock->remaining_seconds = clock->remaining_seconds > 0.0 ? clock->remaining_seconds : 0.0;
    clock->since_seconds = sim->now_seconds;
}

static void renew_end(gal_sim_lane *clock)
{
    clock->end_seconds = clock->since_seconds + clock->remaining_seconds * speed_factor(clock);
}

/* In unchanged company only what has just started needs a speed. */
static uint32_t to_renew(gal_sim_stage *st)
{
    const bool changed = memcmp(st->active, st->active_then, sizeof st->active) != 0 ||
                         memcmp(st->messages_on, st->messages_then, sizeof st->messages_on) != 0;
    const uint32_t streams = changed ? st->running : st->running & st->fresh;
    memcpy(st->active_then, st->active, sizeof st->active);
    memcpy(st->messages_then, st->messages_on, sizeof st->messages_on);
    st->fresh = 0;
    return streams;
}

static void renew_speeds(gal_simulator *sim, uint32_t s)
{
    gal_sim_stage *st = &sim->stage[s];
    for (uint32_t left = to_renew(st); left != 0; left &= left - 1) {
        const uint32_t stream = (uint32_t)__builtin_ctz(left);
        gal_sim_lane *l = &st->lane[stream];
        const bool has_clock = !isinf(l->end_seconds) || l->other != NULL; /* not so: a side of the world reduction */
        const double factor = has_clock ? factor_of(sim, st, stream) : l->factor;
        if (factor != l->factor) {
            gal_sim_lane *clock = keeper(l);
            settle(sim, clock);
            l->factor = factor;
            renew_end(clock);
            touch(sim, clock->stage);
        }
    }
}

static void renew_next(gal_simulator *sim, uint32_t s)
{
    gal_sim_stage *st = &sim->stage[s];
    st->next_seconds = INFINITY;
    for (uint32_t left = st->running; left != 0; left &= left - 1) {
        const uint32_t stream = (uint32_t)__builtin_ctz(left);
        if (st->lane[stream].end_seconds < st->next_seconds) {
            st->next_seconds = st->lane[stream].end_seconds;
            st->next_stream = stream;
        }
    }
    for (uint32_t node = (sim->leaf_count + s) / 2; node >= 1; node /= 2) {
        const uint32_t a = sim->winner[2 * node];
        const uint32_t b = sim->winner[2 * node + 1];
        sim->winner[node] = sim->stage[b].next_seconds < sim->stage[a].next_seconds ? b : a;
    }
}

static void renew_touched(gal_simulator *sim)
{
    for (uint32_t i = 0; i < sim->touched_count; i++) { /* grows: a transfer's clock may be on another stage */
        if (sim->slows) {
            renew_speeds(sim, sim->touched[i]);
        }
    }
    for (uint32_t i = 0; i < sim->touched_count; i++) {
        sim->stage[sim->touched[i]].touched = false;
        renew_next(sim, sim->touched[i]);
    }
    sim->touched_count = 0;
}

/* ---- starting ---- */

static void run(gal_simulator *sim, gal_sim_stage *st, uint32_t stream, double seconds)
{
    gal_sim_lane *l = &st->lane[stream];
    l->state = GAL_LANE_RUNS;
    l->start_seconds = sim->now_seconds;
    l->since_seconds = sim->now_seconds;
    l->remaining_seconds = seconds;
    l->factor = 1.0;
    l->end_seconds = sim->now_seconds + seconds;
    l->other = NULL;
    st->running |= 1u << stream;
    st->fresh |= 1u << stream;
    count_step(st, stream, 1);
    touch(sim, l->stage);
}

/* A partner that stands at the same operation, and not at another one on the same stream. */
static bool meets(const gal_simulator *sim, uint32_t s, const gal_step *step)
{
    const gal_sim_stage *partner = &sim->stage[step->partner_stage];
    const gal_sim_lane *other = &partner->lane[step->partner_stream];
    if (other->state != GAL_LANE_MEETS) {
        return false;
    }
    const gal_step *theirs = head(partner, other);
    return theirs->relation == GAL_RELATION_PAIR && theirs->partner_stage == s;
}

static bool takes_part(const gal_simulator *sim, uint32_t s, uint32_t set)
{
    return set == GAL_SHARED_COUNT || gal_stage_set_has(&sim->input->program[s]->holders[set], s);
}

static uint32_t side_count(const gal_simulator *sim, uint32_t set)
{
    return set == GAL_SHARED_COUNT ? sim->stage_count : gal_stage_set_count(&sim->input->program[0]->holders[set]);
}

static void run_pair(gal_simulator *sim, gal_sim_stage *st, uint32_t stream)
{
    gal_sim_lane *l = &st->lane[stream];
    const gal_step *step = head(st, l);
    gal_sim_stage *partner = &sim->stage[step->partner_stage];
    gal_sim_lane *other = &partner->lane[step->partner_stream];
    const double seconds = fmax(step->seconds, head(partner, other)->seconds);
    run(sim, st, stream, seconds);
    run(sim, partner, step->partner_stream, seconds);
    l->other = other;
    other->other = l;
    (keeper(l) == l ? other : l)->end_seconds = INFINITY;
}

/* The first stage keeps the clock; no other side slows it. */
static void run_set(gal_simulator *sim, uint32_t set)
{
    double seconds = 0.0;
    bool is_first = true;
    for (uint32_t s = 0; s < sim->stage_count; s++) {
        const gal_sim_stage *st = &sim->stage[s];
        if (takes_part(sim, s, set)) {
            seconds = fmax(seconds, head(st, &st->lane[st->set_stream])->seconds);
        }
    }
    for (uint32_t s = 0; s < sim->stage_count; s++) {
        if (takes_part(sim, s, set)) {
            run(sim, &sim->stage[s], sim->stage[s].set_stream, seconds);
            sim->stage[s].lane[sim->stage[s].set_stream].end_seconds = is_first ? sim->now_seconds + seconds : INFINITY;
            is_first = false;
        }
    }
    sim->at_set[set] = 0;
}

static bool waits_met(gal_sim_stage *st, uint32_t stream)
{
    gal_sim_lane *l = &st->lane[stream];
    const gal_step *step = head(st, l);
    for (; l->next_wait < step->wait_count; l->next_wait++) {
        const gal_step_wait *wait = &st->expansion.wait[step->first_wait + l->next_wait];
        uint32_t completed = 0;
        if (wait->kind == GAL_WAIT_BUFFER) {
            completed = st->expansion.row[st->expansion.first_row[l->call] + wait->target];
        } else {
            completed = st->expansion.before[l->call][wait->stream] + wait->target;
        }
        if (st->lane[wait->stream].completed < completed) {
            l->wait_stream = wait->stream;
            l->wait_completed = completed;
            st->waiting[wait->stream] |= 1u << stream;
            return false;
        }
    }
    return true;
}

static void start(gal_simulator *sim, uint32_t s, uint32_t stream)
{
    gal_sim_stage *st = &sim->stage[s];
    gal_sim_lane *l = &st->lane[stream];
    if (!waits_met(st, stream)) {
        l->state = GAL_LANE_WAITS;
        return;
    }
    const gal_step *step = head(st, l);
    switch ((gal_relation)step->relation) {
    case GAL_RELATION_NONE:
        run(sim, st, stream, step->seconds);
        return;
    case GAL_RELATION_PAIR:
        l->state = GAL_LANE_MEETS;
        if (meets(sim, s, step)) {
            run_pair(sim, st, stream);
        }
        return;
    case GAL_RELATION_SET:
        l->state = GAL_LANE_MEETS;
        st->set_stream = (uint8_t)stream;
        if (++sim->at_set[step->partner_stage] == side_count(sim, step->partner_stage)) {
            run_set(sim, step->partner_stage);
        }
        return;
    }
}

/* ---- ending ---- */

/* Moves to the next step of the queue; false at its end. */
static bool advance(gal_sim_stage *st, uint32_t stream)
{
    gal_sim_lane *l = &st->lane[stream];
    const gal_expansion *e = &st->expansion;
    l->next_wait = 0;
    l->step++;
    while (l->step >= l->end) {
        if (++l->call >= e->call_count) {
            l->state = GAL_LANE_ENDED;
            return false;
        }
        const gal_step_list *list = &e->list[e->call[l->call].fragment][stream];
        l->step = list->first;
        l->end = list->first + list->count;
    }
    return true;
}

static void record(gal_simulator *sim, uint32_t s, uint32_t stream)
{
    const gal_sim_stage *st = &sim->stage[s];
    const gal_sim_lane *l = &st->lane[stream];
    gal_simulation *out = sim->out;
    out->stage[s].busy_seconds[stream] += sim->now_seconds - l->start_seconds;
    out->stage[s].finish_seconds = sim->now_seconds;
    if (out->timeline != NULL) {
        out->timeline[out->event_count] = (gal_timeline_event){.stage = s,
                                                               .instruction = head(st, l)->instruction,
                                                               .call = l->call,
                                                               .start_seconds = l->start_seconds,
                                                               .end_seconds = sim->now_seconds};
    }
    out->event_count++;
}

static void wake(gal_simulator *sim, uint32_t s, uint32_t stream)
{
    gal_sim_stage *st = &sim->stage[s];
    for (uint32_t left = st->waiting[stream]; left != 0; left &= left - 1) {
        const uint32_t waiter = (uint32_t)__builtin_ctz(left);
        if (st->lane[waiter].wait_completed <= st->lane[stream].completed) {
            st->waiting[stream] &= ~(1u << waiter);
            start(sim, s, waiter);
        }
    }
}

static void end_step(gal_simulator *sim, uint32_t s, uint32_t stream)
{
    gal_sim_stage *st = &sim->stage[s];
    gal_sim_lane *l = &st->lane[stream];
    record(sim, s, stream);
    st->running &= ~(1u << stream);
    count_step(st, stream, -1);
    l->end_seconds = INFINITY;
    l->other = NULL;
    l->completed++;
    touch(sim, s);
    if (advance(st, stream)) {
        start(sim, s, stream);
    }
    wake(sim, s, stream);
}

/* Ends what the stage's earliest clock says, on all its sides. */
static void end_next(gal_simulator *sim, uint32_t s)
{
    gal_sim_stage *st = &sim->stage[s];
    const uint32_t stream = st->next_stream;
    gal_sim_lane *other = st->lane[stream].other;
    const gal_step *step = head(st, &st->lane[stream]);
    if (step->relation == GAL_RELATION_SET) {
        const uint32_t set = step->partner_stage;
        for (uint32_t side = 0; side < sim->stage_count; side++) {
            if (takes_part(sim, side, set)) {
                end_step(sim, side, sim->stage[side].set_stream);
            }
        }
        return;
    }
    end_step(sim, s, stream);
    if (other != NULL) {
        end_step(sim, other->stage, (uint32_t)(other - sim->stage[other->stage].lane));
    }
}

/* ---- the whole ---- */

static void start_all(gal_simulator *sim)
{
    for (uint32_t s = 0; s < sim->stage_count; s++) {
        for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
            gal_sim_lane *l = &sim->stage[s].lane[stream];
            *l = (gal_sim_lane){
                .call = UINT32_MAX /* before the first */, .factor = 1.0, .end_seconds = INFINITY, .stage = s};
            if (advance(&sim->stage[s], stream)) {
                l->state = GAL_LANE_WAITS;
            }
        }
    }
    for (uint32_t s = 0; s < sim->stage_count; s++) {
        for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
            if (sim->stage[s].lane[stream].state == GAL_LANE_WAITS) {
                start(sim, s, stream);
            }
        }
    }
}

static gal_code check_ended(const gal_simulator *sim, gal_error *err)
{
    for (uint32_t s = 0; s < sim->stage_count; s++) {
        for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
            const gal_sim_lane *l = &sim->stage[s].lane[stream];
            if (l->state != GAL_LANE_ENDED) {
                char line[256];
                gal_instruction_print(sim->input->program[s], head(&sim->stage[s], l)->instruction, line, sizeof line);
                return gal_fail(err, GAL_NO, "deadlock: stage %u, stream %s is left at: %s", s,
                                gal_stream_names[stream], line);
            }
        }
    }
    return GAL_OK;
}

static gal_code prepare(gal_simulator *sim, gal_error *err)
{
    const gal_simulation_input *input = sim->input;
    sim->leaf_count = 1;
    while (sim->leaf_count < sim->stage_count) {
        sim->leaf_count *= 2;
    }
    sim->stage = calloc(sim->leaf_count, sizeof *sim->stage);
    sim->winner = calloc(2 * (size_t)sim->leaf_count, sizeof *sim->winner);
    sim->touched = calloc(sim->stage_count, sizeof *sim->touched);
    sim->out->stage = calloc(sim->stage_count, sizeof *sim->out->stage);
    if (sim->stage == NULL || sim->winner == NULL || sim->touched == NULL || sim->out->stage == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: simulation");
    }
    uint64_t event_count = 0;
    for (uint32_t s = 0; s < sim->stage_count; s++) {
        const gal_program *program = input->program[s];
        const gal_code code = gal_expand(program, program->call, program->call_count, input->cost[s],
                                         (gal_expand_options){.each = input->timeline}, &sim->stage[s].expansion, err);
        if (code != GAL_OK) {
            return code;
        }
        event_count += sim->stage[s].expansion.event_count;
    }
    if (input->timeline) {
        sim->out->timeline = malloc((event_count + 1) * sizeof *sim->out->timeline);
        if (sim->out->timeline == NULL) {
            return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: timeline");
        }
    }
    for (uint32_t s = 0; s < sim->leaf_count; s++) {
        sim->stage[s].next_seconds = INFINITY;
        sim->winner[sim->leaf_count + s] = s;
    }
    for (uint32_t node = sim->leaf_count; --node >= 1;) {
        sim->winner[node] = sim->winner[2 * node];
    }
    return GAL_OK;
}

static bool slows(const gal_simulation_input *input)
{
    bool found = false;
    for (uint32_t i = 0; i < GAL_ACTIVITY_COUNT * GAL_ACTIVITY_COUNT; i++) {
        found = found || input->slowdowns.of[i / GAL_ACTIVITY_COUNT][i % GAL_ACTIVITY_COUNT] != 1.0;
    }
    return found;
}

/* A timeline has every event: nothing is skipped then. */
static gal_code play(gal_simulator *sim, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_steady *steady = NULL;
    if (!sim->input->timeline) {
        GAL_TRY(gal_steady_create(sim, &steady, err));
    }
    sim->slows = slows(sim->input);
    start_all(sim);
    renew_touched(sim);
    for (;;) {
        const uint32_t s = sim->leaf_count == 1 ? 0 : sim->winner[1];
        if (isinf(sim->stage[s].next_seconds)) {
            break;
        }
        sim->now_seconds = sim->stage[s].next_seconds;
        end_next(sim, s);
        renew_touched(sim);
        if (steady != NULL) {
            gal_steady_look(steady, sim);
        }
    }
cleanup:
    gal_steady_free(steady);
    return code;
}

static void release(gal_simulator *sim)
{
    for (uint32_t s = 0; s < sim->stage_count && sim->stage != NULL; s++) {
        gal_expansion_free(&sim->stage[s].expansion);
    }
    free(sim->stage);
    free(sim->winner);
    free(sim->touched);
}

gal_code gal_simulate_costs(const gal_simulation_input *input, gal_simulation *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_simulation result = {.stage_count = input->stage_count};
    gal_simulator sim = {.input = input, .stage_count = input->stage_count, .out = &result};
    GAL_TRY(prepare(&sim, err));
    GAL_TRY(play(&sim, err));
    GAL_TRY(check_ended(&sim, err));
    result.iteration_seconds = sim.now_seconds + input->fixed_step_seconds;
    *out = result;
    memset(&result, 0, sizeof result);
cleanup:
    release(&sim);
    gal_simulation_free(&result);
    return code;
}

gal_slowdowns gal_slowdowns_of(const gal_durations *durations)
{
    gal_slowdowns slowdowns;
    for (uint32_t i = 0; i < GAL_ACTIVITY_COUNT; i++) {
        for (uint32_t j = 0; j < GAL_ACTIVITY_COUNT; j++) {
            slowdowns.of[i][j] = gal_durations_slowdown(durations, (gal_activity)i, (gal_activity)j);
        }
    }
    return slowdowns;
}

gal_code gal_simulate(gal_program *const *program, uint32_t stage_count, const gal_durations *durations, bool timeline,
                      gal_simulation *out, gal_error *err)
{
    gal_code code = GAL_OK;
    size_t instructions = 0;
    for (uint32_t s = 0; s < stage_count; s++) {
        instructions += program[s]->instruction_count;
    }
    gal_cost *all = malloc((instructions + 1) * sizeof *all);
    const gal_cost **cost = malloc(stage_count * sizeof *cost);
    if (all == NULL || cost == NULL) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "out of memory: simulation");
        goto cleanup;
    }
    gal_cost *next = all;
    for (uint32_t s = 0; s < stage_count; s++) {
        gal_instruction_costs(durations, program[s], 0, program[s]->instruction_count, next);
        cost[s] = next;
        next += program[s]->instruction_count;
    }
    gal_simulation_input input = {.program = program,
                                  .stage_count = stage_count,
                                  .cost = cost,
                                  .slowdowns = gal_slowdowns_of(durations),
                                  .fixed_step_seconds = gal_durations_fixed_step_seconds(durations),
                                  .timeline = timeline};
    GAL_TRY(gal_simulate_costs(&input, out, err));
cleanup:
    free(cost);
    free(all);
    return code;
}

void gal_simulation_free(gal_simulation *simulation)
{
    free(simulation->stage);
    free(simulation->timeline);
    memset(simulation, 0, sizeof *simulation);
}
