/* One run of a plan of the equivalence test on all ranks of the launch, and what of it is compared with one rank. */
#ifndef GAL_TESTS_NUMERICS_EQUIVALENCE_RUN_H
#define GAL_TESTS_NUMERICS_EQUIVALENCE_RUN_H

#include "tests/support/numerics_trial.h"

/* X(enumerator, name): what is checked, as an error in units of the allowed one. */
#define GAL_EQUIVALENCE_CHECKS(X)                                                                                      \
    X(GAL_CHECK_VERIFY, "verify accepts the plan's programs")                                                          \
    X(GAL_CHECK_LOSS, "losses of 5 steps")                                                                             \
    X(GAL_CHECK_NORM, "gradient norms of 5 steps")                                                                     \
    X(GAL_CHECK_GRADIENT, "every gradient after step 1, on every replica")                                             \
    X(GAL_CHECK_REPLICAS, "each gradient element is held by as many ranks as planned")                                 \
    X(GAL_CHECK_WEIGHT, "weights after 5 steps, on every replica")                                                     \
    X(GAL_CHECK_EVALUATION, "evaluation loss")                                                                         \
    X(GAL_CHECK_SCHEDULE, "1F1B and GPipe or zero bubble, bit for bit")                                                \
    X(GAL_CHECK_PREFETCH, "prefetch on and off, bit for bit")                                                          \
    X(GAL_CHECK_OVERLAP, "in-pass, cross-pass and fine overlap, with delays in streams, bit for bit")                  \
    X(GAL_CHECK_PLAIN, "any overlap and none, losses and norms within 1e-12")                                          \
    X(GAL_CHECK_OFFLOAD, "offloaded to the host and all on the device, bit for bit")                                   \
    X(GAL_CHECK_BYTES, "highest byte written is the plan's, in every item")                                            \
    X(GAL_CHECK_RESIDENT, "resident growth after step 1, at most 1 % or 256 KiB")

enum {
#define X(enumerator, name) enumerator,
    GAL_EQUIVALENCE_CHECKS(X)
#undef X
        GAL_CHECK_COUNT
};
extern const char *const gal_check_names[GAL_CHECK_COUNT];

/* What must be equal to the bit between runs of one plan under other schedules: losses, norms, and of each unit weights
 * and moments as they lie on this rank. */
typedef struct gal_outcome {
    double loss[GAL_TRIAL_STEPS], norm[GAL_TRIAL_STEPS], evaluation;
    unsigned char *state; /* owned; NULL on ranks that the plan does not need */
    size_t state_bytes;
} gal_outcome;

bool gal_outcome_equal(const gal_outcome *a, const gal_outcome *b);

/* What is run, all of it borrowed. */
typedef struct gal_equivalence_run {
    const gal_trial_on *on;
    const gal_plan *plan;
    uint64_t seed;
    double learning_rate;
    const gal_reference *reference; /* of one rank, to compare with; NULL: nothing is */
    /* [elements of the reference], zeroed before: how many ranks hold each element of the gradients, of which this one
     * adds what it has itself, and how many should, of what it knows. Without a reference NULL. */
    uint32_t *held, *planned;
} gal_equivalence_run;

/* Trains GAL_TRIAL_STEPS steps and evaluates one batch; collective. The last rank verifies the plan's programs. What
 * fails ends the launch.
 * out    state is the caller's to free
 * error  of each check the largest so far, in units of the allowed one */
void gal_equivalence_run_plan(const gal_equivalence_run *run, gal_outcome *out, double error[GAL_CHECK_COUNT]);

/* The larger of both errors; the first refusal of each check of a plan is told by every rank that finds one. */
void gal_check_note(double *error, double found, const char *text);

/* Tells what is wrong and ends the launch. */
void gal_equivalence_stop(const char *what, const gal_error *err);

#endif
