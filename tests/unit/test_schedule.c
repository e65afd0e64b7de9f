/* Orders of calls: every unit once, playable on all stages, in flight what the papers say; and the bubbles that follow,
 * by simulating stages of equal seconds and transfers that take none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/simulate.h"
#include "runtime/program/schedule.h"

enum { STAGES_MAX = 6, CHUNKS_MAX = 4, MICROBATCHES_MAX = 2 * STAGES_MAX + 1, PIECES_MAX = STAGES_MAX * CHUNKS_MAX };

typedef void (*visitor)(const gal_schedule_place *at);

/* Every schedule on up to STAGES_MAX stages; place.stage is 0. */
static void for_all(visitor visit)
{
    for (uint32_t schedule = 0; schedule < GAL_SCHEDULE_COUNT; schedule++) {
        const bool interleaved = schedule == GAL_SCHEDULE_INTERLEAVED;
        for (uint32_t stages = interleaved ? 2 : 1; stages <= STAGES_MAX; stages++) {
            for (uint32_t chunks = interleaved ? 2 : 1; chunks <= (interleaved ? CHUNKS_MAX : 1); chunks++) {
                for (uint32_t m = 1; m <= MICROBATCHES_MAX; m++) {
                    const gal_schedule_place at = {(gal_schedule)schedule, 0, stages, chunks, m};
                    visit(&at);
                }
            }
        }
    }
}

/* Per chunk: microbatches in order, each forward before its backward and that before its weight part, if there is one;
 * the last of the last part with sync. */
static void check_form(const gal_schedule_place *at)
{
    const bool split = gal_schedule_splits(at->schedule);
    for (uint32_t stage = 0; stage < at->stage_count; stage++) {
        uint32_t forward[CHUNKS_MAX] = {0}, backward[CHUNKS_MAX] = {0}, weight[CHUNKS_MAX] = {0}, count = 0;
        gal_schedule_walk walk = {.at = *at};
        gal_call call;
        walk.at.stage = stage;
        for (; gal_schedule_next(&walk, &call); count++) {
            const uint32_t chunk = gal_fragment_chunk(call.fragment);
            const gal_fragment_kind kind = gal_fragment_kind_of(call.fragment);
            assert_true(chunk < at->chunk_count);
            if (kind == GAL_FRAGMENT_FORWARD) {
                assert_int_equal(call.microbatch, forward[chunk]++);
                continue;
            }
            if (kind == GAL_FRAGMENT_WEIGHT || kind == GAL_FRAGMENT_WEIGHT_SYNC) {
                assert_int_equal(call.microbatch, weight[chunk]++);
                assert_true(weight[chunk] <= backward[chunk]);
                assert_true((kind == GAL_FRAGMENT_WEIGHT_SYNC) == (weight[chunk] == at->microbatch_count));
                continue;
            }
            const bool sync = kind == GAL_FRAGMENT_BACKWARD_SYNC;
            assert_int_equal(call.microbatch, backward[chunk]++);
            assert_true(backward[chunk] <= forward[chunk]);
            assert_true(sync || kind == GAL_FRAGMENT_BACKWARD);
            assert_true(sync == (!split && backward[chunk] == at->microbatch_count));
        }
        assert_int_equal(count, gal_schedule_call_count(at));
        for (uint32_t c = 0; c < at->chunk_count; c++) {
            assert_int_equal(forward[c], at->microbatch_count);
            assert_int_equal(backward[c], at->microbatch_count);
            assert_int_equal(weight[c], split ? at->microbatch_count : 0);
        }
    }
}

static void test_form(void **unused)
{
    (void)unused;
    for_all(check_form);
}

