/* Cells of the coverage matrix that stand alone, in a file for each subject: a cell is a row of the file's CELLS and a
 * line of its hit function. */
#ifndef GAL_TESTS_SUPPORT_NUMERICS_CELLS_H
#define GAL_TESTS_SUPPORT_NUMERICS_CELLS_H

#include "schemas/plan.h"

typedef struct gal_coverage_cells {
    uint32_t count;
    const char *const *name;                       /* [count] */
    void (*hit)(const gal_plan *plan, bool *cell); /* sets those of cell[count] that the plan meets; they come false */
} gal_coverage_cells;

/* Of a file's CELLS(X), rows X(enumerator, name): the enumerators, CELL_COUNT behind them, and names[CELL_COUNT]. */
#define GAL_CELLS(CELLS)                                                                                               \
    enum { CELLS(GAL_CELL_ENUMERATOR) CELL_COUNT };                                                                    \
    static const char *const names[CELL_COUNT] = {CELLS(GAL_CELL_NAME)}
#define GAL_CELL_ENUMERATOR(enumerator, name) enumerator,
#define GAL_CELL_NAME(enumerator, name) name,

extern const gal_coverage_cells gal_cells_of_family;
extern const gal_coverage_cells gal_cells_of_grid;
extern const gal_coverage_cells gal_cells_of_offload;
extern const gal_coverage_cells gal_cells_of_overlap;
extern const gal_coverage_cells gal_cells_of_sequence;
extern const gal_coverage_cells gal_cells_of_step;
extern const gal_coverage_cells gal_cells_of_t5;
extern const gal_coverage_cells gal_cells_of_units;

/* Axes of the strategy as a set, bits by gal_axis_kind; 0: one device. */
uint32_t gal_cells_axes_of(const gal_strategy *s);

#endif
