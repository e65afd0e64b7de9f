/* One cell of the search for Hetu-Galvatron's plans: batch, microbatches, stages, buffer and the strategy of embedding
 * and head are given; what is left are the strategies of the layers. For planner/galvatron_*.c alone. */
#ifndef GAL_PLANNER_GALVATRON_GALVATRON_CELL_H
#define GAL_PLANNER_GALVATRON_GALVATRON_CELL_H

#include "planner/galvatron/galvatron_search.h"

enum { GAL_GALVATRON_STRATEGIES_MAX = 256 };

typedef struct gal_galvatron_cell {
    gal_galvatron_job job;
    uint32_t buffer_degree; /* 0: no layer is split by tensors, and there is no buffer */
    gal_galvatron_strategy outside;
    uint32_t number;         /* in the order in which cells are listed: breaks ties */
    double per_sample_bound; /* seconds of a step over its samples: no plan of the cell is faster */
} gal_galvatron_cell;

/* A cell with its prices made. */
typedef struct gal_galvatron_case {
    const gal_galvatron_profile *profile;
    const gal_galvatron_cell *cell;
    uint32_t strategy_count, layer_count;
    gal_galvatron_strategy strategy[GAL_GALVATRON_STRATEGIES_MAX];
    gal_galvatron_seconds *seconds; /* (layer_type, strategy) */
    uint32_t *stage_first;          /* (stage), and the end: first layer */
    double *outside_seconds;        /* (stage) */
    uint64_t *outside_mebibytes;    /* (stage): with the buffer and the process */
    uint64_t *mebibytes;            /* (stage, layer_type, strategy) */
} gal_galvatron_case;

/* *out NULL where the cell has no strategy, or embedding and head no price; left_out, if it is empty, then says which
 * row is missing. GAL_ERR_DOCUMENT where numbers are past solving. */
gal_code gal_galvatron_case_create(const gal_galvatron_request *request, const gal_galvatron_cell *cell,
                                   gal_galvatron_case **out, char *left_out, size_t left_out_bytes, gal_error *err);
void gal_galvatron_case_free(gal_galvatron_case *c);

/* A bound from below without regard to memory, and the least mebibytes that its largest stage needs. */
double gal_galvatron_case_bound(const gal_galvatron_case *c);
uint64_t gal_galvatron_case_least_mebibytes(const gal_galvatron_case *c);
uint32_t gal_galvatron_layer_type_of(const gal_galvatron_profile *profile, uint32_t layer);

typedef struct gal_galvatron_answer {
    double seconds;     /* of a step; INFINITY: nothing fits */
    double bound;       /* of the cell under the limit; INFINITY: nothing fits */
    uint32_t *strategy; /* (layer), owned by the caller */
} gal_galvatron_answer;

/* Solves it: strategy is written if something fits. It ends where the cell is known to take enough_seconds or more. */
gal_code gal_galvatron_case_solve(const gal_galvatron_case *c, uint64_t limit_mebibytes, double enough_seconds,
                                  gal_galvatron_answer *out, gal_error *err);

#endif