/* A unit may run when the piece before it (backward: behind it) has run it: every stage comes to its end. */
static void check_playable(const gal_schedule_place *at)
{
    uint32_t forward[PIECES_MAX] = {0}, backward[PIECES_MAX] = {0};
    gal_schedule_walk walk[STAGES_MAX];
    gal_call head[STAGES_MAX];
    bool left[STAGES_MAX];
    const uint32_t pieces = at->stage_count * at->chunk_count;
    for (uint32_t s = 0; s < at->stage_count; s++) {
        walk[s] = (gal_schedule_walk){.at = *at};
        walk[s].at.stage = s;
        left[s] = gal_schedule_next(&walk[s], &head[s]);
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t s = 0; s < at->stage_count; s++) {
            const uint32_t piece = gal_fragment_chunk(head[s].fragment) * at->stage_count + s;
            const gal_fragment_kind kind = gal_fragment_kind_of(head[s].fragment);
            const bool down = kind == GAL_FRAGMENT_FORWARD;
            const bool weight =
                kind == GAL_FRAGMENT_WEIGHT || kind == GAL_FRAGMENT_WEIGHT_SYNC; /* of this stage alone */
            const bool from_behind = piece + 1 == pieces || backward[piece + 1] > head[s].microbatch;
            const bool ready = down ? piece == 0 || forward[piece - 1] > head[s].microbatch
                                    : from_behind && forward[piece] > head[s].microbatch;
            if (left[s] && (ready || weight)) {
                forward[piece] += down;
                backward[piece] += !down && !weight;
                left[s] = gal_schedule_next(&walk[s], &head[s]);
                moved = true;
            }
        }
    }
    for (uint32_t s = 0; s < at->stage_count; s++) {
        assert_false(left[s]);
    }
}

static void test_playable(void **unused)
{
    (void)unused;
    for_all(check_playable);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* GPipe: all. 1F1B: P - stage. Megatron-LM's interleaving: 2 (P - 1 - stage) + (v - 1) P forwards to warm up, and one
 * more before the first backward. ZB-H1: P on every stage, of which stage + 1 wait for their weight part. */
static void check_in_flight(const gal_schedule_place *at)
{
    for (uint32_t stage = 0; stage < at->stage_count; stage++) {
        gal_schedule_place here = *at;
        uint32_t in_flight[GAL_CHUNKS_MAX];
        const uint32_t units = at->microbatch_count * at->chunk_count;
        const uint32_t behind = at->stage_count - 1 - stage;
        here.stage = stage;
        const uint32_t most = gal_schedule_in_flight(&here, in_flight);
        switch (at->schedule) {
        case GAL_SCHEDULE_1F1B:
            assert_int_equal(most, least(units, behind + 1));
            break;
        case GAL_SCHEDULE_INTERLEAVED:
            assert_true(at->microbatch_count % at->stage_count != 0 ||
                        most == least(units, 2 * behind + (at->chunk_count - 1) * at->stage_count + 1));
            break;
        case GAL_SCHEDULE_ZERO_BUBBLE:
            assert_int_equal(most, least(units, at->stage_count));
            assert_int_equal(gal_schedule_kept(&here), least(units, stage + 1));
            break;
        default:
            assert_int_equal(most, units);
            break;
        }
        assert_true(at->chunk_count > 1 || in_flight[0] == most);
    }
}

static void test_in_flight(void **unused)
{
    (void)unused;
    for_all(check_in_flight);
}

/* P = 4, v = 2, stage 3: 4 forwards ahead (one chunk of P), then forward and backward in turn. */
static void test_by_hand(void **unused)
{
    (void)unused;
    static const char expected[] = "F0.0 F0.1 F0.2 F0.3 F1.0 B1.0 F1.1 B1.1 F1.2 B1.2 F1.3 B1.3 B0.0 B0.1 B0.2 B0.3 ";
    char text[256] = "";
    gal_schedule_walk walk = {.at = {GAL_SCHEDULE_INTERLEAVED, 3, 4, 2, 4}};
    gal_call call;
    while (gal_schedule_next(&walk, &call)) {
        const bool forward = gal_fragment_kind_of(call.fragment) == GAL_FRAGMENT_FORWARD;
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u.%u ", forward ? "F" : "B",
                       gal_fragment_chunk(call.fragment), call.microbatch);
    }
    assert_string_equal(text, expected);
}

