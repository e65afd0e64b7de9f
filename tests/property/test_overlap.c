/* Overlapped schedules: the three kinds mean the same computation, to the order of every sum, whatever interleaving the
 * streams take; programs with one sub-batch's mistakes are refused (test_verify.c). What they are priced at grows as
 * what they simulate. test_overlap [plans [first seed]] */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "costmodel/objective.h"
#include "costmodel/simulate.h"
#include "runtime/program/verify/verify.h"
#include "schemas/plan_check.h"
#include "tests/support/content.h"
#include "tests/support/random_plan.h"

enum { STAGES_MAX = 8, INTERLEAVINGS = 4 };

static uint32_t plan_count = 200;
static uint64_t first_seed = 1;

typedef struct lowered {
    uint32_t stage_count;
    gal_program *program[STAGES_MAX];
} lowered;

static void lower(const gal_plan *plan, uint64_t seed, lowered *out)
{
    gal_error err = {GAL_OK, ""};
    out->stage_count = plan->stage_count;
    if (gal_plan_check(plan, NULL, &err) != GAL_OK || gal_lower_plan(plan, out->program, &err) != GAL_OK ||
        gal_verify(out->program, out->stage_count, &err) != GAL_OK) {
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    }
}

static void release(lowered *l)
{
    for (uint32_t s = 0; s < l->stage_count; s++) {
        gal_program_free(l->program[s]);
    }
}

/* Every block that may have it takes full recompute and this overlap; returns how many work on two sub-batches. */
static uint32_t set_overlap(gal_plan *plan, gal_overlap overlap)
{
    uint32_t block = 0, halved = 0;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        gal_strategy *strategy = &plan->run[r].strategy;
        gal_strategy with = *strategy;
        bool fits = true;
        with.overlap = overlap;
        with.recompute = GAL_RECOMPUTE_FULL;
        for (uint32_t i = 0; i < plan->run[r].block_count; i++) {
            gal_block_shape shape;
            gal_model_block(&plan->model, block + i, &shape);
            fits = fits && gal_strategy_block_rule_broken(&plan->model, &shape, &with, gal_plan_stage_devices(plan),
                                                          gal_plan_microbatch_samples(plan)) == NULL;
        }
        for (uint32_t i = 0; i < plan->run[r].block_count; i++, block++) {
            gal_block_shape shape;
            gal_model_block(&plan->model, block, &shape);
            halved += fits && gal_strategy_halves(&with, shape.kind);
        }
        *strategy = fits ? with : *strategy;
    }
    return halved;
}

/* The next seed whose plan has blocks of two sub-batches. */
static uint64_t draw(uint64_t seed, gal_plan *plan)
{
    static const uint32_t worlds[] = {2, 4, 8, 6};
    for (;; seed++) {
        gal_random_plan(seed, worlds[seed % 4], plan);
        if (plan->schedule != GAL_SCHEDULE_ZERO_BUBBLE && set_overlap(plan, GAL_OVERLAP_FINE) > 0) {
            return seed;
        }
        gal_plan_free(plan);
    }
}

static uint64_t meaning_of(const lowered *l, uint64_t seed)
{
    uint64_t state = 0;
    gal_content *content = gal_content_create(l->program, l->stage_count);
    assert_non_null(content);
    assert_true(gal_content_reference(content, &state));
    for (uint32_t i = 0; i < INTERLEAVINGS; i++) {
        uint64_t reached = 0;
        if (!gal_content_interleave(content, seed * 1000 + i, &reached) || reached != state) {
            fail_msg("seed %llu: the state depends on the interleaving", (unsigned long long)seed);
        }
    }
    gal_content_free(content);
    return state;
}

