/* Any plan computes what one rank computes: random plans over 1 to 8 ranks in fp64, in one launch.
 *
 *     mpirun -np 8 equivalence PLANS SEED         PLANS plans drawn from SEED
 *     mpirun -np 8 equivalence 1 SEED WORLD       the one plan of this seed over WORLD ranks, as the log names it
 *     mpirun -np 8 equivalence PLANS SEED 0 SCALE hidden sizes SCALE times as large: arenas of many MiB
 *     mpirun -np 8 equivalence PLANS SEED 0 1 host-fp32   carried out by the host in fp32, compared with fp64
 *     mpirun -np 8 equivalence PLANS SEED 0 1 host overlaps   plans that have kinds of overlap, under the other kinds
 *     mpirun -np 8 equivalence PLANS SEED 0 1 host storage    moments of the host's optimizer on storage, too
 *     mpirun -np 16 equivalence PLANS SEED 0 1 host grids     plans over 9, 12 and 16 ranks that have a grid of so many
 *
 * Of each plan: loss, gradient norm, every element of every gradient on every rank that holds it (but of plans that
 * keep gradients where their weights were, which are there again when the step is over), the weights after 5 steps and
 * the loss of an evaluated batch against one rank (computed with microbatch_count 1); the same plan with the other
 * schedule, with the other prefetch depth, with the other kinds of overlap under random delays and without offload,
 * equal to the bit; without overlap, to 1e-12; the arena and the host's memory against the plan's bytes; resident
 * memory. With liballoc_count preloaded the phase "step" holds steps 2 and later.
 *
 * Kinds of overlap are compared by themselves where plans are chosen, as 3 in 10 have them: of those that have, all
 * are compared, and nothing else is changed.
 *
 * On something else than the host in fp64 plans are taken as they are drawn: a choice for cells would leave out
 * families that have few of their own.
 *
 * With SCALE the other schedule, prefetch depth and place of the optimizer are left out.
 *
 * From 500 plans on, every legal cell of the coverage matrix must be met by 3 plans; fewer plans are drawn so that as
 * many cells as can be are met by one. Plans are drawn at random; of several the one that meets most of the cells still
 * short is taken (numerics_draw.h). */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "schemas/plan_check.h"
#include "tests/numerics/equivalence_on.h"
#include "tests/numerics/equivalence_run.h"
#include "tests/support/numerics_draw.h"
#include "tests/support/numerics_trial.h"

enum { COVERED_PLANS = 500, COVERED_BY = 3 };

static const double learning_rate = 1e-3;
/* Of the plans: 300 of the 1,000 of make check-all. */
static const double offloaded_share = 0.3;

/* What of a plan is changed, to be compared with it as it was. */
typedef enum others {
    NOTHING,
    ALL_BUT_KINDS, /* of overlap */
    KINDS,
    ALL
} others;

typedef struct settings {
    uint32_t plans;
    uint64_t seed;
    uint32_t world; /* 0: drawn */
    uint32_t scale;
    gal_draw_kind kind;
    others others;
    bool stores;
} settings;

typedef struct report {
    double error[GAL_CHECK_COUNT];
    uint32_t plans[GAL_CHECK_COUNT];
    uint32_t failed;
    uint32_t offloaded, stored; /* plans that offload something; of these, moments to storage */
} report;

/* Where the plans are carried out; the reference always on the host in fp64. */
static const gal_trial_on *on;

/* Ranks that a plan does not need leave the cores to the others. */
static void wait_for_all(void)
{
    const struct timespec nap = {0, 2000000};
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); !done; MPI_Test(&request, &done, MPI_STATUS_IGNORE)) {
        nanosleep(&nap, NULL);
    }
}

/* ---- one plan ---- */

static bool gathers(const gal_plan *plan)
{
    bool found = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        found |= plan->run[r].strategy.zero_stage == 3 || plan->run[r].strategy.offload_parameters_percent > 0;
    }
    return found;
}

/* Of fp64: u = 2^-53, and what differs is the order of sums of at most 256 terms, 48 of them on the way through a model
 * and back (equivalence_on.h): 48 * 264 u = 1.4e-12 of the largest entry were all of it in one direction; losses and
 * norms are sums of many such numbers. */
static const double plain_bound = 1e-12;