/* ---- bubbles ---- */

typedef struct sketch {
    gal_program program;
    gal_instruction instruction[16 * CHUNKS_MAX];
    gal_cost cost[16 * CHUNKS_MAX];
    gal_wait wait[16 * CHUNKS_MAX];
    gal_shape shape;
    gal_call call[3 * CHUNKS_MAX * MICROBATCHES_MAX];
} sketch;

/* Waits for the instruction before it in the fragment, if that is of another stream. */
static void add(sketch *s, uint32_t fragment, gal_op op, gal_stream stream, gal_group group, double seconds)
{
    gal_program *p = &s->program;
    gal_fragment *f = &p->fragment[fragment];
    f->first = f->count == 0 ? p->instruction_count : f->first;
    gal_instruction in = {
        .op = (uint8_t)op, .stream = (uint8_t)stream, .group = group, .first_wait = p->wait_count, .name = "step"};
    if (f->count > 0) {
        const uint8_t before = p->instruction[p->instruction_count - 1].stream;
        s->wait[p->wait_count++] = (gal_wait){GAL_WAIT_INSTRUCTION, before, f->count - 1};
        in.wait_count = 1;
    }
    s->cost[p->instruction_count] = (gal_cost){
        .seconds = seconds, .activity = op == GAL_OP_GEMM ? GAL_ACTIVITY_COMPUTE : GAL_ACTIVITY_COMMUNICATION};
    p->instruction[p->instruction_count++] = in;
    f->count++;
}

/* Receive, compute, send; of a direction, in the chunk. */
static void add_piece(sketch *s, gal_fragment_kind kind, uint32_t chunk, double seconds)
{
    const gal_program *p = &s->program;
    const uint32_t piece = chunk * p->stage_count + p->stage, last = p->stage_count * p->chunk_count - 1;
    const uint32_t number = gal_fragment_number(kind, chunk);
    const bool down = kind == GAL_FRAGMENT_FORWARD;
    if (piece != (down ? 0 : last)) {
        add(s, number, GAL_OP_RECEIVE, down ? GAL_STREAM_RECEIVE_FORWARD : GAL_STREAM_RECEIVE_BACKWARD,
            down ? GAL_GROUP_PREVIOUS : GAL_GROUP_NEXT, 0.0);
    }
    add(s, number, GAL_OP_GEMM, GAL_STREAM_COMPUTE, GAL_GROUP_NONE, seconds);
    if (piece != (down ? last : 0)) {
        add(s, number, GAL_OP_SEND, down ? GAL_STREAM_SEND_FORWARD : GAL_STREAM_SEND_BACKWARD,
            down ? GAL_GROUP_NEXT : GAL_GROUP_PREVIOUS, 0.0);
    }
}

typedef struct seconds {
    double forward, backward, weight; /* of a microbatch on a stage, all its chunks; weight: the weight part */
} seconds;

static void draw(const gal_schedule_place *at, const seconds *take, sketch *s)
{
    gal_program *p = &s->program;
    gal_schedule_walk walk = {.at = *at};
    memset(s, 0, sizeof *s);
    *p = (gal_program){.stage = at->stage,
                       .stage_count = at->stage_count,
                       .chunk_count = at->chunk_count,
                       .device_count = 1,
                       .instruction = s->instruction,
                       .wait = s->wait,
                       .shape = &s->shape,
                       .shape_count = 1,
                       .call = s->call};
    for (uint32_t c = 0; c < at->chunk_count; c++) {
        add_piece(s, GAL_FRAGMENT_FORWARD, c, take->forward / at->chunk_count);
        add_piece(s, GAL_FRAGMENT_BACKWARD, c, take->backward / at->chunk_count);
        add_piece(s, GAL_FRAGMENT_BACKWARD_SYNC, c, take->backward / at->chunk_count);
    }
    add(s, GAL_FRAGMENT_WEIGHT, GAL_OP_GEMM, GAL_STREAM_COMPUTE, GAL_GROUP_NONE, take->weight);
    add(s, GAL_FRAGMENT_WEIGHT_SYNC, GAL_OP_GEMM, GAL_STREAM_COMPUTE, GAL_GROUP_NONE, take->weight);
    while (gal_schedule_next(&walk, &s->call[p->call_count])) {
        p->call_count++;
    }
}