static void test_kinds_mean_the_same(void **unused)
{
    (void)unused;
    uint64_t seed = first_seed;
    for (uint32_t i = 0; i < plan_count; i++, seed++) {
        gal_plan plan;
        uint64_t meaning[GAL_OVERLAP_COUNT];
        seed = draw(seed, &plan);
        for (uint32_t kind = GAL_OVERLAP_IN_PASS; kind < GAL_OVERLAP_COUNT; kind++) {
            lowered l;
            (void)set_overlap(&plan, (gal_overlap)kind);
            lower(&plan, seed, &l);
            meaning[kind] = meaning_of(&l, seed);
            release(&l);
        }
        gal_plan_free(&plan);
        if (meaning[GAL_OVERLAP_IN_PASS] != meaning[GAL_OVERLAP_FINE] ||
            meaning[GAL_OVERLAP_CROSS_PASS] != meaning[GAL_OVERLAP_FINE]) {
            fail_msg("seed %llu: the kinds of overlap compute differently", (unsigned long long)seed);
        }
    }
}

/* ---- prices ---- */

enum { DEVICES = 4, RUNS_MAX = 32 };

typedef struct timed {
    double simulated_seconds, objective_seconds;
    double border_seconds; /* by which the two may differ, per layer: see border_of */
} timed;

/* Of one sub-batch of a block in a fragment: its kernels up to its first collective, and behind its last one. */
static void ends_of(const gal_program *p, const gal_cost *cost, const gal_fragment *fragment, uint32_t block,
                    double *head_seconds, double *tail_seconds)
{
    bool started = false;
    *head_seconds = *tail_seconds = 0.0;
    for (uint32_t i = 0; i < fragment->count; i++) {
        const gal_instruction *in = &p->instruction[fragment->first + i];
        if (in->block != block || in->sub_batch != 1) {
            continue;
        }
        if (in->stream == GAL_STREAM_TENSOR) {
            started = true;
            *tail_seconds = 0.0;
        } else if (in->stream == GAL_STREAM_COMPUTE) {
            *(started ? tail_seconds : head_seconds) += cost[i].seconds;
        }
    }
}

/* How far the sum of prices may be from a chain of layers, per layer. A price is of a block among blocks of its own
 * type; a layer is attention A and FFN F in turn. Between two collectives of a sub-batch that follow each other lie
 * kernels of one block, or the tail t of one and the head h of the next one; beside them runs a collective of the other
 * sub-batch, of c seconds wherever it is, so the span takes max(kernels, c) (Oases, equation 3). Only spans over
 * borders differ: alone max(tA + hA, c) + max(tF + hF, c), in turn max(tA + hF, c) + max(tF + hA, c). The sums of the
 * arguments are equal and max(., c) is convex with slopes of 0 to 1: so these differ by at most min(|tA - tF|, |hA -
 * hF|). There are two sub-batches, and beside collectives kernels are slower. */
static double border_of(const gal_program *p, const gal_durations *durations)
{
    const gal_fragment_kind kinds[] = {GAL_FRAGMENT_FORWARD, GAL_FRAGMENT_BACKWARD};
    double seconds = 0.0;
    for (uint32_t k = 0; k < 2; k++) {
        const gal_fragment *fragment = &p->fragment[kinds[k]];
        gal_cost *cost = malloc(fragment->count * sizeof *cost);
        double head[2], tail[2];
        assert_non_null(cost);
        gal_instruction_costs(durations, p, fragment->first, fragment->count, cost);
        for (uint32_t type = 0; type < 2; type++) {
            ends_of(p, cost, fragment, 1 + type, &head[type], &tail[type]);
        }
        seconds += 2.0 * fmin(fabs(tail[0] - tail[1]), fabs(head[0] - head[1]));
        free(cost);
    }
    return seconds * gal_durations_slowdown(durations, GAL_ACTIVITY_COMPUTE, GAL_ACTIVITY_COMMUNICATION);
}

/* A decoder of so many layers under TP over DEVICES, whose collectives take about as long as its kernels. Of its blocks
 * those behind every `whole` first ones are of whole microbatches for as many, and so on; 0: none is. */
