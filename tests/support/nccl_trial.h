/* A step of a plan's collectives by all its ranks, issued to the NCCL communicator in the order of the programs' lists,
 * against the recording double (nccl_double.h). */
#ifndef GAL_TESTS_NCCL_TRIAL_H
#define GAL_TESTS_NCCL_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/program/program.h"
#include "tests/support/thread_world.h"

enum { GAL_TRIAL_STAGES_MAX = 8, GAL_TRIAL_RANKS_MAX = 8, GAL_TRIAL_CTAS = 12 };

typedef struct gal_nccl_trial {
    const gal_plan *plan; /* borrowed */
    gal_program *program[GAL_TRIAL_STAGES_MAX];
    gal_thread_world *world;
    uint32_t ranks;
    uint32_t begin[GAL_TRIAL_RANKS_MAX], end[GAL_TRIAL_RANKS_MAX]; /* of the step, among the rank's calls */
    uint32_t communicators[GAL_TRIAL_RANKS_MAX], open_groups[GAL_TRIAL_RANKS_MAX];
    uint32_t channels[GAL_TRIAL_RANKS_MAX]; /* those of the same members and stream are one */
    gal_code code[GAL_TRIAL_RANKS_MAX];
    gal_error err[GAL_TRIAL_RANKS_MAX];
} gal_nccl_trial;

/* Resets the double, and fails the test if a rank fails. windows: the library has them. */
void gal_nccl_trial_run(const gal_plan *plan, bool windows, gal_nccl_trial *out);
void gal_nccl_trial_end(gal_nccl_trial *trial);

/* Where a rank's arena is said to be: it is never read or written. */
char *gal_nccl_trial_arena(uint32_t rank);

#endif
