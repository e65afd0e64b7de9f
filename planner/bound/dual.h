/* A lower bound of a cell by Lagrangian relaxation, and the path that attains it.
 *
 * The objective is a maximum of sums: n max g + sum k g + max(tail - drained) + max update, under a limit of bytes
 * per stage. For any weights mu, xi on the simplex and nu with sum at most 1, all non-negative, and prices lambda >= 0
 * per byte, replacing each maximum by its weighted sum and each limit by its price gives a sum over the nodes and edges
 * of the path that never exceeds the objective of a path that fits; its shortest path is a proven bound.
 * Subgradient steps raise the bound (Polyak's length: what is missing to the best path known, over the square of the
 * subgradient). The weights are the certificate: anybody can repeat the shortest path.
 * Source: M. L. Fisher, "The Lagrangian Relaxation Method for Solving Integer Programming Problems", sections 2 to 4,
 * for the limits; a maximum as its largest weighted mean is duality of linear programs.
 *
 * Of the bytes that a stage's blocks share, the largest use counts, which no sum bounds well. So a dual looks at a box
 * of paths: in each stage no use is above `most`, at least `least` is charged, and the first block lies in
 * a range. */
#ifndef GAL_PLANNER_BOUND_DUAL_H
#define GAL_PLANNER_BOUND_DUAL_H

#include "planner/cell/path.h"

typedef struct gal_weights {
    double slowest[GAL_STAGES_MAX];  /* mu; what they lack to 1 weighs slowest_least */
    double exposed[GAL_STAGES_MAX];  /* nu */
    double update[GAL_STAGES_MAX];   /* xi */
    double per_byte[GAL_STAGES_MAX]; /* lambda, seconds */
} gal_weights;

/* The strategies in play, by stage and kind of block (gal_dual_choices). */
typedef struct gal_choices {
    uint32_t *count, *strategy;
} gal_choices;

typedef struct gal_dual {
    const gal_cell *cell;
    gal_weights weights;
    gal_choices choices;
    gal_shared_bytes *least, *most;     /* [stage] */
    uint32_t *first_least, *first_most; /* [stage] block */
    double *follow, *cross; /* weighted seconds of an edge (gal_cell_pair_index); cross closes the stage before */
    double *start, *close;  /* [strategy]; gal_cell_price_index */
    uint32_t *stage_least, *stage_most; /* [block]: in others no path is fast enough (gal_dual_narrow_stages) */
    double *to_go;   /* [block][stage][strategy]: least weighted seconds from behind the node to the end */
    double *so_far;  /* likewise up to and with the node (gal_dual_look_back) */
    double *scratch; /* [strategy] */
    uint64_t work;   /* edges and labels looked at: some ns each */
    struct gal_bottleneck *bottleneck; /* not owned; NULL: nothing is known of the slowest stage */
    double slowest_least;              /* no path of the box has a faster slowest stage */
    bool bytes_alone;                  /* seconds weigh nothing */
    double constant;                   /* part of every path */
    double most_seconds;               /* no path is slower */
    double bound;                      /* infinity: no path at all */
    uint32_t *stage, *strategy;        /* [block] of the shortest path */
} gal_dual;

/* All strategies, all paths, even weights. GAL_ERR_SYSTEM without memory. */
gal_code gal_dual_create(const gal_cell *cell, gal_dual **out, gal_error *err);
void gal_dual_free(gal_dual *dual);

/* Under a shared token table: leaves its holders the strategies alike to `embedding`. */
void gal_dual_tie(gal_dual *dual, uint32_t embedding);
/* The strategies in play for a block in a stage; returns their count. */
uint32_t gal_dual_choices(const gal_dual *dual, uint32_t block, uint32_t stage, const uint32_t **strategy);

/* Room for the choices of a cell, none taken. GAL_ERR_SYSTEM without memory. */
gal_code gal_choices_create(const gal_cell *cell, gal_choices *out, gal_error *err);
void gal_choices_copy(const gal_cell *cell, const gal_choices *from, gal_choices *to);
void gal_choices_free(gal_choices *choices);

/* What a step's numbers count in a stage of the spec under weights. */
typedef struct gal_rates {
    double forward, backward, tail, update, once, byte;
} gal_rates;

gal_rates gal_rates_of(const gal_weights *weights, const gal_cell_spec *spec, uint32_t stage);

/* The tables of weighted seconds under the present weights, choices and box; call it when they change. */
void gal_dual_weigh(gal_dual *dual);
/* The shortest path: bound, to_go, stage, strategy. */
void gal_dual_solve(gal_dual *dual);
/* so_far, of a dual that is solved. */
void gal_dual_look_back(gal_dual *dual);
/* Drops the strategies through which no path of the box is faster than `seconds`; of a dual that is solved. */
void gal_dual_narrow(gal_dual *dual, double seconds);
/* Leaves out for good, for every block, the stages in which no path of the box is faster than `seconds`; of a dual that
 * is solved. */
void gal_dual_narrow_stages(gal_dual *dual, double seconds);
/* The bound proves that no path of the box fits. */
bool gal_dual_is_infeasible(const gal_dual *dual);

typedef struct gal_best_path {
    double seconds;             /* infinity: none known */
    uint32_t *stage, *strategy; /* [block] */
} gal_best_path;

/* Up to `rounds` subgradient steps towards best->seconds; better paths found on the way (if their tables are alike)
 * replace it. Ends early when the bound reaches it. Narrows the choices and leaves the best weights solved. */
void gal_dual_raise(gal_dual *dual, uint32_t rounds, gal_best_path *best);

/* Bytes alone from now on, all stages alike; or seconds again, with these weights. Weigh it then. */
void gal_dual_take_bytes(gal_dual *dual);
void gal_dual_take_seconds(gal_dual *dual, const gal_weights *weights);

/* Whether up to `rounds` weights of bytes alone show that no path of the box fits. Paths found on the way may replace
 * best, as above. Leaves the dual weighed and solved as it was. */
bool gal_dual_is_too_large(gal_dual *dual, uint32_t rounds, gal_best_path *best);

/* fmax, inlined: no NaN comes here. */
static inline double gal_larger(double a, double b)
{
    return a > b ? a : b;
}

static inline double gal_at_least_zero(double x)
{
    return x > 0.0 ? x : 0.0;
}

/* Whether `block` may be the first of `stage`, behind another. */
static inline bool gal_dual_crosses(const gal_dual *dual, uint32_t block, uint32_t stage)
{
    return stage > 0 && dual->first_least[stage] <= block && block <= dual->first_most[stage];
}

static inline size_t gal_dual_node(const gal_cell *cell, uint32_t block, uint32_t stage, uint32_t strategy)
{
    return ((size_t)block * cell->spec.pp_degree + stage) * cell->strategy_count + strategy;
}

#endif
