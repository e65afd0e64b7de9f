/* What galplan search is asked: its command line, and what goes with what. */
#ifndef GAL_PLANNER_CLI_SEARCH_OPTIONS_H
#define GAL_PLANNER_CLI_SEARCH_OPTIONS_H

#include "planner/cli/search_ctas.h"
#include "planner/cli/search_prices.h"
#include "planner/search/named.h"
#include "schemas/model_choice.h"

typedef enum gal_rank { GAL_RANK_OBJECTIVE, GAL_RANK_SIMULATION, GAL_RANK_COUNT } gal_rank;

typedef struct gal_search_options {
    const char *model, *profile, *cluster, *batch, *microbatches, *space, *schedule, *output, *communication_ctas;
    const char *prices_text, *constants, *tokens_text;
    gal_model_options arithmetic;
    double tokens; /* of tokens_text; 0: not given */
    uint64_t memory_bytes, host_memory_bytes, storage_bytes, pareto_step_bytes;
    gal_u32_list pp_degrees, takeaways;
    uint32_t devices, thread_count, job_count, prefetch_depth, top, label_limit;
    uint32_t algorithm; /* GAL_ALGORITHM_COUNT: not given, the first */
    gal_search_prices prices;
    gal_pricing pricing; /* with a framework's prices */
    uint32_t rank;       /* gal_rank */
    uint32_t planner;    /* gal_planner */
    double risk;         /* quantile; 0: not given */
    double time_limit_seconds;
    double gap_percent; /* below 0: not given */
    bool compare, pareto, json, counts, timing, quiet, storage_masters, storage_parameters;
    gal_ctas ctas; /* of communication_ctas */
} gal_search_options;

/* false: *exit_code is to be returned (--help, or an error that was told). Texts are those of argv. */
bool gal_search_options_parse(int argc, char **argv, gal_search_options *out, int *exit_code);
/* What the options that stand alone say of the request: batches, microbatches, space, takeaways, schedule. Fills in
 * prices, pricing and ctas. GAL_ERR_USAGE if options do not go together; else as the readers of --prices' documents. */
gal_code gal_search_options_rules(gal_search_options *o, gal_search_request *request, gal_error *err);
/* The share by which a plan may miss the best: none where plans are compared or listed. */
double gal_search_options_gap(const gal_search_options *o);

#endif
