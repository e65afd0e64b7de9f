/* Layouts by exact numbers: a step of every mode of tests/support/step_counts.h gives just the numbers of one rank as
 * gradients; run by test_exact_layouts.sh.
 *
 *     mpirun -np N exact_layouts      the modes of N ranks
 *
 * Weights are rounded to multiples of 1/64, and so is, to multiples of its own, what every kernel writes that is not a
 * sum of products: then no sum of a step is rounded (53 bits hold an activation's 2^-10 times a gradient's 2^-36, some
 * tens of rows), and in whatever order and on whatever devices it is added up, it is the same number. A row, a part or
 * a term in the wrong place is another one. Only what attends in steps round a ring, whose terms are rescaled, and the
 * gains of norms, whose terms are rounded nowhere, are left to the comparison within 1e-10 (equivalence.c). */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/plan_check.h"
#include "tests/support/numerics_trial.h"
#include "tests/support/step_counts.h"

#define WEIGHT_GRAIN 0x1p-6
#define FORWARD_GRAIN 0x1p-10
#define BACKWARD_GRAIN 0x1p-36

static void round_to(double grain, uint64_t count, double *value)
{
    for (uint64_t i = 0; i < count; i++) {
        value[i] = rint(value[i] / grain) * grain;
    }
}

/* The host's kernel, then its output `operand` of so many elements rounded. */
static gal_code run_rounded(gal_op op, const gal_kernel_call *call, uint32_t operand, uint64_t count, double grain,
                            gal_error *err)
{
    const gal_code code = gal_ops_host_fp64.kernel[op](call, err);
    if (code == GAL_OK) {
        round_to(grain, count, call->operand[operand]);
    }
    return code;
}

static uint64_t product(const uint32_t *dims, uint32_t count)
{
    uint64_t elements = 1;
    for (uint32_t i = 0; i < count; i++) {
        elements *= dims[i];
    }
    return elements;
}

/* X(kernel, kind, operand that is rounded, its elements, grain): schemas/operator.h. */
#define ROUNDED(X)                                                                                                     \
    X(norm, GAL_OP_LAYER_NORM, 3, product(call->dims, 2), FORWARD_GRAIN)                                               \
    X(norm_by_sums, GAL_OP_NORM_BY_SUMS, 3, product(call->dims, 2), FORWARD_GRAIN)                                     \
    X(attention, GAL_OP_ATTENTION, 1, product(call->dims, 4), FORWARD_GRAIN)                                           \
    X(activation, GAL_OP_ACTIVATION, 1, product(call->dims, 1), FORWARD_GRAIN)                                         \
    X(norm_backward, GAL_OP_LAYER_NORM_BACKWARD, 4, product(call->dims, 2), BACKWARD_GRAIN)                            \
    X(norm_by_sums_backward, GAL_OP_NORM_BY_SUMS_BACKWARD, 5, product(call->dims, 2), BACKWARD_GRAIN)                  \
    X(attention_backward, GAL_OP_ATTENTION_BACKWARD, 4,                                                                \
      product(call->dims, 2) * (call->dims[2] + 2 * call->dims[4]) * call->dims[3], BACKWARD_GRAIN)                    \
    X(activation_backward, GAL_OP_ACTIVATION_BACKWARD, 2, product(call->dims, 1), BACKWARD_GRAIN)                      \
    X(loss_backward, GAL_OP_CROSS_ENTROPY_BACKWARD, 0, product(call->dims, 3), BACKWARD_GRAIN)

#define X(name, kind, operand, count, grain)                                                                           \
    static gal_code rounded_##name(const gal_kernel_call *call, gal_error *err)                                        \
    {                                                                                                                  \
        return run_rounded(kind, call, operand, count, grain, err);                                                    \
    }
ROUNDED(X)
#undef X

static gal_ops exact_ops(void)
{
    gal_ops ops = gal_ops_host_fp64;
#define X(name, kind, operand, count, grain) ops.kernel[kind] = rounded_##name;
    ROUNDED(X)
#undef X
    return ops;
}

static void round_weights(const gal_trial *trial)
{
    const gal_program *p = trial->program;
    char *base = gal_engine_memory(trial->engine)->base;
    for (uint32_t u = 0; u < p->unit_count; u++) {
        const gal_buffer *weight = &p->buffer[p->unit[u].weight];
        round_to(WEIGHT_GRAIN, weight->bytes / sizeof(double),
                 (double *)(void *)(base + p->arena[weight->arena].offset + weight->offset));
    }
}

