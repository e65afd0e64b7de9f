/* What must hold of any prediction: what moves nothing costs nothing; no step is faster than its busiest stream, nor
 * than the longest chain of instructions that wait for each other, found here by itself; twice the durations take twice
 * as long. Seeded: the same plans every time. timeout_seconds: 600 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/fit.h"
#include "costmodel/simulate.h"
#include "tests/support/random_plan.h"

enum { TRIALS = 400, STAGES_MAX = 8 };
static const uint32_t nobody = UINT32_MAX;
static const double rounding = 1e-9;

static double between(uint64_t *state, double low, double high)
{
    return low * pow(high / low, (double)gal_random_below(state, 1000001) * 1e-6);
}

static gal_cluster any_cluster(uint64_t *state)
{
    const uint32_t node = 1u << gal_random_below(state, 4);
    gal_cluster cluster = {.name = "any",
                           .device_count = 8 * node,
                           .level_count = 2,
                           .device = {.kind = "d",
                                      .memory_bytes = 1u << 30,
                                      .fp32_flops_per_second = between(state, 1e9, 1e13),
                                      .fp64_flops_per_second = between(state, 1e9, 1e13),
                                      .memory_bytes_per_second = between(state, 1e8, 1e12),
                                      .multiprocessor_count = gal_random_below(state, 2) * 100,
                                      .launch_seconds = 2e-6}};
    for (uint32_t i = 0; i < 2; i++) {
        cluster.level[i] = (gal_link_level){.name = "level",
                                            .span_devices = i == 0 ? node : cluster.device_count,
                                            .latency_seconds = between(state, 1e-7, 1e-3),
                                            .bytes_per_second = between(state, 1e6, 1e12)};
    }
    return cluster;
}

/* By formulas, and where the profile has entries on both sides. */
static void nothing_costs_nothing(void **unused)
{
    (void)unused;
    static const gal_op ops[] = {GAL_OP_ALL_REDUCE, GAL_OP_ALL_GATHER, GAL_OP_REDUCE_SCATTER,
                                 GAL_OP_ALL_TO_ALL, GAL_OP_SEND,       GAL_OP_RECEIVE};
    uint64_t random = 1;
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        gal_error err = {0};
        gal_durations *durations = NULL;
        gal_profile profile;
        const gal_cluster cluster = any_cluster(&random);
        const gal_op op = ops[gal_random_below(&random, 6)];
        const uint32_t alone[GAL_LINK_LEVELS_MAX] = {1, 1, 1, 1, 1, 1, 1, 1};
        const uint32_t group[GAL_LINK_LEVELS_MAX] = {1, 2 + gal_random_below(&random, 7), 1, 1, 1, 1, 1, 1};
        gal_profile_collective entry[2] = {{.op = op, .bytes = 1 << 10, .seconds = 1e-3},
                                           {.op = op, .bytes = 1 << 20, .seconds = 2e-3}};
        memcpy(entry[0].level_counts, group, sizeof entry[0].level_counts);
        memcpy(entry[1].level_counts, group, sizeof entry[1].level_counts);
        gal_profile_analytic(&cluster, &profile);
        profile.collectives = entry;
        profile.collective_count = trial % 2 == 0 ? 0 : 2;
        assert_int_equal(gal_durations_create(&profile, &durations, &err), GAL_OK);
        const uint64_t bytes = 1 + gal_random_next(&random) % (UINT64_C(1) << 34);
        assert_true(gal_collective_seconds(durations, op, alone, bytes, NULL) == 0.0);
        assert_true(gal_collective_seconds(durations, op, group, 0, NULL) == 0.0);
        assert_true(gal_collective_seconds(durations, op, group, bytes, NULL) > 0.0);
        gal_durations_free(durations);
    }
}

/* ---- the longest chain ---- */

/* An instruction of a call, on its stream behind `before`; transfers with the partner's event of the other end. */
typedef struct event {
    uint32_t before, partner; /* numbers, or nobody */
    uint32_t instruction, call;
    double seconds, start;
} event;

typedef struct chains {
    uint32_t count;
    event *event;
    uint32_t first[STAGES_MAX + 1];
} chains;

static bool is_run(const gal_call *call, const gal_instruction *in)
{
    const gal_fragment_kind kind = gal_fragment_kind_of(call->fragment);
    return !in->only_last || (kind != GAL_FRAGMENT_BACKWARD && kind != GAL_FRAGMENT_WEIGHT);
}

