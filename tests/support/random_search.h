/* Random searches over small models of every family, for property tests. Same seed, same search. */
#ifndef GAL_TESTS_SUPPORT_RANDOM_SEARCH_H
#define GAL_TESTS_SUPPORT_RANDOM_SEARCH_H

#include "planner/search/joint_search.h"
#include "schemas/profile.h"

typedef struct gal_random_search {
    gal_model model;
    gal_profile profile; /* analytic; its cluster has much memory */
    gal_durations *durations;
    gal_search_request request; /* points to model and durations: a copy of the whole would point here */
} gal_random_search;

/* 1 to 8 devices, in one node or in nodes of 2 or 4; rates and links over three to four decades; any space that leaves
 * every device count a plan; GPipe or 1F1B; up to 4 microbatches; gap 0. slows: whether activities slow each other, as
 * they do by default. Ends the test where anything fails. */
void gal_random_search_create(uint64_t seed, bool slows, gal_random_search *out);
/* Durations anew, of a profile that was changed. */
void gal_random_search_renew(gal_random_search *search);
void gal_random_search_free(gal_random_search *search);

/* Under a limit of memory per device (0: the cluster's), whether anything fits or not. */
void gal_random_search_run(const gal_random_search *search, uint64_t memory_bytes, gal_search_result *out);

/* Of a plan that was found: it is legal, its programs verify, and they take the bytes that it says. */
void gal_random_search_check_plan(const gal_plan *plan);

/* The least objective seconds per sample of any plan that was found; infinity: none was. */
double gal_random_search_objective(const gal_search_result *result);
/* Samples per second of the plan that is returned; 0: none was. */
double gal_random_search_rate(const gal_search_result *result);

#endif
