/* Random documents that their readers take: every field is drawn, most over all that is legal, and names hold any
 * characters. They need not make sense. Same state and compiler, same document. */
#ifndef GAL_TESTS_SUPPORT_RANDOM_DOCUMENTS_H
#define GAL_TESTS_SUPPORT_RANDOM_DOCUMENTS_H

#include "schemas/plan.h"
#include "schemas/problem.h"
#include "schemas/profile.h"

/* Of a family that reads tokens. */
gal_model gal_random_model(uint64_t *seed);
/* Of a random one of GPT-2's kind one that looks at images. */
void gal_random_turn_to_vit(uint64_t *seed, gal_model *m);
void gal_random_turn_to_swin(uint64_t *seed, gal_model *m);
gal_cluster gal_random_cluster(uint64_t *seed);
gal_profile gal_random_profile(uint64_t *seed);    /* the caller frees it with gal_profile_free */
gal_plan gal_random_plan_document(uint64_t *seed); /* likewise; passes gal_plan_check, has no programs to go with it */
gal_problem gal_random_problem_document(uint64_t *seed); /* likewise */

/* Any double of [min, max] whose bits are all random, or a whole one now and then; min > 0. */
double gal_random_real(uint64_t *seed, double min, double max);
double gal_random_real_or_zero(uint64_t *seed, double max);
/* 1 to 2^53, as likely with any number of digits. */
uint64_t gal_random_bytes(uint64_t *seed);

#endif
