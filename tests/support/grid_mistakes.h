/* Mistakes of programs of grids, one instruction at a time, for tests of the verifier. On 8 devices: 2 x 2 of them, two
 * deep (2.5d), or 2 x 2 x 2 (3d). */
#ifndef GAL_TESTS_SUPPORT_GRID_MISTAKES_H
#define GAL_TESTS_SUPPORT_GRID_MISTAKES_H

#include "runtime/program/program.h"

/* Atoms of the devices: the axis is innermost. Of a cube those of weights, inputs and outputs. */
enum { GAL_GRID_ROW = 1, GAL_GRID_COLUMN = 2, GAL_GRID_DEPTH = 4, GAL_GRID_ALL = 7 };

/* An instruction of the program, with its operands and its shape, which others may share. */
typedef struct gal_mistake_place {
    gal_program *program;
    gal_instruction *in;
    gal_operand *operand;
    gal_shape *shape;
} gal_mistake_place;

typedef struct gal_mistake {
    const char *text;
    const char *name; /* of the instructions; NULL: any */
    gal_op op;
    bool (*make)(const gal_mistake_place *at); /* in place; false where the instruction leaves no room for one */
} gal_mistake;

typedef struct gal_mistakes {
    uint32_t count;
    const gal_mistake *mistake; /* [count] */
} gal_mistakes;

extern const gal_mistakes gal_mistakes_2p5d, gal_mistakes_stepped, gal_mistakes_3d;
/* What the stage of ZeRO says, where the weights' side is data parallelism; and what the square does of its own. */
extern const gal_mistakes gal_mistakes_3d_kept;
enum { GAL_MISTAKES_MAX = 64 }; /* of a set */

#endif
