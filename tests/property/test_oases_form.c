/* Oases' closed form (planner/solve/oases.h, Eq. 3 and 4) against the simulation of the programs that it is about.
 *
 * Blocks are made as section 4.1 says: the kernels between two collectives of a sub-batch are a computation, the
 * collective behind them its communication. From the costs of a program's instructions come d and c, and Eq. 3 is what
 * the simulation says that the two sub-batches take from their first kernel to the end of their last collective:
 *   - equal, to rounding, where nothing is slowed by what runs beside it and a computation waits for the collective in
 *     front of it, as in forward: whenever one sub-batch is done computing and the other communicating, both go on, so
 *     steps begin together, as the equation has it, whatever the rates;
 *   - in backward gradients of weights, and what the block below runs again, stand behind a collective that they need
 *     not wait for: it takes no longer than Eq. 3, and no less than Eq. 3 without these kernels;
 *   - with slowdowns no less than that, and more than Eq. 3 by at most the largest of them.
 * Eq. 4's loss of overlap at a change of degree falls out of the schedule: the conversion is of whole microbatches, so
 * the sub-batches in front of it end before those behind it begin, and the step takes min(c, d) more than Eq. 3 across
 * it. Departs from Eq. 4, which counts that in the pass of the gather alone: here both passes convert. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/simulate.h"
#include "planner/solve/oases.h"
#include "schemas/plan_check.h"

enum { DEVICES = 4, LAYERS = 4, BLOCKS_MAX = 4 * LAYERS + 2 };

static const double rounding = 1e-9, most_slowed = 1.3; /* the largest factor of gal_profile_analytic here */

/* ---- a program ---- */

typedef struct played {
    gal_plan plan;
    gal_plan_stage stage;
    gal_plan_run run[4];
    gal_durations *durations;
    gal_program *program;
    gal_cost *cost;
    gal_simulation simulation;
} played;

static void make_model(gal_model *model)
{
    gal_model_defaults(model);
    model->layer_count = LAYERS;
    model->hidden = 1024;
    model->head_count = 16;
    model->ffn_hidden = 4096;
    model->sequence_length = 512;
    model->vocabulary = 50304;
    model->vocabulary_multiple = 128;
}