static void compare_plain(const gal_outcome *base, const gal_outcome *plain, double *error)
{
    for (uint32_t s = 0; base->state != NULL && s < GAL_TRIAL_STEPS; s++) {
        gal_check_note(&error[GAL_CHECK_PLAIN], fabs(base->loss[s] - plain->loss[s]) / (plain_bound * plain->loss[s]),
                       "loss");
        gal_check_note(&error[GAL_CHECK_PLAIN], fabs(base->norm[s] - plain->norm[s]) / (plain_bound * plain->norm[s]),
                       "norm");
    }
}

/* Compared with other runs alone. */
static void run_plan(const gal_plan *plan, uint64_t seed, gal_outcome *out, double *error)
{
    const gal_equivalence_run run = {.on = on, .plan = plan, .seed = seed, .learning_rate = learning_rate};
    gal_equivalence_run_plan(&run, out, error);
}

static void run_variant(const gal_plan *plan, const gal_drawn *which, const gal_outcome *base, uint32_t check,
                        double *error)
{
    gal_outcome other;
    run_plan(plan, which->seed, &other, error);
    const bool equal = base->state == NULL || gal_outcome_equal(base, &other);
    gal_check_note(&error[check], equal ? 0.0 : INFINITY, gal_check_names[check]);
    free(other.state);
}

/* Rank 0 knows afterwards how many ranks hold each element, and how many should. */
static void check_replicas(const gal_tensor_table *table, const uint32_t *held, const uint32_t *planned, double *error)
{
    const uint64_t elements = table->offset[table->count];
    uint32_t *sum = calloc(2 * elements, sizeof *sum);
    GAL_ASSERT(sum != NULL);
    MPI_Reduce(held, sum, (int)elements, MPI_UINT32_T, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(planned, sum + elements, (int)elements, MPI_UINT32_T, MPI_MAX, 0, MPI_COMM_WORLD);
    for (uint64_t i = 0; gal_mpi_rank() == 0 && i < elements; i++) {
        char text[128];
        (void)snprintf(text, sizeof text, "element %llu of all gradients: on %u ranks, planned are %u",
                       (unsigned long long)i, sum[i], sum[elements + i]);
        if (sum[i] == 0 || sum[i] != sum[elements + i]) {
            gal_check_note(&error[GAL_CHECK_REPLICAS], INFINITY, text);
            break;
        }
    }
    free(sum);
}

static bool stores(const gal_plan *plan)
{
    bool found = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        found |= plan->run[r].strategy.offload_storage_percent > 0;
    }
    return found;
}

static bool offloads(const gal_plan *plan)
{
    bool found = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        found |= gal_strategy_offloads(&plan->run[r].strategy);
    }
    return found;
}

static void copy_plan(const gal_plan *plan, gal_plan *out)
{
    gal_error err = {GAL_OK, ""};
    if (gal_plan_copy(plan, out, &err) != GAL_OK) {
        gal_equivalence_stop("copy", &err);
    }
}

/* The two other kinds, with random delays in the streams of every rank; false: there are none. */
static bool run_other_overlaps(const gal_plan *plan, const gal_drawn *which, const gal_outcome *base, double *error)
{
    const gal_trial_on *as_it_is = on;
    gal_trial_on delayed = *on;
    bool has = false;
    delayed.delays = on->device->queue == NULL;
    on = &delayed;
    for (uint32_t steps = 1; steps <= 2; steps++) {
        gal_plan variant;
        copy_plan(plan, &variant);
        if (gal_drawn_turn_overlap(&variant, steps)) {
            run_variant(&variant, which, base, GAL_CHECK_OVERLAP, error);
            has = true;
        }
        gal_plan_free(&variant);
    }
    on = as_it_is;
    return has;
}

/* The same without overlap; false: there is none, or figures are not fp64. */
static bool run_plain(const gal_plan *plan, const gal_drawn *which, const gal_outcome *base, double *error)
{
    gal_plan variant;
    gal_outcome plain;
    bool has = false;
    copy_plan(plan, &variant);
    for (uint32_t r = 0; r < variant.run_count; r++) {
        has = has || variant.run[r].strategy.overlap != GAL_OVERLAP_NONE;
        variant.run[r].strategy.overlap = GAL_OVERLAP_NONE;
    }
    has = has && on->ops->dtype == GAL_FP64;
    if (has) {
        run_plan(&variant, which->seed, &plain, error);
        compare_plain(base, &plain, error);
        free(plain.state);
    }
    gal_plan_free(&variant);
    return has;
}

