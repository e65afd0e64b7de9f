/* MPI calls of a training step, by mode: what libpmpi_count.so must have counted (tests/support/step_counts.h).
 *
 *     mpirun -np N collectives           runs a step of every mode of N ranks; the counting layer's phase is its name
 *     collectives expect N RANK          prints what rank RANK of those N does in it, as the counting layer does
 *
 * No communicator is made in a step. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/plan_check.h"
#include "tests/support/numerics_trial.h"
#include "tests/support/step_counts.h"

static void name_phase(const char *name)
{
    void (*phase)(const char *);
    void *symbol = dlsym(RTLD_DEFAULT, "pmpi_count_phase");
    memcpy(&phase, &symbol, sizeof phase);
    if (phase != NULL) {
        phase(name);
    }
}

/* The second step is counted: nothing is special about the first. */
static gal_code run_mode(uint32_t index, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_step_plan storage;
    gal_trial trial;
    gal_step_result result;
    memset(&trial, 0, sizeof trial);
    gal_step_mode_plan(index, &storage);
    GAL_TRY(gal_plan_check(&storage.plan, gal_step_mode_name(index), err));
    GAL_TRY(gal_trial_create(&storage.plan, 1, NULL, &trial, err));
    for (uint64_t step = 0; step < 2; step++) {
        const gal_step_settings settings = {step, 1, 1e-3};
        name_phase(step == 0 ? "other" : gal_step_mode_name(index));
        GAL_TRY(gal_engine_step(trial.engine, &settings, &result, err));
    }
cleanup:
    name_phase("other");
    gal_trial_free(&trial);
    return code;
}

static const char *function_of(gal_op op)
{
    switch (op) {
    case GAL_OP_ALL_REDUCE:
        return "MPI_Iallreduce";
    case GAL_OP_REDUCE_SCATTER:
        return "MPI_Ireduce_scatter_block";
    case GAL_OP_ALL_GATHER:
        return "MPI_Iallgather";
    case GAL_OP_ALL_TO_ALL:
        return "MPI_Ialltoall";
    case GAL_OP_BROADCAST:
        return "MPI_Ibcast";
    case GAL_OP_REDUCE:
        return "MPI_Ireduce";
    case GAL_OP_SEND:
        return "MPI_Isend";
    default:
        return "MPI_Irecv";
    }
}

static void print_row(uint32_t index, gal_op op, uint32_t group, const gal_step_tally *row)
{
    (void)printf("%s %s %u %llu %llu %llu\n", gal_step_mode_name(index), function_of(op), group,
                 (unsigned long long)row->calls, (unsigned long long)row->in_place,
                 (unsigned long long)row->elements * GAL_STEP_ITEM_BYTES);
}

/* A rotation is a send to one neighbour and a receive from the other, a trade a send to the mirror and a receive from
 * it: of two ranks each. */
static void print_expected(uint32_t index, uint32_t rank)
{
    gal_step_counts e;
    gal_step_tally passed = {.op = GAL_OP_SEND, .group = 2};
    gal_step_mode_expect(index, rank, &e);
    for (uint32_t i = 0; i < e.count; i++) {
        const gal_step_tally *row = &e.row[i];
        if (row->op == GAL_OP_ROTATE || row->op == GAL_OP_MIRROR) {
            passed.calls += row->calls;
            passed.elements += row->elements;
        } else {
            print_row(index, row->op, row->group, row);
        }
    }
    if (passed.calls > 0) {
        print_row(index, GAL_OP_SEND, 2, &passed);
        print_row(index, GAL_OP_RECEIVE, 2, &passed);
    }
}

int main(int argc, char **argv)
{
    gal_error err = {GAL_OK, ""};
    if (argc == 4 && strcmp(argv[1], "expect") == 0) {
        for (uint32_t i = 0; i < gal_step_mode_count(); i++) {
            if (gal_step_mode_ranks(i) == strtoul(argv[2], NULL, 10)) {
                print_expected(i, (uint32_t)strtoul(argv[3], NULL, 10));
            }
        }
        return 0;
    }
    gal_code code = gal_mpi_init(&argc, &argv, &err);
    for (uint32_t i = 0; code == GAL_OK && i < gal_step_mode_count(); i++) {
        code = gal_step_mode_ranks(i) == gal_mpi_world_size() ? run_mode(i, &err) : GAL_OK;
    }
    if (code != GAL_OK) {
        (void)fprintf(stderr, "collectives: %s\n", err.text);
        return (int)code;
    }
    gal_mpi_finalize();
    return 0;
}