/* first_blocks of the layers' blocks under a degree, the others under another one (first_blocks all: none). */
static void play(double bytes_per_second, bool slows, gal_overlap overlap, gal_recompute recompute,
                 uint32_t first_blocks, uint32_t first_degree, uint32_t second_degree, played *out)
{
    gal_error err = {GAL_OK, ""};
    gal_profile profile;
    memset(out, 0, sizeof *out);
    make_model(&out->plan.model);
    out->plan.cluster = (gal_cluster){
        .device_count = DEVICES,
        .device = {.kind = "core",
                   .memory_bytes = UINT64_C(1) << 36,
                   .fp32_flops_per_second = 1e13,
                   .fp64_flops_per_second = 5e12,
                   .memory_bytes_per_second = 1e12},
        .level_count = 1,
        .level = {{.span_devices = DEVICES, .latency_seconds = 1e-6, .bytes_per_second = bytes_per_second}}};
    const uint32_t degree[2] = {first_degree, second_degree};
    const uint32_t count[4] = {1, first_blocks, 2 * LAYERS - first_blocks, 1};
    for (uint32_t r = 0; r < 4; r++) {
        const uint32_t own = degree[r >= 2];
        gal_strategy *s = &out->run[out->plan.run_count].strategy;
        *s = (gal_strategy){
            .axis_count = own < DEVICES ? 2 : 1,
            .axis = {{GAL_AXIS_TP, own}, {own < DEVICES ? GAL_AXIS_DP : 0, own < DEVICES ? DEVICES / own : 0}}};
        s->recompute = r == 1 || r == 2 ? recompute : GAL_RECOMPUTE_NONE;
        s->overlap = r == 1 || r == 2 ? overlap : GAL_OVERLAP_NONE;
        out->run[out->plan.run_count].block_count = count[r];
        out->plan.run_count += count[r] > 0;
    }
    /* the tied table is sharded alike at both ends */
    out->run[out->plan.run_count - 1].strategy = out->run[0].strategy;
    out->stage.run_count = out->plan.run_count;
    out->plan.stage = &out->stage;
    out->plan.run = out->run;
    out->plan.global_batch_samples = 16;
    out->plan.microbatch_count = out->plan.pp_degree = out->plan.stage_count = 1;
    out->plan.schedule = GAL_SCHEDULE_1F1B;
    out->plan.prefetch_depth = 2;
    gal_profile_analytic(&out->plan.cluster, &profile);
    for (uint32_t i = 0; !slows && i < GAL_ACTIVITY_COUNT; i++) {
        for (uint32_t k = 0; k < GAL_ACTIVITY_COUNT; k++) {
            profile.slowdown[i][k] = 1.0;
        }
    }
    if (gal_plan_check(&out->plan, NULL, &err) != GAL_OK || gal_lower_plan(&out->plan, &out->program, &err) != GAL_OK ||
        gal_durations_create(&profile, &out->durations, &err) != GAL_OK ||
        gal_simulate(&out->program, 1, out->durations, true, &out->simulation, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    out->cost = calloc(out->program->instruction_count, sizeof *out->cost);
    assert_non_null(out->cost);
    gal_instruction_costs(out->durations, out->program, 0, out->program->instruction_count, out->cost);
}

static void release(played *p)
{
    gal_simulation_free(&p->simulation);
    free(p->cost);
    gal_program_free(p->program);
    gal_durations_free(p->durations);
}

static const gal_fragment *fragment_of(const played *p, gal_oases_pass pass)
{
    return &p->program->fragment[pass == GAL_OASES_FORWARD ? GAL_FRAGMENT_FORWARD : GAL_FRAGMENT_BACKWARD_SYNC];
}

/* ---- section 4.1 ---- */

/* Of blocks first .. end - 1 of the model, in the order in which the pass runs. */
typedef struct chain {
    uint32_t count;
    bool has_free; /* kernels that need not wait for the collective in front of them */
    double compute[BLOCKS_MAX][2], reduce[BLOCKS_MAX][2]; /* [sequence][sub-batch] */
} chain;

typedef enum kernels { ALL_KERNELS, WITHOUT_FREE } kernels;

static bool touches(const gal_program *program, const gal_instruction *in, uint32_t buffer)
{
    bool found = false;
    for (uint32_t i = 0; i < in->operand_count; i++) {
        found = found || program->operand[in->first_operand + i].buffer == buffer;
    }
    return found;
}

static void cut(const played *p, gal_oases_pass pass, uint32_t first, uint32_t end, kernels which, chain *out)
{
    const gal_fragment *fragment = fragment_of(p, pass);
    uint32_t at[2] = {0, 0};
    uint32_t reduced[2] = {GAL_NO_BUFFER, GAL_NO_BUFFER}; /* by the last collective, until a kernel waits for it */
    memset(out, 0, sizeof *out);
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        const gal_instruction *in = &p->program->instruction[i];
        if (in->sub_batch == 0 || in->block < first || in->block >= end) {
            continue;
        }
        const uint32_t half = in->sub_batch - 1u;
        assert_true(at[half] < BLOCKS_MAX);
        if (in->stream == GAL_STREAM_TENSOR) {
            reduced[half] = p->program->operand[in->first_operand].buffer;
            out->reduce[at[half]++][half] = p->cost[i].seconds;
        } else if (in->stream == GAL_STREAM_COMPUTE) {
            const bool waits = reduced[half] == GAL_NO_BUFFER || touches(p->program, in, reduced[half]);
            reduced[half] = waits ? GAL_NO_BUFFER : reduced[half];
            out->has_free = out->has_free || !waits;
            out->compute[at[half]][half] += !waits && which == WITHOUT_FREE ? 0.0 : p->cost[i].seconds;
        }
    }
    assert_int_equal(at[0], at[1]);
    out->count = at[0] + 1; /* what is behind the last collective communicates nothing */
}

/* Eq. 3 by the tables that the planner solves: one degree, the same chain in both passes, so half of it. */
static double closed_form(const chain *of)
{
    gal_oases o;
    gal_problem tables;
    double seconds = 0.0;
    assert_int_equal(gal_oases_create(of->count, 1, &o, NULL), GAL_OK);
    o.degree[0] = 4;
    o.budget_bytes = 2;
    for (uint32_t i = 0; i < of->count; i++) {
        for (uint32_t pass = 0; pass < GAL_OASES_PASS_COUNT; pass++) {
            memcpy(o.cost[i].compute_seconds[pass], of->compute[i], sizeof of->compute[i]);
            memcpy(o.cost[i].reduce_seconds[pass], of->reduce[i], sizeof of->reduce[i]);
        }
    }
    assert_int_equal(gal_oases_tabulate(&o, &tables, NULL), GAL_OK);
    for (uint32_t i = 0; i < of->count; i++) {
        seconds += tables.cost[i].seconds + (i > 0 ? tables.transition_seconds[i] : 0.0);
    }
    gal_problem_free(&tables);
    gal_oases_free(&o);
    return seconds / GAL_OASES_PASS_COUNT;
}

/* From the first start to the last end of what the sub-batches of these blocks do in a pass. */
static double simulated(const played *p, gal_oases_pass pass, uint32_t first, uint32_t end)
{
    const gal_fragment *fragment = fragment_of(p, pass);
    double begin = HUGE_VAL, last = 0.0;
    for (uint64_t i = 0; i < p->simulation.event_count; i++) {
        const gal_timeline_event *event = &p->simulation.timeline[i];
        const gal_instruction *in = &p->program->instruction[event->instruction];
        const bool works = in->stream == GAL_STREAM_COMPUTE || in->stream == GAL_STREAM_TENSOR;
        if (works && event->instruction - fragment->first < fragment->count && in->sub_batch > 0 &&
            in->block >= first && in->block < end) {
            begin = fmin(begin, event->start_seconds);
            last = fmax(last, event->end_seconds);
        }
    }
    return last - begin;
}

/* ---- tests ---- */

static const double links[] = {1e9, 4e9, 1.6e10, 1e11};
enum { LINKS = sizeof links / sizeof links[0] };

static const struct {
    gal_recompute recompute;
    gal_overlap overlap;
} kinds[] = {{GAL_RECOMPUTE_NONE, GAL_OVERLAP_IN_PASS},
             {GAL_RECOMPUTE_FULL, GAL_OVERLAP_CROSS_PASS},
             {GAL_RECOMPUTE_FULL, GAL_OVERLAP_FINE}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void test_eq_3(void **unused)
{
    (void)unused;
    for (uint32_t n = 0; n < LINKS * KINDS * 2; n++) {
        const bool slows = n % 2 == 1;
        const uint32_t kind = n / 2 % KINDS, end = 1 + 2 * LAYERS;
        played p;
        play(links[n / 2 / KINDS], slows, kinds[kind].overlap, kinds[kind].recompute, 2 * LAYERS, DEVICES, DEVICES, &p);
        for (uint32_t pass = 0; pass < GAL_OASES_PASS_COUNT; pass++) {
            chain c, least;
            cut(&p, (gal_oases_pass)pass, 1, end, ALL_KERNELS, &c);
            cut(&p, (gal_oases_pass)pass, 1, end, WITHOUT_FREE, &least);
            const double form = closed_form(&c), played_seconds = simulated(&p, (gal_oases_pass)pass, 1, end);
            print_message("%.0e B/s, %s, %s, %s: %.4f ms by Eq. 3, %.4f simulated\n", links[n / 2 / KINDS],
                          gal_overlap_names[kinds[kind].overlap], pass == 0 ? "forward" : "backward",
                          slows ? "slowed" : "alone", form * 1e3, played_seconds * 1e3);
            assert_true(c.has_free == (pass == GAL_OASES_BACKWARD));
            assert_true(played_seconds >= closed_form(&least) * (1.0 - rounding));
            assert_true(played_seconds <= form * ((slows ? most_slowed : 1.0) + rounding));
            assert_true(c.count ==
                        2 * LAYERS * (kinds[kind].overlap == GAL_OVERLAP_CROSS_PASS && pass == 1 ? 2 : 1) + 1);
        }
        release(&p);
    }
}

/* Seconds of the instructions of whole microbatches between two blocks: of the conversion. */
static double conversion(const played *p, gal_oases_pass pass, uint32_t block)
{
    const gal_fragment *fragment = fragment_of(p, pass);
    double seconds = 0.0;
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        const gal_instruction *in = &p->program->instruction[i];
        const bool works = in->stream == GAL_STREAM_COMPUTE || in->stream == GAL_STREAM_TENSOR;
        seconds += works && in->sub_batch == 0 && in->block == block ? p->cost[i].seconds : 0.0;
    }
    return seconds;
}

/* Blocks 1 .. middle - 1 under a degree, the others under the other: Eq. 3 over all of them and Eq. 4. */
static double with_eq_4(const played *p, gal_oases_pass pass, uint32_t middle, uint32_t end, kernels which)
{
    chain front, back, all = {.count = 0};
    cut(p, pass, pass == GAL_OASES_FORWARD ? 1 : middle, pass == GAL_OASES_FORWARD ? middle : end, which, &front);
    cut(p, pass, pass == GAL_OASES_FORWARD ? middle : 1, pass == GAL_OASES_FORWARD ? end : middle, which, &back);
    assert_true(front.count + back.count <= BLOCKS_MAX);
    memcpy(all.compute, front.compute, sizeof all.compute);
    memcpy(all.reduce, front.reduce, sizeof all.reduce);
    memcpy(&all.compute[front.count], back.compute, back.count * sizeof back.compute[0]);
    memcpy(&all.reduce[front.count], back.reduce, back.count * sizeof back.reduce[0]);
    all.count = front.count + back.count;
    return closed_form(&all) + fmin(front.reduce[front.count - 1][1], back.compute[0][0]) + conversion(p, pass, middle);
}

static void test_eq_4(void **unused)
{
    (void)unused;
    for (uint32_t n = 0; n < LINKS * 2; n++) {
        const uint32_t middle = 1 + LAYERS, end = 1 + 2 * LAYERS;
        played p;
        play(links[n / 2], false, GAL_OVERLAP_FINE, GAL_RECOMPUTE_FULL, LAYERS, n % 2 == 0 ? 4 : 2, n % 2 == 0 ? 2 : 4,
             &p);
        for (uint32_t pass = 0; pass < GAL_OASES_PASS_COUNT; pass++) {
            const double form = with_eq_4(&p, (gal_oases_pass)pass, middle, end, ALL_KERNELS);
            const double least = with_eq_4(&p, (gal_oases_pass)pass, middle, end, WITHOUT_FREE);
            const double played_seconds = simulated(&p, (gal_oases_pass)pass, 1, end);
            print_message("%.0e B/s, %s, %s: %.4f ms by Eq. 3 and 4, %.4f simulated\n", links[n / 2],
                          n % 2 == 0 ? "tp 4 then 2" : "tp 2 then 4", pass == 0 ? "forward" : "backward", form * 1e3,
                          played_seconds * 1e3);
            assert_true(played_seconds >= least * (1.0 - rounding));
            assert_true(played_seconds <= form * (1.0 + rounding));
        }
        release(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_eq_3), cmocka_unit_test(test_eq_4)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
