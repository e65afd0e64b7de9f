#include "planner/space/chain_kinds.h"

#include <stdlib.h>

static uint32_t common_blocks(const gal_block_types *types, uint32_t earlier, uint32_t later)
{
    uint32_t count = 0;
    while (later + count < types->block_count && types->type_of[earlier + count] == types->type_of[later + count]) {
        count++;
    }
    return count;
}

/* Improves what is in common with an earlier block. No chain is longer that ends with the first block of its type: that
 * ends the search at once where layers are alike. first[type]: its first block */
static void find_like(const gal_block_types *types, const uint32_t *first, uint32_t block, gal_chain_begin *own)
{
    for (uint32_t earlier = 0; earlier < block; earlier++) {
        const uint32_t next = block + own->common;
        if (next == types->block_count || first[types->type_of[next]] == next) {
            return;
        }
        if (types->type_of[earlier + own->common] == types->type_of[next]) {
            const uint32_t common = common_blocks(types, earlier, block);
            own->like = common > own->common ? earlier : own->like;
            own->common = common > own->common ? common : own->common;
        }
    }
}

gal_code gal_chain_kinds_create(const gal_block_types *types, gal_chain_kinds *out, gal_error *err)
{
    const uint32_t blocks = types->block_count;
    gal_chain_kinds kinds = {0, malloc(blocks * sizeof *kinds.begin)};
    uint32_t *first = malloc(types->type_count * sizeof *first);
    const bool have = kinds.begin != NULL && first != NULL;
    for (uint32_t block = blocks; have && block-- > 0;) {
        first[types->type_of[block]] = block;
    }
    for (uint32_t block = 0; have && block < blocks; block++) {
        const gal_chain_begin *before = block > 0 ? &kinds.begin[block - 1] : NULL;
        gal_chain_begin own = {0, 0, kinds.count};
        if (before != NULL && before->common > 0) { /* what follows its like is like this one, but for one block */
            own.like = before->like + 1;
            own.common = before->common - 1;
        }
        find_like(types, first, block, &own);
        while (own.common > 0 && kinds.begin[own.like].common >= own.common) { /* the first of all alike */
            own.like = kinds.begin[own.like].like;
        }
        kinds.begin[block] = own;
        kinds.count += blocks - block - own.common;
    }
    free(first);
    if (!have) {
        free(kinds.begin);
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    *out = kinds;
    return GAL_OK;
}

void gal_chain_kinds_free(gal_chain_kinds *kinds)
{
    free(kinds->begin);
    *kinds = (gal_chain_kinds){0};
}
