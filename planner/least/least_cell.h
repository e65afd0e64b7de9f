/* The least memory that a chain of a cell needs: of all its chains the smallest largest stage.
 *
 * Bytes alone, no prices: exact for the byte rule of planner/cell/cell.h, where conversions are charged at what chains
 * of the same strategies can make of them (a cell of fewer strategies charges less: planner/space/conversions.h). So
 * the number is one that the search cannot beat, in whatever part of the space it looks.
 *
 * How: strategies that another one of the same layout beats in every byte are left out; limits are lowered until no
 * chain fits. Under a limit labels go along the chain, one list for each (stage, strategy) at a block: bytes of the
 * open stage, and what its blocks use in turn, the largest of each kind. A closed stage is forgotten, it fits. A label
 * b is dropped where a is at the same node and a.bytes + sum over kinds of max(0, a.kind - b.kind) <= b.bytes, for then
 * a closes with no more than b whatever follows; or where the open stage cannot reach the block at which the stages
 * behind it must begin. That block is known from the smallest bytes of each block: stages filled from the back. */
#ifndef GAL_PLANNER_LEAST_LEAST_CELL_H
#define GAL_PLANNER_LEAST_LEAST_CELL_H

#include "planner/cell/cell.h"

typedef struct gal_least_answer {
    bool found;           /* a chain within the limit */
    uint64_t bytes;       /* of its largest stage, without fixed bytes */
    uint64_t bound_bytes; /* no chain has less; = bytes: the least. UINT64_MAX: none within the limit */
    uint32_t *stage;      /* [block], of the caller; may be NULL, with strategy */
    uint32_t *strategy;   /* [block], of gal_space_strategies */
} gal_least_answer;

typedef enum gal_least_goal {
    GAL_LEAST_SMALLEST,
    GAL_LEAST_ANY /* the first chain within the limit will do; bound_bytes then says nothing but whether there is one */
} gal_least_goal;

/* Chains of at most spec->arena_limit_bytes. The spec's numbers divide; its allowed is not looked at. types: of the
 * model. GAL_ERR_SYSTEM without memory. */
gal_code gal_least_cell(const gal_cell_spec *spec, const gal_block_types *types, gal_least_goal goal,
                        gal_least_answer *out, gal_error *err);

#endif