static void list_events(const gal_program *p, const gal_cost *cost, chains *c)
{
    uint32_t last[GAL_STREAM_COUNT];
    memset(last, 0xff, sizeof last);
    for (uint32_t call = 0; call < p->call_count; call++) {
        const gal_fragment *fragment = &p->fragment[p->call[call].fragment];
        for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
            const gal_instruction *in = &p->instruction[i];
            if (is_run(&p->call[call], in)) {
                c->event[c->count] = (event){last[in->stream], nobody, i, call, cost[i].seconds, 0.0};
                last[in->stream] = c->count++;
            }
        }
    }
}

/* The k-th transfer of a stream and the k-th of the stream that it meets at the neighbour. */
static void pair_transfers(gal_program *const *program, uint32_t stages, chains *c)
{
    static const struct {
        gal_stream from, to;
    } ways[] = {{GAL_STREAM_SEND_FORWARD, GAL_STREAM_RECEIVE_FORWARD},    /* to the next stage */
                {GAL_STREAM_SEND_BACKWARD, GAL_STREAM_RECEIVE_BACKWARD}}; /* to the one before */
    for (uint32_t s = 0; s < stages; s++) {
        for (uint32_t w = 0; w < 2; w++) {
            const uint32_t other = (s + (w == 0 ? 1 : stages - 1)) % stages;
            uint32_t at = c->first[other];
            for (uint32_t e = c->first[s]; e < c->first[s + 1]; e++) {
                if (program[s]->instruction[c->event[e].instruction].stream != ways[w].from) {
                    continue;
                }
                while (at < c->first[other + 1] &&
                       program[other]->instruction[c->event[at].instruction].stream != ways[w].to) {
                    at++;
                }
                assert_true(at < c->first[other + 1]);
                c->event[e].partner = at;
                c->event[at++].partner = e;
            }
        }
    }
}

static double end_of(const chains *c, uint32_t e)
{
    return e == nobody ? 0.0 : c->event[e].start + c->event[e].seconds;
}

/* What an event of the stage waits for by itself: its stream, and instructions of its own call. Waits for buffers and
 * for whole calls are left out: a chain through fewer waits is no longer. */
static double ready_at(const gal_program *p, const chains *c, uint32_t e)
{
    const event *own = &c->event[e];
    const gal_instruction *in = &p->instruction[own->instruction];
    double ready = end_of(c, own->before);
    for (uint32_t w = 0; w < in->wait_count; w++) {
        const gal_wait *wait = &p->wait[in->first_wait + w];
        if (wait->kind == GAL_WAIT_INSTRUCTION) {
            const uint32_t first = p->fragment[p->call[own->call].fragment].first;
            for (uint32_t b = e; b-- > 0 && c->event[b].call == own->call;) {
                if (c->event[b].instruction == first + wait->target) {
                    ready = fmax(ready, end_of(c, b));
                    break;
                }
            }
        }
    }
    return ready;
}

/* Starts only move back, until none does. */
static double longest_chain(gal_program *const *program, uint32_t stages, chains *c)
{
    double longest = 0.0;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t s = 0; s < stages; s++) {
            for (uint32_t e = c->first[s]; e < c->first[s + 1]; e++) {
                event *own = &c->event[e];
                double start = fmax(own->start, ready_at(program[s], c, e));
                start = own->partner == nobody ? start : fmax(start, c->event[own->partner].start);
                moved = moved || start > own->start;
                own->start = start;
                longest = fmax(longest, end_of(c, e));
            }
        }
    }
    return longest;
}

/* ---- steps ---- */

typedef struct step {
    gal_plan plan;
    gal_program *program[STAGES_MAX];
    gal_cost *cost[STAGES_MAX];
    gal_durations *durations;
    uint32_t event_count; /* at most */
} step;