/* The same plan with all on the device. */
static void run_on_device(const gal_plan *plan, const gal_drawn *which, const gal_outcome *base, double *error)
{
    gal_plan variant;
    copy_plan(plan, &variant);
    for (uint32_t r = 0; r < variant.run_count; r++) {
        variant.run[r].strategy.offload_optimizer_percent = variant.run[r].strategy.offload_storage_percent = 0;
        variant.run[r].strategy.offload_parameters_percent = 0;
        variant.run[r].strategy.offload_activations_percent = 0;
        variant.run[r].strategy.offload_storage_activations_percent = 0;
        variant.run[r].strategy.offload_storage_parameters_percent = 0;
    }
    run_variant(&variant, which, base, GAL_CHECK_OFFLOAD, error);
    gal_plan_free(&variant);
}

/* Whether units are the same on either side: what is kept in parts on the host or on storage cuts buckets and chunks,
 * and the norm is summed unit by unit. */
static bool keeps_units(const gal_plan *plan)
{
    bool keeps = true;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const gal_strategy *s = &plan->run[r].strategy;
        const bool whole = s->offload_optimizer_percent % 100 == 0 && s->offload_parameters_percent % 100 == 0 &&
                           s->offload_storage_percent % 100 == 0 && s->offload_storage_parameters_percent % 100 == 0;
        keeps = keeps && (s->shard_unit == GAL_SHARD_MATRIX || whole);
    }
    return keeps;
}

/* Such a plan has one prefetch depth: two buffers for two gathers of one weight. */
static bool needs_prefetch(const gal_plan *plan)
{
    bool needs = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        needs = needs || gal_strategy_gathers_rule_broken(&plan->run[r].strategy, 1) != NULL;
    }
    return needs;
}

