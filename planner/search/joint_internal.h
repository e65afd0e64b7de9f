/* What a search in the making consists of: its cells, each on its way from a floor to a solution. For joint_search.c,
 * which says which cells are next, joint_cell.c, which takes them a step on, and joint_parts.c, which searches parts of
 * the space first, alone. */
#ifndef GAL_PLANNER_SEARCH_JOINT_INTERNAL_H
#define GAL_PLANNER_SEARCH_JOINT_INTERNAL_H

#include "planner/cell/cell_list.h"
#include "planner/search/joint_search.h"
#include "planner/stages/cell_search.h"

typedef enum gal_joint_level {
    GAL_JOINT_FLOORED,
    GAL_JOINT_BOUNDED, /* by some prices as by all */
    GAL_JOINT_SCREENED,
    GAL_JOINT_PROMISING, /* whole stages under first orders of axes do not rule it out */
    GAL_JOINT_STAGED,
    GAL_JOINT_CLOSED
} gal_joint_level;
#define GAL_JOINT_NO_FINALIST UINT32_MAX
/* The objective of a plan strays from its simulation by as much as the finalists' do, and by this much at most. */
#define GAL_JOINT_STRAY_MOST 0.25

/* A cell that may still win. */
typedef struct gal_joint_cell {
    gal_cell_numbers numbers;
    gal_joint_level level;
    double bound; /* seconds */
    double least_bytes;
    gal_screened screened;
    uint32_t finalist;          /* its number in the result, or GAL_JOINT_NO_FINALIST */
    uint32_t *stage, *strategy; /* [block] of its path, as screened numbers strategies; owned, NULL: none */
    double path_seconds;        /* of that path; the finalist's plan may take less */
    double *weights;            /* as gal_staged has it with that path; owned */
    bool solved;                /* a chain was looked for */
} gal_joint_cell;

typedef struct gal_joint {
    const gal_search_request *request;
    gal_search_result *result;
    gal_price_cache *cache, *own_cache; /* the one in use; the request has none */
    gal_block_types types;
    gal_screens *screens;
    gal_screened_prices *prices;
    gal_cell_answer answer[GAL_CELLS_AT_ONCE]; /* their arrays */
    uint32_t at_once;                          /* gal_search_cells_at_once */
    gal_joint_cell *candidate;
    uint32_t candidate_count;
    double stray;            /* the most of any finalist */
    uint64_t chain_work;     /* of chains of the search, since it knows a plan */
    bool on_devices;         /* done, by bounds of the space without offload, on devices without a limit */
    double known_per_sample; /* of plans that are known elsewhere: as gal_joint_wanted_per_sample; 0: none are */
    gal_search_progress now;
} gal_joint;

/* Its bound: what cells of several batch sizes are compared by. */
static inline double gal_joint_per_sample(const gal_joint_cell *c)
{
    return c->bound / c->numbers.global_batch_samples;
}

gal_cell_spec gal_joint_spec(const gal_joint *o, const gal_joint_cell *c);

/* Of the last finalist that is wanted; infinity: fewer are known. */
double gal_joint_wanted_per_sample(const gal_joint *o);
/* Seconds per sample above which a cell is not worth another look, below the level. */
double gal_joint_hopeless_per_sample(const gal_joint *o, gal_joint_level below);

/* One step on for each of up to GAL_CELLS_AT_ONCE cells: a truer bound, or the cell solved, by what is known when they
 * begin. */
gal_code gal_joint_advance(gal_joint *o, gal_joint_cell **cell, uint32_t count, gal_error *err);
/* Says so, and releases what was made to solve it. */
void gal_joint_close(gal_joint *o, gal_joint_cell *c);
void gal_joint_note_solved(gal_joint *o, gal_joint_cell *c);

/* Its cells, from a request and an empty result. Freed also if it fails. */
gal_code gal_joint_create(gal_joint *o, gal_error *err);
void gal_joint_free(gal_joint *o);
/* Until no cell below the level is worth another look. */
gal_code gal_joint_advance_all(gal_joint *o, gal_joint_level below, gal_error *err);
gal_code gal_joint_search_candidates(gal_joint *o, gal_error *err);
void gal_joint_close_all(gal_joint *o);

/* Parts of the space: their plans, and bounds of all; on_devices: nothing is left to be searched. */
gal_code gal_joint_begin(gal_joint *o, gal_error *err);

#endif
