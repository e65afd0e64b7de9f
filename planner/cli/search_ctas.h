/* galplan search --communication-ctas: how many thread blocks of a GPU a collective takes. */
#ifndef GAL_PLANNER_CLI_SEARCH_CTAS_H
#define GAL_PLANNER_CLI_SEARCH_CTAS_H

#include <stdio.h>

#include "planner/search/named.h"
#include "schemas/base/json.h"
#include "schemas/profile.h"

enum { GAL_CTAS_TRIED_MAX = GAL_PROFILE_CTAS_MAX + 1 };

typedef struct gal_ctas_tried {
    uint32_t ctas;             /* 0: the library's choice */
    double samples_per_second; /* of the best plan, as simulated; 0: none fits */
} gal_ctas_tried;

typedef struct gal_ctas {
    bool is_auto;
    uint32_t ctas; /* 0: the library's choice; with is_auto of the plan found */
    uint32_t tried_count;
    gal_ctas_tried tried[GAL_CTAS_TRIED_MAX]; /* with is_auto */
} gal_ctas;

/* "auto" or a number; NULL: the library's choice. GAL_ERR_USAGE. */
gal_code gal_ctas_parse(const char *text, gal_ctas *out, gal_error *err);

/* Runs the algorithm for the library's choice and for each count of the profile, and keeps the answer whose plan has
 * the most samples per second; of equals the first. *durations, in the end of the count that is kept, are the caller's
 * to free, and request->durations is set to them. GAL_ERR_USAGE if the profile does not say how long collectives take
 * by so many alone: kernels would always want as few as can be. Else as gal_algorithm.search. */
gal_code gal_ctas_search(const gal_profile *profile, const gal_algorithm *algorithm, gal_search_request *request,
                         const gal_solver_limits *limits, gal_ctas *ctas, gal_durations **durations,
                         gal_algorithm_answer *out, gal_error *err);

/* Plans are made with the count they were priced with. */
void gal_ctas_mark(const gal_ctas *ctas, gal_search_result *result);

/* Lines below a plan, members of an object; nothing where the option was not given. priced: the profile has counts. */
void gal_ctas_print(FILE *out, const gal_ctas *ctas, bool priced);
void gal_ctas_put(gal_json_writer *out, const gal_ctas *ctas);

#endif