static void try_plan(const gal_drawn *which, const gal_plan *plan, others compared, const gal_reference *reference,
                     report *total)
{
    const bool all = compared == ALL || compared == ALL_BUT_KINDS, kinds = compared == ALL || compared == KINDS;
    double error[GAL_CHECK_COUNT] = {0.0};
    gal_outcome base;
    const uint64_t elements = reference->table.offset[reference->table.count];
    uint32_t *counts = calloc(2 * elements, sizeof *counts);
    GAL_ASSERT(counts != NULL);
    const gal_equivalence_run run = {on, plan, which->seed, learning_rate, reference, counts, counts + elements};
    gal_equivalence_run_plan(&run, &base, error);
    if (!plan->gradient_reuses_parameter) {
        check_replicas(&reference->table, counts, counts + elements, error);
    }
    /* no other schedule has the same pieces on the same ranks */
    const bool interleaved = plan->schedule == GAL_SCHEDULE_INTERLEAVED;
    const bool other_schedule = all && plan->microbatch_count > 1 && !interleaved;
    const bool other_prefetch = all && gathers(plan) && !needs_prefetch(plan);
    const bool other_place = all && offloads(plan) && keeps_units(plan) && on->one_adam;
    gal_plan variant = *plan;
    if (other_schedule) {
        variant.schedule = plan->schedule == GAL_SCHEDULE_1F1B ? GAL_SCHEDULE_GPIPE : GAL_SCHEDULE_1F1B;
        run_variant(&variant, which, &base, GAL_CHECK_SCHEDULE, error);
        variant.schedule = plan->schedule;
    }
    if (other_prefetch) {
        variant.prefetch_depth = 3 - plan->prefetch_depth;
        run_variant(&variant, which, &base, GAL_CHECK_PREFETCH, error);
    }
    const bool overlapped = kinds && run_other_overlaps(plan, which, &base, error);
    const bool plain = all && run_plain(plan, which, &base, error);
    if (other_place) {
        run_on_device(plan, which, &base, error);
    }
    free(base.state);
    free(counts);
    MPI_Allreduce(MPI_IN_PLACE, error, GAL_CHECK_COUNT, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    bool failed = false;
    for (uint32_t c = 0; c < GAL_CHECK_COUNT; c++) {
        const bool tried = (c != GAL_CHECK_SCHEDULE || other_schedule) && (c != GAL_CHECK_PREFETCH || other_prefetch) &&
                           (c != GAL_CHECK_OVERLAP || overlapped) && (c != GAL_CHECK_PLAIN || plain) &&
                           (c != GAL_CHECK_OFFLOAD || other_place);
        total->plans[c] += tried;
        total->error[c] = fmax(total->error[c], error[c]);
        failed |= error[c] > 1.0;
    }
    total->failed += failed;
    total->offloaded += offloads(plan);
    total->stored += stores(plan);
}

static void print_plan(const gal_drawn *which, const gal_plan *plan, bool failed)
{
    (void)printf("%s seed %llu world %u: %s, P %u, m %u of %u samples, %s of %u chunks, prefetch %u, %s%s:",
                 failed ? "FAILED" : "plan", (unsigned long long)which->seed, which->world,
                 gal_family_names[plan->model.family], plan->stage_count, plan->microbatch_count,
                 gal_plan_microbatch_samples(plan), gal_schedule_names[plan->schedule], gal_plan_chunk_count(plan),
                 plan->prefetch_depth, plan->model.tied_embeddings ? "tied" : "untied",
                 plan->model.attention_dropout + plan->model.embedding_dropout + plan->model.residual_dropout > 0
                     ? ", dropout"
                     : "");
    for (uint32_t s = 0; s < gal_plan_piece_count(plan); s++) {
        for (uint32_t r = 0; r < plan->stage[s].run_count; r++) {
            const gal_plan_run *run = &plan->run[plan->stage[s].first_run + r];
            char name[GAL_STRATEGY_NAME_BYTES];
            (void)printf("%s %ux %s", r == 0 && s > 0 ? " |" : "", run->block_count,
                         gal_strategy_name(&run->strategy, name));
        }
    }
    (void)printf("\n");
    (void)fflush(stdout);
}

/* ---- all plans ---- */

static void share_reference(gal_reference *reference, int owner)
{
    const int elements = (int)reference->table.offset[reference->table.count];
    MPI_Bcast(reference->loss, GAL_TRIAL_STEPS, MPI_DOUBLE, owner, MPI_COMM_WORLD);
    MPI_Bcast(reference->norm, GAL_TRIAL_STEPS, MPI_DOUBLE, owner, MPI_COMM_WORLD);
    MPI_Bcast(&reference->evaluation, 1, MPI_DOUBLE, owner, MPI_COMM_WORLD);
    MPI_Bcast(reference->gradient, elements, MPI_DOUBLE, owner, MPI_COMM_WORLD);
    MPI_Bcast(reference->weight, elements, MPI_DOUBLE, owner, MPI_COMM_WORLD);
}

/* As many plans as there are ranks: each rank computes the reference of one, then all try one after the other. */
static void try_batch(const gal_drawn *which, uint32_t count, const settings *at, report *total)
{
    const uint32_t rank = gal_mpi_rank();
    gal_error err = {GAL_OK, ""};
    gal_plan *plan = calloc(2 * (size_t)count, sizeof *plan);
    gal_reference *reference = calloc(count, sizeof *reference);
    GAL_ASSERT(plan != NULL && reference != NULL);
    for (uint32_t i = 0; i < count; i++) {
        gal_drawn_plan(&which[i], &plan[i]);
        plan[i].model.hidden *= at->scale;
        plan[i].model.ffn_hidden *= at->scale;
        gal_trial_serial_plan(&plan[i], &plan[count + i]);
        gal_reference_create(&plan[count + i], &reference[i]);
        plan[i].model.compute_dtype = on->ops->dtype;
    }
    if (rank < count &&
        gal_reference_run(&plan[count + rank], which[rank].seed, learning_rate, &reference[rank], &err) != GAL_OK) {
        gal_equivalence_stop("reference", &err);
    }
    wait_for_all();
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t failed_before = total->failed;
        share_reference(&reference[i], (int)i);
        try_plan(&which[i], &plan[i], at->others, &reference[i], total);
        if (rank == 0) {
            print_plan(&which[i], &plan[i], total->failed > failed_before);
        }
        wait_for_all();
    }
    for (uint32_t i = 0; i < count; i++) {
        gal_reference_free(&reference[i]);
        gal_plan_free(&plan[i]);
        gal_plan_free(&plan[count + i]);
    }
    free(plan);
    free(reference);
}

/* A check that no plan was for is not printed. */
static bool print_report(const report *total, const gal_coverage *coverage, const settings *at)
{
    bool passed = true;
    if (at->kind != GAL_DRAW_OVERLAPS && at->kind != GAL_DRAW_GRIDS) {
        gal_coverage_print(coverage, stdout);
    }
    for (uint32_t c = 0; c < GAL_CHECK_COUNT; c++) {
        if (total->plans[c] == 0) {
            continue;
        }
        const bool good = total->error[c] <= 1.0;
        passed &= good;
        (void)printf("%s %s (%u plans; the largest error is %.2g of the allowed)\n", good ? "ok" : "not ok",
                     gal_check_names[c], total->plans[c], total->error[c]);
    }
    if (at->plans >= COVERED_PLANS && at->kind == GAL_DRAW_CELLS) {
        const bool covered = gal_coverage_short(coverage) == 0;
        const bool enough = total->offloaded >= offloaded_share * at->plans;
        passed &= covered && enough;
        (void)printf("%s offload: %u plans of %u, %u of them with moments on storage\n", enough ? "ok" : "not ok",
                     total->offloaded, at->plans, total->stored);
        (void)printf("%s coverage: every legal cell is met by %u plans\n", covered ? "ok" : "not ok",
                     coverage->wanted_plans);
    }
    if (at->kind == GAL_DRAW_OVERLAPS && total->plans[GAL_CHECK_OVERLAP] < at->plans) {
        passed = false;
        (void)printf("not ok kinds of overlap were compared of %u plans, not of %u\n", total->plans[GAL_CHECK_OVERLAP],
                     at->plans);
    }
    return passed;
}

