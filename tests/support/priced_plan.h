/* Random plans whose prices are held against the event simulation. For tests; each ends the test where it cannot. */
#ifndef GAL_TESTS_SUPPORT_PRICED_PLAN_H
#define GAL_TESTS_SUPPORT_PRICED_PLAN_H

#include "runtime/program/program.h"
#include "schemas/plan.h"
#include "schemas/profile.h"

/* Model, cluster and sizes of a plan without stages. Prices assume that a stage's round repeats: a layer or more per
 * stage, and more microbatches than the shortest. */
void gal_priced_describe(uint64_t *state, gal_plan *plan);
/* The same sizes in the family; of vit with a sequence of its own. */
void gal_priced_turn_to(gal_family family, gal_model *model);
/* A legal strategy; ZeRO-2 and 3 only if asked for. */
gal_strategy gal_priced_draw(uint64_t *state, const gal_plan *plan, bool sharded);
/* Even stages; homogeneous, or another strategy every few blocks. A run for each block. */
void gal_priced_fill(uint64_t *state, gal_plan *plan, bool mixed, bool sharded);
bool gal_priced_holds_table(const gal_model *model, uint32_t block);

/* [stage], for gal_priced_free. */
gal_program **gal_priced_lower(const gal_plan *plan);
void gal_priced_free(gal_program **programs, uint32_t count);
/* Objective / simulated - 1, by the durations of a profile; simulated_seconds may be NULL. */
double gal_priced_error(const gal_plan *plan, const gal_profile *profile, double *simulated_seconds);

/* Sizes of errors. */
enum { GAL_PRICED_ERRORS_MAX = 1200 };
typedef struct gal_priced_errors {
    double of[GAL_PRICED_ERRORS_MAX], worst;
    uint32_t count;
} gal_priced_errors;
void gal_priced_add(gal_priced_errors *errors, double error);
/* Prints them, and fails where their median or the largest is beyond its bound. Sorts. */
void gal_priced_check(const char *name, gal_priced_errors *errors, double median_bound, double worst_bound);

#endif