/* Seconds of a step beyond what a stage computes. */
static double bubble_of(gal_schedule_place at, const seconds *take)
{
    static sketch s[STAGES_MAX];
    gal_program *programs[STAGES_MAX];
    const gal_cost *cost[STAGES_MAX];
    gal_error err = {0};
    gal_simulation simulation = {0};
    for (uint32_t stage = 0; stage < at.stage_count; stage++) {
        at.stage = stage;
        draw(&at, take, &s[stage]);
        programs[stage] = &s[stage].program;
        cost[stage] = s[stage].cost;
    }
    const gal_simulation_input input = {
        .program = programs, .stage_count = at.stage_count, .cost = cost, .slowdowns.of = {{1.0, 1.0}, {1.0, 1.0}}};
    assert_int_equal(gal_simulate_costs(&input, &simulation, &err), GAL_OK);
    const double all = simulation.iteration_seconds;
    gal_simulation_free(&simulation);
    return all - at.microbatch_count * (take->forward + take->backward + take->weight);
}

/* (P - 1)(F + B) for GPipe and 1F1B, a v-th of it interleaved (Narayanan et al. 2021, section 2.2); all of F = 1, B =
 * 2, P = 4 are dyadic, so equal to the bit. */
static void test_interleaving_divides_the_bubble(void **unused)
{
    (void)unused;
    const seconds take = {1.0, 2.0, 0.0};
    assert_true(bubble_of((gal_schedule_place){GAL_SCHEDULE_GPIPE, 0, 4, 1, 8}, &take) == 9.0);
    assert_true(bubble_of((gal_schedule_place){GAL_SCHEDULE_1F1B, 0, 4, 1, 8}, &take) == 9.0);
    assert_true(bubble_of((gal_schedule_place){GAL_SCHEDULE_INTERLEAVED, 0, 4, 2, 8}, &take) == 4.5);
    assert_true(bubble_of((gal_schedule_place){GAL_SCHEDULE_INTERLEAVED, 0, 4, 4, 8}, &take) == 2.25);
}

/* Qi et al., table 1: (P - 1)(F + B - W) of ZB-H1 for (P - 1)(F + B + W) of 1F1B: with P = 4 and F = B = W = 1 the last
 * stage begins at 3 and is busy from there until its last B, before which it has left P - 1 = 3 weight parts to do;
 * that B goes up 3 stages, and the first stage ends with one weight part: 3 + 8 (F + B) + 5 W + 3 + W = 28 + 2 = 8 x 3
 * + 3. */
static void test_zero_bubble(void **unused)
{
    (void)unused;
    const seconds split = {1.0, 1.0, 1.0}, whole = {1.0, 2.0, 0.0};
    assert_true(bubble_of((gal_schedule_place){GAL_SCHEDULE_ZERO_BUBBLE, 0, 4, 1, 8}, &split) == 3.0);
    assert_true(bubble_of((gal_schedule_place){GAL_SCHEDULE_1F1B, 0, 4, 1, 8}, &whole) == 9.0);
    const seconds uneven = {1.0, 1.25, 0.75};
    assert_true(bubble_of((gal_schedule_place){GAL_SCHEDULE_ZERO_BUBBLE, 0, 4, 1, 8}, &uneven) == 3 * 1.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_form),
                                       cmocka_unit_test(test_playable),
                                       cmocka_unit_test(test_in_flight),
                                       cmocka_unit_test(test_by_hand),
                                       cmocka_unit_test(test_interleaving_divides_the_bubble),
                                       cmocka_unit_test(test_zero_bubble)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
