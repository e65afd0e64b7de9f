/* The whole problem as an integer program in run-count form, and its answers.
 *
 * Layers are in parts: rows of equal layers that may change places, or a layer alone. A stage goes through parts, and
 * inside a part through classes. Whole numbers say how often it changes from which class to which (0 or 1 between
 * parts, where a stage enters and where it ends), and how many of the layers take which choice of a class: where a
 * layer is in its part is not said, since GLPK would try all places. Entries have counts of their own, for what a
 * border costs. Totals over parts (layers of a stage, of a class, of a strategy) are columns too, to be branched on
 * first: where layers are much alike, they are what rounding is about.
 *
 * Two things are left out until an answer breaks them, so the optimum of a program is a bound:
 * - rows of Eq. 2. At first each stage has only sum of kept bytes + least backward of its last layer's class <= budget,
 *   and the model's last layer its own. Where another layer's row is broken, its part is cut so that it stands alone,
 *   which makes its row linear.
 * - that a stage reaches all changes it makes inside a part: a round trip between classes that nothing enters is cut
 *   off by layers in these classes <= layers of the part x changes into them. Such rows that the optimum breaks while
 *   nothing has to be whole are added before the first branch (ilp_islands.c). */
#ifndef GAL_PLANNER_SOLVE_ILP_PROGRAM_H
#define GAL_PLANNER_SOLVE_ILP_PROGRAM_H

#include "planner/solve/ilp_glpk.h"
#include "planner/solve/ilp_relaxed.h"

typedef enum gal_ilp_kind {
    GAL_ILP_SLOWEST,     /* M of Eq. 5 */
    GAL_ILP_CROSS,       /* into `part` from the one before, `from` -> class */
    GAL_ILP_INNER,       /* inside `part`, `from` -> class */
    GAL_ILP_ENTRY,       /* the stage begins in `part` */
    GAL_ILP_EXIT,        /* it ends there */
    GAL_ILP_HOP_WITHIN,  /* the stage before ends, and this one begins, in `part` */
    GAL_ILP_HOP_ACROSS,  /* the stage before ends with the part before, and this one begins with `part` */
    GAL_ILP_COUNT,       /* layers that take the choice, but the stage's first */
    GAL_ILP_ENTRY_COUNT, /* the stage's first takes it */
    GAL_ILP_TOTAL
} gal_ilp_kind;

typedef struct gal_ilp_column {
    gal_ilp_kind kind;
    uint32_t part, stage, class, from;
    const gal_choice *choice;
    int total; /* GAL_ILP_TOTAL: the column counts what stands in this row, less itself */
} gal_ilp_column;

/* Classes that nothing entered: is_in (class), in layers [first, end). */
typedef struct gal_ilp_island {
    uint32_t first, end, stage;
    bool *is_in;
} gal_ilp_island;

typedef struct gal_ilp {
    const gal_instance *g;
    const gal_relaxed *relaxed; /* what is used */
    bool *alone;                /* (layer): a part of its own, with a row of Eq. 2 in every stage */
    uint32_t *part;             /* (layer) */
    uint32_t *part_first;       /* (part), and the end */
    uint32_t part_count;
    gal_ilp_island *island;
    uint32_t island_count, island_capacity;
    double *tightened; /* (layer + 1 for the base row, stage): share of the budget taken off where GLPK's tolerance let
                          an answer by that does not fit */
    /* GLPK likes numbers near 1. */
    double second_scale_ps, byte_scale;
    gal_lp lp;
    gal_ilp_column *column; /* as in lp, from 1 */
    int column_capacity;
    int *row;        /* numbers of rows, by what they are for; 0: none yet */
    int *island_row; /* (island, part) */
    bool is_too_large;
    double *value; /* of the columns */
    /* Scratch of reading. */
    uint32_t *changes, *trail, *stack; /* (from, class); classes of layers of a part */
    bool *is_in;                       /* (class): of an island */
    gal_assignment answer;
} gal_ilp;

gal_code gal_ilp_create(const gal_relaxed *relaxed, gal_ilp *out, gal_error *err);
void gal_ilp_free(gal_ilp *ilp);

/* Are a stage's first layers counted for themselves, because a border costs something? */
static inline bool gal_ilp_counts_entries(const gal_ilp *ilp, uint32_t stage)
{
    return ilp->relaxed->menu[stage]->first_differs;
}

/* Rows and columns under what is alone and the islands known; and value with room for them. */
gal_code gal_ilp_build(gal_ilp *ilp, gal_error *err);

/* The classes of is_in are an island of the layers of a part from the next building on. */
gal_code gal_ilp_keep_island(gal_ilp *ilp, uint32_t part, uint32_t stage, gal_error *err);

/* Keeps, for each part and stage, the island whose row `value`, which need not be whole, breaks most. *found: how many.
 */
gal_code gal_ilp_find_islands(gal_ilp *ilp, uint32_t *found, gal_error *err);

/* value := the columns of an assignment; false if it uses what was left out. */
bool gal_ilp_express(gal_ilp *ilp, const gal_assignment *assignment);

typedef enum gal_ilp_verdict {
    GAL_ILP_FITS,
    GAL_ILP_BROKEN,   /* what the answer broke is in the program from now on */
    GAL_ILP_TIGHTENED /* so, but a budget was cut below itself, and the next optimum is no bound */
} gal_ilp_verdict;

/* ilp->answer := the assignment that value stands for, priced. */
gal_code gal_ilp_read(gal_ilp *ilp, gal_ilp_verdict *verdict, gal_error *err);

#endif
