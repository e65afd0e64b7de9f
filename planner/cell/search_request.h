/* What a search is asked and what it answers. */
#ifndef GAL_PLANNER_CELL_SEARCH_REQUEST_H
#define GAL_PLANNER_CELL_SEARCH_REQUEST_H

#include "costmodel/prediction.h"
#include "planner/cell/cell.h"
#include "schemas/base/options.h"

typedef struct gal_cell_numbers {
    uint32_t global_batch_samples, microbatch_count, pp_degree;
} gal_cell_numbers;

/* How far a search is. */
typedef struct gal_search_progress {
    uint32_t cell_count, closed_cell_count; /* of all; solved, or unable to win */
    double samples_per_second;              /* of the best plan; 0: none yet */
    uint64_t work, work_limit; /* on the cell at hand: no box is begun at the limit; 0 of 0: being priced */
} gal_search_progress;

enum { GAL_SEARCH_THREADS_MAX = 16 };

/* Who carries out `exact`: planner/search on blocks, or planner/layered on whole layers, which is being built. */
typedef enum gal_planner { GAL_PLANNER_BLOCKS, GAL_PLANNER_LAYERS, GAL_PLANNER_COUNT } gal_planner;

typedef struct gal_search_request {
    const gal_model *model;
    const gal_durations *durations; /* its cluster says how many devices and how much memory */
    gal_price_cache *cache;         /* of the model and the durations, kept over searches; NULL: one of its own */
    const char *profile_hash;       /* "" without a profile */
    uint64_t memory_bytes;          /* per device; 0: the cluster's */
    uint64_t storage_bytes;         /* likewise of its storage; 0 there too: nothing goes there */
    bool storage_masters;           /* of 16 bits may go there too, with their moments */
    bool storage_parameters;        /* weights may, with theirs */
    uint64_t host_memory_bytes;     /* likewise of its host; gal_search alone reads it of uniform plans, 0: none, and
                                     * with it storage_bytes (planner/search/host_limit.h) */
    gal_u32_list batches;           /* empty: the model's own */
    gal_u32_list microbatch_counts; /* empty: powers of two that divide the batch */
    gal_u32_list pp_degrees;        /* empty: all divisors of the device count */
    gal_space space;
    gal_schedule schedule;
    gal_planner planner;
    bool is_short;          /* the fastest plans are known to have no room on the devices: offload is not left out first
                             * (planner/search/joint_parts.c), which changes the time alone */
    const gal_plan *moving; /* NULL, or of the space this plan's strategies alone, but for what they offload */
    uint32_t chunk_count; /* with the interleaved schedule; there and with zero bubble plans are uniform (uniform.h) */
    uint32_t prefetch_depth;
    uint32_t thread_count;    /* of a search of many strategies; 0: as many as there are cores. The answer does not
                               * depend on it */
    uint32_t few_devices;     /* clusters of more begin with their simplest strategies, which changes the time alone; 0:
                               * as many as it pays for */
    uint32_t label_limit;     /* at one block */
    double gap;               /* a plan is good enough if none is faster by more than this share */
    uint32_t finalist_count;  /* cells that are wanted solved, the best ones; 0: as 1 */
    bool ranks_by_simulation; /* the finalists; else by objective */
    void (*tell)(void *context,
                 const gal_search_progress *now); /* called often, by the thread of gal_search; or NULL */
    void *tell_context;
} gal_search_request;

/* Whether the schedule has all blocks under one strategy (planner/cell/uniform.h): cells are solved at once. */
bool gal_search_is_uniform(const gal_search_request *request);

/* One cell's winner. */
typedef struct gal_finalist {
    uint32_t global_batch_samples, microbatch_count, pp_degree;
    gal_plan plan; /* owned; with predicted bytes and seconds */
    double objective_seconds, simulated_seconds;
    double bound_seconds;    /* no chain of the cell is faster; where plans are uniform: no such plan */
    uint64_t peak_bytes;     /* of its largest stage, fixed bytes included */
    gal_prediction interval; /* of what the plan predicts; zeroed until gal_finalists_interval */
} gal_finalist;

typedef struct gal_search_result {
    bool feasible;
    uint32_t finalist_count;
    gal_finalist *finalist;     /* owned; best first */
    double lower_bound_seconds; /* over the cells of the winner's batch */
    uint64_t label_count;
    uint32_t cell_count;        /* whose numbers divide */
    uint32_t solved_cell_count; /* of them: in which a chain was looked for */
    uint32_t
        too_large_cell_count; /* of them: left out, a tensor is too large whatever the strategy (gal_is_too_large) */
    uint32_t unproven_cell_count; /* of them: one that is faster than the best plan is not ruled out */
    /* Where nothing fits (planner/least/least.h): the least memory of a device for which a plan exists, of a named
     * algorithm the smallest that it met; 0: no plan is legal at all. No less than the bound will do. */
    uint64_t least_bytes, least_bound_bytes;
    gal_cell_numbers least_numbers;
    uint64_t beyond_host_bytes; /* of the fastest plan that fits the devices, where none was found that the limits of
                                 * host and storage allow (planner/search/host_limit.h); else 0 */
    char refusal[GAL_ERROR_TEXT_BYTES]; /* why a cell was left out, if none could be solved */
} gal_search_result;

void gal_search_result_free(gal_search_result *result);
/* Samples per second by its objective. */
double gal_finalist_rate(const gal_finalist *finalist);

#endif