static bool read_arguments(int argc, char **argv, settings *out)
{
    if (argc < 3 || argc > 7) {
        return false;
    }
    out->plans = (uint32_t)strtoul(argv[1], NULL, 10);
    out->seed = strtoull(argv[2], NULL, 10);
    out->world = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
    out->scale = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 1;
    out->plans = out->world > 0 ? 1 : out->plans;
    on = gal_equivalence_on(argc > 5 ? argv[5] : gal_trial_on_host.name);
    const char *what = argc > 6 ? argv[6] : "";
    const bool chosen = on == &gal_trial_on_host, overlaps = strcmp(what, "overlaps") == 0;
    const bool grids = strcmp(what, "grids") == 0;
    out->stores = grids || strcmp(what, "storage") == 0;
    out->kind = overlaps ? GAL_DRAW_OVERLAPS : grids ? GAL_DRAW_GRIDS : chosen ? GAL_DRAW_CELLS : GAL_DRAW_ANY;
    out->others = out->scale > 1 ? NOTHING : overlaps ? KINDS : chosen && out->world == 0 ? ALL_BUT_KINDS : ALL;
    return (argc < 7 || overlaps || out->stores) && on != NULL && out->plans > 0 && out->scale > 0 &&
           out->world <= gal_mpi_world_size() && (!grids || gal_mpi_world_size() >= 16);
}

/* The same on every rank; which cells they meet rank 0 alone knows. */
static gal_drawn *draw_on_rank_0(const settings *at, gal_coverage *coverage)
{
    const size_t bytes = at->plans * sizeof(gal_drawn);
    gal_drawn *drawn = gal_mpi_rank() == 0
                           ? gal_draw_plans(at->plans, at->seed, gal_mpi_world_size(), at->kind, at->stores, coverage)
                           : malloc(bytes);
    GAL_ASSERT(drawn != NULL);
    MPI_Bcast(drawn, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    return drawn;
}

static bool run(const settings *at)
{
    gal_coverage coverage = {at->plans >= COVERED_PLANS ? COVERED_BY : 1, {0}};
    report total = {{0.0}, {0}, 0, 0, 0};
    const uint32_t launched = gal_mpi_world_size();
    const gal_drawn one = {at->seed, at->world, at->stores};
    gal_drawn *drawn = at->world > 0 ? NULL : draw_on_rank_0(at, &coverage);
    const gal_drawn *which = at->world > 0 ? &one : drawn;
    int passed = 0;
    if (gal_mpi_rank() == 0) {
        (void)printf("seed %llu, %u plans, %u ranks\n", (unsigned long long)at->seed, at->plans, launched);
    }
    for (uint32_t i = 0; i < at->plans; i += launched) {
        try_batch(which + i, at->plans - i < launched ? at->plans - i : launched, at, &total);
    }
    if (gal_mpi_rank() == 0) {
        passed = print_report(&total, &coverage, at);
    }
    MPI_Bcast(&passed, 1, MPI_INT, 0, MPI_COMM_WORLD);
    free(drawn);
    return passed != 0;
}

int main(int argc, char **argv)
{
    gal_error err = {GAL_OK, ""};
    settings at;
    if (gal_mpi_init(&argc, &argv, &err) != GAL_OK) {
        (void)fprintf(stderr, "equivalence: %s\n", err.text);
        return 5;
    }
    const bool understood = read_arguments(argc, argv, &at);
    if (!understood) {
        (void)fprintf(
            stderr,
            "equivalence PLANS SEED [WORLD [SCALE [ON [overlaps|storage|grids]]]], WORLD at most the ranks launched\n");
    }
    const bool passed = understood && run(&at);
    gal_mpi_finalize();
    return passed ? 0 : (understood ? 1 : 2);
}
