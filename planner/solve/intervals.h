/* What every row of layers takes as a stage: bounds from below for all of them at once, exact values one by one. */
#ifndef GAL_PLANNER_SOLVE_INTERVALS_H
#define GAL_PLANNER_SOLVE_INTERVALS_H

#include "planner/solve/stage_solve.h"

typedef struct gal_interval {
    int64_t bound_ps; /* never above the true value; GAL_NEVER: nothing fits */
    uint32_t solved;  /* 1 + index of its answer; 0: none yet */
} gal_interval;

typedef struct gal_interval_answer {
    uint32_t first;
    int64_t seconds_ps;
    uint32_t *strategy; /* of its layers */
} gal_interval_answer;

/* Stages that hold as many microbatches and pay for the same borders share a table; so do rows of the same kinds of
 * layers wherever they begin. */
typedef struct gal_intervals {
    const gal_instance *instance;
    uint32_t *twin;       /* (layer): the first of the layers before whose kinds from there on agree the longest */
    uint32_t *twin_count; /* (layer): for so many layers; 0: there is none */
    uint32_t group_count;
    uint32_t *group;        /* (stage) */
    gal_menu **choices;     /* (group) */
    gal_interval *interval; /* (group, first, end) */
    gal_interval_answer *answer;
    uint32_t answer_count, answer_capacity;
    uint64_t label_count;
} gal_intervals;

gal_code gal_intervals_create(const gal_instance *instance, gal_intervals **out, gal_error *err);
void gal_intervals_free(gal_intervals *t);
/* Fills every bound. */
gal_code gal_intervals_bound(gal_intervals *t, gal_error *err);
gal_interval *gal_interval_at(const gal_intervals *t, uint32_t stage, uint32_t first, uint32_t end);
/* Solves one, if it is not; its bound is then what was proven. */
gal_code gal_interval_solve(gal_intervals *t, uint32_t stage, uint32_t first, uint32_t end, uint64_t label_limit,
                            gal_error *err);
/* The first layer of the row of the same kinds that stands for this one. */
uint32_t gal_interval_home(const gal_intervals *t, uint32_t first, uint32_t end);

#endif
