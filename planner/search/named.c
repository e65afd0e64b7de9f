#include "planner/search/named.h"

#include "planner/layered/layered_search.h"
#include "planner/search/chunk_search.h"

#define X(enumerator, name, function) [enumerator] = name,
const char *const gal_algorithm_names[GAL_ALGORITHM_COUNT] = {GAL_ALGORITHMS(X)};
#undef X
#define X(enumerator, name, function) [enumerator] = {name, function},
const gal_algorithm gal_algorithms[GAL_ALGORITHM_COUNT] = {GAL_ALGORITHMS(X)};
#undef X

gal_code gal_algorithm_exact(const gal_search_request *request, const gal_solver_limits *limits,
                             gal_algorithm_answer *out, gal_error *err)
{
    (void)limits; /* its own are in the request */
    *out = (gal_algorithm_answer){0};
    const gal_code code = request->planner == GAL_PLANNER_LAYERS ? gal_layered_search(request, &out->search, err)
                                                                 : gal_chunk_search(request, &out->search, err);
    if (code == GAL_OK && out->search.feasible) {
        out->opinion.seconds = out->search.finalist[0].objective_seconds;
    }
    return code;
}

void gal_algorithm_answer_free(gal_algorithm_answer *answer)
{
    gal_search_result_free(&answer->search);
    *answer = (gal_algorithm_answer){0};
}