static void create(uint64_t seed, step *s)
{
    static const uint32_t worlds[] = {2, 3, 4, 6, 8};
    gal_error err = {0};
    uint64_t random = seed;
    memset(s, 0, sizeof *s);
    gal_random_plan(seed, worlds[seed % 5], &s->plan);
    gal_cluster *cluster = &s->plan.cluster;
    cluster->device.fp64_flops_per_second = between(&random, 1e8, 1e12);
    cluster->device.memory_bytes_per_second = between(&random, 1e8, 1e12);
    for (uint32_t i = 0; i < cluster->level_count; i++) {
        cluster->level[i].bytes_per_second = between(&random, 1e7, 1e11);
    }
    assert_int_equal(gal_durations_create_analytic(cluster, &s->durations, &err), GAL_OK);
    assert_int_equal(gal_lower_plan(&s->plan, s->program, &err), GAL_OK);
    for (uint32_t p = 0; p < s->plan.stage_count; p++) {
        const gal_program *program = s->program[p];
        s->cost[p] = calloc(program->instruction_count, sizeof *s->cost[p]);
        assert_non_null(s->cost[p]);
        gal_instruction_costs(s->durations, program, 0, program->instruction_count, s->cost[p]);
        for (uint32_t call = 0; call < program->call_count; call++) {
            s->event_count += program->fragment[program->call[call].fragment].count;
        }
    }
}

static void destroy(step *s)
{
    for (uint32_t p = 0; p < s->plan.stage_count; p++) {
        gal_program_free(s->program[p]);
        free(s->cost[p]);
    }
    gal_durations_free(s->durations);
    gal_plan_free(&s->plan);
}

static void simulate(const step *s, double fixed_step_seconds, gal_simulation *out)
{
    gal_error err = {0};
    const gal_cost *cost[STAGES_MAX];
    for (uint32_t p = 0; p < s->plan.stage_count; p++) {
        cost[p] = s->cost[p];
    }
    const gal_simulation_input input = {.program = s->program,
                                        .stage_count = s->plan.stage_count,
                                        .cost = cost,
                                        .slowdowns = gal_slowdowns_of(s->durations),
                                        .fixed_step_seconds = fixed_step_seconds};
    assert_int_equal(gal_simulate_costs(&input, out, &err), GAL_OK);
}

static double chain_of(const step *s)
{
    chains c = {.event = calloc(s->event_count, sizeof *c.event)};
    assert_non_null(c.event);
    for (uint32_t p = 0; p < s->plan.stage_count; p++) {
        c.first[p] = c.count;
        list_events(s->program[p], s->cost[p], &c);
    }
    c.first[s->plan.stage_count] = c.count;
    pair_transfers(s->program, s->plan.stage_count, &c);
    const double longest = longest_chain(s->program, s->plan.stage_count, &c);
    free(c.event);
    return longest;
}

static void never_below_streams_and_chains(void **unused)
{
    (void)unused;
    double share[TRIALS];
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        step s;
        gal_simulation simulation = {0};
        create(seed, &s);
        simulate(&s, 0.0, &simulation);
        const double seconds = simulation.iteration_seconds * (1.0 + rounding);
        for (uint32_t p = 0; p < s.plan.stage_count; p++) {
            double alone[GAL_STREAM_COUNT] = {0};
            const gal_program *program = s.program[p];
            chains c = {.event = calloc(s.event_count, sizeof *c.event)};
            list_events(program, s.cost[p], &c);
            for (uint32_t e = 0; e < c.count; e++) {
                alone[program->instruction[c.event[e].instruction].stream] += c.event[e].seconds;
            }
            for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
                assert_true(simulation.stage[p].busy_seconds[stream] <= seconds);
                assert_true(alone[stream] <= seconds);
            }
            free(c.event);
        }
        const double chain = chain_of(&s);
        assert_true(chain > 0.0 && chain <= seconds);
        share[seed - 1] = chain / simulation.iteration_seconds;
        gal_simulation_free(&simulation);
        destroy(&s);
    }
    const double middle = gal_median(share, TRIALS);
    print_message("the longest chain is %.0f %% of a step in the median\n", 100.0 * middle);
    assert_true(middle > 0.5); /* it is a chain of the step's, not a single kernel */
}

static void twice_the_durations(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        step s;
        gal_simulation once = {0}, twice = {0};
        create(seed, &s);
        simulate(&s, 1e-3, &once);
        for (uint32_t p = 0; p < s.plan.stage_count; p++) {
            for (uint32_t i = 0; i < s.program[p]->instruction_count; i++) {
                s.cost[p][i].seconds *= 2.0;
            }
        }
        simulate(&s, 2e-3, &twice);
        assert_true(fabs(twice.iteration_seconds / once.iteration_seconds - 2.0) < rounding);
        gal_simulation_free(&once);
        gal_simulation_free(&twice);
        destroy(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_costs_nothing),
        cmocka_unit_test(never_below_streams_and_chains),
        cmocka_unit_test(twice_the_durations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
