/* Wrong programs made from right ones, for tests of the verifier. */
#ifndef GAL_TESTS_SUPPORT_MUTATE_H
#define GAL_TESTS_SUPPORT_MUTATE_H

#include "runtime/program/program.h"

/* A copy to be changed and freed with gal_program_free; NULL without memory. */
gal_program *gal_program_clone(const gal_program *program);

typedef struct gal_mutation gal_mutation;

/* NULL behind the last. */
const gal_mutation *gal_mutation_at(uint32_t index);
const char *gal_mutation_name(const gal_mutation *mutation);
/* Changes the programs of all stages in place, at a place chosen by *random. False if there is none. */
bool gal_mutation_apply(const gal_mutation *mutation, gal_program *const *programs, uint32_t stage_count,
                        uint64_t *random);

#endif
