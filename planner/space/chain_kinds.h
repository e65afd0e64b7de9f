/* Chains of neighbouring blocks, numbered: those whose blocks are of equal types in equal order have one number. What
 * depends on types alone is kept once for all of them. Where layers are alike there are about four times as many
 * numbers as blocks, not half the square of blocks. */
#ifndef GAL_PLANNER_SPACE_CHAIN_KINDS_H
#define GAL_PLANNER_SPACE_CHAIN_KINDS_H

#include "planner/space/block_types.h"

/* Of chains that begin at a block. */
typedef struct gal_chain_begin {
    uint32_t like, common; /* an earlier block with the most blocks from there in common, and how many; 0: none */
    size_t first;          /* number of the shortest chain that no earlier block begins */
} gal_chain_begin;

typedef struct gal_chain_kinds {
    size_t count;
    gal_chain_begin *begin; /* [block], owned */
} gal_chain_kinds;

/* GAL_ERR_SYSTEM without memory. */
gal_code gal_chain_kinds_create(const gal_block_types *types, gal_chain_kinds *out, gal_error *err);
void gal_chain_kinds_free(gal_chain_kinds *kinds); /* accepts a zeroed one */

/* Number of the blocks [begin, end), at least one: below count. */
static inline size_t gal_chain_kind(const gal_chain_kinds *kinds, uint32_t begin, uint32_t end)
{
    const uint32_t blocks = end - begin;
    while (blocks <= kinds->begin[begin].common) {
        begin = kinds->begin[begin].like;
    }
    return kinds->begin[begin].first + blocks - kinds->begin[begin].common - 1;
}

/* The last end of chains from `begin` whose numbers follow each other from that of [begin, end) on. */
static inline uint32_t gal_chain_reach(const gal_chain_kinds *kinds, uint32_t begin, uint32_t end)
{
    uint32_t from = begin, reach = UINT32_MAX;
    while (end - begin <= kinds->begin[from].common) {
        reach = begin + kinds->begin[from].common;
        from = kinds->begin[from].like;
    }
    return reach;
}

#endif