static timed time_with(uint32_t layers, bool sequence_parallel, gal_recompute recompute, gal_overlap overlap,
                       uint32_t whole)
{
    gal_error err = {GAL_OK, ""};
    gal_plan plan;
    gal_durations *durations = NULL;
    gal_price_cache *cache = NULL;
    gal_program *program = NULL;
    gal_simulation simulation = {0};
    timed out = {0};
    memset(&plan, 0, sizeof plan);
    gal_model_defaults(&plan.model);
    plan.model.layer_count = layers;
    plan.model.hidden = 1024;
    plan.model.head_count = 16;
    plan.model.ffn_hidden = 4096;
    plan.model.sequence_length = 512;
    plan.model.vocabulary = 50304;
    plan.model.vocabulary_multiple = 128;
    plan.cluster = (gal_cluster){
        .device_count = DEVICES,
        .device = {.kind = "core",
                   .memory_bytes = UINT64_C(1) << 36,
                   .fp32_flops_per_second = 1e13,
                   .fp64_flops_per_second = 5e12,
                   .memory_bytes_per_second = 1e12},
        .level_count = 1,
        .level = {{.name = "link", .span_devices = DEVICES, .latency_seconds = 1e-6, .bytes_per_second = 4e9}}};
    gal_plan_run run[RUNS_MAX];
    const gal_strategy strategy = {.axis_count = 1,
                                   .axis = {{GAL_AXIS_TP, DEVICES}},
                                   .sequence_parallel = sequence_parallel,
                                   .recompute = recompute,
                                   .overlap = overlap};
    const uint32_t each = whole == 0 ? 2 * layers + 2 : whole;
    for (uint32_t done = 0; done < 2 * layers + 2; done += each) {
        const uint32_t left = 2 * layers + 2 - done;
        assert_true(plan.run_count < RUNS_MAX);
        run[plan.run_count] = (gal_plan_run){left < each ? left : each, strategy};
        run[plan.run_count].strategy.overlap = plan.run_count % 2 == 0 ? overlap : GAL_OVERLAP_NONE;
        plan.run_count++;
    }
    gal_plan_stage stage = {.run_count = plan.run_count};
    plan.stage = &stage;
    plan.run = run;
    plan.global_batch_samples = 8;
    plan.microbatch_count = plan.pp_degree = plan.stage_count = 1;
    plan.schedule = GAL_SCHEDULE_1F1B;
    plan.prefetch_depth = 2;
    if (gal_plan_check(&plan, NULL, &err) != GAL_OK || gal_lower_plan(&plan, &program, &err) != GAL_OK ||
        gal_durations_create_analytic(&plan.cluster, &durations, &err) != GAL_OK ||
        gal_price_cache_create(&plan.model, durations, &cache, &err) != GAL_OK ||
        gal_plan_objective(cache, durations, &plan, &out.objective_seconds, &err) != GAL_OK ||
        gal_simulate(&program, 1, durations, false, &simulation, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    out.simulated_seconds = simulation.iteration_seconds;
    out.border_seconds = border_of(program, durations);
    gal_simulation_free(&simulation);
    gal_price_cache_free(cache);
    gal_durations_free(durations);
    gal_program_free(program);
    return out;
}

static timed time_of(uint32_t layers, bool sequence_parallel, gal_recompute recompute, gal_overlap overlap)
{
    return time_with(layers, sequence_parallel, recompute, overlap, 0);
}

/* One more layer adds to the objective what it adds to the simulation, but for what its borders may differ by; and for
 * what the addition of some thousand numbers of it may be off. */
static void test_prices_grow_as_the_simulation(void **unused)
{
    static const struct {
        gal_recompute recompute;
        gal_overlap overlap;
    } kinds[] = {{GAL_RECOMPUTE_NONE, GAL_OVERLAP_INTRA_OP},   {GAL_RECOMPUTE_NONE, GAL_OVERLAP_IN_PASS},
                 {GAL_RECOMPUTE_FULL, GAL_OVERLAP_INTRA_OP},   {GAL_RECOMPUTE_FULL, GAL_OVERLAP_IN_PASS},
                 {GAL_RECOMPUTE_FULL, GAL_OVERLAP_CROSS_PASS}, {GAL_RECOMPUTE_FULL, GAL_OVERLAP_FINE}};
    (void)unused;
    for (uint32_t i = 0; i < 2 * sizeof kinds / sizeof kinds[0]; i++) {
        if (i % 2 == 1 && kinds[i / 2].overlap == GAL_OVERLAP_INTRA_OP) {
            continue;
        }
        const timed few = time_of(6, i % 2 == 1, kinds[i / 2].recompute, kinds[i / 2].overlap);
        const timed many = time_of(10, i % 2 == 1, kinds[i / 2].recompute, kinds[i / 2].overlap);
        const double simulated = many.simulated_seconds - few.simulated_seconds;
        const double priced = many.objective_seconds - few.objective_seconds;
        print_message(
            "%s recompute, %s%s: a layer is %.3f ms simulated, %.3f ms priced, %.3f ms between them allowed\n",
            gal_recompute_names[kinds[i / 2].recompute], gal_overlap_names[kinds[i / 2].overlap],
            i % 2 == 1 ? ", sp" : "", simulated / 4 * 1e3, priced / 4 * 1e3, many.border_seconds * 1e3);
        assert_true(fabs(priced - simulated) <= 4 * many.border_seconds + 1e-9 * simulated);
    }
}

static double growth(gal_recompute recompute, gal_overlap overlap, uint32_t whole, double *priced)
{
    const timed few = time_with(6, false, recompute, overlap, whole),
                many = time_with(12, false, recompute, overlap, whole);
    *priced = many.objective_seconds - few.objective_seconds;
    return many.simulated_seconds - few.simulated_seconds;
}

/* What a change from sub-batches to whole microbatches and back costs is in the prices of pairs. Six layers more, half
 * of whose blocks are of each, add to the objective what they add to the simulation, to 0.2 % (as above: the kernels of
 * one type run beside the collectives of the other). What the changes lose against half of each without any is ten
 * times what is left. */
static void test_changes_are_priced(void **unused)
{
    (void)unused;
    for (uint32_t n = 0; n < 4; n++) {
        const uint32_t every = 2 + n / 2;
        const gal_recompute recompute = n % 2 == 0 ? GAL_RECOMPUTE_NONE : GAL_RECOMPUTE_FULL;
        const gal_overlap overlap = n % 2 == 0 ? GAL_OVERLAP_IN_PASS : GAL_OVERLAP_FINE;
        double priced = 0.0, unused_price = 0.0;
        const double simulated = growth(recompute, overlap, every, &priced);
        const double lost = simulated - 0.5 * (growth(recompute, overlap, 0, &unused_price) +
                                               growth(recompute, GAL_OVERLAP_NONE, 0, &unused_price));
        print_message("%s, a change every %u blocks: 6 layers are %.3f ms simulated, %.3f ms priced; %.3f ms lost\n",
                      gal_overlap_names[overlap], every, simulated * 1e3, priced * 1e3, lost * 1e3);
        assert_true(fabs(priced - simulated) <= 2e-3 * simulated);
        assert_true(lost > 10.0 * fabs(priced - simulated));
    }
}

/* Where collectives take as long as kernels each step of the paper gains, in its order (Figure 3). */
static void test_each_kind_gains(void **unused)
{
    (void)unused;
    const double in_pass = time_of(8, false, GAL_RECOMPUTE_FULL, GAL_OVERLAP_IN_PASS).simulated_seconds;
    const double cross_pass = time_of(8, false, GAL_RECOMPUTE_FULL, GAL_OVERLAP_CROSS_PASS).simulated_seconds;
    const double fine = time_of(8, false, GAL_RECOMPUTE_FULL, GAL_OVERLAP_FINE).simulated_seconds;
    const double none = time_of(8, false, GAL_RECOMPUTE_FULL, GAL_OVERLAP_NONE).simulated_seconds;
    const double intra_op = time_of(8, false, GAL_RECOMPUTE_FULL, GAL_OVERLAP_INTRA_OP).simulated_seconds;
    print_message("none %.3f, intra_op %.3f, in_pass %.3f, cross_pass %.3f, fine %.3f ms\n", none * 1e3, intra_op * 1e3,
                  in_pass * 1e3, cross_pass * 1e3, fine * 1e3);
    assert_true(fine < cross_pass && cross_pass < in_pass && fine < intra_op && intra_op < none);
}

int main(int argc, char **argv)
{
    plan_count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : plan_count;
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : first_seed;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_mean_the_same), cmocka_unit_test(test_prices_grow_as_the_simulation),
        cmocka_unit_test(test_changes_are_priced), cmocka_unit_test(test_each_kind_gains)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