static void must(gal_code code, const gal_error *err)
{
    if (code != GAL_OK) {
        (void)fprintf(stderr, "exact_layouts: %s\n", err->text);
        exit((int)code);
    }
}

/* What this rank holds of the gradients of a step of the plan, at its place in gradient; other places are left. */
static void step_of(const gal_trial_on *on, const gal_plan *plan, gal_tensor_table *table, double **gradient)
{
    gal_error err = {GAL_OK, ""};
    gal_trial trial = {0};
    gal_step_result result;
    const gal_step_settings settings = {0, 1, 1e-3};
    must(gal_trial_create_on(on, plan, 1, NULL, &trial, &err), &err);
    round_weights(&trial);
    must(gal_engine_step(trial.engine, &settings, &result, &err), &err);
    if (*gradient == NULL) {
        gal_tensor_table_of(trial.program, table);
        *gradient = malloc(table->offset[table->count] * sizeof **gradient);
        GAL_ASSERT(*gradient != NULL);
        memset(*gradient, 0xFF, table->offset[table->count] * sizeof **gradient); /* not numbers */
    }
    gal_trial_read(&trial, GAL_STATE_GRADIENT, table, *gradient);
    gal_trial_free(&trial);
}

static bool is_gain(const char *name)
{
    return strstr(name, "ln_") != NULL && strstr(name, ".weight") != NULL;
}

/* Elements of this rank that differ from one rank's, and the first of them; *met: how many it holds. */
static uint64_t count_differences(const gal_tensor_table *table, const double *one, const double *own, uint64_t *met,
                                  const char **first)
{
    uint64_t differ = 0;
    *met = 0;
    for (uint32_t t = 0; t < table->count; t++) {
        for (uint64_t i = table->offset[t]; i < table->offset[t + 1] && !is_gain(table->name[t]); i++) {
            const bool holds = !isnan(own[i]);
            *met += holds;
            if (holds && own[i] != one[i]) {
                *first = differ == 0 ? table->name[t] : *first;
                differ++;
            }
        }
    }
    return differ;
}

static bool attends_at_once(const gal_plan *plan)
{
    for (uint32_t r = 0; r < plan->run_count; r++) {
        if (gal_strategy_ring_degree(&plan->run[r].strategy) > 1) {
            return false;
        }
    }
    return plan->model.family == GAL_FAMILY_DECODER;
}

/* Whether all ranks have one rank's numbers, and together all of them. */
static bool check_mode(const gal_trial_on *on, uint32_t index, uint32_t rank)
{
    gal_step_plan storage;
    gal_plan serial;
    gal_tensor_table table;
    double *one = NULL, *own = NULL;
    const char *first = "";
    uint64_t met = 0;
    gal_step_mode_plan(index, &storage);
    if (!attends_at_once(&storage.plan)) {
        return true;
    }
    gal_trial_serial_plan(&storage.plan, &serial);
    step_of(on, &serial, &table, &one);
    own = malloc(table.offset[table.count] * sizeof *own);
    GAL_ASSERT(own != NULL);
    memset(own, 0xFF, table.offset[table.count] * sizeof *own);
    step_of(on, &storage.plan, &table, &own);
    uint64_t found[2] = {count_differences(&table, one, own, &met, &first), 0}, all[2];
    found[1] = met;
    if (found[0] > 0) {
        (void)fprintf(stderr, "%s, rank %u: %llu of %llu elements differ, the first of %s\n", gal_step_mode_name(index),
                      rank, (unsigned long long)found[0], (unsigned long long)met, first);
    }
    (void)MPI_Allreduce(found, all, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        (void)printf("%s %s: %llu elements of gradients on all ranks, %llu not one rank's numbers\n",
                     all[0] == 0 && all[1] > 0 ? "ok" : "not ok", gal_step_mode_name(index), (unsigned long long)all[1],
                     (unsigned long long)all[0]);
    }
    free(one);
    free(own);
    gal_plan_free(&serial);
    return all[0] == 0 && all[1] > 0;
}

int main(int argc, char **argv)
{
    gal_error err = {GAL_OK, ""};
    const gal_ops ops = exact_ops();
    gal_trial_on on = gal_trial_on_host;
    bool fine = true;
    on.ops = &ops;
    must(gal_mpi_init(&argc, &argv, &err), &err);
    for (uint32_t i = 0; i < gal_step_mode_count(); i++) {
        if (gal_step_mode_ranks(i) == gal_mpi_world_size()) {
            fine = check_mode(&on, i, gal_mpi_rank()) && fine;
        }
    }
    gal_mpi_finalize();
    return fine ? 0 : 1;
}
